// SPDX-License-Identifier: BSD-2-Clause
// Benchmarks the stores of express-rate-limit: its own in memory, rate-limit-redis, weir:// and weir+file://, each in
// the middleware of express-rate-limit without HTTP, and alone.
//
// The figures are decisions a second, and the CPU time of a decision: of this process with all its threads, and of the
// server. They and their ratios are medians of short rounds in which the stores alternate. Every decision is allowed.
//
//     node express_stores.mjs WEIR [--json FILE]       adds rows to FILE, or creates it
//
// It runs in a directory with the packages, which `make bench-clients` makes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { MemoryStore, rateLimit } from 'express-rate-limit';
import { Redis } from 'ioredis';
import { RedisStore } from 'rate-limit-redis';
import { ExpressStore } from 'weir';

const [program, , json] = process.argv.slice(2);
const ROUNDS = 7;
const KEYS = 1000;
const AT_ONCE = 32; // requests that wait for a server
const DECISIONS = { memory: 60000, file: 60000, redis: 6000, weir: 6000 };
const WINDOW = { windowMs: 3600000, limit: 1000000 };
const directory = mkdtempSync(`${tmpdir()}/weir-bench-`);
const servers = [];

const keys = Array.from({ length: KEYS }, (_, i) => `192.0.${i >> 8}.${i & 255}`);
const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

async function start(words, ready) {
  const child = spawn(words[0], words.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] });
  servers.push(child);
  await new Promise((resolve, reject) => {
    for (const input of [child.stdout, child.stderr])
      createInterface({ input }).on('line', (line) => ready.test(line) && resolve());
    child.on('exit', () => reject(new Error(`${words[0]} did not start`)));
  });
  return child.pid;
}

function serverCpuNs(pid) {
  if (!pid) return 0;
  const tasks = readdirSync(`/proc/${pid}/task`);
  return tasks.reduce(
    (sum, task) => sum + Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'ascii').split(' ')[0]),
    0,
  );
}

// The stores, each with the process of its server.
async function makeStores() {
  const [redisPort, weirPort] = [await freePort(), await freePort()];
  const config = `${directory}/weir.yaml`;
  writeFileSync(
    config,
    `listen: {resp: 127.0.0.1:${weirPort}}\nthreads: 1\nmemory: {size: 64m}\npolicies: {api: gcra 1/s}\n`,
  );
  const redisWords = ['redis-server', '--port', redisPort, '--bind', '127.0.0.1', '--save', '', '--dir', directory];
  const redisPid = await start(redisWords.map(String), /Ready to accept connections/);
  const weirPid = await start([program, 'serve', config], /started/);
  const redis = new Redis({ host: '127.0.0.1', port: redisPort });
  await once(redis, 'ready');
  return {
    memory: { store: new MemoryStore(), atOnce: 1 },
    file: { store: new ExpressStore({ url: `weir+file://${directory}/limits`, memory: 64 << 20 }), atOnce: 1 },
    redis: {
      store: new RedisStore({ sendCommand: (...words) => redis.call(...words) }),
      atOnce: AT_ONCE,
      pid: redisPid,
    },
    weir: {
      store: new ExpressStore({ url: `weir://127.0.0.1:${weirPort}`, timeout: 10000 }),
      atOnce: AT_ONCE,
      pid: weirPid,
    },
  };
}

// ---- loads ----------------------------------------------------------------------------------------------------------

const response = { headersSent: false, setHeader() {}, append() {}, once() {} };

function decideIn(middleware) {
  return (key) => {
    const request = { ip: key, headers: {}, app: { get: () => 1 }, socket: {} };
    return middleware(request, response, (error) => {
      if (error) throw error;
    });
  };
}

async function measure({ decide, atOnce, pid }, count) {
  let next = 0;
  const client = async () => {
    while (next < count) await decide(keys[next++ % KEYS]);
  };
  const [began, cpu, server] = [process.hrtime.bigint(), process.cpuUsage(), serverCpuNs(pid)];
  await Promise.all(Array.from({ length: atOnce }, client));
  const ns = Number(process.hrtime.bigint() - began);
  const used = process.cpuUsage(cpu);
  return {
    rate: (count * 1e9) / ns,
    cpu: ((used.user + used.system) * 1000) / count,
    server: (serverCpuNs(pid) - server) / count,
  };
}

async function rounds(loads) {
  const samples = Object.fromEntries(Object.keys(loads).map((name) => [name, []]));
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, load] of Object.entries(loads)) {
      const sample = await measure(load, DECISIONS[name]);
      if (round > 0) samples[name].push(sample); // the first round only warms up
    }
  }
  return samples;
}

// ---- the report -----------------------------------------------------------------------------------------------------

const UNITS = { rate: 'decisions/s', cpu: 'ns/decision', server: 'ns of the server/decision' };
const PAIRS = [
  ['file', 'memory', 'rate'],
  ['file', 'memory', 'cpu'],
  ['weir', 'redis', 'rate'],
  ['weir', 'redis', 'cpu'],
  ['weir', 'redis', 'server'],
];

function report(what, samples) {
  return PAIRS.map(([ours, theirs, figure]) => {
    const [value, baseline] = [ours, theirs].map((name) => median(samples[name].map((sample) => sample[figure])));
    const ratio = median(samples[ours].map((sample, i) => sample[figure] / samples[theirs][i][figure]));
    const name = `clients/node/${what}/${ours}/${figure}`;
    const figures = [value.toFixed(0).padStart(10), baseline.toFixed(0).padStart(10), ratio.toFixed(3).padStart(8)];
    console.log(`${name.padEnd(40)} ${figures.join(' ')}  ${UNITS[figure]}, compared with ${theirs}`);
    return {
      name,
      value: Number(value.toFixed(1)),
      unit: UNITS[figure],
      baseline: Number(baseline.toFixed(1)),
      ratio: Number(ratio.toFixed(3)),
    };
  });
}

try {
  const stores = await makeStores();
  const middleware = {},
    alone = {};
  for (const [name, { store, ...more }] of Object.entries(stores)) {
    middleware[name] = { ...more, decide: decideIn(rateLimit({ ...WINDOW, store, validate: false })) };
    alone[name] = { ...more, decide: (key) => store.increment(key) };
  }
  const rows = [...report('middleware', await rounds(middleware)), ...report('store', await rounds(alone))];
  const before = json && existsSync(json) ? JSON.parse(readFileSync(json, 'utf8')) : [];
  if (json) writeFileSync(json, `${JSON.stringify([...before, ...rows], null, 1)}\n`);
} finally {
  for (const server of servers) server.kill();
  rmSync(directory, { recursive: true });
}
process.exit();
