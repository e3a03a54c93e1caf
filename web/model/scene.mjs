// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// A scene: policies, traffic, and how they are shown. It is a plain object that can be saved as JSON,
// and sceneToHash() writes it as the readable fragment of a URL:
//
//     #lane=gcra+5/s+burst+10&lane=sliding-log+5/s&traffic=poisson&rate=20
//
// Offsets are whole Numbers of nanoseconds since the beginning of the scene, 0 to OFFSET_MAX.

export const MAX_LANES = 8;
export const MAX_EVENTS = 200000;
export const MAX_KEYS = 10000;
export const MAX_COST = 2 ** 31 - 1;
export const OFFSET_MAX = 2 ** 53;
export const SECOND_NS = 1e9;

export const SPEED_MIN = 0.01;
export const SPEED_MAX = 10000;
const SPAN_MIN = 0.1; // seconds
const SPAN_MAX = 31536000;

const POLICY_CHARS_MAX = 2000; // the core refuses more than 1023 bytes
const NAME_CHARS_MAX = 256;
const TITLE_CHARS_MAX = 200;
const TIMES_IN_HASH_MAX = 2048; // characters of pasted times
export const TIMES_CHARS_MAX = 4 << 20;
const HITS_IN_HASH_MAX = 500;
const HASH_CHARS_MAX = 65536;
const BEGIN_DEFAULT = "2026-01-01T00:00:00Z";
const BEGIN_MS_MAX = Date.parse("2200-01-01T00:00:00Z");

/** @typedef {"none" | "steady" | "poisson" | "bursts" | "spammer" | "times" | "log"} TrafficKind */

/**
 * The events of an access log, sorted by time. Created by parseLog() in access_log.mjs.
 * @typedef {object} LogEvents
 * @property {string[]} names the keys
 * @property {Float64Array} times offsets
 * @property {Uint32Array} keys indexes of names
 * @property {Int32Array} costs
 */

/**
 * Who sends requests, and when. A kind ignores the fields of other kinds.
 * @typedef {object} TrafficSpec
 * @property {TrafficKind} kind
 * @property {number} seed 0 to 2^32 - 1: the same seed gives the same requests
 * @property {number} rate requests a second of all users together: steady, poisson, spammer
 * @property {number} users the number of keys, 1 to MAX_KEYS; spammer: not counting the spammer
 * @property {number} cost of each request, 0 to MAX_COST
 * @property {number} burst bursts: requests in each burst
 * @property {number} everySeconds bursts: from one burst to the next
 * @property {number} atSeconds bursts: when the first burst begins
 * @property {number} withinSeconds bursts: how long a burst lasts; 0: all at once
 * @property {number} spammerRate spammer: requests a second of the key "spammer"
 * @property {string} times times: a line for each request, as parseTimes() in times.mjs reads it
 * @property {{name: string, events: LogEvents | null, begin: string | null} | null} log
 */

/**
 * @typedef {object} Scene
 * @property {string} title
 * @property {string[]} lanes policy texts, 1 to MAX_LANES
 * @property {string} begin ISO 8601 in UTC: the time of offset 0
 * @property {TrafficSpec} traffic
 * @property {[number, string, number][]} hits requests sent by hand: offset, key, cost
 * @property {number} speed seconds of the scene in a second, SPEED_MIN to SPEED_MAX
 * @property {number} span the visible seconds, SPAN_MIN to SPAN_MAX
 * @property {string} watch the key whose state is drawn; "": the first
 * @property {[number, number] | null} compare two lanes
 */

const KINDS = ["none", "steady", "poisson", "bursts", "spammer", "times", "log"];

// The numbers of a TrafficSpec: default, smallest, largest, and whether they are whole.
const NUMBERS = {
    seed: [1, 0, 2 ** 32 - 1, true],
    rate: [5, 0, 1e6, false],
    users: [1, 1, MAX_KEYS, true],
    cost: [1, 0, MAX_COST, true],
    burst: [10, 1, MAX_EVENTS, true],
    everySeconds: [10, 0.001, SPAN_MAX, false],
    atSeconds: [0, 0, SPAN_MAX, false],
    withinSeconds: [0, 0, SPAN_MAX, false],
    spammerRate: [5, 0, 1e6, false],
};

// The numbers that each kind uses, which are those that a link contains.
const USED = {
    none: [],
    steady: ["rate", "users", "cost"],
    poisson: ["rate", "users", "cost", "seed"],
    bursts: ["burst", "everySeconds", "atSeconds", "withinSeconds", "users", "cost"],
    spammer: ["rate", "users", "spammerRate", "cost", "seed"],
    times: [],
    log: [],
};

// The names of the numbers in a link, where they differ.
const SHORT = { everySeconds: "every", atSeconds: "at", withinSeconds: "within", spammerRate: "spam" };

/** Returns the number within its bounds, or the default if it is none. */
function bounded(value, fallback, low, high, whole) {
    const number = typeof value === "string" && value.trim() === "" ? NaN : Number(value);
    if (!(typeof value === "number" || typeof value === "string") || Number.isNaN(number))
        return fallback;
    const within = Math.min(high, Math.max(low, number));
    return whole ? Math.round(within) : within;
}

/** Replaces unpaired surrogates, which no link can contain. */
const wellFormed = (text) => text.replace(/[\ud800-\udfff]/gu, "\ufffd");

function textOr(value, fallback, length) {
    return typeof value === "string" ? wellFormed(value.slice(0, length)) : fallback;
}

/** Returns the instant as ISO 8601 in UTC to the millisecond, or the default. */
function instant(value) {
    const ms = typeof value === "string" && value.length <= 40 ? Date.parse(value) : NaN;
    return ms >= 0 && ms <= BEGIN_MS_MAX ? new Date(ms).toISOString().replace(".000Z", "Z") : BEGIN_DEFAULT;
}

/**
 * Completes a traffic specification: every field is there and within its bounds.
 * @param {any} spec
 * @returns {TrafficSpec}
 */
export function completeTraffic(spec) {
    const from = spec !== null && typeof spec === "object" ? spec : {};
    const traffic = /** @type {any} */ ({ kind: KINDS.includes(from.kind) ? from.kind : "none" });
    for (const [name, [fallback, low, high, whole]] of Object.entries(NUMBERS))
        traffic[name] = bounded(from[name], fallback, low, high, whole);
    traffic.times = textOr(from.times, "", TIMES_CHARS_MAX);
    traffic.log = null;
    if (from.log !== null && typeof from.log === "object")
        traffic.log = {
            name: textOr(from.log.name, "access log", NAME_CHARS_MAX),
            events: from.log.events ?? null,
            begin: typeof from.log.begin === "string" ? from.log.begin : null,
        };
    return traffic;
}

/** @returns {[number, string, number][]} */
function completeHits(hits) {
    if (!Array.isArray(hits))
        return [];
    const inRange = (hit) => Array.isArray(hit) && hit[0] >= 0 && hit[0] <= OFFSET_MAX;
    return hits.slice(0, MAX_EVENTS).filter(inRange).map(([offset, key, cost]) => [
        Math.round(Number(offset)),
        textOr(String(key ?? ""), "", NAME_CHARS_MAX) || "user",
        bounded(cost, 1, 0, MAX_COST, true),
    ]);
}

/** @returns {[number, number] | null} */
function completeCompare(compare, lanes) {
    const valid = (i) => Number.isInteger(i) && i >= 0 && i < lanes;
    if (!Array.isArray(compare) || !valid(compare[0]) || !valid(compare[1]) || compare[0] === compare[1])
        return null;
    return [compare[0], compare[1]];
}

/**
 * Completes a scene: every field is there and within its bounds. Policy texts may be invalid.
 * @param {any} scene
 * @returns {Scene} a copy; the events of a log are shared
 */
export function completeScene(scene) {
    const from = scene !== null && typeof scene === "object" ? scene : {};
    const texts = (Array.isArray(from.lanes) ? from.lanes : []).filter((text) => typeof text === "string");
    const lanes = texts.slice(0, MAX_LANES).map((text) => textOr(text, "", POLICY_CHARS_MAX));
    if (lanes.length === 0)
        lanes.push("gcra 5/s burst 10");
    return {
        title: textOr(from.title, "", TITLE_CHARS_MAX),
        lanes,
        begin: instant(from.begin),
        traffic: completeTraffic(from.traffic),
        hits: completeHits(from.hits),
        speed: bounded(from.speed, 1, SPEED_MIN, SPEED_MAX, false),
        span: bounded(from.span, 10, SPAN_MIN, SPAN_MAX, false),
        watch: textOr(from.watch, "", NAME_CHARS_MAX),
        compare: completeCompare(from.compare, lanes.length),
    };
}

/** Writes an offset as exact seconds: 1500000000 is "1.5". */
export function offsetText(offsetNs) {
    const digits = String(offsetNs % SECOND_NS).padStart(9, "0").replace(/0+$/, "");
    return Math.floor(offsetNs / SECOND_NS) + (digits === "" ? "" : `.${digits}`);
}

/** Reads decimal seconds as an offset, rounded to a nanosecond. Returns NaN for any other text. */
export function offsetOf(text) {
    const match = /^(\d{1,8})(?:\.(\d{0,12}))?$/.exec(text);
    if (!match)
        return NaN;
    const digits = (match[2] ?? "").padEnd(9, "0");
    const fraction = Math.round(Number(`${digits.slice(0, 9)}.${digits.slice(9)}`));
    const offset = Number(match[1]) * SECOND_NS + fraction;
    return offset <= OFFSET_MAX ? offset : NaN;
}

/** Encodes a value for the fragment of a URL, and keeps it readable. */
function encode(value) {
    return encodeURIComponent(value).replace(/%20/g, "+").replace(/%(2F|3A|2C|40)/g, decodeURIComponent);
}

/** Decodes a value, or returns null if it is malformed. */
function decode(value) {
    try {
        return decodeURIComponent(value.replace(/\+/g, " "));
    } catch {
        return null;
    }
}

/**
 * What sceneToHash() leaves out of the link.
 * @param {Scene} scene
 * @returns {string[]} a sentence for each thing
 */
export function leftOutOfHash(scene) {
    const { traffic, hits } = completeScene(scene);
    const sentences = [];
    if (traffic.kind === "log")
        sentences.push("The log is not part of the link.");
    if (traffic.kind === "times" && traffic.times.length > TIMES_IN_HASH_MAX)
        sentences.push("The pasted times are longer than 2 KB and are not part of the link.");
    if (hits.length > HITS_IN_HASH_MAX)
        sentences.push(`Only the first ${HITS_IN_HASH_MAX} requests sent by hand are part of the link.`);
    return sentences;
}

function trafficPairs(traffic) {
    const pairs = [["traffic", traffic.kind]];
    for (const name of USED[traffic.kind])
        if (traffic[name] !== NUMBERS[name][0])
            pairs.push([SHORT[name] ?? name, String(traffic[name])]);
    if (traffic.kind === "times" && traffic.times.length <= TIMES_IN_HASH_MAX)
        pairs.push(["times", traffic.times]);
    if (traffic.kind === "log")
        pairs.push(["log", traffic.log?.name ?? "access log"]);
    return pairs;
}

/**
 * Writes a scene as the fragment of a URL, with its "#". Fields that have their default are left out.
 * @param {Scene} scene
 * @returns {string}
 */
export function sceneToHash(scene) {
    const full = completeScene(scene);
    const usual = completeScene({ lanes: full.lanes });
    const pairs = full.lanes.map((text) => ["lane", text]);
    pairs.push(...trafficPairs(full.traffic));
    for (const name of ["speed", "span", "watch", "begin", "title"])
        if (full[name] !== usual[name])
            pairs.push([name, String(full[name])]);
    if (full.compare)
        pairs.push(["compare", full.compare.map((i) => i + 1).join(",")]);
    for (const [offset, key, cost] of full.hits.slice(0, HITS_IN_HASH_MAX))
        pairs.push(["hit", `${offsetText(offset)} ${cost} ${key}`]);
    return `#${pairs.map(([name, value]) => `${name}=${encode(value)}`).join("&")}`;
}

/** Returns the values of each name in a fragment. */
function valuesOf(hash) {
    const values = new Map();
    for (const part of hash.replace(/^#/, "").split("&")) {
        const at = part.indexOf("=");
        const value = at < 0 ? null : decode(part.slice(at + 1));
        if (value === null)
            continue;
        const name = part.slice(0, at);
        if (!values.has(name))
            values.set(name, []);
        values.get(name).push(value);
    }
    return values;
}

/** Reads the traffic, only with the fields that its kind uses. `first` returns the first value of a name. */
function trafficOf(first) {
    const kind = KINDS.includes(first("traffic")) ? first("traffic") : "none";
    const traffic = /** @type {any} */ ({ kind });
    for (const name of USED[kind])
        traffic[name] = first(SHORT[name] ?? name);
    if (kind === "times")
        traffic.times = first("times");
    if (kind === "log")
        traffic.log = { name: first("log"), events: null, begin: null };
    return traffic;
}

function hitOf(text) {
    const [offset, cost, ...words] = text.split(" ");
    return [offsetOf(offset), words.join(" "), cost];
}

/**
 * Reads the fragment of a URL. Fields that are missing or invalid get their default.
 * @param {string} hash
 * @returns {Scene | null} null if it describes no scene
 */
export function sceneFromHash(hash) {
    if (typeof hash !== "string" || hash.length > HASH_CHARS_MAX)
        return null;
    const values = valuesOf(hash);
    const lanes = values.get("lane");
    if (!lanes)
        return null;
    const first = (name) => values.get(name)?.[0];
    return completeScene({
        lanes,
        traffic: trafficOf(first),
        hits: (values.get("hit") ?? []).slice(0, HITS_IN_HASH_MAX).map(hitOf),
        compare: first("compare")?.split(",").map((number) => Number(number) - 1),
        speed: first("speed"),
        span: first("span"),
        watch: first("watch"),
        begin: first("begin"),
        title: first("title"),
    });
}
