// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Shows the chat twice, side by side: with all messages, and with those that the limiter allows. It plays for
// the seconds that the text describes, and then rests.

import { el, reducedMotion, setText } from "../playground/dom.mjs";
import { duration } from "../playground/format.mjs";
import { Player } from "../playground/player.mjs";
import { mountControls } from "../playground/small_view.mjs";
import { World } from "../model/world.mjs";
import { READER, SPAMMER, countSpam, messagesOf } from "./chat.mjs";

const ROWS = 12; // messages in a window; older ones have left it

/** A window of the chat. */
class Window {
    constructor(title, policy) {
        this.list = el("ol", { class: "chat-list" });
        this.sum = el("span", { class: "numbers" });
        this.share = el("span", { class: "chat-spam" });
        this.element = el("section", { class: "chat-window", "aria-label": title },
            el("div", { class: "small-head" }, el("strong", { text: title }),
                policy ? el("code", { text: policy }) : null),
            this.list,
            el("div", { class: "chat-share", "aria-hidden": "true" }, this.share),
            el("p", { class: "chat-sum" }, this.sum));
        this.rows = new Map(); // the elements of the messages that are shown
    }

    /** @param {import("./chat.mjs").Message[]} messages all that appear in this window */
    show(messages) {
        const recent = messages.slice(-ROWS);
        const rows = new Map(recent.map((message) => {
            const key = Object.values(message).join(" ");
            return [key, this.rows.get(key) ?? line(message)];
        }));
        this.rows.forEach((row, key) => rows.has(key) || row.remove());
        this.rows = rows;
        const all = [...rows.values()];
        const added = all.filter((row) => row.parentNode === null);
        if (all.slice(all.length - added.length).every((row) => row.parentNode === null))
            this.list.append(...added);
        else
            this.list.replaceChildren(...all); // after the clock was moved back
        const sum = countSpam(messages.filter(({ allowed }) => allowed));
        setText(this.sum, sum.text);
        this.share.style.width = `${(100 * sum.spam) / Math.max(1, sum.all)}%`;
    }
}

function line({ name, text, allowed, retryNs }) {
    const className = !allowed ? "is-held" : name === SPAMMER ? "is-spam" : name === READER ? "is-own" : "";
    return el("li", { class: className }, el("b", { text: name }), " ",
        el("span", { text: allowed ? text : `denied: wait ${duration(retryNs)}` }));
}

/**
 * Shows the chat in `element`.
 * @param {HTMLElement} element
 * @param {{weir: any, scene: any, end: number, page?: string}} options end: the second at which it rests
 * @returns {{player: Player, destroy: () => void}}
 */
export function mountChat(element, { weir, scene, end, page = "playground.html" }) {
    const world = new World(weir, structuredClone(scene));
    const player = new Player(world);
    const windows = [new Window("Without a limiter", ""), new Window("With a limiter", world.lanes[0].text)];
    const endNs = end * 1e9;
    const rests = () => world.now >= endNs && world.scene.hits.length === 0;
    const send = () => {
        const { allowed, retryNs } = world.lanes[0].event(player.hit(READER, 1));
        if (!reducedMotion())
            player.play();
        return allowed ? "Your message appears in both chats."
            : `With the limiter, your message is denied: wait ${duration(retryNs)}.`;
    };
    const controls = mountControls(player, { scene, page, hit: send, hitText: "Send a message", speeds: false,
        play: () => {
            if (!world.playing && rests())
                player.seek(0);
            player.toggle();
        } });
    player.views.add({
        draw() {
            if (world.playing && rests()) {
                player.pause();
                player.seek(endNs);
            }
        },
        write() {
            const messages = messagesOf(world);
            windows[0].show(messages.map((one) => ({ ...one, allowed: true, retryNs: 0 })));
            windows[1].show(messages.filter(({ name, allowed }) => allowed || name === READER));
        },
    });
    element.replaceChildren(el("div", { class: "small panel" },
        el("div", { class: "chat" }, ...windows.map((one) => one.element)), controls));
    player.redraw();
    return {
        player,
        destroy: () => {
            player.pause();
            element.replaceChildren();
        },
    };
}
