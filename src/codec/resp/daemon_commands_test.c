/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The commands of connections and of the server: what client libraries send on their own, the lists
 * of commands, INFO; and replies when memory runs out. */

#include "codec/answer/password.h"
#include "codec/resp/kit_test.h"

#include "port/memory_kit_test.h"
#include "service/reservation_kit_test.h"

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no '%s' in\n%s", part, text);
}

static void begins(const char *text, const char *part)
{
    assert_memory_equal(text, part, strlen(part));
}

/* Commands that client libraries send on their own. */
static void check_client(void **state)
{
    fixture *f = *state;
    expect(f, "CLIENT SETINFO LIB-NAME ioredis", "+OK\r\n");
    expect(f, "CLIENT SETNAME app", "+OK\r\n");
    expect(f, "CLIENT SETNAME 'a b'",
           "-ERR Client names cannot contain spaces, newlines or special characters, and have at "
           "most 64 bytes.\r\n");
    expect(f, "CLIENT TRACKING ON OPTIN", "+OK\r\n");
    expect(f, "CLIENT TRACKING",
           "-ERR unknown subcommand or wrong number of arguments for 'TRACKING'\r\n");
    expect(f, "CLIENT ID", ":7\r\n");
    expect(f, "CLIENT INFO", "$39\r\nid=7 name=app db=0 resp=2 user=default\n\r\n");
    expect(f, "CLIENT MAINT_NOTIFICATIONS ON",
           "-ERR unknown subcommand or wrong number of arguments for 'MAINT_NOTIFICATIONS'\r\n");
    expect(f, "SELECT 0", "+OK\r\n");
    expect(f, "ACL WHOAMI", "$7\r\ndefault\r\n");
    expect(f, "acl whoami", "$7\r\ndefault\r\n");
    expect(f, "ACL LIST", "-ERR ACL supports only WHOAMI: the users are in weir.yaml\r\n");
    expect(f, "SELECT 1", "-ERR DB index is out of range\r\n");
    expect(f, "SELECT x", "-ERR value is not an integer or out of range\r\n");
    expect(f, "CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    expect(f, "CONFIG GET nothing appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
    expect(f, "CONFIG GET save appendonly databases maxmemory-policy",
           "*8\r\n$4\r\nsave\r\n$0\r\n\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"
           "$9\r\ndatabases\r\n$1\r\n1\r\n"
           "$16\r\nmaxmemory-policy\r\n$12\r\nvolatile-ttl\r\n");
    expect(f, "CONFIG GET nothing", "*0\r\n");
    expect(f, "CONFIG SET save x",
           "-ERR CONFIG supports only GET: weir reads its settings from weir.yaml\r\n");
    expect(f, "ECHO hello", "$5\r\nhello\r\n");
    expect(f, "COMMAND COUNT", ":38\r\n");
    expect(f, "COMMAND GETKEYS weir.take api alice COST 2", "*1\r\n$5\r\nalice\r\n");
    expect(f, "COMMAND GETKEYS cl.throttle bob 1 2 3", "*1\r\n$3\r\nbob\r\n");
    expect(f, "COMMAND GETKEYS WEIR.TAKEALL 2 api alice 1 ip bob 2",
           "*2\r\n$5\r\nalice\r\n$3\r\nbob\r\n");
    expect(f, "COMMAND GETKEYS WEIR.TAKEALL 1 api alice 1 WITHNAMES", "*1\r\n$5\r\nalice\r\n");
    expect(f, "COMMAND GETKEYS", "-ERR Invalid command specified\r\n");
    expect(f, "COMMAND GETKEYS GET k", "-ERR Invalid command specified\r\n");
    expect(f, "COMMAND GETKEYS PING", "-ERR The command has no key arguments\r\n");
    expect(f, "COMMAND GETKEYS WEIR.TAKE api",
           "-ERR Invalid number of arguments specified for command\r\n");
    expect(f, "COMMAND INFO weir.take cl.throttle ping no",
           "*4\r\n*6\r\n$9\r\nweir.take\r\n:-3\r\n*1\r\n+write\r\n:2\r\n:2\r\n:1\r\n"
           "*6\r\n$11\r\ncl.throttle\r\n:-1\r\n*1\r\n+write\r\n:1\r\n:1\r\n:1\r\n"
           "*6\r\n$4\r\nping\r\n:-1\r\n*0\r\n:0\r\n:0\r\n:0\r\n$-1\r\n");
}

/* Subcommands of CLIENT with each number of arguments. */
static void check_client_arguments(void **state)
{
    static const struct {
        const char *name;
        int args; /* with which it is known; 0: any number */
    } subcommands[] = {{"SETINFO", 4}, {"NO-EVICT", 3}, {"NO-TOUCH", 3}, {"SETNAME", 3},
                       {"GETNAME", 2}, {"ID", 2},       {"INFO", 0},     {"LIST", 0},
                       {"REPLY", -1},  {"KILL", -1}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++) {
        for (int args = 2; args <= 5; args++) {
            char request[64];
            snprintf(request, sizeof request, "CLIENT %s%.*s\r\n", subcommands[i].name,
                     2 * (args - 2), " a a a");
            bool known = subcommands[i].args == 0 || subcommands[i].args == args;
            assert_int_equal(reply_to(f, request)[0] != '-', known);
            has(reply_to(f, request), known ? "" : subcommands[i].name);
        }
    }
    weir_buffer_clear(&f->out);
    expect(f, "CLIENT REPLY ON", "+OK\r\n");
    has(reply_to(f, "CLIENT REPLY OFF\r\n"), "-ERR unknown subcommand");
    has(reply_to(f, "CLIENT REPLY ON ON\r\n"), "-ERR unknown subcommand");
    weir_buffer_clear(&f->out);
}

static void check_names(void **state)
{
    fixture *f = *state;
    char request[200];
    for (int len = 63; len <= 65; len++) {
        snprintf(request, sizeof request, "CLIENT SETNAME %0*d\r\n", len, 0);
        assert_int_equal(reply_to(f, request)[0], len <= WEIR_RESP_NAME_MAX ? '+' : '-');
    }
    has(reply_to(f, "CLIENT INFO\r\n"), " name=0000000000000000000000000000000000000000000000000000"
                                        "000000000000 db=0 ");
    has(reply_to(f, "CLIENT SETNAME !~\r\n"), "+OK");
    has(reply_to(f, "CLIENT SETNAME \"a\\x7f\"\r\n"), "-ERR Client names");
    has(reply_to(f, "CLIENT GETNAME\r\n"), "$2\r\n!~\r\n");
    has(reply_to(f, "CLIENT SETNAME ''\r\n"), "+OK");
    has(reply_to(f, "CLIENT GETNAME\r\n"), "$-1\r\n");
    weir_buffer_clear(&f->out);
}

/* Finds the next bulk string of a reply. Returns false at the end. */
static bool next_bulk(const char **at, char *ret, size_t size)
{
    *at = strchr(*at, '$');
    if (!*at)
        return false;
    *at = strchr(*at, '\n') + 1;
    snprintf(ret, size, "%.*s", (int)strcspn(*at, "\r"), *at);
    return true;
}

/* COMMAND, COMMAND LIST, COMMAND INFO of all and WEIR.HELP name the same commands in one order. */
static void check_lists(void **state)
{
    fixture *f = *state;
    char request[1024] = "COMMAND INFO", name[32], usage[128];
    char *list = strdup(reply_to(f, "COMMAND LIST\r\n"));
    begins(list, "*38\r\n$9\r\nweir.take\r\n$10\r\nweir.check\r\n");
    for (const char *at = list; next_bulk(&at, name, sizeof name);)
        snprintf(request + strlen(request), sizeof request - strlen(request), " %s", name);
    strcat(request, "\r\n");
    char *info = strdup(reply_to(f, request));
    /* The words of the request before must not count. */
    assert_string_equal(reply_to(f, "COMMAND LIST\r\nCOMMAND\r\n") + strlen(list), info);
    begins(info, "*38\r\n*6\r\n$9\r\nweir.take\r\n:-3\r\n");
    const char *help = reply_to(f, "WEIR.HELP\r\n"), *at = list;
    begins(help, "*38\r\n");
    for (int i = 0; i < 38; i++) {
        assert_true(next_bulk(&at, name, sizeof name) && next_bulk(&help, usage, sizeof usage));
        for (char *c = usage; *c; c++)
            *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        assert_memory_equal(usage, name, strlen(name));
    }
    assert_false(next_bulk(&at, name, sizeof name) || next_bulk(&help, usage, sizeof usage));
    weir_buffer_clear(&f->out);
    free(list);
    free(info);
}

static void describe_server(void *ctx, weir_resp_server *ret)
{
    const int64_t *uptime_s = ctx;
    *ret = (weir_resp_server){*uptime_s, 12, 345, 67, 8, 100};
}

/* The fields for which the daemon has to be asked, and the histogram: of each bucket alone. */
static void check_info_of_daemon(void **state)
{
    fixture *f = *state;
    int64_t uptime_s = 67;
    const char *info = reply_to(f, "INFO\r\n");
    assert_null(strstr(info, "uptime_in_seconds"));
    assert_null(strstr(info, "# Clients"));
    has(info, "# Latency\r\ndecision_duration_ns:\r\n");
    weir_buffer_clear(&f->out);
    f->options.server = describe_server;
    f->options.server_ctx = &uptime_s;
    static const int64_t elapsed_ns[] = {1, 128, 129, INT64_C(1) << 60};
    for (size_t i = 0; i < sizeof elapsed_ns / sizeof elapsed_ns[0]; i++) {
        reply_to(f, "WEIR.TAKE 'gcra 9/s burst 9' k\r\n");
        weir_service_latency(f->options.service, elapsed_ns[i]);
    }
    info = reply_to(f, "INFO\r\n");
    has(info, "redis_mode:standalone\r\nuptime_in_seconds:67\r\n\r\n"
              "# Clients\r\nconnected_clients:12\r\nblocked_clients:0\r\nmaxclients:345\r\n"
              "rejected_connections:67\r\n"
              "rejected_connections_per_address:8\r\ntotal_connections_received:167\r\n\r\n"
              "# Stats\r\ntotal_commands_processed:4\r\n\r\n# Persistence\r\n");
    has(info, "decision_duration_ns:128=2,256=1,inf=1\r\n");
    weir_buffer_clear(&f->out);
}

static void check_info(void **state)
{
    fixture *f = *state;
    set_rule(f, "api", "gcra 1/h burst 3");
    set_rule(f, "b", "gcra 1/h");
    reply_to(f,
             "WEIR.TAKE api k\r\nWEIR.TAKE api k\r\nWEIR.TAKE api k COST 2\r\nWEIR.TAKE b k\r\n");
    const char *info = reply_to(f, "INFO\r\n");
    char head[16];
    snprintf(head, sizeof head, "$%zu\r\n", strlen(strchr(info, '\n') + 1) - 2);
    assert_memory_equal(info, head, strlen(head));
    has(info, "# Server\r\nweir_version:1.2.3\r\nredis_version:7.0.0\r\n"
              "redis_mode:standalone\r\n");
    has(info, "total_commands_processed:4\r\n");
    has(info, "# Keyspace\r\ndb0:keys=2,expires=2,avg_ttl=0\r\n");
    has(info, "# Memory\r\nused_memory:");
    has(info, "loading:0\r\n");
    has(info, "store_keys:2\r\nstore_memory_bytes:");
    has(info, "store_evicted:0\r\nstore_memory_max_bytes:");
    has(info, "\r\nstore_refused:0\r\n");
    has(info, "clock_steps:0\r\n");
    has(info, "clock_jumps:0\r\n");
    has(info, "role:master\r\n");
    has(info, "policy_api:allowed=2,denied=1,shadowed=0,allow_listed=0,deny_listed=0,failed=0,"
              "unreached=0\r\n");
    has(info, "policy_b:allowed=1,denied=0,shadowed=0,allow_listed=0,deny_listed=0,failed=0,"
              "unreached=0\r\n");
    weir_buffer_clear(&f->out);
}

/* Without a password, any is accepted for the default user. */
static void check_no_password(void **state)
{
    fixture *f = *state;
    expect(f, "AUTH default x", "+OK\r\n");
    begins(reply_to(f, "HELLO 3 AUTH DEFAULT x\r\n"), "%7\r\n");
    weir_buffer_clear(&f->out);
    const char *wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    for (int i = 0; i <= WEIR_PASSWORD_TRIES; i++) { /* without a delay */
        expect(f, "HELLO 3 AUTH alice x", wrong);
        expect(f, "AUTH alice x", wrong);
    }
    assert_false(f->session.closing);
    expect(f, "CL.THROTTLE '' 1 1 1", "-ERR the key has 0 bytes, expected 1 to 65536\r\n");
}

/* An error quotes at most 64 bytes of a word. */
static void check_long_words(void **state)
{
    static const struct {
        const char *before, *after, *error, *rest;
    } rows[] = {
        {"", "", "-ERR unknown command '", "'; WEIR.HELP lists the commands\r\n"},
        {"CLIENT ", "", "-ERR unknown subcommand or wrong number of arguments for '", "'\r\n"},
        {"HELLO 3 ", "", "-ERR Syntax error in HELLO option '", "'\r\n"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int len = 62; len <= 66; len++) {
            char request[200], reply[300];
            int cut = len < 64 ? len : 64;
            snprintf(request, sizeof request, "%s%0*d%s", rows[i].before, len, 0, rows[i].after);
            snprintf(reply, sizeof reply, "%s%0*d%s", rows[i].error, cut, 0, rows[i].rest);
            expect(f, request, reply);
        }
    }
}

static void check_lengths_of_policies(void **state)
{
    fixture *f = *state;
    char request[3000];
    for (int len = 63; len <= 68; len++) {
        snprintf(request, sizeof request, "WEIR.POLICY SET %0*d 'gcra 1/s'", len, 0);
        const char *error = len == 65
                                ? "-ERR a policy's name has 1 to 64 bytes, this one has 65\r\n"
                                : "-ERR the policy's name: expected 1 to 64 bytes without NUL\r\n";
        expect(f, request, len <= WEIR_RULE_NAME_MAX ? "+OK\r\n" : error);
    }
    expect(f, "WEIR.POLICY SET a 'gcra 1/s'", "+OK\r\n");
    expect(f, "WEIR.POLICY GET b", "$-1\r\n");
    expect(f, "WEIR.POLICY GET ''", "$-1\r\n");
    begins(reply_to(f, "WEIR.POLICY GET a\r\n"), "*12\r\n$4\r\nname\r\n$1\r\na\r\n");
    weir_buffer_clear(&f->out);
    for (int len = 2046; len <= 2049; len++) {
        snprintf(request, sizeof request, "WEIR.POLICY SET a %0*d", len, 0);
        expect(f, request,
               len < 2048 ? "-ERR policy: column 1: the policy text is too long, expected at most "
                            "1023 bytes\r\n"
                          : "-ERR the policy text: expected at most 2047 bytes without NUL\r\n");
    }
}

/* Each key has a state of its own. */
static void check_keys_of_throttle(void **state)
{
    fixture *f = *state;
    expect(f, "CL.THROTTLE a 0 1 60", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n");
    expect(f, "CL.THROTTLE b 0 1 60", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n");
    expect(f, "CL.THROTTLE a 0 1 60", "*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n");
}

/* Without a number, at most WEIR_TOP_K keys are listed. */
static void check_number_of_top(void **state)
{
    fixture *f = *state;
    char request[64];
    set_rule(f, "api", "gcra 1/s");
    for (int i = 10; i < 10 + WEIR_TOP_K + 2; i++) {
        snprintf(request, sizeof request, "WEIR.TAKE api key%d\r\n", i);
        begins(reply_to(f, request), "*6\r\n:1\r\n");
    }
    int listed = 0;
    for (const char *at = reply_to(f, "WEIR.TOP api allowed\r\n"); (at = strstr(at, "$5\r\nkey"));
         at++)
        listed++;
    weir_buffer_clear(&f->out);
    assert_int_equal(listed, WEIR_TOP_K);
}

static void check_no_top(void **state)
{
    fixture *f = *state;
    weir_limiter *limiter;
    weir_service *service;
    assert_int_equal(weir_limiter_open(&limiter, f->store, NULL), WEIR_OK);
    assert_int_equal(weir_service_open(&service, limiter), WEIR_OK);
    f->options.service = service;
    expect(f, "WEIR.TOP api", "-ERR WEIR.TOP is disabled: the configuration has top: off\r\n");
    weir_service_close(service);
    weir_limiter_close(limiter);
}

static void check_reservations_that_fail(void **state)
{
    fixture *f = *state;
    const char *reserve = "WEIR.RESERVE 'gcra 1/s' k 1 TTL 1",
               *cancel = "WEIR.CANCEL 0123456789abcdef";
    failure = WEIR_E_FULL;
    expect(f, reserve,
           "-OOM too many open reservations, or the store is full and refuses new keys "
           "(memory.when_full), or it knows too many limits\r\n");
    failure = WEIR_E_NOMEM;
    expect(f, reserve, "-OOM the store is full and no key could be evicted\r\n");
    expect(f, cancel, "-OOM the store is full and no key could be evicted\r\n");
    failure = WEIR_E_RANGE;
    expect(f, cancel, "-ERR number out of range\r\n");
    failure = WEIR_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static fixture *fixture_without_memory;

/* Each request gets its usual reply or an error, and nothing else. */
static bool try_request(const char *request, const char *usual, uint64_t n, bool later)
{
    fixture *f = fixture_without_memory;
    weir_buffer_clear(&f->out);
    weir_buffer_append(&f->in, request, strlen(request));
    assert_true(weir_buffer_reserve(&f->out, 1 << 16));
    memory_fail(n, later);
    weir_resp_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, now_ns);
    bool failed = memory_stop();
    assert_false(f->out.failed);
    weir_buffer_append(&f->out, "", 1);
    const char *reply = (const char *)weir_buffer_data(&f->out);
    bool error = strncmp(reply, "-ERR out of memory", 18) == 0 || strncmp(reply, "-OOM ", 5) == 0;
    if (strcmp(reply, usual) != 0 && !(failed && error && strchr(reply, '\n')[1] == '\0'))
        fail_msg("%s: expected an error or\n%s\ngot\n%s", request, usual, reply);
    return failed;
}

/* Without memory a policy is neither made nor deleted. */
static void check_memory_of_policies(void **state)
{
    fixture *f = *state;
    static const char oom[] = "-OOM the store is full and no key could be evicted\r\n";
    set_rule(f, "a", "gcra 1/h burst 3");
    assert_true(weir_buffer_reserve(&f->in, 1 << 10) && weir_buffer_reserve(&f->out, 1 << 10));
    memory_fail(0, true);
    expect(f, "WEIR.POLICY DEL a", oom);
    expect(f, "WEIR.POLICY SET b 'gcra 1/s'", oom);
    assert_true(memory_stop());
    expect(f, "WEIR.POLICY DEL b", ":0\r\n");
    expect(f, "WEIR.POLICY DEL a", ":1\r\n");
}

static void check_reset_all(void **state)
{
    fixture *f = *state;
    set_rule(f, "a", "gcra 1/h burst 3");
    expect(f, "WEIR.TAKE a k COST 2", "*6\r\n:1\r\n:3\r\n:1\r\n:0\r\n:7200000\r\n:0\r\n");
    expect(f, "WEIR.CHECK 'gcra 1/h burst 3' k COST 2",
           "*6\r\n:1\r\n:3\r\n:1\r\n:0\r\n:7200000\r\n:0\r\n");
    expect(f, "WEIR.RESETALL a", "+OK\r\n");
    expect(f, "WEIR.PEEK a k", "*6\r\n:1\r\n:3\r\n:3\r\n:0\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.PEEK 'gcra 1/h burst 3' k", "*6\r\n:1\r\n:3\r\n:1\r\n:0\r\n:7200000\r\n:0\r\n");
    expect(f, "WEIR.RESETALL 'gcra 1/h burst 3'", "+OK\r\n");
    expect(f, "WEIR.PEEK 'gcra 1/h burst 3' k", "*6\r\n:1\r\n:3\r\n:3\r\n:0\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.RESETALL none",
           "-ERR no policy 'none'; WEIR.POLICY LIST shows all policies\r\n");
    expect(f, "WEIR.RESETALL 'gcra 1/x'",
           "-ERR policy: column 8: unknown unit 'x', expected one of ns us ms s m h d w\r\n");
}

static void check_memory(void **state)
{
    static const char *const requests[] = {
        "WEIR.POLICY LIST\r\n", "WEIR.POLICY GET b\r\n", "WEIR.EXPLAIN a k\r\n",       "INFO\r\n",
        "WEIR.RESETALL b\r\n",  "WEIR.TOP a\r\n",        "WEIR.PEEK 'gcra 7/s' k\r\n",
    };
    fixture *f = fixture_without_memory = *state;
    set_rule(f, "a", "gcra 1/h burst 3");
    set_rule(f, "b", "sliding-log 5/m");
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        char *usual = strdup(reply_to(f, requests[i]));
        for (int later = 0; later <= 1; later++) {
            for (uint64_t n = 0; try_request(requests[i], usual, n, later); n++)
                assert_in_range(n, 0, 1000);
        }
        free(usual);
    }
    weir_buffer_clear(&f->out);
}

static void check_charge(void **state)
{
    fixture *f = *state;
    set_rule(f, "api", "gcra 1/s burst 5");
    expect(f, "WEIR.CHARGE api alice COST 0", "*7\r\n:1\r\n:5\r\n:5\r\n:0\r\n:0\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.TAKE api alice COST 2", "*6\r\n:1\r\n:5\r\n:3\r\n:0\r\n:2000\r\n:0\r\n");
    expect(f, "WEIR.CHARGE api alice", "*7\r\n:1\r\n:5\r\n:2\r\n:0\r\n:3000\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.CHARGE api alice COST 4",
           "*7\r\n:0\r\n:5\r\n:0\r\n:2000\r\n:7000\r\n:0\r\n:0\r\n");
    expect(f, "WEIR.PEEK api alice", "*6\r\n:0\r\n:5\r\n:0\r\n:3000\r\n:7000\r\n:0\r\n");
    expect(f, "WEIR.REFUND api alice 1", "*6\r\n:0\r\n:5\r\n:0\r\n:1000\r\n:6000\r\n:0\r\n");
    expect(f, "WEIR.CHARGE api alice COST",
           "-ERR syntax error, expected [COST n] [WITHNAMES] after the key\r\n");
    expect(f, "WEIR.CHARGE api alice KEEP 1",
           "-ERR syntax error, expected [COST n] [WITHNAMES] after the key\r\n");
    expect(f, "WEIR.CHARGE api alice COST -1",
           "-ERR the cost: expected a whole number from 0 to 2147483647\r\n");
    expect(f, "WEIR.CHARGE 'concurrent 2 lease 1s & block 1s' alice",
           "-ERR policies with only concurrent and block layers do not support charges\r\n");
    expect(f, "WEIR.CHARGE none alice",
           "-ERR no policy 'none'; WEIR.POLICY LIST shows all policies\r\n");
    expect(f, "WEIR.CHARGE api dora COST 6 withnames",
           "*20\r\n$7\r\nallowed\r\n:0\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:0\r\n"
           "$14\r\nretry_after_ms\r\n:1000\r\n$14\r\nreset_after_ms\r\n:6000\r\n$8\r\n"
           "delay_ms\r\n:0\r\n$7\r\nnext_ms\r\n:2000\r\n$4\r\nover\r\n:0\r\n$6\r\npolicy\r\n"
           "$3\r\napi\r\n$5\r\nlayer\r\n:0\r\n");
    expect(f, "WEIR.CHARGE api dora COST 2147483647",
           "*7\r\n:0\r\n:5\r\n:0\r\n:1152921499000\r\n:1152921504000\r\n:0\r\n:994562149\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_client),
        TEST(check_client_arguments),
        TEST(check_names),
        TEST(check_lists),
        TEST(check_info),
        TEST(check_info_of_daemon),
        TEST(check_charge),
        TEST(check_reset_all),
        TEST(check_memory),
        TEST(check_memory_of_policies),
        TEST(check_no_password),
        TEST(check_long_words),
        TEST(check_lengths_of_policies),
        TEST(check_keys_of_throttle),
        TEST(check_number_of_top),
        TEST(check_no_top),
        TEST(check_reservations_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
