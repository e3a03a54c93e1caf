// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Runs the vectors through the WebAssembly module, with weir.mjs in node.
//
//     node tests/conformance/wasm_vectors.mjs WASM FILES...
//
// It compares and prints as vectors.c does.

import { readFileSync } from "node:fs";
import { load, PolicyError, Status, WeirError } from "../../web/wasm/weir.mjs";

const ZONEINFO = "/usr/share/zoneinfo/";
const CASES_MIN = 50; // of a file

function readZone(name) {
    try {
        return readFileSync(ZONEINFO + name);
    } catch {
        return null;
    }
}

// Every number becomes a string "#123", because JSON.parse would convert it to a double.
function parseJson(text) {
    const tokens = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
    return JSON.parse(text.replace(tokens, (t) => (t[0] === '"' ? t : `"#${t}"`)));
}

function integer(step, name) {
    const match = /^#(-?\d+)$/.exec(step[name]);
    if (!match)
        throw new Error(`a step has no integer "${name}"`);
    return BigInt(match[1]);
}

function truth(step, name) {
    if (typeof step[name] !== "boolean")
        throw new Error(`a step has no boolean "${name}"`);
    return step[name];
}

function wanted(step) {
    const never = step.retry_after_ns === null;
    return {
        allowed: step.op === "refund" || truth(step, "allowed"),
        limit: integer(step, "limit"),
        remaining: integer(step, "remaining"),
        retry_after_ns: never ? null : integer(step, "retry_after_ns"),
        reset_after_ns: integer(step, "reset_after_ns"),
        delay_ns: integer(step, "delay_ns"),
        layer: integer(step, "layer"),
    };
}

function answered(step, d) {
    return {
        allowed: step.op === "refund" || d.allowed, // a refund has no verdict
        limit: BigInt(d.limit),
        remaining: BigInt(d.remaining),
        retry_after_ns: d.retryAfterNs,
        reset_after_ns: d.resetAfterNs,
        delay_ns: d.delayNs,
        layer: BigInt(d.layer),
    };
}

function show(decision) {
    return Object.entries(decision).map(([name, value]) => `${name} ${value}`).join(" ");
}

function asked(step) {
    return `${step.op} t_ns ${integer(step, "t_ns")} cost ${integer(step, "cost")}`;
}

function ask(key, step) {
    const t_ns = integer(step, "t_ns");
    const cost = Number(integer(step, "cost"));
    return step.op === "refund" ? key.refund(t_ns, cost) : key.take(t_ns, cost);
}

// Returns the difference from the vector, or null.
function runStep(key, step) {
    const refused = step.op === "refund" && !truth(step, "ok");
    let decision;
    try {
        decision = ask(key, step);
    } catch (error) {
        if (!(error instanceof WeirError))
            throw error;
        return refused && error.status === Status.UNSUPPORTED ? null : `    answered: ${error.message}`;
    }
    const got = show(answered(step, decision));
    if (refused)
        return `    want: refused\n    got : ${got}`;
    const want = show(wanted(step));
    return got === want ? null : `    want: ${want}\n    got : ${got}`;
}

// Parses the policy, and checks that its canonical text is parsed to the same canonical text.
function begin(weir, text) {
    const zones = readZone;
    const policy = weir.policy(text, { zones });
    const again = weir.policy(policy.text, { zones });
    const alike = again.text === policy.text;
    again.free();
    if (!alike)
        throw new PolicyError(0, `canonical text '${policy.text}' does not print itself`, 1, null);
    return policy;
}

// Counts the result, and prints the difference.
function runCase(weir, path, vector, tally) {
    const complain = (what) => {
        console.error(`${what}\n${path}: case ${vector.name} (${vector.policy})`);
        tally.failed++;
    };
    let policy;
    try {
        policy = begin(weir, vector.policy);
    } catch (error) {
        if (!(error instanceof PolicyError))
            throw error;
        return complain(`    column ${error.column}: ${error.message}`);
    }
    try {
        const key = policy.key();
        for (const [i, step] of vector.steps.entries()) {
            const difference = runStep(key, step);
            if (difference)
                return complain(`${difference}\n    step ${i}: ${asked(step)}`);
            tally.steps++;
        }
    } finally {
        policy.free();
    }
    tally.passed++;
}

function runFile(weir, path, total) {
    const doc = parseJson(readFileSync(path, "utf8"));
    if (!Array.isArray(doc.cases))
        throw new Error(`${path}: no "cases"`);
    const tally = { passed: 0, failed: 0, steps: 0 };
    for (const vector of doc.cases)
        runCase(weir, path, vector, tally);
    const cases = String(tally.passed + tally.failed).padStart(5);
    const steps = String(tally.steps).padStart(6);
    console.log(`wasm     ${cases} cases, ${steps} steps,    0 unsupported  ${path}`);
    if (doc.cases.length < CASES_MIN || tally.steps < doc.cases.length) {
        console.error(`${path}: too few cases or steps, expected ${CASES_MIN} cases or more`);
        tally.failed++;
    }
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
