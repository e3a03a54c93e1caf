// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Runs a file of vectors through the WebAssembly module and compares the answers, in node and in a browser.

import { PolicyError, Status, WeirError } from "../../web/wasm/weir.mjs";

const CASES_MIN = 50; // of a file

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
        over: step.op === "charge" ? integer(step, "over") : 0n,
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
        over: BigInt(step.op === "charge" ? d.over : 0),
    };
}

function show(decision) {
    return Object.entries(decision).map(([name, value]) => `${name} ${value}`).join(" ");
}

function asked(step) {
    return `${step.op} t_ns ${integer(step, "t_ns")} cost ${integer(step, "cost")}`;
}

// What a step keeps, as Key.take() expects it.
function kept({ keep = "#0" }) {
    return keep.endsWith("%") ? -parseInt(keep) : Number(keep.slice(1));
}

function ask(key, step) {
    const t_ns = integer(step, "t_ns");
    const cost = Number(integer(step, "cost"));
    return step.op === "take" ? key.take(t_ns, cost, kept(step)) : key[step.op](t_ns, cost);
}

// Returns the difference from the vector, or null.
function runStep(key, step) {
    const refused = step.op !== "take" && !truth(step, "ok");
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
function begin(weir, text, zones) {
    const policy = weir.policy(text, { zones });
    const again = weir.policy(policy.text, { zones });
    const alike = again.text === policy.text;
    again.free();
    if (!alike)
        throw new PolicyError(0, `canonical text '${policy.text}' does not print itself`, 1, null);
    return policy;
}

// Counts the result, and keeps the difference.
function runCase(weir, path, vector, zones, tally) {
    const complain = (what) => {
        tally.complaints.push(`${what}\n${path}: case ${vector.name} (${vector.policy})`);
        tally.failed++;
    };
    let policy;
    try {
        policy = begin(weir, vector.policy, zones);
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

/**
 * Runs all cases of a file but those with reservations, which the module does not have.
 * @param {import("../../web/wasm/weir.mjs").Weir} weir
 * @param {string} path its name in complaints
 * @param {string} text the contents
 * @param {import("../../web/wasm/weir.mjs").Zones} zones
 * @returns {{passed: number, failed: number, steps: number, unsupported: number, complaints: string[]}}
 */
export function runVectors(weir, path, text, zones) {
    const { cases } = parseJson(text);
    if (!Array.isArray(cases))
        throw new Error(`${path}: no "cases"`);
    const supported = cases.filter(({ steps }) => !steps.some(({ op }) => op === "reserve"));
    const tally = { passed: 0, failed: 0, steps: 0, unsupported: cases.length - supported.length, complaints: [] };
    for (const vector of supported)
        runCase(weir, path, vector, zones, tally);
    if (cases.length < CASES_MIN || tally.steps < supported.length) {
        tally.complaints.push(`${path}: too few cases or steps, expected ${CASES_MIN} cases or more`);
        tally.failed++;
    }
    return tally;
}
