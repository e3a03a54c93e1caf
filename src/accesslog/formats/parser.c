/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads lines: detects their format, lets the grammar of the format find the fields, and makes the
 * time, the key and the cost of them. Lines of text are parsed in one pass, and only as far as the
 * requested fields; nothing is copied, except for keys of several parts and doubled quotes. */

#include "accesslog/formats/logline.h"

#include "accesslog/formats/formats.h"
#include "accesslog/formats/time.h"
#include "port/assert.h"
#include "port/buffer.h"
#include "port/port.h"
#include "port/text.h"

#include <stdio.h>
#include <string.h>

static const char expect_json_key[] = "a key: a string, number or boolean";

/* ---- formats --------------------------------------------------------------------------------- */

typedef struct format {
    const char *name;
    log_grammar *grammar; /* of lines of text; NULL: none */
    uint32_t fields;      /* the LOG_BIT()s of the fields that such lines can have */
    bool json;
    char separator; /* of columns; NUL: none */
} format;

#define REQUEST                                                                                    \
    (LOG_BIT(LOG_METHOD) | LOG_BIT(LOG_PATH) | LOG_BIT(LOG_URI) | LOG_BIT(LOG_QUERY) |             \
     LOG_BIT(LOG_PROTOCOL) | LOG_BIT(LOG_STATUS) | LOG_BIT(LOG_BYTES))
#define COMMON   (LOG_BIT(LOG_CLIENT) | LOG_BIT(LOG_IDENT) | LOG_BIT(LOG_USER) | REQUEST)
#define COMBINED (COMMON | LOG_BIT(LOG_REFERER) | LOG_BIT(LOG_AGENT))
#define VHOST    LOG_BIT(LOG_VHOST)

/* In the order of detection: a format that extends another comes before it. */
static const format formats[] = {
    {"combined", log_read_combined, COMBINED, false, 0},
    {"common", log_read_common, COMMON, false, 0},
    {"vhost_combined", log_read_vhost_combined, COMBINED | VHOST, false, 0},
    {"vhost_common", log_read_vhost_common, COMMON | VHOST, false, 0},
    {"nginx-json", NULL, 0, true, 0},
    {"caddy", NULL, 0, true, 0},
    {"traefik", log_read_traefik, COMBINED | LOG_BIT(LOG_DURATION), true, 0},
    {"envoy", log_read_envoy,
     REQUEST | LOG_BIT(LOG_CLIENT) | LOG_BIT(LOG_AGENT) | LOG_BIT(LOG_VHOST) |
         LOG_BIT(LOG_DURATION) | LOG_BIT(LOG_FORWARDED) | LOG_BIT(LOG_REQUEST_ID),
     true, 0},
    {"haproxy", log_read_haproxy, REQUEST | LOG_BIT(LOG_CLIENT), false, 0},
    {"alb", log_read_alb,
     REQUEST | LOG_BIT(LOG_CLIENT) | LOG_BIT(LOG_AGENT) | LOG_BIT(LOG_VHOST) |
         LOG_BIT(LOG_DURATION),
     false, 0},
    {"csv", NULL, 0, false, ','},
    {"tsv", NULL, 0, false, '\t'},
    {"jsonl", NULL, 0, true, 0},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

const char *weir_logline_formats(void)
{
    return "combined, common, vhost_combined, vhost_common, nginx-json, caddy, traefik, envoy, "
           "haproxy, alb, csv, tsv or jsonl";
}

static const format *format_find(const char *name)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

bool weir_logline_alike(const char *a, const char *b)
{
    const format *x = format_find(a), *y = format_find(b);
    if (!x || !y)
        return false;
    bool text = x->grammar && y->grammar && (x->fields & COMMON) == COMMON &&
                (y->fields & COMMON) == COMMON;
    return x == y || (x->json && y->json) || (text && (x->fields & VHOST) == (y->fields & VHOST));
}

/* ---- the reader ------------------------------------------------------------------------------ */

typedef enum line_shape {
    SHAPE_UNKNOWN,
    SHAPE_TEXT,
    SHAPE_JSON,
    SHAPE_COLUMNS,
    SHAPE_TSV
} line_shape;

struct weir_logline_reader {
    weir_logline_options options;
    const format *format;      /* NULL until it is detected */
    line_shape shape;          /* SHAPE_UNKNOWN until the names of the options are resolved */
    bool key_is_plain;         /* --key is a name, not a template */
    bool cost_optional;        /* a line without the cost costs 1 */
    int cost;                  /* an index into `names`; -1: each line costs 1 */
    uint32_t need;             /* the LOG_BIT()s of the fields of the options */
    weir_logtime_name time[2]; /* of --time, which is the first row; the second ends the list */
    const weir_logtime_name *times; /* these, or weir_logtime_names */
    log_names names;
    log_template key;
    log_filter filter;
    const log_flavour *flavour; /* JSON */
    log_json json;
    log_table table;
    log_line line;
    weir_buffer area;                /* the key, unless it is in the line */
    const char *unit;                /* of the times of tsv lines, if it is probably not ns */
    bool misfit;                     /* an option does not fit the format; no line can be read */
    weir_logline_error misfit_error; /* if so */
};

const char *weir_logline_format(const weir_logline_reader *r)
{
    return r->format ? r->format->name : NULL;
}

const char *weir_logline_unit(const weir_logline_reader *r)
{
    return r->unit;
}

bool weir_logline_absent(const weir_logline_reader *r, const char **ret, size_t *ret_len)
{
    for (size_t i = 0; r->shape == SHAPE_JSON && i < r->names.n; i++) {
        const log_name *name = &r->names.name[i];
        if (!name->sought || name->found)
            continue;
        *ret = name->text.at;
        *ret_len = name->text.len;
        return true;
    }
    return false;
}

void weir_logline_close(weir_logline_reader *r)
{
    if (!r)
        return;
    log_json_unload(&r->json);
    log_table_free(&r->table);
    weir_buffer_free(&r->area);
    port_free(r);
}

/* The option that uses a name; NULL if none does. */
static const char *option_of(const weir_logline_reader *r, int name)
{
    for (size_t i = 0; i < r->key.parts; i++)
        if (r->key.part[i].name == name)
            return "--key";
    for (size_t i = 0; i < r->filter.tests; i++)
        if (r->filter.test[i].name == name)
            return "--where";
    return r->cost == name ? "--cost" : NULL;
}

/* Writes an error of a column whose name another column has, too. */
static weir_status fail_twice(const char *option, weir_slice name, weir_logline_error *e)
{
    *e = (weir_logline_error){.option = option};
    snprintf(e->detail, sizeof e->detail, "two columns have the name '%.*s'",
             (int)(name.len < 64 ? name.len : 64), name.at);
    return WEIR_E_UNSUPPORTED;
}

/* Writes an error with the names that the format has. */
static weir_status fail_name(const weir_logline_reader *r, int index, weir_logline_error *e)
{
    size_t at = 0, size = sizeof e->detail;
    const log_name *name = &r->names.name[index];
    *e = (weir_logline_error){.option = option_of(r, index)};
    if (r->shape == SHAPE_TEXT && log_is(name->text, "host")) {
        snprintf(e->detail, size,
                 "$host is ambiguous: $client is the client, $vhost the virtual host");
        return WEIR_E_UNSUPPORTED;
    }
    bool needed = !r->options.key && e->option && strcmp(e->option, "--key") == 0;
    at = (size_t)snprintf(e->detail, size, "%sa %s line has no %s%s '%.*s', expected one of",
                          needed ? "it is needed: " : "", r->format->name,
                          needed ? "column 'key' and no " : "",
                          r->shape == SHAPE_TEXT ? "field" : "column",
                          (int)(name->text.len < 64 ? name->text.len : 64), name->text.at);
    for (size_t i = 0; r->shape == SHAPE_TEXT && i < LOG_FIELDS; i++)
        if (r->format->fields & LOG_BIT(i))
            at += (size_t)snprintf(e->detail + at, size - at, " %s", log_field_name((log_field)i));
    for (size_t i = 0; r->shape == SHAPE_COLUMNS && i < r->table.columns && at < size; i++)
        at += (size_t)snprintf(e->detail + at, size - at, " %.*s",
                               (int)(r->table.name[i].len < 64 ? r->table.name[i].len : 64),
                               r->table.name[i].at);
    return WEIR_E_UNSUPPORTED;
}

/* Whether a line can have the field; sets where it is. */
static bool resolve(weir_logline_reader *r, log_name *name)
{
    switch (r->shape) {
    case SHAPE_TEXT:
        if (name->field >= LOG_FIELDS || !(r->format->fields & LOG_BIT(name->field)))
            return false;
        r->need |= LOG_BIT(name->field);
        return true;
    case SHAPE_COLUMNS:
        name->column = log_table_find(&r->table, name);
        return name->column < r->table.columns;
    case SHAPE_JSON:
    case SHAPE_TSV:
    case SHAPE_UNKNOWN:
        break;
    }
    return true;
}

static bool has_column(const weir_logline_reader *r, const char *name)
{
    const log_name n = {.text = {name, strlen(name)}, .field = LOG_FIELDS};
    return log_table_find(&r->table, &n) < r->table.columns;
}

static int add_name(weir_logline_reader *r, const char *name)
{
    return log_names_add(&r->names, (weir_slice){name, strlen(name)});
}

/* Sets the key and the cost that were not given. Returns false if there are too many names. */
static bool set_defaults(weir_logline_reader *r)
{
    bool jsonl = r->shape == SHAPE_JSON && strcmp(r->format->name, "jsonl") == 0;
    bool columns = r->shape == SHAPE_COLUMNS;
    bool host = r->shape == SHAPE_TEXT && r->key_is_plain && strcmp(r->options.key, "host") == 0;
    if (!r->options.key || host) {
        bool key = jsonl || (columns && has_column(r, "key"));
        r->key = (log_template){.parts = 1, .is_field = true};
        r->key.part[0] = (log_part){.name = add_name(r, key ? "key" : "client")};
        if (r->key.part[0].name < 0)
            return false;
    }
    if (!r->options.cost && (r->shape == SHAPE_JSON || (columns && has_column(r, "cost")))) {
        r->cost = add_name(r, "cost");
        r->cost_optional = true;
        return r->cost >= 0;
    }
    return true;
}

/* The unit of the time of a tsv line that makes it a time from 2008 to 2039; NULL if that is ns or
 * none. */
static const char *likely_unit(const log_line *l)
{
    static const char *const units[] = {"seconds", "milliseconds", "microseconds"};
    const char *tab = log_find(l->begin, l->end, '\t');
    int64_t t_ns = 0, from = 1200000000, to = 2200000000;
    if (!tab || weir_logtime_number(l->begin, tab, 1, &t_ns) != WEIR_OK)
        return NULL;
    for (int i = 0; i < 3; i++, from *= 1000, to *= 1000)
        if (t_ns >= from && t_ns < to)
            return units[i];
    return NULL;
}

/* Fixes the shape of the lines, and finds the names of the options in them. */
static weir_status settle(weir_logline_reader *r, line_shape shape, weir_logline_error *e)
{
    r->shape = shape;
    r->flavour = shape == SHAPE_JSON ? log_flavour_find(r->format->name) : NULL;
    if (shape == SHAPE_COLUMNS && log_table_is_twice(&r->table, r->table.time_column))
        return fail_twice(NULL, r->table.name[r->table.time_column], e);
    if (shape == SHAPE_TSV) {
        const weir_logline_options *o = &r->options;
        r->unit = likely_unit(&r->line);
        if (!o->key && !o->cost && !o->time && o->wheres == 0)
            return WEIR_OK;
        *e = (weir_logline_error){.option = o->key    ? "--key"
                                            : o->cost ? "--cost"
                                            : o->time ? "--time"
                                                      : "--where"};
        snprintf(e->detail, sizeof e->detail,
                 "a tsv file without a line of names has no named fields: the time is the first "
                 "column, the key the second, the cost the third");
        return WEIR_E_UNSUPPORTED;
    }
    if (shape == SHAPE_TEXT && r->options.time) {
        *e = (weir_logline_error){.option = "--time"};
        snprintf(e->detail, sizeof e->detail,
                 "a %s line has its time at a fixed place; leave out --time", r->format->name);
        return WEIR_E_UNSUPPORTED;
    }
    if (!set_defaults(r)) {
        log_option_fail("--where", "", NULL, "at most 30 different fields", e);
        return WEIR_E_SYNTAX;
    }
    for (int i = 0; i < (int)r->names.n; i++)
        if (option_of(r, i)) {
            const log_name *name = &r->names.name[i];
            if (!resolve(r, &r->names.name[i]))
                return fail_name(r, i, e);
            if (shape == SHAPE_COLUMNS && log_table_is_twice(&r->table, name->column))
                return fail_twice(option_of(r, i), r->table.name[name->column], e);
        }
    return WEIR_OK;
}

/* ---- detection ------------------------------------------------------------------------------- */

static bool read_tsv(log_line *l, weir_slice *ret_key, int64_t *ret_cost, weir_logline_error *e);

/* The format of a line that is not JSON; NULL if there is none.
 *  exact  whether a line without referer and agent is common rather than combined. */
static const format *detect_text(const weir_logtime_name *times, const char *begin, const char *end,
                                 bool exact)
{
    const log_table csv = {.separator = ',', .times = times};
    const log_table tsv = {.separator = '\t', .times = times};
    log_line l = {.begin = begin, .end = end};
    weir_logline_error e;
    weir_slice key;
    int64_t cost;
    if (end - begin > 2 && memcmp(end - 2, "ms", 2) == 0 && log_read_traefik(&l, 0, &e))
        return format_find("traefik");
    for (size_t i = 0; i < FORMATS; i++) {
        l = (log_line){.begin = begin, .end = end};
        if (!formats[i].grammar || !formats[i].grammar(&l, UINT32_MAX, &e))
            continue;
        if (exact && formats[i].fields & LOG_BIT(LOG_AGENT) && l.field[LOG_AGENT].len == 0)
            continue;
        return &formats[i];
    }
    l = (log_line){.begin = begin, .end = end};
    if (read_tsv(&l, &key, &cost, &e))
        return format_find("tsv");
    if (log_table_is_header(&csv, begin, end))
        return format_find("csv");
    return log_table_is_header(&tsv, begin, end) ? format_find("tsv") : NULL;
}

static const format *detect_json(const weir_logtime_name *times, const char *begin, const char *end)
{
    log_json j = {.times = times};
    weir_logline_error e;
    const char *name = NULL;
    if (log_json_load(&j, begin, end, &e) == WEIR_OK)
        name = log_json_detect(&j);
    log_json_unload(&j);
    return format_find(name ? name : "jsonl");
}

const char *weir_logline_detect(const char *line, size_t len)
{
    const char *end = line + len, *begin = log_skip_mark(line, end);
    const format *f = begin < end && *begin == '{'
                          ? detect_json(weir_logtime_names, begin, end)
                          : detect_text(weir_logtime_names, begin, end, true);
    return f ? f->name : NULL;
}

/* Chooses the format by the first line, if none is given. */
static bool detect(weir_logline_reader *r, const char *begin, const char *end)
{
    if (r->format)
        return true;
    r->format = *begin == '{' ? detect_json(r->times, begin, end)
                              : detect_text(r->times, begin, end, false);
    return r->format;
}

static weir_logline_result fail_detect(const weir_logline_reader *r, weir_logline_error *e)
{
    const log_line *l = &r->line;
    log_fail(l->begin, l->begin, NULL, e);
    if (r->options.time)
        snprintf(e->detail, sizeof e->detail, "expected a column '%.64s' (--time) in csv or tsv",
                 r->options.time);
    else
        snprintf(e->detail, sizeof e->detail, "expected a line in one of the formats %s",
                 weir_logline_formats());
    return WEIR_LOGLINE_BAD;
}

static weir_logline_result result_of(weir_status st, weir_logline_result other)
{
    return st == WEIR_E_NOMEM ? WEIR_LOGLINE_NO_MEMORY : other;
}

/* Whether a tsv line has the names of columns. A line that begins with a number has not: its key
 * may be the text "time". */
static bool is_tsv_header(const weir_logline_reader *r)
{
    const log_table tsv = {.separator = '\t', .times = r->times};
    bool digit = *r->line.begin >= '0' && *r->line.begin <= '9';
    return !digit && log_table_is_header(&tsv, r->line.begin, r->line.end);
}

/* Reads a line before the shape of the lines is known. Returns WEIR_LOGLINE_REQUEST if it is known
 * now, and the line must be read. */
static weir_logline_result begin(weir_logline_reader *r, weir_logline_error *e)
{
    const log_line *l = &r->line;
    if (*l->begin == '#' && (!r->format || r->format->separator))
        return WEIR_LOGLINE_HEADER;
    if (!detect(r, l->begin, l->end))
        return fail_detect(r, e);
    const format *f = r->format;
    line_shape shape = SHAPE_TEXT;
    if (f->separator)
        shape = f->separator == ',' || is_tsv_header(r) ? SHAPE_COLUMNS : SHAPE_TSV;
    else if (f->json && (*l->begin == '{' || !f->grammar))
        shape = SHAPE_JSON;
    if (shape == SHAPE_COLUMNS) {
        r->table.separator = f->separator;
        weir_status st = log_table_header(&r->table, l->begin, l->end, e);
        if (st != WEIR_OK)
            return result_of(st, WEIR_LOGLINE_BAD);
    }
    if (settle(r, shape, e) != WEIR_OK) {
        r->misfit = true;
        r->misfit_error = *e;
        return WEIR_LOGLINE_USAGE;
    }
    return shape == SHAPE_COLUMNS ? WEIR_LOGLINE_HEADER : WEIR_LOGLINE_REQUEST;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The text of a field of the current line; `at` is NULL if it is missing. Valid until the next
 * call. */
static inline weir_slice value_of(weir_logline_reader *r, int index)
{
    const log_name *name = &r->names.name[index];
    if (r->shape == SHAPE_TEXT)
        return r->line.field[name->field];
    if (r->shape == SHAPE_JSON)
        return log_json_value(&r->json, r->flavour, name);
    return log_table_value(&r->table, name->column);
}

/* Where a missing field of a line of text should begin. */
static const char *place_of(const log_line *l, log_field field)
{
    bool in_request = field >= LOG_METHOD && field <= LOG_PROTOCOL;
    return in_request && l->request ? l->request : l->stop;
}

/* Writes an error of a field that is missing or wrong. */
static weir_logline_result fail_value(const weir_logline_reader *r, int index, weir_slice value,
                                      const char *expected, weir_logline_error *e)
{
    const log_name *name = &r->names.name[index];
    if (r->shape == SHAPE_JSON)
        log_json_fail(&r->json, expected, name->text, e);
    else if (r->shape == SHAPE_TEXT)
        log_fail(r->line.begin, value.at ? value.at : place_of(&r->line, name->field), expected, e);
    else
        log_fail(r->line.begin, r->table.cell[name->column].at, expected, e);
    return WEIR_LOGLINE_BAD;
}

static weir_logline_result fail_missing_key(const weir_logline_reader *r, int index,
                                            weir_slice value, weir_logline_error *e)
{
    const log_name *name = &r->names.name[index];
    if (r->shape == SHAPE_TEXT)
        return fail_value(r, index, value, log_field_expected(name->field), e);
    if (r->shape != SHAPE_JSON || value.at)
        return fail_value(r, index, value, log_expect_key, e);
    fail_value(r, index, value, expect_json_key, e);
    e->key_absent = !log_json_has(&r->json, name->text);
    return WEIR_LOGLINE_BAD;
}

static weir_logline_result read_cost(weir_logline_reader *r, int64_t *ret, weir_logline_error *e)
{
    *ret = 1;
    if (r->cost < 0)
        return WEIR_LOGLINE_REQUEST;
    weir_slice text = value_of(r, r->cost);
    if (!text.at) {
        bool absent = r->shape == SHAPE_JSON && r->cost_optional &&
                      !log_json_has(&r->json, r->names.name[r->cost].text);
        const char *expected = r->shape == SHAPE_TEXT
                                   ? log_field_expected(r->names.name[r->cost].field)
                                   : log_expect_cost;
        return absent ? WEIR_LOGLINE_REQUEST : fail_value(r, r->cost, text, expected, e);
    }
    if (log_is_dash(text) && !r->cost_optional) {
        *ret = 0;
        return WEIR_LOGLINE_REQUEST;
    }
    if (!log_read_saturated(text, ret))
        return fail_value(r, r->cost, text, log_expect_cost, e);
    return WEIR_LOGLINE_REQUEST;
}

/* Makes the key of several parts, or copies it from the JSON tree. */
static weir_logline_result build_key(weir_logline_reader *r, weir_slice *ret, weir_logline_error *e)
{
    if (r->area.len_max == 0)
        weir_buffer_init(&r->area, (size_t)WEIR_LOGLINE_KEY_LEN_MAX * 2);
    weir_buffer_clear(&r->area);
    for (size_t i = 0; i < r->key.parts; i++) {
        const log_part *part = &r->key.part[i];
        weir_slice value = part->name < 0 ? part->text : value_of(r, part->name);
        if (!value.at || (r->key.is_field && value.len == 0))
            return fail_missing_key(r, part->name, value, e);
        if (value.len > WEIR_LOGLINE_KEY_LEN_MAX)
            return fail_value(r, part->name, value, log_expect_key, e);
        if (part->name < 0)
            weir_buffer_append(&r->area, value.at, value.len);
        else
            log_part_append(part, value, &r->area);
        if (weir_buffer_len(&r->area) > WEIR_LOGLINE_KEY_LEN_MAX)
            break;
    }
    if (r->area.failed && weir_buffer_len(&r->area) <= WEIR_LOGLINE_KEY_LEN_MAX)
        return WEIR_LOGLINE_NO_MEMORY;
    *ret = (weir_slice){(const char *)weir_buffer_data(&r->area), weir_buffer_len(&r->area)};
    if (ret->len >= 1 && ret->len <= WEIR_LOGLINE_KEY_LEN_MAX)
        return WEIR_LOGLINE_REQUEST;
    log_fail(r->line.begin, r->line.begin, log_expect_key, e);
    if (ret->len == 0)
        snprintf(e->detail, sizeof e->detail, "--key gives an empty text");
    return WEIR_LOGLINE_BAD;
}

static weir_logline_result read_key(weir_logline_reader *r, weir_slice *ret, weir_logline_error *e)
{
    if (!r->key.is_field || r->shape == SHAPE_JSON)
        return build_key(r, ret, e);
    weir_slice value = value_of(r, r->key.part[0].name);
    if (!value.at || value.len == 0)
        return fail_missing_key(r, r->key.part[0].name, value, e);
    if (value.len > WEIR_LOGLINE_KEY_LEN_MAX)
        return fail_value(r, r->key.part[0].name, value, log_expect_key, e);
    *ret = value;
    return WEIR_LOGLINE_REQUEST;
}

/* Filters the line, and reads its cost and its key. */
static weir_logline_result read_fields(weir_logline_reader *r, weir_slice *ret_key,
                                       int64_t *ret_cost, weir_logline_error *e)
{
    for (size_t i = 0; i < r->filter.tests; i++) {
        const log_test *t = &r->filter.test[i];
        weir_slice value = value_of(r, t->name);
        r->names.name[t->name].sought = true;
        r->names.name[t->name].found |= value.at != NULL;
        if (!log_test_holds(t, value))
            return WEIR_LOGLINE_LEFT_OUT;
    }
    weir_logline_result result = read_cost(r, ret_cost, e);
    return result == WEIR_LOGLINE_REQUEST ? read_key(r, ret_key, e) : result;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool read_tsv(log_line *l, weir_slice *ret_key, int64_t *ret_cost, weir_logline_error *e)
{
    const char *tab = log_find(l->begin, l->end, '\t');
    const char *time_end = tab ? tab : l->end;
    weir_status st = weir_logtime_number(l->begin, time_end, 1, &l->t_ns);
    if (st != WEIR_OK)
        return log_fail(
            l->begin, l->begin,
            st == WEIR_E_RANGE ? log_expect_time_range : "t_ns, whole nanoseconds since 1970", e);
    if (!tab)
        return log_fail(l->begin, l->end, "a tab, then a key", e);
    const char *begin = tab + 1;
    tab = log_find(begin, l->end, '\t');
    *ret_key = log_between(begin, tab ? tab : l->end);
    if (ret_key->len == 0 || ret_key->len > WEIR_LOGLINE_KEY_LEN_MAX)
        return log_fail(l->begin, begin, log_expect_key, e);
    *ret_cost = 1;
    if (tab && !log_read_saturated(log_between(tab + 1, l->end), ret_cost))
        return log_fail(l->begin, tab + 1, log_expect_cost, e);
    return true;
}

static weir_logline_result read_json(weir_logline_reader *r, weir_slice *ret_key, int64_t *ret_cost,
                                     weir_logline_error *e)
{
    weir_status st = log_json_load(&r->json, r->line.begin, r->line.end, e);
    weir_logline_result result = result_of(st, WEIR_LOGLINE_BAD);
    if (st == WEIR_OK && log_json_time(&r->json, &r->line.t_ns, e))
        result = read_fields(r, ret_key, ret_cost, e);
    log_json_unload(&r->json);
    return result;
}

static weir_logline_result read_known(weir_logline_reader *r, weir_slice *ret_key,
                                      int64_t *ret_cost, weir_logline_error *e)
{
    log_line *l = &r->line;
    bool ok = false;
    switch (r->shape) {
    case SHAPE_TEXT:
        ok = r->format->grammar(l, r->need, e);
        break;
    case SHAPE_COLUMNS:
        ok = log_table_read(&r->table, l->begin, l->end, &l->t_ns, e);
        break;
    case SHAPE_TSV:
        return read_tsv(l, ret_key, ret_cost, e) ? WEIR_LOGLINE_REQUEST : WEIR_LOGLINE_BAD;
    case SHAPE_JSON:
    case SHAPE_UNKNOWN:
        return read_json(r, ret_key, ret_cost, e);
    }
    weir_logline_result result = ok ? read_fields(r, ret_key, ret_cost, e) : WEIR_LOGLINE_BAD;
    return r->table.no_memory ? WEIR_LOGLINE_NO_MEMORY : result;
}

/* Forgets the format. A first JSON line that is no request, such as a message of a server, does not
 * choose the format of the others. */
static void unsettle(weir_logline_reader *r)
{
    r->format = NULL;
    r->shape = SHAPE_UNKNOWN;
    r->cost = r->options.cost ? r->cost : -1;
    r->cost_optional = false;
}

weir_logline_result weir_logline_read(weir_logline_reader *r, const char *line, size_t len,
                                      weir_log_record *ret, weir_logline_error *ret_error)
{
    const char *end = line + len;
    if (len > 0 && end[-1] == '\n')
        end--;
    if (end > line && end[-1] == '\r')
        end--;
    line = log_skip_mark(line, end);
    if (end == line)
        return WEIR_LOGLINE_HEADER;
    if (r->misfit) {
        *ret_error = r->misfit_error;
        return WEIR_LOGLINE_USAGE;
    }
    r->line = (log_line){.begin = line, .end = end};
    bool first = r->shape == SHAPE_UNKNOWN;
    if (first) {
        weir_logline_result result = begin(r, ret_error);
        if (result != WEIR_LOGLINE_REQUEST)
            return result;
    }
    weir_slice key = {0};
    int64_t cost = 0;
    weir_logline_result result = read_known(r, &key, &cost, ret_error);
    WEIR_ASSERT(result != WEIR_LOGLINE_REQUEST ||
                (key.len > 0 && key.len <= WEIR_LOGLINE_KEY_LEN_MAX && cost >= 0));
    if (result == WEIR_LOGLINE_REQUEST)
        *ret = (weir_log_record){r->line.t_ns, key.at, key.len, cost};
    else if (first && result == WEIR_LOGLINE_BAD && !r->options.format && r->shape == SHAPE_JSON &&
             strcmp(r->format->name, "jsonl") == 0)
        unsettle(r);
    return result;
}

/* ---- opening --------------------------------------------------------------------------------- */

static weir_status set_format(weir_logline_reader *r, weir_logline_error *e)
{
    const char *name = r->options.format;
    if (!name)
        return WEIR_OK;
    r->format = format_find(name);
    if (r->format)
        return r->format->grammar && !r->format->json ? settle(r, SHAPE_TEXT, e) : WEIR_OK;
    *e = (weir_logline_error){.option = "--format"};
    snprintf(e->detail, sizeof e->detail, "expected %s, found '%.40s'", weir_logline_formats(),
             name);
    return WEIR_E_SYNTAX;
}

weir_status weir_logline_open(weir_logline_reader **ret, const weir_logline_options *o,
                              weir_logline_error *ret_error)
{
    weir_logline_reader *r = port_zalloc(1, sizeof *r);
    if (!r)
        return WEIR_E_NOMEM;
    r->options = *o;
    r->cost = -1;
    r->time[0] = (weir_logtime_name){o->time, o->time ? weir_logtime_unit(o->time) : 0};
    r->times = o->time ? r->time : weir_logtime_names;
    r->json.times = r->table.times = r->times;
    bool ok =
        !o->time || *o->time ||
        log_option_fail("--time", o->time, o->time, "the name of a member or column", ret_error);
    if (ok && o->key) {
        r->key_is_plain = !strchr(o->key, '$');
        ok = log_template_parse(&r->key, o->key, &r->names, ret_error);
    }
    if (ok && o->cost) {
        r->cost = add_name(r, o->cost);
        ok = *o->cost ||
             log_option_fail("--cost", o->cost, o->cost, "the name of a field", ret_error);
    }
    for (size_t i = 0; ok && i < o->wheres; i++)
        ok = log_filter_parse(&r->filter, o->where[i], &r->names, ret_error);
    weir_status st = ok ? set_format(r, ret_error) : WEIR_E_SYNTAX;
    if (st == WEIR_OK)
        *ret = r;
    else
        weir_logline_close(r);
    return st;
}

void weir_logline_error_text(const weir_logline_error *error, char *ret, size_t size)
{
    char place[32] = "", detail[4 * sizeof error->detail + 10];
    /* a part of the log that is printed must not control the terminal */
    weir_text_escape_to(detail, sizeof detail, error->detail, strlen(error->detail), WEIR_HEX_LINE);
    if (error->column > 0)
        snprintf(place, sizeof place, "column %zu: ", error->column);
    snprintf(ret, size, "%s%s%s%s%s%s%s", error->option ? error->option : "",
             error->option ? ": " : "", place, error->expected ? "expected " : "",
             error->expected ? error->expected : "",
             error->expected && error->detail[0] ? "; " : "", detail);
}
