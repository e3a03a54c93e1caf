// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Scenes that each show one thing. The tests assert what the texts say.

import { completeScene } from "./scene.mjs";

/**
 * @typedef {object} Preset
 * @property {string} id
 * @property {string} title
 * @property {string} text what it shows, in one to three sentences
 * @property {number} seconds how long the scene takes, in its own time
 * @property {import("./scene.mjs").Scene} scene
 */

function preset(id, title, text, seconds, scene) {
    return { id, title, text, seconds, scene: completeScene({ ...scene, title }) };
}

const steady = (rate, more) => ({ kind: "steady", rate, ...more });

/** @type {Preset[]} */
export const presets = [
    preset(
        "chat",
        "A chat with one spammer",
        "Each user may send 3 messages at once, and then one every 4 seconds. " +
            "The spammer gets through at that pace; the others hardly notice the limit.",
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
        "boundary",
        "The burst at the boundary of a window",
        "The client sends 10 requests just before a minute ends and 10 just after it begins. " +
            "The fixed window allows all 20 within 2 seconds, twice its limit. The sliding log allows 10.",
        130,
        {
            lanes: ["fixed-window 10/m", "sliding-log 10/m", "gcra 10/m burst 10"],
            traffic: { kind: "bursts", burst: 20, atSeconds: 59, everySeconds: 60, withinSeconds: 2 },
            speed: 8,
            span: 90,
            compare: [0, 1],
        },
    ),
    preset(
        "gcra",
        "GCRA with and without a burst",
        "Both limits allow 2 requests a second. Without a burst, the requests must be half a second apart. " +
            "With a burst of 10, the first 10 of a burst pass at once, and the key then regains one every half second.",
        30,
        {
            lanes: ["gcra 2/s burst 1", "gcra 2/s burst 10"],
            traffic: { kind: "bursts", burst: 12, everySeconds: 8, atSeconds: 1, withinSeconds: 1 },
            span: 12,
            compare: [0, 1],
        },
    ),
    preset(
        "counter-vs-log",
        "The sliding counter against the exact log",
        "The log remembers every request and is exact. The counter keeps two numbers for each key and estimates: " +
            "the marks show where the two disagree.",
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
        "queue",
        "A queue that delays instead of denying",
        "Bursts of 8 requests arrive every 6 seconds. The queue lets one pass every half second and makes the others " +
            "wait; the bucket beside it denies what does not fit.",
        40,
        {
            lanes: ["leaky-queue 2/s depth 8", "leaky-bucket 2/s capacity 4"],
            traffic: { kind: "bursts", burst: 8, everySeconds: 6, atSeconds: 1, withinSeconds: 0.2 },
            span: 15,
            compare: [0, 1],
        },
    ),
    preset(
        "steady",
        "Twice the limit",
        "The client sends 4 requests a second, and the limit is 2 a second. After the burst, every second one is denied.",
        30,
        {
            lanes: ["gcra 2/s burst 6", "sliding-log 2/s"],
            traffic: steady(4, { users: 1 }),
            span: 10,
        },
    ),
];

/**
 * Returns the preset with an id, or null.
 * @param {string} id
 */
export function presetOf(id) {
    return presets.find((one) => one.id === id) ?? null;
}
