/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The Rate Limit Service in JSON, by the JSON mapping of proto3: members by their lowerCamelCase
 * or their original name, numbers also as strings, enums by name or number, null for an absent
 * member. */

#include "codec/answer/json.h"
#include "port/duration.h"
#include "rls/wire/message.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

enum { JSON_FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL };

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    weir_rls_arena *arena;
    char *error; /* 256 bytes */
} reader;

__attribute__((format(printf, 2, 3))) static bool fail(const reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->error, 256, format, args);
    va_end(args);
    return false;
}

static const char *word_of(const json_t *v)
{
    return json_is_object(v)    ? "an object"
           : json_is_array(v)   ? "an array"
           : json_is_string(v)  ? "a string"
           : json_is_number(v)  ? "a number"
           : json_is_boolean(v) ? "a boolean"
                                : "null";
}

static bool expected(const reader *r, const char *name, const char *what, const json_t *found)
{
    return fail(r, "\"%s\": expected %s, found %s", name, what, word_of(found));
}

/* Reads a string. Its bytes are copied, because the JSON value is freed before the request. */
static bool read_string(const reader *r, const char *name, const json_t *v, weir_slice *ret)
{
    if (!json_is_string(v))
        return expected(r, name, "a string", v);
    size_t len = json_string_length(v);
    char *copy = weir_rls_arena_take(r->arena, len);
    if (!copy)
        return fail(r, "%s", WEIR_RLS_ARENA_FULL);
    memcpy(copy, json_string_value(v), len);
    *ret = (weir_slice){copy, len};
    return true;
}

/* Reads a number that may have a fraction of zeros or an exponent. Above 2^53 it is rounded. */
static bool read_real(double v, uint64_t max, uint64_t *ret)
{
    if (!(v >= 0) || v > (double)max || v != floor(v))
        return false;
    *ret = v >= (double)max ? max : (uint64_t)v;
    return true;
}

/* Reads the text of a number. */
static bool read_quoted(const json_t *text, uint64_t max, uint64_t *ret)
{
    const char *at = json_string_value(text);
    size_t len = json_string_length(text);
    bool zeros = len > 1 && at[0] == '0' && at[1] >= '0' && at[1] <= '9';
    if (!zeros && weir_decimal_read(at, len, max, ret))
        return true;
    if (len == 0 || (unsigned char)at[0] <= ' ' || (unsigned char)at[len - 1] <= ' ')
        return false;
    json_t *v = json_loadb(at, len, JSON_FLAGS | JSON_DECODE_ANY, NULL);
    bool ok = json_is_real(v) && read_real(json_real_value(v), max, ret);
    json_decref(v);
    return ok;
}

/* Reads a whole number 0..max. */
static bool read_number(const reader *r, const char *name, const json_t *v, uint64_t max,
                        uint64_t *ret)
{
    bool ok = json_is_string(v) ? read_quoted(v, max, ret)
                                : json_is_real(v) && read_real(json_real_value(v), max, ret);
    return ok || fail(r, "\"%s\": expected a whole number from 0 to %" PRIu64, name, max);
}

static bool read_uint32(const reader *r, const char *name, const json_t *v, uint32_t *ret)
{
    uint64_t number = 0;
    bool ok = read_number(r, name, v, UINT32_MAX, &number);
    *ret = (uint32_t)number;
    return ok;
}

static bool read_unit(const reader *r, const char *name, const json_t *v, weir_rls_unit *ret)
{
    const char *text = json_string_value(v);
    for (int unit = 0; text && unit <= WEIR_RLS_YEAR; unit++) {
        const char *word = weir_rls_unit_word((weir_rls_unit)unit);
        if (strlen(word) == json_string_length(v) && strcmp(text, word) == 0) {
            *ret = (weir_rls_unit)unit;
            return true;
        }
    }
    uint64_t number;
    if (!json_is_real(v) || !read_real(json_real_value(v), INT32_MAX, &number))
        return fail(r, "\"%s\": expected a unit such as SECOND, or its number", name);
    *ret = number < WEIR_RLS_UNITS ? (weir_rls_unit)number : WEIR_RLS_UNIT_UNKNOWN;
    return true;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* A member that an object may have. */
typedef struct member {
    const char *name, *original; /* in lowerCamelCase, and as in the .proto file */
    bool (*read)(const reader *r, const char *name, const json_t *v, void *object);
} member;

/* Reads the members of an object. Those that are null are absent. */
static bool read_object(const reader *r, const char *name, const json_t *v, const member *members,
                        size_t n, void *object)
{
    unsigned seen = 0;
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return expected(r, name, "an object", v);
    json_object_foreach((json_t *)v, key, value)
    {
        size_t i = 0;
        while (i < n && strcmp(key, members[i].name) != 0 && strcmp(key, members[i].original) != 0)
            i++;
        if (i == n)
            return fail(r, "unknown member \"%.64s\" in %s", key, name);
        if (seen & 1U << i)
            return fail(r, "\"%s\" is given twice", key);
        seen |= 1U << i;
        if (!json_is_null(value) && !members[i].read(r, key, value, object))
            return false;
    }
    return true;
}

#define MEMBERS(table) (table), sizeof(table) / sizeof(table)[0]

static bool read_key(const reader *r, const char *name, const json_t *v, void *object)
{
    return read_string(r, name, v, &((weir_rls_entry *)object)->key);
}

static bool read_entry_value(const reader *r, const char *name, const json_t *v, void *object)
{
    return read_string(r, name, v, &((weir_rls_entry *)object)->value);
}

static const member entry_members[] = {{"key", "key", read_key},
                                       {"value", "value", read_entry_value}};

static bool read_entries(const reader *r, const char *name, const json_t *v, void *object)
{
    weir_rls_descriptor *d = object;
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        return expected(r, name, "an array", v);
    weir_rls_entry *entries = weir_rls_arena_take(r->arena, n * sizeof *entries);
    if (!entries)
        return fail(r, "%s", WEIR_RLS_ARENA_FULL);
    for (size_t i = 0; i < n; i++) {
        entries[i] = (weir_rls_entry){{"", 0}, {"", 0}};
        if (!read_object(r, "an entry", json_array_get(v, i), MEMBERS(entry_members), &entries[i]))
            return false;
    }
    d->entries = entries;
    d->entries_len = n;
    return true;
}

static bool read_per_unit(const reader *r, const char *name, const json_t *v, void *object)
{
    return read_uint32(r, name, v, &((weir_rls_override *)object)->requests_per_unit);
}

static bool read_override_unit(const reader *r, const char *name, const json_t *v, void *object)
{
    return read_unit(r, name, v, &((weir_rls_override *)object)->unit);
}

static const member limit_members[] = {
    {"requestsPerUnit", "requests_per_unit", read_per_unit},
    {"unit", "unit", read_override_unit},
};

static bool read_limit(const reader *r, const char *name, const json_t *v, void *object)
{
    weir_rls_descriptor *d = object;
    (void)name;
    d->has_override = true;
    return read_object(r, "a limit", v, MEMBERS(limit_members), &d->override);
}

static bool read_hits(const reader *r, const char *name, const json_t *v, void *object)
{
    weir_rls_descriptor *d = object;
    d->has_hits = true;
    return read_number(r, name, v, UINT64_MAX, &d->hits);
}

static bool read_negative(const reader *r, const char *name, const json_t *v, void *object)
{
    if (!json_is_boolean(v))
        return expected(r, name, "true or false", v);
    ((weir_rls_descriptor *)object)->negative = json_is_true(v);
    return true;
}

static const member descriptor_members[] = {
    {"entries", "entries", read_entries},
    {"limit", "limit", read_limit},
    {"hitsAddend", "hits_addend", read_hits},
    {"isNegativeHits", "is_negative_hits", read_negative},
};

static bool read_domain(const reader *r, const char *name, const json_t *v, void *object)
{
    return read_string(r, name, v, &((weir_rls_request *)object)->domain);
}

/* Those above the maximum are checked, and then dropped. */
static bool read_descriptors(const reader *r, const char *name, const json_t *v, void *object)
{
    weir_rls_request *request = object;
    size_t n = json_array_size(v), kept = n;
    if (!json_is_array(v))
        return expected(r, name, "an array", v);
    if (kept > WEIR_RLS_DESCRIPTORS_KEPT)
        kept = WEIR_RLS_DESCRIPTORS_KEPT;
    weir_rls_descriptor *descriptors = weir_rls_arena_take(r->arena, kept * sizeof *descriptors);
    if (!descriptors)
        return fail(r, "%s", WEIR_RLS_ARENA_FULL);
    for (size_t i = 0; i < n; i++) {
        weir_rls_descriptor d = {0};
        if (!read_object(r, "a descriptor", json_array_get(v, i), MEMBERS(descriptor_members), &d))
            return false;
        if (i < kept)
            descriptors[i] = d;
    }
    request->descriptors = descriptors;
    request->descriptors_len = kept;
    return true;
}

static bool read_addend(const reader *r, const char *name, const json_t *v, void *object)
{
    return read_uint32(r, name, v, &((weir_rls_request *)object)->hits_addend);
}

static const member request_members[] = {
    {"domain", "domain", read_domain},
    {"descriptors", "descriptors", read_descriptors},
    {"hitsAddend", "hits_addend", read_addend},
};

bool weir_rls_decode_json(weir_rls_arena *a, weir_slice body, weir_rls_request *ret,
                          char ret_error[static 256])
{
    const reader r = {a, ret_error};
    size_t before = a->len;
    json_error_t error;
    *ret = (weir_rls_request){.domain = {"", 0}};
    json_t *json = json_loadb(body.at ? body.at : "", body.len, JSON_FLAGS, &error);
    if (!json)
        return fail(&r, "line %d, column %d: %s", error.line, error.column, error.text);
    bool ok = read_object(&r, "the request", json, MEMBERS(request_members), ret);
    json_decref(json);
    if (!ok)
        a->len = before;
    return ok;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put(weir_buffer *out, const char *text)
{
    weir_buffer_append(out, text, strlen(text));
}

/* Begins a member: a comma unless it is the first, and its name. */
static void put_name(weir_buffer *out, bool *first, const char *name)
{
    weir_buffer_append(out, ",", !*first);
    *first = false;
    weir_buffer_append_byte(out, '"');
    put(out, name);
    put(out, "\":");
}

static void put_number(weir_buffer *out, bool *first, const char *name, uint32_t v)
{
    if (v == 0)
        return;
    put_name(out, first, name);
    weir_buffer_put(out, "", v);
}

static void put_string(weir_buffer *out, bool *first, const char *name, const char *at, size_t len)
{
    if (len == 0)
        return;
    put_name(out, first, name);
    weir_json_put_string(out, at, len);
}

static void put_code(weir_buffer *out, bool *first, const char *name, weir_rls_code code)
{
    if (code == WEIR_RLS_UNKNOWN)
        return;
    put_name(out, first, name);
    put(out, code == WEIR_RLS_OK ? "\"OK\"" : "\"OVER_LIMIT\"");
}

static void put_duration(weir_buffer *out, int64_t ns)
{
    char text[WEIR_DURATION_MAX];
    weir_duration_print(text, ns, WEIR_DURATION_PROTO);
    weir_buffer_printf(out, "\"%s\"", text);
}

static void put_limit(weir_buffer *out, const weir_rls_status *s)
{
    bool first = true;
    put(out, "{");
    put_string(out, &first, "name", s->name.at, s->name.len);
    put_number(out, &first, "requestsPerUnit", s->requests_per_unit);
    if (s->unit != WEIR_RLS_UNIT_UNKNOWN) {
        const char *word = weir_rls_unit_word(s->unit);
        put_string(out, &first, "unit", word, strlen(word));
    }
    put(out, "}");
}

static void put_status(weir_buffer *out, const weir_rls_status *s)
{
    bool first = true;
    put(out, "{");
    put_code(out, &first, "code", s->code);
    if (s->has_limit) {
        put_name(out, &first, "currentLimit");
        put_limit(out, s);
    }
    put_number(out, &first, "limitRemaining", s->remaining);
    if (s->has_limit) {
        put_name(out, &first, "durationUntilReset");
        put_duration(out, s->reset_ns);
    }
    put(out, "}");
}

static void put_header(weir_buffer *out, const weir_answer_field *h)
{
    bool first = true;
    put(out, "{");
    put_string(out, &first, "key", h->name, strlen(h->name));
    put_string(out, &first, "value", h->value.at, h->value.len);
    put(out, "}");
}

static void put_headers(weir_buffer *out, bool *first, const weir_rls_response *response)
{
    weir_answer_field fields[WEIR_RLS_FIELDS_MAX];
    char values[WEIR_ANSWER_ROOM];
    size_t n = weir_rls_fields(response, fields, values);
    if (n > 0)
        put_name(out, first, "responseHeadersToAdd");
    for (size_t i = 0; i < n; i++) {
        put(out, i == 0 ? "[" : ",");
        put_header(out, &fields[i]);
    }
    put(out, n > 0 ? "]" : "");
}

void weir_rls_encode_json(const weir_rls_response *response, weir_buffer *out)
{
    bool first = true;
    put(out, "{");
    put_code(out, &first, "overallCode", response->code);
    if (response->statuses_len > 0)
        put_name(out, &first, "statuses");
    for (size_t i = 0; i < response->statuses_len; i++) {
        put(out, i == 0 ? "[" : ",");
        put_status(out, &response->statuses[i]);
    }
    put(out, response->statuses_len > 0 ? "]" : "");
    put_headers(out, &first, response);
    if (response->metadata) {
        put_name(out, &first, "dynamicMetadata");
        weir_rls_put_value_json(out, response->metadata);
    }
    put(out, "}");
}
