// SPDX-License-Identifier: BSD-2-Clause
// A plugin for fastify: it limits the routes of the scope in which it is registered.
'use strict';
const { Guard, later, valueOf } = require('./guard.js');

async function deny(guard, request, reply, decision) {
  reply.code(guard.statusOf(decision));
  if (guard.handler) await guard.handler(request, reply, decision);
  else reply.send(await valueOf(guard.message, request, reply));
  return reply; // until it was sent, the route must not run
}

async function fastifyRateLimit(fastify, options) {
  const guard = new Guard(options, (request) => request.ip);
  if (!fastify.hasRequestDecorator(guard.requestPropertyName)) fastify.decorateRequest(guard.requestPropertyName, null);
  fastify.addHook('onRequest', async (request, reply) => {
    const asked = await guard.ask(request, reply);
    if (!asked) return undefined;
    const { decision, headers } = asked;
    request[guard.requestPropertyName] = decision;
    reply.headers(headers);
    if (!decision.allowed) return deny(guard, request, reply, decision);
    if (decision.delayMs > 0) await later(decision.delayMs);
    return undefined;
  });
  if (options.limiter === undefined) fastify.addHook('onClose', async () => guard.limiter.close());
}

fastifyRateLimit[Symbol.for('skip-override')] = true;
fastifyRateLimit[Symbol.for('fastify.display-name')] = 'weir';

module.exports = { fastifyRateLimit };
