// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The chat at the beginning of the guide: what the people and the spammer of its scene write. Each request is
// a message. Without a limiter all of them appear, and with one those that the policy allows.

export const SPAMMER = "spammer";
export const READER = "you";

const TALK = ["Hi all!", "Good morning", "Who is here?", "I am", "Me too", "Lunch at noon?", "Yes, please",
    "Pizza?", "Soup for me", "The new place?", "Good idea", "Where is it?", "By the station", "I know it",
    "See you there", "Is it raining?", "A little", "Bring a coat", "On my way", "Save me a seat", "Sure",
    "Who has cash?", "I have", "Thanks!", "Almost there", "The red door?", "Yes, red", "I see you",
    "Come in", "Smells great"];
const SPAM = ["WIN CASH!", "Click here!", "FREE COINS", "You won!!!", "BUY NOW!", "Last call!"];
const OWN = ["Hello!", "Can you read this?", "One more", "And another"];

/**
 * @typedef {object} Message
 * @property {number} index of its request
 * @property {string} name who sent it
 * @property {string} text
 * @property {boolean} allowed
 * @property {number} retryNs how long its sender has to wait after a denial
 */

/**
 * Returns the messages of a world until now.
 * @param {any} world of web/model/world.mjs, whose first lane is the limiter
 * @returns {Message[]}
 */
export function messagesOf(world) {
    const { names, keys } = world.traffic;
    const said = new Map(); // how many messages of each list were said
    return Array.from({ length: world.index }, (_, index) => {
        const name = names[keys[index]];
        const lines = name === SPAMMER ? SPAM : name === READER ? OWN : TALK;
        const n = said.get(lines) ?? 0;
        said.set(lines, n + 1);
        const { allowed, retryNs } = world.lanes[0].event(index);
        return { index, name, text: lines[n % lines.length], allowed, retryNs };
    });
}

/**
 * Counts what a chat shows.
 * @param {Message[]} messages
 * @returns {{all: number, spam: number, text: string}}
 */
export function countSpam(messages) {
    const spam = messages.filter(({ name }) => name === SPAMMER).length;
    return { all: messages.length, spam, text: `${spam} of ${messages.length} messages are spam` };
}
