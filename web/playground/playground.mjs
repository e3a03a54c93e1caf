// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The playground: policies side by side that decide the same traffic. The scene is in the address, so a
// link shares it.

import { presetOf, presets } from "../model/presets.mjs";
import { MAX_EVENTS, leftOutOfHash, sceneFromHash, sceneToHash } from "../model/scene.mjs";
import { World } from "../model/world.mjs";
import { boot } from "./boot.mjs";
import { ComparePanel } from "./compare_panel.mjs";
import { debounce, el, foldOnPhones, reducedMotion, setText } from "./dom.mjs";
import { copyText, mountExportMenu } from "./export_menu.mjs";
import { count } from "./format.mjs";
import { mountLane } from "./lane_view.mjs";
import { Player } from "./player.mjs";
import { mountThemeSwitch } from "./theme_switch.mjs";
import { TrafficPanel, acceptDrops } from "./traffic_panel.mjs";
import { Transport } from "./transport.mjs";

const FIRST = "boundary"; // the example of a page without a scene in its address
const LANES_MAX = 8;
const HASH_MS = 400;
const TOAST_MS = 4000;
const LOG_SECONDS = 40; // a longer log is played faster
const NEW_LANES = ["gcra 5/s burst 10", "fixed-window 10/s", "sliding-log 10/s", "sliding-counter 10/s",
    "token-bucket 10 refill 5/s", "leaky-queue 5/s depth 10", "sliding-slices 10/s slices 10",
    "leaky-bucket 5/s capacity 10"];

const find = (id) => /** @type {any} */ (document.getElementById(id));

/** Says something to a screen reader. */
function say(text) {
    // A live region is read again only if its text changes.
    const said = find("said");
    setText(said, said.textContent === text ? `${text} ` : text);
}

let toastTimer = 0;

/** Shows a short message. */
function toast(text) {
    const box = find("toast");
    box.hidden = false;
    box.textContent = text;
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => {
        box.hidden = true;
    }, TOAST_MS);
}

class Playground {
    constructor(weir, zones) {
        this.weir = weir;
        this.zones = zones;
        this.lanes = [];
        this.ownHash = "";
        const scene = sceneFromHash(location.hash) ?? (presetOf(FIRST) ?? presets[0]).scene;
        this.world = new World(weir, structuredClone(scene), { zones });
        this.player = new Player(this.world);
        this.player.say = say;
        this.writeHash = debounce(() => this.#writeHash(), HASH_MS);
        this.player.onChange = this.writeHash;
        this.player.onOver = () => toast(this.world.traffic.length < MAX_EVENTS
            ? "That was the last request of this scene."
            : `That was the last request: a scene has at most ${count(MAX_EVENTS)}.`);
        this.#mountControls();
        this.#listen();
        this.show();
        this.#start();
    }

    /** Replaces the whole scene. */
    open(scene) {
        this.world.free();
        this.world = new World(this.weir, structuredClone(scene), { zones: this.zones });
        this.player.world = this.world;
        this.player.restarted();
        this.show();
        this.#start();
    }

    /** Shows the scene in all controls. */
    show() {
        const { scene } = this.world;
        this.#showTitle();
        this.traffic.show(scene.traffic, scene.begin);
        this.transport.show();
        this.#showLanes();
        this.player.redraw();
    }

    #mountControls() {
        const { player } = this;
        mountThemeSwitch(find("theme"));
        const { scene } = this.world;
        this.traffic = new TrafficPanel({ spec: scene.traffic, begin: scene.begin, say,
            onSpec: (spec) => this.#setTraffic(spec), onBegin: (iso) => this.#setBegin(iso) });
        find("traffic").append(this.traffic.element);
        foldOnPhones(find("traffic"));
        this.transport = new Transport(player, { say, onWatch: () => {} });
        find("transport").replaceWith(this.transport.element);
        new ResizeObserver(([entry]) => {
            player.coveredBelow = entry.target.clientHeight;
        }).observe(this.transport.element);
        this.views = () => this.lanes.map((lane) => lane.view);
        this.compare = new ComparePanel(find("compare"), player, this.views);
        mountExportMenu(find("export-menu"), { player, views: this.views, say: (text) => {
            toast(text);
        } });
        find("dashboard-link").hidden = !location.protocol.startsWith("http");
    }

    #listen() {
        const select = find("presets");
        select.replaceChildren(el("option", { value: "", text: "Your own scene" }),
            ...presets.map(({ id, title }) => el("option", { value: id, text: title })));
        select.addEventListener("change", () => {
            const preset = presets.find(({ id }) => id === select.value);
            if (preset)
                this.open(preset.scene);
            this.#writeHash();
        });
        find("add-lane").addEventListener("click", () => this.#addLane());
        find("share").addEventListener("click", () => this.#share());
        addEventListener("hashchange", () => {
            const scene = location.hash === this.ownHash ? null : sceneFromHash(location.hash);
            if (scene)
                this.open(scene);
        });
        acceptDrops((file) => this.traffic.open(file));
    }

    #showLanes() {
        this.lanes.forEach((lane) => lane.destroy());
        const grid = find("lanes");
        const { lanes } = this.world;
        grid.dataset.count = String(lanes.length);
        this.lanes = [];
        grid.replaceChildren(...lanes.map(() => el("div", { class: "lane-cell" })));
        [...grid.children].forEach((element, laneIndex) => {
            this.lanes.push(mountLane(element, {
                weir: this.weir,
                zones: this.zones,
                player: this.player,
                laneIndex,
                onText: () => this.#changed(),
                onRemove: lanes.length > 1 ? () => this.#removeLane(laneIndex) : undefined,
            }));
        });
        find("add-lane").hidden = lanes.length >= LANES_MAX;
        this.compare.show();
    }

    #addLane() {
        const used = new Set(this.world.scene.lanes);
        const text = NEW_LANES.find((one) => !used.has(one)) ?? NEW_LANES[0];
        this.player.change(() => this.world.addLane(text));
        this.#showLanes();
        this.#changed();
        const cells = find("lanes").children;
        cells[cells.length - 1].querySelector(".policy")?.focus();
    }

    #removeLane(index) {
        this.world.removeLane(index);
        this.#showLanes();
        this.#changed();
        find("lanes").focus();
        say(`Lane ${String.fromCharCode(65 + index)} removed`);
    }

    #setBegin(iso) {
        this.player.change(() => this.world.setBegin(iso));
        this.traffic.showBegin(this.world.scene.begin);
        this.player.invalidate();
        this.#changed();
    }

    #setTraffic(spec) {
        const { player } = this;
        if (spec.kind === "log")
            this.world.setTraffic(spec); // which begins at 0
        else
            player.change(() => this.world.setTraffic(spec));
        if (!this.world.traffic.names.includes(this.world.scene.watch))
            this.world.scene.watch = "";
        if (spec.kind === "log")
            this.#fitLog();
        this.traffic.showBegin(this.world.scene.begin);
        player.furthest = Math.max(0, this.world.now);
        player.selected = -1;
        player.hovered = -1;
        this.transport.show();
        player.invalidate();
        this.#changed();
    }

    /** Chooses the speed so that a long log takes well under a minute, and shows a part of it at a time. */
    #fitLog() {
        const { traffic, scene } = this.world;
        const seconds = traffic.length > 0 ? traffic.times[traffic.length - 1] / 1e9 : 0;
        if (seconds <= LOG_SECONDS)
            return;
        scene.span = Math.ceil(seconds / 6);
        this.world.speed = Math.ceil(seconds / LOG_SECONDS);
        this.player.play();
    }

    /** The scene is no longer the preset's. */
    #changed() {
        this.compare.show();
        this.#showTitle();
        this.writeHash();
        this.player.redraw();
    }

    #showTitle() {
        const hash = sceneToHash(this.world.scene);
        const preset = presets.find(({ scene }) => sceneToHash(scene) === hash);
        const kept = preset ?? presets.find(({ title }) => title === this.world.scene.title);
        find("presets").value = preset?.id ?? "";
        setText(find("title"), this.world.scene.title || "Rate limits, side by side");
        document.title = `${this.world.scene.title || "Rate limits"} · weir playground`;
        const lanes = "Each lane is a policy. All lanes get the same requests at the same time.";
        setText(find("about"), kept?.text ?? lanes);
    }

    #writeHash() {
        this.ownHash = sceneToHash(this.world.scene);
        try {
            history.replaceState(null, "", this.ownHash);
        } catch {
            // Browsers limit how often; the next change writes it.
        }
    }

    async #share() {
        this.#writeHash();
        const left = leftOutOfHash(this.world.scene);
        const copied = await copyText(location.href);
        toast([copied ? "The link is copied." : "The link is in the address bar.", ...left].join(" "));
    }

    /** Plays at once. A reader who prefers less motion gets the picture after the first seconds. */
    #start() {
        if (reducedMotion())
            this.player.seek(this.world.scene.span * 1e9);
        else
            this.player.play();
    }
}

async function main() {
    try {
        const { weir, zones } = await boot();
        const playground = new Playground(weir, zones);
        /** For the tests of the page. */
        /** @type {any} */ (globalThis).weirPlayground = playground;
    } catch (error) {
        const failure = find("failure");
        failure.hidden = false;
        failure.textContent = `The playground cannot start: ${error.message}.`;
    }
}

main();
