// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The playground as a test uses it, through its controls, and `weir replay`, which decides the same requests.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { sceneToHash } from "../../web/model/scene.mjs";

/** Opens the playground from disk, paused. @param {object | string} scene fields of a Scene, or a fragment */
export async function openPlayground(kit, scene, options = {}) {
    const hash = typeof scene === "string" ? scene : sceneToHash(scene);
    const page = await kit.page(kit.file("playground.html") + hash, options);
    await page.getByRole("article", { name: "Lane A", exact: true }).waitFor();
    const playground = new PlaygroundPage(kit, page);
    await playground.pause();
    return playground;
}

export class PlaygroundPage {
    constructor(kit, page) {
        Object.assign(this, { kit, page });
        this.scrubber = page.getByRole("slider", { name: "Time", exact: true });
        this.said = page.locator("#said");
        this.toast = page.locator("#toast");
    }

    lane(letter = "A") {
        return this.page.getByRole("article", { name: `Lane ${letter}`, exact: true });
    }

    policy(letter = "A") {
        return this.page.getByLabel(`Policy of lane ${letter}`, { exact: true });
    }

    error(letter = "A") {
        return this.lane(letter).locator(".policy-error");
    }

    /** Pauses without the button: a scene that is short may end before a click. */
    async pause() {
        await this.until(() => globalThis.weirPlayground !== undefined);
        await this.page.evaluate(() => globalThis.weirPlayground.player.pause());
        await this.page.getByRole("button", { name: "Play", exact: true }).waitFor();
    }

    /** Moves the clock by a key of the time slider: End is the end of the scene. */
    async scrub(key) {
        await this.scrubber.focus();
        await this.page.keyboard.press(key);
        await this.settle();
        await this.until(() => !globalThis.weirPlayground.player.deciding);
        await this.settle();
    }

    /** Waits until the page has drawn what was changed. */
    async settle() {
        await this.page.evaluate(() => new Promise((done) =>
            requestAnimationFrame(() => requestAnimationFrame(() => done()))));
    }

    /** Waits until the function is true in the page. */
    until(test, argument) {
        return this.page.waitForFunction(test, argument);
    }

    /** Returns the counts of a lane as the page shows them. */
    async totals(letter = "A") {
        const list = this.lane(letter).locator(".totals");
        const number = async (name) => {
            const text = await list.locator(`dd.is-${name} > span`).textContent();
            return Number(/^[\d,.\s\u00a0\u202f]*/.exec(text)[0].replace(/\D/g, ""));
        };
        const [allowed, denied, delayed] = await Promise.all(["allowed", "denied", "delayed"].map(number));
        return { allowed, denied, delayed };
    }

    async letters() {
        const names = await this.page.locator("article.lane").evaluateAll((all) =>
            all.map((one) => one.getAttribute("aria-label")));
        return names.map((name) => name.replace("Lane ", ""));
    }

    /** The fragment that describes the scene, once the page has written it. */
    async hash() {
        return this.page.evaluate(() => location.hash);
    }

    /** Chooses an item of the Export menu that saves a file. Returns its name and its bytes. */
    async save(item) {
        await this.page.locator("#export-menu summary").click();
        const download = this.page.waitForEvent("download");
        await this.page.getByRole("button", { name: item, exact: true }).click();
        const file = await download;
        return { name: file.suggestedFilename(), bytes: readFileSync(await file.path()) };
    }

    /** Saves the text that an item of the Export menu shows. Returns its name and both texts. */
    async preview(item) {
        await this.page.locator("#export-menu summary").click();
        await this.page.getByRole("button", { name: item, exact: true }).click();
        const dialog = this.page.getByRole("dialog", { name: "Export" });
        const text = await dialog.locator("pre").textContent();
        const download = this.page.waitForEvent("download");
        await dialog.getByRole("button", { name: "Save" }).click();
        const file = await download;
        await dialog.getByRole("button", { name: "Close" }).click();
        return { name: file.suggestedFilename(), text, saved: readFileSync(await file.path(), "utf8") };
    }

    /** Drops a file onto the page. @param {string | number} content a text, or a number of zero bytes */
    async drop(name, content) {
        await this.page.evaluate(([fileName, data]) => {
            const files = new DataTransfer();
            files.items.add(new File([typeof data === "number" ? new Uint8Array(data) : data], fileName));
            const send = (type) => document.body.dispatchEvent(
                new DragEvent(type, { dataTransfer: files, bubbles: true, cancelable: true }));
            send("dragover");
            send("drop");
        }, [name, content]);
    }
}

/** Runs `weir` and returns its output; `wrong` is the exit status that is expected. */
export function weir(kit, words, input = "", status = 0) {
    const run = spawnSync(kit.weir, words, { input, encoding: "utf8", maxBuffer: 1 << 30 });
    assert.equal(run.status, status, `weir ${words.join(" ")}: ${run.stderr}`);
    return status === 0 ? run.stdout : run.stderr;
}

/**
 * Decides requests with `weir replay`.
 * @param {string[]} words options that say what to decide by, and the format
 * @returns {object[][]} the decisions of each policy
 */
export function replay(kit, policies, words, log) {
    const options = policies.flatMap((text) => ["--policy", text]);
    const output = weir(kit, ["replay", ...options, ...words, "--decisions", "jsonl", "-"], log);
    const decisions = output.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
    return policies.map((_, i) => decisions.filter((_, n) => n % policies.length === i));
}

/** Counts decisions as the totals of a lane do. */
export function totalsOf(decisions) {
    const delayed = decisions.filter((one) => one.allowed && one.delay_ns > 0).length;
    const allowed = decisions.filter((one) => one.allowed).length;
    return { allowed: allowed - delayed, denied: decisions.length - allowed, delayed };
}

const FIELDS = ["allowed", "limit", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns", "layer"];

/** The fields of a decision of `weir replay`, as texts. */
export function fieldsOf(decision) {
    const text = (value) => (value === null ? "never" : String(Number(value)));
    return FIELDS.map((name) => `${name} ${text(decision[name])}`).join(" ");
}

/** The same for a row of the playground's CSV. @param {string} prefix of the lane's columns */
export function decisionOf(row, prefix) {
    return FIELDS.map((name) => `${name} ${row[prefix + name]}`).join(" ");
}

/** Reads RFC 4180 with a header line: an object for each row. */
export function readCsv(text) {
    const lines = text.split("\r\n").slice(0, -1).map((line) =>
        [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) =>
            (quoted === undefined ? plain : quoted.replaceAll('""', '"'))));
    const [head, ...rows] = lines;
    return rows.map((row) => Object.fromEntries(head.map((name, i) => [name, row[i]])));
}
