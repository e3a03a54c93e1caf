// SPDX-License-Identifier: BSD-2-Clause
// Runs steps with node-redis and its default options. Commands of one tick share a pipeline.
import { createClient } from 'redis';
import { show, steps } from './steps.mjs';

const client = createClient({ url: `redis://127.0.0.1:${process.argv[2]}` });
await client.connect();
for await (const commands of steps()) {
  const replies = commands.map((command) => client.sendCommand(command).catch((error) => error));
  for (const reply of await Promise.all(replies)) show(reply);
}
client.destroy();
