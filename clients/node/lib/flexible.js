// SPDX-License-Identifier: BSD-2-Clause
// A class of the shape of rate-limiter-flexible's limiters.
'use strict';
const { OptionError, integer, mistake } = require('./errors.js');
const { Limiter } = require('./limiter.js');

const BLOCK_S_MAX = 2147483; // what a charge can count, in ms
// A key is blocked by a debt: it pays one unit a millisecond off, and is denied until it has none.
const BLOCKS = 'gcra 1/ms burst 1';

class FlexibleResult {
  constructor({ limit, remaining, resetAfterMs }, msBeforeNext = resetAfterMs, points = 0) {
    this.remainingPoints = remaining;
    this.msBeforeNext = msBeforeNext;
    this.consumedPoints = limit - remaining;
    this.isFirstInDuration = points > 0 && this.consumedPoints === points;
  }
}

const policyOf = ({ points, duration, blockDuration }) =>
  `fixed-window ${integer('points', points, 1, 2147483647)}/${Math.ceil(duration * 1000)}ms from-first` +
  (blockDuration > 0 ? ` & block ${Math.ceil(blockDuration * 1000)}ms` : '');

class FlexibleLimiter {
  #limiter;
  #blocks;

  constructor({ points, duration, blockDuration = 0, keyPrefix = 'rlflx', policy, ...options }) {
    if (policy === undefined && !(duration > 0)) mistake('duration', 'a number of seconds above 0', duration);
    if (policy !== undefined && (points ?? duration) !== undefined) {
      throw new OptionError('policy: not with points and duration, which it replaces');
    }
    if (options.onError !== undefined) throw new OptionError('onError: consume() rejects with the error in any case');
    Object.assign(this, { points, duration, blockDuration, keyPrefix });
    const more = { ...options, onError: 'throw', prefix: keyPrefix && `${keyPrefix}:` };
    this.#limiter = new Limiter(policy ?? policyOf(this), more);
    this.#blocks = new Limiter(BLOCKS, { ...more, prefix: `blocked:${more.prefix}` });
  }

  // The ms until the block of a key ends.
  async #blockedMs(key) {
    const { allowed, retryAfterMs } = await this.#blocks.peek(key, { cost: 0 });
    return allowed ? 0 : retryAfterMs;
  }

  async consume(key, points = 1) {
    const blockedMs = await this.#blockedMs(key);
    const decision = await this.#limiter[blockedMs > 0 ? 'peek' : 'check'](key, { cost: points });
    const allowed = blockedMs === 0 && decision.allowed;
    if (allowed) return new FlexibleResult(decision, decision.resetAfterMs, points);
    throw Object.assign(new FlexibleResult(decision, Math.max(blockedMs, decision.retryAfterMs)), {
      remainingPoints: 0,
      consumedPoints: decision.limit - decision.remaining + points,
    });
  }

  async penalty(key, points = 1) {
    return new FlexibleResult(await this.#limiter.charge(key, points), undefined, points);
  }

  async reward(key, points = 1) {
    return new FlexibleResult(await this.#limiter.refund(key, points));
  }

  async get(key) {
    const [blockedMs, decision] = [await this.#blockedMs(key), await this.#limiter.peek(key)];
    if (blockedMs === 0 && decision.resetAfterMs === 0) return null;
    const wait = decision.allowed ? decision.resetAfterMs : decision.retryAfterMs;
    return Object.assign(
      new FlexibleResult(decision, Math.max(blockedMs, wait)),
      blockedMs > 0 && { remainingPoints: 0 },
    );
  }

  // Blocks a key for `seconds`, from now on, whatever it has consumed.
  async block(key, seconds) {
    integer('seconds', seconds, 1, BLOCK_S_MAX);
    await this.#blocks.reset(key);
    await this.#blocks.charge(key, seconds * 1000 + 1); // one unit is not a debt
    return this.get(key);
  }

  async delete(key) {
    const before = await this.get(key);
    await this.#blocks.reset(key);
    await this.#limiter.reset(key);
    return before !== null;
  }

  close() {
    this.#limiter.close();
    this.#blocks.close();
  }
}

module.exports = { FlexibleLimiter };
