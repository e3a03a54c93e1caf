// SPDX-License-Identifier: BSD-2-Clause
// What the middleware of all frameworks does with a request.
'use strict';
const { ipKey } = require('./address.js');
const { OptionError, TIMER_MS_MAX, UnavailableError, integer, mistake, onlyKnown } = require('./errors.js');
const { headersOf } = require('./headers.js');
const { Limiter } = require('./limiter.js');

const DEFAULTS = {
  standardHeaders: 'draft-8',
  legacyHeaders: false,
  ipv6Subnet: 64,
  cost: 1,
  keep: 0,
  skip: () => false,
  statusCode: 429,
  message: 'Too many requests, please try again later.',
  passOnStoreError: false,
  requestPropertyName: 'rateLimit',
};
const FUNCTIONS = ['skip', 'keyGenerator', 'handler'];
const OPTIONAL = ['limiter', 'policy', 'identifier', 'keyGenerator', 'handler'];

// The options of the guard, and those of its limiter.
function split(options) {
  const own = { ...DEFAULTS },
    rest = {};
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined) (name in DEFAULTS || OPTIONAL.includes(name) ? own : rest)[name] = value;
  }
  return [own, rest];
}

function limiterOf({ limiter, policy }, rest) {
  if (limiter === undefined) {
    if (rest.onError !== undefined) throw new OptionError('onError: expected passOnStoreError in its place');
    return new Limiter(policy, { ...rest, onError: 'throw' });
  }
  if (!(limiter instanceof Limiter)) mistake('limiter', 'a Limiter', limiter);
  onlyKnown({ ...rest, policy }, [...Object.keys(DEFAULTS), ...OPTIONAL.slice(2)], 'a middleware with a limiter');
  return limiter;
}

const valueOf = (option, ...args) => (typeof option === 'function' ? option(...args) : option);

// The key of an address, in a form that a limiter does not read as an address again.
function networkOf(address, bits) {
  const key = ipKey(address, bits);
  return bits === 128 && key.includes(':') ? `${key}/128` : key;
}

class Guard {
  constructor(options, addressOf) {
    const [own, rest] = split(options);
    Object.assign(this, own);
    for (const name of FUNCTIONS.filter((one) => own[one] !== undefined && typeof own[one] !== 'function'))
      mistake(name, 'a function', own[name]);
    integer('ipv6Subnet', own.ipv6Subnet, 1, 128);
    integer('statusCode', own.statusCode, 400, 599);
    this.limiter = limiterOf(own, rest);
    this.fields = headersOf(this.standardHeaders, this.legacyHeaders);
    this.identifier ??= own.policy === undefined || /\s/.test(own.policy) ? 'limit' : own.policy;
    this.keyGenerator ??= (request) => networkOf(addressOf(request) ?? 'unknown', this.ipv6Subnet);
  }

  // Decides on a request. Returns { key, cost, decision, headers }, or null for a request that is not limited.
  async ask(...args) {
    if (await this.skip(...args)) return null;
    const key = await this.keyGenerator(...args);
    const cost = await valueOf(this.cost, ...args);
    try {
      const decision = await this.limiter.check(key, { cost, keep: this.keep, next: this.standardHeaders !== false });
      return { key, cost, decision, headers: this.fields(decision, await valueOf(this.identifier, ...args)) };
    } catch (error) {
      if (this.passOnStoreError && error instanceof UnavailableError) return null;
      throw error;
    }
  }

  // The status of a denial: 503 if no decision was made.
  statusOf(decision) {
    return decision.reason === 'on-error' ? 503 : this.statusCode;
  }
}

async function later(ms) {
  for (let left = ms; left > 0; left -= TIMER_MS_MAX) {
    await new Promise((resolve) => setTimeout(resolve, Math.min(left, TIMER_MS_MAX)));
  }
}

module.exports = { Guard, later, valueOf };
