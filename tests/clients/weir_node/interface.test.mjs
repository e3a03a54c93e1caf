// SPDX-License-Identifier: BSD-2-Clause
// The interface of the limiter, the same in both ways: $WEIR_URL is weir:// or weir+file:.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { DeniedError, Limiter, OptionError, PolicyError, ReservationError, UnsupportedError } from 'weir';

const url = process.env.WEIR_URL;
const FIVE = 'gcra 1/365d burst 5';
const UNIT_MS = 365 * 86400000;
const made = [];

function limiter(policy, options) {
  made.push(
    new Limiter(policy, { url, onError: 'throw', ...(url.startsWith('weir:') && { timeout: 10000 }), ...options }),
  );
  return made.at(-1);
}

after(() => made.forEach((one) => one.close()));

// The decision without its times, which depend on the clock.
const counts = ({ allowed, limit, remaining, reason, over }) => [allowed, limit, remaining, reason, over];

test('a limit is reached', async () => {
  const five = limiter(FIVE);
  assert.deepEqual(await five.check('a'), {
    allowed: true,
    limit: 5,
    remaining: 4,
    retryAfterMs: 0,
    resetAfterMs: UNIT_MS,
    delayMs: 0,
    reason: 'limit',
  });
  assert.deepEqual(counts(await five.check('a', { cost: 4 })), [true, 5, 0, 'limit', undefined]);
  const denied = await five.check('a');
  assert.deepEqual(counts(denied), [false, 5, 0, 'limit', undefined]);
  assert.ok(denied.retryAfterMs > UNIT_MS - 60000 && denied.retryAfterMs <= UNIT_MS, denied.retryAfterMs);
  assert.ok(denied.resetAfterMs > 5 * UNIT_MS - 60000 && denied.resetAfterMs <= 5 * UNIT_MS, denied.resetAfterMs);
  assert.deepEqual(counts(await five.check('b')), [true, 5, 4, 'limit', undefined]);
  assert.equal(five.failures, 0);
});

test('a cost above the limit is never allowed, and a cost of 0 charges nothing', async () => {
  const five = limiter(FIVE, { prefix: 'never:' });
  assert.deepEqual(await five.check('a', { cost: 6 }), {
    allowed: false,
    limit: 5,
    remaining: 5,
    retryAfterMs: -1,
    resetAfterMs: 0,
    delayMs: 0,
    reason: 'limit',
  });
  assert.deepEqual(counts(await five.check('a', { cost: 0 })), [true, 5, 5, 'limit', undefined]);
});

test('next: the time until a cost of 1 is allowed', async () => {
  const five = limiter(FIVE, { prefix: 'next:' });
  assert.equal((await five.check('a', { cost: 4, next: true })).nextMs, 0);
  const last = await five.check('a', { next: true });
  assert.ok(last.allowed && last.nextMs > UNIT_MS - 60000 && last.nextMs <= UNIT_MS, last.nextMs);
  assert.equal('nextMs' in (await five.check('a')), false);
  assert.equal((await five.check('a', { keep: 5, next: true })).nextMs, -1);
});

test('keep leaves units for others', async () => {
  const five = limiter(FIVE, { prefix: 'keep:' });
  assert.deepEqual(counts(await five.check('a', { cost: 1, keep: 4 })), [true, 5, 0, 'limit', undefined]);
  assert.deepEqual(counts(await five.check('a', { keep: '80%' })), [false, 5, 0, 'limit', undefined]);
  assert.deepEqual(counts(await five.check('a', { keep: '60%' })), [true, 5, 0, 'limit', undefined]);
  assert.deepEqual(counts(await five.peek('a', { cost: 3 })), [true, 5, 3, 'limit', undefined]);
  assert.deepEqual(counts(await five.peek('a', { cost: 3, keep: 1 })), [false, 5, 2, 'limit', undefined]);
});

test('refund, charge, reset and resetAll', async () => {
  const five = limiter('gcra 1/365d burst 6', { prefix: 'more:' });
  await five.check('a', { cost: 6 });
  assert.deepEqual(counts(await five.refund('a', 2)), [true, 6, 2, 'limit', undefined]);
  assert.deepEqual(counts(await five.refund('a')), [true, 6, 3, 'limit', undefined]);
  assert.deepEqual(counts(await five.charge('a')), [true, 6, 2, 'limit', 0]);
  const debt = await five.charge('a', 4);
  assert.deepEqual(counts(debt), [false, 6, 0, 'limit', 0]);
  assert.ok(debt.retryAfterMs > 2 * UNIT_MS - 60000 && debt.retryAfterMs <= 2 * UNIT_MS, debt.retryAfterMs);
  await five.check('b');
  assert.equal(await five.reset('a'), undefined);
  assert.equal((await five.peek('a')).remaining, 6);
  assert.equal((await five.peek('b')).remaining, 5);
  await five.check('a');
  assert.equal(await five.resetAll(), undefined);
  assert.deepEqual([(await five.peek('a')).remaining, (await five.peek('b')).remaining], [6, 6]);
  await assert.rejects(
    limiter('leaky-queue 1/h depth 2').refund('a'),
    (error) =>
      error instanceof UnsupportedError &&
      error.code === 'WEIR_UNSUPPORTED' &&
      error.message === 'leaky-queue and count-denied policies do not support refunds',
  );
});

test('a leaky queue delays', async () => {
  const queue = limiter('leaky-queue 1/h depth 2');
  assert.equal((await queue.check('a')).delayMs, 0);
  const { allowed, delayMs } = await queue.check('a');
  assert.ok(allowed && delayMs > 3540000 && delayMs <= 3600000, delayMs);
});

test('a reservation is committed, cancelled or renewed', async () => {
  const ten = limiter('gcra 1/365d burst 10', { prefix: 'reserve:' });
  const first = await ten.reserve('a', 6, 60000);
  assert.match(first.id, /^[0-9a-f]{16}$/);
  assert.deepEqual([first.allowed, first.decision.remaining], [true, 4]);
  assert.equal((await first.renew(120000)).remaining, 4);
  assert.deepEqual(counts(await first.commit(8)), [true, 10, 2, 'limit', 0]);
  assert.equal(await first.commit(1), first.decision); // it is settled once
  assert.equal((await ten.peek('a')).remaining, 2);
  const denied = await ten.reserve('a', 3, 1000);
  assert.deepEqual([denied.allowed, denied.id, denied.decision.remaining], [false, null, 2]);
  assert.equal(await denied.cancel(), denied.decision);
  const second = await ten.reserve('a', 2, 60000);
  assert.equal((await second.cancel()).remaining, 2);
  const third = await ten.reserve('a', 2, 60000);
  await third[Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]();
  assert.equal((await ten.peek('a')).remaining, 2);
  const short = await ten.reserve('a', 1, 1);
  for (let error; !error;) {
    error = await short.renew(1).then(
      () => null,
      (reason) => reason,
    );
    assert.ok(error === null || (error instanceof ReservationError && error.code === 'WEIR_RESERVATION'), error);
  }
  await assert.rejects(ten.reserve('a', 1, 0), OptionError);
  await assert.rejects(ten.reserve('a', 1), OptionError); // only a concurrent layer has a lease
  await assert.rejects(ten.reserve('a', 1, 1.5), OptionError);
});

test('concurrent holds a unit while a function runs', async () => {
  const two = limiter('concurrent 2 lease 60s', { prefix: 'two:' });
  const results = await Promise.allSettled([1, 2, 3].map((n) => two.concurrent('a', async () => n)));
  assert.deepEqual(
    results.map(({ value }) => value),
    [1, 2, undefined],
  );
  assert.ok(results[2].reason instanceof DeniedError);
  assert.equal(results[2].reason.code, 'WEIR_DENIED');
  assert.equal(results[2].reason.decision.allowed, false);
  assert.equal((await two.peek('a')).remaining, 2);
  await assert.rejects(
    two.concurrent('a', () => {
      throw new RangeError('x');
    }),
    RangeError,
  );
  assert.equal((await two.peek('a')).remaining, 2);
});

test('concurrent renews a short lease', async () => {
  const one = limiter('concurrent 1 lease 2s', { prefix: 'lease:' });
  await one.concurrent(
    'a',
    async () => {
      for (const end = Date.now() + 2500; Date.now() < end; await setImmediate()) {
        assert.equal((await one.peek('a')).allowed, false);
      }
    },
    { ttl: 2000 },
  );
  assert.equal((await one.peek('a')).allowed, true);
});

test('addresses are networks, unless there is a prefix', async () => {
  const five = limiter('gcra 1/365d burst 3');
  await five.check('2001:db8::1');
  assert.equal((await five.check('2001:DB8:0:0:ffff::2')).remaining, 1);
  const prefixed = limiter('gcra 1/365d burst 3', { prefix: 'ip:' });
  await prefixed.check('2001:db8::1');
  assert.equal((await prefixed.check('2001:db8::2')).remaining, 2);
  assert.equal((await five.check('ip:2001:db8::2')).remaining, 1); // the same key
});

test('prefixes keep keys apart', async () => {
  const one = limiter(FIVE, { prefix: 'x:' }),
    other = limiter(FIVE, { prefix: 'y:' });
  await one.check('a');
  assert.equal((await other.check('a')).remaining, 4);
  assert.equal((await limiter(FIVE, { prefix: 'x:' }).check('a')).remaining, 3);
});

test('keys are any text', async () => {
  const five = limiter(FIVE, { prefix: 'text:' });
  for (const key of ['a b', 'ä€😀', '\0', 'x'.repeat(65000)]) {
    assert.equal((await five.check(key)).remaining, 4, key.slice(0, 10));
    assert.equal((await five.check(key)).remaining, 3, key.slice(0, 10));
  }
});

const wrongArguments = [
  [(l) => l.check(''), "key: expected a string that is not empty, found ''"],
  [(l) => l.check(7), 'key: expected a string that is not empty, found 7'],
  [(l) => l.check('a', { cost: -1 }), 'cost: expected a whole number from 0 to 2147483647, found -1'],
  [(l) => l.check('a', { cost: 2147483648 }), 'cost: expected a whole number from 0 to 2147483647, found 2147483648'],
  [(l) => l.check('a', { cost: 1.5 }), 'cost: expected a whole number from 0 to 2147483647, found 1.5'],
  [(l) => l.check('a', { keep: '101%' }), "keep: expected a whole number from 0 to 2147483647, found '101%'"],
  [(l) => l.check('a', { cots: 2 }), "a check has no option 'cots', expected one of cost, keep, next"],
  [(l) => l.check('a', 5), 'a check: expected an object of options, found 5'],
  [(l) => l.check('a', null), 'a check: expected an object of options, found null'],
  [(l) => l.check('x'.repeat(65531)), 'the key has 65537 bytes, expected 1 to 65536'],
  [(l) => l.check('é'.repeat(32766)), 'the key has 65538 bytes, expected 1 to 65536'],
  [(l) => l.concurrent('a', () => 1, { tll: 5 }), "concurrent() has no option 'tll', expected one of ttl"],
  [(l) => l.refund('a', '1'), "cost: expected a whole number from 0 to 2147483647, found '1'"],
  [(l) => l.charge('a', NaN), 'cost: expected a whole number from 0 to 2147483647, found NaN'],
];

test('wrong arguments are errors', async () => {
  const five = limiter(FIVE, { prefix: 'wrong:' });
  for (const [call, message] of wrongArguments) {
    await assert.rejects(call(five), { name: 'OptionError', code: 'WEIR_OPTION', message });
  }
  assert.equal(five.failures, 0);
});

const wrongOptions = [
  [['', { url }], "policy: expected a policy text or a name, found ''"],
  [[FIVE, {}], 'url: expected weir://HOST:PORT or weir+file:///PATH, found undefined'],
  [[FIVE, { url: 'http://x' }], "url: expected weir://HOST:PORT or weir+file:///PATH, found 'http://x'"],
  [[FIVE, { url: `${url}?a=1` }], /^url: expected .*, found .*\?a=1$/],
  [[FIVE, { url, onError: 'maybe' }], "onError: expected 'open', 'closed' or 'throw', found 'maybe'"],
  [[FIVE, { url, onFailure: 1 }], 'onFailure: expected a function, found 1'],
  [
    [FIVE, { url, prefix: 'a:' }],
    "prefix: expected a string that no IP address begins with, such as 'api:', found 'a:'",
  ],
  [
    [FIVE, { url, retries: 3 }],
    /^a limiter with weir(\+file)?:\/\/ has no option 'retries', expected one of url, prefix, /,
  ],
];

test('wrong options are errors', () => {
  for (const [args, message] of wrongOptions) {
    assert.throws(() => new Limiter(...args), { name: 'OptionError', code: 'WEIR_OPTION', message });
  }
});

test('a mistake in a policy is an error with its column', async () => {
  const message = "policy: column 8: unknown unit 'q', expected one of ns us ms s m h d w";
  const call = async () => limiter('gcra 1/q burst 2').check('a');
  await assert.rejects(
    call,
    (error) => error instanceof PolicyError && error.code === 'WEIR_POLICY' && error.message === message,
  );
});

test('a policy may have a time zone', async () => {
  assert.equal((await limiter('fixed-window 3/year tz Europe/Berlin').check('a')).remaining, 2);
  await assert.rejects(async () => limiter('fixed-window 3/day tz Europe/Nowhere').check('a'), PolicyError);
});
