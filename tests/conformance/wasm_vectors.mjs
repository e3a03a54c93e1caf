// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Runs the vectors through the WebAssembly module, with weir.mjs in node.
//
//     node tests/conformance/wasm_vectors.mjs WASM FILES...
//
// It compares and prints as vectors.c does.

import { readFileSync } from "node:fs";
import { load } from "../../web/wasm/weir.mjs";
import { runVectors } from "./vectors.mjs";

const ZONEINFO = "/usr/share/zoneinfo/";

function readZone(name) {
    try {
        return readFileSync(ZONEINFO + name);
    } catch {
        return null;
    }
}

function runFile(weir, path, total) {
    const tally = runVectors(weir, path, readFileSync(path, "utf8"), readZone);
    const cases = String(tally.passed + tally.failed).padStart(5);
    const steps = String(tally.steps).padStart(6);
    const unsupported = String(tally.unsupported).padStart(4);
    console.log(`wasm     ${cases} cases, ${steps} steps, ${unsupported} unsupported  ${path}`);
    for (const complaint of tally.complaints)
        console.error(complaint);
    total.passed += tally.passed;
    total.failed += tally.failed;
}

const [wasm, ...paths] = process.argv.slice(2);
const total = { passed: 0, failed: 0 };
if (wasm) {
    const weir = await load(readFileSync(wasm));
    for (const path of paths)
        runFile(weir, path, total);
}
console.log(`${total.passed + total.failed} cases, ${total.failed} failed`);
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;
