// SPDX-License-Identifier: BSD-2-Clause
// IP addresses as keys, as docs/policy.md defines them.
'use strict';
const { isIPv4, isIPv6 } = require('node:net');

// The eight groups of a valid IPv6 address, as numbers.
function groupsOf(address) {
  const [head, tail] = address
    .replace(/[\d.]+$/, (end) => {
      if (!end.includes('.')) return end;
      const [a, b, c, d] = end.split('.').map(Number);
      return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
    })
    .split('::')
    .map((part) => (part ? part.split(':').map((group) => parseInt(group, 16)) : []));
  return tail ? [...head, ...Array(8 - head.length - tail.length).fill(0), ...tail] : head;
}

// Clears all bits but the first `bits`, of words of `width` bits.
const network = (words, width, bits) =>
  words.map((word, i) => {
    const cleared = Math.min(width, Math.max(0, width * (i + 1) - bits));
    return Math.floor(word / 2 ** cleared) * 2 ** cleared;
  });

function v4Key(bytes, bits) {
  const text = network(bytes, 8, bits).join('.');
  return bits === 32 ? text : `${text}/${bits}`;
}

// Returns the key of an IP address: the network of an IPv6 address, all of an IPv4 address, and any other text
// as it is. An IPv4-mapped address is the key of its IPv4 address.
function ipKey(address, v6 = 64, v4 = 32) {
  if (!address.includes(':')) {
    return v4 < 32 && isIPv4(address) ? v4Key(address.split('.').map(Number), v4) : address;
  }
  if (address.includes('%') || !isIPv6(address)) return address;
  const groups = groupsOf(address);
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    return v4Key([groups[6] >> 8, groups[6] & 255, groups[7] >> 8, groups[7] & 255], v4);
  }
  const words = network(groups, 16, v6).map((group) => group.toString(16));
  const text = new URL(`http://[${words.join(':')}]`).hostname.slice(1, -1); // in its shortest form
  return v6 === 128 ? text : `${text}/${v6}`;
}

module.exports = { ipKey };
