// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Reads pasted request times: a line for each request with its time and, optionally, its key and cost.
//
//     0.5                        half a second after the beginning
//     1.2s alice                 a key; units: ns us ms s m h
//     1.2s alice 2               and a cost
//     12:00:03 alice             a time of day
//     2026-03-29T00:30:00Z bob   ISO 8601; without an offset, UTC
//
// Fields are separated by spaces, tabs, commas or semicolons. Text after "#" is ignored.

import { MAX_COST, MAX_EVENTS, MAX_KEYS, OFFSET_MAX } from "./scene.mjs";

const UNIT_NS = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 6e10, h: 3.6e12 };
const SECOND_NS = 1000000000n;
const ERRORS_MAX = 100;
const DAY_DEFAULT = "2026-01-01";
const NAME_DEFAULT = "user";

const DURATION = /^(\d{1,17}(?:\.\d{1,12})?)(ns|us|ms|s|m|h)?$/;
const CLOCK = /^(\d{1,2}):(\d{2})(?::(\d{2})(\.\d{1,9})?)?$/;
const ISO = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(?::(\d{2})(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?$/i;

/** @typedef {{line: number, message: string}} LineError */

const fractionNs = (digits) => BigInt((digits ?? ".").slice(1).padEnd(9, "0"));

/** Returns the nanoseconds since the epoch, or null. */
function isoNs(text) {
    const match = ISO.exec(text);
    if (!match)
        return null;
    const [, day, minute, second, fraction, zone] = match;
    const offset = (zone ?? "Z").toUpperCase().replace(/^([+-]\d{2})(\d{2})$/, "$1:$2");
    const ms = Date.parse(`${day}T${minute}:${second ?? "00"}${offset}`);
    return ms >= 0 ? BigInt(ms) * 1000000n + fractionNs(fraction) : null;
}

function clockNs(text) {
    const match = CLOCK.exec(text);
    if (!match || Number(match[1]) > 23)
        return null;
    const [, hour, minute, second, fraction] = match;
    return isoNs(`${DAY_DEFAULT}T${hour.padStart(2, "0")}:${minute}:${second ?? "00"}${fraction ?? ""}Z`);
}

/** Returns {since: offset in ns} or {at: ns since the epoch}, or null. */
function timeOf(word) {
    const duration = DURATION.exec(word);
    if (duration) {
        const since = Math.round(Number(duration[1]) * UNIT_NS[duration[2] ?? "s"]);
        return since <= OFFSET_MAX ? { since } : null;
    }
    const at = isoNs(word) ?? clockNs(word);
    return at === null ? null : { at };
}

function fail(message) {
    throw new RangeError(message);
}

function costOf(word) {
    if (word === undefined)
        return 1;
    if (!/^\d+$/.test(word) || Number(word) > MAX_COST)
        fail(`found the cost '${word.slice(0, 40)}', expected a whole number from 0 to ${MAX_COST}`);
    return Number(word);
}

/** Reads a line, or returns null if it is empty. Throws a RangeError. */
function readLine(line) {
    const words = line.replace(/#.*/, "").split(/[\s,;]+/).filter((word) => word !== "");
    if (words.length === 0)
        return null;
    let time = timeOf(words[0]);
    if (/^\d{4}-\d{2}-\d{2}$/.test(words[0]) && words.length > 1) {
        words.splice(0, 2, `${words[0]}T${words[1]}`);
        time = timeOf(words[0]);
    }
    if (!time)
        fail(`found '${words[0].slice(0, 40)}', expected a time: 0.5, 1.2s, 12:00:03 or ISO 8601`);
    if (words.length > 3)
        fail(`found '${words[3].slice(0, 40)}', expected the end of the line: a time, a key and a cost`);
    return { ...time, offset: 0, name: words[1] ?? NAME_DEFAULT, cost: costOf(words[2]) };
}

/** Sets .offset of all events, and returns the beginning: the second of the first absolute time. */
function setOffsets(events) {
    let first = null;
    for (const { at } of events)
        if (at !== undefined && (first === null || at < first))
            first = at;
    const begin = first === null ? null : first - (first % SECOND_NS);
    for (const event of events)
        event.offset = event.since ?? Number(event.at - begin);
    return begin === null ? null : new Date(Number(begin / 1000000n)).toISOString().replace(".000Z", "Z");
}

/**
 * Copies sorted events to arrays.
 * @param {{offset: number, name: string, cost: number}[]} events
 * @returns {import("./scene.mjs").LogEvents}
 */
function toArrays(events) {
    const names = new Map();
    const arrays = {
        names: /** @type {string[]} */ ([]),
        times: new Float64Array(events.length),
        keys: new Uint32Array(events.length),
        costs: new Int32Array(events.length),
    };
    events.forEach(({ offset, name, cost }, i) => {
        if (!names.has(name))
            names.set(name, names.size);
        arrays.times[i] = offset;
        arrays.keys[i] = names.get(name);
        arrays.costs[i] = cost;
    });
    arrays.names = [...names.keys()];
    return arrays;
}

/**
 * Reads pasted times.
 * @param {string} text
 * @returns {{events: import("./scene.mjs").LogEvents, begin: string | null, errors: LineError[]}} events
 *     sorted by time; begin: the time of offset 0, or null if no line has a time of day; errors: the first
 *     100 lines that could not be read, which are left out
 */
export function parseTimes(text) {
    const events = [], names = new Set(), errors = [];
    const report = (line, message) => errors.length < ERRORS_MAX && errors.push({ line, message });
    const lines = text.split(/\r\n|\r|\n/);
    for (let i = 0; i < lines.length; i++) {
        if (events.length === MAX_EVENTS) {
            report(i + 1, `only the first ${MAX_EVENTS} requests are used`);
            break;
        }
        try {
            const event = readLine(lines[i]);
            if (!event)
                continue;
            if (names.size === MAX_KEYS && !names.has(event.name))
                fail(`a scene has at most ${MAX_KEYS} keys`);
            names.add(event.name);
            events.push(event);
        } catch (error) {
            report(i + 1, /** @type {Error} */ (error).message);
        }
    }
    const begin = setOffsets(events);
    const near = events.filter(({ offset }) => offset <= OFFSET_MAX);
    if (near.length < events.length)
        report(lines.length, "requests more than 104 days after the first are left out");
    near.sort((a, b) => a.offset - b.offset);
    return { events: toArrays(near), begin, errors };
}
