// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Measures the values of the charts of docs/accuracy.md with `weir accuracy`, and prints accuracy.json:
//
//     node web/figures/accuracy_data.mjs build/weir > web/figures/accuracy.json

import { execFileSync } from "node:child_process";

const LIMIT = "100/m";
const weir = process.argv[2];

/** Returns the policies of the result of `weir accuracy` on Poisson traffic. */
function measure(rate, policies, against) {
    const options = policies.flatMap((policy) => ["--policy", policy]);
    const log = execFileSync("./bench/traffic.py", ["poisson", "--rate", `${rate}/m`, "--sources", "100", "--requests", "400000"],
        { maxBuffer: 1 << 28 });
    const text = execFileSync(weir, ["accuracy", "--json", "--limit", LIMIT, "--against", against, ...options, "-"],
        { input: log });
    return JSON.parse(text.toString());
}

/** A share of the requests as a percentage with at most three digits after the point. */
const percent = (part, whole) => Math.round(part / whole * 1e5) / 1e3;

function loadChart() {
    const x = [40, 60, 70, 80, 90, 95, 100, 105, 110, 120, 130, 140, 160, 180, 200];
    const policies = [`sliding-counter ${LIMIT}`, `sliding-slices ${LIMIT} slices 10`, `fixed-window ${LIMIT}`];
    const results = x.map((rate) => measure(rate, policies, "rate"));
    return {
        name: "accuracy-load",
        title: "Wrong decisions by --against rate at a limit of 100 a minute: the sliding ones err near the limit",
        xLabel: "mean rate of a source, requests a minute",
        yLabel: "wrong decisions against the rate of all requests, % of requests",
        x, even: false,
        series: policies.map((name, i) => ({
            name: name.replace(` ${LIMIT}`, ""),
            values: results.map(({ requests, policies: rows }) =>
                percent(rows[i].wrongly_allowed + rows[i].wrongly_denied, requests)),
        })),
    };
}

function slicesChart() {
    const x = [2, 3, 4, 6, 10, 15, 20, 30, 60, 120];
    const slices = x.map((n) => `sliding-slices ${LIMIT} slices ${n}`);
    const { requests, policies: rows } = measure(90, slices, "own");
    const [counter] = measure(90, [`sliding-counter ${LIMIT}`], "own").policies;
    return {
        name: "accuracy-slices",
        title: "Requests wrongly allowed by sliding-slices, by the number of slices, and by sliding-counter",
        xLabel: "number of slices",
        yLabel: "wrongly allowed at 90 requests a minute, % of requests",
        x, even: true,
        series: [
            { name: "sliding-slices", values: rows.map((row) => percent(row.wrongly_allowed, requests)) },
            { name: "sliding-counter", values: x.map(() => percent(counter.wrongly_allowed, requests)) },
        ],
    };
}

/** JSON with an array of numbers on one line. */
function format(value) {
    return JSON.stringify(value, null, 1).replace(/\[\s+(-?[\d.]+(?:,\s+-?[\d.]+)*)\s+\]/g,
        (_, numbers) => `[${numbers.replace(/\s+/g, " ")}]`);
}

console.log(format([loadChart(), slicesChart()]));
