// SPDX-License-Identifier: BSD-2-Clause
'use strict';
// Replaces store/LocalStore.js of @fastify/rate-limit, so that its tests test weir. $WEIR_URL names the store.
const { fastifyStore } = require('weir');

const DAY_MS = 86400000;
let made = 0,
  nowMs = Date.now(),
  lastMs = nowMs;

// The clock of weir: it runs as the clock that a test mocks, but it never goes back, and does not follow when a test
// replaces the clock.
function clock() {
  const passed = Date.now() - lastMs;
  lastMs += passed;
  if (passed > 0 && passed < DAY_MS) nowMs += passed;
  return BigInt(nowMs) * 1000000n;
}

module.exports = function LocalStore(continueExceeding, exponentialBackoff) {
  const Store = fastifyStore({
    url: `${process.env.WEIR_URL}-${process.pid}`,
    memory: 8 << 20,
    clock,
    prefix: `s${made++}:`,
  });
  return new Store({ continueExceeding, exponentialBackoff });
};
