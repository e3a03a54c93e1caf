// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests the pictures: SVG is well-formed for any text, every algorithm draws in every state and size without
// an invalid number, and the time line finds the requests that it drew.
//
//     node web/draw/draw_test.mjs

import assert from "node:assert/strict";
import { chartIndexAt, drawChart } from "./chart.mjs";
import { formatClock, formatNs, formatNumber, formatOffset, formatRate, formatUnits, ticks,
    timeStep } from "./format.mjs";
import { drawState, stateHeight } from "./state.mjs";
import { SvgSurface, textWidth } from "./surface.mjs";
import { themes } from "./theme.mjs";
import { TILE_WIDTH } from "./tiles.mjs";
import { bandsOf, limitLineOf, Timeline } from "./timeline.mjs";

const SECOND = 1e9;
const NOW = 12.35 * SECOND;
const LIMIT_MAX = 2 ** 31 - 1;
const ALGORITHMS = ["gcra", "token-bucket", "leaky-bucket", "leaky-queue", "fixed-window", "sliding-log",
    "sliding-counter", "sliding-slices", "concurrent"];
const WIDE = { x: 0, y: 0, w: 400, h: 184 };
const HOSTILE = ["</text><script>alert(1)</script>", "a & b < c > d \" ' ]]>",
    "\u0000\u0001\u001f\ufffe\uffff", "lone \ud800 surrogate \udc00", "<!-- -->", "🙂 é \u202e", "&amp;"];

const tests = [];
const test = (name, run) => tests.push({ name, run });

let random = 1;
function next() {
    random = (Math.imul(random, 1103515245) + 12345) >>> 0;
    return random / 2 ** 32;
}

// Throws unless the text is a well-formed document of elements, attributes and the five entities.
function parseXml(text) {
    assert.match(text, /^[\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]*$/u);
    const open = [];
    const node = /<(\/?)([a-z][A-Za-z]*)((?: [A-Za-z:-]+="[^"<]*")*)(\/?)>|([^<]+)/gy;
    let last = 0;
    for (let found; (found = node.exec(text)); last = node.lastIndex) {
        const [, end, name, attributes, empty, words] = found;
        assert.doesNotMatch(attributes ?? words, /&(?!(?:amp|lt|gt|quot);)/);
        if (words !== undefined)
            continue;
        if (end)
            assert.equal(open.pop(), name);
        else if (!empty)
            open.push(name);
    }
    assert.equal(last, text.length, `not XML: ${text.slice(last, last + 80)}`);
    assert.deepEqual(open, []);
}

// A surface that accepts finite numbers only, and collects circles and texts.
class Checker {
    circles = [];
    texts = [];
    calls = 0;

    #all(values, paint) {
        this.calls++;
        for (const value of values)
            assert.ok(Number.isFinite(value), `${values}`);
        if (paint)
            assert.ok(paint.fill === undefined || typeof paint.fill === "string");
    }

    rect(x, y, w, h, paint) { this.#all([x, y, w, h], paint); }
    roundRect(x, y, w, h, r, paint) { this.#all([x, y, w, h, r], paint); }
    line(x1, y1, x2, y2, paint) { this.#all([x1, y1, x2, y2], paint); }
    polyline(points, paint) { this.#all(points, paint); }
    polygon(points, paint) { this.#all(points, paint); }

    circle(x, y, r, paint) {
        this.#all([x, y, r], paint);
        this.circles.push({ x, y, r, paint });
    }

    text(x, y, string, style = {}) {
        this.#all([x, y]);
        assert.doesNotMatch(string, /NaN|undefined|Infinity/);
        this.texts.push({ x, y, string, ...style });
    }

    clip(x, y, w, h, draw) {
        this.#all([x, y, w, h]);
        draw();
    }

    opacity(alpha, draw) {
        this.#all([alpha]);
        draw();
    }
}

// The state of a layer of which `share` is used.
function layerOf(algorithm, limit, share, periodNs = SECOND) {
    const used = Math.round(limit * share);
    const rate = Math.min(5, limit);
    const fact = { algorithm, limit, rate, periodNs, calendar: "", zone: "", slices: 10, stepped: false, nodelay: 0 };
    const interval = periodNs / fact.rate;
    const view = {
        algorithm, limit, remaining: limit - used, resetAfterNs: used * interval, delayNs: used * interval,
        retryAfterNs: used === limit ? interval : 0, tatNs: NOW + used * interval,
        beginNs: NOW - periodNs / 3, endNs: NOW + periodNs * 2 / 3, used, previous: used, entries: [],
    };
    if (algorithm === "sliding-log")
        Object.assign(view, { beginNs: NOW - periodNs, endNs: NOW });
    const entries = Math.min(used, algorithm === "sliding-log" ? 4096 : 10);
    for (let i = 0; i < entries; i++)
        view.entries.push(view.beginNs + (i + 0.5) * periodNs / (entries + 1), used / entries);
    return { fact, view };
}

test("every algorithm draws in every state and size", () => {
    for (const algorithm of ALGORITHMS) {
        for (const limit of [1, 2, 10, 40, 1000, LIMIT_MAX]) {
            for (const share of [0, 0.5, 1])
                drawEverySize(layerOf(algorithm, limit, share));
        }
    }
});

function drawEverySize({ fact, view }) {
    const theme = themes.dark;
    for (const [w, h] of [[40, 40], [8, 8], [120, 60], [390, 120], [600, 184], [1200, 400]]) {
        for (const decision of [null, { allowed: true, delayNs: 5e6 }, { allowed: false, layer: 0 }]) {
            const checker = new Checker();
            drawState(checker, { x: 3, y: 5, w, h }, [view], [fact], { nowNs: NOW, decision, theme });
            assert.ok(checker.calls > 2);
            drawState(checker, { x: 3, y: 5, w, h }, [{ ...view, beginNs: NOW, endNs: NOW }], [fact],
                { nowNs: NOW, decision, theme });
        }
    }
    const surface = new SvgSurface(600, 184);
    drawState(surface, { x: 0, y: 0, w: 600, h: 184 }, [view], [fact], { nowNs: NOW, theme, reduced: true });
    parseXml(surface.toString());
    assert.doesNotMatch(surface.toString(), /NaN|Infinity|undefined/);
}

test("states change the picture", () => {
    for (const algorithm of ALGORITHMS) {
        const pictures = [0, 0.3, 0.6, 1].map((share) => {
            const { fact, view } = layerOf(algorithm, 10, share);
            const surface = new SvgSurface(400, 184);
            drawState(surface, WIDE, [view], [fact], { nowNs: NOW, theme: themes.light });
            return surface.toString();
        });
        assert.equal(new Set(pictures).size, 4);
    }
});

test("a queue shows which requests it does not delay", () => {
    for (const limit of [10, 40]) {
        const { fact, view } = layerOf("leaky-queue", limit, 0.5);
        const [plain, staged] = [0, limit / 2 - 3].map((nodelay) => {
            const surface = new SvgSurface(600, 184), theme = themes.light;
            drawState(surface, WIDE, [view], [{ ...fact, nodelay }], { nowNs: NOW, theme });
            return surface.toString();
        });
        assert.ok(plain.includes(`${limit / 2 - 1} waiting`) && staged.includes("2 waiting"));
        assert.ok(staged.includes(`nodelay ${limit / 2 - 3}`) && !plain.includes("nodelay"));
        const marks = (svg) => svg.split(themes.light.allowed).length;
        assert.ok(marks(staged) > marks(plain));
    }
});

test("the words say what is left and when", () => {
    const wordsOf = (view, fact, box = WIDE) => {
        const checker = new Checker();
        drawState(checker, box, [view], [fact], { nowNs: NOW, theme: themes.light });
        return checker.texts.map(({ string }) => string);
    };
    const half = layerOf("gcra", 10, 0.5);
    assert.ok(wordsOf(half.view, half.fact).includes("5 of 10 left"));
    assert.ok(wordsOf(half.view, half.fact).includes("full quota in 1 s"));
    assert.ok(wordsOf(half.view, half.fact).includes("5/s burst 10"));
    const full = layerOf("fixed-window", 10, 1);
    assert.ok(wordsOf(full.view, full.fact).includes("next in 200 ms"));
    const large = layerOf("gcra", LIMIT_MAX, 0);
    const exact = "2147483647 of 2147483647 left";
    assert.ok(wordsOf(large.view, large.fact).some((text) => text.replaceAll(",", "") === exact));
    assert.ok(wordsOf(large.view, large.fact, { ...WIDE, w: 170 }).includes("2.1 G of 2.1 G left"));
    full.view.retryAfterNs = Infinity;
    assert.ok(wordsOf(full.view, full.fact).includes("never allowed"));
});

test("several layers get room", () => {
    assert.equal(stateHeight(1000, 3), stateHeight(1000, 1));
    assert.ok(stateHeight(350, 3) > 3 * 150);
    const layers = ALGORITHMS.map((algorithm) => layerOf(algorithm, 10, 0.5));
    const checker = new Checker();
    const [views, facts] = [layers.map(({ view }) => view), layers.map(({ fact }) => fact)];
    drawState(checker, { x: 0, y: 0, w: 390, h: stateHeight(390, 8) }, views, facts,
        { nowNs: NOW, decision: { allowed: false, layer: 3 }, theme: themes.light });
    for (const algorithm of ALGORITHMS)
        assert.ok(checker.texts.some(({ string }) => string === algorithm));
    assert.equal(checker.texts.filter(({ string }) => string === "denied").length, 1);
});

test("SVG is well-formed for hostile texts", () => {
    for (const string of HOSTILE) {
        const surface = new SvgSurface(100, 100, { title: string, background: "#fff" });
        surface.text(1, 2, string, { align: "right", mono: true, weight: 600, color: string });
        surface.clip(0, 0, 10, 10, () =>
            surface.opacity(0.5, () => surface.circle(1, 1, 1, { fill: string })));
        surface.polygon([0, 0, 1.23456, -0], { stroke: "red", dash: [1, 2], width: 3, cap: "round" });
        parseXml(surface.toString());
    }
    assert.throws(() => parseXml("<a>&nbsp;</a>"));
    assert.throws(() => parseXml("<a><b></a></b>"));
});

test("numbers in SVG are short, and never -0", () => {
    const surface = new SvgSurface(10, 10);
    surface.circle(-0.0001, 1 / 3, 2, { fill: "red" });
    assert.match(surface.toString(), /cx="0" cy="0.33" r="2"/);
});

// Requests with about `rate` a second, of which every `denyEvery`th is denied.
function requests(rate, seconds, denyEvery = 3) {
    const times = [], keys = [], costs = [], allowed = [], delayNs = [];
    for (let t = 0; (t += -Math.log(1 - next()) / rate * SECOND) < seconds * SECOND;) {
        allowed.push(times.length % denyEvery ? 1 : 0);
        delayNs.push(times.length % 5 === 0 ? 1e6 : 0);
        keys.push(times.length % 2);
        costs.push(1 + times.length % 4);
        times.push(t);
    }
    return { times, keys, costs, columns: { allowed, delayNs }, to: times.length, nowNs: seconds * SECOND,
        spanNs: 10 * SECOND, theme: themes.light };
}

const BOX = { x: 20, y: 30, w: 601, h: 170 };

function drawTimeline(data, box = BOX) {
    const line = new Timeline(), checker = new Checker();
    line.draw(checker, box, data);
    return { line, checker };
}

test("at() finds each request that was drawn as a dot", () => {
    for (const rate of [2, 6, 12]) {
        const data = requests(rate, 14);
        const { line } = drawTimeline(data);
        let visible = 0;
        for (let i = 0; i < data.to; i++) {
            const place = line.positionOf(i);
            assert.equal(place !== null, data.times[i] >= 4 * SECOND, `${i}`);
            if (!place)
                continue;
            visible++;
            assert.equal(line.at(place.x, place.y), i);
            assert.equal(place.y < place.base, data.columns.allowed[i] === 1);
        }
        assert.ok(visible > rate * 5);
        assert.equal(line.at(BOX.x + 10, BOX.y - 20), -1);
    }
});

test("dots are where positionOf() says, and do not overlap", () => {
    const data = requests(5, 14);
    data.columns.delayNs.fill(0);
    const { line, checker } = drawTimeline(data);
    const drawn = checker.circles.map(({ x, y, r }) => ({ x, y, r }));
    for (let i = 0; i < data.to; i++) {
        const place = line.positionOf(i);
        if (place && data.columns.allowed[i])
            assert.ok(drawn.some(({ x, y }) => Math.abs(x - place.x) + Math.abs(y - place.y) < 1e-6));
    }
    const tileOf = (i) => Math.floor(data.times[i] / (data.spanNs / BOX.w * TILE_WIDTH));
    for (let i = 0; i < data.to; i++) {
        for (let j = i + 1; j < data.to && tileOf(j) === tileOf(i); j++) { // tiles are stacked on their own
            const [a, b] = [line.positionOf(i), line.positionOf(j)];
            assert.ok(a === null || b === null || Math.hypot(a.x - b.x, a.y - b.y) >= 6, `${i} ${j}`);
        }
    }
});

test("crowded requests are bars, and at() finds one of the same verdict", () => {
    const data = requests(1000, 14);
    const { line, checker } = drawTimeline(data);
    assert.equal(checker.circles.length, 0);
    const place = line.positionOf(data.to - 10);
    const found = line.at(place.x, place.y);
    assert.ok(Math.abs(found - (data.to - 10)) < 200);
    assert.equal(data.columns.allowed[found], data.columns.allowed[data.to - 10]);
});

test("a frame after others looks like the first frame", () => {
    const data = requests(40, 20);
    const line = new Timeline();
    const svgOf = (timeline, nowNs) => {
        const to = data.times.findIndex((time) => time > nowNs);
        const surface = new SvgSurface(700, 220);
        const limitLine = { perWindow: 200, windowNs: SECOND }; // the scale stays as it is
        timeline.draw(surface, BOX, { ...data, nowNs, to: to < 0 ? data.to : to, limitLine });
        return surface.toString();
    };
    for (let ms = 11000; ms < 15000; ms += 16)
        svgOf(line, ms * 1e6);
    assert.equal(svgOf(line, 15e9), svgOf(new Timeline(), 15e9));
    assert.equal(svgOf(line, 12e9), svgOf(new Timeline(), 12e9)); // back in time
});

test("a new version forgets earlier decisions", () => {
    const data = { ...requests(500, 14), limitLine: { perWindow: 5000, windowNs: SECOND } };
    const changed = { ...data, columns: { allowed: data.columns.allowed.map((_, i) => i & 1) }, version: 1 };
    const svgOf = (line, now) => {
        const surface = new SvgSurface(700, 220);
        line.draw(surface, BOX, now);
        return surface.toString();
    };
    const line = new Timeline();
    assert.notEqual(svgOf(line, data), svgOf(new Timeline(), changed));
    assert.equal(svgOf(line, changed), svgOf(new Timeline(), changed));
});

test("the running rate counts the allowed units of the watched key", () => {
    const limitLine = { perWindow: 10, windowNs: SECOND };
    const all = { times: [1, 1.5, 1.8, 2.4].map((s) => s * SECOND), keys: [0, 1, 0, 0], costs: [4, 3, 2, 1],
        columns: { allowed: [1, 1, 0, 1] }, to: 4, nowNs: 2.45 * SECOND, spanNs: 2 * SECOND,
        theme: themes.light };
    const highest = (data) => {
        const tops = [];
        const checker = new Checker();
        checker.polyline = (points) => tops.push(Math.min(...points.filter((_, i) => i % 2)));
        drawTimelineOn(checker, data);
        return tops[0];
    };
    // Key 0 alone has 4 units, and all keys have 7, so their line rises higher.
    assert.ok(highest({ ...all, limitLine, watchKey: 0 }) > highest({ ...all, limitLine }));
});

const drawTimelineOn = (surface, data) => new Timeline().draw(surface, BOX, data);

test("time lines draw in every size and with nothing to show", () => {
    const none = { times: [], columns: { allowed: [] }, to: 0, nowNs: 0, spanNs: SECOND, theme: themes.dark };
    const year = { ...requests(3, 14), spanNs: 365 * 86400 * SECOND, beginMs: 0 };
    const limitLine = { perWindow: LIMIT_MAX, windowNs: 1 };
    const more = { limitLine, hoverIndex: 2, marks: [0, 2], watchKey: 0 };
    for (const [w, h] of [[4, 4], [40, 40], [390, 60], [390, 120], [1200, 200]]) {
        for (const data of [none, requests(50, 14), year]) {
            for (const kind of ["none", "aligned", "latest", "floating"]) {
                const bands = kind === "none" ? null : { kind, beginNs: 3 * SECOND, lengthNs: SECOND };
                drawTimeline({ ...data, ...more, bands }, { x: 0, y: 0, w, h });
            }
        }
    }
});

test("bands and limits of the layers", () => {
    const of = (algorithm) => layerOf(algorithm, 10, 0.5);
    for (const bucket of ALGORITHMS.slice(0, 4).map(of)) {
        assert.deepEqual(limitLineOf(bucket.fact, bucket.view),
            { perWindow: 5, windowNs: SECOND, hard: false });
        assert.equal(bandsOf(bucket.fact, { ...bucket.view, beginNs: 0, endNs: 0 }), null);
    }
    const { fact, view } = of("fixed-window");
    assert.deepEqual(limitLineOf(fact, view), { perWindow: 10, windowNs: SECOND, hard: true });
    assert.equal(bandsOf(fact, view).kind, "aligned");
    assert.equal(bandsOf({ ...fact, periodNs: 0, calendar: "day" }, view).kind, "latest");
    assert.equal(bandsOf(of("sliding-log").fact, of("sliding-log").view).kind, "floating");
    assert.equal(bandsOf(fact, { ...view, beginNs: 0, endNs: 0 }), null);
});

test("ticks ascend, are round, and are not more than wanted", () => {
    for (let i = 0; i < 2000; i++) {
        const low = (next() - 0.5) * 10 ** (next() * 12 - 3), high = low + 10 ** (next() * 15 - 6);
        const count = 1 + Math.floor(next() * 12);
        const found = ticks(low, high, count);
        assert.ok(found.length <= count + 1);
        const least = low - 1e-6 * (high - low) - 1e-12 * Math.abs(low);
        found.forEach((value, n) => assert.ok(value >= least && (n === 0 || value > found[n - 1])));
        if (count >= 5 && high - low > Math.abs(low) * 1e-9)
            assert.ok(found.length >= 2, `${low} ${high} ${count}`);
    }
    assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
    assert.deepEqual(ticks(0, 3, 10, true), [0, 1, 2, 3]);
    assert.deepEqual(ticks(1, 1, 5), []);
    assert.deepEqual(ticks(0, Infinity, 5), []);
});

test("labels of an axis do not touch", () => {
    for (let span = 1e3; span < 1e17; span *= 2.3) {
        for (const w of [100, 390, 800, 1600]) {
            const { checker } = drawTimeline({ ...requests(1, 1), to: 0, nowNs: 2.1 * span, spanNs: span },
                { x: 0, y: 0, w, h: 80 });
            const labels = checker.texts.filter(({ align }) => align === "center");
            const half = (label) => textWidth(label.string, label) / 2;
            for (let i = 1; i < labels.length; i++) {
                const [left, right] = [labels[i - 1], labels[i]];
                assert.ok(left.x + half(left) <= right.x - half(right), `${span}: ${right.string}`);
                assert.notEqual(left.string, right.string);
            }
        }
    }
    assert.equal(timeStep(10 * SECOND, 10), SECOND);
});

test("numbers and durations as people read them", () => {
    const texts = [[0, "0 s"], [1, "1 ns"], [250, "250 ns"], [1500, "1.5 µs"], [180e6, "180 ms"],
        [1.23e9, "1.2 s"], [9.99e9, "10 s"], [59.6e9, "1 m"], [200e9, "3 m 20 s"],
        [7500e9, "2 h 5 m"], [3600e9, "1 h"],
        [86400e9 * 3 + 4 * 3600e9, "3 d 4 h"], [Infinity, "never"]];
    for (const [ns, text] of texts)
        assert.equal(formatNs(ns), text);
    const numbers = [[0, "0"], [7, "7"], [0.25, "0.25"], [950, "950"], [1234, "1.2 k"], [34e6, "34 M"],
        [999999, "1 M"], [NaN, "–"]];
    for (const [value, text] of numbers)
        assert.equal(formatNumber(value), text);
    for (const [value, text] of [[8.4, "8.4"], [1000, "1,000"], [250000, "250 k"]])
        assert.equal(formatUnits(value), text);
    assert.equal(formatRate(5, SECOND), "5/s");
    assert.equal(formatRate(100, 900 * SECOND), "100/15m");
    assert.equal(formatRate(5000, 0, "month"), "5000/month");
    assert.equal(formatOffset(1.2 * SECOND, 0.2 * SECOND), "1.2 s");
    assert.equal(formatOffset(65 * SECOND, 5 * SECOND), "1:05");
    assert.equal(formatOffset(7230 * SECOND, 30 * SECOND), "2:00:30");
    assert.equal(formatClock(Date.UTC(2026, 2, 2, 14, 5, 30), SECOND, true), "14:05:30");
    assert.equal(formatClock(Date.UTC(2026, 2, 2, 14, 5, 30, 250), SECOND / 4, true), "14:05:30.250");
    assert.equal(formatClock(Date.UTC(2026, 2, 2), 86400 * SECOND, true), "2 Mar");
});

test("charts draw with gaps, with nothing, and in every size", () => {
    const times = Array.from({ length: 60 }, (_, i) => 1767225600000 + i * 1000);
    const values = times.map((_, i) => i > 20 && i < 30 ? NaN : 50 + i);
    for (const kind of ["line", "area", "stacked"]) {
        for (const [w, h] of [[40, 40], [300, 120], [1200, 300]]) {
            for (const [at, series] of [[times, [values, values]], [[], [[]]], [[times[0]], [[3]]],
                [times, [times.map(() => 0)]], [times, [times.map(() => 1e15)]]]) {
                const checker = new Checker();
                drawChart(checker, { x: 0, y: 0, w, h }, { times: at, kind, theme: themes.light, unit: "/s",
                    series: series.map((list, i) => ({ name: `s${i}`, role: ["allowed"][i], values: list })),
                    labels: true, hoverMs: times[3] });
            }
        }
    }
    const data = { times, series: [{ name: "a", values }], theme: themes.light };
    assert.equal(chartIndexAt({ x: 0, y: 0, w: 300, h: 100 }, data, 0), 0);
    assert.equal(chartIndexAt({ x: 0, y: 0, w: 300, h: 100 }, data, 299), 59);
    assert.equal(chartIndexAt({ x: 0, y: 0, w: 300, h: 100 }, { ...data, times: [] }, 5), -1);
});

// The contrast of two colours by WCAG 2.
function contrast(a, b) {
    const [light, dark] = [a, b].map((color) => {
        const [r, g, bl] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255)
            .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * bl + 0.05;
    }).sort((x, y) => y - x);
    return light / dark;
}

test("texts have enough contrast", () => {
    for (const theme of Object.values(themes)) {
        for (const role of ["ink", "muted", "allowedText", "deniedText", "delayedText"]) {
            for (const ground of ["panel", "paper", "band"])
                assert.ok(contrast(theme[role], theme[ground]) >= 4.5, `${role} on ${ground}`);
        }
    }
    assert.deepEqual(Object.keys(themes.light), Object.keys(themes.dark));
});

let failed = 0;
for (const { name, run } of tests) {
    try {
        run();
    } catch (error) {
        failed++;
        console.error(`${name}: ${error.stack}`);
    }
}
console.log(`${tests.length - failed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
