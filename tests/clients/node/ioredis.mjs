// SPDX-License-Identifier: BSD-2-Clause
// Runs steps with ioredis and its default options.
import { Redis } from 'ioredis';
import { show, steps } from './steps.mjs';

const client = new Redis({ host: '127.0.0.1', port: Number(process.argv[2]) });
for await (const commands of steps()) {
  if (commands.length === 1) {
    show(await client.call(...commands[0]).catch((error) => error));
    continue;
  }
  const pipe = client.pipeline();
  for (const command of commands) pipe.call(...command);
  for (const [error, reply] of await pipe.exec()) show(error ?? reply);
}
client.disconnect();
