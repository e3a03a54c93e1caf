// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests access_log.mjs against `weir replay`: both read the same lines of random logs, valid and damaged, and
// decide them alike.
//
//     node web/model/access_log_test.mjs WASM WEIR [SEED]

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { parseLog } from "./access_log.mjs";
import { keyOfAddress } from "./address.mjs";
import { randomOf, runTests } from "./model_test_kit.mjs";
import { MAX_EVENTS, MAX_KEYS } from "./scene.mjs";
import { World } from "./world.mjs";

const [, , , program, seedText] = process.argv;
const below = randomOf(Number(seedText ?? 1));
const pick = (list) => list[below(list.length)];
const mostly = (usual, list) => (below(12) > 0 ? usual : pick(list));
const many = (count, make) => Array.from({ length: count }, make);
const ROUNDS = 60;

const HOSTS = [
    "192.0.2.1", "192.0.2.01", "::ffff:192.0.2.1", "2001:db8::1", "2001:DB8:0:0:1::2", "2001:db8:0:0:ffff::",
    "2001:db8:0:1::1", "::", "::1", "1::", "fe80::1%eth0", "[::1]", "host.example.org", "x", "0::192.0.2.7",
    "-",
];
const TIME = "[01/Jan/2026:00:00:00 +0000]";
const IDENTS = ["-", "-", "-", "ident", "192.0.2.9", "a.b", "2001:db8::1"];
const USERS = ["-", "-", "alice", "a b", "- x", "a [b", "[01/", `a ${TIME}`];
const ZONES = ["+0000", "-0400", "+0530", "+2359", "+2400"];
const MONTHS = ["Jan", "Feb", "Mar", "Nov", "Dec", "Foo"];
const VHOSTS = ["example.org", "example.org:443", "a,", "-"];
const POLICIES = ["gcra 3/m burst 2", "sliding-log 4/m", "fixed-window 3/h", "token-bucket 5 refill 1/m"];

const UNUSUAL = [
    `192.0.2.1, - - ${TIME}`, `a, 192.0.2.1 - - ${TIME}`, `192.0.2.1 - a [b ${TIME} x`, `a.b c.d e f ${TIME}`,
    `a:80 b c d ${TIME}`, `a b c d ${TIME}`, `a b - d ${TIME}`, `a 192.0.2.1 c ${TIME}`, `a ::1 c ${TIME}`,
    `a - x ${TIME} ${TIME} "GET`, `a - x ${TIME} ${TIME}`, `a - x ${TIME} "GET / 200 ${TIME} "GET`,
    `a - x ${TIME} "GET / ${TIME} " 200`, `a - x [01/ ${TIME} ""`, `a - x ${TIME} " ${TIME} "" 400`,
    `a,b - - ${TIME}`, `a,b c - - ${TIME}`, `- - - ${TIME}`, `"a" - - ${TIME}`,
    `a - x [01/Jan/2300:00:00:00 +0000] ${TIME} "GET`,
    ` - - ${TIME}`, `a - - ${TIME.toLowerCase()}`, `a - -  ${TIME}`, `a - - [01/Jan/2026:00:00:00. +0000]`,
    `a - - [29/Feb/2024:00:00:60.1234567891 -0000]`, `a - - [29/Feb/2026:00:00:00 +0000]`,
    '{"t_ns":1,"key":"a","x":{"cost":5},"cost":2}', '{"t_ns":1,"key":"a","x":{"cost":5}}',
    '{"t_ns":1,"key":"a","x":[{"cost":5},"cost"]}', '{"t_ns":1,"key":"a","x":{"y":1,"y":2}}',
    '{"t_ns":1,"key":"a","cost":"5"}', '{"t_ns":1,"\\u006bey":"a"}', '{"t_ns":1,"key":"a"} x',
    "[1]", "1\ta\t",
];

const two = (n) => String(n).padStart(2, "0");

function clfLine() {
    const day = two(mostly(1, [28, 29, 30, 31, 32, 0])), hour = two(mostly(7, [0, 23, 24]));
    const clock = `${hour}:${two(mostly(below(3), [59, 60]))}:${two(mostly(below(60), [59, 60, 61]))}`;
    const fraction = below(4) === 0 ? `.${below(1e6)}` : "";
    const date = `${day}/${mostly("Jan", MONTHS)}/${below(50) > 0 ? 2026 : pick([1995, 1969, 2225])}`;
    const time = `[${date}:${clock}${fraction} ${mostly("+0000", ZONES)}]`;
    const ident = mostly("-", IDENTS), user = mostly("-", USERS);
    return `${pick(HOSTS)} ${ident} ${user} ${time} "GET /a HTTP/1.1" 200 512 "-" "curl"`;
}

function tsvLine() {
    const time = `17672256${two(below(60))}${String(below(1e9)).padStart(9, "0")}`;
    const any = below(60) > 0 ? time : pick(["8070450532247928832", "8070450532247928833", "0", "1.5"]);
    const costs = many(below(2), () => pick(["1", "2", "0", "007", "99999999999999999999"]));
    return [any, pick(HOSTS), ...costs].join("\t");
}

function jsonLine() {
    const usual = `"t_ns":17672256${two(below(60))}12345678${below(10)}`;
    const rfc3339 = ['"time":"2026-01-01T00:00:05Z"', '"time":"2026-01-01t01:30:05.5+01:30"'];
    const time = mostly(mostly(usual, rfc3339), [
        '"t_ns":1767225600123456789', '"t_ns":1767225600123456788', '"t_ns":0', '"t_ns":8070450532247928833',
        '"time":"2026-02-29 00:00:00z"', '"time":"2026-01-01 00:00:60z"', '"time":"2026-01-01T00:00:00"',
        '"t_ns":1.5', '"t_ns":-1', '"t_ns":1,"time":"2026-01-02T03:04:05Z"', '"t_ns":-0', 
        '"t_ns":99999999999999999999',
    ]);
    const key = mostly(`"key":"alice${below(3)}"`, [
        '"key":"2001:db8::1"', '"key":7', '"key":7.0', '"key":9007199254740993',
        '"key":9007199254740992', '"key":true', '"key":"tr\\u0075e"', '"key":null', '"key":""', '"k":1',
        '"key":1,"key":2', '"key":99999999999999999999', '"key":{}', '"key":"7"', '"key":0.1',
        '"key":"\\u0000"',
    ]);
    const cost = mostly(`"cost":${below(3)}`, [
        '"cost":-1', '"cost":1.0', '"cost":"1"', '"a":{"cost":5}', '"cost":-0', '"a":[{"key":1,"key":1}]',
        '"cost":99999999999999999999', '"b":"}"', '"cost":99999999999999999999',
    ]);
    return `{${[time, key, cost].sort(() => below(2) - 0.5).join(pick([",", " , "]))}}`;
}

function damaged(line) {
    const at = below(line.length + 1);
    const insert = pick(["", " ", "\t", '"', "[", "-", ",", "\r", "}", "0", "x", "\u0000"]);
    return line.slice(0, at) + insert + line.slice(at + below(3));
}

function randomLog() {
    const line = pick([clfLine, tsvLine, jsonLine, () => `${mostly("example.org", VHOSTS)} ${clfLine()}`]);
    const lines = many(1 + below(60), () => (below(12) === 0 ? damaged(line()) : line()));
    lines.splice(below(lines.length), 0, pick(["", "\r", "nonsense", lines[0]]));
    return lines.join(pick(["\n", "\r\n"])) + pick(["", "\n"]);
}

/** Returns the decisions of weir replay and its number of unreadable lines. */
function replay(log, policy) {
    const order = ["--no-progress", "--reorder", "0"];
    const args = ["replay", ...order, "--policy", policy, "--decisions", "jsonl", "-"];
    const { stdout, stderr, error } = spawnSync(program, args, { input: log, maxBuffer: 1 << 28 });
    assert.equal(error, undefined);
    const lines = stdout.toString().split("\n").filter((line) => line !== "");
    const bad = / (\d+) lines? could not be read/.exec(stderr.toString())?.[1] ?? "0";
    return { decisions: lines.map((line) => JSON.parse(line)), bad: Number(bad) };
}

const tests = {
    gives_up_a_file_that_is_no_log() {
        for (const line of ["this is no log line", '{"t_ns": 1}', '{"time": 3']) {
            const { lines, bad, events } = parseLog(`${line}\n`.repeat(5000));
            assert.deepEqual([lines, bad, events.times.length], [1000, 1000, 0]);
        }
        const late = parseLog(`${"no log\n".repeat(999)}1\talice\n${"no log\n".repeat(2000)}2\talice\n`);
        assert.deepEqual([late.events.times.length, late.bad], [2, 2999]);
    },

    reads_and_decides_random_logs_as_replay_does(weir) {
        let requests = 0, denied = 0;
        for (let i = 0; i < ROUNDS; i++) {
            const log = randomLog(), policy = pick(POLICIES);
            const parsed = parseLog(log);
            const { decisions, bad } = replay(log, policy);
            assert.equal(parsed.events.times.length + parsed.dropped, decisions.length, log);
            if (decisions.length > 0)
                assert.equal(parsed.bad, bad, log);
            if (parsed.dropped > 0) // a log of many years
                continue;
            const traffic = { kind: "log", log: { ...parsed, name: "x" } };
            const world = new World(weir, { lanes: [policy], traffic });
            world.seek(2 ** 53);
            assert.equal(world.index, decisions.length);
            decisions.forEach((decision, n) => {
                const event = world.lanes[0].event(n);
                assert.equal(event.allowed, decision.allowed, `line ${n} of\n${log}`);
                assert.equal(event.remaining, decision.remaining);
            });
            requests += decisions.length;
            denied += decisions.filter(({ allowed }) => !allowed).length;
            world.free();
        }
        assert(requests > ROUNDS * 5 && denied > ROUNDS, `${requests} requests, ${denied} denied`);
    },

    reads_unusual_lines_as_replay_does() {
        for (const line of UNUSUAL) {
            const { decisions } = replay(line, "fixed-window 1000/h"), { events } = parseLog(line);
            assert.equal(events.times.length, decisions.length, line);
            if (decisions.length > 0)
                assert.equal(events.costs[0], decisions[0].cost, line);
        }
    },

    reads_each_format() {
        const time = "[01/Aug/1995:02:00:04 -0400]";
        const formats = {
            combined: `192.0.2.1 - alice ${time} "GET / HTTP/1.1" 200 1 "-" "curl"`,
            vhost_combined: `example.org 192.0.2.1 - alice ${time} "GET / HTTP/1.1" 200 1 "-" "curl"`,
            tsv: "807256804000000000\t192.0.2.1",
            jsonl: '{"time": "1995-08-01T06:00:04Z", "key": "192.0.2.1"}',
        };
        for (const [format, line] of Object.entries(formats)) {
            const log = parseLog(`${line}\n${line}\n`);
            assert.deepEqual([log.format, log.lines, log.bad], [format, 2, 0]);
            assert.deepEqual(log.events.names, ["192.0.2.1"]);
            assert.equal(log.begin, "1995-08-01T06:00:04.000Z");
        }
    },

    reads_addresses_as_networks() {
        const same = ["2001:db8::1", "2001:DB8:0::2", "2001:0db8::", "2001:db8:0:0:ffff:ffff:192.0.2.1"];
        same.forEach((address) => assert.equal(keyOfAddress(address), "2001:db8::/64"));
        assert.equal(keyOfAddress("::ffff:192.0.2.1"), "192.0.2.1");
        assert.equal(keyOfAddress("1:0:0:2:3:4:5:6"), "1:0:0:2::/64");
        assert.equal(keyOfAddress("::1"), "::/64");
        const others = [
            "192.0.2.1", "a:b", "1:2:3:4:5:6:7:8:9", "::1::", "1::2%eth0", "user:dead::beef", ":::",
        ];
        for (const text of others)
            assert.equal(keyOfAddress(text), text);
    },

    reports_lines_and_limits() {
        const log = parseLog("1\ta\nx\n2\tb\tc\n");
        assert.deepEqual(log.errors, [
            { line: 2, message: "column 1: expected t_ns, whole nanoseconds since 1970" },
            { line: 3, message: "column 5: expected a cost: a whole number from 0" },
        ]);
        const keys = parseLog(many(MAX_KEYS + 5, (_, i) => `${i}\tkey${i}`).join("\n"));
        assert.deepEqual([keys.dropped, keys.events.names.length], [5, MAX_KEYS]);
        const lines = "1\ta\n".repeat(MAX_EVENTS);
        assert.deepEqual([parseLog(lines).truncated, parseLog(`${lines}1\ta`).truncated], [false, true]);
        const empty = parseLog("");
        assert.deepEqual([empty.begin, empty.format, empty.events.times.length], [null, null, 0]);
    },

    survives_any_bytes() {
        for (let i = 0; i < 2000; i++)
            parseLog(String.fromCharCode(...many(below(200), () => below(pick([128, 256, 65536])))));
        assert.equal(parseLog(`${"x".repeat(1 << 21)}\n1\ta`).events.times.length, 1);
    },
};

await runTests(tests);
