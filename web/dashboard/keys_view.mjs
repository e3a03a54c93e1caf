// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The keys of one policy: those denied most, those nearest to their limit, and the state of one key.

import { el, newId, setText } from "../playground/dom.mjs";
import { daemon } from "./daemon.mjs";
import { confirmChange } from "./dialog.mjs";
import { duration, percent, whole } from "./format.mjs";
import { shownKey, shownLines, topFigure, topNote, whyNotWhole } from "./keys.mjs";

const TOP_MS = 2000;
const NEAREST_MS = 4000;
const KEYS = 10;

const TOP_OFF =
    "The configuration of this daemon switches the lists of keys off. To switch them on, set top.keys in " +
    "weir.yaml, such as top: {keys: 100}, and restart the daemon.";

/** A table of keys, each with a bar. */
class KeyList {
    #rows = [];

    /**
     * @param {string} title
     * @param {string} note
     * @param {string[]} columns the titles after the key's
     * @param {{explain: (key: string) => void, reset: (key: string) => void} | null} actions what to do
     *     with a key; null: nothing
     */
    constructor(title, note, columns, actions) {
        const id = newId("keys");
        this.actions = actions;
        this.message = el("p", { class: "muted", text: "Loading…" });
        this.body = el("tbody");
        this.table = el(
            "table",
            { class: "keys numbers", "aria-labelledby": id, hidden: true },
            el(
                "thead",
                {},
                el(
                    "tr",
                    {},
                    el("th", { scope: "col", text: "Key" }),
                    ...columns.map((text) => el("th", { scope: "col", class: "number", text })),
                    actions && el("th", { scope: "col" }, el("span", { class: "visually-hidden", text: "Reset" })),
                ),
            ),
            this.body,
        );
        this.note = el("p", { class: "muted note", text: note });
        this.element = el(
            "section",
            { class: "panel keys-panel" },
            el("h2", { id, text: title }),
            this.note,
            this.message,
            this.table,
        );
    }

    /** @param {string} text shown instead of a table */
    tell(text) {
        this.table.hidden = true;
        this.message.hidden = false;
        setText(this.message, text);
    }

    /**
     * @param {{key: string, why: string, share: number, cells: string[]}[]} rows
     *     why: why requests cannot use the key's text, or ""; share: 0 to 1
     * @param {string} empty shown instead of no rows
     */
    show(rows, empty) {
        if (rows.length === 0)
            return this.tell(empty);
        this.table.hidden = false;
        this.message.hidden = true;
        while (this.#rows.length < rows.length)
            this.#addRow(rows[0].cells.length);
        this.#rows.forEach((row, i) => {
            row.element.hidden = i >= rows.length;
            if (i < rows.length)
                this.#fill(row, rows[i]);
        });
    }

    #addRow(cells) {
        const button = el("button", {
            type: "button",
            class: "key-button",
            on: { click: () => this.actions?.explain(row.key) },
        });
        const reset = el("button", {
            type: "button",
            class: "key-reset",
            text: "Reset…",
            on: { click: () => this.actions?.reset(row.key) },
        });
        const bar = el("span", { class: "key-bar", "aria-hidden": "true" });
        const text = el("span", { class: "key-text" });
        const why = el("span", { class: "key-why muted" });
        const row = {
            key: "",
            button,
            reset,
            bar,
            text,
            why,
            cells: Array.from({ length: cells }, () => el("td", { class: "number" })),
        };
        row.element = el(
            "tr",
            {},
            el("th", { scope: "row" }, bar, button, text, why),
            ...row.cells,
            this.actions && el("td", { class: "number" }, reset),
        );
        this.body.append(row.element);
        this.#rows.push(row);
    }

    #fill(row, { key, why, share, cells }) {
        row.key = key;
        const shown = shownKey(key);
        setText(row.button, shown);
        setText(row.text, shown);
        setText(row.why, why && `(${why})`);
        row.button.title = `Explain ${shown}`;
        row.reset.setAttribute("aria-label", `Reset… ${shown}`);
        const acts = this.actions !== null && why === "";
        row.button.hidden = row.reset.hidden = !acts;
        row.text.hidden = row.why.hidden = acts;
        row.bar.style.transform = `scaleX(${Math.max(0, Math.min(1, share))})`;
        cells.forEach((text, i) => setText(row.cells[i], text));
    }
}

/** Runs `fn` at once and then `ms` after its end, unless the page is hidden. */
class Poll {
    #timer = 0;
    #stopped = false;

    constructor(fn, ms) {
        this.fn = fn;
        this.ms = ms;
        void this.#run();
    }

    async #run() {
        if (!document.hidden)
            await this.fn();
        if (!this.#stopped)
            this.#timer = setTimeout(() => void this.#run(), this.ms);
    }

    stop() {
        this.#stopped = true;
        clearTimeout(this.#timer);
    }
}

export class KeysView {
    #policy;
    #polls = [];
    #hasState;
    #destroyed = false;
    #keys = new Set(); // candidates for "nearest to their limit"
    #asked = 0; // the calls of explain()
    #explained = ""; // the key whose state is shown, or ""

    /**
     * @param {HTMLElement} root
     * @param {string} policy
     * @param {{top: boolean, hasState: boolean, paused: () => boolean}} options
     *     hasState: the policy has a name that requests can use; paused: whether to ask for nothing now
     */
    constructor(root, policy, { top, hasState, paused }) {
        this.#policy = policy;
        this.#hasState = hasState;
        this.paused = paused;
        const actions = hasState
            ? { explain: (key) => void this.explain(key), reset: (key) => void this.#reset(key) }
            : null;
        this.denied = new KeyList(
            "Most denied keys",
            topNote(1),
            ["Denied cost", "Requests"],
            actions,
        );
        this.nearest = new KeyList(
            "Nearest to their limit",
            "Only keys in the daemon's lists of top keys (denied and allowed) that have used part of their limit.",
            ["Used", "Left", "Full in"],
            actions,
        );
        root.append(
            el("div", { class: "chart-pair" }, this.denied.element, hasState ? this.nearest.element : null),
        );
        if (hasState)
            root.append(this.#lookUp());
        if (!top) {
            this.denied.tell(TOP_OFF);
            this.nearest.tell(TOP_OFF);
            return;
        }
        this.#polls.push(new Poll(() => this.#askTop(), TOP_MS));
    }

    destroy() {
        this.#destroyed = true;
        for (const poll of this.#polls)
            poll.stop();
    }

    #lookUp() {
        this.input = el("input", {
            type: "text",
            id: "key",
            autocomplete: "off",
            spellcheck: "false",
            placeholder: "alice or 192.0.2.7",
            required: true,
            on: { input: () => this.#forget() },
        });
        this.output = el("pre", {
            class: "explain",
            tabindex: "0",
            "aria-label": "State of the key",
            hidden: true,
        });
        this.status = el("p", { role: "status", class: "muted" });
        this.reset = el("button", {
            class: "button",
            type: "button",
            text: "Reset…",
            disabled: true,
            title: "Explain the key first",
            on: { click: () => void this.#reset(this.#explained) },
        });
        const form = el(
            "form",
            { class: "key-form", on: { submit: (event) => this.#onSubmit(event) } },
            el("div", { class: "field" }, el("label", { for: "key", text: "Key" }), this.input),
            el("button", { class: "button primary", text: "Explain" }),
            this.reset,
        );
        return el(
            "section",
            { class: "panel block" },
            el("h2", { text: "Look up a key" }),
            form,
            this.output,
            this.status,
        );
    }

    #onSubmit(event) {
        event.preventDefault();
        void this.explain(this.input.value);
    }

    /** The field has another key than the one that is shown, so nothing can be reset. */
    #forget() {
        this.#explained = "";
        this.reset.disabled = true;
    }

    /**
     * Shows the state of a key, unless another key is asked for before the answer.
     * @returns {Promise<boolean>} whether the answer is shown
     */
    async explain(key) {
        if (!this.input || key === "")
            return false;
        const asked = ++this.#asked;
        this.#forget();
        this.input.value = /[\r\n]/.test(key) ? "" : key; // a field has one line
        const [text, error] = await daemon.explain(this.#policy, key).then(
            (answer) => [shownLines(answer.trimEnd()), null],
            (refused) => ["", refused],
        );
        if (asked !== this.#asked)
            return false;
        this.output.hidden = error !== null;
        this.output.textContent = text;
        const state = `State of ${shownKey(key)} at ${new Date().toLocaleTimeString()}.`;
        setText(this.status, error ? error.message : state);
        if (!error && (this.input.value === key || this.input.value === "")) {
            this.#explained = key;
            this.reset.disabled = false;
        }
        this.output.scrollIntoView({ block: "nearest" });
        return error === null;
    }

    /** Resets a key after a question, and shows its state. */
    async #reset(key) {
        if (key === "")
            return;
        const sure = await confirmChange({
            title: `Reset ${shownKey(key)}?`,
            text: `The key gets back its full quota of the policy ${this.#policy}. This cannot be undone.`,
            action: "Reset the key",
        });
        if (!sure)
            return;
        try {
            await daemon.reset(this.#policy, key);
            if (await this.explain(key))
                setText(this.status, `${shownKey(key)} has its full quota again.`);
        } catch (error) {
            setText(this.status, error.message);
        }
    }

    async #askTop() {
        if (this.paused())
            return;
        try {
            const [denied, allowed] = await Promise.all([
                daemon.top(this.#policy, "denied", KEYS),
                daemon.top(this.#policy, "allowed", KEYS),
            ]);
            const whole = [...denied.keys, ...allowed.keys].filter((row) => whyNotWhole(row) === "");
            this.#keys = new Set(whole.map((row) => row.key));
            this.#showDenied(denied);
            if (this.#hasState && this.#polls.length === 1 && !this.#destroyed)
                this.#polls.push(new Poll(() => this.#askNearest(), NEAREST_MS));
        } catch (error) {
            this.denied.tell(error.status === 501 ? TOP_OFF : error.message);
            if (error.status === 404)
                this.destroy(); // no request names this policy, so there is nothing to wait for
        }
    }

    #showDenied({ keys, sampling = 1 }) {
        const most = keys[0]?.cost ?? 1;
        const figure = (n) => topFigure(n, sampling);
        setText(this.denied.note, topNote(sampling));
        this.denied.show(
            keys.map((row) => ({
                key: row.key,
                why: whyNotWhole(row),
                share: row.cost / most,
                cells: [
                    (row.error > 0 ? `${figure(row.cost - row.error)} to ` : "") + figure(row.cost),
                    figure(row.requests),
                ],
            })),
            "No key was denied in the last few minutes.",
        );
    }

    async #askNearest() {
        if (this.paused())
            return;
        try {
            const answers = await Promise.all(
                [...this.#keys].map(async (key) => ({ key, ...(await daemon.peek(this.#policy, key)) })),
            );
            this.#showNearest(
                answers.filter((answer) => answer.reason === "limit" || answer.reason === "shadow"),
            );
        } catch (error) {
            this.nearest.tell(error.message);
        }
    }

    #showNearest(answers) {
        const active = answers.filter(({ remaining, limit }) => remaining < limit);
        const used = ({ limit, remaining }) => 1 - remaining / limit;
        active.sort((a, b) => used(b) - used(a) || b.reset_after_ms - a.reset_after_ms);
        this.nearest.show(
            active.slice(0, KEYS).map((answer) => ({
                key: answer.key,
                why: "",
                share: used(answer),
                cells: [
                    percent(answer.limit - answer.remaining, answer.limit),
                    `${whole(answer.remaining)} of ${whole(answer.limit)}`,
                    duration(Math.ceil(answer.reset_after_ms / 1000) * 1000),
                ],
            })),
            "No key of these lists has used any of its limit: all have full quotas.",
        );
    }
}
