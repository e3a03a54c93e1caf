/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The cost of the top keys. Prints the CPU time of a decision in ns: without top keys, with samples
 * as the daemon takes them, and with a count of each request. The three alternate in short rounds
 * on one store. The figures are means: about once a second of the simulated
 * clock the sampler adjusts its intervals, so its cost differs between rounds. */

#include "keys.h"
#include "kit.h"

#include "port/port.h"
#include "service/service.h"
#include "service/top/space_saving.h"
#include "service/top/top.h"
#include "store/siphash.h"

enum {
    KEYS = 1 << 20,
    LISTED = 100, /* as by default */
    ROUND = 1 << 13,
    ROUNDS = 1000,
    KINDS = 3,
    STEP_NS = 5000, /* between two requests: 200,000 requests a second */
};

static const int64_t start_ns = INT64_C(1767225600000000000);

typedef struct rig {
    weir_store *store;
    weir_limiter *limiter[2]; /* without and with a sampler */
    weir_service *service[2];
    port_mutex *lock; /* of the list: another thread may read it */
    weir_space_saving *list;
    request_key keys[ROUND];
} rig;

static void open_service(rig *r, int i)
{
    static const weir_zones zones;
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    weir_rules *rules;
    spec.name = "api";
    spec.limit = "gcra 100/s burst 20";
    if (weir_limiter_open(&r->limiter[i], r->store, &zones) != WEIR_OK ||
        weir_rules_build(&rules, r->store, &zones, &spec, 1) != WEIR_OK ||
        (i == 1 && weir_limiter_enable_top(r->limiter[i], &(weir_top_options){LISTED, 16 << 20}) !=
                       WEIR_OK) ||
        weir_service_open(&r->service[i], r->limiter[i]) != WEIR_OK)
        die("cannot open a service");
    weir_limiter_set_rules(r->limiter[i], rules);
}

/* Adds a request to the list, as the daemon adds a sample. */
static void count(rig *r, const request_key *key)
{
    static const weir_secret secret = {1, 2};
    uint64_t hash = weir_siphash(secret, key->text, key->len);
    port_mutex_lock(r->lock);
    weir_space_saving_add(r->list, hash, key->text, key->len, 1, 1);
    port_mutex_unlock(r->lock);
}

/* Decides a round of requests for r->keys. Returns the CPU time of a decision in ns. */
static double decide(rig *r, weir_service *s, bool counts, int64_t now_ns)
{
    weir_request batch[KEY_BATCH];
    double began = kit_cpu_seconds();
    for (size_t i = 0; i < ROUND; i += KEY_BATCH, now_ns += KEY_BATCH * STEP_NS) {
        for (size_t k = 0; k < KEY_BATCH; k++)
            batch[k] = (weir_request){
                .rule = {"api", 3}, .key = {r->keys[i + k].text, r->keys[i + k].len}, .cost = 1};
        if (!weir_service_take(s, NULL, batch, KEY_BATCH, now_ns) || batch[0].status != WEIR_OK)
            die("a request failed");
        for (size_t k = 0; k < KEY_BATCH && counts; k++)
            count(r, &r->keys[i + k]);
    }
    return (kit_cpu_seconds() - began) * 1e9 / ROUND;
}

int main(void)
{
    static rig r;
    double ns[KINDS] = {0};
    weir_store_options options = {.memory_bytes = 64 << 20};
    if (weir_store_open(&r.store, &options) != WEIR_OK)
        die("cannot open the store");
    open_service(&r, 0);
    open_service(&r, 1);
    r.lock = port_mutex_new();
    r.list = weir_space_saving_new(LISTED, 0);
    if (!r.lock || !r.list)
        die("out of memory");
    for (uint64_t first = 0; first < KEYS; first += ROUND) {
        keys_write(r.keys, first, ROUND);
        (void)decide(&r, r.service[0], false, start_ns);
    }
    for (uint64_t i = 0; i < ROUNDS * KINDS; i++) {
        uint64_t kind = i % KINDS, round = i / KINDS + 1;
        keys_draw(r.keys, KEYS, ROUND, i);
        ns[kind] += decide(&r, r.service[kind == 1], kind == 2,
                           start_ns + (int64_t)round * ROUND * STEP_NS);
    }
    weir_top top;
    if (weir_limiter_top(r.limiter[1], (weir_slice){"api", 3}, WEIR_TOP_ALLOWED, 1,
                         start_ns + (ROUNDS + 1LL) * ROUND * STEP_NS, &top) != WEIR_OK ||
        top.sampling < 2)
        die("the sampler did not sample");
    weir_top_free(&top);
    for (int kind = 0; kind < KINDS; kind++)
        printf("%.2f\n", ns[kind] / ROUNDS);
    weir_space_saving_free(r.list);
    port_mutex_free(r.lock);
    for (int i = 0; i < 2; i++) {
        weir_service_close(r.service[i]);
        weir_limiter_close(r.limiter[i]);
    }
    weir_store_close(r.store);
    return 0;
}
