// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// A small playground for the running text of the guide: a lane or two with Hit, play, speed and reset, and
// a link that opens the same scene in the playground.

import { sceneToHash } from "../model/scene.mjs";
import { World } from "../model/world.mjs";
import { el, setText } from "./dom.mjs";
import { clock, short } from "./format.mjs";
import { LaneView } from "./lane_view.mjs";
import { Player } from "./player.mjs";
import { sentence } from "./request_card.mjs";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1000];

/** A select of speeds that has the scene's own among them. */
function speedSelect(player) {
    const own = player.world.speed;
    const speeds = [...new Set([...SPEEDS, own])].sort((a, b) => a - b);
    const select = el("select", {
        "aria-label": "Speed",
        on: { change: () => player.setSpeed(Number(select.value)) },
    }, ...speeds.map((speed) => el("option", { value: speed, text: `${short(speed)}×` })));
    select.value = String(own);
    return select;
}

/**
 * The controls below a picture. A request of the reader's own holds the traffic, so that its effect is seen;
 * a button lets the traffic go on.
 * @param {any} player a Player, or what has its functions
 * @param {object} options
 * @param {any} options.scene what the link opens
 * @param {string} options.page the address of the playground
 * @param {() => string} options.hit sends a request, and returns a sentence for a screen reader
 * @param {string} [options.hitText]
 * @param {boolean} [options.speeds] whether the speed can be chosen
 * @param {() => void} [options.play]
 * @returns {HTMLElement}
 */
export function mountControls(player, { scene, page, hit, hitText = "Hit", speeds = true,
    play = () => player.toggle() }) {
    const said = el("p", { class: "visually-hidden", "aria-live": "polite" });
    player.say = (text) => setText(said, text);
    const button = (text, className, click) => el("button", { class: `button ${className}`, type: "button",
        text, on: { click } });
    const hitButton = button(hitText, "primary", () => {
        player.hold(true);
        player.say(hit());
    });
    const resume = button("Resume traffic", "", () => {
        player.hold(false);
        player.play();
        hitButton.focus();
    });
    const playButton = button("Play", "", play);
    const reset = button("Reset", "plain", () => player.reset());
    const time = el("span", { class: "numbers muted", text: clock(0) });
    const note = el("p", { class: "small-note", hidden: true,
        text: "The automatic requests have stopped: only yours go on." });
    player.views.add({
        draw() {},
        write() {
            setText(playButton, player.world.playing ? "Pause" : "Play");
            setText(time, clock(player.world.now));
            resume.hidden = note.hidden = !player.world.held;
        },
    });
    return el("div", {}, note, el("div", { class: "small-controls" }, hitButton, resume, playButton,
        speeds ? speedSelect(player) : null, time, reset,
        el("a", { class: "small-open", href: page + sceneToHash(scene), text: "Open in the playground" })),
    said);
}

/** A caption, the policy, the pictures and the totals of one lane. */
function laneBlock(player, lane, index, titles) {
    const view = new LaneView(player, index, { compact: true });
    const title = titles?.[index];
    const element = el("div", { class: "small-lane" },
        el("div", { class: "small-head" }, title ? el("strong", { text: title }) : null,
            el("code", { text: lane.text })),
        view.pictures, view.totals, view.chosen);
    return { view, element };
}

/**
 * Shows a scene in `element`.
 * @param {HTMLElement} element
 * @param {{weir: any, zones: any, scene: any, titles?: string[], page?: string}} options
 *     titles: one for each lane; page: the address of the playground
 * @returns {{player: Player, world: any, views: LaneView[], redraw: () => void, destroy: () => void}}
 */
export function mountSmall(element, { weir, zones, scene, titles, page = "playground.html" }) {
    const world = new World(weir, structuredClone(scene), { zones });
    const player = new Player(world);
    const blocks = world.lanes.map((lane, i) => laneBlock(player, lane, i, titles));
    const cost = scene.traffic.cost || 1;
    const hit = () => {
        const index = player.hit(world.watch, cost);
        return index < 0 ? "" : world.lanes.map((lane) => sentence(lane.event(index))).join("; ");
    };
    element.replaceChildren(el("div", { class: "small panel" },
        el("div", { class: "small-lanes" }, ...blocks.map((block) => block.element)),
        mountControls(player, { scene, page, hit })));
    player.redraw();
    return {
        player,
        world,
        views: blocks.map((block) => block.view),
        redraw: () => player.redraw(),
        destroy: () => {
            player.pause();
            blocks.forEach((block) => block.view.destroy());
            element.replaceChildren();
        },
    };
}
