// SPDX-License-Identifier: BSD-2-Clause
// The Store of express-rate-limit and hono-rate-limiter.
'use strict';
const { Counts } = require('./counts.js');
const { OptionError } = require('./errors.js');

const infoOf = ({ count, ms }) => ({ totalHits: count, resetTime: ms < 0 ? undefined : new Date(Date.now() + ms) });

class ExpressStore {
  #counts;
  #windowMs;
  #limit;

  constructor(options) {
    this.#counts = new Counts(options);
    this.localKeys = false;
    this.prefix = options.prefix ?? '';
  }

  init({ windowMs, limit, skipFailedRequests }) {
    if (this.#counts.decides && skipFailedRequests) {
      throw new OptionError(
        'skipFailedRequests: not with a policy, because the library would refund denied requests, ' +
          'which were not charged; rateLimit() of weir can',
      );
    }
    this.#windowMs = windowMs;
    this.#limit = typeof limit === 'number' ? limit : undefined;
  }

  async increment(key) {
    const hit = this.#counts.hit(key, this.#windowMs, this.#limit);
    return infoOf(hit instanceof Promise ? await hit : hit); // an await of no promise takes time, too
  }

  async get(key) {
    const hits = await this.#counts.read(key, this.#windowMs, this.#limit);
    return hits.count === 0 ? undefined : infoOf(hits);
  }

  async decrement(key) {
    await this.#counts.limiter(this.#windowMs).refund(key);
  }

  async resetKey(key) {
    await this.#counts.limiter(this.#windowMs).reset(key);
  }

  async resetAll() {
    await this.#counts.limiter(this.#windowMs).resetAll();
  }

  shutdown() {
    this.#counts.close();
  }
}

module.exports = { ExpressStore };
