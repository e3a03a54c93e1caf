// SPDX-License-Identifier: BSD-2-Clause
// weir://: asks the daemon over RESP.
'use strict';
const { borrow, connect } = require('./connection.js');
const errors = require('./errors.js');

const DECISION = { check: 'WEIR.TAKE', peek: 'WEIR.PEEK' };
// The beginning of the daemon's error replies; docs/resp.md has all.
const REPLIES = [
  [/^OOM /, errors.FullError],
  [/^(BUSY|ERR max number of clients) /, errors.UnavailableError],
  [/^(NOAUTH|WRONGPASS|NOPERM) /, errors.AccessError],
  [/^ERR (no policy |policy: )/, errors.PolicyError],
  [/^ERR no open reservation /, errors.ReservationError],
  [/^ERR .* do not support /, errors.UnsupportedError],
  [/^[A-Z]+ /, errors.OptionError],
];

// An error reply, or else an error of the connection.
function translate(error) {
  if (error instanceof errors.WeirError) return error;
  const [, Kind] = REPLIES.find(([pattern]) => pattern.test(error.message)) ?? [null, errors.UnavailableError];
  return new Kind(error.message.replace(/^ERR /, ''), { cause: error });
}

function decisionOf(reply) {
  const numbers = Array.isArray(reply) ? reply.slice(0, 6).map(Number) : [];
  if (numbers.length < 6 || !numbers.every(Number.isSafeInteger)) {
    throw new errors.UnavailableError(`expected a decision of weir, found ${JSON.stringify(reply)}`);
  }
  const [allowed, limit, remaining, retryAfterMs, resetAfterMs, delayMs] = numbers;
  return { allowed: allowed === 1, limit, remaining, retryAfterMs, resetAfterMs, delayMs, reason: 'limit' };
}

// A map is a Map, an object, or an array of names and values, as the client library and the protocol have it.
function entriesOf(reply) {
  if (reply instanceof Map) return reply;
  if (!Array.isArray(reply)) return new Map(Object.entries(Object(reply)));
  return new Map(reply.flatMap((name, i) => (i % 2 === 0 ? [[String(name), reply[i + 1]]] : [])));
}

const FIELDS = ['allowed', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'delay_ms'];

function namedDecisionOf(reply) {
  const entries = entriesOf(reply);
  const decision = decisionOf(FIELDS.map((name) => entries.get(name)));
  if (entries.has('next_ms')) decision.nextMs = Number(entries.get('next_ms'));
  return decision;
}

const ttlWords = (ttl) =>
  ttl === undefined ? [] : ['TTL', `${errors.integer('ttl', ttl, 1, Number.MAX_SAFE_INTEGER)}ms`];

class DaemonEngine {
  static options = ['client', 'timeout', 'tls'];
  #policy;
  #connection;

  constructor(policy, url, { client, timeout = 100, tls }) {
    if (url.search || url.hash || !/^\/?$/.test(url.pathname)) {
      throw new errors.OptionError(`url: expected ${url.protocol}//HOST:PORT, found ${url}`);
    }
    errors.integer('timeout', timeout, 1, errors.TIMER_MS_MAX);
    if (tls !== undefined && url.protocol !== 'weirs:') errors.mistake('tls', 'weirs:// with it', url.protocol + '//');
    this.#policy = policy;
    this.#connection = client ? borrow(client, timeout) : connect(url, tls, timeout);
  }

  async #send(words) {
    const connection = errors.opened(this.#connection);
    try {
      return await connection.send(words);
    } catch (error) {
      throw translate(error);
    }
  }

  async decide(operation, key, cost, keep, next) {
    const words = [DECISION[operation], this.#policy, key];
    if (cost !== 1) words.push('COST', String(cost));
    if (keep !== 0) words.push('KEEP', String(keep));
    if (!next) return decisionOf(await this.#send(words));
    words.push('WITHNAMES');
    return namedDecisionOf(await this.#send(words));
  }

  async refund(key, cost) {
    return decisionOf(await this.#send(['WEIR.REFUND', this.#policy, key, String(cost)]));
  }

  async #withOver(words) {
    const reply = await this.#send(words);
    return { ...decisionOf(reply), over: Number(reply[6]) };
  }

  async charge(key, cost) {
    return this.#withOver(['WEIR.CHARGE', this.#policy, key, 'COST', String(cost)]);
  }

  async reset(key) {
    await this.#send(['WEIR.RESET', this.#policy, key]);
  }

  async resetAll() {
    await this.#send(['WEIR.RESETALL', this.#policy]);
  }

  async reserve(key, cost, ttl) {
    const reply = await this.#send(['WEIR.RESERVE', this.#policy, key, String(cost), ...ttlWords(ttl)]);
    return { decision: decisionOf(reply), id: reply[6] === null ? null : String(reply[6]) };
  }

  async commit(id, actual) {
    return this.#withOver(['WEIR.COMMIT', id, String(actual)]);
  }

  async cancel(id) {
    return this.#withOver(['WEIR.CANCEL', id]);
  }

  async renew(id, ttl) {
    return decisionOf(await this.#send(['WEIR.RENEW', id, ...ttlWords(ttl)]));
  }

  close() {
    this.#connection?.close();
    this.#connection = undefined;
  }
}

module.exports = { DaemonEngine };
