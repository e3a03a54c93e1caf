// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The pictures of a report: colours and lines, the time line of a key, and the peak rates of keys beside the
// limits.

import { whole } from "../dashboard/format.mjs";
import { formatNumber } from "../draw/format.mjs";
import { textWidth } from "../draw/surface.mjs";
import { policyName } from "./text.mjs";

// Of the lines of policies. Not the colour of denied requests, which is no policy's.
const COLOURS = ["ink", "allowed", "delayed", "green", "mark"];
const DASHES = [undefined, [6, 3], [2, 3], [8, 3, 2, 3]];

/** The colours of the page as CSS variables. @type {any} */
export const theme = Object.freeze({
    ...Object.fromEntries(["ink", "muted", "hairline", "paper", "panel", "edge", "allowed", "denied",
        "delayed", "green"].map((role) => [role, `var(--${role})`])),
    mark: "var(--mark-text)",
    series: ["var(--allowed)"],
});

/** How the line of policy `i` is drawn: no two of the first 20 look the same. @param {number} i */
export const lineStyle = (i) => ({
    role: COLOURS[i % COLOURS.length],
    dash: DASHES[Math.floor(i / COLOURS.length) % DASHES.length],
});

/**
 * Draws the requests of a key as bars, with the denied ones in another colour.
 * @param {object} surface
 * @param {{x: number, y: number, w: number, h: number}} box
 * @param {number[]} requests by bucket
 * @param {number[]} denied by bucket
 * @param {any} colours a theme
 */
export function drawSpark(surface, { x, y, w, h }, requests, denied, colours) {
    const most = requests.reduce((a, b) => Math.max(a, b), 1);
    const each = w / Math.max(1, requests.length);
    const bar = (i, n, fill) => {
        const high = Math.max(1.5, n / most * h); // so that one request can be seen
        if (n > 0)
            surface.rect(x + i * each, y + h - high, Math.max(1, each - 0.5), high, { fill });
    };
    requests.forEach((n, i) => {
        bar(i, n, colours.edge);
        bar(i, denied[i], colours.denied);
    });
    surface.line(x, y + h, x + w, y + h, { stroke: colours.hairline });
}

/* ---- the peak rates of keys ------------------------------------------------------------------ */

const PERIODS = [["second", 1e9], ["minute", 60e9], ["hour", 3600e9]];
const LEFT = 56, RIGHT = 24, TOP = 20, ROW = 46;
const LIMITS_MAX = 5; // limits that a table names for a period
const LABEL = 11; // CSS pixels of a label
const EDGE = 4; // between a label and the edge, since widths of texts are estimated
const POINTS = [["max", 6], ["p99", 5], ["p90", 4], ["p50", 3]]; // with their radius

/** The height of the picture in CSS pixels. */
export const PEAKS_HEIGHT = TOP + PERIODS.length * ROW + 22;

/**
 * The periods, with the percentiles over keys and the limits that policies have for the same period.
 * @param {import("./text.mjs").Report} report
 * @returns {{name: string, p50: number, p90: number, p99: number, max: number,
 *            limits: {limit: number, names: string[]}[]}[]}
 */
export function peakRows({ load, policies }) {
    return PERIODS.map(([name, ns]) => {
        const limits = new Map();
        for (const policy of policies) {
            const peak = policy.peak_admitted;
            if (peak?.window_ns === ns)
                limits.set(peak.limit, [...limits.get(peak.limit) ?? [], policyName(policy)]);
        }
        const sorted = [...limits].sort(([a], [b]) => a - b).map(([limit, names]) => ({ limit, names }));
        return { name, ...load.peak[name], limits: sorted };
    });
}

/** "100 (api); 200 (login, other)", or "100 (api); 9 others"; "–" if no policy has this period. */
export function limitsText({ limits }) {
    const texts = limits.map(({ limit, names }) => `${whole(limit)} (${names.join(", ")})`);
    if (texts.length > LIMITS_MAX)
        texts.splice(LIMITS_MAX - 1, Infinity, `${texts.length - LIMITS_MAX + 1} others`);
    return texts.join("; ") || "–";
}

/**
 * Draws a row for each period on a logarithmic scale: a line from the median to the maximum with points at
 * p50, p90, p99 and max, and a mark at each limit.
 * @param {object} surface
 * @param {number} width CSS pixels
 * @param {ReturnType<typeof peakRows>} rows
 * @param {any} theme
 */
export function drawPeaks(surface, width, rows, theme) {
    const limits = rows.flatMap((row) => row.limits.map(({ limit }) => limit));
    const most = Math.max(10, ...rows.map(({ max }) => max), ...limits);
    const decades = Math.log10(most);
    const xOf = (n) => LEFT + Math.log10(Math.max(1, n)) / decades * (width - LEFT - RIGHT);
    const bottom = TOP + rows.length * ROW;
    for (let power = 0; power <= decades + 1e-9; power++) {
        const x = xOf(10 ** power);
        surface.line(x, TOP - 8, x, bottom, { stroke: theme.hairline });
        const text = formatNumber(10 ** power);
        surface.text(x, bottom + 14, text, { size: LABEL, align: "center", color: theme.muted });
    }
    rows.forEach((row, i) => drawRow(surface, row, TOP + i * ROW + ROW / 2, xOf, width, theme));
}

/** The labels of the points, from the highest; equal values share one, such as "p50–p99". */
function pointLabels(row) {
    const labels = [];
    for (const [name] of POINTS) {
        const before = labels.at(-1);
        if (before?.value === row[name])
            before.text = `${name}–${before.last}`;
        else
            labels.push({ text: name, last: name, value: row[name] });
    }
    return labels;
}

function drawRow(surface, row, y, xOf, width, theme) {
    surface.text(0, y + 4, row.name, { size: 12, color: theme.ink });
    surface.line(xOf(row.p50), y, xOf(row.max), y, { stroke: theme.allowed, width: 3, cap: "round" });
    for (const [name, r] of POINTS) {
        const fill = name === "max" ? theme.allowed : theme.panel;
        surface.circle(xOf(row[name]), y, r, { fill, stroke: theme.allowed, width: 2 });
    }
    let free = Infinity; // where the label to the left of the last one must end
    for (const { text, value } of pointLabels(row)) {
        const half = textWidth(text, { size: LABEL }) / 2;
        const x = within(xOf(value), half, width);
        if (x + half > free)
            continue;
        surface.text(x, y + 18, text, { size: LABEL, align: "center", color: theme.muted });
        free = x - half - 4;
    }
    drawLimits(surface, row, y, xOf, width, theme);
}

/** Where a label is centred, so that all of it lies in the picture. */
const within = (x, half, width) => Math.min(x, width - half - EDGE);

function drawLimits(surface, { limits }, y, xOf, width, theme) {
    let free = -Infinity;
    for (const { limit } of limits) {
        const x = xOf(limit);
        const text = `limit ${whole(limit)}`;
        const half = textWidth(text, { size: LABEL }) / 2, centre = within(x, half, width);
        surface.line(x, y - 11, x, y + 11, { stroke: theme.denied, width: 2, dash: [4, 2] });
        if (centre - half >= free) {
            surface.text(centre, y - 14, text, { size: LABEL, align: "center", color: theme.denied });
            free = centre + half + 6;
        }
    }
}
