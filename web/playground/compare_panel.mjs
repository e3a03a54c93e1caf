// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Compares two lanes: how many requests one allows and the other denies, and where on the time line.

import { compare } from "../model/compare.mjs";
import { el, field, setOptions, setText } from "./dom.mjs";
import { count, percent } from "./format.mjs";

const letter = (i) => String.fromCharCode(65 + i);

function cell(className) {
    return el("td", { class: `numbers ${className}`, text: "0" });
}

/** How exactly a lane holds the limit of the sliding log beside it. */
function exactText({ wronglyAllowed, wronglyDenied }, lane, requests) {
    if (wronglyAllowed + wronglyDenied === 0)
        return `An exact log of what lane ${lane} allowed would have decided all of its requests alike.`;
    return `By an exact log of what it allowed before, lane ${lane} wrongly allowed `
        + `${count(wronglyAllowed)} (${percent(wronglyAllowed, requests)}) and wrongly denied `
        + `${count(wronglyDenied)} (${percent(wronglyDenied, requests)}).`;
}

export class ComparePanel {
    /**
     * @param {HTMLElement} element
     * @param {import("./player.mjs").Player} player
     * @param {() => any[]} views the LaneView of each lane
     */
    constructor(element, player, views) {
        this.element = element;
        this.player = player;
        this.views = views;
        this.counted = "";
        this.#build();
        player.views.add(this);
    }

    /** The lanes changed: offers them, and keeps the pair if it still exists. */
    show() {
        const { scene } = this.player.world;
        const n = scene.lanes.length;
        this.element.hidden = n < 2;
        if (n < 2)
            scene.compare = null;
        const options = scene.lanes.map((text, i) => [String(i), `${letter(i)}  ${text}`]);
        setOptions(this.first, [["", "Do not compare"], ...options], String(scene.compare?.[0] ?? ""));
        setOptions(this.second, options, String(scene.compare?.[1] ?? Math.min(1, n - 1)));
        this.counted = "";
        this.player.redraw();
    }

    draw() {}

    /** Counts again if there are new requests. */
    write() {
        const { world } = this.player;
        const pair = world.scene.compare;
        this.results.hidden = pair === null;
        this.secondField.hidden = pair === null;
        const [a, b] = (pair ?? []).map((i) => world.lanes[i]);
        const valid = Boolean(a && b && !a.error && !b.error);
        const to = valid ? Math.min(world.index, a.decided, b.decided) : 0;
        const counted = `${pair} ${to} ${a?.text} ${b?.text} ${world.traffic.length}`;
        if (counted === this.counted)
            return;
        this.counted = counted;
        const result = valid ? compare(a, b, 0, to) : null;
        this.marks = result?.marks ?? [];
        this.views().forEach((view, i) => {
            view.marks = pair?.includes(i) ? this.marks : [];
            view.beside = pair?.includes(i) ? letter(i === pair[0] ? pair[1] : pair[0]) : "";
        });
        if (result)
            this.#writeResult(result, pair, to);
    }

    #build() {
        const change = () => this.#choose();
        this.first = el("select", { on: { change } });
        this.second = el("select", { on: { change } });
        this.secondField = field("with lane", this.second);
        this.both = cell("is-allowed");
        this.onlyA = cell("is-mark");
        this.onlyB = cell("is-mark");
        this.neither = cell("is-denied");
        this.heads = ["", "", "", ""].map((text) => el("th", { scope: "col", text }));
        const [aAllows, aDenies, bAllows, bDenies] = this.heads;
        bAllows.scope = bDenies.scope = "row";
        this.sentence = el("p", { class: "compare-sentence" });
        this.exact = el("p", { class: "compare-sentence muted" });
        const jump = (text, forward) => el("button", { class: "button", type: "button", text,
            on: { click: () => this.#jump(forward) } });
        this.results = el("div", { class: "compare-results" },
            el("table", {}, el("thead", {}, el("tr", {}, el("td"), aAllows, aDenies)),
                el("tbody", {}, el("tr", {}, bAllows, this.both, this.onlyB),
                    el("tr", {}, bDenies, this.onlyA, this.neither))),
            el("div", { class: "compare-words" }, this.sentence, this.exact,
                el("div", { class: "compare-jump" },
                    jump("Previous difference", false), jump("Next difference", true))));
        this.element.replaceChildren(el("div", { class: "compare-choice" }, el("h2", { text: "Compare" }),
            field("Lane", this.first), this.secondField), this.results);
    }

    #choose() {
        const { world } = this.player;
        const first = this.first.value === "" ? null : Number(this.first.value);
        let second = Number(this.second.value);
        if (first !== null && first === second)
            second = first === 0 ? 1 : 0;
        world.scene.compare = first === null ? null : [first, second];
        this.show();
        this.player.onChange();
    }

    #writeResult({ both, neither, onlyA, onlyB, exact }, [i, j], requests) {
        const [a, b] = [letter(i), letter(j)];
        const heads = [`${a} allows`, `${a} denies`, `${b} allows`, `${b} denies`];
        heads.forEach((text, k) => setText(this.heads[k], text));
        setText(this.both, count(both));
        setText(this.neither, count(neither));
        setText(this.onlyA, count(onlyA));
        setText(this.onlyB, count(onlyB));
        const differ = onlyA + onlyB;
        setText(this.sentence, differ === 0
            ? `${a} and ${b} agree on all ${count(requests)} requests so far.`
            : `${a} and ${b} differ on ${count(differ)} of ${count(requests)} requests `
                + `(${percent(differ, requests)}). `
                + `${a} alone allows ${count(onlyA)}, and ${b} alone allows ${count(onlyB)}.`);
        this.exact.hidden = exact === null;
        if (exact)
            setText(this.exact, exactText(exact, exact.lane === "a" ? a : b, requests));
    }

    /** Moves the clock to the next or the previous request on which the lanes differ. */
    #jump(forward) {
        const { player, marks = [] } = this;
        const { world } = player;
        const at = player.selected >= 0 ? player.selected : forward ? -1 : Infinity;
        const found = forward ? marks.find((i) => i > at) : marks.findLast?.((i) => i < at);
        if (found === undefined)
            return;
        player.pause();
        const time = world.traffic.times[found];
        const span = world.scene.span * 1e9;
        if (time < world.now - span * 0.95 || time > world.now)
            player.seek(time + span * 0.3);
        player.select(found);
    }
}
