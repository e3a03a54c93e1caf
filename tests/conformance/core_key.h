/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_CORE_KEY_H
#define WEIR_TESTS_CORE_KEY_H
/* A state in memory, which grows when the core needs more words. */

#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct core {
    weir_zones zones;
    weir_policy policy;
    uint64_t *state;
    unsigned level;
} core;

/* Parses the policy, and checks that its canonical text is parsed to the same canonical text. */
static inline bool core_parse(core *c, const char *text)
{
    weir_policy_error e;
    char printed[WEIR_POLICY_TEXT_MAX], again[WEIR_POLICY_TEXT_MAX];
    size_t len = strlen(text);
    for (int round = 0; round < 2; round++) {
        if (weir_policy_parse(&c->policy, text, len, &c->zones, &e) != WEIR_OK) {
            fprintf(stderr, "'%s': column %u: %s\n", text, e.column, e.text);
            return false;
        }
        if (round == 1)
            memcpy(again, printed, sizeof again);
        len = weir_policy_print(&c->policy, printed, sizeof printed);
        text = printed;
    }
    return strcmp(again, printed) == 0;
}

static inline bool core_begin(void *ctx, const char *policy)
{
    core *c = ctx;
    if (!core_parse(c, policy))
        return false;
    c->level = 0;
    c->state = calloc(weir_state_words(&c->policy, 0), sizeof *c->state);
    return c->state != NULL;
}

static inline void core_grow(core *c)
{
    uint64_t *wider = calloc(weir_state_words(&c->policy, c->level + 1), sizeof *wider);
    if (!wider)
        abort();
    weir_state_grow(&c->policy, c->state, c->level, wider);
    free(c->state);
    c->state = wider;
    c->level++;
}

static inline void core_end(void *ctx)
{
    core *c = ctx;
    free(c->state);
    c->state = NULL;
}

#endif
