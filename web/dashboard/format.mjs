// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Numbers as a person reads them: 1.2 k/s, 187 MiB, 85 µs. Knows nothing of the page.

import { formatPercent } from "../draw/format.mjs";

const NARROW = "\u202f"; // between a number and its unit
const NONE = "–";

/** Writes a number from 0 to 999 with three significant digits at most. */
function threeDigits(n) {
    if (n >= 99.95)
        return String(Math.round(n));
    const text = n >= 9.995 ? n.toFixed(1) : n.toFixed(2);
    return text.replace(/\.?0+$/, "");
}

/**
 * Divides by the largest step that leaves at least 1, and writes the unit of that step.
 * @param {number} n
 * @param {number} step
 * @param {string[]} units the first is that of n itself
 */
function scaled(n, step, units) {
    if (!Number.isFinite(n))
        return NONE;
    let size = Math.abs(n),
        at = 0;
    while (at < units.length - 1 && Number(threeDigits(size)) >= step) {
        size /= step;
        at++;
    }
    const digits = size >= 1000 ? whole(size) : threeDigits(size);
    return (n < 0 && digits !== "0" ? "-" : "") + digits + (units[at] ? NARROW + units[at] : "");
}

/** @param {number} n any number; "1.2 k" for 1234 */
export function short(n) {
    return scaled(n, 1000, ["", "k", "M", "G", "T"]);
}

/** @param {number} n events a second */
export function rate(n) {
    const text = short(n);
    if (text === NONE)
        return NONE;
    return /\d$/.test(text) ? `${text}${NARROW}/s` : `${text}/s`;
}

/** @param {number} n a count; every digit, in groups of three */
export function whole(n) {
    return Number.isFinite(n) ? Math.round(n).toLocaleString("en-US") : NONE;
}

/** Every digit of a count, and what is counted: "1 key", "2 keys". @param {number} n @param {string} word */
export function counted(n, word) {
    return `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
}

/** @param {number} n bytes */
export function bytes(n) {
    return scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

/** @param {number} us microseconds; not finite: no value */
export function micros(us) {
    return scaled(us, 1000, ["µs", "ms", "s"]);
}

/**
 * @param {number} part
 * @param {number} all 0: no value
 */
export function percent(part, all) {
    return formatPercent(part, all).replaceAll(" ", NARROW);
}

const UNITS = [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
];

/** @param {number} ms a duration; its two largest units, such as "3 d 4 h" */
export function duration(ms) {
    if (!Number.isFinite(ms))
        return NONE;
    let seconds = Math.max(0, Math.floor(ms / 1000));
    const first = Math.max(
        0,
        UNITS.findIndex(([, size]) => seconds >= Number(size)),
    );
    if (seconds === 0)
        return `0${NARROW}s`;
    const parts = [];
    for (const [unit, size] of UNITS.slice(first, first + 2)) {
        const n = Math.floor(seconds / Number(size));
        seconds -= n * Number(size);
        if (n > 0)
            parts.push(`${n}${NARROW}${unit}`);
    }
    return parts.join(" ");
}

/** @param {number} ms since the epoch; the local time of day */
export function clock(ms) {
    const date = new Date(ms);
    return [date.getHours(), date.getMinutes(), date.getSeconds()]
        .map((n) => String(n).padStart(2, "0"))
        .join(":");
}
