/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The walker that reads a map by its table of keys, and a reader and a printer for each type of
 * value. It must not know any key. */

#include "cmd/config/keys.h"

#include "cmd/kit/input.h"
#include "cmd/kit/units.h"
#include "policy/scan.h"
#include "port/assert.h"
#include "port/duration.h"
#include "port/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXPECTED_SIZE = 300, SHOWN = 40, SECRET_FILE_MAX = 64 << 10 };

/* ---- maps ------------------------------------------------------------------------------------ */

static const char *kind_name(const config_node *node)
{
    return node->kind == CONFIG_MAP ? "a map" : node->kind == CONFIG_LIST ? "a list" : "a value";
}

const config_key *config_row_of(const config_section *section, const char *name)
{
    for (size_t i = 0; i < section->len; i++) {
        if (strcmp(section->keys[i].name, name) == 0)
            return &section->keys[i];
    }
    return NULL;
}

const config_key *config_find_key(const char *path)
{
    const config_key *key = NULL;
    const config_section *section = config_root();
    while (section) {
        char name[64];
        size_t len = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)len, path);
        key = config_row_of(section, name);
        assert(key);
        section = key->section;
        path += len + (path[len] == '.');
    }
    return key;
}

/* The key with the smallest edit distance; NULL if none is close. */
static const char *closest(const char *name, const config_section *section)
{
    const char *best = NULL;
    size_t nearest = strlen(name) < 4 ? 2 : 3; /* a distance of this or more is not close */
    for (size_t i = 0; i < section->len; i++) {
        size_t distance = weir_edit_distance(name, section->keys[i].name);
        if (distance < nearest && !section->keys[i].left_out) {
            nearest = distance;
            best = section->keys[i].name;
        }
    }
    return best;
}

static void unknown_key(config_reader *r, const config_place *place, const config_node *key,
                        const config_section *section)
{
    const char *meant = closest(key->text, section);
    char list[EXPECTED_SIZE] = "";
    for (size_t i = 0, len = 0; i < section->len; i++) {
        if (!section->keys[i].left_out)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len > 0 ? ", " : "",
                                    section->keys[i].name);
        WEIR_ASSERT(len < sizeof list);
    }
    if (strstr(key->text, "://")) /* it may contain a password */
        config_error_on(r->errors, key, place, "found a URL instead of a key, expected one of %s",
                        list);
    else if (meant)
        config_error_on(r->errors, key, place, "unknown key '%.*s', did you mean '%s'?", SHOWN,
                        key->text, meant);
    else
        config_error_on(r->errors, key, place, "unknown key '%.*s', expected one of %s", SHOWN,
                        key->text, list);
}

/* The structure that the offsets of a row refer to: the options of a guest, or `base` itself. */
static void *base_of(const config_key *key, const void *base)
{
    return key->guest ? config_options(base, key->guest) : (void *)base;
}

static void read_map(config_reader *r, const config_place *place, const config_section *section,
                     void *base)
{
    for (size_t i = 0; i < section->len; i++) {
        const config_key *row = &section->keys[i];
        const config_place below = config_below(place, row->name);
        if (below.node && !below.key->bad)
            (row->read ? row->read : config_read_value)(r, &below, row, base_of(row, base));
    }
    for (const config_node *key = place->node->first; key; key = key->next) {
        if (!key->bad && !config_row_of(section, key->text))
            unknown_key(r, place, key, section);
    }
}

void config_read_section(config_reader *r, const config_place *place, const config_section *section,
                         void *base)
{
    size_t before = r->errors->found - r->errors->warnings;
    const config_node *n = place->node;
    WEIR_ASSERT(n && section->len > 0);
    if (n->kind == CONFIG_MAP)
        read_map(r, place, section, base);
    else if (!config_is_empty(n) && section->expected)
        config_error(r->errors, place, "%s", section->expected);
    else if (!config_is_empty(n))
        config_error(r->errors, place, "expected a map, found %s", kind_name(n));
    if (section->check && !n->bad && r->errors->found - r->errors->warnings == before)
        section->check(r, place, base);
}

/* ---- storing --------------------------------------------------------------------------------- */

static bool has_range(config_type type)
{
    return type == CONFIG_NUMBER || type == CONFIG_SIZE || type == CONFIG_DURATION;
}

/* Whether the value is stored by store(). */
static bool is_number(config_type type)
{
    return has_range(type) || type == CONFIG_BOOL || type == CONFIG_WORD;
}

/* Stores a number in a member of 1, 4 or 8 bytes. */
static void store(const config_key *key, void *base, int64_t value)
{
    void *at = (char *)base + key->offset;
    WEIR_ASSERT(key->size == 1 || key->size == 4 || key->size == 8);
    if (key->size == 1)
        *(bool *)at = value != 0;
    else if (key->size == 4)
        *(int32_t *)at = (int32_t)value;
    else
        *(int64_t *)at = value;
}

static int64_t load(const config_key *key, const void *base)
{
    const void *at = (const char *)base + key->offset;
    WEIR_ASSERT(key->size == 1 || key->size == 4 || key->size == 8);
    if (key->size == 1)
        return *(const bool *)at;
    return key->size == 4 ? *(const int32_t *)at : *(const int64_t *)at;
}

static const char **string_of(const config_key *key, void *base)
{
    return (const char **)((char *)base + key->offset);
}

void config_set_defaults(const config_section *section, void *base)
{
    for (size_t i = 0; i < section->len; i++) {
        const config_key *key = &section->keys[i];
        if (key->type == CONFIG_SECTION)
            config_set_defaults(key->section, base_of(key, base));
        else if (key->preset != 0)
            store(key, base, key->preset);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

bool config_want_scalar(config_reader *r, const config_place *place, const char *expected)
{
    const config_node *n = place->node;
    if (n->bad)
        return false;
    if (n->kind == CONFIG_SCALAR && n->len > 0)
        return true;
    config_error(r->errors, place, "expected %s, found %s", expected,
                 n->kind == CONFIG_SCALAR ? "nothing" : kind_name(n));
    return false;
}

bool config_column(const config_errors *e, const config_node *node, size_t column, size_t *ret_at)
{
    e = node->file ? node->file : e;
    size_t before = column > 0 ? column - 1 : 0;
    bool quoted = node->style == CONFIG_SINGLE_QUOTED || node->style == CONFIG_DOUBLE_QUOTED;
    size_t at = node->begin + quoted;
    if (node->style == CONFIG_BLOCK || node->absent || before > node->len || at + before > e->len ||
        memcmp(e->text + at, node->text, before) != 0)
        return false;
    char escape = node->style == CONFIG_SINGLE_QUOTED ? '\'' : '\\';
    if (memchr(e->text + at, '\n', before) || (quoted && memchr(e->text + at, escape, before)))
        return false;
    *ret_at = at + before;
    return true;
}

static bool parse_number(const char *text, int64_t *ret)
{
    uint64_t n;
    bool valid = weir_decimal_read(text, strlen(text), INT64_MAX, &n);
    *ret = valid ? (int64_t)n : 0;
    return valid;
}

static bool parse_bool(const char *text, int64_t *ret)
{
    *ret = strcmp(text, "true") == 0;
    return *ret || strcmp(text, "false") == 0;
}

static bool parse_word(const config_key *key, const char *text, int64_t *ret)
{
    for (size_t i = 0; i < key->words_len; i++) {
        if (key->words[i] && strcmp(text, key->words[i]) == 0) {
            *ret = (int64_t)i;
            return true;
        }
    }
    return false;
}

/* Whether a value is "off", or zero with or without a unit. */
static bool is_off(const char *text)
{
    static const char *const zeros[] = {"0", "0ns", "0us", "0ms", "0s", "0m", "0h", "0d", "off"};
    for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++) {
        if (strcmp(text, zeros[i]) == 0)
            return true;
    }
    return false;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_value(const config_key *key, int64_t value, char *buf, size_t size)
{
    char duration[WEIR_DURATION_MAX] = "";
    WEIR_ASSERT(key->type != CONFIG_WORD || (value >= 0 && (size_t)value < key->words_len));
    if (key->type == CONFIG_DURATION)
        weir_duration_print(duration, value, WEIR_DURATION_WHOLE);
    if (key->may_be_off && value == key->off)
        snprintf(buf, size, "off");
    else if (key->type == CONFIG_BOOL)
        snprintf(buf, size, "%s", value ? "true" : "false");
    else if (key->type == CONFIG_WORD)
        snprintf(buf, size, "%s", key->words[value] ? key->words[value] : "default");
    else if (key->type == CONFIG_SIZE)
        size_text((uint64_t)value, buf, size);
    else if (key->type == CONFIG_DURATION)
        snprintf(buf, size, "%s", duration);
    else
        snprintf(buf, size, "%" PRId64, value);
}

char *config_value_text(const config_key *key, const void *base, char *buf, size_t size)
{
    if (is_number(key->type)) {
        print_value(key, load(key, base), buf, size);
    } else if (key->type == CONFIG_PATH) {
        const char *path = *string_of(key, (void *)base);
        snprintf(buf, size, "%s", path ? path : "none");
    } else {
        return NULL;
    }
    return buf;
}

/* Prints "never, 1s or always". */
static void print_words(const config_key *key, char *buf, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < key->words_len && len < size; i++) {
        const char *before = len == 0 ? "" : i + 1 < key->words_len ? ", " : " or ";
        if (key->words[i])
            len += (size_t)snprintf(buf + len, size - len, "%s%s", before, key->words[i]);
    }
}

/* Prints what a value should be, for an error. */
static void print_expected(const config_key *key, char *buf, size_t size)
{
    static const char *const what[] = {
        [CONFIG_NUMBER] = "a number",
        [CONFIG_BOOL] = "true or false",
        [CONFIG_SIZE] = "a size",
        [CONFIG_DURATION] = "a duration",
        [CONFIG_STRING] = "a value",
        [CONFIG_PATH] = "the path of a file",
        [CONFIG_READABLE_PATH] = "the path of a file",
        [CONFIG_PASSWORD] = "a password in quotes",
        [CONFIG_PASSWORD_FILE] = "the path of a file",
        [CONFIG_OTHER] = "",
    };
    const char *example = key->type == CONFIG_SIZE       ? ", such as 64m (units k, m, g)"
                          : key->type == CONFIG_DURATION ? ", such as 10s or 1m30s"
                                                         : "";
    char low[24], high[24];
    if (key->type == CONFIG_WORD) {
        print_words(key, buf, size);
    } else if (!has_range(key->type)) {
        snprintf(buf, size, "%s", what[key->type]);
    } else {
        print_value(key, key->low, low, sizeof low);
        print_value(key, key->high, high, sizeof high);
        snprintf(buf, size, "%s from %s to %s%s%s", what[key->type], low, high, example,
                 key->may_be_off ? ", or off" : "");
    }
}

/* ---- readers --------------------------------------------------------------------------------- */

static bool parse(const config_key *key, const char *text, int64_t *ret)
{
    bool valid = false;
    if (key->may_be_off && is_off(text)) {
        *ret = key->off;
        return true;
    }
    if (key->type == CONFIG_BOOL)
        return parse_bool(text, ret);
    if (key->type == CONFIG_WORD)
        return parse_word(key, text, ret);
    if (key->type == CONFIG_NUMBER)
        valid = parse_number(text, ret);
    else if (key->type == CONFIG_SIZE)
        valid = size_read(text, ret);
    else if (key->type == CONFIG_DURATION)
        valid = !is_off(text) && weir_duration_read(text, strlen(text), ret);
    return valid && *ret >= key->low && *ret <= key->high;
}

const char *config_resolve_path(config_reader *r, const char *path)
{
    const char *name = r->errors->file, *slash = strrchr(name, '/');
    size_t dir = slash && path[0] != '/' ? (size_t)(slash - name) + 1 : 0, len = strlen(path);
    char *whole = weir_arena_alloc(r->arena, dir + len + 1, 1);
    if (whole) {
        memcpy(whole, name, dir);
        memcpy(whole + dir, path, len);
    }
    return whole;
}

static void read_path(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    const char *path = config_resolve_path(r, place->node->text);
    int fd;
    if (path && key->type == CONFIG_READABLE_PATH && r->files) {
        const char *why = input_open(path, &fd);
        if (why)
            config_error(r->errors, place, "cannot read %.200s: %s", path, why);
        else
            close(fd);
    }
    *string_of(key, base) = path;
}

static void set_password(config_reader *r, const config_place *place, const config_key *key,
                         const char *text, void *base)
{
    size_t len = strlen(text);
    bool fits = len >= (size_t)key->low && len <= (size_t)key->high;
    const char *why = fits && key->refuse ? key->refuse(text) : NULL;
    if (!fits)
        config_error(r->errors, place,
                     "the password has %zu bytes, expected %" PRId64 " to %" PRId64, len, key->low,
                     key->high);
    else if (why)
        config_error(r->errors, place, "%s", why);
    else
        *string_of(key, base) = text;
}

static void read_password(config_reader *r, const config_place *place, const config_key *key,
                          void *base)
{
    if (place->node->text[0] == '$')
        config_warn(
            r->errors, place,
            "the password begins with '$'; variables are written as in ${NAME}, in capitals");
    set_password(r, place, key, place->node->text, base);
}

/* Reads the first line of a file. */
static void read_password_file(config_reader *r, const config_place *place, const config_key *key,
                               void *base)
{
    char *bytes = NULL;
    size_t len = 0;
    if (config_get(place->up->node, "password")) {
        config_error_on(r->errors, place->key, place,
                        "both password and password_file are set, expected only one");
        return;
    }
    if (!r->files) {
        *string_of(key, base) = weir_arena_copy(r->arena, "password", strlen("password"));
        return;
    }
    const char *path = config_resolve_path(r, place->node->text);
    const char *why = path ? input_read(path, SECRET_FILE_MAX, &bytes, &len) : "out of memory";
    if (why) {
        config_error(r->errors, place, "cannot read %.200s: %s", path ? path : "", why);
        return;
    }
    const char *line = weir_arena_copy(r->arena, bytes, strcspn(bytes, "\r\n"));
    explicit_bzero(bytes, len);
    free(bytes);
    if (line)
        set_password(r, place, key, line, base);
}

static void read_number(config_reader *r, const config_place *place, const config_key *key,
                        const char *expected, void *base)
{
    int64_t value;
    if (parse(key, place->node->text, &value))
        store(key, base, value);
    else
        config_error(r->errors, place, "expected %s, found '%.*s'", expected, SHOWN,
                     place->node->text);
}

void config_read_value(config_reader *r, const config_place *place, const config_key *key,
                       void *base)
{
    char expected[EXPECTED_SIZE];
    if (key->type == CONFIG_SECTION) {
        config_read_section(r, place, key->section, base);
        return;
    }
    print_expected(key, expected, sizeof expected);
    if (!config_want_scalar(r, place, expected))
        return;
    if (is_number(key->type))
        read_number(r, place, key, expected, base);
    else if (key->type == CONFIG_STRING)
        *string_of(key, base) = place->node->text;
    else if (key->type == CONFIG_PASSWORD)
        read_password(r, place, key, base);
    else if (key->type == CONFIG_PASSWORD_FILE)
        read_password_file(r, place, key, base);
    else
        read_path(r, place, key, base);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool same_string(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool config_is_live(const config_key *key)
{
    bool live = key->live || (key->type == CONFIG_OTHER && !key->same);
    if (live || key->type != CONFIG_SECTION)
        return live;
    live = true;
    for (size_t i = 0; i < key->section->len && live; i++)
        live = config_is_live(&key->section->keys[i]);
    return live;
}

static bool same_section(const config_section *section, const void *a, const void *b)
{
    bool same = true;
    for (size_t i = 0; i < section->len && same; i++)
        same = config_same(&section->keys[i], a, b);
    return same;
}

bool config_same(const config_key *key, const void *a, const void *b)
{
    if (config_is_live(key))
        return true;
    if (key->type == CONFIG_SECTION)
        return same_section(key->section, base_of(key, a), base_of(key, b));
    if (key->same)
        return key->same(key, a, b);
    if (is_number(key->type))
        return load(key, a) == load(key, b);
    return same_string(*string_of(key, (void *)a), *string_of(key, (void *)b));
}
