// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// A table that is sorted by a click on the title of a column. Its rows may open to show more.

import { el, newId } from "../playground/dom.mjs";
import { compareValues } from "./text.mjs";

const ROWS_FIRST = 25;
const ROWS_MORE = 100;

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: any) => number | string} value what the column is sorted by
 * @property {(row: any) => Node | string} [cell] what is shown; the value if it is not given
 * @property {boolean} [number] aligned at the right, and at first sorted from the highest
 * @property {boolean} [minor] not shown on a phone
 */

export class SortedTable {
    #columns;
    #rows;
    #detail;
    #sorted = null; // the column
    #order = 1;
    #shown = ROWS_FIRST;

    /**
     * @param {object} options
     * @param {string} options.caption
     * @param {Column[]} options.columns the first one names the row
     * @param {any[]} options.rows in the order that is shown at first
     * @param {(row: any) => Node} [options.detail] what an opened row shows
     */
    constructor({ caption, columns, rows, detail }) {
        this.#columns = columns;
        this.#rows = rows;
        this.#detail = detail;
        this.heads = columns.map((column) => this.#head(column));
        this.body = el("tbody");
        this.more = el("button", { class: "button", type: "button", on: { click: () => this.#showMore() } });
        this.element = el("div", {}, scrolling(caption, this.heads, this.body), this.more);
        this.#fill();
    }

    #head(column) {
        const on = { click: () => this.#sortBy(column) };
        const button = el("button", { type: "button", text: column.title, on });
        return el("th", { scope: "col", class: classOf(column) }, button);
    }

    #sortBy(column) {
        this.#order = column === this.#sorted ? -this.#order : column.number ? -1 : 1;
        this.#sorted = column;
        // sort() keeps the order of equal rows.
        const { value } = column;
        this.#rows = [...this.#rows].sort((a, b) => this.#order * compareValues(value(a), value(b)));
        this.heads.forEach((head, i) => {
            if (this.#columns[i] === column)
                head.setAttribute("aria-sort", this.#order > 0 ? "ascending" : "descending");
            else
                head.removeAttribute("aria-sort");
        });
        this.#fill();
    }

    #showMore() {
        this.#shown += ROWS_MORE;
        this.#fill();
    }

    #fill() {
        this.body.replaceChildren(...this.#rows.slice(0, this.#shown).map((row) => this.#row(row)));
        const hidden = this.#rows.length - this.#shown;
        this.more.hidden = hidden <= 0;
        this.more.textContent = `Show ${Math.min(hidden, ROWS_MORE)} more of ${this.#rows.length}`;
    }

    #row(row) {
        const [first, ...others] = this.#columns;
        const show = (column) => (column.cell ?? ((one) => String(column.value(one))))(row);
        const head = el("th", { scope: "row", class: classOf(first) }, show(first));
        const cells = others.map((column) => el("td", { class: classOf(column) }, show(column)));
        const line = el("tr", {}, head, ...cells);
        if (this.#detail)
            this.#makeOpen(row, line, head);
        return line;
    }

    /** Puts the row's name into a button that opens and closes what the row shows. */
    #makeOpen(row, line, head) {
        const attributes = { class: "open", type: "button", "aria-expanded": "false" };
        const button = el("button", attributes, ...head.childNodes);
        head.append(button);
        let opened = null;
        button.addEventListener("click", () => {
            if (opened) {
                opened.remove();
                opened = null;
            } else {
                const cell = el("td", { colspan: this.#columns.length }, this.#detail(row));
                opened = el("tr", { class: "detail", id: newId("detail") }, cell);
                line.after(opened);
            }
            button.setAttribute("aria-expanded", String(opened !== null));
        });
    }
}

const classOf = ({ number, minor }) =>
    [number && "number", minor && "minor"].filter(Boolean).join(" ") || null;

/** A table in a box that scrolls sideways, since it may be wider than a phone. */
function scrolling(caption, heads, body) {
    const table = el("table", { class: "numbers" },
        el("caption", { class: "visually-hidden", text: caption }),
        el("thead", {}, el("tr", {}, ...heads)), body);
    const box = el("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": caption }, table);
    // The style then says that the table goes on beside the window.
    new ResizeObserver(() => box.classList.toggle("is-wide", box.scrollWidth > box.clientWidth)).observe(box);
    return box;
}

/**
 * A table of which all columns but the first are numbers, except those that are given.
 * @param {string} caption
 * @param {string[]} titles of the columns
 * @param {string[][]} rows
 * @param {Set<number>} [texts] indexes of columns that are no numbers
 */
export function plainTable(caption, titles, rows, texts = new Set()) {
    const kind = (i) => (i === 0 ? null : texts.has(i) ? "text" : "number");
    const heads = titles.map((text, i) => el("th", { scope: "col", class: kind(i), text }));
    const body = el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((text, i) =>
        (i === 0 ? el("th", { scope: "row", text }) : el("td", { class: kind(i), text }))))));
    return scrolling(caption, heads, body);
}
