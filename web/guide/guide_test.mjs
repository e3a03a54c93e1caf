// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests the guide: its scenes are valid, and every number in the text that describes a scene is what the
// scene does.
//
//     node web/guide/guide_test.mjs WASM WEIR

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { compare } from "../model/compare.mjs";
import { presetOf } from "../model/presets.mjs";
import { leftOutOfHash, sceneFromHash, sceneToHash } from "../model/scene.mjs";
import { World } from "../model/world.mjs";
import { load } from "../wasm/weir.mjs";
import { READER, countSpam, messagesOf } from "./chat.mjs";
import { countServers, pictures, servers } from "./scenes.mjs";

const S = 1e9;
const html = readFileSync(new URL("guide.html", import.meta.url), "utf8");
const zones = (name) => readFileSync(`/usr/share/zoneinfo/${name}`);

/** Returns the scene's world after some seconds. */
function worldOf(weir, scene, seconds) {
    const world = new World(weir, structuredClone(scene), { zones });
    world.seek(seconds * S);
    return world;
}

/** Returns the requests of a lane with from <= time < to, in seconds. */
function eventsOf(world, lane, from = 0, to = Infinity) {
    const events = Array.from({ length: world.index }, (_, i) => world.lanes[lane].event(i));
    return events.filter(({ time }) => time >= from * S && time < to * S);
}

const allowedOf = (...args) => eventsOf(...args).filter(({ allowed }) => allowed).length;
const deniedOf = (...args) => eventsOf(...args).filter(({ allowed }) => !allowed).length;
const percent = (part, whole) => Math.round((100 * part) / whole);

/** Computes the facts of a scene, whose names begin with the scene's. */
const facts = {
    chat(weir) {
        const world = worldOf(weir, pictures.chat.scene, 60);
        const spammer = world.traffic.names.indexOf("spammer");
        const isSpam = (event) => world.traffic.keys[event.index] === spammer;
        const events = eventsOf(world, 0);
        const denied = events.filter(({ allowed }) => !allowed);
        return {
            spammerSent: events.filter(isSpam).length,
            spammerDenied: denied.filter(isSpam).length,
            othersSent: events.filter((event) => !isSpam(event)).length,
            othersDenied: denied.filter((event) => !isSpam(event)).length,
        };
    },

    first(weir) {
        const world = worldOf(weir, pictures["from-first"].scene, 40);
        const [first, ...others] = eventsOf(world, 0), begin = first.time / S, end = begin + 10;
        const soon = worldOf(weir, pictures["from-first"].scene, end - 1);
        assert.equal(soon.lanes[0].look(soon.watch, soon.now, soon.index)[0].endNs, end * S);
        return {
            begin,
            end,
            sent: eventsOf(world, 0, 0, end).length,
            allowed: allowedOf(world, 0, 0, end),
            next: others.find(({ time }) => time >= end * S).time / S,
        };
    },

    sliding(weir) {
        const world = worldOf(weir, pictures["sliding-log"].scene, 40);
        const times = eventsOf(world, 0).filter(({ allowed }) => allowed).map(({ time }) => time);
        assert.deepEqual(pictures["sliding-log"].scene.traffic, pictures["fixed-window"].scene.traffic);
        return {
            sent: eventsOf(world, 0).length,
            allowed: times.length,
            most: Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 10 * S).length)),
        };
    },

    boundary(weir) {
        const world = worldOf(weir, pictures.boundary.scene, 60);
        assert.equal(eventsOf(world, 0, 4, 6).length, 20);
        return { fixed: allowedOf(world, 0, 4, 6), log: allowedOf(world, 1, 4, 6) };
    },

    starved(weir) {
        const world = worldOf(weir, pictures.starved.scene, 60);
        const counts = [0, 1].map((lane) => allowedOf(world, lane, 0, 60));
        assert.equal(world.lanes[1].event(world.index - 1).allowed, false);
        return { sent: eventsOf(world, 0, 0, 60).length, log: counts[0], countDenied: counts[1] };
    },

    counter(weir) {
        const world = worldOf(weir, pictures.counter.scene, 30);
        return { counter: allowedOf(world, 0, 4, 14), log: allowedOf(world, 1, 4, 14) };
    },

    even(weir) {
        const { scene } = pictures.even;
        const world = worldOf(weir, scene, 600);
        const { both, neither, requests } = compare(world.lanes[0], world.lanes[1], 0, world.index);
        return {
            rate: scene.traffic.rate,
            same: percent(both + neither, requests),
            counterShare: percent(allowedOf(world, 0), requests),
            logShare: percent(allowedOf(world, 1), requests),
        };
    },

    bucket(weir) {
        const world = worldOf(weir, pictures["token-bucket"].scene, 40);
        const spans = [[0, 5], [5, 25], [25, 40]];
        assert(spans.every((span) => eventsOf(world, 0, ...span).length === 15));
        const [first, second, third] = spans.map((span) => allowedOf(world, 0, ...span));
        return { first, second, third };
    },

    gcra(weir) {
        const world = worldOf(weir, pictures.gcra.scene, 30);
        for (let from = 1; from < 25; from += 4) {
            assert.equal(allowedOf(world, 0, from, from + 1), 1);
            assert.equal(allowedOf(world, 1, from, from + 1), 5);
        }
        return { even: allowedOf(world, 0, 1, 2), burst: allowedOf(world, 1, 1, 2) };
    },

    leaky(weir) {
        const world = worldOf(weir, pictures["leaky-bucket"].scene, 300);
        const { onlyA, onlyB, requests } = compare(world.lanes[0], world.lanes[1], 0, world.index);
        assert(deniedOf(world, 0) > 100);
        return { differ: onlyA + onlyB, requests };
    },

    queue(weir) {
        const world = worldOf(weir, pictures.queue.scene, 120);
        const events = eventsOf(world, 0, 0, 120), first = events.find(({ allowed }) => !allowed);
        const late = events.filter((event) => event.time >= first.time && event.allowed);
        assert.equal(deniedOf(world, 0, 0, 120), deniedOf(world, 1, 0, 120));
        assert(late.every(({ delayNs }) => delayNs > 4.8 * S));
        return {
            fullAfter: Math.ceil(first.time / S),
            delay: Math.max(...late.map(({ delayNs }) => delayNs)) / S,
            denied: deniedOf(world, 0, 0, 120),
            sent: events.length,
        };
    },

    servers(weir) {
        const own = worldOf(weir, pictures.servers.scene, 20);
        const soon = servers.lanes.map(({ scene }) => worldOf(weir, scene, servers.windowSeconds - 0.1));
        const worlds = servers.lanes.map(({ scene }) => worldOf(weir, scene, 20));
        const counts = worlds.map((world) => allowedOf(world, 0, 0, servers.windowSeconds));
        assert.equal(counts[0] + counts[1], allowedOf(own, 0, 0, servers.windowSeconds));
        const times = worlds.map((world) => eventsOf(world, 0).map(({ time }) => time));
        assert.deepEqual([...times[0], ...times[1]].sort((a, b) => a - b), times[2]);
        const half = { ...servers.lanes[2].scene, lanes: ["sliding-log 5/10s"] };
        assert.deepEqual(countServers(soon), { own: counts[0] + counts[1], shared: counts[2] });
        return {
            own: counts[0] + counts[1],
            shared: counts[2],
            pinned: allowedOf(worldOf(weir, half, 10), 0, 0, servers.windowSeconds),
        };
    },

    layers(weir) {
        const world = worldOf(weir, pictures.layers.scene, 60);
        const denied = eventsOf(world, 0, 0, 60).filter(({ allowed }) => !allowed);
        assert.equal(allowedOf(world, 0, 0, 60), 20);
        assert(denied.every(({ layer }) => layer === 1));
        assert.equal(denied.length, eventsOf(world, 0, denied[0].time / S, 60).length);
        return { after: denied[0].time / S };
    },
};

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };

/** Returns the text of HTML. */
const plain = (text) => text.replace(/<[^>]+>/g, "").replace(/&\w+;/g, (entity) => ENTITIES[entity]);

/** Returns the content of the element <pre> with an attribute. */
function preOf(attribute) {
    const match = new RegExp(`<pre[^>]* ${attribute}><code>(.*?)</code></pre>`, "s").exec(html);
    assert(match, attribute);
    return plain(match[1]);
}

const tests = {
    shows_the_chat_with_and_without_the_limiter(weir) {
        const world = worldOf(weir, pictures.chat.scene, 60);
        world.hold(true);
        for (let i = 0; i < 4; i++)
            world.hit(READER);
        const messages = messagesOf(world), own = messages.slice(-4);
        assert.equal(messages.length, 164);
        assert.deepEqual(own.map(({ allowed }) => allowed), [true, true, true, false]);
        assert(own[3].retryNs > 0 && own.every(({ name }) => name === READER));
        assert.deepEqual(countSpam(messages.slice(0, 160)),
            { all: 160, spam: 130, text: "130 of 160 messages are spam" });
        assert.equal(countSpam(messages.filter(({ allowed }) => allowed)).spam, 17);
        assert.equal(new Set(messages.map(({ index }) => index)).size, 164);
    },

    has_a_valid_scene_for_each_figure(weir) {
        const names = [...html.matchAll(/data-(?:scene|open)="([^"]+)"/g)].map((match) => match[1]);
        assert.deepEqual(names.sort(), Object.keys(pictures).sort());
        for (const { titles, scene } of [...Object.values(pictures), ...servers.lanes]) {
            assert.equal(titles.length, scene.lanes.length);
            for (const text of scene.lanes)
                assert.equal(weir.policy(text, { zones }).text, text);
            assert.deepEqual(leftOutOfHash(scene), []);
            assert.deepEqual(sceneFromHash(sceneToHash(scene)), scene);
        }
    },

    links_to_scenes(weir) {
        const links = [...html.matchAll(/<a href="playground\.html(#[^"]+)"[^>]*>\s*(.*?)\s*<\/a>/gs)];
        assert(links.length >= 7);
        for (const [, hash, text] of links) {
            const scene = sceneFromHash(plain(hash));
            assert.equal(sceneToHash(scene), plain(hash));
            if (text.startsWith("<code>"))
                assert.deepEqual(scene.lanes, [plain(text)]);
            const world = worldOf(weir, scene, 4 * scene.span);
            assert(!world.lanes[0].error && (world.index > 0 || scene.traffic.kind === "none"));
        }
        for (const [, id] of html.matchAll(/data-preset="([^"]+)"/g))
            assert(presetOf(id), id);
    },

    states_what_the_scenes_do(weir) {
        const stated = {};
        for (const [, scene, name, value] of html.matchAll(/data-fact="(\w+)\.(\w+)">([^<]*)</g))
            (stated[scene] ??= {})[name] = Number(value);
        const found = {};
        for (const [scene, compute] of Object.entries(facts))
            found[scene] = compute(weir);
        assert.deepEqual(stated, found);
    },

    names_valid_policies(weir) {
        const starts = /^(gcra|token-bucket|leaky-bucket|leaky-queue|fixed-window|sliding-[a-z]+) /;
        const codes = [...html.matchAll(/<code>([^<]+)<\/code>/g)].map((match) => plain(match[1]));
        const policies = codes.filter((text) => starts.test(text));
        assert(policies.length > 15);
        for (const text of policies)
            weir.policy(text, { zones }).free();
    },

    quotes_the_reports(weir) {
        const report = (text) => weir.policy(text).report;
        assert.match(report("sliding-log 5/m"), /64 to 80 bytes a key/);
        assert.match(html, /64 to 80 bytes for a key/);
        assert.match(report("sliding-slices 100/h slices 60"), /256 bytes a key/);
        assert.match(html, /256 bytes for a key/);
        assert.match(report("sliding-counter 10/10s"), /worst case +19 within/);
    },

    shows_commands_that_work() {
        const program = (args, input) => execFileSync(process.argv[3], args, { input, encoding: "utf8" });
        const [command, ...shown] = preOf('data-report="token-bucket 10 refill 1/s"').split("\n");
        const policy = /^\$ weir policy '(.*)'$/.exec(command)[1];
        assert.equal(shown.join("\n").trim(), program(["policy", policy]).trim());
        const config = preOf('data-file="weir.yaml"');
        assert(config.includes(`api: ${policy}`));
        assert.equal(program(["check", "--quiet", "-"], config), "");
        assert.deepEqual(pictures.run.scene.lanes, [policy]);
    },

    quotes_the_headers_of_a_denial(weir) {
        const world = new World(weir, { ...pictures.run.scene, traffic: { kind: "none" } });
        for (let i = 0; i < 11; i++)
            world.hit("alice", 1);
        const named = world.lanes[0].headers(10).map(([name, value]) => `${name}: ${value}`);
        const lines = preOf('data-answer="429"').split("\n");
        assert.deepEqual(lines.slice(3, 5),
            ["HTTP/1.1 429 Too Many Requests", "Content-Type: application/problem+json"]);
        for (const line of lines.slice(5, -1))
            assert(named.includes(line.replace('"api"', '"limit"')), `${line}: ${named}`);
    },

    is_a_page_without_script_and_with_headings() {
        assert(!/<script>|<style| style=| on\w+=|type="module"|(src|href)="(\w+:)?\/\//.test(html));
        const levels = [...html.matchAll(/<h([1-6])[ >]/g)].map((match) => Number(match[1]));
        assert.equal(levels.filter((level) => level === 1).length, 1);
        const ids = [...html.matchAll(/<h2 id="([^"]+)"/g)].map((match) => match[1]);
        const linked = [...html.matchAll(/<li><a href="#([^"]+)"/g)].map((match) => match[1]);
        assert.deepEqual(ids.filter((id) => id !== "contents-title"), linked);
        for (const [figure, name] of html.matchAll(/<figure class="figure" data-scene="([^"]+)".*?<\/figure>/gs)) {
            const [, file, alt] = /<img class="still" src="([^"]+)" decoding="async" alt="([^"]+)">/.exec(figure);
            assert(alt.length > 20 && /<figcaption>/.test(figure));
            assert.equal(file, `figures/${name}.svg`);
            assert(existsSync(new URL(file, import.meta.url)), file);
        }
    },
};

const weir = await load(readFileSync(process.argv[2]));
const tally = { passed: 0, failed: 0 };
for (const [name, test] of Object.entries(tests)) {
    try {
        test(weir);
        tally.passed++;
    } catch (error) {
        console.error(`${name}:`, error);
        tally.failed++;
    }
}
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exitCode = tally.failed > 0 ? 1 : 0;
