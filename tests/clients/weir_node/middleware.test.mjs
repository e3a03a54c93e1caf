// SPDX-License-Identifier: BSD-2-Clause
// The middleware of the package, and its stores in the libraries of others. $WEIR_URL names the store.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fastifyLimit from '@fastify/rate-limit';
import express from 'express';
import { rateLimit as expressRateLimit } from 'express-rate-limit';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { rateLimiter } from 'hono-rate-limiter';
import { ExpressStore, fastifyRateLimit, fastifyStore, FlexibleLimiter, Limiter, NestStorage, rateLimit } from 'weir';

const url = process.env.WEIR_URL;
const common = { url, ...(url.startsWith('weir:') && { timeout: 10000 }) };
const HOUR_S = 3600;
const ends = [];
let prefixes = 0;
after(async () => {
  for (const end of ends) await end();
});

const fresh = (more) => ({ ...common, prefix: `test${prefixes++}:`, ...more });

async function serve(handler) {
  const server = createServer(handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.push(() => server.close());
  return async (path = '/', headers = {}) => {
    const response = await fetch(`http://127.0.0.1:${server.address().port}${path}`, { headers });
    return { status: response.status, headers: response.headers, body: await response.text() };
  };
}

// An express application with the middleware before a handler that replies with `status`.
async function application(middleware, status = 200) {
  const app = express();
  app.set('trust proxy', 1);
  app.get('/', middleware, (request, response) => response.status(status).send(request.rateLimit));
  app.use((error, _request, response, _next) => response.status(500).send(error.name));
  return serve(app);
}

const limitFields = ({ headers }) =>
  Object.fromEntries([...headers].filter(([name]) => /ratelimit|retry-after/.test(name)));
// Times of an hour, which may have begun some seconds ago, as `1h`.
const rounded = (fields) =>
  JSON.parse(JSON.stringify(fields).replace(/\b(3[56]\d\d|7[12]\d\d)\b/g, (s) => `${Math.ceil(s / HOUR_S)}h`));

test('headers of each flavour', async () => {
  const flavours = [
    [
      'draft-6',
      { 'ratelimit-policy': '2', 'ratelimit-limit': '2', 'ratelimit-remaining': '0', 'ratelimit-reset': '1h' },
    ],
    [true, { 'ratelimit-policy': '2', 'ratelimit-limit': '2', 'ratelimit-remaining': '0', 'ratelimit-reset': '1h' }],
    ['draft-7', { 'ratelimit-policy': '2', ratelimit: 'limit=2, remaining=0, reset=1h' }],
    ['draft-8', { 'ratelimit-policy': '"limit";q=2', ratelimit: '"limit";r=0;t=1h' }],
    [undefined, { 'ratelimit-policy': '"limit";q=2', ratelimit: '"limit";r=0;t=1h' }],
    [false, {}],
  ];
  for (const [standardHeaders, fields] of flavours) {
    const get = await application(rateLimit(fresh({ policy: 'gcra 1/h burst 2', standardHeaders })));
    const first = rounded(limitFields(await get()));
    assert.deepEqual(
      first,
      JSON.parse(
        JSON.stringify(fields)
          .replace(/remaining":"0/, 'remaining":"1')
          .replace('remaining=0', 'remaining=1')
          .replace('r=0', 'r=1'),
      ),
    );
    assert.deepEqual(rounded(limitFields(await get())), fields); // the next unit is free in an hour, all in two
    const denied = await get();
    assert.equal(denied.status, 429);
    assert.equal(denied.body, 'Too many requests, please try again later.');
    assert.deepEqual(rounded(limitFields(denied)), { ...fields, 'retry-after': '1h' });
  }
});

test('legacy headers, and a cost that is never allowed', async () => {
  const get = await application(
    rateLimit(fresh({ policy: 'gcra 1/h burst 2', standardHeaders: false, legacyHeaders: true })),
  );
  const { 'x-ratelimit-reset': reset, ...fields } = limitFields(await get());
  assert.deepEqual(fields, { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '1' });
  assert.ok(Math.abs(Number(reset) - Date.now() / 1000 - HOUR_S) < 60, reset);
  for (const [standardHeaders, fields] of [
    ['draft-6', { 'ratelimit-policy': '2', 'ratelimit-limit': '2', 'ratelimit-remaining': '2' }],
    ['draft-7', { 'ratelimit-policy': '2', ratelimit: 'limit=2, remaining=2' }],
    ['draft-8', { 'ratelimit-policy': '"a \\"b\\" ?";q=2', ratelimit: '"a \\"b\\" ?";r=2' }],
  ]) {
    const never = await application(
      rateLimit(fresh({ policy: 'gcra 1/h burst 2', cost: 3, standardHeaders, identifier: 'a "b" ä' })),
    );
    const denied = await never();
    assert.equal(denied.status, 429);
    assert.deepEqual(limitFields(denied), fields);
  }
});

test('options of the middleware', async () => {
  const seen = [];
  const options = fresh({
    policy: 'gcra 1/h burst 5',
    cost: (request) => Number(request.query.cost ?? 1),
    keep: 1,
    keyGenerator: (request) => request.get('x-user') ?? 'nobody',
    skip: (request) => request.query.skip === '1',
    statusCode: 418,
    message: (request) => ({ path: request.path }),
    requestPropertyName: 'quota',
  });
  const app = express();
  app.use(rateLimit(options), (request, response) => response.send(request.quota));
  const get = await serve(app);
  const first = await get('/?cost=2');
  assert.deepEqual(JSON.parse(first.body), {
    allowed: true,
    limit: 5,
    remaining: 2,
    retryAfterMs: 0,
    resetAfterMs: 2 * HOUR_S * 1000,
    delayMs: 0,
    reason: 'limit',
    nextMs: 0,
  });
  const denied = await get('/x?cost=3');
  assert.deepEqual(
    [denied.status, denied.body, denied.headers.get('content-type')],
    [418, '{"path":"/x"}', 'application/json'],
  );
  assert.equal((await get('/?cost=4', { 'x-user': 'alice' })).status, 200);
  assert.deepEqual(limitFields(await get('/?cost=9&skip=1')), {});
  const own = await application(
    rateLimit(
      fresh({
        policy: 'gcra 1/h',
        handler: (request, response, next, decision) => {
          seen.push(decision.allowed);
          next();
        },
      }),
    ),
  );
  await own();
  assert.equal((await own()).status, 200);
  assert.deepEqual(seen, [false]);
});

test('an IPv6 client is its /64', async () => {
  const get = await application(rateLimit(fresh({ policy: 'gcra 1/h burst 2' })));
  const from = async (address, one = get) => (await one('/', { 'x-forwarded-for': address })).status;
  assert.deepEqual(
    [await from('2001:db8::1'), await from('2001:db8::2'), await from('2001:db8::3'), await from('2001:db8:0:1::1')],
    [200, 200, 429, 200],
  );
  const wide = await application(rateLimit(fresh({ policy: 'gcra 1/h burst 2', ipv6Subnet: 48 })));
  assert.deepEqual(
    [await from('2001:db8::1', wide), await from('2001:db8:0:1::1', wide), await from('2001:db8:0:2::1', wide)],
    [200, 200, 429],
  );
  const exact = await application(rateLimit({ ...common, policy: 'gcra 1/7h', ipv6Subnet: 128 }));
  assert.deepEqual(
    [await from('2001:db8::1', exact), await from('2001:db8::2', exact), await from('2001:db8::1', exact)],
    [200, 200, 429],
  );
});

test('responses that are not to be counted are refunded', async () => {
  const options = { policy: 'gcra 1/h burst 3' };
  const cases = [
    [{ skipFailedRequests: true }, 500, 3],
    [{ skipFailedRequests: true }, 200, 2],
    [{ skipSuccessfulRequests: true }, 200, 3],
    [{ skipSuccessfulRequests: true }, 500, 2],
    [{ skipSuccessfulRequests: true, requestWasSuccessful: (_, response) => response.statusCode === 500 }, 500, 3],
  ];
  for (const [more, status, remaining] of cases) {
    const middleware = rateLimit(fresh({ ...options, ...more, keyGenerator: () => 'k' }));
    const get = await application(middleware, status);
    await get();
    for (let left; left !== remaining; left = (await middleware.limiter.peek('k')).remaining);
    if (more.skipFailedRequests && remaining === 2) {
      // a denial was not charged, so it is not refunded
      await get();
      await get();
      assert.equal((await get()).status, 429);
      assert.equal((await middleware.limiter.peek('k')).remaining, 0);
    }
  }
});

test('a leaky queue holds the request', async () => {
  const get = await application(rateLimit(fresh({ policy: 'leaky-queue 5/s depth 5' })));
  const begin = performance.now();
  await get();
  await get();
  assert.ok(performance.now() - begin >= 150);
});

test('without a daemon', async () => {
  const nowhere = { url: 'weir://127.0.0.1:1', policy: 'api' };
  assert.deepEqual([(await (await application(rateLimit(nowhere)))()).body], ['UnavailableError']);
  const open = await (await application(rateLimit({ ...nowhere, passOnStoreError: true })))();
  assert.deepEqual([open.status, limitFields(open)], [200, {}]);
  const closed = new Limiter('api', { url: nowhere.url, onError: 'closed' });
  const refused = await (await application(rateLimit({ limiter: closed })))();
  assert.deepEqual([refused.status, limitFields(refused)], [503, {}]);
  assert.equal(closed.failures, 1);
});

test('clients without an address are one key', async () => {
  const middleware = rateLimit(fresh({ policy: 'gcra 1/h burst 2' }));
  const served = await new Promise((resolve) => {
    const request = { ip: undefined, socket: {} };
    middleware(request, { setHeader() {} }, () => resolve(request.rateLimit.remaining));
  });
  assert.deepEqual([served, (await middleware.limiter.peek('unknown')).remaining], [1, 1]);
});

test('a delay longer than the timers of Node', async (t) => {
  const middleware = rateLimit(fresh({ policy: 'leaky-queue 1/60d depth 2' }));
  const request = () => new Promise((next) => middleware({ ip: '192.0.2.1' }, { setHeader() {} }, next));
  await request();
  const timer = globalThis.setTimeout;
  const delays = [];
  t.mock.method(globalThis, 'setTimeout', (done, ms) => {
    if (ms < HOUR_S * 1000) return timer(done, ms);
    delays.push(ms);
    return queueMicrotask(done);
  });
  await request();
  assert.deepEqual(delays.slice(0, 2), [2147483647, 2147483647]);
  const rest = 60 * 86400000 - 2 * 2147483647;
  assert.ok(delays.length === 3 && delays[2] > rest - 60000 && delays[2] <= rest, delays);
});

test('a mistake in requestWasSuccessful is a warning', async () => {
  const warned = once(process, 'warning');
  const requestWasSuccessful = () => {
    throw new RangeError('mine');
  };
  const middleware = rateLimit(fresh({ policy: 'gcra 1/h', skipFailedRequests: true, requestWasSuccessful }));
  assert.equal((await (await application(middleware))()).status, 200);
  assert.match((await warned)[0].message, /^RangeError: mine/);
});

test('wrong options of the middleware', () => {
  for (const [options, message] of [
    [
      { ...common, policy: 'gcra 1/h', standardHeaders: 'draft-9' },
      "standardHeaders: expected 'draft-6', 'draft-7', 'draft-8' or false, found 'draft-9'",
    ],
    [{ ...common, policy: 'gcra 1/h', onError: 'open' }, 'onError: expected passOnStoreError in its place'],
    [{ ...common, policy: 'gcra 1/h', windowMs: 5 }, /has no option 'windowMs'/],
    [{ ...common, policy: 'gcra 1/h', skip: true }, 'skip: expected a function, found true'],
    [{ ...common, policy: 'gcra 1/h', keyGenerator: 'ip' }, "keyGenerator: expected a function, found 'ip'"],
    [{ ...common, policy: 'gcra 1/h', handler: 5 }, 'handler: expected a function, found 5'],
    ...[0, 129].map((bits) => [
      { ...common, policy: 'gcra 1/h', ipv6Subnet: bits },
      `ipv6Subnet: expected a whole number from 1 to 128, found ${bits}`,
    ]),
    ...[399, 600].map((status) => [
      { ...common, policy: 'gcra 1/h', statusCode: status },
      `statusCode: expected a whole number from 400 to 599, found ${status}`,
    ]),
    [{ limiter: {} }, 'limiter: expected a Limiter, found [object Object]'],
    [{ limiter: new Limiter('gcra 1/h', common), url }, /^a middleware with a limiter has no option 'url'/],
  ]) {
    assert.throws(() => rateLimit(options), { name: 'OptionError', message });
  }
});

test('fastify', async () => {
  const app = Fastify({ trustProxy: true });
  await app.register(
    fastifyRateLimit,
    fresh({ policy: 'gcra 1/h burst 2', identifier: 'api', message: { error: 'slow' } }),
  );
  app.get('/', async (request) => request.rateLimit.remaining);
  await app.register(async (scope) => {
    await scope.register(
      fastifyRateLimit,
      fresh({
        policy: 'gcra 1/h burst 1',
        standardHeaders: 'draft-7',
        handler: (_request, reply, decision) => reply.send({ left: decision.remaining }),
      }),
    );
    scope.get('/twice', async () => 'ok');
  });
  let served = 0;
  await app.register(async (scope) => {
    const handler = (_request, reply) => void setImmediate().then(() => reply.send('later'));
    await scope.register(fastifyRateLimit, fresh({ policy: 'gcra 1/h burst 1', handler }));
    scope.get('/later', async () => `${served++}`);
  });
  const get = (path = '/', from = '192.0.2.1') => app.inject({ url: path, headers: { 'x-forwarded-for': from } });
  const first = await get();
  assert.deepEqual(
    [first.statusCode, first.body, first.headers['ratelimit-policy'], first.headers.ratelimit],
    [200, '1', '"api";q=2', '"api";r=1;t=3600'],
  );
  await get();
  const denied = await get();
  assert.deepEqual([denied.statusCode, denied.json()], [429, { error: 'slow' }]);
  assert.equal((await get('/twice', '192.0.2.2')).statusCode, 200);
  const inner = await get('/twice', '192.0.2.2');
  assert.deepEqual([inner.statusCode, inner.json()], [429, { left: 0 }]);
  await get('/later', '192.0.2.3');
  const later = await get('/later', '192.0.2.3');
  assert.deepEqual([later.statusCode, later.body, served], [429, 'later', 1], 'the route does not run');
  await app.close();
});

// ---- the stores of other libraries ----------------------------------------------------------------------------------

// The validations of express-rate-limit report a mistake of a store to this logger.
function logger() {
  const lines = [];
  return {
    lines,
    warn: (error) => lines.push(error.code ?? error.message),
    error: (error) => lines.push(error.code ?? error.message),
  };
}

test('express-rate-limit: weir counts', async () => {
  const log = logger(),
    store = new ExpressStore(fresh());
  const get = await application(
    expressRateLimit({ windowMs: HOUR_S * 1000, limit: 2, standardHeaders: 'draft-7', store, logger: log }),
  );
  const results = [await get(), await get(), await get(), await get()];
  assert.deepEqual(
    results.map(({ status }) => status),
    [200, 200, 429, 429],
  );
  assert.deepEqual(
    results.map((one) => rounded(limitFields(one)).ratelimit),
    [
      'limit=2, remaining=1, reset=1h',
      'limit=2, remaining=0, reset=1h',
      'limit=2, remaining=0, reset=1h',
      'limit=2, remaining=0, reset=1h',
    ],
  );
  assert.equal(rounded(limitFields(results[2]))['retry-after'], '1h');
  assert.equal((await store.get('127.0.0.1')).totalHits, 4);
  await store.decrement('127.0.0.1');
  assert.equal((await store.get('127.0.0.1')).totalHits, 3);
  await store.resetKey('127.0.0.1');
  assert.equal(await store.get('127.0.0.1'), undefined);
  assert.equal((await get()).status, 200);
  await store.resetAll();
  assert.equal(await store.get('127.0.0.1'), undefined);
  assert.deepEqual(log.lines, []);
  store.shutdown();
});

test('express-rate-limit: a policy of weir decides', async () => {
  const log = logger(),
    store = new ExpressStore(fresh({ policy: 'gcra 1/h burst 3' }));
  const get = await application(
    expressRateLimit({ windowMs: 1000, limit: 3, standardHeaders: 'draft-8', store, logger: log }),
  );
  const results = [await get(), await get(), await get(), await get()];
  assert.deepEqual(
    results.map(({ status }) => status),
    [200, 200, 200, 429],
  );
  assert.match(limitFields(results[3]).ratelimit, /; r=0; t=3[56]\d\d$/);
  assert.deepEqual(log.lines, []);
  // The limit of the library may differ: the policy decides all the same.
  for (const limit of [1, 9, () => 9]) {
    const other = await application(
      expressRateLimit({
        windowMs: 1000,
        limit,
        store: new ExpressStore(fresh({ policy: 'gcra 1/h burst 3' })),
        logger: log,
      }),
    );
    assert.deepEqual(
      [await other(), await other(), await other(), await other()].map(({ status }) => status),
      [200, 200, 200, 429],
    );
  }
  expressRateLimit({ store: new ExpressStore(fresh({ policy: 'gcra 1/h' })), skipFailedRequests: true, logger: log });
  assert.deepEqual(log.lines, ['WEIR_OPTION']);
  assert.throws(() => new ExpressStore({ ...common, onError: 'open' }), {
    message: 'onError: not with a store: the library decides',
  });
});

test('express-rate-limit: validations of a store that is used twice, and an error of the store', async () => {
  const log = logger(),
    store = new ExpressStore(fresh());
  expressRateLimit({ store, logger: log });
  expressRateLimit({ store, logger: log });
  assert.deepEqual(log.lines, ['ERR_ERL_STORE_REUSE']);
  for (const [passOnStoreError, status] of [
    [false, 500],
    [true, 200],
  ]) {
    const nowhere = new ExpressStore({ url: 'weir://127.0.0.1:1' });
    const get = await application(expressRateLimit({ store: nowhere, passOnStoreError, logger: log }));
    assert.equal((await get()).status, status);
  }
});

test('express-rate-limit: skipFailedRequests refunds', async () => {
  const store = new ExpressStore(fresh());
  const get = await application(
    expressRateLimit({ windowMs: HOUR_S * 1000, limit: 2, skipFailedRequests: true, store }),
    500,
  );
  await get();
  while (await store.get('127.0.0.1'));
});

test('hono-rate-limiter', async () => {
  const app = new Hono();
  app.use(
    rateLimiter({ windowMs: HOUR_S * 1000, limit: 2, keyGenerator: () => 'k', store: new ExpressStore(fresh()) }),
  );
  app.get('/', (context) => context.text('ok'));
  const statuses = [];
  for (let i = 0; i < 3; i++) statuses.push((await app.request('/')).status);
  assert.deepEqual(statuses, [200, 200, 429]);
});

test('@fastify/rate-limit', async () => {
  const app = Fastify();
  await app.register(fastifyLimit, { max: 2, ban: 1, timeWindow: HOUR_S * 1000, store: fastifyStore(fresh()) });
  app.get('/', async () => 'ok');
  app.get('/own', { config: { rateLimit: { max: 1 } } }, async () => 'ok');
  const statuses = [];
  for (const path of ['/', '/', '/', '/', '/own', '/own']) statuses.push((await app.inject(path)).statusCode);
  assert.deepEqual(statuses, [200, 200, 429, 403, 200, 429]);
  assert.throws(() => new (fastifyStore(fresh()))({ continueExceeding: true }), { name: 'OptionError' });
  const decided = Fastify();
  await decided.register(fastifyLimit, { max: 9, store: fastifyStore(fresh({ policy: 'gcra 1/h burst 2' })) });
  decided.get('/', async () => 'ok');
  await decided.inject('/');
  await decided.inject('/');
  const denied = await decided.inject('/');
  assert.equal(denied.statusCode, 429);
  assert.match(denied.headers['retry-after'], /^3[56]\d\d$/);
});

test('@nestjs/throttler: the storage', async () => {
  const storage = new NestStorage(fresh());
  const hit = (name = 'default') => storage.increment('k', HOUR_S * 1000, 2, 2 * HOUR_S * 1000, name);
  assert.deepEqual(await hit(), { totalHits: 1, timeToExpire: 3600, isBlocked: false, timeToBlockExpire: 0 });
  assert.equal((await hit()).totalHits, 2);
  const blocked = await hit();
  assert.deepEqual([blocked.totalHits, blocked.isBlocked, blocked.timeToBlockExpire], [3, true, 7200]);
  assert.equal((await hit('other')).totalHits, 1);
  const unblocked = new NestStorage(fresh());
  for (const isBlocked of [false, true])
    assert.equal((await unblocked.increment('k', HOUR_S * 1000, 1, 0, 'default')).isBlocked, isBlocked);
  const policy = new NestStorage(fresh({ policy: 'gcra 1/h' }));
  for (const isBlocked of [false, true])
    assert.equal((await policy.increment('k', 1, 9, 0, 'default')).isBlocked, isBlocked);
  storage.onApplicationShutdown();
});

test('rate-limiter-flexible: a class of its shape', async () => {
  const limiter = new FlexibleLimiter({ ...common, keyPrefix: 'flex', points: 5, duration: HOUR_S });
  const plain = ({ remainingPoints, consumedPoints, isFirstInDuration }) => [
    remainingPoints,
    consumedPoints,
    isFirstInDuration,
  ];
  assert.equal(await limiter.get('a'), null);
  assert.deepEqual(plain(await limiter.consume('a', 2)), [3, 2, true]);
  assert.deepEqual(plain(await limiter.consume('a')), [2, 3, false]);
  assert.deepEqual(plain(await limiter.penalty('a')), [1, 4, false]);
  assert.deepEqual(plain(await limiter.reward('a', 2)), [3, 2, false]);
  const rejected = await limiter.consume('a', 4).then(
    () => assert.fail('allowed'),
    (result) => result,
  );
  assert.deepEqual(plain(rejected), [0, 6, false]);
  assert.ok(rejected.msBeforeNext > 3590000 && rejected.msBeforeNext <= 3600000);
  assert.deepEqual(plain(await limiter.get('a')), [3, 2, false]);
  const blocked = await limiter.block('b', 60);
  assert.ok(blocked.msBeforeNext > 50000 && blocked.msBeforeNext <= 60000, blocked.msBeforeNext);
  await assert.rejects(limiter.consume('b'), (result) => result.msBeforeNext > 50000 && result.msBeforeNext <= 60000);
  assert.deepEqual([await limiter.delete('b'), await limiter.delete('b')], [true, false]);
  assert.deepEqual(plain(await limiter.consume('b')), [4, 1, true]);
  const short = new FlexibleLimiter({ ...common, points: 1, duration: 1, blockDuration: HOUR_S });
  await short.consume('a');
  await assert.rejects(short.consume('a'), (result) => result.msBeforeNext > 3590000);
  for (const options of [
    { points: 5 },
    { points: 0, duration: 1 },
    { points: 5, duration: 1, execEvenly: true },
    { policy: 'gcra 1/h', points: 5 },
  ]) {
    assert.throws(() => new FlexibleLimiter({ ...common, ...options }), { name: 'OptionError' });
  }
  limiter.close();
});
