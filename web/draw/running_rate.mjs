// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The running rate of a time line: the units that were allowed in the window that ends at each moment.

import { formatNs, formatUnits } from "./format.mjs";
import { drawLabel, textWidth } from "./surface.mjs";

const STEP = 2; // the distance of two samples, in CSS pixels
const SAMPLES_MAX = 1 << 16; // samples that are kept

/** Counts the allowed units of one key, or of all, and samples them on a grid of time. */
export class RunningRate {
    #times = new Float64Array(256); // of the allowed requests
    #sums = new Float64Array(256); // of their units, up to and with each
    #count = 0;
    #readTo = 0; // the first request that is not counted yet
    #samples = new Map(); // number of the grid's line -> units
    #gridKey = "";
    #sumKey = "";
    #lastNow = -Infinity;
    #top = 0;

    /** Draws the line into layout.rate. */
    draw(surface, layout, data) {
        const { limitLine, theme } = data;
        this.#read(data);
        const { points, most } = this.#line(layout, data);
        const area = layout.rate;
        this.#scale(limitLine.perWindow, most);
        const yOf = (units) => area.y + area.h - (area.h - 4) * Math.min(1, units / this.#top);
        for (let i = 1; i < points.length; i += 2)
            points[i] = yOf(points[i]);
        const limitY = yOf(limitLine.perWindow);
        drawRate(surface, area, points, limitY, limitLine.hard !== false, theme);
        drawLimitLabel(surface, area, limitY, limitLine, theme);
    }

    /** The units that were allowed in (ns - windowNs, ns], of the requests that were drawn. */
    at(ns, windowNs) {
        return this.#until(ns) - this.#until(ns - windowNs);
    }

    #until(ns) {
        let low = 0, high = this.#count;
        while (low < high) {
            const middle = (low + high) >>> 1;
            if (this.#times[middle] <= ns)
                low = middle + 1;
            else
                high = middle;
        }
        return low > 0 ? this.#sums[low - 1] : 0;
    }

    #read({ times, keys, costs, columns, to, nowNs, watchKey = -1, version = 0 }) {
        const key = `${watchKey} ${version}`;
        if (key !== this.#sumKey || nowNs < this.#lastNow || to < this.#readTo) {
            this.#sumKey = key;
            this.#count = 0;
            this.#readTo = 0;
            this.#samples.clear();
        }
        this.#lastNow = nowNs;
        const all = watchKey < 0 || !keys;
        for (let i = this.#readTo; i < to; i++) {
            if (columns.allowed[i] && (all || keys[i] === watchKey))
                this.#add(times[i], costs ? costs[i] : 1);
        }
        this.#readTo = to;
    }

    #add(ns, units) {
        if (this.#count === this.#times.length) {
            this.#times = doubled(this.#times);
            this.#sums = doubled(this.#sums);
        }
        this.#times[this.#count] = ns;
        this.#sums[this.#count] = (this.#count > 0 ? this.#sums[this.#count - 1] : 0) + units;
        this.#count++;
    }

    // The samples between both edges, and their maximum.
    #line(layout, { nowNs, limitLine: { windowNs } }) {
        const stepNs = layout.nsPerPx * STEP;
        const key = `${stepNs} ${windowNs}`;
        if (key !== this.#gridKey || this.#samples.size > SAMPLES_MAX) {
            this.#samples.clear();
            this.#gridKey = key;
        }
        const points = [];
        let most = 0;
        const add = (ns, units) => {
            const x = layout.box.x + (ns - layout.beginNs) / layout.nsPerPx;
            const n = points.length;
            if (n >= 4 && points[n - 1] === units && points[n - 3] === units)
                points[n - 2] = x; // a level stretch needs two points
            else
                points.push(x, units);
            most = Math.max(most, units);
        };
        add(layout.beginNs, this.at(layout.beginNs, windowNs));
        const last = Math.floor(nowNs / stepNs);
        for (let i = Math.floor(layout.beginNs / stepNs) + 1; i <= last; i++) {
            let units = this.#samples.get(i);
            if (units === undefined) {
                units = this.at(i * stepNs, windowNs);
                this.#samples.set(i, units);
            }
            add(i * stepNs, units);
        }
        add(nowNs, this.at(nowNs, windowNs));
        return { points, most };
    }

    // The top of the scale: the limit and a bit, or more if the rate is higher. It shrinks late.
    #scale(limit, most) {
        const wanted = Math.max(limit * 1.35, most * 1.1, 1);
        if (wanted > this.#top || wanted < this.#top * 0.6)
            this.#top = wanted;
    }
}

function doubled(old) {
    const larger = new Float64Array(2 * old.length);
    larger.set(old);
    return larger;
}

function drawRate(surface, area, points, limitY, hard, theme) {
    const base = area.y + area.h;
    const shape = [area.x, base, ...points, area.x + area.w, base];
    surface.clip(area.x, area.y, area.w, area.h, () => {
        surface.polygon(shape, { fill: theme.allowedSoft });
        if (hard && points.some((y, i) => i % 2 === 1 && y < limitY - 0.5)) {
            surface.clip(area.x, area.y, area.w, limitY - area.y, () =>
                surface.polygon(shape, { fill: theme.deniedSoft }));
        }
        surface.polyline(points, { stroke: theme.accent, width: 1.5 });
    });
    surface.line(area.x, base, area.x + area.w, base, { stroke: theme.hairline });
}

function drawLimitLabel(surface, area, y, { perWindow, windowNs, hard }, theme) {
    surface.line(area.x, y, area.x + area.w, y, { stroke: theme.ink, dash: [4, 3] });
    const name = hard === false ? "rate" : "limit";
    const label = `${name} ${formatUnits(perWindow)} in ${formatNs(windowNs)}`;
    const width = textWidth(label, { size: 11 });
    if (width + 8 > area.w)
        return;
    const above = y - area.y >= 15;
    drawLabel(surface, area.x + 4, above ? y - 4 : y + 12, label, theme.ink, theme);
}
