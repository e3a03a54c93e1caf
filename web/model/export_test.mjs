// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests export.mjs with the programs that read its texts: weir, redis-cli with a daemon, nginx with the
// module if that is built, and a C compiler. Tests headers.mjs against the daemon.
//
//     node web/model/export_test.mjs WASM WEIR NGINX_MODULE

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { csvParts, toC, toCsv, toNginx, toResp, toYaml } from "./export.mjs";
import { POLICIES, runTests, zones } from "./model_test_kit.mjs";
import { presets } from "./presets.mjs";
import { MAX_COST } from "./scene.mjs";
import { World } from "./world.mjs";

const [, , , program, nginxModule] = process.argv;
const include = fileURLToPath(new URL("../../include", import.meta.url));
const policies = [...POLICIES, ...presets.flatMap(({ scene }) => scene.lanes)];
const MORE_POLICIES = ["fixed-window 5/year & gcra 7/90m burst 3", "token-bucket 9 refill 5 every 10s"];
const directory = mkdtempSync(join(tmpdir(), "weir-export-"));
const file = (name) => join(directory, name);

/** Runs a program, asserts that it succeeds, and returns its standard output. */
function run(command, args, options = {}) {
    const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8", ...options });
    assert.equal(error, undefined);
    assert.equal(status, 0, `${command} ${args.join(" ")}\n${stdout}${stderr}`);
    return stdout;
}

/** Starts a daemon. Returns it and the port of HTTP once it listens on the socket. */
function startDaemon(socket) {
    const config = `listen: {resp: off, http: 127.0.0.1:0, unix: ${socket}}\n`;
    writeFileSync(file("daemon.yaml"), config);
    const daemon = spawn(program, ["serve", file("daemon.yaml")], { stdio: ["ignore", "pipe", "pipe"] });
    return new Promise((resolve, reject) => {
        let log = "";
        const onLog = (bytes) => {
            log += bytes;
            const started = / started .*\bhttp=[^ ]*:(\d+)/.exec(log);
            if (started)
                resolve({ daemon, port: Number(started[1]) });
        };
        daemon.stdout.on("data", onLog);
        daemon.stderr.on("data", onLog);
        daemon.on("exit", () => reject(new Error(`the daemon did not start: ${log}`)));
    });
}

/** Calls a function with the socket and the HTTP port of a daemon. */
async function withDaemon(use) {
    const socket = file("socket"), { daemon, port } = await startDaemon(socket);
    try {
        await use(socket, port);
    } finally {
        const ended = new Promise((resolve) => daemon.removeAllListeners("exit").on("exit", resolve));
        daemon.kill();
        await ended;
    }
}

/** Asserts that a response has exactly the fields of a lane, besides those of every response. */
function assertHeaders(response, [[, status], ...fields]) {
    const others = ["connection", "content-length", "content-type", "date", "x-content-type-options"];
    const sent = [...response.headers].filter(([name]) => !others.includes(name));
    assert.equal(`${response.status} ${response.statusText}`, status);
    assert.deepEqual(sent, fields.map(([name, value]) => [name.toLowerCase(), value]).sort());
}

const tests = {
    writes_a_configuration() {
        for (const text of policies) {
            writeFileSync(file("weir.yaml"), toYaml(text, "my policy: 1"));
            run(program, ["check", "--syntax", "--quiet", file("weir.yaml")]);
        }
        assert.match(toYaml("gcra  1/s\n burst 2", ": }"), /"api": "gcra 1\/s burst 2"/);
    },

    writes_a_command() {
        return withDaemon((socket) => {
            for (const text of new Set(policies)) {
                const command = toResp(text, "it's $HOME `x`");
                assert(command.startsWith("redis-cli -p 6380 "));
                const reply = run("sh", ["-c", command.replace("-p 6380", `-s '${socket}'`)]);
                assert.match(reply, /^1\n\d+\n\d+\n/, text);
            }
        });
    },

    has_the_headers_of_the_daemon(weir) {
        return withDaemon(async (socket, port) => {
            for (const text of new Set([...policies, ...MORE_POLICIES])) {
                // The daemon only peeks, but a lane counts a denied request of a count-denied policy.
                for (const cost of text.includes("count-denied") ? [0] : [0, MAX_COST]) {
                    const world = new World(weir, { lanes: [text] }, { zones });
                    world.hit("alice", cost);
                    const parameters = new URLSearchParams({ limit: text, key: "alice", cost: String(cost) });
                    const response = await fetch(`http://127.0.0.1:${port}/v1/peek?${parameters}`);
                    assertHeaders(response, world.lanes[0].headers(0));
                    world.free();
                }
            }
        });
    },

    writes_an_nginx_configuration() {
        policies.forEach((text, i) => {
            const http = toNginx(text, `zone ${i}`).replace("listen 80", `listen unix:${file("nginx")}`);
            const main = [`load_module ${nginxModule};`, `pid ${file("pid")};`, "error_log stderr;"];
            const lines = [...main, "events {}", "http {", "access_log off;", http, "}"];
            writeFileSync(file("nginx.conf"), lines.join("\n"));
            run("nginx", ["-t", "-q", "-p", directory, "-c", file("nginx.conf")]);
        });
    },

    writes_a_program() {
        const warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic"];
        for (const text of ["gcra 5/s burst 10", "sliding-log 5/m & fixed-window 9/day tz Europe/Berlin"]) {
            writeFileSync(file("limit.c"), toC(text, "9 lives!"));
            run("cc", ["-std=gnu11", ...warnings, "-fsyntax-only", `-I${include}`, file("limit.c")]);
        }
        assert.match(toC("fixed-window 5/day tz UTC", "api"), /NULL, &error/);
    },

    writes_a_timeline(weir) {
        const hits = [[0, 'a"b,c', 1], [5, "é\n", 2], [6, "x", 9]];
        const world = new World(weir, { lanes: ["gcra 2/s burst 2", "gcra 5/x"], hits, begin: "2026-01-01" });
        world.seek(6);
        const policy = "gcra 2/s burst 2", none = ",".repeat(8);
        const head = [
            "policy", "allowed", "limit", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns",
            "layer",
        ];
        const heads = [1, 2].flatMap((n) => head.map((name) => `lane${n}_${name}`));
        assert.deepEqual(toCsv(world).split("\r\n"), [
            ["t_ns", "key", "cost", ...heads].join(","),
            `1767225600000000000,"a""b,c",1,${policy},1,2,1,0,500000000,0,0${none}`,
            `1767225600000000005,"é\n",2,${policy},1,2,0,0,1000000000,0,0${none}`,
            `1767225600000000006,x,9,${policy},0,2,2,never,0,0,0${none}`,
            "",
        ]);
        world.free();
    },

    writes_a_long_timeline_in_parts(weir) {
        const traffic = { kind: "steady", rate: 100, users: 3, cost: 1 };
        const world = new World(weir, { lanes: ["gcra 5/s", "sliding-log 5/s"], traffic });
        world.seek(10e9);
        const parts = [...csvParts(world)];
        assert(parts.length > 2 && parts.every(({ text }) => text.split("\n").length <= 258));
        assert.equal(parts.map(({ text }) => text).join(""), toCsv(world));
        assert.equal(parts.at(-1)?.done, 1);
        const started = csvParts(world);
        started.next();
        world.hit("alice"); // changes no earlier decision
        started.next();
        world.seek(0);
        world.hit("alice");
        assert.throws(() => started.next(), /changed meanwhile/);
        world.free();
    },

    writes_every_request_of_a_preset(weir) {
        for (const { scene, seconds } of presets) {
            const world = new World(weir, scene, { zones });
            world.seek(Math.min(seconds, 600) * 1e9);
            const lines = toCsv(world).split("\r\n");
            assert.equal(lines.length, world.index + 2);
            assert.equal(new Set(lines.slice(0, -1).map((line) => line.split(",").length)).size, 1);
            world.free();
        }
    },
};

if (!nginxModule || !existsSync(nginxModule))
    delete tests.writes_an_nginx_configuration;
try {
    await runTests(tests);
} finally {
    rmSync(directory, { recursive: true });
}
