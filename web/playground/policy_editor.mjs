// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The policy of a lane: its text, checked by the core while it is typed, and a form that writes the text
// and is written by it.

import { debounce, el, newId, setText } from "./dom.mjs";
import { PolicyForm } from "./policy_form.mjs";

const CHECK_MS = 120;
const TEXT_MAX = 1023; // bytes, of the policy language

/** The text on one line, as a browser shows it in an input, so that the caret is under its column. */
const oneLine = (text) => text.replace(/[\r\n\t]/g, " ");

export class PolicyEditor {
    /**
     * @param {{weir: any, zones: any, text: string, letter: string, onText: (text: string) => void}} options
     *     `onText` gets each text that the core accepts
     */
    constructor({ weir, zones, text, letter, onText }) {
        this.weir = weir;
        this.zones = zones;
        this.onText = onText;
        const errorId = newId("policy-error");
        this.input = el("textarea", {
            class: "policy mono",
            rows: 1,
            spellcheck: "false",
            autocomplete: "off",
            autocapitalize: "none",
            maxlength: TEXT_MAX,
            text,
            "aria-label": `Policy of lane ${letter}`,
            "aria-describedby": errorId,
        });
        this.caret = el("pre", { class: "policy-caret", "aria-hidden": "true" });
        this.message = el("p", { class: "policy-message" });
        this.error = el("div", { class: "policy-error", id: errorId, "aria-live": "polite" },
            this.caret, this.message);
        this.error.classList.add("is-empty");
        this.form = new PolicyForm((written) => {
            this.input.value = written;
            this.check({ byForm: true });
        });
        this.form.element.hidden = true;
        this.toggle = el("button", {
            class: "button plain",
            type: "button",
            text: "Form",
            "aria-expanded": "false",
            on: { click: () => this.#open(this.form.element.hidden) },
        });
        this.checkLater = debounce(() => this.check(), CHECK_MS);
        this.input.addEventListener("input", this.checkLater);
        this.input.addEventListener("change", () => this.check());
        this.input.addEventListener("keydown", (event) => {
            if (event.key !== "Enter")
                return;
            event.preventDefault(); // a policy is one line
            this.check();
        });
        new ResizeObserver(() => this.#fit()).observe(this.input);
        this.check({ silent: true });
    }

    /** The lane is gone: a text that is still to be checked is dropped. */
    destroy() {
        this.checkLater.cancel();
        this.onText = () => {};
    }

    /** Replaces the text. */
    set(text) {
        this.input.value = text;
        this.check();
    }

    /**
     * Checks the text, shows its error or writes the form, and passes a valid text on.
     * @param {{silent?: boolean, byForm?: boolean}} [options] silent: passes nothing on;
     *     byForm: the form wrote the text, and remains as it is
     */
    check({ silent = false, byForm = false } = {}) {
        const text = oneLine(this.input.value);
        let policy;
        try {
            policy = this.weir.policy(text, { zones: this.zones });
        } catch (error) {
            this.#fail(text, error);
            if (!byForm)
                this.form.disable("The text is invalid. The form is enabled again once it is valid.");
            return;
        }
        this.#clear();
        this.#fit();
        this.form.show(policy);
        policy.free();
        if (!silent)
            this.onText(text);
    }

    /** Makes the field as high as its text, which is then visible as a whole. */
    #fit() {
        const { style } = this.input;
        style.height = "0";
        style.height = `${this.input.scrollHeight + 2}px`;
    }

    #open(open) {
        this.form.element.hidden = !open;
        this.toggle.setAttribute("aria-expanded", String(open));
    }

    #clear() {
        this.error.classList.add("is-empty");
        this.caret.textContent = "";
        this.message.textContent = "";
        this.input.removeAttribute("aria-invalid");
    }

    #fail(text, error) {
        const column = Math.max(1, error.column ?? 1);
        this.error.classList.remove("is-empty");
        this.#fit();
        this.input.setAttribute("aria-invalid", "true");
        this.caret.textContent = `${text}\n${" ".repeat(column - 1)}^`;
        setText(this.message, error.column ? `column ${column}: ${error.message}` : String(error.message));
    }
}
