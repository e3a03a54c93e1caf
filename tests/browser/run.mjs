// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests the web pages in Chromium. tools/browser builds and installs what these tests need, and calls this.
//
//     node tests/browser/run.mjs BUILDDIR [WORD...]     all tests, or those whose names have one of the words
//
// A test is a function that takes a Kit. A failed test leaves a screenshot in BUILDDIR/browser.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import dashboard from "./dashboard_test.mjs";
import { Kit, missing } from "./kit.mjs";
import guide from "./guide_test.mjs";
import pages from "./pages_test.mjs";
import playground from "./playground_test.mjs";
import report from "./report_test.mjs";
import site from "./site_test.mjs";
import vectors from "./vectors_test.mjs";

const SKIPPED = 77; // meson counts this exit status as a skipped test

async function runTest(kit, name, test) {
    const failures = [];
    for (const step of [() => test(kit), () => kit.endTest()]) {
        try {
            await step();
        } catch (error) {
            if (failures.length === 0)
                await kit.screenshot(name);
            failures.push(error.stack ?? String(error));
        }
    }
    console.log(failures.length === 0 ? `ok: ${name}` : `failed: ${name}\n${failures.join("\n")}`);
    return failures.length === 0;
}

async function main([build, ...words]) {
    if (!build) {
        console.error("usage: node tests/browser/run.mjs BUILDDIR [WORD...]");
        return 2;
    }
    const lacking = missing(build);
    if (lacking) {
        console.log(`skipped: the browser tests: ${lacking}\n0 passed, 0 failed, 1 skipped`);
        return SKIPPED;
    }
    const hasSite = existsSync(join(build, "site"));
    if (!hasSite)
        console.log("skipped: 1 in browser-site: make site builds the site");
    const all = Object.entries({ ...vectors, ...playground, ...guide, ...dashboard, ...report, ...pages,
        ...hasSite ? site : {} });
    const tests = all.filter(([name]) => words.length === 0 || words.some((word) => name.includes(word)));
    const kit = await Kit.open(resolve(build));
    let passed = 0;
    try {
        for (const [name, test] of tests)
            passed += Number(await runTest(kit, name, test));
    } finally {
        await kit.close();
    }
    console.log(`${passed} passed, ${tests.length - passed} failed${hasSite ? "" : ", 1 skipped"}`);
    return passed === tests.length && passed > 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
