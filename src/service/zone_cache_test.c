/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The cache of time zones: each zone is read once, and files of the local time zone are refused. */

#include "service/zone_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include <cmocka.h>

static const weir_zone *find(weir_zone_cache *cache, const char *name)
{
    weir_zones zones = weir_zone_cache_zones(cache);
    return zones.find(zones.ctx, name, strlen(name));
}

static void check_read_once(void **unused)
{
    (void)unused;
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    const weir_zone *berlin = find(cache, "Europe/Berlin");
    if (access(WEIR_ZONEINFO_DIR "/Europe/Berlin", R_OK) != 0) {
        weir_zone_cache_close(cache);
        print_message("skipped: no tzdata\n");
        skip();
    }
    assert_non_null(berlin);
    assert_string_equal(berlin->name, "Europe/Berlin");
    assert_ptr_not_equal(find(cache, "Asia/Tokyo"), berlin);
    assert_ptr_equal(find(cache, "Europe/Berlin"), berlin);
    weir_zone_cache_close(cache);
}

static void check_bad_zones(void **unused)
{
    (void)unused;
    static const char *const names[] = {"",
                                        "localtime",
                                        "posixrules",
                                        "Mars/Base",
                                        "Europe",
                                        "../zoneinfo/Europe/Berlin",
                                        "/etc/passwd",
                                        "tzdata.zi",
                                        "right/Europe/Berlin"};
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_null(find(cache, names[i]));
    weir_zone_cache_close(cache);
    weir_zone_cache_close(NULL);
    cache = weir_zone_cache_open("/nowhere");
    assert_null(find(cache, "Europe/Berlin"));
    weir_zone_cache_close(cache);
}

static const char *expected(weir_zone_cache *cache, const char *name)
{
    static char text[160];
    weir_zones zones = weir_zone_cache_zones(cache);
    text[0] = '\0';
    zones.expected(zones.ctx, name, strlen(name), text, sizeof text);
    return text;
}

#define MEANT(name) "the name of a time zone; did you mean '" name "'?"

/* A directory with the zones of Etc and Europe, and a list of more zones than that. */
static void suggests_names(void **unused)
{
    (void)unused;
    static const char list[] =
        "# version 2026a\nR d 1916 o - Jun 14 23s 1 S\nZ Etc/UTC 0 - UTC\n"
        "L Etc/UTC Europe/Brlin\nZ Europe/Berlin 1 E CE%sT\nZ Mars/Base 0 - M";
    char dir[] = "/tmp/weir-zones-XXXXXX", etc[64], europe[64], zi[64], none[128];
    assert_non_null(mkdtemp(dir));
    snprintf(etc, sizeof etc, "%s/Etc", dir);
    snprintf(europe, sizeof europe, "%s/Europe", dir);
    snprintf(zi, sizeof zi, "%s/tzdata.zi", dir);
    snprintf(none, sizeof none, "the name of a time zone, but %s has none: install tzdata", dir);
    weir_zone_cache *cache = weir_zone_cache_open(dir);
    assert_string_equal(expected(cache, "Europe/Berlin"), none);

    assert_int_equal(symlink(WEIR_ZONEINFO_DIR "/Etc", etc), 0);
    assert_int_equal(symlink(WEIR_ZONEINFO_DIR "/Europe", europe), 0);
    if (access(etc, R_OK) == 0) { /* else there is no tzdata */
        assert_string_equal(expected(cache, "Europe/Berln"), "");
        FILE *file = fopen(zi, "w");
        assert_non_null(file);
        assert_int_equal(fputs(list, file) >= 0 && fclose(file) == 0, 1);
        assert_string_equal(expected(cache, "europe/berln"), MEANT("Europe/Berlin"));
        assert_string_equal(expected(cache, "Europe/Brlin"), MEANT("Etc/UTC"));
        assert_string_equal(expected(cache, "Mars/Base"), "");
        assert_string_equal(expected(cache, "Atlantis"), "");
        assert_string_equal(expected(cache, "Etc/UT"), MEANT("Etc/UTC"));
        assert_string_equal(expected(cache, "E/U"), "");
        assert_int_equal(unlink(zi), 0);
    }
    weir_zone_cache_close(cache);
    assert_int_equal(unlink(etc) == 0 && unlink(europe) == 0 && rmdir(dir) == 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_read_once),
        cmocka_unit_test(check_bad_zones),
        cmocka_unit_test(suggests_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
