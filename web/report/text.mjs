// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The sentences and the figures of a report as a person reads them. Knows nothing of the page.

import { counted, whole } from "../dashboard/format.mjs";
import { shownKey } from "../dashboard/keys.mjs";
import { formatNs } from "../draw/format.mjs";

/**
 * @typedef {object} Policy one policy of the report
 * @property {string | null} name its name in weir.yaml; null: it was given as a text
 * @property {string} policy the policy's text
 * @property {boolean} shadow
 * @property {boolean} baseline
 * @property {number} allowed @property {number} denied @property {number} would_be_denied
 * @property {number} allow_listed @property {number} deny_listed
 * @property {number} keys_denied @property {number} keys
 * @property {{longest_ns: number, key: string, from_ns: number} | null} lockout
 * @property {{units: number, limit: number, window_ns: number, key: string, at_ns: number} | null
 *           } peak_admitted
 * @property {number[]} denied_over_time
 * @property {Worst[]} worst
 * @property {{requests_newly_denied: number, requests_newly_allowed: number, keys_newly_denied: number,
 *             keys_no_longer_denied: number}} [change]
 */

/**
 * @typedef {object} Worst a denied key
 * @property {string} key
 * @property {number} requests @property {number} denied @property {number} lockout_ns
 * @property {number} peak_minute
 * @property {number} first_denied_ns @property {number} last_denied_ns
 * @property {number[] | null} requests_over_time
 * @property {number[] | null} denied_over_time
 */

/**
 * @typedef {object} Report
 * @property {{name: string, lines: number, requests: number, bad: number, left_out: number}[]} logs
 * @property {number} requests @property {number} keys @property {number} cost @property {number} late
 * @property {number} first_ns @property {number} last_ns
 * @property {{first_ns: number, width_ns: number, buckets: number}} time
 * @property {{requests: number[], peak: Record<"second" | "minute" | "hour", Percentiles>}} load
 * @property {Policy[]} policies
 * @property {string[]} [notes]
 */

/** @typedef {{p50: number, p90: number, p99: number, max: number}} Percentiles */

const NARROW = "\u202f"; // between a number and its unit
const KEY_MAX = 72; // characters of a shortened key
const NAMES_MAX = 3; // logs that the title names
const collator = new Intl.Collator("en", { numeric: true });
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SECOND = 1e9, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

/* ---- figures --------------------------------------------------------------------------------- */

/**
 * A share in per cent with two significant digits. Only nothing is "0 %", and only all is "100 %".
 * @param {number} part 0 to `all`
 * @param {number} all 0: "–"
 * @returns {string} such as "< 0.01 %", "0.13 %", "1.2 %", "33 %", "99.7 %", "> 99.99 %"
 */
export function share(part, all) {
    if (!(all > 0))
        return "–";
    const percent = (100 * part) / all;
    const text = part > 0 && percent < 0.01 ? "< 0.01"
        : part < all && percent > 99.99 ? "> 99.99"
        : String(Number(percent.toFixed(decimals(percent))));
    return `${text} %`.replaceAll(" ", NARROW);
}

// Shares near 0 and near 100 have more digits, since there a digit says more.
function decimals(percent) {
    const distance = Math.min(percent, 100 - percent);
    return distance < 0.995 ? 2 : distance < 9.95 ? 1 : 0;
}

/** A number of things, with their share: "372 (1.2 %)". */
export const countAndShare = (part, all) => `${whole(part)} (${share(part, all)})`;

/** A duration, such as "3 m 20 s". @param {number} ns */
export const duration = (ns) => formatNs(ns).replace(/ (?=[a-zµ])/g, NARROW);

/** The period of a limit: "second", "minute", "15 m". @param {number} ns */
export function period(ns) {
    const names = new Map([[SECOND, "second"], [MINUTE, "minute"], [HOUR, "hour"], [DAY, "day"]]);
    return names.get(ns) ?? duration(ns);
}

const two = (n) => String(n).padStart(2, "0");

/** @param {number} ns since the epoch @returns {string} such as "4 Aug 1995" */
function day(ns) {
    const date = new Date(ns / 1e6);
    return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
}

/**
 * @param {number} ns since the epoch
 * @param {number} [stepNs] which digits are needed; a second if it is not given
 * @returns {string} such as "14:05", "14:05:30", "14:05:30.250"
 */
function timeOfDay(ns, stepNs = SECOND) {
    const date = new Date(ns / 1e6);
    let text = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
    if (stepNs % MINUTE !== 0)
        text += `:${two(date.getUTCSeconds())}`;
    return stepNs % SECOND === 0 ? text : `${text}.${String(date.getUTCMilliseconds()).padStart(3, "0")}`;
}

/** A time in UTC, such as "4 Aug 1995 14:05:30"; only the day if `stepNs` is a day or more. */
export const stamp = (ns, stepNs = SECOND) =>
    (stepNs % DAY === 0 ? day(ns) : `${day(ns)} ${timeOfDay(ns, stepNs)}`);

/** A span of time, whose end has no date if it is that of its beginning. */
export function span(fromNs, toNs, stepNs = SECOND) {
    if (fromNs === toNs)
        return stamp(fromNs, stepNs);
    return `${stamp(fromNs, stepNs)} to ${day(fromNs) === day(toNs) && stepNs % DAY !== 0
        ? timeOfDay(toNs, stepNs) : stamp(toNs, stepNs)}`;
}

/**
 * Compares two values of a column: numbers by size, texts by the alphabet.
 * @param {number | string} a
 * @param {number | string} b
 */
export const compareValues = (a, b) =>
    (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b)));

/* ---- the report ------------------------------------------------------------------------------ */

/** The beginning of each bucket, in ns. @param {Report} report @returns {number[]} */
export const bucketTimes = ({ time }) =>
    Array.from({ length: time.buckets }, (_, i) => time.first_ns + i * time.width_ns);

/**
 * What a bucket is.
 * @param {Report} report
 * @param {number} i
 * @returns {string} such as "4 Aug 1995 14:00 to 14:15"; "1 Aug 1995 to 4 Aug 1995" is four days
 */
export function bucketSpan({ time }, i) {
    const from = time.first_ns + i * time.width_ns;
    return span(from, from + time.width_ns - (time.width_ns % DAY === 0 ? DAY : 0), time.width_ns);
}

/**
 * A key as it is shown: without characters that cannot be seen, and with "…" for the middle of a long one.
 * @param {string} key
 */
export function keyText(key) {
    // A long key is cut before it is escaped, and not within a character.
    const letters = key.length <= 4 * KEY_MAX ? [...key]
        : [...key.slice(0, 2 * KEY_MAX), ...key.slice(-2 * KEY_MAX)];
    if (letters.length <= KEY_MAX)
        return key === "" ? "(empty)" : shownKey(key);
    const tail = Math.floor(KEY_MAX / 3);
    const begin = letters.slice(0, KEY_MAX - 1 - tail), end = letters.slice(-tail);
    return `${shownKey(begin.join(""))}…${shownKey(end.join(""))}`;
}

/** How a policy is named in a table: its name, or its text. @param {Policy} policy */
export const policyName = ({ name, policy }) => (name === null ? policy : shownKey(name));

/** A policy's name and its text: "api (gcra 100/m)". @param {Policy} policy */
export const policyTitle = ({ name, policy }) => (name === null ? policy : `${shownKey(name)} (${policy})`);

/** The requests that a policy denies, or would deny without its shadow mode. @param {Policy} policy */
export const denials = ({ shadow, denied, would_be_denied }) => (shadow ? denied + would_be_denied : denied);

/** What the log's units are: "requests", or "units" if requests have costs. @param {Report} report */
export const unitName = ({ cost, requests }) => (cost === requests ? "requests" : "units");

/** @param {string} name of a log; "-" is standard input */
export const logName = (name) => (name === "-" ? "standard input" : shownKey(name));

/** The names of the logs without their directories: "a.log and 3 other logs". @param {Report} report */
export function logNames({ logs }) {
    const names = logs.map(({ name }) => logName(name.split("/").at(-1)));
    if (names.length > NAMES_MAX)
        names.splice(NAMES_MAX - 1, Infinity, counted(names.length - NAMES_MAX + 1, "other log"));
    return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0] ?? "no log";
}

/** The line below the title. @param {Report} report */
export function aboutText(report) {
    if (report.requests === 0)
        return "The log has no requests.";
    const lasts = report.last_ns > report.first_ns ? ` (${duration(report.last_ns - report.first_ns)})` : "";
    return `${counted(report.requests, "request")} of ${counted(report.keys, "key")}, ` +
        `${span(report.first_ns, report.last_ns)} UTC${lasts}`;
}

/**
 * The answer: what a policy would have done to the requests and the keys of the log.
 * @param {Policy} policy
 * @param {number} requests of the log
 */
export function answerText(policy, requests) {
    const title = policyTitle(policy);
    const n = denials(policy);
    const listed = policy.deny_listed > 0
        ? ` (its deny list denies ${counted(policy.deny_listed, "request")} even so)` : "";
    const begin = policy.shadow ? `${title} is in shadow mode${listed}. Enforced, it` : title;
    if (n === 0)
        return `${begin} would have denied no request.`;
    return `${begin} would have denied ${share(n, requests)} of requests, and ` +
        `${whole(policy.keys_denied)} of ${counted(policy.keys, "key")} ` +
        `(${share(policy.keys_denied, policy.keys)}) at least once.`;
}

/**
 * How a policy differs from the baseline.
 * @param {Policy} policy
 * @param {Policy} baseline
 * @returns {string} "" for the baseline itself
 */
export function changeText({ change }, baseline) {
    if (!change)
        return "";
    const beside = `Compared with ${policyName(baseline)}, it`;
    const parts = [];
    if (change.requests_newly_denied > 0)
        parts.push(`denies ${counted(change.requests_newly_denied, "request")} that the baseline allows`);
    if (change.requests_newly_allowed > 0)
        parts.push(`allows ${counted(change.requests_newly_allowed, "request")} that the baseline denies`);
    if (parts.length === 0)
        return `${beside} decides every request the same way.`;
    const more = change.keys_newly_denied, fewer = change.keys_no_longer_denied;
    const keys = [];
    if (more > 0)
        keys.push(`${counted(more, "key")} ${more === 1 ? "is" : "are"} newly denied`);
    if (fewer > 0)
        keys.push(`${counted(fewer, "key")} ${fewer === 1 ? "is" : "are"} no longer denied`);
    return `${beside} ${parts.join(", and ")}; ${keys.join(", and ") || "the denied keys are the same"}.`;
}

/** The longest lock-out in one sentence, or "". @param {Policy} policy */
export function lockoutText({ lockout }) {
    if (!lockout)
        return "";
    return `The longest lock-out would have lasted ${duration(lockout.longest_ns)}: ` +
        `key ${keyText(lockout.key)}, from ${stamp(lockout.from_ns)} UTC.`;
}

/**
 * What a reader must know to trust the figures.
 * @param {Report} report
 * @returns {string[]} sentences
 */
export function notices(report) {
    const sum = (member) => report.logs.reduce((n, log) => n + (log[member] ?? 0), 0);
    const bad = sum("bad"), lines = sum("lines");
    const found = (report.notes ?? []).map(shownKey);
    if (bad > 0)
        found.push(`${whole(bad)} of ${counted(lines, "line")} (${share(bad, lines)}) could not be read ` +
            `and ${bad === 1 ? "is" : "are"} not in the figures.`);
    if (report.late > 0)
        found.push(`${counted(report.late, "request")} came too late to be put in order, and ` +
            `${report.late === 1 ? "was" : "were"} decided later than the log says.`);
    return found;
}
