// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// A running scene: a clock, the traffic, and the lanes that decide it. `scene` always describes the world,
// so sceneToHash(world.scene) shares it.

import { Lane } from "./lane.mjs";
import {
    MAX_COST, MAX_LANES, OFFSET_MAX, SPEED_MAX, SPEED_MIN, completeScene, completeTraffic,
} from "./scene.mjs";
import { Traffic } from "./traffic.mjs";

const MS_NS = 1e6;
const ROUND = 256; // decisions of each lane before the next lane is served

export class World {
    #weir;
    #zones;
    #hitsAtFirst;
    #spans = []; // of time without the traffic's requests

    /**
     * @param {any} weir the module of weir.mjs; worlds can share it
     * @param {any} scene a Scene; missing fields get their default
     * @param {{zones?: import("../wasm/weir.mjs").Zones}} [options] the data of time zones
     */
    constructor(weir, scene, { zones } = {}) {
        this.#weir = weir;
        this.#zones = zones;
        /** @type {import("./scene.mjs").Scene} */
        this.scene = completeScene(scene);
        this.#hitsAtFirst = this.scene.hits.slice();
        this.playing = false;
        /** Whether the last advance() stopped early because its time was over. */
        this.late = false;
        this.#build();
    }

    /** The offset of the clock in nanoseconds. */
    now = 0;

    /** How many requests have happened. Several may have the time `now`, and step() takes one at a time. */
    index = 0;

    /** Seconds of the scene in a second. */
    get speed() {
        return this.scene.speed;
    }

    set speed(speed) {
        this.scene.speed = Math.min(SPEED_MAX, Math.max(SPEED_MIN, Number(speed) || 1));
    }

    /** The time of offset 0, in milliseconds since the epoch. */
    get beginMs() {
        return Date.parse(this.scene.begin);
    }

    /** The key whose state is shown: scene.watch or, if no request has it, the first or busiest key. */
    get watch() {
        const { watch } = this.scene;
        return this.traffic.indexes.has(watch) ? watch : this.traffic.mainName;
    }

    /** Whether there are no more requests after `now`. */
    get ended() {
        return this.traffic.ended && this.index === this.traffic.length;
    }

    /**
     * Moves the clock, and decides the requests until then. Does nothing unless `playing`.
     * @param {number} realMs since the last call
     * @param {number} [budgetMs] the longest time for decisions; if it is over, the clock stops at the last
     *     decided request, and `late` is true
     */
    advance(realMs, budgetMs = 6) {
        if (this.playing && realMs > 0)
            this.seek(this.now + Math.round(realMs * MS_NS * this.speed), budgetMs);
    }

    /**
     * Sets the clock, forwards or back.
     * @param {number} offsetNs
     * @param {number} [budgetMs] as for advance(); by default there is no limit
     */
    seek(offsetNs, budgetMs = Infinity) {
        const target = Math.min(OFFSET_MAX, Math.max(0, Math.round(offsetNs) || 0));
        this.traffic.extendTo(target);
        const index = this.traffic.countTo(target);
        const decided = this.#decideTo(index, performance.now() + budgetMs);
        this.late = decided < index;
        this.now = this.late ? this.traffic.times[decided - 1] : target;
        this.index = decided;
    }

    /**
     * Moves the clock to the next request, and decides it.
     * @returns {boolean} false if there is none
     */
    step() {
        const next = this.#nextTime();
        if (next === Infinity)
            return false;
        this.#decideTo(this.index + 1, Infinity);
        this.now = next;
        this.index++;
        this.late = false;
        return true;
    }

    /**
     * Sends a request now, and decides it.
     * @param {string} key
     * @param {number} [cost]
     * @returns {number} its index, or -1 if there is no room for it
     */
    hit(key, cost = 1) {
        const charged = Math.min(MAX_COST, Math.max(0, Math.round(Number(cost)) || 0));
        const at = this.#insert(this.now, key, charged);
        if (at < 0)
            return -1;
        this.scene.hits.push([this.now, key, charged]);
        this.index = at + 1;
        this.#decideTo(this.index, Infinity);
        return at;
    }

    /** Whether the traffic is held. */
    get held() {
        return this.#spans.at(-1)?.[1] === Infinity;
    }

    /** Holds the traffic from now on, so that only requests sent by hand come, or lets it go on. */
    hold(hold) {
        if (hold === this.held)
            return;
        if (hold)
            this.#spans.push([this.now, Infinity]);
        else
            this.#spans.at(-1)[1] = this.now;
        this.#build();
    }

    /** Takes back all requests that were sent by hand. */
    clearHits() {
        this.scene.hits = [];
        this.#build();
    }

    /** Starts again at offset 0. Of the requests sent by hand, those that the scene began with stay. */
    reset() {
        this.now = 0;
        this.#spans = [];
        this.scene.hits = this.#hitsAtFirst.slice();
        this.#build();
    }

    /**
     * Changes the policy of a lane, which decides all requests until now.
     * @param {number} i
     * @param {string} text
     * @returns {Lane} the new lane; its `error` is set if the text is invalid
     */
    setLane(i, text) {
        const lane = this.#makeLane(text);
        this.lanes[i].free();
        this.lanes[i] = lane;
        this.scene.lanes[i] = text;
        lane.decideTo(this.index);
        return lane;
    }

    /**
     * Adds a lane at the end.
     * @param {string} text
     * @returns {Lane | null} null if there are MAX_LANES already
     */
    addLane(text) {
        if (this.lanes.length === MAX_LANES)
            return null;
        const lane = this.#makeLane(text);
        this.lanes.push(lane);
        this.scene.lanes.push(text);
        lane.decideTo(this.index);
        return lane;
    }

    /** Removes a lane, unless it is the last one. */
    removeLane(i) {
        if (this.lanes.length === 1 || !this.lanes[i])
            return;
        this.lanes.splice(i, 1)[0].free();
        this.scene.lanes.splice(i, 1);
        const { compare } = this.scene;
        if (compare?.includes(i))
            this.scene.compare = null;
        else if (compare)
            this.scene.compare = [compare[0] - Number(compare[0] > i), compare[1] - Number(compare[1] > i)];
    }

    /**
     * Changes the traffic. The clock and the requests sent by hand stay, but a log starts without them.
     * @param {any} spec a TrafficSpec
     */
    setTraffic(spec) {
        this.scene.traffic = completeTraffic(spec);
        if (this.scene.traffic.kind === "log") {
            this.scene.hits = [];
            this.now = 0;
        }
        this.#build();
    }

    /** Sets the time of offset 0, in ISO 8601. A log or pasted times of day have their own. */
    setBegin(begin) {
        this.scene.begin = completeScene({ begin }).begin;
        this.#build();
    }

    /** Frees the memory of the module. The world cannot be used afterwards. */
    free() {
        this.lanes.forEach((lane) => lane.free());
        this.lanes = [];
    }

    /** Makes the traffic and the lanes of the scene, and decides until `now`. */
    #build() {
        this.lanes?.forEach((lane) => lane.free());
        /** @type {Lane[]} */
        this.lanes = [];
        this.traffic = new Traffic(this.scene.traffic, this.#spans);
        if (this.traffic.begin !== null)
            this.scene.begin = completeScene({ begin: this.traffic.begin }).begin;
        const fits = ([offset, key, cost]) => this.#insert(offset, key, cost) >= 0;
        this.scene.hits = this.scene.hits.filter(fits);
        this.lanes = this.scene.lanes.map((text) => this.#makeLane(text));
        this.seek(this.now);
    }

    #makeLane(text) {
        return new Lane(this.#weir, text, this.traffic, { beginMs: this.beginMs, zones: this.#zones });
    }

    #insert(offsetNs, key, cost) {
        const at = this.traffic.insert(offsetNs, key, cost);
        if (at >= 0)
            this.lanes.forEach((lane) => lane.inserted(at));
        return at;
    }

    /** Decides in all lanes in turn. Returns how many requests all of them have decided, at most `index`. */
    #decideTo(index, deadlineMs) {
        const lanes = this.lanes.filter((lane) => !lane.error);
        let decided = Math.min(index, ...lanes.map((lane) => lane.decided));
        while (decided < index) {
            decided = Math.min(index, decided + ROUND);
            lanes.forEach((lane) => lane.decideTo(decided));
            if (performance.now() > deadlineMs)
                break;
        }
        return decided;
    }

    #nextTime() {
        const { traffic } = this;
        if (this.index === traffic.length)
            traffic.extendTo(traffic.nextTime);
        return this.index < traffic.length ? traffic.times[this.index] : Infinity;
    }
}
