// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// What the browser tests share: Chromium, pages that are watched for errors and for requests to other hosts,
// and daemons. It finds playwright-core and axe-core in BUILDDIR/browser, where tools/browser installs them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { accessSync, constants, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const SERIOUS = ["serious", "critical"];
const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 60_000); // longer than any step takes on a busy machine

/** Returns the path of Chromium, or null. The environment variable CHROMIUM names another one. */
function findChromium() {
    const directories = (process.env.PATH ?? "").split(delimiter);
    const names = process.env.CHROMIUM ? [process.env.CHROMIUM]
        : ["chromium", "chromium-browser", "google-chrome"];
    const paths = names.flatMap((name) =>
        (name.includes("/") ? [name] : directories.map((one) => join(one, name))));
    return paths.find((path) => {
        try {
            accessSync(path, constants.X_OK);
            return true;
        } catch {
            return false;
        }
    }) ?? null;
}

/** Returns what is missing for these tests, or null. */
export function missing(build) {
    if (!findChromium())
        return "Chromium is not installed; tools/deps browser installs it";
    if (!existsSync(join(build, "browser", "node_modules", "playwright-core")))
        return "the npm packages are not installed; make browser installs them";
    return null;
}

/** A process of `weir serve` on free ports of 127.0.0.1, with its files in a directory of its own. */
export class Daemon {
    #process = null;
    #log = "";
    #waiting = null; // the pattern of logged()

    constructor(weir, directory) {
        Object.assign(this, { weir, directory, http: 0, resp: 0 });
    }

    get origin() {
        return `http://127.0.0.1:${this.http}`;
    }

    /** Writes weir.yaml, which needs no section `listen`. A running daemon reads it by itself. */
    write(text) {
        writeFileSync(join(this.directory, "weir.yaml"), text);
    }

    /** Starts it and waits until it listens. The next start uses the same ports. */
    async start(text) {
        if (text !== undefined)
            this.write(text);
        const command = [this.weir, "serve", "--http", this.http, "--port", this.resp,
            join(this.directory, "weir.yaml")];
        const child = this.#process = spawn("setpriv", ["--pdeathsig", "KILL", ...command.map(String)],
            { stdio: ["ignore", "ignore", "pipe"] });
        child.stderr.on("data", (bytes) => this.#read(bytes));
        child.once("error", (error) => this.#end(error));
        child.once("exit", (status) => this.#end(new Error(`weir serve ended with ${status}`)));
        const [, resp, http] = await this.logged(
            / started .* resp=127\.0\.0\.1:(\d+) http=127\.0\.0\.1:(\d+) .*/);
        Object.assign(this, { resp: Number(resp), http: Number(http) });
        return this;
    }

    /** Resolves to the match of a pattern in the log, after what earlier calls matched. */
    logged(pattern) {
        return new Promise((done, failed) => {
            this.#waiting = { pattern, done, failed };
            this.#read("");
        });
    }

    #read(bytes) {
        this.#log += bytes;
        const match = this.#waiting?.pattern.exec(this.#log);
        if (!match)
            return;
        this.#log = this.#log.slice(match.index + match[0].length);
        this.#waiting.done(match);
        this.#waiting = null;
    }

    #end(error) {
        this.#waiting?.failed(new Error(`${error.message}, expected ${this.#waiting.pattern}: ${this.#log}`));
        this.#waiting = null;
    }

    /** Stops it with SIGTERM and waits for its end. */
    async stop() {
        const child = this.#process;
        this.#process = null;
        if (!child || child.exitCode !== null)
            return;
        const ended = new Promise((done) => child.once("exit", done));
        child.kill("SIGTERM");
        await ended;
    }
}

/** Records errors of a page in `found`: exceptions, console errors, and violations of the CSP. */
function watchPage(page, found, { origin, expected = [] }) {
    const report = (what) => {
        if (!expected.some((pattern) => pattern.test(what)))
            found.push(what);
    };
    page.on("pageerror", (error) => report(`exception: ${error.stack ?? error}`));
    page.on("console", (message) => {
        if (message.type() === "error" || message.type() === "warning")
            report(`console ${message.type()}: ${message.text()}`);
    });
    page.on("request", (request) => {
        const url = request.url();
        if (!url.startsWith(origin) && !/^(data|blob):/.test(url))
            report(`request to another origin: ${url}`);
    });
    page.on("websocket", (socket) => report(`a WebSocket: ${socket.url()}`));
    page.on("crash", () => report("the page crashed"));
}

export class Kit {
    #opened = [];
    #daemons = [];

    /**
     * @param {string} build the build directory
     * @param {import("playwright-core").Browser} browser
     */
    constructor(build, browser, require) {
        this.build = resolve(build);
        this.browser = browser;
        this.weir = join(this.build, "weir");
        this.axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
        this.directory = mkdtempSync(join(tmpdir(), "weir-browser-"));
    }

    /** Starts Chromium. No name is resolved in it, so that no request can leave this machine. */
    static async open(build) {
        const require = createRequire(join(resolve(build), "browser", "package.json"));
        const { chromium } = require("playwright-core");
        const args = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"];
        const browser = await chromium.launch({ executablePath: findChromium(), args });
        return new Kit(build, browser, require);
    }

    async close() {
        await this.browser.close();
        rmSync(this.directory, { recursive: true });
    }

    /** The address of a built page, which opens from the disk. */
    file(name) {
        return pathToFileURL(join(this.build, "web", name)).href;
    }

    /** Creates a daemon that ends with the test. */
    daemon() {
        const daemon = new Daemon(this.weir, mkdtempSync(join(this.directory, "daemon-")));
        this.#daemons.push(daemon);
        return daemon;
    }

    /**
     * Opens a page that ends with the test. The test fails if the page has an error that `expected` does
     * not match.
     * @param {string} url
     * @param {{dark?: boolean, width?: number, height?: number, reduced?: boolean, expected?: RegExp[],
     *          within?: string, context?: object, before?: (page: object) => Promise<void>}} [options] a page
     *     from disk may read the files in the directory `within`, its own unless it is given
     */
    async page(url, { dark, width = 1280, height = 900, reduced, expected, within,
        context: more, before } = {}) {
        const context = await this.browser.newContext({
            viewport: { width, height },
            colorScheme: dark ? "dark" : "light",
            reducedMotion: reduced ? "reduce" : "no-preference",
            permissions: ["clipboard-read", "clipboard-write"],
            offline: url.startsWith("file:"),
            ...more,
        });
        context.setDefaultTimeout(PATIENCE_MS);
        const found = [];
        this.#opened.push({ context, found });
        await context.addInitScript(() => {
            document.addEventListener("securitypolicyviolation", (event) => {
                console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
            });
        });
        const page = await context.newPage();
        const origin = within ?? (url.startsWith("file:") ? new URL(".", url).href : new URL(url).origin);
        watchPage(page, found, { origin, expected });
        await before?.(page);
        await page.goto(url);
        return page;
    }

    /**
     * Returns the serious violations that axe finds, each as a line. Axe brings styles of its own, which a
     * page's policy refuses: open the page with {context: {bypassCSP: true}}.
     */
    async violations(page) {
        await page.evaluate(this.axe);
        const result = await page.evaluate(() =>
            globalThis.axe.run(document, { resultTypes: ["violations"] }));
        return result.violations.filter(({ impact }) => SERIOUS.includes(impact)).flatMap(
            ({ id, help, nodes }) => nodes.map((node) =>
                `${id}: ${help}: ${node.target} ${node.failureSummary?.replace(/\s+/g, " ")}`));
    }

    /** Fails if a page is wider than its window. */
    async assertNoSidewaysScroll(page) {
        const [wide, screen] = await page.evaluate(() =>
            [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(wide <= screen, `the page is ${wide} px wide on a screen of ${screen} px`);
    }

    /** Keeps pictures of the open pages in BUILDDIR/browser. */
    async screenshot(name) {
        const stem = join(this.build, "browser", name.replace(/[^a-z0-9]+/gi, "-"));
        for (const [i, { context }] of this.#opened.entries())
            for (const page of context.pages())
                await page.screenshot({ path: `${stem}-${i}.png` }).catch(() => {});
    }

    /** Ends what the test opened. Fails if a page had errors. */
    async endTest() {
        const opened = this.#opened.splice(0), daemons = this.#daemons.splice(0);
        for (const { context } of opened)
            await context.close();
        for (const daemon of daemons)
            await daemon.stop();
        const found = opened.flatMap((one) => one.found);
        assert.deepEqual(found, [], "errors of the page");
    }
}
