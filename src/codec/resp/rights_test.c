/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What users may do over RESP: each command with each right, and policies and keys. */

#include "codec/resp/call.h"
#include "codec/resp/kit_test.h"

static const char *const policies[] = {"api", "login-*"};
static const char *const keys[] = {"user:*", "10.0.0.0/8"};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void reopen(fixture *f)
{
    weir_resp_session_close(&f->session);
    weir_buffer_clear(&f->in);
    weir_resp_session_init(&f->session, &f->options);
}

/* A new connection of a user with these rights. */
static void log_in(fixture *f, unsigned may)
{
    const weir_user_spec spec = {.name = "u", .password = {"p"}, .may = may};
    users_kit_set(&f->users, &spec, 1, false);
    reopen(f);
    assert_string_equal(reply_to(f, "AUTH u p\n"), "+OK\r\n");
}

/* A request with the least arguments, each of them "1". */
static void make_request(const weir_command *cmd, char *buf, size_t size)
{
    size_t len = (size_t)snprintf(buf, size, "%s", cmd->name);
    for (int i = 1; i < cmd->args_min; i++)
        len += (size_t)snprintf(buf + len, size - len, " 1");
    snprintf(buf + len, size - len, "\n");
}

static void each_command_with_each_right(void **state)
{
    fixture *f = *state;
    char request[128], denied[160], lower[WEIR_COMMAND_NAME_MAX];
    const weir_command *cmd;
    for (size_t i = 0; (cmd = weir_resp_command_at(i)) != NULL; i++) {
        make_request(cmd, request, sizeof request);
        weir_command_lower(cmd, lower);
        snprintf(denied, sizeof denied,
                 "-NOPERM User u has no permissions to run the '%s' command\r\n", lower);
        assert_int_not_equal(cmd->right, 0);
        for (unsigned bit = 0; bit <= WEIR_RIGHTS; bit++) {
            unsigned may = bit < WEIR_RIGHTS ? 1U << bit : 0;
            bool has = cmd->right & (may | WEIR_MAY_ENTER | WEIR_MAY_ANYONE);
            log_in(f, may);
            f->users.denied = 0;
            if ((strcmp(reply_to(f, request), denied) != 0) != has)
                fail_msg("%s with the right %s: %s", cmd->name,
                         bit < WEIR_RIGHTS ? weir_right_words[bit] : "none", reply_to(f, request));
            assert_int_equal(f->users.denied, !has);
            assert_true(has || f->users.denied_rights == (unsigned)cmd->right);
        }
        reopen(f); /* nobody */
        bool needs_login = !(cmd->right & WEIR_MAY_ANYONE);
        assert_int_equal(strcmp(reply_to(f, request), "-NOAUTH Authentication required.\r\n") == 0,
                         needs_login);
        log_in(f, WEIR_MAY_ALL);
        assert_false(begins(reply_to(f, request), "-NO"));
    }
}

/* A user of some policies and keys, with all rights. */
static void log_in_bound(fixture *f, unsigned may)
{
    const weir_user_spec spec = {
        .name = "u", .password = {"p"}, .policies = {policies, 2}, .keys = {keys, 2}, .may = may};
    set_rule(f, "api", "gcra 1/s burst 100");
    set_rule(f, "login-x", "gcra 1/s burst 100");
    set_rule(f, "other", "gcra 1/s burst 100");
    users_kit_set(&f->users, &spec, 1, false);
    reopen(f);
    assert_string_equal(reply_to(f, "AUTH u p\n"), "+OK\r\n");
}

#define OF_POLICY "-NOPERM User u has no permissions to use the policy 'other'\r\n"
#define OF_TEXTS  "-NOPERM User u has no permissions to use the policy '(texts)'\r\n"
#define OF_KEY    "-NOPERM No permissions to access a key\r\n"
#define OF_KEYS   "-NOPERM No permissions to access all keys\r\n"

static void policies_and_keys(void **state)
{
    static const struct {
        const char *request, *denied; /* NULL: it may run */
    } rows[] = {
        {"WEIR.TAKE api user:1\n", NULL},
        {"WEIR.TAKE login-x 10.1.2.3\n", NULL},
        {"WEIR.TAKE other user:1\n", OF_POLICY},
        {"WEIR.TAKE api bob\n", OF_KEY},
        {"WEIR.TAKE 'gcra 1/s' user:1\n", OF_TEXTS},
        {"WEIR.CHECK 'gcra 1/s' user:1\n", OF_TEXTS},
        {"WEIR.PEEK api user:1\n", NULL},
        {"WEIR.PEEK other user:1\n", OF_POLICY},
        {"WEIR.PEEK api bob\n", OF_KEY},
        {"WEIR.REFUND api user:1 1\n", NULL},
        {"WEIR.REFUND other user:1 1\n", OF_POLICY},
        {"WEIR.CHARGE api user:1\n", NULL},
        {"WEIR.CHARGE api bob\n", OF_KEY},
        {"WEIR.RESET api user:1\n", NULL},
        {"WEIR.RESET other user:1\n", OF_POLICY},
        {"WEIR.RESETALL api\n", OF_KEYS},
        {"WEIR.RESETALL other\n", OF_POLICY},
        {"WEIR.EXPLAIN api user:1\n", NULL},
        {"WEIR.EXPLAIN other user:1\n", OF_POLICY},
        {"WEIR.RESERVE api user:1 1 TTL 1s\n", NULL},
        {"WEIR.RESERVE other user:1 1 TTL 1s\n", OF_POLICY},
        {"WEIR.RESERVE api bob 1 TTL 1s\n", OF_KEY},
        {"WEIR.TAKEALL 2 api user:1 1 login-x user:2 1\n", NULL},
        {"WEIR.TAKEALL 2 api user:1 1 other user:2 1\n",
         "-NOPERM request 1: User u has no permissions to use the policy 'other'\r\n"},
        {"WEIR.TAKEALL 2 api bob 1 api user:1 1\n",
         "-NOPERM request 0: No permissions to access a key\r\n"},
        {"WEIR.TOP api\n", NULL},
        {"WEIR.TOP other\n", OF_POLICY},
        {"WEIR.TOP (texts)\n", OF_TEXTS},
        {"WEIR.POLICY SET api 'gcra 9/s'\n", OF_KEYS},
        {"WEIR.POLICY SET other 'gcra 9/s'\n", OF_POLICY},
        {"WEIR.POLICY DEL other\n", OF_POLICY},
        {"WEIR.POLICY DEL api\n", OF_KEYS},
        {"CL.THROTTLE user:1 1 1 1\n",
         "-NOPERM User u has no permissions to use the policy '(throttle)'\r\n"},
    };
    fixture *f = *state;
    log_in_bound(f, WEIR_MAY_ALL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        f->users.denied = 0;
        const char *reply = reply_to(f, rows[i].request);
        if (rows[i].denied ? strcmp(reply, rows[i].denied) != 0 : reply[0] == '-')
            fail_msg("%s%s", rows[i].request, reply);
        assert_int_equal(f->users.denied, rows[i].denied != NULL);
    }
    /* Denied requests of a pipeline leave the others alone. */
    assert_string_equal(reply_to(f,
                                 "WEIR.TAKE api user:9\nWEIR.TAKE api bob\nWEIR.TAKE api user:9\n"
                                 "WEIR.TAKE api\nPING\n"),
                        "*6\r\n:1\r\n:100\r\n:99\r\n:0\r\n:1000\r\n:0\r\n" OF_KEY
                        "*6\r\n:1\r\n:100\r\n:98\r\n:0\r\n:2000\r\n:0\r\n"
                        "-ERR wrong number of arguments for 'weir.take' command\r\n+PONG\r\n");
}

static void lists_show_own_policies(void **state)
{
    fixture *f = *state;
    log_in_bound(f, WEIR_MAY_PEEK | WEIR_MAY_METRICS | WEIR_MAY_TAKE | WEIR_MAY_TOP);
    assert_true(begins(reply_to(f, "WEIR.POLICY LIST\n"), "*2\r\n"));
    assert_null(strstr(reply_to(f, "WEIR.POLICY LIST\n"), "other"));
    assert_string_equal(reply_to(f, "WEIR.POLICY GET other\n"), "$-1\r\n");
    assert_true(begins(reply_to(f, "WEIR.POLICY GET api\n"), "*12\r\n"));
    assert_string_equal(reply_to(f, "WEIR.POLICY DEL api\n"),
                        "-NOPERM User u has no permissions to run the 'weir.policy' command\r\n");
    const char *info = reply_to(f, "INFO\n");
    assert_non_null(strstr(info, "policy_api:"));
    assert_non_null(strstr(info, "policy_login-x:"));
    assert_null(strstr(info, "policy_other:"));
    assert_null(strstr(info, "policy_(texts):"));
    log_in_bound(f, WEIR_MAY_TAKE);
    info = reply_to(f, "INFO\n");
    assert_non_null(strstr(info, "redis_version:"));
    assert_non_null(strstr(info, "loading:0"));
    assert_null(strstr(info, "policy_"));
    assert_null(strstr(info, "store_"));
}

static void top_shows_own_keys(void **state)
{
    fixture *f = *state;
    weir_request r[] = {{.rule = {"api", 3}, .key = {"user:1", 6}, .cost = 5},
                        {.rule = {"api", 3}, .key = {"secret", 6}, .cost = 7}};
    log_in_bound(f, WEIR_MAY_TOP);
    assert_true(weir_service_take(f->service, NULL, r, 2, now_ns));
    const char *top = reply_to(f, "WEIR.TOP api ALLOWED\n");
    assert_non_null(strstr(top, "user:1"));
    assert_null(strstr(top, "secret"));
    assert_non_null(strstr(top, "keys\r\n*1\r\n"));
}

static void names(void **state)
{
    fixture *f = *state;
    log_in(f, 0);
    assert_string_equal(reply_to(f, "ACL WHOAMI\n"), "$1\r\nu\r\n");
    assert_non_null(strstr(reply_to(f, "CLIENT INFO\n"), " user=u\n"));
    assert_string_equal(reply_to(f, "RESET\n"), "+RESET\r\n");
    assert_string_equal(reply_to(f, "PING\n"), "-NOAUTH Authentication required.\r\n");
    assert_true(begins(reply_to(f, "HELLO 3 AUTH u p\n"), "%7\r\n"));
    assert_string_equal(reply_to(f, "ACL WHOAMI\n"), "$1\r\nu\r\n");
    reopen(f);
    assert_true(begins(reply_to(f, "AUTH p\n"), "-WRONGPASS")); /* default is no user */
    reopen(f);
    assert_true(begins(reply_to(f, "AUTH U p\n"), "-WRONGPASS"));
}

static void transactions(void **state)
{
    fixture *f = *state;
    log_in_bound(f, WEIR_MAY_TAKE);
    assert_string_equal(reply_to(f, "MULTI\n"), "+OK\r\n");
    assert_string_equal(reply_to(f, "WEIR.TAKE api user:1\n"), "+QUEUED\r\n");
    assert_string_equal(reply_to(f, "WEIR.TAKE other user:1\n"), "+QUEUED\r\n");
    assert_true(begins(reply_to(f, "WEIR.RESET api user:1\n"), "-NOPERM"));
    assert_true(begins(reply_to(f, "EXEC\n"), "-EXECABORT"));
    assert_string_equal(reply_to(f, "MULTI\nWEIR.TAKE api user:1\nWEIR.TAKE other user:1\nEXEC\n"),
                        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n"
                        "*6\r\n:1\r\n:100\r\n:99\r\n:0\r\n:1000\r\n:0\r\n" OF_POLICY);
}

static void listener(void **state)
{
    const weir_user_spec specs[] = {{.name = "sock", .may = WEIR_MAY_TAKE},
                                    {.name = "u", .password = {"p"}, .may = WEIR_MAY_ALL}};
    fixture *f = *state;
    f->users.bound_to = "sock";
    users_kit_set(&f->users, specs, 2, false);
    reopen(f);
    assert_string_equal(reply_to(f, "ACL WHOAMI\n"), "$4\r\nsock\r\n");
    assert_true(begins(reply_to(f, "WEIR.CHECK 'gcra 1/s' k\n"), "*6\r\n:1\r\n"));
    assert_true(begins(reply_to(f, "AUTH u p\n"), "-ERR this connection is the user 'sock'"));
    assert_true(begins(reply_to(f, "WEIR.RESET 'gcra 1/s' k\n"), "-NOPERM"));
    users_kit_set(&f->users, specs + 1, 1, false);
    assert_string_equal(reply_to(f, "PING\n"), "-NOAUTH Authentication required.\r\n");
    assert_true(begins(reply_to(f, "AUTH u p\n"), "-ERR this connection is the user ''"));
}

static void changes(void **state)
{
    fixture *f = *state;
    log_in(f, WEIR_MAY_TAKE);
    const char *take = "WEIR.CHECK 'gcra 1/s burst 9' k\n";
    assert_true(begins(reply_to(f, take), "*6\r\n:1\r\n"));
    weir_user_spec spec = {.name = "u", .password = {"q", "p"}, .may = WEIR_MAY_PEEK};
    users_kit_set(&f->users, &spec, 1, false);
    assert_true(begins(reply_to(f, take), "-NOPERM"));
    spec.password[1] = NULL;
    users_kit_set(&f->users, &spec, 1, false);
    assert_true(begins(reply_to(f, take), "-NOAUTH"));
    users_kit_set(&f->users, NULL, 0, false);
    assert_true(begins(reply_to(f, take), "*6\r\n:1\r\n"));
}

static void busy(void **state)
{
    const weir_user_spec spec = {.name = "u",
                                 .hash = {"$scrypt$ln=10,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$"
                                          "ZO/gT8OGTuuyHxcBV+7DkfE2nXK0EIuQrBe9nC+TunU"},
                                 .may = WEIR_MAY_TAKE};
    fixture *f = *state;
    users_kit_set(&f->users, &spec, 1, false);
    for (int i = 0; i < 4; i++) {
        reopen(f);
        assert_true(begins(reply_to(f, "AUTH u wrong\n"), "-WRONGPASS"));
    }
    reopen(f);
    assert_true(begins(reply_to(f, "AUTH u s3cret\n"), "-BUSY"));
    assert_false(f->session.closing);
    assert_int_equal(f->session.wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_command_with_each_right),
        TEST(policies_and_keys),
        TEST(lists_show_own_policies),
        TEST(top_shows_own_keys),
        TEST(names),
        TEST(transactions),
        TEST(listener),
        TEST(changes),
        TEST(busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
