// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The state of one key as pictures: one for each layer of the policy, side by side. A picture has a title,
// the algorithm's own drawing (buckets.mjs, windows.mjs), and what remains in words.

import { drawBucket, drawGcra, drawLeakyBucket, drawQueue } from "./buckets.mjs";
import { formatCount, formatNs, formatNumber, formatRate, formatWait } from "./format.mjs";
import { drawShape, textWidth } from "./surface.mjs";
import { drawBlock, drawCounter, drawFixedWindow, drawLeases, drawLog, drawSlices } from "./windows.mjs";

/** @typedef {{x: number, y: number, w: number, h: number}} Box in CSS pixels */

/**
 * What a picture is drawn from.
 * @typedef {object} Picture
 * @property {import("./surface.mjs").CanvasSurface | import("./surface.mjs").SvgSurface} surface
 * @property {object} view what key.lookAt() returns for this layer
 * @property {object} fact the layer of policy.layers
 * @property {number} nowNs
 * @property {import("./theme.mjs").Theme} theme
 * @property {boolean} reduced whether motion is reduced
 * @property {boolean} named whether the layer's policy and the last verdict are written above the drawing
 * @property {boolean} denied whether this layer denied the last request, and still denies a request
 */

const DRAWINGS = {
    "gcra": drawGcra,
    "token-bucket": drawBucket,
    "leaky-bucket": drawLeakyBucket,
    "leaky-queue": drawQueue,
    "fixed-window": drawFixedWindow,
    "sliding-log": drawLog,
    "sliding-counter": drawCounter,
    "sliding-slices": drawSlices,
    block: drawBlock,
    "concurrent": drawLeases,
};

const GAP = 24; // between two pictures
const WIDTH_MIN = 168; // of a picture; narrower boxes have several rows

/**
 * Draws a picture for each layer.
 * @param {Picture["surface"]} surface
 * @param {Box} box
 * @param {object[]} layerViews what key.lookAt() returns
 * @param {object[]} layerFacts policy.layers
 * @param {object} options
 * @param {number} options.nowNs the time of the views
 * @param {{allowed: boolean, delayNs?: number, layer?: number} | null} [options.decision] on the last request
 * @param {import("./theme.mjs").Theme} options.theme
 * @param {boolean} [options.reduced] true: nothing moves but what the state itself changes
 * @param {boolean} [options.named] false: neither the policy nor the verdict is written above its drawing
 */
export function drawState(surface, box, layerViews, layerFacts,
    { nowNs, decision = null, theme, reduced = false, named = true }) {
    const count = Math.min(layerViews.length, layerFacts.length);
    const columns = Math.max(1, Math.min(count, Math.floor((box.w + GAP) / (WIDTH_MIN + GAP))));
    const rows = Math.ceil(count / columns);
    const w = (box.w - (columns - 1) * GAP) / columns;
    const h = (box.h - (rows - 1) * GAP / 2) / rows;
    for (let i = 0; i < count; i++) {
        const x = box.x + i % columns * (w + GAP);
        const y = box.y + Math.floor(i / columns) * (h + GAP / 2);
        const denied = decision !== null && !decision.allowed && (decision.layer ?? 0) === i;
        const view = layerViews[i];
        const picture = { surface, view, fact: layerFacts[i], nowNs, theme, reduced, named,
            denied: denied && view.retryAfterNs > 0 };
        drawLayer(picture, { x, y, w, h }, count === 1 ? decision : denied ? decision : null);
        if (i % columns > 0)
            surface.line(x - GAP / 2, y, x - GAP / 2, y + h, { stroke: theme.hairline });
    }
}

/**
 * The height that drawState() needs to show everything.
 * @param {number} width of the box
 * @param {number} count of the layers
 * @returns {number} CSS pixels
 */
export function stateHeight(width, count) {
    const columns = Math.max(1, Math.min(count, Math.floor((width + GAP) / (WIDTH_MIN + GAP))));
    const rows = Math.ceil(Math.max(1, count) / columns);
    return rows * 184 + (rows - 1) * GAP / 2;
}

// The title and the words need 16 px each; a box without room for them has the drawing alone.
function drawLayer(picture, box, decision) {
    const { surface } = picture;
    const titled = picture.named && box.h >= 96 && box.w >= 96;
    const worded = box.h >= 72 && box.w >= 96;
    const top = titled ? 24 : 0;
    const wide = box.w >= 250;
    const bottom = worded ? (wide ? 22 : 38) : 0;
    const body = { x: box.x, y: box.y + top, w: box.w, h: Math.max(1, box.h - top - bottom) };
    surface.clip(box.x, box.y, box.w, box.h, () => {
        DRAWINGS[picture.view.algorithm]?.(picture, body);
        if (titled)
            drawTitle(picture, box, decision);
        if (worded)
            drawWords(picture, box, wide);
    });
}

function drawTitle({ surface, fact, view, theme }, box, decision) {
    const name = view.algorithm;
    surface.text(box.x, box.y + 12, name, { size: 13, weight: 600, color: theme.ink });
    const left = box.x + textWidth(name, { size: 13, weight: 600 }) + 8;
    const badge = decision ? badgeOf(decision) : "";
    const right = box.x + box.w - (badge ? textWidth(badge) + 22 : 0);
    const text = parametersOf(fact);
    if (left + textWidth(text, { mono: true }) <= right)
        surface.text(left, box.y + 12, text, { color: theme.muted, mono: true });
    if (decision && right > left)
        drawBadge(surface, theme, box.x + box.w, box.y + 12, badge, decision);
}

const badgeOf = ({ allowed, delayNs = 0 }) =>
    !allowed ? "denied" : delayNs > 0 ? `delayed ${formatWait(delayNs)}` : "allowed";

function drawBadge(surface, theme, right, y, text, { allowed, delayNs = 0 }) {
    const role = !allowed ? "denied" : delayNs > 0 ? "delayed" : "allowed";
    const x = right - textWidth(text) - 12;
    drawShape(surface, role, x, y - 4, 3.5, theme[role]);
    surface.text(right, y, text, { align: "right", weight: 500, color: theme[`${role}Text`] });
}

// Such as "5/s burst 10", as the policy language writes it.
function parametersOf(fact) {
    const rate = formatRate(fact.rate, fact.periodNs, fact.calendar);
    const length = (ns) => formatNs(ns).replaceAll(" ", "");
    switch (fact.algorithm) {
    case "block": return length(fact.periodNs) + (fact.longestNs > 0 ? ` doubling ${length(fact.longestNs)}` : "");
    case "gcra": return fact.limit > 1 ? `${rate} burst ${fact.limit}` : rate;
    case "token-bucket": return fact.stepped
        ? `${fact.limit} refill ${fact.rate} every ${length(fact.periodNs)}`
        : `${fact.limit} refill ${rate}`;
    case "leaky-bucket": return `${rate} capacity ${fact.limit}`;
    case "leaky-queue": return `${rate} depth ${fact.limit - 1}${fact.nodelay > 0 ? ` nodelay ${fact.nodelay}` : ""}`;
    case "sliding-slices": return `${rate} slices ${fact.slices}`;
    case "concurrent": return `${fact.limit} lease ${formatNs(fact.periodNs).replaceAll(" ", "")}`;
    default: return rate;
    }
}

// The last line: what remains, and until when.
function drawWords({ surface, view, theme }, box, wide) {
    const y = box.y + box.h - 5;
    const style = { size: 13, weight: 600, mono: true };
    const when = whenOf(view);
    const room = box.w - (wide ? textWidth(when, { mono: true }) + 8 : 0);
    const exact = `${formatCount(view.remaining)} of ${formatCount(view.limit)} left`;
    const short = `${formatNumber(view.remaining)} of ${formatNumber(view.limit)} left`;
    const left = view.algorithm === "block" ? blockWords(view)
        : textWidth(exact, style) <= room ? exact : short;
    const color = view.remaining < 1 ? theme.deniedText : theme.ink;
    surface.text(box.x, wide ? y : y - 16, left, { ...style, color });
    surface.text(wide ? box.x + box.w : box.x, y, when, {
        align: wide ? "right" : "left", color: theme.muted, mono: true,
    });
}

const blockWords = ({ retryAfterNs }) => (retryAfterNs > 0 ? "blocked" : "not blocked");

function whenOf(view) {
    if (view.retryAfterNs > 0)
        return view.retryAfterNs === Infinity ? "never allowed" : `next in ${formatWait(view.retryAfterNs)}`;
    if (view.algorithm === "leaky-queue" && view.delayNs > 0)
        return `next waits ${formatWait(view.delayNs)}`;
    if (view.algorithm === "block")
        return view.resetAfterNs > 0 ? `forgotten in ${formatWait(view.resetAfterNs)}` : "";
    return view.resetAfterNs > 0 ? `full quota in ${formatWait(view.resetAfterNs)}` : "full quota";
}
