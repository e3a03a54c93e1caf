// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Charts over the time of the log, one below the other. The values of a bucket are shown in a line of text,
// for the pointer and for the arrow keys.

import { whole } from "../dashboard/format.mjs";
import { chartIndexAt, drawChart } from "../draw/chart.mjs";
import { ElementSurface } from "../draw/element_surface.mjs";
import { el, setText } from "../playground/dom.mjs";
import { theme } from "./pictures.mjs";
import { plainTable } from "./table.mjs";
import { bucketSpan, bucketTimes, duration } from "./text.mjs";

const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

/**
 * @typedef {object} Plot
 * @property {string} title
 * @property {number} height CSS pixels
 * @property {"line" | "area"} kind
 * @property {(import("../draw/chart.mjs").Series)[]} series values by bucket
 */

export class Plots {
    #report;
    #plots = [];
    #times;
    #at = -1; // the bucket that is pointed out; -1: none
    #width = 0;

    /**
     * @param {import("./text.mjs").Report} report
     * @param {string} label for screen readers: what the charts show
     */
    constructor(report, label) {
        this.#report = report;
        this.label = label;
        this.#times = bucketTimes(report).map((ns) => (ns + report.time.width_ns / 2) / 1e6);
        this.box = el("div", { class: "plots", role: "img", tabindex: 0, "aria-label": label });
        this.readout = el("p", { class: "readout numbers muted" });
        this.element = el("div", {}, this.box, this.readout);
        new ResizeObserver(() => this.#onResize()).observe(this.box);
        this.#listen();
    }

    /** Shows other plots. @param {Plot[]} plots */
    show(plots) {
        this.box.hidden = this.#times.length < 2; // one point is no line
        this.#plots = plots;
        this.#point(this.#at);
    }

    #listen() {
        this.box.addEventListener("pointermove", (event) => this.#onPointer(event));
        this.box.addEventListener("pointerdown", (event) => this.#onPointer(event));
        this.box.addEventListener("pointerleave", () => this.#point(-1));
        this.box.addEventListener("blur", () => this.#point(-1));
        this.box.addEventListener("keydown", (event) => this.#onKey(event));
    }

    #onPointer(event) {
        const x = event.clientX - this.box.getBoundingClientRect().left;
        const [plot] = this.#plots;
        this.#point(plot ? chartIndexAt(this.#boxOf(plot), this.#dataOf(plot), x) : -1);
    }

    #onKey(event) {
        const step = STEPS[event.key];
        if (step === undefined && event.key !== "Escape")
            return;
        event.preventDefault();
        const last = this.#times.length - 1;
        const from = this.#at >= 0 ? this.#at : step > 0 ? -1 : last + 1;
        this.#point(step === undefined ? -1 : Math.max(0, Math.min(last, from + step)));
        this.box.setAttribute("aria-label", this.#at < 0 ? this.label : this.readout.textContent);
    }

    #onResize() {
        if (this.box.clientWidth !== this.#width)
            this.#draw();
    }

    #point(i) {
        this.#at = i;
        setText(this.readout, this.#at < 0 ? this.#hint() : this.#valuesAt(i));
        this.#draw();
    }

    #hint() {
        if (this.#times.length < 2)
            return "The log is too short for a chart.";
        return `Each point is a sum over ${duration(this.#report.time.width_ns)}. ` +
            "Point at the chart, or use the arrow keys, to read its values.";
    }

    #valuesAt(i) {
        const said = this.#plots.flatMap(({ series }) => series)
            .map(({ name, values }) => `${name} ${whole(values[i])}`);
        return `${bucketSpan(this.#report, i)} UTC: ${said.join(", ")}`;
    }

    #boxOf({ height }) {
        return { x: 0, y: 0, w: Math.max(120, this.#width), h: height };
    }

    #dataOf({ kind, series }) {
        const { first_ns, width_ns, buckets } = this.#report.time;
        return {
            kind, series, theme, utc: true,
            times: this.#times,
            fromMs: first_ns / 1e6,
            toMs: (first_ns + buckets * width_ns) / 1e6,
            hoverMs: this.#at < 0 ? undefined : this.#times[this.#at],
        };
    }

    #draw() {
        this.#width = this.box.clientWidth;
        this.box.replaceChildren(...this.#plots.flatMap((plot) => {
            const box = this.#boxOf(plot);
            const surface = new ElementSurface(box.w, box.h);
            drawChart(surface, box, this.#dataOf(plot));
            return [el("p", { class: "label", text: plot.title, "aria-hidden": "true" }), surface.root];
        }));
    }
}

/**
 * The same values as a table, which is filled once it is opened.
 * @param {import("./text.mjs").Report} report
 * @param {string} caption
 * @param {() => {name: string, values: ArrayLike<number>}[]} series
 */
export function valuesTable(report, caption, series) {
    const place = el("div");
    const fill = () => {
        const columns = series();
        place.replaceChildren(plainTable(caption, ["Time (UTC)", ...columns.map(({ name }) => name)],
            bucketTimes(report).map((_, i) =>
                [bucketSpan(report, i), ...columns.map(({ values }) => whole(values[i]))])));
    };
    const summary = el("summary", { text: "The values as a table" });
    const details = el("details", { class: "values" }, summary, place);
    details.addEventListener("toggle", () => details.open && fill());
    return { element: details, update: () => details.open && fill() };
}
