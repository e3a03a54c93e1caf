// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Measures the playground in Chromium: the script time of a frame with 8 lanes at 1,000 requests a second.
// A screen with 60 frames a second leaves 16.7 ms for a frame. Scripts should use less than half of it: the
// goal is 8 ms.
//
//     node bench/web.mjs BUILDDIR --json FILE

import { writeFileSync } from "node:fs";
import { sceneToHash } from "../web/model/scene.mjs";
import { Kit, missing } from "../tests/browser/kit.mjs";

const GOAL_MS = 8;
const FRAMES = 600; // those that the page keeps
const SPAN_S = 10;
const PATIENCE_MS = 180_000;
const SCENE = {
    lanes: ["gcra 100/s burst 200", "token-bucket 200 refill 100/s", "leaky-bucket 100/s capacity 200",
        "leaky-queue 100/s depth 200", "fixed-window 100/s", "sliding-log 100/s", "sliding-counter 100/s",
        "sliding-slices 100/s slices 10"],
    traffic: { kind: "poisson", rate: 1000, users: 20 },
    span: SPAN_S,
};

/** Returns the script times of frames, in ascending order, once the time line is full. */
async function measure(kit) {
    const page = await kit.page(kit.file("playground.html") + sceneToHash(SCENE));
    await page.getByRole("button", { name: "Pause", exact: true }).waitFor(); // it plays
    const patience = { timeout: PATIENCE_MS };
    await page.waitForFunction((ns) => globalThis.weirPlayground.world.now > ns, SPAN_S * 1e9, patience);
    await page.evaluate(() => {
        globalThis.weirFrameMs.length = 0;
    });
    await page.waitForFunction((n) => globalThis.weirFrameMs.length >= n, FRAMES, patience);
    const { frames, requests } = await page.evaluate(() =>
        ({ frames: globalThis.weirFrameMs, requests: globalThis.weirPlayground.world.index }));
    await kit.endTest();
    console.log(`${requests} requests in each of ${SCENE.lanes.length} lanes`);
    return frames.sort((a, b) => a - b);
}

const [build, option, file] = process.argv.slice(2);
if (!build || option !== "--json" || !file) {
    console.error("usage: node bench/web.mjs BUILDDIR --json FILE");
    process.exit(2);
}
const lacking = missing(build);
if (lacking) {
    console.error(`bench: ${lacking}`);
    process.exit(1);
}
const kit = await Kit.open(build);
try {
    const frames = await measure(kit);
    const at = (share) => Number(frames[Math.floor(share * (frames.length - 1))].toFixed(2));
    const value = at(0.5);
    const ratio = Number((value / GOAL_MS).toFixed(3));
    const row = { name: "web.frame_ms", value, unit: "ms", baseline: GOAL_MS, ratio };
    console.log(`script time of a frame, ${FRAMES} frames: median ${value} ms, 90 % ${at(0.9)} ms, `
        + `99 % ${at(0.99)} ms, goal ${GOAL_MS} ms`);
    writeFileSync(file, `${JSON.stringify([row], null, 1)}\n`);
} finally {
    await kit.close();
}
