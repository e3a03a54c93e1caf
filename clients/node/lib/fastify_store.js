// SPDX-License-Identifier: BSD-2-Clause
// The store of @fastify/rate-limit: `store: fastifyStore({ url })`.
'use strict';
const { Counts } = require('./counts.js');
const { OptionError } = require('./errors.js');

function fastifyStore({ prefix = '', ...options }) {
  return class WeirStore {
    #counts;
    #prefix;

    constructor({ continueExceeding, exponentialBackoff } = {}, route = '') {
      if (continueExceeding || exponentialBackoff) {
        throw new OptionError(
          'continueExceeding, exponentialBackoff: not with weir; use a policy with a block, such as ' +
            "'fixed-window 5/m & block 1m doubling 1d'",
        );
      }
      this.#prefix = `${prefix}${route}`;
      this.#counts = new Counts({ ...options, prefix: this.#prefix });
    }

    #answer(ask, callback) {
      ask().then(({ count, ms }) => callback(null, { current: count, ttl: Math.max(ms, 0) }), callback);
    }

    incr(key, callback, timeWindow, max) {
      this.#answer(async () => this.#counts.hit(String(key), timeWindow, max), callback);
    }

    read(key, callback, timeWindow, max) {
      this.#answer(async () => this.#counts.read(String(key), timeWindow, max), callback);
    }

    child(params) {
      const { method = '', url = '' } = params.routeInfo ?? {};
      return new WeirStore(params, `${method}${url}-`);
    }

    close() {
      this.#counts.close();
    }
  };
}

module.exports = { fastifyStore };
