// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Scenes that each show one thing. presets_test.mjs asserts every number of their texts.

import { completeScene } from "./scene.mjs";

/**
 * @typedef {object} Preset
 * @property {string} id
 * @property {string} title
 * @property {string} text what it shows, in two or three sentences
 * @property {number} seconds how long the scene takes, in its own time
 * @property {string[]} zones the time zones whose data it needs
 * @property {import("./scene.mjs").Scene} scene
 */

const HOUR = 3600;

/** @returns {Preset} */
function preset(id, title, text, seconds, scene) {
    const zones = scene.lanes.flatMap((lane) => [...lane.matchAll(/ tz (\S+)/g)].map((match) => match[1]));
    return { id, title, text: text.join(" "), seconds, zones, scene: completeScene({ ...scene, title }) };
}

const steady = (rate, more) => ({ kind: "steady", rate, ...more });
const bursts = (burst, more) => ({ kind: "bursts", burst, ...more });

/** Returns a line for each request: `count` of them, the first at `first`, then every `every` seconds. */
function linesOf(name, cost, first, every, count) {
    return Array.from({ length: count }, (_, i) => `${first + i * every} ${name} ${cost}`);
}

const loginAttempts = [
    "# Alice mistypes her password.",
    ...linesOf("alice", 1, 8, 6, 3),
    "# Mallory tries every password.",
    ...linesOf("mallory", 1, 1, 2, 60),
].join("\n");

const readsAndExports = [
    "# reads",
    ...linesOf("alice", 1, 0.5, 0.5, 58),
    "# exports",
    ...linesOf("alice", 60, 5, 4, 7),
].join("\n");

const companies = [
    preset(
        "chat",
        "A chat with one spammer",
        [
            "Each user may send 3 messages at once, and then one every 4 seconds.",
            "The spammer tries 3 messages a second and gets one through every 4 seconds.",
            "The other six users have limits of their own, which the spammer does not use up.",
        ],
        60,
        {
            lanes: ["token-bucket 3 refill 1/4s"],
            traffic: { kind: "spammer", rate: 0.6, users: 6, spammerRate: 3, seed: 7 },
            watch: "spammer",
            speed: 3,
            span: 30,
        },
    ),
    preset(
        "github",
        "GitHub: 5,000 requests an hour",
        [
            "In this policy, the window begins at the full hour.",
            "A script that sends 4 requests a second from 09:00 has used its 5,000 at 09:20:50,",
            "and is denied for the rest of the hour. At 10:00, all 5,000 are available again at once.",
        ],
        1.5 * HOUR,
        {
            lanes: ["fixed-window 5000/h"],
            begin: "2026-01-01T09:00:00Z",
            traffic: steady(4),
            speed: 300,
            span: 1.25 * HOUR,
        },
    ),
    preset(
        "stripe",
        "Stripe: 100 a second with bursts of 500",
        [
            "The bucket has 500 tokens and regains 100 a second.",
            "Of a burst of 700 requests within a second, it allows 599.",
            "After 5 seconds of rest the bucket is full again.",
        ],
        24,
        {
            lanes: ["token-bucket 500 refill 100/s", "fixed-window 100/s"],
            traffic: bursts(700, { everySeconds: 8, atSeconds: 1, withinSeconds: 1 }),
            span: 16,
        },
    ),
    preset(
        "openai",
        "OpenAI: 200 requests a day",
        [
            "A bucket of 200 tokens that regains 200 a day returns one every 432 seconds.",
            "The client sends 250 requests in the hour after 09:00, and again 12 hours later,",
            "when about half of its tokens have returned.",
            "The window of a calendar day allows 200 again from midnight UTC on.",
        ],
        30 * HOUR,
        {
            lanes: ["token-bucket 200 refill 200/d", "fixed-window 200/day"],
            begin: "2026-01-01T09:00:00Z",
            traffic: bursts(250, { everySeconds: 12 * HOUR, atSeconds: 0, withinSeconds: HOUR }),
            speed: 5000,
            span: 24 * HOUR,
        },
    ),
    preset(
        "login",
        "A login form",
        [
            "Each account is allowed five attempts in any minute.",
            "Alice mistypes her password three times and is never denied.",
            "Mallory tries a password every 2 seconds, and 10 of 60 attempts in two minutes are allowed.",
        ],
        120,
        {
            lanes: ["sliding-log 5/m"],
            traffic: { kind: "times", times: loginAttempts },
            watch: "mallory",
            speed: 8,
            span: 90,
        },
    ),
    preset(
        "time-zones",
        "A day in two time zones",
        [
            "Both limits allow 100 requests a day, and each day begins at midnight in its own zone.",
            "On 28 March, Berlin's day begins 5 hours before New York's, and on 30 March 6 hours before it:",
            "on 29 March the clocks in Berlin go forward, so that day has 23 hours.",
        ],
        54.5 * HOUR,
        {
            lanes: ["fixed-window 100/day tz Europe/Berlin", "fixed-window 100/day tz America/New_York"],
            begin: "2026-03-27T22:30:00Z",
            traffic: steady(0.002),
            speed: 10000,
            span: 48 * HOUR,
            compare: [0, 1],
        },
    ),
];

const comparisons = [
    preset(
        "boundary",
        "The burst at the boundary of a window",
        [
            "Each limit is 4 in 4 seconds.",
            "The client sends 4 requests in the second before a window ends, and 4 in the second after.",
            "The fixed window allows all 8 of them, twice its limit. The sliding log allows 4.",
        ],
        20,
        {
            lanes: ["fixed-window 4/4s", "sliding-log 4/4s"],
            traffic: bursts(8, { atSeconds: 3, everySeconds: 8, withinSeconds: 2 }),
            span: 12,
            compare: [0, 1],
        },
    ),
    preset(
        "gcra",
        "GCRA with and without a burst",
        [
            "Both limits allow 2 requests a second. Every 8 seconds the client sends 12 within a second.",
            "Without a burst, requests must be half a second apart, and 2 of the 12 pass.",
            "With a burst of 10, 11 pass: the 10 of the burst, and one that became available meanwhile.",
        ],
        33,
        {
            lanes: ["gcra 2/s burst 1", "gcra 2/s burst 10"],
            traffic: bursts(12, { everySeconds: 8, atSeconds: 1, withinSeconds: 1 }),
            speed: 2,
            span: 16,
            compare: [0, 1],
        },
    ),
    preset(
        "counter-vs-log",
        "The sliding counter against the exact log",
        [
            "The log stores the time of every allowed request and is exact.",
            "The counter stores two counts for each key, and assumes that the earlier traffic was even.",
            "Triangles mark the requests on which lanes A and B differ.",
            "Lane C is the counter with the option relaxed.",
        ],
        60,
        {
            lanes: ["sliding-log 20/10s", "sliding-counter 20/10s", "sliding-counter 20/10s relaxed"],
            traffic: { kind: "poisson", rate: 3, seed: 11 },
            speed: 3,
            span: 30,
            compare: [0, 1],
        },
    ),
    preset(
        "slices",
        "How many slices are enough",
        [
            "The window moves by whole slices, so a request can stop counting up to one slice too early.",
            "With 2 slices that is up to 5 seconds, and with 20 slices up to half a second.",
            "With more slices, the decisions come closer to those of the exact log.",
        ],
        60,
        {
            lanes: [
                "sliding-log 20/10s", "sliding-slices 20/10s slices 2", "sliding-slices 20/10s slices 20",
            ],
            traffic: { kind: "poisson", rate: 3, seed: 5 },
            speed: 3,
            span: 30,
            compare: [1, 0],
        },
    ),
    preset(
        "from-first",
        "A window that begins with the first request",
        [
            "The client sends 6 requests every 20 seconds. Both windows last a minute and allow 10.",
            "In lane A, a window begins at each full minute.",
            "In lane B, it begins with the key's first request, here 50 seconds after a full minute.",
        ],
        180,
        {
            lanes: ["fixed-window 10/m", "fixed-window 10/m from-first"],
            traffic: bursts(6, { everySeconds: 20, atSeconds: 50, withinSeconds: 3 }),
            speed: 10,
            span: 120,
            compare: [0, 1],
        },
    ),
];

const features = [
    preset(
        "queue",
        "A queue that delays instead of denying",
        [
            "Every 6 seconds 8 requests arrive at once.",
            "The queue denies none of them, but spaces them by half a second: the last waits 3.5 seconds.",
            "The bucket with the same rate delays nothing, and denies 4 of the 8.",
        ],
        40,
        {
            lanes: ["leaky-queue 2/s depth 8", "leaky-bucket 2/s capacity 4"],
            traffic: bursts(8, { everySeconds: 6, atSeconds: 1 }),
            speed: 2,
            span: 20,
            compare: [0, 1],
        },
    ),
    preset(
        "two-stages",
        "A burst in two stages",
        [
            "Every 12 seconds 12 requests arrive at once, as a browser sends them for a page with its images.",
            "Lane A serves 1 + 4 of them at once, paces the next 4 by half a second each, and denies 3.",
            "Lane B, without nodelay, denies the same 3, but its last request waits 4 seconds instead of 2.",
            "Lane C delays none, and all 9 that it allows reach the service at once.",
        ],
        40,
        {
            lanes: ["leaky-queue 2/s depth 8 nodelay 4", "leaky-queue 2/s depth 8", "gcra 2/s burst 9"],
            traffic: bursts(12, { everySeconds: 12, atSeconds: 1 }),
            speed: 2,
            span: 20,
            compare: [0, 1],
        },
    ),
    preset(
        "full-queue",
        "A queue that only adds latency",
        [
            "The client sends 4 requests a second, and the queue serves 2.",
            "After 10 seconds it is full: every second request is denied, and the others wait 10 seconds.",
            "A queue helps against bursts, not against too much traffic.",
        ],
        40,
        {
            lanes: ["leaky-queue 2/s depth 20", "gcra 2/s burst 1"],
            traffic: steady(4),
            speed: 2,
            span: 20,
        },
    ),
    preset(
        "layers",
        "Two limits at once",
        [
            "The client sends 10 requests within a second, every 5 seconds.",
            "The first layer allows 5 a second. The second one allows 30 a minute, which six bursts use up.",
            "Lanes B and C show each limit alone.",
            "A request that one layer denies is charged to neither.",
        ],
        120,
        {
            lanes: ["sliding-log 5/s & fixed-window 30/m", "sliding-log 5/s", "fixed-window 30/m"],
            traffic: bursts(10, { everySeconds: 5, atSeconds: 1, withinSeconds: 0.9 }),
            speed: 6,
            span: 60,
        },
    ),
    preset(
        "count-denied",
        "Denied requests that count",
        [
            "The client sends a request every second, and both limits allow 5 in 10 seconds.",
            "The first log counts only what it allowed. The second one also counts denied requests,",
            "so it allows the first 5 and then none, as long as the client does not pause.",
        ],
        60,
        {
            lanes: ["sliding-log 5/10s", "sliding-log 5/10s count-denied"],
            traffic: steady(1),
            speed: 4,
            span: 40,
            compare: [0, 1],
        },
    ),
    preset(
        "steps",
        "Tokens that return one by one, or all at once",
        [
            "Both buckets have 5 tokens and regain 5 in 5 seconds, and the client sends 2 requests a second.",
            "The first bucket regains a token every second; the second one regains all 5 together.",
            "In the long run, both allow one request a second.",
        ],
        60,
        {
            lanes: ["token-bucket 5 refill 1/s", "token-bucket 5 refill 5 every 5s"],
            traffic: steady(2),
            speed: 4,
            span: 30,
            compare: [0, 1],
        },
    ),
    preset(
        "costs",
        "Requests of different cost",
        [
            "A read costs 1 unit, and an export costs 60. The bucket has 100 units and regains 10 a second.",
            "An export is sent every 4 seconds: the first two are allowed, and then every second one.",
            "No read is denied.",
        ],
        30,
        {
            lanes: ["token-bucket 100 refill 10/s"],
            traffic: { kind: "times", times: readsAndExports },
            speed: 2,
            span: 20,
        },
    ),
    preset(
        "steady",
        "Twice the limit",
        [
            "The client sends 4 requests a second, and both limits allow 2.",
            "GCRA first allows a burst, and then every second request.",
            "The sliding log allows 2 at the beginning of each second, and denies the next 2.",
        ],
        30,
        {
            lanes: ["gcra 2/s burst 6", "sliding-log 2/s"],
            traffic: steady(4),
            span: 10,
        },
    ),
];

/** @type {readonly Preset[]} */
export const presets = Object.freeze([...companies, ...comparisons, ...features]);

/**
 * Returns the preset with an id, or null.
 * @param {string} id
 * @returns {Preset | null}
 */
export function presetOf(id) {
    return presets.find((one) => one.id === id) ?? null;
}
