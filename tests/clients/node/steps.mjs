// SPDX-License-Identifier: BSD-2-Clause
// Reads steps and prints replies. clients_test.py describes both formats.
import { createInterface } from 'node:readline';

export async function* steps() {
  for await (const line of createInterface({ input: process.stdin })) {
    yield line.split('\t|\t').map((command) => command.split('\t'));
  }
}

export function show(reply) {
  if (Array.isArray(reply) && reply.every(Number.isInteger)) {
    console.log(reply.join(' '));
  } else if (reply instanceof Error) {
    console.log(`error: ${reply.message}`);
  } else {
    console.log(`${reply?.constructor?.name}: ${JSON.stringify(reply)}`);
  }
}
