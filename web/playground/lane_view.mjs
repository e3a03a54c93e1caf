// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// One lane: its policy, the picture of its state, its time line, its totals, and the decision of the
// request under the pointer. The playground has up to eight of them; the guide shows small ones.

import { drawState, stateHeight } from "../draw/state.mjs";
import { themes } from "../draw/theme.mjs";
import { Timeline, bandsOf, limitLineOf } from "../draw/timeline.mjs";
import { explanations } from "../model/explain.mjs";
import { el, reducedMotion, setText } from "./dom.mjs";
import { clock, count, duration, percent, short } from "./format.mjs";
import { Picture } from "./picture.mjs";
import { after } from "./player.mjs";
import { PolicyEditor } from "./policy_editor.mjs";
import { fillCard, sentence } from "./request_card.mjs";
import { isDark, isPrinted, onTheme } from "./theme_switch.mjs";

const RECENT = 0.06; // of the visible span
const CARD_HEIGHT = 300; // CSS pixels, about
const TITLE_HEIGHT = 24; // of a state's policy
const NARROW_HEIGHT = 88; // of a state on a phone, so that two lanes are visible

const isNarrow = () => innerWidth <= 720;

/** The letter of a lane: A to H. */
const letterOf = (index) => String.fromCharCode(65 + index);

const SHAPES = {
    allowed: "M5 1a4 4 0 1 1 0 8a4 4 0 1 1 0-8z",
    denied: "M0 1.6 1.6 0 5 3.4 8.4 0 10 1.6 6.6 5 10 8.4 8.4 10 5 6.6 1.6 10 0 8.4 3.4 5z",
    delayed: "M5 0 10 5 5 10 0 5z",
    mark: "M5 1 9.5 9H.5z",
};

/** The shape of a verdict or of a mark, as it is on the time line. */
function shape(name, className) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 10 10");
    svg.setAttribute("class", className);
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", SHAPES[name]);
    path.setAttribute("fill", "currentColor");
    svg.append(path);
    return svg;
}

/** A total with its name: a number, and beside it what it is a part of. */
function total(name, className) {
    const label = el("span", { text: name });
    const value = el("span", { text: "0" });
    const part = el("small", {});
    return { label, value, part, element: el("div", {},
        el("dt", {}, className ? shape(className.slice(3), className) : null, label),
        el("dd", { class: `numbers ${className}` }, value, " ", part)) };
}

/** A text whose parts in backticks are code. */
function withCode(text) {
    return text.split("`").map((part, i) => (i % 2 === 1 ? el("code", { text: part }) : part));
}

/** What an algorithm is good for, closed until the reader asks. */
function about(algorithm) {
    const facts = explanations[algorithm];
    if (!facts)
        return null;
    const list = (title, items) => el("div", {}, el("h4", { text: title }),
        el("ul", {}, ...items.map((text) => el("li", {}, ...withCode(text)))));
    return el("div", { class: "about-text" },
        el("h3", { text: facts.title }),
        el("p", {}, ...withCode(facts.what)),
        el("div", { class: "about-lists" }, list("Pros", facts.pros), list("Cons", facts.cons)),
        el("p", {}, ...withCode(facts.use)));
}

/** The layer that the time line shows: the one with the longest window that fits, or else the shortest. */
function layerOf(facts, views, spanNs) {
    const lengths = facts.map((fact, i) => limitLineOf(fact, views[i])?.windowNs ?? Infinity);
    let best = 0;
    for (let i = 1; i < lengths.length; i++) {
        const fits = lengths[i] <= spanNs / 2;
        const bestFits = lengths[best] <= spanNs / 2;
        if (fits === bestFits ? (fits ? lengths[i] > lengths[best] : lengths[i] < lengths[best]) : fits)
            best = i;
    }
    return best;
}

/** The pictures, totals and card of a lane: what the playground and the guide share. */
export class LaneView {
    /**
     * @param {import("./player.mjs").Player} player
     * @param {number} laneIndex
     * @param {{compact?: boolean}} [options]
     */
    constructor(player, laneIndex, { compact = false } = {}) {
        this.player = player;
        this.laneIndex = laneIndex;
        this.compact = compact; // nothing is shown twice: no curve, and no title above the state
        this.letter = letterOf(laneIndex);
        this.lane = player.world.lanes[laneIndex];
        this.version = 0;
        /** The requests that another lane decides differently, and its letter, or "". */
        this.marks = [];
        this.beside = "";
        this.timeline = new Timeline();
        const redraw = () => player.redraw();
        this.state = new Picture("state", () => this.#fitState());
        this.time = new Picture("time", redraw);
        this.state.setLabel(`Lane ${this.letter}, state`); // until label() describes them
        this.time.setLabel(`Lane ${this.letter}, time line`);
        this.time.canvas.tabIndex = 0;
        this.card = el("div", { class: "card", hidden: true });
        this.chosen = el("div", { class: "card is-chosen", hidden: true });
        this.allowed = total("allowed", "is-allowed");
        this.denied = total("denied", "is-denied");
        this.delayed = total("delayed", "is-delayed");
        this.differs = total("", "is-mark");
        this.rate = total("", "");
        this.totals = el("dl", { class: "totals" }, this.allowed.element, this.denied.element,
            this.delayed.element, this.differs.element, this.rate.element);
        this.pictures = el("div", { class: compact ? "pictures is-compact" : "pictures" },
            this.state.canvas, el("div", { class: "time-box" }, this.time.canvas, this.card));
        this.#listen(this.time.canvas);
        this.stopTheme = onTheme(() => this.draw());
        player.views.add(this);
        player.redraw();
    }

    /** Earlier decisions changed: the time line is drawn anew. */
    invalidate() {
        this.version++;
    }

    draw() {
        const { world } = this.player;
        const theme = isDark() ? themes.dark : themes.light;
        if (this.lane !== world.lanes[this.laneIndex]) {
            // The world makes new lanes when the policy or the traffic changes.
            this.lane = world.lanes[this.laneIndex];
            this.invalidate();
            this.#fitState();
        }
        // Those that move are drawn only where they are seen.
        const still = !world.playing || isPrinted();
        if (this.lane.error) {
            this.#drawNothing(theme, still);
            return;
        }
        if (!this.state.seen && !this.time.seen && !still)
            return;
        this.views = this.look();
        if (this.state.begin(still))
            this.#drawState(theme, world);
        if (this.time.begin(still))
            this.timeline.draw(this.time.surface, this.time.box, this.timeData(theme, this.views));
    }

    /** What Timeline.draw() needs. @param {any[]} views of look() */
    timeData(theme, views) {
        const { world, hovered, selected } = this.player;
        const { traffic, scene, now } = world;
        const { layers } = this.lane;
        const spanNs = scene.span * 1e9;
        const layer = layerOf(layers, views, spanNs);
        const [fact, view] = [layers[layer], views[layer]];
        return {
            times: traffic.times,
            keys: traffic.keys,
            costs: traffic.costs,
            columns: this.lane.columns,
            to: Math.min(world.index, this.lane.decided),
            nowNs: now,
            spanNs,
            theme,
            watchKey: traffic.names.length > 1 ? traffic.names.indexOf(world.watch) : -1,
            marks: this.marks,
            limitLine: fact && view && !this.compact ? limitLineOf(fact, view) : null,
            bands: fact && view ? bandsOf(fact, view) : null,
            hoverIndex: hovered >= 0 ? hovered : selected,
            version: this.version + (this.lane.version ?? 0),
            beginMs: world.beginMs,
        };
    }

    /** The state of the watched key now. */
    look() {
        const { world } = this.player;
        return this.lane.look(world.watch, world.now, world.index);
    }

    /** The decision of the watched key's last request, or null if that was some time ago. */
    lastDecision() {
        const { world } = this.player;
        const key = world.traffic.names.indexOf(world.watch);
        if (key < 0)
            return null;
        const events = world.traffic.eventsOf(key);
        const at = after(events, events.length, Math.min(world.index, this.lane.decided) - 1);
        const event = at > 0 ? this.lane.event(events[at - 1]) : null;
        const recentNs = world.scene.span * 1e9 * RECENT;
        return event && world.now - event.time <= recentNs ? event : null;
    }

    /** Brings totals and the card up to date. */
    write() {
        const { world } = this.player;
        const to = Math.min(world.index, this.lane.decided);
        const sum = this.lane.totals(to);
        const plain = sum.allowed - sum.delayed;
        for (const [{ value, part }, n] of [[this.allowed, plain], [this.denied, sum.denied],
            [this.delayed, sum.delayed]]) {
            setText(value, count(n));
            setText(part, percent(n, sum.requests));
        }
        this.delayed.element.hidden = !this.lane.layers.some((layer) => layer.algorithm === "leaky-queue");
        this.differs.element.hidden = this.beside === "";
        setText(this.differs.label, `differs from ${this.beside}`);
        setText(this.differs.value, count(this.marks.length));
        this.#writeRate();
        this.#writeCards();
    }

    /** Describes the pictures for a screen reader. */
    label() {
        const { world } = this.player;
        if (this.lane.error) {
            this.state.setLabel("No picture: the policy is invalid");
            this.time.setLabel("No time line: the policy is invalid");
            return;
        }
        const parts = this.look().map((view) => `${view.algorithm}: ${count(view.remaining)} of `
            + `${count(view.limit)} left, full in ${duration(view.resetAfterNs)}`);
        this.state.setLabel(`Lane ${this.letter}, state of key ${world.watch}. ${parts.join("; ")}`);
        const to = Math.min(world.index, this.lane.decided);
        const from = after(world.traffic.times, to, world.now - world.scene.span * 1e9);
        const [a, b] = [this.lane.totals(from), this.lane.totals(to)];
        this.time.setLabel(`Lane ${this.letter}, time line of the last ${short(world.scene.span)} s: `
            + `${count(b.allowed - a.allowed)} requests allowed, ${count(b.denied - a.denied)} denied. `
            + "Arrow keys move from request to request.");
    }

    destroy() {
        this.player.views.delete(this);
        this.state.destroy();
        this.time.destroy();
        this.stopTheme();
    }

    /** Makes the picture of the state as high as its layers need. */
    #fitState() {
        const least = this.compact && this.lane.layers.length < 2 ? TITLE_HEIGHT : 0;
        const height = !this.compact && isNarrow() && this.player.world.lanes.length > 1
            ? NARROW_HEIGHT * Math.max(1, this.lane.layers.length)
            : stateHeight(this.state.box.w || 320, Math.max(1, this.lane.layers.length)) - least;
        this.state.canvas.style.height = `${height}px`;
        this.player.redraw();
    }

    #drawState(theme, world) {
        drawState(this.state.surface, this.state.box, this.views, this.lane.layers, {
            nowNs: world.now,
            decision: this.lastDecision(),
            theme,
            reduced: reducedMotion(),
            named: !this.compact || this.views.length > 1,
        });
    }

    #drawNothing(theme, still) {
        const { box, surface } = this.state;
        const style = { size: 13, align: "center", color: theme.muted };
        if (this.state.begin(still))
            surface.text(box.w / 2, box.h / 2, "The policy is invalid: nothing is decided", style);
        this.time.begin(still);
    }

    /** What the watched key was allowed in the last window of the layer that the time line shows. */
    #writeRate() {
        const { world } = this.player;
        const { layers } = this.lane;
        const views = this.views ?? [];
        const layer = layerOf(layers, views, world.scene.span * 1e9);
        const line = views[layer] ? limitLineOf(layers[layer], views[layer]) : null;
        const used = line ? this.lane.rate(world.now, line.windowNs, world.watch) : 0;
        const whose = world.traffic.names.length > 1 ? `${world.watch}, ` : "";
        setText(this.rate.label, line ? `${whose}last ${duration(line.windowNs)}` : world.watch);
        setText(this.rate.value, count(used));
        setText(this.rate.part, line ? `${line.hard ? "limit" : "rate"} ${count(line.perWindow)}` : "");
    }

    /** Shows the request under the pointer in a floating card, and the chosen one in the lane. */
    #writeCards() {
        const { player } = this;
        const end = this.lane.error ? 0 : Math.min(player.world.index, this.lane.decided);
        const hovered = player.hoverView === this ? player.hovered : -1;
        if (this.#writeCard(this.card, hovered < end ? hovered : -1, null))
            this.#placeCard();
        this.#writeCard(this.chosen, player.selected < end ? player.selected : -1, () => player.select(-1));
    }

    /** Fills a card if its request changed. Returns whether it was hidden before. */
    #writeCard(card, index, onClose) {
        const appears = card.hidden && index >= 0;
        const key = index < 0 ? "" : `${index} ${this.version}`;
        if (key !== "" && card.dataset.shown !== key)
            fillCard(card, this.lane, index, onClose);
        card.dataset.shown = key;
        card.hidden = index < 0;
        return appears;
    }

    /** Puts the card below the time line, or above it if there is more room. */
    #placeCard() {
        const { top, bottom } = this.time.canvas.getBoundingClientRect();
        const below = innerHeight - (this.player.coveredBelow) - bottom;
        this.card.classList.toggle("is-above", below < CARD_HEIGHT && top > below);
    }

    #listen(canvas) {
        const { player } = this;
        const find = (event) => this.timeline.at(event.offsetX, event.offsetY);
        canvas.addEventListener("pointermove", (event) => {
            player.hoverView = this;
            player.hover(find(event));
        });
        canvas.addEventListener("pointerleave", () => player.hover(-1));
        canvas.addEventListener("click", (event) => {
            const index = find(event);
            player.select(index === player.selected ? -1 : index);
        });
        canvas.addEventListener("keydown", (event) => this.#onKey(event));
    }

    #onKey(event) {
        const { player } = this;
        const last = Math.min(player.world.index, this.lane.decided) - 1;
        const at = player.selected < 0 ? last + 1 : player.selected;
        const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
        if (event.key === "Escape")
            player.select(-1);
        else if (next === undefined || last < 0)
            return;
        else
            this.#choose(Math.min(last, Math.max(0, next)));
        event.preventDefault();
    }

    /** Selects a request by the keyboard: pauses, and moves the clock so that the request can be seen. */
    #choose(index) {
        const { player } = this;
        const { world } = player;
        const at = world.traffic.times[index];
        player.pause();
        if (at < world.now - world.scene.span * 1e9 * 0.98)
            player.seek(at + world.scene.span * 1e9 * 0.25);
        player.select(index);
        player.say?.(`Request ${count(index + 1)} at ${clock(at)}: ${sentence(this.lane.event(index))}`);
    }
}

/**
 * Shows a lane of a player's world in `element`, with its editor.
 * @param {HTMLElement} element
 * @param {{weir: any, zones: any, player: import("./player.mjs").Player, laneIndex: number,
 *          controls?: "full" | "small", onText?: (text: string) => void, onRemove?: () => void}} options
 * @returns {{view: LaneView, setText: (text: string) => void, redraw: () => void, destroy: () => void}}
 */
export function mountLane(element, { weir, zones, player, laneIndex, controls = "full", onText, onRemove }) {
    const open = player.world.lanes.length <= 2 && matchMedia("(min-width: 721px)").matches;
    const letter = letterOf(laneIndex);
    const lane = () => player.world.lanes[laneIndex];
    const view = new LaneView(player, laneIndex, { compact: controls === "small" });
    const explanation = el("details", { class: "about" },
        el("summary", { text: "How it works, pros and cons" }));
    const explainLane = () => {
        const names = [...new Set(lane().layers.map((layer) => layer.algorithm))];
        explanation.replaceChildren(explanation.firstElementChild,
            ...names.map(about).filter((text) => text !== null));
        explanation.hidden = names.length === 0;
        explanation.open = open;
    };
    const editor = new PolicyEditor({
        weir,
        zones,
        text: lane().text,
        letter,
        onText: (text) => {
            if (text === lane().text)
                return;
            player.change(() => player.world.setLane(laneIndex, text));
            explainLane();
            onText?.(text);
        },
    });
    const remove = el("button", {
        class: "button plain icon",
        type: "button",
        text: "×",
        title: `Remove lane ${letter}`,
        "aria-label": `Remove lane ${letter}`,
        hidden: !onRemove,
        on: { click: () => onRemove?.() },
    });
    explainLane();
    element.replaceChildren(el("article", { class: "lane panel", "aria-label": `Lane ${letter}` },
        el("header", { class: "lane-head" },
            el("span", { class: "lane-letter", text: letter, "aria-hidden": "true" }),
            editor.input, editor.toggle, remove),
        editor.error, editor.form.element, view.pictures, view.totals, view.chosen, explanation));
    return {
        view,
        setText: (text) => editor.set(text),
        redraw: () => player.redraw(),
        destroy: () => {
            editor.destroy();
            view.destroy();
            element.replaceChildren();
        },
    };
}
