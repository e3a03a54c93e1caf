// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The form of a policy: the fields that a page shows for each layer, and the policy text that they make.

/** @typedef {import("../wasm/weir.mjs").LayerFacts} LayerFacts */

/**
 * A layer as the fields of a form. Every field is there; fieldsOf() says which ones the algorithm has.
 * @typedef {object} Form
 * @property {string} algorithm
 * @property {number} rate requests in each period
 * @property {number} period how many units
 * @property {string} unit "ns" to "w"; for a fixed window also "day", "week", "month" or "year"
 * @property {number} burst gcra: burst; buckets: capacity; leaky-queue: depth
 * @property {number} nodelay leaky-queue: how many queued requests are not delayed; at most the depth counts
 * @property {boolean} stepped token-bucket: refill the whole rate at the end of each period
 * @property {boolean} fromFirst fixed-window: a window begins with the first request of a key
 * @property {string} from fixed-window with a calendar unit: where a window begins, such as "17" or "sunday"; "" for
 *     the unit's beginning
 * @property {string} zone fixed-window with a calendar unit: a time zone, "" for UTC
 * @property {boolean} countDenied fixed-window, sliding-log: count denied requests as well
 * @property {boolean} relaxed sliding-counter
 * @property {number} slices sliding-slices
 * @property {number} longest block: the longest block if repeated blocks double, in the unit; else 0
 *
 * In a concurrent layer, rate is the limit, and the period is the lease.
 */

/**
 * A field of a form.
 * @typedef {{name: string, label: string, kind: "number" | "unit" | "text" | "check", min?: number,
 *            max?: number, units?: string[], placeholder?: string}} Field
 */

/** @type {[string, number][]} */
const UNIT_NS = [
    ["w", 604800e9], ["d", 86400e9], ["h", 3600e9], ["m", 60e9], ["s", 1e9],
    ["ms", 1e6], ["us", 1e3], ["ns", 1],
];
const UNITS = UNIT_NS.map(([unit]) => unit).reverse();
const CALENDARS = ["day", "week", "month", "year"];
const BEGIN_OF = { day: "00:00", week: "monday", month: "1", year: "01-01" };
const LENGTH_OF = { day: [1, "d"], week: [1, "w"], month: [30, "d"], year: [365, "d"] };
const LIMIT_MAX = 2 ** 31 - 1;
const RATE_MAX = 2 ** 40;

export const ALGORITHMS = Object.freeze([
    "gcra", "token-bucket", "leaky-bucket", "leaky-queue", "fixed-window", "sliding-log", "sliding-counter",
    "sliding-slices", "block", "concurrent",
]);

const USUAL = Object.freeze({
    algorithm: "gcra", rate: 5, period: 1, unit: "s", burst: 10, nodelay: 0, stepped: false, fromFirst: false,
    from: "", zone: "", countDenied: false, relaxed: false, slices: 10, longest: 0,
});

/** @returns {Field} */
const number = (name, label, min, max) => ({ name, label, kind: "number", min, max });
/** @returns {Field} */
const check = (name, label) => ({ name, label, kind: "check" });
const RATE = number("rate", "rate", 1, RATE_MAX);
const LIMIT = number("rate", "limit", 1, LIMIT_MAX);
const PERIOD = number("period", "per", 1, 1e15);
/** @type {Field} */
const UNIT = { name: "unit", label: "unit", kind: "unit", units: UNITS };

/** @type {Record<string, Field[]>} */
const FIELDS = {
    gcra: [RATE, PERIOD, UNIT, number("burst", "burst", 1, LIMIT_MAX)],
    "token-bucket": [
        number("burst", "capacity", 1, LIMIT_MAX), { ...RATE, label: "refill" }, PERIOD, UNIT,
        check("stepped", "refill at the end of each period"),
    ],
    "leaky-bucket": [RATE, PERIOD, UNIT, number("burst", "capacity", 1, LIMIT_MAX)],
    "leaky-queue": [
        RATE, PERIOD, UNIT, number("burst", "depth", 0, LIMIT_MAX - 1),
        number("nodelay", "without delay", 0, LIMIT_MAX - 1),
    ],
    "fixed-window": [
        LIMIT, PERIOD, { ...UNIT, units: [...UNITS, ...CALENDARS] },
        { name: "from", label: "from", kind: "text" },
        { name: "zone", label: "time zone", kind: "text", placeholder: "UTC" },
        check("fromFirst", "window begins with the first request"),
        check("countDenied", "count denied requests"),
    ],
    "sliding-log": [LIMIT, PERIOD, UNIT, check("countDenied", "count denied requests")],
    "sliding-counter": [LIMIT, PERIOD, UNIT, check("relaxed", "relaxed: round the estimate down")],
    "sliding-slices": [LIMIT, PERIOD, UNIT, number("slices", "slices", 1, 65536)],
    block: [{ ...PERIOD, label: "for" }, UNIT, number("longest", "doubling up to", 0, 1e9)],
    "concurrent": [LIMIT, { ...PERIOD, label: "lease" }, UNIT],
};

const isCalendar = (form) => CALENDARS.includes(form.unit);

/**
 * Returns the fields that a form shows, in their order.
 * @param {Form} form
 * @returns {Field[]}
 */
export function fieldsOf(form) {
    const hidden = isCalendar(form) ? ["period", "fromFirst"] : ["from", "zone"];
    return FIELDS[form.algorithm].filter(({ name }) => !hidden.includes(name))
        .map((field) => (field.name === "from" ? { ...field, placeholder: BEGIN_OF[form.unit] } : field));
}

/** Returns the period of a layer as [count, unit], or null if it or the longest block is not exact. */
function periodOf({ periodNs, calendar, longestNs }) {
    if (CALENDARS.includes(calendar))
        return [1, calendar];
    for (const [unit, ns] of UNIT_NS)
        if (periodNs >= ns && periodNs % ns === 0 && longestNs % ns === 0)
            return Math.max(periodNs, longestNs) > 2 ** 53 && ns < 1e9 ? null : [periodNs / ns, unit, ns];
    return null;
}

/**
 * Returns the form of a policy.
 * @param {readonly LayerFacts[]} layers
 * @returns {Form[] | null} null if a form cannot show the policy: its period is above 104 days, and not in
 *     whole seconds
 */
export function formOf(layers) {
    const forms = layers.map((layer) => {
        const period = periodOf(layer);
        return period && {
            ...USUAL,
            algorithm: layer.algorithm,
            rate: layer.rate,
            period: period[0],
            unit: period[1],
            burst: layer.algorithm === "leaky-queue" ? layer.limit - 1 : layer.limit,
            nodelay: layer.nodelay,
            stepped: layer.stepped,
            fromFirst: layer.calendar === "from-first",
            from: layer.from,
            zone: layer.zone,
            countDenied: layer.countDenied,
            relaxed: layer.relaxed,
            slices: layer.slices > 0 ? layer.slices : USUAL.slices,
            longest: layer.longestNs > 0 ? layer.longestNs / period[2] : 0,
        };
    });
    return forms.every((form) => form !== null) ? /** @type {Form[]} */ (forms) : null;
}

/** Returns "5/s", "5/90m" or "5/day". */
function rateText({ rate, period, unit }) {
    return `${rate}/${period === 1 || CALENDARS.includes(unit) ? "" : period}${unit}`;
}

function refillText(form) {
    const { rate, period, unit } = form;
    return form.stepped ? `${rate} every ${period}${unit}` : rateText(form);
}

function queueText(form, rate) {
    const nodelay = Math.min(form.nodelay, form.burst);
    return `leaky-queue ${rate} depth ${form.burst}${nodelay > 0 ? ` nodelay ${nodelay}` : ""}`;
}

/** Returns where the windows of a fixed window begin. */
function windowText(form) {
    const { unit, from, zone, fromFirst } = form;
    if (!isCalendar(form))
        return fromFirst ? " from-first" : "";
    const begin = from === "" || from === BEGIN_OF[unit] ? "" : ` from ${from}`;
    return zone === "" ? begin : `${begin} tz ${zone}`;
}

function blockText({ period, unit, longest }) {
    return `block ${period}${unit}${longest > period ? ` doubling ${longest}${unit}` : ""}`;
}

function layerText(form) {
    const rate = rateText(form), counting = form.countDenied ? " count-denied" : "";
    switch (form.algorithm) {
    case "token-bucket":
        return `token-bucket ${form.burst} refill ${refillText(form)}`;
    case "leaky-bucket":
        return `leaky-bucket ${rate} capacity ${form.burst}`;
    case "leaky-queue":
        return queueText(form, rate);
    case "fixed-window":
        return `fixed-window ${rate}${windowText(form)}${counting}`;
    case "sliding-log":
        return `sliding-log ${rate}${counting}`;
    case "sliding-counter":
        return `sliding-counter ${rate}${form.relaxed ? " relaxed" : ""}`;
    case "block":
        return blockText(form);
    case "sliding-slices":
        return `sliding-slices ${rate} slices ${form.slices}`;
    case "concurrent":
        return `concurrent ${form.rate} lease ${form.period}${form.unit}`;
    default:
        return `gcra ${rate} burst ${form.burst}`;
    }
}

/**
 * Returns the policy text of a form. It may be invalid if a number is out of range.
 * @param {Form[]} forms one for each layer
 * @returns {string}
 */
export function textOf(forms) {
    return forms.map(layerText).join(" & ");
}

/**
 * Changes the algorithm of a layer, and keeps what the new one has as well.
 * @param {Form} form
 * @param {string} algorithm
 * @returns {Form}
 */
export function withAlgorithm(form, algorithm) {
    const changed = { ...form, algorithm };
    if (isCalendar(form) && algorithm !== "fixed-window")
        [changed.period, changed.unit] = LENGTH_OF[form.unit];
    const had = FIELDS[form.algorithm].some(({ name }) => name === "burst");
    if (!had || changed.burst < 1)
        changed.burst = Math.min(LIMIT_MAX - 1, Math.max(1, form.rate));
    if (!FIELDS[algorithm].some(({ name }) => name === "burst"))
        changed.rate = Math.min(LIMIT_MAX, form.rate);
    return changed;
}

/** Changes the unit of a layer. What the old one begins from does not fit the new one. @returns {Form} */
export function withUnit(form, unit) {
    return { ...form, unit, from: "" };
}

/** Returns a layer to begin with. @returns {Form} */
export function usualForm() {
    return { ...USUAL };
}
