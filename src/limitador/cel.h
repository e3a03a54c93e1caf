/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_LIMITADOR_CEL_H
#define WEIR_LIMITADOR_CEL_H
/* The part of CEL (Common Expression Language, https://cel.dev) that the conditions and variables
 * of limitador's limits use: literals, `descriptors`, `limit`, operators, and a few functions.
 * docs/limitador.md lists them. An expression is parsed once, into a tree; evaluating it allocates
 * nothing. It must not know limits or decisions. */

#include "port/text.h"
#include "rls/rls.h"

#define WEIR_CEL_TEXT_MAX 4096 /* bytes of an expression */

/* A parsed expression. Immutable; any number of threads may evaluate it. */
typedef struct weir_cel weir_cel;

typedef struct weir_cel_error {
    uint32_t column; /* in the expression, in bytes from 1 */
    char text[200];  /* what was found, and what was expected */
} weir_cel_error;

/* Parses an expression.
 *  ret        to be freed by weir_cel_free(); written on WEIR_OK only.
 *  ret_error  written on WEIR_E_SYNTAX only.
 * Returns WEIR_OK; WEIR_E_SYNTAX; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_cel_parse(weir_cel **ret, weir_slice text,
                                          weir_cel_error *ret_error);
void weir_cel_free(weir_cel *c); /* accepts NULL */

/* The first identifier of the expression that is neither `descriptors` nor, if with_limit, `limit`.
 * `at` is NULL if there is none. It points into the expression. */
weir_slice weir_cel_unknown(const weir_cel *c, bool with_limit);

/* Whether an expression has the same value for all requests: it does not name `descriptors`. */
bool weir_cel_is_fixed(const weir_cel *c);

/* What an expression is evaluated with. */
typedef struct weir_cel_input {
    const weir_rls_descriptor *descriptors;
    size_t descriptors_len;
    weir_slice limit_name, limit_id; /* `at` is NULL: null */
    char *scratch;                   /* memory for texts that the evaluation makes */
    size_t scratch_len, scratch_used;
} weir_cel_input;

typedef enum weir_cel_result {
    WEIR_CEL_OK,
    WEIR_CEL_ABSENT, /* a map has no such key */
    WEIR_CEL_FAILED  /* any other error: mixed types, an index out of range, a full scratch */
} weir_cel_result;

/* Evaluates an expression whose value must be a bool.
 *  input  only scratch_used changes. */
WEIR_NODISCARD weir_cel_result weir_cel_test(const weir_cel *c, weir_cel_input *input, bool *ret);

/* Evaluates an expression whose value must be a string, an int, a bool or null, as text.
 *  ret  points into the expression, the input's descriptors or its scratch. */
WEIR_NODISCARD weir_cel_result weir_cel_text(const weir_cel *c, weir_cel_input *input,
                                             weir_slice *ret);

#endif
