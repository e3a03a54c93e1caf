// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// "What if": tries another limit on the requests that arrive, beside the policy's own, and shows where the
// two differ. The candidate changes no answer.

import { debounce, el, setText } from "../playground/dom.mjs";
import { ChartView } from "./chart_view.mjs";
import { daemon } from "./daemon.mjs";
import { clock, counted, percent, rate, whole } from "./format.mjs";
import { intervalsSince, meanOf, OUTCOMES, OVERRIDDEN, recent, recentTimes, since } from "./history.mjs";
import { perSecond } from "./overview.mjs";

const POINTS = 300;

const ABOUT =
    "A candidate is a second limit. It decides each request too, from states of its own, and changes no " +
    "answer. It begins with full quotas, and stays until the next reload or restart of the daemon.";

const SERIES = [
    { id: "bothAllow", name: "both allow", role: "allowed" },
    { id: "bothDeny", name: "both deny", role: "muted" },
    { id: "currentDenies", name: "only the current limit denies", role: "delayed" },
    { id: "candidateDenies", name: "only the candidate denies", role: "denied" },
];

/** Returns the column that the daemon's error names, counted from 1, or 0. */
function columnOf(message) {
    return Number(/column (\d+)/.exec(message)?.[1] ?? 0);
}

export class WhatIf {
    #history;
    #policy;
    #core;
    #chart = null;
    #busy = false;
    #shown = undefined; // the candidate that the form shows

    /**
     * @param {HTMLElement} root
     * @param {import("./history.mjs").History} history
     * @param {import("./history.mjs").Policy} policy
     * @param {Promise<{weir: any, zones: any} | null>} core checks texts while they are typed, if it loads
     */
    constructor(root, history, policy, core) {
        this.#history = history;
        this.#policy = policy;
        this.#core = core;
        this.summary = el("p", { class: "what-if-summary" });
        this.results = el("div", { class: "what-if-results", hidden: true });
        const form = this.#form();
        const title = el("h2", { text: "What if the limit were different?" });
        const section = el("section", { class: "panel block" }, title);
        root.append(section);
        if (policy.engine === "local") {
            section.append(el("p", { class: "muted note", text: ABOUT }), form, this.error, this.results);
        } else {
            const text = `A candidate requires engine: local. This policy has engine: ${policy.engine}.`;
            section.append(el("p", { class: "muted note", text }));
        }
        this.#sync();
    }

    #form() {
        this.input = el("input", {
            type: "text",
            id: "candidate",
            class: "mono",
            autocomplete: "off",
            spellcheck: "false",
            autocapitalize: "off",
            "aria-describedby": "candidate-error",
            on: { input: debounce(() => void this.#validate(), 150) },
        });
        this.caret = el("pre", { class: "caret", "aria-hidden": "true", hidden: true });
        this.error = el("p", { class: "error", id: "candidate-error", role: "status" });
        this.start = el("button", { class: "button primary", text: "Compare" });
        const stop = { click: () => void this.#set("") };
        this.stop = el("button", { class: "button", type: "button", text: "Stop", hidden: true, on: stop });
        const label = el("label", { for: "candidate", text: "Candidate limit" });
        return el(
            "form",
            { class: "key-form", on: { submit: (event) => this.#onSubmit(event) } },
            el("div", { class: "field" }, label, this.input, this.caret),
            this.start,
            this.stop,
        );
    }

    destroy() {
        this.#chart?.destroy();
    }

    /** @param {number} seconds the range of the chart */
    update(seconds) {
        this.#sync();
        const policy = this.#policy;
        if (policy.candidate === null)
            return;
        if (!this.#chart)
            this.#addChart();
        const { intervals } = this.#history;
        const { outcomeSeries: series, outcomesSinceMs: begin } = policy;
        const times = recentTimes(intervals, seconds, POINTS);
        /** @type {Record<string, number[]>} */
        const values = {};
        /** @type {Record<string, number>} */
        const newest = {};
        for (const id of OUTCOMES) {
            values[id] = since(recent(intervals, series, id, seconds, POINTS), times, begin);
            newest[id] = meanOf(intervals, series, [id], intervalsSince(intervals, begin));
        }
        this.#chart.update(times, values, newest);
        this.#summarise();
    }

    #addChart() {
        this.#chart = new ChartView({
            title: el("h3", { text: "Decisions a second" }),
            label: "Current limit and candidate",
            series: SERIES,
            format: rate,
            scale: perSecond,
            kind: "stacked",
        });
        this.#chart.element.classList.remove("panel");
        this.results.append(this.#chart.element, this.summary);
    }

    /** Follows a change of the candidate, here or by others. */
    #sync() {
        const { candidate, limit } = this.#policy;
        if (candidate === this.#shown)
            return;
        const first = this.#shown === undefined;
        this.#shown = candidate;
        if (candidate !== null || first)
            this.input.value = candidate ?? limit;
        setText(this.start, candidate === null ? "Compare" : "Change");
        this.stop.hidden = candidate === null;
        this.results.hidden = candidate === null;
    }

    #summarise() {
        const { outcomes, outcomesBase, outcomesSinceMs } = this.#policy;
        const count = (i) => (outcomes && outcomesBase ? outcomes[i] - outcomesBase[i] : 0);
        const n = OUTCOMES.map((_, i) => count(i));
        const all = n.reduce((a, b) => a + b, 0);
        const overridden = count(OVERRIDDEN);
        let text = "No request has arrived since the candidate was set.";
        if (all > 0)
            text =
                `Since ${clock(outcomesSinceMs)}: ${counted(all, "request")}, ` +
                `${percent(n[0] + n[1], all)} with the same answer. ` +
                `The candidate would have allowed ${whole(n[2])} that were ` +
                `denied, and denied ${whole(n[3])} that were allowed.`;
        else if (overridden > 0)
            text = `Since ${clock(outcomesSinceMs)}, no request was compared.`;
        if (overridden > 0)
            text +=
                ` Left out: ${counted(overridden, "request")} of keys with an override, ` +
                "which a candidate does not replace.";
        setText(this.summary, text);
    }

    /** Checks the text in the page. @returns {Promise<boolean>} false: it has an error, which is shown */
    async #validate() {
        this.#showError("", 0);
        const core = await this.#core;
        const text = this.input.value;
        if (!core || text.trim() === "")
            return true;
        try {
            core.weir.policy(text, { zones: core.zones }).free();
            return true;
        } catch (error) {
            this.#showError(error.message, error.column ?? 0);
            return false;
        }
    }

    #showError(message, column) {
        setText(
            this.error,
            message && column > 0 && !message.startsWith("column") ? `column ${column}: ${message}` : message,
        );
        this.input.setAttribute("aria-invalid", String(message !== ""));
        this.caret.hidden = !(message !== "" && column > 0);
        this.caret.textContent = `${" ".repeat(Math.max(0, column - 1))}^`;
    }

    #onSubmit(event) {
        event.preventDefault();
        void this.#submit();
    }

    async #submit() {
        if (this.input.value.trim() === "")
            return this.#showError("Enter a limit, such as gcra 10/s burst 20.", 0);
        if (await this.#validate())
            await this.#set(this.input.value);
    }

    async #set(text) {
        if (this.#busy)
            return;
        this.#busy = true;
        try {
            const { candidate } = await daemon.candidate(this.#policy.name, text);
            this.#history.setCandidate(this.#policy, candidate || null);
            this.#showError("", 0);
            this.#sync();
            if (this.#policy.candidate === null) this.input.focus(); // the button that had the focus is gone
        } catch (error) {
            this.#showError(error.message, columnOf(error.message));
        }
        this.#busy = false;
    }
}
