// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The guide's pictures. The text is in guide.html, and the page can be read without this script. A
// picture is made when its figure comes near the visible part of the page, and moves while it is visible.

import { boot } from "../playground/boot.mjs";
import { el, foldOnPhones, reducedMotion } from "../playground/dom.mjs";
import { mountSmall } from "../playground/small_view.mjs";
import { mountThemeSwitch } from "../playground/theme_switch.mjs";
import { presetOf } from "../model/presets.mjs";
import { sceneToHash } from "../model/scene.mjs";
import { mountChat } from "./chat_view.mjs";
import { pictures, servers } from "./scenes.mjs";
import { mountServers } from "./servers_view.mjs";

const NEAR = "800px 0px"; // how far from the visible part a picture is made

/** One figure and its picture. */
class Figure {
    constructor(element, core) {
        this.element = element;
        this.core = core;
        this.name = element.dataset.scene;
        this.box = el("div", { class: "figure-picture" });
        this.mounted = null;
        this.visible = false;
        this.resume = !reducedMotion();
        element.prepend(this.box);
    }

    mount() {
        if (this.mounted)
            return;
        const { titles, scene, start, still } = pictures[this.name];
        const options = { ...this.core, titles, scene, servers, end: still };
        const mount = { chat: mountChat, servers: mountServers }[this.name] ?? mountSmall;
        this.mounted = mount(this.box, options);
        this.mounted.player.seek((reducedMotion() ? still : start) * 1e9);
        this.element.classList.add("is-live");
    }

    /** Plays while the picture is visible, unless the reader has paused it. */
    setVisible(visible) {
        if (!this.mounted || visible === this.visible)
            return;
        const { player } = this.mounted;
        this.visible = visible;
        if (visible && this.resume) {
            player.play();
        } else if (!visible) {
            this.resume = player.world.playing;
            player.pause();
        }
    }
}

function mountFigures(core) {
    const figures = new Map();
    for (const element of document.querySelectorAll("figure[data-scene]"))
        figures.set(element, new Figure(element, core));
    const near = new IntersectionObserver((entries) => {
        for (const { target, isIntersecting } of entries) {
            if (isIntersecting)
                figures.get(target).mount();
        }
    }, { rootMargin: NEAR });
    const visible = new IntersectionObserver((entries) => {
        for (const { target, isIntersecting } of entries) {
            if (isIntersecting)
                figures.get(target).mount();
            figures.get(target).setVisible(isIntersecting);
        }
    }, { threshold: 0.25 });
    for (const element of figures.keys()) {
        near.observe(element);
        visible.observe(element);
    }
}

/** Marks the section that is being read in the table of contents. */
function followReading() {
    const links = new Map();
    for (const link of document.querySelectorAll(".contents a"))
        links.set(link.getAttribute("href").slice(1), link);
    const mark = () => {
        let current = null;
        for (const [id, link] of links) {
            link.removeAttribute("aria-current");
            if (document.getElementById(id).getBoundingClientRect().top < innerHeight / 3)
                current = link;
        }
        current?.setAttribute("aria-current", "location");
    };
    let waiting = false;
    addEventListener("scroll", () => {
        if (waiting)
            return;
        waiting = true;
        requestAnimationFrame(() => {
            waiting = false;
            mark();
        });
    }, { passive: true });
    mark();
}

function fail(error) {
    console.error(error);
    const text = `The picture could not be loaded: ${error.message}`;
    for (const element of document.querySelectorAll("figure[data-scene]"))
        element.prepend(el("p", { class: "no-picture", text }));
}

/** Completes the links to the playground that open a scene of the guide, or a preset. */
function completeLinks() {
    for (const link of document.querySelectorAll("a[data-open], a[data-preset]")) {
        const { open, preset } = link.dataset;
        const { scene } = open ? pictures[open] : presetOf(preset);
        link.href = `playground.html${sceneToHash(scene)}`;
    }
}

completeLinks();
foldOnPhones(document.querySelector(".contents details"));
document.getElementById("dashboard-link").hidden = !location.protocol.startsWith("http");
const themeButton = document.getElementById("theme");
themeButton.hidden = false;
mountThemeSwitch(themeButton);
followReading();
boot().then(mountFigures, fail);
