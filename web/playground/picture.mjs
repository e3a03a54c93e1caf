// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// A canvas that knows its size in CSS pixels without asking for layout, and whether it can be seen.

import { CanvasSurface } from "../draw/surface.mjs";
import { el } from "./dom.mjs";

const PIXELS_MAX = 3; // a device's scale above this is not worth its time

export class Picture {
    /**
     * @param {string} className
     * @param {() => void} onResize called when the canvas has a new size, or comes into view
     */
    constructor(className, onResize) {
        this.canvas = el("canvas", { class: className, role: "img" });
        this.context = this.canvas.getContext("2d");
        this.surface = new CanvasSurface(this.context);
        this.box = { x: 0, y: 0, w: 0, h: 0 };
        this.scale = 1;
        this.seen = true;
        this.onResize = onResize;
        this.sizes = new ResizeObserver((entries) => this.#resize(entries[entries.length - 1].contentRect));
        this.sizes.observe(this.canvas);
        this.views = new IntersectionObserver((entries) => {
            this.seen = entries[entries.length - 1].isIntersecting;
            if (this.seen)
                this.onResize();
        }, { rootMargin: "64px" });
        this.views.observe(this.canvas);
    }

    /**
     * Clears the canvas for the next picture. Returns false if nothing is to be drawn.
     * @param {boolean} unseen whether to draw outside of the window as well
     */
    begin(unseen) {
        if ((!this.seen && !unseen) || this.box.w < 8 || this.box.h < 8)
            return false;
        this.context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
        this.context.clearRect(0, 0, this.box.w, this.box.h);
        return true;
    }

    setLabel(text) {
        if (this.canvas.getAttribute("aria-label") !== text)
            this.canvas.setAttribute("aria-label", text);
    }

    destroy() {
        this.sizes.disconnect();
        this.views.disconnect();
    }

    #resize({ width, height }) {
        this.scale = Math.min(PIXELS_MAX, Math.max(1, globalThis.devicePixelRatio || 1));
        this.box = { x: 0, y: 0, w: Math.floor(width), h: Math.floor(height) };
        this.canvas.width = Math.round(this.box.w * this.scale);
        this.canvas.height = Math.round(this.box.h * this.scale);
        this.onResize();
    }
}
