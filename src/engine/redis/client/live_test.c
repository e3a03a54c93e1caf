/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The client with real servers: one server, by functions and by a script, that is killed and
 * restarted; and a Cluster of three nodes whose slots migrate meanwhile. */

#include "engine/redis/client/live_kit_test.h"
#include "engine/redis/client/topology.h"
#include "engine/redis/client/wire.h"

typedef struct live_call {
    weir_redis_call call; /* first */
    weir_engine_request request;
    char key[32];
    int done;
} live_call;

static weir_redis_client *client;
static weir_redis_counts counts;
static weir_redis_options options;
static const char *url[1];
static char url_text[128], log_text[16384];
static weir_policy policy;

static void on_done(weir_redis_call *c, int64_t now_ns)
{
    (void)now_ns;
    ((live_call *)c)->done++;
}

static void on_log(void *ctx, const char *event, const char *node, const char *text)
{
    (void)ctx;
    size_t len = strlen(log_text);
    snprintf(log_text + len, sizeof log_text - len, "%s %s: %s\n", event, node, text);
}

static void open_client(const char *format, ...)
{
    static const char text[] = "gcra 10/h burst 10";
    assert_int_equal(weir_policy_parse(&policy, text, strlen(text), NULL, NULL), WEIR_OK);
    va_list args;
    va_start(args, format);
    vsnprintf(url_text, sizeof url_text, format, args);
    va_end(args);
    url[0] = url_text;
    options.urls = url;
    options.urls_len = 1;
    weir_redis_error error;
    assert_int_equal(weir_redis_options_check(&options, &error), WEIR_OK);
    const weir_redis_log log = {on_log, NULL};
    memset(&counts, 0, sizeof counts);
    log_text[0] = 0;
    assert_int_equal(
        weir_redis_client_open(&client, &options, NULL, &live_dialer, &counts, &log, 1), WEIR_OK);
}

static void close_client(void)
{
    weir_redis_client_close(client);
    client = NULL;
    memset(&options, 0, sizeof options);
}

static void send_one(live_call *c, const char *key, int64_t within_ns)
{
    *c = (live_call){0};
    snprintf(c->key, sizeof c->key, "%s", key);
    c->request = (weir_engine_request){.policy = &policy,
                                       .text = {"gcra 10/h burst 10", 18},
                                       .name = {"n", 1},
                                       .key = {c->key, strlen(c->key)},
                                       .cost = 1};
    int64_t now_ns = port_now_ns();
    c->call = (weir_redis_call){
        .request = &c->request, .len = 1, .deadline_ns = now_ns + within_ns, .done = on_done};
    weir_redis_client_send(client, &c->call, now_ns);
}

static void wait_for(live_call *c, size_t n)
{
    int64_t until_ns = port_steady_ns() + 30000000000;
    for (size_t i = 0; i < n; i++) {
        while (!c[i].done && port_steady_ns() < until_ns)
            iterate();
        assert_int_equal(c[i].done, 1);
    }
}

/* Waits at most 10 s for the end of a call. */
static weir_redis_outcome ask(const char *key, bool *ret_allowed)
{
    live_call c;
    send_one(&c, key, 10000000000);
    wait_for(&c, 1);
    if (ret_allowed)
        *ret_allowed = c.request.decision.allowed;
    return c.call.outcome;
}

/* Repeats a call until it is answered, for at most 20 s. */
static bool take_until_answered(const char *key)
{
    bool allowed = false;
    for (int64_t until_ns = port_steady_ns() + 20000000000; port_steady_ns() < until_ns;) {
        if (ask(key, &allowed) == WEIR_REDIS_ANSWERED)
            return allowed;
        iterate();
    }
    fail_msg("no answer: %s", log_text);
    return false;
}

static void take_ten_times(const char *key)
{
    static live_call c[15];
    for (int i = 0; i < 15; i++)
        send_one(&c[i], key, 10000000000);
    wait_for(c, 15);
    for (int i = 0; i < 15; i++) {
        assert_int_equal(c[i].call.outcome, WEIR_REDIS_ANSWERED);
        assert_int_equal(c[i].request.decision.allowed, i < 10);
    }
}

static void one_server(void **state)
{
    (void)state;
    char sock[96];
    snprintf(sock, sizeof sock, "%s/s", live_folder);
    const char *const args[] = {"--requirepass", "secret", "--unixsocket", sock};
    live_server *s = start_server(4, args);
    open_client("redis://:secret@127.0.0.1:%d/2", s->port);
    (void)take_until_answered("first");
    assert_non_null(strstr(log_text, ": functions\n"));
    take_ten_times("alice");
    char port[16];
    snprintf(port, sizeof port, "%d", s->port);
    char *flush[] = {"redis-cli", "--no-auth-warning", "-a",    "secret", "-p",
                     port,        "FUNCTION",          "FLUSH", NULL};
    assert_int_equal(run_to_end(flush), 0);
    take_ten_times("bob");
    assert_int_equal(port_load_relaxed(&counts.reloaded), 1);
    close_client();
    options.by = WEIR_REDIS_BY_SCRIPT;
    options.password = "secret";
    open_client("unix://%s?db=2", sock);
    take_ten_times("carol");
    assert_non_null(strstr(log_text, ": a script\n"));
    bool allowed = true;
    assert_int_equal(ask("alice", &allowed), WEIR_REDIS_ANSWERED);
    assert_false(allowed); /* functions and script use the same keys */
    close_client();
}

static char *module_path; /* NULL: not built */

static void the_module(void **state)
{
    (void)state;
    if (!module_path)
        skip();
    const char *const args[] = {"--loadmodule", module_path};
    live_server *s = start_server(2, args);
    open_client("redis://127.0.0.1:%d", s->port);
    (void)take_until_answered("first");
    assert_non_null(strstr(log_text, ": the module\n"));
    take_ten_times("alice");
    take_ten_times("bob");
    close_client();
}

/* The rights in docs/redis.md suffice. */
static void the_documented_rights_suffice(void **state)
{
    (void)state;
#define WORDS "+auth", "+client|setname", "+role", "+command|info"
#define STATES                                                                                     \
    "+time", "+type", "+get", "+set", "+getrange", "+del", "+pexpireat", "+hget", "+hmget",        \
        "+hset", "+hdel", "+zadd", "+zcard", "+zrange", "+zremrangebyrank", "+zremrangebyscore"
    const char *const functions[] = {"--user", "weir", "on",     ">SECRET",       "~weir:*",
                                     WORDS,    STATES, "+fcall", "+function|load"};
    const char *const script[] = {"--user", "weir", "on",       ">SECRET",     "~weir:*",
                                  WORDS,    STATES, "+evalsha", "+script|load"};
    const struct {
        const char *const *args;
        const char *by;
    } of[] = {{functions, ": functions\n"}, {script, ": a script\n"}};
    for (size_t i = 0; i < 2; i++) {
        live_server *s = start_server(sizeof functions / sizeof *functions, of[i].args);
        open_client("redis://weir:SECRET@127.0.0.1:%d", s->port);
        (void)take_until_answered("first");
        assert_non_null(strstr(log_text, of[i].by));
        take_ten_times("alice");
        close_client();
    }
}

static void reconnects_to_a_restarted_server(void **state)
{
    (void)state;
    live_server *s = start_server(0, NULL);
    open_client("redis://localhost:%d", s->port);
    (void)take_until_answered("a");
    kill(s->pid, SIGSTOP);
    live_call c[100];
    for (int i = 0; i < 100; i++)
        send_one(&c[i], "b", i < 50 ? 20000000 : 2000000000);
    wait_for(c, 50);
    for (int i = 0; i < 50; i++)
        assert_int_equal(c[i].call.outcome, WEIR_REDIS_TIMEOUT);
    stop_server(s);
    wait_for(c + 50, 50);
    for (int i = 50; i < 100; i++)
        assert_int_equal(c[i].call.outcome, WEIR_REDIS_CONNECTION_LOST);
    live_call lost;
    send_one(&lost, "b", 100000000);
    wait_for(&lost, 1);
    assert_int_equal(lost.call.outcome, WEIR_REDIS_UNREACHABLE);
    start(s);
    assert_true(take_until_answered("c"));
    assert_int_equal(port_load_relaxed(&counts.sent), port_load_relaxed(&counts.answered) + 100);
    close_client();
}

/* ---- a Cluster ------------------------------------------------------------------------------- */

static live_server *srv[3];

static void start_cluster(void)
{
    const char *const args[] = {"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"};
    char at[3][32];
    for (int i = 0; i < 3; i++) {
        srv[i] = start_server(4, args);
        snprintf(at[i], sizeof at[i], "127.0.0.1:%d", srv[i]->port);
    }
    char *create[] = {"redis-cli", "--cluster", "create",        at[0],
                      at[1],       at[2],       "--cluster-yes", NULL};
    for (int i = 0; i < 100; i++) { /* until the nodes are up */
        if (run_to_end(create) == 0)
            return;
        iterate();
    }
    fail_msg("no Cluster");
}

/* Writes the first of the keys numbered *n and up whose slot is below `end`. Sets *n to the number
 * after it. */
static void key_of_slot(int *n, uint32_t end, char ret[32])
{
    do
        snprintf(ret, 32, "key:%d", (*n)++);
    while (weir_redis_slot_of_tag(ret, strlen(ret)) >= end);
}

/* The id of a node, from its configuration file. */
static void read_id(const live_server *s, char *ret)
{
    char path[128], line[512];
    snprintf(path, sizeof path, "%s/nodes-%d.conf", live_folder, s->port);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    ret[0] = 0;
    while (fgets(line, sizeof line, f)) {
        if (strstr(line, "myself"))
            snprintf(ret, 41, "%.40s", line);
    }
    fclose(f);
    assert_int_equal(strlen(ret), 40);
}

static void a_cluster_whose_slots_migrate(void **state)
{
    (void)state;
    start_cluster();
    open_client("redis://127.0.0.1:%d", srv[0]->port);
    enum { KEYS = 200, MIGRATING = 300 };
    static live_call c[KEYS];
    static char keys[KEYS][32];
    int admitted[KEYS] = {0}, unanswered = 0, n = 0;
    for (int i = 0; i < KEYS; i++) /* every second one migrates */
        key_of_slot(&n, i % 2 == 0 ? MIGRATING : WEIR_REDIS_SLOTS, keys[i]);
    for (int i = 0; i < 30; i++) { /* until each node has found the others */
        char key[32];
        snprintf(key, sizeof key, "first:%d", i);
        (void)take_until_answered(key);
    }
    char from[41], to[41], at[32];
    read_id(srv[0], from);
    read_id(srv[1], to);
    snprintf(at, sizeof at, "127.0.0.1:%d", srv[0]->port);
    char *reshard[] = {"redis-cli",       "--cluster", "reshard",       at,
                       "--cluster-from",  from,        "--cluster-to",  to,
                       "--cluster-slots", "300",       "--cluster-yes", NULL};
    pid_t pid = run(reshard);
    bool moving = true;
    int64_t until_ns = port_steady_ns() + 90000000000;
    for (int round = 0; (moving && port_steady_ns() < until_ns) || round < 15; round++) {
        for (int i = 0; i < KEYS; i++)
            send_one(&c[i], keys[i], 10000000000);
        wait_for(c, KEYS);
        for (int i = 0; i < KEYS; i++) {
            unanswered += c[i].call.outcome != WEIR_REDIS_ANSWERED;
            admitted[i] +=
                c[i].call.outcome == WEIR_REDIS_ANSWERED && c[i].request.decision.allowed;
        }
        int status = 0;
        if (moving && waitpid(pid, &status, WNOHANG) == pid) {
            moving = false;
            assert_int_equal(status, 0);
        }
    }
    assert_false(moving);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(admitted[i], 10);
    assert_int_equal(unanswered, 0);
    assert_true(port_load_relaxed(&counts.redirected) > 0);
    assert_int_equal(port_load_relaxed(&counts.lost), 0);
    /* A node is killed: only its slots fail. */
    stop_server(srv[2]);
    live_call lost, other;
    send_one(&lost, "foo", 500000000);
    send_one(&other, "hello", 500000000);
    wait_for(&lost, 1);
    wait_for(&other, 1);
    assert_int_not_equal(lost.call.outcome, WEIR_REDIS_ANSWERED);
    close_client();
}

/* ---- Sentinels ------------------------------------------------------------------------------- */

static void write_sentinel(const char *path, int port, int master)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor mymaster 127.0.0.1 %d 1\n"
            "sentinel down-after-milliseconds mymaster 500\n"
            "sentinel failover-timeout mymaster 2000\n",
            port, live_folder, master);
    fclose(f);
}

static live_server *start_sentinel(int master)
{
    live_server *s = &live_servers[live_servers_len++];
    char path[128];
    *s = (live_server){.port = free_port()};
    snprintf(path, sizeof path, "%s/sentinel.conf", live_folder);
    write_sentinel(path, s->port, master);
    char *argv[] = {"redis-server", path, "--sentinel", NULL};
    s->pid = run(argv);
    return s;
}

/* Waits at most 20 s for a text in a server's reply. */
static bool comes_to(int port, const char *command, const char *answer)
{
    char line[256];
    snprintf(line, sizeof line, "redis-cli -p %d %s 2>&1 | grep -q '%s'", port, command, answer);
    char *argv[] = {"sh", "-c", line, NULL};
    int64_t until_ns = port_steady_ns() + 20000000000;
    while (port_steady_ns() < until_ns) {
        if (run_to_end(argv) == 0)
            return true;
        iterate();
    }
    return false;
}

static void follows_a_failover(void **state)
{
    (void)state;
    live_server *master = start_server(0, NULL);
    char port[16];
    snprintf(port, sizeof port, "%d", master->port);
    const char *const args[] = {"--replicaof", "127.0.0.1", port};
    live_server *replica = start_server(3, args);
    assert_true(comes_to(replica->port, "info replication", "master_link_status:up"));
    live_server *sentinel = start_sentinel(master->port);
    assert_true(comes_to(sentinel->port, "sentinel master mymaster", "^1$"));
    assert_true(comes_to(sentinel->port, "info sentinel", "slaves=1"));
    options.sentinel = "mymaster";
    open_client("redis://127.0.0.1:%d", sentinel->port);
    assert_true(take_until_answered("alice"));
    stop_server(master);
    assert_true(take_until_answered("bob"));
    char name[64];
    snprintf(name, sizeof name, "redis-master 127.0.0.1:%d: mymaster\n", replica->port);
    assert_non_null(strstr(log_text, name));
    close_client();
}

int main(int argc, char **argv)
{
    module_path = argc > 1 ? realpath(argv[1], NULL)
                           : NULL; /* absolute: servers have another working directory */
    char *there[] = {"redis-server", "--version", NULL};
    if (run_to_end(there) != 0) {
        printf("1..0 # SKIP no redis-server\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_server, live_setup, live_teardown),
        cmocka_unit_test_setup_teardown(the_module, live_setup, live_teardown),
        cmocka_unit_test_setup_teardown(follows_a_failover, live_setup, live_teardown),
        cmocka_unit_test_setup_teardown(the_documented_rights_suffice, live_setup, live_teardown),
        cmocka_unit_test_setup_teardown(reconnects_to_a_restarted_server, live_setup,
                                        live_teardown),
        cmocka_unit_test_setup_teardown(a_cluster_whose_slots_migrate, live_setup, live_teardown),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(module_path);
    return failed;
}
