// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The pictures of the guide and of the playground as they are on paper and without JavaScript: each scene at one
// moment, with what the page shows of it.

import { drawState, stateHeight } from "../draw/state.mjs";
import { SvgSurface, textWidth } from "../draw/surface.mjs";
import { themes } from "../draw/theme.mjs";
import { Timeline, bandsOf } from "../draw/timeline.mjs";
import { READER, SPAMMER, countSpam, messagesOf } from "../guide/chat.mjs";
import { countServers, pictures, servers } from "../guide/scenes.mjs";
import { presetOf } from "../model/presets.mjs";
import { World } from "../model/world.mjs";

const WIDTH = 720, EDGE = 16, GAP = 24;
const HEAD = 30, TIME_HEIGHT = 128;
const ROWS = 12, ROW_HEIGHT = 22; // of the chat
const theme = themes.light; // on a ground of its own, so that it can be read on any page

function worldOf(weir, scene, second) {
    const world = new World(weir, structuredClone(scene));
    world.seek(second * 1e9);
    return world;
}

/** Draws with `draw` on a panel of a height, which is given without its edges. */
function panel(title, height, draw) {
    const surface = new SvgSurface(WIDTH, height + 2 * EDGE, { title, background: theme.panel });
    surface.roundRect(0.5, 0.5, WIDTH - 1, height + 2 * EDGE - 1, 12, { stroke: theme.hairline });
    draw(surface);
    return surface.toString();
}

function drawHead(surface, { x, y, w }, title, policy) {
    surface.text(x, y + 13, title, { size: 14, weight: 600, color: theme.ink });
    if (textWidth(title, { size: 14, weight: 600 }) + textWidth(policy, { mono: true }) <= w)
        surface.text(x + w, y + 13, policy, { align: "right", mono: true, color: theme.muted });
}

/** The height of a lane's state, which has no title if it is the only one. */
const stateOf = (w, { layers }) => stateHeight(w, layers.length) - (layers.length < 2 ? 24 : 0);

const laneHeight = (w, world) => HEAD + stateOf(w, world.lanes[0]) + 8 + TIME_HEIGHT;

function drawLane(surface, { x, y, w }, title, world, i) {
    const lane = world.lanes[i], { traffic, index, now, scene } = world;
    const views = lane.look(world.watch, now, index);
    const last = traffic.eventsOf(traffic.names.indexOf(world.watch)).filter((one) => one < index).at(-1);
    const high = stateOf(w, lane);
    drawHead(surface, { x, y, w }, title, lane.text);
    drawState(surface, { x, y: y + HEAD, w, h: high }, views, lane.layers, {
        nowNs: now, theme, reduced: true, named: views.length > 1,
        decision: last === undefined ? null : lane.event(last),
    });
    const { times, keys, costs } = traffic;
    new Timeline().draw(surface, { x, y: y + HEAD + high + 8, w, h: TIME_HEIGHT }, {
        times, keys, costs, columns: lane.columns, to: index, nowNs: now, spanNs: scene.span * 1e9, theme,
        bands: bandsOf(lane.layers[0], views[0]),
    });
}

/** A scene with a lane or two, side by side. */
function drawScene(weir, { titles, scene, still }) {
    const world = worldOf(weir, scene, still), n = world.lanes.length;
    const w = (WIDTH - 2 * EDGE - (n - 1) * GAP) / n;
    const text = panel(scene.title, laneHeight(w, world), (surface) => titles.forEach((title, i) =>
        drawLane(surface, { x: EDGE + i * (w + GAP), y: EDGE, w }, title, world, i)));
    world.free();
    return text;
}

/** The servers with counts of their own, and below them the shared count. */
function drawServers(weir, { scene, still }) {
    const worlds = servers.lanes.map((lane) => worldOf(weir, lane.scene, still));
    const wide = WIDTH - 2 * EDGE, half = (wide - GAP) / 2, high = laneHeight(half, worlds[0]) + GAP;
    const { own, shared } = countServers(worlds);
    const text = panel(scene.title, 2 * high, (surface) => {
        const places = [[EDGE, EDGE, half], [EDGE + half + GAP, EDGE, half], [EDGE, EDGE + high, wide]];
        places.forEach(([x, y, w], i) =>
            drawLane(surface, { x, y, w }, servers.lanes[i].titles[0], worlds[i], 0));
        surface.text(EDGE, EDGE + 2 * high - 4, `Allowed in the last ${servers.windowSeconds} seconds: ${own} by the `
            + `two servers together, ${shared} with a shared count.`, { size: 13, weight: 600, color: theme.ink });
    });
    worlds.forEach((world) => world.free());
    return text;
}

function drawWindow(surface, { x, y, w }, title, policy, messages) {
    const high = ROWS * ROW_HEIGHT + 8, { all, spam, text } = countSpam(messages);
    drawHead(surface, { x, y, w }, title, policy);
    surface.roundRect(x, y + HEAD, w, high, 8, { fill: theme.band });
    messages.slice(-ROWS).forEach(({ name, text: said }, i) => {
        const top = y + HEAD + 4 + i * ROW_HEIGHT;
        if (name === SPAMMER)
            surface.roundRect(x + 4, top + 1, w - 8, ROW_HEIGHT - 2, 4, { fill: theme.deniedSoft });
        const color = name === SPAMMER ? theme.deniedText : name === READER ? theme.allowedText : theme.ink;
        surface.text(x + 12, top + 16, name, { size: 13, weight: 600, color });
        surface.text(x + 84, top + 16, said, { size: 13, color });
    });
    const bar = y + HEAD + high + 8;
    surface.roundRect(x, bar, w, 6, 3, { fill: theme.allowed });
    surface.rect(x, bar, (w * spam) / Math.max(1, all), 6, { fill: theme.denied });
    surface.text(x, bar + 24, text, { size: 14, weight: 600, color: theme.ink });
}

function drawChat(weir, { scene, still }) {
    const world = worldOf(weir, scene, still), messages = messagesOf(world);
    const w = (WIDTH - 2 * EDGE - GAP) / 2;
    const text = panel(scene.title, HEAD + ROWS * ROW_HEIGHT + 44, (surface) => {
        drawWindow(surface, { x: EDGE, y: EDGE, w }, "Without a limiter", "", messages);
        drawWindow(surface, { x: EDGE + w + GAP, y: EDGE, w }, "With a limiter", world.lanes[0].text,
            messages.filter(({ allowed }) => allowed));
    });
    world.free();
    return text;
}

/**
 * Draws the scenes that guide.html shows, and the one with which the playground begins.
 * @param {any} weir the module of weir.mjs
 * @returns {{name: string, text: string}[]} the names begin with the folder of the page
 */
export function pageFigures(weir) {
    const special = { chat: drawChat, servers: drawServers };
    const linked = ["even", "run"]; // scenes that the text links to, without a picture
    const shown = Object.entries(pictures).filter(([name]) => !linked.includes(name));
    const first = { titles: ["Fixed window", "Sliding log"], scene: presetOf("boundary").scene, still: 13.5 };
    return [
        ...shown.map(([name, picture]) =>
            ({ name: `guide/figures/${name}`, text: (special[name] ?? drawScene)(weir, picture) })),
        { name: "playground/figures/boundary", text: drawScene(weir, first) },
    ];
}
