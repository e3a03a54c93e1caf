/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A recursive-descent parser of CEL. The grammar is that of the CEL specification, section
 * "Syntax", without maps, messages, macros other than has(), bytes, and numbers that are no ints.
 * Each of these is an error that names it. */

#include "limitador/cel_tree.h"
#include "port/assert.h"
#include "port/port.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct parser {
    const char *text;
    size_t len, at;
    size_t nesting; /* of brackets and conditionals: bounds the recursion */
    weir_cel *tree; /* room for a node and a byte of text for each byte of the expression */
    size_t text_len;
    weir_cel_error *error;
    bool failed;
    bool negative; /* the number that is next has a sign */
} parser;

enum { NESTING_MAX = 32 };

static const char supported[] =
    "has, size, startsWith, endsWith, contains, int and string are supported";

/* ---- errors, nodes --------------------------------------------------------------------------- */

/* Records the first error. Returns CEL_NONE. */
__attribute__((format(printf, 3, 4))) static uint16_t fail_at(parser *p, size_t at,
                                                              const char *format, ...)
{
    va_list args;
    if (p->failed)
        return CEL_NONE;
    p->failed = true;
    p->error->column = (uint32_t)at + 1;
    va_start(args, format);
    vsnprintf(p->error->text, sizeof p->error->text, format, args);
    va_end(args);
    return CEL_NONE;
}

/* Fails at the next token, which is not what the grammar requires. */
static uint16_t fail_expected(parser *p, const char *expected)
{
    WEIR_ASSERT(p->at <= p->len);
    if (p->failed || p->at == p->len)
        return fail_at(p, p->at, "expected %s, found the end of the expression", expected);
    bool valid;
    size_t n = weir_utf8_len(p->text + p->at, p->len - p->at, &valid);
    return fail_at(p, p->at, "expected %s, found '%.*s'", expected, (int)n, p->text + p->at);
}

static uint16_t depth_of(const parser *p, uint16_t node)
{
    return node == CEL_NONE ? 0 : p->tree->node[node].depth;
}

static uint16_t add_node(parser *p, size_t at, cel_node node)
{
    uint16_t depth = depth_of(p, node.a);
    if (depth < depth_of(p, node.b))
        depth = depth_of(p, node.b);
    if (depth < depth_of(p, node.c))
        depth = depth_of(p, node.c);
    if (p->failed || depth == CEL_DEPTH_MAX)
        return fail_at(p, at, "the expression has more than %d nested operations", CEL_DEPTH_MAX);
    WEIR_ASSERT(p->tree->nodes < p->len);
    node.depth = (uint16_t)(depth + 1);
    p->tree->node[p->tree->nodes] = node;
    return p->tree->nodes++;
}

static uint16_t add_op(parser *p, size_t at, cel_op op, uint16_t a, uint16_t b)
{
    return add_node(p, at, (cel_node){.op = op, .a = a, .b = b, .c = CEL_NONE});
}

static uint16_t add_leaf(parser *p, size_t at, cel_op op, int64_t number)
{
    return add_node(
        p, at, (cel_node){.op = op, .a = CEL_NONE, .b = CEL_NONE, .c = CEL_NONE, .number = number});
}

/* Adds a node with a name that the expression contains. */
static uint16_t add_name(parser *p, size_t at, cel_op op, uint16_t a, weir_slice name)
{
    uint32_t begin = (uint32_t)p->text_len;
    WEIR_ASSERT(p->text_len + name.len <= p->len);
    memcpy(p->tree->text + begin, name.at, name.len);
    p->text_len += name.len;
    return add_node(p, at,
                    (cel_node){.op = op,
                               .a = a,
                               .b = CEL_NONE,
                               .c = CEL_NONE,
                               .text = begin,
                               .text_len = (uint32_t)name.len});
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void skip_space(parser *p)
{
    while (p->at < p->len) {
        char c = p->text[p->at];
        if (c == '/' && p->at + 1 < p->len && p->text[p->at + 1] == '/')
            while (p->at < p->len && p->text[p->at] != '\n')
                p->at++;
        else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f')
            p->at++;
        else
            return;
    }
}

/* The next character; '\0' at the end, which no expression contains. */
static char peek(parser *p)
{
    skip_space(p);
    return p->at < p->len ? p->text[p->at] : '\0';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Skips a token of punctuation if it is next. */
static bool accept(parser *p, const char *token)
{
    size_t n = strlen(token);
    skip_space(p);
    if (p->len - p->at < n || memcmp(p->text + p->at, token, n) != 0)
        return false;
    p->at += n;
    return true;
}

static bool expect(parser *p, const char *token, const char *expected)
{
    if (!p->failed && !accept(p, token))
        fail_expected(p, expected);
    return !p->failed;
}

/* The identifier or keyword that is next, not skipped; len 0 if there is none. */
static weir_slice peek_word(parser *p)
{
    size_t n = 0;
    if (is_letter(peek(p)))
        while (p->at + n < p->len &&
               (is_letter(p->text[p->at + n]) || is_digit(p->text[p->at + n])))
            n++;
    return (weir_slice){p->text + p->at, n};
}

/* The length of a name in a message. */
static int shown(weir_slice name)
{
    return name.len < 64 ? (int)name.len : 64;
}

static bool is_word(weir_slice text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.at, word, text.len) == 0;
}

/* ---- literals -------------------------------------------------------------------------------- */

static uint16_t parse_number(parser *p)
{
    size_t begin = p->at;
    bool negative = p->negative;
    uint64_t v = 0;
    p->negative = false;
    if (p->text[p->at] == '0' && p->at + 1 < p->len && (p->text[p->at + 1] | 0x20) == 'x') {
        p->at += 2;
        size_t first = p->at;
        for (; p->at < p->len && weir_hex_digit(p->text[p->at]) >= 0 && p->at < first + 16; p->at++)
            v = v << 4 | (uint64_t)weir_hex_digit(p->text[p->at]);
        if (p->at == first)
            return fail_expected(p, "a hexadecimal digit");
    } else {
        p->at += weir_digits_read(p->text + p->at, p->len - p->at, &v);
    }
    char next = p->at < p->len ? p->text[p->at] : '\0';
    bool fraction = next == '.' && p->at + 1 < p->len && is_digit(p->text[p->at + 1]);
    if (fraction || is_letter(next))
        return fail_at(p, begin, "unsupported number, expected an int such as 10");
    if (v > (uint64_t)INT64_MAX + negative)
        return fail_at(p, begin, "the number is out of range, expected at %s %lld",
                       negative ? "least" : "most", (long long)(negative ? INT64_MIN : INT64_MAX));
    /* Without an overflow for INT64_MIN. */
    return add_leaf(p, begin, CEL_INT, negative && v > 0 ? -(int64_t)(v - 1) - 1 : (int64_t)v);
}

static void put_byte(parser *p, char c)
{
    WEIR_ASSERT(p->text_len < p->len);
    p->tree->text[p->text_len++] = c;
}

static void put_code_point(parser *p, uint32_t c)
{
    if (c < 0x80) {
        put_byte(p, (char)c);
    } else if (c < 0x800) {
        put_byte(p, (char)(0xC0 | c >> 6));
        put_byte(p, (char)(0x80 | (c & 0x3F)));
    } else if (c < 0x10000) {
        put_byte(p, (char)(0xE0 | c >> 12));
        put_byte(p, (char)(0x80 | (c >> 6 & 0x3F)));
        put_byte(p, (char)(0x80 | (c & 0x3F)));
    } else {
        put_byte(p, (char)(0xF0 | c >> 18));
        put_byte(p, (char)(0x80 | (c >> 12 & 0x3F)));
        put_byte(p, (char)(0x80 | (c >> 6 & 0x3F)));
        put_byte(p, (char)(0x80 | (c & 0x3F)));
    }
}

/* Decodes the hexadecimal digits of an escape. `at` is behind the letter. */
static void decode_code_point(parser *p, size_t begin, size_t digits)
{
    uint32_t c = 0;
    size_t n = 0;
    for (; n < digits && p->at < p->len && weir_hex_digit(p->text[p->at]) >= 0; n++)
        c = c << 4 | (uint32_t)weir_hex_digit(p->text[p->at++]);
    if (n < digits)
        fail_at(p, begin, "expected %zu hexadecimal digits in the escape", digits);
    else if (c == 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        fail_at(p, begin, "the escape is not a character");
    else
        put_code_point(p, c);
}

/* Decodes an escape. `at` is behind the backslash. */
static void decode_escape(parser *p)
{
    static const char from[] = "\\'\"`?abfnrtv", to[] = "\\'\"`?\a\b\f\n\r\t\v";
    size_t begin = p->at - 1;
    char c = p->at < p->len ? p->text[p->at] : '\0';
    const char *found = c ? strchr(from, c) : NULL;
    p->at += p->at < p->len;
    if (found)
        put_byte(p, to[found - from]);
    else if ((c | 0x20) == 'x')
        decode_code_point(p, begin, 2);
    else if (c == 'u')
        decode_code_point(p, begin, 4);
    else if (c == 'U')
        decode_code_point(p, begin, 8);
    else
        fail_at(p, begin, "unsupported escape, expected one such as \\n or \\u0041");
}

/* `at` is at the opening quote. */
static uint16_t parse_string(parser *p, bool raw)
{
    size_t begin = p->at, text = p->text_len;
    char quote = p->text[p->at++];
    if (p->len - p->at >= 2 && p->text[p->at] == quote && p->text[p->at + 1] == quote)
        return fail_at(p, begin, "unsupported triple quotes, expected one quote");
    while (!p->failed && p->at < p->len && p->text[p->at] != quote && p->text[p->at] != '\n') {
        char c = p->text[p->at++];
        if (c == '\\' && !raw)
            decode_escape(p);
        else
            put_byte(p, c);
    }
    if (p->at >= p->len || p->text[p->at] != quote)
        return fail_at(p, begin, "the string has no closing %c", quote);
    p->at++;
    return add_node(p, begin,
                    (cel_node){.op = CEL_STRING,
                               .a = CEL_NONE,
                               .b = CEL_NONE,
                               .c = CEL_NONE,
                               .text = (uint32_t)text,
                               .text_len = (uint32_t)(p->text_len - text)});
}

/* ---- expressions ----------------------------------------------------------------------------- */

static uint16_t parse_expression(parser *p);

/* An expression within brackets. */
static uint16_t parse_nested(parser *p)
{
    if (p->nesting == NESTING_MAX)
        return fail_at(p, p->at, "the expression has more than %d nested brackets", NESTING_MAX);
    p->nesting++;
    uint16_t node = parse_expression(p);
    p->nesting--;
    return node;
}

/* `at` is behind the opening bracket. */
static uint16_t parse_list(parser *p, size_t begin)
{
    uint16_t first = CEL_NONE, last = CEL_NONE, deepest = CEL_NONE;
    while (!p->failed && peek(p) != ']') {
        uint16_t node = parse_nested(p);
        if (p->failed)
            return CEL_NONE;
        p->tree->node[node].next = CEL_NONE;
        if (depth_of(p, deepest) < depth_of(p, node))
            deepest = node;
        if (first == CEL_NONE)
            first = node;
        else
            p->tree->node[last].next = node;
        last = node;
        if (!accept(p, ","))
            break;
    }
    if (!expect(p, "]", "',' or ']'"))
        return CEL_NONE;
    uint16_t list = add_op(p, begin, CEL_LIST, deepest, CEL_NONE);
    if (list != CEL_NONE)
        p->tree->node[list].a = first;
    return list;
}

typedef struct function {
    const char *name;
    cel_op op;
    size_t operands; /* with the one before the '.' */
} function;

static const function functions[] = {
    {"size", CEL_SIZE, 1},          {"startsWith", CEL_STARTS_WITH, 2},
    {"endsWith", CEL_ENDS_WITH, 2}, {"contains", CEL_CONTAINS, 2},
    {"int", CEL_TO_INT, 1},         {"string", CEL_TO_STRING, 1},
};

static const function *find_function(weir_slice name)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (is_word(name, functions[i].name))
            return &functions[i];
    }
    return NULL;
}

/* has(a.b). `at` is behind the '('. */
static uint16_t parse_has(parser *p, size_t begin)
{
    uint16_t node = parse_nested(p);
    if (p->failed || !expect(p, ")", "')'"))
        return CEL_NONE;
    if (p->tree->node[node].op != CEL_SELECT)
        return fail_at(p, begin, "has() requires a field, such as has(descriptors[0].user)");
    p->tree->node[node].op = CEL_HAS;
    return node;
}

/* A call. `at` is behind the '('.
 *  target  the operand before the '.'; CEL_NONE: none. */
static uint16_t parse_call(parser *p, size_t begin, weir_slice name, uint16_t target)
{
    const function *f = find_function(name);
    uint16_t operand[2] = {target, CEL_NONE};
    size_t n = target != CEL_NONE;
    if (target == CEL_NONE && is_word(name, "has"))
        return parse_has(p, begin);
    if (!f)
        return fail_at(p, begin, "unsupported function '%.*s'; %s", shown(name), name.at,
                       supported);
    while (!p->failed && peek(p) != ')') {
        uint16_t node = parse_nested(p);
        if (n == f->operands)
            return fail_at(p, begin, "too many arguments for %s()", f->name);
        operand[n++] = node;
        if (!accept(p, ","))
            break;
    }
    if (!expect(p, ")", "',' or ')'"))
        return CEL_NONE;
    if (n < f->operands)
        return fail_at(p, begin, "missing argument for %s()", f->name);
    return add_op(p, begin, f->op, operand[0], operand[1]);
}

/* Words that are no identifiers. */
static bool is_reserved(weir_slice word)
{
    static const char *const words[] = {
        "in",     "as",  "break", "const",   "continue",  "else",   "for", "function", "if",
        "import", "let", "loop",  "package", "namespace", "return", "var", "void",     "while"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (is_word(word, words[i]))
            return true;
    }
    return false;
}

static uint16_t parse_word(parser *p)
{
    size_t begin = p->at;
    weir_slice word = peek_word(p);
    p->at += word.len;
    char next = p->at < p->len ? p->text[p->at] : '\0';
    bool quoted = next == '\'' || next == '"';
    if (quoted && (is_word(word, "r") || is_word(word, "R")))
        return parse_string(p, true);
    if (quoted)
        return fail_at(p, begin, "unsupported string prefix '%.*s'", shown(word), word.at);
    if (is_word(word, "true") || is_word(word, "false"))
        return add_leaf(p, begin, CEL_BOOL, word.at[0] == 't');
    if (is_word(word, "null"))
        return add_leaf(p, begin, CEL_NULL, 0);
    if (is_reserved(word))
        return fail_at(p, begin, "expected a value, found the reserved word '%.*s'", (int)word.len,
                       word.at);
    if (accept(p, "("))
        return parse_call(p, begin, word, CEL_NONE);
    return add_name(p, begin, CEL_IDENT, CEL_NONE, word);
}

static uint16_t parse_primary(parser *p)
{
    char c = peek(p);
    size_t begin = p->at;
    if (is_digit(c))
        return parse_number(p);
    if (c == '\'' || c == '"')
        return parse_string(p, false);
    if (is_letter(c))
        return parse_word(p);
    if (accept(p, "["))
        return parse_list(p, begin);
    if (c == '{')
        return fail_at(p, begin, "unsupported map, expected a value");
    if (!accept(p, "("))
        return fail_expected(p, "a value");
    uint16_t node = parse_nested(p);
    return expect(p, ")", "')'") ? node : CEL_NONE;
}

/* `at` is behind the '.'. */
static uint16_t parse_field(parser *p, uint16_t operand)
{
    weir_slice name = peek_word(p);
    size_t begin = p->at;
    if (name.len == 0)
        return fail_expected(p, "the name of a field");
    p->at += name.len;
    if (accept(p, "("))
        return parse_call(p, begin, name, operand);
    return add_name(p, begin, CEL_SELECT, operand, name);
}

static uint16_t parse_member(parser *p)
{
    uint16_t node = parse_primary(p);
    while (!p->failed) {
        size_t begin = p->at;
        if (accept(p, ".")) {
            node = parse_field(p, node);
        } else if (accept(p, "[")) {
            uint16_t index = parse_nested(p);
            if (!expect(p, "]", "']'"))
                return CEL_NONE;
            node = add_op(p, begin, CEL_INDEX, node, index);
        } else {
            break;
        }
    }
    return node;
}

static uint16_t parse_unary(parser *p)
{
    char c = peek(p);
    size_t begin = p->at, n = 0;
    if (c != '!' && c != '-')
        return parse_member(p);
    while (accept(p, c == '!' ? "!" : "-"))
        n++;
    p->negative = c == '-' && is_digit(peek(p)); /* the last sign belongs to the literal */
    n -= p->negative;
    uint16_t node = parse_member(p);
    for (; n > 0 && !p->failed; n--)
        node = add_op(p, begin, c == '!' ? CEL_NOT : CEL_NEGATE, node, CEL_NONE);
    return node;
}

typedef struct binary {
    const char *token; /* "<=" is before "<", its prefix */
    cel_op op;
    unsigned level; /* a higher one binds more tightly */
} binary;

enum { LEVELS = 5 };

static const binary binaries[] = {
    {"||", CEL_OR, 0},
    {"&&", CEL_AND, 1},
    {"==", CEL_EQUAL, 2},
    {"!=", CEL_UNEQUAL, 2},
    {"<=", CEL_LESS_EQUAL, 2},
    {"<", CEL_LESS, 2},
    {">=", CEL_GREATER_EQUAL, 2},
    {">", CEL_GREATER, 2},
    {"+", CEL_ADD, 3},
    {"-", CEL_SUBTRACT, 3},
    {"*", CEL_MULTIPLY, 4},
    {"/", CEL_DIVIDE, 4},
    {"%", CEL_MODULO, 4},
};

/* Skips an operator of a level. */
static bool accept_binary(parser *p, unsigned level, cel_op *ret)
{
    if (level == 2 && is_word(peek_word(p), "in")) {
        p->at += 2;
        *ret = CEL_IN;
        return true;
    }
    for (size_t i = 0; i < sizeof binaries / sizeof binaries[0]; i++) {
        if (binaries[i].level == level && accept(p, binaries[i].token)) {
            *ret = binaries[i].op;
            return true;
        }
    }
    return false;
}

/* A chain of operators of a level, which are left-associative. */
static uint16_t parse_binary(parser *p, unsigned level)
{
    cel_op op = CEL_OR;
    uint16_t node = level == LEVELS ? parse_unary(p) : parse_binary(p, level + 1);
    if (level == LEVELS)
        return node;
    for (size_t begin = p->at; !p->failed && accept_binary(p, level, &op); begin = p->at)
        node = add_op(p, begin, op, node, parse_binary(p, level + 1));
    return node;
}

static uint16_t parse_expression(parser *p)
{
    uint16_t condition = parse_binary(p, 0);
    size_t begin = p->at;
    if (p->failed || !accept(p, "?"))
        return condition;
    uint16_t yes = parse_nested(p);
    if (!expect(p, ":", "':'"))
        return CEL_NONE;
    uint16_t no = parse_nested(p);
    return add_node(p, begin, (cel_node){.op = CEL_CONDITIONAL, .a = condition, .b = yes, .c = no});
}

/* ---- the whole ------------------------------------------------------------------------------- */

static weir_cel *new_tree(size_t len)
{
    weir_cel *c = port_zalloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->node = port_zalloc(len, sizeof *c->node);
    c->text = port_zalloc(len, 1);
    if (c->node && c->text)
        return c;
    weir_cel_free(c);
    return NULL;
}

/* Gives back the memory that the nodes do not need. */
static void shrink(weir_cel *c)
{
    cel_node *node = port_zalloc(c->nodes, sizeof *node);
    if (!node)
        return;
    memcpy(node, c->node, c->nodes * sizeof *node);
    port_free(c->node);
    c->node = node;
}

weir_status weir_cel_parse(weir_cel **ret, weir_slice text, weir_cel_error *ret_error)
{
    parser p = {.text = text.at, .len = text.len, .error = ret_error};
    if (text.len == 0 || text.len > WEIR_CEL_TEXT_MAX || memchr(text.at, '\0', text.len)) {
        fail_at(&p, 0,
                text.len > WEIR_CEL_TEXT_MAX ? "the expression exceeds %d bytes"
                                             : "expected a CEL expression of 1 to %d bytes",
                WEIR_CEL_TEXT_MAX);
        return WEIR_E_SYNTAX;
    }
    p.tree = new_tree(text.len);
    if (!p.tree)
        return WEIR_E_NOMEM;
    p.tree->root = parse_expression(&p);
    if (!p.failed && peek(&p) != '\0')
        fail_expected(&p, "an operator or the end of the expression");
    if (p.failed) {
        weir_cel_free(p.tree);
        return WEIR_E_SYNTAX;
    }
    shrink(p.tree);
    *ret = p.tree;
    return WEIR_OK;
}

void weir_cel_free(weir_cel *c)
{
    if (!c)
        return;
    port_free(c->node);
    port_free(c->text);
    port_free(c);
}
