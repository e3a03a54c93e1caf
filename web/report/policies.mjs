// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The policies of the report: the figures of the first one, and a table that compares all of them.

import { whole } from "../dashboard/format.mjs";
import { el } from "../playground/dom.mjs";
import { SortedTable } from "./table.mjs";
import {
    countAndShare, denials, duration, keyText, period, policyName, share, stamp, unitName,
} from "./text.mjs";

const NONE = "–";

function tile(title, value, detail, about = "") {
    return el("div", { class: "panel tile", title: about || null },
        el("dt", { class: "tile-title", text: title }),
        el("dd", {}, el("span", { class: "tile-value", text: value }),
            el("span", { class: "tile-detail muted", text: detail })));
}

/**
 * The four figures of a policy that matter most.
 * @param {import("./text.mjs").Report} report
 * @param {import("./text.mjs").Policy} policy
 */
export function tiles(report, policy) {
    const { lockout, peak_admitted: peak } = policy;
    const n = denials(policy);
    return el("dl", { class: "tiles numbers" },
        tile("Keys denied at least once", share(policy.keys_denied, policy.keys),
            `${whole(policy.keys_denied)} of ${whole(policy.keys)}`),
        tile("Requests denied", share(n, report.requests), `${whole(n)} of ${whole(report.requests)}`),
        tile("Longest lock-out", lockout ? duration(lockout.longest_ns) : NONE,
            lockout ? `key ${keyText(lockout.key)}` : "no key was locked out",
            lockout ? `from ${stamp(lockout.from_ns)} UTC` : ""),
        tile(`Most ${unitName(report)} allowed to one key`, peak ? whole(peak.units) : NONE,
            peak ? `within ${duration(peak.window_ns)}; the limit is ${whole(peak.limit)}`
                : "nothing was allowed",
            peak ? `key ${keyText(peak.key)}, from ${stamp(peak.at_ns)} UTC` : ""));
}

function nameCell(policy, several) {
    const marks = [several && policy.baseline && "baseline", policy.shadow && "shadow mode"].filter(Boolean);
    return el("div", { class: "policy" },
        el("span", { class: "policy-name", text: policyName(policy) }),
        ...marks.map((mark) => el("span", { class: "mark", text: mark })),
        policy.name === null ? null : el("span", { class: "policy-text mono muted", text: policy.policy }));
}

function columnsOf({ requests, policies }) {
    return [
        { title: "Policy", value: policyName, cell: (policy) => nameCell(policy, policies.length > 1) },
        { title: "Denied keys", number: true,
            value: ({ keys_denied, keys }) => keys_denied / Math.max(1, keys),
            cell: ({ keys_denied, keys }) => countAndShare(keys_denied, keys) },
        { title: "Denied requests", number: true, value: denials,
            cell: (policy) => countAndShare(denials(policy), requests) },
        { title: "Longest lock-out", number: true, value: ({ lockout }) => lockout?.longest_ns ?? 0,
            cell: ({ lockout }) => (lockout ? duration(lockout.longest_ns) : NONE) },
        { title: "Most allowed / limit", number: true,
            value: ({ peak_admitted: peak }) => (peak ? peak.units / Math.max(1, peak.limit) : 0),
            cell: ({ peak_admitted: peak }) =>
                (peak ? `${whole(peak.units)} / ${whole(peak.limit)} per ${period(peak.window_ns)}` : NONE) },
    ];
}

const listColumn = (title, member) =>
    ({ title, number: true, value: (policy) => policy[member], cell: (policy) => whole(policy[member]) });

const changeColumn = (title, member) => ({
    title, number: true, value: ({ change }) => change?.[member] ?? 0,
    cell: ({ change }) => (change ? whole(change[member]) : NONE),
});

/**
 * The table of all policies, with what changes beside the baseline.
 * @param {import("./text.mjs").Report} report
 */
export function policyTable(report) {
    const { policies } = report;
    const columns = columnsOf(report);
    const some = (member) => policies.some((policy) => policy[member] > 0);
    if (some("allow_listed"))
        columns.push(listColumn("Allow list", "allow_listed"));
    if (some("deny_listed"))
        columns.push(listColumn("Deny list", "deny_listed"));
    if (policies.some(({ change }) => change))
        columns.push(changeColumn("Keys newly denied", "keys_newly_denied"),
            changeColumn("Keys no longer denied", "keys_no_longer_denied"),
            changeColumn("Requests newly denied", "requests_newly_denied"),
            changeColumn("Requests newly allowed", "requests_newly_allowed"));
    const table = new SortedTable({ caption: "Policies", columns, rows: policies });
    return el("div", { class: "panel card" }, table.element);
}
