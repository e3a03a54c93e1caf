// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The first view: all policies together, the busiest ones, latency, the store, and the daemon's health.

import { el, setText } from "../playground/dom.mjs";
import { ChartView } from "./chart_view.mjs";
import { bytes, counted, duration, micros, percent, rate, short, whole } from "./format.mjs";
import { GROUPS, meanOf, recent, recentTimes } from "./history.mjs";
import { PolicyTable, policyHref } from "./policy_table.mjs";

const POINTS = 300;
const SMALL_POINTS = 60;
const SMALL = 6;
const PERCENTILES = ["p50", "p90", "p99"];

export const VERDICT_SERIES = [
    { id: "allowed", name: "allowed", role: "allowed" },
    { id: "denied", name: "denied", role: "denied" },
    { id: "shadowed", name: "shadow", role: "delayed" },
    { id: "failed", name: "failed", role: "muted" },
];

export const perSecond = () => ({ divisor: 1, unit: "/s" });
const latencyScale = (us) => (us >= 1000 ? { divisor: 1000, unit: "ms" } : { divisor: 1, unit: "µs" });

/**
 * What a chart of verdicts shows: the times, the values of each series, and the newest of each.
 * @param {import("./history.mjs").History} history
 * @param {import("./history.mjs").Series | null} series
 * @param {number} seconds
 * @param {number} [points]
 * @returns {[number[], Record<string, number[]>, Record<string, number>]}
 */
export function verdictData(history, series, seconds, points = POINTS) {
    /** @type {Record<string, number[]>} */
    const values = {};
    /** @type {Record<string, number>} */
    const newest = {};
    for (const group of Object.keys(GROUPS)) {
        values[group] = recent(history.intervals, series, group, seconds, points);
        newest[group] = meanOf(history.intervals, series, [group]);
    }
    return [recentTimes(history.intervals, seconds, points), values, newest];
}

class Tile {
    /** @param {string} title */
    constructor(title) {
        this.value = el("span", { class: "tile-value" });
        this.detail = el("span", { class: "tile-detail muted" });
        this.element = el(
            "div",
            { class: "tile panel numbers" },
            el("dt", { class: "tile-title", text: title }),
            el("dd", {}, this.value, this.detail),
        );
    }

    /** @param {boolean} [alarm] */
    set(value, detail, alarm = false) {
        setText(this.value, value);
        setText(this.detail, detail);
        this.element.classList.toggle("tile-alarm", alarm);
    }
}

export class Overview {
    #history;
    #small = new Map();

    /**
     * @param {HTMLElement} root
     * @param {import("./history.mjs").History} history
     */
    constructor(root, history) {
        this.#history = history;
        this.tiles = {
            decisions: new Tile("Decisions"),
            denied: new Tile("Denied"),
            latency: new Tile("Latency, p99"),
            memory: new Tile("Memory"),
            connections: new Tile("Connections"),
            health: new Tile("Health"),
        };
        this.decisions = new ChartView({
            title: el("h2", { text: "Decisions a second" }),
            label: "Decisions a second",
            series: VERDICT_SERIES,
            format: rate,
            scale: perSecond,
            kind: "stacked",
        });
        this.latency = new ChartView({
            title: el("h2", { text: "Latency" }),
            label: "Latency of a decision",
            format: micros,
            scale: latencyScale,
            series: PERCENTILES.map((id, i) => ({ id, name: id, role: ["allowed", "delayed", "denied"][i] })),
            note: "From receiving a batch of requests to deciding all. Each point shows its worst second.",
        });
        this.store = new ChartView({
            title: el("h2", { text: "Evictions" }),
            label: "Evictions and refusals of keys",
            series: [
                { id: "evicted", name: "evicted", role: "delayed" },
                { id: "refused", name: "refused", role: "denied" },
            ],
            format: rate,
            scale: perSecond,
            note: "Above 0, the memory is too small for the keys that arrive.",
        });
        this.busiest = el("div", { class: "chart-grid" });
        this.busiestHead = el("h2", { text: "Busiest policies" });
        this.facts = el("dl", { class: "facts panel numbers" });
        this.factRows = new Map();
        const table = el("div", { class: "table-area" });
        this.table = new PolicyTable(table, history);
        root.append(
            el("dl", { class: "tiles" }, ...Object.values(this.tiles).map((tile) => tile.element)),
            this.decisions.element,
            el("div", { class: "chart-pair" }, this.latency.element, this.store.element),
            this.busiestHead,
            this.busiest,
            el("h2", { text: "All policies" }),
            table,
            el("h2", { text: "Daemon" }),
            this.facts,
        );
    }

    /** @param {number} seconds the range of the charts */
    update(seconds) {
        this.#updateTiles();
        this.decisions.update(...verdictData(this.#history, this.#history.all, seconds));
        this.#updateLatency(seconds);
        this.#updateStore(seconds);
        this.#updateBusiest(seconds);
        this.table.update();
        this.#updateFacts();
    }

    #updateTiles() {
        const { intervals, all, tick, hello } = this.#history;
        const of = (...names) => meanOf(intervals, all, names);
        const total = of("allowed", "denied", "shadowed", "failed");
        const { decisions, denied, latency, memory, connections, health } = this.tiles;
        decisions.set(rate(total), "average of 10 s");
        denied.set(percent(of("denied"), total), rate(of("denied")));
        const us = tick?.latency_us;
        latency.set(
            us ? micros(us.p99) : "–",
            us ? `median ${micros(us.p50)}, max ${micros(us.max)}` : "no decisions",
        );
        const store = tick?.store ?? {};
        const full = store.bytes / store.bytes_max;
        memory.set(
            percent(store.bytes, store.bytes_max),
            `${short(store.keys)} ${store.keys === 1 ? "key" : "keys"}, ${bytes(store.bytes)}`,
            full > 0.9,
        );
        connections.set(whole(tick?.connections), hello ? `up ${duration(this.#history.upMs)}` : "");
        health.set(...this.#health());
    }

    /**
     * The worst that is wrong, in a word and a phrase.
     * @returns {[string, string, boolean?]}
     */
    #health() {
        const { tick, intervals, all, storeRates } = this.#history;
        const engine = tick?.engine;
        if (!tick)
            return ["–", ""];
        if (engine && !engine.up)
            return ["Degraded", `${engine.name} is unreachable`, true];
        if (meanOf(intervals, all, ["failed"]) > 0)
            return ["Degraded", "requests fail", true];
        if (storeRates.refused > 0)
            return ["Degraded", "new keys are refused", true];
        if (storeRates.evicted > 0)
            return ["Memory full", "keys are evicted", true];
        return ["Good", engine ? `${engine.name} is up` : "no errors"];
    }

    #updateLatency(seconds) {
        const { intervals, latency, tick } = this.#history;
        /** @type {Record<string, number[]>} */
        const values = {};
        /** @type {Record<string, number>} */
        const newest = {};
        for (const id of PERCENTILES) {
            values[id] = recent(intervals, latency, id, seconds, POINTS, "max");
            newest[id] = tick?.latency_us?.[id] ?? NaN;
        }
        this.latency.update(recentTimes(intervals, seconds, POINTS), values, newest);
    }

    #updateStore(seconds) {
        const { intervals, store, storeRates } = this.#history;
        /** @type {Record<string, number[]>} */
        const values = {};
        for (const id of ["evicted", "refused"])
            values[id] = recent(intervals, store, id, seconds, POINTS);
        this.store.update(recentTimes(intervals, seconds, POINTS), values, storeRates);
    }

    /** Small charts of the busiest policies. A policy keeps its place while it is among them. */
    #updateBusiest(seconds) {
        const { policies, intervals } = this.#history;
        const busy = [];
        for (const policy of policies.values()) {
            if (!policy.series)
                continue;
            const mean = meanOf(intervals, policy.series, ["allowed", "denied", "shadowed", "failed"], 60);
            if (mean > 0)
                busy.push({ policy, mean });
        }
        busy.sort((a, b) => b.mean - a.mean);
        const shown = new Set(busy.slice(0, SMALL).map(({ policy }) => policy.name));
        for (const [name, chart] of this.#small) {
            if (!shown.has(name)) {
                chart.destroy();
                this.#small.delete(name);
            }
        }
        for (const name of shown) {
            if (!this.#small.has(name))
                this.#addSmall(name);
            const series = policies.get(name)?.series ?? null;
            this.#small.get(name).update(...verdictData(this.#history, series, seconds, SMALL_POINTS));
        }
        this.busiestHead.hidden = shown.size === 0;
    }

    #addSmall(name) {
        const chart = new ChartView({
            title: el("h3", {}, el("a", { href: policyHref(name), text: name })),
            label: `Policy ${name}`,
            series: VERDICT_SERIES.slice(0, 2),
            format: rate,
            scale: perSecond,
            kind: "stacked",
            small: true,
        });
        this.#small.set(name, chart);
        this.busiest.append(chart.element);
    }

    #updateFacts() {
        const { tick, hello } = this.#history;
        if (!tick || !hello)
            return;
        const { store = {}, engine } = tick;
        this.#fact("Version", hello.version);
        this.#fact("Started", new Date(hello.start_ms).toLocaleString());
        const reloads = counted(tick.reloads, "reload");
        this.#fact("Configuration", `${reloads}, ${whole(tick.reloads_refused)} refused`);
        const use = `${counted(store.keys, "key")} in ${bytes(store.bytes)} of ${bytes(store.bytes_max)}`;
        this.#fact("Store", `${use}; ${whole(store.evicted)} evicted, ${whole(store.refused)} refused`);
        this.#fact("Engine", engine ? engineText(engine) : "local: this daemon keeps all states");
        this.#fact("Password", hello.password ? "set" : "not set");
        this.#fact("Top keys", hello.top ? "on" : "off");
    }

    #fact(name, text) {
        let value = this.factRows.get(name);
        if (!value) {
            value = el("dd");
            this.factRows.set(name, value);
            this.facts.append(el("div", {}, el("dt", { text: name }), value));
        }
        setText(value, text);
    }
}

function engineText(engine) {
    const { name, up, failures } = engine;
    const answered = `${whole(byError(engine))} answered by on_error`;
    return `${name}, ${up ? "up" : "unreachable"}; ${whole(failures)} failed requests, ${answered}`;
}

/** The decisions that on_error made: a number, or one for each value of on_error. */
function byError({ by_error }) {
    return typeof by_error === "object" && by_error
        ? Object.values(by_error).reduce((a, b) => a + b, 0)
        : by_error;
}
