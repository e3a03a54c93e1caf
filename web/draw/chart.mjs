// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Line, area and stacked charts over time, with axes.

import { formatClock, formatNumber, multiples, ticks, timeStep } from "./format.mjs";
import { textWidth } from "./surface.mjs";

const DAY_MS = 86400e3;

/**
 * @typedef {object} Series
 * @property {string} name
 * @property {string} [role] a colour of the theme, such as "allowed"; by default one of theme.series
 * @property {ArrayLike<number>} values one for each time; NaN: unknown, the line has a gap
 * @property {number[]} [dash] of the line: lengths of strokes and gaps
 */

/**
 * @typedef {object} ChartData
 * @property {Series[]} series stacked charts have the first one at the bottom
 * @property {ArrayLike<number>} times ms since the epoch, ascending
 * @property {string} [unit] shown at the topmost value, such as "/s" or "ms"
 * @property {import("./theme.mjs").Theme} theme
 * @property {"line" | "area" | "stacked"} [kind] "line" if it is not given
 * @property {number} [fromMs] the left edge, the first time if it is not given
 * @property {number} [toMs] the right edge, the last time if it is not given
 * @property {number} [yMin] what the vertical axis reaches at least, 1 if it is not given
 * @property {number} [hoverMs] a time to point out
 * @property {boolean} [labels] whether the series are named at the top left
 * @property {boolean} [utc] whether the axis shows UTC, else the local time
 */

/**
 * Draws a chart. Boxes of less than 60 px in height, or 120 px in width, have no axes.
 * @param {object} surface
 * @param {import("./state.mjs").Box} box
 * @param {ChartData} data
 */
export function drawChart(surface, box, data) {
    const layout = layoutOf(box, data);
    drawGrid(surface, layout, data);
    const { plot } = layout;
    surface.clip(plot.x, plot.y - 1, plot.w, plot.h + 2, () => {
        const lows = new Float64Array(data.times.length);
        data.series.forEach((series, i) => drawSeries(surface, layout, data, series, colorOf(data, i), lows));
    });
    surface.line(plot.x, plot.y + plot.h, plot.x + plot.w, plot.y + plot.h, { stroke: data.theme.edge });
    if (data.labels)
        drawLabels(surface, layout, data);
    drawHover(surface, layout, data);
}

/**
 * The index of the time that is nearest to a place in a chart.
 * @param {import("./state.mjs").Box} box
 * @param {ChartData} data
 * @param {number} x
 * @returns {number} -1 if there is none
 */
export function chartIndexAt(box, data, x) {
    const layout = layoutOf(box, data);
    const ms = layout.fromMs + (x - layout.plot.x) / layout.plot.w * (layout.toMs - layout.fromMs);
    let low = 0, high = data.times.length;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (data.times[middle] < ms)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0 && (low === data.times.length || ms - data.times[low - 1] < data.times[low] - ms))
        low--;
    return data.times.length ? low : -1;
}

const colorOf = ({ series, theme }, i) => theme[series[i].role] ?? theme.series[i % theme.series.length];

function layoutOf(box, data) {
    const { times } = data;
    const toMs = data.toMs ?? (times.length ? times[times.length - 1] : 1);
    const fromMs = Math.min(data.fromMs ?? (times.length ? times[0] : 0), toMs - 1);
    const most = Math.max(data.yMin ?? 1, maximum(data, fromMs));
    const axes = box.h >= 60 && box.w >= 120;
    const yTicks = axes ? ticks(0, most * 1.0001, Math.max(2, Math.floor(box.h / 40))) : [];
    const step = yTicks.length > 1 ? yTicks[1] - yTicks[0] : most;
    const top = axes ? Math.max(step, Math.ceil(most / step - 1e-3) * step) : most * 1.05;
    const labels = yTicks.map(formatNumber);
    const right = axes ? Math.max(28, ...labels.map((text) => textWidth(text, { size: 11 }) + 8)) : 0;
    const above = axes ? 18 : 2, below = axes ? 20 : 2;
    const w = Math.max(1, box.w - right), h = Math.max(1, box.h - above - below);
    const plot = { x: box.x, y: box.y + above, w, h };
    return { box, plot, axes, fromMs, toMs, top, yTicks: multiples(0, top, step) };
}

function maximum({ series, times, kind }, fromMs) {
    let most = 0;
    for (let i = 0; i < times.length; i++) {
        if (times[i] < fromMs)
            continue;
        let sum = 0;
        for (const { values } of series) {
            const value = values[i] > 0 && values[i] < Infinity ? values[i] : 0;
            sum = kind === "stacked" ? sum + value : Math.max(sum, value);
        }
        most = Math.max(most, sum);
    }
    return most;
}

const xOf = ({ plot, fromMs, toMs }, ms) => plot.x + (ms - fromMs) / (toMs - fromMs) * plot.w;

const yOf = ({ plot, top }, value) => plot.y + plot.h - Math.min(1.05, value / top) * plot.h;

function drawGrid(surface, layout, { theme, unit = "", utc = false }) {
    const { plot, box, axes, yTicks, fromMs, toMs } = layout;
    if (!axes)
        return;
    const right = box.x + box.w;
    const text = { size: 11, color: theme.muted };
    yTicks.forEach((value, i) => {
        const y = yOf(layout, value);
        surface.line(plot.x, y, plot.x + plot.w, y, { stroke: theme.hairline });
        surface.text(right, y + 4, formatNumber(value), { ...text, align: "right" });
        if (i === yTicks.length - 1 && unit)
            surface.text(right, y - 9, unit, { ...text, align: "right" });
    });
    const zone = utc ? 0 : new Date(toMs).getTimezoneOffset() * 60000;
    const step = timeStep((toMs - fromMs) * 1e6, Math.max(1, plot.w / 90));
    for (const local of multiples(fromMs - zone, toMs - zone, step / 1e6)) {
        const x = xOf(layout, local + zone);
        // In a chart of several days, the ticks at midnight have the date.
        const days = toMs - fromMs > DAY_MS && local % DAY_MS === 0;
        const label = formatClock(local, days ? DAY_MS * 1e6 : step, true);
        const half = textWidth(label, { size: 11 }) / 2;
        surface.line(x, plot.y + plot.h, x, plot.y + plot.h + 4, { stroke: theme.edge });
        if (x - half >= box.x - 1 && x + half <= right)
            surface.text(x, plot.y + plot.h + 16, label, { ...text, align: "center" });
    }
}

// Draws one series. In a stacked chart `lows` is what lies below it, and its values are added.
function drawSeries(surface, layout, data, { values, dash }, color, lows) {
    const { times, kind = "line" } = data;
    const stacked = kind === "stacked";
    const from = firstVisible(layout, times);
    let line = [], low = [];
    const flush = () => {
        if (line.length >= 2)
            drawPart(surface, layout, line, stacked ? low : null, { color, dash, kind });
        line = [];
        low = [];
    };
    for (let i = from; i < times.length; i++) {
        if (!Number.isFinite(values[i])) {
            flush();
            continue;
        }
        const x = xOf(layout, times[i]);
        low.push(x, yOf(layout, lows[i]));
        line.push(x, yOf(layout, lows[i] + values[i]));
        if (stacked)
            lows[i] += values[i];
    }
    flush();
}

function firstVisible({ fromMs }, times) {
    let i = 0;
    while (i + 1 < times.length && times[i + 1] <= fromMs)
        i++;
    return i;
}

function drawPart(surface, { plot }, line, low, { color, dash, kind }) {
    if (line.length === 2) {
        surface.circle(line[0], line[1], 1.5, { fill: color });
        return;
    }
    if (kind !== "line") {
        const base = plot.y + plot.h;
        const back = low ? reversed(low) : [line[line.length - 2], base, line[0], base];
        surface.opacity(kind === "stacked" ? 0.55 : 0.18, () =>
            surface.polygon([...line, ...back], { fill: color }));
    }
    surface.polyline(line, { stroke: color, width: kind === "stacked" ? 1 : 1.75, dash });
}

function reversed(points) {
    const back = [];
    for (let i = points.length - 2; i >= 0; i -= 2)
        back.push(points[i], points[i + 1]);
    return back;
}

function drawLabels(surface, { box }, data) {
    let x = box.x;
    data.series.forEach(({ name }, i) => {
        const width = textWidth(name, { size: 11 });
        if (x + width + 14 > box.x + box.w - 36)
            return;
        surface.rect(x, box.y + 2, 9, 9, { fill: colorOf(data, i) });
        surface.text(x + 13, box.y + 10, name, { size: 11, color: data.theme.ink });
        x += width + 28;
    });
}

function drawHover(surface, layout, { hoverMs, theme }) {
    if (hoverMs === undefined || hoverMs < layout.fromMs || hoverMs > layout.toMs)
        return;
    const x = xOf(layout, hoverMs);
    surface.line(x, layout.plot.y, x, layout.plot.y + layout.plot.h, { stroke: theme.ink, dash: [2, 3] });
}
