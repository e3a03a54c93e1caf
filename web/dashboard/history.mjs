// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// What the daemon reported in the last hour. Converts the cumulative counts of /v1/live, and the counts of
// /v1/history from the time before, to rates a second.
// Memory is bounded: 3600 points a series, allocated when a count first rises, and at most POLICIES_MAX
// policies have series. Knows nothing of the page.

export const POINTS = 3600;
export const POLICIES_MAX = 1000;

/** The verdicts of a tick, in its order. */
export const VERDICTS = Object.freeze([
    "allowed",
    "denied",
    "shadowed",
    "allow_listed",
    "deny_listed",
    "unreached",
    "failed",
]);

/** The series of a policy, and the verdicts that each adds up. */
export const GROUPS = Object.freeze({
    allowed: [0, 3],
    denied: [1, 4],
    shadowed: [2],
    failed: [5, 6],
});

/** The counts of a candidate, in the order of a tick. */
export const OUTCOMES = Object.freeze(["bothAllow", "bothDeny", "currentDenies", "candidateDenies"]);
/** After these, a tick has the requests that were not compared, because their keys have an override. */
export const OVERRIDDEN = OUTCOMES.length;

/** What is known of an interval. */
const Known = Object.freeze({ NOTHING: 0, TOTALS: 1, ALL: 2 });

/** What is known of each of the last POINTS intervals, and when the newest ended. All series share it. */
class Intervals {
    head = POINTS; // the newest; its slot is head % POINTS. Those of the time before the page precede it
    newestMs = 0; // 0: no interval yet
    #known = new Uint8Array(POINTS);

    /** @param {number} stepMs the length of an interval */
    constructor(stepMs = 1000) {
        this.stepMs = stepMs;
    }

    get slot() {
        return this.head % POINTS;
    }

    /** @returns {boolean} whether at least `known` is known of the interval */
    has(index, known) {
        return (
            index <= this.head &&
            index > this.head - POINTS &&
            this.#known[index % POINTS] >= known
        );
    }

    /**
     * Begins the interval that ends at `t_ms`. Intervals that were missed have no data.
     * @param {number} t_ms
     * @param {number} least the intervals that it begins at least: 0 or 1
     * @param {(slot: number) => void} clear called for each slot that is used again
     * @returns {number} the intervals since the last one
     */
    advance(t_ms, least, clear) {
        let steps = this.newestMs === 0 ? 1 : Math.round((t_ms - this.newestMs) / this.stepMs);
        steps = Math.max(least, Math.min(steps, POINTS));
        for (let i = 0; i < steps; i++) {
            this.head++;
            this.#known[this.slot] = Known.NOTHING;
            clear(this.slot);
        }
        this.newestMs = t_ms;
        return steps;
    }

    /** Says what is known of an interval. @param {number} index one of the last POINTS */
    mark(known, index = this.head) {
        this.#known[index % POINTS] = known;
    }
}

/** Named series of numbers, one for each interval. Each is allocated at its first number other than 0. */
export class Series {
    #arrays = new Map();

    /** @param {number} needs a value of Known: an interval of which less is known has no data here */
    constructor(needs = Known.ALL) {
        this.needs = needs;
    }

    /** @param {string} name @param {number} slot @param {number} value */
    add(name, slot, value) {
        let array = this.#arrays.get(name);
        if (!array) {
            if (value === 0)
                return;
            array = new Float32Array(POINTS);
            this.#arrays.set(name, array);
        }
        array[slot] += value;
    }

    clear(slot) {
        for (const array of this.#arrays.values())
            array[slot] = 0;
    }

    /** @returns {Float32Array | undefined} nothing if each number is 0 */
    get(name) {
        return this.#arrays.get(name);
    }
}

const mean = (sum, n) => sum / n;
const COMBINE = {
    mean: { start: 0, step: (a, b) => a + b, end: mean },
    max: { start: -Infinity, step: Math.max, end: (a) => a },
};

/**
 * The last `seconds` of a series in at most `points` points, oldest first. Points without data are NaN.
 * @param {Intervals} intervals
 * @param {Series | null} series null: each number is 0
 * @param {string} name
 * @param {number} seconds 1 to POINTS
 * @param {number} points
 * @param {"mean" | "max"} how a point shows this of its intervals
 * @returns {number[]} always the same number of points for the same seconds and points
 */
export function recent(intervals, series, name, seconds, points, how = "mean") {
    const array = series?.get(name);
    const needs = series?.needs ?? Known.ALL;
    const each = Math.max(1, Math.ceil(seconds / points));
    // Points begin at multiples of `each`, so that their values stay while they move to the left.
    const last = Math.floor(intervals.head / each);
    const values = [];
    const { start, step, end } = COMBINE[how];
    for (let point = last - Math.ceil(seconds / each) + 1; point <= last; point++) {
        let value = start,
            n = 0;
        for (let index = point * each; index < (point + 1) * each; index++) {
            const number = intervals.has(index, needs) ? (array?.[index % POINTS] ?? 0) : NaN;
            if (Number.isNaN(number))
                continue;
            value = step(value, number);
            n++;
        }
        values.push(n > 0 ? end(value, n) : NaN);
    }
    return values;
}

/**
 * The times of the points of recent(), in ms since the epoch: the end of each.
 * @param {Intervals} intervals
 * @returns {number[]}
 */
export function recentTimes(intervals, seconds, points) {
    const each = Math.max(1, Math.ceil(seconds / points));
    const last = Math.floor(intervals.head / each);
    const times = [];
    for (let point = last - Math.ceil(seconds / each) + 1; point <= last; point++)
        times.push(intervals.newestMs + ((point + 1) * each - 1 - intervals.head) * intervals.stepMs);
    return times;
}

/**
 * The mean of the last `seconds` of a series.
 * @param {Intervals} intervals
 * @param {Series | null} series
 * @param {string[]} names their sum
 * @returns {number} NaN without data
 */
export function meanOf(intervals, series, names, seconds = 10) {
    const needs = series?.needs ?? Known.ALL;
    let sum = 0,
        n = 0;
    for (let index = intervals.head; index > intervals.head - seconds; index--) {
        const number = names.reduce((all, name) => all + (series?.get(name)?.[index % POINTS] ?? 0), 0);
        if (!intervals.has(index, needs) || Number.isNaN(number))
            continue;
        n++;
        sum += number;
    }
    return sum / n;
}

/** The points of `values` that end when a candidate begins, or earlier, have no data. */
export function since(values, times, sinceMs) {
    return values.map((value, i) => (times[i] > sinceMs ? value : NaN));
}

/**
 * How many intervals a mean of a candidate's outcomes covers: whole ones if there are any, at most ten.
 * @param {Intervals} intervals
 * @param {number} sinceMs when the candidate began
 */
export function intervalsSince(intervals, sinceMs) {
    const whole = Math.round((intervals.newestMs - sinceMs) / intervals.stepMs) - 1;
    return Math.max(1, Math.min(10, whole));
}

/**
 * Adds the rates of past steps to a series.
 * @param {Series} series
 * @param {Record<string, number[]>} lists counts by group; a list ends with the newest step. Of the steps
 *     before it nothing is known
 * @param {[number, number, number][]} gaps slot; step, counted from the newest; its seconds
 */
function fillGaps(series, lists, gaps) {
    for (const [group, list] of Object.entries(lists))
        for (const [slot, back, seconds] of gaps)
            series.add(group, slot, (list.at(-1 - back) ?? NaN) / seconds);
}

/** What is known of a policy. `listed`: the daemon has it; false for (texts), and for a removed policy. */
export class Policy {
    limit = "";
    engine = "local";
    shadow = false;
    /** @type {string | null} */
    candidate = null;
    listed = false;
    /** @type {number[] | null} cumulative, by VERDICTS; null until the first tick of the stream */
    counts = null;
    /** Per second, in the last tick, by VERDICTS. */
    rates = new Float64Array(VERDICTS.length);
    /** @type {Series | null} */
    series = null;
    /** The head of `intervals` when a count last rose; 0 if it never did. */
    activeAt = 0;
    /** @type {number[] | null} cumulative, by OUTCOMES, and then OVERRIDDEN */
    outcomes = null;
    /** @type {Series | null} */
    outcomeSeries = null;
    /** @type {number[] | null} the outcomes when this page first saw the candidate */
    outcomesBase = null;
    outcomesSinceMs = 0;

    /** @param {string} name */
    constructor(name) {
        this.name = name;
    }

    /** @returns {number} decisions a second of a group, in the last tick */
    rateOf(group) {
        return GROUPS[group].reduce((sum, verdict) => sum + this.rates[verdict], 0);
    }

    /** @returns {number} decisions a second in the last tick */
    get rate() {
        return this.rates.reduce((sum, rate) => sum + rate, 0);
    }

    /** @returns {number} decisions since the start of the daemon */
    get total() {
        return this.counts ? this.counts.reduce((sum, n) => sum + n, 0) : 0;
    }
}

/** All that the page shows of the stream. */
export class History {
    /** @type {Map<string, Policy>} */
    policies = new Map();
    intervals = new Intervals();
    all = new Series(Known.TOTALS);
    latency = new Series();
    store = new Series();
    /** @type {any} the last hello, without its policies */
    hello = null;
    /** @type {any} the last tick */
    tick = null;
    rates = new Float64Array(VERDICTS.length);
    /** Per second: evicted, refused by the store. */
    storeRates = { evicted: 0, refused: 0 };
    #withSeries = 0;
    #fresh = true; // the next tick has the counts of all policies, and no predecessor

    onHello(hello) {
        const { policies, ...rest } = hello;
        if (this.hello && this.hello.start_ms !== hello.start_ms)
            this.#restart();
        this.hello = rest;
        this.intervals.stepMs = hello.interval_ms || 1000;
        this.#fresh = true;
        this.onPolicies({ policies });
    }

    /** @param {{policies: any[]}} event */
    onPolicies({ policies }) {
        const listed = new Set();
        for (const row of policies ?? []) {
            const policy = this.#policy(row.name);
            this.setCandidate(policy, row.candidate ?? null);
            Object.assign(policy, {
                limit: row.limit,
                engine: row.engine,
                shadow: !!row.shadow,
                listed: true,
            });
            listed.add(row.name);
        }
        for (const policy of this.policies.values())
            policy.listed = listed.has(policy.name);
    }

    onTick(tick) {
        // The first tick of a stream has no rates, and begins no interval soon after another.
        const seconds = this.#advance(tick.t_ms, this.#fresh ? 0 : 1);
        this.rates.fill(0);
        for (const policy of this.policies.values())
            policy.rates.fill(0);
        for (const [name, counts] of Object.entries(tick.policies ?? {}))
            this.#count(this.#policy(name), counts, seconds);
        for (const [name, counts] of Object.entries(tick.candidates ?? {}))
            this.#countOutcomes(this.#policy(name), counts, seconds);
        this.#addLatency(tick.latency_us);
        this.#addStore(tick.store, seconds);
        if (!this.#fresh)
            this.intervals.mark(Known.ALL);
        this.tick = { ...this.tick, ...tick };
        this.#fresh = false;
    }

    /** How long the daemon has been running, by its own clock. */
    get upMs() {
        return this.hello ? Math.max(this.intervals.newestMs, this.hello.now_ms) - this.hello.start_ms : NaN;
    }

    /**
     * Takes what the daemon has counted in the last hour, where this page has no counts of its own: before it
     * was opened, and while it was not connected.
     * @param {{now_ms: number, step_ms: number, first_ms: number, all: Record<string, number[]>,
     *     policies: Record<string, Record<string, number[]>>}} past the answer of /v1/history
     */
    onPast({ now_ms, step_ms, first_ms, all, policies }) {
        const { intervals } = this;
        if (intervals.newestMs === 0)
            this.#advance(now_ms, 1);
        /** @type {[number, number, number][]} slot; step, counted from the newest; its seconds */
        const gaps = [];
        const last = Math.floor((now_ms - first_ms) / step_ms);
        for (let back = 0; back < POINTS; back++) {
            const endMs = intervals.newestMs - back * intervals.stepMs;
            const index = intervals.head - back;
            if (endMs > now_ms || endMs <= first_ms || intervals.has(index, Known.TOTALS))
                continue;
            intervals.mark(Known.TOTALS, index);
            const step = Math.max(0, Math.floor((endMs - intervals.stepMs / 2 - first_ms) / step_ms));
            const ms = Math.min(step_ms, now_ms - first_ms - step * step_ms);
            gaps.push([index % POINTS, last - step, ms / 1000]);
        }
        fillGaps(this.all, all, gaps);
        for (const [name, lists] of Object.entries(policies)) {
            const series = this.#seriesOf(this.#policy(name));
            series.needs = Known.TOTALS;
            fillGaps(series, lists, gaps);
        }
    }

    #restart() {
        for (const policy of this.policies.values()) {
            policy.counts = null;
            policy.outcomes = policy.outcomesBase = null;
        }
        this.tick = null;
    }

    #policy(name) {
        let policy = this.policies.get(name);
        if (!policy) {
            policy = new Policy(name);
            this.policies.set(name, policy);
        }
        return policy;
    }

    /** @returns {number} the seconds since the last tick */
    #advance(t_ms, least) {
        const before = this.intervals.newestMs;
        this.intervals.advance(t_ms, least, (slot) => {
            for (const series of [this.all, this.latency, this.store])
                series.clear(slot);
            if (this.#withSeries > 0)
                for (const policy of this.policies.values())
                    for (const series of [policy.series, policy.outcomeSeries])
                        series?.clear(slot);
        });
        return before > 0 ? Math.max(0.001, (t_ms - before) / 1000) : 1;
    }

    #count(policy, counts, seconds) {
        const before = policy.counts ?? (this.#fresh ? counts : counts.map(() => 0));
        policy.counts = counts;
        if (this.#fresh)
            return;
        let sum = 0;
        counts.forEach((n, verdict) => {
            const rate = Math.max(0, n - before[verdict]) / seconds;
            policy.rates[verdict] = rate;
            this.rates[verdict] += rate;
            sum += rate;
        });
        if (sum === 0)
            return;
        policy.activeAt = this.intervals.head;
        const series = this.#seriesOf(policy);
        for (const group of Object.keys(GROUPS)) {
            const rate = policy.rateOf(group);
            series.add(group, this.intervals.slot, rate);
            this.all.add(group, this.intervals.slot, rate);
        }
    }

    /**
     * Begins to count the outcomes of another candidate. The daemon's counts are of all candidates so far.
     * @param {Policy} policy
     * @param {string | null} candidate
     */
    setCandidate(policy, candidate) {
        if (policy.candidate === candidate)
            return;
        policy.candidate = candidate;
        policy.outcomesBase = policy.outcomes;
        policy.outcomesSinceMs = this.intervals.newestMs;
    }

    #countOutcomes(policy, counts, seconds) {
        const zeros = counts.map(() => 0);
        let before = policy.outcomes ?? (this.#fresh ? counts : zeros);
        if (counts.some((n, i) => n < before[i]))
            before = policy.outcomesBase = zeros;
        policy.outcomes = counts;
        if (!policy.outcomesBase) {
            policy.outcomesBase = before;
            policy.outcomesSinceMs = this.intervals.newestMs;
        }
        if (this.#fresh)
            return;
        this.#seriesOf(policy);
        OUTCOMES.forEach((name, i) => {
            policy.outcomeSeries.add(name, this.intervals.slot, Math.max(0, counts[i] - before[i]) / seconds);
        });
    }

    /** Gives the policy its series. Beyond POLICIES_MAX, the one that is idle the longest loses its own. */
    #seriesOf(policy) {
        if (policy.series)
            return policy.series;
        if (this.#withSeries >= POLICIES_MAX) {
            let idle = null;
            for (const other of this.policies.values())
                if (other.series && (!idle || other.activeAt < idle.activeAt))
                    idle = other;
            idle.series = idle.outcomeSeries = null;
            this.#withSeries--;
        }
        this.#withSeries++;
        policy.outcomeSeries = new Series();
        policy.series = new Series();
        return policy.series;
    }

    #addLatency(latency) {
        for (const name of ["p50", "p90", "p99", "max"])
            this.latency.add(name, this.intervals.slot, latency?.[name] ?? NaN);
    }

    #addStore(store, seconds) {
        for (const name of ["evicted", "refused"]) {
            const before = this.#fresh ? store?.[name] : this.tick?.store?.[name];
            const rate = Math.max(0, (store?.[name] ?? 0) - (before ?? 0)) / seconds;
            this.storeRates[name] = rate;
            this.store.add(name, this.intervals.slot, rate);
        }
        this.store.add("keys", this.intervals.slot, store?.keys ?? NaN);
    }
}
