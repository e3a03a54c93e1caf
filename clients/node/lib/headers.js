// SPDX-License-Identifier: BSD-2-Clause
// The headers of a response, as docs/headers.md describes them. The replies have no window, so no header has a `w`.
'use strict';
const { mistake } = require('./errors.js');

const seconds = (ms) => Math.ceil(ms / 1000);

// The wait that a client needs to know, in ms: until this request is allowed, or the next one, or until the full limit
// is available. -1: no wait helps.
function waitOf({ allowed, retryAfterMs, remaining, nextMs, resetAfterMs }) {
  if (!allowed) return retryAfterMs;
  return remaining === 0 && nextMs !== undefined ? nextMs : resetAfterMs;
}

// A string of RFC 9651.
const quoted = (name) => `"${name.replace(/[^ -~]/g, '?').replace(/["\\]/g, '\\$&')}"`;

const FLAVOURS = {
  'draft-6': ({ limit, remaining }, wait) => ({
    'RateLimit-Policy': `${limit}`,
    'RateLimit-Limit': `${limit}`,
    'RateLimit-Remaining': `${remaining}`,
    ...(wait >= 0 && { 'RateLimit-Reset': `${seconds(wait)}` }),
  }),
  'draft-7': ({ limit, remaining }, wait) => ({
    'RateLimit-Policy': `${limit}`,
    RateLimit: `limit=${limit}, remaining=${remaining}${wait >= 0 ? `, reset=${seconds(wait)}` : ''}`,
  }),
  'draft-8': ({ limit, remaining }, wait, name) => ({
    'RateLimit-Policy': `${quoted(name)};q=${limit}`,
    RateLimit: `${quoted(name)};r=${remaining}${wait >= 0 ? `;t=${seconds(wait)}` : ''}`,
  }),
};

// X-RateLimit-Reset is a time in seconds since 1970, as in express-rate-limit.
const legacy = ({ limit, remaining, resetAfterMs }) => ({
  'X-RateLimit-Limit': `${limit}`,
  'X-RateLimit-Remaining': `${remaining}`,
  'X-RateLimit-Reset': `${seconds(Date.now() + resetAfterMs)}`,
});

// Returns a function that makes the headers of a decision. `true` stands for draft-6, as in express-rate-limit.
function headersOf(standardHeaders, legacyHeaders) {
  const flavour = standardHeaders === true ? 'draft-6' : standardHeaders;
  if (flavour !== false && !FLAVOURS[flavour]) {
    mistake('standardHeaders', "'draft-6', 'draft-7', 'draft-8' or false", standardHeaders);
  }
  return (decision, name) => {
    if (decision.reason === 'on-error') return {};
    const { allowed, retryAfterMs } = decision;
    return {
      ...(flavour && FLAVOURS[flavour](decision, waitOf(decision), name)),
      ...(legacyHeaders && legacy(decision)),
      ...(!allowed && retryAfterMs >= 0 && { 'Retry-After': `${seconds(retryAfterMs)}` }),
    };
  };
}

module.exports = { headersOf };
