/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: lines of access logs. The first two bytes select the format and the options,
 * the rest is the lines. The fields of a record are in range. An error writes no record and has a
 * column within the line. CR LF at the end changes nothing. A record that is written as tsv is read
 * back unchanged. */

#include "fuzz.h"

#include "accesslog/formats/logline.h"

#include <stdio.h>

static const char *const formats[] = {
    NULL,  "common", "combined", "vhost_common", "vhost_combined", "nginx-json", "caddy",
    "tsv", "csv",    "traefik",  "envoy",        "haproxy",        "alb",        "jsonl",
};
enum { TSV = 7 };
static const char *const keys[] = {
    NULL,  "path",      "user",     "$client/48 $uri[2]", "${client/24/64}-$$",
    "key", "$http_x_a", "${a.b[1]}"};
static const char *const costs[] = {NULL, "bytes", "n", "status"};
static const char *const times[] = {NULL, "n", "a.b_ms"};
static const char *const filters[] = {NULL, "status=2*|404", "bytes>=10 path!=/x*", "key=*a*b"};

enum { FORMATS = sizeof formats / sizeof formats[0] };

static weir_logline_reader *open_reader(uint8_t format, uint8_t options)
{
    const char *const *where = &filters[options / 32 % 4];
    weir_logline_options o = {.format = formats[format % FORMATS],
                              .key = keys[options % 8],
                              .time = times[options % 3],
                              .cost = costs[options / 8 % 4],
                              .where = where,
                              .wheres = *where != NULL};
    weir_logline_reader *r = NULL;
    weir_logline_error e;
    weir_status st = weir_logline_open(&r, &o, &e);
    if (st != WEIR_OK) {
        CHECK(!r && e.option);
        o = (weir_logline_options){.format = o.format};
        CHECK(weir_logline_open(&r, &o, &e) == WEIR_OK);
    }
    return r;
}

static void tsv_round_trip(const weir_log_record *r)
{
    if (memchr(r->key, '\t', r->key_len) || memchr(r->key, '\n', r->key_len))
        return;
    weir_logline_reader *tsv = open_reader(TSV, 0);
    char *line = malloc(r->key_len + 64);
    size_t n = (size_t)sprintf(line, "%lld\t", (long long)r->t_ns);
    memcpy(line + n, r->key, r->key_len);
    n += r->key_len;
    n += (size_t)sprintf(line + n, "\t%lld", (long long)r->cost);
    weir_log_record again = {0};
    weir_logline_error e;
    CHECK(weir_logline_read(tsv, line, n, &again, &e) == WEIR_LOGLINE_REQUEST);
    CHECK(again.t_ns == r->t_ns && again.cost == r->cost && again.key_len == r->key_len);
    CHECK(memcmp(again.key, r->key, r->key_len) == 0);
    weir_logline_close(tsv);
    free(line);
}

static void check_error(const weir_logline_error *e, size_t len)
{
    char text[700];
    CHECK(!e->option && e->column >= 1 && e->column <= len + 1);
    weir_logline_error_text(e, text, sizeof text);
    CHECK(strncmp(text, "column ", 7) == 0);
}

/* Reads a line with two readers, the second time with CR LF. */
static void read_line(weir_logline_reader *one, weir_logline_reader *two, const uint8_t *at,
                      size_t len)
{
    char *line = exact_copy(at, len), *longer = malloc(len + 2);
    memcpy(longer, at, len);
    memcpy(longer + len, "\r\n", 2);
    weir_log_record r = {.t_ns = -9, .cost = -9}, again = {0};
    weir_logline_error e;
    weir_logline_result got = weir_logline_read(one, line, len, &r, &e);
    if (got == WEIR_LOGLINE_REQUEST) {
        CHECK(r.t_ns >= 0 && r.t_ns <= WEIR_NOW_NS_MAX && r.cost >= 0);
        CHECK(r.key_len >= 1 && r.key_len <= WEIR_LOGLINE_KEY_LEN_MAX);
        tsv_round_trip(&r);
    } else {
        CHECK(r.t_ns == -9 && r.cost == -9 && !r.key);
        if (got == WEIR_LOGLINE_BAD)
            check_error(&e, len);
    }
    if (len == 0 || at[len - 1] != '\r') {
        CHECK(weir_logline_read(two, longer, len + 2, &again, &e) == got);
        CHECK(got != WEIR_LOGLINE_REQUEST ||
              (again.t_ns == r.t_ns && again.cost == r.cost && again.key_len == r.key_len &&
               memcmp(again.key, r.key, r.key_len) == 0));
    } else {
        got = weir_logline_read(two, line, len, &again, &e);
    }
    weir_logline_detect(line, len);
    free(longer);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    weir_logline_reader *one = open_reader(data[0], data[1]), *two = open_reader(data[0], data[1]);
    const uint8_t *at = data + 2, *end = data + size;
    for (int lines = 0; lines < 8; lines++) {
        const uint8_t *lf = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        read_line(one, two, at, (size_t)((lf ? lf : end) - at));
        if (!lf)
            break;
        at = lf + 1;
    }
    weir_logline_close(one);
    weir_logline_close(two);
    return 0;
}
