// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The requests of a scene, which are generated on demand. The same specification gives the same requests,
// however often and how far extendTo() is called.

import { MAX_EVENTS, MAX_KEYS, OFFSET_MAX, SECOND_NS, completeTraffic } from "./scene.mjs";
import { parseTimes } from "./times.mjs";

export { parseTimes };

const USER_NAMES = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"];
const ROOM_MIN = 1024;

/**
 * A pseudo-random generator (mulberry32).
 * @param {number} seed
 * @returns {() => number} returns a number of [0, 1)
 */
function randomOf(seed) {
    let state = seed | 0;
    return () => {
        state = (state + 0x6d2b79f5) | 0;
        let n = Math.imul(state ^ (state >>> 15), 1 | state);
        n = (n + Math.imul(n ^ (n >>> 7), 61 | n)) ^ n;
        return ((n ^ (n >>> 14)) >>> 0) / 2 ** 32;
    };
}

/**
 * Returns the names of users.
 * @param {number} count
 * @returns {string[]}
 */
function userNames(count) {
    return Array.from({ length: count }, (_, i) => USER_NAMES[i] ?? `user${i + 1}`);
}

/**
 * A source of requests: the time and the key of its next one; next() moves to the one after it. After the
 * last one, the time is Infinity.
 * @typedef {{time: number, key: number, next(): void}} Source
 */

class Steady {
    constructor(rate, users) {
        this.interval = SECOND_NS / rate;
        this.users = users;
        this.i = -1;
        this.next();
    }
    next() {
        this.i++;
        this.time = Math.round(this.i * this.interval);
        this.key = this.i % this.users;
    }
}

class Poisson {
    constructor(rate, users, firstKey, random) {
        this.mean = SECOND_NS / rate;
        this.users = users;
        this.firstKey = firstKey;
        this.random = random;
        this.exact = 0;
        this.next();
    }
    next() {
        this.exact -= Math.log(1 - this.random()) * this.mean;
        this.time = Math.round(this.exact);
        this.key = this.firstKey + Math.floor(this.random() * this.users);
    }
}

class Bursts {
    constructor(spec) {
        this.spec = spec;
        this.i = -1;
        this.next();
    }
    next() {
        this.i++;
        const { burst, everySeconds, atSeconds, withinSeconds, users } = this.spec;
        const round = Math.floor(this.i / burst), place = this.i % burst;
        const within = Math.min(withinSeconds, everySeconds);
        const seconds = atSeconds + round * everySeconds + (within * place) / burst;
        this.time = Math.round(seconds * SECOND_NS);
        this.key = place % users;
    }
}

/** The earliest request of two sources. */
class Merged {
    constructor(a, b) {
        this.sources = [a, b];
        this.choose();
    }
    choose() {
        const [a, b] = this.sources;
        this.first = b.time < a.time ? b : a;
        this.time = this.first.time;
        this.key = this.first.key;
    }
    next() {
        this.first.next();
        this.choose();
    }
}

/** @type {Source} */
const NOTHING = Object.freeze({ time: Infinity, key: 0, next() {} });

function poissonOf(rate, users, firstKey, seed) {
    return rate > 0 ? new Poisson(rate, users, firstKey, randomOf(seed)) : NOTHING;
}

/**
 * Returns the source and the names of the keys of a kind that generates its requests.
 * @returns {[Source, string[]]}
 */
function generator(spec) {
    const names = userNames(spec.users);
    switch (spec.kind) {
    case "steady":
        return [spec.rate > 0 ? new Steady(spec.rate, spec.users) : NOTHING, names];
    case "poisson":
        return [poissonOf(spec.rate, spec.users, 0, spec.seed), names];
    case "bursts":
        return [new Bursts(spec), names];
    case "spammer": {
        const users = Math.min(spec.users, MAX_KEYS - 1);
        const spammer = poissonOf(spec.spammerRate, 1, users, spec.seed ^ 0x5bd1e995);
        const others = poissonOf(spec.rate, users, 0, spec.seed);
        return [new Merged(others, spammer), [...names.slice(0, users), "spammer"]];
    }
    default:
        return [NOTHING, []];
    }
}

/** Returns the index of the first number above `value` in a sorted array, from 0 to `length`. */
function upperBound(array, length, value) {
    let low = 0, high = length;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (array[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/** A list of requests, sorted by time, at most MAX_EVENTS of at most MAX_KEYS keys. */
export class Traffic {
    /**
     * @param {any} spec a TrafficSpec of scene.mjs; missing fields get their default
     * @param {[number, number][]} [held] spans of time, each (from, to], whose requests are left out
     */
    constructor(spec, held = []) {
        this.spec = completeTraffic(spec);
        this.held = held;
        /** The names of the keys. @type {string[]} */
        this.names = [];
        this.length = 0;
        /** Offsets; the first `length` elements are in use. */
        this.times = new Float64Array(ROOM_MIN);
        /** Indexes of `names`. */
        this.keys = new Uint32Array(ROOM_MIN);
        this.costs = new Int32Array(ROOM_MIN);
        /** Whether all requests exist, or MAX_EVENTS of them. */
        this.ended = false;
        /** The time of offset 0 that a log or pasted times give, ISO 8601. @type {string | null} */
        this.begin = null;
        /** The key to show first: the busiest one of a log or of pasted times. */
        this.mainName = "user";
        /** Lines of pasted times that could not be read. @type {import("./times.mjs").LineError[]} */
        this.errors = [];
        this.indexes = new Map(); // from name to index
        this.byKey = new Map(); // from index to the list of the key's events, for eventsOf()
        this.scanned = 0; // how many events are in byKey
        /** @type {Source} */
        this.source = this.#start();
        this.ended = this.source.time > OFFSET_MAX;
    }

    /**
     * Generates all requests up to and including an offset.
     * @param {number} offsetNs
     */
    extendTo(offsetNs) {
        const { source, spec } = this;
        const until = Math.min(offsetNs, OFFSET_MAX);
        while (source.time <= until && this.length < MAX_EVENTS) {
            if (!this.#isHeld(source.time))
                this.#append(source.time, source.key, spec.cost);
            source.next();
        }
        this.ended = source.time > OFFSET_MAX || this.length === MAX_EVENTS;
    }

    /**
     * Inserts a request after all others of the same time or earlier.
     * @param {number} offsetNs
     * @param {string} name
     * @param {number} cost
     * @returns {number} its index, or -1 if there is no room for another request or key
     */
    insert(offsetNs, name, cost) {
        this.extendTo(offsetNs);
        const key = this.length < MAX_EVENTS ? this.keyOf(name) : -1;
        if (key < 0)
            return -1;
        const at = upperBound(this.times, this.length, offsetNs);
        this.#append(offsetNs, key, cost);
        for (const array of [this.times, this.keys, this.costs]) {
            const last = array[this.length - 1];
            array.copyWithin(at + 1, at, this.length - 1);
            array[at] = last;
        }
        if (at < this.scanned) {
            this.byKey.clear();
            this.scanned = 0;
        }
        return at;
    }

    /** When the next request will be generated; Infinity: none. */
    get nextTime() {
        return this.ended ? Infinity : this.source.time;
    }

    /** Returns how many requests have a time up to and including the offset. Generates none. */
    countTo(offsetNs) {
        return upperBound(this.times, this.length, offsetNs);
    }

    /**
     * Returns the index of a key, which is added if it is new; -1 if there are MAX_KEYS already.
     * @param {string} name
     */
    keyOf(name) {
        let key = this.indexes.get(name);
        if (key === undefined) {
            if (this.names.length === MAX_KEYS)
                return -1;
            key = this.names.push(name) - 1;
            this.indexes.set(name, key);
        }
        return key;
    }

    /**
     * Returns the indexes of a key's events in ascending order. The list is valid until the next insert().
     * @param {number} key
     * @returns {number[]}
     */
    eventsOf(key) {
        for (; this.scanned < this.length; this.scanned++) {
            const list = this.byKey.get(this.keys[this.scanned]);
            if (list)
                list.push(this.scanned);
            else
                this.byKey.set(this.keys[this.scanned], [this.scanned]);
        }
        return this.byKey.get(key) ?? [];
    }

    /** Loads the events of a list, or returns the source of a generator. */
    #start() {
        const { kind, times, log } = this.spec;
        let loaded = { events: log?.events ?? null, begin: log?.begin ?? null, errors: [] };
        if (kind === "times")
            loaded = parseTimes(times);
        else if (kind !== "log")
            return this.#generate();
        this.begin = loaded.begin;
        this.errors = loaded.errors;
        if (loaded.events)
            this.#load(loaded.events);
        return NOTHING;
    }

    #generate() {
        const [source, names] = generator(this.spec);
        names.forEach((name) => this.keyOf(name));
        this.mainName = names[0] ?? "user";
        return source;
    }

    #load({ names, times, keys, costs }) {
        names.forEach((name) => this.keyOf(name));
        for (let i = 0; i < times.length && this.length < MAX_EVENTS; i++)
            if (keys[i] < MAX_KEYS && !this.#isHeld(times[i]))
                this.#append(times[i], keys[i], costs[i]);
        const counts = new Uint32Array(this.names.length);
        for (let i = 0; i < this.length; i++)
            counts[this.keys[i]]++;
        this.mainName = this.names[counts.indexOf(Math.max(0, ...counts))] ?? "user";
    }

    #isHeld(time) {
        return this.held.some(([from, to]) => time > from && time <= to);
    }

    #append(time, key, cost) {
        if (this.length === this.times.length)
            this.#grow();
        this.times[this.length] = time;
        this.keys[this.length] = key;
        this.costs[this.length] = cost;
        this.length++;
    }

    #grow() {
        const room = this.length * 2;
        const copy = (Type, from) => {
            const to = new Type(room);
            to.set(from);
            return to;
        };
        this.times = copy(Float64Array, this.times);
        this.keys = copy(Uint32Array, this.keys);
        this.costs = copy(Int32Array, this.costs);
    }
}
