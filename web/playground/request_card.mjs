// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The card of one request in a lane: its decision with all fields, and the response headers.

import { el } from "./dom.mjs";
import { clock, count, duration } from "./format.mjs";

function row(name, value) {
    return [el("dt", { text: name }), el("dd", { text: value })];
}

/** The verdict in a word, and the class that colours it. */
export function verdict(event) {
    if (!event.allowed)
        return { word: "denied", className: "is-denied" };
    if (event.delayNs > 0)
        return { word: "delayed", className: "is-delayed" };
    return { word: "allowed", className: "is-allowed" };
}

/** One sentence on a request, for a live region. */
export function sentence(event) {
    const { word } = verdict(event);
    if (word === "denied")
        return event.retryNs === Infinity
            ? "denied for good, because its cost is above the limit"
            : `denied, retry after ${duration(event.retryNs)}`;
    const rest = `${count(event.remaining)} of ${count(event.limit)} left`;
    return word === "delayed" ? `delayed by ${duration(event.delayNs)}, ${rest}` : `allowed, ${rest}`;
}

function rows(event, layers) {
    const list = [
        ...row("limit", count(event.limit)),
        ...row("remaining", count(event.remaining)),
        ...row("retry_after", event.allowed ? "0 s" : duration(event.retryNs)),
        ...row("reset_after", duration(event.resetNs)),
    ];
    if (layers.some((layer) => layer.algorithm === "leaky-queue"))
        list.push(...row("delay", duration(event.delayNs)));
    if (layers.length > 1)
        list.push(...row("layer", `${event.layer + 1}: ${layers[event.layer]?.algorithm ?? ""}`));
    return list;
}

/**
 * Fills the card.
 * @param {HTMLElement} card
 * @param {any} lane of web/model/lane.mjs
 * @param {number} index
 * @param {(() => void) | null} onClose adds a button that closes the card
 */
export function fillCard(card, lane, index, onClose = null) {
    const event = lane.event(index);
    const { word, className } = verdict(event);
    const [[version, status], ...fields] = lane.headers(index);
    const headers = fields.map(([name, value]) => `${name}: ${value}`);
    const place = `request ${count(index + 1)} at ${clock(event.time)}`;
    card.replaceChildren(
        el("div", { class: "card-head" },
            el("strong", { class: className, text: word }),
            el("span", { class: "muted numbers", text: place }),
            onClose && el("button", { class: "button plain icon", type: "button", text: "×",
                "aria-label": "Close", on: { click: onClose } })),
        el("p", { class: "card-key" },
            el("span", { class: "mono", text: event.key }), ` · cost ${count(event.cost)}`),
        el("dl", { class: "card-fields numbers" }, ...rows(event, lane.layers)),
        el("pre", { class: "card-headers", text: [`${version} ${status}`, ...headers].join("\n") }),
    );
}
