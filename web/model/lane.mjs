// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// A lane: one policy that decides the requests of a Traffic in their order, each key with its own state.
// Decisions are kept in columns, and their sums in prefix sums, so any earlier moment can be shown.

import { responseHeaders } from "./headers.mjs";
import { OFFSET_MAX } from "./scene.mjs";

const ROOM_MIN = 1024;
const CHECK_CLOCK_EVERY = 256; // decisions

/** @typedef {import("../wasm/weir.mjs").LayerView} LayerView */
/** @typedef {import("../wasm/weir.mjs").Zones} Zones */

/**
 * The decisions, by index of the request. Only the first `decided` elements are valid.
 * @typedef {object} Columns
 * @property {Uint8Array} allowed 1 or 0
 * @property {Int32Array} limit
 * @property {Int32Array} remaining
 * @property {Float64Array} retryNs 0 if allowed; Infinity if no wait helps
 * @property {Float64Array} resetNs
 * @property {Float64Array} delayNs
 * @property {Uint8Array} layer
 */

/**
 * @typedef {object} Totals
 * @property {number} requests
 * @property {number} allowed
 * @property {number} denied
 * @property {number} delayed how many of the allowed requests are delayed
 * @property {number} units the sum of the costs of all requests
 * @property {number} unitsAllowed
 * @property {number} delayNs the sum of the delays
 */

/**
 * A request and its decision.
 * @typedef {{index: number, time: number, key: string, cost: number, allowed: boolean, limit: number,
 *            remaining: number, retryNs: number, resetNs: number, delayNs: number, layer: number}} LaneEvent
 */

function makeColumns(room) {
    return {
        allowed: new Uint8Array(room),
        limit: new Int32Array(room),
        remaining: new Int32Array(room),
        retryNs: new Float64Array(room),
        resetNs: new Float64Array(room),
        delayNs: new Float64Array(room),
        layer: new Uint8Array(room),
    };
}

// Element i is the sum over the first i requests.
function makeSums(room) {
    return {
        allowed: new Uint32Array(room + 1),
        delayed: new Uint32Array(room + 1),
        units: new Float64Array(room + 1),
        unitsAllowed: new Float64Array(room + 1),
        delayNs: new Float64Array(room + 1),
    };
}

function copyArrays(from, to) {
    for (const name of Object.keys(from))
        to[name].set(from[name]);
    return to;
}

/**
 * Parses a policy text without keeping it.
 * @param {any} weir
 * @param {string} text
 * @param {Zones} [zones]
 * @returns {{text: string, report: string, layers: any[], error: null} |
 *           {text: null, report: "", layers: [], error: import("../wasm/weir.mjs").PolicyError}}
 *     text: the canonical text
 */
export function checkPolicy(weir, text, zones) {
    let policy = null;
    try {
        policy = weir.policy(text, { zones });
        return { text: policy.text, report: policy.report, layers: policy.layers, error: null };
    } catch (error) {
        return { text: null, report: "", layers: [], error };
    } finally {
        policy?.free();
    }
}

export class Lane {
    #weir;
    #baseNs;
    #keys = []; // by index of the key; absent until its first request
    #out = {};
    #room = 0;
    #sums = makeSums(0);
    #replay = null; // the key of the last look(): {key, name, state, next}
    #keySums = new Map(); // by index of the key: the prefix sums of its allowed units

    /**
     * @param {any} weir the module of weir.mjs
     * @param {string} text the policy; if it is invalid, `error` is set and nothing is decided
     * @param {import("./traffic.mjs").Traffic} traffic
     * @param {{beginMs?: number, zones?: Zones}} [options] beginMs: the time of offset 0
     */
    constructor(weir, text, traffic, { beginMs = 0, zones } = {}) {
        this.#weir = weir;
        this.traffic = traffic;
        this.#baseNs = BigInt(beginMs) * 1000000n;
        this.text = text;
        /** A PolicyError or, if the module has no memory left for more keys, a WeirError. */
        this.error = null;
        this.policy = null;
        /** How many requests are decided. */
        this.decided = 0;
        /** Changes when earlier decisions become invalid. */
        this.version = 0;
        /** @type {Columns} */
        this.columns = makeColumns(0);
        try {
            this.policy = weir.policy(text, { zones });
        } catch (error) {
            this.error = error;
        }
    }

    /** The layers of the policy; none if it is invalid. @returns {readonly any[]} */
    get layers() {
        return this.policy ? this.policy.layers : [];
    }

    /**
     * Decides all requests before an index.
     * @param {number} index 0 to traffic.length
     * @param {number} [deadlineMs] of performance.now(): stop deciding then
     * @returns {boolean} whether they are decided; also true if there is an error
     */
    decideTo(index, deadlineMs = Infinity) {
        if (this.error)
            return true;
        if (this.decided < index)
            this.#weir.setBase(this.#baseNs);
        this.#makeRoom(index);
        while (this.decided < index) {
            const stop = Math.min(index, this.decided + CHECK_CLOCK_EVERY);
            if (!this.#decideUntil(stop))
                return true;
            if (deadlineMs !== Infinity && performance.now() > deadlineMs)
                return this.decided >= index;
        }
        return true;
    }

    /** Forgets all decisions and states, as after a change of earlier requests. */
    restart() {
        for (const key of this.#keys)
            key?.free();
        this.#keys = [];
        this.#dropCaches();
        this.decided = 0;
        this.version++;
        if (this.policy)
            this.error = null;
    }

    /** Frees the memory of the module. The lane cannot be used afterwards. */
    free() {
        this.restart();
        this.policy?.free();
        this.policy = null;
    }

    /**
     * Returns the sums over the requests before an index, or over those that are decided if they are fewer.
     * @param {number} index
     * @returns {Totals}
     */
    totals(index) {
        const requests = Math.max(0, Math.min(index, this.decided));
        const sums = this.#sums;
        return {
            requests,
            allowed: sums.allowed[requests],
            denied: requests - sums.allowed[requests],
            delayed: sums.delayed[requests],
            units: sums.units[requests],
            unitsAllowed: sums.unitsAllowed[requests],
            delayNs: sums.delayNs[requests],
        };
    }

    /**
     * Returns the units allowed in the window (offset - window, offset].
     * @param {number} offsetNs
     * @param {number} windowNs
     * @param {string} [keyName] only those of a key
     */
    rate(offsetNs, windowNs, keyName) {
        const traffic = this.traffic;
        if (keyName !== undefined)
            return this.#rateOfKey(offsetNs, windowNs, traffic.indexes.get(keyName));
        const to = Math.min(traffic.countTo(offsetNs), this.decided);
        const from = Math.min(traffic.countTo(offsetNs - windowNs), to);
        return this.#sums.unitsAllowed[to] - this.#sums.unitsAllowed[from];
    }

    /**
     * Describes the state of a key at an offset, after those of its requests that are before an index.
     * @param {string} keyName
     * @param {number} offsetNs not before those requests
     * @param {number} [index] default: all requests up to the offset
     * @returns {LayerView[]} one for each layer; none if the policy is invalid, or without memory
     */
    look(keyName, offsetNs, index = this.traffic.countTo(offsetNs)) {
        if (!this.policy)
            return [];
        this.#weir.setBase(this.#baseNs);
        const key = this.traffic.indexes.get(keyName) ?? -1;
        const offset = Math.min(OFFSET_MAX, Math.max(0, Math.round(offsetNs) || 0));
        try {
            const live = index === this.decided ? this.#keys[key] : undefined;
            return (live ?? this.#stateAt(key, index)).lookAt(offset);
        } catch {
            return []; // the module has no memory left for another key
        }
    }

    /**
     * Returns a request and its decision.
     * @param {number} i 0 to decided - 1
     * @returns {LaneEvent}
     */
    event(i) {
        const { columns } = this;
        const { times, keys, costs, names } = this.traffic;
        return {
            index: i,
            time: times[i],
            key: names[keys[i]],
            cost: costs[i],
            allowed: columns.allowed[i] === 1,
            limit: columns.limit[i],
            remaining: columns.remaining[i],
            retryNs: columns.retryNs[i],
            resetNs: columns.resetNs[i],
            delayNs: columns.delayNs[i],
            layer: columns.layer[i],
        };
    }

    /**
     * Returns the status line and the header fields with which the daemon would answer a request.
     * @param {number} i 0 to decided - 1
     * @returns {[string, string][]}
     */
    headers(i) {
        return responseHeaders(this.layers, this.event(i));
    }

    /** Tells the lane that Traffic.insert() has inserted a request at an index. */
    inserted(index) {
        if (index < this.decided)
            this.restart();
        else
            this.#dropCaches();
    }

    #dropCaches() {
        this.#replay?.state.free();
        this.#replay = null;
        this.#keySums.clear();
    }

    #makeRoom(index) {
        if (index <= this.#room)
            return;
        this.#room = Math.max(ROOM_MIN, index, Math.min(2 * this.#room, this.traffic.times.length));
        this.columns = copyArrays(this.columns, makeColumns(this.#room));
        this.#sums = copyArrays(this.#sums, makeSums(this.#room));
    }

    /** Decides the requests before `stop`. Returns false, and sets `error`, if there is no memory. */
    #decideUntil(stop) {
        try {
            for (; this.decided < stop; this.decided++)
                this.#decide(this.decided);
            return true;
        } catch (error) {
            this.error = error;
            return false;
        }
    }

    #decide(i) {
        const { columns } = this, { times, keys, costs } = this.traffic, sums = this.#sums;
        const out = (this.#keys[keys[i]] ??= this.policy.key()).decideAt(times[i], costs[i], this.#out);
        columns.allowed[i] = out.allowed ? 1 : 0;
        columns.limit[i] = out.limit;
        columns.remaining[i] = out.remaining;
        columns.retryNs[i] = out.retryAfterNs;
        columns.resetNs[i] = out.resetAfterNs;
        columns.delayNs[i] = out.delayNs;
        columns.layer[i] = out.layer;
        const delayed = out.delayNs > 0; // only if allowed
        sums.allowed[i + 1] = sums.allowed[i] + (out.allowed ? 1 : 0);
        sums.delayed[i + 1] = sums.delayed[i] + (delayed ? 1 : 0);
        sums.units[i + 1] = sums.units[i] + costs[i];
        sums.unitsAllowed[i + 1] = sums.unitsAllowed[i] + (out.allowed ? costs[i] : 0);
        sums.delayNs[i + 1] = sums.delayNs[i] + (delayed ? out.delayNs : 0);
    }

    /** Returns the state of a key after its requests before `index`. It goes on from the last call. */
    #stateAt(key, index) {
        if (!this.#replay || this.#replay.key !== key || this.#replay.index > index) {
            this.#replay?.state.free();
            this.#replay = { key, index: 0, next: 0, state: this.policy.key() };
        }
        const replay = this.#replay, { times, costs } = this.traffic;
        const events = this.traffic.eventsOf(key);
        for (; replay.next < events.length && events[replay.next] < index; replay.next++)
            replay.state.decideAt(times[events[replay.next]], costs[events[replay.next]], this.#out);
        replay.index = index;
        return replay.state;
    }

    #rateOfKey(offsetNs, windowNs, key) {
        const events = this.traffic.eventsOf(key), { times, costs } = this.traffic;
        const sums = this.#keySums.get(key) ?? [0];
        this.#keySums.set(key, sums);
        for (let n = sums.length - 1; n < events.length && events[n] < this.decided; n++)
            sums.push(sums[n] + (this.columns.allowed[events[n]] ? costs[events[n]] : 0));
        const decided = sums.length - 1;
        const countTo = (offset) => {
            let low = 0, high = decided;
            while (low < high) {
                const middle = (low + high) >>> 1;
                if (times[events[middle]] <= offset)
                    low = middle + 1;
                else
                    high = middle;
            }
            return low;
        };
        return sums[countTo(offsetNs)] - sums[countTo(offsetNs - windowNs)];
    }
}
