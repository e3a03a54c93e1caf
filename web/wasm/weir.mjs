// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// weir in JavaScript: the core and the policy language as WebAssembly (tools/build-wasm).
//
//     const weir = await load(bytes);
//     const policy = weir.policy("gcra 100/s burst 20");
//     const key = policy.key();
//     const decision = key.take(now_ns, 1);   // .allowed, .remaining, .retryAfterNs ...
//
// This file carries questions to web/wasm/shim.c and answers back; it decides nothing. Times are
// BigInt nanoseconds since the Unix epoch. The clock, and fetching zone data, are the caller's.

/**
 * The figures of a decision; docs/algorithms.md defines them.
 * @typedef {object} Decision
 * @property {boolean} allowed
 * @property {number} limit the largest cost that a fresh key could be allowed at once
 * @property {number} remaining the largest cost that would be allowed now, after this decision
 * @property {bigint | null} retryAfterNs 0n if allowed, null if no wait helps
 * @property {bigint} resetAfterNs until the layer `layer` is full again
 * @property {bigint} delayNs leaky-queue: hold the request this long
 * @property {number} layer the layer, from 0, that the figures are of
 */

/**
 * Gives the bytes of the TZif file of a zone, or nothing if there is none.
 * @typedef {(name: string) => Uint8Array | null | undefined} Zones
 */

/** The values of weir_status in weir.h that a caller may want to tell apart. */
export const Status = Object.freeze({
    RANGE: 1, // a time or a cost is out of range
    UNSUPPORTED: 4, // the policy knows no refunds
    NOMEM: 5, // the module's memory is used up: free() what is no longer needed
    ZONE: 6,
});

const OK = 0;
const ZONE_BYTES_MAX = 1 << 20; // the largest of tzdata has 4 KB

/** weir refused; nothing was charged. */
export class WeirError extends Error {
    /**
     * @param {number} status
     * @param {string} message
     */
    constructor(status, message) {
        super(message);
        this.name = "WeirError";
        this.status = status;
    }
}

/** A policy text was refused. `column` counts from 1. */
export class PolicyError extends WeirError {
    /**
     * @param {number} status
     * @param {string} message
     * @param {number} column
     * @param {string | null} zone the zone that `zones` gave no bytes for: fetch them and try again
     */
    constructor(status, message, column, zone) {
        super(status, message);
        this.name = "PolicyError";
        this.column = column;
        this.zone = zone;
    }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The shim's functions and its linear memory, which moves when it grows. */
class Core {
    /** @param {WebAssembly.Exports} exports */
    constructor(exports) {
        this.fn = /** @type {any} */ (exports);
        this.memory = /** @type {WebAssembly.Memory} */ (exports.memory);
        this.textAt = this.fn.weir_web_text_place();
        this.textSize = this.fn.weir_web_text_size();
        this.decisionAt = this.fn.weir_web_decision_place();
        this.view = new DataView(this.memory.buffer);
    }

    /** Puts as much of a text to the text place as fits; a policy text that does not is too long. */
    writeText(text) {
        const place = new Uint8Array(this.memory.buffer, this.textAt, this.textSize);
        return encoder.encodeInto(text, place).written;
    }

    readText(length) {
        return decoder.decode(new Uint8Array(this.memory.buffer, this.textAt, length));
    }

    /** @returns {Decision} */
    readDecision() {
        if (this.view.buffer !== this.memory.buffer)
            this.view = new DataView(this.memory.buffer);
        const { view, decisionAt: at } = this;
        return {
            allowed: view.getUint8(at + 44) !== 0,
            limit: view.getInt32(at, true),
            remaining: view.getInt32(at + 8, true),
            retryAfterNs: view.getUint8(at + 45) !== 0 ? null : view.getBigInt64(at + 16, true),
            resetAfterNs: view.getBigInt64(at + 24, true),
            delayNs: view.getBigInt64(at + 32, true),
            layer: view.getUint32(at + 40, true),
        };
    }

    error(status) {
        return new WeirError(status, this.readText(this.fn.weir_web_status_text(status)));
    }

    /** The address of a new block, or of what a constructor of the shim made. */
    made(address) {
        if (address === 0)
            throw this.error(Status.NOMEM);
        return address;
    }
}

/** The state of one key under a policy, fresh at first. Made by Policy.key(). */
class Key {
    #core;
    #policy;
    #at;

    constructor(core, policy, at) {
        this.#core = core;
        this.#policy = policy;
        this.#at = at;
    }

    /**
     * Decides whether `cost` units may pass at `now_ns`, and charges them if so.
     * @param {bigint} now_ns 0 to 7 * 2^60, one clock per key
     * @param {number} [cost] 0 to 2^31 - 1; 0 is a peek
     * @returns {Decision}
     */
    take(now_ns, cost = 1) {
        return this.#ask(this.#core.fn.weir_web_key_take, now_ns, cost);
    }

    /**
     * Gives back units that were charged and not used. Throws Status.UNSUPPORTED if the policy
     * refuses refunds.
     * @param {bigint} now_ns
     * @param {number} cost
     * @returns {Decision} that of a peek afterwards
     */
    refund(now_ns, cost) {
        return this.#ask(this.#core.fn.weir_web_key_refund, now_ns, cost);
    }

    /** Returns the memory of the state. The key cannot be used again. */
    free() {
        if (this.#at !== 0)
            this.#policy.forget(this);
        this.release();
    }

    /** For Policy: free(), but the policy goes on knowing the key. */
    release() {
        if (this.#at !== 0)
            this.#core.fn.weir_web_key_free(this.#at);
        this.#at = 0;
    }

    #ask(fn, now_ns, cost) {
        if (this.#at === 0)
            throw new TypeError("the key was freed");
        // Of a number that is too wide, WebAssembly would take the low bits.
        const narrow = BigInt.asIntN(64, now_ns) === now_ns && (cost | 0) === cost;
        const status = narrow ? fn(this.#at, now_ns, cost) : Status.RANGE;
        if (status !== OK)
            throw this.#core.error(status);
        return this.#core.readDecision();
    }
}

/** A policy. Made by Weir.policy(). */
class Policy {
    #core;
    #at;
    #keys = new Set();

    constructor(core, at) {
        this.#core = core;
        this.#at = at;
    }

    /** The canonical text. */
    get text() {
        return this.#core.readText(this.#core.fn.weir_web_policy_print(this.#live()));
    }

    /** What the policy admits, in plain words. */
    get report() {
        return this.#core.readText(this.#core.fn.weir_web_policy_report(this.#live()));
    }

    /** @returns {Key} a fresh one */
    key() {
        const at = this.#core.made(this.#core.fn.weir_web_key_new(this.#live()));
        const key = new Key(this.#core, this, at);
        this.#keys.add(key);
        return key;
    }

    /** Returns the memory of the policy and all its keys. None of them can be used again. */
    free() {
        for (const key of this.#keys)
            key.release();
        this.#keys.clear();
        if (this.#at !== 0)
            this.#core.fn.weir_web_policy_free(this.#at);
        this.#at = 0;
    }

    /** For Key. */
    forget(key) {
        this.#keys.delete(key);
    }

    #live() {
        if (this.#at === 0)
            throw new TypeError("the policy was freed");
        return this.#at;
    }
}

/** Hands a zone's bytes to the policy that missed it. Returns a status. */
function addZone(core, policyAt, bytes) {
    if (!(bytes.length <= ZONE_BYTES_MAX))
        return Status.ZONE;
    const at = core.made(core.fn.weir_web_alloc(bytes.length));
    new Uint8Array(core.memory.buffer).set(bytes, at);
    const status = core.fn.weir_web_zone_add(policyAt, at, bytes.length);
    if (status !== OK)
        core.fn.weir_web_release(at);
    return status;
}

/** Parses a text into the policy, adding each zone that it names. `zones` may use weir meanwhile. */
function parse(core, policyAt, text, zones) {
    const { fn } = core;
    for (;;) {
        const status = fn.weir_web_policy_parse(policyAt, core.writeText(text));
        if (status === OK)
            return;
        const column = fn.weir_web_error_column(); // in bytes, but up to an error all is ASCII
        const message = core.readText(fn.weir_web_error_text());
        const zone = core.readText(fn.weir_web_zone_missing(policyAt)) || null;
        const bytes = zone && zones?.(zone);
        if (!bytes)
            throw new PolicyError(status, message, column, zone);
        if (addZone(core, policyAt, bytes) !== OK)
            throw new PolicyError(status, `the data of time zone '${zone}' cannot be read`, column, null);
    }
}

/** weir, loaded. Made by load(). */
class Weir {
    #core;

    constructor(core) {
        this.#core = core;
    }

    /**
     * Reads a policy text (docs/policy.md). Throws a PolicyError.
     * @param {string} text
     * @param {{zones?: Zones}} [options] without zones, calendar windows know UTC alone
     * @returns {Policy} kept in the module's memory until its free()
     */
    policy(text, { zones } = {}) {
        const at = this.#core.made(this.#core.fn.weir_web_policy_new());
        const policy = new Policy(this.#core, at);
        try {
            parse(this.#core, at, text, zones);
        } catch (error) {
            policy.free();
            throw error;
        }
        return policy;
    }
}

/**
 * @param {BufferSource | WebAssembly.Module} source what tools/build-wasm made
 * @returns {Promise<Weir>}
 */
export async function load(source) {
    const module = source instanceof WebAssembly.Module ? source : await WebAssembly.compile(source);
    const instance = await WebAssembly.instantiate(module);
    return new Weir(new Core(instance.exports));
}
