// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests the parts of the dashboard that need no page: the stream, the history and the numbers.
//
//     node web/dashboard/dashboard_test.mjs [SEED]

import assert from "node:assert/strict";
import { bytes, clock, counted, duration, micros, percent, rate, short, whole } from "./format.mjs";
import {
    History, intervalsSince, meanOf, POINTS, POLICIES_MAX, recent, recentTimes, since,
} from "./history.mjs";
import { shownKey, shownLines, topFigure, topNote, whyNotWhole } from "./keys.mjs";
import { EventParser, LiveStream } from "./live.mjs";

const seed = Number(process.argv[2] ?? 1);
let random = seed;

// Returns a random number 0 <= n < bound (mulberry32).
function below(bound) {
    random = (random + 0x6d2b79f5) | 0;
    let n = Math.imul(random ^ (random >>> 15), 1 | random);
    n = (n + Math.imul(n ^ (n >>> 7), 61 | n)) ^ n;
    return ((n ^ (n >>> 14)) >>> 0) % bound;
}

const T0 = 1767225600000;
const plain = (text) => text.replaceAll("\u202f", " ");
const none = [0, 0, 0, 0, 0, 0, 0];
const store = { keys: 1, bytes: 2, bytes_max: 3, evicted: 0, refused: 0 };
const latency = { p50: 1, p90: 2, p99: 3, max: 4 };

function hello(names, more = {}) {
    const policies = names.map((name) => ({
        name, limit: "gcra 1/s burst 1", engine: "local", shadow: false, candidate: null,
    }));
    return { version: "0", start_ms: 1, now_ms: T0, interval_ms: 1000, top: true, policies, ...more };
}

function tick(t_ms, policies, more = {}) {
    return { t_ms, policies, candidates: {}, latency_us: latency, store, ...more };
}

const allowed = (n) => [n, 0, 0, 0, 0, 0, 0];

/** A stream without a network: the test answers each fetch, and lets time pass. */
class Scene {
    states = [];
    events = [];
    fetches = [];
    timers = new Map();
    nowMs = 0;
    #id = 0;

    constructor() {
        this.stream = new LiveStream({
            url: "v1/live",
            onEvent: (name, data) => this.events.push([name, data]),
            onConnection: ({ state, retryAtMs, reason }) => this.states.push({ state, retryAtMs, reason }),
            fetch: (url, { signal }) =>
                new Promise((resolve, reject) => {
                    signal.addEventListener("abort", () => reject(new Error("aborted")));
                    this.fetches.push({ resolve, reject, signal });
                }),
            timers: {
                set: (fn, ms) => {
                    this.timers.set(++this.#id, { fn, at: this.nowMs + ms });
                    return this.#id;
                },
                clear: (id) => this.timers.delete(id),
            },
            now: () => this.nowMs,
            random: () => 0.999,
        });
    }

    /** Answers the latest request with a stream, and returns a function that sends a part of it. */
    accept() {
        let controller;
        const body = new ReadableStream({ start: (c) => void (controller = c) });
        this.fetches.at(-1).resolve({ ok: true, status: 200, body });
        const encoder = new TextEncoder();
        return {
            send: (text) => controller.enqueue(encoder.encode(text)),
            end: () => controller.close(),
        };
    }

    get last() {
        return this.states.at(-1);
    }

    /** Runs what was made ready. */
    async settle() {
        for (let i = 0; i < 20; i++)
            await new Promise((resolve) => setImmediate(resolve));
    }

    /** Lets time pass up to the next timer, and runs it. */
    async next() {
        const [id, { fn, at }] = [...this.timers].sort((a, b) => a[1].at - b[1].at)[0];
        this.timers.delete(id);
        this.nowMs = at;
        fn();
        await this.settle();
    }
}

const tests = {
    "numbers are short, and round without a fourth digit"() {
        const rows = [
            [0, "0"], [0.126, "0.13"], [9.999, "10"], [12.34, "12.3"], [999.4, "999"], [999.7, "1 k"],
            [1234, "1.23 k"], [12345, "12.3 k"], [999999, "1 M"], [5e9, "5 G"], [-1500, "-1.5 k"], [NaN, "–"],
        ];
        for (const [n, text] of rows)
            assert.equal(plain(short(n)), text);
        assert.equal(plain(rate(1234)), "1.23 k/s");
        assert.equal(plain(rate(12)), "12 /s");
        assert.equal(rate(NaN), "–");
        assert.equal(plain(bytes(196083712)), "187 MiB");
        assert.equal(plain(micros(85)), "85 µs");
        assert.equal(plain(micros(1200)), "1.2 ms");
        assert.equal(whole(1234567), "1,234,567");
    },

    "shares say neither 0 % nor 100 % of what is not"() {
        assert.equal(plain(percent(1, 1e6)), "< 0.1 %");
        assert.equal(plain(percent(999999, 1e6)), "> 99.9 %");
        assert.equal(plain(percent(997, 1000)), "99.7 %");
        for (let part = 0; part <= 3000; part++) {
            assert.equal(plain(percent(part, 3000)) === "0 %", part === 0);
            assert.equal(plain(percent(part, 3000)) === "100 %", part === 3000);
        }
        assert.equal(plain(percent(0, 10)), "0 %");
        assert.equal(plain(percent(10, 10)), "100 %");
        assert.equal(percent(0, 0), "–");
    },

    "different keys are shown differently"() {
        const rows = [
            ["alice", "alice"], ["\u202ertl", "\\u202ertl"], [" lead", "\\u0020lead"],
            ["trail ", "trail\\u0020"], ["a  b", "a \\u0020b"], ["a b", "a b"],
            ["\n\nnl", "\\u000a\\u000anl"], ["\0", "\\u0000"], ["a\u200db", "a\\u200db"],
            ["a\u3164", "a\\u3164"],
            ["a\u00a0b", "a\\u00a0b"],
            ["\u{e0001}", "\\u{e0001}"], ["\\u202ertl", "\\u005cu202ertl"],
            ["C:\\x", "C:\\x"], ["öl 😀", "öl 😀"],
        ];
        for (const [key, text] of rows)
            assert.equal(shownKey(key), text);
        const parts = [" ", "\n", "\\", "u", "0020", "\u202e", "a"];
        const seen = new Map();
        for (let i = 0; i < 5000; i++) {
            const key = Array.from({ length: below(6) }, () => parts[below(parts.length)]).join("");
            const text = shownKey(key);
            assert.equal(seen.get(text) ?? key, key);
            seen.set(text, key);
            assert.doesNotMatch(text, /^\s|\s$|\s\s|[\n\u202e]/);
        }
        assert.equal(shownLines("key \u202ea\n  5 of 5\n"), "key \\u202ea\n  5 of 5\n");
    },

    "a key that its text does not name is not acted on"() {
        assert.equal(whyNotWhole({ key: "alice", key_bytes: 5 }), "");
        assert.equal(whyNotWhole({ key: "öl", key_bytes: 3 }), "");
        assert.match(whyNotWhole({ key: "\ufffd\ufffd\ufffd\0", key_bytes: 4 }), /redis-cli/);
        assert.match(whyNotWhole({ key: "\ufffd", key_bytes: 3 }), /redis-cli/); // or one byte of each three
        assert.match(whyNotWhole({ key: "alice", key_bytes: 7 }), /redis-cli/);
        assert.match(whyNotWhole({ key: "a".repeat(128), key_bytes: 129 }), /longer/);
    },

    "figures of a sample are rounded, and said to be estimated"() {
        assert.equal(plain(topFigure(956, 1)), "956");
        assert.equal(plain(topFigure(956, 32)), "≈ 960");
        assert.match(topNote(32), /estimated from a sample of one in 32/);
        assert.doesNotMatch(topNote(1), /sample/);
    },

    "a count of one has no plural"() {
        assert.equal(counted(1, "key"), "1 key");
        assert.equal(counted(0, "key"), "0 keys");
        assert.equal(counted(1234, "key"), "1,234 keys");
    },

    "the outcomes of a candidate begin when it begins"() {
        const history = new History();
        history.onHello(hello(["api"]));
        for (let s = 0; s <= 20; s++) {
            history.onTick(tick(T0 + s * 1000, { api: allowed(400 * s) },
                { candidates: s >= 17 ? { api: [400 * (s - 16.5), 0, 0, 0, 0] } : {} }));
            if (s === 16)
                history.setCandidate(/** @type {any} */ (history.policies.get("api")), "gcra 1/s");
        }
        const { intervals, policies } = history;
        const { outcomeSeries: series, outcomesSinceMs } = /** @type {any} */ (policies.get("api"));
        const times = recentTimes(intervals, 60, 60);
        const values = since(recent(intervals, series, "bothAllow", 60, 60), times, outcomesSinceMs);
        assert.deepEqual(values.slice(-5), [NaN, NaN, 400, 400, 400]); // one is partial
        assert.ok(values.slice(0, -3).every(Number.isNaN));
        const n = intervalsSince(intervals, outcomesSinceMs);
        assert.equal(meanOf(intervals, series, ["bothAllow"], n), 400);
        assert.equal(intervalsSince(intervals, T0 - 60000), 10);
        assert.equal(intervalsSince(intervals, intervals.newestMs), 1);
    },

    "durations have two units"() {
        const rows = [
            [0, "0 s"], [59999, "59 s"], [60000, "1 min"], [3725000, "1 h 2 min"], [273600000, "3 d 4 h"],
            [86400000, "1 d"], [NaN, "–"], [-5, "0 s"],
        ];
        for (const [ms, text] of rows)
            assert.equal(plain(duration(ms)), text);
        assert.match(clock(T0), /^\d\d:\d\d:\d\d$/);
    },

    "a stream is parsed alike at every division"() {
        const text = ": comment\nevent: hello\r\ndata: {\"a\":1}\r\n\r\nid: 7\rdata: one\rdata:two\r\r" +
            "event: tick\ndata:  x\n\nevent: no data\n\ndata\n\ndata: unfinished\n";
        const whole = new EventParser().feed(text);
        assert.deepEqual(whole, [
            { name: "hello", data: "{\"a\":1}" }, { name: "message", data: "one\ntwo" },
            { name: "tick", data: " x" }, { name: "message", data: "" },
        ]);
        for (let round = 0; round < 300; round++) {
            const parser = new EventParser();
            const events = [];
            for (let at = 0; at < text.length; ) {
                const end = at + 1 + below(6);
                events.push(...parser.feed(text.slice(at, end)));
                at = end;
            }
            assert.deepEqual(events, whole);
        }
    },

    "an event without an end takes no more than 8 MiB"() {
        for (const part of ["x".repeat(1 << 20), `data: ${"x".repeat(1 << 20)}\n`]) {
            const parser = new EventParser();
            assert.throws(() => {
                for (let i = 0; i < 10; i++)
                    parser.feed(part);
            }, /larger than 8 MiB/);
        }
    },

    async "events arrive, and a broken one is left out"() {
        const scene = new Scene();
        void scene.stream.open();
        const { send } = scene.accept();
        send("event: hello\ndata: {\"version\"");
        await scene.settle();
        assert.equal(scene.last.state, "connecting");
        send(":\"1\"}\n\nevent: tick\ndata: {\n\nevent: tick\ndata: 5\n\n");
        await scene.settle();
        assert.equal(scene.last.state, "open");
        assert.deepEqual(scene.events, [["hello", { version: "1" }], ["tick", 5]]);
        scene.stream.close();
        assert.equal(scene.timers.size, 0);
    },

    async "reconnection waits twice as long each time, up to 30 s, and starts anew after success"() {
        const scene = new Scene();
        void scene.stream.open();
        const waits = [];
        for (let i = 0; i < 7; i++) {
            scene.fetches.at(-1).reject(new Error("refused"));
            await scene.settle();
            assert.equal(scene.last.state, "waiting");
            assert.equal(scene.last.reason, "the daemon does not answer");
            waits.push(Math.round((scene.last.retryAtMs - scene.nowMs) / 1000));
            await scene.next();
        }
        assert.deepEqual(waits, [1, 2, 4, 8, 16, 30, 30]);
        const { send, end } = scene.accept();
        send("event: hello\ndata: {}\n\n");
        await scene.settle();
        end();
        await scene.settle();
        assert.equal(scene.last.reason, "the daemon closed the connection");
        assert.equal(Math.round((scene.last.retryAtMs - scene.nowMs) / 1000), 1);
    },

    async "a refusal says why"() {
        const reasons = { 401: /password/, 404: /older version/, 503: /as many/, 500: /500/ };
        for (const [code, reason] of Object.entries(reasons)) {
            const scene = new Scene();
            void scene.stream.open();
            scene.fetches.at(-1).resolve({ ok: false, status: Number(code), body: null });
            await scene.settle();
            assert.match(scene.last.reason, reason);
        }
    },

    async "a user without the right reads which one it is"() {
        const scene = new Scene();
        const detail = 'the user "web" lacks the right "top" for /v1/live';
        void scene.stream.open();
        scene.fetches.at(-1).resolve(Response.json({ title: "Forbidden", detail }, { status: 403 }));
        await scene.settle();
        assert.equal(scene.last.reason, detail);
    },

    async "a silent connection is given up, and an old one reports nothing"() {
        const scene = new Scene();
        void scene.stream.open();
        scene.accept().send("event: hello\ndata: {}\n\n");
        await scene.settle();
        await scene.next();
        assert.equal(scene.nowMs, 10000);
        assert.match(scene.last.reason, /nothing was received for 10 s/);
        assert(scene.fetches[0].signal.aborted);
        assert.equal(scene.timers.size, 1);
        void scene.stream.open(); // by hand, while it waits
        await scene.settle();
        assert.equal(scene.fetches.length, 2);
        assert.equal(scene.last.state, "connecting");
        assert.equal(scene.timers.size, 1);
    },

    "counts become rates a second"() {
        const history = new History();
        history.onHello(hello(["a", "b"]));
        history.onTick(tick(T0, { a: allowed(1000), b: none }));
        history.onTick(tick(T0 + 1000, { a: [1010, 5, 0, 0, 2, 0, 0] }));
        const a = history.policies.get("a");
        assert.equal(a.rateOf("allowed"), 10);
        assert.equal(a.rateOf("denied"), 7);
        assert.equal(a.total, 1017);
        assert.equal(history.policies.get("b").series, null);
        assert.deepEqual(recent(history.intervals, a.series, "denied", 3, 300), [NaN, NaN, 7]);
        history.onTick(tick(T0 + 3000, { b: allowed(4) }));
        assert.equal(a.rate, 0);
        assert.equal(history.policies.get("b").rate, 2);
        assert.deepEqual(recent(history.intervals, a.series, "denied", 4, 300), [NaN, 7, NaN, 0]);
        assert.deepEqual(recent(history.intervals, history.all, "allowed", 4, 300), [NaN, 10, NaN, 2]);
        assert.equal(meanOf(history.intervals, history.all, ["allowed", "denied"]), 9.5);
        assert.deepEqual(recentTimes(history.intervals, 2, 300), [T0 + 2000, T0 + 3000]);
    },

    "a reconnection or a restart shows a gap, and no peak"() {
        const history = new History();
        history.onHello(hello(["a"]));
        history.onTick(tick(T0, { a: allowed(100) }));
        history.onTick(tick(T0 + 1000, { a: allowed(101) }));
        history.onHello(hello(["a"]));
        history.onTick(tick(T0 + 5000, { a: allowed(900) }));
        history.onTick(tick(T0 + 6000, { a: allowed(903) }));
        history.onHello(hello(["a"], { start_ms: 2 }));
        history.onTick(tick(T0 + 7000, { a: allowed(50) }));
        history.onTick(tick(T0 + 8000, { a: allowed(52) }));
        const { intervals, all } = history;
        assert.deepEqual(recent(intervals, all, "allowed", 8, 300), [1, NaN, NaN, NaN, NaN, 3, NaN, 2]);
    },

    "the charts begin with what the daemon has counted"() {
        const history = new History();
        history.onHello(hello(["a", "b", "c"]));
        history.onTick(tick(T0, { a: allowed(1000), b: none, c: none }));
        history.onTick(tick(T0 + 1000, { a: allowed(1009), c: allowed(8) }));
        history.onPast({
            now_ms: T0 + 1000, step_ms: 10000, first_ms: T0 - 23000,
            all: { allowed: [10, 70, 48], denied: [0, 20, 0] },
            policies: {
                a: { allowed: [10, 20, 40] },
                b: { allowed: [0, 50, 0], denied: [0, 20, 0] },
                c: { allowed: [8] },
            },
        });
        const { intervals, all, policies } = history;
        const last = (name, group, n) =>
            recent(intervals, name ? policies.get(name).series : all, group, n, 300);
        const times = (n, value) => Array.from({ length: n }, () => value);
        // a tick, then the rest of the newest step, then two steps
        const expected = [...times(10, 1), ...times(10, 7), ...times(3, 12), 17];
        assert.deepEqual(last("", "allowed", 24), expected);
        assert.deepEqual(last("", "denied", 14).slice(0, 11), [...times(10, 2), 0]);
        assert.deepEqual(last("", "allowed", 30).slice(0, 6), times(6, NaN)); // the daemon did not run
        assert.deepEqual(last("a", "allowed", 5), [2, 10, 10, 10, 9]);
        assert.deepEqual(last("b", "denied", 5), [2, 0, 0, 0, 0]);
        assert.deepEqual(last("c", "allowed", 5), [NaN, 2, 2, 2, 8]); // its list is shorter
        assert.equal(meanOf(intervals, policies.get("c").series, ["allowed"], 5), 3.5);
        // The daemon knows nothing of latencies in the past.
        assert.deepEqual(recent(intervals, history.latency, "p50", 3, 300, "max"), [NaN, NaN, 1]);
    },

    "what the daemon has counted fills the gap of a lost connection, and nothing else"() {
        const history = new History();
        const past = {
            now_ms: T0 + 20000, step_ms: 10000, first_ms: T0 - 10000,
            all: { allowed: [10, 20, 30, 0] }, policies: { a: { allowed: [10, 20, 30, 0] } },
        };
        history.onHello(hello(["a"]));
        history.onTick(tick(T0, { a: none }));
        history.onTick(tick(T0 + 1000, { a: allowed(7) }, { candidates: { a: [7, 0, 0, 0, 0] } }));
        history.onHello(hello(["a"]));
        history.onTick(tick(T0 + 20000, { a: allowed(60) }));
        for (let i = 0; i < 2; i++) { // a second answer changes nothing
            history.onPast(past);
            const { intervals, all, policies } = history;
            const { series, outcomeSeries } = policies.get("a");
            for (const one of [all, series]) {
                const values = recent(intervals, one, "allowed", 21, 300);
                assert.deepEqual(values.slice(0, 4), [1, 7, 2, 2]);
                assert.deepEqual(values.slice(9, 13), [2, 2, 3, 3]);
            }
            assert.deepEqual(recent(intervals, outcomeSeries, "bothAllow", 20, 300).slice(0, 2), [7, NaN]);
        }
        history.onTick(tick(T0 + 21000, { a: allowed(64) }));
        assert.deepEqual(recent(history.intervals, history.all, "allowed", 2, 300), [3, 4]);
    },

    "what the daemon has counted may arrive before the first tick"() {
        const history = new History();
        history.onHello(hello(["a"]));
        history.onPast({
            now_ms: T0, step_ms: 10000, first_ms: T0 - 3700000,
            all: { allowed: Array(371).fill(20) }, policies: {},
        });
        history.onTick(tick(T0 + 100, { a: none }));
        history.onTick(tick(T0 + 1100, { a: allowed(5) }));
        const values = recent(history.intervals, history.all, "allowed", POINTS, POINTS);
        assert.deepEqual(values.slice(-3), [2, 2, 5]);
        assert.equal(values.filter((value) => value === 2).length, POINTS - 1);
    },

    "an hour is kept, and no more"() {
        const history = new History();
        history.onHello(hello(["a"]));
        for (let i = 0; i <= POINTS + 100; i++)
            history.onTick(tick(T0 + 1000 * i, { a: allowed(i * 3) }));
        const { intervals, all, policies } = history;
        const values = recent(intervals, policies.get("a").series, "allowed", POINTS, 300);
        assert.equal(values.length, 300);
        assert(values.every((value) => value === 3));
        assert.equal(recentTimes(intervals, POINTS, 300).length, 300);
        history.onTick(tick(T0 + 1e9, {}));
        assert.deepEqual(recent(intervals, all, "allowed", POINTS, POINTS).filter((value) => value > 0), []);
    },

    "a point keeps its value while it moves"() {
        const history = new History();
        history.onHello(hello(["a"]));
        let n = 0;
        for (let i = 0; i < 600; i++)
            history.onTick(tick(T0 + 1000 * i, { a: allowed((n += below(50))) }));
        const before = recent(history.intervals, history.all, "allowed", 300, 100);
        const times = recentTimes(history.intervals, 300, 100);
        history.onTick(tick(T0 + 600000, { a: allowed(n) }));
        const after = recent(history.intervals, history.all, "allowed", 300, 100);
        const moved = times.indexOf(recentTimes(history.intervals, 300, 100)[0]);
        assert(moved >= 0);
        assert.deepEqual(after.slice(0, 95), before.slice(moved, moved + 95));
    },

    "thousands of policies keep a bounded number of series"() {
        const history = new History();
        const names = Array.from({ length: POLICIES_MAX + 50 }, (_, i) => `p${i}`);
        history.onHello(hello(names));
        history.onTick(tick(T0, Object.fromEntries(names.map((name) => [name, none]))));
        names.forEach((name, i) => history.onTick(tick(T0 + 1000 * (i + 1), { [name]: allowed(1) })));
        const kept = names.filter((name) => history.policies.get(name).series);
        assert.deepEqual(kept, names.slice(50));
    },

    "the outcomes of a candidate begin anew with each candidate"() {
        const history = new History();
        const row = { name: "a", limit: "gcra 1/s burst 1", engine: "local", shadow: false };
        history.onHello(hello([], { policies: [{ ...row, candidate: "gcra 2/s burst 1" }] }));
        history.onTick(tick(T0, { a: none }, { candidates: { a: [10, 20, 30, 40, 50] } }));
        history.onTick(tick(T0 + 1000, {}, { candidates: { a: [11, 22, 33, 44, 55] } }));
        const a = history.policies.get("a");
        assert.deepEqual([a.outcomesBase, a.outcomesSinceMs], [[10, 20, 30, 40, 50], T0]);
        assert.deepEqual(recent(history.intervals, a.outcomeSeries, "candidateDenies", 1, 300), [4]);
        history.onPolicies({ policies: [{ ...row, candidate: null }] });
        history.onPolicies({ policies: [{ ...row, candidate: "gcra 9/s burst 9" }] });
        history.onTick(tick(T0 + 2000, {}, { candidates: { a: [12, 22, 33, 44, 56] } }));
        assert.deepEqual([a.outcomes, a.outcomesBase], [[12, 22, 33, 44, 56], [11, 22, 33, 44, 55]]);
        // The daemon counts from 0 again.
        history.onTick(tick(T0 + 3000, {}, { candidates: { a: [1, 0, 0, 0, 0] } }));
        assert.deepEqual(a.outcomesBase, [0, 0, 0, 0, 0]);
    },

    "a policy that was removed stays, with its counts"() {
        const history = new History();
        history.onHello(hello(["a", "b"]));
        history.onTick(tick(T0, { a: allowed(3), b: none }));
        history.onPolicies({ policies: hello(["b"]).policies });
        assert.deepEqual([history.policies.get("a").listed, history.policies.get("a").total], [false, 3]);
    },
};

const tally = { passed: 0, failed: 0 };
for (const [name, test] of Object.entries(tests)) {
    try {
        await test();
        tally.passed++;
    } catch (error) {
        console.error(`${name} (seed ${seed}):`, error);
        tally.failed++;
    }
}
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exitCode = tally.failed > 0 ? 1 : 0;
