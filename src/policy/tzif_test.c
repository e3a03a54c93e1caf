/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests which TZif files and names weir_zone_read() accepts: files that are built here byte by
 * byte, and a real one with every byte damaged. calendar_test.c tests the resulting windows. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "policy/zone.h"

#ifndef WEIR_ZONEINFO_DIR
#define WEIR_ZONEINFO_DIR "/usr/share/zoneinfo"
#endif

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* A file with two types (0: +01:00, 1: +02:00 DST) and changes to 1, 0, 1 ... at `times`. */
typedef struct image {
    uint8_t bytes[65536];
    size_t len;
} image;

static void put(image *f, uint64_t value, unsigned size)
{
    while (size-- > 0)
        f->bytes[f->len++] = (uint8_t)(value >> (8 * size));
}

static void put_text(image *f, const char *text, size_t len)
{
    memcpy(f->bytes + f->len, text, len);
    f->len += len;
}

static void put_block(image *f, char version, unsigned time_size, const int64_t *times, uint32_t n)
{
    put_text(f, "TZif", 4);
    put(f, (uint8_t)version, 1);
    put(f, 0, 7); /* unused: 15 bytes */
    put(f, 0, 8);
    put(f, UINT64_C(2) << 32 | 2, 8); /* counts: UT, standard */
    put(f, n, 8);                     /* leap seconds, times */
    put(f, UINT64_C(2) << 32 | 8, 8); /* types, characters */
    for (uint32_t i = 0; i < n; i++)
        put(f, (uint64_t)times[i], time_size);
    for (uint32_t i = 0; i < n; i++)
        put(f, (i + 1) % 2, 1);
    put(f, UINT64_C(3600) << 16, 6); /* offset, DST, index of the abbreviation */
    put(f, UINT64_C(7200) << 16 | 0x104, 6);
    put_text(f, "STD\0DST", 8);
    put(f, 0x00010001, 4); /* standard, UT */
}

static void build(image *f, char version, const int64_t *times, uint32_t n, const char *footer)
{
    f->len = 0;
    put_block(f, version, 4, times, version == 0 ? n : 0);
    if (version != 0) {
        put_block(f, version, 8, times, n);
        put_text(f, footer, strlen(footer));
    }
}

/* Parses f, and checks that a failure writes nothing. */
static bool accepted(weir_zone *ret, const image *f)
{
    weir_zone before;
    memset(ret, 0xa5, sizeof *ret);
    memcpy(&before, ret, sizeof before);
    weir_status st = weir_zone_read(ret, "Test/Zone", 9, f->bytes, f->len);
    if (st == WEIR_OK)
        return true;
    assert_int_equal(st, WEIR_E_ZONE);
    assert_memory_equal(ret, &before, sizeof before);
    return false;
}

static void names(void **state)
{
    static const char longest[] =
        "0123456789/123456789/123456789/123456789/123456789/12345678_/abc";
    char good[] =
        "UTC Europe/Berlin America/Port-au-Prince Etc/GMT+3 America/Argentina/La_Rioja x a/b";
    char bad[] =
        "/etc/passwd / // Europe/ Europe//Berlin .. . ../UTC Europe/../UTC a.b a\\b a:b \xc3\xa9";
    (void)state;
    for (char *word = strtok(good, " "); word; word = strtok(NULL, " "))
        assert_true(weir_zone_name_ok(word, strlen(word)));
    for (char *word = strtok(bad, " "); word; word = strtok(NULL, " "))
        assert_false(weir_zone_name_ok(word, strlen(word)));
    assert_true(weir_zone_name_ok(longest, WEIR_ZONE_NAME_MAX));
    assert_false(weir_zone_name_ok(longest, WEIR_ZONE_NAME_MAX + 1));
    assert_false(weir_zone_name_ok("UTC\0x", 5));
    assert_false(weir_zone_name_ok("UTC ", 4));
    assert_false(weir_zone_name_ok("UTC", 0));
    assert_false(weir_zone_name_ok(NULL, 0));

    image f;
    weir_zone z;
    build(&f, '2', NULL, 0, "\nUTC0\n");
    memset(&z, 0xa5, sizeof z);
    assert_int_equal(weir_zone_read(&z, "Europe/BerlinX", 13, f.bytes, f.len), WEIR_OK);
    assert_string_equal(z.name, "Europe/Berlin");
    assert_int_equal(weir_zone_read(&z, longest, 63, f.bytes, f.len), WEIR_OK);
    assert_memory_equal(z.name, longest, 63);
    assert_int_equal(z.name[63], 0);
    assert_int_equal(weir_zone_read(&z, "../UTC", 6, f.bytes, f.len), WEIR_E_ZONE);
    assert_memory_equal(z.name, longest, 63);
}

static void versions(void **state)
{
    static const int64_t times[] = {-1000, 0, 1000};
    image f;
    weir_zone z;
    (void)state;
    for (const char *v = "234"; *v; v++) {
        build(&f, *v, times, 3, "\nDST-2\n");
        assert_true(accepted(&z, &f));
        assert_int_equal(z.times_count, 3);
        assert_int_equal(weir_zone_piece_at(&z, -1001).offset_s, 3600);
        assert_int_equal(weir_zone_piece_at(&z, -1000).offset_s, 7200);
        assert_int_equal(weir_zone_piece_at(&z, 999).offset_s, 3600);
        assert_int_equal(weir_zone_piece_at(&z, 999).start_s, 0);
        assert_int_equal(weir_zone_piece_at(&z, 1000).offset_s, 7200);
    }
    build(&f, 0, times, 3, NULL);
    assert_true(accepted(&z, &f));
    assert_int_equal(weir_zone_piece_at(&z, -1000).start_s, -1000);
    assert_int_equal(weir_zone_piece_at(&z, -1000).end_s, 0);
    assert_int_equal(weir_zone_piece_at(&z, INT32_MAX).offset_s, 7200);
    build(&f, 0, NULL, 0, NULL);
    assert_true(accepted(&z, &f));
    assert_int_equal(weir_zone_piece_at(&z, 0).offset_s, 3600); /* type 0 */
    static const char unknown[] = {'0', '1', '5', 1, '\xff'};
    for (size_t i = 0; i < COUNT(unknown); i++) {
        build(&f, unknown[i], times, 3, "\nDST-2\n");
        assert_false(accepted(&z, &f));
    }
}

static void footers(void **state)
{
    static const struct {
        const char *text;
        weir_zone_course course;
        int32_t base_s, other_s; /* other_s only if yearly */
    } good[] = {
        {"", WEIR_ZONE_LAST, 0, 0},
        {"UTC0", WEIR_ZONE_FIXED, 0, 0},
        {"<+03>-3", WEIR_ZONE_FIXED, 10800, 0},
        {"<-00>0", WEIR_ZONE_FIXED, 0, 0},
        {"<+0330>-3:30", WEIR_ZONE_FIXED, 12600, 0},
        {"LMT+0:01:15", WEIR_ZONE_FIXED, -75, 0},
        {"AAA24:59:59", WEIR_ZONE_FIXED, OFFSET_S_MIN, 0},
        {"EST5EDT,M3.2.0,M11.1.0", WEIR_ZONE_YEARLY, -18000, -14400},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", WEIR_ZONE_YEARLY, 39600, 36000},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", WEIR_ZONE_YEARLY, 0, 3600},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", WEIR_ZONE_YEARLY, -7200, -3600},
        {"EET-2EEST,M3.4.4/50,M10.4.4/50", WEIR_ZONE_YEARLY, 7200, 10800},
        {"AAA3BBB,J60,J300", WEIR_ZONE_YEARLY, -10800, -7200},
        {"AAA3BBB,0,365", WEIR_ZONE_YEARLY, -10800, -7200},
        {"AAA3BBB,J1/-167:59:59,J300/167:59:59", WEIR_ZONE_YEARLY, -10800, -7200},
        {"AAA-24:59:59BBB,J9,J99", WEIR_ZONE_YEARLY, 89999, OFFSET_S_MAX},
        {"XXX3EDT4,0/0,J365/23", WEIR_ZONE_FIXED, -14400, 0}, /* RFC 9636: DST all year */
        {"EST5EDT,0/0,J365/25", WEIR_ZONE_FIXED, -14400, 0},
    };
    image f;
    weir_zone z;
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        char text[100];
        snprintf(text, sizeof text, "\n%s\n", good[i].text);
        build(&f, '3', NULL, 0, text);
        if (!accepted(&z, &f))
            fail_msg("rejected %s", good[i].text);
        assert_int_equal(z.tail.course, good[i].course);
        assert_int_equal(z.tail.base_s, good[i].base_s);
        if (z.tail.course == WEIR_ZONE_YEARLY)
            assert_int_equal(z.tail.other_s, good[i].other_s);
    }
}

static void bad_footers(void **state)
{
    static const char *const raw[] = {"", "\n", "UTC0", "\nUTC0", "\nUTC0 \n", "UTC0\n"};
    char list[] =
        "UTC UT0 0 UTC25 UTC0:60 UTC0:0:60 UTC0: UTC--1 UTC0000 U+C0 <+3>-3 <+03-3 <U_C>0 "
        "EST5EDT EST5EDT, EST5EDT,J9 EST5EDT,J9, EST5EDT,J9,J99, EST5E,J9,J99 EST5EDT25,J9,J99 "
        "EST5EDT,J0,J9 EST5EDT,J9,J366 EST5EDT,9,366 EST5EDT,J,J9 EST5EDT,J99999999999,J9 "
        "EST5EDT,J9/168,J99 EST5EDT,J9/,J99 EST5EDT,J9,J99/1000 EST5EDT,J9/1:60,J99 "
        "EST5EDT,M0.2.0,J9 EST5EDT,M13.2.0,J9 EST5EDT,M3.0.0,J9 EST5EDT,M3.6.0,J9 "
        "EST5EDT,M3.2.7,J9 EST5EDT,M3.2,J9 EST5EDT,M3,J9 EST5EDT,M3.2.0,M11.1 "
        "EST5EDT,J9/2,J9/3 "    /* both changes at one instant */
        "EST5EDT,J60/2,59/5 "   /* starts before it ends, but not in leap years */
        "EST5EDT,J1/0,364/25 "; /* all year, but not in leap years */
    image f;
    weir_zone z;
    (void)state;
    for (size_t i = 0; i < COUNT(raw); i++) {
        build(&f, '3', NULL, 0, raw[i]);
        assert_false(accepted(&z, &f));
    }
    for (char *word = strtok(list, " "); word; word = strtok(NULL, " ")) {
        char text[100];
        snprintf(text, sizeof text, "\n%s\n", word);
        build(&f, '3', NULL, 0, text);
        if (accepted(&z, &f))
            fail_msg("accepted %s", word);
    }
}

/* J60 is always March 1st; day 59 is February 29th in a leap year. The default time is 2:00. */
static void day_forms(void **state)
{
    image f;
    weir_zone z;
    (void)state;
    build(&f, '3', NULL, 0, "\nAAA0BBB,J60/0,59/48\n");
    assert_true(accepted(&z, &f));
    assert_int_equal(weir_zone_change(&z.tail, 0, 2023), 1677628800);
    assert_int_equal(weir_zone_change(&z.tail, 1, 2023), 1677628800 + 47 * 3600);
    assert_int_equal(weir_zone_change(&z.tail, 0, 2024), 1709251200);
    assert_int_equal(weir_zone_change(&z.tail, 1, 2024), 1709251200 + 23 * 3600);
    build(&f, '3', NULL, 0, "\nAAA0BBB,J60,J99\n");
    assert_true(accepted(&z, &f));
    assert_int_equal(weir_zone_change(&z.tail, 0, 2023), 1677628800 + 2 * 3600);
    /* The fifth Sunday of a month with four is the fourth: here February 22nd, September 24th. */
    build(&f, '3', NULL, 0, "\nAAA0BBB,M2.5.0/0,M9.5.0/1\n");
    assert_true(accepted(&z, &f));
    assert_int_equal(weir_zone_change(&z.tail, 0, 2026), 1771718400);
    assert_int_equal(weir_zone_change(&z.tail, 1, 2023), 1695513600);
}

/* Every yearly change begins a piece that ends at the next change, also where the first change of a
 * year lies in the year before. */
static void yearly_pieces(void **state)
{
    static const char *const texts[] = {
        "\nCET-1CEST,M3.5.0,M10.5.0/3\n", "\nAEST-10AEDT,M10.1.0,M4.1.0/3\n",
        "\nAAA3BBB,J1/-167:59:59,J300\n", "\nAAA3BBB,J60,J365/167:59:59\n",
        "\nAAA0BBB,0/0,J365/23\n",        "\nAAA-24:59:59BBB,J1/-167,J2/-167\n",
    };
    image f;
    weir_zone z;
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        build(&f, '3', NULL, 0, texts[i]);
        assert_true(accepted(&z, &f));
        assert_int_equal(z.tail.course, WEIR_ZONE_YEARLY);
        for (uint32_t year = 3; year < 9998; year += year < 1960 || year > 2100 ? 7 : 1) {
            int64_t change_s[] = {weir_zone_change(&z.tail, 0, year),
                                  weir_zone_change(&z.tail, 1, year),
                                  weir_zone_change(&z.tail, 0, year + 1)};
            for (int piece = 0; piece < 2; piece++) {
                int64_t inside_s[] = {change_s[piece], change_s[piece + 1] - 1};
                for (int at = 0; at < 2; at++) {
                    weir_zone_piece got = weir_zone_piece_at(&z, inside_s[at]);
                    assert_int_equal(got.start_s, change_s[piece]);
                    assert_int_equal(got.end_s, change_s[piece + 1]);
                    assert_int_equal(got.offset_s, piece == 0 ? z.tail.other_s : z.tail.base_s);
                }
            }
        }
    }
}

/* The footer must agree with the list on the last change. Bytes after the footer are ignored. */
static void footer_continues(void **state)
{
    static const int64_t summer = 1711846800, winter = 1729990800; /* Berlin 2024 */
    const char *berlin = "\nCET-1CEST,M3.5.0,M10.5.0/3\n";
    int64_t times[] = {summer, winter};
    image f;
    weir_zone z;
    (void)state;
    build(&f, '2', times, 2, berlin);
    assert_true(accepted(&z, &f));
    assert_int_equal(weir_zone_piece_at(&z, winter).start_s, winter);
    build(&f, '2', times, 1, berlin);
    assert_true(accepted(&z, &f));
    put_text(&f, "more", 4);
    assert_true(accepted(&z, &f));
    times[0] = winter; /* a change to DST in October */
    build(&f, '2', times, 1, berlin);
    assert_false(accepted(&z, &f));
    build(&f, '2', times, 1, "\nCET-1\n");
    assert_false(accepted(&z, &f));
    times[0] = RULE_S_MIN - 1;
    build(&f, '2', times, 1, berlin);
    assert_false(accepted(&z, &f));
    build(&f, '2', times, 1, "\nDST-2\n");
    assert_true(accepted(&z, &f));
    times[0] = RULE_S_MAX + 1;
    build(&f, '2', times, 1, "\nDST-2\n");
    assert_true(accepted(&z, &f));
    build(&f, '2', times, 1, "\nSTD-1\n");
    assert_false(accepted(&z, &f));
    times[0] = INT64_MIN;
    times[1] = INT64_MAX;
    build(&f, '2', times, 2, berlin);
    assert_true(accepted(&z, &f));
    assert_int_equal(weir_zone_piece_at(&z, summer).offset_s, 7200);
}

/* The offsets of the parts of the second block, in build(&f, '2', {..3 times}, ..). */
#define FIRST_SIZE (44 + 12 + 8 + 4)
#define TIMES      (FIRST_SIZE + 44)
#define INDICES    (TIMES + 24)
#define TYPES      (INDICES + 3)
#define CHARS      (TYPES + 12)
#define MARKS      (CHARS + 8)

static void damage(void **state)
{
    static const struct {
        size_t at;
        unsigned size;
        uint64_t value;
    } bad[] = {
        {0, 1, 'x'},
        {36, 4, UINT32_MAX}, /* more types than bytes */
        {FIRST_SIZE, 1, 'x'},
        {FIRST_SIZE + 4, 1, '3'},          /* differs from the first header's version */
        {FIRST_SIZE + 20, 4, 1},           /* counts: UT */
        {FIRST_SIZE + 24, 4, 3},           /* standard */
        {FIRST_SIZE + 28, 4, 1},           /* leap seconds */
        {FIRST_SIZE + 32, 4, 0x80000000u}, /* times */
        {FIRST_SIZE + 32, 4, 2},
        {FIRST_SIZE + 36, 4, 0}, /* types */
        {FIRST_SIZE + 40, 4, 0}, /* characters */
        {TIMES, 8, 0},           /* equal times */
        {TIMES, 8, INT64_MAX},
        {INDICES, 1, 2},
        {INDICES + 2, 1, 255},
        {TYPES, 4, (uint32_t)OFFSET_S_MIN - 1},
        {TYPES, 4, OFFSET_S_MAX + 1},
        {TYPES, 4, 0x80000000u},
        {TYPES + 4, 1, 2}, /* isdst */
        {TYPES + 5, 1, 8}, /* designation */
        {CHARS + 7, 1, 'x'},
        {MARKS, 1, 2},     /* standard */
        {MARKS + 1, 1, 0}, /* UT without standard */
        {MARKS + 3, 1, 2},
    };
    static const int64_t times[] = {-1000, 0, 1000};
    image f;
    weir_zone z;
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        build(&f, '2', times, 3, "\nDST-2\n");
        assert_true(accepted(&z, &f));
        size_t len = f.len;
        f.len = bad[i].at;
        put(&f, bad[i].value, bad[i].size);
        f.len = len;
        if (accepted(&z, &f))
            fail_msg("accepted damage %zu", i);
    }
    build(&f, 0, times, 3, NULL);
    while (f.len > 0) {
        f.len--;
        assert_false(accepted(&z, &f));
    }
}

static void too_many_times(void **state)
{
    static int64_t times[WEIR_ZONE_TIMES_MAX + 1];
    image f;
    weir_zone z;
    (void)state;
    for (int i = 0; i <= WEIR_ZONE_TIMES_MAX; i++)
        times[i] = i;
    build(&f, '2', times, WEIR_ZONE_TIMES_MAX, "\nSTD-1\n");
    assert_true(accepted(&z, &f));
    build(&f, '2', times, WEIR_ZONE_TIMES_MAX + 1, "\nDST-2\n");
    assert_false(accepted(&z, &f));
}

static bool load(image *f, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    f->len = fread(f->bytes, 1, sizeof f->bytes, file);
    fclose(file);
    return f->len > 0;
}

/* Computes windows of a damaged zone that was accepted. The sanitizers check the reads. */
static void walk(const weir_zone *z)
{
    int64_t t_ns = 0;
    for (int i = 0; i < 200; i++) {
        weir_calendar unit = (weir_calendar)(WEIR_DAY + i % 4);
        weir_span w = weir_calendar_window(z, unit, 0, t_ns);
        assert_true(w.start_ns <= t_ns && t_ns < w.end_ns);
        t_ns = w.end_ns;
    }
}

static void damaged_real_file(void **state)
{
    image f;
    weir_zone z;
    (void)state;
    if (!load(&f, WEIR_ZONEINFO_DIR "/America/Havana")) {
        print_message("skipped: no tzdata\n");
        skip();
    }
    size_t len = f.len;
    assert_true(accepted(&z, &f));
    for (f.len = 0; f.len < len; f.len++)
        assert_false(accepted(&z, &f));
    for (size_t bit = 0; bit < len * 8; bit++) {
        f.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (accepted(&z, &f))
            walk(&z);
        f.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    if (load(&f, WEIR_ZONEINFO_DIR "/right/America/Havana"))
        assert_false(accepted(&z, &f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(versions),
        cmocka_unit_test(footers),
        cmocka_unit_test(bad_footers),
        cmocka_unit_test(day_forms),
        cmocka_unit_test(yearly_pieces),
        cmocka_unit_test(footer_continues),
        cmocka_unit_test(damage),
        cmocka_unit_test(too_many_times),
        cmocka_unit_test(damaged_real_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
