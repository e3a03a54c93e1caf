// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The time line of a lane: requests as dots or bars with the newest at the right edge, the windows of a layer
// as shaded bands behind them, and above them the running rate against the limit.

import { formatClock, formatOffset, multiples, timeStep } from "./format.mjs";
import { RunningRate } from "./running_rate.mjs";
import { CanvasSurface, drawLabel, textWidth } from "./surface.mjs";
import { BARS, DOTS, Tile, TILE_WIDTH } from "./tiles.mjs";

/**
 * What a time line is drawn from. Times are ns since the beginning of the scene.
 * @typedef {object} TimelineData
 * @property {ArrayLike<number>} times of all requests, ascending
 * @property {ArrayLike<number>} [keys] the number of each request's key
 * @property {ArrayLike<number>} [costs] 1 each if they are not given
 * @property {{allowed: ArrayLike<number>, delayNs?: ArrayLike<number>}} columns the decisions
 * @property {number} [from] the first request to show, 0 if it is not given
 * @property {number} to the requests before this one are decided and not later than nowNs
 * @property {number} nowNs the right edge
 * @property {number} spanNs how much time is visible
 * @property {import("./theme.mjs").Theme} theme
 * @property {number} [watchKey] a key's number: others are faint, and the rate is the rate of this key;
 *     -1, or not given: all keys
 * @property {ArrayLike<number>} [marks] requests to mark, ascending
 * @property {{perWindow: number, windowNs: number, hard?: boolean} | null} [limitLine] see limitLineOf()
 * @property {Bands | null} [bands] see bandsOf()
 * @property {number} [hoverIndex] a request to point out, or -1
 * @property {number} [version] to be changed whenever decisions before `to` changed, as by another policy
 * @property {number} [beginMs] the scene's beginning in ms since the epoch: long spans then show the time
 *     of day, in UTC
 */

/**
 * The windows of a layer: of equal length from `beginNs` on, in both directions; or the one that ends now.
 * @typedef {{beginNs?: number, lengthNs: number, kind: "aligned" | "latest" | "floating"}} Bands
 */

/**
 * The bands of a layer for TimelineData.
 * @param {object} fact of policy.layers
 * @param {object} view of key.lookAt()
 * @returns {Bands | null} null for buckets
 */
export function bandsOf(fact, view) {
    if (!(view.endNs > view.beginNs))
        return null;
    const lengthNs = view.endNs - view.beginNs;
    if (["sliding-log", "sliding-slices", "concurrent"].includes(view.algorithm))
        return { kind: "floating", lengthNs: fact.periodNs || lengthNs };
    const fixed = fact.periodNs > 0 && fact.calendar !== "from-first";
    return { kind: fixed ? "aligned" : "latest", beginNs: view.beginNs, lengthNs };
}

/**
 * The limit of a layer for TimelineData: what a window allows, or what a bucket allows in a period besides
 * its burst.
 * @param {object} fact of policy.layers
 * @param {object} view of key.lookAt()
 * @returns {{perWindow: number, windowNs: number, hard: boolean} | null}
 */
export function limitLineOf(fact, view) {
    const bucket = fact.algorithm === "gcra" || fact.algorithm.includes("-bucket") ||
        fact.algorithm === "leaky-queue";
    const windowNs = fact.periodNs || view.endNs - view.beginNs;
    if (!(windowNs > 0))
        return null;
    return { perWindow: bucket ? fact.rate : fact.limit, windowNs, hard: !bucket };
}

/** From this many visible seconds on, an axis shows the time of day if it knows it. */
export const CLOCK_SPAN_S = 600;

/** Draws a lane's time line, frame after frame. Keeps what it drew, so use one object for each lane. */
export class Timeline {
    #tiles = new Map();
    #rate = new RunningRate();
    #mode = 0;
    #barMax = 1;
    #cacheKey = "";
    #lastNow = -Infinity;
    #layout = null; // of the last draw()
    #data = null;
    #ids = { next: 1, of: new WeakMap() }; // numbers of themes

    /**
     * @param {object} target a surface, or a 2D context
     * @param {import("./state.mjs").Box} box
     * @param {TimelineData} data is kept until the next draw()
     */
    draw(target, box, data) {
        const surface = typeof target.polyline === "function" ? target : new CanvasSurface(target);
        if (!(box.w >= 8 && box.h >= 8 && data.spanNs > 0))
            return;
        const layout = layoutOf(box, data);
        this.#layout = layout;
        this.#data = data;
        this.#refresh(layout, data);
        const tiles = this.#visible(layout, data);
        this.#choose(tiles, layout, data);
        drawBands(surface, layout, data);
        drawAxis(surface, layout, data);
        if (layout.rate)
            this.#rate.draw(surface, layout, data);
        surface.line(box.x, layout.base, box.x + box.w, layout.base, { stroke: data.theme.edge });
        this.#drawTiles(surface, tiles, layout, data);
        drawVerdicts(surface, layout, data);
        drawMarks(surface, layout, data);
        this.#drawHover(surface, layout, data);
    }

    /**
     * The request that is drawn at a place, by the last draw().
     * @param {number} x
     * @param {number} y
     * @returns {number} its index, or -1
     */
    at(x, y) {
        if (!this.#layout || !inside(this.#layout.dots, x, y))
            return -1;
        const { times, from = 0, to } = this.#data;
        const reach = this.#mode === BARS ? 2 : 8;
        const begin = lowerBound(times, timeAt(this.#layout, x - reach), from, to);
        const end = lowerBound(times, timeAt(this.#layout, x + reach), from, to);
        let best = -1, bestDistance = reach * reach;
        for (let i = begin; i < end; i++) {
            const place = this.positionOf(i);
            if (!place)
                continue;
            const away = this.#mode === BARS ? barDistance(place, y) : (place.y - y) ** 2;
            const distance = (place.x - x) ** 2 + away;
            if (distance <= bestDistance) {
                best = i;
                bestDistance = distance;
            }
        }
        return best;
    }

    /**
     * Where a request is drawn by the last draw(): the middle of its dot, or the end of its bar.
     * @param {number} i
     * @returns {{x: number, y: number, base: number} | null} null if it is not visible
     */
    positionOf(i) {
        const layout = this.#layout, data = this.#data;
        if (!layout || i < (data.from ?? 0) || i >= data.to || data.times[i] < layout.beginNs)
            return null;
        const tile = this.#tiles.get(Math.floor(data.times[i] / layout.tileNs));
        if (!tile || i < tile.first || i >= tile.next)
            return null;
        const x = xAt(layout, data.times[i]);
        const sign = data.columns.allowed[i] ? -1 : 1;
        if (this.#mode === BARS)
            return { x, y: layout.base + sign * layout.dots.h / 4, base: layout.base };
        const { pitch } = DOTS[this.#mode];
        const { level } = tile.place(i, data, this.#mode);
        return { x, y: layout.base + sign * ((level + 0.5) * pitch + 1), base: layout.base };
    }

    // Forgets the tiles that no longer hold.
    #refresh(layout, data) {
        const key = `${layout.tileNs} ${data.version ?? 0} ${data.from ?? 0}`;
        if (key !== this.#cacheKey) {
            this.#tiles.clear();
            this.#mode = 0;
            this.#barMax = 1;
            this.#cacheKey = key;
        }
        const back = data.nowNs < this.#lastNow;
        for (const [number, tile] of this.#tiles) {
            if (tile.endNs < layout.beginNs || tile.beginNs > data.nowNs || (back && tile.endNs > data.nowNs))
                this.#tiles.delete(number);
        }
        this.#lastNow = data.nowNs;
    }

    #visible(layout, data) {
        const found = [];
        const { times, to, from = 0 } = data;
        const last = Math.floor(data.nowNs / layout.tileNs);
        for (let number = Math.floor(layout.beginNs / layout.tileNs); number <= last; number++) {
            let tile = this.#tiles.get(number);
            if (!tile) {
                const begin = number * layout.tileNs;
                tile = new Tile(begin, begin + layout.tileNs, lowerBound(times, begin, from, to));
                this.#tiles.set(number, tile);
            }
            tile.extend(data);
            found.push(tile);
        }
        return found;
    }

    // Chooses the size of dots, or the scale of bars. Both become smaller at once, but larger only if there
    // is much room, so that they do not change back and forth.
    #choose(tiles, layout) {
        const crowd = (size, side) => Math.max(0, ...tiles.map((tile) => tile.crowds[size][side]));
        const fits = (size, share) => {
            const levels = Math.floor(layout.dots.h / 2 / DOTS[size].pitch);
            return crowd(size, "up") <= levels * share && crowd(size, "down") <= levels * share;
        };
        while (this.#mode < BARS && !fits(this.#mode, 1))
            this.#mode++;
        while (this.#mode > 0 && fits(this.#mode - 1, 0.7))
            this.#mode--;
        const most = Math.max(1, ...tiles.map((tile) => Math.max(tile.barMax.up, tile.barMax.down)));
        if (most > this.#barMax || most < this.#barMax * 0.4)
            this.#barMax = most * 1.1;
    }

    #drawTiles(surface, tiles, layout, data) {
        const { dots } = layout;
        const look = { mode: this.#mode, theme: data.theme, watchKey: data.watchKey ?? -1 };
        const barScale = (dots.h / 2 - 2) / this.#barMax;
        const left = (tile) => xAt(layout, tile.beginNs);
        surface.clip(dots.x, dots.y, dots.w, dots.h, () => {
            if (!(surface instanceof CanvasSurface) || !canTile()) {
                for (const tile of tiles)
                    tile.draw(surface, left(tile), { ...look, base: layout.base, barScale }, data);
                return;
            }
            const local = { ...look, base: layout.base - dots.y, barScale, height: dots.h };
            const ratio = surface.context.getTransform().a || 1;
            const style = [look.mode, dots.h, look.mode === BARS ? barScale : 0, look.watchKey, ratio,
                this.#themeId(data.theme)].join(" ");
            for (const tile of tiles)
                tile.drawPicture(surface, left(tile), dots.y, local, data, style, ratio);
        });
    }

    #themeId(theme) {
        if (!this.#ids.of.has(theme))
            this.#ids.of.set(theme, this.#ids.next++);
        return this.#ids.of.get(theme);
    }

    #drawHover(surface, layout, { hoverIndex = -1, theme }) {
        const place = hoverIndex >= 0 ? this.positionOf(hoverIndex) : null;
        if (!place)
            return;
        surface.line(place.x, layout.top, place.x, layout.dots.y + layout.dots.h,
            { stroke: theme.ink, dash: [2, 3] });
        if (this.#mode !== BARS)
            surface.circle(place.x, place.y, DOTS[this.#mode].r + 3, { stroke: theme.ink, width: 2 });
    }
}

const canTile = () => typeof OffscreenCanvas === "function" || typeof document === "object";

// ---- layout ---------------------------------------------------------------------------------------

function layoutOf(box, { nowNs, spanNs, limitLine }) {
    const axis = box.h >= 56 ? 18 : 0;
    const marks = box.h >= 40 ? 7 : 0;
    const rateHeight = limitLine && box.h >= 100 ? Math.min(72, Math.round((box.h - axis) * 0.34)) : 0;
    const y = box.y + rateHeight + (rateHeight ? 6 : 0);
    const dots = { x: box.x, y, w: box.w, h: Math.max(4, box.y + box.h - axis - marks - y) };
    return {
        box, dots, top: box.y, axisY: box.y + box.h - axis, hasAxis: axis > 0, marksY: dots.y + dots.h,
        rate: rateHeight ? { x: box.x, y: box.y, w: box.w, h: rateHeight } : null,
        base: dots.y + Math.round(dots.h / 2), beginNs: nowNs - spanNs, nsPerPx: spanNs / box.w,
        tileNs: spanNs / box.w * TILE_WIDTH,
    };
}

const xAt = (layout, ns) => layout.box.x + (ns - layout.beginNs) / layout.nsPerPx;

const timeAt = (layout, x) => layout.beginNs + (x - layout.box.x) * layout.nsPerPx;

const inside = ({ x, y, w, h }, px, py) => px >= x - 4 && px <= x + w + 4 && py >= y && py <= y + h;

// A bar reaches from the base line to its end: only the side counts.
const barDistance = ({ y: end, base }, y) => Math.sign(y - base) === Math.sign(end - base) ? 0 : Infinity;

/** The first index in from..to whose time is at least `ns`. */
function lowerBound(times, ns, from, to) {
    let low = from, high = to;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (times[middle] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// ---- what is around the requests --------------------------------------------------------------------

const BANDS_MAX = 200; // narrower windows are not drawn

function drawBands(surface, layout, { bands, nowNs, theme }) {
    if (!bands || !(bands.lengthNs > 0))
        return;
    const { box } = layout, high = layout.axisY - box.y;
    const band = (from, to) => {
        const left = Math.max(box.x, xAt(layout, from)), right = Math.min(box.x + box.w, xAt(layout, to));
        if (right > left)
            surface.rect(left, box.y, right - left, high, { fill: theme.band });
    };
    if (bands.kind === "floating") {
        band(nowNs - bands.lengthNs, nowNs);
        const edge = xAt(layout, nowNs - bands.lengthNs);
        if (edge > box.x)
            surface.line(edge, box.y, edge, layout.axisY, { stroke: theme.edge });
        return;
    }
    if (bands.kind === "latest") {
        band(bands.beginNs, bands.beginNs + bands.lengthNs);
        return;
    }
    const first = Math.floor((layout.beginNs - bands.beginNs) / bands.lengthNs);
    const last = Math.floor((nowNs - bands.beginNs) / bands.lengthNs);
    if (last - first > BANDS_MAX)
        return;
    // Every second window since the epoch is shaded, whichever the current one is.
    const odd = Math.round(bands.beginNs / bands.lengthNs) & 1;
    for (let i = first; i <= last; i++) {
        const begin = bands.beginNs + i * bands.lengthNs;
        if ((i + odd) & 1)
            band(begin, begin + bands.lengthNs);
        const x = xAt(layout, begin);
        if (x >= box.x)
            surface.line(x, box.y, x, layout.axisY, { stroke: theme.edge });
    }
}

function drawAxis(surface, layout, { nowNs, spanNs, theme, beginMs }) {
    const { box, axisY } = layout;
    surface.line(box.x, axisY, box.x + box.w, axisY, { stroke: theme.hairline });
    if (!layout.hasAxis)
        return;
    const step = timeStep(spanNs, Math.max(1, box.w / 84));
    const clock = beginMs !== undefined && spanNs >= CLOCK_SPAN_S * 1e9;
    for (const time of multiples(Math.max(0, layout.beginNs), nowNs, step)) {
        const x = xAt(layout, time);
        const label = clock ? formatClock(beginMs + time / 1e6, step, true) : formatOffset(time, step);
        const half = textWidth(label, { size: 11 }) / 2;
        surface.line(x, axisY, x, axisY + 4, { stroke: theme.edge });
        if (x - half >= box.x - 1 && x + half <= box.x + box.w + 1)
            surface.text(x, axisY + 15, label, { size: 11, align: "center", color: theme.muted });
    }
}

// Names both sides of the base line, with what lies behind shining through.
function drawVerdicts(surface, { dots }, { theme }) {
    if (dots.h < 56 || dots.w < 160)
        return;
    for (const [role, y] of [["allowed", dots.y + 11], ["denied", dots.y + dots.h - 4]])
        drawLabel(surface, dots.x + 4, y, role, theme[`${role}Text`], theme);
}

function drawMarks(surface, layout, { marks, times, to, theme }) {
    if (!marks?.length || layout.marksY === layout.axisY)
        return;
    const y = layout.marksY;
    let low = 0, high = marks.length;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (times[marks[middle]] < layout.beginNs)
            low = middle + 1;
        else
            high = middle;
    }
    let last = -Infinity;
    for (let i = low; i < marks.length && marks[i] < to; i++) {
        const x = xAt(layout, times[marks[i]]);
        if (x - last < 3)
            continue;
        last = x;
        surface.polygon([x, y, x + 3.5, y + 6, x - 3.5, y + 6], { fill: theme.mark });
    }
}
