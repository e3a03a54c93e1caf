// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests the page that `weir replay --html` writes: it opens from disk and sends no requests, keys of the log
// stay text, and all figures can be reached with a keyboard.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const T0 = Date.UTC(2026, 2, 2);
const HOSTILE = ["</script><script>globalThis.hacked = true</script>", "<img src=x onerror=alert(1)>",
    "a\u0007\u202eb", "x".repeat(65536), "käse 🧀", "<!--<script>", "\"'&amp;"];
const POLICIES = ["gcra 3/m burst 3", "sliding-log 60/h", "fixed-window 5/s"]
    .flatMap((text) => ["--policy", text]);
const QUIET_POLICY = ["--policy", "fixed-window 3/m"];

/** A log of three hours, in which each key has a request each ten seconds. The last key is not UTF-8. */
function hostileLog() {
    const lines = [];
    for (let second = 0; second < 3 * 3600; second += 10) {
        for (const key of HOSTILE)
            lines.push(Buffer.from(`${JSON.stringify({ t_ns: (T0 + second * 1000) * 1e6, key })}\n`));
        const json = `{"t_ns":${T0 + second * 1000}000000,"key":"bad`;
        lines.push(Buffer.from(json), Buffer.from([0xff, 0xfe]), Buffer.from("\"}\n"));
    }
    return Buffer.concat([...lines, Buffer.from("not a line\n")]);
}

/** An access log of a client that is denied once. */
function quietLog() {
    const line = (second) =>
        `192.0.2.1 - - [02/Mar/2026:00:00:${String(second).padStart(2, "0")} +0000] "GET / HTTP/1.1" 200 5\n`;
    return [0, 1, 2, 3, 30].map(line).join("");
}

/** Writes a log and its report. Returns the address of the page, and what --json says of the same log. */
function replay(kit, name, log, policies) {
    const path = join(kit.directory, name), page = join(kit.directory, `${name}.html`);
    writeFileSync(path, log);
    const options = { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], maxBuffer: 1 << 28 };
    const json = execFileSync(kit.weir, ["replay", ...policies, "--html", page, "--json", path], options);
    return { url: pathToFileURL(page).href, report: JSON.parse(json) };
}

const hostile = (kit) => replay(kit, "hostile.jsonl", hostileLog(), POLICIES);

async function open(kit, url, options) {
    const page = await kit.page(url, options);
    await page.locator(".plots svg").first().waitFor();
    return page;
}

const section = (page, name) =>
    page.locator("section", { has: page.getByRole("heading", { name, exact: true }) });

/** Keys are shown as text, whatever they contain, and the page runs no other script. */
async function hostileKeys(kit) {
    const { url, report } = hostile(kit);
    const page = await open(kit, url);
    const worst = section(page, "Most denied keys");
    const shown = await worst.locator("tbody .key").allTextContents();
    assert.equal(shown.length, report.policies[0].worst.length);
    assert.ok(shown.includes("<img src=x onerror=alert(1)>"));
    assert.ok(shown.includes("a\\u0007\\u202eb"));
    assert.ok(shown.some((text) => text.startsWith("xxx") && text.length < 100));
    assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
    assert.equal(await page.locator("img, iframe, object, script:not([type]) ~ script").count(), 0);
    await worst.getByRole("button", { name: /^xxx/ }).click();
    assert.equal((await worst.locator(".whole").textContent()).length, 65536);
}

/** The page's policy allows its own script and its own style, and nothing else. */
async function policy(kit) {
    const { url } = replay(kit, "quiet.log", quietLog(), QUIET_POLICY);
    const refused = /^console error: (CSP: |Refused|Connecting to|Fetch API|This document requires)/;
    const page = await open(kit, url, { expected: [refused] });
    const text = await page.locator("meta[http-equiv=Content-Security-Policy]").getAttribute("content");
    assert.doesNotMatch(text, /unsafe/);
    assert.match(text, /default-src 'none'/);
    assert.match(text, /require-trusted-types-for 'script'/);
    const tried = await page.evaluate(async () => {
        const script = document.createElement("script");
        try {
            script.textContent = "globalThis.hacked = true";
            document.body.append(script);
        } catch {
            // Trusted types refuse it.
        }
        const fetched = await fetch("https://example.org/").then(() => true, () => false);
        return { hacked: globalThis.hacked, fetched };
    });
    assert.deepEqual(tried, { hacked: undefined, fetched: false });
}

/** The first sentence and the tiles say what --json says. */
async function answer(kit) {
    const { url, report } = replay(kit, "quiet.log", quietLog(), QUIET_POLICY);
    const { denied, keys_denied: keys } = report.policies[0];
    assert.deepEqual([report.requests, denied, keys], [5, 2, 1]);
    const page = await open(kit, url);
    assert.equal(await page.title(), "weir replay: quiet.log");
    const texts = async (selector) =>
        (await page.locator(selector).allTextContents()).map((text) => text.replaceAll("\u202f", " "));
    assert.deepEqual(await texts(".lead"),
        ["fixed-window 3/m would have denied 40 % of requests, and 1 of 1 key (100 %) at least once."]);
    assert.deepEqual(await texts(".tile-detail"),
        ["1 of 1", "2 of 5", "key 192.0.2.1", "within 1 m; the limit is 3"]);
}

/** Columns are sorted by their buttons, and a key opens with the keyboard to show its figures. */
async function worstKeys(kit) {
    const { url, report } = hostile(kit);
    const page = await open(kit, url);
    const worst = section(page, "Most denied keys");
    const denied = async () => (await worst.locator("tbody tr > td:nth-child(3)").allTextContents())
        .map((text) => Number(text.replaceAll(",", "")));
    await worst.getByRole("button", { name: "Requests", exact: true }).click();
    assert.equal(await worst.locator("th[aria-sort=descending]").textContent(), "Requests");
    const falling = await denied();
    assert.deepEqual(falling, [...falling].sort((a, b) => b - a));
    await worst.getByRole("button", { name: "Requests", exact: true }).click();
    assert.deepEqual(await denied(), [...falling].reverse());
    const key = worst.getByRole("button", { name: "käse 🧀" });
    await key.focus();
    await page.keyboard.press("Enter");
    assert.equal(await key.getAttribute("aria-expanded"), "true");
    const detail = worst.locator("tr.detail");
    await detail.locator(".plots svg").first().waitFor();
    await detail.getByText("The values as a table").click();
    await detail.locator("tbody tr").first().waitFor(); // the table is made when it is opened
    assert.equal(await detail.locator("tbody tr").count(), report.time.buckets);
    await page.keyboard.press("Escape");
    await key.click();
    assert.equal(await detail.count(), 0);
    await worst.getByRole("combobox").selectOption({ index: 2 });
    await worst.getByText("No key was denied.").waitFor();
}

/** The policies in the chart are chosen; its values are read with the arrow keys, or in a table. */
async function overTime(kit) {
    const { url, report } = hostile(kit);
    const page = await open(kit, url);
    const card = section(page, "Requests and denials over time");
    const box = card.locator(".plots");
    const lines = () => box.locator("svg svg polyline").count();
    assert.equal(await lines(), 4);
    await card.getByRole("checkbox", { name: "sliding-log 60/h" }).uncheck();
    assert.equal(await lines(), 3);
    await box.focus();
    await page.keyboard.press("Home");
    const [requests, denied] = [report.load.requests[0], report.policies[0].denied_over_time[0]];
    const readout = await card.locator(".readout").textContent();
    assert.ok(readout.startsWith("2 Mar 2026 00:00 to 00:05 UTC: "), readout);
    assert.ok(readout.includes(`requests ${requests}, denied by gcra 3/m burst 3 ${denied}`), readout);
    assert.equal(await box.getAttribute("aria-label"), readout);
    await card.getByText("The values as a table").click();
    assert.deepEqual(await card.locator("thead th").allTextContents(),
        ["Time (UTC)", "requests", "denied by gcra 3/m burst 3", "denied by fixed-window 5/s"]);
    assert.equal(await card.locator("tbody tr").count(), report.time.buckets);
}

/** The reader's choice of colours applies to the page and its charts. */
async function theme(kit) {
    const { url } = replay(kit, "quiet.log", quietLog(), QUIET_POLICY);
    const page = await open(kit, url);
    const colours = () => page.evaluate(() => [document.body.parentElement,
        document.querySelector(".plots polyline")].map((one) => JSON.stringify(
        [getComputedStyle(one).backgroundColor, getComputedStyle(one).stroke])));
    const [paper, line] = await colours();
    await page.locator("#theme").click();
    const dark = await colours();
    assert.notEqual(dark[0], paper);
    assert.notEqual(dark[1], line);
}

/** Printed on a page of A4, no table is cut off, and nothing is dark. */
async function print(kit) {
    const page = await open(kit, hostile(kit).url, { dark: true, width: 1280 });
    await page.locator("#theme").click();
    await page.locator("#theme").click(); // dark by the reader's choice
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    await page.emulateMedia({ media: "print" });
    await page.setViewportSize({ width: 720, height: 1000 });
    await kit.assertNoSidewaysScroll(page);
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    assert.equal(await theme(), "light");
    await page.evaluate(() => dispatchEvent(new Event("afterprint")));
    assert.equal(await theme(), "dark");
}

async function withoutScript(kit) {
    const { url } = replay(kit, "quiet.log", quietLog(), QUIET_POLICY);
    const page = await kit.page(url, { context: { javaScriptEnabled: false } });
    await page.getByText("This report needs JavaScript").waitFor();
}

/** On a phone, a table that is wider than the window says so; beside a wide window none does. */
async function scrollHint(kit) {
    const { url } = hostile(kit);
    for (const [width, wide] of [[390, true], [1280, false]]) {
        const page = await open(kit, url, { width });
        const hints = () => page.locator(".scroll").evaluateAll((all) =>
            all.filter((one) => getComputedStyle(one, "::before").content.includes("sideways")).length);
        const wider = () => page.locator(".scroll").evaluateAll((all) =>
            all.filter((one) => one.scrollWidth > one.clientWidth).length);
        await page.waitForFunction((some) => (document.querySelector(".scroll.is-wide") !== null) === some, wide);
        assert.equal(await hints(), await wider());
    }
}

/** A log whose requests are at one time has no charts, and no errors. */
async function oneMoment(kit) {
    const { url } = replay(kit, "one.tsv", "1767225600000000000\ta\n", ["--policy", "gcra 1/s"]);
    const page = await kit.page(url);
    await page.getByText("gcra 1/s burst 1 would have denied no request.").waitFor();
    await page.getByText("The log is too short for a chart.").waitFor();
}

function accessible(dark, width) {
    return async (kit) => {
        const page = await open(kit, hostile(kit).url, { dark, width, context: { bypassCSP: true } });
        await page.locator(".open").first().click();
        for (const summary of await page.locator("summary").all())
            await summary.click();
        assert.deepEqual(await kit.violations(page), []);
        await kit.assertNoSidewaysScroll(page);
    };
}

const tests = {
    "report: keys of the log stay text": hostileKeys,
    "report: its policy forbids other scripts and all requests": policy,
    "report: the answer is that of --json": answer,
    "report: keys are sorted and opened": worstKeys,
    "report: the chart's policies and values": overTime,
    "report: the colour scheme": theme,
    "report: in print": print,
    "report: without JavaScript": withoutScript,
    "report: a wide table says that it scrolls": scrollHint,
    "report: a log of one moment": oneMoment,
};
for (const [scheme, dark] of [["light", false], ["dark", true]])
    for (const width of [1280, 390])
        tests[`report: axe finds nothing serious, ${scheme}, ${width} px`] = accessible(dark, width);
export default tests;
