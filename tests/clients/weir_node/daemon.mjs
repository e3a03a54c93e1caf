// SPDX-License-Identifier: BSD-2-Clause
// Daemons for the tests. $WEIR is the program, and $WEIR_DIR a directory for their files.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

let started = 0;

const threadStates = (pid) =>
  readdirSync(`/proc/${pid}/task`).map(
    (task) => readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8').split(') ')[1][0],
  );

export async function startDaemon({ port = 0, policies = { api: 'gcra 1/365d burst 10' }, more = '' } = {}) {
  const config = `${process.env.WEIR_DIR}/daemon-${process.pid}-${started++}.yaml`;
  writeFileSync(
    config,
    `listen: {resp: 127.0.0.1:${port}}\nthreads: 1\n${more || 'memory: {size: 16m}'}\n` +
      `policies: ${JSON.stringify(policies)}\n`,
  );
  const child = spawn(process.env.WEIR, ['serve', config], { stdio: ['ignore', 'pipe', 'pipe'] });
  let found;
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      found ??= /started .*resp=[^ ]*:(\d+)/.exec(line);
      child.emit('line');
    });
  }
  while (!found) await once(child, 'line');
  return {
    port: Number(found[1]),
    url: `weir://127.0.0.1:${found[1]}`,
    // Stops the process, and waits until all its threads have stopped: until then one may still reply.
    async pause() {
      child.kill('SIGSTOP');
      await until(() => threadStates(child.pid).every((state) => state === 'T'), 'the daemon stops');
    },
    resume: () => child.kill('SIGCONT'),
    async kill() {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}

// Waits until `condition` returns something true, and returns it.
export async function until(condition, what) {
  for (const end = Date.now() + 60000; ;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within a minute: ${what}`);
    await new Promise(setImmediate);
  }
}
