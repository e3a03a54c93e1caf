// SPDX-License-Identifier: BSD-2-Clause
// A daemon that is stopped, killed, slow or full, and one with a password or TLS. $CLIENT is ioredis or node-redis.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { AccessError, FullError, Limiter, UnavailableError } from 'weir';
import { startDaemon, until } from './daemon.mjs';

const ends = [];
after(async () => {
  for (const end of ends) await end();
});

async function daemonOf(options) {
  const daemon = await startDaemon(options);
  ends.push(() => daemon.kill());
  return daemon;
}

// A client of the application.
async function clientOf(url, tls) {
  const { hostname, port } = new URL(url);
  if (process.env.CLIENT === 'ioredis') {
    const client = new Redis({
      host: hostname,
      port,
      tls,
      autoResendUnfulfilledCommands: false,
      enableOfflineQueue: false,
    });
    client.on('error', () => {});
    ends.push(() => client.disconnect());
    await once(client, 'ready');
    return client;
  }
  const client = createClient({ url: url.replace('weir', 'redis'), disableOfflineQueue: true });
  client.on('error', () => {});
  await client.connect();
  ends.push(() => client.destroy());
  return client;
}

function limiterOf(url, options) {
  const limiter = new Limiter('api', { url, ...options });
  ends.push(() => limiter.close());
  return limiter;
}

const decides = (limiter, key = 'probe') =>
  until(async () => (await limiter.peek(key)).reason === 'limit', 'the daemon decides');
const without = ({ error, ...decision }) => decision;
const UNDECIDED = { limit: 0, remaining: 0, retryAfterMs: 0, resetAfterMs: 0, delayMs: 0, reason: 'on-error' };

test('without a daemon, onError decides', async () => {
  const reports = [];
  const url = 'weir://127.0.0.1:1';
  const open = limiterOf(url, { onFailure: (error) => reports.push(error) });
  const closed = limiterOf(url, { onError: 'closed' }),
    thrown = limiterOf(url, { onError: 'throw' });
  const decision = await open.check('a');
  assert.deepEqual(without(decision), { allowed: true, ...UNDECIDED });
  assert.ok(decision.error instanceof UnavailableError && decision.error.code === 'WEIR_UNAVAILABLE');
  assert.deepEqual([open.failures, reports], [1, [decision.error]]);
  assert.deepEqual(without(await closed.check('a')), { allowed: false, ...UNDECIDED });
  await assert.rejects(thrown.check('a'), UnavailableError);
  assert.equal(thrown.failures, 1);
  const reservation = await open.reserve('a', 1, 1000);
  assert.deepEqual(
    [reservation.allowed, reservation.id, await reservation.commit(1)],
    [true, null, reservation.decision],
  );
  assert.equal(await open.concurrent('a', () => 7), 7);
  await assert.rejects(
    closed.concurrent('a', () => 7),
    { code: 'WEIR_DENIED' },
  );
  assert.equal(await open.reset('a'), undefined);
  assert.throws(() => open.checkSync('a'), { name: 'OptionError' });
});

test('a daemon that hangs: requests time out, are charged at most once, and later ones are decided', async () => {
  const daemon = await daemonOf();
  const limiter = limiterOf(daemon.url, { timeout: 200 });
  await decides(limiter);
  await daemon.pause();
  const begin = Date.now();
  const answers = await Promise.all(Array.from({ length: 5 }, () => limiter.check('a')));
  assert.ok(Date.now() - begin < 20000);
  assert.deepEqual(answers.map(without), Array(5).fill({ allowed: true, ...UNDECIDED }));
  assert.equal(answers[0].error.message, 'no reply within 200 ms');
  daemon.resume();
  await decides(limiter);
  await until(async () => (await limiter.peek('a')).remaining === 5, 'five charges');
});

test('a daemon that hangs for long: requests fail at once', async () => {
  const daemon = await daemonOf();
  const limiter = limiterOf(daemon.url, { timeout: 200 });
  await decides(limiter);
  await daemon.pause();
  await Promise.all(Array.from({ length: 16 }, () => limiter.check('a')));
  assert.equal((await limiter.check('a')).error.message, 'the daemon has not replied to 16 requests');
  daemon.resume();
  await decides(limiter);
});

test('a killed daemon: nothing is sent again to the next one', async () => {
  const daemon = await daemonOf();
  const limiter = limiterOf(daemon.url, { timeout: 5000 });
  await decides(limiter);
  await daemon.pause();
  const lost = Array.from({ length: 5 }, () => limiter.check('a'));
  await new Promise(setImmediate);
  await daemon.kill();
  assert.deepEqual((await Promise.all(lost)).map(without), Array(5).fill({ allowed: true, ...UNDECIDED }));
  assert.equal((await limiter.check('a')).reason, 'on-error');
  await daemonOf({ port: daemon.port });
  await decides(limiter);
  assert.equal((await limiter.peek('a')).remaining, 10);
});

test('a slow daemon: late replies do not answer other requests', async () => {
  const daemon = await daemonOf();
  let holding = false;
  const held = [];
  const proxy = createServer((from) => {
    const to = connect(daemon.port, '127.0.0.1');
    from.pipe(to);
    to.on('data', (data) => (holding ? held.push(() => from.write(data)) : from.write(data)));
    for (const [one, other] of [
      [from, to],
      [to, from],
    ])
      one.on('error', () => {}).on('close', () => other.destroy());
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  ends.push(() => proxy.close());
  const limiter = limiterOf(`weir://127.0.0.1:${proxy.address().port}`, { timeout: 300 });
  await decides(limiter);
  await limiter.check('b', { cost: 7 });
  holding = true;
  assert.equal((await limiter.check('a')).reason, 'on-error');
  holding = false;
  for (const release of held) release();
  await decides(limiter);
  assert.deepEqual([(await limiter.peek('b')).remaining, (await limiter.peek('a')).remaining], [3, 9]);
});

test('replies that are no decisions', async () => {
  const daemon = await daemonOf();
  let reply;
  const proxy = createServer((from) => {
    const to = connect(daemon.port, '127.0.0.1');
    from.pipe(to).on('error', () => {});
    to.on('data', (data) => from.write(reply ?? data)).on('close', () => from.destroy());
    from.on('error', () => {}).on('close', () => to.destroy());
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  ends.push(() => proxy.close());
  const limiter = limiterOf(`weir://127.0.0.1:${proxy.address().port}`, { timeout: 5000, onError: 'closed' });
  await decides(limiter);
  for (const wrong of ['+OK', ':1', '*1\r\n:1', '*-1', '*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n+x', '-ERR max number of clients reached']) {
    for (const next of [false, true]) {
      reply = `${wrong}\r\n`;
      const { error, ...decision } = await limiter.check('a', { next });
      assert.deepEqual(decision, { allowed: false, ...UNDECIDED }, reply);
      assert.ok(error instanceof UnavailableError, error);
    }
  }
});

test('closing a limiter leaves the others of its connection', async () => {
  const daemon = await daemonOf();
  const [one, other] = [1, 2].map(() => limiterOf(daemon.url, { timeout: 5000 }));
  assert.equal((await one.check('a')).remaining, 9);
  one.close();
  one.close();
  assert.equal((await other.check('a')).remaining, 8);
  await assert.rejects(one.check('a'), { message: "limiter: expected an open one, found 'a closed one'" });
});

test('the result of concurrent() is kept if the daemon is killed', async () => {
  const daemon = await daemonOf({ policies: { api: 'concurrent 5 lease 60s' } });
  const limiter = limiterOf(daemon.url, { timeout: 5000, onError: 'throw' });
  const during = (end) => async () => {
    await daemon.kill();
    return end();
  };
  await limiter.concurrent('a', () => 1);
  assert.equal(await limiter.concurrent('a', during(() => 7)), 7);
  assert.equal(limiter.failures, 1);
});

test('a full daemon', async () => {
  const daemon = await daemonOf({
    more: 'memory: {size: 1m, when_full: refuse}',
    policies: { api: 'gcra 1/h burst 30000' },
  });
  const limiter = limiterOf(daemon.url, { timeout: 30000, onError: 'closed' });
  const reserved = await Promise.all(Array.from({ length: 2000 }, () => limiter.reserve('a', 1, 3600000)));
  const full = reserved.find(({ decision }) => decision.reason === 'on-error');
  assert.ok(!full.allowed && full.decision.error instanceof FullError, full.decision.error);
});

test('a password', async () => {
  const daemon = await daemonOf({ more: 'memory: {size: 16m}\npassword: open sesame' });
  const right = limiterOf(daemon.url.replace('//', '//:open%20sesame@'), { timeout: 5000, onError: 'throw' });
  assert.equal((await right.check('a')).remaining, 9);
  for (const url of [daemon.url, daemon.url.replace('//', '//:wrong@')]) {
    await assert.rejects(
      limiterOf(url, { timeout: 5000 }).check('a'),
      (error) => (error instanceof AccessError && error.code === 'WEIR_ACCESS') || assert.fail(error),
    );
  }
});

test('TLS', async () => {
  const { WEIR_DIR: dir } = process.env;
  const daemon = await daemonOf({
    more: `memory: {size: 16m}\ntls: {cert: ${dir}/server.pem, key: ${dir}/server.key}`,
  });
  const url = daemon.url.replace('weir:', 'weirs:');
  const tls = { ca: readFileSync(`${dir}/authority.pem`) };
  assert.equal((await limiterOf(url, { tls, timeout: 5000, onError: 'throw' }).check('a')).remaining, 9);
  await assert.rejects(limiterOf(url, { timeout: 5000, onError: 'throw' }).check('a'), UnavailableError);
  assert.throws(() => new Limiter('api', { url: daemon.url, tls }), { name: 'OptionError' });
});

test('a client of the application', async () => {
  const daemon = await daemonOf();
  const client = await clientOf(daemon.url);
  const limiter = limiterOf(daemon.url, { client, timeout: 5000, onError: 'throw' });
  assert.equal((await limiter.check('a')).remaining, 9);
  assert.equal((await limiter.check('a', { next: true })).nextMs, 0);
  limiter.close();
  assert.equal(await client.ping(), 'PONG');
  for (const unsafe of [new Redis({ lazyConnect: true }), createClient(), {}]) {
    assert.throws(() => new Limiter('api', { url: daemon.url, client: unsafe }), {
      name: 'OptionError',
      message: /^client: expected /,
    });
  }
});

test('RESP3', { skip: process.env.CLIENT === 'ioredis' }, async () => {
  const daemon = await daemonOf();
  const client = createClient({ url: daemon.url.replace('weir', 'redis'), disableOfflineQueue: true, RESP: 3 });
  client.on('error', () => {});
  await client.connect();
  ends.push(() => client.destroy());
  const limiter = limiterOf(daemon.url, { client, timeout: 5000, onError: 'throw' });
  assert.deepEqual(
    await limiter.check('a', { cost: 10, keep: 0, next: true }).then(({ allowed, remaining }) => [allowed, remaining]),
    [true, 0],
  );
  assert.ok((await limiter.peek('a', { next: true })).nextMs > 0);
});

test('names and their mistakes', async () => {
  const daemon = await daemonOf();
  await assert.rejects(new Limiter('nobody', { url: daemon.url, timeout: 5000 }).check('a'), {
    name: 'PolicyError',
    code: 'WEIR_POLICY',
    message: "no policy 'nobody'; WEIR.POLICY LIST shows all policies",
  });
  for (const url of ['weir://h:0', 'weir://:%ZZ@h', 'weir://[::1']) {
    assert.throws(() => new Limiter('api', { url }), {
      message: `url: expected weir://HOST:PORT or weir+file:///PATH, found '${url}'`,
    });
  }
  assert.throws(() => new Limiter('api', { url: daemon.url, timeout: 0 }), {
    message: 'timeout: expected a whole number from 1 to 2147483647, found 0',
  });
  assert.throws(() => new Limiter('api', { url: daemon.url, memory: 1 }), {
    name: 'OptionError',
    message: /has no option 'memory'/,
  });
});
