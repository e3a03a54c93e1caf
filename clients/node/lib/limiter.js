// SPDX-License-Identifier: BSD-2-Clause
// The limiter: one interface for a daemon and for a file.
'use strict';
const { DaemonEngine } = require('./daemon.js');
const errors = require('./errors.js');
const { FileEngine } = require('./file.js');
const { Reservation } = require('./reservation.js');

const ENGINES = { 'weir:': DaemonEngine, 'weirs:': DaemonEngine, 'weir+file:': FileEngine };
const COST_MAX = 2147483647;
const OPTIONS = ['url', 'prefix', 'onError', 'onFailure'];
const CHECK_OPTIONS = ['cost', 'keep', 'next'];
const ON_ERROR = ['open', 'closed', 'throw'];
const ADDRESS = /^[\da-f:.]+$/i; // with such a prefix, a key could be read as another address
const PERCENT = /^(100|\d{1,2})%$/;

const cost = (value) => errors.integer('cost', value, 0, COST_MAX);

function keep(value) {
  return typeof value === 'string' && PERCENT.test(value) ? value : errors.integer('keep', value, 0, COST_MAX);
}

function parse(url) {
  let parsed;
  try {
    parsed = new URL(url);
    for (const part of [parsed.username, parsed.password, parsed.pathname]) decodeURIComponent(part);
  } catch {
    errors.mistake('url', 'weir://HOST:PORT or weir+file:///PATH', url);
  }
  if (!ENGINES[parsed.protocol] || parsed.port === '0') {
    errors.mistake('url', 'weir://HOST:PORT or weir+file:///PATH', url);
  }
  return parsed;
}

class Limiter {
  #engine;
  #prefix;
  #onError;
  #onFailure;
  #failures = 0;

  constructor(policy, options = {}) {
    if (typeof policy !== 'string' || policy === '') errors.mistake('policy', 'a policy text or a name', policy);
    const { prefix = '', onError = 'open', onFailure = () => {}, ...rest } = options;
    if (typeof prefix !== 'string' || ADDRESS.test(prefix)) {
      errors.mistake('prefix', "a string that no IP address begins with, such as 'api:'", prefix);
    }
    if (!ON_ERROR.includes(onError)) errors.mistake('onError', "'open', 'closed' or 'throw'", onError);
    if (typeof onFailure !== 'function') errors.mistake('onFailure', 'a function', onFailure);
    const url = parse(rest.url);
    const Engine = ENGINES[url.protocol];
    errors.onlyKnown(options, [...OPTIONS, ...Engine.options], `a limiter with ${url.protocol}//`);
    this.#prefix = prefix;
    this.#onError = onError;
    this.#onFailure = onFailure;
    this.#engine = new Engine(policy, url, rest, (error) => this.#report(error));
  }

  // How many calls found no daemon or no memory.
  get failures() {
    return this.#failures;
  }

  // Whether a call decides before it returns.
  get isSync() {
    return this.#engine instanceof FileEngine;
  }

  #report(error) {
    this.#failures++;
    this.#onFailure(error);
  }

  // What a call returns that failed. A mistake of the caller is thrown whatever `onError` is.
  #failed(error) {
    if (!(error instanceof errors.UnavailableError)) throw error;
    this.#report(error);
    if (this.#onError === 'throw') throw error;
    return {
      allowed: this.#onError === 'open',
      limit: 0,
      remaining: 0,
      retryAfterMs: 0,
      resetAfterMs: 0,
      delayMs: 0,
      reason: 'on-error',
      error,
    };
  }

  #key(key) {
    if (typeof key !== 'string' || key === '') errors.mistake('key', 'a string that is not empty', key);
    return this.#prefix + key;
  }

  #decide(operation, key, options) {
    if (options === undefined) return this.#engine.decide(operation, this.#key(key), 1, 0, false);
    errors.onlyKnown(options, CHECK_OPTIONS, 'a check');
    return this.#engine.decide(
      operation,
      this.#key(key),
      cost(options.cost ?? 1),
      keep(options.keep ?? 0),
      options.next === true,
    );
  }

  async check(key, options) {
    try {
      const decision = this.#decide('check', key, options);
      return decision instanceof Promise ? await decision : decision; // an await of no promise takes time, too
    } catch (error) {
      return this.#failed(error);
    }
  }

  checkSync(key, options) {
    if (!this.isSync) errors.mistake('checkSync', 'weir+file: a daemon replies later', 'weir://');
    try {
      return this.#decide('check', key, options);
    } catch (error) {
      return this.#failed(error);
    }
  }

  async peek(key, options) {
    try {
      return await this.#decide('peek', key, options);
    } catch (error) {
      return this.#failed(error);
    }
  }

  async #call(method, ...args) {
    try {
      return await this.#engine[method](...args);
    } catch (error) {
      return this.#failed(error);
    }
  }

  async refund(key, units = 1) {
    return this.#call('refund', this.#key(key), cost(units));
  }

  async charge(key, units = 1) {
    return this.#call('charge', this.#key(key), cost(units));
  }

  async reset(key) {
    await this.#call('reset', this.#key(key));
  }

  async resetAll() {
    await this.#call('resetAll');
  }

  // Charges `units` until the reservation is committed or cancelled, at most `ttl` ms.
  async reserve(key, units, ttl) {
    const made = await this.#call('reserve', this.#key(key), cost(units), ttl);
    const { decision, id } = made.decision ? made : { decision: made, id: null };
    return new Reservation(decision, id, (method, ...args) => this.#call(method, id, ...args));
  }

  // Runs fn while a unit is held, and returns its result. With `ttl`, the unit is renewed as long as fn runs.
  // A failure of the reservation, which then expires, does not hide the result.
  async concurrent(key, fn, options = {}) {
    errors.onlyKnown(options, ['ttl'], 'concurrent()');
    const { ttl } = options;
    const ended = async (promise) =>
      promise.catch((error) => error instanceof errors.UnavailableError || this.#report(error));
    const reservation = await this.reserve(key, 1, ttl);
    if (!reservation.allowed) throw new errors.DeniedError(reservation.decision);
    const renewMs = Math.min(Math.ceil(ttl / 2), errors.TIMER_MS_MAX);
    const timer = ttl && setInterval(() => ended(reservation.renew(ttl)), renewMs);
    try {
      return await fn();
    } finally {
      clearInterval(timer);
      await ended(reservation.cancel());
    }
  }

  close() {
    this.#engine.close();
  }
}

module.exports = { Limiter };
