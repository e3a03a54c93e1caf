// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests the site that tools/site builds, from disk: its links, its search, and its look.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const directory = (kit) => join(kit.build, "site");

/** Opens a page of the site. Its script asks for the style sheets once more, which a page from disk may not. */
const open = (kit, name, options) => {
    const within = pathToFileURL(directory(kit)).href;
    return kit.page(`${within}/${name}`,
        { within, expected: [/XMLHttpRequest at 'file:.*\.css'/, /preload assets/, /net::ERR_FAILED/], ...options });
};

/** The ids of an HTML page and the addresses that it refers to. This runs in a browser. */
function partsOf(html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    const all = (attribute) => [...page.querySelectorAll(`[${attribute}]`)].map((one) => one.getAttribute(attribute));
    return { ids: [...all("id"), ...all("name")], links: [...all("href"), ...all("src")] };
}

/** Every address within the site is a file, and its fragment is in that file. */
async function links(kit) {
    const page = await kit.page("about:blank");
    const files = readdirSync(directory(kit), { recursive: true });
    const pages = new Map();
    for (const name of files.filter((one) => one.endsWith(".html")))
        pages.set(name, await page.evaluate(partsOf, readFileSync(join(directory(kit), name), "utf8")));
    const known = new Set(files), broken = [];
    for (const [name, { links: addresses }] of pages) {
        for (const address of addresses) {
            const url = new URL(address, `file:///${name}`);
            const [path, id] = [url.pathname.slice(1), url.hash.slice(1)].map(decodeURIComponent);
            const isScene = path.startsWith("web/playground.html") && id.includes("=");
            const isThere = known.has(path) && (!id || isScene || (pages.get(path)?.ids.includes(id) ?? true));
            if (url.protocol === "file:" && !isThere)
                broken.push(`${name}: ${address}`);
        }
    }
    assert.ok(pages.size > 100, `${pages.size} pages`);
    assert.deepEqual(broken, []);
}

/** The search finds a page and opens it, from disk and without a network. */
async function search(kit) {
    const page = await open(kit, "index.html");
    await page.locator(".md-search__button").click();
    await page.getByRole("combobox", { name: "Search" }).fill("weir-check");
    await page.getByRole("option").filter({ hasText: "weir-check(1)" }).first().click();
    await page.getByRole("heading", { name: "weir-check(1)" }).waitFor();
    assert.match(page.url(), /docs\/man\/weir-check\.1\.html/);
}

/** The picture of the start page moves, unless its reader wants less motion. */
async function picture(kit) {
    const moving = async (options) => {
        const page = await open(kit, "docs/figures/one-limit.svg", options);
        return page.evaluate(() => document.getAnimations().length);
    };
    assert.ok(await moving({}) > 0);
    assert.equal(await moving({ reduced: true }), 0);
}

const EXAMPLES = ["index.html", "docs/man/weir.yaml.5.html", "examples/weir.yaml.html"];

function accessible(dark) {
    return async (kit) => {
        for (const name of EXAMPLES)
            assert.deepEqual(await kit.violations(await open(kit, name, { dark })), [], name);
    };
}

async function phone(kit) {
    for (const name of EXAMPLES)
        await kit.assertNoSidewaysScroll(await open(kit, name, { width: 390 }));
}

export default {
    "site: every link leads to a file and an anchor": links,
    "site: its search works from disk": search,
    "site: its picture moves, but not with reduced motion": picture,
    "site: axe finds nothing serious, light": accessible(false),
    "site: axe finds nothing serious, dark": accessible(true),
    "site: a page fits on a small screen": phone,
};
