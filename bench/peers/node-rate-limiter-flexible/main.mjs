// SPDX-License-Identifier: BSD-2-Clause
// rate-limiter-flexible in memory: a fixed window for each key. It reads the clock itself and returns a
// promise.

import { readFileSync } from "node:fs";
import { RateLimiterMemory } from "rate-limiter-flexible";

const KEYS = 1000000;
const ROUNDS = 5;

const limiter = new RateLimiterMemory({ points: 1e9, duration: 3600 });

// Millions of requests a second. consume() throws if it denies.
async function median(requests) {
  const figures = [];
  for (let round = 0; round < ROUNDS; round++) {
    const began = process.cpuUsage();
    for (const key of requests) await limiter.consume(key);
    const took = process.cpuUsage(began); // in us, of all threads, with the garbage collector
    figures.push(requests.length / (took.user + took.system));
  }
  return figures.sort((a, b) => a - b)[ROUNDS >> 1];
}

const lines = readFileSync(process.argv[2], "utf8").trimEnd().split("\n");
for (const key of lines.slice(0, KEYS)) await limiter.consume(key);
const requests = lines.slice(KEYS);
const many = await median(requests);
const one = await median(requests.fill("one-hot-key-of-all"));
console.log(`{"hot": ${one.toFixed(4)}, "1M": ${many.toFixed(4)}}`);
process.exit(0); // every key has a pending timer
