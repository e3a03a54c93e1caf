// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The keys with the most denials, and the time line of each.

import { whole } from "../dashboard/format.mjs";
import { shownKey } from "../dashboard/keys.mjs";
import { ElementSurface } from "../draw/element_surface.mjs";
import { el, field, setOptions } from "../playground/dom.mjs";
import { drawSpark, theme } from "./pictures.mjs";
import { Plots, valuesTable } from "./plots.mjs";
import { SortedTable } from "./table.mjs";
import { countAndShare, duration, keyText, policyTitle, share, span } from "./text.mjs";

const SPARK_WIDTH = 192, SPARK_HEIGHT = 26;
const REQUESTS_HEIGHT = 120, DENIALS_HEIGHT = 120;

function spark({ requests_over_time: requests, denied_over_time: denied, ...row }) {
    const label = `denied ${span(row.first_denied_ns, row.last_denied_ns)} UTC`;
    if (!requests || !denied)
        return el("span", { text: "–", title: label });
    const surface = new ElementSurface(SPARK_WIDTH, SPARK_HEIGHT);
    drawSpark(surface, { x: 0, y: 0, w: SPARK_WIDTH, h: SPARK_HEIGHT - 1 }, requests, denied, theme);
    return el("span", { role: "img", "aria-label": label, title: label }, surface.root);
}

/** What an opened row shows: the whole key, its figures and its chart. */
function detail(report, row) {
    const facts = [
        ["Key", el("span", { class: "key whole", text: shownKey(row.key) || "(empty)" })],
        ["Denied", `${countAndShare(row.denied, row.requests)} of ${whole(row.requests)} requests`],
        ["First to last denial", `${span(row.first_denied_ns, row.last_denied_ns)} UTC`],
        ["Longest lock-out", duration(row.lockout_ns)],
        ["Most in a minute", whole(row.peak_minute)],
    ];
    const list = el("dl", { class: "facts" }, ...facts.map(([name, value]) =>
        el("div", {}, el("dt", { text: name }), el("dd", {}, value))));
    if (!row.requests_over_time || !row.denied_over_time)
        return el("div", {}, list,
            el("p", { class: "muted", text: "The report has no time line for this key." }));
    const series = [
        { name: "requests", role: "muted", values: row.requests_over_time },
        { name: "denied", role: "denied", values: row.denied_over_time },
    ];
    const plots = new Plots(report, `Requests and denials of key ${keyText(row.key)} over time`);
    plots.show([
        { title: "Requests", kind: "area", height: REQUESTS_HEIGHT, series: [series[0]] },
        { title: "Denied requests", kind: "line", height: DENIALS_HEIGHT, series: [series[1]] },
    ]);
    const table = valuesTable(report, `Requests and denials of key ${keyText(row.key)}`, () => series);
    return el("div", {}, list, plots.element, table.element);
}

const numbers = (title, value, text, minor = false) =>
    ({ title, value, cell: (row) => text(value(row)), number: true, minor });

const COLUMNS = [
    {
        title: "Key", value: (row) => row.key,
        cell: (row) => el("span", { class: "key", text: keyText(row.key) }),
    },
    numbers("Denied", (row) => row.denied, whole),
    numbers("Requests", (row) => row.requests, whole, true),
    numbers("Share", (row) => row.denied / row.requests, (part) => share(part, 1), true),
    numbers("Longest lock-out", (row) => row.lockout_ns, duration),
    numbers("Most in a minute", (row) => row.peak_minute, whole, true),
    { title: "Over time", value: (row) => row.first_denied_ns, cell: spark, minor: true },
];

function tableOf(report, policy) {
    if (policy.worst.length === 0)
        return el("p", { text: policy.keys_denied > 0 ? "The report lists no keys." : "No key was denied." });
    const { element } = new SortedTable({
        caption: `Keys with the most denials by ${policyTitle(policy)}`,
        columns: COLUMNS,
        rows: policy.worst,
        detail: (row) => detail(report, row),
    });
    const note = (text, minor) => el("p", { class: `note muted ${minor}`, text });
    return el("div", {}, element,
        policy.worst.length < policy.keys_denied ? note(`These are the ${whole(policy.worst.length)} most ` +
            `denied of ${whole(policy.keys_denied)} denied keys.`, "") : null,
        note("Bars show requests over the time of the log, and denied ones in red. Open a key for its chart.",
            "minor"));
}

/**
 * @param {import("./text.mjs").Report} report
 * @returns {HTMLElement}
 */
export function worstKeys(report) {
    const { policies } = report;
    const place = el("div");
    const show = (i) => place.replaceChildren(tableOf(report, policies[i]));
    if (policies.length === 1) {
        show(0);
        return el("div", { class: "panel card" }, place);
    }
    const select = el("select", { on: { change: () => show(Number(select.value)) } });
    setOptions(select, policies.map((policy, i) => [i, policyTitle(policy)]), "0");
    show(0);
    return el("div", { class: "panel card" }, field("Policy", select), place);
}
