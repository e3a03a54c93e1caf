// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests scene.mjs and times.mjs: a scene survives its link, and no link and no pasted text fails.
//
//     node web/model/scene_test.mjs WASM WEIR [SEED]

import assert from "node:assert/strict";
import { POLICIES, randomOf, randomTraffic, runTests } from "./model_test_kit.mjs";
import {
    MAX_EVENTS, MAX_KEYS, OFFSET_MAX, completeScene, leftOutOfHash, offsetOf, offsetText, sceneFromHash,
    sceneToHash,
} from "./scene.mjs";
import { parseTimes } from "./times.mjs";
import { World } from "./world.mjs";

const below = randomOf(Number(process.argv[4] ?? 1));
const pick = (list) => list[below(list.length)];
const many = (count, make) => Array.from({ length: count }, make);
const ROUNDS = 300;
const SECOND = 1e9;

const TEXTS = ["", "a b", "a&b=c#d", "100% + ü", "\u0000\n\t", "<script>", "'\"", "+", "%zz", "a,b"];
const NAMES = [
    "lane", "traffic", "rate", "users", "cost", "burst", "every", "at", "within", "spam", "seed", "times",
    "log", "speed", "span", "watch", "begin", "title", "compare", "hit", "__proto__", "constructor",
];
const VALUES = [
    "", "0", "-1", "1e999", "NaN", "1.5", "99999999999999999999", "%", "%00", "poisson", "log", "1,2", "9,9",
    "2026-02-30T00:00:00Z", "+275760-09-13T00:00:00.000Z", "1 1 a", "x y", "gcra+5/s", "a".repeat(5000),
];

function randomScene() {
    const lanes = many(1 + below(8), () => pick([...POLICIES, ...TEXTS]));
    return {
        lanes,
        traffic: pick([randomTraffic(below), { kind: "log", log: { name: pick(TEXTS) } }, { kind: "none" }]),
        hits: many(below(5), () => [below(1e9) * below(9e6), pick(TEXTS) || "user", below(2 ** 31)]),
        begin: new Date(below(2 ** 31) * 1000 + below(1000)).toISOString(),
        speed: pick([0.1, 1, 33.3, 10000]),
        span: pick([0.5, 10, 86400]),
        watch: pick(TEXTS),
        title: pick(TEXTS),
        compare: pick([null, [0, lanes.length - 1], [lanes.length - 1, 0]]),
    };
}

const linked = (scene) => sceneFromHash(sceneToHash(scene));

/** Asserts that every field is there and within its bounds. */
function assertBounded(scene) {
    const { traffic, lanes, hits, speed, span, begin, compare } = scene;
    assert(lanes.length >= 1 && lanes.length <= 8 && lanes.every((text) => text.length <= 2000));
    for (const name of ["seed", "users", "cost", "burst"])
        assert(Number.isInteger(traffic[name]) && traffic[name] >= 0 && traffic[name] < 2 ** 32, name);
    for (const name of ["rate", "everySeconds", "atSeconds", "withinSeconds", "spammerRate"])
        assert(traffic[name] >= 0 && traffic[name] <= 31536000, name);
    assert(traffic.users >= 1 && traffic.users <= MAX_KEYS && traffic.everySeconds > 0);
    assert(speed >= 0.01 && speed <= 10000 && span >= 0.1 && span <= 31536000);
    assert(Date.parse(begin) >= 0 && Date.parse(begin) <= Date.parse("2200-01-01T00:00:00Z"));
    assert(hits.every(([at, key, cost]) => at >= 0 && at <= OFFSET_MAX && key !== "" && cost >= 0));
    if (compare)
        assert(compare[0] !== compare[1] && compare.every((i) => i >= 0 && i < lanes.length));
}

const tests = {
    survives_its_link() {
        for (let i = 0; i < ROUNDS; i++) {
            const scene = completeScene(randomScene()), again = linked(scene);
            const { kind, times, log } = scene.traffic;
            assert.deepEqual({ ...again, traffic: null }, { ...scene, traffic: null });
            assert.equal(again.traffic.kind, kind);
            assert.equal(again.traffic.times, kind === "times" ? times : "");
            assert.deepEqual(again.traffic.log?.name, kind === "log" ? log.name : undefined);
            assert.deepEqual(linked(again), again);
            assertBounded(again);
        }
    },

    plays_the_same_after_its_link(weir) {
        for (let i = 0; i < 50; i++) {
            const scene = { lanes: [pick(POLICIES.slice(0, 8))], traffic: randomTraffic(below) };
            const [a, b] = [scene, linked(scene)].map((one) => new World(weir, one));
            [a, b].forEach((world) => world.seek(60 * SECOND));
            assert.deepEqual(a.lanes[0].totals(MAX_EVENTS), b.lanes[0].totals(MAX_EVENTS));
            assert.deepEqual(a.traffic.times, b.traffic.times);
            [a, b].forEach((world) => world.free());
        }
    },

    is_readable() {
        const traffic = { kind: "poisson", rate: 20 };
        const hits = [[1.5e9, "al ice", 2]];
        const hash = sceneToHash({ lanes: ["gcra 5/s burst 10", "a & b"], traffic, hits });
        assert.equal(hash, "#lane=gcra+5/s+burst+10&lane=a+%26+b&traffic=poisson&rate=20&hit=1.5+2+al+ice");
    },

    reads_any_link(weir) {
        for (let i = 0; i < 5000; i++) {
            const parts = many(below(12), () => `${pick(NAMES)}${pick(["=", "=", "", "=="])}${pick(VALUES)}`);
            const bytes = String.fromCharCode(...many(below(60), () => below(pick([128, 65536]))));
            const hash = pick([parts.join("&"), bytes, `lane=${bytes}`]);
            const scene = sceneFromHash(pick(["#", "", "##"]) + hash);
            if (scene) {
                assertBounded(scene);
                assert.deepEqual(linked(scene), scene);
            }
            if (scene && i % 50 === 0)
                new World(weir, scene).free();
        }
        for (const other of [null, undefined, 5, {}, "#", "#title=x", `#lane=${"x".repeat(70000)}`])
            assert.equal(sceneFromHash(other), null);
    },

    completes_anything() {
        const anything = [
            null, 5, "x", [], {}, { lanes: [5, null] }, { lanes: "x", traffic: "y", hits: [[], 5] },
            { hits: [[NaN, {}, -1], [1, null, "7"]], compare: [0, 0], speed: {} },
        ];
        for (const scene of anything)
            assertBounded(completeScene(scene));
    },

    says_what_the_link_leaves_out() {
        const times = "1.25\n".repeat(500);
        const hits = many(600, (_, i) => [i, "a", 1]);
        assert.deepEqual(leftOutOfHash({ lanes: ["x"] }), []);
        assert.match(leftOutOfHash({ lanes: ["x"], traffic: { kind: "log" } })[0], /log is not part/);
        const pasted = { lanes: ["x"], traffic: { kind: "times", times } };
        assert.match(leftOutOfHash(pasted)[0], /longer than 2 KB/);
        assert.equal(linked(pasted).traffic.times, "");
        assert.match(leftOutOfHash({ lanes: ["x"], hits })[0], /first 500/);
        assert.equal(linked({ lanes: ["x"], hits }).hits.length, 500);
    },

    writes_offsets_exactly() {
        const offsets = [0, 1, 999999999, 1e9, 1500000000, 2 ** 53 - 1];
        for (const offset of [...offsets, ...many(100, () => below(2 ** 32))])
            assert.equal(offsetOf(offsetText(offset)), offset);
        for (const text of ["", "x", "-1", "1e3", ".5", "99999999", "0x1"])
            assert(Number.isNaN(offsetOf(text)), text);
    },

    reads_pasted_times() {
        const { events, begin, errors } = parseTimes(
            "# times\n0.5\n1.2s alice\r\n\n250ms, bob, 3\n1h carol 0 # late\n2m\tdave\n",
        );
        assert.deepEqual([begin, errors], [null, []]);
        assert.deepEqual(events.names, ["bob", "user", "alice", "dave", "carol"]);
        assert.deepEqual([...events.times], [0.25, 0.5, 1.2, 120, 3600].map((s) => s * SECOND));
        assert.deepEqual([...events.costs], [3, 1, 1, 1, 0]);
    },

    reads_times_of_day() {
        const { events, begin } = parseTimes("12:00:03 alice 2\n12:00:01.5\n9:00:00");
        assert.equal(begin, "2026-01-01T09:00:00Z");
        assert.deepEqual([...events.times], [0, 10801.5 * SECOND, 10803 * SECOND]);
        const iso = parseTimes(
            "2026-03-29 00:30:00 bob\n2026-03-29T02:30:01+02:00 bob\n2026-03-29T00:30:02.000000001z",
        );
        assert.equal(iso.begin, "2026-03-29T00:30:00Z");
        assert.deepEqual([...iso.events.times], [0, SECOND, 2 * SECOND + 1]);
    },

    reports_lines_that_it_cannot_read() {
        const bad = [
            "yesterday", "1 a -1", "1 a 1 x", "24:00:00", "99999999999", "1 a 2147483648", "2026-01-01",
        ];
        const { events, errors } = parseTimes([...bad, "1 a 2147483647"].join("\n"));
        assert.deepEqual(errors.map(({ line }) => line), [1, 2, 3, 4, 5, 6, 7]);
        assert.match(errors[0].message, /found 'yesterday', expected a time: 0\.5/);
        assert.equal(events.times.length, 1);
        assert.equal(parseTimes("x\n".repeat(5000)).errors.length, 100);
        const keys = parseTimes(many(MAX_KEYS + 1, (_, i) => `1 key${i}`).join("\n"));
        assert.deepEqual([keys.events.names.length, keys.errors.length], [MAX_KEYS, 1]);
        assert.equal(parseTimes("1\n".repeat(MAX_EVENTS + 1)).events.times.length, MAX_EVENTS);
        assert.equal(parseTimes("1970-01-01T00:00:00Z\n2026-01-01T00:00:00Z").errors.length, 1);
    },

    reads_any_pasted_text() {
        for (let i = 0; i < 3000; i++) {
            const words = ["1", "0.5s", "12:00", "a", "2", "2026-01-01T00:00:00Z", "#", ",", "é", "\u0000"];
            const text = many(below(20), () => pick(words) + pick([" ", "\n", "\t", ""])).join("");
            const { times } = parseTimes(text).events;
            times.forEach((time, n) => assert(Number.isInteger(time) && time >= (times[n - 1] ?? 0)));
        }
    },
};

await runTests(tests);
