// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// What the tests of web/model share: the module, time zones, random scenes, and the count of tests.

import { readFileSync } from "node:fs";
import { load } from "../wasm/weir.mjs";

/** Returns the data of a time zone, or null. */
export function zones(name) {
    try {
        return readFileSync(`/usr/share/zoneinfo/${name}`);
    } catch {
        return null;
    }
}

/** Returns a function below(bound) that returns a random number 0 <= n < bound (mulberry32). */
export function randomOf(seed) {
    let random = seed;
    return (bound) => {
        random = (random + 0x6d2b79f5) | 0;
        let n = Math.imul(random ^ (random >>> 15), 1 | random);
        n = (n + Math.imul(n ^ (n >>> 7), 61 | n)) ^ n;
        return ((n ^ (n >>> 14)) >>> 0) % bound;
    };
}

export const POLICIES = [
    "gcra 5/s burst 10", "gcra 3/s burst 1", "token-bucket 9 refill 5 every 1s", "token-bucket 3 refill 1/4s",
    "leaky-bucket 7/m capacity 20", "leaky-queue 2/s depth 8", "leaky-queue 2/s depth 8 nodelay 3",
    "fixed-window 10/m",
    "fixed-window 5/m from-first", "fixed-window 9/m count-denied", "fixed-window 50/day tz Europe/Berlin",
    "sliding-log 5/10s",
    "sliding-log 5/10s count-denied", "sliding-counter 20/10s", "sliding-counter 20/10s relaxed",
    "sliding-slices 20/10s slices 7", "concurrent 4 lease 3s", "sliding-log 3/s & fixed-window 20/m & gcra 1/s burst 5",
];

/** Returns a random traffic specification whose requests fill about a minute. */
export function randomTraffic(below) {
    const kind = ["steady", "poisson", "bursts", "spammer", "times"][below(5)];
    const lines = Array.from({ length: 1 + below(40) }, () => `${below(60000)}ms key${below(3)} ${below(4)}`);
    return {
        kind,
        seed: below(2 ** 32),
        rate: 1 + below(20),
        users: 1 + below(4),
        cost: 1 + below(3),
        burst: 1 + below(20),
        everySeconds: 1 + below(20),
        atSeconds: below(10),
        withinSeconds: below(3),
        spammerRate: below(10),
        times: kind === "times" ? lines.join("\n") : "",
    };
}

/** Runs tests with the module of a path, prints their failures and their count, and sets the exit status. */
export async function runTests(tests, path = process.argv[2]) {
    const module = new WebAssembly.Module(readFileSync(path));
    const tally = { passed: 0, failed: 0 };
    for (const [name, test] of Object.entries(tests)) {
        try {
            await test(await load(module));
            tally.passed++;
        } catch (error) {
            console.error(`${name}:`, error);
            tally.failed++;
        }
    }
    console.log(`${tally.passed} passed, ${tally.failed} failed`);
    process.exitCode = tally.failed > 0 ? 1 : 0;
}
