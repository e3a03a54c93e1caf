// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// What holds for every page: it is accessible in both colour schemes and on a small screen, the daemon
// serves it under a strict Content-Security-Policy, and it opens from disk without a network.

import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";

// The page, and what it shows once it has started.
const PAGES = {
    index: ".index-pages",
    playground: "#lanes canvas[aria-label]",
    guide: "figure.is-live .small",
    dashboard: "#overview .tile",
};
// The largest compressed size of a file, in kB, as docs/http.md states it.
const KB_MAX = { html: 26, js: 56, css: 9, wasm: 200 };
const CORE_KB_MAX = 24;
const POLICIES = "policies: {api: {limit: gcra 10/m burst 5}, login: {limit: sliding-log 5/m}}";

/** Opens a page of a daemon and waits until it has started. */
async function openFrom(kit, daemon, name, options) {
    const page = await kit.page(`${daemon.origin}/${name}`, options);
    await page.locator(PAGES[name]).first().waitFor();
    return page;
}

function accessible(name, dark, width) {
    return async (kit) => {
        const daemon = await kit.daemon().start(POLICIES);
        const page = await openFrom(kit, daemon, name, { dark, width, context: { bypassCSP: true } });
        assert.deepEqual(await kit.violations(page), []);
        await kit.assertNoSidewaysScroll(page);
    };
}

/** The size in kB after compression. */
const compressed = (content) => gzipSync(content, { level: 9 }).length / 1000;

/** The daemon serves the page at both addresses, and the page breaks no rule of its policy. */
function served(name) {
    return async (kit) => {
        const daemon = await kit.daemon().start(POLICIES);
        const scripts = name === "index" ? [] : [`${name}.js`, "weir-wasm.js"];
        for (const path of [name, `${name}.html`, "weir.css", ...scripts]) {
            const response = await fetch(`${daemon.origin}/${path}`);
            assert.equal(response.status, 200, path);
            assert.equal(response.headers.get("x-content-type-options"), "nosniff", path);
            const kind = path === "weir-wasm.js" ? "wasm" : path.split(".")[1] ?? "html";
            const text = await response.text(), kb = compressed(text);
            assert(kb <= KB_MAX[kind], `${path}: ${kb} kB compressed, expected ${KB_MAX[kind]}`);
            const core = /weirWasm="([^"]+)"/.exec(text)?.[1] ?? "";
            assert(compressed(Buffer.from(core, "base64")) <= CORE_KB_MAX, "the core is too large");
        }
        const policy = (await fetch(`${daemon.origin}/${name}`)).headers.get("content-security-policy");
        assert.ok(policy, "no Content-Security-Policy");
        assert.doesNotMatch(policy, /unsafe/);
        assert.match(policy, /require-trusted-types-for 'script'/);
        await openFrom(kit, daemon, name, {});
    };
}

/** The page opens from disk, with no network. */
function fromDisk(name) {
    return async (kit) => {
        const page = await kit.page(kit.file(`${name}.html`));
        await page.locator(PAGES[name]).first().waitFor();
    };
}

/** The link of the front page, followed four times as a browser follows it. */
async function firstDenial(kit) {
    const daemon = await kit.daemon().start(POLICIES);
    const page = await kit.page(`${daemon.origin}/`);
    await page.locator(PAGES.index).waitFor();
    const link = await page.locator("a[href^='v1/check']").evaluate((a) => a.href);
    const statuses = [], headers = { "sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate" };
    for (let i = 0; i < 4; i++)
        statuses.push((await fetch(link, { headers })).status);
    assert.deepEqual(statuses, [200, 200, 200, 429]);
}

/** The switch of the colour scheme is remembered. */
async function theme(kit) {
    const page = await kit.page(kit.file("playground.html"));
    await page.locator(PAGES.playground).first().waitFor();
    const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await paper();
    await page.locator("#theme").click();
    assert.notEqual(await paper(), light);
    await page.reload();
    await page.locator(PAGES.playground).first().waitFor();
    assert.notEqual(await paper(), light);
}

const tests = {
    "the colour scheme is remembered": theme,
    "the front page leads to a denial": firstDenial,
};
for (const name of Object.keys(PAGES)) {
    for (const [scheme, dark] of [["light", false], ["dark", true]])
        for (const width of [1280, 390])
            tests[`${name}: axe finds nothing serious, ${scheme}, ${width} px`] =
                accessible(name, dark, width);
    tests[`${name}: the daemon serves it under its policy`] = served(name);
    if (name === "playground" || name === "guide")
        tests[`${name}: it opens from disk`] = fromDisk(name);
}
export default tests;
