/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: lines of access logs. The first byte selects the format, the rest is the line.
 * The fields of a record are in range, and an access-log key points into the line. An error writes
 * no record and has a column within the line. CR LF at the end changes nothing. A record that is
 * written as tsv is read back unchanged. */

#include "fuzz.h"

#include "codec/logline.h"

#include <stdio.h>

static weir_logline_format format_of(uint8_t choice)
{
    static const char *const kinds[] = {"common", "combined",     "tsv",
                                        "jsonl",  "vhost_common", "vhost_combined"};
    const char *kind = kinds[choice % 8 % 6];
    weir_logline_format f;
    unsigned field = choice / 8 % 16;
    const char *key = weir_logline_field_name((weir_logline_field)field);
    const char *cost = choice & 128 ? "bytes" : NULL;
    weir_status st = weir_logline_format_init(&f, kind, NULL, NULL);
    CHECK(st == WEIR_OK);
    if (f.kind == WEIR_LOGLINE_JSONL)
        st = weir_logline_format_init(&f, kind, choice & 8 ? "user" : NULL, cost);
    else if (weir_logline_has(f.kind, (weir_logline_field)field))
        st = weir_logline_format_init(&f, kind, key, cost);
    CHECK(st == WEIR_OK);
    return f;
}

static void tsv_round_trip(const weir_log_record *r)
{
    if (memchr(r->key, '\t', r->key_len) || memchr(r->key, '\n', r->key_len))
        return;
    weir_logline_format tsv = format_of(2);
    char *line = malloc(r->key_len + 64);
    size_t n = (size_t)sprintf(line, "%lld\t", (long long)r->t_ns);
    memcpy(line + n, r->key, r->key_len);
    n += r->key_len;
    n += (size_t)sprintf(line + n, "\t%lld", (long long)r->cost);
    weir_log_record again = {0};
    weir_logline_error e;
    CHECK(weir_logline_read(&tsv, line, n, &again, &e) == WEIR_OK);
    CHECK(again.t_ns == r->t_ns && again.cost == r->cost && again.key_len == r->key_len);
    CHECK(memcmp(again.key, r->key, r->key_len) == 0);
    free(line);
}

static void same_with_crlf(const weir_logline_format *f, const char *line, size_t len,
                           weir_status want, const weir_log_record *r)
{
    char *longer = malloc(len + 2);
    memcpy(longer, line, len);
    memcpy(longer + len, "\r\n", 2);
    weir_log_record again = {0};
    weir_logline_error e;
    CHECK(weir_logline_read(f, longer, len + 2, &again, &e) == want);
    CHECK(want != WEIR_OK ||
          (again.t_ns == r->t_ns && again.cost == r->cost && again.key_len == r->key_len));
    weir_log_record_free(&again);
    free(longer);
}

/* With a virtual host in front, a common line is a vhost_common line of the same client, and is not
 * a common line. */
static void behind_vhost(const weir_logline_format *f, const char *line, size_t len,
                         const weir_log_record *r)
{
    static const char vhost[] = "v.example:443 ";
    if (f->kind != WEIR_LOGLINE_COMMON || (len >= 2 && line[0] == '-' && line[1] == ' '))
        return;
    const char *ident = memchr(line, ' ', len);
    const char *user = ident ? memchr(ident + 1, ' ', len - (size_t)(ident + 1 - line)) : NULL;
    if (!user ||
        user[1] == '[') /* the line may lack a field, which the virtual host would supply */
        return;
    weir_logline_format longer_format = *f;
    longer_format.kind = WEIR_LOGLINE_VHOST_COMMON;
    char *longer = malloc(sizeof vhost - 1 + len);
    memcpy(longer, vhost, sizeof vhost - 1);
    memcpy(longer + sizeof vhost - 1, line, len);
    weir_log_record again = {0};
    weir_logline_error e;
    CHECK(weir_logline_read(&longer_format, longer, sizeof vhost - 1 + len, &again, &e) == WEIR_OK);
    CHECK(again.t_ns == r->t_ns && again.cost == r->cost && again.key_len == r->key_len);
    CHECK(memcmp(again.key, r->key, r->key_len) == 0);
    CHECK(weir_logline_read(f, longer, sizeof vhost - 1 + len, &again, &e) == WEIR_E_SYNTAX);
    free(longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || memchr(data, '\n', size))
        return 0;
    weir_logline_format f = format_of(data[0]);
    size_t len = size - 1;
    char *line = exact_copy(data + 1, len);
    weir_log_record r = {.t_ns = -9, .cost = -9};
    weir_logline_error e;
    weir_status st = weir_logline_read(&f, line, len, &r, &e);
    if (st == WEIR_OK) {
        CHECK(r.t_ns >= 0 && r.t_ns <= WEIR_NOW_NS_MAX && r.cost >= 0);
        CHECK(r.key_len >= 1 && r.key_len <= WEIR_LOGLINE_KEY_LEN_MAX);
        CHECK(f.kind == WEIR_LOGLINE_JSONL || (r.key >= line && r.key + r.key_len <= line + len));
        tsv_round_trip(&r);
        behind_vhost(&f, line, len, &r);
    } else {
        char text[400];
        CHECK(st == WEIR_E_SYNTAX || st == WEIR_E_RANGE);
        CHECK(e.column >= 1 && e.column <= len + 1);
        CHECK(r.t_ns == -9 && r.cost == -9 && !r.key);
        weir_logline_error_text(&e, text, sizeof text);
        CHECK(strncmp(text, "column ", 7) == 0);
    }
    if (len == 0 || line[len - 1] != '\r')
        same_with_crlf(&f, line, len, st, &r);
    weir_log_record_free(&r);
    free(line);
    return 0;
}
