/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOGLINE_H
#define WEIR_CODEC_LOGLINE_H
/* Parses a line of an access log into a time, a key and a cost, for `weir replay`.
 *
 *     weir_logline_format f;
 *     weir_logline_format_init(&f, "combined", "path", NULL);
 *     weir_log_record r = {0};
 *     weir_logline_error e;
 *     for each line: if (weir_logline_read(&f, line, len, &r, &e) == WEIR_OK) use(&r);
 *     weir_log_record_free(&r);
 *
 *   common    host ident user [01/Aug/1995:02:00:04 -0400] "GET /a HTTP/1.0" 200 1713
 *   combined  the same with "referer" "agent" at the end; more fields may follow
 *   vhost_common, vhost_combined
 *             the same with the virtual host in front: "example.org host ..." or with a port,
 *             "example.org:443 host ..."
 *   tsv       t_ns TAB key [TAB cost]
 *   jsonl     {"t_ns": 0, "key": "a", "cost": 1}, or "time": "2026-01-02T03:04:05.5Z" for "t_ns"
 *
 * This module does not know files or policies. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "port/buffer.h"

#define WEIR_LOGLINE_KEY_LEN_MAX 65536

typedef enum weir_logline_kind {
    WEIR_LOGLINE_COMMON,
    WEIR_LOGLINE_COMBINED,
    WEIR_LOGLINE_VHOST_COMMON,
    WEIR_LOGLINE_VHOST_COMBINED,
    WEIR_LOGLINE_TSV,
    WEIR_LOGLINE_JSONL
} weir_logline_kind;

/* The fields of the four access-log kinds, in the order of the line. */
typedef enum weir_logline_field {
    WEIR_LOGLINE_VHOST, /* vhost_common and vhost_combined only; with its port */
    WEIR_LOGLINE_HOST,
    WEIR_LOGLINE_IDENT,
    WEIR_LOGLINE_USER,
    WEIR_LOGLINE_METHOD,
    WEIR_LOGLINE_PATH, /* the URI up to its '?' */
    WEIR_LOGLINE_URI,
    WEIR_LOGLINE_PROTOCOL,
    WEIR_LOGLINE_STATUS,
    WEIR_LOGLINE_BYTES,
    WEIR_LOGLINE_REFERER, /* combined and vhost_combined only */
    WEIR_LOGLINE_AGENT,   /* combined and vhost_combined only */
    WEIR_LOGLINE_FIELDS   /* the number of fields; in weir_logline_format.cost: each line costs 1 */
} weir_logline_field;

typedef struct weir_logline_format {
    weir_logline_kind kind;
    weir_logline_field key;  /* access logs */
    weir_logline_field cost; /* access logs */
    const char *key_name;    /* jsonl: the member that is the key */
    const char *cost_name;   /* jsonl: the member that is the cost */
    bool cost_optional;      /* jsonl: a line without that member costs 1 */
} weir_logline_format;

typedef struct weir_log_record {
    int64_t t_ns;     /* 0..WEIR_NOW_NS_MAX */
    const char *key;  /* points into the line; for jsonl into `area`, valid until the next read */
    size_t key_len;   /* 1..WEIR_LOGLINE_KEY_LEN_MAX */
    int64_t cost;     /* 0..INT64_MAX; larger costs become INT64_MAX. May exceed WEIR_COST_MAX */
    weir_buffer area; /* private; zeroed by the caller before the first read */
} weir_log_record;

typedef struct weir_logline_error {
    size_t column;        /* in bytes, from 1: where the expected text should begin */
    const char *expected; /* a static string: "'[' and a time like ..." */
    char detail[96];      /* jsonl: the message of the JSON parser, or the member's name; else "" */
    bool key_absent;      /* jsonl: the only error is that the member for the key is missing */
} weir_logline_error;

/* The name of a field; NULL for WEIR_LOGLINE_FIELDS and above. */
const char *weir_logline_field_name(weir_logline_field field);

/* Whether lines of this kind have the field. */
bool weir_logline_has(weir_logline_kind kind, weir_logline_field field);

/* Sets up a format from the arguments of a command line.
 *  kind  "common", "combined", "vhost_common", "vhost_combined", "tsv" or "jsonl".
 *  key   a field's name (default "host"); for jsonl a member's name (default "key"), which must
 *        outlive *ret. NULL for the default.
 *  cost  a field's name, whose value '-' costs 0; for jsonl a member's name, which every line must
 *        then have. With NULL a line costs 1, or for jsonl the member "cost" if it has one.
 *  ret   written only on WEIR_OK.
 * Returns WEIR_OK; WEIR_E_SYNTAX for an unknown kind or field; WEIR_E_UNSUPPORTED for a field that
 * the kind does not have, see weir_logline_has(). */
WEIR_NODISCARD weir_status weir_logline_format_init(weir_logline_format *ret, const char *kind,
                                                    const char *key, const char *cost);

/* Parses one line.
 *  line       `len` bytes, with or without its LF or CR LF; no other LF.
 *  ret        zeroed before the first call. t_ns, key, key_len and cost are written only on
 *             WEIR_OK. In access logs the key is the raw text of the field: escapes are not
 *             decoded, and "-" is an ordinary key. For jsonl a number or a boolean is a key, too:
 *             its JSON text (1.50 is "1.5"). An integer of any size keeps its digits.
 *  ret_error  written unless WEIR_OK.
 * Returns WEIR_OK; WEIR_E_SYNTAX for a missing or invalid field; WEIR_E_RANGE for a time outside
 * 1970..WEIR_NOW_NS_MAX, a key longer than WEIR_LOGLINE_KEY_LEN_MAX, or a JSON cost below 0;
 * WEIR_E_NOMEM (only for jsonl, the only kind that allocates).
 *
 * A line of another access-log kind is WEIR_E_SYNTAX, so that a virtual host is never taken for the
 * client. common and combined refuse a line whose second field is an address, and a line with one
 * field too many before the time that begins with a virtual host. The vhost kinds refuse a line
 * whose second field is '-'. All of them refuse a line that begins with a list of addresses.
 *
 * An access-log line needs only the client, the time and the requested fields: a malformed request
 * still has a client. The closing quote of the request is the first unescaped quote that a status
 * follows, since old servers did not escape quotes. Times are parsed by logtime.h.
 * Threads: pure but for `ret`.
 * Source: Apache mod_log_config, "Common Log Format"; RFC 3339 section 5.6. */
WEIR_NODISCARD weir_status weir_logline_read(const weir_logline_format *format, const char *line,
                                             size_t len, weir_log_record *ret,
                                             weir_logline_error *ret_error);

/* Writes "column 1: expected ..." with a NUL to `ret`, cut to `size` bytes, at least 1. */
void weir_logline_error_text(const weir_logline_error *error, char *ret, size_t size);

/* Frees the memory of a record and zeroes it. */
void weir_log_record_free(weir_log_record *r);

#endif
