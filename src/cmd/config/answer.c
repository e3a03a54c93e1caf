/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The keys `headers`, `retry_spread` and `denied`, which the configuration as a whole, an entry of
 * `listen` and a policy may have: each row stores in a weir_answer. It must not know how responses
 * are made. */

#include "cmd/config/keys.h"
#include "cmd/kit/input.h"
#include "codec/answer/fields.h"
#include "port/assert.h"
#include "service/rules/spread.h"

#include <stdlib.h>
#include <string.h>

enum { TYPE_MAX = 128 }; /* bytes of a Content-Type */

static const char headers_expected[] =
    "ietf, ietf-07, ietf-03, x-ratelimit, github, openai or none, or a list of them";

void config_read_headers(config_reader *r, const config_place *place, const config_key *key,
                         void *base)
{
    unsigned headers = 0;
    size_t before = r->errors->found;
    WEIR_ASSERT(key->size == sizeof headers);
    for (config_place entry = {0}; config_next_entry(place, &entry);) {
        const config_node *n = entry.node;
        if (!config_want_scalar(r, &entry, headers_expected))
            continue;
        unsigned flavour = weir_answer_flavour(n->text, n->len);
        if (flavour == 0)
            config_error(r->errors, &entry, "expected %s, found '%.40s'", headers_expected,
                         n->text);
        headers |= flavour;
    }
    const char *wrong = weir_answer_check(headers);
    if (wrong)
        config_error(r->errors, place, "%s", wrong);
    else if (headers == 0 && r->errors->found == before)
        config_error(r->errors, place, "expected %s, found nothing", headers_expected);
    *(unsigned *)((char *)base + key->offset) = headers;
}

void config_read_spread(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    const config_node *n = place->node;
    int percent;
    WEIR_ASSERT(key->size == sizeof percent);
    if (!config_want_scalar(r, place, WEIR_SPREAD_EXPECTED))
        return;
    if (weir_spread_read((weir_slice){n->text, n->len}, &percent))
        *(int *)((char *)base + key->offset) = percent + (int)key->low;
    else
        config_error(r->errors, place, "expected %s, found '%.40s'", WEIR_SPREAD_EXPECTED, n->text);
}

/* ---- templates ------------------------------------------------------------------------------- */

/* The placeholder with the smallest edit distance; NULL if none is close. */
static const char *closest(const char *name)
{
    const char *best = NULL;
    size_t nearest = 3; /* a distance of this or more is not close */
    for (size_t i = 0; weir_denial_body_placeholder(i); i++) {
        size_t distance = weir_edit_distance(name, weir_denial_body_placeholder(i));
        if (distance < nearest) {
            nearest = distance;
            best = weir_denial_body_placeholder(i);
        }
    }
    return best;
}

/* Appends "{policy}, {limit} or {cost}" to a text of `len` bytes. */
static void list_placeholders(char *buf, size_t size, size_t len)
{
    const char *name = weir_denial_body_placeholder(0), *joint = "";
    for (size_t i = 1; name && len < size; i++) {
        const char *next = weir_denial_body_placeholder(i);
        len += (size_t)snprintf(buf + len, size - len, "%s{%s}", joint, name);
        joint = next && weir_denial_body_placeholder(i + 1) ? ", " : " or ";
        name = next;
    }
}

/* Writes what is wrong at offset `at` of a template. */
static void describe(char *buf, size_t size, const char *wrong, const char *text, size_t at)
{
    char name[40];
    if (text[at] != '{') {
        snprintf(buf, size, "%s", wrong);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text + at + 1, "}"), text + at + 1);
    const char *best = closest(name);
    if (best)
        snprintf(buf, size, "%s {%s}, did you mean {%s}?", wrong, name, best);
    else
        list_placeholders(buf, size,
                          (size_t)snprintf(buf, size, "%s {%s}, expected ", wrong, name));
}

/* Reports what is wrong with a template.
 *  file  that it is from; NULL: the value itself. */
static void check_template(config_reader *r, const config_place *place, const char *text,
                           size_t len, const char *file)
{
    char why[256];
    size_t at, in_file, line = 1, column = 1;
    const char *wrong = weir_denial_body_check(text, len, &at);
    if (!wrong)
        return;
    describe(why, sizeof why, wrong, text, at);
    for (size_t i = 0; i < at; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    if (file)
        config_error(r->errors, place, "%.200s:%zu:%zu: %s", file, line, column, why);
    else if (config_column(r->errors, place->node, at + 1, &in_file))
        config_error_at(r->errors, in_file, place, "%s", why);
    else
        config_error(r->errors, place, "line %zu, column %zu of the text: %s", line, column, why);
}

static void read_body(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    const config_node *n = place->node;
    weir_answer *answer = base;
    (void)key;
    if (!config_want_scalar(r, place, "a text, such as \"Try again in {retry_after} seconds.\""))
        return;
    check_template(r, place, n->text, n->len, NULL);
    answer->denied_body = n->text;
}

static void read_body_file(config_reader *r, const config_place *place, const config_key *key,
                           void *base)
{
    weir_answer *answer = base;
    const char *path = NULL;
    config_key row = {.name = key->name, .type = CONFIG_READABLE_PATH, .size = sizeof path};
    size_t before = r->errors->found, len;
    char *bytes;
    config_read_value(r, place, &row, &path);
    if (!path || r->errors->found > before)
        return;
    if (!r->files) {
        answer->denied_body = "file";
        return;
    }
    const char *why = input_read(path, WEIR_DENIAL_BODY_MAX, &bytes, &len);
    if (why) {
        config_error(r->errors, place, "cannot read %.200s: %s", path, why);
        return;
    }
    check_template(r, place, bytes, len, path);
    answer->denied_body = weir_arena_copy(r->arena, bytes, len);
    free(bytes);
}

/* A Content-Type is sent as it is: printable ASCII, so that it cannot begin another header. */
static void read_type(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    static const char expected[] = "a media type, such as text/html; charset=utf-8";
    const char *text = place->node->text;
    weir_answer *answer = base;
    (void)key;
    if (!config_want_scalar(r, place, expected))
        return;
    size_t len = strlen(text);
    bool valid = len <= TYPE_MAX && strchr(text, '/') && text[0] > ' ' && text[len - 1] > ' ';
    for (size_t i = 0; i < len; i++)
        valid = valid && text[i] >= ' ' && text[i] <= '~';
    if (!valid)
        config_error(r->errors, place, "expected %s, in at most %d bytes of ASCII, found '%.40s'",
                     expected, TYPE_MAX, text);
    answer->denied_type = text;
}

static void check_denied(config_reader *r, const config_place *place, void *base)
{
    const config_node *file = config_get(place->node, "body_file");
    (void)base;
    if (file && config_get(place->node, "body"))
        config_error_on(r->errors, file, place,
                        "both body and body_file are set, expected only one");
}

/* The row is of the type CONFIG_OTHER, because its offset is not one in weir_config, which `weir
 * check` prints. */
static void read_status(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    config_key row = *key;
    row.type = CONFIG_NUMBER;
    row.read = NULL;
    config_read_value(r, place, &row, base);
}

static const config_key denied_keys[] = {
    {"status", CONFIG_OTHER, CONFIG_MEMBER(weir_answer, denied_status), CONFIG_RANGE(400, 599, 0),
     .read = read_status},
    {"type", CONFIG_OTHER, .read = read_type},
    {"body", CONFIG_OTHER, .read = read_body},
    {"body_file", CONFIG_OTHER, .read = read_body_file},
};

const config_section config_denied_section = {
    CONFIG_KEYS(denied_keys),
    .expected = "expected a map, such as {status: 403, type: text/html, body_file: denied.html}",
    .check = check_denied};

void config_read_denied(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    config_read_section(r, place, &config_denied_section, (char *)base + key->offset);
}
