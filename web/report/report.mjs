// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The page of `weir replay --html`. The program inserts the report into the element `data` as JSON.

import { whole } from "../dashboard/format.mjs";
import { ElementSurface } from "../draw/element_surface.mjs";
import { el } from "../playground/dom.mjs";
import { mountThemeSwitch } from "../playground/theme_switch.mjs";
import { overTime } from "./over_time.mjs";
import { drawPeaks, limitsText, PEAKS_HEIGHT, peakRows, theme } from "./pictures.mjs";
import { policyTable, tiles } from "./policies.mjs";
import { plainTable } from "./table.mjs";
import {
    aboutText, answerText, changeText, lockoutText, logName, logNames, notices, unitName,
} from "./text.mjs";
import { worstKeys } from "./worst.mjs";

const ANSWERS_MAX = 6; // policies that get a sentence; the table has all

const byId = (id) => /** @type {any} */ (document.getElementById(id));

function section(title, about, ...content) {
    return el("section", {}, el("h2", { text: title }),
        about ? el("p", { class: "about muted", text: about }) : null, ...content);
}

function head(report) {
    const found = notices(report);
    return el("div", { class: "head" }, el("h1", { text: `Replay of ${logNames(report)}` }),
        el("p", { class: "muted", text: aboutText(report) }),
        found.length === 0 ? null : el("ul", { class: "notices", "aria-label": "Notes" },
            ...found.map((text) => el("li", { text }))));
}

function answer(report) {
    const [baseline, ...others] = report.policies;
    const lines = others.slice(0, ANSWERS_MAX - 1).map((policy) =>
        el("li", { text: `${answerText(policy, report.requests)} ${changeText(policy, baseline)}` }));
    if (others.length >= ANSWERS_MAX)
        lines.push(el("li", { text: `The table below has all ${report.policies.length} policies.` }));
    return el("section", { class: "answer" },
        el("h2", { class: "visually-hidden", text: "The answer" }),
        el("p", { class: "lead", text: answerText(baseline, report.requests) }),
        lockoutText(baseline) ? el("p", { text: lockoutText(baseline) }) : null,
        lines.length > 0 ? el("ul", {}, ...lines) : null,
        tiles(report, baseline));
}

/** The peak rates: a picture, and the same as a table. */
function peaks(report) {
    const rows = peakRows(report);
    const place = el("div", { class: "peaks" });
    let width = 0;
    const draw = () => {
        if (place.clientWidth === width)
            return;
        width = place.clientWidth;
        const surface = new ElementSurface(Math.max(240, width), PEAKS_HEIGHT);
        drawPeaks(surface, Math.max(240, width), rows, theme);
        place.replaceChildren(surface.root);
    };
    new ResizeObserver(draw).observe(place);
    const units = unitName(report);
    const titles = ["Period", "Median (p50)", "p90", "p99", "Busiest key", "Limits"];
    const table = plainTable(`The most ${units} of a key in a second, a minute and an hour`, titles,
        rows.map((row) => [row.name, ...[row.p50, row.p90, row.p99, row.max].map(whole), limitsText(row)]),
        new Set([titles.indexOf("Limits")]));
    return el("div", { class: "panel card" }, place, table);
}

const logTable = ({ logs }) =>
    plainTable("Logs", ["Log", "Lines", "Requests", "Left out by --where", "Not readable"],
        logs.map(({ name, lines, requests, left_out: leftOut, bad }) =>
            [logName(name), ...[lines, requests, leftOut, bad].map(whole)]));

const TERMS = [
    ["Denied keys", "Keys, such as clients, with at least one denied request. Many denials of few keys are " +
        "what a limit is for; many denied keys can mean that the limit is too low."],
    ["Lock-out", "The time from the first of a key's denied requests in a row until the key could have " +
        "been allowed again: the latest end of the waits that the replies to these requests ask for."],
    ["Most allowed", "The most that a policy allowed one key within the period of its limit, wherever the " +
        "period begins. With a burst, or at the boundary of two windows, it can exceed the limit. It is " +
        "measured in eighths of the period, so the true value may be slightly higher."],
    ["Peak rate of a key", "Its most in a second, minute or hour of the clock. p90: 90 % of the keys had " +
        "no higher peak."],
];

function method(report) {
    return section("How this report was made",
        "weir replay decided each request of the logs at the time of its log line, with the code that " +
        "decides in weir serve. Each policy decided alone. Real clients may wait or retry when they are " +
        "denied; a log cannot show that.",
        el("div", { class: "panel card" }, logTable(report),
            el("dl", { class: "terms" }, ...TERMS.flatMap(([term, text]) =>
                [el("dt", { text: term }), el("dd", { text })]))));
}

function sections(report) {
    const found = [head(report)];
    if (report.requests === 0 || report.policies.length === 0)
        return [...found, method(report)];
    const units = unitName(report);
    const worth = units === "units" ? " Requests have costs, so units are counted." : "";
    found.push(answer(report), section("Policies", "", policyTable(report)),
        section("Requests and denials over time", "", overTime(report)),
        section("Peak rates of keys",
            `How many ${units} a key had in its busiest second, minute and hour.${worth}`, peaks(report)),
        section("Most denied keys", "", worstKeys(report)),
        method(report));
    return found;
}

/** Prints in light colours, also if the reader has chosen dark ones. */
function printLight() {
    const root = document.documentElement;
    let chosen;
    addEventListener("beforeprint", () => {
        chosen = root.dataset.theme;
        root.dataset.theme = "light";
    });
    addEventListener("afterprint", () => {
        if (chosen)
            root.dataset.theme = chosen;
        else
            delete root.dataset.theme;
    });
}

function main() {
    mountThemeSwitch(byId("theme"));
    printLight();
    const report = JSON.parse(byId("data").textContent);
    document.title = `weir replay: ${logNames(report)}`;
    byId("main").replaceChildren(...sections(report));
}

main();
