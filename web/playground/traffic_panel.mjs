// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Who sends requests, and when: the kind of the traffic, its numbers, pasted times, or an access log that
// the browser reads and does not send anywhere.

import { parseLog } from "../model/access_log.mjs";
import { MAX_EVENTS, MAX_KEYS, TIMES_CHARS_MAX } from "../model/scene.mjs";
import { parseTimes } from "../model/traffic.mjs";
import { debounce, el, field, setOptions, setText } from "./dom.mjs";
import { bytes, count, readDate } from "./format.mjs";

const APPLY_MS = 250;
const LOG_BYTES_MAX = 64 << 20;
const BINARY_PROBE = 4096;

const KINDS = [
    ["none", "Only by hand"],
    ["steady", "Steady"],
    ["poisson", "Random (Poisson)"],
    ["bursts", "Bursts"],
    ["spammer", "One spammer"],
    ["times", "List of times"],
    ["log", "Access log"],
];

const HELP = {
    none: "Press Hit or the space bar to send requests.",
    times: "Write a line for each request: seconds or a time of day, then optionally a key and a cost.",
    log: "Drop a log anywhere on the page, or choose a file. It does not leave your browser.",
};

// name: [label, smallest, largest, step, the kinds that use it]
const NUMBERS = {
    rate: ["Requests/s", 0, 100000, "any", ["steady", "poisson", "spammer"]],
    spammerRate: ["Spam/s", 0, 100000, "any", ["spammer"]],
    burst: ["Burst size", 1, 200000, 1, ["bursts"]],
    everySeconds: ["Burst every, s", 0.001, 31536000, "any", ["bursts"]],
    atSeconds: ["First burst at, s", 0, 31536000, "any", ["bursts"]],
    withinSeconds: ["Burst lasts, s", 0, 31536000, "any", ["bursts"]],
    users: ["Users", 1, 10000, 1, ["steady", "poisson", "bursts", "spammer"]],
    cost: ["Cost", 0, 2147483647, 1, ["steady", "poisson", "bursts", "spammer"]],
    seed: ["Seed", 0, 4294967295, 1, ["poisson", "spammer"]],
};

const BEGIN_EXPECTED = "Expected a date and a time in UTC, such as 2026-01-01 00:00:00.";
const TIMES_SAMPLE = "0.5\n0.7 alice\n1.2s alice 3\n1.2 bob\n4";

/** Whether the text is what a person can read: a file with NUL bytes is not. */
const isText = (text) => !text.slice(0, BINARY_PROBE).includes("\0");

/** "1 line", "1,200 lines" */
const counted = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

/** Says why a log has no requests. */
function noRequests(name, { format, errors: [first] }) {
    if (format === null || !first)
        return `${name} has no line in a known format, expected combined, common, JSON lines or `
            + "tab-separated values.";
    return `${name} has no request. Line ${first.line}, ${first.message}`;
}

/** Says what was read of a log, and what was not. */
function summaryOf(name, { events, format, bad, errors: [first], dropped, wentBack, truncated }) {
    const parts = [`${name}: ${counted(events.times.length, "request")} in the format ${format}.`];
    if (bad > 0)
        parts.push(`Skipped ${counted(bad, "line")}; the first is line ${first.line}, ${first.message}.`);
    if (dropped > 0)
        parts.push(`Left out ${counted(dropped, "request")}: `
            + `this page takes ${count(MAX_KEYS)} keys and 104 days.`);
    if (truncated)
        parts.push(`The rest is left out: this page takes ${count(MAX_EVENTS)} requests.`);
    if (wentBack > 0)
        parts.push(`${counted(wentBack, "line")} had a time before that of an earlier line, which is used instead.`);
    if (dropped > 0 || truncated)
        parts.push("weir replay reads the whole log.");
    return parts.join(" ");
}

export class TrafficPanel {
    /**
     * @param {{spec: any, begin: string, onSpec: (spec: any) => void, onBegin: (iso: string) => void,
     *          say: (text: string) => void}} options
     *     `onSpec` gets each complete specification, and `onBegin` each time at which the scene begins
     */
    constructor({ spec, begin, onSpec, onBegin, say }) {
        this.spec = spec;
        this.onSpec = onSpec;
        this.onBegin = onBegin;
        this.say = say;
        this.apply = debounce(() => this.onSpec(this.spec), APPLY_MS);
        this.help = el("p", { class: "muted traffic-help", "aria-live": "polite" });
        this.kind = el("select", { on: { change: () => this.#choose(this.kind.value) } });
        setOptions(this.kind, KINDS, spec.kind);
        this.numbers = el("div", { class: "traffic-numbers" }, field("Traffic", this.kind, "is-kind"));
        this.times = this.#timesBox();
        this.log = this.#logBox();
        this.element = el("div", { class: "traffic" }, this.numbers, this.times.element, this.log.element,
            this.help);
        this.#addNumbers();
        this.show(spec, begin);
    }

    /** Shows a specification that was made elsewhere, and the time at which the scene begins. */
    show(spec, begin = this.begun) {
        this.apply.cancel();
        this.spec = { ...spec };
        this.showBegin(begin);
        this.kind.value = spec.kind;
        for (const [name, input] of Object.entries(this.inputs))
            this.#showNumber(input, spec[name]);
        this.times.input.value = spec.times;
        this.#showKind();
    }

    /** @param {string} iso ISO 8601 in UTC */
    showBegin(iso) {
        this.begun = iso;
        this.begin.value = iso.slice(0, 19).replace("T", " ");
        this.begin.removeAttribute("aria-invalid");
    }

    /** Reads a log. Returns a message on failure, and null on success. @param {File} file */
    async open(file) {
        const message = await this.#read(file);
        this.log.message.textContent = message;
        this.log.message.classList.toggle("is-denied", this.logFailed);
        this.say(message);
    }

    async #read(file) {
        this.logFailed = true;
        if (file.size > LOG_BYTES_MAX)
            return `${file.name} is ${bytes(file.size)} long, expected at most ${bytes(LOG_BYTES_MAX)}. `
                + "Use weir replay for larger logs.";
        let text;
        try {
            text = await file.text();
        } catch {
            return `The browser cannot read ${file.name}. Check its permissions and choose it again.`;
        }
        if (!isText(text))
            return `${file.name} is not a text file, expected an access log. Decompress it first.`;
        const result = parseLog(text);
        if (result.events.times.length === 0)
            return noRequests(file.name, result);
        this.logFailed = false;
        this.spec = { ...this.spec, kind: "log",
            log: { name: file.name, events: result.events, begin: result.begin ?? null } };
        this.show(this.spec);
        this.onSpec(this.spec);
        return summaryOf(file.name, result);
    }

    #addNumbers() {
        this.inputs = {};
        this.fields = {};
        for (const [name, [label, min, max, step]] of Object.entries(NUMBERS)) {
            const input = el("input", { type: "number", min, max, step, inputmode: "decimal",
                on: { input: () => this.#number(name) } });
            this.inputs[name] = input;
            this.fields[name] = field(label, input);
            this.numbers.append(this.fields[name]);
        }
        this.begin = el("input", { type: "text", class: "numbers", maxlength: 24, autocomplete: "off",
            spellcheck: "false", placeholder: "2026-01-01 00:00:00",
            on: { change: () => this.#changeBegin() } });
        this.numbers.append(field("Begins at, UTC", this.begin, "is-begin"));
    }

    #changeBegin() {
        const ms = readDate(this.begin.value);
        this.begin.setAttribute("aria-invalid", String(Number.isNaN(ms)));
        this.#showHelp();
        if (!Number.isNaN(ms))
            return this.onBegin(new Date(ms).toISOString());
        this.help.hidden = false;
        setText(this.help, BEGIN_EXPECTED);
        this.say(BEGIN_EXPECTED);
    }

    #showNumber(input, value) {
        input.value = String(value);
        input.removeAttribute("aria-invalid");
    }

    #number(name) {
        const input = this.inputs[name];
        const value = input.valueAsNumber;
        const [, min, max, step] = NUMBERS[name];
        const valid = value >= min && value <= max && (step === "any" || Number.isInteger(value));
        input.setAttribute("aria-invalid", String(!valid));
        if (!valid)
            return;
        this.spec = { ...this.spec, [name]: value };
        this.apply();
    }

    #choose(kind) {
        this.apply.cancel();
        this.spec = { ...this.spec, kind };
        if (kind === "times" && this.spec.times === "") {
            this.spec.times = TIMES_SAMPLE;
            this.times.input.value = TIMES_SAMPLE;
        }
        this.#showKind();
        this.onSpec(this.spec);
    }

    #showKind() {
        const { kind } = this.spec;
        this.#showHelp();
        for (const [name, [, , , , kinds]] of Object.entries(NUMBERS))
            this.fields[name].hidden = !kinds.includes(kind);
        this.times.element.hidden = kind !== "times";
        this.log.element.hidden = kind !== "log";
        if (kind === "log")
            this.#showLog();
        this.#showTimes();
    }

    #showHelp() {
        const { kind } = this.spec;
        setText(this.help, HELP[kind] ?? "");
        this.help.hidden = !Object.hasOwn(HELP, kind);
    }

    #showLog() {
        const { log } = this.spec;
        if (log?.events)
            return; // open() wrote the message
        setText(this.log.message,
            log ? `The link does not contain ${log.name}. Choose the file again.` : "");
        this.log.message.classList.remove("is-denied");
    }

    #timesBox() {
        const input = el("textarea", { spellcheck: "false", rows: 4, maxlength: TIMES_CHARS_MAX, on: {
            input: () => {
                this.spec = { ...this.spec, times: input.value };
                this.#showTimes();
                this.apply();
            },
        } });
        const message = el("p", { class: "muted", "aria-live": "polite" });
        return { input, message, element: el("div", { class: "times" }, field("Times", input), message) };
    }

    #showTimes() {
        if (this.spec.kind !== "times")
            return;
        const { events, errors } = parseTimes(this.spec.times);
        const [first] = errors;
        const cut = this.spec.times.length >= TIMES_CHARS_MAX ? " The text is cut at 4 MiB." : "";
        const requests = `${count(events.times.length)} requests.${cut}`;
        const more = errors.length > 1 ? `, and ${errors.length - 1} more` : "";
        setText(this.times.message,
            first ? `${requests} Line ${first.line}: ${first.message}${more}` : requests);
        this.times.message.classList.toggle("is-denied", Boolean(first));
    }

    #logBox() {
        const file = el("input", { type: "file", class: "visually-hidden", tabindex: -1,
            "aria-label": "Access log",
            on: {
                change: () => {
                    if (file.files?.[0])
                        this.open(file.files[0]);
                    file.value = "";
                },
            } });
        const button = el("button", { class: "button", type: "button", text: "Choose a file …",
            on: { click: () => file.click() } });
        const message = el("p", { class: "muted", "aria-live": "polite" });
        return { message, element: el("div", { class: "log" }, button, file, message) };
    }
}

/** Lets a file be dropped anywhere on the page. @param {(file: File) => void} onFile */
export function acceptDrops(onFile) {
    const hasFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const mark = (on) => document.body.classList.toggle("is-dropping", on);
    addEventListener("dragover", (event) => {
        if (hasFile(event)) {
            event.preventDefault();
            mark(true);
        }
    });
    addEventListener("dragleave", (event) => {
        if (event.relatedTarget === null)
            mark(false);
    });
    addEventListener("drop", (event) => {
        mark(false);
        if (!hasFile(event))
            return;
        event.preventDefault();
        const file = event.dataTransfer?.files[0];
        if (file)
            onFile(file);
    });
}
