// SPDX-License-Identifier: BSD-2-Clause
'use strict';
const { ipKey } = require('./address.js');
const { TIMER_MS_MAX, mistake, integer, onlyKnown, opened, ...errors } = require('./errors.js');
const { rateLimit } = require('./express.js');
const { ExpressStore } = require('./express_store.js');
const { fastifyRateLimit } = require('./fastify.js');
const { fastifyStore } = require('./fastify_store.js');
const { FlexibleLimiter } = require('./flexible.js');
const { Limiter } = require('./limiter.js');
const { NestStorage } = require('./nest.js');

module.exports = {
  Limiter,
  ipKey,
  rateLimit,
  ExpressStore,
  fastifyRateLimit,
  fastifyStore,
  NestStorage,
  FlexibleLimiter,
  ...errors,
};
