/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The memory of pending requests: what is counted, what is kept for reuse, and the bounds. After
 * every step, check_pool() walks the list and the free lists. */

#include "service/pending.h"

#include "service/kit_test.h"

#include "port/memory_kit_test.h"

enum {
    REQUESTS = 1000,
    FEW_LEN = 4,     /* requests of a small block */
    FEW_KEPT = 256,  /* small blocks in the free list */
    MANY_KEPT = 32,  /* large blocks in the free list */
    KEYS_KEPT = 4096 /* bytes of keys of a block in a free list */
};

/* An engine that never answers. */
static bool never(weir_engine *e, weir_engine_batch *batch, int64_t at_ns)
{
    (void)e;
    (void)batch;
    (void)at_ns;
    return false;
}

static void give_up(weir_engine *e, weir_engine_batch *batch)
{
    (void)e;
    (void)batch;
}

static const weir_engine_calls calls = {.submit = never, .abandon = give_up};
static weir_engine engine = {&calls};
static weir_policy policy;
static const weir_policy *inline_policy; /* of the requests; NULL: they name a rule */
static weir_completion completions[REQUESTS];
static int ready;
static uint64_t blocks; /* of memory, before a test */

static void is_ready(void *ctx)
{
    (void)ctx;
    ready++;
}

static int setup_pool(void **state)
{
    blocks = port_load_relaxed(&memory.blocks);
    int err = setup(state);
    weir_service_set_engine(service, WEIR_ENGINE_REDIS, &engine);
    for (int i = 0; i < REQUESTS; i++)
        completions[i] = (weir_completion){.ready = is_ready};
    ready = 0;
    return err == 0 && weir_policy_parse(&policy, "gcra 1/s", 8, NULL, NULL) == WEIR_OK ? 0 : -1;
}

/* Closing the service frees all of its memory. */
static int teardown_pool(void **state)
{
    int err = teardown(state);
    return port_load_relaxed(&memory.blocks) == blocks ? err : -1;
}

static size_t bytes_of(size_t max, size_t key_bytes)
{
    return sizeof(weir_pending) +
           max * (sizeof(weir_pending_request) + sizeof(weir_engine_request)) + key_bytes;
}

static size_t check_free_list(const weir_pending *first, size_t len, size_t max)
{
    size_t n = 0;
    for (const weir_pending *p = first; p; p = p->next, n++) {
        assert_int_equal(p->max, max);
        assert_true(p->keys_max <= KEYS_KEPT);
        assert_null(p->completion);
        assert_null(p->rules);
    }
    assert_int_equal(n, len);
    return n;
}

static void check_pool(void)
{
    const weir_pending_pool *w = &service->pending;
    const weir_pending *previous = NULL;
    size_t bytes = 0, waiting = 0;
    for (const weir_pending *p = w->first; p; previous = p, p = p->next) {
        assert_ptr_equal(p->previous, previous);
        assert_ptr_equal(p->completion->pending, p);
        bytes += bytes_of(p->max, p->keys_max);
        waiting++;
    }
    for (int i = 0; i < REQUESTS; i++)
        waiting -= completions[i].pending != NULL;
    assert_int_equal(waiting, 0);
    assert_int_equal(w->bytes, bytes);
    assert_true(bytes <= WEIR_SERVICE_PENDING_BYTES_MAX + KEYS_KEPT);
    assert_true(check_free_list(w->free[0], w->free_len[0], FEW_LEN) <= FEW_KEPT);
    assert_true(check_free_list(w->free[1], w->free_len[1], WEIR_BATCH_MAX) <= MANY_KEPT);
    assert_null(w->finished);
}

/* Makes n requests wait, whose keys have key_bytes together. Returns false if the limit forbids
 * it. */
static bool wait_for(int i, size_t n, size_t key_bytes)
{
    static char bytes[8 << 20];
    weir_pending *p = weir_pending_open(service, n, key_bytes, now_ns);
    if (!p)
        return false;
    assert_true(p->max >= n);
    weir_request request = {
        .policy = inline_policy, .by_text = inline_policy != NULL, .cost = 1, .status = WEIR_OK};
    weir_resolved at = {.key = {bytes, key_bytes}};
    weir_pending_copy_key(p, &at);
    weir_engine_request *q = weir_pending_add(p, WEIR_ENGINE_REDIS, WEIR_VERB_TAKE, &request, &at);
    q->policy = &policy;
    assert_false(weir_pending_submit(p, false, now_ns));
    for (size_t k = 0; k < n; k++)
        weir_pending_keep(p, &request, &at, k == 0 ? q : NULL);
    weir_pending_wait(p, &completions[i]);
    assert_int_equal(weir_completion_len(&completions[i]), n);
    assert_true(weir_completion_is_pending(&completions[i]));
    return true;
}

static void cancel(int i)
{
    weir_completion_cancel(&completions[i]);
    assert_int_equal(weir_completion_len(&completions[i]), 0);
}

/* The engine answers, and the service reads the answer. */
static void finish(int i)
{
    weir_pending *p = completions[i].pending;
    weir_engine_batch *batch = &p->batches[WEIR_ENGINE_REDIS].batch;
    int before = ready;
    batch->done(batch, now_ns + 5);
    assert_int_equal(ready, before + 1);
    assert_int_equal(p->answered_ns, now_ns + 5);
    assert_false(weir_completion_is_pending(&completions[i]));
    weir_pending_finish(p);
    assert_null(completions[i].pending);
    weir_service_refresh(service); /* the answers are read */
}

static void check_what_is_kept(void **unused)
{
    (void)unused;
    for (int i = 0; i < REQUESTS; i++)
        assert_true(wait_for(i, i % 10 == 0 ? FEW_LEN + 1 : FEW_LEN, 10));
    check_pool();
    for (int i = 0; i < REQUESTS; i++)
        i % 2 == 0 ? cancel(i) : finish(i);
    check_pool();
    assert_int_equal(service->pending.bytes, 0);
    assert_int_equal(service->pending.free_len[0], FEW_KEPT);
    assert_int_equal(service->pending.free_len[1], MANY_KEPT);
    /* Blocks with many bytes of keys are not kept. */
    assert_true(wait_for(0, 1, KEYS_KEPT + 1));
    assert_true(wait_for(1, 1, KEYS_KEPT));
    cancel(0);
    assert_int_equal(service->pending.free_len[0], FEW_KEPT - 2);
    cancel(1);
    assert_int_equal(service->pending.free_len[0], FEW_KEPT - 1);
    check_pool();
}

/* Inline policies are pinned while a request waits. With assertions, closing the service checks
 * that none is pinned any more. */
static void check_inline_policies(void **unused)
{
    (void)unused;
    uint64_t id;
    assert_int_equal(
        weir_policy_cache_find(service->policies, "gcra 7/s", 8, &inline_policy, &id, NULL),
        WEIR_OK);
    for (int i = 0; i < 2; i++)
        assert_true(wait_for(i, FEW_LEN, 10));
    finish(0);
    cancel(1);
    assert_true(wait_for(2, 1, 10)); /* in the memory of four requests */
    cancel(2);
    inline_policy = NULL;
}

/* A query has all that an engine reads, and none of the answers that were in its memory before. */
static void check_queries(void **unused)
{
    (void)unused;
    weir_rule_spec spec = spec_of("api", "fixed-window  5/1h");
    const weir_policy *cached;
    uint64_t id;
    spec.on_error = WEIR_ON_ERROR_CLOSED;
    set_rules(&spec, 1);
    weir_service_refresh(service);
    const weir_rule *rule = weir_rules_find(service->rules, "api", 3);
    assert_int_equal(
        weir_policy_cache_find(service->policies, "gcra  7/1s burst 9", 18, &cached, &id, NULL),
        WEIR_OK);
    const struct {
        const weir_rule *rule;
        const weir_policy *policy;
        const char *text, *name;
        weir_on_error on_error;
    } each[] = {{rule, &rule->limit.policy, "fixed-window 5/h", "api", WEIR_ON_ERROR_CLOSED},
                {NULL, cached, "gcra 7/s burst 9", "", WEIR_ON_ERROR_DEFAULT},
                {NULL, NULL, "", "", WEIR_ON_ERROR_DEFAULT}};
    for (size_t i = 0; i < 3; i++) {
        char key[] = "key";
        weir_pending *p = weir_pending_open(service, 1, 3, now_ns);
        memset(p->query, 0xFF, sizeof *p->query);
        weir_request request = {.policy = each[i].policy, .cost = 9};
        weir_resolved at = {.rule = each[i].rule, .policy_id = 77, .key = text_of(key)};
        at.limit = each[i].rule ? &each[i].rule->limit : NULL;
        weir_pending_copy_key(p, &at);
        key[0] = 'x';
        const weir_engine_request *q =
            weir_pending_add(p, WEIR_ENGINE_REDIS, WEIR_VERB_PEEK, &request, &at);
        assert_ptr_equal(p->batches[WEIR_ENGINE_REDIS].batch.request, q);
        assert_int_equal(q->verb, WEIR_VERB_PEEK);
        assert_ptr_equal(q->policy, each[i].policy);
        assert_int_equal(q->text.len, strlen(each[i].text));
        assert_memory_equal(q->text.at, each[i].text, q->text.len);
        assert_int_equal(q->name.len, strlen(each[i].name));
        assert_memory_equal(q->name.at, each[i].name, q->name.len);
        assert_int_equal(q->key.len, 3);
        assert_memory_equal(q->key.at, "key", 3);
        assert_int_equal(q->policy_id, 77);
        assert_int_equal(q->cost, 9);
        assert_int_equal(q->on_error, each[i].on_error);
        assert_false(q->by_error);
        assert_null(q->reason);
        weir_pending_free(p);
    }
}

/* Exactly as many requests wait as fit into the limit. */
static void check_bytes_max(void **unused)
{
    (void)unused;
    enum { KEY_BYTES = 1 << 20 };
    size_t each = bytes_of(FEW_LEN, KEY_BYTES), max = WEIR_SERVICE_PENDING_BYTES_MAX;
    int fit = (int)(max / each);
    for (int i = 0; i < fit; i++)
        assert_true(wait_for(i, 1, KEY_BYTES));
    check_pool();
    size_t left = max - service->pending.bytes - bytes_of(FEW_LEN, 0);
    assert_false(wait_for(fit, 1, left + 1));
    assert_true(wait_for(fit, 1, left));
    assert_int_equal(service->pending.bytes, max);
    assert_false(wait_for(fit + 1, 1, 0));
    cancel(0);
    assert_true(wait_for(0, 1, KEY_BYTES));
    for (int i = 0; i <= fit; i++)
        cancel(i);
    check_pool();
}

static void check_random_steps(void **unused)
{
    (void)unused;
    uint64_t random = 1;
    for (int step = 0; step < 4000; step++) {
        uint64_t x = (random = random * 6364136223846793005U + 1442695040888963407U) >> 33;
        int i = (int)(x % 50);
        if (completions[i].pending)
            x & 64 ? cancel(i) : finish(i);
        else
            assert_true(wait_for(i, 1 + x / 64 % WEIR_BATCH_MAX, x / 4096 % (2 * KEYS_KEPT)));
        check_pool();
    }
    for (int i = 0; i < 50; i++)
        cancel(i);
    check_pool();
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup_pool, teardown_pool)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_what_is_kept), TEST(check_inline_policies), TEST(check_queries),
        TEST(check_bytes_max),    TEST(check_random_steps),
    };
    return cmocka_run_group_tests_name("service-pending", tests, NULL, NULL);
}
