/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_CLIENT_H
#define WEIR_WEIR_CLIENT_H
/* What the packages in clients/ need of weir beside its public headers: time zones, header fields,
 * addresses as keys, policies with names, and figures. `make clients-dist` adds it to the
 * amalgamated library of the packages. It is no part of libweir, and may change with each
 * release. */

#include <weir/weir_store.h>

/* The time zones of the system, for weir_policy_parse(). They are read once, and never freed.
 * Returns zones without `find` if memory is exhausted: then only UTC is known. The first call must
 * not run beside another one. */
weir_zones weir_client_zones(void);

/* ---- policies -------------------------------------------------------------------------------- */

typedef struct weir_client_ids {
    uint64_t id;    /* for weir_store_current_id(), with `group` */
    uint64_t group; /* for weir_store_reset_policy() */
} weir_client_ids;

#define WEIR_CLIENT_NAME_EXPECTED                                                                  \
    "the name of a policy: expected 1 to 64 letters, digits and - _ . : /"

/* Finds the ids under which a store has the states of a policy. With a name, they are those that
 * `weir serve` uses for its policy of this name and this text, and keys keep what they used when
 * the policy of a name changes. Call it again when the store was opened again.
 *  name  ends with a zero byte after name_len; empty: the ids are those of the text.
 * Returns WEIR_OK; WEIR_E_SYNTAX if the daemon would refuse the name; WEIR_E_NOMEM. Any thread. */
WEIR_NODISCARD weir_status weir_client_ids_of(weir_store *s, const weir_policy *p, const char *name,
                                              size_t name_len, weir_client_ids *ret);

/* ---- header fields --------------------------------------------------------------------------- */

/* Reads the names of header flavours, separated by commas: "ietf,x-ratelimit". docs/headers.md
 * describes them.
 *  ret_error  written on failure: what was expected; static or in thread-local memory.
 * Returns a set for weir_client_lines(), or 0. */
unsigned weir_client_headers(const char *names, size_t len, const char **ret_error);

#define WEIR_CLIENT_LINES_MAX 8192

/* Writes the header fields of a decision as lines of HTTP/1.1, each with its CR LF.
 *  headers  from weir_client_headers().
 *  name     of the policy, 0..64 bytes of letters, digits and - _ . : / ; empty: "limit".
 *  p        NULL: unknown. Then the fields have no window and no number of a layer.
 *  next_ns  with nothing remaining: the time until a cost of 1 is allowed; INT64_MAX: never; -1:
 *           unknown.
 *  buf      WEIR_CLIENT_LINES_MAX bytes.
 * Returns the length. Pure. */
size_t weir_client_lines(unsigned headers, const char *name, size_t name_len, const weir_policy *p,
                         const weir_decision *d, int64_t next_ns, int64_t now_ns, char *buf);

/* ---- keys and figures ------------------------------------------------------------------------ */

#define WEIR_CLIENT_KEY_MAX 48

/* Writes the key that an IP address is counted under, as the daemon does: an IPv6 address becomes
 * its network of `v6_bits`, and an IPv4-mapped one the IPv4 address.
 *  v6_bits  1..128.
 *  buf      WEIR_CLIENT_KEY_MAX bytes.
 * Returns the length; 0 if the text is not an address. Pure. */
size_t weir_client_key(const char *text, size_t len, unsigned v6_bits, char *buf);

/* Reads what the state of a layer counts; see weir_store_peek() for the arguments and statuses.
 *  ret  the units of the current window, those of the window before, and its start in ns; each -1
 *       if the layer has none. Written on WEIR_OK. */
WEIR_NODISCARD weir_status weir_client_figures(weir_store *s, const weir_policy *p,
                                               uint64_t policy_id, const void *key, size_t key_len,
                                               int64_t now_ns, uint32_t layer, int64_t ret[3]);

#endif
