/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_KIT_TEST_H
#define WEIR_RLS_KIT_TEST_H
/* The fixture of this directory's tests: a limiter with the rules of a configuration, and a loop.
 * Descriptors are written as text: "key=value|key=value". */

#include "service/kit_test.h"

#include "rls/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define KIT __attribute__((unused)) static

static weir_rls *rls;
static weir_rls_loop *loop;
static weir_rls_wait wait;

KIT void woken(void *ctx)
{
    *(int *)ctx += 1;
}

static int wakes;

KIT int rls_setup(void **state)
{
    if (setup(state) != 0)
        return -1;
    rls = weir_rls_open();
    loop = rls ? weir_rls_loop_open(rls, service) : NULL;
    wakes = 0;
    wait = (weir_rls_wait){.completion = {.ready = woken, .ctx = &wakes}};
    return loop ? 0 : -1;
}

KIT int rls_teardown(void **state)
{
    weir_rls_wait_cancel(&wait);
    weir_rls_loop_close(loop);
    weir_rls_close(rls);
    return teardown(state);
}

/* Begins with an empty store: the next configuration keeps nothing. */
KIT void forget(void)
{
    assert_int_equal(rls_teardown(NULL), 0);
    assert_int_equal(rls_setup(NULL), 0);
}

/* Activates a configuration and its rules. */
KIT void activate(const weir_rls_options *options, const weir_rls_domain_spec *domains, size_t n)
{
    weir_rls_config *c;
    weir_rls_config_error e = {.text = ""};
    weir_status st = weir_rls_config_build(&c, NULL, options, domains, n, &e);
    if (st != WEIR_OK)
        fail_msg("status %d: %s", st, e.text);
    size_t len;
    const weir_rule_spec *rules = weir_rls_config_rules(c, &len);
    set_rules(rules, len);
    weir_rls_activate(rls, c);
}

/* Activates one domain, "d". */
KIT void activate_one(const weir_rls_options *options, const weir_rls_spec *specs, size_t n)
{
    const weir_rls_domain_spec domain = {"d", false, specs, n};
    activate(options, &domain, 1);
}

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct kit_request {
    weir_rls_request request;
    weir_rls_descriptor descriptor[WEIR_RLS_DESCRIPTORS_MAX];
    weir_rls_entry entry[WEIR_RLS_DESCRIPTORS_MAX * 4];
    size_t entries;
} kit_request;

/* Begins a request. */
KIT kit_request *begin(kit_request *r, const char *domain, uint32_t hits)
{
    *r = (kit_request){.request = {.domain = text_of(domain), .hits_addend = hits}};
    r->request.descriptors = r->descriptor;
    return r;
}

/* Adds a descriptor. */
KIT weir_rls_descriptor *add(kit_request *r, const char *text)
{
    weir_rls_descriptor *d = &r->descriptor[r->request.descriptors_len++];
    *d = (weir_rls_descriptor){.entries = &r->entry[r->entries]};
    while (text) {
        const char *end = strchr(text, '|'), *value = strchr(text, '=');
        size_t len = end ? (size_t)(end - text) : strlen(text);
        size_t key = (size_t)(value - text);
        r->entry[r->entries++] = (weir_rls_entry){{text, key}, {value + 1, len - key - 1}};
        d->entries_len++;
        text = end ? end + 1 : NULL;
    }
    return d;
}

/* Decides one request, which no engine delays. The response is valid until the next call. */
KIT weir_rls_response decide(const kit_request *r, int64_t at_ns)
{
    weir_rls_response response;
    assert_int_equal(weir_rls_decide(loop, &wait, &r->request, 1, &response, at_ns), 1);
    return response;
}

/* Decides a request that must be refused. Returns why it is. */
KIT const char *refusal_of(const kit_request *r)
{
    weir_rls_response response = decide(r, now_ns);
    assert_int_equal(response.failure, WEIR_RLS_REFUSED);
    assert_int_equal(response.statuses_len, 0);
    return response.why;
}

/* Decides one descriptor, with a verb. */
KIT weir_rls_response by_verb(weir_rls_verb verb, const char *descriptor, uint32_t hits)
{
    kit_request r;
    add(begin(&r, "d", hits), descriptor);
    r.request.verb = verb;
    return decide(&r, now_ns);
}

/* Decides one descriptor with a number of hits. */
KIT weir_rls_status ask(const char *domain, const char *descriptor, uint32_t hits, int64_t at_ns)
{
    kit_request r;
    add(begin(&r, domain, hits), descriptor);
    weir_rls_response response = decide(&r, at_ns);
    assert_int_equal(response.failure, WEIR_RLS_ANSWERED);
    assert_int_equal(response.statuses_len, 1);
    return response.statuses[0];
}

/* Expects the code, what remains and the seconds until the reset. */
KIT void expect_status(weir_rls_status s, weir_rls_code code, uint32_t remaining, int64_t reset_s)
{
    assert_int_equal(s.code, code);
    assert_int_equal(s.remaining, remaining);
    assert_int_equal(s.reset_ns, reset_s * s_ns);
}

/* ---- statistics ------------------------------------------------------------------------------ */

typedef struct kit_find {
    const char *name;
    uint64_t value;
    bool seen;
} kit_find;

KIT void find_stat(void *ctx, const weir_rls_stat *stat)
{
    kit_find *f = ctx;
    assert_ptr_equal(stat->what.at + stat->what.len, stat->name + strlen(stat->name));
    if (strcmp(stat->name, f->name) == 0) {
        assert_false(f->seen);
        f->seen = true;
        f->value = stat->value;
    }
}

/* The value of a statistic below "ratelimit.service."; UINT64_MAX if there is none. */
KIT uint64_t stat(const char *name)
{
    char full[2048];
    snprintf(full, sizeof full, "ratelimit.service.%s", name);
    kit_find f = {.name = full};
    weir_rls_each_stat(rls, find_stat, &f);
    return f.seen ? f.value : UINT64_MAX;
}

#endif
