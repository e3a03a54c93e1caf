/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The cache of time zones: each zone is read once, and files of the local time zone are refused. */

#include "service/zone_cache.h"

#include <setjmp.h>
#include <stdarg.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_read_once),
        cmocka_unit_test(check_bad_zones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
