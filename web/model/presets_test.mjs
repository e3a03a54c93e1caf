// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests presets.mjs: every number of their texts, and the totals of each lane against `weir replay`.
//
//     node web/model/presets_test.mjs WASM WEIR

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { compare } from "./compare.mjs";
import { toCsv } from "./export.mjs";
import { runTests, zones } from "./model_test_kit.mjs";
import { presetOf, presets } from "./presets.mjs";
import { sceneFromHash, sceneToHash } from "./scene.mjs";
import { World } from "./world.mjs";

const program = process.argv[3];
const SECOND = 1e9;
const HOUR = 3600;
const LOOK_SECONDS = 20; // the longest look at a preset, by a clock on the wall

/** Returns the world of a preset after its duration. */
function played(weir, { scene, seconds }) {
    const world = new World(weir, scene, { zones });
    world.seek(seconds * SECOND);
    return world;
}

/** Returns the requests of a lane, with their time in seconds. */
function eventsOf(world, n) {
    const events = Array.from({ length: world.index }, (_, i) => world.lanes[n].event(i));
    return events.map((event) => ({ ...event, seconds: event.time / SECOND }));
}

const allowedOf = (events) => events.filter(({ allowed }) => allowed).length;
const during = (events, from, to) => events.filter(({ seconds }) => seconds >= from && seconds < to);
const ofKey = (events, key) => events.filter((event) => event.key === key);

/** What the text of each preset says: called with the events of its lanes and its world. */
const claims = {
    chat([events]) {
        const spammer = ofKey(events, "spammer"), others = events.filter(({ key }) => key !== "spammer");
        assert(spammer.length > 150 && spammer.length < 210);
        assert.equal(allowedOf(spammer), 3 + Math.floor(60 / 4) - 1);
        assert.equal(new Set(others.map(({ key }) => key)).size, 6);
        assert(allowedOf(others) >= others.length * 0.95);
    },
    github([events]) {
        const first = events.find(({ allowed }) => !allowed).seconds;
        assert.equal(first, 20 * 60 + 50);
        assert.equal(allowedOf(during(events, 0, HOUR)), 5000);
        assert.equal(allowedOf(during(events, HOUR, HOUR + 1250)), 5000);
        assert.equal(during(events, 0, 1).length, 4);
    },
    stripe([events]) {
        for (const begin of [1, 9, 17]) {
            const burst = during(events, begin, begin + 1);
            assert.deepEqual([burst.length, allowedOf(burst)], [700, 599]);
        }
        assert(events[699].resetNs <= 5 * SECOND);
    },
    openai([bucket, window]) {
        assert.equal(during(bucket, 0, HOUR).length, 250);
        assert.equal(allowedOf(during(bucket, 0, HOUR)), 200 + Math.floor(HOUR / 432));
        const second = during(bucket, 12 * HOUR, 13 * HOUR);
        assert(second[0].remaining >= 90 && second[0].remaining <= 100);
        const counts = [0, 12, 24].map((hour) => allowedOf(during(window, hour * HOUR, (hour + 1) * HOUR)));
        assert.deepEqual(counts, [200, 0, 200]);
    },
    login([events]) {
        const [alice, mallory] = ["alice", "mallory"].map((key) => ofKey(events, key));
        assert.deepEqual([alice.length, allowedOf(alice)], [3, 3]);
        assert.deepEqual([mallory.length, allowedOf(mallory)], [60, 10]);
    },
    "time-zones"(lanes, world) {
        const beginOf = (n, hours) => world.lanes[n].look("alice", hours * HOUR * SECOND)[0].beginNs;
        const begins = [0, 1].map((n) => [12, 36, 54].map((hours) => beginOf(n, hours) / HOUR / SECOND));
        const [berlin, york] = begins;
        assert.equal(york[0] - berlin[0], 5);
        assert.equal(york[2] - berlin[2], 6);
        assert.equal(berlin[2] - berlin[1], 23);
        lanes.forEach((events) => assert.equal(allowedOf(during(events, 5.5 * HOUR, 24.5 * HOUR)) > 0, true));
        assert.equal(allowedOf(during(lanes[0], berlin[1] * HOUR, berlin[2] * HOUR)), 100);
    },
    boundary([window, log]) {
        for (const begin of [3, 11]) {
            const counts = [window, log].map((events) => allowedOf(during(events, begin, begin + 2)));
            assert.deepEqual(counts, [8, 4]);
            const end = begin + 1; // of a window
            assert.deepEqual([during(log, begin, end).length, during(log, end, end + 1).length], [4, 4]);
        }
        assert(window.length <= 24);
    },
    gcra([without, withBurst]) {
        for (const begin of [1, 9, 17, 25]) {
            const counts = [without, withBurst].map((events) => allowedOf(during(events, begin, begin + 1)));
            assert.deepEqual([...counts, during(without, begin, begin + 1).length], [2, 11, 12]);
        }
    },
    "counter-vs-log"(lanes, { lanes: [log, counter], index }) {
        const { onlyA, onlyB, exact } = compare(counter, log, 0, index);
        assert(onlyA > 0 && onlyB > 0 && exact.wronglyAllowed > 0 && exact.wronglyDenied > 0);
    },
    slices(lanes, world) {
        const [log, two, twenty] = world.lanes;
        const wrong = [two, twenty].map((lane) => compare(lane, log, 0, world.index).exact);
        wrong.forEach((exact) => assert.equal(exact.wronglyDenied, 0));
        assert(wrong[0].wronglyAllowed > 2 * wrong[1].wronglyAllowed);
    },
    "from-first"([aligned, own]) {
        assert.equal(own[0].seconds, 50);
        assert.deepEqual([allowedOf(during(aligned, 50, 60)), allowedOf(during(aligned, 60, 120))], [6, 10]);
        assert.deepEqual([50, 110].map((at) => allowedOf(during(own, at, at + 60))), [10, 10]);
    },
    queue([queue, bucket]) {
        assert.equal(Math.max(...queue.map(({ delayNs }) => delayNs)), 3.5 * SECOND);
        assert.equal(allowedOf(queue), queue.length);
        for (const begin of [1, 7, 13])
            assert.equal(allowedOf(during(bucket, begin, begin + 6)), 4);
    },
    "two-stages"([staged, queue, bucket]) {
        for (const begin of [1, 13, 25]) {
            const delays = [staged, queue, bucket].map((events) => during(events, begin, begin + 1)
                .filter(({ allowed }) => allowed).map(({ delayNs }) => delayNs / SECOND));
            assert.deepEqual(delays[0], [0, 0, 0, 0, 0, 0.5, 1, 1.5, 2]);
            assert.deepEqual(delays[1], [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4]);
            assert.deepEqual(delays[2], Array(9).fill(0));
            assert.equal(during(staged, begin, begin + 1).length, 12);
        }
    },
    "full-queue"([queue]) {
        assert.equal(allowedOf(during(queue, 0, 10.25)), 41);
        const full = during(queue, 10.25, 40);
        full.forEach((event, i) => assert.equal(event.allowed, i % 2 === 1));
        full.forEach((event) => assert.equal(event.delayNs, event.allowed ? 10 * SECOND : 0));
    },
    layers([both, perSecond, perMinute]) {
        for (let begin = 1; begin < 30; begin += 5)
            assert.equal(allowedOf(during(both, begin, begin + 5)), 5);
        assert.equal(allowedOf(during(both, 30, 60)), 0);
        assert.equal(allowedOf(during(perSecond, 30, 60)), 30);
        assert.equal(allowedOf(during(perMinute, 0, 15)), 30);
    },
    "count-denied"([plain, counting]) {
        for (let begin = 0; begin < 60; begin += 10)
            assert.equal(allowedOf(during(plain, begin, begin + 10)), 5);
        assert.deepEqual([allowedOf(counting), allowedOf(during(counting, 0, 5))], [5, 5]);
    },
    steps([single, stepped]) {
        for (let begin = 10; begin < 60; begin += 5) {
            assert.equal(allowedOf(during(stepped, begin, begin + 2.5)), 5);
            assert.equal(allowedOf(during(stepped, begin, begin + 5)), 5);
            assert.equal(allowedOf(during(single, begin, begin + 5)), 5);
        }
    },
    costs([events]) {
        const exports = events.filter(({ cost }) => cost === 60);
        assert.equal(exports.map(({ allowed }) => (allowed ? "+" : "-")).join(""), "++-+-+-");
        assert(events.every(({ cost, allowed }) => cost === 60 || allowed));
    },
    steady([gcra, log]) {
        assert.equal(allowedOf(during(gcra, 0, 2.75)), 11);
        during(gcra, 2.75, 30).forEach((event, i) => assert.equal(event.allowed, i % 2 === 1));
        log.forEach((event, i) => assert.equal(event.allowed, i % 4 < 2));
    },
};

/** Returns the verdicts of weir replay on the requests of a world. */
function replay(world, policy) {
    const rows = toCsv(world).trimEnd().split("\r\n").slice(1).map((line) => line.split(",").slice(0, 3));
    const args = ["replay", "--no-progress", "--policy", policy, "--decisions", "jsonl", "-"];
    const input = rows.map((row) => `${row.join("\t")}\n`).join("");
    const { stdout, stderr, status } = spawnSync(program, args, { input, maxBuffer: 1 << 28 });
    assert.equal(status, 0, stderr?.toString());
    return stdout.toString().trimEnd().split("\n").map((line) => JSON.parse(line));
}

const tests = {
    have_ids_titles_and_texts() {
        assert.equal(new Set(presets.map(({ id }) => id)).size, presets.length);
        assert.deepEqual(Object.keys(claims).sort(), presets.map(({ id }) => id).sort());
        for (const preset of presets) {
            assert.match(preset.id, /^[a-z-]+$/);
            assert.match(preset.text, /^[A-Z].*\.$/);
            assert.equal(presetOf(preset.id), preset);
            assert.equal(preset.scene.title, preset.title);
        }
        assert.equal(presetOf("constructor"), null);
    },

    show_their_point_within_20_seconds() {
        for (const { id, seconds, scene } of presets)
            if (!["stripe", "openai", "steady"].includes(id))
                assert(seconds / scene.speed <= LOOK_SECONDS, id);
        const pointAt = { stripe: 10, openai: 13 * HOUR, steady: 10 };
        for (const [id, seconds] of Object.entries(pointAt))
            assert(seconds / presetOf(id).scene.speed <= LOOK_SECONDS, id);
    },

    fit_into_links() {
        for (const { scene } of presets) {
            assert.deepEqual(sceneFromHash(sceneToHash(scene)), scene);
            assert(sceneToHash(scene).length < 2200);
        }
    },

    decide_as_replay(weir) {
        for (const preset of presets) {
            const world = played(weir, preset);
            for (const lane of world.lanes) {
                const decisions = replay(world, lane.text), { allowed, denied } = lane.totals(world.index);
                assert.equal(decisions.filter((decision) => decision.allowed).length, allowed, preset.id);
                assert.equal(decisions.filter((decision) => !decision.allowed).length, denied, preset.id);
                decisions.forEach((decision, i) => {
                    const { remaining, delayNs } = lane.event(i);
                    assert.deepEqual([remaining, delayNs], [decision.remaining, decision.delay_ns ?? 0]);
                });
            }
            world.free();
        }
    },
};

for (const [id, claim] of Object.entries(claims)) {
    tests[`shows_${id}`] = (weir) => {
        const world = played(weir, presetOf(id));
        claim(world.lanes.map((_, n) => eventsOf(world, n)), world);
        world.free();
    };
}

await runTests(tests);
