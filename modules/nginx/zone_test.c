/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Zones: the directive `weir_zone`, the sizes of stores, the rows of counters, and reloads. */

#include "fake.h"

#include "store/iterate.h"

static void arguments(void **unused)
{
    (void)unused;
    static const struct {
        const char *directive, *log;
    } rows[] = {
        {"weir_zone a 1m", NULL},
        {"weir_zone b 1023k", "emerg bad size \"1023k\" of zone \"b\", expected a number with k, m "
                              "or g, at least 1m\n"},
        {"weir_zone c x",
         "emerg bad size \"x\" of zone \"c\", expected a number with k, m or g, at "
         "least 1m\n"},
        {"weir_zone d 7m file=/tmp/x",
         "emerg bad size \"7m\" of zone \"d\", expected a number with "
         "k, m or g, at least 8m with file=\n"},
        {"weir_zone a 1m", "emerg zone \"a\" is already declared\n"},
        {"weir_zone a,b 1m",
         "emerg bad zone name \"a,b\", expected 1 to 64 letters, digits and - _ "
         ". : /\n"},
        {"weir_zone e 1m large=63k",
         "emerg bad parameter \"large=63k\", expected large=SIZE of at least 64k\n"},
        {"weir_zone f 1m file=", "emerg bad parameter \"file=\", expected file=PATH or "
                                 "large=SIZE\n"},
        {"weir_zone g 1m x", "emerg bad parameter \"x\", expected file=PATH or large=SIZE\n"},
        {"weir_zone h 1m large=64k large=64k", "emerg duplicate parameter \"large=\"\n"},
        {"weir_zone i 8m file=/tmp/one", NULL},
        {"weir_zone j 8m file=/tmp/one", "emerg zone \"i\" already has the file \"/tmp/one\"\n"},
        {"weir_zone k 2m large=1m", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        fake_expect_conf(rows[i].directive, rows[i].log ? "" : NULL, rows[i].log);
}

static weir_ngx_zone *zone(size_t i)
{
    assert_true(i < fake.conf->zones.all.nelts);
    return ((weir_ngx_zone **)fake.conf->zones.all.elts)[i];
}

/* Sizes are rounded up to pages, and large states get a sixteenth unless large= says otherwise. */
static void sizes(void **unused)
{
    (void)unused;
    static const struct {
        const char *directive;
        size_t bytes, large_bytes;
    } rows[] = {
        {"weir_zone a 1m", 1 << 20, 64 << 10},
        {"weir_zone b 1048577", (1 << 20) + 4096, 65792},
        {"weir_zone c 32m", 32 << 20, 2 << 20},
        {"weir_zone d 32m large=3m", 32 << 20, 3 << 20},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_expect_conf(rows[i].directive, NULL, NULL);
        assert_int_equal(zone(i)->bytes, rows[i].bytes);
        assert_int_equal(zone(i)->large_bytes, rows[i].large_bytes);
    }
}

/* A zone whose large states leave no room for a table. */
static void sizes_that_do_not_fit(void **unused)
{
    (void)unused;
    assert_string_equal(fake_conf("weir_zone a 1m large=1m"), "");
    assert_memory_equal(fake_logged(), "emerg zone \"a\": ", 16);
}

/* ---- counters -------------------------------------------------------------------------------- */

static void use(int n)
{
    for (int i = 0; i < n; i++) {
        char directive[64];
        if (i % WEIR_TAKE_MANY_MAX == 0)
            fake_next_location();
        snprintf(directive, sizeof directive, "weir z \"gcra 1/s\" key=a name=n%d", i);
        assert_null(fake_conf(directive));
    }
}

static weir_ngx_counts *counts_of(const char *label)
{
    return weir_ngx_zone_counts(zone(0), &(ngx_str_t){strlen(label), (u_char *)label});
}

/* Each label has a row of its own; those that find none share the last. */
static void rows_of_labels(void **unused)
{
    (void)unused;
    assert_null(fake_conf("weir_zone z 1m"));
    use(WEIR_NGX_COUNTS_OTHERS + 3);
    assert_true(fake_start());
    const weir_ngx_counts *others = &zone(0)->shared->counts[WEIR_NGX_COUNTS_OTHERS];
    assert_int_equal(zone(0)->shared->counts_len, WEIR_NGX_COUNTS_OTHERS);
    assert_ptr_equal(counts_of("n0"), &zone(0)->shared->counts[0]);
    assert_ptr_equal(counts_of("n254"), others - 1);
    assert_ptr_equal(counts_of("n255"), others);
    assert_ptr_equal(counts_of("unknown"), others);
}

/* At a reload, a row whose label no limit has any more is given away, and the others stay. */
static void rows_after_a_reload(void **unused)
{
    (void)unused;
    assert_null(fake_conf("weir_zone z 1m"));
    use(WEIR_NGX_COUNTS_OTHERS);
    assert_true(fake_start());
    counts_of("n7")->of[WEIR_NGX_PASSED] = 7;
    counts_of("n254")->of[WEIR_NGX_PASSED] = 9;
    fake_reload();
    assert_null(fake_conf("weir_zone z 1m"));
    use(WEIR_NGX_COUNTS_OTHERS - 1); /* without n254 */
    assert_null(fake_conf("weir z \"gcra 1/s\" key=a name=new"));
    assert_true(fake_start());
    assert_int_equal(counts_of("n7")->of[WEIR_NGX_PASSED], 7);
    assert_int_equal(counts_of("new")->of[WEIR_NGX_PASSED], 0);
    assert_ptr_equal(counts_of("new"), &zone(0)->shared->counts[254]);
}

/* Only the first bytes of a long label are kept, so labels with the same ones share a row. */
static void long_labels(void **unused)
{
    (void)unused;
    static const char text[] = "weir z \"token-bucket 100000000 refill 100000001 every 86401s & "
                               "token-bucket 200000000 refill 100000001 every 86401s & "
                               "token-bucket 300000000 refill 100000001 every 86401s\" key=a";
    assert_null(fake_conf("weir_zone z 1m"));
    assert_null(fake_conf(text));
    assert_true(fake_start());
    assert_int_equal(zone(0)->shared->counts[0].label_len, WEIR_NGX_LABEL_MAX);
    weir_ngx_limit *limit = *(weir_ngx_limit **)fake.conf->limits.elts;
    assert_true(limit->label.len > WEIR_NGX_LABEL_MAX);
    assert_ptr_equal(limit->counts, &zone(0)->shared->counts[0]);
}

/* ---- stores ---------------------------------------------------------------------------------- */

static weir_decision take(void)
{
    weir_ngx_limit *limit = *(weir_ngx_limit **)fake.conf->limits.elts;
    weir_decision d;
    weir_store *store = limit->zone->store;
    assert_int_equal(
        weir_store_check(store, &limit->policy, limit->id, "k", 1, weir_store_now(store), 1, &d),
        WEIR_OK);
    return d;
}

static void configure(const char *declaration)
{
    assert_null(fake_conf(declaration));
    assert_null(fake_conf("weir z \"gcra 1/h burst 9\" key=a"));
    assert_true(fake_start());
}

/* States and counters stay over a reload, whether the memory is the same or has another size. */
static void states_after_a_reload(void **unused)
{
    (void)unused;
    static const struct {
        const char *declaration, *log;
    } rows[] = {
        {"weir_zone z 1m", ""},
        {"weir_zone z 2m", "notice zone \"z\": copied 1 keys to its memory of a new size\n"},
        {"weir_zone z 2m large=1m",
         "notice zone \"z\": copied 1 keys to its memory of a new size\n"},
    };
    configure("weir_zone z 1m");
    counts_of("gcra 1/h burst 9")->of[WEIR_NGX_REJECTED] = 5;
    assert_int_equal(take().remaining, 8);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_reload();
        configure(rows[i].declaration);
        assert_string_equal(fake_logged(), rows[i].log);
        assert_int_equal(take().remaining, 7 - (int64_t)i);
        assert_int_equal(counts_of("gcra 1/h burst 9")->of[WEIR_NGX_REJECTED], 5);
    }
}

/* Replaces the limits of the zone by a reload. */
static void reload_limits(const char *first, const char *second)
{
    fake_reload();
    assert_null(fake_conf("weir_zone z 1m"));
    assert_null(fake_conf(first));
    if (second)
        assert_null(fake_conf(second));
    assert_true(fake_start());
}

/* A reload with another limit keeps what was used, unless there are two limits with its key. Old
 * and new workers pass the state back and forth. */
static void changed_limits(void **unused)
{
    (void)unused;
    configure("weir_zone z 1m");
    weir_ngx_limit *before = *(weir_ngx_limit **)fake.conf->limits.elts;
    uint64_t id = before->id;
    weir_policy policy = before->policy;
    assert_int_equal(take().remaining, 8);
    reload_limits("weir z \"gcra 10/h burst 20\" key=a", NULL);
    assert_int_equal(take().remaining, 18);
    weir_decision d;
    weir_store *store = zone(0)->store;
    assert_int_equal(weir_store_check(store, &policy, id, "k", 1, weir_store_now(store), 1, &d),
                     WEIR_OK);
    assert_int_equal(d.remaining, 6);
    assert_int_equal(take().remaining, 16);
    reload_limits("weir z \"gcra 20/h burst 30\" key=a", "weir z \"gcra 2/h burst 3\" key=a");
    assert_int_equal(take().remaining, 29);
    reload_limits("weir z \"gcra 20/h burst 40\" key=a name=n", NULL);
    assert_int_equal(take().remaining, 39);
    reload_limits("weir z \"gcra 20/h burst 50\" key=$b name=n", NULL);
    assert_int_equal(take().remaining, 48);
}

static void files(void **unused)
{
    (void)unused;
    configure("weir_zone z 8m file=state");
    assert_string_equal(fake_logged(), "");
    assert_int_equal(take().remaining, 8);
    fake_reload();
    configure("weir_zone z 8m file=state");
    assert_int_equal(take().remaining, 7);
    fake_reload();
    configure("weir_zone z 1m");
    assert_string_equal(fake_logged(),
                        "notice zone \"z\" begins empty: its states are in \"state\"\n");
    assert_int_equal(take().remaining, 8);
    fake_reload();
    configure("weir_zone z 8m file=state");
    assert_string_equal(fake_logged(),
                        "notice zone \"z\" has the states of its file now, not those in memory\n");
    assert_int_equal(take().remaining, 6);
}

/* A state file that others may write is refused; a worker tries again a second later. */
static void files_of_others(void **unused)
{
    (void)unused;
    configure("weir_zone z 8m file=mode");
    fake_reload();
    assert_int_equal(chmod("mode", 0620), 0);
    assert_null(fake_conf("weir_zone z 8m file=mode"));
    assert_false(fake_start());
    assert_string_equal(fake_logged(), "warn no weir uses the zone \"z\" in nginx.conf:7\n"
                                       "emerg zone \"z\": the state file mode: it has a bad mode: "
                                       "chmod 600 it\n");
    for (int second = 0; second < 62; second++) {
        weir_ngx_zone_open(zone(0), ngx_cycle->log);
        weir_ngx_zone_open(zone(0), ngx_cycle->log);
        assert_null(zone(0)->store);
        assert_string_equal(
            fake_logged(), second % 60 != 0 ? ""
                                            : "emerg zone \"z\" limits no requests: the state file "
                                              "mode: it has a bad mode: chmod 600 it\n");
        fake.now_s++;
    }
    assert_int_equal(chmod("mode", 0600), 0);
    weir_ngx_zone_open(zone(0), ngx_cycle->log);
    assert_non_null(zone(0)->store);
}

/* Two zones must not have the same states: a file that is a copy of another is refused. */
static void copied_files(void **unused)
{
    (void)unused;
    configure("weir_zone z 8m file=first");
    fake_reload();
    fake_reload();
    assert_int_equal(system("cp first second && chmod 600 second"), 0);
    assert_null(fake_conf("weir_zone z 8m file=first"));
    assert_null(fake_conf("weir_zone y 8m file=second"));
    assert_null(fake_conf("weir z \"gcra 1/s\" key=a"));
    assert_null(fake_conf("weir y \"gcra 1/s\" key=a"));
    assert_false(fake_start());
    assert_string_equal(fake_logged(),
                        "emerg zone \"y\": its state file is that of zone z, or a copy of it\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(arguments, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(sizes, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(sizes_that_do_not_fit, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(rows_of_labels, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(rows_after_a_reload, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(long_labels, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(states_after_a_reload, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(changed_limits, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(files, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(files_of_others, fake_open, fake_close),
        cmocka_unit_test_setup_teardown(copied_files, fake_open, fake_close)};
    return cmocka_run_group_tests_name("zone", tests, make_dir, remove_dir);
}
