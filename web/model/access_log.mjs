// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Reads access logs as `weir replay --reorder 0` does, in six of its formats: common, combined, vhost_common,
// vhost_combined, tsv without names of columns, and jsonl with the members "t_ns" or "time" (text), "key" and
// "cost". The key is the client's host, or the member "key" of a JSON line.

import { keyOfAddress } from "./address.mjs";
import { MAX_COST, MAX_EVENTS, MAX_KEYS, OFFSET_MAX } from "./scene.mjs";

const ERRORS_MAX = 100;
const BAD_LINES_AT_FIRST = 1000; // a file that begins with so many is no log
const LINE_CHARS_MAX = 1 << 20;
const KEY_CHARS_MAX = 65536;
const TIME_MAX = { s: 8070450532, ns: 247928832 }; // 7 * 2^60 ns
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const CLF_TIME = /\[(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d)(\.\d+)? ([+-])(\d\d)(\d\d)\]/y;
const RFC3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

const EXPECT_CLF_TIME = "'[' and a time like [01/Aug/1995:02:00:04 -0400]";
const EXPECT_IDENT = "an ident or '-'";
const EXPECT_VHOST = "the client's host behind the virtual host, found '-'";
const EXPECT_ONE_HOST = "one host, found a list";
const EXPECT_ONE_TIME = "one time before the request in quotes, found two; the line is ambiguous";
const EXPECT_RANGE = "a time from 1970 to 2225-09-28T23:48:52Z";
const EXPECT_KEY = "a key of 1 to 65536 bytes";
const EXPECT_COST = "a cost: a whole number from 0";
const EXPECT_FORMAT =
    "a line in one of the formats combined, common, vhost_combined, vhost_common, tsv, jsonl";

/** @typedef {{s: number, ns: number}} Time seconds since 1970 and nanoseconds */
/** @typedef {{time: Time, key: string, cost: number}} LogRecord */

/** A line that cannot be read. It is no Error, because a stack trace for each bad line takes too long. */
class LineProblem {
    /** @param {number} column counts characters from 1 */
    constructor(column, expected) {
        this.message = `column ${column}: expected ${expected}`;
    }
}

function fail(at, expected) {
    throw new LineProblem(at + 1, expected);
}

// ---- times ------------------------------------------------------------------------------------------------

function daysIn(year, month) {
    if (month === 2)
        return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
    return [4, 6, 9, 11].includes(month) ? 30 : 31;
}

/**
 * Returns the time of a date, or throws. A leap second is the first second of the next minute.
 * @param {number[]} date year, month, day, hour, minute, second
 * @returns {Time}
 */
function timeOf(date, fraction, east, at, expected) {
    const [year, month, day, hour, minute, second] = date;
    const valid = month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month) && hour <= 23 &&
        minute <= 59 && second <= 60;
    if (!valid)
        fail(at, expected);
    if (year < 1969 || year > 2226)
        fail(at, EXPECT_RANGE);
    const s = Date.UTC(year, month - 1, day, hour, minute, 0) / 1000 + second - east;
    return inRange({ s, ns: Number((fraction ?? ".").slice(1, 10).padEnd(9, "0")) }, at);
}

function inRange(time, at) {
    if (time.s < 0 || time.s > TIME_MAX.s || (time.s === TIME_MAX.s && time.ns > TIME_MAX.ns))
        fail(at, EXPECT_RANGE);
    return time;
}

/** Returns the seconds of an offset from UTC, which is invalid above 23:59. */
function eastOf(sign, hours, minutes, at, expected) {
    if (sign === undefined)
        return 0;
    if (Number(hours) > 23 || Number(minutes) > 59)
        fail(at, expected);
    return (sign === "-" ? -1 : 1) * (Number(hours) * 3600 + Number(minutes) * 60);
}

function clfTime(line, at) {
    CLF_TIME.lastIndex = at;
    const match = CLF_TIME.exec(line);
    if (!match)
        fail(at, EXPECT_CLF_TIME);
    const [, day, month, year, hour, minute, second, fraction, sign, hours, minutes] = match;
    const date = [year, MONTHS.indexOf(month) + 1, day, hour, minute, second].map(Number);
    return timeOf(date, fraction, eastOf(sign, hours, minutes, at, EXPECT_CLF_TIME), at, EXPECT_CLF_TIME);
}

/** Reads whole nanoseconds since 1970. */
function timeOfNs(digits, at) {
    const padded = digits.padStart(10, "0");
    return inRange({ s: Number(padded.slice(0, -9)), ns: Number(padded.slice(-9)) }, at);
}

// ---- access logs ------------------------------------------------------------------------------------------

/** Returns the time that begins at `at`, or null. One that is out of range has a `problem`. */
function stampAt(line, at) {
    CLF_TIME.lastIndex = at;
    if (!CLF_TIME.test(line))
        return null;
    const end = CLF_TIME.lastIndex;
    try {
        return { at, end, time: clfTime(line, at) };
    } catch (problem) {
        return problem.message.endsWith(EXPECT_RANGE) ? { at, end, problem } : null;
    }
}

/** Returns where the next "[dd/" behind a space is, from `from` on; -1 if there is none. */
function bracketFrom(line, from) {
    let at = from;
    do {
        at = line.indexOf("[", at) + 1;
    } while (at > 0 && (line[at - 2] !== " " || line[at + 2] !== "/"));
    return at - 1;
}

/**
 * Finds the time of the line, which is the one before the request: clients choose the user and the texts in
 * quotes. A line with a second time before an opening quote is ambiguous, and so is one with two times and no
 * request.
 */
function findStamp(line, from) {
    let found = null, requested = false, times = 0;
    for (let at = bracketFrom(line, from); at >= 0; at = bracketFrom(line, at + 1)) {
        const stamp = stampAt(line, at);
        const quoted = stamp && line.startsWith(' "', stamp.end);
        if (quoted && requested && !/^ "( |$)/.test(line.slice(stamp.end, stamp.end + 3)))
            fail(at, EXPECT_ONE_TIME);
        if (!stamp || requested)
            continue;
        requested = quoted;
        if (requested || times === 0)
            found = stamp;
        times++;
    }
    if (!requested && times > 1)
        fail(found.at, EXPECT_ONE_TIME);
    return found;
}

/** Refuses a client that is none, and texts that other servers write there. */
function checkHost(host, at, wanted) {
    if (wanted && host === "-")
        fail(at, "a client, found '-'");
    if (host.startsWith('"'))
        fail(at, "a host without quotes");
    if (host.includes(","))
        fail(at, EXPECT_ONE_HOST);
}

/** Whether the field found as ident is really the client, behind a virtual host. */
function isBehindVhost(host, ident, user) {
    if (ident === "-")
        return false;
    if (isAddress(ident))
        return true;
    if (!user.includes(" "))
        return false;
    return user.startsWith("- ") || /[.:]/.test(ident) || /:\d+$/.test(host);
}

function isAddress(text) {
    return /^(\d{1,3}\.){3}\d{1,3}$/.test(text)
        ? text.split(".").every((part) => Number(part) < 256 && String(Number(part)) === part)
        : keyOfAddress(text) !== text;
}

/** Reads host, ident, user and time, which is all that a request needs. */
function readAccess(line, vhost) {
    let begin = 0;
    if (vhost) {
        begin = line.indexOf(" ") + 1 || line.length;
        if (line.startsWith("- ", begin))
            fail(begin, EXPECT_VHOST);
    }
    const hostEnd = line.indexOf(" ", begin);
    const identEnd = hostEnd < 0 ? -1 : line.indexOf(" ", hostEnd + 1);
    const first = identEnd < 0 ? -1 : line.indexOf(" ", identEnd + 1);
    if (first < 0)
        fail(line.length, EXPECT_CLF_TIME);
    const stamp = findStamp(line, first + 1);
    if (!stamp)
        fail(first + 1, EXPECT_CLF_TIME);
    const host = line.slice(begin, hostEnd), ident = line.slice(hostEnd + 1, identEnd);
    if (vhost)
        checkHost(line.slice(0, begin - 1), 0, false);
    checkHost(host, begin, true);
    if (isBehindVhost(host, ident, line.slice(identEnd + 1, stamp.at - 1)))
        fail(hostEnd + 1, EXPECT_IDENT);
    if (stamp.problem)
        throw stamp.problem;
    const time = stamp.time;
    if (host === "" || host.length > KEY_CHARS_MAX)
        fail(begin, EXPECT_KEY);
    return { time, key: host, cost: 1 };
}

// ---- tsv and jsonl ----------------------------------------------------------------------------------------

/** Returns a cost. One above MAX_COST becomes MAX_COST, which almost every limit denies. */
function costOf(digits, at) {
    if (!/^\d+$/.test(digits))
        fail(at, EXPECT_COST);
    return Math.min(MAX_COST, Number(digits));
}

function readTsv(line) {
    const [first, key, ...rest] = line.split("\t");
    if (!/^\d{1,19}$/.test(first))
        fail(0, "t_ns, whole nanoseconds since 1970");
    const time = timeOfNs(first, 0);
    if (key === undefined)
        fail(line.length, "a tab, then a key");
    if (key === "" || key.length > KEY_CHARS_MAX)
        fail(first.length + 1, EXPECT_KEY);
    const cost = rest.length > 0 ? costOf(rest.join("\t"), first.length + key.length + 2) : 1;
    return { time, key, cost };
}

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|[{}[\]:,]|true|false|null/g;

/**
 * Returns the tokens of the values of an object's members, by name: JSON.parse() would round large integers.
 * Throws if a member of any object occurs twice. `line` is valid JSON.
 */
function membersOf(line) {
    const objects = []; // for each open bracket, the names of the members so far
    const members = new Map();
    let text = null, name = null;
    for (const [token] of line.matchAll(TOKEN)) {
        const names = objects[objects.length - 1];
        if (token === ":") {
            name = JSON.parse(text);
            if (names.has(name))
                fail(0, "one JSON object on the line, without duplicate members");
            names.add(name);
            continue;
        }
        if (name !== null && objects.length === 1)
            members.set(name, token);
        name = null;
        if (token === "{" || token === "[")
            objects.push(new Set());
        else if (token === "}" || token === "]")
            objects.pop();
        else
            text = token;
    }
    return members;
}

const isInteger = (token) => /^-?\d+$/.test(token ?? "");

function jsonTime(object, members) {
    const token = members.get("t_ns"), expected = "t_ns, whole nanoseconds since 1970, or a time in RFC 3339";
    if (isInteger(token)) {
        const digits = token.replace(/^-0*$/, "0");
        if (digits.startsWith("-") || digits.length > 19)
            fail(0, EXPECT_RANGE);
        return timeOfNs(digits, 0);
    }
    const match = token === undefined && typeof object.time === "string" ? RFC3339.exec(object.time) : null;
    if (!match)
        fail(0, expected);
    const date = match.slice(1, 7).map(Number), [fraction, sign, hours, minutes] = match.slice(7);
    return timeOf(date, fraction, eastOf(sign, hours, minutes, 0, expected), 0, expected);
}

/** Returns the key: a string, or the text of a number or a boolean. */
function jsonKey(object, members) {
    const { key } = object, token = members.get("key");
    let text = typeof key === "string" ? key : String(key);
    if (typeof key === "number" && isInteger(token))
        text = token.replace(/^-0$/, "0");
    else if (typeof key === "number")
        text = Object.is(key, -0) ? "-0.0" : Number.isInteger(key) && !/e/.test(text) ? `${text}.0` : text;
    else if (typeof key !== "string" && typeof key !== "boolean")
        fail(0, 'a key: a string, number or boolean; member "key"');
    if (text === "" || text.length > KEY_CHARS_MAX)
        fail(0, EXPECT_KEY);
    return text;
}

function readJson(line) {
    let object = null;
    try {
        object = JSON.parse(line);
    } catch {
        fail(0, "one JSON object on the line, without duplicate members");
    }
    if (object === null || typeof object !== "object" || Array.isArray(object))
        fail(0, "one JSON object on the line, without duplicate members");
    const members = membersOf(line), cost = members.get("cost");
    const time = jsonTime(object, members);
    const digits = typeof object.cost === "string" ? object.cost : cost === "-0" ? "0" : cost;
    return { time, key: jsonKey(object, members), cost: cost === undefined ? 1 : costOf(digits, 0) };
}

// ---- a log ------------------------------------------------------------------------------------------------

/** @type {Record<string, (line: string) => LogRecord>} */
const READERS = {
    combined: (line) => readAccess(line, false),
    vhost_combined: (line) => readAccess(line, true),
    tsv: readTsv,
    jsonl: readJson,
};

/** Returns the name of the first format that can read a line, or throws. */
function formatOf(line) {
    if (line[0] === "{")
        return "jsonl";
    for (const [name, read] of Object.entries(READERS)) {
        try {
            read(line);
            return name;
        } catch {
            // try the next format
        }
    }
    return fail(0, EXPECT_FORMAT);
}

/** The events of a log as they are read. */
class Reading {
    constructor() {
        this.format = null;
        this.names = new Map();
        this.raw = new Map(); // from the text of a key to its index
        this.times = [];
        this.keys = [];
        this.costs = [];
        this.origin = 0; // seconds since 1970 at offset 0
        this.latest = 0; // the largest offset
        this.wentBack = 0;
        this.dropped = 0;
        this.bad = 0;
        this.errors = [];
    }

    get full() {
        return this.times.length >= MAX_EVENTS;
    }

    get hopeless() {
        return this.times.length === 0 && this.bad >= BAD_LINES_AT_FIRST;
    }

    add(line) {
        this.format ??= formatOf(line);
        const { time, key, cost } = READERS[this.format](line);
        if (this.times.length === 0)
            this.origin = time.s;
        const offset = (time.s - this.origin) * 1e9 + time.ns;
        const index = this.keyOf(key);
        if (offset > OFFSET_MAX || index < 0) {
            this.dropped++;
            return;
        }
        this.wentBack += Number(offset < this.latest);
        this.latest = Math.max(this.latest, offset);
        this.times.push(this.latest);
        this.keys.push(index);
        this.costs.push(cost);
    }

    keyOf(text) {
        const known = this.raw.get(text);
        if (known !== undefined)
            return known;
        const name = keyOfAddress(text);
        let index = this.names.get(name);
        if (index === undefined) {
            if (this.names.size === MAX_KEYS)
                return -1;
            index = this.names.size;
            this.names.set(name, index);
        }
        this.raw.set(text, index);
        return index;
    }

    report(line, message) {
        this.bad++;
        if (this.errors.length < ERRORS_MAX)
            this.errors.push({ line, message });
    }
}

/**
 * Reads an access log. A line that is earlier than the lines before it has the latest time of these lines,
 * as in `weir replay`.
 * @param {string} text
 * @returns {{events: import("./scene.mjs").LogEvents, begin: string | null, format: string | null,
 *            lines: number, bad: number, errors: import("./times.mjs").LineError[], dropped: number,
 *            wentBack: number, truncated: boolean}}
 *     begin: the time of offset 0, the second of the first line; lines: how many were read; bad: how many of
 *     them are not in the format, of which `errors` has the first 100; dropped: requests of more than
 *     MAX_KEYS keys, or more than 104 days after the first; wentBack: lines earlier than a line before;
 *     truncated: whether the log has more than MAX_EVENTS requests.
 *     If the first 1000 lines are bad, the others are not read
 */
export function parseLog(text) {
    const reading = new Reading();
    let lines = 0, at = 0;
    while (at < text.length && !reading.full && !reading.hopeless) {
        const lf = text.indexOf("\n", at), end = lf < 0 ? text.length : lf;
        const line = text.slice(at, text[end - 1] === "\r" ? Math.max(at, end - 1) : end);
        at = end + 1;
        lines++;
        if (line === "")
            continue;
        try {
            if (line.length > LINE_CHARS_MAX)
                fail(LINE_CHARS_MAX, "the end of the line: a line has at most 1 MiB");
            reading.add(line);
        } catch (error) {
            if (!(error instanceof LineProblem))
                throw error;
            reading.report(lines, error.message);
        }
    }
    const { bad, errors, dropped, wentBack } = reading;
    const events = {
        names: [...reading.names.keys()],
        times: Float64Array.from(reading.times),
        keys: Uint32Array.from(reading.keys),
        costs: Int32Array.from(reading.costs),
    };
    const begin = reading.times.length > 0 ? new Date(reading.origin * 1000).toISOString() : null;
    const truncated = reading.full && text.slice(at).trim() !== "";
    return { events, begin, format: reading.format, lines, bad, errors, dropped, wentBack, truncated };
}
