/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_LIMITADOR_CEL_TREE_H
#define WEIR_LIMITADOR_CEL_TREE_H
/* The syntax tree of a CEL expression, between its parser and its evaluator. */

#include "limitador/cel.h"

typedef enum cel_op {
    CEL_NULL,
    CEL_BOOL,   /* number: 0 or 1 */
    CEL_INT,    /* number */
    CEL_STRING, /* text */
    CEL_IDENT,  /* text */
    CEL_SELECT, /* a . text */
    CEL_HAS,    /* has(a . text) */
    CEL_INDEX,  /* a [ b ] */
    CEL_LIST,   /* a: the first element, then `next` of each */
    CEL_NOT,    /* here and below: operands a, b, c */
    CEL_NEGATE,
    CEL_MULTIPLY,
    CEL_DIVIDE,
    CEL_MODULO,
    CEL_ADD,
    CEL_SUBTRACT,
    CEL_EQUAL,
    CEL_UNEQUAL,
    CEL_LESS,
    CEL_LESS_EQUAL,
    CEL_GREATER,
    CEL_GREATER_EQUAL,
    CEL_IN,
    CEL_AND,
    CEL_OR,
    CEL_CONDITIONAL, /* a ? b : c */
    CEL_SIZE,        /* here and below: functions of a and b */
    CEL_STARTS_WITH,
    CEL_ENDS_WITH,
    CEL_CONTAINS,
    CEL_TO_INT,
    CEL_TO_STRING
} cel_op;

#define CEL_NONE UINT16_MAX /* no node */

typedef struct cel_node {
    cel_op op;
    uint16_t a, b, c; /* indices of operands */
    uint16_t next;    /* the next element of a list */
    uint16_t depth;   /* of the tree below, 1..CEL_DEPTH_MAX */
    int64_t number;
    uint32_t text, text_len; /* in weir_cel.text */
} cel_node;

/* The deepest tree; also the deepest recursion of the evaluator. */
#define CEL_DEPTH_MAX 200

struct weir_cel {
    cel_node *node;
    uint16_t nodes, root;
    char *text; /* decoded strings and names */
};

#endif
