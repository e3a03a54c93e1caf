/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Resets of all keys: their tokens are known before the first call, and are a part of each key. */

#include "engine/redis/client/client_kit_test.h"

#include "engine/redis/client/resets.h"
#include "engine/redis/client/wire.h"

#define TOKEN "0123456789abcdef"
#define RESET "*2\r\n$3\r\napi\r\n$16\r\n" TOKEN "\r\n"
#define PLAIN "WEIR.ASK TAKE gcra 100/s burst 20 weir:{alice}:api 1"
#define NEW   "WEIR.ASK TAKE gcra 100/s burst 20 weir:{alice}:api?" TOKEN " 1"

static server *open_with_resets(const char *resets)
{
    server *s = add_server(7000);
    s->resets = resets;
    kit.counts.resets = &kit.resets;
    open_client();
    return s;
}

static void take_as(server *s, const char *wanted)
{
    test_call t;
    take_answered(&t, "alice", 1);
    assert_string_equal(s->last, wanted);
}

static void without_resets_keys_are_plain(void **state)
{
    (void)state;
    server *s = open_with_resets(NULL);
    take_as(s, PLAIN);
    assert_int_equal(s->reads, 1);
    assert_int_equal(port_word_load_relaxed(&kit.resets.version), 0);
}

static void the_first_call_has_the_token(void **state)
{
    (void)state;
    server *s = open_with_resets(RESET);
    take_as(s, NEW);
    assert_int_equal(s->reads, 1);
    assert_int_equal(port_word_load_relaxed(&kit.resets.version), 1);
    s->has_module = false;
    s->has_functions = true;
    server_dies(s);
    s->is_down = false;
    pass(100 * MS);
    test_call t;
    take_answered(&t, "alice", 1);
    assert_non_null(strstr(s->last, " weir:{alice}:api?" TOKEN "#"));
}

static void a_text_and_another_policy_have_tokens_of_their_own(void **state)
{
    (void)state;
    test_call t;
    server *s = open_with_resets("*2\r\n$19\r\ngcra 100/s burst 20\r\n$16\r\n" TOKEN "\r\n");
    take_as(s, PLAIN);
    call_of(&t, WEIR_VERB_TAKE, "alice", 1, 50 * MS);
    t.request[0].name = (weir_slice){"", 0};
    send_call(&t);
    run_due_events();
    assert_answered(&t);
    assert_string_equal(s->last, "WEIR.ASK TAKE gcra 100/s burst 20 weir:{alice}:?" TOKEN " 1");
}

/* Another daemon resets; then FLUSHALL. Each is known within a second. */
static void resets_are_read_every_second(void **state)
{
    (void)state;
    server *s = open_with_resets(NULL);
    take_as(s, PLAIN);
    s->resets = RESET;
    pass(1000 * MS - 1);
    assert_int_equal(s->reads, 1);
    take_as(s, PLAIN);
    pass(1);
    assert_int_equal(s->reads, 2);
    take_as(s, NEW);
    assert_int_equal(port_word_load_relaxed(&kit.resets.version), 1);
    pass(1000 * MS);
    assert_int_equal(s->reads, 3);
    assert_int_equal(port_word_load_relaxed(&kit.resets.version), 1); /* nothing has changed */
    s->resets = NULL;
    pass(1000 * MS);
    take_as(s, PLAIN);
    assert_int_equal(port_word_load_relaxed(&kit.resets.version), 2);
}

/* Policies are reset and forgotten one by one. */
static void each_token_has_a_life_of_its_own(void **state)
{
    (void)state;
    char name[24], both[128];
    for (int i = 0; i == 0 || weir_redis_hash(bytes_of(name)) % WEIR_REDIS_RESETS_SLOTS != 0; i++)
        snprintf(name, sizeof name, "p%019d", i); /* a policy of the first slot */
    snprintf(both, sizeof both,
             "*4\r\n$3\r\napi\r\n$16\r\n" TOKEN "\r\n$20\r\n%s\r\n$16\r\n" TOKEN "\r\n", name);
    const weir_engine_request api = {.name = {"api", 3}}, other = {.name = {name, 20}};
    const weir_redis_resets *r = &kit.resets;
    const uint64_t token = 0x0123456789abcdef;
    server *s = open_with_resets(RESET);
    pass(0);
    assert_int_equal(weir_redis_resets_token(r, &other), 0);
    s->resets = both;
    pass(1000 * MS);
    assert_int_equal(weir_redis_resets_token(r, &api), token);
    assert_int_equal(weir_redis_resets_token(r, &other), token);
    assert_int_equal(port_word_load_relaxed(&r->version), 2);
    for (int i = 0; i < 4; i++) { /* the third reply is an error */
        s->resets = i == 2 ? "-NOPERM no permissions\r\n" : RESET;
        pass(1000 * MS);
        assert_int_equal(weir_redis_resets_token(r, &api), token);
        assert_int_equal(weir_redis_resets_token(r, &other), 0);
        assert_int_equal(port_word_load_relaxed(&r->version), 3);
    }
}

static void reset_all(test_call *t)
{
    call_of(t, WEIR_VERB_RESET_ALL, "", 0, 50 * MS);
    t->call.token = 0x0123456789abcdef;
    send_call(t);
    run_due_events();
}

static void a_reset_takes_effect_at_once(void **state)
{
    (void)state;
    server *s = open_with_resets(NULL);
    test_call t;
    reset_all(&t);
    assert_status(&t, WEIR_OK, NULL);
    assert_string_equal(s->last, "HSET weir:#resets api " TOKEN);
    take_as(s, NEW);
    s->set = ":0\r\n"; /* it was reset before */
    reset_all(&t);
    assert_status(&t, WEIR_OK, NULL);
    assert_int_equal(port_word_load_relaxed(&kit.resets.version), 2);
    s->set = "-OOM command not allowed\r\n";
    reset_all(&t);
    assert_ended(&t, WEIR_REDIS_REFUSED);
    s->set = ":2\r\n";
    reset_all(&t);
    assert_ended(&t, WEIR_REDIS_CONNECTION_LOST);
    assert_int_equal(port_word_load_relaxed(&kit.resets.version), 2);
}

/* A reply that was sent before the reset of another thread does not undo it. */
static void an_older_reply_is_dropped(void **state)
{
    (void)state;
    server *s = open_with_resets(NULL);
    test_call t;
    take_as(s, PLAIN);
    s->is_hung = true;
    pass(1000 * MS); /* the request was sent */
    port_word_store_relaxed(&kit.resets.version, 7);
    s->is_hung = false;
    s->resets = RESET;
    run_due_events();
    assert_int_equal(s->reads, 3); /* it is read again at once */
    assert_int_equal(port_word_load_relaxed(&kit.resets.version), 8);
    take_answered(&t, "alice", 1);
    assert_string_equal(s->last, NEW);
}

static void a_call_waits_until_the_resets_are_known(void **state)
{
    (void)state;
    test_call t;
    server *s = open_with_resets("-LOADING Redis is loading the dataset in memory\r\n");
    take(&t, "alice", 1);
    pass(40 * MS);
    assert_int_equal(t.done, 0);
    assert_int_equal(s->calls, 0);
    pass(10 * MS);
    assert_int_equal(t.done, 1);
    assert_int_not_equal(t.call.outcome, WEIR_REDIS_ANSWERED);
    s->resets = RESET;
    pass(100 * MS);
    take_as(s, NEW);
}

static void a_server_that_refuses_decides_without(void **state)
{
    (void)state;
    static const char error[] = "NOPERM this user has no permissions to run the 'hgetall' command";
    server *s = open_with_resets("-NOPERM this user has no permissions to run the 'hgetall' "
                                 "command\r\n");
    const char *why = NULL;
    test_call t;
    take_as(s, PLAIN);
    call_of(&t, WEIR_VERB_RESET_ALL, "", 0, 50 * MS);
    assert_false(weir_redis_resets_can(&kit.resets, t.request, &why));
    assert_string_equal(why, "resetting all keys needs HGETALL and HSET, and the server refuses "
                             "HGETALL; the log has its error");
    assert_non_null(strstr(kit.log, "redis-refuses a:7000: "));
    assert_non_null(strstr(kit.log, error));
    assert_int_equal(count(&kit.resets.refused), 1);
    assert_int_equal(port_word_load_relaxed(&kit.resets.known), 1);
    pass(1000 * MS - 1);
    assert_int_equal(s->reads, 1);
    pass(1);
    assert_int_equal(s->reads, 2);
    pass(9000 * MS - 1); /* logged once in ten seconds */
    assert_null(strstr(strstr(kit.log, error) + 1, error));
    pass(1);
    assert_non_null(strstr(strstr(kit.log, error) + 1, error));
    s->resets = RESET;
    pass(1000 * MS);
    assert_true(weir_redis_resets_can(&kit.resets, t.request, &why));
    take_as(s, NEW);
}

static void what_is_not_a_token_is_ignored(void **state)
{
    (void)state;
    server *s = open_with_resets("*8\r\n$3\r\napi\r\n$3\r\nabc\r\n$3\r\napi\r\n$16\r\n"
                                 "0000000000000000\r\n$1\r\nx\r\n$16\r\n" TOKEN
                                 "\r\n$3\r\napi\r\n$16\r\n0123456789abcdeg\r\n");
    take_as(s, PLAIN);
    assert_int_equal(count(&kit.resets.used), 1);
}

static void the_number_of_policies_is_bounded(void **state)
{
    (void)state;
    test_call t;
    const char *why = NULL;
    call_of(&t, WEIR_VERB_RESET_ALL, "", 0, 50 * MS);
    assert_false(weir_redis_resets_can(NULL, t.request, &why));
    assert_string_equal(why, "this program does not reset all keys of a policy");
    assert_int_equal(weir_redis_resets_token(NULL, t.request), 0);
    weir_redis_resets *r = &kit.resets;
    port_store_relaxed(&r->used, WEIR_REDIS_RESETS_MAX - 1);
    assert_true(weir_redis_resets_can(r, t.request, &why));
    port_store_relaxed(&r->used, WEIR_REDIS_RESETS_MAX);
    assert_false(weir_redis_resets_can(r, t.request, &why));
    assert_string_equal(
        why, "1024 policies were reset, and another one cannot be; reset keys one by one");
    weir_redis_resets_set(r, t.request, 5);
    assert_int_equal(weir_redis_resets_token(r, t.request), 5);
    assert_true(weir_redis_resets_can(r, t.request, &why)); /* one that was reset can be again */
}

/* A hash with one policy more than can be reset, as another program may write it. */
static void a_reply_has_too_many_policies(void **state)
{
    (void)state;
    enum { POLICIES = WEIR_REDIS_RESETS_MAX + 1 };
    static char reply[64 * POLICIES];
    size_t len = (size_t)snprintf(reply, sizeof reply, "*%d\r\n", 2 * POLICIES);
    for (int i = 0; i < POLICIES; i++)
        len += (size_t)snprintf(reply + len, sizeof reply - len, "$5\r\np%04d\r\n$16\r\n%016x\r\n",
                                i, i + 1);
    server *s = open_with_resets(reply);
    take_as(s, PLAIN);
    assert_int_equal(count(&kit.resets.used), WEIR_REDIS_RESETS_MAX);
    const weir_engine_request last = {.name = {"p1023", 5}}, more = {.name = {"p1024", 5}};
    assert_int_equal(weir_redis_resets_token(&kit.resets, &last), 1024);
    assert_int_equal(weir_redis_resets_token(&kit.resets, &more), 0);
}

/* All slots are used: nothing is written, and nothing loops. */
static void a_full_table_takes_no_more(void **state)
{
    (void)state;
    test_call t;
    weir_redis_resets *r = &kit.resets;
    call_of(&t, WEIR_VERB_RESET_ALL, "", 0, 50 * MS);
    for (size_t i = 0; i < WEIR_REDIS_RESETS_SLOTS; i++)
        port_word_store_relaxed(&r->slot[i].policy, 1);
    port_store_relaxed(&r->used, WEIR_REDIS_RESETS_SLOTS);
    weir_redis_resets_set(r, t.request, 5);
    assert_int_equal(weir_redis_resets_token(r, t.request), 0);
    assert_int_equal(count(&r->used), WEIR_REDIS_RESETS_SLOTS);
}

/* The connection breaks while a reply is expected. */
static void a_lost_request_is_sent_again(void **state)
{
    (void)state;
    server *s = open_with_resets(NULL);
    take_as(s, PLAIN);
    s->is_hung = true;
    pass(1000 * MS);
    server_dies(s);
    s->is_down = s->is_hung = false;
    s->resets = RESET;
    pass(100 * MS);
    assert_int_equal(s->reads, 2);
    take_as(s, NEW);
}

/* Sets up two nodes of a Cluster, one of which has the hash of the tokens. */
static void add_two(server **ret_has, server **ret_other)
{
    static const char map[] = "*2\r\n"
                              "*3\r\n:0\r\n:8191\r\n*2\r\n$1\r\na\r\n:7000\r\n"
                              "*3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nb\r\n:7001\r\n";
    static const char name[] = "weir:#resets";
    bool first = weir_redis_slot(name, sizeof name - 1) <= 8191;
    server *a = add_server(7000), *b = add_server(7001);
    *ret_has = first ? a : b;
    *ret_other = first ? b : a;
    a->slots = b->slots = map;
    kit.url[1] = "redis://b:7001";
    kit.options.urls_len = 2;
    kit.counts.resets = &kit.resets;
}

/* The hash of the tokens is on one node of a Cluster. While it is down, a client that knows no
 * resets decides nothing. */
static void in_a_cluster_one_node_has_them(void **state)
{
    (void)state;
    server *has, *other;
    add_two(&has, &other);
    bool first = has->port == 7000;
    has->resets = RESET;
    has->is_down = true;
    open_client();
    pass(3000 * MS);
    test_call t;
    char key[] = "a"; /* of the other node */
    while ((weir_redis_slot_of_tag(key, 1) <= 8191) == first)
        key[0]++;
    take(&t, key, 1);
    pass(100 * MS);
    assert_int_equal(t.done, 1);
    assert_int_not_equal(t.call.outcome, WEIR_REDIS_ANSWERED);
    assert_int_equal(other->calls, 0);
    has->is_down = false;
    pass(2000 * MS);
    take_answered(&t, key, 1);
    assert_non_null(strstr(other->last, "?" TOKEN));
    assert_true(has->reads > 0);
    assert_int_equal(other->reads, 0);
}

/* The node has the hash no more: the map of the slots is read again, and then the hash. */
static void in_a_cluster_the_resets_move(void **state)
{
    (void)state;
    static const char all_of_b[] = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nb\r\n:7001\r\n";
    static const char all_of_a[] = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:7000\r\n";
    server *has, *other;
    add_two(&has, &other);
    open_client();
    pass(1000 * MS);
    size_t maps = has->map_requests + other->map_requests, reads = has->reads;
    pass(1000 * MS);
    assert_int_equal(has->map_requests + other->map_requests, maps);
    assert_int_equal(has->reads, reads + 1);
    has->resets = "-LOADING Redis is loading the dataset in memory\r\n";
    pass(1000 * MS);
    assert_int_equal(has->map_requests + other->map_requests, maps);
    assert_int_equal(other->reads, 0);
    has->slots = other->slots = has->port == 7000 ? all_of_b : all_of_a;
    has->resets = "-MOVED 5 c:7002\r\n";
    other->resets = RESET;
    pass(500 * MS);
    assert_int_equal(has->map_requests + other->map_requests, maps + 1);
    assert_int_equal(other->reads, 1);
    assert_int_equal(port_word_load_relaxed(&kit.resets.version), 1);
}

/* While a reply is expected, the connection to another node breaks. */
static void in_a_cluster_another_connection_breaks(void **state)
{
    (void)state;
    server *has, *other;
    add_two(&has, &other);
    open_client();
    pass(100 * MS);
    size_t reads = has->reads;
    has->is_hung = true;
    pass(1000 * MS);
    server_dies(other);
    pass(100 * MS);
    has->is_hung = false;
    run_due_events();
    assert_int_equal(has->reads, reads + 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(without_resets_keys_are_plain),
        TEST(the_first_call_has_the_token),
        TEST(a_text_and_another_policy_have_tokens_of_their_own),
        TEST(resets_are_read_every_second),
        TEST(each_token_has_a_life_of_its_own),
        TEST(a_reset_takes_effect_at_once),
        TEST(an_older_reply_is_dropped),
        TEST(a_call_waits_until_the_resets_are_known),
        TEST(a_server_that_refuses_decides_without),
        TEST(what_is_not_a_token_is_ignored),
        TEST(the_number_of_policies_is_bounded),
        TEST(a_reply_has_too_many_policies),
        TEST(a_full_table_takes_no_more),
        TEST(a_lost_request_is_sent_again),
        TEST(in_a_cluster_one_node_has_them),
        TEST(in_a_cluster_the_resets_move),
        TEST(in_a_cluster_another_connection_breaks),
    };
    RUN_BOTH_WAYS(tests);
}
