/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sessions of SPOP: split input, engines that answer later, a server that stops, counts, and
 * messages that change while loops use them. */

#include "codec/spop/session_kit_test.h"

#include <pthread.h>

/* ---- splits and engines ---------------------------------------------------------------------- */

/* A conversation of 200 frames, with errors, in more batches than one. */
static void add_conversation(weir_buffer *b)
{
    static const char *const names[] = {"plain", "narrow", "other", "costly", "queue", "plain"};
    weir_buffer_append(b, BYTES(HELLO));
    for (unsigned i = 0; i < 200; i++) {
        char key[] = {(char)('a' + i % 7), '\0'};
        add_notify(b, i, names[i % 6], i % 50 == 49 ? "" : key, i % 4 == 3 ? "x" : "2");
        if (i % 60 == 30)
            weir_buffer_append(b, BYTES(NOTIFY));
        if (i % 90 == 30)
            weir_buffer_append(b, BYTES("\0\0\0\x0A\x63\0\0\0\x01\0\0xyz"));
    }
    weir_buffer_append(b, BYTES(DISCONNECT));
}

static void check_splits(void **unused)
{
    (void)unused;
    weir_buffer all;
    weir_buffer_init(&all, BUFFER_MAX);
    add_conversation(&all);
    size_t len = weir_buffer_len(&all);
    fixture *whole = fixture_new(WEIR_ENGINE_LOCAL);
    send_pieces(whole, weir_buffer_data(&all), len, len, OUT_PAUSE);
    assert_int_equal(whole->engine->submitted, 0);
    assert_int_equal(whole->last, WEIR_SESSION_CLOSE);
    for (size_t piece = 1; piece <= len; piece += piece < 64 ? 1 : 331) {
        for (int remote = 0; remote < 2; remote++) {
            fixture *f = fixture_new(remote ? WEIR_ENGINE_REDIS : WEIR_ENGINE_LOCAL);
            f->engine->reports_next = true;
            send_pieces(f, weir_buffer_data(&all), len, piece, piece % 2 ? OUT_PAUSE : 300);
            assert_int_equal(weir_buffer_len(&f->output), weir_buffer_len(&whole->output));
            assert_memory_equal(weir_buffer_data(&f->output), weir_buffer_data(&whole->output),
                                weir_buffer_len(&whole->output));
            assert_true(!remote || f->engine->submitted > 100);
            fixture_free(f);
        }
    }
    fixture_free(whole);
    weir_buffer_free(&all);
}

/* A frame that waits is answered by the messages that were active when it arrived, and later frames
 * by the new ones. */
static void check_reload(void **unused)
{
    (void)unused;
    static const weir_spop_spec other = {.name = "narrow", .policy = "wide"};
    fixture *f = fixture_new(WEIR_ENGINE_REDIS);
    greet(f);
    add_notify(&f->in, 1, "narrow", "a", "");
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_PENDING);
    set_messages(f, &other, 1);
    add_notify(&f->in, 2, "narrow", "a", "");
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_PENDING);
    fake_reply(f->engine, 0, f->now_ns);
    assert_int_equal(f->ready, 1);
    for (int i = 0; i < 4 && step(f, OUT_PAUSE) == WEIR_SESSION_PENDING; i++)
        fake_reply(f->engine, 0, f->now_ns);
    assert_int_equal(f->last, WEIR_SESSION_READ);
    expect(f, "103 1 1.1" ALLOWED("0", "60", "1", "2", "narrow", "limit", "0", "0"));
    expect(f, "103 1 2.1" ALLOWED("0", "60", "99", "100", "wide", "limit", "0", "0"));
    ask(f, "plain", "a", "", ""); /* unknown now */
    weir_spop_activate(f->spop, NULL, NULL, NULL);
    ask(f, "narrow", "a", "", "");
    fixture_free(f);
}

/* A frame that waits may have an error as well, after a request or before it. */
static void check_error_pending(void **unused)
{
    (void)unused;
    for (int errors = 1; errors < 4; errors++) {
        fixture *f = fixture_new(WEIR_ENGINE_REDIS);
        greet(f);
        size_t at = begin(f);
        if (errors & 1)
            add_plain(f, "narrow", "a");
        add_plain(f, "narrow", "");
        if (errors & 2)
            add_plain(f, "narrow", "b");
        end_frame(&f->in, at);
        while (step(f, OUT_PAUSE) == WEIR_SESSION_PENDING)
            fake_reply(f->engine, 0, f->now_ns);
        expect(f, "103 1 9.1" REFUSED("the key is empty or too long"));
        fixture_free(f);
    }
}

/* A frame whose keys do not fit beside those of another frame waits until that one is decided. */
static void check_long_keys_pending(void **unused)
{
    (void)unused;
    char text[2201]; /* a key of more than 52 KB, since % is escaped */
    memset(text, '%', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    fixture *f = fixture_new(WEIR_ENGINE_REDIS);
    greet(f);
    add_notify(&f->in, 8, "long", text, "");
    size_t at = begin(f);
    add_plain(f, "long", text);
    add_plain(f, "long", text);
    end_frame(&f->in, at);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_PENDING);
        assert_int_equal(f->engine->submitted, i == 1 ? 1 : 3);
        fake_reply(f->engine, 0, f->now_ns);
    }
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_READ);
    assert_memory_equal(take_frame(f), "103 1 8.1 allowed=1", 19);
    assert_memory_equal(take_frame(f), "103 1 9.1 allowed=1", 19);
    fixture_free(f);
}

/* Adds a frame whose key has the address 127.0.0.1 and a path of n bytes. */
static void add_path(fixture *f, char byte, size_t n)
{
    char path[2201] = "";
    size_t at = begin(f);
    memset(path, byte, n);
    path[n] = '\0';
    add_message(&f->in, "network", 2);
    add_string(&f->in, "src");
    weir_buffer_append(&f->in, BYTES("\x06\x7F\0\0\x01"));
    add_text(&f->in, "path", path);
    end_frame(&f->in, at);
}

/* Frames that wait are decided anew if a reload has made their keys so long that not all fit into a
 * batch. */
static void check_longer_keys_pending(void **unused)
{
    (void)unused;
    fixture *f = fixture_new(WEIR_ENGINE_REDIS);
    f->network_bits = 8;
    set_rules(f, WEIR_ENGINE_REDIS);
    greet(f);
    /* Ten keys of nearly 64 KiB, as "127.0.0.0%2F8/" has 14 bytes and % is escaped. Then one
     * more frame fits. */
    for (int i = 0; i < 9; i++)
        add_path(f, '%', i < 8 ? 2200 : 2199);
    add_path(f, '%', 1999);
    assert_int_equal(8 * (14 + 3 * 2200) + 14 + 3 * 2199 + 14 + 3 * 1999, WEIR_KEY_MAX - 2);
    add_path(f, 'a', 1);
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_PENDING);
    assert_int_equal(f->engine->submitted, 11);
    f->network_bits = 24;
    set_rules(f, WEIR_ENGINE_REDIS);
    while (step(f, OUT_PAUSE) == WEIR_SESSION_PENDING)
        fake_reply(f->engine, 0, f->now_ns);
    for (int i = 0; i < 11; i++)
        assert_memory_equal(take_frame(f), "103 1 9.1 allowed=", 18);
    expect(f, "");
    fixture_free(f);
}

/* A session may close while an engine is pending. */
static void check_close_pending(void **unused)
{
    (void)unused;
    fixture *f = fixture_new(WEIR_ENGINE_REDIS);
    greet(f);
    add_notify(&f->in, 1, "narrow", "a", "");
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_PENDING);
    weir_spop_session_close(&f->session);
    assert_int_equal(f->ready, 0);
    open_session(f);
    fixture_free(f);
}

/* ---- stopping, counts ------------------------------------------------------------------------ */

static void check_stopping(void **state)
{
    fixture *f = *state;
    greet(f);
    assert_false(weir_spop_session_poll(&f->session, f->now_ns, false));
    /* Idle: at once. */
    assert_true(weir_spop_session_poll(&f->session, f->now_ns + SECOND_NS, true));
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_CLOSE);
    expect(f, DISCONNECTED("0", "normal"));
    /* Before HELLO: the connection is new, and HAProxy may have sent a frame. */
    weir_spop_session_close(&f->session);
    open_session(f);
    assert_false(weir_spop_session_poll(&f->session, f->now_ns, true));
    weir_buffer_free(&f->in); /* a run without input memory */
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_READ);
    send_bytes(f, BYTES(HELLO));
    assert_int_equal(f->last, WEIR_SESSION_READ);
    send_bytes(f, BYTES(NOTIFY));
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    weir_buffer_clear(&f->output);
    /* Busy: after the next replies, when no part of a frame is waiting. */
    weir_spop_session_close(&f->session);
    open_session(f);
    greet(f);
    ask(f, "other", "a", "", "");
    assert_false(weir_spop_session_poll(&f->session, f->now_ns + SECOND_NS / 20, true));
    add_notify(&f->in, 1, "other", "a", "");
    weir_buffer_append(&f->in, BYTES("\0\0"));
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_READ);
    expect(f, "103 1 1.1");
    weir_buffer_clear(&f->in);
    add_notify(&f->in, 2, "other", "a", "");
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_CLOSE);
    expect(f, "103 1 2.1");
    expect(f, DISCONNECTED("0", "normal"));
    /* Busy, and then silent. */
    weir_spop_session_close(&f->session);
    open_session(f);
    greet(f);
    ask(f, "other", "a", "", "");
    assert_false(weir_spop_session_poll(&f->session, f->now_ns, true));
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_READ);
    assert_true(weir_spop_session_poll(&f->session, f->now_ns, true));
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_CLOSE);
    expect(f, DISCONNECTED("0", "normal"));
}

static void check_counts(void **state)
{
    fixture *f = *state;
    char name[WEIR_SPOP_NAME_MAX + 1] = "untouched", longer[300];
    weir_buffer text;
    greet(f);
    assert_true(weir_spop_take_unknown(f->spop, WEIR_SPOP_MESSAGE, name) == 0);
    assert_string_equal(name, "untouched");
    memset(longer, 'm', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    ask(f, longer, "a", "", "");
    ask(f, "other", "a", "", "");
    ask(f, "plain", "", "", REFUSED("the key is empty or too long"));
    assert_true(weir_spop_take_unknown(f->spop, WEIR_SPOP_MESSAGE, name) == 2);
    assert_int_equal(strlen(name), WEIR_SPOP_NAME_MAX);
    assert_true(weir_spop_take_unknown(f->spop, WEIR_SPOP_MESSAGE, name) == 0);
    weir_buffer_init(&text, 1 << 16);
    weir_spop_put_metrics(f->spop, &text);
    weir_spop_put_metrics(NULL, &text);
    weir_buffer_append_byte(&text, 0);
    const char *metrics = (const char *)weir_buffer_data(&text);
    assert_non_null(strstr(metrics, "\nweir_spoe_notify_total 3\n"));
    assert_non_null(strstr(metrics, "\nweir_spoe_errors_total 1\n"));
    assert_non_null(strstr(metrics, "\nweir_spoe_unknown_messages_total 2\n"));
    assert_non_null(strstr(metrics, "\nweir_spoe_refused_total 0\n"));
    weir_buffer_free(&text);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { ACTIVATIONS = 500, FRAMES = 200 };

/* A loop that finds a message of each set while the sets change. */
static void *find_messages(void *ctx)
{
    weir_spop *shared = ctx;
    weir_spop_loop *l = weir_spop_loop_open(shared);
    char name[WEIR_SPOP_NAME_MAX + 1];
    uintptr_t bad = l ? 0 : 1;
    for (int i = 0; l && i < 20 * ACTIVATIONS; i++) {
        const weir_spop_message *m =
            weir_spop_messages_find(weir_spop_loop_messages(l), (weir_slice){"m", 1});
        bad += !m || m->policy_name.len != 3;
        if (i % 64 == 0)
            weir_spop_count_unknown(l, WEIR_SPOP_MESSAGE, (weir_slice){"other", 5});
        if (i % 256 == 0)
            (void)weir_spop_take_unknown(shared, WEIR_SPOP_MESSAGE, name);
    }
    weir_spop_loop_close(l);
    return (void *)bad;
}

static void check_threads(void **state)
{
    fixture *f = *state;
    static const weir_spop_spec sets[] = {{.name = "m", .policy = "one"},
                                          {.name = "m", .policy = "two"}};
    pthread_t threads[2];
    set_messages(f, &sets[0], 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, find_messages, f->spop), 0);
    for (int i = 0; i < ACTIVATIONS; i++)
        set_messages(f, &sets[i % 2], 1);
    for (int i = 0; i < 2; i++) {
        void *bad;
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
}

/* What a reload activates. */
typedef struct reload {
    fixture *f;
    weir_rules *rules;
    weir_engine_kind engine;
    int left, done;
} reload;

static void activate_rules(void *ctx)
{
    reload *r = ctx;
    weir_limiter_configure(r->f->limiter, r->rules, r->engine);
}

/* Activates a policy of another name for the message `m`, many times. */
static void *rename_policy(void *ctx)
{
    static const char *const names[] = {"one", "two"};
    reload *r = ctx;
    for (; r->left > 0; r->left--) {
        const weir_spop_spec spec = {.name = "m", .policy = names[r->done++ % 2]};
        weir_rule_spec rule = WEIR_RULE_SPEC_DEFAULT;
        weir_spop_messages *m;
        rule.name = spec.policy;
        rule.limit = "fixed-window 1000000/d";
        rule.engine = r->engine;
        if (weir_spop_messages_build(&m, &spec, 1, WEIR_SPOP_ALL_VARIABLES) != WEIR_OK)
            break;
        if (weir_rules_build(&r->rules, r->f->store, NULL, &rule, 1) == WEIR_OK)
            weir_spop_activate(r->f->spop, m, activate_rules, r);
        weir_spop_messages_drop(m);
    }
    return NULL;
}

/* While reloads rename the policy of a message, every request is decided. */
static void check_renamed_policy(void **state)
{
    fixture *f = *state;
    reload r = {.f = f, .left = 1};
    pthread_t thread;
    rename_policy(&r);
    greet(f);
    r.left = 20 * ACTIVATIONS;
    assert_int_equal(pthread_create(&thread, NULL, rename_policy, &r), 0);
    for (int i = 0; i < ACTIVATIONS; i++) {
        for (unsigned n = 0; n < FRAMES; n++)
            add_notify(&f->in, n, "m", "a", "");
        assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_READ);
        for (unsigned n = 0; n < FRAMES; n++)
            assert_non_null(strstr(take_frame(f), " allowed=1"));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(r.left, 0);
}

static reload *at_submit; /* NULL: none */
static const weir_engine_calls *fake_calls;

static bool submit(weir_engine *engine, weir_engine_batch *batch, int64_t now_ns)
{
    at_submit->left = 1;
    rename_policy(at_submit);
    return fake_calls->submit(engine, batch, now_ns);
}

/* A reload in the middle of a run changes nothing until the run ends. */
static void check_reload_in_run(void **unused)
{
    (void)unused;
    fixture *f = fixture_new(WEIR_ENGINE_REDIS);
    reload r = {.f = f, .engine = WEIR_ENGINE_REDIS, .left = 1};
    greet(f);
    at_submit = &r;
    rename_policy(&r);
    fake_calls = f->engine->engine.calls;
    weir_engine_calls calls = *fake_calls;
    calls.submit = submit;
    f->engine->engine.calls = &calls;
    f->engine->immediate = true;
    for (unsigned n = 0; n < 100; n++)
        add_notify(&f->in, n, "m", "a", "");
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_READ);
    for (unsigned n = 0; n < 100; n++)
        assert_non_null(strstr(take_frame(f), "policy='one'"));
    assert_int_equal(r.done, 3);
    f->engine->engine.calls = fake_calls;
    set_rules(f, WEIR_ENGINE_REDIS);
    ask(f, "m", "a", "", FAILED("unknown policy \"one\""));
    fixture_free(f);
}

static void check_bad_messages(void **unused)
{
    (void)unused;
    char longer[WEIR_SPOP_NAME_MAX + 2];
    memset(longer, 'm', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    const struct {
        weir_spop_spec spec;
        weir_status status;
    } cases[] = {
        {{.name = longer, .policy = "api"}, WEIR_E_RANGE},
        {{.name = "a", .policy = longer}, WEIR_E_RANGE},
        {{.name = "a", .policy = "$"}, WEIR_E_SYNTAX},
        {{.name = "a", .policy = "api", .key = "src"}, WEIR_E_SYNTAX},
        {{.name = "a", .policy = "api", .key = "$src", .cost = "$"}, WEIR_E_SYNTAX},
        {{.name = "a", .policy = "api", .key = "$src", .cost = "many"}, WEIR_E_RANGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const weir_spop_spec two[] = {{.name = "b", .policy = "api"}, cases[i].spec};
        weir_spop_messages *m = NULL;
        assert_int_equal(weir_spop_messages_build(&m, two, 2, 0), cases[i].status);
        assert_null(m);
        assert_int_equal(weir_spop_messages_build(&m, two, WEIR_SPOP_MESSAGES_MAX + 1, 0),
                         WEIR_E_RANGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_stopping),
        TEST(check_threads),
        TEST(check_renamed_policy),
        cmocka_unit_test(check_reload_in_run),
        TEST(check_counts),
        cmocka_unit_test(check_splits),
        cmocka_unit_test(check_reload),
        cmocka_unit_test(check_close_pending),
        cmocka_unit_test(check_error_pending),
        cmocka_unit_test(check_long_keys_pending),
        cmocka_unit_test(check_longer_keys_pending),
        cmocka_unit_test(check_bad_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
