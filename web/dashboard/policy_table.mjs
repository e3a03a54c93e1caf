// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The table of all policies: searched, sorted, and shown a page at a time, so that thousands cost little.

import { el, setText } from "../playground/dom.mjs";
import { percent, rate, short, whole } from "./format.mjs";
import { meanOf } from "./history.mjs";

const ROWS = 25;
const names = new Intl.Collator("en", { numeric: true });

/** title, value to sort by, text, first order when the column is chosen */
const COLUMNS = [
    {
        id: "name",
        title: "Policy",
        value: (row) => row.policy.name,
        text: (row) => row.policy.name,
        order: 1,
    },
    {
        id: "limit",
        title: "Limit",
        value: (row) => row.policy.limit,
        text: (row) => row.policy.limit,
        order: 1,
    },
    { id: "rate", title: "Decisions", value: (row) => row.rate, text: (row) => rate(row.rate), order: -1 },
    { id: "denied", title: "Denied", value: (row) => row.denied, text: (row) => rate(row.denied), order: -1 },
    {
        id: "share",
        title: "Denied share",
        value: (row) => row.share,
        text: (row) => percent(row.denied, row.rate),
        order: -1,
    },
    {
        id: "total",
        title: "Since start",
        value: (row) => row.policy.total,
        text: (row) => short(row.policy.total),
        order: -1,
    },
];
const NUMBERS = new Set(["rate", "denied", "share", "total"]);

/** The address of a policy's page. */
export const policyHref = (name) => `#policy=${encodeURIComponent(name)}`;

/** @param {import("./history.mjs").Policy} policy */
export function badgesOf(policy) {
    const badges = [];
    if (!policy.listed && !policy.name.startsWith("(")) badges.push("removed");
    if (policy.engine !== "local" && policy.listed)
        badges.push(policy.engine);
    if (policy.shadow)
        badges.push("shadow");
    if (policy.candidate !== null)
        badges.push("candidate");
    return badges;
}

/** The daemon always counts (texts), (throttle) and (others). They are shown once they are used. */
const isShown = (policy) => policy.listed || policy.total > 0;

export class PolicyTable {
    #history;
    #column = COLUMNS[2];
    #order = -1;
    #page = 0;
    #search = "";
    #rows = []; // in the order that is shown
    #cells = [];
    #hold = false; // the pointer is over the table or the focus in it: rows stay where they are

    /**
     * @param {HTMLElement} root
     * @param {import("./history.mjs").History} history
     */
    constructor(root, history) {
        this.#history = history;
        this.search = el("input", {
            type: "search",
            id: "policy-search",
            placeholder: "Search by name or limit",
            autocomplete: "off",
            spellcheck: "false",
            on: { input: () => this.#onSearch() },
        });
        this.count = el("p", { class: "muted", role: "status" });
        this.body = el("tbody");
        this.heads = COLUMNS.map((column) => this.#head(column));
        this.table = el(
            "table",
            { class: "policies numbers" },
            el("caption", {
                class: "visually-hidden",
                text: "Policies. Rates are averages of the last 10 seconds.",
            }),
            el("thead", {}, el("tr", {}, ...this.heads)),
            this.body,
        );
        this.#watch();
        this.before = el("button", {
            class: "button",
            type: "button",
            text: "Previous",
            on: { click: () => this.#turn(-1) },
        });
        this.after = el("button", {
            class: "button",
            type: "button",
            text: "Next",
            on: { click: () => this.#turn(1) },
        });
        this.pager = el("div", { class: "pager" }, this.before, this.after);
        root.append(
            el(
                "div",
                { class: "table-tools" },
                el("label", { class: "visually-hidden", for: "policy-search", text: "Search policies" }),
                this.search,
                this.count,
            ),
            el("div", { class: "panel table-wrap" }, this.table),
            this.pager,
        );
        this.#markOrder();
    }

    #head(column) {
        const button = el("button", {
            type: "button",
            text: column.title,
            on: { click: () => this.#sortBy(column) },
        });
        return el("th", { scope: "col", class: `col-${column.id}` }, button);
    }

    #watch() {
        const hold = (on) => () => {
            this.#hold = on;
        };
        this.body.addEventListener("pointerenter", hold(true));
        this.body.addEventListener("pointerleave", hold(false));
        this.body.addEventListener("focusin", hold(true));
        this.body.addEventListener("focusout", hold(false));
    }

    #onSearch() {
        this.#search = this.search.value.trim().toLowerCase();
        this.#page = 0;
        this.update(true);
    }

    #sortBy(column) {
        this.#order = this.#column === column ? -this.#order : column.order;
        this.#column = column;
        this.#page = 0;
        this.#markOrder();
        this.update(true);
    }

    #markOrder() {
        COLUMNS.forEach((column, i) => {
            const sorted = column === this.#column;
            if (sorted)
                this.heads[i].setAttribute("aria-sort", this.#order > 0 ? "ascending" : "descending");
            else this.heads[i].removeAttribute("aria-sort");
        });
    }

    #turn(by) {
        this.#page += by;
        this.update(true);
    }

    /** Shows what is known now. `sort`: also while the rows are held. */
    update(sort = false) {
        const { policies, intervals } = this.#history;
        for (const row of this.#rows)
            this.#measure(row, intervals);
        if (sort || !this.#hold || this.#rows.length === 0)
            this.#choose(policies, intervals);
        const pages = Math.max(1, Math.ceil(this.#rows.length / ROWS));
        this.#page = Math.max(0, Math.min(this.#page, pages - 1));
        this.#draw(this.#rows.slice(this.#page * ROWS, (this.#page + 1) * ROWS));
        this.#tell([...policies.values()].filter(isShown).length, pages);
    }

    #measure(row, intervals) {
        row.rate = meanOf(intervals, row.policy.series, ["allowed", "denied", "shadowed", "failed"]) || 0;
        row.denied = meanOf(intervals, row.policy.series, ["denied"]) || 0;
        row.share = row.rate > 0 ? row.denied / row.rate : -1;
    }

    #choose(policies, intervals) {
        const wanted = this.#search;
        const rows = [];
        for (const policy of policies.values()) {
            if (
                !isShown(policy) ||
                (wanted &&
                    !policy.name.toLowerCase().includes(wanted) &&
                    !policy.limit.toLowerCase().includes(wanted))
            )
                continue;
            const row = { policy, rate: 0, denied: 0, share: -1 };
            this.#measure(row, intervals);
            rows.push(row);
        }
        const { value } = this.#column;
        rows.sort((a, b) => {
            const x = value(a),
                y = value(b);
            const order = typeof x === "string" ? names.compare(x, y) : x - y;
            return order * this.#order || names.compare(a.policy.name, b.policy.name);
        });
        this.#rows = rows;
    }

    #draw(rows) {
        while (this.#cells.length < rows.length)
            this.#addRow();
        this.#cells.forEach((cells, i) => {
            cells.row.hidden = i >= rows.length;
            if (i < rows.length)
                this.#fillRow(cells, rows[i]);
        });
    }

    #addRow() {
        const cells = { link: el("a"), badges: el("span", { class: "badges" }), shown: "" };
        cells.tds = COLUMNS.map(({ id }) =>
            el(id === "name" ? "th" : "td", {
                class: `col-${id}${NUMBERS.has(id) ? " number" : ""}`,
                scope: id === "name" ? "row" : null,
            }),
        );
        cells.tds[0].append(cells.link, cells.badges);
        cells.row = el("tr", {}, ...cells.tds);
        this.body.append(cells.row);
        this.#cells.push(cells);
    }

    #fillRow(cells, row) {
        const { policy } = row;
        if (cells.link.textContent !== policy.name) {
            cells.link.textContent = policy.name;
            cells.link.href = policyHref(policy.name);
        }
        const badges = badgesOf(policy);
        if (cells.shown !== badges.join()) {
            cells.shown = badges.join();
            cells.badges.replaceChildren(
                ...badges.map((text) => el("span", { class: `badge badge-${text}`, text })),
            );
        }
        for (let i = 1; i < COLUMNS.length; i++)
            setText(cells.tds[i], COLUMNS[i].text(row));
        cells.tds[1].title = policy.limit;
        cells.tds[3].classList.toggle("is-denied", row.denied > 0);
    }

    #tell(all, pages) {
        const found = this.#rows.length;
        const first = this.#page * ROWS;
        let text = this.#search ? `${whole(found)} of ${whole(all)} policies` : `${whole(all)} policies`;
        if (all === 1)
            text = this.#search ? `${found} of 1 policy` : "1 policy";
        if (pages > 1)
            text += `, shown: ${whole(first + 1)} to ${whole(Math.min(first + ROWS, found))}`;
        setText(this.count, text);
        this.pager.hidden = pages === 1;
        this.before.disabled = this.#page === 0;
        this.after.disabled = this.#page >= pages - 1;
    }
}
