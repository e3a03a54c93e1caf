// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The stream of the daemon's /v1/live (docs/http.md): server-sent events over fetch, and reconnection with
// exponential backoff. fetch is used instead of EventSource because a page can tell its user why it failed.

import { detailOf } from "./daemon.mjs";

const FIRST_RETRY_MS = 1000;
const RETRY_MAX_MS = 30000;
const SILENCE_MS = 10000; // ten ticks
const EVENT_MAX = 1 << 23; // characters

/** Splits a text/event-stream into events, at any division of its characters. */
export class EventParser {
    #line = "";
    #size = 0;
    #name = "";
    #data = [];
    #afterCr = false;

    /**
     * @param {string} chunk
     * @returns {{name: string, data: string}[]} the events that end in the chunk
     */
    feed(chunk) {
        const events = [];
        const text = this.#afterCr && chunk.startsWith("\n") ? chunk.slice(1) : chunk;
        if (chunk !== "")
            this.#afterCr = text.endsWith("\r");
        const lines = (this.#line + text).split(/\r\n|\r|\n/);
        this.#line = /** @type {string} */ (lines.pop());
        for (const line of lines)
            this.#take(line, events);
        if (this.#line.length + this.#size > EVENT_MAX)
            throw new Error("an event is larger than 8 MiB");
        return events;
    }

    #take(line, events) {
        if (line === "") {
            if (this.#data.length > 0)
                events.push({ name: this.#name || "message", data: this.#data.join("\n") });
            this.#name = "";
            this.#data = [];
            this.#size = 0;
            return;
        }
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "event")
            this.#name = value;
        else if (field === "data") this.#data.push(value);
        this.#size += value.length;
    }
}

/** Says in plain words why a stream could not be opened. */
async function reasonOf(response) {
    const { status } = response;
    if (status === 401)
        return "the daemon refused the password; reload the page to enter it again";
    if (status === 404)
        return "this daemon has no /v1/live; it may be an older version of weir";
    if (status === 503)
        return "the daemon already serves as many dashboards as it can";
    return (await detailOf(response)) || `the daemon answered with the status ${status}`;
}

/**
 * @typedef {{state: "connecting" | "open" | "waiting", retryAtMs: number, reason: string}} Connection
 *     retryAtMs: when the next attempt begins, by `now`; only in the state "waiting"
 */

/** Keeps a stream open until close(). Calls back on the page's only thread, never from its constructor. */
export class LiveStream {
    #options;
    #abort = null;
    #timer = 0;
    #failures = 0;
    #closed = false;

    /**
     * @param {object} options
     * @param {string} options.url
     * @param {(name: string, data: any) => void} options.onEvent data: parsed JSON
     * @param {(connection: Connection) => void} options.onConnection
     * @param {typeof fetch} [options.fetch]
     * @param {{set: (fn: () => void, ms: number) => any, clear: (timer: any) => void}} [options.timers]
     * @param {() => number} [options.now] milliseconds
     * @param {() => number} [options.random] 0 <= x < 1
     */
    constructor(options) {
        this.#options = {
            fetch: globalThis.fetch.bind(globalThis),
            timers: { set: (fn, ms) => setTimeout(fn, ms), clear: (timer) => clearTimeout(timer) },
            now: Date.now,
            random: Math.random,
            ...options,
        };
    }

    /** Connects now, also while it waits for the next attempt. */
    async open() {
        this.#stop();
        this.#closed = false;
        const abort = new AbortController();
        this.#abort = abort;
        this.#tell("connecting");
        let reason;
        try {
            reason = await this.#read(abort);
        } catch {
            reason = "the daemon does not answer";
        }
        if (this.#abort === abort && !this.#closed)
            this.#retryLater(reason);
    }

    close() {
        this.#closed = true;
        this.#stop();
    }

    #stop() {
        this.#options.timers.clear(this.#timer);
        this.#abort?.abort();
        this.#abort = null;
    }

    #tell(state, retryAtMs = 0, reason = "") {
        this.#options.onConnection({ state, retryAtMs, reason });
    }

    /** Reads until the stream ends, and returns the reason. */
    async #read(abort) {
        this.#watch(abort);
        const response = await this.#options.fetch(this.#options.url, {
            headers: { Accept: "text/event-stream" },
            cache: "no-store",
            signal: abort.signal,
        });
        if (!response.ok || !response.body)
            return reasonOf(response);
        const reader = response.body.getReader();
        const decoder = new TextDecoder();
        const parser = new EventParser();
        for (;;) {
            const { done, value } = await reader.read();
            if (abort.signal.aborted || done)
                return "the daemon closed the connection";
            this.#watch(abort);
            for (const event of parser.feed(decoder.decode(value, { stream: true })))
                this.#dispatch(event);
        }
    }

    #dispatch({ name, data }) {
        let parsed;
        try {
            parsed = JSON.parse(data);
        } catch {
            return; // a broken event is left out; the next tick has newer counts
        }
        if (name === "hello") {
            this.#failures = 0;
            this.#tell("open");
        }
        this.#options.onEvent(name, parsed);
    }

    /** Gives up on a connection that is silent: a machine that went away closes nothing. */
    #watch(abort) {
        const { timers } = this.#options;
        timers.clear(this.#timer);
        this.#timer = timers.set(() => {
            if (this.#abort !== abort)
                return;
            abort.abort();
            this.#retryLater(`nothing was received for ${SILENCE_MS / 1000} s`);
        }, SILENCE_MS);
    }

    #retryLater(reason) {
        const { timers, now, random } = this.#options;
        this.#stop();
        const longest = Math.min(RETRY_MAX_MS, FIRST_RETRY_MS * 2 ** this.#failures);
        const wait = Math.round(longest * (0.75 + random() / 4)); // so that many pages do not come at once
        this.#failures = Math.min(this.#failures + 1, 16);
        this.#timer = timers.set(() => void this.open(), wait);
        this.#tell("waiting", now() + wait, reason);
    }
}
