// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Numbers and times as people read them. Times are Numbers of nanoseconds.

import { formatCount, formatPercent, formatWait } from "../draw/format.mjs";

/** A count with separators: 12,345. */
export const count = formatCount;

/** A length of time, rounded up: "1.3 s", "3 m 20 s". */
export const duration = formatWait;

/** At most three significant digits, without trailing zeros: 12.3, 0.05, 1,234. */
export function short(n) {
    if (!Number.isFinite(n))
        return "–";
    if (Math.abs(n) >= 1000)
        return count(n);
    return String(Number(n.toPrecision(3)));
}

/** A part of a whole in per cent, as of formatPercent(), and "0 %" if there is nothing yet. */
export function percent(part, whole) {
    return whole === 0 ? "0 %" : formatPercent(part, whole);
}

/** An offset, as on the axes: "12.3 s", "1:02.3", "1:02:03.4", with days if there are any: "2 d 03:00:00". */
export function clock(ns) {
    const tenths = Math.floor(ns / 1e8);
    const seconds = Math.floor(tenths / 10);
    const pad = (n) => String(n).padStart(2, "0");
    const [s, m, h, d] = [seconds % 60, Math.floor(seconds / 60) % 60, Math.floor(seconds / 3600) % 24,
        Math.floor(seconds / 86400)];
    if (d > 0)
        return `${d} d ${pad(h)}:${pad(m)}:${pad(s)}`;
    if (seconds < 60)
        return `${s}.${tenths % 10} s`;
    const end = `${pad(s)}.${tenths % 10}`;
    return h > 0 ? `${h}:${pad(m)}:${end}` : `${m}:${end}`;
}

/** A date of the scene in UTC: "Mon 2 Mar 2026 09:00:12 UTC". */
export function date(ms) {
    const d = new Date(ms);
    if (Number.isNaN(d.getTime()))
        return "";
    const day = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][d.getUTCDay()];
    const month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov",
        "Dec"][d.getUTCMonth()];
    return `${day} ${d.getUTCDate()} ${month} ${d.getUTCFullYear()} ${d.toISOString().slice(11, 19)} UTC`;
}

const DATE = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2}))?)?$/;

/**
 * Reads a date and time in UTC: "2026-01-01", "2026-01-01 9:30" or "2026-01-01 09:30:00".
 * @param {string} text
 * @returns {number} ms since the epoch; NaN if the text is not wholly such a date, or is before 1970
 */
export function readDate(text) {
    const [, day, hour = "00", minute = "00", second = "00"] = DATE.exec(text.trim()) ?? [];
    const iso = `${day}T${hour.padStart(2, "0")}:${minute}:${second}.000Z`;
    const ms = Date.parse(iso);
    // Some browsers take 30 February as 2 March.
    return ms >= 0 && new Date(ms).toISOString() === iso ? ms : NaN;
}

/** A size in bytes: "12 KB". */
export function bytes(n) {
    for (const [size, unit] of [[2 ** 30, "GB"], [2 ** 20, "MB"], [2 ** 10, "KB"]]) {
        if (n >= size)
            return `${short(n / size)} ${unit}`;
    }
    return `${n} bytes`;
}
