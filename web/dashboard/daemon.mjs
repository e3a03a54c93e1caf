// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Requests to the daemon's HTTP API (docs/http.md), from a page that the daemon serves.

const TIMEOUT_MS = 10000;

/** The daemon refused a request, or did not answer: then `status` is 0. */
class DaemonError extends Error {
    constructor(status, message) {
        super(message);
        this.name = "DaemonError";
        this.status = status;
    }
}

/** What the daemon says of a request that it refused; "" if it says nothing. */
export async function detailOf(response) {
    try {
        const { detail, title } = await response.json();
        return detail || title || "";
    } catch {
        return "";
    }
}

async function messageOf(response) {
    if (response.status === 401)
        return "The daemon refused the password. Reload the page to enter it again.";
    return (await detailOf(response)) || `The daemon answered with the status ${response.status}.`;
}

async function call(method, path, params) {
    let response;
    try {
        // The path is relative, so that the page also works below a path of a proxy.
        response = await fetch(`v1/${path}?${new URLSearchParams(params)}`, {
            method,
            cache: "no-store",
            signal: AbortSignal.timeout(TIMEOUT_MS),
        });
    } catch {
        throw new DaemonError(0, "The daemon does not answer.");
    }
    if (!response.ok && response.status !== 429)
        // 429 is a denial, which is an answer
        throw new DaemonError(response.status, await messageOf(response));
    try {
        return path === "explain" ? await response.text() : await response.json();
    } catch {
        throw new DaemonError(0, "The daemon's answer was cut off.");
    }
}

export const daemon = {
    history: () => call("GET", "history", {}),
    /**
     * @param {string} policy
     * @param {"denied" | "allowed"} of
     * @param {number} k
     */
    top: (policy, of, k) => call("GET", "top", { policy, of, k }),
    peek: (policy, key) => call("GET", "peek", { policy, key, cost: 0 }),
    /** @returns {Promise<string>} */
    explain: (policy, key) => call("GET", "explain", { policy, key }),
    reset: (policy, key) => call("POST", "reset", { policy, key }),
    shadow: (policy, shadow) => call("POST", "shadow", { policy, shadow }),
    /** @param {string} limit a policy text; "" removes the candidate */
    candidate: (policy, limit) => call("POST", "candidate", { policy, limit }),
};
