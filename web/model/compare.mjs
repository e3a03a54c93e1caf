// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Compares the decisions of two lanes about the same requests.

const MARKS_MAX = 20000;

/** @typedef {import("./lane.mjs").Lane} Lane */

/**
 * @typedef {object} Comparison
 * @property {number} requests how many were compared: those that both lanes have decided
 * @property {number} both allowed by both
 * @property {number} neither allowed by neither
 * @property {number} onlyA
 * @property {number} onlyB
 * @property {number} unitsOnlyA the sum of the costs of `onlyA`
 * @property {number} unitsOnlyB
 * @property {number[]} marks the indexes of the requests that only one lane allowed, at most 20000
 * @property {Exactness | null} exact null unless one of the lanes is a sliding log with one layer
 */

/**
 * How exactly a lane holds the limit of a sliding log. Each of its decisions is compared with the one that a
 * sliding log would have taken after the same earlier decisions, so a difference does not cause others.
 * @typedef {object} Exactness
 * @property {"a" | "b"} lane the lane that is measured; the other one is the sliding log
 * @property {number} wronglyAllowed requests that exceed the limit in the window before them
 * @property {number} wronglyDenied requests that would have fitted
 * @property {number[]} marks the indexes of both, at most 20000
 */

/** The allowed units of each key in the window (now - period, now]. */
class Windows {
    constructor(periodNs) {
        this.periodNs = periodNs;
        this.keys = new Map();
    }

    /** Returns the window of a key, without what has left it. */
    at(key, now) {
        let window = this.keys.get(key);
        if (!window)
            this.keys.set(key, (window = { times: [], costs: [], first: 0, units: 0 }));
        const { times, costs } = window;
        for (; window.first < times.length && times[window.first] <= now - this.periodNs; window.first++)
            window.units -= costs[window.first];
        if (window.first > 1024 && window.first * 2 > times.length) {
            times.splice(0, window.first);
            costs.splice(0, window.first);
            window.first = 0;
        }
        return window;
    }
}

/** Returns the layer of a lane that is exactly a sliding log, or null. */
function logOf(lane) {
    const [layer, ...others] = lane.layers;
    const isLog = layer && others.length === 0 && layer.algorithm === "sliding-log" && !layer.countDenied;
    return isLog ? layer : null;
}

class Counter {
    constructor(a, b, from) {
        this.lanes = [a, b];
        this.versions = [a.version, b.version];
        this.from = from;
        this.next = from;
        this.result = {
            requests: 0, both: 0, neither: 0, onlyA: 0, onlyB: 0, unitsOnlyA: 0, unitsOnlyB: 0,
            marks: /** @type {number[]} */ ([]),
            exact: /** @type {Exactness | null} */ (null),
        };
        const log = logOf(b) ?? logOf(a);
        if (log) {
            this.log = log;
            this.measured = logOf(b) ? a : b;
            this.windows = new Windows(log.periodNs);
            const lane = logOf(b) ? "a" : "b";
            this.result.exact = { lane, wronglyAllowed: 0, wronglyDenied: 0, marks: [] };
        }
    }

    continues(a, b, from, to) {
        return this.lanes[0] === a && this.lanes[1] === b && this.from === from && this.next <= to &&
            this.versions[0] === a.version && this.versions[1] === b.version;
    }

    countTo(to, traffic) {
        for (; this.next < to; this.next++)
            this.#count(this.next, traffic);
        this.result.requests = Math.max(0, this.next - this.from);
    }

    #count(i, traffic) {
        const { result } = this, [a, b] = this.lanes;
        const byA = a.columns.allowed[i] === 1, byB = b.columns.allowed[i] === 1, cost = traffic.costs[i];
        if (byA && byB)
            result.both++;
        else if (!byA && !byB)
            result.neither++;
        else {
            result[byA ? "onlyA" : "onlyB"]++;
            result[byA ? "unitsOnlyA" : "unitsOnlyB"] += cost;
            if (result.marks.length < MARKS_MAX)
                result.marks.push(i);
        }
        if (result.exact)
            this.#measure(i, traffic.times[i], traffic.keys[i], cost);
    }

    #measure(i, time, key, cost) {
        const { exact } = this.result;
        const window = this.windows.at(key, time);
        const allowed = this.measured.columns.allowed[i] === 1;
        const fits = window.units + cost <= this.log.limit;
        if (allowed && cost > 0) {
            window.times.push(time);
            window.costs.push(cost);
            window.units += cost;
        }
        if (allowed === fits)
            return;
        exact[allowed ? "wronglyAllowed" : "wronglyDenied"]++;
        if (exact.marks.length < MARKS_MAX)
            exact.marks.push(i);
    }
}

const counters = new WeakMap(); // from lane a to the Counter of its last comparison

/**
 * Compares two lanes of one traffic. Calls with a growing `to` go on from the last one.
 * @param {Lane} a
 * @param {Lane} b
 * @param {number} from index of the first request
 * @param {number} to index after the last request
 * @returns {Comparison} valid until the next call with the same lanes
 */
export function compare(a, b, from, to) {
    const end = Math.max(from, Math.min(to, a.decided, b.decided));
    let counter = counters.get(a);
    if (!counter?.continues(a, b, from, end)) {
        counter = new Counter(a, b, from);
        counters.set(a, counter);
    }
    counter.countTo(end, a.traffic);
    return counter.result;
}
