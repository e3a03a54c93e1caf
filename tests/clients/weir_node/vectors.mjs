// SPDX-License-Identifier: BSD-2-Clause
// Runs the vectors of weir through the package.
//
//   node vectors.mjs weir://HOST:PORT CLOCK VECTORS...   CLOCK is the file that the daemon reads its time from
//   node vectors.mjs weir+file:///PATH '' VECTORS...
//
// All cases run in one store, in the order of their times, each with a key of its own. The last line of the output
// counts them: a case is unsupported if it needs a clock that steps back, or a ttl that is not a whole number of ms.
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { Limiter, ReservationError, UnsupportedError } from 'weir';

const [url, clockFile, ...files] = process.argv.slice(2);
const NS_IN_MS = 1_000_000n;
const inFile = url.startsWith('weir+file');
let nowNs = 0n;
const clock = clockFile && openSync(clockFile, 'r+');

function setClock(ns) {
  nowNs = ns;
  if (clock) writeSync(clock, new BigInt64Array([ns]), 0, 8, 0);
}

// Times become BigInts: a number would lose bits.
const parse = (text) =>
  JSON.parse(text.replace(/("\w+_ns":\s*)(-?\d+)/g, '$1"$2"'), (name, value) =>
    name.endsWith('_ns') && value !== null ? BigInt(value) : value,
  );

const milliseconds = (ns) => Number((ns + NS_IN_MS - 1n) / NS_IN_MS);

function expected(step) {
  if (step.ok === false) return { ok: false };
  const wanted = {
    allowed: step.allowed ?? step.retry_after_ns === 0n,
    limit: step.limit,
    remaining: step.remaining,
    retryAfterMs: step.retry_after_ns === null ? -1 : milliseconds(step.retry_after_ns),
    resetAfterMs: milliseconds(step.reset_after_ns),
    delayMs: milliseconds(step.delay_ns),
    reason: 'limit',
  };
  if ('over' in step) wanted.over = step.over;
  return wanted;
}

const ttlOf = ({ ttl_ns: ns }) => (ns === undefined ? undefined : Number(ns / NS_IN_MS));

async function call(limiter, key, reservations, step) {
  switch (step.op) {
    case 'take':
      return limiter.check(key, {
        cost: step.cost,
        keep: step.keep === undefined || String(step.keep).endsWith('%') ? step.keep : Number(step.keep),
      });
    case 'refund':
      return limiter.refund(key, step.cost);
    case 'charge':
      return limiter.charge(key, step.cost);
    case 'reserve':
      return (reservations[step.id] = await limiter.reserve(key, step.cost, ttlOf(step))).decision;
    case 'renew':
      return reservations[step.id].renew(ttlOf(step));
    case 'commit':
      return reservations[step.id].commit(step.cost);
    default:
      return reservations[step.id].cancel();
  }
}

async function found(run, step) {
  try {
    return await call(run.limiter, run.key, run.reservations, step);
  } catch (error) {
    if (error instanceof UnsupportedError || error instanceof ReservationError) return { ok: false };
    throw error;
  }
}

// The package settles a reservation once, so that a second commit does nothing.
const settledBefore = (run, step) => ['commit', 'cancel', 'renew'].includes(step.op) && run.settled.has(step.id);

const isSupported = (document, one) =>
  document.monotone && one.steps.every((step) => step.ttl_ns === undefined || step.ttl_ns % NS_IN_MS === 0n);

const limiters = new Map();
function limiterOf(policy) {
  const options = inFile ? { memory: 256 << 20, clock: () => nowNs } : { timeout: 10000 };
  if (!limiters.has(policy)) limiters.set(policy, new Limiter(policy, { url, onError: 'throw', ...options }));
  return limiters.get(policy);
}

let cases = 0,
  unsupported = 0,
  failed = 0,
  repeated = 0;
const steps = [];
for (const file of files) {
  const document = parse(readFileSync(file, 'utf8'));
  for (const one of document.cases) {
    if (!isSupported(document, one)) {
      unsupported++;
      continue;
    }
    const run = { name: one.name, policy: one.policy, key: `case-${cases++}`, reservations: [], settled: new Set() };
    one.steps.forEach((step, number) => steps.push({ run, step, number }));
  }
}
steps.sort((a, b) => (a.step.t_ns < b.step.t_ns ? -1 : a.step.t_ns > b.step.t_ns ? 1 : 0));

async function judge({ run, step, number }) {
  if (run.failed) return;
  run.limiter ??= limiterOf(run.policy);
  if (settledBefore(run, step)) {
    repeated++;
    return;
  }
  const wanted = JSON.stringify(expected(step)),
    got = JSON.stringify(await found(run, step));
  if (wanted !== got) {
    run.failed = true;
    failed++;
    console.log(
      `${run.name}: ${run.policy}: step ${number} ${step.op} at ${step.t_ns}: expected ${wanted}, found ${got}`,
    );
  }
  if (step.op === 'commit' || step.op === 'cancel') run.settled.add(step.id);
}

// Steps of one time are sent together, but those of a case one after the other.
for (let first = 0, end; first < steps.length; first = end) {
  const now = steps[first].step.t_ns;
  setClock(now);
  for (end = first; end < steps.length && steps[end].step.t_ns === now; end++) {
    const one = steps[end];
    one.run.last = (one.run.last ?? Promise.resolve()).then(() => judge(one));
  }
  await Promise.all(steps.slice(first, end).map(({ run }) => run.last));
}
if (clock) closeSync(clock);
for (const limiter of limiters.values()) limiter.close();
console.log(
  `${cases - failed} cases passed, ${failed} failed, ${unsupported} unsupported, ${steps.length} steps, ` +
    `${repeated} of them on reservations that were settled before`,
);
process.exitCode = failed > 0 ? 1 : 0;
