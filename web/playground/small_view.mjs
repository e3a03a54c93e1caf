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
 * @param {{weir: any, zones: any, scene: any, titles?: string[], hit?: boolean, page?: string}} options
 *     titles: one for each lane; hit: whether there is a Hit button, true if not given;
 *     page: the address of the playground
 * @returns {{player: Player, world: any, views: LaneView[], redraw: () => void, destroy: () => void}}
 */
export function mountSmall(element, { weir, zones, scene, titles, hit = true, page = "playground.html" }) {
    const copy = () => structuredClone(scene);
    const world = new World(weir, copy(), { zones });
    const player = new Player(world);
    const blocks = world.lanes.map((lane, i) => laneBlock(player, lane, i, titles));
    const said = el("p", { class: "visually-hidden", "aria-live": "polite" });
    player.say = (text) => setText(said, text);
    const cost = scene.traffic.cost || 1;
    const button = (text, className, click) => el("button", { class: `button ${className}`, type: "button",
        text, on: { click } });
    const hitButton = button("Hit", "primary", () => {
        const index = player.hit(world.watch, cost);
        if (index >= 0)
            player.say(world.lanes.map((lane) => sentence(lane.event(index))).join("; "));
    });
    hitButton.hidden = !hit;
    const play = button("Play", hit ? "" : "primary", () => player.toggle());
    const reset = button("Reset", "plain", () => {
        world.playing = false;
        world.reset();
        player.restarted();
    });
    const time = el("span", { class: "numbers muted", text: clock(0) });
    const controls = {
        draw() {},
        write() {
            setText(play, world.playing ? "Pause" : "Play");
            setText(time, clock(world.now));
        },
    };
    player.views.add(controls);
    element.replaceChildren(el("div", { class: "small panel" },
        el("div", { class: "small-lanes" }, ...blocks.map((block) => block.element)),
        el("div", { class: "small-controls" }, hitButton, play, speedSelect(player), time, reset,
            el("a", { class: "small-open", href: page + sceneToHash(scene),
                text: "Open in the playground" })),
        said));
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
