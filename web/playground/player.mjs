// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Plays a world: advances its clock once a frame and tells the views to draw. All players of a page
// share one animation frame, which is requested only while something moves or has changed.

const FRAMES_MAX = 600;
const STEP_MS_MAX = 100; // a page in the background gets no frames; its clock does not jump afterwards
const SEEK_MS = 12; // the decisions of one frame while the clock is moved far
const TEXT_MS = 125; // the texts of a page change at most eight times a second
const LABEL_MS = 1000; // what a screen reader reads changes at most once a second

/** The script times of the last frames in milliseconds, for bench/. */
const frameMs = [];
/** @type {any} */ (globalThis).weirFrameMs = frameMs;

const waiting = new Set();
let requested = 0;

function request(player) {
    waiting.add(player);
    if (requested === 0)
        requested = requestAnimationFrame(onFrame);
}

function onFrame(time) {
    const begin = performance.now();
    const players = [...waiting];
    waiting.clear();
    requested = 0;
    for (const player of players)
        player.frame(time);
    frameMs.push(performance.now() - begin);
    if (frameMs.length > FRAMES_MAX)
        frameMs.shift();
}

/**
 * @typedef {object} View
 * @property {() => void} draw draws the pictures; called in each frame; must not cause layout
 * @property {() => void} [write] brings texts up to date
 * @property {() => void} [invalidate] earlier decisions changed
 * @property {() => void} [label] brings the labels for screen readers up to date
 */

export class Player {
    /** @param {any} world of web/model/world.mjs */
    constructor(world) {
        this.world = world;
        /** @type {Set<View>} */
        this.views = new Set();
        /** The request that the pointer is on, or -1; and the one that was chosen, which stays. */
        this.hovered = -1;
        this.selected = -1;
        /** Says something to a screen reader, if the page can. @type {((text: string) => void) | null} */
        this.say = null;
        /** CSS pixels at the bottom of the window that a bar covers. */
        this.coveredBelow = 0;
        /** Called whenever the scene changed: what would be in a link. */
        this.onChange = () => {};
        /** Called when the last request has left the visible span. */
        this.onOver = () => {};
        /** Where the next frames move the clock to, or null. @type {number | null} */
        this.target = null;
        this.lastMs = 0;
        this.textMs = 0;
        this.labelMs = 0;
        this.furthest = 0;
    }

    /** Earlier decisions changed. */
    invalidate() {
        for (const view of this.views)
            view.invalidate?.();
        this.redraw();
    }

    /** The world began again. */
    restarted() {
        this.target = null;
        this.furthest = this.world.now;
        this.selected = -1;
        this.hovered = -1;
        this.invalidate();
    }

    /** Begins the scene again, paused. */
    reset() {
        this.world.playing = false;
        this.world.reset();
        this.restarted();
    }

    /** Draws once more. Call it after any change. */
    redraw() {
        this.textMs = 0;
        request(this);
    }

    frame(time) {
        const { world } = this;
        const passed = this.lastMs === 0 ? 0 : Math.min(time - this.lastMs, STEP_MS_MAX);
        this.lastMs = world.playing ? time : 0;
        if (this.target !== null)
            this.seek(this.target);
        if (world.playing && this.target === null)
            this.advance(Math.max(0, passed));
        for (const view of this.views)
            view.draw();
        this.write(time);
        if (world.playing)
            request(this);
    }

    advance(ms) {
        const { world } = this;
        world.advance(ms);
        this.furthest = Math.max(this.furthest, world.now);
        if (this.isOver()) {
            this.pause();
            this.onOver();
        }
    }

    /** Whether all requests have been shown and have left the visible span. */
    isOver() {
        const { traffic, scene, held } = this.world;
        if (held || !traffic.ended || traffic.length === 0 || scene.traffic.kind === "none")
            return false;
        return this.world.now > traffic.times[traffic.length - 1] + scene.span * 1e9;
    }

    write(time) {
        const { playing } = this.world;
        if (!playing || time - this.textMs >= TEXT_MS || this.textMs === 0) {
            this.textMs = time;
            for (const view of this.views)
                view.write?.();
        }
        if (!playing || time - this.labelMs >= LABEL_MS) {
            this.labelMs = time;
            for (const view of this.views)
                view.label?.();
        }
    }

    play() {
        if (this.isOver())
            this.seek(0);
        this.world.playing = true;
        this.redraw();
    }

    pause() {
        this.world.playing = false;
        this.redraw();
    }

    toggle() {
        if (this.world.playing)
            this.pause();
        else
            this.play();
    }

    /** Moves the clock to the next request, and chooses it. */
    step() {
        this.world.playing = false;
        this.target = null;
        const before = this.world.index;
        this.world.step();
        this.furthest = Math.max(this.furthest, this.world.now);
        if (this.world.index > before)
            this.selected = this.world.index - 1;
        this.redraw();
    }

    /** Moves the clock. If that takes more decisions than a frame has time for, the next frames go on. */
    seek(offsetNs) {
        const { world } = this;
        const target = Math.max(0, Math.round(offsetNs));
        world.seek(target, SEEK_MS);
        this.target = world.late ? target : null;
        this.furthest = Math.max(this.furthest, world.now);
        if (this.selected >= world.index && !world.late)
            this.selected = -1;
        this.redraw();
    }

    /** Whether the clock is still on its way to where it was moved. */
    get deciding() {
        return this.target !== null && this.world.late;
    }

    /**
     * Makes a change for which the requests until now have to be decided again, and decides them.
     * @template T
     * @param {() => T} change
     * @returns {T}
     */
    change(change) {
        const { world } = this;
        const now = this.target ?? world.now, { selected } = this;
        world.seek(0);
        const result = change();
        this.seek(now);
        this.selected = selected < world.index || this.deciding ? selected : -1;
        return result;
    }

    /** Moves the clock in the next frame: a slider asks more often than a frame comes. */
    seekSoon(offsetNs) {
        this.target = offsetNs;
        this.redraw();
    }

    /** Holds the traffic, or lets it go on: see World.hold(). */
    hold(hold) {
        this.target = null;
        this.world.hold(hold);
        this.invalidate();
    }

    /** Adds a request at the present time. Returns its index, or -1 if there is no room for it. */
    hit(key, cost) {
        this.target = null;
        const index = this.world.hit(key, cost);
        this.invalidate();
        this.onChange();
        return index;
    }

    setSpeed(speed) {
        this.world.speed = speed;
        this.world.scene.speed = speed;
        this.redraw();
        this.onChange();
    }

    /** Sets the visible seconds. */
    setSpan(seconds) {
        this.world.scene.span = seconds;
        this.redraw();
        this.onChange();
    }

    /** Sets the key whose state is drawn. */
    setWatch(key) {
        this.world.scene.watch = key;
        this.redraw();
        this.onChange();
    }

    hover(index) {
        if (index === this.hovered)
            return;
        this.hovered = index;
        this.redraw();
    }

    select(index) {
        this.selected = index;
        this.redraw();
    }

    /** The request whose decision is shown, or -1. */
    shown() {
        return this.hovered >= 0 ? this.hovered : this.selected;
    }
}

/** The first index in times[0, length) whose time is above `t`. */
export function after(times, length, t) {
    let low = 0;
    let high = length;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (times[middle] <= t)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
