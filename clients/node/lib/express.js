// SPDX-License-Identifier: BSD-2-Clause
// Middleware for express, connect and every other framework with (request, response, next).
'use strict';
const { Guard, later, valueOf } = require('./guard.js');

// Refunds the request when the response has ended, if its outcome is not to be counted.
function refundLater(
  { skipFailedRequests, skipSuccessfulRequests, requestWasSuccessful },
  guard,
  request,
  response,
  asked,
) {
  if (!skipFailedRequests && !skipSuccessfulRequests) return;
  async function refund() {
    const successful = response.writableFinished && (await requestWasSuccessful(request, response));
    if (successful ? skipSuccessfulRequests : skipFailedRequests) {
      await guard.limiter.refund(asked.key, asked.cost).catch(() => {}); // it is in limiter.failures
    }
  }
  response.once('close', () => refund().catch((error) => process.emitWarning(String(error?.stack ?? error))));
}

async function deny(guard, request, response, next, decision) {
  if (guard.handler) return guard.handler(request, response, next, decision);
  response.statusCode = guard.statusOf(decision);
  const message = await valueOf(guard.message, request, response);
  if (typeof message === 'string') return response.end(message);
  response.setHeader('Content-Type', 'application/json');
  return response.end(JSON.stringify(message));
}

function rateLimit({
  skipFailedRequests = false,
  skipSuccessfulRequests = false,
  requestWasSuccessful = (_, response) => response.statusCode < 400,
  ...options
} = {}) {
  const guard = new Guard(options, (request) => request.ip ?? request.socket.remoteAddress);
  const outcome = { skipFailedRequests, skipSuccessfulRequests, requestWasSuccessful };

  async function limited(request, response, next) {
    const asked = await guard.ask(request, response);
    if (!asked) return next();
    const { decision, headers } = asked;
    request[guard.requestPropertyName] = decision;
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (!decision.allowed) return deny(guard, request, response, next, decision);
    if (decision.reason === 'limit') refundLater(outcome, guard, request, response, asked);
    if (decision.delayMs > 0) await later(decision.delayMs);
    return next();
  }

  const middleware = (request, response, next) => limited(request, response, next).catch(next);
  return Object.assign(middleware, { limiter: guard.limiter });
}

module.exports = { rateLimit };
