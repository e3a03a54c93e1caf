// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Numbers, durations and the ticks of axes, as people read them.

const SECOND = 1e9;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * @param {number} ns 0 or more; Infinity is "never"
 * @returns {string} such as "0 s", "250 ns", "180 ms", "1.2 s", "3 m 20 s", "2 h 5 m", "3 d 4 h"
 */
export function formatNs(ns) {
    if (!(ns < Infinity))
        return "never";
    if (ns <= 0)
        return "0 s";
    if (ns < SECOND)
        return below(ns);
    if (ns < 9.95 * SECOND)
        return `${trimmed((ns / SECOND).toFixed(1))} s`;
    if (ns < MINUTE - SECOND / 2)
        return `${Math.round(ns / SECOND)} s`;
    if (ns < HOUR - SECOND / 2)
        return both(ns, MINUTE, "m", SECOND, "s");
    if (ns < DAY - MINUTE / 2)
        return both(ns, HOUR, "h", MINUTE, "m");
    return both(ns, DAY, "d", HOUR, "h");
}

/**
 * A length of time that has to pass, as of formatNs(), but rounded up: after that time it has passed.
 * @param {number} ns
 * @returns {string}
 */
export function formatWait(ns) {
    if (!(ns > 0 && ns < Infinity))
        return formatNs(ns);
    const steps = [[DAY, HOUR], [HOUR, MINUTE], [9.95 * SECOND, SECOND], [SECOND, SECOND / 10], [9.95e6, 1e6],
        [1e6, 1e5], [9.95e3, 1e3], [1e3, 100], [0, 1]];
    const [, step] = steps.find(([from]) => ns >= from);
    return formatNs(Math.ceil(ns / step - 1e-9) * step);
}

// Durations below a second: two digits at least, in the unit that shows them.
function below(ns) {
    for (const [unit, name] of [[1e6, "ms"], [1e3, "µs"]]) {
        if (ns >= 9.95 * unit)
            return `${Math.round(ns / unit)} ${name}`;
        if (ns >= unit)
            return `${trimmed((ns / unit).toFixed(1))} ${name}`;
    }
    return `${Math.ceil(ns)} ns`;
}

const trimmed = (text) => text.replace(/\.0$/, "");

function both(ns, unit, name, part, partName) {
    const parts = Math.round(ns / part);
    const inUnit = Math.round(unit / part);
    const whole = Math.floor(parts / inUnit);
    const rest = parts - whole * inUnit;
    return rest ? `${whole} ${name} ${rest} ${partName}` : `${whole} ${name}`;
}

/**
 * @param {number} value
 * @returns {string} such as "7", "0.25", "950", "1.2 k", "34 M"
 */
export function formatNumber(value) {
    if (!Number.isFinite(value))
        return value > 0 ? "∞" : "–";
    const size = Math.abs(value);
    if (size < 1000) {
        const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
        return String(Number(value.toFixed(digits)));
    }
    const names = ["k", "M", "G", "T", "P"];
    let scaled = value / 1000, i = 0;
    while (Math.abs(scaled) >= 999.5 && i < names.length - 1) {
        scaled /= 1000;
        i++;
    }
    return `${Number(scaled.toFixed(Math.abs(scaled) < 99.95 ? 1 : 0))} ${names[i]}`;
}

/** @returns {string} a whole number with commas between thousands, such as "12,345" */
export function formatCount(value) {
    return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/**
 * A part of a whole in per cent. Only nothing is "0 %", and only all is "100 %".
 * @param {number} part 0 to `all`
 * @param {number} all
 * @returns {string} such as "< 0.1 %", "3.1 %", "33 %", "99.7 %", "> 99.9 %"; "–" if `all` is 0
 */
export function formatPercent(part, all) {
    if (!(all > 0))
        return "–";
    const share = (100 * part) / all;
    if (part > 0 && share < 0.1)
        return "< 0.1 %";
    if (part < all && share > 99.9)
        return "> 99.9 %";
    return `${Number(share.toFixed(share < 10 || share >= 99 ? 1 : 0))} %`;
}

const PERIODS = [[DAY, "d"], [HOUR, "h"], [MINUTE, "m"], [SECOND, "s"], [1e6, "ms"], [1e3, "us"]];

/** @returns {string} a count that is exact below 100,000, such as "8.4", "1,000", "250 k" */
export function formatUnits(value) {
    return Math.abs(value) >= 1000 && Math.abs(value) < 100000 ? formatCount(value) : formatNumber(value);
}

/**
 * The rate of a layer as the policy language writes it.
 * @param {number} rate
 * @param {number} periodNs 0: a calendar window
 * @param {string} [calendar]
 * @returns {string} such as "5/s", "100/15m", "5000/month"
 */
export function formatRate(rate, periodNs, calendar = "") {
    if (!periodNs)
        return `${rate}/${calendar || "window"}`;
    for (const [unit, name] of PERIODS) {
        if (periodNs % unit === 0) {
            const count = periodNs / unit;
            return `${rate}/${count === 1 ? "" : count}${name}`;
        }
    }
    return `${rate}/${periodNs === 1 ? "" : periodNs}ns`;
}

/**
 * Values from `low` to `high` at 1, 2 or 5 times a power of ten.
 * @param {number} low
 * @param {number} high
 * @param {number} count how many are wanted at most, 1 or more
 * @param {boolean} [whole] whether fractions are left out
 * @returns {number[]} ascending, all inside of low..high; [] if the range is empty
 */
export function ticks(low, high, count, whole = false) {
    if (!(high > low) || !Number.isFinite(high - low) || count < 1)
        return [];
    const least = (high - low) / count;
    let power = 10 ** Math.floor(Math.log10(least));
    if (whole && power < 1)
        power = 1;
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least * (1 - 1e-9));
    return multiples(low, high, step);
}

// Durations that a clock shows, in ns.
const STEPS = [1, 2, 5, 10, 15, 30].map((n) => n * SECOND)
    .concat([1, 2, 5, 10, 15, 30].map((n) => n * MINUTE), [1, 2, 3, 6, 12].map((n) => n * HOUR),
        [1, 2, 7, 14, 28, 56, 91, 182, 364].map((n) => n * DAY));

/**
 * The step of a time axis.
 * @param {number} spanNs greater than 0
 * @param {number} count how many ticks are wanted at most, 1 or more
 * @returns {number} ns
 */
export function timeStep(spanNs, count) {
    const least = spanNs / Math.max(1, count);
    if (least <= SECOND / 2) {
        const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
        return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least * (1 - 1e-9)) ?? 1;
    }
    return STEPS.find((size) => size >= least) ?? Math.ceil(least / (364 * DAY)) * 364 * DAY;
}

/** @returns {number[]} the multiples of `step` in low..high, ascending, at most 1000 */
export function multiples(low, high, step) {
    const found = [];
    const first = Math.ceil(low / step - 1e-9) + 0; // not -0
    const last = Math.min(first + 999, Math.floor(high / step + 1e-9));
    for (let i = first; i <= last; i++) {
        // 0.3, not 0.30000000000000004
        const value = Number.isInteger(step) ? i * step : Number((i * step).toPrecision(15));
        if (!(value <= found[found.length - 1]))
            found.push(value);
    }
    return found;
}

/**
 * The label of a tick: the time since the beginning, with the digits that `stepNs` needs.
 * @param {number} ns
 * @param {number} stepNs the distance of two ticks
 * @returns {string} such as "1.25 s", "12 s", "1:05", "2:00:30"
 */
export function formatOffset(ns, stepNs) {
    const sign = ns < 0 ? "−" : "";
    const size = Math.abs(ns);
    if (size < MINUTE || stepNs < SECOND) {
        const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(stepNs / SECOND) - 1e-9)));
        return `${sign}${(size / SECOND).toFixed(digits)} s`;
    }
    const seconds = Math.round(size / SECOND);
    const clock = [Math.floor(seconds / 60) % 60, seconds % 60].map((n) => String(n).padStart(2, "0"));
    if (seconds >= 3600)
        return `${sign}${Math.floor(seconds / 3600)}:${clock.join(":")}`;
    return `${sign}${Math.floor(seconds / 60)}:${clock[1]}`;
}

/**
 * The label of a tick on a clock.
 * @param {number} ms since the epoch
 * @param {number} stepNs the distance of two ticks
 * @param {boolean} [utc] whether UTC is shown, else the local time
 * @returns {string} such as "14:05", "14:05:30", "14:05:30.250", "2 Mar"
 */
export function formatClock(ms, stepNs, utc = false) {
    const date = new Date(utc ? ms : ms - new Date(ms).getTimezoneOffset() * 60000);
    if (Number.isNaN(date.getTime()))
        return "";
    const text = date.toISOString();
    if (stepNs >= DAY)
        return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
    return text.slice(11, stepNs >= MINUTE ? 16 : stepNs >= SECOND ? 19 : 23);
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
