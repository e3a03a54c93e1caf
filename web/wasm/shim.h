/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEB_SHIM_H
#define WEIR_WEB_SHIM_H
/* What the files of the WebAssembly bindings share. weir.mjs calls the functions defined with
 * EXPORT. */

#include <weir/weir.h>

/* Defines a function that weir.mjs calls, under its own name. */
#define EXPORT(type, name, ...)                                                                    \
    __attribute__((export_name(#name))) type name(__VA_ARGS__);                                    \
    type name(__VA_ARGS__)

/* The state of one key. */
typedef struct weir_web_key {
    const weir_policy *policy;
    uint64_t *state;
    unsigned level;
} weir_web_key;

/* Calls weir_check_keep(), and enlarges the state if needed.
 *  ret  written only on WEIR_OK.
 * Returns also WEIR_E_NOMEM, with nothing charged, if a log cannot grow. */
weir_status weir_web_decide(weir_web_key *k, int64_t now_ns, int64_t cost, int64_t keep,
                            weir_decision *ret);

/* Copies a terminated text to the text buffer. Returns its length. */
size_t weir_web_put_text(const char *s);

#endif
