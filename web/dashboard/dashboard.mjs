// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The dashboard of a running daemon, which serves this page. It reads one stream, /v1/live, and asks for the
// keys of the policy that is shown. The address says what is shown: #policy=NAME&range=15m.

import { boot } from "../playground/boot.mjs";
import { el, setText } from "../playground/dom.mjs";
import { mountThemeSwitch } from "../playground/theme_switch.mjs";
import { daemon } from "./daemon.mjs";
import { History } from "./history.mjs";
import { LiveStream } from "./live.mjs";
import { Overview } from "./overview.mjs";
import { PolicyPage } from "./policy_page.mjs";

const RANGES = { "1m": 60, "5m": 300, "15m": 900, "1h": 3600 };
const DEFAULT_RANGE = "1m";

// An element of dashboard.html.
const at = (id) => /** @type {any} */ (document.getElementById(id));

class Dashboard {
    #history = new History();
    #core = boot().catch(() => null); // without it, only the daemon checks the texts of candidates
    #connection = { state: "connecting", retryAtMs: 0, reason: "" };
    #paused = false;
    #range = DEFAULT_RANGE;
    #policyName = "";
    #page = null;
    #drawn = 0;
    #wasOpen = false;

    start() {
        mountThemeSwitch(at("theme"));
        this.overview = new Overview(at("overview"), this.#history);
        this.stream = new LiveStream({
            url: "v1/live",
            onEvent: (name, data) => this.#onEvent(name, data),
            onConnection: (connection) => this.#onConnection(connection),
        });
        at("retry").addEventListener("click", () => void this.stream.open());
        at("skip").addEventListener("click", (event) => {
            // the address says what is shown, so it stays
            event.preventDefault();
            at("main").focus();
        });
        at("pause").addEventListener("click", () => this.#pause());
        for (const input of document.querySelectorAll("input[name=range]"))
            input.addEventListener("change", (event) =>
                this.#setRange(/** @type {any} */ (event.target).value),
            );
        addEventListener("hashchange", () => this.#onHash());
        document.addEventListener("visibilitychange", () => this.#draw());
        setInterval(() => this.#showConnection(), 500);
        this.#onHash();
        if (location.protocol === "file:")
            this.#refuseFile();
        else void this.stream.open();
    }

    #refuseFile() {
        at("notice").hidden = false;
        at("retry").hidden = true;
        at("pause").hidden = true;
        at("notice-text").replaceChildren(
            "This page shows a running daemon, and works only if the daemon serves it. Start one with ",
            el("code", { text: "weir serve --http 8080" }),
            ", and open ",
            el("code", { text: "http://127.0.0.1:8080/dashboard" }),
            ".",
        );
        setText(at("connection"), "not connected");
        at("loading").hidden = true;
    }

    #onEvent(name, data) {
        if (name === "hello") {
            this.#history.onHello(data);
            void this.#askPast();
        }
        if (name === "policies")
            this.#history.onPolicies(data);
        else if (name === "tick") this.#history.onTick(data);
        this.#draw();
    }

    async #askPast() {
        try {
            this.#history.onPast(await daemon.history());
            this.#draw();
        } catch {
            // the charts begin without it
        }
    }

    #onConnection(connection) {
        const { state } = this.#connection;
        this.#connection = connection;
        if (connection.state === "waiting" && state !== "waiting" && this.#wasOpen)
            setText(at("announce"), `Connection lost: ${connection.reason}.`);
        if (connection.state === "open") {
            setText(at("announce"), this.#wasOpen ? "Connected again." : "Connected.");
            this.#wasOpen = true;
        }
        this.#showConnection();
    }

    #showConnection() {
        if (location.protocol === "file:")
            return;
        const { state, retryAtMs, reason } = this.#connection;
        const lost = state === "waiting";
        at("pause").hidden = state !== "open" && !this.#paused;
        const status = at("connection");
        status.dataset.state = this.#paused && state === "open" ? "paused" : state;
        setText(
            status,
            { connecting: "connecting…", open: this.#paused ? "paused" : "live", waiting: "not connected" }[
                state
            ],
        );
        // While an attempt runs, the notice of the last one stays, so that the page does not jump.
        at("notice").hidden = state === "open" || (!lost && at("notice").hidden);
        if (lost) {
            const seconds = Math.max(1, Math.ceil((retryAtMs - Date.now()) / 1000));
            const what = this.#wasOpen ? "Connection lost" : "No connection";
            setText(at("notice-text"), `${what}: ${reason}. Retrying in ${seconds} s.`);
        } else if (state === "connecting" && !at("notice").hidden) {
            setText(at("notice-text"), "Connecting…");
        }
    }

    #pause() {
        this.#paused = !this.#paused;
        at("pause").setAttribute("aria-pressed", String(this.#paused));
        setText(at("pause"), this.#paused ? "Resume" : "Pause");
        this.#showConnection();
        this.#draw();
    }

    #setRange(range) {
        this.#range = range;
        const parts = new URLSearchParams(location.hash.slice(1));
        if (range === DEFAULT_RANGE)
            parts.delete("range");
        else parts.set("range", range);
        history.replaceState(null, "", `#${parts}`);
        this.#drawNow();
    }

    #onHash() {
        const parts = new URLSearchParams(location.hash.slice(1));
        const range = parts.get("range") ?? "";
        if (Object.hasOwn(RANGES, range))
            this.#range = range;
        const input = /** @type {any} */ (
            document.querySelector(`input[name=range][value="${this.#range}"]`)
        );
        input.checked = true;
        const name = parts.get("policy") ?? "";
        if (name !== this.#policyName) {
            this.#leavePolicy();
            this.#policyName = name;
            scrollTo(0, 0);
        }
        document.title = name ? `${name} - weir` : "weir dashboard";
        this.#drawNow();
        if (name)
            at("policy-head").querySelector("h1")?.focus({ preventScroll: true });
    }

    #leavePolicy() {
        this.#page?.destroy();
        this.#page = null;
        at("policy").replaceChildren();
        at("policy-head").replaceChildren();
    }

    /** Draws before the next frame. */
    #draw() {
        if (this.#paused || document.hidden || this.#drawn !== 0)
            return;
        this.#drawn = requestAnimationFrame(() => this.#drawNow());
    }

    #drawNow() {
        cancelAnimationFrame(this.#drawn);
        this.#drawn = 0;
        const ready = this.#history.hello !== null;
        at("loading").hidden = ready || location.protocol === "file:";
        at("head").hidden = this.#policyName !== "";
        at("overview").hidden = !ready || this.#policyName !== "";
        at("policy-head").hidden = !ready || this.#policyName === "";
        at("policy").hidden = !ready || this.#policyName === "";
        at("ranges").hidden = !ready;
        if (!ready)
            return;
        setText(at("about"), `weir ${this.#history.hello.version} on ${location.host}`);
        if (this.#policyName)
            this.#drawPolicy();
        else this.overview.update(RANGES[this.#range]);
    }

    #drawPolicy() {
        const policy = this.#history.policies.get(this.#policyName);
        if (this.#page && policy && this.#page.listed !== policy.listed)
            this.#leavePolicy(); // a reload has added or removed it
        if (policy && !this.#page) {
            at("policy-head").replaceChildren();
            this.#page = new PolicyPage(at("policy-head"), at("policy"), this.#history, policy, {
                core: this.#core,
                paused: () => this.#paused || this.#connection.state !== "open",
            });
        } else if (!policy && !at("policy-head").hasChildNodes()) {
            at("policy-head").append(
                el("a", { href: "#", class: "back", text: "All policies" }),
                el("h1", { tabindex: "-1", text: "No such policy" }),
                el("p", { text: `This daemon has no policy called ${this.#policyName}.` }),
            );
        }
        this.#page?.update(RANGES[this.#range]);
    }
}

new Dashboard().start();
