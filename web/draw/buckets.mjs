// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The four buckets. Each has the backlog of GCRA, TAT - now, as its state, and shows it in its own way: as
// tokens that are missing, as the level of water, as requests that wait, or as the TAT on a time line.

import { formatNs, formatRate, formatUnits } from "./format.mjs";
import { textWidth } from "./surface.mjs";

const UNITS_MAX = 24; // more units than this are not drawn one by one
const NOTES_WIDTH = 130; // of the words beside a bucket
const FAST_NS = 120e6; // drops that follow each other faster than this are a stream

// The interval of one unit in ns, and the backlog in units, 0..limit.
function stateOf({ view, fact, nowNs }) {
    const interval = fact.periodNs / fact.rate;
    const backlog = fact.stepped ? view.limit - view.remaining : Math.max(0, view.tatNs - nowNs) / interval;
    return { interval, backlog: Math.min(view.limit, backlog) };
}

/** A token bucket: tokens drop into it at the rate, and each request takes one. */
export function drawBucket(picture, box, unit = "token") {
    const { interval, backlog } = stateOf(picture);
    const { view, fact } = picture;
    const level = view.limit - backlog;
    const step = fact.stepped
        ? `+${fact.rate} every ${formatNs(fact.periodNs)}`
        : `1 ${unit} every ${formatNs(interval)}`;
    const shape = bucketShape(box, 20, 8);
    const dropping = backlog > 0 && !fact.stepped;
    drawDrops(picture, shape.middle, box.y + 4, surfaceY(shape, level / view.limit), dropping, interval,
        level % 1);
    drawTap(picture, shape.middle, box.y, backlog > 0);
    drawVessel(picture, shape, level, view.limit, true);
    drawNotes(picture, box, shape, [
        { y: box.y + 9, text: step, muted: true },
        { y: surfaceY(shape, level / view.limit) + 4, text: counted(Math.floor(level + 1e-9), unit) },
    ]);
}

const counted = (count, unit) => `${formatUnits(count)} ${unit}${count === 1 ? "" : "s"}`;

/** A leaky bucket: each request pours a unit into it, and it drains at the rate. */
export function drawLeakyBucket(picture, box) {
    const { interval, backlog } = stateOf(picture);
    const { view, fact } = picture;
    const shape = bucketShape(box, 8, 18);
    drawVessel(picture, shape, backlog, view.limit, false);
    drawDrops(picture, shape.middle, shape.bottom + 2, box.y + box.h, backlog > 0, interval,
        1 - backlog % 1);
    drawNotes(picture, box, shape, [
        { y: Math.min(surfaceY(shape, backlog / view.limit) + 4, shape.bottom - 12),
            text: `level ${formatUnits(Math.round(backlog * 10) / 10)}` },
        { y: shape.bottom + 12, text: `drains ${formatRate(fact.rate, fact.periodNs)}`, muted: true },
    ]);
}

/** GCRA: a bucket of what is left, and below it the time line with the TAT. */
export function drawGcra(picture, box) {
    const lineHeight = box.h >= 92 ? 46 : box.h >= 52 ? 24 : 0;
    if (lineHeight === 0)
        return drawArrivals(picture, box);
    if (box.h - lineHeight >= 40)
        drawBucket(picture, { x: box.x, y: box.y, w: box.w, h: box.h - lineHeight - 4 }, "unit");
    drawArrivals(picture, { x: box.x, y: box.y + box.h - lineHeight, w: box.w, h: lineHeight });
}

// The time line from now to now + C*T. The backlog reaches to the TAT; a request moves the TAT by T, and is
// allowed if it stays on the line.
function drawArrivals(picture, box) {
    const { surface, view, theme } = picture;
    const { interval, backlog } = stateOf(picture);
    const noted = box.h >= 40;
    const high = noted ? 14 : Math.max(2, box.h - 8);
    const bar = { x: box.x + 1, y: box.y + (noted ? 16 : 4), w: box.w - 2, h: high };
    const fits = backlog + 1 <= view.limit + 1e-9;
    const unit = bar.w / (view.limit + 1); // the last unit is room for a request that is denied
    const end = bar.x + unit * view.limit;
    const tat = bar.x + unit * backlog;
    surface.rect(bar.x, bar.y, end - bar.x, bar.h, { fill: theme.band });
    surface.rect(bar.x, bar.y, tat - bar.x, bar.h, { fill: theme.allowed });
    if (view.limit <= UNITS_MAX * 2) {
        for (let x = tat - unit; x > bar.x; x -= unit)
            surface.line(x, bar.y, x, bar.y + bar.h, { stroke: theme.panel });
    }
    const color = fits ? theme.allowed : theme.denied;
    surface.rect(tat + 1, bar.y + 0.5, Math.max(1, unit - 1.5), bar.h - 1, { stroke: color, dash: [3, 2] });
    surface.line(end, bar.y - 4, end, bar.y + bar.h + 4, { stroke: theme.ink, width: 2 });
    surface.line(bar.x, bar.y - 3, bar.x, bar.y + bar.h + 3, { stroke: theme.ink });
    if (noted)
        drawArrivalNotes(picture, bar, tat, end, interval);
}

function drawArrivalNotes({ surface, view, theme }, bar, tat, end, interval) {
    const above = bar.y - 5, below = bar.y + bar.h + 13;
    const tatX = Math.min(Math.max(tat, bar.x + 12), bar.x + bar.w - 12);
    surface.text(tatX, above, "TAT", { size: 11, align: "center", weight: 600, color: theme.ink });
    surface.line(tat, bar.y - 3, tat, bar.y + bar.h, { stroke: theme.ink });
    surface.text(bar.x, below, "now", { size: 11, color: theme.muted });
    const limit = `now + ${formatNs(interval * view.limit)}`;
    if (textWidth(limit, { size: 11 }) + 40 < end - bar.x)
        surface.text(end + 2, below, limit, { size: 11, align: "right", color: theme.muted });
}

/**
 * A leaky queue: requests wait in a row, and leave through the door at the rate. With nodelay, the first ones of
 * the row have left already, and still take up their places.
 */
export function drawQueue(picture, box) {
    const { surface, view, fact, theme } = picture;
    const { interval, backlog } = stateOf(picture);
    const served = 1 + fact.nodelay;
    const noted = box.h >= 64;
    const doorWidth = Math.min(14, box.w / 8);
    const door = box.x + box.w - doorWidth - 2;
    const slots = view.limit;
    const unit = (door - box.x - 2) / slots;
    const y = box.y + box.h / 2 + (noted ? 2 : 0);
    const size = Math.max(2, Math.min(unit - 4, box.h * 0.4, 26));
    if (slots <= UNITS_MAX)
        drawWaiting(picture, { door, y, unit, size, slots, backlog, served });
    else
        drawWaitingBar(picture, { left: box.x, door, y, backlog, served, slots, size: Math.min(30, box.h * 0.5) });
    const open = backlog > 0;
    surface.rect(door + 3, y - size / 2 - 8, doorWidth - 4, size + 16,
        { fill: open ? theme.allowedSoft : theme.band, stroke: theme.muted });
    if (!noted)
        return;
    const waiting = Math.max(0, Math.ceil(backlog - served - 1e-9));
    surface.text(box.x, box.y + 11, `${formatUnits(waiting)} waiting`, { color: theme.ink });
    surface.text(box.x + box.w, box.y + 11, `serves 1 every ${formatNs(interval)}`,
        { align: "right", color: theme.muted });
}

// Request i leaves when `backlog - i` units before it have drained: it is as far from the door.
function drawWaiting({ surface, theme }, { door, y, unit, size, slots, backlog, served }) {
    const width = slots * unit;
    surface.roundRect(door - width, y - size / 2 - 5, width + 3, size + 10, 4, { fill: theme.band });
    for (let i = Math.ceil(backlog - 1e-9); i < slots; i++) {
        const x = door - (i + 0.5) * unit;
        surface.roundRect(x - size / 2, y - size / 2, size, size, 3, { stroke: theme.edge, dash: [2, 2] });
    }
    for (let behind = backlog; behind > 0; behind -= 1) {
        const x = door - behind * unit + unit / 2;
        surface.roundRect(x - size / 2, y - size / 2, size, size, 3,
            { fill: behind <= served ? theme.allowed : theme.delayed });
    }
}

function drawWaitingBar({ surface, theme }, { left, door, y, backlog, served, slots, size }) {
    const width = door - left - 2;
    surface.rect(left, y - size / 2, width, size, { fill: theme.band, stroke: theme.edge });
    const fill = (units, color) => {
        const filled = width * units / slots;
        surface.rect(door - 2 - filled, y - size / 2, filled, size, { fill: color });
    };
    fill(backlog, theme.delayed);
    if (served > 1)
        fill(Math.min(backlog, served), theme.allowed);
}

// ---- vessels --------------------------------------------------------------------------------------

// A vessel in the left part of the box, with room for words to the right of it.
function bucketShape(box, above, below) {
    const high = Math.max(4, box.h - above - below);
    const noted = box.w >= 140 && box.h >= 40;
    const w = Math.max(4, Math.min(noted ? box.w * 0.45 : box.w - 8, high * 1.4, 150));
    const left = box.x + Math.max(noted ? 6 : 0, (box.w - w - (noted ? NOTES_WIDTH : 0)) / 2);
    const top = box.y + Math.min(above, box.h / 4);
    return { left, w, top, bottom: Math.max(top + 2, box.y + box.h - Math.min(below, box.h / 4)),
        middle: left + w / 2, taper: w * 0.09, noted };
}

const surfaceY = ({ top, bottom }, share) => bottom - (bottom - top) * Math.min(1, Math.max(0, share));

function sides({ left, w, top, bottom, taper }, y) {
    const inset = taper * (y - top) / (bottom - top);
    return [left + inset, left + w - inset];
}

// Whole units are dark, and the part of a unit above them is light.
function drawVessel({ surface, theme, denied, view }, shape, level, limit, isQuota) {
    const fillTo = (units, fill) => {
        const y = surfaceY(shape, units / limit);
        const [left, right] = sides(shape, y), [low, lowRight] = sides(shape, shape.bottom);
        surface.polygon([left, y, right, y, lowRight, shape.bottom, low, shape.bottom], { fill });
    };
    const whole = isQuota ? Math.floor(level + 1e-9) : level;
    const tight = !isQuota && view.remaining < 1;
    fillTo(level, isQuota ? theme.allowedSoft : tight ? theme.deniedSoft : theme.allowedSoft);
    if (whole > 0 && isQuota)
        surface.opacity(0.55, () => fillTo(whole, theme.allowed));
    drawUnits(surface, theme, shape, limit);
    const y = surfaceY(shape, level / limit);
    const [left, right] = sides(shape, y);
    if (level > 0)
        surface.line(left, y, right, y, { stroke: theme.allowed, width: 2 });
    const [top, topRight] = sides(shape, shape.top), [low, lowRight] = sides(shape, shape.bottom);
    surface.polyline([top, shape.top - 3, top, shape.top, low, shape.bottom, lowRight, shape.bottom,
        topRight, shape.top, topRight, shape.top - 3],
    { stroke: denied ? theme.denied : theme.ink, width: 2, cap: "round" });
}

function drawUnits(surface, theme, shape, limit) {
    if (limit > UNITS_MAX || (shape.bottom - shape.top) / limit < 4)
        return;
    for (let unit = 1; unit < limit; unit++) {
        const y = surfaceY(shape, unit / limit);
        const [left, right] = sides(shape, y);
        surface.line(left + 1, y, right - 1, y, { stroke: theme.panel });
    }
}

function drawTap({ surface, theme }, x, y, open) {
    surface.roundRect(x - 7, y - 4, 14, 8, 2, { fill: open ? theme.muted : theme.edge });
}

// A drop between two heights. `phase` is how much of the interval has passed, 0..1.
function drawDrops({ surface, theme, nowNs, reduced }, x, from, to, active, interval, phase) {
    if (!active || to - from < 6)
        return;
    if (interval < FAST_NS || reduced) {
        const shift = reduced ? 0 : nowNs / 1e9 * 60 % 8;
        surface.clip(x - 3, from, 6, to - from, () => {
            for (let y = from - 8 + shift; y < to; y += 8)
                surface.line(x, y, x, y + 4, { stroke: theme.allowed, width: 2, cap: "round" });
        });
        return;
    }
    const y = from + (to - from - 4) * Math.min(1, Math.max(0, phase)) ** 2;
    surface.polygon([x, y - 3, x + 3, y + 3, x, y + 6, x - 3, y + 3], { fill: theme.allowed });
}

// Words to the right of a vessel, which are moved apart if they would touch.
function drawNotes({ surface, theme }, box, shape, notes) {
    if (!shape.noted)
        return;
    const x = shape.left + shape.w + 10;
    let last = -Infinity;
    for (const { y, text, muted } of [...notes].sort((a, b) => a.y - b.y)) {
        const at = Math.max(y, last + 15);
        if (at > box.y + box.h + 2)
            return;
        surface.text(x, at, text, { color: muted ? theme.muted : theme.ink, weight: muted ? 400 : 600 });
        last = at;
    }
}
