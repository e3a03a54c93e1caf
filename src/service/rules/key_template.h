/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_KEY_TEMPLATE_H
#define WEIR_SERVICE_RULES_KEY_TEMPLATE_H
/* Key templates: texts such as "$client/$header.x-api-key", which say what the key of a request is
 * made of. The protocol of the request supplies the values. This file must not know where values
 * come from.
 *
 * A variable is '$' and a name of letters, digits and _ . - that neither begins nor ends with '.'
 * or '-'; the longest such name is taken. "${name}" separates a name from the text after it, and
 * "${name|lower|trim}" has filters of its value. "$$" is a dollar sign. Between two variables there
 * is a text with a byte that is neither '%' nor one of 0-9 A-F: it separates their values. */

#include "port/text.h"

#include <weir/weir.h>

#define WEIR_KEY_TEMPLATE_MAX       512 /* bytes of a template */
#define WEIR_KEY_TEMPLATE_PARTS_MAX 16  /* variables, and texts between them */
#define WEIR_KEY_TEMPLATE_NAME_MAX  64  /* bytes of a variable's name */

/* The variables of a request's header, cookie or query parameter are these and its name:
 * "header.x-api-key". */
#define WEIR_KEY_HEADER "header."
#define WEIR_KEY_COOKIE "cookie."
#define WEIR_KEY_QUERY  "query."

typedef struct weir_key_template weir_key_template;

/* Parses a template.
 *  ret        for weir_key_template_free(); written on WEIR_OK only. The text is copied.
 *  ret_error  written on WEIR_E_SYNTAX: what was expected and found. error_size bytes.
 *  ret_at     written on WEIR_E_SYNTAX: the offset of the error in the text.
 * Returns WEIR_OK; WEIR_E_SYNTAX, also for a template without a variable; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_key_template_parse(weir_key_template **ret, const char *text,
                                                   size_t len, char *ret_error, size_t error_size,
                                                   size_t *ret_at);

/* Accepts NULL. */
void weir_key_template_free(weir_key_template *t);

/* The number of variables, and the name of variable i. The slice is NUL-terminated. */
size_t weir_key_template_len(const weir_key_template *t);
weir_slice weir_key_template_name(const weir_key_template *t, size_t i);

/* Whether a variable begins with one of the texts above. *ret_rest is the name behind it. Pure. */
bool weir_key_template_is(weir_slice variable, const char *prefix, weir_slice *ret_rest);

/* The header that the value of a variable is in. Returns false if it is in none. Pure. */
bool weir_key_template_header(weir_slice variable, weir_slice *ret);

/* The value of a variable. Returns false if the request has none, such as a header that is absent:
 * the value is then empty.
 *  name        of the variable.
 *  ret         written on success; valid until the key is complete.
 *  is_address  set to true if the value is an IP address, so that it counts as its network; false
 *              at the call. */
typedef bool weir_key_value(void *ctx, weir_slice name, weir_slice *ret, bool *is_address);

/* How many leading bits of an address are kept; 0: all of them. */
typedef struct weir_key_template_bits {
    unsigned v4, v6;
} weir_key_template_bits;

/* Writes the key. The filter `lower` makes A-Z of a value a-z, and `trim` removes spaces and tabs
 * at its ends. A template of a single variable gives its value. Otherwise different values never
 * give the same key: in each value, '%' and the byte that separates it from the next value are
 * written as %XX, and an address is masked. The key of such a template is never an IP address.
 *  bits  of an address that count.
 *  buf   size bytes.
 * Returns the length; 0 if every value is empty, or the key needs more than `size` or WEIR_KEY_MAX
 * bytes. */
size_t weir_key_template_write(const weir_key_template *t, weir_key_template_bits bits,
                               weir_key_value *value, void *ctx, char *buf, size_t size);

#endif
