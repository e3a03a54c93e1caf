// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The dashboard in Chromium, served by a daemon that decides requests of the test.

import assert from "node:assert/strict";

const POLICIES = "policies: {api: {limit: gcra 1/h burst 5}, login: {limit: sliding-log 5/h}}";
const LOST = [/ERR_CONNECTION_REFUSED/, /ERR_INCOMPLETE_CHUNKED_ENCODING/, /ERR_EMPTY_RESPONSE/,
    /ERR_CONNECTION_RESET/, /Failed to load resource/];

/** Sends requests one after the other. Returns how many were allowed. */
async function send(daemon, policy, key, n, headers = {}) {
    let allowed = 0;
    for (let i = 0; i < n; i++) {
        const query = new URLSearchParams({ policy, key });
        const { status } = await fetch(`${daemon.origin}/v1/take?${query}`, { headers });
        assert.ok(status === 200 || status === 429, `status ${status}`);
        allowed += Number(status === 200);
    }
    return allowed;
}

class DashboardPage {
    constructor(page) {
        this.page = page;
    }

    static async open(kit, daemon, hash = "", options = {}) {
        const page = await kit.page(`${daemon.origin}/dashboard${hash}`, options);
        const dashboard = new DashboardPage(page);
        await dashboard.live();
        return dashboard;
    }

    /** Waits until the page receives ticks. */
    live() {
        return this.page.locator("#connection[data-state=open]").waitFor();
    }

    /** Waits until a count of the policy's page is n. */
    count(verdict, n) {
        return this.page.locator("dl.counts > div")
            .filter({ has: this.page.getByText(verdict, { exact: true }) }).locator("dd.count")
            .getByText(n.toLocaleString("en-US"), { exact: true }).waitFor();
    }

    /** A row of the table of policies. */
    row(name) {
        return this.page.locator("table.policies tbody tr")
            .filter({ has: this.page.getByRole("link", { name, exact: true }) });
    }

    fact(name, text) {
        return this.page.locator("dl.facts > div").filter({ has: this.page.getByText(name, { exact: true }) })
            .getByText(text).waitFor();
    }

    button(name) {
        return this.page.getByRole("button", { name, exact: true });
    }

    async confirm(action) {
        await this.page.getByRole("dialog").getByRole("button", { name: action, exact: true }).click();
    }
}

/** Who opens the page after the alarm sees the alarm. */
async function thePast(kit) {
    const daemon = await kit.daemon().start(POLICIES);
    await send(daemon, "api", "early", 305);
    const dashboard = await DashboardPage.open(kit, daemon);
    const { page } = dashboard;
    // No request arrives while the page is open, so the figures are those of the past.
    await page.getByRole("heading", { name: "Busiest policies" }).waitFor();
    await page.locator(".chart-small").getByRole("link", { name: "api", exact: true }).waitFor();
    await dashboard.row("api").getByRole("link").click();
    const canvas = page.locator("canvas[aria-label^='Decisions of api a second']");
    await canvas.focus();
    const said = [];
    for (let i = 0; i < 60; i++) {
        await page.keyboard.press(i === 0 ? "End" : "ArrowLeft");
        said.push(await canvas.getAttribute("aria-label"));
    }
    assert.ok(said.some((text) => /denied [1-9]/.test(text ?? "")), said.join("\n"));
}

async function countsRise(kit) {
    const daemon = await kit.daemon().start(POLICIES);
    await send(daemon, "api", "early", 7);
    const dashboard = await DashboardPage.open(kit, daemon);
    await dashboard.row("api").waitFor();
    await dashboard.row("login").waitFor();
    await dashboard.row("api").getByText("7", { exact: true }).waitFor();
    await dashboard.row("api").getByRole("link").click();
    await dashboard.count("allowed", 5);
    await dashboard.count("denied", 2);
    assert.equal(await send(daemon, "api", "late", 9), 5);
    await dashboard.count("allowed", 10);
    await dashboard.count("denied", 6);
}

async function reload(kit) {
    const daemon = await kit.daemon().start(POLICIES);
    const dashboard = await DashboardPage.open(kit, daemon);
    await dashboard.fact("Configuration", /^0 reloads/);
    daemon.write(`${POLICIES.slice(0, -1)}, upload: {limit: gcra 9/s}}`);
    await dashboard.row("upload").getByText("gcra 9/s").waitFor();
    await dashboard.fact("Configuration", /^1 reloads?, 0 refused/);
    daemon.write("policies: {api: {limit: nonsense}}");
    await dashboard.fact("Configuration", /1 refused/);
    await dashboard.row("upload").waitFor();
}

/** The page says that the daemon is gone, connects again by itself, and counts from the start. */
async function lostDaemon(kit) {
    const daemon = await kit.daemon().start(POLICIES);
    await send(daemon, "api", "alice", 8);
    const dashboard = await DashboardPage.open(kit, daemon, "#policy=api", { expected: LOST });
    await dashboard.count("denied", 3);
    await daemon.stop();
    await dashboard.page.getByText(/Connection lost: .* Retrying in \d+ s/).waitFor();
    await daemon.start();
    await send(daemon, "api", "alice", 6);
    await dashboard.live();
    await dashboard.page.locator("#notice").waitFor({ state: "hidden" });
    await dashboard.count("allowed", 5);
    await dashboard.count("denied", 1);
}

async function candidate(kit) {
    const daemon = await kit.daemon().start(
        POLICIES.replace("burst 5}", "burst 5, overrides: {vip: gcra 1/h burst 9}}"));
    const dashboard = await DashboardPage.open(kit, daemon, "#policy=api");
    const { page } = dashboard;
    const input = page.getByLabel("Candidate limit");
    await input.fill("gcra 1/h brst 2");
    await page.getByText("column 10: found 'brst'").waitFor();
    assert.equal(await page.locator("pre.caret").textContent(), `${" ".repeat(9)}^`);
    await input.fill("gcra 1/h burst 2");
    await dashboard.button("Compare").click();
    await page.getByText("No request has arrived since the candidate was set.").waitFor();
    assert.equal(await send(daemon, "api", "alice", 10), 5, "a candidate changes no answer");
    await page.getByText(/10 requests, 70\s%\swith the same answer\./).waitFor();
    await page.getByText(/The candidate would have allowed 0 that were denied, /).waitFor();
    await page.getByText(/and denied 3 that were allowed\.$/).waitFor();
    await send(daemon, "api", "vip", 2);
    await page.getByText(/Left out: 2 requests of keys with an override/).waitFor();
    await dashboard.button("Stop").click();
    await dashboard.button("Compare").waitFor();
    const metrics = await (await fetch(`${daemon.origin}/metrics`)).text();
    assert.match(metrics,
        /^weir_candidate_decisions_total\{policy="api",current="allowed",candidate="denied"\} 3$/m);
}

async function shadow(kit) {
    const daemon = await kit.daemon().start(POLICIES);
    const dashboard = await DashboardPage.open(kit, daemon, "#policy=api");
    assert.equal(await send(daemon, "api", "alice", 6), 5);
    await dashboard.button("Switch shadow mode on…").click();
    await dashboard.confirm("Cancel");
    assert.equal(await send(daemon, "api", "alice", 1), 0);
    await dashboard.button("Switch shadow mode on…").click();
    await dashboard.confirm("Stop denying");
    await dashboard.button("Enforce the policy…").waitFor();
    assert.equal(await send(daemon, "api", "alice", 3), 3);
    await dashboard.count("shadow: would be denied", 3);
    await dashboard.button("Enforce the policy…").click();
    await dashboard.confirm("Enforce the policy");
    await dashboard.button("Switch shadow mode on…").waitFor();
    assert.equal(await send(daemon, "api", "alice", 1), 0);
}

async function keys(kit) {
    const daemon = await kit.daemon().start(POLICIES);
    const evil = '<img src=x onerror="throw 1">';
    for (const key of ["alice", evil])
        await send(daemon, "api", key, 8);
    const dashboard = await DashboardPage.open(kit, daemon, "#policy=api");
    const { page } = dashboard;
    await page.getByRole("button", { name: evil, exact: true }).first().waitFor();
    await page.getByLabel("Key", { exact: true }).fill("alice");
    await dashboard.button("Explain").click();
    await page.getByLabel("State of the key").getByText(/gcra 1\/h burst 5/).waitFor();
    await dashboard.button("Reset…").click();
    await dashboard.confirm("Reset the key");
    await page.getByText("alice has its full quota again.").waitFor();
    assert.equal(await send(daemon, "api", "alice", 6), 5);
}

/**
 * A row resets its key after a question, and a key that is idle again is not near its limit. The costs are
 * large, because the lists halve them each minute, and a cost of 1 is gone then.
 */
async function resetRow(kit) {
    const daemon = await kit.daemon().start(POLICIES.replace("burst 5}", "burst 500}"));
    const take = async (key, cost) =>
        (await fetch(`${daemon.origin}/v1/take?policy=api&key=${key}&cost=${cost}`)).status;
    assert.equal(await take("alice", 500), 200);
    assert.equal(await take("alice", 400), 429);
    assert.equal(await take("bob", 200), 200);
    const dashboard = await DashboardPage.open(kit, daemon, "#policy=api");
    const { page } = dashboard;
    const list = (title) => page.getByRole("table", { name: title });
    const reset = (title, key) => list(title).getByRole("button", { name: `Reset… ${key}`, exact: true });
    await reset("Nearest to their limit", "bob").waitFor();
    await reset("Most denied keys", "alice").click();
    await dashboard.confirm("Cancel");
    assert.equal(await send(daemon, "api", "alice", 1), 0);
    await reset("Most denied keys", "alice").click();
    await page.getByRole("dialog", { name: "Reset alice?" }).waitFor();
    await dashboard.confirm("Reset the key");
    await page.getByText("alice has its full quota again.").waitFor();
    await reset("Nearest to their limit", "alice").waitFor({ state: "hidden" });
    await reset("Nearest to their limit", "bob").click();
    await dashboard.confirm("Reset the key");
    await page.getByText("No key of these lists has used any of its limit").waitFor();
    assert.equal(await take("alice", 500), 200);
}

/** A slow answer does not replace a newer one, and Reset acts on the key that is shown. */
async function slowAnswer(kit) {
    const daemon = await kit.daemon().start(POLICIES);
    const dashboard = await DashboardPage.open(kit, daemon, "#policy=api");
    const { page } = dashboard;
    let answer = () => {};
    const held = new Promise((resolve) => {
        answer = () => resolve(undefined);
    });
    await page.route(/explain.*key=slow/, async (route) => {
        await held;
        await route.continue();
    });
    for (const key of ["slow", "fast"]) {
        await page.getByLabel("Key", { exact: true }).fill(key);
        await dashboard.button("Explain").click();
    }
    await page.getByText(/^State of fast at/).waitFor();
    const slow = page.waitForResponse(/explain.*key=slow/);
    answer();
    await (await slow).finished();
    assert.match(await page.getByText(/^State of /).textContent() ?? "", /^State of fast at/);
    assert.equal(await dashboard.button("Reset…").isEnabled(), true);
    await page.getByLabel("Key", { exact: true }).fill("another");
    assert.equal(await dashboard.button("Reset…").isEnabled(), false);
}

async function manyPolicies(kit) {
    const lines = Array.from({ length: 1000 }, (_, i) => `  p${i}: {limit: gcra ${i + 1}/s}`);
    const daemon = await kit.daemon().start(`policies:\n${lines.join("\n")}\n`);
    const dashboard = await DashboardPage.open(kit, daemon);
    const { page } = dashboard;
    await send(daemon, "p777", "alice", 3);
    await page.getByText(/^1,000 policies, shown: 1 to \d+$/).waitFor();
    await page.locator("table.policies tbody tr").first().getByRole("link", { name: "p777" }).waitFor();
    await page.getByLabel("Search policies").fill("p99");
    await page.getByText("11 of 1,000 policies").waitFor();
    await page.getByLabel("Search policies").fill("");
    await dashboard.button("Policy").click();
    const first = page.locator("table.policies tbody tr").first();
    await first.getByRole("link", { name: "p0", exact: true }).waitFor();
    await dashboard.button("Next").click();
    await dashboard.row("p0").waitFor({ state: "hidden" });
}

async function password(kit) {
    const text = `password: s3cret\n${POLICIES}`;
    const daemon = await kit.daemon().start(text);
    for (const path of ["dashboard", "v1/live", "v1/history", "v1/shadow?policy=api&shadow=true",
        "v1/candidate?policy=api&limit="]) {
        const method = path.includes("?") ? "POST" : "GET";
        assert.equal((await fetch(`${daemon.origin}/${path}`, { method })).status, 401, path);
    }
    const credentials = { username: "anyone", password: "s3cret" };
    const dashboard = await DashboardPage.open(kit, daemon, "#policy=api",
        { context: { httpCredentials: credentials } });
    await send(daemon, "api", "alice", 6, { Authorization: "Bearer s3cret" });
    await dashboard.count("denied", 1);
}

export default {
    "dashboard: the counts of a daemon rise": countsRise,
    "dashboard: the charts begin with the last hour": thePast,
    "dashboard: a reload shows new policies, and a refused one is counted": reload,
    "dashboard: it connects again to a daemon that was lost": lostDaemon,
    "dashboard: a candidate is compared and changes no answer": candidate,
    "dashboard: shadow mode is switched on and off": shadow,
    "dashboard: keys are listed, explained and reset": keys,
    "dashboard: a row resets its key, and idle keys are left out": resetRow,
    "dashboard: a slow answer does not replace a newer one": slowAnswer,
    "dashboard: 1,000 policies are searched, sorted and turned over": manyPolicies,
    "dashboard: a password is asked for": password,
};
