// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The pictures of the algorithms that count in windows, and of leases. In each one, time runs from left to right.

import { formatNs, formatUnits, formatWait } from "./format.mjs";
import { textWidth } from "./surface.mjs";

/** A fixed window: time goes from left to right, and the count rises up to the limit. */
export function drawFixedWindow(picture, box) {
    const { surface, view, fact, theme, nowNs, denied } = picture;
    const area = plotOf(box);
    const waits = fact.calendar === "from-first" && view.used === 0; // for the request that begins a window
    const share = portion(nowNs - view.beginNs, view.endNs - view.beginNs);
    const now = area.x + area.w * share;
    const used = portion(view.used, view.limit);
    const full = view.remaining < 1;
    const high = area.h * used;
    surface.rect(area.x, area.y, area.w, area.h, { fill: theme.band });
    const role = full ? "denied" : "allowed";
    const top = area.y + area.h - high;
    surface.rect(area.x, top, area.w, high, { fill: theme[`${role}Soft`] });
    surface.opacity(0.55, () => surface.rect(area.x, top, now - area.x, high, { fill: theme[role] }));
    drawLimit(surface, theme, area, denied);
    surface.rect(area.x, area.y, area.w, area.h, { stroke: theme.edge });
    drawCursor(surface, theme, area, now);
    if (!area.noted)
        return;
    drawCount(picture, area, `${formatUnits(view.used)} used`);
    if (waits)
        drawEnds(surface, theme, area, "begins with the next request", "");
    else
        drawEnds(surface, theme, area, "window begins", `ends in ${formatWait(view.endNs - nowNs)}`);
}

/** A block: the time that it lasts, and how much of it is over. */
export function drawBlock(picture, box) {
    const { surface, view, theme, nowNs, denied } = picture;
    const area = plotOf(box);
    const running = view.retryAfterNs > 0;
    const now = area.x + area.w * (running ? portion(nowNs - view.beginNs, view.endNs - view.beginNs) : 1);
    surface.rect(area.x, area.y, area.w, area.h, { fill: running ? theme.deniedSoft : theme.band });
    if (running)
        surface.opacity(0.55, () => surface.rect(area.x, area.y, now - area.x, area.h, { fill: theme.denied }));
    surface.rect(area.x, area.y, area.w, area.h, { stroke: theme.edge });
    drawCursor(surface, theme, area, now, denied);
    if (area.noted && running)
        drawEnds(surface, theme, area, "block begins", `ends in ${formatWait(view.endNs - nowNs)}`);
}

/** A sliding log: the requests of the last window, which leave it at the left edge. */
export function drawLog(picture, box) {
    const { view, nowNs } = picture;
    const length = view.endNs - view.beginNs;
    const oldest = view.entries?.length ? view.entries[0] + length - nowNs : 0;
    const leaves = oldest > 0 ? `oldest leaves in ${formatWait(oldest)}` : `${formatNs(length)} ago`;
    drawEntries(picture, box, "in the log", leaves, "now");
}

/** Leases: the times at which they end, which move towards the left edge. */
export function drawLeases(picture, box) {
    const { view, nowNs } = picture;
    const first = view.entries?.length ? view.entries[0] - nowNs : 0;
    drawEntries(picture, box, "held", first > 0 ? `first lease ends in ${formatWait(first)}` : "now",
        `in ${formatNs(view.endNs - view.beginNs)}`);
}

function drawEntries(picture, box, words, left, right) {
    const { surface, view, theme, denied } = picture;
    const area = plotOf(box);
    surface.rect(area.x, area.y, area.w, area.h, { fill: theme.band });
    drawStamps(picture, area, view.endNs - view.beginNs);
    drawCursor(surface, theme, area, area.x, denied);
    drawCursor(surface, theme, area, area.x + area.w);
    if (!area.noted)
        return;
    drawCount(picture, area, `${formatUnits(view.used)} of ${formatUnits(view.limit)} ${words}`);
    drawEnds(surface, theme, area, left, right);
}

// A stamp of one unit is a thin line; a stamp of several is wider, as far as there is room.
function drawStamps({ surface, view, theme }, area, length) {
    const entries = view.entries ?? [];
    let lastX = -Infinity;
    for (let i = 0; i + 1 < entries.length; i += 2) {
        const x = area.x + area.w * portion(entries[i] - view.beginNs, length);
        if (x - lastX < 0.75 && i > 0)
            continue;
        lastX = x;
        const tall = area.h * (entries[i + 1] > 1 ? 0.9 : 0.62);
        const y = area.y + (area.h - tall) / 2;
        surface.line(x, y, x, y + tall, { stroke: theme.allowed, width: 2, cap: "round" });
        if (area.w / (entries.length / 2) > 9)
            surface.circle(x, y, 3, { fill: theme.allowed });
    }
}

/** A sliding counter: two aligned windows, and the window that floats over both. */
export function drawCounter(picture, box) {
    const { surface, view, theme, nowNs, denied } = picture;
    const area = plotOf(box);
    const length = view.endNs - view.beginNs;
    const share = 1 - portion(nowNs - view.beginNs, length); // how much of the previous window counts
    const half = area.w / 2, middle = area.x + half;
    const left = middle - half * share, now = left + half;
    const heights = [view.previous, view.used].map((count) => area.h * portion(count, view.limit));
    const base = area.y + area.h;
    surface.rect(area.x, area.y, area.w, area.h, { fill: theme.band });
    surface.rect(area.x, base - heights[0], half, heights[0], { fill: theme.allowedSoft });
    surface.rect(middle, base - heights[1], half, heights[1], { fill: theme.allowedSoft });
    surface.opacity(0.55, () => {
        surface.rect(left, base - heights[0], middle - left, heights[0], { fill: theme.allowed });
        surface.rect(middle, base - heights[1], now - middle, heights[1], { fill: theme.allowed });
    });
    surface.line(middle, area.y, middle, base, { stroke: theme.edge, width: 1.5 });
    drawLimit(surface, theme, area, denied);
    surface.rect(left, area.y - 4, half, area.h + 8, { stroke: denied ? theme.denied : theme.ink, width: 2 });
    if (area.noted)
        drawCounterNotes(picture, area, share, middle);
}

function drawCounterNotes({ surface, view, theme }, area, share, middle) {
    const [previous, used] = [view.previous, view.used].map(formatUnits);
    const y = area.y + area.h + 16;
    surface.text(area.x + 4, y, `previous: ${previous}`, { size: 11, color: theme.muted });
    surface.text(middle + 4, y, `current: ${used}`, { size: 11, color: theme.muted });
    const sum = view.previous * share + view.used;
    const percent = `${Math.round(share * 100)} %`;
    const text = `${previous} × ${percent} + ${used} = ${formatUnits(Math.round(sum * 10) / 10)}`;
    surface.text(area.x, area.y - 9, text, { weight: 600, color: theme.ink, mono: true });
}

/** Sliding slices: a bar for each slice of the window; the oldest is dropped as a whole. */
export function drawSlices(picture, box) {
    const { surface, view, fact, theme, nowNs, denied } = picture;
    const area = plotOf(box);
    const slices = Math.max(1, fact.slices);
    const length = (fact.periodNs || view.endNs - view.beginNs) / slices;
    const begin = view.endNs - length * slices;
    const shown = Math.min(slices, Math.max(1, Math.floor(area.w / 3)));
    const counts = countSlices(view.entries ?? [], begin, length * slices, shown);
    const most = Math.max(1, ...counts);
    const unit = area.w / shown;
    surface.rect(area.x, area.y, area.w, area.h, { fill: theme.band });
    for (let i = 0; i < shown; i++) {
        const high = area.h * counts[i] / Math.max(most, view.limit / shown);
        const x = area.x + i * unit;
        surface.rect(x + 0.5, area.y + area.h - high, Math.max(0.5, unit - 1), high, { fill: theme.allowed });
        if (unit >= 8 && i > 0)
            surface.line(x, area.y, x, area.y + area.h, { stroke: theme.panel });
        if (unit >= 22 && counts[i] > 0)
            drawSliceCount(surface, theme, x + unit / 2, area.y + area.h - high, area, counts[i]);
    }
    drawCursor(surface, theme, area, area.x, denied);
    drawCursor(surface, theme, area, area.x + area.w * portion(nowNs - begin, length * slices));
    if (!area.noted)
        return;
    drawCount(picture, area, `${formatUnits(view.used)} of ${formatUnits(view.limit)} in ${slices} slices`);
    drawEnds(surface, theme, area, `oldest leaves in ${formatWait(Math.max(0, view.endNs - nowNs))}`, "");
}

function drawSliceCount(surface, theme, x, top, area, count) {
    const inside = area.y + area.h - top >= 18;
    surface.text(x, inside ? top + 13 : top - 3, formatUnits(count),
        { size: 11, align: "center", color: inside ? theme.panel : theme.ink });
}

// The counts of `shown` bars of equal length from the entries, which are begins of slices and their counts.
function countSlices(entries, begin, length, shown) {
    const counts = new Array(shown).fill(0);
    for (let i = 0; i + 1 < entries.length; i += 2) {
        // The begin of a slice is rounded up to a whole ns.
        const at = Math.floor((entries[i] - begin) / length * shown + 1e-6);
        if (at >= 0 && at < shown)
            counts[at] += entries[i + 1];
    }
    return counts;
}

// ---- common parts ---------------------------------------------------------------------------------

// The area of a plot: words above and below it need 20 px each.
function plotOf(box) {
    const noted = box.h >= 76 && box.w >= 120;
    const above = noted ? 22 : Math.min(5, box.h / 6), below = noted ? 20 : Math.min(5, box.h / 6);
    const w = Math.max(1, box.w - 10), h = Math.max(1, box.h - above - below);
    return { x: box.x + 5, y: box.y + above, w, h, noted };
}

const portion = (part, whole) => whole > 0 ? Math.min(1, Math.max(0, part / whole)) : 0;

function drawLimit(surface, theme, area, denied) {
    surface.line(area.x, area.y, area.x + area.w, area.y,
        { stroke: denied ? theme.denied : theme.muted, width: denied ? 2 : 1, dash: [4, 3] });
}

function drawCursor(surface, theme, area, x, denied = false) {
    const stroke = denied ? theme.denied : theme.ink;
    surface.line(x, area.y - 4, x, area.y + area.h + 4, { stroke, width: 2 });
}

function drawCount({ surface, theme }, area, text) {
    surface.text(area.x, area.y - 8, text, { weight: 600, color: theme.ink });
}

// Words below the left and the right end, the left one only if there is room for both.
function drawEnds(surface, theme, area, left, right) {
    const y = area.y + area.h + 15;
    const style = { size: 11, color: theme.muted };
    if (textWidth(left, style) + textWidth(right, style) + 8 <= area.w)
        surface.text(area.x, y, left, style);
    else if (!right)
        return;
    surface.text(area.x + area.w, y, right, { ...style, align: "right" });
}
