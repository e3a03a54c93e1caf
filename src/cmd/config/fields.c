/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Values: numbers, sizes, durations, and maps by table. It must not know what they are for. */

#include "cmd/config/fields.h"

#include "cmd/config/file.h"
#include "port/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EXPECTED_SIZE = 300, SHOWN = 40, SECRET_FILE_MAX = 64 << 10 };

/* ---- maps ------------------------------------------------------------------------------------ */

bool config_is_empty(const config_node *node)
{
    return node->kind == CONFIG_TEXT && node->style == CONFIG_PLAIN && node->len == 0;
}

static const char *kind_name(const config_node *node)
{
    return node->kind == CONFIG_MAP ? "a map" : node->kind == CONFIG_LIST ? "a list" : "a text";
}

/* The field that was most likely meant; NULL if none is near. */
static const config_field *closest(const char *name, const config_field *fields, size_t n)
{
    const config_field *best = NULL;
    size_t nearest = strlen(name) < 4 ? 2 : 3; /* this far is too far */
    for (size_t i = 0; i < n; i++) {
        size_t distance = config_distance(name, fields[i].name);
        if (distance < nearest) {
            nearest = distance;
            best = &fields[i];
        }
    }
    return best;
}

static void unknown_key(config_reader *r, const config_place *at_key, const config_field *fields,
                        size_t n)
{
    const char *name = at_key->key->text;
    const config_field *meant = closest(name, fields, n);
    char list[EXPECTED_SIZE] = "";
    for (size_t i = 0, len = 0; i < n && len < sizeof list; i++)
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", i > 0 ? ", " : "",
                                fields[i].name);
    if (strstr(name, "://")) /* which may have a password in it */
        config_complain_at(r->errors, at_key->key->begin, at_key->up,
                           "a URL where a key should be, expected one of %s", list);
    else if (meant)
        config_complain_at(r->errors, at_key->key->begin, at_key->up,
                           "unknown key '%.*s', did you mean '%s'?", SHOWN, name, meant->name);
    else
        config_complain_at(r->errors, at_key->key->begin, at_key->up,
                           "unknown key '%.*s', expected %s%s", SHOWN, name, n > 1 ? "one of " : "",
                           list);
}

bool config_read_map(config_reader *r, const config_place *place, const config_field *fields,
                     size_t n, void *base)
{
    if (config_is_empty(place->node))
        return !place->node->bad;
    if (place->node->kind != CONFIG_MAP) {
        config_complain(r->errors, place, "expected a map, found %s", kind_name(place->node));
        return false;
    }
    for (const config_node *key = place->node->first; key; key = key->next) {
        const config_place below = {place, key, 0, key->value};
        const config_field *field = fields;
        while (field < fields + n && strcmp(field->name, key->text) != 0)
            field++;
        if (key->bad)
            continue;
        if (field == fields + n)
            unknown_key(r, &below, fields, n);
        else
            field->read(r, &below, field, base);
    }
    return true;
}

const config_node *config_get(const config_node *map, const char *key)
{
    for (const config_node *k = map->first; map->kind == CONFIG_MAP && k; k = k->next) {
        if (strcmp(k->text, key) == 0)
            return k->value;
    }
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

bool config_want_text(config_reader *r, const config_place *place, const char *expected)
{
    const config_node *n = place->node;
    if (n->bad)
        return false;
    if (n->kind == CONFIG_TEXT && n->len > 0)
        return true;
    config_complain(r->errors, place, "expected %s, found %s", expected,
                    n->kind == CONFIG_TEXT ? "nothing" : kind_name(n));
    return false;
}

void config_warn_variable(config_reader *r, const config_place *place)
{
    if (place->node->text[0] == '$')
        config_warn(r->errors, place,
                    "the password begins with '$': variables are not replaced; use password_file");
}

bool config_column(const config_errors *e, const config_node *node, size_t column, size_t *ret_at)
{
    size_t before = column > 0 ? column - 1 : 0;
    bool quoted = node->style == CONFIG_SINGLE_QUOTED || node->style == CONFIG_DOUBLE_QUOTED;
    size_t at = node->begin + quoted;
    if (node->style == CONFIG_BLOCK || node->absent || before > node->len || at > e->len ||
        before > e->len - at || memcmp(e->text + at, node->text, before) != 0)
        return false;
    char escape = node->style == CONFIG_SINGLE_QUOTED ? '\'' : '\\';
    if (memchr(e->text + at, '\n', before) || (quoted && memchr(e->text + at, escape, before)))
        return false;
    *ret_at = at + before;
    return true;
}

/* Digits alone, with up to 18 of them. Returns behind them, NULL if there are none or too many. */
static const char *scan_digits(const char *text, uint64_t *ret)
{
    size_t digits = weir_digits_read(text, strlen(text), ret);
    return digits >= 1 && digits <= 18 ? text + digits : NULL;
}

bool config_read_int(config_reader *r, const config_place *place, const config_field *field,
                     void *base)
{
    char expected[80];
    snprintf(expected, sizeof expected, "a number from %" PRId64 " to %" PRId64, field->low,
             field->high);
    if (!config_want_text(r, place, expected))
        return false;
    uint64_t n = 0;
    const char *end = scan_digits(place->node->text, &n);
    if (!end || *end != '\0' || (int64_t)n < field->low || (int64_t)n > field->high) {
        config_complain(r->errors, place, "expected %s, found '%.*s'", expected, SHOWN,
                        place->node->text);
        return false;
    }
    *(int *)((char *)base + field->offset) = (int)n;
    return true;
}

bool config_read_bool(config_reader *r, const config_place *place, const config_field *field,
                      void *base)
{
    if (!config_want_text(r, place, "true or false"))
        return false;
    bool is_true = strcmp(place->node->text, "true") == 0;
    if (!is_true && strcmp(place->node->text, "false") != 0) {
        config_complain(r->errors, place, "expected true or false, found '%.*s'", SHOWN,
                        place->node->text);
        return false;
    }
    *(bool *)((char *)base + field->offset) = is_true;
    return true;
}

int config_read_word(config_reader *r, const config_place *place, const char *const *words,
                     size_t n, const char *expected)
{
    if (!config_want_text(r, place, expected))
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(place->node->text, words[i]) == 0)
            return (int)i;
    }
    config_complain(r->errors, place, "expected %s, found '%.*s'", expected, SHOWN,
                    place->node->text);
    return -1;
}

char *config_size_text(uint64_t bytes, char *buf, size_t size)
{
    static const char units[] = "kmg";
    int shift = 0;
    while (shift < 30 && bytes > 0 && bytes % ((uint64_t)1024 << shift) == 0)
        shift += 10;
    snprintf(buf, size, "%" PRIu64 "%.*s", bytes >> shift, shift > 0,
             &units[shift > 0 ? shift / 10 - 1 : 0]);
    return buf;
}

bool config_read_size(config_reader *r, const config_place *place, const config_field *field,
                      void *base)
{
    char expected[80], low[24], high[24];
    snprintf(expected, sizeof expected, "a size from %s to %s, as 64m (k, m, g)",
             config_size_text((uint64_t)field->low, low, sizeof low),
             config_size_text((uint64_t)field->high, high, sizeof high));
    if (!config_want_text(r, place, expected))
        return false;
    uint64_t n = 0;
    const char *at = scan_digits(place->node->text, &n);
    unsigned shift = !at || !*at ? 0 : *at == 'k' ? 10 : *at == 'm' ? 20 : *at == 'g' ? 30 : 64;
    bool good = at && shift < 64 && at[shift > 0] == '\0' && n <= (uint64_t)field->high >> shift &&
                n << shift >= (uint64_t)field->low;
    if (!good) {
        config_complain(r->errors, place, "expected %s, found '%.*s'", expected, SHOWN,
                        place->node->text);
        return false;
    }
    *(uint64_t *)((char *)base + field->offset) = n << shift;
    return true;
}

/* A duration is a period of the policy language, so that language's own parser reads it: the text
 * is put where a policy has one. Only letters and digits get there. */
static bool parse_duration(const char *text, int64_t *ret)
{
    static const char policy[] = "fixed-window 1/";
    char whole[sizeof policy + 64];
    size_t len = strlen(text);
    weir_policy p;
    if (len == 0 || len > 64 || text[0] < '0' || text[0] > '9' ||
        strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz") != len)
        return false;
    int n = snprintf(whole, sizeof whole, "%s%s", policy, text);
    if (weir_policy_parse(&p, whole, (size_t)n, NULL, NULL) != WEIR_OK)
        return false;
    *ret = p.layer[0].period_ns;
    return true;
}

/* "0", with any unit or none. */
static bool is_zero(const char *text)
{
    static const char *const zeros[] = {"0", "0ns", "0us", "0ms", "0s", "0m", "0h", "0d", "off"};
    for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++) {
        if (strcmp(text, zeros[i]) == 0)
            return true;
    }
    return false;
}

static bool read_duration(config_reader *r, const config_place *place, const config_field *field,
                          const char *expected, bool may_be_off, void *base)
{
    if (!config_want_text(r, place, expected))
        return false;
    int64_t ns = 0;
    const char *text = place->node->text;
    bool good = is_zero(text) ? may_be_off
                              : parse_duration(text, &ns) && ns >= field->low && ns <= field->high;
    if (!good) {
        config_complain(r->errors, place, "expected %s, found '%.*s'", expected, SHOWN, text);
        return false;
    }
    *(int64_t *)((char *)base + field->offset) = ns;
    return true;
}

bool config_read_ns(config_reader *r, const config_place *place, const config_field *field,
                    void *base)
{
    return read_duration(r, place, field, "a duration from 1ms to 30d, as 10s or 1m30s, or off",
                         true, base);
}

/* Seconds where they are whole. */
static void duration_text(int64_t ns, char *buf, size_t size)
{
    int64_t ms = ns / 1000000;
    snprintf(buf, size, "%" PRId64 "%s", ms % 1000 == 0 ? ms / 1000 : ms,
             ms % 1000 == 0 ? "s" : "ms");
}

bool config_read_interval(config_reader *r, const config_place *place, const config_field *field,
                          void *base)
{
    char expected[100], low[24], high[24];
    duration_text(field->low, low, sizeof low);
    duration_text(field->high, high, sizeof high);
    snprintf(expected, sizeof expected, "a duration from %s to %s, as 50ms or 2s", low, high);
    return read_duration(r, place, field, expected, false, base);
}

/* ---- other files ----------------------------------------------------------------------------- */

char *config_beside(config_reader *r, const char *path)
{
    const char *name = r->errors->file, *slash = strrchr(name, '/');
    size_t dir = slash && path[0] != '/' ? (size_t)(slash - name) + 1 : 0, len = strlen(path);
    char *whole = config_alloc(r->arena, dir + len + 1);
    if (whole) {
        memcpy(whole, name, dir);
        memcpy(whole + dir, path, len);
    }
    return whole;
}

bool config_read_secret(config_reader *r, const config_place *place, const char **ret,
                        size_t *ret_len)
{
    if (!config_want_text(r, place, "the path of a file"))
        return false;
    if (!r->files) {
        *ret = config_copy(r->arena, "password", strlen("password"));
        *ret_len = strlen("password");
        return *ret != NULL;
    }
    char *path = config_beside(r, place->node->text), *bytes = NULL;
    size_t len = 0;
    const char *why = path ? config_file_read(path, SECRET_FILE_MAX, &bytes, &len) : "no memory";
    if (why) {
        config_complain(r->errors, place, "%.200s cannot be read: %s", path ? path : "", why);
        return false;
    }
    size_t first = strcspn(bytes, "\r\n");
    *ret_len = first < len ? first : len;
    *ret = config_copy(r->arena, bytes, *ret_len);
    explicit_bzero(bytes, len);
    free(bytes);
    return *ret != NULL;
}
