/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_LIMIT_CHANGES_H
#define WEIR_TESTS_LIMIT_CHANGES_H
/* The cases of reference/limit_changes.py: a program plays each, one after the other, and reports
 * the first step of a case that differs from the model. */

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct changes_player {
    void (*begin)(const json_t *c);
    bool (*step)(const json_t *step, const char *text); /* whether it decides as the model does */
    void (*end)(void);
} changes_player;

static _Noreturn inline void changes_stop(const char *what, const char *of)
{
    fprintf(stderr, "%s: %s\n", what, of);
    exit(2);
}

/* Null, which stands for "never", is INT64_MAX. */
static inline int64_t changes_integer(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_integer(v) && !json_is_null(v))
        changes_stop("a step has no integer", name);
    return json_is_null(v) ? INT64_MAX : json_integer_value(v);
}

static inline bool changes_is_refund(const json_t *step)
{
    return strcmp(json_string_value(json_object_get(step, "op")), "refund") == 0;
}

/* Returns the number of steps; 0 if one differs. */
static inline size_t changes_case(const json_t *c, const changes_player *p)
{
    size_t i;
    const json_t *step, *limits = json_object_get(c, "limits");
    json_array_foreach(json_object_get(c, "steps"), i, step)
    {
        size_t index = (size_t)changes_integer(step, "index");
        const char *text = json_string_value(json_array_get(limits, index));
        if (p->step(step, text))
            continue;
        char *expected = json_dumps(step, 0);
        fprintf(stderr, "%s, step %zu, %s: expected %s\n",
                json_string_value(json_object_get(c, "name")), i, text, expected);
        free(expected);
        return 0;
    }
    return i;
}

static inline int changes_main(int argc, char **argv, const changes_player *p)
{
    size_t i, steps = 0, failed = 0, cases = 0;
    json_t *root = json_load_file(argc == 2 ? argv[1] : "", 0, NULL), *c;
    if (!root)
        changes_stop("expected a file of cases", argc == 2 ? argv[1] : "");
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        p->begin(c);
        size_t n = changes_case(c, p);
        p->end();
        steps += n;
        failed += n == 0;
        cases++;
    }
    json_decref(root);
    printf("%zu steps compared\n%zu passed, %zu failed, 0 skipped\n", steps, cases - failed,
           failed);
    return failed > 0 || cases == 0;
}

#endif
