// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The JavaScript API of the rate limiter's WebAssembly build (tools/build-wasm).
//
//     const weir = await load(bytes);
//     const policy = weir.policy("gcra 100/s burst 20");
//     const key = policy.key();
//     const decision = key.take(now_ns, 1);   // .allowed, .remaining, .retryAfterNs ...
//
// This file calls the functions of web/wasm/shim.c. Times are BigInt nanoseconds since the Unix epoch.
// The caller reads the clock and loads time zone data.

/**
 * A decision. docs/algorithms.md defines the fields.
 * @typedef {object} Decision
 * @property {boolean} allowed
 * @property {number} limit the largest cost that full quota allows at once
 * @property {number} remaining the largest cost that would be allowed now, after this decision
 * @property {bigint | null} retryAfterNs 0n if allowed, null if no wait helps
 * @property {bigint} resetAfterNs until the layer `layer` has full quota again
 * @property {bigint} delayNs leaky-queue: delay the request by this time
 * @property {number} layer the index, from 0, of the layer that the other fields describe
 */

/**
 * A decision of decideAt(), in Numbers. Infinity as retryAfterNs: no wait helps.
 * @typedef {{allowed: boolean, limit: number, remaining: number, retryAfterNs: number, resetAfterNs: number,
 *            delayNs: number, layer: number}} Brief
 */

/**
 * What a layer of a policy says. Buckets: `limit` is the burst, the capacity or the depth + 1, and they refill
 * `rate` units in `periodNs`. Windows: `rate` is the limit, and `periodNs` is 0 if `calendar` is a unit. A block,
 * which is the last layer: `limit` is the lowest of the other layers, and `periodNs` the length of the first block.
 * @typedef {object} LayerFacts
 * @property {string} algorithm its name in a policy text
 * @property {number} limit
 * @property {number} rate
 * @property {number} periodNs
 * @property {"aligned" | "from-first" | "day" | "week" | "month" | "year"} calendar
 * @property {string} from where a calendar window begins, as a policy text says it; "" for the unit's beginning
 * @property {string} zone the time zone, "" for UTC
 * @property {number} slices
 * @property {boolean} countDenied
 * @property {boolean} relaxed
 * @property {boolean} stepped
 * @property {number} nodelay leaky-queue: how many queued requests are not delayed
 * @property {number} longestNs block: the longest block if repeated blocks double, else 0
 */

/**
 * The state of one layer for a key. Times are offsets in ns.
 * @typedef {object} LayerView
 * @property {string} algorithm
 * @property {number} limit
 * @property {number} remaining the largest cost that this layer alone would allow
 * @property {number} resetAfterNs until the layer has full quota
 * @property {number} retryAfterNs 0, or the wait until this layer alone allows a cost of 1; Infinity: never
 * @property {number} delayNs leaky-queue: how long a request with a cost of 1 would be delayed
 * @property {number} tatNs buckets: when the key has full quota
 * @property {number} beginNs windows: the begin of the window that counts; sliding-counter: of the aligned window;
 *     block: the begin of the last block, 0 once it is forgotten
 * @property {number} endNs
 * @property {number} used units in that window; buckets: limit - remaining
 * @property {number} previous sliding-counter: the units of the previous window
 * @property {number[]} entries sliding-log: time and units of each charge that counts; sliding-slices: begin and
 *     units of each slice; concurrent: end and units of each lease; the oldest first, the latest 4096
 */

/**
 * Returns the bytes of a zone's TZif file, or nothing if the zone is unknown.
 * @typedef {(name: string) => Uint8Array | null | undefined} Zones
 */

/** The values of weir_status in weir.h that an error can have. */
export const Status = Object.freeze({
    RANGE: 1, // a time or a cost is out of range
    UNSUPPORTED: 4, // the policy does not support refunds
    NOMEM: 5, // the module is out of memory: free() policies and keys
    ZONE: 6, // unknown time zone, or invalid time zone data
});

const OK = 0;
const OFFSET_MAX = 2 ** 53;
const NOW_NS_MAX = 7n << 60n;
const CALENDARS = ["aligned", "from-first", "day", "week", "month", "year"];
const ZONE_BYTES_MAX = 1 << 20; // the largest of tzdata has 4 KB

/** A call failed, and nothing was charged. */
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

/** A policy text is invalid. `column` counts from 1. */
export class PolicyError extends WeirError {
    /**
     * @param {number} status
     * @param {string} message
     * @param {number} column
     * @param {string | null} zone the zone that `zones` returned no bytes for: load them and try again
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

/** The functions of shim.c and its linear memory, whose buffer is replaced when it grows. */
class Core {
    /** @param {WebAssembly.Exports} exports */
    constructor(exports) {
        this.fn = /** @type {any} */ (exports);
        this.memory = /** @type {WebAssembly.Memory} */ (exports.memory);
        this.textAt = this.fn.weir_web_text_buffer();
        this.textSize = this.fn.weir_web_text_size();
        this.decisionAt = this.fn.weir_web_decision_buffer();
        this.briefAt = this.fn.weir_web_brief_buffer() / 8;
        this.factsAt = this.fn.weir_web_facts_buffer() / 8;
        this.viewAt = this.fn.weir_web_view_buffer() / 8;
        this.offsetMax = OFFSET_MAX;
        this.view = new DataView(this.memory.buffer);
        this.doubles = new Float64Array(this.memory.buffer);
    }

    /** Returns the memory as doubles. */
    get numbers() {
        if (this.doubles.buffer !== this.memory.buffer)
            this.doubles = new Float64Array(this.memory.buffer);
        return this.doubles;
    }

    /** Throws if `offsetNs` is not a valid offset. */
    checkOffset(offsetNs) {
        if (!(offsetNs >= 0 && offsetNs <= this.offsetMax && Number.isInteger(offsetNs)))
            throw this.error(Status.RANGE);
    }

    /** Writes a text to the text buffer. A text that does not fit is truncated, and too long to parse. */
    writeText(text) {
        const buffer = new Uint8Array(this.memory.buffer, this.textAt, this.textSize);
        return encoder.encodeInto(text, buffer).written;
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

    /** Returns the address of an allocation, or throws if it failed. */
    made(address) {
        if (address === 0)
            throw this.error(Status.NOMEM);
        return address;
    }
}

/** The state of one key under a policy. Created by Policy.key(). */
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
     * Decides whether `cost` units are allowed at `now_ns`, and charges them if so.
     * @param {bigint} now_ns 0 to 7 * 2^60, one clock per key
     * @param {number} [cost] 0 to 2^31 - 1; 0 charges nothing
     * @param {number} [keep] units that must remain for other requests, 0 to 2^31 - 1; -1 to -100: so many
     *     percent of each layer's limit
     * @returns {Decision}
     */
    take(now_ns, cost = 1, keep = 0) {
        return this.#call(this.#core.fn.weir_web_key_take, now_ns, cost, keep);
    }

    /**
     * Like take(), at an offset from the base (Weir.setBase), and faster.
     * @param {number} offsetNs a whole number, 0 to 2^53
     * @param {number} cost
     * @param {Brief} out is filled in
     * @returns {Brief} out
     */
    decideAt(offsetNs, cost, out) {
        const core = this.#core;
        this.#live();
        core.checkOffset(offsetNs);
        const status = (cost | 0) === cost ? core.fn.weir_web_key_decide_at(this.#at, offsetNs, cost) : Status.RANGE;
        if (status !== OK)
            throw core.error(status);
        const numbers = core.numbers, at = core.briefAt;
        out.allowed = numbers[at] !== 0;
        out.limit = numbers[at + 1];
        out.remaining = numbers[at + 2];
        out.retryAfterNs = numbers[at + 3];
        out.resetAfterNs = numbers[at + 4];
        out.delayNs = numbers[at + 5];
        out.layer = numbers[at + 6];
        return out;
    }

    /**
     * Describes the state of each layer at an offset. Charges nothing.
     * @param {number} offsetNs a whole number, 0 to 2^53
     * @returns {LayerView[]}
     */
    lookAt(offsetNs) {
        this.#live();
        this.#core.checkOffset(offsetNs);
        return this.#policy.layers.map((layer, i) => this.#viewLayer(layer, i, offsetNs));
    }

    /**
     * Refunds units that were charged but not used. Throws Status.UNSUPPORTED if the policy does not
     * support refunds.
     * @param {bigint} now_ns
     * @param {number} cost
     * @returns {Decision} the decision on a cost of 0 after the refund
     */
    refund(now_ns, cost) {
        return this.#call(this.#core.fn.weir_web_key_refund, now_ns, cost);
    }

    /**
     * Charges units that were used already, whether they fit or not.
     * @param {bigint} now_ns
     * @param {number} cost
     * @returns {Decision & {over: number}} the decision on a cost of 0 after the charge, and the units
     * that could not be counted
     */
    charge(now_ns, cost) {
        const decision = this.#call(this.#core.fn.weir_web_key_charge, now_ns, cost);
        return { ...decision, over: this.#core.fn.weir_web_over() };
    }

    /** Frees the state. The key cannot be used afterwards. */
    free() {
        if (this.#at !== 0)
            this.#policy.remove(this);
        this.release();
    }

    /** For Policy: frees the state, but the policy keeps its reference to the key. */
    release() {
        if (this.#at !== 0)
            this.#core.fn.weir_web_key_free(this.#at);
        this.#at = 0;
    }

    #viewLayer({ algorithm }, i, offsetNs) {
        const count = this.#core.fn.weir_web_key_view(this.#at, i, offsetNs);
        const numbers = this.#core.numbers, at = this.#core.viewAt;
        const resetAfterNs = numbers[at + 2];
        return {
            algorithm,
            limit: numbers[at],
            remaining: numbers[at + 1],
            resetAfterNs,
            retryAfterNs: numbers[at + 3],
            delayNs: numbers[at + 4],
            tatNs: offsetNs + resetAfterNs,
            beginNs: numbers[at + 5],
            endNs: numbers[at + 6],
            used: numbers[at + 7],
            previous: numbers[at + 8],
            entries: Array.from(numbers.subarray(at + 9, at + 9 + 2 * count)),
        };
    }

    #live() {
        if (this.#at === 0)
            throw new TypeError("the key was freed");
    }

    #call(fn, now_ns, cost, keep = 0) {
        this.#live();
        // WebAssembly would truncate a number that is out of range.
        const narrow = BigInt.asIntN(64, now_ns) === now_ns && (cost | 0) === cost && (keep | 0) === keep;
        const status = narrow ? fn(this.#at, now_ns, cost, keep) : Status.RANGE;
        if (status !== OK)
            throw this.#core.error(status);
        return this.#core.readDecision();
    }
}

/** A policy. Created by Weir.policy(). */
class Policy {
    #core;
    #at;
    #keys = new Set();
    #layers = null;

    constructor(core, at) {
        this.#core = core;
        this.#at = at;
    }

    /** The canonical text. */
    get text() {
        return this.#core.readText(this.#core.fn.weir_web_policy_print(this.#live()));
    }

    /** An explanation of the policy in plain English. */
    get report() {
        return this.#core.readText(this.#core.fn.weir_web_policy_report(this.#live()));
    }

    /** @returns {readonly LayerFacts[]} the layers */
    get layers() {
        const at = this.#live(), { fn } = this.#core;
        if (!this.#layers) {
            const count = fn.weir_web_policy_layers(at);
            this.#layers = Array.from({ length: count }, (_, i) => this.#layer(at, i));
        }
        return this.#layers;
    }

    /** @returns {Key} a key with full quota */
    key() {
        const at = this.#core.made(this.#core.fn.weir_web_key_new(this.#live()));
        const key = new Key(this.#core, this, at);
        this.#keys.add(key);
        return key;
    }

    /** Frees the policy and all its keys. None of them can be used afterwards. */
    free() {
        for (const key of this.#keys)
            key.release();
        this.#keys.clear();
        if (this.#at !== 0)
            this.#core.fn.weir_web_policy_free(this.#at);
        this.#at = 0;
    }

    #layer(policyAt, i) {
        const core = this.#core;
        const algorithm = core.readText(core.fn.weir_web_layer_facts(policyAt, i));
        const zone = core.readText(core.fn.weir_web_layer_zone(policyAt, i));
        const from = core.readText(core.fn.weir_web_layer_from(policyAt, i));
        const [limit, rate, periodNs, slices, calendar, countDenied, relaxed, stepped, nodelay,
            longestNs] = core.numbers.subarray(core.factsAt, core.factsAt + 10);
        return Object.freeze({
            algorithm, limit, rate, periodNs, calendar: CALENDARS[calendar], from, zone, slices,
            countDenied: countDenied !== 0, relaxed: relaxed !== 0, stepped: stepped !== 0, nodelay,
            longestNs,
        });
    }

    /** For Key. */
    remove(key) {
        this.#keys.delete(key);
    }

    #live() {
        if (this.#at === 0)
            throw new TypeError("the policy was freed");
        return this.#at;
    }
}

/** Passes the bytes of a missing zone to the policy. Returns a status. */
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

/** Parses a text into the policy, and adds each zone that it names. `zones` may call weir. */
function parse(core, policyAt, text, zones) {
    const { fn } = core;
    for (;;) {
        const status = fn.weir_web_policy_parse(policyAt, core.writeText(text));
        if (status === OK)
            return;
        const column = fn.weir_web_error_column(); // in bytes; the text before an error is ASCII
        const message = core.readText(fn.weir_web_error_text());
        const zone = core.readText(fn.weir_web_zone_missing(policyAt)) || null;
        const bytes = zone && zones?.(zone);
        if (!bytes)
            throw new PolicyError(status, message, column, zone);
        if (addZone(core, policyAt, bytes) !== OK)
            throw new PolicyError(status, `invalid data for time zone '${zone}', expected a TZif file`, column, null);
    }
}

/** The loaded module. Created by load(). */
class Weir {
    #core;

    constructor(core) {
        this.#core = core;
    }

    /**
     * Sets the base of the offsets of decideAt() and lookAt(), for all keys. It is 0n at first.
     * @param {bigint} ns since the Unix epoch, 0 to 7 * 2^60
     */
    setBase(ns) {
        if (!(ns >= 0n && ns <= NOW_NS_MAX))
            throw this.#core.error(Status.RANGE);
        const rest = NOW_NS_MAX - ns;
        this.#core.offsetMax = rest < BigInt(OFFSET_MAX) ? Number(rest) : OFFSET_MAX;
        this.#core.fn.weir_web_set_base(ns);
    }

    /**
     * Parses a policy text (docs/policy.md). Throws a PolicyError.
     * @param {string} text
     * @param {{zones?: Zones}} [options] without zones, only UTC is known
     * @returns {Policy} uses memory of the module until its free()
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
 * @param {BufferSource | WebAssembly.Module} source the output of tools/build-wasm
 * @returns {Promise<Weir>}
 */
export async function load(source) {
    const module = source instanceof WebAssembly.Module ? source : await WebAssembly.compile(source);
    const instance = await WebAssembly.instantiate(module);
    return new Weir(new Core(instance.exports));
}
