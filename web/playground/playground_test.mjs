// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests the parts of the playground that need no page: numbers and times as texts, and the player.
//
//     node web/playground/playground_test.mjs [SEED]

import assert from "node:assert/strict";
import { bytes, clock, count, date, duration, percent, readDate, short } from "./format.mjs";
import { Player, after } from "./player.mjs";

const seed = Number(process.argv[2] ?? 1);
let random = seed;

// Returns a random number 0 <= n < bound (mulberry32).
function below(bound) {
    random = (random + 0x6d2b79f5) | 0;
    let n = Math.imul(random ^ (random >>> 15), 1 | random);
    n = (n + Math.imul(n ^ (n >>> 7), 61 | n)) ^ n;
    return ((n ^ (n >>> 14)) >>> 0) % bound;
}

const UNITS = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9, d: 86400e9 };

/** A world with requests at the given times, which records nothing but its clock. */
function worldOf(times, { span = 10, kind = "times" } = {}) {
    return {
        playing: false,
        now: 0,
        index: 0,
        scene: { span, traffic: { kind } },
        traffic: { times, length: times.length, ended: true },
        advance(ms) {
            this.seek(this.now + ms * 1e6);
        },
        seek(ns) {
            this.now = ns;
            this.index = after(times, times.length, ns);
        },
        step() {
            if (this.index < times.length)
                this.now = times[this.index++];
        },
        hit() {
            return this.index++;
        },
    };
}

/** The same, but a call of seek() moves the clock by `step` nanoseconds at most. */
function slowWorldOf(times, step) {
    const world = { ...worldOf(times), late: false, budgets: /** @type {number[]} */ ([]) };
    world.seek = function seek(ns, budgetMs = Infinity) {
        this.budgets.push(budgetMs);
        this.late = ns - this.now > step;
        this.now = this.late ? this.now + step : ns;
        this.index = after(times, times.length, this.now);
    };
    return world;
}

let players = [];

/** A player, which withFrames() pauses at the end. */
function playerOf(world) {
    const player = new Player(world);
    players.push(player);
    return player;
}

/** Runs `fn` with frames that are requested but come only when frame() is called. */
function withFrames(fn) {
    const waiting = [];
    globalThis.requestAnimationFrame = (callback) => waiting.push(callback);
    let time = 1000;
    const frame = (ms = 16) => {
        time += ms;
        for (const callback of waiting.splice(0))
            callback(time);
        return waiting.length;
    };
    try {
        fn(frame);
    } finally {
        players.forEach((player) => player.pause());
        players = [];
        frame();
    }
}

const tests = {
    "a date is read as a whole or not at all"() {
        const read = (text) => {
            const ms = readDate(text);
            return Number.isNaN(ms) ? "" : new Date(ms).toISOString().slice(0, 19);
        };
        assert.equal(read("2026-01-01 9:30"), "2026-01-01T09:30:00");
        assert.equal(read(" 2026-01-01T09:30:15 "), "2026-01-01T09:30:15");
        assert.equal(read("2024-02-29"), "2024-02-29T00:00:00");
        for (const text of ["", "2026-01-01 9", "2026-01-01 9:3", "2026-01-01 09:30x", "2026-01-01 09:30 PM",
            "2026-02-30", "2026-13-01", "2026-01-01 25:00", "2026-01-01 09:60", "1.1.2026", "1969-12-31",
            "x2026-01-01"])
            assert.equal(read(text), "", text);
    },
    "a seek that takes long goes on in the next frames, and a change keeps the time"() {
        withFrames((frame) => {
            const world = slowWorldOf([1, 50, 95], 10);
            const player = playerOf(world);
            player.seek(95);
            for (let now = 10; now <= 90; now += 10) {
                assert.equal(world.now, now);
                assert.ok(player.deciding);
                assert.ok(frame() > 0);
            }
            assert.equal(world.now, 95);
            assert.ok(!player.deciding);
            assert.equal(frame(), 0);
            player.select(1);
            assert.equal(player.change(() => "done"), "done");
            assert.equal(world.now, 10);
            while (player.deciding)
                frame();
            assert.deepEqual([world.now, player.selected], [95, 1]);
            player.seek(20);
            player.seek(95);
            player.step();
            assert.ok(!player.deciding, "a step ends the way to the target");
            assert.ok(Math.max(...world.budgets.filter((ms) => ms !== Infinity)) <= 20);
            assert.equal(world.budgets.filter((ms) => ms === Infinity).length, 1); // seek(0) of the change
        });
    },
    "a duration is never shorter than what it shows"() {
        for (let i = 0; i < 2000; i++) {
            const ns = 1 + Math.floor((below(1e9) + 1) * 10 ** (below(9) - 1));
            const parts = [...duration(ns).matchAll(/([\d.]+) (\S+)/g)];
            const shown = parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0);
            assert.ok(parts.length > 0 && shown >= ns * (1 - 1e-9) && shown <= ns * 1.11, `${ns} as ${duration(ns)}`);
        }
    },
    "durations that round to the next unit are in that unit"() {
        assert.equal(duration(999999999), "1 s");
        assert.equal(duration(59.999e9), "1 m");
        assert.equal(duration(3599.9e9), "1 h");
        assert.equal(duration(999.9), "1 µs");
        assert.equal(duration(200e9), "3 m 20 s");
        assert.equal(duration(0), "0 s");
        assert.equal(duration(0.5), "1 ns");
        assert.equal(duration(Infinity), "never");
    },
    "numbers are short"() {
        assert.equal(count(1234567), "1,234,567");
        assert.equal(short(0.123456), "0.123");
        assert.equal(short(12345.6), "12,346");
        assert.equal(short(NaN), "–");
        assert.equal(percent(0, 0), "0 %");
        assert.equal(percent(1, 100000), "< 0.1 %");
        assert.equal(percent(1, 3), "33 %");
        assert.equal(percent(2990, 3000), "99.7 %");
        assert.equal(percent(177108, 177152), "> 99.9 %");
        assert.equal(percent(10, 10), "100 %");
        assert.equal(percent(3, 100), "3 %");
        assert.equal(bytes(1536), "1.5 KB");
        assert.equal(bytes(12), "12 bytes");
    },
    "clocks and dates"() {
        assert.equal(clock(0), "0.0 s");
        assert.equal(clock(59.99e9), "59.9 s");
        assert.equal(clock(61.25e9), "1:01.2");
        assert.equal(clock(3661e9), "1:01:01.0");
        assert.equal(clock(90061e9), "1 d 01:01:01");
        assert.equal(date(Date.UTC(2026, 2, 29, 1, 2, 3)), "Sun 29 Mar 2026 01:02:03 UTC");
        assert.equal(date(NaN), "");
    },
    "after() is the number of times up to t"() {
        for (let i = 0; i < 300; i++) {
            const times = Array.from({ length: below(20) }, () => below(10)).sort((a, b) => a - b);
            const t = below(12) - 1;
            assert.equal(after(times, times.length, t), times.filter((time) => time <= t).length);
        }
    },
    "a frame follows only while the world plays"() {
        withFrames((frame) => {
            const player = playerOf(worldOf([1e9]));
            player.redraw();
            assert.equal(frame(), 0);
            player.play();
            assert.equal(frame(), 1);
            assert.equal(frame(), 1);
            assert.equal(player.world.now, 16e6);
            player.pause();
            assert.equal(frame(), 0);
        });
    },
    "a page that was in the background does not jump"() {
        withFrames((frame) => {
            const player = playerOf(worldOf([1e12]));
            player.play();
            frame();
            frame(60000);
            assert.equal(player.world.now, 100e6);
        });
    },
    "the player pauses when the last request has left, and begins again"() {
        withFrames((frame) => {
            const player = playerOf(worldOf([1e9], { span: 0.1 }));
            player.play();
            for (let i = 0; i < 200 && player.world.playing; i++)
                frame();
            assert.equal(player.world.playing, false);
            assert.ok(player.world.now > 1.1e9 && player.world.now < 1.2e9);
            player.play();
            assert.equal(player.world.now, 0);
        });
    },
    "a scene with requests by hand alone goes on"() {
        withFrames((frame) => {
            const player = playerOf(worldOf([1e6], { span: 0.1, kind: "none" }));
            player.play();
            for (let i = 0; i < 100; i++)
                assert.equal(frame(), 1);
        });
    },
    "a step chooses the request, and going back before it gives it up"() {
        withFrames(() => {
            const player = playerOf(worldOf([1e9, 2e9, 2e9]));
            player.step();
            assert.equal(player.selected, 0);
            player.step();
            player.step();
            assert.equal(player.selected, 2);
            player.step();
            assert.equal(player.selected, 2);
            player.seek(1.5e9);
            assert.equal(player.selected, -1);
            assert.equal(player.furthest, 2e9);
        });
    },
    "seekSoon() moves the clock once, in the next frame"() {
        withFrames((frame) => {
            const player = playerOf(worldOf([1e9]));
            player.seekSoon(2e9);
            player.seekSoon(3e9);
            assert.equal(player.world.now, 0);
            frame();
            assert.equal(player.world.now, 3e9);
            player.world.now = 4e9;
            player.redraw();
            frame();
            assert.equal(player.world.now, 4e9);
        });
    },
    "the request under the pointer is shown before the chosen one"() {
        withFrames(() => {
            const player = playerOf(worldOf([1e9, 2e9]));
            player.select(0);
            assert.equal(player.shown(), 0);
            player.hover(1);
            assert.equal(player.shown(), 1);
            player.hover(-1);
            assert.equal(player.shown(), 0);
        });
    },
    "views draw in each frame, and write at most eight times a second"() {
        withFrames((frame) => {
            const player = playerOf(worldOf([1e12]));
            const calls = { draw: 0, write: 0, label: 0 };
            player.views.add({
                draw: () => calls.draw++,
                write: () => calls.write++,
                label: () => calls.label++,
            });
            player.play();
            for (let i = 0; i < 100; i++)
                frame(10);
            assert.equal(calls.draw, 100);
            assert.ok(calls.write >= 7 && calls.write <= 9, `${calls.write} writes`);
            assert.ok(calls.label >= 1 && calls.label <= 2, `${calls.label} labels`);
        });
    },
    "the script times of the last 600 frames are kept"() {
        withFrames((frame) => {
            const player = playerOf(worldOf([1e12]));
            player.play();
            for (let i = 0; i < 700; i++)
                frame();
            assert.equal(globalThis.weirFrameMs.length, 600);
        });
    },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
    try {
        test();
    } catch (error) {
        failed += 1;
        console.log(`FAILED ${name} (seed ${seed})\n${error.stack}`);
    }
}
console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
