// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Loads the core from weir-wasm.js, a classic script, because a page that is opened from disk may not
// fetch files.

import { load } from "../wasm/weir.mjs";

/** @returns {Uint8Array<ArrayBuffer>} */
function fromBase64(text) {
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++)
        bytes[i] = binary.charCodeAt(i);
    return bytes;
}

/**
 * Loads the core and the time zones of the script weir-wasm.js. Rejects if that script is missing or
 * the browser has no WebAssembly.
 * @returns {Promise<{weir: any, zones: (name: string) => Uint8Array | null}>}
 */
export async function boot() {
    const { weirWasm, weirZones = {} } = /** @type {any} */ (globalThis);
    if (typeof weirWasm !== "string")
        throw new Error("weir-wasm.js is missing from this folder");
    const weir = await load(fromBase64(weirWasm));
    const zones = (name) => (Object.hasOwn(weirZones, name) ? fromBase64(weirZones[name]) : null);
    return { weir, zones };
}
