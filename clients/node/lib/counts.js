// SPDX-License-Identifier: BSD-2-Clause
// Verdicts and counts for the stores of other libraries.
'use strict';
const { OptionError } = require('./errors.js');
const { Limiter } = require('./limiter.js');

const COUNT_MAX = 2147483647; // the largest limit of a policy

// Counts hits. Without a `policy`, it counts all hits of a window that begins with the first one, and the library
// compares the count with its limit. With a `policy`, weir decides: a hit that it denies counts as one more than the
// library's limit, and is not charged.
class Counts {
  #options;
  #policy;
  #limiters = new Map();

  constructor({ policy, ...options }) {
    if (options.onError !== undefined) throw new OptionError('onError: not with a store: the library decides');
    this.#policy = policy;
    this.#options = { ...options, onError: 'throw' };
  }

  get decides() {
    return this.#policy !== undefined;
  }

  limiter(windowMs) {
    const name = this.decides ? 'policy' : windowMs;
    let limiter = this.#limiters.get(name);
    if (!limiter) {
      const policy = this.#policy ?? `fixed-window ${COUNT_MAX}/${Math.ceil(windowMs)}ms from-first`;
      this.#limiters.set(name, (limiter = new Limiter(policy, this.#options)));
    }
    return limiter;
  }

  #countOf(decision, limit) {
    const used = decision.limit - decision.remaining;
    if (!this.decides) return { count: used, ms: decision.resetAfterMs };
    if (!decision.allowed)
      return { count: limit === undefined ? Number.MAX_SAFE_INTEGER : limit + 1, ms: decision.retryAfterMs };
    return { count: limit === undefined ? used : Math.min(used, limit), ms: decision.resetAfterMs };
  }

  #hitOf(decision, limit) {
    const hit = this.#countOf(decision, limit);
    hit.count = Math.max(hit.count, 1);
    return hit;
  }

  // Returns { count, ms }, or a promise of it with a daemon: ms until the count is 0 or, of a denial, until a hit is
  // allowed; -1 if never.
  hit(key, windowMs, limit) {
    const limiter = this.limiter(windowMs);
    if (limiter.isSync) return this.#hitOf(limiter.checkSync(key), limit);
    return limiter.check(key).then((decision) => this.#hitOf(decision, limit));
  }

  async read(key, windowMs, limit) {
    return this.#countOf(await this.limiter(windowMs).peek(key), limit);
  }

  close() {
    for (const limiter of this.#limiters.values()) limiter.close();
    this.#limiters.clear();
  }
}

module.exports = { Counts };
