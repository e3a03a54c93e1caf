// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// What each algorithm does, in a few sentences for a reader who has not used a rate limiter before.
// docs/algorithms.md has the exact definitions.

/**
 * @typedef {object} Explanation
 * @property {string} title the name of the algorithm, as a heading
 * @property {string} what how it decides
 * @property {string[]} pros
 * @property {string[]} cons
 * @property {string} use when to choose it
 */

/** @type {Readonly<Record<string, Explanation>>} by the algorithm's name in a policy text */
export const explanations = Object.freeze({
    "token-bucket": {
        title: "Token bucket",
        what: "A bucket holds tokens, and each request takes as many as it costs. " +
            "New tokens arrive at a steady rate until the bucket is full. " +
            "If there are too few tokens, the request is denied and takes none.",
        pros: [
            "The burst and the long-term rate are two separate numbers.",
            "The time until the next allowed request is known exactly.",
            "The state of a key is 8 or 16 bytes, however high the limit is.",
        ],
        cons: [
            "A client that was idle can spend the whole bucket at once.",
            "Two numbers are harder to explain to users than \"100 an hour\".",
        ],
        use: "Use it by default, for APIs and for users who are idle most of the time and then do several " +
            "things at once.",
    },
    "gcra": {
        title: "GCRA",
        what: "The generic cell rate algorithm stores one time, the theoretical arrival time (TAT). " +
            "Each allowed request moves the TAT forward by the interval of the rate. " +
            "A request is denied if its cost would move the TAT more than `burst` intervals ahead of the clock. " +
            "The answers are those of a token bucket with `burst` tokens.",
        pros: [
            "The state is one time stamp: 8 bytes, or 16 if the interval is not a whole number of nanoseconds.",
            "The time until the next allowed request is known exactly.",
            "Without a burst, allowed requests are at least one interval apart.",
        ],
        cons: [
            "With a burst of 1, a client that sends two requests at once is always denied the second.",
            "The TAT is harder to read in a debugger than a count of tokens.",
        ],
        use: "Use it by default. Set `burst` to the number of requests that a normal client sends at once.",
    },
    "leaky-bucket": {
        title: "Leaky bucket",
        what: "Each allowed request pours its cost into a bucket, which leaks at a steady rate. " +
            "A request that would make the bucket overflow is denied. " +
            "The level is the reverse of the tokens in a token bucket, so both give the same answers.",
        pros: [
            "The level shows directly how far a client is ahead of its rate.",
            "The state of a key is 8 or 16 bytes, however high the limit is.",
        ],
        cons: [
            "A client that was idle can fill the whole bucket at once.",
            "The name is also used for the queue, which delays requests instead of denying them.",
        ],
        use: "Use it where a token bucket fits but a level is easier to explain, such as bytes in a buffer.",
    },
    "leaky-queue": {
        title: "Leaky bucket as a queue",
        what: "Requests are served one after another at a steady rate. " +
            "A request that comes too early is held until its turn comes. " +
            "At most `depth` requests can wait. " +
            "A request that arrives when the queue is full is denied.",
        pros: [
            "The service behind it receives an even load, whatever the clients do.",
            "A short burst is served late instead of being denied.",
            "With `nodelay`, the first requests of a burst pass at once, and only the others are held.",
        ],
        cons: [
            "If requests arrive faster than they leave, the queue stays full, and each allowed request " +
            "waits for about the longest delay.",
            "Each waiting request holds a connection and memory of the caller.",
            "Units cannot be refunded, because later requests already have their delays.",
        ],
        use: "Use it before a service that needs an even load. " +
            "Choose a depth so small that your clients accept the longest delay, which is depth / rate.",
    },
    "fixed-window": {
        title: "Fixed window",
        what: "Time is divided into windows of equal length, or into calendar days, weeks, months or years. " +
            "Each window has a counter. " +
            "A request that would raise the counter above the limit is denied until the next window begins.",
        pros: [
            "Users understand it: \"5,000 an hour, reset at the full hour\".",
            "It supports calendar periods in a time zone, also from a billing day such as the 17th.",
            "The state of a key is 8 bytes in most cases.",
        ],
        cons: [
            "Twice the limit can pass within a short time around the boundary of two windows.",
            "Denied clients all return at once when the window ends.",
        ],
        use: "Use it for quotas that people read and plan with, such as a number a day or a month.",
    },
    "sliding-log": {
        title: "Sliding window log",
        what: "The time of every allowed request is stored. " +
            "A request is denied if its cost and the costs of the last period together exceed the limit. " +
            "A stored time expires when it is one period old.",
        pros: [
            "It never allows more than the limit in any window, wherever the window begins.",
            "The time until the next allowed request is known exactly.",
        ],
        cons: [
            "The memory of a key grows with the limit: 12 bytes for each time that still counts.",
            "The times of a burst expire together, so the client can send the next burst one period later.",
        ],
        use: "Use it for rare or expensive events with a low limit, such as logins or text messages.",
    },
    "sliding-counter": {
        title: "Sliding window counter",
        what: "Two counters are kept, for the current and for the previous window. " +
            "The previous one is weighted by how much of its window still overlaps the last period. " +
            "A request is denied if the weighted sum would exceed the limit.",
        pros: [
            "The weighted sum does not jump at a window boundary, as a fixed window's counter does.",
            "The state is at most 16 bytes, however high the limit is.",
        ],
        cons: [
            "It assumes that the previous window's traffic was even. " +
            "If it was not, almost twice the limit can pass, or requests are denied that an exact log allows.",
            "Users cannot easily predict when a request will be allowed; they have to read the response.",
        ],
        use: "Use it for high limits over a period, such as 1,000 in the last minute.",
    },
    "sliding-slices": {
        title: "Sliding window with slices",
        what: "The period is divided into equal slices, and each slice has a counter. " +
            "A request is denied if the sum over the slices of one period, up to the current slice, would " +
            "exceed the limit. " +
            "The oldest slice expires as a whole.",
        pros: [
            "The limit holds in any span that is one slice shorter than the period.",
            "You choose the number of slices: more slices are more exact, and fewer take less memory.",
        ],
        cons: [
            "Within a whole period, up to twice the limit can pass.",
            "Each key takes 16 bytes, and 4 more for each slice.",
            "Quota returns in steps, one slice at a time.",
        ],
        use: "Use it where a sliding counter is too inexact and a log would take too much memory.",
    },
    "block": {
        title: "Block",
        what: "If another layer denies a request, the key is blocked for a fixed time, and every request is denied. " +
            "Requests during a block count nowhere and do not make it longer. " +
            "With `doubling`, a block that begins soon after the last one is twice as long.",
        pros: [
            "A client that guesses passwords gets a few attempts in each block, however often it tries.",
            "The block ends on time even if the client never stops.",
            "The state takes 8 bytes, or 16 with doubling.",
        ],
        cons: [
            "A client that exceeds the limit once, by mistake, has to wait for the whole block.",
            "It needs another layer, which decides when a block begins.",
        ],
        use: "Use it for logins and other rare events where one request over the limit is a sign of abuse.",
    },
    "concurrent": {
        title: "Requests in flight",
        what: "A request holds its units until it is done and gives them back, or until its lease ends. " +
            "A request is denied if the units that are held and its cost together exceed the limit. " +
            "Here nothing is given back: each request holds its units for the whole lease.",
        pros: [
            "It limits what a service works on at the same time, however long a request takes.",
            "A client that crashes keeps its units only until its lease ends.",
        ],
        cons: [
            "Each client must give its units back, and renew a lease that is too short.",
            "It does not limit a rate: short requests pass as fast as they are done.",
        ],
        use: "Use it for connections, jobs and slow requests, together with a rate if needed.",
    },
});

/**
 * @param {string} algorithm the name in a policy text
 * @returns {Explanation | null} null if the name is unknown
 */
export function explain(algorithm) {
    return Object.hasOwn(explanations, algorithm) ? explanations[algorithm] : null;
}
