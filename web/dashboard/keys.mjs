// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Keys as the page shows them, and the figures of the daemon's lists of top keys. Knows nothing of the page.

import { short } from "./format.mjs";

const KEY_BYTES_MAX = 128; // the daemon keeps the first 128 bytes of a longer key, which name no key
const ESTIMATE_DIGITS = 2;

// Characters that cannot be seen, or that change how others are seen, and spaces that HTML joins or drops.
const HIDDEN =
    /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}|^ | $|(?<= ) |\\(?=u)/gu;

/** Writes a character as "\u202e", or "\u{e0001}" if it has more than four digits. */
function escaped(character) {
    const code = /** @type {number} */ (character.codePointAt(0)).toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
}

/**
 * A key as a person can read it. Different keys have different texts.
 * @param {string} key
 */
export function shownKey(key) {
    return key.replace(HIDDEN, escaped);
}

/** The same for a text of several lines. @param {string} text */
export function shownLines(text) {
    return text.replace(HIDDEN, (found) => (found === "\n" || found === " " ? found : escaped(found)));
}

/**
 * Why requests cannot use the text of a key, because other bytes have the same text.
 * @param {{key: string, key_bytes: number}} row of /v1/top
 * @returns {string} "" if the text is the whole key
 */
export function whyNotWhole({ key, key_bytes }) {
    if (key_bytes > KEY_BYTES_MAX)
        return "longer than what the daemon keeps of it";
    if (key.includes("\ufffd") || new TextEncoder().encode(key).length !== key_bytes)
        return "not UTF-8: use redis-cli";
    return "";
}

/**
 * A figure of a list of top keys.
 * @param {number} n
 * @param {number} sampling of the answer: one unit of so many was counted
 */
export function topFigure(n, sampling) {
    return sampling > 1 ? `≈ ${short(Number(n.toPrecision(ESTIMATE_DIGITS)))}` : short(n);
}

/** What to say of the figures of a list. @param {number} sampling */
export function topNote(sampling) {
    const recent = "The figures are halved each minute, so recent denials count most.";
    return sampling > 1 ? `${recent} They are estimated from a sample of one in ${sampling}.` : recent;
}
