// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The page of one policy: its decisions, its keys, shadow mode, and "what if".

import { el, setText } from "../playground/dom.mjs";
import { ChartView } from "./chart_view.mjs";
import { daemon } from "./daemon.mjs";
import { confirmChange } from "./dialog.mjs";
import { percent, rate, whole } from "./format.mjs";
import { VERDICTS } from "./history.mjs";
import { KeysView } from "./keys_view.mjs";
import { perSecond, VERDICT_SERIES, verdictData } from "./overview.mjs";
import { badgesOf } from "./policy_table.mjs";
import { WhatIf } from "./what_if.mjs";

const VERDICT_NAMES = {
    allowed: "allowed",
    denied: "denied",
    shadowed: "shadow: would be denied",
    allow_listed: "on the allow list",
    deny_listed: "on the deny list",
    unreached: "answered by on_error",
    failed: "failed",
};

const UNTIL = "This lasts until the next reload or restart of the daemon. Then weir.yaml applies again.";

const SPECIAL = {
    "(texts)": "All requests with a policy text instead of a name.",
    "(throttle)": "All requests with the command CL.THROTTLE.",
    "(others)": "Requests for unknown policies, and for all policies after the first 16381 names.",
};

export class PolicyPage {
    #history;
    #policy;
    #keys;
    #whatIf = null;
    #badges = "";

    /**
     * @param {HTMLElement} head for the name and the limit
     * @param {HTMLElement} root
     * @param {import("./history.mjs").History} history
     * @param {import("./history.mjs").Policy} policy
     * @param {{core: Promise<any>, paused: () => boolean}} options
     */
    constructor(head, root, history, policy, { core, paused }) {
        this.#history = history;
        this.#policy = policy;
        this.listed = policy.listed;
        this.chart = new ChartView({
            title: el("h2", { text: "Decisions a second" }),
            label: `Decisions of ${policy.name} a second`,
            series: VERDICT_SERIES,
            format: rate,
            scale: perSecond,
            kind: "stacked",
        });
        const keys = el("div", { class: "stack" });
        const controls = el("div", { class: "stack" });
        this.#addHead(head);
        root.append(this.chart.element, this.#counts(), keys, controls);
        this.#keys = new KeysView(keys, policy.name, {
            top: history.hello?.top ?? false,
            hasState: policy.listed,
            paused,
        });
        if (policy.listed) {
            this.#whatIf = new WhatIf(controls, history, policy, core);
            controls.append(this.#shadow());
        }
    }

    destroy() {
        this.chart.destroy();
        this.#keys.destroy();
        this.#whatIf?.destroy();
    }

    /** @param {number} seconds the range of the charts */
    update(seconds) {
        const { name, limit, counts } = this.#policy;
        setText(this.limit, limit || SPECIAL[name] || "This policy was removed from the configuration.");
        const badges = badgesOf(this.#policy);
        if (badges.join() !== this.#badges) {
            this.#badges = badges.join();
            this.badges.replaceChildren(
                ...badges.map((text) => el("span", { class: `badge badge-${text}`, text })),
            );
        }
        this.chart.update(...verdictData(this.#history, this.#policy.series, seconds));
        const total = this.#policy.total;
        VERDICTS.forEach((verdict, i) => {
            setText(this.cells[i].count, whole(counts?.[i] ?? 0));
            setText(this.cells[i].share, percent(counts?.[i] ?? 0, total));
        });
        this.#whatIf?.update(seconds);
        this.#updateShadow();
        this.#updateLink();
    }

    #addHead(head) {
        this.limit = el("p", { class: "policy-limit mono" });
        this.badges = el("span", { class: "badges" });
        head.append(
            el("a", { href: "#", class: "back", text: "All policies" }),
            el("h1", { tabindex: "-1" }, el("span", { class: "mono", text: this.#policy.name }), this.badges),
            this.limit,
        );
        if (this.#policy.listed)
            head.append(this.#tryIt());
    }

    /** A link to the playground, with this limit and what is tried instead of it. */
    #tryIt() {
        this.playground = el("a", { class: "try-it", text: "Open in the playground" });
        return this.playground;
    }

    #updateLink() {
        const { limit, candidate } = this.#policy;
        const lanes = candidate === null ? [limit] : [limit, candidate];
        const scene = new URLSearchParams(lanes.map((lane) => ["lane", lane]));
        scene.append("traffic", "poisson");
        this.playground?.setAttribute("href", `playground.html#${scene}`);
    }

    #counts() {
        this.cells = VERDICTS.map(() => ({
            count: el("dd", { class: "count" }),
            share: el("dd", { class: "muted" }),
        }));
        return el(
            "section",
            { class: "panel block" },
            el("h2", { text: "Decisions since the daemon started" }),
            el(
                "dl",
                { class: "counts numbers" },
                ...VERDICTS.map((verdict, i) =>
                    el(
                        "div",
                        {},
                        el("dt", { class: "muted", text: VERDICT_NAMES[verdict] }),
                        this.cells[i].count,
                        this.cells[i].share,
                    ),
                ),
            ),
        );
    }

    #shadow() {
        this.shadowText = el("p", { class: "muted note" });
        this.shadowStatus = el("p", { role: "status", class: "error" });
        this.shadowButton = el("button", {
            class: "button",
            type: "button",
            on: { click: () => void this.#switchShadow() },
        });
        return el(
            "section",
            { class: "panel block" },
            el("h2", { text: "Shadow mode" }),
            this.shadowText,
            el("div", {}, this.shadowButton),
            this.shadowStatus,
        );
    }

    #updateShadow() {
        if (!this.shadowButton)
            return;
        const { shadow } = this.#policy;
        setText(
            this.shadowText,
            shadow
                ? "On: the policy allows every request, and counts those that it would deny as shadow."
                : "Off: the policy is enforced. In shadow mode, it only counts what it would deny.",
        );
        setText(this.shadowButton, shadow ? "Enforce the policy…" : "Switch shadow mode on…");
    }

    async #switchShadow() {
        const { name, shadow } = this.#policy;
        const enforce = {
            title: `Enforce ${name}?`,
            text: `Requests above the limit are denied from now on. ${UNTIL}`,
            action: "Enforce the policy",
        };
        const stop = {
            title: `Switch shadow mode on for ${name}?`,
            text: `Requests above the limit are no longer denied. ${UNTIL}`,
            action: "Stop denying",
        };
        if (!(await confirmChange(shadow ? enforce : stop)))
            return;
        try {
            this.#policy.shadow = (await daemon.shadow(name, !shadow)).shadow;
            setText(this.shadowStatus, "");
        } catch (error) {
            setText(this.shadowStatus, error.message);
        }
        this.#updateShadow();
    }
}
