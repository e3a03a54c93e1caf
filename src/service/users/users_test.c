/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#include "service/users/kit_test.h"

#define TEXT(text) ((weir_slice){text, strlen(text)})

/* Of "s3cret" and of "other". */
static const char hash[] = "$scrypt$ln=10,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$"
                           "ZO/gT8OGTuuyHxcBV+7DkfE2nXK0EIuQrBe9nC+TunU";
static const char other_hash[] = "$scrypt$ln=11,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$"
                                 "0G5HafUROu6yaNbJjcir0ieM07xNtQPFZkkhlLCsfaE";
static const char *const policies[] = {"api", "login-*"};
static const char *const keys[] = {"user:*", "10.0.0.0/8", "2001:db8::1", "exact"};
static const int64_t now_ns = 1000000000000;

static const weir_user_spec specs[] = {
    {.name = "web",
     .password = {"old", "new"},
     .policies = {policies, 2},
     .keys = {keys, 4},
     .may = WEIR_MAY_TAKE | WEIR_MAY_METRICS},
    {.name = "ops", .file_password = {"s3cret"}, .may = WEIR_MAY_ALL},
    {.name = "slow", .hash = {hash, other_hash}, .may = WEIR_MAY_PEEK},
    {.name = "cert", .certificate = {"one", "two"}, .may = WEIR_MAY_TAKE | WEIR_MAY_METRICS},
};
enum { SPECS = sizeof specs / sizeof specs[0] };

static int setup(void **state)
{
    users_kit *k = calloc(1, sizeof *k);
    users_kit_set(k, specs, SPECS, false);
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    users_kit_close(*state);
    free(*state);
    return 0;
}

static weir_login_result try(users_kit *k, const char *name, const char *password, int64_t at_ns,
                             weir_login *ret)
{
    *ret = (weir_login){.user = NULL};
    return weir_login_try(&k->access, TEXT(name), TEXT(password), at_ns, ret);
}

static weir_login log_in(users_kit *k, const char *name, const char *password)
{
    weir_login l;
    assert_int_equal(try(k, name, password, now_ns, &l), WEIR_LOGIN_OK);
    assert_string_equal(weir_user_name(l.user), name);
    return l;
}

static void passwords(void **state)
{
    weir_login l;
    users_kit *k = *state;
    log_in(k, "web", "old");
    l = log_in(k, "web", "new");
    assert_false(l.everything);
    assert_ptr_equal(weir_login_bounds(&l), l.user);
    l = log_in(k, "ops", "s3cret");
    assert_true(l.everything);
    assert_null(weir_login_bounds(&l));
    static const char *const wrong[][2] = {{"web", "ol"},     {"web", "oldd"}, {"web", "olD"},
                                           {"web", "s3cret"}, {"we", "old"},   {"web2", "old"},
                                           {"cert", ""},      {"", "old"},     {"web", ""}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int64_t at_ns = now_ns + (int64_t)i * 1000000000;
        assert_int_equal(try(k, wrong[i][0], wrong[i][1], at_ns, &l), WEIR_LOGIN_WRONG);
        assert_null(l.user);
    }
}

static void slow_hashes(void **state)
{
    weir_login l;
    users_kit *k = *state;
    log_in(k, "slow", "s3cret");   /* 1 of this second */
    log_in(k, "slow", "other");    /* 2 */
    for (int i = 0; i < 10; i++) { /* verified before: not counted */
        log_in(k, "slow", "s3cret");
        log_in(k, "slow", "other");
        log_in(k, "web", "old");
    }
    assert_int_equal(try(k, "slow", "wrong", now_ns, &l), WEIR_LOGIN_WRONG);
    assert_int_equal(try(k, "nobody", "wrong", now_ns, &l), WEIR_LOGIN_WRONG); /* the same cost */
    assert_int_equal(try(k, "slow", "wrong", now_ns + 999999999, &l), WEIR_LOGIN_BUSY);
    assert_int_equal(try(k, "web", "wrong", now_ns, &l), WEIR_LOGIN_BUSY);
    log_in(k, "slow", "s3cret");
    assert_int_equal(try(k, "slow", "wrong", now_ns + 1000000000, &l), WEIR_LOGIN_WRONG);
    assert_int_equal(try(k, "slow", "wrong", now_ns - 1, &l), WEIR_LOGIN_WRONG); /* stepped back */
}

static void formats_of_hashes(void **state)
{
#define SALT "$MDEyMzQ1Njc4OWFiY2RlZg$"
#define HASH "ZO/gT8OGTuuyHxcBV+7DkfE2nXK0EIuQrBe9nC+TunU"
    static const char *const bad[] = {
        "",
        "s3cret",
        "$scrypt$ln=9,r=8,p=1" SALT HASH,
        "$scrypt$ln=09,r=8,p=1" SALT HASH,
        "$scrypt$ln=15,r=8,p=1" SALT HASH,
        "$scrypt$ln=10,r=9,p=1" SALT HASH,
        "$scrypt$ln=10,r=8,p=2" SALT HASH,
        "$scrypt$ln=10,r=8,p=1$MDEyMzQ1Nj$" HASH, /* 7 bytes of salt */
        "$scrypt$ln=10,r=8,p=1" SALT,
        "$scrypt$ln=10,r=8,p=1" SALT HASH "=",
        "$scrypt$ln=10,r=8,p=1" SALT HASH "A",
        "$scrypt$ln=10,r=8,p=1" SALT "O/gT8OGTuuyHxcBV+7DkfE2nXK0EIuQrBe9nC+TunU",
        "$scrypt$ln=10,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(weir_scrypt_check(bad[i]));
    assert_true(weir_scrypt_check(hash));
    assert_true(weir_scrypt_check("$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc$" HASH)); /* 8 bytes of salt */
    assert_true(weir_scrypt_is(hash, "s3cret", 6));
    assert_false(weir_scrypt_is(hash, "s3cret", 5));
    assert_false(weir_scrypt_is(other_hash, "s3cret", 6));
    assert_false(weir_scrypt_is("", "s3cret", 6));
}

static void rights(void **state)
{
    weir_login web = log_in(*state, "web", "old"), ops = log_in(*state, "ops", "s3cret");
    for (unsigned bit = 0; bit < WEIR_RIGHTS; bit++) {
        bool has = bit == 0 || bit == 8;
        assert_int_equal(weir_user_may(web.user, 1U << bit), has);
        assert_true(weir_user_may(ops.user, 1U << bit));
        assert_true(weir_user_may(NULL, 1U << bit));
        assert_string_equal(weir_right_word(1U << bit), weir_right_words[bit]);
    }
    assert_true(weir_user_may(web.user, WEIR_MAY_PEEK | WEIR_MAY_TAKE)); /* one suffices */
    assert_true(weir_user_may(web.user, WEIR_MAY_ENTER));
    assert_true(weir_user_may(web.user, WEIR_MAY_ANYONE));
    assert_false(weir_user_may(web.user, WEIR_MAY_TAKE_OTHERS));
    assert_false(weir_user_may(web.user, WEIR_MAY_METRICS_OTHERS));
    assert_true(weir_user_may(ops.user, WEIR_MAY_TAKE_OTHERS));
    assert_true(weir_user_may(ops.user, WEIR_MAY_METRICS_OTHERS));
    assert_true(weir_user_is_bound(web.user));
    assert_false(weir_user_is_bound(ops.user));
    assert_false(weir_user_is_bound(NULL));
    assert_string_equal(weir_right_word(WEIR_MAY_TAKE_OTHERS), "take");
    assert_string_equal(weir_right_word(WEIR_MAY_METRICS_OTHERS), "metrics");
    assert_string_equal(weir_right_word(0), "admin");
}

/* A user without patterns has the rights to what is no policy, one by one. */
static void rights_to_others(void **state)
{
    users_kit *k = *state;
    static const unsigned may[] = {0, WEIR_MAY_TAKE, WEIR_MAY_METRICS};
    for (size_t i = 0; i < 3; i++) {
        const weir_user_spec spec = {.name = "u", .password = {"p"}, .may = may[i]};
        users_kit_set(k, &spec, 1, false);
        weir_login l = log_in(k, "u", "p");
        assert_int_equal(weir_user_may(l.user, WEIR_MAY_TAKE_OTHERS), i == 1);
        assert_int_equal(weir_user_may(l.user, WEIR_MAY_METRICS_OTHERS), i == 2);
        assert_false(l.everything);
    }
}

static void patterns(void **state)
{
    const weir_user *web = log_in(*state, "web", "old").user;
    static const struct {
        const char *policy;
        bool sees;
    } names[] = {{"api", true},     {"api2", false},  {"ap", false},      {"login-", true},
                 {"login-x", true}, {"login", false}, {"(texts)", false}, {"", false}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(weir_user_sees(web, TEXT(names[i].policy)), names[i].sees);
    static const struct {
        const char *key;
        bool has;
    } wanted[] = {{"user:", true},        {"user:7", true},          {"use", false},
                  {"exact", true},        {"exact2", false},         {"10.1.2.3", true},
                  {"11.1.2.3", false},    {"2001:db8::1", true},     {"2001:0DB8:0::1", true},
                  {"2001:db8::2", false}, {"::ffff:10.0.0.1", true}, {"", false}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_int_equal(weir_user_has_key(web, TEXT(wanted[i].key), NULL), wanted[i].has);
    const weir_slice all = {NULL, 0};
    weir_client client = {.address = {.bytes = {10, 1, 2, 3}}};
    assert_false(weir_user_has_key(web, all, NULL));
    assert_true(weir_user_has_key(web, TEXT("10.1.2.3/a"), &client));
    client.is_proxy = true;
    assert_false(weir_user_has_key(web, TEXT("10.1.2.3/a"), &client));
    assert_true(weir_user_has_key(NULL, all, NULL));
    assert_true(weir_user_sees(NULL, TEXT("any")));
    const weir_user *cert = NULL;
    ((users_kit *)*state)->certified = "two";
    weir_login l = {.user = NULL};
    weir_login_refresh(&l, &((users_kit *)*state)->access, NULL);
    cert = l.user;
    assert_string_equal(weir_user_name(cert), "cert");
    assert_true(l.is_fixed);
    assert_true(weir_user_has_key(cert, all, NULL));
    assert_true(weir_user_sees(cert, TEXT("any")));
}

static void changes(void **state)
{
    users_kit *k = *state;
    weir_login l = log_in(k, "web", "old");
    const weir_user *before = l.user;
    weir_user_spec changed[SPECS];
    memcpy(changed, specs, sizeof specs);
    weir_login_refresh(&l, &k->access, NULL);
    assert_ptr_equal(l.user, before);

    changed[0].may = WEIR_MAY_PEEK; /* a right is removed */
    users_kit_set(k, changed, SPECS, false);
    weir_login_refresh(&l, &k->access, NULL);
    assert_true(weir_user_may(l.user, WEIR_MAY_PEEK));
    assert_false(weir_user_may(l.user, WEIR_MAY_TAKE));

    changed[0].password[0] = "newer"; /* a rotation: `new` stays */
    users_kit_set(k, changed, SPECS, false);
    weir_login kept = log_in(k, "web", "new");
    weir_login_refresh(&l, &k->access, NULL);
    assert_null(l.user);
    assert_false(l.everything);

    changed[0].name = "web2"; /* the password of another user */
    users_kit_set(k, changed, SPECS, false);
    weir_login_refresh(&kept, &k->access, NULL);
    assert_null(kept.user);

    users_kit_set(k, NULL, 0, false); /* without users, everybody may do everything */
    weir_login_refresh(&kept, &k->access, NULL);
    assert_true(kept.everything);
    assert_null(kept.user);
    assert_false(weir_access_is_limited(&k->access));
    users_kit_set(k, specs, SPECS, false); /* and then nobody is known */
    weir_login nobody = weir_login_begin(&k->access);
    assert_false(nobody.everything);
    weir_login_refresh(&nobody, &k->access, NULL);
    assert_null(nobody.user);
    assert_false(nobody.everything);
    weir_login_refresh(&kept, &k->access, NULL); /* its password is right again */
    assert_string_equal(weir_user_name(kept.user), "web");
}

static void bound_listeners(void **state)
{
    users_kit *k = *state;
    weir_login l = log_in(k, "ops", "s3cret");
    k->bound_to = "web";
    k->certified = "one";
    users_kit_set(k, specs, SPECS, false);
    weir_login_refresh(&l, &k->access, NULL);
    assert_string_equal(weir_user_name(l.user), "web"); /* before certificate and password */
    assert_true(l.is_fixed);
    users_kit_set(k, specs + 1, SPECS - 1, false);
    weir_login_refresh(&l, &k->access, NULL);
    assert_null(l.user); /* that user is gone, and no other takes its place */
    assert_true(l.is_fixed);
    k->bound_to = NULL;
    k->certified = "three";
    users_kit_set(k, specs, SPECS, false);
    weir_login_refresh(&l, &k->access, NULL);
    assert_string_equal(weir_user_name(l.user), "ops");
    assert_false(l.is_fixed);
}

static void one_password(void **state)
{
    users_kit *k = *state;
    assert_false(weir_access_is_single(&k->access));
    users_kit_set_password(k, "s3cret");
    assert_true(weir_access_is_single(&k->access));
    assert_true(log_in(k, "default", "s3cret").everything);
    users_kit_set_password(k, NULL);
    assert_false(weir_access_is_single(&k->access));
}

static bool refuse(void *ctx, const void *peer)
{
    (void)ctx, (void)peer;
    return false;
}

static void callbacks(void **state)
{
    users_kit *k = *state;
    weir_login l = log_in(k, "web", "old");
    weir_access_denied(&k->access, NULL, &l, WEIR_MAY_TOP);
    assert_int_equal(k->denied, 1);
    assert_int_equal(k->denied_rights, WEIR_MAY_TOP);
    assert_string_equal(k->denied_user, "web");
    assert_true(weir_access_wrong_password(&k->access, NULL));
    k->access.wrong_password = refuse;
    assert_false(weir_access_wrong_password(&k->access, NULL));
    k->access.denied = NULL;
    weir_access_denied(&k->access, NULL, &l, WEIR_MAY_TOP);
    assert_int_equal(k->denied, 1);
}

/* A second thread keeps the users that it refers to. */
static void threads(void **state)
{
    users_kit *k = *state;
    weir_access second = {.users = k->access.users};
    weir_access_refresh(&second);
    weir_login l = {.user = NULL};
    assert_int_equal(weir_login_try(&second, TEXT("web"), TEXT("old"), now_ns, &l), WEIR_LOGIN_OK);
    users_kit_set(k, specs, SPECS, false);
    users_kit_set(k, specs, SPECS, false);
    assert_string_equal(weir_user_name(l.user), "web");
    weir_access_close(&second);
    weir_access_close(&(weir_access){.users = NULL});
    weir_users_close(NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(passwords),        TEST(slow_hashes), TEST(formats_of_hashes), TEST(rights),
        TEST(rights_to_others), TEST(patterns),    TEST(changes),           TEST(bound_listeners),
        TEST(one_password),     TEST(callbacks),   TEST(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
