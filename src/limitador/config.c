/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Builds a configuration of limitador's limits: copies and parses the limits, drops duplicates, and
 * names the rules. */

#include "limitador/internal.h"
#include "port/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct builder {
    weir_limitador_config *config;
    void (*report)(void *ctx, const weir_limitador_problem *problem);
    void *ctx;
    weir_status status;
} builder;

/* ---- problems -------------------------------------------------------------------------------- */

/* Reports a problem, whose text is formatted.
 *  at  all but `text`. */
__attribute__((format(printf, 3, 4))) static void report(builder *b, weir_limitador_problem at,
                                                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(at.text, sizeof at.text, format, args);
    va_end(args);
    if (!at.warning && b->status == WEIR_OK)
        b->status = WEIR_E_SYNTAX;
    if (b->report)
        b->report(b->ctx, &at);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static size_t size_of_all(const char *const *texts, size_t n)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += size_of(texts[i]);
    return size;
}

static const char *copy(char **at, const char *text)
{
    size_t n = size_of(text);
    char *begin = *at;
    if (!text)
        return NULL;
    memcpy(begin, text, n);
    *at += n;
    return begin;
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* An array that may have no elements. Returns NULL if memory is exhausted. */
static void *new_array(size_t n, size_t size)
{
    return port_zalloc(n + 1, size);
}

/* Copies expressions, sorted and without duplicates. Returns NULL if memory is exhausted.
 *  ret_len  their number. */
static const char **copy_expressions(char **at, const char *const *texts, size_t n, size_t *ret_len)
{
    const char **ret = new_array(n, sizeof *ret);
    size_t len = 0;
    if (!ret)
        return NULL;
    for (size_t i = 0; i < n; i++)
        ret[i] = copy(at, texts[i]);
    qsort(ret, n, sizeof *ret, by_text);
    for (size_t i = 0; i < n; i++) {
        if (len == 0 || strcmp(ret[len - 1], ret[i]) != 0)
            ret[len++] = ret[i];
    }
    *ret_len = len;
    return ret;
}

static void free_expressions(weir_cel **cels, size_t n)
{
    for (size_t i = 0; cels && i < n; i++)
        weir_cel_free(cels[i]);
    port_free(cels);
}

static void free_limit(limitador_limit *l)
{
    free_expressions(l->conditions, l->view.limit.conditions_len);
    free_expressions(l->variables, l->view.limit.variables_len);
    port_free((void *)l->view.limit.conditions);
    port_free((void *)l->view.limit.variables);
    port_free(l->text);
    port_free(l);
}

static uint64_t hash_texts(uint64_t hash, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = limitador_hash(hash, texts[i], strlen(texts[i]) + 1);
    return limitador_hash(hash, "", 1);
}

static uint64_t hash_of(const weir_limitador_limit *l)
{
    uint64_t hash = limitador_hash(LIMITADOR_HASH_SEED, &l->seconds, sizeof l->seconds);
    hash = limitador_hash(hash, l->name_space, strlen(l->name_space) + 1);
    hash = hash_texts(hash, l->conditions, l->conditions_len);
    return hash_texts(hash, l->variables, l->variables_len);
}

/* Copies the texts of a limit. Returns NULL if memory is exhausted. */
static limitador_limit *copy_limit(const weir_limitador_limit *from)
{
    limitador_limit *l = port_zalloc(1, sizeof *l);
    if (!l)
        return NULL;
    weir_limitador_limit *to = &l->view.limit;
    l->text = port_zalloc(size_of(from->id) + size_of(from->name_space) + size_of(from->name) +
                              size_of_all(from->conditions, from->conditions_len) +
                              size_of_all(from->variables, from->variables_len),
                          1);
    char *at = l->text;
    if (!at)
        goto fail;
    to->max_value = from->max_value;
    to->seconds = from->seconds;
    to->id = copy(&at, from->id);
    to->name_space = copy(&at, from->name_space);
    to->name = copy(&at, from->name);
    to->conditions =
        copy_expressions(&at, from->conditions, from->conditions_len, &to->conditions_len);
    to->variables = copy_expressions(&at, from->variables, from->variables_len, &to->variables_len);
    l->conditions = new_array(to->conditions_len, sizeof(weir_cel *));
    l->variables = new_array(to->variables_len, sizeof(weir_cel *));
    if (!to->conditions || !to->variables || !l->conditions || !l->variables)
        goto fail;
    l->hash = hash_of(to);
    return l;
fail:
    free_limit(l);
    return NULL;
}

/* ---- expressions ----------------------------------------------------------------------------- */

/* Parses an expression of limit `at.limit`. Returns NULL if that fails. */
static weir_cel *parse(builder *b, weir_limitador_problem at, const char *text)
{
    weir_cel *c = NULL;
    weir_cel_error error;
    weir_status st = weir_cel_parse(&c, (weir_slice){text, strlen(text)}, &error);
    if (st == WEIR_E_SYNTAX) {
        at.column = error.column;
        report(b, at, "%s", error.text);
    } else if (st != WEIR_OK) {
        b->status = st;
    }
    return c;
}

static size_t index_of(const char *const *texts, const char *text)
{
    size_t i = 0;
    while (strcmp(texts[i], text) != 0)
        i++;
    return i;
}

/* Warns of an expression that is the same for all requests. */
static void check_fixed(builder *b, weir_limitador_problem at, const weir_cel *c,
                        const weir_limitador_limit *l)
{
    char scratch[WEIR_CEL_TEXT_MAX];
    weir_cel_input input = {.scratch = scratch, .scratch_len = sizeof scratch};
    bool holds = false;
    if (l->name)
        input.limit_name = (weir_slice){l->name, strlen(l->name)};
    if (l->id)
        input.limit_id = (weir_slice){l->id, strlen(l->id)};
    at.warning = true;
    if (at.part == WEIR_LIMITADOR_VARIABLE)
        report(b, at, "this has no effect, because it has the same value for all requests");
    else if (weir_cel_test(c, &input, &holds) != WEIR_CEL_OK)
        report(b, at, "each request gets an error, because this is neither true nor false");
    else if (holds)
        report(b, at, "this has no effect, because it is always true");
    else
        report(b, at, "the limit never applies, because this is always false");
}

/* Warns of expressions that a list has before. */
static void check_repeated(builder *b, weir_limitador_problem at, const char *const *texts,
                           size_t n)
{
    at.warning = true;
    for (at.index = 0; at.index < n; at.index++) {
        if (index_of(texts, texts[at.index]) < at.index)
            report(b, at, "this has no effect, because the list has it before");
    }
}

/* Parses the expressions of a limit.
 *  from  as they were given: problems name their indices there. */
static void parse_all(builder *b, limitador_limit *l, size_t limit, weir_limitador_part part,
                      const char *const *from)
{
    bool of_condition = part == WEIR_LIMITADOR_CONDITION;
    const weir_limitador_limit *to = &l->view.limit;
    const char *const *texts = of_condition ? to->conditions : to->variables;
    size_t n = of_condition ? to->conditions_len : to->variables_len;
    for (size_t i = 0; i < n; i++) {
        weir_limitador_problem at = {
            .limit = limit, .part = part, .index = index_of(from, texts[i])};
        weir_cel *c = parse(b, at, texts[i]);
        (of_condition ? l->conditions : l->variables)[i] = c;
        weir_slice unknown = c ? weir_cel_unknown(c, of_condition) : (weir_slice){NULL, 0};
        if (c && !unknown.at && weir_cel_is_fixed(c))
            check_fixed(b, at, c, to);
        if (!unknown.at)
            continue;
        l->never = true;
        at.warning = true;
        report(b, at,
               "the limit never applies, because requests have no '%.*s'; write "
               "descriptors[0]['%.*s'] for an entry of the first descriptor",
               (int)(unknown.len < 64 ? unknown.len : 64), unknown.at,
               (int)(unknown.len < 64 ? unknown.len : 64), unknown.at);
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */

static bool same_texts(const char *const *a, size_t a_len, const char *const *b, size_t b_len)
{
    if (a_len != b_len)
        return false;
    for (size_t i = 0; i < a_len; i++) {
        if (strcmp(a[i], b[i]) != 0)
            return false;
    }
    return true;
}

static bool same_limit(const limitador_limit *a, const limitador_limit *b)
{
    const weir_limitador_limit *x = &a->view.limit, *y = &b->view.limit;
    return a->hash == b->hash && x->seconds == y->seconds &&
           strcmp(x->name_space, y->name_space) == 0 &&
           same_texts(x->conditions, x->conditions_len, y->conditions, y->conditions_len) &&
           same_texts(x->variables, x->variables_len, y->variables, y->variables_len);
}

static bool is_duplicate(const weir_limitador_config *c, const limitador_limit *l)
{
    for (size_t i = 0; i < c->limits_len; i++) {
        if (same_limit(c->limits[i], l))
            return true;
    }
    return false;
}

/* Adds limit `i`. */
static void add_limit(builder *b, const weir_limitador_limit *from, size_t i)
{
    weir_limitador_config *c = b->config;
    limitador_limit *l = copy_limit(from);
    if (!l) {
        b->status = WEIR_E_NOMEM;
        return;
    }
    if (is_duplicate(c, l)) {
        report(b, (weir_limitador_problem){.limit = i, .warning = true},
               "the limit is ignored: an earlier limit has the same namespace, seconds, conditions "
               "and variables");
        free_limit(l);
        return;
    }
    c->limits[c->limits_len++] = l;
    parse_all(b, l, i, WEIR_LIMITADOR_CONDITION, from->conditions);
    parse_all(b, l, i, WEIR_LIMITADOR_VARIABLE, from->variables);
    check_repeated(b, (weir_limitador_problem){.limit = i, .part = WEIR_LIMITADOR_CONDITION},
                   from->conditions, from->conditions_len);
    check_repeated(b, (weir_limitador_problem){.limit = i, .part = WEIR_LIMITADOR_VARIABLE},
                   from->variables, from->variables_len);
    if (from->seconds == 0 && from->max_value > 0)
        report(
            b,
            (weir_limitador_problem){.limit = i, .part = WEIR_LIMITADOR_SECONDS, .warning = true},
            "with 0 seconds nothing is counted: the limit denies only single requests above "
            "max_value");
    if (from->seconds > WEIR_LIMITADOR_SECONDS_MAX)
        report(b, (weir_limitador_problem){.limit = i, .part = WEIR_LIMITADOR_SECONDS},
               "expected at most %d, found %" PRIu64, WEIR_LIMITADOR_SECONDS_MAX, from->seconds);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool is_taken(const weir_limitador_config *c, size_t n, const limitador_limit *l)
{
    for (size_t i = 0; i < n; i++) {
        const limitador_limit *other = c->limits[i];
        if (other->view.rule && other->rule_hash == l->rule_hash &&
            strcmp(other->rule, l->rule) == 0)
            return true;
    }
    return false;
}

/* Makes a valid name from a text, ending in the hash of the limit. */
static void replace_name(limitador_limit *l, const char *text)
{
    size_t n = 0;
    for (; n < WEIR_RULE_NAME_MAX - 9 && text[n]; n++)
        l->rule[n] = weir_rule_name_check(&text[n], 1, NULL) == WEIR_OK ? text[n] : '_';
    snprintf(l->rule + n, sizeof l->rule - n, "-%08" PRIx32, (uint32_t)l->hash);
}

/* Names the rule of limit `i`, if it has one. Names of earlier limits are known. */
static void name_rule(const weir_limitador_config *c, size_t i)
{
    char text[2 * WEIR_RULE_NAME_MAX], hash[16];
    limitador_limit *l = c->limits[i];
    const weir_limitador_limit *of = &l->view.limit;
    snprintf(hash, sizeof hash, "%08" PRIx32, (uint32_t)l->hash);
    int n = snprintf(text, sizeof text, "%s:%s", of->name_space,
                     of->name ? of->name
                     : of->id ? of->id
                              : hash);
    bool fits = n <= WEIR_RULE_NAME_MAX;
    if (fits && weir_rule_name_check(text, (size_t)n, NULL) == WEIR_OK)
        memcpy(l->rule, text, (size_t)n + 1);
    else
        replace_name(l, text);
    l->rule_hash = limitador_hash(LIMITADOR_HASH_SEED, l->rule, strlen(l->rule));
    if (is_taken(c, i, l)) {
        replace_name(l, text);
        l->rule_hash = limitador_hash(LIMITADOR_HASH_SEED, l->rule, strlen(l->rule));
    }
}

/* Makes the rule of limit `i`. A limit with a 0 needs no state. */
static void add_rule(weir_limitador_config *c, size_t i)
{
    limitador_limit *l = c->limits[i];
    uint64_t max = l->view.limit.max_value, seconds = l->view.limit.seconds;
    if (max == 0 || seconds == 0)
        return;
    name_rule(c, i);
    l->view.rule = l->rule;
    snprintf(l->policy, sizeof l->policy, "fixed-window %" PRIu64 "/%" PRIu64 "s from-first",
             max < WEIR_LIMIT_MAX ? max : WEIR_LIMIT_MAX, seconds);
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    spec.name = l->rule;
    spec.limit = l->policy;
    spec.plain_keys = true;
    spec.engine = c->options.engine;
    spec.on_error = c->options.on_error;
    c->rules[c->rules_len++] = spec;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The order of namespaces, as limitador_find() searches them. */
static int compare_names(weir_slice a, weir_slice b)
{
    int order = memcmp(a.at, b.at, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static weir_slice namespace_of(const limitador_limit *l)
{
    return (weir_slice){l->view.limit.name_space, strlen(l->view.limit.name_space)};
}

/* Sorts by namespace. The sort is stable, since the pointers are compared with an index. */
typedef struct ordered {
    limitador_limit *limit;
    size_t index;
} ordered;

static int by_namespace(const void *a, const void *b)
{
    const ordered *x = a, *y = b;
    int order = compare_names(namespace_of(x->limit), namespace_of(y->limit));
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static weir_status sort_limits(weir_limitador_config *c)
{
    ordered *list = new_array(c->limits_len, sizeof *list);
    if (!list)
        return WEIR_E_NOMEM;
    for (size_t i = 0; i < c->limits_len; i++)
        list[i] = (ordered){c->limits[i], i};
    qsort(list, c->limits_len, sizeof *list, by_namespace);
    for (size_t i = 0; i < c->limits_len; i++)
        c->limits[i] = list[i].limit;
    port_free(list);
    return WEIR_OK;
}

/* Accepts half-built configurations. */
static void free_config(weir_limitador_config *c)
{
    for (size_t i = 0; c->limits && i < c->limits_len; i++)
        free_limit(c->limits[i]);
    port_free(c->limits);
    port_free(c->rules);
    port_mutex_free(c->mutex);
    port_free(c);
}

weir_status
weir_limitador_config_build(weir_limitador_config **ret, const weir_limitador_options *options,
                            const weir_limitador_limit *limits, size_t n,
                            void (*report_fn)(void *ctx, const weir_limitador_problem *problem),
                            void *ctx)
{
    if (n > WEIR_LIMITADOR_LIMITS_MAX)
        return WEIR_E_FULL;
    weir_limitador_config *c = port_zalloc(1, sizeof *c);
    if (!c)
        return WEIR_E_NOMEM;
    builder b = {.config = c, .report = report_fn, .ctx = ctx, .status = WEIR_E_NOMEM};
    c->refs = 1;
    c->options = *options;
    c->mutex = port_mutex_new();
    c->limits = new_array(n, sizeof *c->limits);
    c->rules = new_array(n, sizeof *c->rules);
    if (!c->mutex || !c->limits || !c->rules)
        goto fail;
    b.status = WEIR_OK;
    for (size_t i = 0; i < n && b.status != WEIR_E_NOMEM; i++)
        add_limit(&b, &limits[i], i);
    for (size_t i = 0; i < c->limits_len && b.status == WEIR_OK; i++)
        add_rule(c, i);
    if (b.status == WEIR_OK)
        b.status = sort_limits(c);
    if (b.status != WEIR_OK)
        goto fail;
    *ret = c;
    return WEIR_OK;
fail:
    free_config(c);
    return b.status;
}

void weir_limitador_config_hold(weir_limitador_config *c)
{
    port_mutex_lock(c->mutex);
    WEIR_ASSERT(c->refs > 0);
    c->refs++;
    port_mutex_unlock(c->mutex);
}

void weir_limitador_config_drop(weir_limitador_config *c)
{
    if (!c)
        return;
    port_mutex_lock(c->mutex);
    WEIR_ASSERT(c->refs > 0);
    size_t left = --c->refs;
    port_mutex_unlock(c->mutex);
    if (left == 0)
        free_config(c);
}

void weir_limitador_config_set_engine(weir_limitador_config *c, weir_engine_kind engine)
{
    c->options.engine = engine;
    for (size_t i = 0; i < c->rules_len; i++)
        c->rules[i].engine = engine;
}

const weir_rule_spec *weir_limitador_config_rules(const weir_limitador_config *c, size_t *ret_len)
{
    *ret_len = c->rules_len;
    return c->rules;
}

size_t weir_limitador_config_count(const weir_limitador_config *c)
{
    return c->limits_len;
}

size_t limitador_find(const weir_limitador_config *c, weir_slice name_space,
                      limitador_limit *const **ret)
{
    size_t low = 0, high = c->limits_len, n = 0;
    if (name_space.len == 0) /* memcmp() of NULL is undefined */
        name_space.at = "";
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_names(namespace_of(c->limits[middle]), name_space) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    while (low + n < c->limits_len &&
           compare_names(namespace_of(c->limits[low + n]), name_space) == 0)
        n++;
    *ret = c->limits + low;
    return n;
}

void weir_limitador_config_limits(const weir_limitador_config *c, weir_slice name_space,
                                  void (*fn)(void *ctx, const weir_limitador_view *limit),
                                  void *ctx)
{
    limitador_limit *const *limits;
    size_t n = limitador_find(c, name_space, &limits);
    for (size_t i = 0; i < n; i++)
        fn(ctx, &limits[i]->view);
}
