// SPDX-License-Identifier: BSD-2-Clause
// The file mode alone: several processes and threads, killed processes, and files that cannot be used. $WEIR_DIR is an
// empty directory.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, openSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync, writeSync } from 'node:fs';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { startDaemon } from './daemon.mjs';
import { FileError, FullError, ipKey, Limiter, UnavailableError } from 'weir';

const here = (name) => `${process.env.WEIR_DIR}/${name}`;
const small = (name, more) => ({ url: `weir+file://${here(name)}`, memory: 8 << 20, ...more });
const fails = (options, message, policy = 'gcra 1/h') =>
  assert.throws(
    () => new Limiter(policy, options),
    (error) =>
      (error instanceof FileError && error.code === 'WEIR_FILE' && message.test(error.message)) || assert.fail(error),
  );

test('limiters of a process share the store of a file', async () => {
  const one = new Limiter('gcra 1/h burst 5', small('shared')),
    two = new Limiter('gcra 1/h burst 5', small('shared'));
  symlinkSync(here('shared'), here('link'));
  const link = new Limiter('gcra  1/h  burst 5', small('link'));
  one.checkSync('a');
  two.checkSync('a');
  assert.equal(link.checkSync('a').remaining, 2);
  one.close();
  assert.equal(two.checkSync('a').remaining, 1);
  two.close();
  link.close();
  assert.throws(() => link.checkSync('a'), {
    name: 'OptionError',
    message: "limiter: expected an open one, found 'a closed one'",
  });
  const again = new Limiter('gcra 1/h burst 5', { url: small('shared').url });
  assert.equal((await again.check('a')).remaining, 0); // the file keeps its size
  again.close();
});

test('checkSync decides as check', () => {
  const five = new Limiter('gcra 1/365d burst 5', small('sync'));
  assert.deepEqual(five.checkSync('a', { cost: 2, keep: '20%' }), {
    allowed: true,
    limit: 5,
    remaining: 2,
    retryAfterMs: 0,
    resetAfterMs: 2 * 365 * 86400000,
    delayMs: 0,
    reason: 'limit',
  });
  five.close();
});

test('a clock for tests', () => {
  let now = 1_000_000_000n;
  const one = new Limiter('gcra 1/s', small('clock', { clock: () => now }));
  assert.equal(one.checkSync('a').allowed, true);
  now += 999_999_999n;
  assert.equal(one.checkSync('a').retryAfterMs, 1);
  now += 1n;
  assert.equal(one.checkSync('a').allowed, true);
  for (const extreme of [0n, 7n << 60n]) {
    now = extreme;
    assert.equal(one.checkSync(`at ${now}`).allowed, true);
  }
  for (const beyond of [-1n, (7n << 60n) + 1n, 1n << 64n]) {
    now = beyond;
    assert.throws(() => one.checkSync('b'), { name: 'OptionError', message: /^clock: / });
  }
  const wrong = new Limiter('gcra 1/s', small('clock', { clock: Date.now }));
  assert.throws(() => wrong.checkSync('a'), {
    name: 'OptionError',
    message: /^clock: expected a BigInt of ns from 0 to 8070450532247928832, found \d+$/,
  });
  assert.throws(() => new Limiter('gcra 1/s', small('clock', { clock: 5 })), {
    message: 'clock: expected a function, found 5',
  });
});

test('threads share the store', async () => {
  const code = `const { Limiter } = require('weir'); const { parentPort, workerData } = require('node:worker_threads');
    const limiter = new Limiter('fixed-window 1000/365d from-first', workerData); let allowed = 0;
    for (let i = 0; i < 500; i++) allowed += limiter.checkSync('a').allowed; parentPort.postMessage(allowed);`;
  const threads = Array.from({ length: 4 }, () => new Worker(code, { eval: true, workerData: small('threads') }));
  const counts = await Promise.all(
    threads.map(async (thread) => {
      const [[count]] = await Promise.all([once(thread, 'message'), once(thread, 'exit')]);
      return count;
    }),
  );
  assert.equal(
    counts.reduce((sum, n) => sum + n),
    1000,
  );
});

test('a killed process leaves the file usable', { timeout: 60000 }, async () => {
  const limiter = new Limiter('sliding-log 1000000/365d', small('killed'));
  for (let i = 0; i < 5; i++) {
    const child = fork(new URL('hammer.mjs', import.meta.url), [small('killed').url]);
    await once(child, 'message');
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.equal(limiter.checkSync('a').allowed, true);
  }
  limiter.close();
});

test('files that cannot be used', () => {
  writeFileSync(here('other'), 'x'.repeat(8 << 20), { mode: 0o600 });
  fails(small('other'), /\/other: /);
  new Limiter('gcra 1/h', small('version')).close();
  writeSync(openSync(here('version'), 'r+'), Uint8Array.of(99), 0, 1, 16); // state_version of the header
  fails(small('version'), /\/version: /);
  new Limiter('gcra 1/h', small('rights')).close();
  chmodSync(here('rights'), 0o666);
  fails(small('rights'), /writable by other users/);
  fails({ url: `weir+file://${here('none/file')}` }, /ENOENT/);
  writeFileSync(here('empty'), '', { mode: 0o600 });
  fails(small('empty'), /: it is empty; delete it to begin with an empty one$/);
  const urls = [`weir+file://${here('a')}%00b`, `weir+file://${here('a')}%E0%A4%A`, 'weir+file:a', 'weir+file://'];
  for (const url of urls) assert.throws(() => new Limiter('gcra 1/h', { url }), { name: 'OptionError' }, url);
  fails(small('small', { memory: 1 << 20 }), /./);
});

test('one process opens a file with one set of options', () => {
  const first = new Limiter('gcra 1/h', small('options'));
  for (const more of [{ memory: 16 << 20 }, { sync: '1s' }, { whenFull: 'refuse' }]) {
    fails(small('options', more), /this process has opened the file with other options: memory, sync or whenFull/);
  }
  first.close();
  new Limiter('gcra 1/h', small('options', { sync: '1s', whenFull: 'refuse' })).close();
});

test('options of the file mode are checked', () => {
  for (const [more, message] of [
    [{ sync: 'always' }, "sync: expected 'never' or '1s', found 'always'"],
    [{ whenFull: 'wait' }, "whenFull: expected 'evict' or 'refuse', found 'wait'"],
    [{ memory: '8m' }, `memory: expected a whole number from 0 to ${Number.MAX_SAFE_INTEGER}, found '8m'`],
    [{ timeout: 5 }, /^a limiter with weir\+file:\/\/ has no option 'timeout', expected one of url, .*, policies, memory, sync, whenFull, clock$/],
  ]) {
    assert.throws(() => new Limiter('gcra 1/h', small('checked', more)), { name: 'OptionError', message });
  }
});

test('a full store refuses, and onError decides', async () => {
  const failures = [];
  const options = small('full', { whenFull: 'refuse', onFailure: (error) => failures.push(error) });
  const open = new Limiter('gcra 1/h', options),
    closed = new Limiter('gcra 1/h', { ...options, onError: 'closed' });
  const thrown = new Limiter('gcra 1/h', { ...options, onError: 'throw' });
  let refused;
  for (let i = 0; !refused; i++) {
    assert.ok(i < 1e6, 'the store is never full');
    const decision = open.checkSync(`key-${i}`);
    if (decision.reason === 'on-error') refused = [i, decision];
  }
  const [i, { error, ...decision }] = refused;
  assert.deepEqual(decision, {
    allowed: true,
    limit: 0,
    remaining: 0,
    retryAfterMs: 0,
    resetAfterMs: 0,
    delayMs: 0,
    reason: 'on-error',
  });
  assert.ok(error instanceof FullError && error instanceof UnavailableError && error.code === 'WEIR_FULL');
  assert.equal((await closed.check(`key-${i}`)).allowed, false);
  await assert.rejects(thrown.check(`key-${i}`), FullError);
  assert.throws(() => thrown.checkSync(`key-${i}`), FullError);
  assert.deepEqual([open.failures, closed.failures, thrown.failures, failures.length], [1, 1, 2, 4]);
  assert.equal(failures[0], error);
  assert.equal(open.checkSync('key-0').allowed, false); // known keys are decided
  for (const limiter of [open, closed, thrown]) limiter.close();
});

test('a file that is moved or removed is reported once', async () => {
  for (const [change, word] of [
    [(file) => rmSync(file), 'was removed'],
    [(file) => renameSync(file, `${file}2`), 'was moved'],
  ]) {
    let report;
    const reported = new Promise((resolve) => {
      report = resolve;
    });
    const limiter = new Limiter('gcra 1/h', small('gone', { onFailure: report }));
    change(here('gone'));
    const alive = setInterval(() => {}, 1000); // the watch does not keep the process alive
    const error = await reported;
    clearInterval(alive);
    assert.ok(error instanceof FileError && error.message.includes(word), error.message);
    assert.equal(limiter.failures, 1);
    assert.equal(limiter.checkSync('a').allowed, true);
    limiter.close();
  }
});

test('a daemon that shares the file counts together with the package', async () => {
  const policy = 'gcra 1/365d burst 5';
  const daemon = await startDaemon({
    policies: { api: policy },
    more: `memory: {size: 8m, file: ${here('daemon')}, shared: true}`,
  });
  const options = { url: daemon.url, timeout: 10000, onError: 'throw' };
  const [text, name] = [policy, 'api'].map((one) => new Limiter(one, options));
  const textInFile = new Limiter(policy, small('daemon'));
  const nameInFile = new Limiter('api', small('daemon', { policies: { api: policy, other: 'gcra 1/s' } }));
  for (const key of ['alice', '2001:db8::1']) {
    await text.check(key);
    await name.check(key);
    await name.check(key);
    assert.equal(textInFile.checkSync(key).remaining, 3);
    assert.equal(nameInFile.checkSync(key).remaining, 2);
    assert.equal((await name.peek(key)).remaining, 2);
  }
  await nameInFile.resetAll();
  assert.deepEqual([(await name.check('alice')).remaining, (await text.check('alice')).remaining], [4, 2]);
  await name.resetAll();
  assert.equal(nameInFile.checkSync('alice').remaining, 4);
  const other = new Limiter('other', small('daemon', { policies: { other: policy } }));
  assert.equal(other.checkSync('alice').remaining, 4);
  for (const limiter of [text, name, textInFile, nameInFile, other]) limiter.close();
  await daemon.kill();
});

test('keys keep what they used when the policy of a name changes', () => {
  const limiter = (policy) => new Limiter('api', small('changed', { policies: { api: policy } }));
  const five = limiter('gcra 1/365d burst 5');
  assert.equal(five.checkSync('a', { cost: 2 }).remaining, 3);
  const nine = limiter('gcra 1/365d burst 9');
  assert.equal(nine.checkSync('a').remaining, 6);
  for (const one of [five, nine]) one.close();
});

test('names of policies and their mistakes', () => {
  const wrong = (policy, policies, name, message) =>
    assert.throws(() => new Limiter(policy, small('names', { policies })), { name, message });
  const unknown = "policy: expected a policy text such as 'gcra 10/m burst 5', or a name in policies";
  wrong('api', undefined, 'PolicyError', `${unknown}, found 'api'`);
  wrong('api', { a: 'gcra 1/s', b: 'gcra 1/s' }, 'PolicyError', `${unknown}: a, b, found 'api'`);
  wrong('constructor', {}, 'PolicyError', `${unknown}: , found 'constructor'`);
  wrong('api', { api: 5 }, 'PolicyError', `${unknown}: api, found 'api'`);
  wrong('api', { api: 'gcra 1/x' }, 'PolicyError', /^policy: column 8: /);
  for (const name of ['a'.repeat(65), 'é', 'a\0b', 'a'.repeat(200)]) {
    const message = 'the name of a policy: expected 1 to 64 letters, digits and - _ . : /';
    wrong(name, { [name]: 'gcra 1/s' }, 'PolicyError', message);
  }
  const both = 'policies: expected an object of names and policy texts, and a name as the policy';
  wrong('gcra 1/s', { api: 'gcra 1/s' }, 'OptionError', `${both}, found 'gcra 1/s'`);
  wrong('api', null, 'OptionError', `${both}, found null`);
  wrong('api', 'gcra 1/s', 'OptionError', `${both}, found 'gcra 1/s'`);
  const longest = 'a'.repeat(64);
  new Limiter(longest, small('names', { policies: { [longest]: 'gcra 1/s' } })).close();
  assert.throws(() => new Limiter('api', { url: 'weir://127.0.0.1', policies: {} }), {
    message: /^a limiter with weir:\/\/ has no option 'policies'/,
  });
});

test('addresses are the keys of keys.json', () => {
  const { keys } = JSON.parse(readFileSync(process.env.WEIR_KEYS, 'utf8'));
  assert.ok(keys.length > 300);
  for (const { text, v4, v6, key } of keys) assert.equal(ipKey(text, v6, v4), key, text);
  assert.equal(ipKey('2001:db8::1'), '2001:db8::/64');
  const one = new Limiter('fixed-window 1/36500h', small('keys'));
  const seen = new Set();
  for (const { text, key } of keys.filter((row) => row.v4 === 32 && row.v6 === 64)) {
    assert.equal(one.checkSync(text).allowed, !seen.has(key), text);
    seen.add(key);
  }
  one.close();
});
