// SPDX-License-Identifier: BSD-2-Clause
// The ThrottlerStorage of @nestjs/throttler.
'use strict';
const { OptionError } = require('./errors.js');
const { Limiter } = require('./limiter.js');

const seconds = (ms) => Math.ceil(Math.max(ms, 0) / 1000);

class NestStorage {
  #policy;
  #options;
  #limiters = new Map();

  // With a `policy`, it decides in place of `limit`, `ttl` and `blockDuration` of the throttlers.
  constructor({ policy, ...options }) {
    if (options.onError !== undefined) throw new OptionError('onError: not with a storage: an error fails the request');
    this.#policy = policy;
    this.#options = { ...options, onError: 'throw' };
  }

  #limiter(limit, ttl, blockDuration) {
    const policy =
      this.#policy ??
      `fixed-window ${limit}/${ttl}ms from-first${blockDuration > 0 ? ` & block ${blockDuration}ms` : ''}`;
    let limiter = this.#limiters.get(policy);
    if (!limiter) this.#limiters.set(policy, (limiter = new Limiter(policy, this.#options)));
    return limiter;
  }

  async increment(key, ttl, limit, blockDuration, throttlerName) {
    const decision = await this.#limiter(limit, ttl, blockDuration).check(`${throttlerName}:${key}`);
    return {
      totalHits: decision.allowed ? Math.max(decision.limit - decision.remaining, 1) : decision.limit + 1,
      timeToExpire: seconds(decision.resetAfterMs),
      isBlocked: !decision.allowed,
      timeToBlockExpire: seconds(decision.retryAfterMs),
    };
  }

  onApplicationShutdown() {
    for (const limiter of this.#limiters.values()) limiter.close();
    this.#limiters.clear();
  }
}

module.exports = { NestStorage };
