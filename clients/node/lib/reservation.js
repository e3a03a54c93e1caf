// SPDX-License-Identifier: BSD-2-Clause
'use strict';
const { integer } = require('./errors.js');

const COST_MAX = 2147483647;
const dispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

// Units that are charged until commit() or cancel(). Leaving a block of `await using` cancels what was not committed;
// so does cancel() in a `finally`.
class Reservation {
  #settle;
  #open;

  constructor(decision, id, settle) {
    this.decision = decision;
    this.id = id;
    this.allowed = decision.allowed;
    this.#settle = settle;
    this.#open = id !== null; // a denied one, and one that was allowed without a decision, has nothing to settle
  }

  // Charges the real cost in place of the reserved one.
  async commit(actual) {
    integer('actual', actual, 0, COST_MAX);
    return this.#end('commit', actual);
  }

  async cancel() {
    return this.#end('cancel');
  }

  async #end(method, ...args) {
    if (!this.#open) return this.decision;
    this.#open = false;
    return this.#settle(method, ...args);
  }

  // Extends the reservation: it expires `ttl` ms from now.
  async renew(ttl) {
    return this.#open ? this.#settle('renew', ttl) : this.decision;
  }

  async [dispose]() {
    await this.cancel();
  }
}

module.exports = { Reservation };
