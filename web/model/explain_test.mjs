// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests explain.mjs: every algorithm of the policy language is explained, in full sentences.
//
//     node web/model/explain_test.mjs WASM

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { load } from "../wasm/weir.mjs";
import { explain, explanations } from "./explain.mjs";

const POLICIES = [
    "gcra 5/s burst 10", "token-bucket 10 refill 5/s", "leaky-bucket 5/s capacity 10",
    "leaky-queue 5/s depth 10", "fixed-window 10/m", "sliding-log 10/m", "sliding-counter 10/m",
    "sliding-slices 10/m slices 6", "block 10m & gcra 5/s", "concurrent 10 lease 1m",
];

const sentences = (text) => text.match(/[^.]+\.( |$)/g).map((sentence) => sentence.trim());

const tests = {
    explains_every_algorithm(weir) {
        const names = POLICIES.map((text) => weir.policy(text).layers.at(-1).algorithm);
        assert.deepEqual(Object.keys(explanations).sort(), names.sort());
        assert.equal(explain("constructor"), null);
    },

    writes_full_sentences() {
        for (const [name, { title, what, pros, cons, use }] of Object.entries(explanations)) {
            assert.match(title, /^[A-Z][A-Za-z ]+$/);
            assert(sentences(what).length >= 2 && sentences(what).length <= 4, name);
            assert(pros.length >= 2 && cons.length >= 2, name);
            for (const text of [...pros, ...cons, use])
                assert.match(text, /^[A-Z].*\.$/);
        }
    },
};

const weir = await load(readFileSync(process.argv[2]));
const tally = { passed: 0, failed: 0 };
for (const [name, test] of Object.entries(tests)) {
    try {
        test(weir);
        tally.passed++;
    } catch (error) {
        console.error(`${name}:`, error);
        tally.failed++;
    }
}
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exitCode = tally.failed > 0 ? 1 : 0;
