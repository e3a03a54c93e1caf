// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Keys that are IP addresses, as the daemon and `weir replay` read them (docs/policy.md): all addresses of an
// IPv6 /64 are one key, and an IPv4-mapped address is the IPv4 address.

const GROUPS = 8;
const NET_GROUPS = 4; // a /64

/** Returns the four octets of a dotted address without leading zeros, or null. */
function octetsOf(text) {
    const parts = text.split(".");
    const isOctet = (part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256;
    return parts.length === 4 && parts.every(isOctet) ? parts.map(Number) : null;
}

/** Returns the 16-bit groups of a part of an IPv6 address, of which only the last may be dotted; or null. */
function groupsOf(text, last) {
    if (text === "")
        return [];
    const parts = text.split(":"), groups = [];
    for (let i = 0; i < parts.length; i++) {
        const octets = last && i === parts.length - 1 && parts[i].includes(".") ? octetsOf(parts[i]) : null;
        if (octets)
            groups.push(octets[0] * 256 + octets[1], octets[2] * 256 + octets[3]);
        else if (/^[0-9a-fA-F]{1,4}$/.test(parts[i]))
            groups.push(parseInt(parts[i], 16));
        else
            return null;
    }
    return groups;
}

/** Returns the 8 groups of an IPv6 address, or null. */
function parseV6(text) {
    const halves = text.split("::");
    if (halves.length > 2)
        return null;
    const head = groupsOf(halves[0], halves.length === 1), tail = groupsOf(halves[1] ?? "", true);
    if (!head || !tail)
        return null;
    const missing = GROUPS - head.length - tail.length;
    if (halves.length === 1 ? missing !== 0 : missing < 1)
        return null;
    return [...head, ...new Array(missing).fill(0), ...tail];
}

/** Prints a network in canonical form (RFC 5952). Its second half is the end of the longest run of zeros. */
function printNet(groups) {
    let length = NET_GROUPS;
    while (length > 0 && groups[length - 1] === 0)
        length--;
    const hex = groups.slice(0, length).map((group) => group.toString(16));
    return `${hex.join(":")}::/64`;
}

/**
 * Returns the name of the key that an address belongs to: an IPv4 address, or an IPv6 /64 in canonical form.
 * Any other text is returned unchanged.
 * @param {string} key
 * @returns {string}
 */
export function keyOfAddress(key) {
    if (key.length < 2 || key.length > 45 || !/^[0-9a-fA-F:]/.test(key))
        return key;
    if (!key.includes(":"))
        return key; // a valid IPv4 address has only one spelling
    const groups = parseV6(key);
    if (!groups)
        return key;
    if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff)
        return [groups[6] >> 8, groups[6] & 255, groups[7] >> 8, groups[7] & 255].join(".");
    return printNet(groups);
}
