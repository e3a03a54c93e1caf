// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The requests of the log over time, and the denials of the policies that are chosen.

import { ElementSurface } from "../draw/element_surface.mjs";
import { el } from "../playground/dom.mjs";
import { lineStyle, theme } from "./pictures.mjs";
import { Plots, valuesTable } from "./plots.mjs";
import { policyName, policyTitle } from "./text.mjs";

const CHOSEN_FIRST = 5; // policies that are drawn at first
const REQUESTS_HEIGHT = 150, DENIALS_HEIGHT = 210;

/** A short line as the chart draws that of policy `i`. */
function sample(i) {
    const { role, dash } = lineStyle(i);
    const surface = new ElementSurface(24, 10);
    surface.line(1, 5, 23, 5, { stroke: theme[role], width: 2.5, dash });
    return surface.root;
}

/**
 * @param {import("./text.mjs").Report} report
 * @returns {HTMLElement}
 */
export function overTime(report) {
    const { policies, load } = report;
    const chosen = new Set(policies.slice(0, CHOSEN_FIRST).keys());
    const denied = (i) => ({
        name: policies.length > 1 ? `denied by ${policyName(policies[i])}` : "denied",
        values: policies[i].denied_over_time,
        ...lineStyle(i),
    });
    const requests = { name: "requests", role: "muted", values: load.requests };
    const lines = () => [...chosen].sort((a, b) => a - b).map(denied);
    const plots = new Plots(report, "Requests of the log and denied requests over time");
    const table = valuesTable(report, "Requests and denials over time", () => [requests, ...lines()]);
    const update = () => {
        plots.show([
            { title: "Requests", kind: "area", height: REQUESTS_HEIGHT, series: [requests] },
            { title: "Denied requests", kind: "line", height: DENIALS_HEIGHT, series: lines() },
        ]);
        table.update();
    };
    const choices = policies.map((policy, i) => {
        const box = el("input", { type: "checkbox", checked: chosen.has(i), on: { change: () => {
            if (box.checked)
                chosen.add(i);
            else
                chosen.delete(i);
            update();
        } } });
        const name = el("span", { text: policyName(policy) });
        return el("label", { title: policyTitle(policy) }, box, sample(i), name);
    });
    update();
    const legend = policies.length > 1
        ? el("fieldset", { class: "choices" },
            el("legend", { class: "label", text: "Policies in the chart" }), ...choices)
        : null;
    return el("div", { class: "panel card" }, legend, plots.element, table.element);
}
