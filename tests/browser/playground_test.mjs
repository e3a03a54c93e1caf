// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The playground in Chromium, opened from disk and without a network. What it counts is compared with
// `weir replay`, and what it says about a policy with `weir policy`.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { presets } from "../../web/model/presets.mjs";
import { sceneFromHash } from "../../web/model/scene.mjs";
import { PlaygroundPage, decisionOf, fieldsOf, openPlayground, readCsv, replay, totalsOf,
    weir } from "./playground_kit.mjs";

const TWO_LANES = {
    lanes: ["gcra 2/s burst 5", "fixed-window 5/s"],
    traffic: { kind: "steady", rate: 8, users: 3 },
};
const BY_HAND = { lanes: ["gcra 1/h burst 2"], traffic: { kind: "none" }, watch: "alice" };

/**
 * Compares all decisions of the page, which it saves as CSV, with those of `weir replay` on the same
 * requests, and the totals that it shows with their counts. Returns how many requests there are.
 */
async function compareDecisions(kit, playground) {
    const letters = await playground.letters();
    const rows = readCsv((await playground.save("Time line as CSV")).bytes.toString());
    const policies = await Promise.all(letters.map((letter) => playground.policy(letter).inputValue()));
    const log = rows.map((row) => `${row.t_ns}\t${row.key}\t${row.cost}`).join("\n");
    const decisions = replay(kit, policies, ["--format", "tsv"], log);
    for (const [i, letter] of letters.entries()) {
        const found = rows.map((row) => decisionOf(row, letters.length > 1 ? `lane${i + 1}_` : ""));
        const where = `lane ${letter}: ${policies[i]}`;
        assert.deepEqual(found, decisions[i].map(fieldsOf), where);
        assert.deepEqual(await playground.totals(letter), totalsOf(decisions[i]), where);
    }
    return rows.length;
}

async function everyPreset(kit) {
    const playground = await openPlayground(kit, TWO_LANES);
    const { page } = playground;
    const ids = await page.locator("#presets option").evaluateAll((all) =>
        all.map((one) => one.value).filter((value) => value !== ""));
    assert.deepEqual(ids, presets.map(({ id }) => id));
    for (const { id, title } of presets) {
        await page.locator("#presets").selectOption(id);
        await playground.pause();
        await page.getByRole("heading", { name: title, exact: true }).waitFor();
        await playground.scrub("End");
        const requests = await compareDecisions(kit, playground);
        assert.ok(requests >= 10, `${id}: only ${requests} requests`);
    }
}

/** The difference between what a policy says in the page and in `weir policy`, which prints a caret too. */
async function expectPolicyError(kit, playground, text) {
    await playground.policy().fill(text);
    const [message, ...picture] = weir(kit, ["policy", text], "", 2).trimEnd().split("\n");
    await playground.error().getByText(message.replace("weir policy: ", "")).waitFor();
    const shown = (await playground.error().locator("pre").textContent()).split("\n");
    assert.deepEqual(shown.map((line) => `  ${line}`), picture);
    assert.equal(await playground.policy().getAttribute("aria-invalid"), "true");
}

async function policyErrors(kit) {
    const playground = await openPlayground(kit, TWO_LANES);
    for (const text of ["gcra 5/s brst 3", "nonsense", "gcra 0/s", "fixed-window 10/day tz Mars/Olympus",
        "gcra 5/s & sliding-log 9"])
        await expectPolicyError(kit, playground, text);
    await playground.policy().fill("sliding-log 3/s");
    await playground.until((input) => !input.hasAttribute("aria-invalid"),
        await playground.policy().elementHandle());
    await playground.scrub("End");
    await compareDecisions(kit, playground);
}

/** What people may type or paste never causes an exception, which the kit would report. */
async function oddInput(kit) {
    const playground = await openPlayground(kit,
        "#lane=gcra+1/s&lane=%ff&traffic=poisson&rate=1e99&span=-1&compare=7,7");
    for (const text of ["", " ", "gcra", "🚦".repeat(50), "gcra 1/s burst 99999999999999999999",
        "a".repeat(1023)]) {
        await playground.policy().fill(text);
        await playground.until((input) => input.getAttribute("aria-invalid") === "true",
            await playground.policy().elementHandle());
        await playground.policy().fill("gcra 1/s");
        await playground.until((input) => !input.hasAttribute("aria-invalid"),
            await playground.policy().elementHandle());
    }
    for (const hash of ["#", "#lane", "#lane=%", "#traffic=log",
        "#lane=gcra+1/s&traffic=times&times=x%0A1e400+%00"]) {
        await playground.page.evaluate((one) => {
            location.hash = one;
        }, hash);
        await playground.settle();
    }
}

/** The form writes the text, shows a text that is typed, and is disabled by an invalid text. */
async function form(kit) {
    const playground = await openPlayground(kit, { lanes: ["gcra 2/s burst 5"], traffic: { kind: "none" } });
    const lane = playground.lane();
    const text = () => playground.policy().inputValue();
    await lane.getByRole("button", { name: "Form" }).click();
    const algorithm = lane.getByLabel("algorithm", { exact: true });
    assert.equal(await algorithm.inputValue(), "gcra");
    await lane.getByLabel("burst", { exact: true }).fill("7");
    assert.equal(await text(), "gcra 2/s burst 7");
    await algorithm.selectOption("sliding-log");
    assert.match(await text(), /^sliding-log \d+\//);
    await lane.getByRole("button", { name: "Add a layer" }).click();
    assert.match(await text(), /^sliding-log .* & /);
    await lane.getByRole("button", { name: "Remove layer 1" }).click();
    assert.doesNotMatch(await text(), /sliding-log|&/);
    await playground.policy().fill("fixed-window 9/day tz Europe/Berlin");
    await lane.getByLabel("time zone").and(lane.locator("[value='Europe/Berlin']")).waitFor();
    assert.equal(await algorithm.inputValue(), "fixed-window");
    await playground.policy().fill("fixed-window 9/dy");
    await playground.until((one) => one.matches(":disabled"), await algorithm.elementHandle());
    await playground.policy().fill("leaky-queue 3/s depth 4");
    await playground.until((one) => !one.matches(":disabled"), await algorithm.elementHandle());
    assert.equal(await lane.getByLabel("algorithm", { exact: true }).inputValue(), "leaky-queue");
}

async function sharedLink(kit) {
    const scene = { ...TWO_LANES, speed: 5, span: 20, title: "Zwölf & 1 + 1", hits: [[1.5e9, "öl", 2]] };
    const first = await openPlayground(kit, scene);
    await first.policy("B").fill("sliding-counter 7/3s");
    await first.page.getByRole("button", { name: "Share", exact: true }).click();
    await first.toast.getByText("copied").waitFor();
    const link = await first.page.evaluate(() => navigator.clipboard.readText());
    assert.equal(link, first.page.url());
    const second = new PlaygroundPage(kit, await kit.page(link));
    await second.lane("B").waitFor();
    await second.pause();
    assert.equal(await second.policy("B").inputValue(), "sliding-counter 7/3s");
    assert.deepEqual(sceneFromHash(await second.hash()), sceneFromHash(await first.hash()));
    assert.equal(sceneFromHash(await second.hash()).title, scene.title);
    for (const one of [first, second])
        await one.scrub("End");
    for (const letter of ["A", "B"])
        assert.deepEqual(await second.totals(letter), await first.totals(letter));
}

async function exports(kit) {
    const playground = await openPlayground(kit, TWO_LANES);
    await playground.scrub("End");
    const yaml = await playground.preview("weir.yaml");
    assert.equal(yaml.saved, yaml.text);
    const path = join(kit.directory, "exported.yaml");
    writeFileSync(path, yaml.saved);
    assert.match(weir(kit, ["check", path]), /gcra 2\/s burst 5/);
    for (const [item, file, pattern] of [["nginx configuration", "weir.nginx.conf", /gcra 2\/s burst 5/],
        ["RESP command", "weir.resp.txt", /WEIR\.CHECK 'gcra 2\/s burst 5'/],
        ["C code", "limit.c", /#include <weir\//]]) {
        const { name, text, saved } = await playground.preview(item);
        assert.equal(name, file);
        assert.match(saved, pattern);
        assert.equal(saved, text);
    }
    const svg = await playground.save("Picture as SVG");
    const nameOf = (text) => new DOMParser().parseFromString(text, "image/svg+xml").documentElement.nodeName;
    const root = await playground.page.evaluate(nameOf, svg.bytes.toString());
    assert.equal(root, "svg");
    assert.match(svg.bytes.toString(), /gcra 2\/s burst 5/);
    const png = await playground.save("Picture as PNG");
    assert.equal(png.bytes.subarray(0, 8).toString("latin1"), "\x89PNG\r\n\x1a\n");
}

/** The totals of a log that is dropped on the page are those of `weir replay` for the same file. */
async function droppedLog(kit) {
    const two = (second) => String(second).padStart(2, "0");
    const line = (client, second) => `${client} - - [21/Nov/2026:18:00:${two(second)} +0000] `
        + '"GET / HTTP/1.1" 200 512 "-" "curl/8.1"\n';
    const clients = ["192.0.2.1", "2001:db8::1", "192.0.2.1", "2001:db8::ffff:2", "::ffff:192.0.2.1"];
    const lines = Array.from({ length: 60 }, (_, i) => line(clients[i % 5], i));
    const log = [...lines, "not a line of a log\n"].join("");
    const playground = await openPlayground(kit,
        { lanes: ["sliding-log 2/10s", "gcra 3/m"], traffic: { kind: "none" } });
    await playground.drop("access.log", log);
    await playground.page.getByText("access.log: 60 requests in the format combined.").first().waitFor();
    await playground.pause();
    await playground.scrub("End");
    const policies = await Promise.all(["A", "B"].map((letter) => playground.policy(letter).inputValue()));
    const decisions = replay(kit, policies, ["--format", "combined"], log);
    assert.equal(decisions[0].length, 60);
    for (const [i, letter] of ["A", "B"].entries())
        assert.deepEqual(await playground.totals(letter), totalsOf(decisions[i]));
}

async function refusedFiles(kit) {
    const playground = await openPlayground(kit, BY_HAND);
    const { page } = playground;
    for (const [name, content, message] of [["photo.png", "\x89PNG\0\0", "not a text file"],
        ["empty.log", "", "no line in a known format"],
        ["prose.log", "Dear reader,\nthis is no log.\n", "no line in a known format"],
        ["huge.log", (64 << 20) + 1, "expected at most"]]) {
        await playground.drop(name, content);
        await page.locator("#traffic").getByText(message).or(playground.said.getByText(message)).first()
            .waitFor({ state: "attached" });
    }
    await page.keyboard.press("Space");
    await playground.settle();
    assert.deepEqual(await playground.totals(), { allowed: 1, denied: 0, delayed: 0 });
}

async function hits(kit) {
    const playground = await openPlayground(kit, BY_HAND);
    const { page } = playground;
    const bar = page.locator(".transport");
    for (const name of ["Play", "Pause"])
        await page.getByRole("button", { name, exact: true }).click();
    await page.keyboard.press("Space"); // a button that was clicked does not keep the focus
    await playground.said.getByText(/A: allowed, 1 of 2 left/).waitFor({ state: "attached" });
    await page.getByRole("button", { name: "Hit" }).click();
    await page.keyboard.press("Space");
    await playground.said.getByText(/A: denied, retry after/).waitFor({ state: "attached" });
    await playground.settle();
    assert.deepEqual(await playground.totals(), { allowed: 2, denied: 1, delayed: 0 });
    await compareDecisions(kit, playground);
    await bar.getByLabel("Cost", { exact: true }).fill("3");
    await bar.getByLabel("Key", { exact: true }).fill("bob");
    await page.getByRole("button", { name: "Hit" }).click();
    await playground.said.getByText(/A: denied for good/).waitFor({ state: "attached" });
}

/** The bar of a phone has one row, and the rest of it behind a button. */
async function phone(kit) {
    const { page } = await openPlayground(kit, TWO_LANES, { width: 390, height: 844 });
    const bar = page.locator(".transport");
    const height = async () => (await bar.boundingBox())?.height ?? NaN;
    assert.ok(await height() < 80);
    assert.ok(!await bar.getByLabel("Cost", { exact: true }).isVisible());
    assert.ok(await page.getByRole("slider", { name: "Time", exact: true }).isVisible());
    await bar.getByRole("button", { name: "More", expanded: false }).click();
    for (const name of ["Key", "Cost", "Visible, s"])
        await bar.getByLabel(name, { exact: true }).waitFor();
    await bar.getByRole("button", { name: "Step to the next request" }).click();
    await bar.getByRole("button", { name: "More", expanded: true }).click();
    assert.ok(await height() < 80);
}

/** It opens on 12 seconds with few requests, by one clock; a triangle has a legend. */
async function firstScene(kit) {
    const playground = await openPlayground(kit, "", { reduced: true });
    const { page } = playground;
    const now = page.locator(".transport-clock output");
    assert.equal(await page.getByLabel("Visible, s", { exact: true }).inputValue(), "12");
    assert.equal(await now.textContent(), "12.0 s");
    assert.equal(await page.locator(".transport-clock").textContent(), "12.0 s");
    const { allowed, denied } = await playground.totals("B");
    assert.ok(allowed + denied > 8 && allowed + denied <= 16, `${allowed} and ${denied} requests`);
    const legend = playground.lane("A").locator(".totals > div", { hasText: "differs from B" });
    assert.equal(await legend.locator("dd > span").textContent(), "5");
    await page.getByRole("combobox", { name: "Lane", exact: true }).selectOption("");
    await legend.waitFor({ state: "hidden" });
}

/** A long policy is visible as a whole, in the text and in the form; Enter adds no line to it. */
async function longPolicy(kit) {
    for (const width of [390, 1280]) {
        const playground = await openPlayground(kit, { lanes: ["gcra 1/s", "gcra 2/s", "gcra 3/s"] }, { width });
        const text = "fixed-window 5000/month tz America/Argentina/Buenos_Aires & sliding-log 5/m & gcra 10/s burst 10";
        const input = playground.policy();
        await input.fill(text);
        await input.press("Enter");
        assert.equal(await input.inputValue(), text);
        await playground.lane().getByRole("button", { name: "Form" }).click();
        const cut = () => playground.lane().locator("textarea, select, input").evaluateAll((all) =>
            all.filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1)
                .map((one) => one.value));
        await playground.settle();
        assert.deepEqual(await cut(), []);
    }
}

/** Two lanes fit in the window of a phone. */
async function twoLanesOnPhone(kit) {
    const playground = await openPlayground(kit, "", { width: 390, height: 844, reduced: true });
    await playground.lane("A").evaluate((lane) => lane.scrollIntoView({ block: "start" }));
    await playground.settle();
    const pictures = await playground.lane("B").locator("canvas.time").boundingBox();
    const bar = await playground.page.locator(".transport").boundingBox();
    assert.ok(pictures && bar && pictures.y + pictures.height < bar.y, "the time line of lane B is not visible");
}

async function withoutScript(kit) {
    const page = await kit.page(kit.file("playground.html"), { context: { javaScriptEnabled: false } });
    const { height } = await page.locator(".still").boundingBox();
    assert.ok(height > 150);
}

/** A log's message goes with the log, and a long title stays inside of the page. */
async function staleMessages(kit) {
    const link = `#lane=gcra+1/s&traffic=log&log=other&title=${"W".repeat(200)}`;
    const { page } = await openPlayground(kit, TWO_LANES);
    const message = page.locator("#traffic");
    const lines = ["00", "01"].map((second) =>
        `192.0.2.7 - - [01/Jan/2026:00:00:${second} +0000] "GET / HTTP/1.1" 200 1`);
    await page.locator("input[type=file]").setInputFiles({ name: "keys.log", mimeType: "text/plain",
        buffer: Buffer.from(`${lines.join("\n")}\n`) });
    await message.getByText("keys.log: 2 requests in the format combined.").waitFor();
    await page.evaluate((hash) => {
        location.hash = hash;
    }, link);
    await message.getByText("The link does not contain other. Choose the file again.").waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 1280);
}

/** Moving the clock over 200,000 decisions blocks no frame for long, and decides all of them. */
async function farJump(kit) {
    const lanes = Array.from({ length: 8 }, () => "gcra 5/s");
    const traffic = { kind: "poisson", rate: 1000, users: 50 };
    const playground = await openPlayground(kit, { lanes, traffic });
    const { page } = playground;
    const index = await page.evaluate(() => {
        const { player } = globalThis.weirPlayground;
        player.seek(190e9);
        return [player.world.index, player.deciding];
    });
    assert.ok(index[0] < 150000 && index[1], "a seek does not decide everything at once");
    await page.getByText(/deciding …/).waitFor();
    await playground.until(() => !globalThis.weirPlayground.player.deciding);
    const [now, decided, length] = await page.evaluate(() => {
        const { world } = globalThis.weirPlayground;
        return [world.now, world.index, world.traffic.countTo(190e9)];
    });
    assert.deepEqual([now, decided], [190e9, length]);
}

async function scrubbing(kit) {
    const playground = await openPlayground(kit, TWO_LANES);
    await playground.scrub("End");
    const atEnd = await playground.totals();
    await playground.scrub("Home");
    const atBegin = await playground.totals();
    assert.ok(atBegin.allowed <= 1 && atBegin.denied === 0, "nothing has happened at the beginning");
    for (const key of ["PageUp", "PageUp", "PageUp"])
        await playground.scrub(key);
    await compareDecisions(kit, playground);
    await playground.scrub("End");
    assert.deepEqual(await playground.totals(), atEnd);
    await compareDecisions(kit, playground);
}

const CONTROLS = "a[href], button, input:not([type=radio]), select, summary, textarea, [tabindex='0']";

/** Presses Tab through the page. Returns the controls that never have the focus, or do not show it. */
async function unreached(page) {
    const wanted = await page.evaluate((selector) => {
        const all = /** @type {any[]} */ ([...document.querySelectorAll(selector)]);
        globalThis.testControls = all.filter((one) =>
            one.checkVisibility() && one.tabIndex >= 0 && !one.disabled);
        all.forEach((one) => one.blur());
        return globalThis.testControls.map((one) => one.outerHTML.slice(0, 100));
    }, CONTROLS);
    const left = new Set(wanted.keys());
    for (let i = 0; i < 2 * wanted.length && left.size > 0; i++) {
        await page.keyboard.press("Tab");
        left.delete(await page.evaluate(() => {
            const { outlineStyle, boxShadow } = getComputedStyle(document.activeElement);
            const shown = outlineStyle !== "none" || boxShadow !== "none";
            return shown ? globalThis.testControls.indexOf(document.activeElement) : -1;
        }));
    }
    return [...left].map((i) => wanted[i]);
}

/** Tab reaches every control, each shows its focus, and a request can be chosen without a pointer. */
async function keyboardOnly(kit) {
    const playground = await openPlayground(kit, TWO_LANES);
    const { page } = playground;
    await playground.scrub("End");
    const canvas = playground.lane().locator(".time-box canvas");
    await canvas.focus();
    for (const key of ["ArrowLeft", "ArrowLeft", "ArrowRight"])
        await page.keyboard.press(key);
    await playground.lane().locator(".card.is-chosen").getByText(/RateLimit/i).first().waitFor();
    await playground.said.getByText(/^Request [\d,]+ at/).waitFor({ state: "attached" });
    await page.keyboard.press("Escape");
    await playground.lane().locator(".card.is-chosen").waitFor({ state: "hidden" });
    assert.deepEqual(await unreached(page), []);
}

async function lanes(kit) {
    const playground = await openPlayground(kit, TWO_LANES);
    const { page } = playground;
    const add = page.getByRole("button", { name: "Add a lane" });
    for (let i = 2; i < 8; i++)
        await add.click();
    assert.deepEqual(await playground.letters(), [..."ABCDEFGH"]);
    assert.ok(!await add.isVisible());
    await playground.scrub("End");
    await compareDecisions(kit, playground);
    await page.getByRole("button", { name: "Remove lane B" }).click();
    assert.deepEqual(await playground.letters(), [..."ABCDEFG"]);
    await playground.settle();
    await compareDecisions(kit, playground);
}

async function reducedMotion(kit) {
    const page = await kit.page(kit.file("playground.html"), { reduced: true });
    const playground = new PlaygroundPage(kit, page);
    await page.getByRole("button", { name: "Play", exact: true }).waitFor();
    await playground.scrub("End");
    const running = await page.evaluate(() =>
        document.getAnimations().filter((one) => one.playState === "running").length);
    assert.equal(running, 0);
}

export default {
    "playground: every preset counts what weir replay counts": everyPreset,
    "playground: an invalid policy has the message and the caret of weir policy": policyErrors,
    "playground: the form writes the policy and shows it": form,
    "playground: odd texts and links cause no error": oddInput,
    "playground: a shared link opens the same scene": sharedLink,
    "playground: exports are files with the right contents": exports,
    "playground: a dropped log counts what weir replay counts": droppedLog,
    "playground: files that are no logs are refused": refusedFiles,
    "playground: hits by the space bar and the button": hits,
    "playground: the bar has one row on a phone": phone,
    "playground: it opens on requests that can be counted": firstScene,
    "playground: a long policy is not cut off": longPolicy,
    "playground: two lanes fit on a phone": twoLanesOnPhone,
    "playground: a picture without JavaScript": withoutScript,
    "playground: a log's message goes with the log": staleMessages,
    "playground: a jump over many requests takes several frames": farJump,
    "playground: scrubbing back and forth keeps the decisions": scrubbing,
    "playground: the keyboard reaches everything": keyboardOnly,
    "playground: lanes are added and removed": lanes,
    "playground: nothing moves with reduced motion": reducedMotion,
};
