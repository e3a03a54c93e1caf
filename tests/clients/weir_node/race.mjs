// SPDX-License-Identifier: BSD-2-Clause
// 16 processes of node:cluster take from one key at once: exactly LIMIT of their requests are allowed.
//
//   node race.mjs URL
import cluster from 'node:cluster';
import { once } from 'node:events';
import { Limiter } from 'weir';

const PROCESSES = 16,
  EACH = 125,
  LIMIT = 1000;
const url = process.argv[2];
const more = url.startsWith('weir+file') ? { memory: 8 << 20 } : { timeout: 30000 };

async function take() {
  const limiter = new Limiter(`fixed-window ${LIMIT}/365d from-first`, { url, onError: 'throw', ...more });
  await limiter.peek('a');
  process.send('ready');
  await once(process, 'message');
  let allowed = 0;
  for (let i = 0; i < EACH; i++) allowed += Number((await limiter.check('a')).allowed);
  process.send(allowed, () => process.exit());
}

async function main() {
  const workers = Array.from({ length: PROCESSES }, () => cluster.fork());
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  const counts = workers.map((worker) => once(worker, 'message'));
  for (const worker of workers) worker.send('go');
  const allowed = (await Promise.all(counts)).reduce((sum, [count]) => sum + count, 0);
  console.log(`${allowed} of ${PROCESSES * EACH} allowed, the limit is ${LIMIT}`);
  process.exitCode = allowed === LIMIT ? 0 : 1;
}

await (cluster.isPrimary ? main() : take());
