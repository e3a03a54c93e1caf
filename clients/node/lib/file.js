// SPDX-License-Identifier: BSD-2-Clause
// weir+file: decides in this process, in a file that all processes of the host share.
'use strict';
const { realpathSync } = require('node:fs');
const path = require('node:path');
const { fileURLToPath } = require('node:url');
const { load } = require('./addon.js');
const { ipKey } = require('./address.js');
const errors = require('./errors.js');

// The statuses of libweir (weir_status) that decisions return.
const STATUS = { RANGE: 1, SYNTAX: 2, UNSUPPORTED: 4, NOMEM: 5, FULL: 7, IO: 8, ABSENT: 10 };
const OPERATIONS = { check: 0, peek: 1, refund: 2, charge: 3, reset: 4, resetAll: 5, reserve: 6 };
// The places of the numbers in the addon's array of results.
const [ALLOWED, LIMIT, REMAINING, RETRY_AFTER_MS, RESET_AFTER_MS, DELAY_MS, OVER, NEXT_MS, ID_HIGH, ID_LOW] =
  Array(10).keys();
const PLACES = [null, 'was removed', 'was moved', 'was replaced by another file', 'was truncated'];
const KEY_MAX = 65536;
const WATCH_MS = 1000;
const TTL_MS_MAX = 1_152_921_504_606; // WEIR_SPAN_NS_MAX

// An absolute path without symbolic links, so that each file has one name in this process.
function pathOf(url) {
  const { pathname } = url;
  if (url.search || url.hash || url.host || !pathname.startsWith('/') || pathname.includes('%00'))
    throw new errors.OptionError(`url: expected weir+file:///PATH, found ${url}`);
  const file = fileURLToPath(`file://${url.pathname}`);
  try {
    return realpathSync(file);
  } catch {
    try {
      return path.join(realpathSync(path.dirname(file)), path.basename(file));
    } catch (error) {
      throw new errors.FileError(`${file}: ${error.message}`, { cause: error });
    }
  }
}

const NOW_NS_MAX = 7n << 60n; // WEIR_NOW_NS_MAX

const hex = (n) => n.toString(16).padStart(8, '0');

function choice(name, value, words) {
  if (!words.includes(value)) errors.mistake(name, words.map((word) => `'${word}'`).join(' or '), value);
  return value;
}

class FileEngine {
  static options = ['memory', 'sync', 'whenFull', 'clock'];
  #addon = load();
  #limiter;
  #clock;
  #timer;

  constructor(policy, url, { memory = 0, sync = 'never', whenFull = 'evict', clock }, onFailure) {
    if (!/\s/.test(policy)) {
      throw new errors.PolicyError(
        `policy: expected a policy text such as 'gcra 10/m burst 5', found '${policy}': ` +
          'only the daemon has policies with names',
      );
    }
    errors.integer('memory', memory, 0, Number.MAX_SAFE_INTEGER);
    const synced = choice('sync', sync, ['never', '1s']) === '1s';
    const refuse = choice('whenFull', whenFull, ['evict', 'refuse']) === 'refuse';
    if (clock !== undefined && typeof clock !== 'function') errors.mistake('clock', 'a function', clock);
    this.#clock = clock;
    const file = pathOf(url);
    try {
      this.#limiter = this.#addon.open(policy, file, memory, synced, refuse);
    } catch (error) {
      const Kind = error.status === STATUS.SYNTAX ? errors.PolicyError : errors.FileError;
      const message = error.message.replace(/--reset-state replaces .*/, 'delete it to begin with an empty one');
      throw new Kind(message, { cause: error });
    }
    this.#timer = setInterval(() => this.#watch(file, onFailure), WATCH_MS);
    this.#timer.unref();
  }

  // Reports once that the file is no longer at its path.
  #watch(file, onFailure) {
    const place = PLACES[this.#addon.watch(this.#limiter)];
    if (!place) return;
    clearInterval(this.#timer);
    onFailure(new errors.FileError(`${file} ${place}: new processes will not share its limits`));
  }

  #fail(status, key = '') {
    switch (status) {
      case STATUS.RANGE: {
        const size = Buffer.byteLength(key);
        if (size > KEY_MAX) throw new errors.OptionError(`the key has ${size} bytes, expected 1 to ${KEY_MAX}`);
        throw new errors.OptionError('ttl: expected at most the lease of the policy, or a time if it has none');
      }
      case STATUS.UNSUPPORTED:
        throw new errors.UnsupportedError('leaky-queue and count-denied policies do not support refunds');
      case STATUS.ABSENT:
        throw new errors.ReservationError('no open reservation: it was committed, was cancelled or has expired');
      case STATUS.NOMEM:
      case STATUS.FULL:
        throw new errors.FullError('the store has no memory for this key or reservation');
      default:
        throw new errors.UnavailableError(`libweir: status ${status}`);
    }
  }

  #decision(next) {
    const { results } = this.#addon;
    const decision = {
      allowed: results[ALLOWED] === 1,
      limit: results[LIMIT],
      remaining: results[REMAINING],
      retryAfterMs: results[RETRY_AFTER_MS],
      resetAfterMs: results[RESET_AFTER_MS],
      delayMs: results[DELAY_MS],
      reason: 'limit',
    };
    if (next) decision.nextMs = results[NEXT_MS];
    return decision;
  }

  // The time in ns since 1970 of a test's clock; undefined: the addon reads the store's clock.
  #now() {
    if (this.#clock === undefined) return undefined;
    const now = this.#clock();
    if (typeof now === 'bigint' && now >= 0n && now <= NOW_NS_MAX) return now;
    return errors.mistake('clock', `a BigInt of ns from 0 to ${NOW_NS_MAX}`, now);
  }

  #run(operation, key, cost, more, next) {
    const limiter = errors.opened(this.#limiter);
    const status = this.#addon.run(OPERATIONS[operation], limiter, ipKey(key), cost, more, this.#now(), next);
    if (status !== 0) this.#fail(status, key);
  }

  decide(operation, key, cost, keep, next) {
    const kept = typeof keep === 'string' ? -parseInt(keep, 10) : keep;
    this.#run(operation, key, cost, kept, next);
    return this.#decision(next);
  }

  refund(key, cost) {
    this.#run('refund', key, cost, 0, false);
    return this.#decision(false);
  }

  charge(key, cost) {
    this.#run('charge', key, cost, 0, false);
    return { ...this.#decision(false), over: this.#addon.results[OVER] };
  }

  reset(key) {
    this.#run('reset', key, 0, 0, false);
  }

  resetAll() {
    this.#run('resetAll', '*', 0, 0, false);
  }

  reserve(key, cost, ttl) {
    this.#run('reserve', key, cost, this.#ttl(ttl), false);
    const decision = this.#decision(false);
    const { results } = this.#addon;
    return { decision, id: decision.allowed ? hex(results[ID_HIGH]) + hex(results[ID_LOW]) : null };
  }

  #ttl(ttl) {
    return ttl === undefined ? 0 : errors.integer('ttl', ttl, 1, TTL_MS_MAX);
  }

  #settle(id, actual, ttl) {
    const status = this.#addon.settle(
      errors.opened(this.#limiter),
      parseInt(id.slice(0, 8), 16),
      parseInt(id.slice(8), 16),
      actual,
      ttl,
      this.#now(),
    );
    if (status !== 0) this.#fail(status);
    return this.#decision(false);
  }

  commit(id, actual) {
    return { ...this.#settle(id, actual, 0), over: this.#addon.results[OVER] };
  }

  cancel(id) {
    return this.commit(id, 0);
  }

  renew(id, ttl) {
    return this.#settle(id, -1, this.#ttl(ttl));
  }

  close() {
    clearInterval(this.#timer);
    if (this.#limiter) this.#addon.close(this.#limiter);
    this.#limiter = undefined;
  }
}

module.exports = { FileEngine };
