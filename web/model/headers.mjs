// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The header fields with which the daemon answers a request for a policy text by default (docs/headers.md): those
// of draft-ietf-httpapi-ratelimit-headers-11, and the older X-RateLimit-*.

/** @typedef {import("../wasm/weir.mjs").LayerFacts} LayerFacts */

const BUCKETS = ["gcra", "token-bucket", "leaky-bucket", "leaky-queue"];
const CALENDAR_SECONDS = { day: 86400n, week: 604800n, month: 0n, year: 0n };
const SECOND = 1000000000n;

/** Returns whether the layer's algorithm is a bucket or a queue, not a window. */
const isBucket = (layer) => BUCKETS.includes(layer.algorithm);

/** Rounds up to whole seconds, exactly. */
function secondsCeil(ns) {
    const rest = ns % 1e9;
    return (ns - rest) / 1e9 + (rest > 0 ? 1 : 0);
}

const divideCeil = (a, b) => (a + b - 1n) / b;

/** Returns the seconds of the window or, for a bucket, from empty to full; 0n for months and years. */
function windowSeconds(layer) {
    const calendar = CALENDAR_SECONDS[layer.calendar];
    if (calendar !== undefined)
        return calendar;
    const limit = BigInt(layer.limit), rate = BigInt(layer.rate), period = BigInt(layer.periodNs);
    if (layer.algorithm === "concurrent")
        return 0n;
    if (!isBucket(layer))
        return divideCeil(period, SECOND);
    const ns = layer.stepped ? divideCeil(limit, rate) * period : divideCeil(limit * period, rate);
    return divideCeil(ns, SECOND);
}

const itemName = (layers, i) => (layers.length > 1 ? `"limit-${i + 1}"` : '"limit"');

function policyField(layers) {
    const items = layers.map((layer, i) => {
        const seconds = windowSeconds(layer);
        const unit = layer.algorithm === "concurrent" ? ';qu="concurrent-requests"' : "";
        return `${itemName(layers, i)};q=${layer.limit}${seconds > 0n ? `;w=${seconds}` : ""}${unit}`;
    });
    return items.join(", ");
}

/**
 * Returns the status line and the header fields of a decision, without Date, Content-Type and Content-Length.
 * @param {readonly LayerFacts[]} layers
 * @param {{allowed: boolean, limit: number, remaining: number, retryNs: number, resetNs: number,
 *          layer: number}} decision
 * @returns {[string, string][]} names and values; the first is ["HTTP/1.1", "200 OK"] or
 *     ["HTTP/1.1", "429 Too Many Requests"]
 */
export function responseHeaders(layers, { allowed, limit, remaining, retryNs, resetNs, layer }) {
    const reset = String(secondsCeil(resetNs));
    const resets = allowed || retryNs !== Infinity; // else waiting does not help
    const fields = /** @type {[string, string][]} */ ([
        ["HTTP/1.1", allowed ? "200 OK" : "429 Too Many Requests"],
        ["RateLimit-Policy", policyField(layers)],
        ["RateLimit", `${itemName(layers, layer)};r=${remaining}${resets ? `;t=${reset}` : ""}`],
        ["X-RateLimit-Limit", String(limit)],
        ["X-RateLimit-Remaining", String(remaining)],
    ]);
    if (resets)
        fields.push(["X-RateLimit-Reset", reset]);
    if (!allowed && resets)
        fields.push(["Retry-After", String(secondsCeil(retryNs))]);
    fields.push(["Cache-Control", "no-store"]);
    return fields;
}
