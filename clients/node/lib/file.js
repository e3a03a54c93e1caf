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
const STATUS = { OK: 0, RANGE: 1, SYNTAX: 2, UNSUPPORTED: 4, NOMEM: 5, FULL: 7, IO: 8, ABSENT: 10 };
const [CHECK, PEEK, REFUND, CHARGE, RESET, RESET_ALL, RESERVE, COMMIT, RENEW] = Array(9).keys();
// The places of the numbers in the addon's array.
const [OPERATION, COST, MORE, WITH_NEXT, NOW_NS, ID_HIGH, ID_LOW, STATUS_OF, ...RESULTS] = Array(16).keys();
const [ALLOWED, LIMIT, REMAINING, RETRY_AFTER_MS, RESET_AFTER_MS, DELAY_MS, OVER, NEXT_MS] = RESULTS;
const PLACES = [null, 'was removed', 'was moved', 'was replaced by another file', 'was truncated'];
const KEY_MAX = 65536;
const WATCH_MS = 1000;
const NOW_NS_MAX = 7n << 60n; // WEIR_NOW_NS_MAX
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

const hex = (n) => n.toString(16).padStart(8, '0');

function choice(name, value, words) {
  if (!words.includes(value)) errors.mistake(name, words.map((word) => `'${word}'`).join(' or '), value);
  return value;
}

// The policy text, and its name or ''.
function textOf(policy, policies) {
  const isText = /\s/.test(policy);
  if (policies === undefined && isText) return [policy, ''];
  if (policies !== undefined && (typeof policies !== 'object' || policies === null || isText)) {
    errors.mistake('policies', 'an object of names and policy texts, and a name as the policy', isText ? policy : policies);
  }
  const text = policies !== undefined && Object.hasOwn(policies, policy) ? policies[policy] : undefined;
  if (typeof text === 'string') return [text, policy];
  const names = policies === undefined ? '' : `: ${Object.keys(policies).join(', ')}`;
  throw new errors.PolicyError(
    `policy: expected a policy text such as 'gcra 10/m burst 5', or a name in policies${names}, found '${policy}'`,
  );
}

class FileEngine {
  static options = ['policies', 'memory', 'sync', 'whenFull', 'clock'];
  #addon = load();
  #numbers = this.#addon.numbers;
  #limiter;
  #clock;
  #timer;

  constructor(policy, url, { policies, memory = 0, sync = 'never', whenFull = 'evict', clock }, onFailure) {
    const [text, name] = textOf(policy, policies);
    errors.integer('memory', memory, 0, Number.MAX_SAFE_INTEGER);
    const synced = choice('sync', sync, ['never', '1s']) === '1s';
    const refuse = choice('whenFull', whenFull, ['evict', 'refuse']) === 'refuse';
    if (clock !== undefined && typeof clock !== 'function') errors.mistake('clock', 'a function', clock);
    this.#clock = clock;
    const file = pathOf(url);
    try {
      this.#limiter = this.#addon.open(text, name, file, memory, synced, refuse);
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

  #decision() {
    const numbers = this.#numbers;
    return {
      allowed: numbers[ALLOWED] === 1,
      limit: numbers[LIMIT],
      remaining: numbers[REMAINING],
      retryAfterMs: numbers[RETRY_AFTER_MS],
      resetAfterMs: numbers[RESET_AFTER_MS],
      delayMs: numbers[DELAY_MS],
      reason: 'limit',
    };
  }

  #withOver() {
    return { ...this.#decision(), over: this.#numbers[OVER] };
  }

  // Writes the time of a call: that of a test's clock, or a negative number for the store's clock.
  #setTime() {
    this.#numbers[NOW_NS] = -1; // as a BigInt, too
    if (this.#clock === undefined) return;
    const now = this.#clock();
    if (typeof now !== 'bigint' || now < 0n || now > NOW_NS_MAX)
      errors.mistake('clock', `a BigInt of ns from 0 to ${NOW_NS_MAX}`, now);
    new BigInt64Array(this.#numbers.buffer)[NOW_NS] = now;
  }

  #run(operation, key, cost, more, next) {
    const limiter = errors.opened(this.#limiter);
    const numbers = this.#numbers;
    this.#setTime();
    numbers[OPERATION] = operation;
    numbers[COST] = cost;
    numbers[MORE] = more;
    numbers[WITH_NEXT] = next ? 1 : 0;
    this.#addon.run(limiter, ipKey(key));
    if (numbers[STATUS_OF] !== STATUS.OK) this.#fail(numbers[STATUS_OF], key);
  }

  decide(operation, key, cost, keep, next) {
    const kept = typeof keep === 'string' ? -parseInt(keep, 10) : keep;
    this.#run(operation === 'check' ? CHECK : PEEK, key, cost, kept, next);
    const decision = this.#decision();
    if (next) decision.nextMs = this.#numbers[NEXT_MS];
    return decision;
  }

  refund(key, cost) {
    this.#run(REFUND, key, cost, 0, false);
    return this.#decision();
  }

  charge(key, cost) {
    this.#run(CHARGE, key, cost, 0, false);
    return this.#withOver();
  }

  reset(key) {
    this.#run(RESET, key, 0, 0, false);
  }

  resetAll() {
    this.#run(RESET_ALL, '', 0, 0, false);
  }

  reserve(key, cost, ttl) {
    this.#run(RESERVE, key, cost, this.#ttl(ttl), false);
    const decision = this.#decision();
    const [high, low] = this.#numbers.subarray(ID_HIGH);
    return { decision, id: decision.allowed ? hex(high) + hex(low) : null };
  }

  #ttl(ttl) {
    return ttl === undefined ? 0 : errors.integer('ttl', ttl, 1, TTL_MS_MAX);
  }

  #settle(operation, id, actual, ttl) {
    this.#numbers[ID_HIGH] = parseInt(id.slice(0, 8), 16);
    this.#numbers[ID_LOW] = parseInt(id.slice(8), 16);
    this.#run(operation, '', actual, ttl, false);
  }

  commit(id, actual) {
    this.#settle(COMMIT, id, actual, 0);
    return this.#withOver();
  }

  cancel(id) {
    return this.commit(id, 0);
  }

  renew(id, ttl) {
    this.#settle(RENEW, id, 0, this.#ttl(ttl));
    return this.#decision();
  }

  close() {
    clearInterval(this.#timer);
    if (this.#limiter) this.#addon.close(this.#limiter);
    this.#limiter = undefined;
  }
}

module.exports = { FileEngine };
