/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: the configuration reader. The values of a valid configuration are within their
 * ranges. An invalid configuration has at least one error. Errors and warnings are reported in the
 * order of the file, at positions that exist. */

#include "cmd/config/config.h"
#include "service/rules/rule.h"

#include <stdlib.h>
#include <string.h>

typedef struct reported {
    size_t errors, line, column;
    FILE *out;
} reported;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void count(void *ctx, const config_problem *p)
{
    reported *t = ctx;
    t->errors += !p->warning;
    require(strlen(p->text) > 0);
    require(p->line == 0 || p->line > t->line || (p->line == t->line && p->column >= t->column));
    require(p->line == 0 || (p->column >= 1 && p->source_at <= p->source_len));
    t->line = p->line;
    t->column = p->column;
    config_problem_print(t->out, p);
}

static void require_bounds(const weir_config *c)
{
    require(c->listens_len >= 1 && c->listens_len <= CONFIG_LISTENS_MAX);
    for (size_t i = 0; i < c->listens_len; i++)
        require(!c->listens[i].is_public || c->insecure || c->password);
    require(c->threads <= 256 && c->connections >= 1 && c->connections <= 1000000);
    require(c->memory_large_bytes < c->memory_bytes && c->buffers_bytes >= 1 << 20);
    require(c->idle_ns >= 0 && c->request_ns >= 0 && c->write_ns >= 0 && c->drain_ns >= 0);
    require(c->http_key.hops <= CONFIG_HOPS_MAX && c->rules_len <= WEIR_RULES_MAX);
    weir_redis_error wrong;
    require(!c->has_redis || weir_redis_options_check(&c->redis, &wrong) == WEIR_OK);
    require(c->has_redis || c->engine == WEIR_ENGINE_LOCAL);
    require(c->hybrid.interval_ns >= 1000000 && c->hybrid.count >= 1);
    for (size_t i = 0; i < c->rules_len; i++)
        require(c->has_redis || c->rules[i].engine == WEIR_ENGINE_LOCAL);
    weir_rules *rules;
    require(weir_rules_build(&rules, NULL, NULL, c->rules, c->rules_len) == WEIR_OK);
    weir_rules_drop(rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    reported t = {.out = fopen("/dev/null", "w")};
    require(t.out != NULL);
    const config_sink sink = {count, &t};
    weir_config *c = NULL;
    char *copy = malloc(len + (len == 0)); /* so that a byte too far is noticed */
    require(copy != NULL);
    if (len > 0)
        memcpy(copy, bytes, len);
    weir_status st = config_parse(copy, len, "fuzz.yaml", false, NULL, &sink, &c);
    require(st == WEIR_OK || st == WEIR_E_SYNTAX);
    require((t.errors == 0) == (st == WEIR_OK));
    if (st == WEIR_OK)
        require_bounds(c);
    config_free(c);
    free(copy);
    fclose(t.out);
    return 0;
}
