// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The form of a policy: a group of fields for each layer. It writes the policy's text, and shows the layers
// of a text that was typed.

import { ALGORITHMS, fieldsOf, formOf, textOf, usualForm, withAlgorithm, withUnit } from "../model/form.mjs";
import { el, field, newId, setOptions } from "./dom.mjs";

const LAYERS_MAX = 8;

const UNIT_TEXTS = { ns: "ns", us: "µs", ms: "ms", s: "seconds", m: "minutes", h: "hours", d: "days",
    w: "weeks", day: "calendar day", week: "calendar week", month: "calendar month",
    year: "calendar year" };

export class PolicyForm {
    /** @param {(text: string) => void} onText gets each text that the form writes */
    constructor(onText) {
        this.onText = onText;
        this.layers = null;
        this.note = el("p", { class: "muted" });
        this.groups = el("div", { class: "form-layers" });
        this.add = el("button", { class: "button", type: "button", text: "Add a layer",
            on: { click: () => this.#change([...this.layers, usualForm()], true) } });
        this.element = el("div", { class: "policy-form" }, this.note, this.groups, this.add);
    }

    /** Shows a valid policy. Keeps the fields if the form itself has just written it. */
    show(policy) {
        const layers = formOf(policy.layers);
        if (layers === null) {
            this.disable("The form cannot show this policy, because of its period. Edit the text.");
            return;
        }
        const same = this.layers !== null && textOf(layers) === textOf(this.layers);
        this.#setEnabled(true);
        if (same && this.groups.childElementCount === layers.length)
            return;
        this.layers = layers;
        this.#build();
    }

    /** Disables the form, and says why. */
    disable(reason) {
        this.note.textContent = reason;
        this.#setEnabled(false);
    }

    #setEnabled(enabled) {
        this.note.hidden = enabled;
        this.add.disabled = !enabled;
        for (const group of this.groups.children)
            group.disabled = !enabled;
    }

    #build() {
        this.groups.replaceChildren(...this.layers.map((layer, i) => this.#group(layer, i)));
        this.add.hidden = this.layers.length >= LAYERS_MAX;
    }

    #group(layer, index) {
        const algorithm = el("select", {});
        setOptions(algorithm, ALGORITHMS.map((name) => [name, name]), layer.algorithm);
        algorithm.addEventListener("change", () => {
            this.#replace(index, withAlgorithm(this.layers[index], algorithm.value), true);
            this.groups.children[index]?.querySelector("select")?.focus();
        });
        const remove = el("button", { class: "button plain", type: "button", text: "Remove layer",
            "aria-label": `Remove layer ${index + 1}`, hidden: this.layers.length < 2,
            on: { click: () => this.#change(this.layers.filter((_, i) => i !== index), true) } });
        const legend = this.layers.length > 1 ? `Layer ${index + 1}` : "Policy";
        return el("fieldset", { class: "form-layer" },
            el("legend", { class: "visually-hidden", text: legend }),
            field("algorithm", algorithm, "is-choice"),
            ...fieldsOf(layer).map((one) => this.#field(one, layer, index)), remove);
    }

    #field(one, layer, index) {
        if (one.kind === "check")
            return this.#check(one, layer, index);
        if (one.kind === "unit")
            return this.#unit(one, layer, index);
        const number = one.kind === "number";
        const input = el("input", { type: number ? "number" : "text", min: one.min, max: one.max,
            step: number ? 1 : null, value: layer[one.name], placeholder: one.placeholder ?? null,
            spellcheck: "false", autocomplete: "off" });
        input.addEventListener("input", () => {
            const value = number ? input.valueAsNumber : input.value.trim();
            const valid = !number || (Number.isInteger(value) && value >= one.min && value <= one.max);
            input.setAttribute("aria-invalid", String(!valid));
            if (valid)
                this.#replace(index, { ...this.layers[index], [one.name]: value }, false);
        });
        return field(one.label, input, number ? "" : "is-text");
    }

    #unit(one, layer, index) {
        const select = el("select", {});
        setOptions(select, one.units.map((unit) => [unit, UNIT_TEXTS[unit] ?? unit]), layer.unit);
        select.addEventListener("change", () => {
            this.#replace(index, withUnit(this.layers[index], select.value), true);
            this.groups.children[index]?.querySelectorAll("select")[1]?.focus();
        });
        return field(one.label, select, "is-choice");
    }

    #check(one, layer, index) {
        const id = newId("check");
        const input = el("input", { type: "checkbox", id, on: {
            change: () => this.#replace(index, { ...this.layers[index], [one.name]: input.checked }, false),
        } });
        input.checked = layer[one.name];
        return el("div", { class: "form-check" }, input, el("label", { for: id, text: one.label }));
    }

    #replace(index, layer, rebuild) {
        this.#change(this.layers.map((old, i) => (i === index ? layer : old)), rebuild);
    }

    #change(layers, rebuild) {
        this.layers = layers;
        if (rebuild)
            this.#build();
        this.onText(textOf(layers));
    }
}
