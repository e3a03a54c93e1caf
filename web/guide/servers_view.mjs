// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The picture of two servers that each count for themselves, beside the same requests with a shared
// count. A scene gives the same requests to all of its lanes, so each lane here has a world of its own,
// and one set of controls moves all of them.

import { el, setText } from "../playground/dom.mjs";
import { LaneView } from "../playground/lane_view.mjs";
import { Player } from "../playground/player.mjs";
import { mountControls } from "../playground/small_view.mjs";
import { World } from "../model/world.mjs";
import { countServers } from "./scenes.mjs";

function laneBlock(weir, { titles, scene }) {
    const world = new World(weir, structuredClone(scene));
    const player = new Player(world);
    const [lane] = world.lanes;
    const view = new LaneView(player, 0, { compact: true });
    [view.letter] = titles; // in the descriptions for screen readers
    const head = el("div", { class: "small-head" },
        el("strong", { text: titles[0] }), el("code", { text: lane.text }));
    return { player, view, element: el("div", { class: "small-lane" }, head, view.pictures, view.totals) };
}

/** Several players as one: what guide.mjs and the controls need of a Player. Its views are the first one's. */
class Together {
    /** @param {Player[]} players */
    constructor(players) {
        this.players = players;
        this.turn = 0;
    }

    get world() {
        return this.players[0].world;
    }

    get views() {
        return this.players[0].views;
    }

    play() {
        if (this.players.some((player) => player.isOver()))
            this.seek(0);
        this.players.forEach((player) => player.play());
    }

    pause() {
        this.players.forEach((player) => player.pause());
        this.seek(this.world.now); // all clocks stop at the same time
    }

    toggle() {
        if (this.world.playing)
            this.pause();
        else
            this.play();
    }

    seek(offsetNs) {
        this.players.forEach((player) => player.seek(offsetNs));
    }

    reset() {
        this.players.forEach((player) => player.reset());
        this.turn = 0;
    }

    hold(hold) {
        this.seek(this.world.now); // as for pause()
        this.players.forEach((player) => player.hold(hold));
    }

    setSpeed(speed) {
        this.players.forEach((player) => player.setSpeed(speed));
    }

    /** Sends a request to the servers in turn, and to the shared count. Returns a sentence. */
    hit() {
        const [one, two, shared] = this.players;
        this.seek(this.world.now);
        const number = 1 + (this.turn++ % 2);
        const says = (player) => {
            const index = player.hit(player.world.watch, 1);
            return index >= 0 && player.world.lanes[0].event(index).allowed ? "allowed" : "denied";
        };
        const own = says(number === 1 ? one : two);
        return `Server ${number}: ${own}. With a shared count: ${says(shared)}.`;
    }
}

/** The sentence with the sum of both servers, as a view of a player. */
function sumView(together, { limit, windowSeconds }, element) {
    return {
        draw() {},
        write() {
            const { own, shared } = countServers(together.players.map((player) => player.world));
            setText(element, `Allowed in the last ${windowSeconds} seconds: ${own} by the two servers `
                + `together, ${shared} with a shared count. The limit is ${limit}.`);
        },
    };
}

/**
 * Shows the picture in `element`.
 * @param {HTMLElement} element
 * @param {{weir: any, servers: any, scene: any, page?: string}} options `servers` of scenes.mjs, and the
 *     scene that the link opens
 * @returns {{player: Together, destroy: () => void}}
 */
export function mountServers(element, { weir, servers, scene, page = "playground.html" }) {
    const blocks = servers.lanes.map((lane) => laneBlock(weir, lane));
    const together = new Together(blocks.map((block) => block.player));
    const sum = el("p", { class: "servers-sum numbers" });
    together.players[2].views.add(sumView(together, servers, sum));
    element.replaceChildren(el("div", { class: "small panel servers" },
        el("div", { class: "small-lanes" }, ...blocks.map((block) => block.element)), sum,
        mountControls(together, { scene, page, hit: () => together.hit() })));
    return {
        player: together,
        destroy: () => {
            together.pause();
            blocks.forEach((block) => block.view.destroy());
            element.replaceChildren();
        },
    };
}
