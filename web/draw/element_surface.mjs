// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// A surface that draws SVG elements into a page, for pages whose security policy forbids the parsing of
// markup. It has the methods of the surfaces of surface.mjs. Colours may be CSS variables, such as
// "var(--ink)", so that a picture follows the page's colour scheme and prints well.

import { fonts } from "./theme.mjs";

const SVG = "http://www.w3.org/2000/svg";
const ANCHORS = { left: null, center: "middle", right: "end" };

/** @typedef {import("./surface.mjs").Paint} Paint */
/** @typedef {import("./surface.mjs").TextStyle} TextStyle */

/** Creates an SVG element. An attribute that is null or undefined is left out. */
function create(tag, attributes) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes))
        if (value !== null && value !== undefined)
            node.setAttribute(name, String(value));
    return node;
}

// At most two decimals. Adding 0 turns -0 into 0.
const num = (value) => Math.round(value * 100) / 100 + 0;

function pairs(points) {
    const words = [];
    for (let i = 0; i + 1 < points.length; i += 2)
        words.push(`${num(points[i])},${num(points[i + 1])}`);
    return words.join(" ");
}

/** @param {Paint} paint */
function painted({ fill, stroke, width, dash, cap }) {
    return {
        fill: fill ?? "none",
        stroke,
        "stroke-width": stroke ? width : null,
        "stroke-dasharray": stroke && dash ? dash.join(" ") : null,
        "stroke-linecap": stroke ? cap : null,
        "stroke-linejoin": stroke ? "round" : null,
    };
}

export class ElementSurface {
    #at; // what the next shape is put into

    /**
     * @param {number} width
     * @param {number} height
     */
    constructor(width, height) {
        this.root = create("svg", {
            viewBox: `0 0 ${num(width)} ${num(height)}`, width: num(width), height: num(height),
            "aria-hidden": "true", "font-family": fonts.sans,
        });
        this.#at = this.root;
    }

    /** @param {Paint} paint */
    rect(x, y, w, h, paint) {
        this.#add("rect", { x: num(x), y: num(y), ...size(w, h), ...painted(paint) });
    }

    /** A rectangle with corners of radius `r`. @param {Paint} paint */
    roundRect(x, y, w, h, r, paint) {
        this.#add("rect", { x: num(x), y: num(y), ...size(w, h), rx: num(r), ...painted(paint) });
    }

    circle(x, y, r, paint) {
        this.#add("circle", { cx: num(x), cy: num(y), r: num(Math.max(0, r)), ...painted(paint) });
    }

    line(x1, y1, x2, y2, paint) {
        this.#add("path", { d: `M${num(x1)} ${num(y1)}L${num(x2)} ${num(y2)}`, ...painted(paint) });
    }

    /** @param {ArrayLike<number>} points x and y in turn */
    polyline(points, paint) {
        this.#add("polyline", { points: pairs(points), ...painted(paint) });
    }

    /** A closed shape. @param {ArrayLike<number>} points x and y in turn */
    polygon(points, paint) {
        this.#add("polygon", { points: pairs(points), ...painted(paint) });
    }

    /** Writes a text with its baseline at y. @param {TextStyle} [style] */
    text(x, y, string, { size: px = 12, align = "left", weight = 400, color = "#000", mono = false } = {}) {
        this.#add("text", {
            x: num(x), y: num(y), fill: color, "font-size": num(px), "text-anchor": ANCHORS[align],
            "font-weight": weight === 400 ? null : weight, "font-family": mono ? fonts.mono : null,
        }).textContent = string;
    }

    /** Calls `draw`, and shows what it draws inside of the rectangle only. */
    clip(x, y, w, h, draw) {
        const box = { x: num(x), y: num(y), ...size(w, h) };
        // A nested document clips at its edges and needs no id.
        this.#within("svg", { ...box, viewBox: `${box.x} ${box.y} ${box.width} ${box.height}` }, draw);
    }

    /** Calls `draw`, and shows what it draws with the opacity `alpha`, 0..1. */
    opacity(alpha, draw) {
        this.#within("g", { opacity: num(alpha) }, draw);
    }

    #add(tag, attributes) {
        const node = create(tag, attributes);
        this.#at.append(node);
        return node;
    }

    #within(tag, attributes, draw) {
        const outer = this.#at;
        this.#at = this.#add(tag, attributes);
        draw();
        this.#at = outer;
    }
}

const size = (w, h) => ({ width: num(Math.max(0, w)), height: num(Math.max(0, h)) });
