/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOGLINE_H
#define WEIR_CODEC_LOGLINE_H
/* One line of an access log -> when, which key, what cost; for `weir replay`.
 *
 *     weir_logline_format f;
 *     weir_logline_format_init(&f, "combined", "path", NULL);
 *     weir_log_record r = {0};
 *     weir_logline_error e;
 *     for each line: if (weir_logline_read(&f, line, len, &r, &e) == WEIR_OK) use(&r);
 *     weir_log_record_free(&r);
 *
 *   common    host ident user [01/Aug/1995:02:00:04 -0400] "GET /a HTTP/1.0" 200 1713
 *   combined  the same, then "referer" "agent"; more fields may follow
 *   vhost_common, vhost_combined
 *             the same behind the virtual host, with or without a port: "example.org:443 host ..."
 *   tsv       t_ns TAB key [TAB cost]
 *   jsonl     {"t_ns": 0, "key": "a", "cost": 1}, or "time": "2026-01-02T03:04:05.5Z" for "t_ns"
 *
 * It must not know where lines come from, nor what a policy is. */

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

/* What a line of the four access-log kinds has, in the order of the line. */
typedef enum weir_logline_field {
    WEIR_LOGLINE_VHOST, /* vhost_common and vhost_combined only; with its port */
    WEIR_LOGLINE_HOST,
    WEIR_LOGLINE_IDENT,
    WEIR_LOGLINE_USER,
    WEIR_LOGLINE_METHOD,
    WEIR_LOGLINE_PATH, /* the uri up to its '?' */
    WEIR_LOGLINE_URI,
    WEIR_LOGLINE_PROTOCOL,
    WEIR_LOGLINE_STATUS,
    WEIR_LOGLINE_BYTES,
    WEIR_LOGLINE_REFERER, /* combined and vhost_combined only */
    WEIR_LOGLINE_AGENT,   /* combined and vhost_combined only */
    WEIR_LOGLINE_FIELDS   /* how many there are; as a cost: none, every line costs 1 */
} weir_logline_field;

typedef struct weir_logline_format {
    weir_logline_kind kind;
    weir_logline_field key;  /* access logs */
    weir_logline_field cost; /* access logs */
    const char *key_name;    /* jsonl: the member that is the key */
    const char *cost_name;   /* jsonl: the member that is the cost */
    bool cost_optional;      /* jsonl: without that member a line costs 1 */
} weir_logline_format;

typedef struct weir_log_record {
    int64_t t_ns;     /* 0..WEIR_NOW_NS_MAX */
    const char *key;  /* in the line; for jsonl in `area`, and good until the next read */
    size_t key_len;   /* 1..WEIR_LOGLINE_KEY_LEN_MAX */
    int64_t cost;     /* 0..INT64_MAX, which also stands for all above; so mind WEIR_COST_MAX */
    weir_buffer area; /* private; all zero at the start */
} weir_log_record;

typedef struct weir_logline_error {
    size_t column;        /* bytes, from 1; where the expected thing should have begun */
    const char *expected; /* static: "'[' and a time like ..." */
    char detail[96];      /* jsonl: what the JSON reader said, or the member's name; else "" */
    bool key_absent;      /* jsonl: all is well but that the member that is the key is not there */
} weir_logline_error;

/* The names of the fields, in the order of weir_logline_field; NULL beyond the last. */
const char *weir_logline_field_name(weir_logline_field field);

/* Whether lines of a kind have a field. */
bool weir_logline_has(weir_logline_kind kind, weir_logline_field field);

/* Makes a format from the words of a command line.
 *  kind  "common", "combined", "vhost_common", "vhost_combined", "tsv" or "jsonl".
 *  key   NULL for the default; a field's name (default "host"), or for jsonl a member's name
 *        (default "key"; must outlive *ret).
 *  cost  NULL for the default, 1; a field's name, where '-' counts 0; or for jsonl a member's name,
 *        which every line must then have (default "cost", which a line may lack).
 *  ret   written only on WEIR_OK.
 * Returns WEIR_OK; WEIR_E_SYNTAX if `kind` or a field is no such word; WEIR_E_UNSUPPORTED for a
 * field that the kind does not have, see weir_logline_has(). */
WEIR_NODISCARD weir_status weir_logline_format_init(weir_logline_format *ret, const char *kind,
                                                    const char *key, const char *cost);

/* Reads one line.
 *  line       `len` bytes, with or without its LF or CR LF; no other LF.
 *  ret        zeroed before the first call. Its t_ns, key, key_len and cost are written only on
 *             WEIR_OK. In access logs the key is the raw text of the field: escapes stay as they
 *             are, and "-" is a key like any other. For jsonl a number or boolean is a key
 *             too, by its JSON text (1.50 is "1.5"), and an integer of any size as it stands.
 *  ret_error  written unless WEIR_OK.
 * Returns WEIR_OK; WEIR_E_SYNTAX if something is not there or not what it should be; WEIR_E_RANGE
 * for a time outside 1970..WEIR_NOW_NS_MAX, a key longer than WEIR_LOGLINE_KEY_LEN_MAX, or a JSON
 * cost below 0; WEIR_E_NOMEM (jsonl only, the only kind that allocates).
 * A line whose first fields belong to another kind is WEIR_E_SYNTAX, so that a virtual host is
 * never read as the client. In common and combined these are lines whose second field is an
 * address, and lines with a field too many before the time that begin with a virtual host; in the
 * vhost kinds, lines whose second field is '-'; in all of them, lines that begin with a list of
 * addresses.
 * Of an access-log line only these, the time and the fields asked for need be there: a request that
 * is garbage still has a host. Its closing quote is the first unescaped one with a status behind
 * it, since old servers did not escape quotes. Times are as logtime.h reads them.
 * Threads: pure but for `ret`.
 * Source: Apache mod_log_config, "Common Log Format"; RFC 3339 section 5.6. */
WEIR_NODISCARD weir_status weir_logline_read(const weir_logline_format *format, const char *line,
                                             size_t len, weir_log_record *ret,
                                             weir_logline_error *ret_error);

/* Writes "column 1: expected ..." and its NUL to `ret`, cut to `size` bytes, size >= 1. */
void weir_logline_error_text(const weir_logline_error *error, char *ret, size_t size);

/* Gives back what reads of jsonl allocated, and zeroes `r`. */
void weir_log_record_free(weir_log_record *r);

#endif
