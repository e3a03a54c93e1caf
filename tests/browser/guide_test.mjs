// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests the guide: its pictures, its links to the playground, and the page without JavaScript.

import assert from "node:assert/strict";

const FIGURES = "figure[data-scene]";

/** Scrolls to a figure. Returns whether it has its picture and stays there: others that are made can move it. */
async function scrollToFigure(element) {
    element.scrollIntoView({ block: "center" });
    const { top } = element.getBoundingClientRect();
    for (let frame = 0; frame < 10; frame++)
        await new Promise(requestAnimationFrame);
    return element.classList.contains("is-live") && element.getBoundingClientRect().top === top;
}

/** Scrolls to a figure and waits for its picture. Returns its element. */
async function show(page, scene) {
    const figure = page.locator(`figure[data-scene="${scene}"]`);
    for (let tries = 1; !(await figure.evaluate(scrollToFigure)); tries++)
        assert(tries < 100, `the figure ${scene} does not stay in view`);
    return figure;
}

const sceneNames = (page) => page.locator(FIGURES).evaluateAll((all) => all.map((one) => one.dataset.scene));
const clockOf = (figure) => figure.locator(".small-controls .numbers").textContent();
const button = (figure, name) => figure.getByRole("button", { name, exact: true });

/** Waits until the figure's clock differs from a time. */
async function untilMoved(page, figure, from) {
    const element = await figure.locator(".small-controls .numbers").elementHandle();
    await page.waitForFunction(([one, text]) => one.textContent !== text, [element, from]);
}

/** Each picture is made when the reader comes near, and plays while it is visible. */
async function pictures(kit) {
    const page = await kit.page(kit.file("guide.html"));
    const names = await sceneNames(page);
    assert.equal(names.length, 14);
    for (const name of names) {
        const figure = await show(page, name);
        await button(figure, "Pause").waitFor();
        await untilMoved(page, figure, await clockOf(figure));
        if (name !== "chat")
            await figure.locator("canvas[aria-label]").first().waitFor(); // labels are written once a second
        assert.equal(await figure.locator(".still").isVisible(), false);
    }
    const last = page.locator(FIGURES).last();
    await page.evaluate(() => scrollTo(0, 0));
    await button(last, "Play").waitFor();
    await show(page, names.at(-1));
    await button(last, "Pause").waitFor();
}

/** A reader who has paused a picture finds it paused. */
async function paused(kit) {
    const page = await kit.page(kit.file("guide.html"));
    const figure = await show(page, "boundary");
    await button(figure, "Pause").click();
    await button(figure, "Play").waitFor();
    const time = await clockOf(figure);
    await show(page, "layers");
    await show(page, "boundary");
    const other = await show(page, "fixed-window");
    await untilMoved(page, other, await clockOf(other));
    assert.equal(await clockOf(figure), time);
}

async function reducedMotion(kit) {
    const page = await kit.page(kit.file("guide.html"), { reduced: true });
    for (const name of await sceneNames(page))
        await button(await show(page, name), "Play").waitFor();
    const figure = await show(page, "gcra");
    await button(figure, "Play").click();
    await button(figure, "Pause").waitFor();
}

/** The chat rests after a minute, with what the text says. A reader who sends too much has to wait as well. */
async function chat(kit) {
    const page = await kit.page(kit.file("guide.html"), { reduced: true });
    const figure = await show(page, "chat");
    const [all, limited] = [0, 1].map((i) => figure.locator(".chat-window").nth(i));
    await all.getByText("130 of 160 messages are spam").waitFor();
    await limited.getByText("17 of 47 messages are spam").waitFor();
    for (let i = 0; i < 4; i++)
        await button(figure, "Send a message").click();
    await all.getByText("130 of 164 messages are spam").waitFor();
    await limited.getByText("17 of 50 messages are spam").waitFor();
    assert.equal(await all.locator(".is-own").count(), 4);
    assert.match(await limited.locator("li").last().textContent(), /^you denied: wait .* s$/);
    await button(figure, "Reset").click();
    await all.getByText("0 of 0 messages are spam").waitFor();
    await button(figure, "Play").click();
    await all.locator(".is-spam").first().waitFor();
}

/** A request of the reader's own stops the automatic ones, while the clock goes on, until they are resumed. */
async function held(kit) {
    const page = await kit.page(kit.file("guide.html"));
    const figure = await show(page, "fixed-window");
    const count = async () => {
        const texts = await figure.locator(".totals dd > span").allTextContents();
        return Number(texts[0]) + Number(texts[1]);
    };
    const resume = button(figure, "Resume traffic");
    await button(figure, "Pause").waitFor();
    assert.equal(await resume.isVisible(), false);
    await button(figure, "Hit").click();
    await resume.waitFor();
    const [sent, time] = [await count(), Number.parseFloat(await clockOf(figure))];
    await page.waitForFunction(([one, from]) => Number.parseFloat(one.textContent) > from + 8,
        [await figure.locator(".small-controls .numbers").elementHandle(), time]);
    assert.equal(await count(), sent);
    await button(figure, "Hit").click();
    await page.waitForFunction(([one, n]) => [...one.querySelectorAll(".totals dd > span")].slice(0, 2)
        .reduce((sum, span) => sum + Number(span.textContent), 0) === n,
    [await figure.elementHandle(), sent + 1]);
    await resume.click();
    await resume.waitFor({ state: "hidden" });
    await page.waitForFunction(([one, n]) => [...one.querySelectorAll(".totals dd > span")].slice(0, 2)
        .reduce((sum, span) => sum + Number(span.textContent), 0) > n,
    [await figure.elementHandle(), sent + 1]);
}

/** On paper, each figure is a picture that stands still, and the page is light. */
async function print(kit) {
    const page = await kit.page(kit.file("guide.html"), { dark: true });
    await show(page, "fixed-window");
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    await assertStills(page);
    assert.equal(await page.locator(".figure-picture:visible, .small-controls:visible").count(), 0);
    assert.match(await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor), /25\d/);
}

/** Fails unless each figure shows the whole of its picture that stands still. */
async function assertStills(page) {
    const stills = page.locator(`${FIGURES} .still:visible`);
    assert.equal(await stills.count(), await page.locator(FIGURES).count());
    for (const still of await stills.all()) {
        await still.scrollIntoViewIfNeeded();
        await still.evaluate((image) => image.decode());
        const { width, height } = await still.boundingBox();
        assert(width > 300 && height > 150);
    }
}

/** Two servers with counts of their own allow twice the limit; Hit sends a request to each in turn. */
async function servers(kit) {
    const page = await kit.page(kit.file("guide.html"), { reduced: true });
    const figure = await show(page, "servers");
    assert.match(await figure.locator(".servers-sum").textContent(),
        /10 seconds: 20 by the two servers together, 10 with a shared count/);
    for (const number of [1, 2, 1]) {
        await button(figure, "Hit").click();
        await figure.getByText(`Server ${number}: denied. With a shared count: denied.`).waitFor({ state: "attached" });
    }
    await button(figure, "Reset").click();
    await button(figure, "Hit").click();
    await figure.getByText("Server 1: allowed. With a shared count: allowed.").waitFor({ state: "attached" });
}

/** Each link to the playground opens its scene. */
async function links(kit) {
    const page = await kit.page(kit.file("guide.html"), { reduced: true });
    for (const name of await sceneNames(page))
        await show(page, name);
    const all = page.locator("a[href*='playground.html#']");
    const hashes = await all.evaluateAll((list) => list.map((link) => new URL(link.href).hash));
    assert(hashes.length >= 20);
    for (const hash of hashes) {
        await page.goto("about:blank");
        await page.goto(`${kit.file("playground.html")}${hash}`);
        const first = new URLSearchParams(hash.slice(1)).get("lane");
        await page.waitForFunction((text) => document.querySelector(".policy")?.value === text, first);
    }
}

/** Without JavaScript, the text is there, with each picture standing still. */
async function withoutScript(kit) {
    const page = await kit.page(kit.file("guide.html"), { context: { javaScriptEnabled: false } });
    await assertStills(page);
    assert(await page.getByRole("heading", { name: "How to choose" }).isVisible());
    assert.equal(await page.locator("#theme").isVisible(), false);
}

export default {
    "guide: pictures play while they are visible": pictures,
    "guide: a paused picture stays paused": paused,
    "guide: nothing moves with reduced motion": reducedMotion,
    "guide: a chat without and with a limiter": chat,
    "guide: a request of the reader's own holds the traffic": held,
    "guide: in print": print,
    "guide: two servers with counts of their own": servers,
    "guide: links open the playground": links,
    "guide: the text needs no script": withoutScript,
};
