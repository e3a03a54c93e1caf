/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The service: rules with overrides, lists and shadow; changes of rules in use; counters. */

#include "service/kit_test.h"

#include <pthread.h>
#include <stdio.h>

static weir_request take(const char *rule, const char *key, int64_t cost)
{
    weir_request request = {.rule = text_of(rule), .key = text_of(key), .cost = cost};
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    return request;
}

static void check_rules(void **unused)
{
    (void)unused;
    static const weir_override_spec overrides[] = {{.pattern = "big", .limit = "gcra 1/s burst 9"}};
    static const char *const allow[] = {"10.0.0.0/8"}, *const deny[] = {"evil"};
    weir_rule_spec specs[] = {spec_of("api", "gcra 1/s burst 2"), spec_of("look", "gcra 1/s"),
                              spec_of("queue", "leaky-queue 1/s depth 1 & fixed-window 9/h"),
                              spec_of("shadowed-queue", "leaky-queue 1/s depth 5"),
                              spec_of("two", "fixed-window 9/h & fixed-window 3/m")};
    specs[0].overrides = overrides;
    specs[0].overrides_len = 1;
    specs[0].allow = allow;
    specs[0].allow_len = 1;
    specs[0].deny = deny;
    specs[0].deny_len = 1;
    specs[1].shadow = true;
    specs[2].allow = allow;
    specs[2].allow_len = 1;
    specs[3].shadow = true;
    specs[4].allow = allow;
    specs[4].allow_len = 1;
    set_rules(specs, 5);

    assert_int_equal(take("api", "alice", 2).decision.remaining, 0);
    weir_request a = take("api", "alice", 1);
    assert_int_equal(a.status, WEIR_OK);
    assert_false(a.decision.allowed);
    assert_int_equal(a.decision.retry_after_ns, s_ns);
    assert_int_equal(take("api", "big", 1).decision.remaining, 8);

    a = take("api", "10.1.1.1", 1000);
    assert_true(a.decision.allowed);
    assert_int_equal(a.reason, WEIR_BY_ALLOW_LIST);
    assert_int_equal(a.decision.limit, 2);
    assert_int_equal(a.decision.remaining, 2);
    a = take("queue", "10.1.1.1", 1); /* the decision of the layer with the lowest limit */
    assert_int_equal(a.decision.limit, 2);
    assert_int_equal(a.decision.layer, 0);
    a = take("two", "10.1.1.1", 1);
    assert_int_equal(a.decision.limit, 3);
    assert_int_equal(a.decision.layer, 1);

    a = take("api", "evil", 1);
    assert_false(a.decision.allowed);
    assert_true(a.decision.never);
    assert_int_equal(a.reason, WEIR_BY_DENY_LIST);
    assert_int_equal(a.decision.remaining, 0);
    assert_int_equal(a.decision.retry_after_ns, INT64_MAX);

    assert_int_equal(take("look", "alice", 1).reason, WEIR_BY_LIMIT);
    a = take("look", "alice", 1);
    assert_true(a.decision.allowed);
    assert_int_equal(a.reason, WEIR_BY_SHADOW);
    assert_int_equal(a.decision.retry_after_ns, 0);
    assert_false(take("look", "alice", 2).decision.never);
    assert_int_equal(take("shadowed-queue", "alice", 1).decision.delay_ns, 0);
    a = take("shadowed-queue", "alice", 1);
    assert_true(a.decision.allowed);
    assert_int_equal(a.decision.delay_ns, 0); /* instead of 1 s */

    assert_int_equal(take("nobody", "alice", 1).status, WEIR_E_ABSENT);
    assert_int_equal(take("api", "", 1).status, WEIR_E_RANGE);
    assert_int_equal(take("api", "alice", -1).status, WEIR_E_RANGE);
    /* A list does not allow an invalid request. */
    assert_int_equal(take("api", "10.1.1.1", -1).status, WEIR_E_RANGE);
}

/* The store refuses the time. */
static void check_bad_time(void **unused)
{
    (void)unused;
    const weir_rule_spec spec = spec_of("api", "gcra 1/s burst 5");
    set_rules(&spec, 1);
    weir_request requests[] = {request_of("api", "a", 1), request_of("api", "b", 1)};
    assert_true(weir_service_take(service, NULL, requests, 2, -1));
    for (int i = 0; i < 2; i++)
        assert_int_equal(requests[i].status, WEIR_E_RANGE);
    assert_true(weir_service_peek(service, NULL, requests, -1));
    assert_int_equal(requests[0].status, WEIR_E_RANGE);
    assert_int_equal(counts_of("api").failed, 2);
}

static void check_peek_refund_reset(void **unused)
{
    (void)unused;
    const weir_rule_spec specs[] = {spec_of("api", "gcra 1/s burst 5"),
                                    spec_of("queue", "leaky-queue 1/s depth 5")};
    set_rules(specs, 2);
    take("api", "alice", 3);
    weir_request request = {.rule = text_of("api"), .key = text_of("alice"), .cost = 2};
    assert_true(weir_service_peek(service, NULL, &request, now_ns));
    assert_true(request.decision.allowed);
    assert_int_equal(request.decision.remaining, 2);
    request.cost = 4;
    assert_true(weir_service_peek(service, NULL, &request, now_ns));
    assert_false(request.decision.allowed);
    assert_int_equal(request.decision.retry_after_ns, 2 * s_ns);
    assert_int_equal(request.decision.remaining, 2);
    assert_true(
        weir_service_refund(service, NULL, &request, now_ns)); /* refunds 4 after 3 were taken */
    assert_int_equal(request.decision.remaining, 5);
    take("api", "alice", 5);
    request.cost = -1; /* not read */
    assert_true(weir_service_reset(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_OK);
    assert_int_equal(take("api", "alice", 1).decision.remaining, 4);
    request.rule = text_of("queue");
    request.cost = 1;
    assert_true(weir_service_refund(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_E_UNSUPPORTED);
    request.rule = text_of("none");
    assert_true(weir_service_reset(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_E_ABSENT);
    assert_true(weir_service_peek(service, NULL, &request, now_ns));
    assert_int_equal(request.status, WEIR_E_ABSENT);
}

/* The addresses of a network are one key in any spelling, also for a reset. */
static void check_addresses(void **unused)
{
    (void)unused;
    const weir_rule_spec spec = spec_of("api", "gcra 1/s burst 3");
    set_rules(&spec, 1);
    assert_int_equal(take("api", "2001:db8::1", 1).decision.remaining, 2);
    assert_int_equal(take("api", "2001:DB8:0:0:ffff::", 1).decision.remaining, 1);
    assert_int_equal(take("api", "2001:db8::/64", 1).decision.remaining, 0);
    assert_int_equal(take("api", "2001:db8:0:1::1", 1).decision.remaining, 2);
    assert_int_equal(take("api", "1.2.3.4", 1).decision.remaining, 2);
    assert_int_equal(take("api", "::ffff:1.2.3.4", 1).decision.remaining, 1);
    assert_int_equal(take("api", "::ffff:102:304", 1).decision.remaining, 0);
}

static void is_kept_under(const weir_request *request, weir_status status, const char *key)
{
    weir_slice kept = text_of("unwritten");
    assert_int_equal(weir_service_key(service, request, &kept), status);
    assert_int_equal(kept.len, strlen(key));
    assert_memory_equal(kept.at, key, kept.len);
}

/* The key under which the state is kept, of each kind of request. */
static void check_key(void **unused)
{
    (void)unused;
    const weir_rule_spec spec = spec_of("api", "gcra 1/s burst 5");
    set_rules(&spec, 1);
    weir_request request = {.rule = text_of("api"), .key = text_of("2001:DB8::1"), .cost = 1};
    is_kept_under(&request, WEIR_OK, "2001:db8::/64");
    request.rule = text_of("gcra 1/s");
    is_kept_under(&request, WEIR_E_ABSENT, "unwritten");
    request.by_text = true;
    is_kept_under(&request, WEIR_OK, "2001:db8::/64");
    weir_request again = request;
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    assert_true(weir_service_take(service, NULL, &again, 1, now_ns));
    assert_ptr_equal(again.policy, request.policy); /* it is parsed once */
    request.cost = -1;
    is_kept_under(&request, WEIR_E_RANGE, "unwritten");
    const weir_rule_spec other = spec_of("new", "gcra 1/s");
    set_rules(&other, 1);
    request = request_of("new", "k", 1);
    is_kept_under(&request, WEIR_OK, "k");
}

/* A batch equals single calls, with any mix of rules, keys and inline policies. */
static void check_batch(void **unused)
{
    (void)unused;
    static const char *const denied[] = {"bad"};
    weir_rule_spec specs[] = {spec_of("a", "gcra 1/s burst 3"), spec_of("b", "gcra 1/s burst 3")};
    specs[1].deny = denied;
    specs[1].deny_len = 1;
    set_rules(specs, 2);
    weir_request requests[WEIR_BATCH_MAX];
    for (int i = 0; i < WEIR_BATCH_MAX; i++) {
        static const char *const rules[] = {"a", "b", "none", "gcra 1/s burst 3", "b", "gcra 1/"};
        static const char *const keys[] = {"k", "k", "k", "k", "bad", "k"};
        requests[i] = (weir_request){.rule = text_of(rules[i % 6]),
                                     .key = text_of(keys[i % 6]),
                                     .by_text = i % 6 == 3 || i % 6 == 5,
                                     .cost = 1};
    }
    assert_true(weir_service_take(service, NULL, requests, WEIR_BATCH_MAX, now_ns));
    for (int i = 0; i < WEIR_BATCH_MAX; i++) {
        const weir_request *request = &requests[i];
        switch (i % 6) {
        case 2:
            assert_int_equal(request->status, WEIR_E_ABSENT);
            break;
        case 4:
            assert_int_equal(request->reason, WEIR_BY_DENY_LIST);
            break;
        case 5:
            assert_int_equal(request->status, WEIR_E_SYNTAX);
            assert_int_equal(request->error.column, 8);
            break;
        default:
            assert_int_equal(request->status, WEIR_OK);
            assert_int_equal(request->decision.allowed, i / 6 < 3);
            assert_int_equal(request->decision.remaining, i / 6 < 3 ? 2 - i / 6 : 0);
        }
    }
    assert_true(weir_service_take(service, NULL, requests, 0, now_ns));
}

/* One batch with more inline policies than a set of the cache holds. */
static void check_many_inline_policies(void **unused)
{
    (void)unused;
    static char texts[64][WEIR_BATCH_MAX][40];
    for (int round = 0; round < 64; round++) {
        weir_request requests[WEIR_BATCH_MAX];
        for (int i = 0; i < WEIR_BATCH_MAX; i++) {
            int limit = 1 + round * WEIR_BATCH_MAX + i;
            snprintf(texts[round][i], sizeof texts[0][0], "fixed-window %d/d", limit);
            requests[i] = (weir_request){
                .rule = text_of(texts[round][i]), .key = text_of("k"), .by_text = true, .cost = 1};
        }
        assert_true(weir_service_take(service, NULL, requests, WEIR_BATCH_MAX, now_ns));
        for (int i = 0; i < WEIR_BATCH_MAX; i++) {
            assert_int_equal(requests[i].status, WEIR_OK);
            assert_int_equal(requests[i].decision.limit, 1 + round * WEIR_BATCH_MAX + i);
            assert_int_equal(requests[i].policy->layer[0].limit, requests[i].decision.limit);
        }
    }
}

/* Keys keep their state unless the policy text changed. */
static void check_changes_of_rules(void **unused)
{
    (void)unused;
    weir_rule_spec specs[] = {spec_of("a", "gcra 1/s burst 3"), spec_of("b", "gcra 1/s burst 3")};
    set_rules(specs, 2);
    take("a", "k", 3);
    take("b", "k", 3);
    specs[0].limit = "gcra 60/m burst 03"; /* the same policy in another spelling */
    specs[1].limit = "gcra 1/s   burst 3";
    set_rules(specs, 2);
    assert_true(take("a", "k", 1).decision.allowed);
    assert_false(take("b", "k", 1).decision.allowed);
    weir_rule_error e;
    assert_int_equal(weir_limiter_set_limit(limiter, "c", "gcra 1/s", &e), WEIR_OK);
    assert_true(take("c", "k", 1).decision.allowed);
    assert_int_equal(weir_limiter_set_limit(limiter, "c", "gcra", &e), WEIR_E_SYNTAX);
    assert_false(take("c", "k", 1).decision.allowed); /* its state is kept */
    assert_int_equal(weir_limiter_drop_rule(limiter, "c", 1), WEIR_OK);
    assert_int_equal(weir_limiter_drop_rule(limiter, "c", 1), WEIR_E_ABSENT);
    assert_int_equal(take("c", "k", 1).status, WEIR_E_ABSENT);
    assert_false(take("b", "k", 1).decision.allowed);
    assert_int_equal(weir_limiter_set_limit(limiter, "c", "gcra 1/s", &e), WEIR_OK);
    assert_false(take("c", "k", 1).decision.allowed); /* the rule returns with its states */
}

static void check_counts(void **unused)
{
    (void)unused;
    static const char *const allow[] = {"vip"}, *const deny[] = {"evil"};
    weir_rule_spec specs[] = {spec_of("a", "gcra 1/s burst 2"), spec_of("s", "gcra 1/s")};
    specs[0].allow = allow;
    specs[0].allow_len = 1;
    specs[0].deny = deny;
    specs[0].deny_len = 1;
    specs[1].shadow = true;
    set_rules(specs, 2);
    for (int i = 0; i < 5; i++)
        take("a", "k", 1);
    take("a", "k", 0); /* a peek */
    take("a", "vip", 1);
    take("a", "evil", 1);
    take("a", "", 1);
    assert_int_equal(take("a", "k", -1).status, WEIR_E_RANGE);
    take("s", "k", 1);
    take("s", "k", 1);
    take("none", "k", 1);
    weir_counts a = counts_of("a"), s = counts_of("s");
    assert_int_equal(a.allowed, 2);
    assert_int_equal(a.denied, 3);
    assert_int_equal(a.allow_listed, 1);
    assert_int_equal(a.deny_listed, 1);
    assert_int_equal(a.failed, 2);
    assert_int_equal(s.allowed, 1);
    assert_int_equal(s.shadowed, 1);
    assert_int_equal(counts_of(WEIR_COUNTS_OTHERS).failed, 1);

    weir_request request = {
        .rule = text_of("gcra 1/s"), .by_text = true, .key = text_of("k"), .cost = 1};
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    request.rule = text_of("gcra");
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    request.rule = text_of("gcra 1/s");
    request.cost = -1;
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    assert_int_equal(request.status, WEIR_E_RANGE);
    request.cost = INT64_C(1) + WEIR_COST_MAX;
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    assert_int_equal(request.status, WEIR_E_RANGE);
    request.cost = 1;
    request.key = text_of("");
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    assert_int_equal(request.status, WEIR_E_RANGE);
    assert_int_equal(counts_of(WEIR_COUNTS_TEXTS).allowed, 1);
    assert_int_equal(counts_of(WEIR_COUNTS_TEXTS).failed, 4);

    weir_throttle t = {.max_burst = 0, .count = 1, .period_s = 60, .quantity = 1};
    weir_throttle_result answer;
    for (int i = 0; i < 2; i++)
        assert_true(weir_service_throttle(service, NULL, &t, text_of("k"), now_ns, &answer));
    assert_int_equal(counts_of(WEIR_COUNTS_THROTTLE).allowed, 1);
    assert_int_equal(counts_of(WEIR_COUNTS_THROTTLE).denied, 1);
    /* The states are found again in a store that was kept in a file. */
    assert_true(limiter->throttle_id ==
                (weir_store_policy_id(store, &limiter->throttle_policy) ^ ~WEIR_POLICY_CLASS));

    /* Counts outlive their service and their rule. */
    weir_latency before = weir_limiter_latency(limiter);
    assert_int_equal(before.count[0], 0);
    weir_service_latency(service, 128);
    uint64_t decided = weir_limiter_latency(limiter).count[0];
    assert_true(decided > 10);
    assert_int_equal(weir_limiter_latency(limiter).sum_ns, 128 * decided);
    weir_service_latency(service, 128); /* nothing to record twice */
    take("s", "k", 1);
    weir_service_latency(service, -1); /* the clock went back: no time */
    assert_int_equal(weir_limiter_latency(limiter).sum_ns, 128 * decided++);
    static const int64_t elapsed_ns[] = {129, INT64_MAX, -5};
    for (int i = 0; i < 3; i++) {
        take("s", "k", 1);
        weir_service_latency(service, elapsed_ns[i]);
    }
    uint64_t sum_ns = weir_limiter_latency(limiter).sum_ns;
    weir_service_close(service);
    assert_int_equal(weir_service_open(&service, limiter), WEIR_OK);
    set_rules(specs + 1, 1);
    take("s", "k", 1);
    assert_int_equal(counts_of("a").denied, 3);
    assert_int_equal(counts_of("s").shadowed, 6);
    weir_latency l = weir_limiter_latency(limiter);
    assert_int_equal(l.count[0], decided + 1);
    assert_int_equal(l.sum_ns, sum_ns);
    assert_int_equal(l.count[1], 1);
    assert_int_equal(l.count[WEIR_LATENCY_BUCKETS - 1], 1);
}

static void check_words(void **unused)
{
    (void)unused;
    assert_string_equal(weir_reason_word(WEIR_BY_LIMIT), "limit");
    assert_string_equal(weir_reason_word(WEIR_BY_SHADOW), "shadow");
    assert_string_equal(weir_reason_word(WEIR_BY_ALLOW_LIST), "allow-list");
    assert_string_equal(weir_reason_word(WEIR_BY_DENY_LIST), "deny-list");
    assert_string_equal(weir_reason_word(WEIR_BY_ON_ERROR), "on-error");
}

static const weir_zone *find_none(void *ctx, const char *name, size_t len)
{
    assert_int_equal(len, 4);
    assert_memory_equal(name, "Mars", 4);
    ++*(int *)ctx;
    return NULL;
}

/* A client must not be able to ask for suggestions, which take milliseconds. */
static void suggest_none(void *ctx, const char *name, size_t len, char *ret, size_t size)
{
    (void)ctx, (void)name, (void)len, (void)ret, (void)size;
    fail();
}

/* Time zones are found by the functions that the limiter was opened with. */
static void check_zones(void **unused)
{
    (void)unused;
    static const char text[] = "fixed-window 3/day tz Mars";
    weir_request request = {.rule = text_of(text), .by_text = true, .key = text_of("k")};
    assert_true(weir_service_take(service, NULL, &request, 1, now_ns));
    assert_int_equal(request.status, WEIR_E_ZONE);
    assert_int_equal(weir_limiter_set_limit(limiter, "a", text, NULL), WEIR_E_ZONE);
    int calls = 0;
    const weir_zones zones = {.find = find_none, .ctx = &calls, .expected = suggest_none};
    weir_limiter *other;
    weir_service *s;
    assert_int_equal(weir_limiter_open(&other, store, &zones), WEIR_OK);
    assert_int_equal(weir_service_open(&s, other), WEIR_OK);
    assert_true(weir_service_take(s, NULL, &request, 1, now_ns));
    assert_int_equal(calls, 1);
    assert_int_equal(weir_limiter_set_limit(other, "a", text, NULL), WEIR_E_ZONE);
    assert_int_equal(calls, 2);
    weir_service_close(s);
    weir_limiter_close(other);
}

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct names_seen {
    size_t rules, others;
    uint64_t allowed_of_rules;
} names_seen;

/* The names of rules come first, and the last three are fixed. */
static void see_name(void *ctx, const char *name, const weir_counts *counts)
{
    static const char *const last[] = {WEIR_COUNTS_OTHERS, WEIR_COUNTS_THROTTLE, WEIR_COUNTS_TEXTS};
    names_seen *n = ctx;
    if (n->rules == NAMES_MAX - NAMES_FIRST) {
        assert_in_range(n->others, 0, 2);
        assert_string_equal(name, last[n->others++]);
        return;
    }
    assert_int_equal(name[0], 'r');
    assert_int_equal(counts->allowed, 1);
    n->rules++;
}

/* After NAMES_MAX names, further rules share their counters. */
static void check_many_names(void **unused)
{
    (void)unused;
    enum { SETS = 9, N = 2000 };
    static char names[N][16];
    static weir_rule_spec specs[N];
    for (int set = 0; set < SETS; set++) {
        for (int i = 0; i < N; i++) {
            snprintf(names[i], sizeof names[i], "r%d", set * N + i);
            specs[i] = spec_of(names[i], "gcra 1/h");
        }
        set_rules(specs, N);
        for (int i = 0; i < N; i++)
            assert_int_equal(take(names[i], "k", 1).status, WEIR_OK);
    }
    names_seen seen = {0};
    weir_limiter_counts(limiter, see_name, &seen);
    assert_int_equal(seen.rules, NAMES_MAX - NAMES_FIRST);
    assert_int_equal(seen.others, 3);
    assert_int_equal(counts_of(WEIR_COUNTS_OTHERS).allowed, SETS * N - seen.rules);
    assert_int_equal(counts_of(WEIR_COUNTS_TEXTS).allowed, 0);
}

typedef struct change {
    int calls;
    char name[WEIR_RULE_NAME_MAX + 1], limit[32];
} change;

static void on_change(void *ctx, const weir_rule_change *change_)
{
    change *c = ctx;
    c->calls++;
    snprintf(c->name, sizeof c->name, "%s", change_->name);
    snprintf(c->limit, sizeof c->limit, "%s", change_->text ? change_->text : "dropped");
    assert_int_equal(change_->kind, change_->text ? WEIR_RULE_LIMIT : WEIR_RULE_DROPPED);
}

/* A change is reported once it is made. A full set takes no new rules. */
static void check_reports(void **unused)
{
    (void)unused;
    static char names[WEIR_RULES_MAX][8];
    static weir_rule_spec specs[WEIR_RULES_MAX];
    change c = {0};
    for (int i = 0; i < WEIR_RULES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "r%d", i);
        specs[i] = spec_of(names[i], "gcra 1/h");
    }
    set_rules(specs, WEIR_RULES_MAX);
    weir_limiter_on_change(limiter, on_change, &c);
    assert_int_equal(weir_limiter_set_limit(limiter, "new", "gcra 1/s", NULL), WEIR_E_FULL);
    assert_int_equal(weir_limiter_set_limit(limiter, "r7", "gcra", NULL), WEIR_E_SYNTAX);
    assert_int_equal(weir_limiter_drop_rule(limiter, "new", 3), WEIR_E_ABSENT);
    assert_int_equal(c.calls, 0);
    assert_int_equal(weir_limiter_set_limit(limiter, "r7", "gcra  2/s", NULL), WEIR_OK);
    assert_int_equal(c.calls, 1);
    assert_string_equal(c.name, "r7");
    assert_string_equal(c.limit, "gcra  2/s");
    assert_int_equal(weir_limiter_drop_rule(limiter, "r8 and more", 2), WEIR_OK);
    assert_int_equal(c.calls, 2);
    assert_string_equal(c.name, "r8");
    assert_string_equal(c.limit, "dropped");
    assert_int_equal(weir_limiter_set_limit(limiter, "new", "gcra 1/s", NULL), WEIR_OK);
    assert_int_equal(c.calls, 3);
    assert_int_equal(weir_limiter_drop_rule(limiter, "new", 3), WEIR_OK);
    char longest[WEIR_RULE_NAME_MAX + 1];
    memset(longest, 'n', WEIR_RULE_NAME_MAX);
    longest[WEIR_RULE_NAME_MAX] = '\0';
    assert_int_equal(weir_limiter_set_limit(limiter, longest, "gcra 1/s", NULL), WEIR_OK);
    assert_int_equal(weir_limiter_drop_rule(limiter, longest, WEIR_RULE_NAME_MAX), WEIR_OK);
    assert_string_equal(c.name, longest);
}

typedef struct views {
    int n, stop;
    weir_rule_view last;
} views;

static bool see_rule(void *ctx, const weir_rule_view *rule)
{
    views *v = ctx;
    v->last = *rule;
    return ++v->n < v->stop;
}

static void check_views(void **unused)
{
    (void)unused;
    static const weir_override_spec overrides[] = {{.pattern = "big", .limit = "gcra 1/s burst 9"}};
    static const char *const allow[] = {"vip", "root"}, *const deny[] = {"evil", "bad", "worse"};
    weir_rule_spec specs[] = {spec_of("a", "gcra 1/s"), spec_of("b", "gcra  2/s burst 7"),
                              spec_of("c", "gcra 3/s")};
    specs[1].overrides = overrides;
    specs[1].overrides_len = 1;
    specs[1].allow = allow;
    specs[1].allow_len = 2;
    specs[1].deny = deny;
    specs[1].deny_len = 3;
    specs[1].shadow = true;
    specs[1].engine = WEIR_ENGINE_HYBRID;
    specs[1].on_error = WEIR_ON_ERROR_CLOSED;
    set_rules(specs, 3);
    views v = {.stop = 2};
    weir_service_rules(service, see_rule, &v);
    assert_int_equal(v.n, 2);
    assert_string_equal(v.last.name, "b");
    assert_string_equal(v.last.limit, "gcra  2/s burst 7");
    assert_int_equal(v.last.policy->layer[0].limit, 7);
    assert_int_equal(v.last.overrides, 1);
    assert_int_equal(v.last.allow, 2);
    assert_int_equal(v.last.deny, 3);
    assert_true(v.last.shadow);
    assert_int_equal(v.last.engine, WEIR_ENGINE_HYBRID);
    assert_int_equal(v.last.on_error, WEIR_ON_ERROR_CLOSED);
    v = (views){.stop = 9};
    weir_service_rules(service, see_rule, &v);
    assert_int_equal(v.n, 3);
    assert_string_equal(v.last.name, "c");
    assert_false(v.last.shadow);
}

/* ---- explain --------------------------------------------------------------------------------- */

static bool explains(weir_buffer *out, const char *want)
{
    weir_buffer_append_byte(out, 0);
    bool same = strcmp((const char *)weir_buffer_data(out), want) == 0;
    if (!same)
        print_error("%s", (const char *)weir_buffer_data(out));
    weir_buffer_clear(out);
    return same;
}

static void check_explain(void **unused)
{
    (void)unused;
    static const weir_override_spec overrides[] = {
        {.pattern = "trial-*", .limit = "gcra 1/s burst 1"}};
    static const char *const deny[] = {"evil"};
    weir_rule_spec specs[] = {spec_of("api", "token-bucket 500 refill 100/s & sliding-log 3/1d"),
                              spec_of("look", "gcra 1/s")};
    specs[0].overrides = overrides;
    specs[0].overrides_len = 1;
    specs[0].deny = deny;
    specs[0].deny_len = 1;
    specs[1].shadow = true;
    set_rules(specs, 2);
    weir_buffer out;
    weir_buffer_init(&out, 1 << 16);
    weir_request request = {.rule = text_of("api"), .key = text_of("alice")};
    assert_true(weir_service_explain(service, NULL, &request, now_ns, &out));
    assert_true(explains(&out, "policy   api\n"
                               "key      alice\n"
                               "limit    token-bucket 500 refill 100/s & sliding-log 3/d\n"
                               "state    3 of 3 free under sliding-log 3/d; full\n"
                               "next     now\n"));
    take("api", "alice", 3);
    assert_true(weir_service_explain(service, NULL, &request, now_ns + 1, &out));
    assert_true(explains(&out, "policy   api\n"
                               "key      alice\n"
                               "limit    token-bucket 500 refill 100/s & sliding-log 3/d\n"
                               "state    0 of 3 free under sliding-log 3/d; full again in 1 d\n"
                               "next     in 1 d, at 2026-01-02 00:00:00.000 UTC\n"));
    request.key = text_of("trial-\n");
    take("api", "trial-\n", 1);
    assert_true(weir_service_explain(service, NULL, &request, now_ns + 1500000, &out));
    assert_true(explains(&out, "policy   api\n"
                               "key      trial-\\x0a\n"
                               "limit    gcra 1/s burst 1\n"
                               "         because of the override trial-*\n"
                               "state    0 of 1 free; full again in 0.9985 s\n"
                               "next     in 0.9985 s, at 2026-01-01 00:00:01.000 UTC\n"));
    request.key = text_of("evil");
    assert_true(weir_service_explain(service, NULL, &request, now_ns, &out));
    assert_true(explains(&out, "policy   api\n"
                               "key      evil\n"
                               "limit    token-bucket 500 refill 100/s & sliding-log 3/d\n"
                               "list     on the deny list: always denied\n"));
    take("look", "k", 1);
    request = (weir_request){.rule = text_of("look"), .key = text_of("k")};
    assert_true(weir_service_explain(service, NULL, &request, now_ns, &out));
    assert_true(explains(&out,
                         "policy   look, in shadow mode: it denies no requests\n"
                         "key      k\n"
                         "limit    gcra 1/s burst 1\n"
                         "state    0 of 1 free; full again in 1 s\n"
                         "next     now, because the policy is in shadow mode; its limit would "
                         "deny the request\n"));
    request.rule = text_of("none");
    assert_true(weir_service_explain(service, NULL, &request, now_ns, &out));
    assert_int_equal(request.status, WEIR_E_ABSENT);
    assert_int_equal(weir_buffer_len(&out), 0);
    weir_buffer_free(&out);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, TAKES = 20000, BURST = 1000 };

typedef struct taker {
    uint64_t allowed, failures;
} taker;

static void *take_many(void *ctx)
{
    taker *t = ctx;
    weir_service *own;
    if (weir_service_open(&own, limiter) != WEIR_OK) {
        t->failures++;
        return NULL;
    }
    for (int i = 0; i < TAKES; i += 4) {
        weir_request requests[4];
        for (int k = 0; k < 4; k++)
            requests[k] = (weir_request){.rule = text_of("hot"), .key = text_of("k"), .cost = 1};
        t->failures += !weir_service_take(own, NULL, requests, 4, now_ns);
        for (int k = 0; k < 4; k++) {
            t->failures += requests[k].status != WEIR_OK;
            t->allowed += requests[k].status == WEIR_OK && requests[k].decision.allowed;
        }
    }
    weir_service_close(own);
    return NULL;
}

/* Rules are replaced while threads take: no request is allowed twice, and no state is lost. */
static void check_threads(void **unused)
{
    (void)unused;
    char limit[64];
    snprintf(limit, sizeof limit, "gcra 1/s burst %d", BURST);
    const weir_rule_spec specs[] = {spec_of("hot", limit), spec_of("cold", "gcra 1/s")};
    set_rules(specs, 2);
    pthread_t threads[THREADS];
    taker takers[THREADS] = {{0}};
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, &takers[i]), 0);
    for (int i = 0; i < 200; i++) {
        set_rules(specs, 1 + (size_t)i % 2);
        counts_of("hot");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(takers[i].failures, 0);
        sum += takers[i].allowed;
    }
    assert_int_equal(sum, BURST);
    weir_counts c = counts_of("hot");
    assert_int_equal(c.allowed, BURST);
    assert_int_equal(c.allowed + c.denied, THREADS * TAKES);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_rules),
        TEST(check_bad_time),
        TEST(check_peek_refund_reset),
        TEST(check_addresses),
        TEST(check_key),
        TEST(check_batch),
        TEST(check_many_inline_policies),
        TEST(check_changes_of_rules),
        TEST(check_counts),
        cmocka_unit_test(check_words),
        TEST(check_zones),
        TEST(check_views),
        TEST(check_many_names),
        TEST(check_reports),
        TEST(check_explain),
        TEST(check_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
