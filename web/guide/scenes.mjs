// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The scenes of the guide's pictures, by the data-scene of their figures in guide.html. guide_test.mjs
// runs them, and compares what happens with the numbers in the text.

import { completeScene } from "../model/scene.mjs";

/**
 * @typedef {object} Picture
 * @property {string[]} titles one for each lane
 * @property {number} start the second at which the picture starts, so that there is something to see
 * @property {number} still the second that is shown where nothing moves: on paper, and with reduced motion
 * @property {import("../model/scene.mjs").Scene} scene
 */

const BEGIN = "2026-01-05T12:00:05Z"; // windows of ten seconds begin at the offsets 5 s, 15 s, ..

/** Returns the times of `count` requests in seconds, one every `step` seconds. */
const series = (from, count, step) => Array.from({ length: count }, (_, i) => from + i * step);

/** Repeats a pattern of times, and writes it as pasted times. */
function repeat(pattern, everySeconds, rounds) {
    const times = series(0, rounds, everySeconds).flatMap((start) => pattern.map((time) => start + time));
    return { kind: "times", times: times.map((time) => Number(time.toFixed(3))).join("\n") };
}

/** Requests of one client that a load balancer sends to two servers in turn. */
function alternate(rate, seconds) {
    const lines = series(0, rate * seconds, 1 / rate).map((time, i) => `${time} server-${1 + (i % 2)}`);
    return { kind: "times", times: lines.join("\n") };
}

/**
 * @param {string} title
 * @param {[string, string][]} lanes the title and the policy of each
 * @param {any} rest `start`, `still`, and other fields of the scene
 * @returns {Picture}
 */
function picture(title, lanes, { start = 0, still = start, ...rest }) {
    const policies = lanes.map(([, policy]) => policy);
    return {
        titles: lanes.map(([name]) => name),
        start,
        still,
        scene: completeScene({ begin: BEGIN, ...rest, title, lanes: policies }),
    };
}

/** A server of the figure "servers". */
const serverLane = (name, traffic) =>
    picture(name, [[name, "sliding-log 10/10s"]], { traffic, speed: 2, span: 20 });

const afterIdling = [...series(1, 15, 0.06), ...series(6, 15, 0.06), ...series(26, 15, 0.06)];
const lateInWindow = [...series(4, 10, 0.1), ...series(5, 40, 0.25)];

/** @type {Readonly<Record<string, Picture>>} */
export const pictures = Object.freeze({
    "chat": picture("A chat with one spammer", [["Each user", "token-bucket 3 refill 1/4s"]], {
        start: 3,
        still: 60,
        traffic: { kind: "spammer", rate: 0.5, users: 5, spammerRate: 2, seed: 3 },
        watch: "spammer",
        span: 30,
    }),
    "fixed-window": picture("A fixed window", [["Fixed window", "fixed-window 6/10s"]], {
        start: 14,
        traffic: { kind: "poisson", rate: 0.8, seed: 5 },
        speed: 2,
        span: 24,
    }),
    "from-first": picture("A window that begins with the first request", [
        ["Window from the first request", "fixed-window 6/10s from-first"],
    ], {
        start: 9,
        traffic: { kind: "bursts", burst: 8, atSeconds: 3, everySeconds: 16, withinSeconds: 7 },
        speed: 2,
        span: 30,
    }),
    "boundary": picture("The burst at a boundary", [
        ["Fixed window", "fixed-window 10/10s"], ["Sliding log", "sliding-log 10/10s"],
    ], {
        start: 7,
        traffic: { kind: "bursts", burst: 20, atSeconds: 4, everySeconds: 20, withinSeconds: 2 },
        speed: 2,
        span: 16,
        compare: [0, 1],
    }),
    "sliding-log": picture("A sliding window", [["Sliding log", "sliding-log 6/10s"]], {
        start: 14,
        traffic: { kind: "poisson", rate: 0.8, seed: 5 },
        speed: 2,
        span: 24,
    }),
    "starved": picture("The starved client", [
        ["Log of allowed requests", "sliding-log 5/10s"],
        ["Log of all requests", "sliding-log 5/10s count-denied"],
    ], {
        start: 14,
        traffic: { kind: "steady", rate: 1 },
        speed: 3,
        span: 30,
        compare: [0, 1],
    }),
    "counter": picture("A sliding counter after a late burst", [
        ["Sliding counter", "sliding-counter 10/10s"], ["Sliding log", "sliding-log 10/10s"],
    ], {
        start: 8,
        traffic: repeat(lateInWindow, 30, 6),
        speed: 2,
        span: 20,
        compare: [0, 1],
    }),
    "even": picture("A sliding counter with random traffic", [
        ["Sliding counter", "sliding-counter 100/10s"], ["Sliding log", "sliding-log 100/10s"],
    ], {
        start: 20,
        traffic: { kind: "poisson", rate: 12, seed: 11 },
        speed: 5,
        span: 60,
        compare: [0, 1],
    }),
    "slices": picture("A sliding window in slices", [["Slices", "sliding-slices 10/10s slices 5"]], {
        start: 7,
        traffic: { kind: "poisson", rate: 1.5, seed: 2 },
        span: 20,
    }),
    "token-bucket": picture("The burst after idling", [["Token bucket", "token-bucket 10 refill 1/s"]], {
        start: 4,
        traffic: repeat(afterIdling, 45, 6),
        speed: 2,
        span: 30,
    }),
    "gcra": picture("GCRA without and with a burst", [
        ["Without a burst", "gcra 2/s burst 1"], ["With a burst", "gcra 2/s burst 5"],
    ], {
        start: 3,
        traffic: { kind: "bursts", burst: 5, atSeconds: 1, everySeconds: 4, withinSeconds: 0.5 },
        span: 12,
        compare: [0, 1],
    }),
    "leaky-bucket": picture("A leaky bucket and a token bucket", [
        ["Leaky bucket", "leaky-bucket 2/s capacity 5"], ["Token bucket", "token-bucket 5 refill 2/s"],
    ], {
        start: 4,
        traffic: { kind: "poisson", rate: 3, seed: 4 },
        span: 12,
        compare: [0, 1],
    }),
    "queue": picture("The queue that only adds latency", [
        ["Queue", "leaky-queue 2/s depth 10"], ["Bucket", "leaky-bucket 2/s capacity 11"],
    ], {
        start: 9,
        traffic: { kind: "steady", rate: 3 },
        speed: 2,
        span: 20,
        compare: [0, 1],
    }),
    "servers": picture("Two servers, each with its own count", [["Each server", "sliding-log 10/10s"]], {
        start: 6,
        traffic: alternate(4, 30),
        speed: 2,
        span: 20,
    }),
    "layers": picture("A short and a long limit", [
        ["Both limits", "gcra 1/s burst 4 & fixed-window 20/m"],
    ], {
        begin: "2026-01-05T12:00:00Z",
        start: 22,
        traffic: { kind: "bursts", burst: 4, atSeconds: 0, everySeconds: 4, withinSeconds: 0.4 },
        speed: 4,
        span: 60,
    }),
    "run": picture("The limit of the last section", [["Token bucket", "token-bucket 10 refill 1/s"]], {
        start: 3,
        traffic: { kind: "bursts", burst: 11, atSeconds: 1, everySeconds: 20, withinSeconds: 0.4 },
        span: 30,
    }),
});

/** The lanes of the figure "servers": the servers with counts of their own, and a shared count. */
export const servers = Object.freeze({
    limit: 10,
    windowSeconds: 10,
    lanes: [
        serverLane("Server 1", { kind: "bursts", burst: 1, atSeconds: 0, everySeconds: 0.5 }),
        serverLane("Server 2", { kind: "bursts", burst: 1, atSeconds: 0.25, everySeconds: 0.5 }),
        serverLane("Both servers with a shared count", { kind: "steady", rate: 4 }),
    ],
});

/**
 * Counts what the lanes of `servers` allowed in the last window.
 * @param {any[]} worlds a world for each of the lanes, with the same time
 * @returns {{own: number, shared: number}} units: of both servers together, and with a shared count
 */
export function countServers(worlds) {
    const windowNs = servers.windowSeconds * 1e9;
    const [one, two, shared] = worlds.map((world) => world.lanes[0].rate(world.now, windowNs));
    return { own: one + two, shared };
}
