// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// A chart on a canvas, with its title, a legend that shows the newest values or those under the pointer, and
// a text for screen readers.

import { chartIndexAt, drawChart } from "../draw/chart.mjs";
import { CanvasSurface } from "../draw/surface.mjs";
import { themes } from "../draw/theme.mjs";
import { el, setText } from "../playground/dom.mjs";
import { isDark, onTheme } from "../playground/theme_switch.mjs";
import { clock } from "./format.mjs";

const LABEL_MS = 5000; // how often the text for screen readers is brought up to date
const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

/**
 * @typedef {{id: string, name: string, role: string}} SeriesView
 *     role: a colour of the theme; the mark in the legend has the class `swatch-ROLE`
 */

export class ChartView {
    #options;
    #data = null;
    #labelledAt = -Infinity;
    #hoverMs = NaN; // the point under the pointer, which stays at its time; NaN: none

    /**
     * @param {object} options
     * @param {Node} options.title
     * @param {string} options.label the title as a text
     * @param {SeriesView[]} options.series
     * @param {(value: number) => string} options.format
     * @param {(highest: number) => {divisor: number, unit: string}} options.scale the unit of the axis
     * @param {"line" | "stacked"} [options.kind]
     * @param {boolean} [options.small]
     * @param {string} [options.note]
     */
    constructor(options) {
        this.#options = { kind: "line", small: false, note: "", ...options };
        const { label, series, small, note, title } = this.#options;
        this.canvas = el("canvas", { role: "img", "aria-label": label, tabindex: small ? null : 0 });
        this.values = new Map();
        this.time = el("li", { class: "legend-time", hidden: true });
        const legend = el(
            "ul",
            { class: "legend numbers" },
            this.time,
            ...series.map((row) => this.#legendItem(row)),
        );
        this.element = el(
            "figure",
            { class: `chart panel${small ? " chart-small" : ""}` },
            el("figcaption", { class: "chart-head" }, el("div", { class: "chart-title" }, title), legend),
            el("div", { class: "chart-box" }, this.canvas),
            note ? el("p", { class: "chart-note muted", text: note }) : null,
        );
        this.resize = new ResizeObserver(() => this.#draw());
        this.resize.observe(/** @type {Element} */ (this.canvas.parentElement));
        this.offTheme = onTheme(() => this.#draw());
        this.#listen();
    }

    #legendItem({ id, name, role }) {
        const value = el("span", { class: "legend-value" });
        this.values.set(id, value);
        return el(
            "li",
            {},
            el("span", { class: `swatch swatch-${role}`, "aria-hidden": "true" }),
            el("span", { class: "legend-name", text: name }),
            value,
        );
    }

    #listen() {
        const leave = () => this.#hover(NaN);
        this.canvas.addEventListener("pointermove", (event) => this.#onPointer(event));
        this.canvas.addEventListener("pointerdown", (event) => this.#onPointer(event));
        this.canvas.addEventListener("pointerleave", leave);
        this.canvas.addEventListener("blur", leave);
        this.canvas.addEventListener("keydown", (event) => this.#onKey(event));
    }

    #onPointer(event) {
        if (!this.#data)
            return;
        const index = chartIndexAt(this.#box(), this.#data.chart, event.offsetX);
        this.#hover(this.#data.times[index] ?? NaN);
    }

    #onKey(event) {
        const step = STEPS[event.key];
        if (!this.#data || (step === undefined && event.key !== "Escape"))
            return;
        event.preventDefault();
        const { times } = this.#data;
        const last = times.length - 1;
        const from = Number.isNaN(this.#hoverMs) ? last : this.#hovered();
        this.#hover(step === undefined ? NaN : times[Math.max(0, Math.min(last, from + step))]);
        this.#label();
    }

    #hover(ms) {
        this.#hoverMs = ms;
        this.#showValues();
        this.#draw();
    }

    /** The index of the point that is nearest to the time that was pointed at. */
    #hovered() {
        const { times } = this.#data;
        const each = times.length > 1 ? times[1] - times[0] : 1000;
        const index = Math.round((this.#hoverMs - times[0]) / each);
        return index >= 0 && index < times.length ? index : -1;
    }

    /**
     * @param {number[]} times ms since the epoch
     * @param {Record<string, number[]>} values by the id of a series; NaN: no data
     * @param {Record<string, number>} newest what the legend shows
     */
    update(times, values, newest) {
        const { series, kind, scale } = this.#options;
        const { divisor, unit } = scale(series.reduce((most, { id }) => values[id].reduce(highest, most), 0));
        this.#data = {
            times,
            values,
            newest,
            chart: {
                series: series.map(({ id, name, role }) => ({
                    name,
                    role,
                    values: divisor === 1 ? values[id] : values[id].map((value) => value / divisor),
                })),
                times,
                unit,
                kind,
                theme: themes.light,
            },
        };
        this.#showValues();
        if (performance.now() - this.#labelledAt >= LABEL_MS)
            this.#label();
        this.#draw();
    }

    #shown(id) {
        const { values, newest } = this.#data;
        const at = Number.isNaN(this.#hoverMs) ? -1 : this.#hovered();
        return at < 0 ? newest[id] : values[id][at];
    }

    #showValues() {
        if (!this.#data)
            return;
        for (const { id } of this.#options.series)
            setText(this.values.get(id), this.#options.format(this.#shown(id)));
        this.time.hidden = Number.isNaN(this.#hoverMs) || this.#hovered() < 0;
        if (!this.time.hidden)
            setText(this.time, clock(this.#hoverMs));
    }

    #label() {
        const { series, format, label } = this.#options;
        this.#labelledAt = performance.now();
        const time = this.time.hidden ? "" : ` at ${this.time.textContent}`;
        const said = series.map(({ id, name }) => `${name} ${format(this.#shown(id))}`).join(", ");
        this.canvas.setAttribute("aria-label", `${label}${time}: ${said}`);
    }

    destroy() {
        this.resize.disconnect();
        this.offTheme();
        this.element.remove();
    }

    #box() {
        const { clientWidth: w, clientHeight: h } = /** @type {Element} */ (this.canvas.parentElement);
        return { x: 0, y: 0, w, h };
    }

    #draw() {
        const box = this.#box();
        if (!this.#data || box.w === 0 || box.h === 0)
            return;
        const dpr = globalThis.devicePixelRatio || 1;
        const width = Math.round(box.w * dpr),
            height = Math.round(box.h * dpr);
        if (this.canvas.width !== width || this.canvas.height !== height) {
            this.canvas.width = width;
            this.canvas.height = height;
        }
        const context = this.canvas.getContext("2d");
        context.setTransform(dpr, 0, 0, dpr, 0, 0);
        context.clearRect(0, 0, box.w, box.h);
        drawChart(new CanvasSurface(context), box, {
            ...this.#data.chart,
            theme: isDark() ? themes.dark : themes.light,
            hoverMs: Number.isNaN(this.#hoverMs) ? undefined : this.#hoverMs,
        });
    }
}

function highest(most, value) {
    return value > most ? value : most;
}
