// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The Export menu: a lane's policy as configuration or code, the time line as CSV, and the picture.

import { drawState, stateHeight } from "../draw/state.mjs";
import { CanvasSurface, SvgSurface } from "../draw/surface.mjs";
import { themes } from "../draw/theme.mjs";
import { Timeline } from "../draw/timeline.mjs";
import { csvParts, toC, toNginx, toResp, toYaml } from "../model/export.mjs";
import { download, el } from "./dom.mjs";
import { clock, count } from "./format.mjs";
import { isDark } from "./theme_switch.mjs";

const PICTURE = { width: 960, margin: 24, head: 56, laneHead: 28, time: 200, timeMax: 260, gap: 24,
    state: 320, scale: 2 };
const CSV_MS = 30; // the work between two frames
const NAME = "api";
const letter = (i) => String.fromCharCode(65 + i);

/** The height of one lane in the picture. */
function laneHeight(lane) {
    return PICTURE.laneHead + Math.max(PICTURE.time, stateHeight(PICTURE.state, lane.layers.length));
}

/** The size of the whole picture in CSS pixels. */
function pictureSize(world) {
    const lanes = world.lanes.reduce((sum, lane) => sum + laneHeight(lane) + PICTURE.gap, 0);
    return { w: PICTURE.width, h: PICTURE.head + lanes + PICTURE.margin };
}

function totalsText(lane, world) {
    const sum = lane.totals(world.index);
    const delayed = sum.delayed > 0 ? `, ${count(sum.delayed)} of them delayed` : "";
    return `${count(sum.allowed)} allowed${delayed}, ${count(sum.denied)} denied`;
}

/** Draws all lanes below each other, with their policies and totals. */
function drawPicture(surface, world, views, size) {
    const theme = isDark() ? themes.dark : themes.light;
    const { margin, head, laneHead, gap, state } = PICTURE;
    surface.rect(0, 0, size.w, size.h, { fill: theme.panel });
    const title = world.scene.title || "weir playground";
    const small = { size: 12, align: "right", color: theme.muted };
    surface.text(margin, 36, title, { size: 18, weight: 650, color: theme.ink });
    surface.text(size.w - margin, 36, `at ${clock(world.now)}`, small);
    let y = head;
    world.lanes.forEach((lane, i) => {
        const height = laneHeight(lane);
        surface.line(margin, y, size.w - margin, y, { stroke: theme.hairline });
        const policy = `${letter(i)}  ${lane.text}`;
        surface.text(margin, y + 22, policy, { size: 13, mono: true, color: theme.ink });
        surface.text(size.w - margin, y + 22, totalsText(lane, world), small);
        const top = y + laneHead + 4;
        if (!lane.error) {
            const layerViews = views[i].look();
            const box = { x: margin, y: top, w: state - margin, h: height - laneHead };
            const timeBox = { x: state + margin, y: top, w: size.w - state - 2 * margin,
                h: Math.min(PICTURE.timeMax, box.h) };
            drawState(surface, box, layerViews, lane.layers,
                { nowNs: world.now, decision: views[i].lastDecision(), theme, reduced: true });
            const data = { ...views[i].timeData(theme, layerViews), hoverIndex: -1 };
            new Timeline().draw(surface, timeBox, data);
        }
        y += height + gap;
    });
}

function svgText(world, views) {
    const size = pictureSize(world);
    const surface = new SvgSurface(size.w, size.h);
    drawPicture(surface, world, views, size);
    return surface.toString();
}

function pngBlob(world, views) {
    const size = pictureSize(world);
    const canvas = el("canvas", { width: size.w * PICTURE.scale, height: size.h * PICTURE.scale });
    const context = canvas.getContext("2d");
    context.scale(PICTURE.scale, PICTURE.scale);
    drawPicture(new CanvasSurface(context), world, views, size);
    return new Promise((resolve, reject) => {
        const done = (blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large")));
        canvas.toBlob(done, "image/png");
    });
}

const textBlob = (text, type = "text/plain") => new Blob([text], { type: `${type};charset=utf-8` });

/** Writes the CSV between the frames of the page, and tells how far it is. */
async function csvBlob(world, { say }) {
    const texts = [];
    let begin = performance.now();
    for (const { text, done } of csvParts(world)) {
        texts.push(text);
        if (performance.now() - begin < CSV_MS)
            continue;
        say(`Writing weir.csv: ${Math.floor(100 * done)} %`);
        await new Promise((resolve) => setTimeout(resolve));
        begin = performance.now();
    }
    return new Blob(texts, { type: "text/csv;charset=utf-8" });
}

// What the menu offers for one lane: [text, file name or null to show it only, writer].
const POLICY = [
    ["weir.yaml", "weir.yaml", (text) => toYaml(text, NAME)],
    ["nginx configuration", "weir.nginx.conf", (text) => toNginx(text, NAME)],
    ["RESP command", "weir.resp.txt", (text, key) => toResp(text, key)],
    ["C code", "limit.c", (text) => toC(text, NAME)],
];

const PICTURES = [
    ["Time line as CSV", "weir.csv", csvBlob],
    ["Picture as SVG", "weir.svg", async (world, { views }) => textBlob(svgText(world, views()),
        "image/svg+xml")],
    ["Picture as PNG", "weir.png", async (world, { views }) => pngBlob(world, views())],
];

/**
 * Fills the menu.
 * @param {HTMLDetailsElement} menu
 * @param {{player: any, views: () => any[], say: (text: string) => void}} options
 */
export function mountExportMenu(menu, { player, views, say }) {
    const preview = el("dialog", { class: "preview panel", "aria-label": "Export" });
    document.body.append(preview);
    const list = el("div", { class: "menu-list" });
    menu.append(list);
    const close = () => {
        menu.open = false;
    };
    const item = (text, run) => el("button", { type: "button", text, on: {
        click: async () => {
            close();
            menu.querySelector("summary")?.focus();
            try {
                await run();
            } catch (error) {
                say(`The export failed: ${error.message}`);
            }
        },
    } });
    menu.addEventListener("toggle", () => {
        if (!menu.open)
            return;
        const { world } = player;
        const lanes = el("select", { "aria-label": "Lane to export" },
            ...world.lanes.map((lane, i) => el("option", { value: i, text: `${letter(i)}  ${lane.text}` })));
        list.replaceChildren(
            el("p", { class: "label", text: "The policy of lane" }), lanes,
            ...POLICY.map(([text, file, write]) => item(text, () => {
                const lane = world.lanes[Number(lanes.value)];
                if (lane.error)
                    throw new Error(`the policy is invalid: ${lane.error.message}`);
                showPreview(preview, file, text, write(lane.policy.text, world.watch));
            })),
            el("p", { class: "label", text: "The decisions so far" }),
            ...PICTURES.map(([text, file, make]) => item(text, async () => {
                download(file, await make(world, { views, say }));
                say(`Saved ${file}`);
            })));
    });
    addEventListener("click", (event) => {
        if (menu.open && event.target instanceof Node && !menu.contains(event.target))
            close();
    });
    menu.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && menu.open) {
            close();
            menu.querySelector("summary")?.focus();
        }
    });
}

/** Shows a text with buttons that copy or save it. */
function showPreview(dialog, file, title, text) {
    const button = (name, className, click) => el("button", { class: `button ${className}`, type: "button",
        text: name, on: { click } });
    const status = el("span", { class: "muted", role: "status" });
    const copy = async () => {
        status.textContent = await copyText(text) ? "Copied" : "Copying failed. Select the text.";
    };
    dialog.replaceChildren(el("h2", { text: title }), el("pre", { text, tabindex: 0 }),
        el("div", { class: "preview-buttons" },
            button("Copy", "primary", copy),
            button("Save", "", () => download(file, textBlob(text))),
            button("Close", "plain", () => dialog.close()), status));
    dialog.showModal();
}

/** Copies a text to the clipboard. Pages from disk may have to do it by a selection. */
export async function copyText(text) {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        const area = el("textarea", { class: "visually-hidden", "aria-hidden": "true" });
        area.value = text;
        (document.querySelector("dialog[open]") ?? document.body).append(area);
        area.select();
        const copied = document.execCommand("copy");
        area.remove();
        return copied;
    }
}
