// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Draws the figures of the documentation as SVG files: scenes that the WebAssembly core decides, one that moves,
// and charts of accuracy.json. Those of the web pages are in web/guide/figures and web/playground/figures.
//
//     node web/figures/figures.mjs WASM DIRECTORY            writes the files
//     node web/figures/figures.mjs WASM DIRECTORY --check    fails if a file is not what would be written

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { drawState } from "../draw/state.mjs";
import { SvgSurface } from "../draw/surface.mjs";
import { themes } from "../draw/theme.mjs";
import { bandsOf, limitLineOf, Timeline } from "../draw/timeline.mjs";
import { compare } from "../model/compare.mjs";
import { World } from "../model/world.mjs";
import { load } from "../wasm/weir.mjs";
import { accuracyFigures } from "./accuracy.mjs";
import { drawMoving } from "./moving.mjs";
import { pageFigures } from "./pages.mjs";

const SECOND_NS = 1e9;
const BYTES_MAX = 40960;
const WIDTH = 720;
const EDGE = 16;
const theme = themes.light; // on a ground of its own, so that it can be read on any page

/** `count` requests, the first at `first`, then every `every` seconds. */
const row = (first, every, count) => Array.from({ length: count }, (_, i) => first + i * every);

/**
 * A figure: the time lines of its lanes, one above the other, and the state of the lane unless there are
 * several.
 * @typedef {object} Figure
 * @property {string} name of the file
 * @property {string} title for screen readers
 * @property {string[]} lanes policy texts
 * @property {number[]} times of the requests, in seconds
 * @property {number} now in seconds
 * @property {number} span how many seconds are shown
 * @property {boolean} [marks] whether requests are marked that both lanes decide differently
 */

const burst = [...row(1, 0.03, 8), ...row(1.6, 0.25, 4), ...row(2.6, 0.1, 10)];
const boundary = [...row(0.6, 0.2, 3), ...row(1.7, 0.025, 12), ...row(2.01, 0.025, 12), ...row(2.7, 0.3, 5)];
const early = [...row(1.02, 0.02, 10), ...row(2.1, 0.1, 8), ...row(3.72, 0.025, 10), ...row(4.1, 0.08, 10)];

/** @type {Figure[]} */
const figures = [
    {
        name: "gcra", title: "gcra 5/s burst 5: bursts, then one request every 200 ms",
        lanes: ["gcra 5/s burst 5"], times: burst, now: 3.55, span: 3,
    },
    {
        name: "token-bucket", title: "token-bucket 5 refill 5/s: bursts, then one request every 200 ms",
        lanes: ["token-bucket 5 refill 5/s"], times: [...burst, 3.9, 4.05], now: 4.3, span: 3.6,
    },
    {
        name: "leaky-bucket", title: "leaky-bucket 5/s capacity 5: each request raises the level by one",
        lanes: ["leaky-bucket 5/s capacity 5"], times: burst, now: 3.55, span: 3,
    },
    {
        name: "leaky-queue", title: "leaky-queue 5/s depth 5: requests wait, and leave every 200 ms",
        lanes: ["leaky-queue 5/s depth 5"], times: [...row(0.4, 0.25, 5), ...row(2.5, 0.04, 8), 3.1],
        now: 3.15, span: 3,
    },
    {
        name: "fixed-window", title: "fixed-window 10/s: two bursts around a boundary are allowed",
        lanes: ["fixed-window 10/s"], times: boundary, now: 2.4, span: 2.4,
    },
    {
        name: "sliding-log", title: "sliding-log 10/s: never more than ten in any second",
        lanes: ["sliding-log 10/s"], times: boundary, now: 2.4, span: 2.4,
    },
    {
        name: "sliding-counter", title: "sliding-counter 10/s: a share of the previous window counts",
        lanes: ["sliding-counter 10/s"], times: boundary, now: 2.4, span: 2.4,
    },
    {
        name: "sliding-slices", title: "sliding-slices 10/s slices 10: counts of a tenth of a second each",
        lanes: ["sliding-slices 10/s slices 10"], times: [...row(1.35, 0.06, 5), ...row(1.72, 0.03, 6),
            ...row(2.05, 0.1, 5)], now: 2.46, span: 2.4,
    },
    {
        name: "boundary", title: "The same requests under fixed-window, sliding-log and gcra",
        lanes: ["fixed-window 10/s", "sliding-log 10/s", "gcra 10/s burst 10"],
        times: [...row(1.7, 0.025, 12), ...row(2.01, 0.025, 12)], now: 3.1, span: 2.6,
    },
    {
        name: "counter-and-log", title: "The same requests under sliding-counter and sliding-log",
        lanes: ["sliding-counter 10/s", "sliding-log 10/s"], times: early, now: 5, span: 4.5, marks: true,
    },
];

// The picture of README.md that moves. The request at 2 s comes exactly when the denial at 1.8 s said.
const moving = {
    name: "one-limit", title: "Requests come to gcra 1/s burst 4: a burst of four passes, then one a second",
    words: "one a second, four at once", lanes: ["gcra 1/s burst 4"],
    times: [1, 1.2, 1.4, 1.6, 1.8, 2, 2.4, 2.7, 3, 4.4, 5.1, 5.5, 7, 7.9], now: 1.9, period: 12,
};

const TIMELINE_HEIGHT = 168;
const STATE_HEIGHT = 184;
const LANE_HEIGHT = 150;

function worldOf(weir, { lanes, times, now }) {
    const world = new World(weir, {
        lanes, begin: "2026-01-01T00:00:00Z", watch: "alice",
        traffic: { kind: "times", times: times.map((at) => `${at.toFixed(3)} alice`).join("\n") },
    });
    world.seek(now * SECOND_NS);
    for (const lane of world.lanes) {
        if (lane.error)
            throw lane.error;
        lane.decideTo(world.index);
    }
    return world;
}

function drawFigure(weir, figure) {
    const world = worldOf(weir, figure);
    const single = world.lanes.length === 1;
    const height = single ? TIMELINE_HEIGHT + STATE_HEIGHT + 3 * EDGE
        : world.lanes.length * (LANE_HEIGHT + 24 + EDGE) + EDGE;
    const surface = new SvgSurface(WIDTH, height, { title: figure.title, background: theme.panel });
    surface.roundRect(0.5, 0.5, WIDTH - 1, height - 1, 6, { stroke: theme.hairline });
    const w = WIDTH - 2 * EDGE;
    if (single) {
        drawTimeline(surface, { x: EDGE, y: EDGE, w, h: TIMELINE_HEIGHT }, figure, world, 0);
        drawLaneState(surface, { x: EDGE, y: TIMELINE_HEIGHT + 2 * EDGE, w, h: STATE_HEIGHT }, world);
    } else {
        world.lanes.forEach((lane, i) => {
            const y = EDGE + i * (LANE_HEIGHT + 24 + EDGE);
            drawHeading(surface, { x: EDGE, y, w }, lane, world.index);
            drawTimeline(surface, { x: EDGE, y: y + 24, w, h: LANE_HEIGHT }, figure, world, i);
        });
    }
    world.free();
    return surface.toString();
}

function drawHeading(surface, { x, y, w }, lane, index) {
    const { allowed, denied } = lane.totals(index);
    surface.text(x, y + 13, lane.text, { size: 13, weight: 600, mono: true, color: theme.ink });
    surface.text(x + w, y + 13, `${allowed} allowed, ${denied} denied`,
        { size: 13, align: "right", color: theme.muted });
}

function drawTimeline(surface, box, figure, world, i) {
    const lane = world.lanes[i];
    const { times, keys, costs } = world.traffic;
    const fact = lane.layers[0];
    const view = lane.look("alice", world.now, world.index)[0];
    const marks = figure.marks ? compare(world.lanes[0], world.lanes[1], 0, world.index).marks : [];
    new Timeline().draw(surface, box, {
        times, keys, costs, columns: lane.columns, to: world.index, nowNs: world.now,
        spanNs: figure.span * SECOND_NS, theme, marks,
        bands: bandsOf(fact, view), limitLine: limitLineOf(fact, view),
    });
}

function drawLaneState(surface, box, world) {
    const [lane] = world.lanes;
    const views = lane.look("alice", world.now, world.index);
    const decision = world.index > 0 ? lane.event(world.index - 1) : null;
    drawState(surface, box, views, lane.layers, {
        nowNs: world.now, theme, reduced: true,
        decision: decision && { allowed: decision.allowed, delayNs: decision.delayNs, layer: decision.layer },
    });
}

function drawMovingFigure(weir) {
    const world = worldOf(weir, { ...moving, now: moving.period });
    const [lane] = world.lanes;
    const events = moving.times.map((at, i) => ({ ...lane.event(i), at, reset: lane.event(i).resetNs / SECOND_NS }));
    world.free();
    return drawMoving(moving, lane.text, events);
}

function differs(path, text) {
    try {
        return readFileSync(path, "utf8") !== text;
    } catch {
        return true;
    }
}

const [wasm, directory, check] = process.argv.slice(2);
const weir = await load(readFileSync(wasm));
let failed = 0;
const web = fileURLToPath(new URL("..", import.meta.url));
const drawn = [
    ...figures.map((figure) => ({ place: directory, name: figure.name, text: drawFigure(weir, figure) })),
    { place: directory, name: moving.name, text: drawMovingFigure(weir) },
    ...accuracyFigures(JSON.parse(readFileSync(new URL("accuracy.json", import.meta.url), "utf8")))
        .map((figure) => ({ place: directory, ...figure })),
    ...pageFigures(weir).map((figure) => ({ place: web, ...figure })),
];
for (const { place, name, text } of drawn) {
    const path = join(place, `${name}.svg`);
    if (text.length > BYTES_MAX || /NaN|undefined|Infinity/.test(text)) {
        failed++;
        console.error(`${path}: ${text.length} characters or an invalid number, expected ${BYTES_MAX}`);
    } else if (!check) {
        writeFileSync(path, text);
    } else if (differs(path, text)) {
        failed++;
        console.error(`${path}: differs from what is drawn; run: make figures`);
    }
}
console.log(`${drawn.length - failed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
