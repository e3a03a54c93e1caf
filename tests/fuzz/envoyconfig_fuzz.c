/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: a file with limits for Envoy. The rules of a valid file can be built. An
 * invalid file has at least one error, at a position that exists. */

#include "fuzz.h"

#include "rls/daemon/guest.h"
#include "service/rules/rule.h"

typedef struct reported {
    size_t errors;
    FILE *out;
} reported;

static void count(void *ctx, const config_problem *p)
{
    reported *t = ctx;
    t->errors += !p->warning;
    CHECK(strlen(p->text) > 0);
    CHECK(p->line == 0 || (p->column >= 1 && p->source_at <= p->source_len));
    config_problem_print(t->out, p);
}

static void require_rules(weir_rls_config *c)
{
    size_t n;
    const weir_rule_spec *specs = weir_rls_config_rules(c, &n);
    CHECK(n <= WEIR_RLS_LIMITS_MAX);
    weir_rules *rules;
    CHECK(weir_rules_build(&rules, NULL, NULL, specs, n) == WEIR_OK);
    weir_rules_drop(rules);
    weir_buffer text;
    weir_buffer_init(&text, 1 << 24);
    weir_rls_config_print(c, &text);
    weir_buffer_free(&text);
    weir_rls_config_drop(c);
}

/* Builds a configuration of the only domain. An error is about something that was read. */
static void build(const weir_rls_domain_spec *domain, const envoy_origin *origins)
{
    const weir_rls_options options = {.near_limit_ratio = 0.8};
    weir_rls_config *c = NULL;
    weir_rls_config_error error = {0};
    weir_status st = weir_rls_config_build(&c, NULL, &options, domain, 1, &error);
    CHECK(st != WEIR_E_NOMEM);
    if (st == WEIR_OK) {
        require_rules(c);
        return;
    }
    const envoy_origin *o = origins;
    while (o && (error.descriptor ? o->descriptor != error.descriptor : o->domain != domain))
        o = o->next;
    CHECK(o != NULL);
    envoy_report_descriptor(o, error.column, error.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    reported t = {.out = fopen("/dev/null", "w")};
    CHECK(t.out != NULL);
    const config_sink sink = {count, &t};
    char *copy = exact_copy(bytes, len);
    weir_arena arena = {0};
    config_errors *errors = weir_arena_alloc(&arena, 1, sizeof *errors);
    CHECK(errors != NULL);
    *errors = (config_errors){.arena = &arena, .file = "fuzz.yaml", .text = copy, .len = len};
    envoy_origin *origins = NULL;
    weir_rls_domain_spec domain;
    envoy_read_descriptors(&arena, errors, &origins, &domain);
    CHECK(!arena.failed);
    if (config_errors_in(errors) == 0)
        build(&domain, origins);
    config_errors_report(errors, &sink);
    CHECK((t.errors == 0) == (config_errors_in(errors) == 0));
    weir_arena_free(&arena);
    free(copy);
    fclose(t.out);
    return 0;
}
