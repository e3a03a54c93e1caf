// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The shared vectors through the WebAssembly module in Chromium, with the code that compares them in node.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { load } from "../../web/wasm/weir.mjs";
import { ROOT } from "./kit.mjs";

const ORIGIN = "http://weir.test/"; // answered by serveTree(), never resolved
const ZONEINFO = "/usr/share/zoneinfo/";
const VECTORS = "tests/vectors/";
const OTHERS = ["keys.json"]; // its vectors are about keys, not about decisions

const TYPES = { mjs: "text/javascript", wasm: "application/wasm", html: "text/html" };

function contents(path, build) {
    if (path === "empty.html")
        return "<!doctype html><title>vectors</title>";
    return readFileSync(path === "weir.wasm" ? join(build, path) : join(ROOT, path));
}

/** Answers requests of the page with files of the source tree. */
async function serveTree(page, build) {
    await page.route(`${ORIGIN}**`, (route) => {
        const path = new URL(route.request().url()).pathname.slice(1);
        return route.fulfill({ body: contents(path, build), contentType: TYPES[path.split(".").pop()] });
    });
}

/** Returns the TZif files of the zones that the policies of a file name, as base64. */
function zonesOf(weir, text) {
    const zones = {};
    const read = (name) => {
        try {
            const bytes = readFileSync(ZONEINFO + name);
            zones[name] = bytes.toString("base64");
            return bytes;
        } catch {
            return null;
        }
    };
    for (const { policy } of JSON.parse(text).cases) {
        try {
            weir.policy(policy, { zones: read }).free();
        } catch {
            // The comparison in the browser reports it.
        }
    }
    return zones;
}

/** Runs in the page. */
async function compare([path, text, zones]) {
    const { load } = await import("/web/wasm/weir.mjs");
    const { runVectors } = await import("/tests/conformance/vectors.mjs");
    const weir = await load(await (await fetch("/weir.wasm")).arrayBuffer());
    return runVectors(weir, path, text, (name) =>
        (zones[name] ? Uint8Array.from(atob(zones[name]), (one) => one.charCodeAt(0)) : null));
}

async function vectors(kit) {
    const weir = await load(readFileSync(join(kit.build, "weir.wasm")));
    const page = await kit.page(`${ORIGIN}empty.html`, { before: (one) => serveTree(one, kit.build) });
    const names = readdirSync(join(ROOT, VECTORS))
        .filter((one) => one.endsWith(".json") && !OTHERS.includes(one));
    let cases = 0;
    for (const name of names) {
        const text = readFileSync(join(ROOT, VECTORS, name), "utf8");
        const tally = await page.evaluate(compare, [VECTORS + name, text, zonesOf(weir, text)]);
        assert.deepEqual(tally.complaints, []);
        assert.equal(tally.failed, 0);
        cases += tally.passed;
    }
    console.log(`${cases} cases, 0 failed`);
}

export default { "the vectors have the same answers in the browser": vectors };
