// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The charts of docs/accuracy.md, drawn from accuracy.json, which accuracy_data.mjs makes.

import { ticks } from "../draw/format.mjs";
import { SvgSurface } from "../draw/surface.mjs";
import { themes } from "../draw/theme.mjs";

const WIDTH = 720;
const HEIGHT = 300;
const EDGE = 16;
const PLOT = { x: 64, y: 52, w: WIDTH - 64 - EDGE, h: HEIGHT - 52 - 56 };
const NAMES_STEP = 224; // px between the names of two series
const theme = themes.light; // on a ground of its own, so that it can be read on any page

/**
 * Values over a common axis, such as the rate of a source.
 * @typedef {object} AccuracyChart
 * @property {string} name of the file
 * @property {string} title for screen readers
 * @property {string} xLabel
 * @property {string} yLabel
 * @property {number[]} x ascending
 * @property {boolean} even whether the values of x are drawn at equal distances, each with its label
 * @property {{name: string, values: number[]}[]} series one value for each x
 */

/** @param {AccuracyChart} chart */
function drawAxes(surface, chart, xOf, yOf, top) {
    for (const y of ticks(0, top, 5)) {
        surface.line(PLOT.x, yOf(y), PLOT.x + PLOT.w, yOf(y), { stroke: theme.hairline });
        surface.text(PLOT.x - 8, yOf(y) + 4, String(y), { align: "right", color: theme.muted });
    }
    const labels = chart.even ? chart.x : ticks(chart.x[0], chart.x[chart.x.length - 1], 8);
    for (const x of labels)
        surface.text(xOf(x), PLOT.y + PLOT.h + 18, String(x), { align: "center", color: theme.muted });
    surface.line(PLOT.x, yOf(0), PLOT.x + PLOT.w, yOf(0), { stroke: theme.edge });
    surface.text(PLOT.x + PLOT.w / 2, HEIGHT - 14, chart.xLabel, { align: "center", color: theme.ink });
    surface.text(EDGE, 22, chart.yLabel, { color: theme.ink });
}

/** @param {AccuracyChart} chart */
function drawChart(chart) {
    const surface = new SvgSurface(WIDTH, HEIGHT, { title: chart.title, background: theme.panel });
    surface.roundRect(0.5, 0.5, WIDTH - 1, HEIGHT - 1, 6, { stroke: theme.hairline });
    const first = chart.x[0], last = chart.x[chart.x.length - 1];
    const top = 1.05 * Math.max(...chart.series.flatMap((series) => series.values));
    const share = (x) => chart.even ? (chart.x.indexOf(x) + 0.5) / chart.x.length : (x - first) / (last - first);
    const xOf = (x) => PLOT.x + PLOT.w * share(x);
    const yOf = (y) => PLOT.y + PLOT.h * (1 - y / top);
    drawAxes(surface, chart, xOf, yOf, top);
    chart.series.forEach((series, i) => {
        const color = theme.series[i];
        surface.polyline(series.values.flatMap((y, k) => [xOf(chart.x[k]), yOf(y)]), { stroke: color, width: 2 });
        series.values.forEach((y, k) => surface.circle(xOf(chart.x[k]), yOf(y), 3, { fill: color }));
        const x = PLOT.x + i * NAMES_STEP;
        surface.line(x, 38, x + 18, 38, { stroke: color, width: 2 });
        surface.text(x + 24, 42, series.name, { mono: true, color: theme.ink });
    });
    return surface.toString();
}

/**
 * Draws all charts.
 * @param {AccuracyChart[]} charts the contents of accuracy.json
 * @returns {{name: string, text: string}[]} SVG documents
 */
export function accuracyFigures(charts) {
    return charts.map((chart) => ({ name: chart.name, text: drawChart(chart) }));
}
