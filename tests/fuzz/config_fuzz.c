/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: the configuration reader. The values of a valid configuration are within their
 * ranges. An invalid configuration has at least one error. Errors and warnings are reported in the
 * order of the file, at positions that exist. */

#include "fuzz.h"

#include "cmd/config/config.h"
#include "cmd/kit/commands.h"
#include "service/rules/rule.h"

typedef struct reported {
    size_t errors, line, column;
    FILE *out;
} reported;

static void count(void *ctx, const config_problem *p)
{
    reported *t = ctx;
    t->errors += !p->warning;
    CHECK(strlen(p->text) > 0);
    CHECK(p->line == 0 || p->line > t->line || (p->line == t->line && p->column >= t->column));
    CHECK(p->line == 0 || (p->column >= 1 && p->source_at <= p->source_len));
    t->line = p->line;
    t->column = p->column;
    config_problem_print(t->out, p);
}

static void require_bounds(const weir_config *c)
{
    CHECK(c->listens_len >= 1 && c->listens_len <= CONFIG_LISTENS_MAX);
    for (size_t i = 0; i < c->listens_len; i++)
        CHECK(!c->listens[i].is_public || c->insecure || c->password);
    CHECK(c->threads <= 256 && c->connections >= 1 && c->connections <= 1000000);
    CHECK(c->memory_large_bytes < c->memory_bytes && c->buffers_bytes >= 1 << 20);
    CHECK(c->idle_ns >= 0 && c->request_ns >= 0 && c->write_ns >= 0 && c->drain_ns >= 0);
    CHECK(c->http_key.hops <= CONFIG_HOPS_MAX && c->rules_len <= WEIR_RULES_MAX);
    weir_redis_error wrong;
    CHECK(!c->has_redis || weir_redis_options_check(&c->redis, &wrong) == WEIR_OK);
    CHECK(c->has_redis || c->engine == WEIR_ENGINE_LOCAL);
    CHECK(c->hybrid.interval_ns >= 1000000 && c->hybrid.count >= 1);
    for (size_t i = 0; i < c->rules_len; i++)
        CHECK(c->has_redis || c->rules[i].engine == WEIR_ENGINE_LOCAL);
    weir_rules *rules;
    CHECK(weir_rules_build(&rules, NULL, NULL, c->rules, c->rules_len) == WEIR_OK);
    CHECK(weir_rules_set_routes(rules, c->routes, c->routes_len, c->encoded_slash) == WEIR_OK);
    weir_rules_drop(rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    weir_use_guests();
    reported t = {.out = fopen("/dev/null", "w")};
    CHECK(t.out != NULL);
    const config_sink sink = {count, &t};
    weir_config *c = NULL;
    char *copy = exact_copy(bytes, len);
    weir_status st = config_parse(copy, len, "fuzz.yaml", false, NULL, &sink, &c);
    CHECK(st == WEIR_OK || st == WEIR_E_SYNTAX);
    CHECK((t.errors == 0) == (st == WEIR_OK));
    if (st == WEIR_OK)
        require_bounds(c);
    config_free(c);
    free(copy);
    fclose(t.out);
    return 0;
}
