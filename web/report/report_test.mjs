// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests the parts of the report's page that need no page: its sentences, figures and pictures.
//
//     node web/report/report_test.mjs [SEED]

import assert from "node:assert/strict";
import { SvgSurface, textWidth } from "../draw/surface.mjs";
import { themes } from "../draw/theme.mjs";
import { drawPeaks, drawSpark, limitsText, lineStyle, PEAKS_HEIGHT, peakRows } from "./pictures.mjs";
import {
    aboutText, answerText, bucketSpan, bucketTimes, changeText, compareValues, countAndShare, denials,
    duration, keyText, lockoutText, logNames, notices, period, policyTitle, share, span, stamp, unitName,
} from "./text.mjs";

const seed = Number(process.argv[2] ?? 1);
let random = seed;

// Returns a random number 0 <= n < bound (mulberry32).
function below(bound) {
    random = (random + 0x6d2b79f5) | 0;
    let n = Math.imul(random ^ (random >>> 15), 1 | random);
    n = (n + Math.imul(n ^ (n >>> 7), 61 | n)) ^ n;
    return ((n ^ (n >>> 14)) >>> 0) % bound;
}

const SECOND = 1e9, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const T0 = Date.UTC(1995, 7, 4, 14, 5, 30) * 1e6;
const plain = (text) => text.replaceAll("\u202f", " ");
const same = (actual, expected) => assert.equal(plain(actual), expected);

function policy(more = {}) {
    return {
        name: null, policy: "gcra 100/m burst 20", shadow: false, baseline: true, allowed: 30597, denied: 372,
        would_be_denied: 0, allow_listed: 0, deny_listed: 0, keys_denied: 3, keys: 2365,
        lockout: { longest_ns: 200 * SECOND, key: "host-a", from_ns: T0 },
        peak_admitted: { units: 118, limit: 100, window_ns: MINUTE, key: "host-a", at_ns: T0 },
        denied_over_time: [0, 372], worst: [], ...more,
    };
}

function report(more = {}) {
    const percentiles = { p50: 1, p90: 3, p99: 9, max: 40 };
    return {
        weir: "replay", version: 1,
        logs: [{ name: "a.log", lines: 30969, requests: 30969, bad: 0, left_out: 0 }],
        requests: 30969, keys: 2365, cost: 30969, late: 0, first_ns: T0, last_ns: T0 + HOUR,
        time: { first_ns: T0, width_ns: 30 * MINUTE, buckets: 2 },
        load: {
            requests: [30000, 969],
            peak: { second: percentiles, minute: percentiles, hour: percentiles },
        },
        policies: [policy()], ...more,
    };
}

const tests = {
    "a share has two significant digits, and only nothing is 0 % and only all is 100 %"() {
        for (const [part, all, text] of [[0, 5, "0 %"], [5, 5, "100 %"], [0, 0, "–"], [372, 30969, "1.2 %"],
            [3, 2365, "0.13 %"], [1, 3, "33 %"], [1, 1e9, "< 0.01 %"], [1e9 - 1, 1e9, "> 99.99 %"],
            [997, 1000, "99.7 %"], [9995, 10000, "99.95 %"], [1, 10000, "0.01 %"], [99, 1000, "9.9 %"],
            [995, 10000, "10 %"]])
            same(share(part, all), text);
        for (let i = 0; i < 2000; i++) {
            const all = 1 + below(1e6), part = below(all + 1);
            const shown = Number(plain(share(part, all)).replace(/[<>% ]/g, ""));
            assert.equal(share(part, all).startsWith("0\u202f"), part === 0);
            assert.equal(share(part, all).startsWith("100"), part === all);
            assert.ok(Math.abs(shown - 100 * part / all) <= 0.5, `${part} of ${all}`);
        }
        same(countAndShare(1234, 10000), "1,234 (12 %)");
    },

    "durations and periods"() {
        same(duration(200 * SECOND), "3 m 20 s");
        same(duration(0), "0 s");
        same(period(MINUTE), "minute");
        same(period(15 * MINUTE), "15 m");
        same(period(DAY), "day");
    },

    "times are in UTC, with the digits that they need"() {
        same(stamp(T0), "4 Aug 1995 14:05:30");
        same(stamp(T0, MINUTE), "4 Aug 1995 14:05");
        same(stamp(T0 + 250e6, 250e6), "4 Aug 1995 14:05:30.250");
        same(stamp(T0, DAY), "4 Aug 1995");
        same(span(T0, T0 + HOUR, MINUTE), "4 Aug 1995 14:05 to 15:05");
        same(span(T0, T0 + DAY), "4 Aug 1995 14:05:30 to 5 Aug 1995 14:05:30");
        same(span(T0, T0), "4 Aug 1995 14:05:30");
    },

    "buckets"() {
        const first_ns = Date.UTC(1995, 7, 4, 23, 45) * 1e6;
        const quarters = report({ time: { first_ns, width_ns: 15 * MINUTE, buckets: 3 } });
        assert.deepEqual(bucketTimes(quarters), [0, 1, 2].map((i) => first_ns + i * 15 * MINUTE));
        same(bucketSpan(quarters, 0), "4 Aug 1995 23:45 to 5 Aug 1995 00:00");
        same(bucketSpan(quarters, 1), "5 Aug 1995 00:00 to 00:15");
        const midnight = Date.UTC(1995, 7, 4) * 1e6;
        const days = (n) => report({ time: { first_ns: midnight, width_ns: n * DAY, buckets: 2 } });
        same(bucketSpan(days(1), 1), "5 Aug 1995");
        same(bucketSpan(days(4), 0), "4 Aug 1995 to 7 Aug 1995");
    },

    "keys are readable, short, and never empty"() {
        assert.equal(keyText("192.0.2.1"), "192.0.2.1");
        assert.equal(keyText(""), "(empty)");
        assert.equal(keyText("a\u0007\u202eb"), "a\\u0007\\u202eb");
        assert.equal(keyText("</script>"), "</script>");
        assert.equal(keyText("x".repeat(72)), "x".repeat(72));
        const long = keyText(`${"x".repeat(65500)}-the-end`);
        assert.equal(long, `${"x".repeat(47)}…${"x".repeat(16)}-the-end`);
        for (let i = 0; i < 500; i++) {
            const letter = () => ["a", "🧀", "é", "\u0000", " "][below(5)];
            const key = Array.from({ length: below(400) }, letter).join("");
            const text = keyText(key);
            assert.ok(text.length > 0 && text.length <= 6 * 72 + 2);
            assert.doesNotMatch(text, /[\p{Cc}\p{Cs}]/u); // no half of a surrogate pair
        }
    },

    "the answer"() {
        same(answerText(policy(), 30969), "gcra 100/m burst 20 would have denied 1.2 % of requests, and " +
            "3 of 2,365 keys (0.13 %) at least once.");
        same(answerText(policy({ name: "api", keys: 1, keys_denied: 1 }), 30969),
            "api (gcra 100/m burst 20) would have denied 1.2 % of requests, and 1 of 1 key (100 %) at " +
            "least once.");
        same(answerText(policy({ denied: 0, keys_denied: 0 }), 30969),
            "gcra 100/m burst 20 would have denied no request.");
        const shadow = policy({ shadow: true, denied: 0, would_be_denied: 372 });
        assert.equal(denials(shadow), 372);
        same(answerText(shadow, 30969), "gcra 100/m burst 20 is in shadow mode. Enforced, " +
            "it would have denied 1.2 % of requests, and 3 of 2,365 keys (0.13 %) at least once.");
        same(answerText(policy({ shadow: true, denied: 72, would_be_denied: 300, deny_listed: 72 }), 30969),
            "gcra 100/m burst 20 is in shadow mode (its deny list denies 72 requests even so). Enforced, " +
            "it would have denied 1.2 % of requests, and 3 of 2,365 keys (0.13 %) at least once.");
    },

    "what changes"() {
        const change = (a, b, c, d) => plain(changeText({ change: {
            requests_newly_denied: a, requests_newly_allowed: b,
            keys_newly_denied: c, keys_no_longer_denied: d,
        } }, policy({ name: "api" })));
        assert.equal(changeText(policy(), policy()), "");
        assert.equal(change(0, 0, 0, 0), "Compared with api, it decides every request the same way.");
        assert.equal(change(1200, 1, 2, 1), "Compared with api, it denies 1,200 requests that the baseline " +
            "allows, and allows 1 request that the baseline denies; 2 keys are newly denied, and 1 key is " +
            "no longer denied.");
        assert.equal(change(5, 0, 0, 0),
            "Compared with api, it denies 5 requests that the baseline allows; the denied keys are the " +
            "same.");
    },

    "lock-outs"() {
        same(lockoutText(policy()), "The longest lock-out would have lasted 3 m 20 s: key host-a, from " +
            "4 Aug 1995 14:05:30 UTC.");
        assert.equal(lockoutText(policy({ lockout: null })), "");
    },

    "the head of the page"() {
        same(aboutText(report()), "30,969 requests of 2,365 keys, 4 Aug 1995 14:05:30 to 15:05:30 UTC (1 h)");
        assert.equal(aboutText(report({ requests: 0 })), "The log has no requests.");
        const named = (...names) => logNames({ logs: names.map((name) => ({ name })) });
        assert.equal(named("a"), "a");
        assert.equal(named("-"), "standard input");
        assert.equal(named("a", "b", "/var/log/c.gz"), "a, b and c.gz");
        assert.equal(named("a", "b", "c", "d", "e"), "a, b and 3 other logs");
        assert.equal(named("a\u001b[31m"), "a\\u001b[31m");
        assert.equal(unitName(report()), "requests");
        assert.equal(unitName(report({ cost: 5 })), "units");
        assert.equal(policyTitle(policy({ name: "a\u0000" })), "a\\u0000 (gcra 100/m burst 20)");
    },

    "what a reader must know"() {
        assert.deepEqual(notices(report()), []);
        const logs = [{ name: "a", lines: 100, requests: 98, bad: 1, left_out: 0 },
            { name: "b", lines: 100, requests: 99, bad: 1, left_out: 0 }];
        assert.deepEqual(notices(report({ logs, late: 2, notes: ["a\u0007"] })).map(plain), [
            "a\\u0007", "2 of 200 lines (1 %) could not be read and are not in the figures.",
            "2 requests came too late to be put in order, and were decided later than the log says."]);
    },

    "limits appear beside the peaks of their period"() {
        const at = (limit, window_ns) => ({ units: 1, limit, window_ns, key: "", at_ns: T0 });
        const rows = peakRows(report({ policies: [policy({ name: "b", peak_admitted: at(200, MINUTE) }),
            policy({ name: "a", peak_admitted: at(100, MINUTE) }),
            policy({ name: "c", peak_admitted: at(200, MINUTE) }),
            policy({ peak_admitted: at(5, 15 * MINUTE) }), policy({ peak_admitted: null })] }));
        assert.deepEqual(rows.map(({ name }) => name), ["second", "minute", "hour"]);
        assert.deepEqual([rows[1].p50, rows[1].max], [1, 40]);
        assert.equal(limitsText(rows[1]), "100 (a); 200 (b, c)");
        assert.equal(limitsText(rows[0]), "–");
        const limits = Array.from({ length: 12 }, (_, i) => ({ limit: i + 1, names: ["a"] }));
        assert.equal(limitsText({ limits }), "1 (a); 2 (a); 3 (a); 4 (a); 8 others");
    },

    "the peaks are drawn inside of the picture, for all sizes"() {
        for (let i = 0; i < 200; i++) {
            const width = 240 + below(1000);
            const [p50, p90, p99, max] = [10, 100, 1000, 1e6].map(below).sort((a, b) => a - b);
            const rows = ["second", "minute", "hour"].map((name) =>
                ({ name, p50, p90, p99, max, limits: [{ limit: 1 + below(1e6), names: ["a"] }] }));
            const surface = new SvgSurface(width, PEAKS_HEIGHT);
            drawPeaks(surface, width, rows, themes.light);
            const svg = surface.toString();
            assert.doesNotMatch(svg, /NaN|Infinity/);
            for (const [, x] of svg.matchAll(/ c?x="([^"]+)"/g))
                assert.ok(Number(x) >= 0 && Number(x) <= width, `${x} of ${width}`);
            const centred = /<text x="([^"]+)"[^>]*text-anchor="middle"[^>]*>([^<]*)</g;
            for (const [, x, text] of svg.matchAll(centred))
                assert.ok(Number(x) + textWidth(text, { size: 11 }) / 2 <= width, `${text} at ${x}`);
        }
    },

    "a time line shows each bucket with requests, and nothing for the others"() {
        const surface = new SvgSurface(192, 26);
        drawSpark(surface, { x: 0, y: 0, w: 192, h: 25 }, [1, 0, 1000], [0, 0, 400], themes.light);
        const bars = [...surface.toString().matchAll(/<rect .*height="([^"]+)" fill="([^"]+)"/g)]
            .map(([, height, fill]) => [Number(height), fill]);
        const { edge, denied } = themes.light;
        assert.deepEqual(bars, [[1.5, edge], [25, edge], [10, denied]]);
    },

    "20 policies have lines of their own"() {
        const styles = Array.from({ length: 20 }, (_, i) => JSON.stringify(lineStyle(i)));
        assert(!styles.some((style) => style.includes("denied")), "a policy has the colour of a denial");
        assert.equal(new Set(styles).size, 20);
    },

    "columns are sorted by number or by text"() {
        assert.deepEqual([10, 9, 1].sort(compareValues), [1, 9, 10]);
        assert.deepEqual(["key10", "key9", "Key1"].sort(compareValues), ["Key1", "key9", "key10"]);
    },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
    try {
        test();
    } catch (error) {
        failed++;
        console.error(`failed: ${name}\n${error.stack}`);
    }
}
console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed (seed ${seed})`);
process.exitCode = failed > 0 ? 1 : 0;
