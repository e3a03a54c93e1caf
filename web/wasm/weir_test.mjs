// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests what the shared vectors do not cover in weir.mjs: errors, running out of memory, freeing, and
// random invalid input, which may cause a JavaScript error but never a trap.
//
//     node web/wasm/weir_test.mjs WASM [SEED]

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { load, PolicyError, Status, WeirError } from "./weir.mjs";

const T0 = 1767225600000000000n;
const NOW_NS_MAX = 7n << 60n;
const ROUNDS = 4000;

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const seed = Number(process.argv[3] ?? 1);
let random = seed;

// Returns a random number 0 <= n < bound (mulberry32).
function below(bound) {
    random = (random + 0x6d2b79f5) | 0;
    let n = Math.imul(random ^ (random >>> 15), 1 | random);
    n = (n + Math.imul(n ^ (n >>> 7), 61 | n)) ^ n;
    return ((n ^ (n >>> 14)) >>> 0) % bound;
}

const pick = (list) => list[below(list.length)];

function zoneinfo(name) {
    try {
        return readFileSync(`/usr/share/zoneinfo/${name}`);
    } catch {
        return null;
    }
}

const statusOf = (status) => (error) => error instanceof WeirError && error.status === status;

const WORDS = [
    "gcra", "burst", "token-bucket", "refill", "every", "leaky-bucket", "capacity", "leaky-queue",
    "depth", "nodelay", "fixed-window", "tz", "Europe/Berlin", "Asia/Tokyo", "UTC", "Mars/X", "from-first",
    "count-denied", "sliding-log", "sliding-counter", "relaxed", "sliding-slices", "slices", "&", "1",
    "concurrent", "lease",
    "20", "100/s", "3/s", "5/day", "7/month", "1/1h30m", "1099511627776/ns", "2147483647",
    "2147483647/w", "65536", "1s", "\u0000", "é", "",
];
const LAYERS = [
    "gcra 3/s burst 3",
    "gcra 1099511627776/s burst 2147483647",
    "token-bucket 9 refill 5 every 1s",
    "leaky-bucket 7/m capacity 20",
    "leaky-queue 10/s depth 2147483646", "leaky-queue 10/s depth 20 nodelay 8",
    "fixed-window 5/day tz America/Sao_Paulo",
    "fixed-window 5/week tz Africa/Cairo count-denied",
    "fixed-window 2147483647/s from-first",
    "sliding-log 2147483647/d count-denied",
    "sliding-log 5/s",
    "sliding-counter 2147483647/w relaxed",
    "sliding-slices 100/h slices 65536",
    "sliding-slices 100/155382367ns slices 7",
    "concurrent 3 lease 30s",
];
const TIMES = [
    0n, 1n, T0, NOW_NS_MAX - 1n, NOW_NS_MAX, NOW_NS_MAX + 1n, -1n, 1n << 64n, (1n << 64n) + 5n,
    -(1n << 63n),
];
const COSTS = [
    0, 1, 2, 2147483646, 2147483647, 2147483648, 4294967297, -1, 0.5, NaN, Infinity, null, "1",
];

const laterTime = () => T0 + BigInt(below(2 ** 32)) * BigInt(below(2 ** 20));
const randomTime = () => (below(3) === 0 ? pick(TIMES) : laterTime());
const randomCost = () => (below(3) === 0 ? pick(COSTS) : below(20));
const many = (count, make) => Array.from({ length: count }, make);

function damagedText() {
    if (below(2) === 0)
        return many(below(8), () => pick(WORDS)).join(" ");
    const text = many(1 + below(9), () => pick(LAYERS)).join(" & ");
    const at = below(text.length);
    return below(2) === 0 ? text : text.slice(0, at) + pick(WORDS) + text.slice(at + below(3));
}

function damagedZone(bytes) {
    const length = below(4) === 0 ? 1 + below(bytes.length) : bytes.length;
    const damaged = Uint8Array.from(bytes.subarray(0, length));
    for (let i = below(6); i > 0; i--) {
        const at = below(2) === 0 ? below(length) : below(Math.min(90, length)); // or in the header
        damaged[at] = below(256);
    }
    return damaged;
}

// Returns the policy, or null if the text was rejected with a PolicyError.
function tryPolicy(weir, text, zones) {
    try {
        return weir.policy(text, { zones });
    } catch (error) {
        assert(error instanceof PolicyError, error);
        assert(error.column >= 1 && error.column <= text.length + 1 && error.message.length > 0);
        return null;
    }
}

function askAnything(key) {
    const now_ns = randomTime(), cost = randomCost();
    try {
        const d = below(4) === 0 ? key.refund(now_ns, cost) : key.take(now_ns, cost);
        assert(now_ns >= 0n && now_ns <= NOW_NS_MAX);
        assert(Number.isInteger(cost) && cost >= 0 && cost < 2 ** 31);
        assert(d.limit >= 1 && d.remaining >= 0 && d.remaining <= d.limit && d.resetAfterNs >= 0n);
        assert.equal(d.retryAfterNs === 0n, d.allowed);
    } catch (error) {
        assert(error instanceof WeirError, error);
        assert([Status.RANGE, Status.UNSUPPORTED].includes(error.status), error);
    }
}

const tests = {
    decides(weir) {
        const key = weir.policy("gcra 3/s burst 2").key();
        assert.deepEqual(key.take(T0, 2), {
            allowed: true,
            limit: 2,
            remaining: 0,
            retryAfterNs: 0n,
            resetAfterNs: 666666667n,
            delayNs: 0n,
            layer: 0,
        });
        assert.equal(key.take(T0).retryAfterNs, 333333334n);
        assert.equal(key.take(T0, 3).retryAfterNs, null);
        assert.equal(key.refund(T0, 1).remaining, 1);
    },

    says_why_not(weir) {
        const refusal = { column: 6, zone: null, name: "PolicyError" };
        assert.throws(() => weir.policy("gcra x/s"), refusal);
        assert.throws(() => weir.policy("gcra 1/s burst 1" + " ".repeat(5000)), { column: 1 });
        assert.throws(() => weir.policy("fixed-window 1/day tz Mars/X"), { column: 23, zone: "Mars/X" });
        assert.throws(() => weir.policy("fixed-window 1/day tz a//b"), { column: 23, zone: null });
        const key = weir.policy("leaky-queue 1/s depth 1").key();
        assert.throws(() => key.refund(T0, 1), statusOf(Status.UNSUPPORTED));
        assert.throws(() => key.take(1n << 64n, 1), statusOf(Status.RANGE));
        assert.throws(() => key.take(T0, 2 ** 32 + 1), statusOf(Status.RANGE));
        for (const keep of [-101, 2 ** 31, 2 ** 32, 0.5])
            assert.throws(() => key.take(T0, 1, keep), statusOf(Status.RANGE));
    },

    lists_the_facts_of_layers(weir) {
        const policy = weir.policy(
            "token-bucket 9 refill 5 every 1s & fixed-window 7/month from 17 tz Asia/Tokyo count-denied" +
            " & block 1m doubling 1h",
            { zones: zoneinfo });
        assert.deepEqual(policy.layers, [
            {
                algorithm: "token-bucket", limit: 9, rate: 5, periodNs: 1e9, calendar: "aligned", from: "", zone: "",
                slices: 0, countDenied: false, relaxed: false, stepped: true, nodelay: 0,
                longestNs: 0,
            },
            {
                algorithm: "fixed-window", limit: 7, rate: 7, periodNs: 0, calendar: "month", from: "17",
                zone: "Asia/Tokyo", slices: 0, countDenied: true, relaxed: false, stepped: false, nodelay: 0,
                longestNs: 0,
            },
            {
                algorithm: "block", limit: 7, rate: 7, periodNs: 6e10, calendar: "aligned", from: "", zone: "",
                slices: 0, countDenied: false, relaxed: false, stepped: false, nodelay: 0,
                longestNs: 3.6e12,
            },
        ]);
        assert(weir.policy("sliding-counter 5/s relaxed").layers[0].relaxed);
        assert.equal(weir.policy("leaky-queue 5/s depth 9 nodelay 7").layers[0].nodelay, 7);
        assert.equal(weir.policy("fixed-window 5/s from-first").layers[0].calendar, "from-first");
        policy.free();
        assert.throws(() => policy.layers, TypeError);
    },

    decides_at_offsets_as_it_takes(weir) {
        weir.setBase(T0);
        for (let i = 0; i < 600; i++) {
            const layers = new Set(many(1 + below(3), () => pick(LAYERS))); // one concurrent layer at most
            const policy = weir.policy([...layers].join(" & "), { zones: zoneinfo });
            const [key, other] = [policy.key(), policy.key()];
            let offset = 0;
            for (let n = 0; n < 30; n++) {
                offset += below(3) === 0 ? below(2 ** 32) : below(2e8);
                const cost = below(5) === 0 ? pick([0, 2147483647]) : below(9);
                const d = key.take(T0 + BigInt(offset), cost);
                const retryAfterNs = d.retryAfterNs === null ? Infinity : Number(d.retryAfterNs);
                const [resetAfterNs, delayNs] = [Number(d.resetAfterNs), Number(d.delayNs)];
                assert.deepEqual(other.decideAt(offset, cost, {}), { ...d, retryAfterNs, resetAfterNs, delayNs });
            }
            policy.free();
        }
    },

    refuses_offsets_out_of_range(weir) {
        const key = weir.policy("gcra 1/s burst 9").key();
        weir.setBase(NOW_NS_MAX - 5n);
        assert(key.decideAt(5, 1, {}).allowed);
        for (const offset of [6, -1, 0.5, NaN, Infinity, 2 ** 53, "1", 1n, undefined]) {
            assert.throws(() => key.decideAt(offset, 1, {}), statusOf(Status.RANGE));
            assert.throws(() => key.lookAt(offset), statusOf(Status.RANGE));
        }
        for (const cost of [-1, 0.5, 2 ** 31, NaN, "1"])
            assert.throws(() => key.decideAt(5, cost, {}), statusOf(Status.RANGE));
        for (const base of [-1n, NOW_NS_MAX + 1n])
            assert.throws(() => weir.setBase(base), statusOf(Status.RANGE));
        weir.setBase(0n);
        assert.throws(() => key.decideAt(2 ** 53 + 2, 1, {}), statusOf(Status.RANGE));
    },

    // Each layer is compared with a policy that has this layer alone. Looking charges nothing.
    shows_the_state_of_each_layer(weir) {
        const texts = [
            "gcra 3/s burst 30", "token-bucket 9 refill 5 every 1s", "leaky-queue 10/s depth 20",
            "leaky-queue 7/s depth 9 nodelay 4", "fixed-window 30/m",
            "fixed-window 20/m from-first", "fixed-window 50/day tz Asia/Tokyo", "sliding-log 20/m count-denied",
            "sliding-counter 40/m", "sliding-slices 30/m slices 7", "sliding-log 9/s", "concurrent 20 lease 1m",
        ];
        weir.setBase(T0);
        for (let i = 0; i < 300; i++) {
            const text = pick(texts), policy = weir.policy(text, { zones: zoneinfo });
            const key = policy.key(), out = {};
            let offset = below(2 ** 30);
            for (let n = 0; n < 60; n++) {
                offset += below(4e8) * below(5);
                key.decideAt(offset, 1 + below(2), out);
                const later = offset + below(2e9), before = JSON.stringify(key.lookAt(later));
                const [view] = key.lookAt(later), peek = key.decideAt(later, 0, out);
                assert.equal(JSON.stringify(key.lookAt(later)), before);
                assert.deepEqual([view.limit, view.remaining, view.resetAfterNs],
                    [peek.limit, peek.remaining, peek.resetAfterNs]);
                assert.equal(view.retryAfterNs === 0, view.remaining > 0);
                assert.equal(view.delayNs, view.remaining > 0 ? peek.delayNs : 0);
                if (/^(sliding-log|sliding-slices|concurrent)/.test(text)) {
                    const units = view.entries.filter((_, at) => at % 2 === 1).reduce((a, b) => a + b, 0);
                    const times = view.entries.filter((_, at) => at % 2 === 0);
                    assert.equal(units, view.used);
                    assert(times.every((t, at) => at === 0 || t > times[at - 1]));
                    assert(times.every((t) => t >= view.beginNs && t <= view.endNs));
                }
                if (text.includes("window") || text.startsWith("sliding-counter"))
                    assert(view.beginNs <= later && later < view.endNs);
            }
            policy.free();
        }
    },

    shows_both_windows_of_a_counter_and_the_latest_of_many_entries(weir) {
        weir.setBase(T0);
        const out = {}, counter = weir.policy("sliding-counter 5/s").key();
        for (const offset of [0, 1, 2, 1.5e9])
            counter.decideAt(offset, 1, out);
        const windows = (offset) => {
            const [view] = counter.lookAt(offset);
            return [view.beginNs, view.endNs, view.previous, view.used];
        };
        assert.deepEqual(windows(1.6e9), [1e9, 2e9, 3, 1]);
        assert.deepEqual(windows(2.6e9), [2e9, 3e9, 1, 0]);
        assert.deepEqual(windows(3.6e9), [3e9, 4e9, 0, 0]);
        const log = weir.policy("sliding-log 10000/h").key();
        for (let n = 0; n < 6000; n++)
            log.decideAt(n, 1, out);
        const { entries, used } = log.lookAt(6000)[0];
        assert.deepEqual([entries.length, entries[0], entries.at(-2), used], [2 * 4096, 6000 - 4096, 5999, 6000]);
        assert.equal(weir.policy("leaky-queue 2/s depth 2").key().decideAt(0, 1, out).delayNs, 0);
    },

    takes_eight_zones_and_lets_zones_use_weir(weir) {
        const names = [
            "Europe/Berlin", "Asia/Tokyo", "America/New_York", "Africa/Cairo", "Asia/Kolkata",
            "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia",
        ];
        const text = names.map((name) => `fixed-window 5/day tz ${name}`).join(" & ");
        const zones = (name) => {
            assert.throws(() => weir.policy("fixed-window 1/day tz Other/Zone"), PolicyError);
            return zoneinfo(name);
        };
        assert.equal(weir.policy(text, { zones }).text, text);
    },

    refuses_what_was_freed(weir) {
        const policy = weir.policy("sliding-log 100/s");
        const [key, other] = [policy.key(), policy.key()];
        key.free();
        key.free();
        assert.throws(() => key.take(T0), TypeError);
        assert(other.take(T0).allowed);
        policy.free();
        policy.free();
        for (const use of [() => other.take(T0), () => policy.key(), () => policy.text, () => policy.report])
            assert.throws(use, TypeError);
    },

    answers_when_memory_is_used_up_and_goes_on_after_free(weir) {
        const policy = weir.policy("sliding-slices 100/h slices 65536");
        const keys = [];
        const fill = () => {
            for (;;)
                keys.push(policy.key());
        };
        assert.throws(fill, statusOf(Status.NOMEM));
        assert.throws(fill, statusOf(Status.NOMEM));
        assert(keys.length > 400);
        assert(keys.every((key) => key.take(T0, 100).allowed && !key.take(T0).allowed));
        const held = keys.length;
        keys.splice(0).forEach((key) => key.free());
        assert.throws(fill, statusOf(Status.NOMEM));
        assert.equal(keys.length, held);
        assert(keys.every((key) => key.take(T0, 100).allowed));
        policy.free();
    },

    grows_a_log_until_memory_is_used_up_and_charges_nothing_then(weir) {
        const policy = weir.policy("sliding-log 2147483647/d");
        const key = policy.key();
        let logged = 0;
        const log = () => {
            for (;; logged++)
                key.take(T0 + BigInt(logged), 1);
        };
        assert.throws(log, statusOf(Status.NOMEM));
        assert(logged >= 1 << 21, `${logged} entries`);
        const now_ns = T0 + BigInt(logged);
        assert.equal(key.take(now_ns, 0).remaining, 2147483647 - logged);
        assert(key.take(now_ns - 1n, 7).allowed); // shares the latest entry
        assert.equal(key.refund(now_ns, 7).remaining, 2147483647 - logged);
        assert.equal(key.take(now_ns + 86400000000000n).remaining, 2147483646);
        policy.free();
    },

    survives_damaged_texts(weir) {
        let parsed = 0;
        for (let i = 0; i < ROUNDS; i++) {
            const policy = tryPolicy(weir, damagedText(), zoneinfo);
            if (!policy)
                continue;
            parsed++;
            assert.equal(tryPolicy(weir, policy.text, zoneinfo)?.text, policy.text);
            assert(policy.report.length > 20);
            const key = policy.key();
            for (let n = 0; n < 20; n++)
                askAnything(key);
            policy.free();
        }
        assert(parsed > ROUNDS / 10 && parsed < ROUNDS, `${parsed} of ${ROUNDS} parsed`);
    },

    survives_damaged_zones(weir) {
        const files = ["Europe/Berlin", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Tokyo"].map(zoneinfo);
        let parsed = 0;
        for (let i = 0; i < ROUNDS; i++) {
            const zones = () => damagedZone(pick(files));
            const unit = pick(["day", "week", "month", "year"]);
            const policy = tryPolicy(weir, `fixed-window 5/${unit} tz A & fixed-window 9/day tz B`, zones);
            if (!policy)
                continue;
            parsed++;
            const key = policy.key();
            for (let n = 0; n < 20; n++)
                askAnything(key);
            policy.free();
        }
        assert(parsed > ROUNDS / 100 && parsed < ROUNDS, `${parsed} of ${ROUNDS} parsed`);
        const nonsense = [new Uint8Array(0), new ArrayBuffer(8), new Uint8Array(1 << 21), "TZif", [84], 1];
        for (const bytes of nonsense)
            assert.equal(tryPolicy(weir, "fixed-window 5/day tz A", () => bytes), null);
    },
};

const tally = { passed: 0, failed: 0 };
for (const [name, test] of Object.entries(tests)) {
    try {
        test(await load(module));
        tally.passed++;
    } catch (error) {
        console.error(`${name} (seed ${seed}):`, error);
        tally.failed++;
    }
}
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exitCode = tally.failed > 0 ? 1 : 0;
