// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The requests of a time line, cut into tiles of equal duration. A tile counts its requests, places them as
// dots, and keeps a picture of them, so that a frame only draws the requests that are new.
//
// Allowed requests are stacked upwards from the base line, and denied ones downwards. Four sizes of dots are
// tried; if a stack of the smallest is still too high, the requests are drawn as bars.

import { CanvasSurface, drawShape } from "./surface.mjs";
import { verdictOf } from "./theme.mjs";

export const TILE_WIDTH = 128; // CSS pixels
const BIN = 2; // the width of a bin of the counts, in CSS pixels
const BINS = TILE_WIDTH / BIN;
const BAR = 2; // the width of a bar, in bins
const BEFORE_MAX = 64; // requests before a tile for which its first dots make room
const MARGIN = 6; // how far a dot may reach over the edge of its tile

/** The sizes of dots: the distance of two dots and their radius, in CSS pixels. */
export const DOTS = [{ pitch: 12, r: 4.8 }, { pitch: 8, r: 3.2 }, { pitch: 6, r: 2.4 }, { pitch: 4, r: 1.6 }];
export const BARS = DOTS.length;

/** The requests in [beginNs, endNs). */
export class Tile {
    first; // the first request of the tile
    next; // the first request that is not counted yet
    up = new Float64Array(BINS); // allowed requests in each bin, with the delayed ones
    delayed = new Float64Array(BINS);
    down = new Float64Array(BINS); // denied requests in each bin
    crowds = DOTS.map(() => ({ up: 0, down: 0 })); // the highest stack of each size of dots
    barMax = { up: 0, down: 0 };
    #levels = new Uint16Array(64);
    #levelsTo; // the first request without a level
    #lastX = { up: [], down: [] }; // the place of the last dot of each level
    #size = -1; // which size of dots the levels are for
    #surface = null;
    #paintedTo = -1; // the first request that is not in the picture yet, or -1
    #paintedAs = "";

    constructor(beginNs, endNs, first) {
        this.beginNs = beginNs;
        this.endNs = endNs;
        this.first = first;
        this.next = first;
        this.#levelsTo = first;
    }

    /** Counts the requests that were decided since the last call. */
    extend({ times, columns, to }) {
        const before = this.next;
        const scale = BINS / (this.endNs - this.beginNs);
        while (this.next < to && times[this.next] < this.endNs) {
            const i = this.next++;
            if (times[i] < this.beginNs) {
                this.first = this.next;
                this.#levelsTo = this.next;
                continue;
            }
            const bin = Math.min(BINS - 1, Math.floor((times[i] - this.beginNs) * scale));
            (columns.allowed[i] ? this.up : this.down)[bin]++;
            if (columns.allowed[i] && columns.delayNs?.[i] > 0)
                this.delayed[bin]++;
        }
        if (this.next !== before)
            this.#measure();
    }

    #measure() {
        DOTS.forEach(({ pitch }, size) => {
            const bins = pitch / BIN + 1;
            this.crowds[size] = { up: highest(this.up, bins, 1), down: highest(this.down, bins, 1) };
        });
        this.barMax = { up: highest(this.up, BAR, BAR), down: highest(this.down, BAR, BAR) };
    }

    /** The place of a request's dot in the tile. @returns {{x: number, level: number}} */
    place(i, data, size) {
        this.#stack(data, size);
        return { x: this.#x(data.times[i]), level: this.#levels[i - this.first] };
    }

    #x(time) {
        return (time - this.beginNs) / (this.endNs - this.beginNs) * TILE_WIDTH;
    }

    // Gives each new dot the lowest level at which it touches no other.
    #stack(data, size) {
        const { times } = data;
        if (size !== this.#size) {
            this.#size = size;
            this.#levelsTo = this.first;
            this.#lastX = { up: [], down: [] };
            // The last ones before this tile also touch its first ones.
            const least = Math.max(data.from ?? 0, this.first - BEFORE_MAX);
            let i = this.first;
            while (i > least && this.#x(times[i - 1]) > -TILE_WIDTH)
                i--;
            for (; i < this.first; i++)
                this.#lowest(i, data);
        }
        const count = this.next - this.first;
        if (count > this.#levels.length) {
            const larger = new Uint16Array(Math.max(count, 2 * this.#levels.length));
            larger.set(this.#levels);
            this.#levels = larger;
        }
        for (; this.#levelsTo < this.next; this.#levelsTo++)
            this.#levels[this.#levelsTo - this.first] = this.#lowest(this.#levelsTo, data);
    }

    /** The lowest level for the dot of request i, after those before it. */
    #lowest(i, { times, columns }) {
        const pitch = DOTS[this.#size].pitch - 0.25;
        const x = this.#x(times[i]);
        const last = columns.allowed[i] ? this.#lastX.up : this.#lastX.down;
        let level = 0;
        while (level < last.length && x - last[level] < pitch)
            level++;
        last[level] = x;
        return level;
    }

    /**
     * Draws the tile with its left edge at x.
     * @param {object} surface
     * @param {number} x
     * @param {object} look {mode, base, barScale, theme, watchKey, height}
     * @param {object} data of the time line
     */
    draw(surface, x, look, data) {
        if (look.mode === BARS)
            this.#drawBars(surface, x, look);
        else
            this.#drawDots(surface, x, look, data, this.first);
    }

    /**
     * Draws the tile by its picture, which is made or completed before.
     * @param {CanvasSurface} surface whose transform has a scale of `ratio` and no rotation
     * @param {string} style names all that the picture depends on, except the requests
     * @param {number} ratio device pixels for each CSS pixel
     */
    drawPicture(surface, x, y, look, data, style, ratio) {
        this.#paint(look, data, style, ratio);
        const snapped = Math.round((x - MARGIN) * ratio) / ratio;
        const { canvas } = this.#surface.context;
        surface.context.drawImage(canvas, snapped, y, canvas.width / ratio, canvas.height / ratio);
    }

    #paint(look, data, style, ratio) {
        if (this.#paintedAs === style && this.#paintedTo === this.next)
            return;
        const w = Math.ceil((TILE_WIDTH + 2 * MARGIN) * ratio);
        const h = Math.max(1, Math.ceil(look.height * ratio));
        const fresh = this.#paintedAs !== style || look.mode === BARS;
        if (this.#surface === null || this.#surface.context.canvas.height !== h ||
            this.#surface.context.canvas.width !== w)
            this.#surface = new CanvasSurface(newCanvas(w, h).getContext("2d"));
        const context = this.#surface.context;
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        if (fresh)
            context.clearRect(0, 0, w, h);
        if (look.mode === BARS)
            this.#drawBars(this.#surface, MARGIN, look);
        else
            this.#drawDots(this.#surface, MARGIN, look, data, fresh ? this.first : this.#paintedTo);
        this.#paintedTo = this.next;
        this.#paintedAs = style;
    }

    #drawDots(surface, x0, look, data, from) {
        this.#stack(data, look.mode);
        const { pitch, r } = DOTS[look.mode];
        for (let i = from; i < this.next; i++) {
            const allowed = data.columns.allowed[i];
            const role = verdictOf(allowed, data.columns.delayNs?.[i]);
            const away = (this.#levels[i - this.first] + 0.5) * pitch + 1;
            const y = allowed ? look.base - away : look.base + away;
            const other = look.watchKey >= 0 && data.keys && data.keys[i] !== look.watchKey;
            const color = look.theme[other ? `${role}Faint` : role];
            drawShape(surface, role, x0 + this.#x(data.times[i]), y, r, color);
        }
    }

    #drawBars(surface, x0, { base, barScale, theme }) {
        for (let bin = 0; bin < BINS; bin += BAR) {
            const x = x0 + bin * BIN;
            const up = sumOf(this.up, bin), delayed = sumOf(this.delayed, bin), down = sumOf(this.down, bin);
            if (up > delayed)
                surface.rect(x, base - 1 - up * barScale, BAR * BIN - 1, (up - delayed) * barScale,
                    { fill: theme.allowed });
            if (delayed)
                surface.rect(x, base - 1 - delayed * barScale, BAR * BIN - 1, delayed * barScale,
                    { fill: theme.delayed });
            if (down)
                surface.rect(x, base + 1, BAR * BIN - 1, down * barScale, { fill: theme.denied });
        }
    }
}

function sumOf(bins, from) {
    let sum = 0;
    for (let i = from; i < from + BAR; i++)
        sum += bins[i];
    return sum;
}

// The largest sum of `width` bins in a row, which begin at multiples of `step`.
function highest(bins, width, step) {
    let most = 0;
    for (let i = 0; i < BINS; i += step) {
        let sum = 0;
        for (let j = i; j < i + width && j < BINS; j++)
            sum += bins[j];
        most = Math.max(most, sum);
    }
    return most;
}

function newCanvas(w, h) {
    if (typeof OffscreenCanvas === "function")
        return new OffscreenCanvas(w, h);
    return Object.assign(document.createElement("canvas"), { width: w, height: h });
}
