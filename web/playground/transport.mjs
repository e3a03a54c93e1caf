// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The bar at the bottom of the playground: Hit, play, step, the time to scrub, and the speed.

import { el, field, setText } from "./dom.mjs";
import { CLOCK_SPAN_S } from "../draw/timeline.mjs";
import { clock, date, short } from "./format.mjs";
import { sentence } from "./request_card.mjs";

const SCRUB_STEPS = 2000;
const SPEED_LOG_MIN = -1; // 0.1x
const SPEED_LOG_MAX = 4; // 10000x
const [SPEED_MIN, SPEED_MAX] = [0.1, 10000];
const USES_SPACE = "input:not([type=range]), select, textarea, button, summary";
const NAMES_MAX = 200; // suggestions of keys

const PATHS = {
    play: "M4 2.5v11l9-5.5z",
    pause: "M4 2.5h3v11H4zM9 2.5h3v11H9z",
    step: "M3 2.5v11l7-5.5zM11 2.5h2v11h-2z",
    restart: "M3 2.5h2v11H3zM13 2.5v11L6 8z",
};

function icon(name) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", PATHS[name]);
    path.setAttribute("fill", "currentColor");
    svg.append(path);
    return svg;
}

function iconButton(name, label, click) {
    const button = el("button", { class: "button icon", type: "button", "aria-label": label, title: label,
        on: { click } }, icon(name));
    return button;
}

/** Gives the focus back after a click with the pointer, so that the space bar goes on to hit. */
function releaseFocus(event) {
    // Not event.target, which is the icon: a click on Play has already replaced it.
    const focused = document.activeElement;
    if (event.detail > 0 && focused instanceof HTMLButtonElement)
        focused.blur();
}

/** Two digits for the slider's speeds: 0.1, 0.25, 3.7, 120. */
const round2 = (n) => Number(n.toPrecision(2));

export class Transport {
    /**
     * @param {import("./player.mjs").Player} player
     * @param {{say: (text: string) => void, onWatch: () => void}} options
     */
    constructor(player, { say, onWatch }) {
        this.player = player;
        this.say = say;
        this.onWatch = onWatch;
        this.scrubbing = false;
        this.names = 0;
        this.#makeHit();
        this.#makeClock();
        this.#makeSpeed();
        this.#makeMore();
        this.element = el("div", { class: "transport", role: "region", "aria-label": "Player",
            on: { click: releaseFocus } },
            el("div", { class: "transport-hit" }, this.hit, this.key, this.cost),
            el("div", { class: "transport-play" }, this.restart, this.play, this.step),
            el("div", { class: "transport-time" }, this.scrub,
                el("div", { class: "transport-clock" }, this.now, this.date)),
            el("div", { class: "transport-speed" }, field("Speed", this.speed), this.speedNumber, this.span),
            this.more);
        player.views.add(this);
        addEventListener("keydown", (event) => this.#onSpace(event));
    }

    draw() {}

    /** Brings the bar up to date with the world. */
    write() {
        const { world } = this.player;
        if (this.playing !== world.playing) {
            this.playing = world.playing;
            const label = world.playing ? "Pause" : "Play";
            this.play.replaceChildren(icon(world.playing ? "pause" : "play"));
            this.play.setAttribute("aria-label", label);
            this.play.title = label;
        }
        setText(this.now, this.player.deciding ? `${clock(world.now)} deciding …` : clock(world.now));
        // The axes show the time of day under the same condition.
        setText(this.date, world.scene.span >= CLOCK_SPAN_S
            ? date(Date.parse(world.scene.begin) + world.now / 1e6) : "");
        if (!this.scrubbing)
            this.scrub.value = String(Math.round((this.#goal() / this.horizon()) * SCRUB_STEPS));
        this.scrub.setAttribute("aria-valuetext", clock(world.now));
        this.#writeNames();
    }

    /** Shows the speed, the span and the key of a new scene. */
    show() {
        const { scene } = this.player.world;
        this.#writeSpeed(scene.speed);
        this.spanInput.value = String(scene.span);
        this.keyInput.value = this.player.world.watch;
        this.costInput.value = String(Math.max(1, scene.traffic.cost));
        this.names = -1;
        this.playing = undefined;
        this.write();
    }

    /** The offset of the clock, or where it is going to. */
    #goal() {
        return this.player.target ?? this.player.world.now;
    }

    /** The time at the right end of the scrub bar. */
    horizon() {
        const { world, furthest } = this.player;
        const { traffic, scene } = world;
        const span = scene.span * 1e9;
        if (traffic.ended && traffic.length > 0)
            return Math.max(traffic.times[traffic.length - 1] + span / 2, furthest, 1);
        // Doubles as the clock goes on, so that the thumb does not stick at the end.
        let end = 6 * span;
        while (end < furthest)
            end *= 2;
        return end;
    }

    send() {
        const { player } = this;
        const key = this.keyInput.value.trim() || "user";
        const cost = this.costInput.valueAsNumber;
        if (!Number.isInteger(cost) || cost < 0 || cost > 2147483647) {
            this.costInput.setAttribute("aria-invalid", "true");
            return;
        }
        this.costInput.removeAttribute("aria-invalid");
        const index = player.hit(key, cost);
        if (index < 0) {
            this.say("The request was not sent: the scene has the most requests or keys that it can have.");
            return;
        }
        const answers = player.world.lanes.map((lane, i) => (lane.error ? ""
            : `${String.fromCharCode(65 + i)}: ${sentence(lane.event(index))}`));
        this.say(answers.filter((answer) => answer !== "").join(". "));
    }

    #makeHit() {
        this.hit = el("button", { class: "button primary hit", type: "button", text: "Hit",
            title: "Send a request now (space bar)", on: { click: () => this.send() } });
        this.list = el("datalist", { id: "keys" });
        this.keyInput = el("input", { type: "text", list: "keys", maxlength: 256, autocomplete: "off",
            spellcheck: "false", title: "The key that Hit uses, and whose state is drawn",
            on: { change: () => this.#watch(), input: () => this.#watchKnown() } });
        this.costInput = el("input", { type: "number", min: 0, max: 2147483647, step: 1, value: 1 });
        this.key = field("Key", this.keyInput, "is-key");
        this.key.append(this.list);
        this.cost = field("Cost", this.costInput, "is-cost");
    }

    #makeClock() {
        const { player } = this;
        this.play = iconButton("play", "Play", () => player.toggle());
        this.step = iconButton("step", "Step to the next request", () => {
            player.step();
            this.#sayStep();
        });
        this.restart = iconButton("restart", "Back to the beginning", () => player.seek(0));
        this.scrub = el("input", { type: "range", min: 0, max: SCRUB_STEPS, step: 1, value: 0,
            "aria-label": "Time",
            on: {
                input: () => this.#scrubTo(Number(this.scrub.value)),
                change: () => {
                    this.scrubbing = false;
                },
            } });
        this.now = el("output", { class: "numbers", text: clock(0) });
        this.date = el("span", { class: "muted numbers" });
    }

    #makeSpeed() {
        const { player } = this;
        const set = (speed) => {
            player.setSpeed(speed);
            this.#writeSpeed(speed);
        };
        this.speed = el("input", { type: "range", min: SPEED_LOG_MIN, max: SPEED_LOG_MAX, step: 0.01,
            on: { input: () => set(round2(10 ** Number(this.speed.value))) } });
        this.speedInput = el("input", { type: "number", min: SPEED_MIN, max: SPEED_MAX, step: "any",
            "aria-label": "Speed, times",
            on: {
                change: () => {
                    const value = this.speedInput.valueAsNumber;
                    const speed = value > 0 ? value : player.world.scene.speed;
                    set(Math.min(SPEED_MAX, Math.max(SPEED_MIN, speed)));
                },
            } });
        this.speedNumber = el("div", { class: "speed-number" }, this.speedInput, el("span", { text: "×" }));
        this.spanInput = el("input", { type: "number", min: 0.1, max: 31536000, step: "any",
            on: {
                change: () => {
                    const value = this.spanInput.valueAsNumber;
                    if (value >= 0.1 && value <= 31536000)
                        player.setSpan(value);
                    this.spanInput.value = String(player.world.scene.span);
                },
            } });
        this.span = field("Visible, s", this.spanInput, "is-span");
    }

    /** On narrow screens, a button shows the controls beyond Hit, play and the time. */
    #makeMore() {
        this.more = el("button", { class: "button transport-more", type: "button", text: "More",
            "aria-expanded": "false",
            on: {
                click: () => {
                    const open = this.element.classList.toggle("is-more");
                    this.more.setAttribute("aria-expanded", String(open));
                },
            } });
    }

    #writeSpeed(speed) {
        this.speed.value = String(Math.log10(speed));
        this.speed.setAttribute("aria-valuetext", `${short(speed)} times`);
        this.speedInput.value = String(Number(speed.toPrecision(3)));
    }

    #scrubTo(value) {
        if (!this.scrubbing) {
            this.scrubbing = true;
            this.scrubEnd = this.horizon();
        }
        this.player.seekSoon((value / SCRUB_STEPS) * this.scrubEnd);
    }

    #watch() {
        const key = this.keyInput.value.trim();
        this.player.setWatch(key);
        this.onWatch();
    }

    #watchKnown() {
        if (this.player.world.traffic.names.includes(this.keyInput.value.trim()))
            this.#watch();
    }

    /** Suggests the keys of the traffic. */
    #writeNames() {
        const { names } = this.player.world.traffic;
        if (this.names === Math.min(names.length, NAMES_MAX))
            return;
        this.names = Math.min(names.length, NAMES_MAX);
        this.list.replaceChildren(...names.slice(0, NAMES_MAX).map((value) => el("option", { value })));
        if (document.activeElement !== this.keyInput)
            this.keyInput.value = this.player.world.watch;
    }

    #sayStep() {
        const { world, selected } = this.player;
        if (selected < 0)
            this.say("There is no further request.");
        else
            this.say(world.lanes.map((lane, i) => (lane.error ? ""
                : `${String.fromCharCode(65 + i)}: ${sentence(lane.event(selected))}`)).join(". "));
    }

    /** The space bar hits, unless the focus is on a control that uses it. */
    #onSpace(event) {
        if (event.key !== " " || event.ctrlKey || event.altKey || event.metaKey || event.repeat)
            return;
        const target = event.target;
        const usesSpace = target instanceof Element && target.closest(USES_SPACE);
        if (usesSpace)
            return;
        event.preventDefault();
        this.send();
        this.hit.classList.add("is-hit");
        setTimeout(() => this.hit.classList.remove("is-hit"), 120);
    }
}
