// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests traffic.mjs, lane.mjs, world.mjs and compare.mjs: the same scene gives the same decisions, however
// its clock is moved.
//
//     node web/model/world_test.mjs WASM [SEED]

import assert from "node:assert/strict";
import { compare } from "./compare.mjs";
import { checkPolicy } from "./lane.mjs";
import { POLICIES, randomOf, randomTraffic, runTests, zones } from "./model_test_kit.mjs";
import { MAX_EVENTS } from "./scene.mjs";
import { Traffic } from "./traffic.mjs";
import { World } from "./world.mjs";

const seed = Number(process.argv[3] ?? 1);
const below = randomOf(seed);
const SECOND = 1e9;
const MINUTE = 60e9;
const ROUNDS = 60;

const pick = (list) => list[below(list.length)];

function randomScene() {
    const lanes = Array.from({ length: 1 + below(3) }, () => pick(POLICIES));
    return { lanes, traffic: randomTraffic(below), begin: "2026-03-28T22:59:30Z" };
}

const worldOf = (weir, scene) => new World(weir, scene, { zones });

/** Returns the requests that have happened with their decisions, for each lane. */
function decisionsOf({ lanes, index }) {
    const lengthOf = (lane) => Math.min(index, lane.decided);
    return lanes.map((lane) => Array.from({ length: lengthOf(lane) }, (_, i) => lane.event(i)));
}

/** Asserts that two worlds have the same requests, decisions, totals and states. */
function assertSame(world, expected) {
    assert.equal(world.index, expected.index);
    assert.deepEqual(decisionsOf(world), decisionsOf(expected));
    world.lanes.forEach((lane, i) => {
        assert.equal(lane.error, null);
        assert.deepEqual(lane.totals(world.index), expected.lanes[i].totals(world.index));
        for (const name of expected.traffic.names)
            assert.deepEqual(lane.look(name, world.now), expected.lanes[i].look(name, world.now));
    });
}

/** Moves the clock at random, at most to a minute, and then to a minute. */
function wander(world) {
    for (let i = below(30); i > 0; i--) {
        world.playing = below(4) > 0;
        world.speed = pick([0.1, 1, 10, 1000]);
        const moves = [
            () => world.seek(below(60000) * 1e6),
            () => world.step() && world.now > MINUTE && world.seek(MINUTE),
            () => world.advance(Math.min(16, (MINUTE - world.now) / 1e6 / world.speed)),
            () => world.lanes[0].look(pick(["alice", "bob", "key1"]), world.now, world.index),
        ];
        if (world.now <= MINUTE)
            pick(moves)();
        assert(world.index <= world.lanes[0].decided);
    }
    world.seek(MINUTE);
}

const tests = {
    decides_the_same_however_the_clock_moves(weir) {
        for (let i = 0; i < ROUNDS; i++) {
            const scene = randomScene(), world = worldOf(weir, scene), expected = worldOf(weir, scene);
            expected.seek(MINUTE);
            wander(world);
            assertSame(world, expected);
            [world, expected].forEach((one) => one.free());
        }
    },

    generates_the_same_traffic_in_any_number_of_calls() {
        for (let i = 0; i < ROUNDS; i++) {
            const spec = randomTraffic(below), a = new Traffic(spec), b = new Traffic(spec);
            a.extendTo(MINUTE);
            for (let offset = 0; offset < MINUTE; offset += below(10) * SECOND)
                b.extendTo(offset);
            b.extendTo(MINUTE);
            assert.equal(a.length, b.length);
            assert.deepEqual(a.times.slice(0, a.length), b.times.slice(0, b.length));
            assert.deepEqual(a.keys.slice(0, a.length), b.keys.slice(0, b.length));
            for (let n = 1; n < a.length; n++)
                assert(a.times[n - 1] <= a.times[n] && Number.isInteger(a.times[n]));
            assert(a.keys.subarray(0, a.length).every((key) => key < a.names.length));
        }
    },

    keeps_hits_of_any_time(weir) {
        for (let i = 0; i < ROUNDS; i++) {
            const scene = randomScene(), world = worldOf(weir, scene);
            for (let n = 1 + below(8); n > 0; n--) {
                world.seek(below(60000) * 1e6);
                const key = pick(["alice", "bob", "someone else"]), cost = below(4);
                const index = world.hit(key, cost);
                const event = world.lanes[0].event(index);
                assert.deepEqual([event.key, event.cost, event.time], [key, cost, world.now]);
                assert.equal(world.index, index + 1);
            }
            world.seek(MINUTE);
            const again = worldOf(weir, JSON.parse(JSON.stringify(world.scene)));
            again.seek(MINUTE);
            assertSame(world, again);
            world.clearHits();
            const without = worldOf(weir, scene);
            without.seek(MINUTE);
            assert.deepEqual(decisionsOf(world), decisionsOf(without));
            [world, again, without].forEach((one) => one.free());
        }
    },

    looks_at_any_moment_as_if_the_clock_stood_there(weir) {
        for (let i = 0; i < ROUNDS; i++) {
            const scene = randomScene(), world = worldOf(weir, scene);
            world.seek(MINUTE);
            for (let n = 0; n < 5; n++) {
                const offset = below(60000) * 1e6, there = worldOf(weir, scene);
                there.seek(offset);
                const name = pick(there.traffic.names);
                const index = world.traffic.countTo(offset);
                world.lanes.forEach((lane, l) => {
                    assert.deepEqual(lane.look(name, offset), there.lanes[l].look(name, offset));
                    assert.deepEqual(lane.totals(index), there.lanes[l].totals(there.index));
                });
                there.free();
            }
            world.free();
        }
    },

    looks_at_what_a_hit_has_changed(weir) {
        const traffic = { kind: "steady", rate: 1 }, lanes = ["sliding-log 100/m"];
        const world = worldOf(weir, { lanes, traffic }), [lane] = world.lanes;
        const usedAt = (second) => lane.look("alice", second * SECOND)[0].used;
        world.seek(10 * SECOND);
        world.seek(5 * SECOND);
        assert.deepEqual([usedAt(8), lane.rate(8 * SECOND, MINUTE, "alice")], [9, 9]);
        world.hit("alice", 20);
        world.seek(10 * SECOND);
        assert.deepEqual([usedAt(8), usedAt(4)], [29, 5]);
        assert.equal(lane.rate(8 * SECOND, MINUTE, "alice"), 29);
        world.traffic.extendTo(30 * SECOND);
        assert.equal(usedAt(30), 51); // not decided yet
        world.hit("alice", 3);
        assert.equal(usedAt(30), 54);
        world.seek(2 * SECOND);
        world.hit("bob", 7);
        assert.deepEqual([usedAt(30), lane.look("bob", 30 * SECOND)[0].used], [54, 7]);
        assert.equal(lane.rate(2 * SECOND, MINUTE, "bob"), 7);
        world.free();
    },

    shares_the_module_with_worlds_of_other_times(weir) {
        const lanes = ["fixed-window 5/day"], hits = [[0, "alice", 1]];
        const [a, b] = ["2026-01-01T12:00:00Z", "2026-01-01T18:00:00Z"].map((begin) =>
            worldOf(weir, { lanes, hits, begin }));
        for (const [world, hours] of [[a, 12], [b, 6], [a, 12], [b, 6]]) {
            assert.equal(world.lanes[0].look("alice", 0)[0].endNs, hours * 3600 * SECOND);
            assert.equal(world.lanes[0].event(world.hit("alice")).resetNs, hours * 3600 * SECOND);
        }
        [a, b].forEach((world) => world.free());
    },

    generates_what_each_kind_says() {
        const listOf = (spec, seconds) => {
            const traffic = new Traffic(spec);
            traffic.extendTo(seconds * SECOND);
            const { times, names, keys, costs, length } = traffic;
            return Array.from({ length }, (_, i) => [times[i] / SECOND, names[keys[i]], costs[i]]);
        };
        assert.deepEqual(listOf({ kind: "steady", rate: 2, users: 2, cost: 3 }, 1),
            [[0, "alice", 3], [0.5, "bob", 3], [1, "alice", 3]]);
        const bursts = { kind: "bursts", burst: 2, users: 2, everySeconds: 1, atSeconds: 0.5 };
        const list = [[0.5, "alice", 1], [0.5, "bob", 1], [1.5, "alice", 1], [1.5, "bob", 1]];
        assert.deepEqual(listOf(bursts, 2), list);
        assert.deepEqual(listOf({ ...bursts, withinSeconds: 9 }, 1.9).map(([time]) => time), [0.5, 1, 1.5]);
        const spammed = listOf({ kind: "spammer", rate: 1, users: 2, spammerRate: 50, cost: 1 }, 60);
        const spam = spammed.filter(([, name]) => name === "spammer").length;
        assert(spam > 2700 && spam < 3300 && spammed.length - spam > 30 && spammed.length - spam < 90);
        assert.equal(new Traffic({ kind: "times", times: "1 a\n2 b\n3 b" }).mainName, "b");
        assert.equal(new Traffic({ kind: "none" }).mainName, "user");
        for (const kind of ["none", "steady", "poisson", "spammer"])
            assert(new Traffic({ kind, rate: 0, spammerRate: 0 }).ended);
    },

    sums_and_rates_are_those_of_the_requests(weir) {
        for (let i = 0; i < ROUNDS; i++) {
            const world = worldOf(weir, randomScene());
            world.seek(MINUTE);
            const n = below(world.lanes.length), lane = world.lanes[n], events = decisionsOf(world)[n];
            const offset = below(70000) * 1e6, windowNs = below(30000) * 1e6;
            const name = pick(world.traffic.names);
            const isIn = (e) => e.allowed && e.time <= offset && e.time > offset - windowNs;
            const inWindow = events.filter(isIn);
            const unitsOf = (list) => list.reduce((sum, e) => sum + e.cost, 0);
            assert.equal(lane.rate(offset, windowNs), unitsOf(inWindow));
            assert.equal(lane.rate(offset, windowNs, name), unitsOf(inWindow.filter((e) => e.key === name)));
            const index = below(events.length + 1), first = events.slice(0, index);
            assert.deepEqual(lane.totals(index), {
                requests: index,
                allowed: first.filter((e) => e.allowed).length,
                denied: first.filter((e) => !e.allowed).length,
                delayed: first.filter((e) => e.allowed && e.delayNs > 0).length,
                units: unitsOf(first),
                unitsAllowed: unitsOf(first.filter((e) => e.allowed)),
                delayNs: first.reduce((sum, e) => sum + (e.allowed ? e.delayNs : 0), 0),
            });
            world.free();
        }
    },

    compares_lanes(weir) {
        for (let i = 0; i < ROUNDS; i++) {
            const world = worldOf(weir, { ...randomScene(), lanes: [pick(POLICIES), "sliding-log 5/10s"] });
            world.seek(below(60) * SECOND);
            compare(world.lanes[0], world.lanes[1], 0, world.index);
            world.seek(MINUTE);
            const result = compare(world.lanes[0], world.lanes[1], 0, world.index);
            const [a, b] = decisionsOf(world);
            const count = (test) => a.filter((event, n) => test(event.allowed, b[n].allowed)).length;
            assert.equal(result.requests, a.length);
            assert.equal(result.both, count((x, y) => x && y));
            assert.equal(result.neither, count((x, y) => !x && !y));
            assert.equal(result.onlyA, count((x, y) => x && !y));
            assert.equal(result.onlyB, count((x, y) => !x && y));
            const differs = a.filter((event, n) => event.allowed !== b[n].allowed);
            assert.deepEqual(result.marks, differs.map((event) => event.index));
            assertExact(result.exact, a);
            const from = below(a.length), later = compare(world.lanes[0], world.lanes[1], from, world.index);
            assert.equal(later.requests, a.length - from);
            compare(world.lanes[0], world.lanes[1], 0, world.index);
            world.seek(0);
            world.hit(pick(world.traffic.names), 5);
            world.seek(MINUTE);
            const changed = decisionsOf(world)[0];
            assertExact(compare(world.lanes[0], world.lanes[1], 0, world.index).exact, changed);
            world.free();
        }
    },

    measures_a_sliding_log_as_exact(weir) {
        const lanes = ["sliding-log 5/10s", "sliding-log 5/10s"];
        const world = worldOf(weir, { lanes, traffic: { kind: "poisson", rate: 3, users: 3 } });
        world.seek(MINUTE);
        const { onlyA, onlyB, exact } = compare(world.lanes[0], world.lanes[1], 0, world.index);
        assert.deepEqual([onlyA, onlyB, exact.wronglyAllowed, exact.wronglyDenied], [0, 0, 0, 0]);
        world.free();
    },

    steps_through_every_request(weir) {
        const traffic = { kind: "bursts", burst: 3, everySeconds: 1 };
        const world = worldOf(weir, { lanes: ["gcra 1/s burst 2"], traffic });
        for (let i = world.index; i < 10; i++) {
            assert(world.step());
            assert.deepEqual([world.index, world.now], [i + 1, world.traffic.times[i]]);
        }
        world.setTraffic({ kind: "none" });
        assert(!world.step() && world.ended);
        world.free();
    },

    stops_the_clock_when_the_budget_is_used_up(weir) {
        const lanes = POLICIES.slice(0, 8);
        const world = worldOf(weir, { lanes, traffic: { kind: "steady", rate: 100000 }, speed: 1000 });
        world.playing = true;
        world.advance(1000, 0);
        assert(world.late && world.index > 0 && world.index < MAX_EVENTS);
        assert.equal(world.now, world.traffic.times[world.index - 1]);
        const before = world.now;
        world.advance(1000, 0);
        assert(world.now > before);
        world.seek(world.now);
        assert(!world.late);
        world.free();
    },

    ends_at_the_most_requests_and_keys(weir) {
        const steady = { kind: "steady", rate: 1e6, users: 9999 };
        const world = worldOf(weir, { lanes: ["gcra 1/s"], traffic: steady });
        world.seek(3 * SECOND);
        assert.deepEqual([world.index, world.ended], [MAX_EVENTS, true]);
        assert.equal(world.hit("alice"), -1);
        const traffic = new Traffic({ kind: "none" });
        for (let i = 0; i < 10000; i++)
            assert.equal(traffic.insert(i, `key${i}`, 1), i);
        assert.equal(traffic.insert(0, "another", 1), -1);
        assert.equal(traffic.insert(0, "key7", 1), 1);
        world.free();
    },

    changes_lanes_while_it_runs(weir) {
        const poisson = { kind: "poisson", rate: 20 };
        const world = worldOf(weir, { lanes: ["gcra 5/s", "gcra 6/s"], traffic: poisson });
        world.scene.compare = [0, 1];
        world.seek(10 * SECOND);
        assert.equal(world.setLane(0, "gcra 5/x").error.column, 8);
        assert.deepEqual([world.lanes[0].decided, world.lanes[0].look("alice", 0)], [0, []]);
        world.setLane(0, "sliding-log 5/s");
        const fresh = worldOf(weir, world.scene);
        fresh.seek(10 * SECOND);
        assertSame(world, fresh);
        for (let i = 2; i < 8; i++)
            assert.equal(world.addLane(POLICIES[i]).decided, world.index);
        assert.equal(world.addLane("gcra 1/s"), null);
        world.removeLane(1);
        assert.deepEqual([world.lanes.length, world.scene.lanes.length, world.scene.compare], [7, 7, null]);
        world.scene.compare = [3, 1];
        world.removeLane(2);
        assert.deepEqual(world.scene.compare, [2, 1]);
        [world, fresh].forEach((one) => one.free());
    },

    holds_the_traffic_for_requests_by_hand(weir) {
        const listed = Array.from({ length: 30 }, (_, i) => `${i} user`).join("\n");
        for (const traffic of [{ kind: "steady", rate: 1 }, { kind: "times", times: listed }]) {
            const world = worldOf(weir, { lanes: ["sliding-log 100/m"], traffic });
            world.seek(5 * SECOND);
            world.hold(true);
            world.hit("user");
            assert.deepEqual([world.held, world.index], [true, 7]);
            world.seek(9.5 * SECOND);
            world.hit("user");
            assert.equal(world.index, 8);
            world.hold(false);
            world.seek(12 * SECOND);
            const times = [0, 1, 2, 3, 4, 5, 5, 9.5, 10, 11, 12].map((time) => time * SECOND);
            assert.deepEqual([world.held, [...world.traffic.times.slice(0, world.index)]], [false, times]);
            world.seek(0);
            world.seek(12 * SECOND);
            assert.equal(world.index, 11);
            world.reset();
            world.seek(12 * SECOND);
            assert.equal(world.index, 13);
            world.free();
        }
    },

    starts_again_as_the_scene_was(weir) {
        const scene = { ...randomScene(), hits: [[SECOND, "bob", 2]] };
        const world = worldOf(weir, scene), fresh = worldOf(weir, scene);
        world.seek(20 * SECOND);
        world.hit("alice");
        world.reset();
        assert.deepEqual([world.now, world.scene.hits], [0, [[SECOND, "bob", 2]]]);
        [world, fresh].forEach((one) => one.seek(MINUTE));
        assertSame(world, fresh);
        [world, fresh].forEach((one) => one.free());
    },

    begins_pasted_times_of_day_in_their_second(weir) {
        const times = "2026-03-29T00:59:58.5Z alice\n2026-03-29T03:00:01+02:00 bob 2";
        const world = worldOf(weir, { lanes: ["fixed-window 1/h"], traffic: { kind: "times", times } });
        world.seek(MINUTE * 2);
        assert.equal(world.scene.begin, "2026-03-29T00:59:58Z");
        assert.deepEqual(decisionsOf(world)[0].map(({ time, key, cost }) => [time, key, cost]),
            [[0.5 * SECOND, "alice", 1], [3 * SECOND, "bob", 2]]);
        world.free();
    },

    survives_a_full_memory(weir) {
        const lanes = Array(8).fill("sliding-slices 100/h slices 65536");
        const world = worldOf(weir, { lanes, traffic: { kind: "steady", rate: 1000, users: 5000 } });
        world.seek(10 * SECOND);
        assert(world.lanes.some((lane) => lane.error?.message));
        assert.equal(world.index, 10001);
        world.lanes.forEach((lane) => assert(lane.totals(world.index).requests <= 10001));
        world.free();
    },

    checks_a_policy_text(weir) {
        assert.equal(checkPolicy(weir, "gcra 60/60s").text, "gcra 60/m burst 1");
        assert.match(checkPolicy(weir, "gcra 5/x").error.message, /unknown unit 'x'/);
        assert.equal(checkPolicy(weir, "fixed-window 5/day tz Europe/Berlin").error.zone, "Europe/Berlin");
        assert.equal(checkPolicy(weir, "fixed-window 5/day tz Europe/Berlin", zones).error, null);
        assert.equal(checkPolicy(weir, "gcra 5/s ".repeat(200)).error.name, "PolicyError");
    },

    answers_with_the_headers_of_the_daemon(weir) {
        const hits = [[0, "alice", 4], [6e6, "alice", 4]];
        const [lane] = worldOf(weir, { lanes: ["gcra 10/m burst 5"], hits }).lanes;
        lane.decideTo(2);
        assert.deepEqual(lane.headers(1), [
            ["HTTP/1.1", "429 Too Many Requests"],
            ["RateLimit-Policy", '"limit";q=5;w=30'],
            ["RateLimit", '"limit";r=1;t=24'],
            ["X-RateLimit-Limit", "5"],
            ["X-RateLimit-Remaining", "1"],
            ["X-RateLimit-Reset", "24"],
            ["Retry-After", "18"],
            ["Cache-Control", "no-store"],
        ]);
    },
};

/** Asserts the figures against a sliding log of 5 in 10 seconds, from its definition. */
function assertExact(exact, events) {
    const before = (event) => events.slice(0, event.index).filter((e) =>
        e.allowed && e.key === event.key && e.time > event.time - 10 * SECOND);
    const fits = (event) => before(event).reduce((sum, e) => sum + e.cost, event.cost) <= 5;
    assert.equal(exact.lane, "a");
    assert.equal(exact.wronglyAllowed, events.filter((e) => e.allowed && !fits(e)).length);
    assert.equal(exact.wronglyDenied, events.filter((e) => !e.allowed && fits(e)).length);
}

await runTests(tests);
