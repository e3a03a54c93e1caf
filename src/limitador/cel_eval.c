/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Evaluates CEL expressions with the semantics of the crate `cel`, which limitador uses: operands
 * are evaluated from left to right, an error ends the evaluation, and only `&&`, `||` and `?:`
 * leave operands out. */

#include "limitador/cel_tree.h"
#include "port/assert.h"
#include "port/port.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum value_kind {
    IS_NULL,
    IS_BOOL,        /* number */
    IS_INT,         /* number */
    IS_STRING,      /* text */
    IS_DESCRIPTORS, /* the list of all descriptors */
    IS_DESCRIPTOR,  /* a map; number: its index */
    IS_LIMIT,       /* the map `limit` */
    IS_LIST         /* a list in the expression; number: its node. Its elements have no errors */
} value_kind;

typedef struct value {
    value_kind kind;
    int64_t number;
    weir_slice text;
} value;

typedef struct evaluation {
    const weir_cel *tree;
    weir_cel_input *in;
} evaluation;

/* The most entries of a descriptor whose size() is known: counting is quadratic. */
enum { ENTRIES_MAX = 1024 };

static weir_cel_result evaluate(const evaluation *e, uint16_t node, value *ret);

/* ---- values ---------------------------------------------------------------------------------- */

static value bool_of(bool b)
{
    return (value){.kind = IS_BOOL, .number = b};
}

static value text_or_null(weir_slice text)
{
    return text.at ? (value){.kind = IS_STRING, .text = text} : (value){.kind = IS_NULL};
}

static bool same_text(weir_slice a, weir_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static bool is_text(weir_slice a, const char *b)
{
    return same_text(a, (weir_slice){b, strlen(b)});
}

static weir_slice text_of(const evaluation *e, const cel_node *n)
{
    return (weir_slice){e->tree->text + n->text, n->text_len};
}

/* Copies text to the scratch. */
static weir_cel_result join(const evaluation *e, weir_slice a, weir_slice b, value *ret)
{
    weir_cel_input *in = e->in;
    if (a.len + b.len > in->scratch_len - in->scratch_used)
        return WEIR_CEL_FAILED;
    char *at = in->scratch + in->scratch_used;
    if (a.len > 0)
        memcpy(at, a.at, a.len);
    if (b.len > 0)
        memcpy(at + a.len, b.at, b.len);
    in->scratch_used += a.len + b.len;
    *ret = (value){.kind = IS_STRING, .text = {at, a.len + b.len}};
    return WEIR_CEL_OK;
}

/* ---- maps and lists -------------------------------------------------------------------------- */

/* Finds a key of a map. The last of several entries with a key wins. */
static weir_cel_result find_key(const evaluation *e, const value *map, weir_slice key, value *ret)
{
    if (map->kind == IS_LIMIT && (is_text(key, "name") || is_text(key, "id"))) {
        *ret = text_or_null(is_text(key, "name") ? e->in->limit_name : e->in->limit_id);
        return WEIR_CEL_OK;
    }
    if (map->kind != IS_DESCRIPTOR)
        return WEIR_CEL_ABSENT;
    const weir_rls_descriptor *d = &e->in->descriptors[map->number];
    for (size_t i = d->entries_len; i-- > 0;) {
        if (same_text(d->entries[i].key, key)) {
            *ret = (value){.kind = IS_STRING, .text = d->entries[i].value};
            return WEIR_CEL_OK;
        }
    }
    return WEIR_CEL_ABSENT;
}

static bool is_map(const value *v)
{
    return v->kind == IS_DESCRIPTOR || v->kind == IS_LIMIT;
}

/* Finds element `index` of a list of the expression. */
static weir_cel_result list_element(const evaluation *e, const value *list, int64_t index,
                                    value *ret)
{
    uint16_t node = e->tree->node[list->number].a;
    for (; index > 0 && node != CEL_NONE; index--)
        node = e->tree->node[node].next;
    return node == CEL_NONE || index < 0 ? WEIR_CEL_FAILED : evaluate(e, node, ret);
}

static weir_cel_result find_index(const evaluation *e, const value *of, const value *index,
                                  value *ret)
{
    if (is_map(of) && index->kind == IS_STRING)
        return find_key(e, of, index->text, ret);
    if (is_map(of)) /* no key is a bool or an int */
        return index->kind == IS_BOOL || index->kind == IS_INT ? WEIR_CEL_ABSENT : WEIR_CEL_FAILED;
    if (index->kind != IS_INT)
        return WEIR_CEL_FAILED;
    if (of->kind == IS_STRING)
        return WEIR_CEL_ABSENT;
    if (of->kind == IS_LIST)
        return list_element(e, of, index->number, ret);
    if (of->kind != IS_DESCRIPTORS || index->number < 0 ||
        (uint64_t)index->number >= e->in->descriptors_len)
        return WEIR_CEL_FAILED;
    *ret = (value){.kind = IS_DESCRIPTOR, .number = index->number};
    return WEIR_CEL_OK;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Values of different kinds are unequal. Lists and maps cannot be compared. */
static weir_cel_result equal(const value *a, const value *b, bool *ret)
{
    *ret = false;
    if (a->kind != b->kind)
        return WEIR_CEL_OK;
    if (a->kind > IS_STRING)
        return WEIR_CEL_FAILED;
    *ret = a->kind == IS_STRING ? same_text(a->text, b->text) : a->number == b->number;
    return WEIR_CEL_OK;
}

/* Compares strings by their bytes.
 *  ret  below, equal to or above 0. */
static weir_cel_result compare(const value *a, const value *b, int *ret)
{
    if (a->kind != b->kind || a->kind > IS_STRING)
        return WEIR_CEL_FAILED;
    *ret = (a->number > b->number) - (a->number < b->number);
    if (a->kind != IS_STRING)
        return WEIR_CEL_OK;
    size_t n = a->text.len < b->text.len ? a->text.len : b->text.len;
    *ret = n > 0 ? memcmp(a->text.at, b->text.at, n) : 0;
    if (*ret == 0)
        *ret = (a->text.len > b->text.len) - (a->text.len < b->text.len);
    return WEIR_CEL_OK;
}

static weir_cel_result evaluate_comparison(cel_op op, const value *a, const value *b, value *ret)
{
    int order = 0;
    bool same = false;
    weir_cel_result r =
        op == CEL_EQUAL || op == CEL_UNEQUAL ? equal(a, b, &same) : compare(a, b, &order);
    *ret = bool_of(op == CEL_EQUAL        ? same
                   : op == CEL_UNEQUAL    ? !same
                   : op == CEL_LESS       ? order < 0
                   : op == CEL_LESS_EQUAL ? order <= 0
                   : op == CEL_GREATER    ? order > 0
                                          : order >= 0);
    return r;
}

static bool has_text(weir_slice text, weir_slice part)
{
    for (size_t i = 0; i + part.len <= text.len; i++) {
        if (part.len == 0 || memcmp(text.at + i, part.at, part.len) == 0)
            return true;
    }
    return false;
}

/* Whether a list or a map has a value. */
static weir_cel_result holds(const evaluation *e, const value *in, const value *v, value *ret)
{
    value other;
    bool found = false;
    weir_cel_result r = WEIR_CEL_OK;
    if (is_map(in)) {
        found = v->kind == IS_STRING && find_key(e, in, v->text, &other) == WEIR_CEL_OK;
    } else if (in->kind == IS_LIST) {
        uint16_t node = e->tree->node[in->number].a;
        for (; node != CEL_NONE && r == WEIR_CEL_OK && !found; node = e->tree->node[node].next) {
            r = evaluate(e, node, &other);
            if (r == WEIR_CEL_OK)
                r = equal(v, &other, &found);
        }
    } else if (v->kind > IS_STRING) {
        r = WEIR_CEL_FAILED; /* a descriptor in the list of descriptors */
    }
    *ret = bool_of(found);
    return r;
}

static weir_cel_result evaluate_in(const evaluation *e, const value *v, const value *in, value *ret)
{
    if (in->kind == IS_STRING && v->kind == IS_STRING) {
        *ret = bool_of(has_text(in->text, v->text));
        return WEIR_CEL_OK;
    }
    return in->kind <= IS_STRING ? WEIR_CEL_FAILED : holds(e, in, v, ret);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* An overflow is an error, as is a division by 0. */
static weir_cel_result calculate(cel_op op, int64_t a, int64_t b, value *ret)
{
    int64_t x = 0;
    bool overflow = false;
    if (op == CEL_ADD)
        overflow = __builtin_add_overflow(a, b, &x);
    else if (op == CEL_SUBTRACT)
        overflow = __builtin_sub_overflow(a, b, &x);
    else if (op == CEL_MULTIPLY)
        overflow = __builtin_mul_overflow(a, b, &x);
    else if (b == 0 || (b == -1 && a == INT64_MIN))
        overflow = true;
    else
        x = op == CEL_DIVIDE ? a / b : a % b;
    *ret = (value){.kind = IS_INT, .number = x};
    return overflow ? WEIR_CEL_FAILED : WEIR_CEL_OK;
}

static weir_cel_result evaluate_arithmetic(const evaluation *e, cel_op op, const value *a,
                                           const value *b, value *ret)
{
    if (a->kind == IS_INT && b->kind == IS_INT)
        return calculate(op, a->number, b->number, ret);
    if (op == CEL_ADD && a->kind == IS_STRING && b->kind == IS_STRING)
        return join(e, a->text, b->text, ret);
    return WEIR_CEL_FAILED;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* The number of different keys. */
static weir_cel_result count_keys(const weir_rls_descriptor *d, int64_t *ret)
{
    int64_t n = 0;
    if (d->entries_len > ENTRIES_MAX)
        return WEIR_CEL_FAILED;
    for (size_t i = 0; i < d->entries_len; i++) {
        size_t j = i + 1;
        while (j < d->entries_len && !same_text(d->entries[i].key, d->entries[j].key))
            j++;
        n += j == d->entries_len;
    }
    *ret = n;
    return WEIR_CEL_OK;
}

static weir_cel_result size_of(const evaluation *e, const value *v, value *ret)
{
    int64_t n = 0;
    weir_cel_result r = WEIR_CEL_OK;
    if (v->kind == IS_STRING)
        n = (int64_t)v->text.len;
    else if (v->kind == IS_DESCRIPTORS)
        n = (int64_t)e->in->descriptors_len;
    else if (v->kind == IS_LIMIT)
        n = 2;
    else if (v->kind == IS_DESCRIPTOR)
        r = count_keys(&e->in->descriptors[v->number], &n);
    else if (v->kind == IS_LIST)
        for (uint16_t i = e->tree->node[v->number].a; i != CEL_NONE; i = e->tree->node[i].next)
            n++;
    else
        r = WEIR_CEL_FAILED;
    *ret = (value){.kind = IS_INT, .number = n};
    return r;
}

static weir_cel_result to_int(const value *v, value *ret)
{
    weir_slice t = v->text;
    bool plus = v->kind == IS_STRING && t.len > 1 && t.at[0] == '+' && t.at[1] != '-';
    bool minus = v->kind == IS_STRING && t.len > 1 && t.at[0] == '-';
    uint64_t x = 0;
    *ret = *v;
    if (v->kind == IS_INT)
        return WEIR_CEL_OK;
    if (v->kind != IS_STRING || !weir_decimal_read(t.at + (plus || minus), t.len - (plus || minus),
                                                   (uint64_t)INT64_MAX + minus, &x))
        return WEIR_CEL_FAILED;
    *ret = (value){.kind = IS_INT, .number = minus ? (int64_t)(0 - x) : (int64_t)x};
    return WEIR_CEL_OK;
}

static weir_cel_result to_text(const evaluation *e, const value *v, value *ret)
{
    char digits[WEIR_I64_MAX_LEN];
    *ret = *v;
    if (v->kind == IS_INT)
        return join(e, (weir_slice){digits, weir_i64_print(digits, v->number)}, (weir_slice){0},
                    ret);
    return v->kind == IS_STRING ? WEIR_CEL_OK : WEIR_CEL_FAILED;
}

static weir_cel_result starts_or_ends(cel_op op, const value *a, const value *b, value *ret)
{
    if (a->kind != IS_STRING || b->kind != IS_STRING)
        return WEIR_CEL_FAILED;
    bool fits = b->text.len <= a->text.len;
    size_t begin = fits && op == CEL_ENDS_WITH ? a->text.len - b->text.len : 0;
    *ret = bool_of(fits &&
                   (b->text.len == 0 || memcmp(a->text.at + begin, b->text.at, b->text.len) == 0));
    return WEIR_CEL_OK;
}

static weir_cel_result contains(const evaluation *e, const value *a, const value *b, value *ret)
{
    *ret = bool_of(a->kind == IS_STRING && b->kind == IS_STRING && has_text(a->text, b->text));
    if (a->kind <= IS_STRING)
        return WEIR_CEL_OK;
    bool is_key = b->kind == IS_BOOL || b->kind == IS_INT || b->kind == IS_STRING;
    return is_map(a) && !is_key ? WEIR_CEL_FAILED : holds(e, a, b, ret);
}

/* ---- operations ------------------------------------------------------------------------------ */

static weir_cel_result evaluate_ident(const evaluation *e, const cel_node *n, value *ret)
{
    bool limit = is_text(text_of(e, n), "limit");
    *ret = (value){.kind = limit ? IS_LIMIT : IS_DESCRIPTORS};
    return limit || is_text(text_of(e, n), "descriptors") ? WEIR_CEL_OK : WEIR_CEL_FAILED;
}

/* `a.text` and has(a.text) */
static weir_cel_result evaluate_select(const evaluation *e, const cel_node *n, value *ret)
{
    value of;
    weir_cel_result r = evaluate(e, n->a, &of);
    if (r != WEIR_CEL_OK)
        return r;
    r = find_key(e, &of, text_of(e, n), ret);
    if (n->op == CEL_SELECT)
        return r;
    *ret = bool_of(r == WEIR_CEL_OK);
    return WEIR_CEL_OK;
}

/* A list: its elements are evaluated here, so that they have no errors later. */
static weir_cel_result evaluate_list(const evaluation *e, uint16_t list, value *ret)
{
    value element;
    weir_cel_result r = WEIR_CEL_OK;
    uint16_t node = e->tree->node[list].a;
    for (; node != CEL_NONE && r == WEIR_CEL_OK; node = e->tree->node[node].next)
        r = evaluate(e, node, &element);
    *ret = (value){.kind = IS_LIST, .number = list};
    return r;
}

/* `a && b`, `a || b`, `a ? b : c` */
static weir_cel_result evaluate_logic(const evaluation *e, const cel_node *n, value *ret)
{
    weir_cel_result r = evaluate(e, n->a, ret);
    if (r != WEIR_CEL_OK)
        return r;
    if (ret->kind != IS_BOOL)
        return WEIR_CEL_FAILED;
    if (n->op == CEL_CONDITIONAL)
        return evaluate(e, ret->number ? n->b : n->c, ret);
    if (ret->number == (n->op == CEL_OR))
        return WEIR_CEL_OK;
    r = evaluate(e, n->b, ret);
    return r == WEIR_CEL_OK && n->op == CEL_AND && ret->kind != IS_BOOL ? WEIR_CEL_FAILED : r;
}

static weir_cel_result evaluate_unary(const evaluation *e, cel_op op, const value *a, value *ret)
{
    switch (op) {
    case CEL_NOT:
        *ret = bool_of(!a->number);
        return a->kind == IS_BOOL ? WEIR_CEL_OK : WEIR_CEL_FAILED;
    case CEL_NEGATE:
        return a->kind == IS_INT ? calculate(CEL_SUBTRACT, 0, a->number, ret) : WEIR_CEL_FAILED;
    case CEL_SIZE:
        return size_of(e, a, ret);
    case CEL_TO_INT:
        return to_int(a, ret);
    default:
        WEIR_ASSERT(op == CEL_TO_STRING);
        return to_text(e, a, ret);
    }
}

static weir_cel_result evaluate_binary(const evaluation *e, cel_op op, const value *a,
                                       const value *b, value *ret)
{
    if (op == CEL_INDEX)
        return find_index(e, a, b, ret);
    if (op == CEL_IN)
        return evaluate_in(e, a, b, ret);
    if (op == CEL_CONTAINS)
        return contains(e, a, b, ret);
    if (op == CEL_STARTS_WITH || op == CEL_ENDS_WITH)
        return starts_or_ends(op, a, b, ret);
    if (op >= CEL_EQUAL && op <= CEL_GREATER_EQUAL)
        return evaluate_comparison(op, a, b, ret);
    return evaluate_arithmetic(e, op, a, b, ret);
}

static weir_cel_result evaluate_operation(const evaluation *e, const cel_node *n, value *ret)
{
    value a, b;
    weir_cel_result r = evaluate(e, n->a, &a);
    if (r != WEIR_CEL_OK)
        return r;
    if (n->b == CEL_NONE)
        return evaluate_unary(e, n->op, &a, ret);
    r = evaluate(e, n->b, &b);
    return r == WEIR_CEL_OK ? evaluate_binary(e, n->op, &a, &b, ret) : r;
}

static weir_cel_result evaluate(const evaluation *e, uint16_t node, value *ret)
{
    WEIR_ASSERT(node < e->tree->nodes);
    const cel_node *n = &e->tree->node[node];
    switch (n->op) {
    case CEL_NULL:
        *ret = (value){.kind = IS_NULL};
        return WEIR_CEL_OK;
    case CEL_BOOL:
    case CEL_INT:
        *ret = (value){.kind = n->op == CEL_BOOL ? IS_BOOL : IS_INT, .number = n->number};
        return WEIR_CEL_OK;
    case CEL_STRING:
        *ret = (value){.kind = IS_STRING, .text = text_of(e, n)};
        return WEIR_CEL_OK;
    case CEL_IDENT:
        return evaluate_ident(e, n, ret);
    case CEL_SELECT:
    case CEL_HAS:
        return evaluate_select(e, n, ret);
    case CEL_LIST:
        return evaluate_list(e, node, ret);
    case CEL_AND:
    case CEL_OR:
    case CEL_CONDITIONAL:
        return evaluate_logic(e, n, ret);
    default:
        return evaluate_operation(e, n, ret);
    }
}

/* ---- the interface --------------------------------------------------------------------------- */

weir_slice weir_cel_unknown(const weir_cel *c, bool with_limit)
{
    const evaluation e = {.tree = c};
    for (const cel_node *n = c->node; n < c->node + c->nodes; n++) {
        weir_slice name = text_of(&e, n);
        if (n->op == CEL_IDENT && !is_text(name, "descriptors") &&
            !(with_limit && is_text(name, "limit")))
            return name;
    }
    return (weir_slice){NULL, 0};
}

bool weir_cel_is_fixed(const weir_cel *c)
{
    const evaluation e = {.tree = c};
    bool found = false;
    for (const cel_node *n = c->node; n < c->node + c->nodes; n++)
        found |= n->op == CEL_IDENT && is_text(text_of(&e, n), "descriptors");
    return !found;
}

weir_cel_result weir_cel_test(const weir_cel *c, weir_cel_input *input, bool *ret)
{
    const evaluation e = {c, input};
    value v;
    weir_cel_result r = evaluate(&e, c->root, &v);
    if (r != WEIR_CEL_OK)
        return r;
    *ret = v.number;
    return v.kind == IS_BOOL ? WEIR_CEL_OK : WEIR_CEL_FAILED;
}

weir_cel_result weir_cel_text(const weir_cel *c, weir_cel_input *input, weir_slice *ret)
{
    const evaluation e = {c, input};
    value v, text;
    weir_cel_result r = evaluate(&e, c->root, &v);
    if (r != WEIR_CEL_OK)
        return r;
    if (v.kind == IS_NULL)
        *ret = (weir_slice){"null", 4};
    else if (v.kind == IS_BOOL)
        *ret = v.number ? (weir_slice){"true", 4} : (weir_slice){"false", 5};
    else if ((r = to_text(&e, &v, &text)) == WEIR_CEL_OK)
        *ret = text.text;
    return r;
}
