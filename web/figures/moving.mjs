// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The picture of README.md that moves: requests come to one limit, which lets them pass or not. CSS moves it, and
// chooses its colours. Without CSS animations, and for readers who want less motion, it shows the moment `now`.

import { formatNs } from "../draw/format.mjs";
import { fonts, themes } from "../draw/theme.mjs";

const WIDTH = 720;
const HEIGHT = 176;
const START = 20; // x of a request that comes
const GATE = 292; // x where it is decided
const END = WIDTH - 20;
const ROAD = 128; // y of the requests
const FALL = 34; // px that a denied request falls
const COME_S = 1.4;
const LEAVE_S = 2;
const FALL_S = 0.5;
const FADE_S = 0.3;
const ANSWER_S = 1.5;
const BUCKET = { x: GATE - 36, y: 20, w: 72, h: 76 };
const ROW = 24; // px between the lines of answers, of which one is shown

const num = (value) => String(Math.round(value * 100) / 100 + 0);
const mix = (from, to, share) => from + (to - from) * Math.min(1, Math.max(0, share));
const moveTo = ([x, y]) => `translate(${num(x)}px,${num(y)}px)`;

const endOf = (allowed) => allowed ? LEAVE_S : 2 * FALL_S;

/** Where a request is `s` seconds after its decision, and how visible it is. */
function spotOf(allowed, s) {
    const spot = s < 0 ? [mix(GATE, START, -s / COME_S), ROAD]
        : allowed ? [mix(GATE, END, s / LEAVE_S), ROAD] : [GATE, mix(ROAD, ROAD + FALL, s / FALL_S)];
    const opacity = Math.min(s + COME_S, endOf(allowed) - s) / FADE_S;
    return { spot, opacity: Math.min(1, Math.max(0, opacity)), fill: allowed && s > 0 ? "var(--yes)" : "var(--muted)" };
}

/** The keyframes of all requests with one verdict, in a period that begins as they appear. */
function roadKeyframes(name, allowed, period) {
    const end = endOf(allowed);
    const steps = [-COME_S, -COME_S + FADE_S, 0, 0.01, ...allowed ? [] : [FALL_S], end - FADE_S, end, period - COME_S];
    const rows = steps.map((s) => {
        const { spot, opacity, fill } = spotOf(allowed, s);
        return `${num((s + COME_S) / period * 100)}%{transform:${moveTo(spot)};opacity:${num(opacity)};fill:${fill}}`;
    });
    return `@keyframes ${name}{${rows.join("")}}`;
}

/** How many px the level is below the brim, `reset` seconds before the bucket is full. */
const depthOf = (unit, reset, limit) => BUCKET.h * Math.max(0, reset) / unit / limit;

/** The level falls at a decision, and rises in between. */
function levelKeyframes(events, period) {
    const [{ reset: unit, limit }] = events; // the first charges one unit to a full bucket
    const rows = ["0%{transform:none}"];
    const add = (at, reset) =>
        rows.push(`${num(at / period * 100)}%{transform:translateY(${num(depthOf(unit, reset, limit))}px)}`);
    let full = 0;
    for (const { at, reset } of events) {
        if (full < at)
            add(full, 0);
        add(at - period / 5000, full - at);
        add(at, reset);
        full = at + reset;
    }
    add(full, 0);
    return `@keyframes level{${rows.join("")}100%{transform:none}}`;
}

/** Each answer is shown until the next one, or for ANSWER_S. */
function answerKeyframes(events, period) {
    const rows = [{ at: 0, row: 0 }];
    events.forEach(({ at }, i) => {
        rows.push({ at, row: i + 1 });
        if (!(events[i + 1]?.at < at + ANSWER_S))
            rows.push({ at: at + ANSWER_S, row: 0 });
    });
    const steps = rows.map(({ at, row }) => `${num(at / period * 100)}%{transform:translateY(${num(-ROW * row)}px)}`);
    return `@keyframes answer{${steps.join("")}}`;
}

const answerOf = ({ allowed, remaining, retryNs }) =>
    allowed ? `allowed, ${remaining} remaining` : `denied, again in ${formatNs(retryNs)}`;

const variables = ({ ink, muted, hairline, panel, allowed, allowedSoft, denied }) => `--ink:${ink};--muted:${muted};` +
    `--line:${hairline};--panel:${panel};--yes:${allowed};--soft:${allowedSoft};--no:${denied}`;

function style(events, period) {
    const gate = num(COME_S / period * 100);
    return `svg{${variables(themes.light)}}
@media(prefers-color-scheme:dark){svg{${variables(themes.dark)}}}
text{font-size:13px;fill:var(--ink);white-space:pre}.m{font-family:${fonts.mono};font-weight:600}.low{fill:var(--muted)}
.yes,.no,.no *,.level,.answer{animation:${num(period)}s linear infinite;animation-delay:var(--at,0s)}
.yes{animation-name:yes}.no{animation-name:no}.level{animation-name:level}
.no *,.answer{animation-timing-function:step-end}.dot{animation-name:dot}.cross{animation-name:cross}
.answer{animation-name:answer}
@keyframes dot{0%{opacity:1}${gate}%,100%{opacity:0}}
@keyframes cross{0%{opacity:0}${gate}%,100%{opacity:1}}
${roadKeyframes("yes", true, period)}
${roadKeyframes("no", false, period)}
${levelKeyframes(events, period)}
${answerKeyframes(events, period)}
@media(prefers-reduced-motion:reduce){*{animation:none!important}}`;
}

function drawRequest({ at, allowed }, period, now) {
    const { spot: [x, y], opacity, fill } = spotOf(allowed, now - at);
    const place = `transform="translate(${num(x)} ${num(y)})" opacity="${num(opacity)}" ` +
        `style="--at:${num(at - COME_S - period)}s"`;
    if (allowed)
        return `<circle class="yes" r="6" ${place} fill="${fill}"/>`;
    return `<g class="no" ${place} fill="${fill}"><circle class="dot" r="6" opacity="${num(Number(now < at))}"/>` +
        `<path class="cross" d="M-5-5L5 5M-5 5L5-5" opacity="${num(Number(now >= at))}" stroke="var(--no)" ` +
        "stroke-width=\"2.5\" stroke-linecap=\"round\"/></g>";
}

function drawBucket(events, now) {
    const { x, y, w, h } = BUCKET;
    const [{ reset: unit, limit }] = events;
    const last = events.findLast(({ at }) => at <= now);
    const lines = Array.from({ length: limit - 1 }, (_, i) => `M${x} ${num(y + h * (i + 1) / limit)}h${w}`).join("");
    const depth = depthOf(unit, last.at + last.reset - now, limit);
    return `<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="var(--soft)"/>
<svg x="${x}" y="${y}" width="${w}" height="${h}">
<rect class="level" width="${w}" height="${h}" fill="var(--yes)" transform="translate(0 ${num(depth)})"/></svg>
<path d="${lines}" stroke="var(--panel)"/>
<path d="M${x} ${y - 4}V${y + h}h${w}V${y - 4}" fill="none" stroke="var(--ink)" stroke-width="2"/>
<path d="M${GATE} ${y + h}V${ROAD - 8}" stroke="var(--ink)" stroke-width="2" stroke-dasharray="3 4"/>`;
}

function drawAnswers(events, now) {
    const shown = events.findLastIndex(({ at }) => at <= now) + 1;
    const rows = events.map((event, i) => `<text y="${17 + ROW * (i + 1)}" ` +
        `style="fill:var(--${event.allowed ? "yes" : "no"})">${answerOf(event)}</text>`);
    return `<svg x="${GATE + 60}" y="${BUCKET.y + 30}" width="300" height="${ROW}"><g class="answer" ` +
        `transform="translate(0 ${-ROW * shown})">${rows.join("\n")}</g></svg>`;
}

/**
 * Draws the picture.
 * @param {{title: string, words: string, period: number, now: number}} figure `period` in seconds, after which it
 *     begins again; the bucket is full by then
 * @param {string} policy
 * @param {{at: number, allowed: boolean, limit: number, remaining: number, retryNs: number, reset: number}[]} events
 *     the decisions; `at` and `reset` in seconds
 * @returns {string} an SVG document
 */
export function drawMoving({ title, words, period, now }, policy, events) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" role="img"
viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="${fonts.sans.replace(/"/g, "&quot;")}">
<title>${title}</title>
<style>${style(events, period)}</style>
<rect x=".5" y=".5" width="${WIDTH - 1}" height="${HEIGHT - 1}" rx="6" fill="var(--panel)" stroke="var(--line)"/>
<path d="M${START} ${ROAD}H${END}" stroke="var(--line)" stroke-width="2"/>
<text class="m" x="${START}" y="34">${policy}</text>
<text class="low" x="${START}" y="56">${words}</text>
<text class="low" x="${START}" y="${ROAD + 32}">requests</text>
<text class="low" x="${END}" y="${ROAD + 32}" text-anchor="end">what you protect</text>
${drawBucket(events, now)}
${drawAnswers(events, now)}
${events.map((event) => drawRequest(event, period, now)).join("\n")}
</svg>
`;
}
