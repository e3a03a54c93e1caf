// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The colours of all pictures, by role. weir.css has the same values for the pages. Each colour that is used
// for text has a contrast of at least 4.5 on `panel` and on `paper`.

/**
 * @typedef {object} Theme
 * @property {string} ink text and outlines
 * @property {string} muted secondary text, axes
 * @property {string} hairline grids and borders
 * @property {string} paper the page
 * @property {string} panel behind a picture
 * @property {string} accent links, focus, the rate line
 * @property {string} allowed @property {string} allowedSoft @property {string} allowedText
 * @property {string} denied @property {string} deniedSoft @property {string} deniedText
 * @property {string} delayed @property {string} delayedSoft @property {string} delayedText
 * @property {string} allowedFaint @property {string} deniedFaint @property {string} delayedFaint requests of
 *     keys that are not watched
 * @property {string} mark where two lanes differ
 * @property {string} band every second window of a time line
 * @property {string} edge the boundary of two windows
 * @property {string[]} series colours of a chart's series that have no role
 */

/** @type {{light: Theme, dark: Theme}} */
export const themes = Object.freeze({
    light: Object.freeze({
        ink: "#1B1F24", muted: "#5B6570", hairline: "#DDE2E7", paper: "#FBFBF9", panel: "#FFFFFF",
        accent: "#1F6FB2",
        allowed: "#1F6FB2", allowedSoft: "#D5E6F4", allowedText: "#1F6FB2",
        denied: "#D1432B", deniedSoft: "#F9DDD7", deniedText: "#C23B24",
        delayed: "#B7791F", delayedSoft: "#F5E7CD", delayedText: "#8A5A12",
        allowedFaint: "#B4D0E8", deniedFaint: "#F0BDB3", delayedFaint: "#E5CDA2",
        mark: "#7A3E9D", band: "#F1F4F6", edge: "#B9C2CB",
        series: ["#1F6FB2", "#B7791F", "#2E7D5B", "#7A3E9D", "#D1432B", "#4A5A6A"],
    }),
    dark: Object.freeze({
        ink: "#E8EAED", muted: "#9AA4AE", hairline: "#2E343A", paper: "#14171A", panel: "#1C2024",
        accent: "#5AA9E6",
        allowed: "#5AA9E6", allowedSoft: "#20405A", allowedText: "#5AA9E6",
        denied: "#FF7A62", deniedSoft: "#55291F", deniedText: "#FF7A62",
        delayed: "#E5B454", delayedSoft: "#4D3D1C", delayedText: "#E5B454",
        allowedFaint: "#2F506A", deniedFaint: "#6A3B31", delayedFaint: "#655230",
        mark: "#C79BE6", band: "#22272C", edge: "#4A535C",
        series: ["#5AA9E6", "#E5B454", "#6CC29B", "#C79BE6", "#FF7A62", "#9FB2C4"],
    }),
});

/** The fonts of all pictures and pages. */
export const fonts = Object.freeze({
    sans: "system-ui, -apple-system, \"Segoe UI\", Roboto, \"Noto Sans\", Arial, sans-serif",
    mono: "ui-monospace, \"SF Mono\", Menlo, Consolas, \"DejaVu Sans Mono\", monospace",
});

/**
 * The verdict of a request, which decides its colour and its shape: a circle, a cross or a diamond.
 * @param {boolean | number} allowed
 * @param {number} [delayNs] greater than 0: allowed, but delayed
 * @returns {"allowed" | "denied" | "delayed"}
 */
export function verdictOf(allowed, delayNs = 0) {
    if (!allowed)
        return "denied";
    return delayNs > 0 ? "delayed" : "allowed";
}
