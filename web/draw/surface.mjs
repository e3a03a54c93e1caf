// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Two surfaces with the same methods: a canvas, and an SVG text that is the same bytes for the same calls.
// Coordinates and sizes are CSS pixels, with y downwards.

import { fonts } from "./theme.mjs";

/**
 * How a shape is painted. Without `fill` it is not filled, and without `stroke` it has no outline.
 * @typedef {object} Paint
 * @property {string} [fill]
 * @property {string} [stroke]
 * @property {number} [width] of the stroke, 1 if it is not given
 * @property {number[]} [dash] lengths of strokes and gaps
 * @property {"butt" | "round"} [cap] of lines, "butt" if it is not given
 */

/**
 * @typedef {object} TextStyle
 * @property {number} [size] 12 if it is not given
 * @property {"left" | "center" | "right"} [align] what x is, "left" if it is not given
 * @property {number} [weight] 400 if it is not given
 * @property {string} [color]
 * @property {boolean} [mono] the font for numbers and policy texts
 */

const NARROW = new Set([..."iljtfrI.,:;'|!()[] /\""]);
const WIDE = new Set([..."mwMW@%&—…"]);

/**
 * Estimates the width of a text, so that both surfaces and all machines lay out a picture in the same way.
 * @param {string} string
 * @param {TextStyle} [style]
 * @returns {number} CSS pixels, seldom less than the real width
 */
export function textWidth(string, { size = 12, weight = 400, mono = false } = {}) {
    if (mono)
        return string.length * size * 0.602;
    let em = 0;
    for (const letter of string) {
        if (NARROW.has(letter))
            em += 0.32;
        else if (WIDE.has(letter))
            em += 0.88;
        else
            em += letter >= "A" && letter <= "Z" ? 0.67 : 0.565;
    }
    return em * size * (weight >= 600 ? 1.15 : 1);
}

/** Draws on a 2D context, whose transform may have a scale for the device's pixels. */
export class CanvasSurface {
    /** @param {CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D} context */
    constructor(context) {
        this.context = context;
    }

    /** @param {Paint} paint */
    rect(x, y, w, h, paint) {
        this.context.beginPath();
        this.context.rect(x, y, w, h);
        this.#paint(paint);
    }

    /** A rectangle with corners of radius `r`, which is cut to half of the shorter side. */
    roundRect(x, y, w, h, r, paint) {
        this.context.beginPath();
        roundedPath(this.context, x, y, w, h, cutRadius(r, w, h));
        this.#paint(paint);
    }

    circle(x, y, r, paint) {
        this.context.beginPath();
        this.context.arc(x, y, Math.max(0, r), 0, 2 * Math.PI);
        this.#paint(paint);
    }

    line(x1, y1, x2, y2, paint) {
        this.context.beginPath();
        this.context.moveTo(x1, y1);
        this.context.lineTo(x2, y2);
        this.#paint(paint);
    }

    /** @param {ArrayLike<number>} points x and y in turn */
    polyline(points, paint) {
        this.#path(points);
        this.#paint(paint);
    }

    /** A closed shape. @param {ArrayLike<number>} points x and y in turn */
    polygon(points, paint) {
        this.#path(points);
        this.context.closePath();
        this.#paint(paint);
    }

    /** Writes a text with its baseline at y. @param {TextStyle} [style] */
    text(x, y, string, { size = 12, align = "left", weight = 400, color = "#000", mono = false } = {}) {
        const context = this.context;
        context.font = `${weight} ${size}px ${mono ? fonts.mono : fonts.sans}`;
        context.textAlign = align;
        context.fillStyle = color;
        context.fillText(string, x, y);
    }

    /** Calls `draw`, and shows what it draws inside of the rectangle only. */
    clip(x, y, w, h, draw) {
        this.context.save();
        this.context.beginPath();
        this.context.rect(x, y, w, h);
        this.context.clip();
        draw();
        this.context.restore();
    }

    /** Calls `draw`, and shows what it draws with the opacity `alpha`, 0..1. */
    opacity(alpha, draw) {
        const before = this.context.globalAlpha;
        this.context.globalAlpha = before * alpha;
        draw();
        this.context.globalAlpha = before;
    }

    #path(points) {
        const context = this.context;
        context.beginPath();
        for (let i = 0; i + 1 < points.length; i += 2)
            context.lineTo(points[i], points[i + 1]);
    }

    #paint({ fill, stroke, width = 1, dash, cap = "butt" }) {
        const context = this.context;
        if (fill) {
            context.fillStyle = fill;
            context.fill();
        }
        if (stroke) {
            context.strokeStyle = stroke;
            context.lineWidth = width;
            context.lineCap = cap;
            context.lineJoin = "round";
            if (dash)
                context.setLineDash(dash);
            context.stroke();
            if (dash)
                context.setLineDash([]);
        }
    }
}

/** Collects an SVG document. */
export class SvgSurface {
    #parts = [];
    #width;
    #height;
    #title;

    /**
     * @param {number} width
     * @param {number} height
     * @param {{title?: string, background?: string}} [options] the title is read by screen readers
     */
    constructor(width, height, { title = "", background = "" } = {}) {
        this.#width = width;
        this.#height = height;
        this.#title = title;
        if (background)
            this.rect(0, 0, width, height, { fill: background });
    }

    /** @param {Paint} paint */
    rect(x, y, w, h, paint) {
        const [left, top, wide, high] = [x, y, Math.max(0, w), Math.max(0, h)].map(num);
        this.#add(`<rect x="${left}" y="${top}" width="${wide}" height="${high}"${painted(paint)}/>`);
    }

    /** A rectangle with corners of radius `r`, which is cut to half of the shorter side. */
    roundRect(x, y, w, h, r, paint) {
        const [left, top, wide, high] = [x, y, Math.max(0, w), Math.max(0, h)].map(num);
        const size = `width="${wide}" height="${high}" rx="${num(cutRadius(r, w, h))}"`;
        this.#add(`<rect x="${left}" y="${top}" ${size}${painted(paint)}/>`);
    }

    circle(x, y, r, paint) {
        this.#add(`<circle cx="${num(x)}" cy="${num(y)}" r="${num(Math.max(0, r))}"${painted(paint)}/>`);
    }

    line(x1, y1, x2, y2, paint) {
        this.#add(`<path d="M${num(x1)} ${num(y1)}L${num(x2)} ${num(y2)}"${painted(paint)}/>`);
    }

    /** @param {ArrayLike<number>} points x and y in turn */
    polyline(points, paint) {
        this.#add(`<polyline points="${pairs(points)}"${painted(paint)}/>`);
    }

    /** A closed shape. @param {ArrayLike<number>} points x and y in turn */
    polygon(points, paint) {
        this.#add(`<polygon points="${pairs(points)}"${painted(paint)}/>`);
    }

    /** Writes a text with its baseline at y. @param {TextStyle} [style] */
    text(x, y, string, { size = 12, align = "left", weight = 400, color = "#000", mono = false } = {}) {
        const anchor = { left: "", center: " text-anchor=\"middle\"", right: " text-anchor=\"end\"" }[align];
        const font = (mono ? " class=\"m\"" : "") + (weight === 400 ? "" : ` font-weight="${weight}"`);
        this.#add(`<text x="${num(x)}" y="${num(y)}" font-size="${num(size)}"${anchor}${font}` +
            ` fill="${escaped(color)}">${escaped(string)}</text>`);
    }

    /** Calls `draw`, and shows what it draws inside of the rectangle only. */
    clip(x, y, w, h, draw) {
        const [left, top, wide, high] = [x, y, Math.max(0, w), Math.max(0, h)].map(num);
        // A nested document clips at its edges and needs no id, which could appear twice in a page.
        this.#add(`<svg x="${left}" y="${top}" width="${wide}" height="${high}" ` +
            `viewBox="${left} ${top} ${wide} ${high}">`);
        draw();
        this.#add("</svg>");
    }

    /** Calls `draw`, and shows what it draws with the opacity `alpha`, 0..1. */
    opacity(alpha, draw) {
        this.#add(`<g opacity="${num(alpha)}">`);
        draw();
        this.#add("</g>");
    }

    /** @returns {string} the document, which ends with a line feed */
    toString() {
        const [w, h] = [num(this.#width), num(this.#height)];
        const title = this.#title ? `<title>${escaped(this.#title)}</title>\n` : "";
        return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" ` +
            `viewBox="0 0 ${w} ${h}" role="img" font-family="${escaped(fonts.sans)}">\n${title}` +
            `<style>.m{font-family:${escaped(fonts.mono)}}text{white-space:pre}</style>\n` +
            `${this.#parts.join("\n")}\n</svg>\n`;
    }

    #add(part) {
        this.#parts.push(part);
    }
}

/**
 * The shape of a verdict: a circle, a cross or a diamond.
 * @param {CanvasSurface | SvgSurface} surface
 * @param {"allowed" | "denied" | "delayed"} role
 * @param {number} x of its middle
 * @param {number} y of its middle
 * @param {number} r half of its size
 * @param {string} color
 */
export function drawShape(surface, role, x, y, r, color) {
    if (role === "allowed") {
        surface.circle(x, y, r, { fill: color });
    } else if (role === "delayed") {
        const s = r * 1.25;
        surface.polygon([x, y - s, x + s, y, x, y + s, x - s, y], { fill: color });
    } else {
        const s = r * 0.9;
        surface.line(x - s, y - s, x + s, y + s, { stroke: color, width: 2, cap: "round" });
        surface.line(x - s, y + s, x + s, y - s, { stroke: color, width: 2, cap: "round" });
    }
}

/** A small text at x, y on a ground that lets little of what lies behind it shine through. */
export function drawLabel(surface, x, y, text, color, theme) {
    const style = { size: 11, color };
    surface.opacity(0.8, () =>
        surface.roundRect(x - 2, y - 10, textWidth(text, style) + 4, 13, 2, { fill: theme.panel }));
    surface.text(x, y, text, style);
}

/** Adds a rectangle with corners of radius `r` to the path of a context. */
function roundedPath(context, x, y, w, h, r) {
    context.moveTo(x + r, y);
    context.arcTo(x + w, y, x + w, y + h, r);
    context.arcTo(x + w, y + h, x, y + h, r);
    context.arcTo(x, y + h, x, y, r);
    context.arcTo(x, y, x + w, y, r);
    context.closePath();
}

const cutRadius = (r, w, h) => Math.max(0, Math.min(r, w / 2, h / 2));

// A number with at most two decimals. Adding 0 turns -0 into 0.
const num = (value) => String(Math.round(value * 100) / 100 + 0);

function pairs(points) {
    const words = [];
    for (let i = 0; i + 1 < points.length; i += 2)
        words.push(`${num(points[i])},${num(points[i + 1])}`);
    return words.join(" ");
}

function painted({ fill, stroke, width = 1, dash, cap }) {
    let text = ` fill="${fill ? escaped(fill) : "none"}"`;
    if (stroke) {
        text += ` stroke="${escaped(stroke)}"`;
        if (width !== 1)
            text += ` stroke-width="${num(width)}"`;
        if (dash)
            text += ` stroke-dasharray="${dash.map(num).join(" ")}"`;
        if (cap === "round")
            text += " stroke-linecap=\"round\"";
    }
    return text;
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;" };

// XML 1.0 allows no other control characters, no lone surrogates, and neither U+FFFE nor U+FFFF.
function escaped(string) {
    return String(string)
        .replace(/[&<>"]/g, (letter) => ENTITIES[letter])
        .replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");
}
