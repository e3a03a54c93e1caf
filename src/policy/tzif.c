/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parses and validates TZif files (RFC 9636). Only the footer is decoded; the listed changes stay
 * in the caller's bytes. Every count, index and order is validated here, once, so that zone.c need
 * not. */

#include "policy/zone.h"

#define HEADER_SIZE 44

/* RFC 9636, 3.2: offsets are -24:59:59 .. 25:59:59. The grammar of the footer cannot exceed that.
 */
_Static_assert(OFFSET_S_MIN == -(25 * 3600 - 1) && OFFSET_S_MAX == 26 * 3600 - 1, "as in zone.h");

/* ---- the footer ------------------------------------------------------------------------------ */

typedef struct text {
    const uint8_t *p;
    const uint8_t *end;
} text;

static bool take(text *t, char c)
{
    if (t->p == t->end || *t->p != (uint8_t)c)
        return false;
    t->p++;
    return true;
}

static bool digit(const text *t)
{
    return t->p < t->end && *t->p >= '0' && *t->p <= '9';
}

/* Parses a decimal number of 1 to 3 digits. */
static bool number(text *t, int32_t min, int32_t max, int32_t *ret)
{
    int32_t n = 0;
    int digits = 0;
    while (digit(t) && digits++ < 3)
        n = n * 10 + (*t->p++ - '0');
    if (digits == 0 || digits > 3 || n < min || n > max)
        return false;
    *ret = n;
    return true;
}

/* Parses [+-]h[:mm[:ss]], in seconds. */
static bool clock_time(text *t, int32_t hours_max, int32_t *ret_s)
{
    int32_t h, m = 0, s = 0;
    bool minus = take(t, '-');
    if (!minus)
        (void)take(t, '+');
    if (!number(t, 0, hours_max, &h))
        return false;
    if (take(t, ':')) {
        if (!number(t, 0, 59, &m))
            return false;
        if (take(t, ':') && !number(t, 0, 59, &s))
            return false;
    }
    int32_t total_s = h * 3600 + m * 60 + s;
    *ret_s = minus ? -total_s : total_s;
    return true;
}

static bool alphabetic(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Parses the abbreviation of a zone, "CET" or "<+03>", of three or more characters. */
static bool designation(text *t)
{
    bool quoted = take(t, '<');
    const uint8_t *from = t->p;
    while (t->p < t->end &&
           (alphabetic(*t->p) || (quoted && (digit(t) || *t->p == '+' || *t->p == '-'))))
        t->p++;
    bool ok = t->p - from >= 3;
    return ok && (!quoted || take(t, '>'));
}

/* Parses Jn, n or Mm.w.d, each with an optional /time. Times outside 0..24 h are an extension of
 * version 3. They are accepted in version 2 too, where they have no other meaning. */
static bool change_rule(text *t, weir_zone_rule *ret)
{
    int32_t month = 0, week = 0, day = 0, time_s = 2 * 3600;
    uint8_t form = 'N';
    if (take(t, 'M')) {
        form = 'M';
        if (!number(t, 1, 12, &month) || !take(t, '.') || !number(t, 1, 5, &week) ||
            !take(t, '.') || !number(t, 0, 6, &day))
            return false;
    } else {
        if (take(t, 'J'))
            form = 'J';
        if (!number(t, form == 'J', 365, &day))
            return false;
    }
    if (take(t, '/') && !clock_time(t, 167, &time_s))
        return false;
    ret->time_s = time_s;
    ret->day = (uint16_t)day;
    ret->month = (uint8_t)month;
    ret->week = (uint8_t)week;
    ret->form = form;
    return true;
}

/* Returns whether change[0] and change[1] alternate from year to year. If `endless`, returns
 * whether each change[1] is no earlier than the next year's change[0], so that DST never ends. The
 * loop's 28 years contain every pair of successive kinds of year: weekday of January 1st, leap or
 * not. */
static bool changes_repeat(const weir_zone_tail *tail, bool endless)
{
    for (uint32_t year = 2001; year < 2001 + 28; year++) {
        int64_t back_s = weir_zone_change(tail, 1, year);
        if (back_s <= weir_zone_change(tail, 0, year))
            return false;
        if ((back_s >= weir_zone_change(tail, 0, year + 1)) != endless)
            return false;
    }
    return true;
}

/* Sets the course of a tail that contains standard time, DST, its start and its end, in this order.
 * Returns false if the changes contradict each other in some year. */
static bool order_changes(weir_zone_tail *tail)
{
    tail->course = WEIR_ZONE_YEARLY;
    if (changes_repeat(tail, false))
        return true;
    bool all_year = changes_repeat(tail, true);
    int32_t standard_s = tail->base_s;
    tail->base_s = tail->other_s;
    if (all_year) {
        tail->course = WEIR_ZONE_FIXED;
        return true;
    }
    weir_zone_rule start =
        tail->change[0]; /* in the southern hemisphere DST ends before it starts */
    tail->change[0] = tail->change[1];
    tail->change[1] = start;
    tail->other_s = standard_s;
    return changes_repeat(tail, false);
}

static bool read_footer(text t, weir_zone_tail *ret)
{
    if (!take(&t, '\n'))
        return false;
    if (take(&t, '\n'))
        return true;
    if (!designation(&t) || !clock_time(&t, 24, &ret->base_s))
        return false;
    ret->base_s = -ret->base_s; /* a POSIX TZ string counts west of UTC */
    ret->course = WEIR_ZONE_FIXED;
    if (take(&t, '\n'))
        return true;
    if (!designation(&t))
        return false;
    ret->other_s = ret->base_s + 3600;
    if (t.p < t.end && *t.p != ',') {
        if (!clock_time(&t, 24, &ret->other_s))
            return false;
        ret->other_s = -ret->other_s;
    }
    if (!take(&t, ',') || !change_rule(&t, &ret->change[0]) || !take(&t, ',') ||
        !change_rule(&t, &ret->change[1]) || !take(&t, '\n'))
        return false;
    return order_changes(ret);
}

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct header {
    uint32_t version; /* 0, or '2'..'4' */
    uint32_t isut_count, isstd_count, leap_count, times_count, types_count, chars_count;
} header;

/* Parses a header. Returns false if it is invalid or the data it describes is truncated. Otherwise
 * *ret_data_size is the size of the data, in which a time has time_size bytes. */
static bool read_header(text t, uint32_t time_size, header *ret, size_t *ret_data_size)
{
    const uint8_t *p = t.p;
    if (t.end - p < HEADER_SIZE || weir_be32(p) != 0x545a6966) /* "TZif" */
        return false;
    ret->version = p[4];
    ret->isut_count = weir_be32(p + 20);
    ret->isstd_count = weir_be32(p + 24);
    ret->leap_count = weir_be32(p + 28);
    ret->times_count = weir_be32(p + 32);
    ret->types_count = weir_be32(p + 36);
    ret->chars_count = weir_be32(p + 40);
    /* No overflow: six products of a 32-bit number and at most 12. */
    uint64_t size = (uint64_t)ret->times_count * (time_size + 1) +
                    (uint64_t)ret->types_count * WEIR_ZONE_TYPE_SIZE + ret->chars_count +
                    (uint64_t)ret->leap_count * (time_size + 4) + ret->isstd_count +
                    ret->isut_count;
    if (size > (uint64_t)(t.end - p - HEADER_SIZE))
        return false;
    *ret_data_size = (size_t)size;
    return (ret->version >= '2' && ret->version <= '4') || ret->version == 0;
}

static bool counts_ok(const header *h)
{
    return h->leap_count == 0 && h->types_count >= 1 && h->types_count <= 256 &&
           h->chars_count >= 1 && h->times_count <= WEIR_ZONE_TIMES_MAX &&
           (h->isstd_count == 0 || h->isstd_count == h->types_count) &&
           (h->isut_count == 0 || h->isut_count == h->types_count);
}

static bool times_ok(const weir_zone *z, uint32_t types_count)
{
    for (uint32_t i = 0; i < z->times_count; i++) {
        if (i > 0 && weir_zone_time(z, i) <= weir_zone_time(z, i - 1))
            return false;
        if (z->indices[i] >= types_count)
            return false;
    }
    return true;
}

static bool types_ok(const weir_zone *z, const header *h)
{
    const uint8_t *chars = z->types + (size_t)h->types_count * WEIR_ZONE_TYPE_SIZE;
    const uint8_t *isstd = chars + h->chars_count;
    const uint8_t *isut = isstd + h->isstd_count;
    for (uint32_t i = 0; i < h->types_count; i++) {
        const uint8_t *type = z->types + (size_t)i * WEIR_ZONE_TYPE_SIZE;
        int32_t offset_s = weir_zone_type_offset(z, i);
        if (offset_s < OFFSET_S_MIN || offset_s > OFFSET_S_MAX || type[4] > 1 ||
            type[5] >= h->chars_count)
            return false;
        uint8_t std = h->isstd_count > 0 ? isstd[i] : 0;
        uint8_t ut = h->isut_count > 0 ? isut[i] : 0;
        if (std > 1 || ut > std) /* 3.2: UT implies standard */
            return false;
    }
    return chars[h->chars_count - 1] == 0;
}

/* RFC 9636, 3.3: the footer agrees with the list on the offset after the last change. */
static bool tail_ok(const weir_zone *z)
{
    if (z->times_count == 0 || z->tail.course == WEIR_ZONE_LAST)
        return true;
    int64_t last_s = weir_zone_time(z, z->times_count - 1);
    int32_t offset_s = weir_zone_type_offset(z, z->indices[z->times_count - 1]);
    if (z->tail.course == WEIR_ZONE_FIXED)
        return offset_s == z->tail.base_s;
    if (last_s < RULE_S_MIN || last_s > RULE_S_MAX)
        return last_s > RULE_S_MAX; /* then the footer is never used */
    return offset_s == weir_zone_yearly(&z->tail, last_s).offset_s;
}

bool weir_zone_name_ok(const char *name, size_t len)
{
    if (len < 1 || len > WEIR_ZONE_NAME_MAX || name[len - 1] == '/')
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool slash = c == '/' && i > 0 && name[i - 1] != '/';
        if (!slash && !alphabetic((uint8_t)c) && !(c >= '0' && c <= '9') && c != '_' && c != '+' &&
            c != '-')
            return false;
    }
    return true;
}

/* Points z at the parts of a complete data block, and validates them. */
static bool read_block(weir_zone *z, const header *h, const uint8_t *data, uint32_t time_size)
{
    z->times = data;
    z->times_count = h->times_count;
    z->time_size = time_size;
    z->indices = data + (size_t)h->times_count * time_size;
    z->types = z->indices + h->times_count;
    return counts_ok(h) && times_ok(z, h->types_count) && types_ok(z, h);
}

/* Sets every field of z except its name. */
static bool read_file(weir_zone *z, text t)
{
    header h;
    size_t size;
    z->tail = (weir_zone_tail){.course = WEIR_ZONE_LAST};
    if (!read_header(t, 4, &h, &size))
        return false;
    t.p += HEADER_SIZE;
    if (h.version == 0)
        return read_block(z, &h, t.p, 4);
    t.p += size; /* skip the block for version 1 */
    uint32_t version = h.version;
    if (!read_header(t, 8, &h, &size) || h.version != version)
        return false;
    t.p += HEADER_SIZE;
    if (!read_block(z, &h, t.p, 8))
        return false;
    t.p += size;
    return read_footer(t, &z->tail) && tail_ok(z);
}

weir_status weir_zone_read(weir_zone *ret, const char *name, size_t name_len, const uint8_t *bytes,
                           size_t len)
{
    weir_zone z;
    if (!weir_zone_name_ok(name, name_len) || len < HEADER_SIZE ||
        !read_file(&z, (text){bytes, bytes + len}))
        return WEIR_E_ZONE;
    /* Copied field by field: a struct copy would call memcpy(). */
    ret->times = z.times;
    ret->indices = z.indices;
    ret->types = z.types;
    ret->times_count = z.times_count;
    ret->time_size = z.time_size;
    ret->tail.course = z.tail.course;
    ret->tail.base_s = z.tail.base_s;
    ret->tail.other_s = z.tail.other_s;
    ret->tail.change[0] = z.tail.change[0];
    ret->tail.change[1] = z.tail.change[1];
    for (size_t i = 0; i < sizeof ret->name; i++)
        ret->name[i] = i < name_len ? name[i] : '\0';
    return WEIR_OK;
}
