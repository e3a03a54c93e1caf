/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_NGINX_ARGUMENTS_H
#define WEIR_MODULES_NGINX_ARGUMENTS_H
/* The arguments of directives: words, names and parameters, and the place of a directive. Knows no
 * directive, and nothing of HTTP. */

/* Before all headers of the system: it defines _GNU_SOURCE. */
#include <ngx_config.h>

#include <ngx_core.h>

#include <stdbool.h>

/* A place in the configuration, for errors that are found after it was read. */
typedef struct weir_ngx_place {
    ngx_str_t file;
    ngx_uint_t line;
} weir_ngx_place;

static inline weir_ngx_place weir_ngx_place_of(const ngx_conf_t *cf)
{
    return (weir_ngx_place){cf->conf_file->file.name, cf->conf_file->line};
}

/* A macro. Logs a configuration error, from a format and its arguments. Evaluates to
 * NGX_CONF_ERROR. */
#define weir_ngx_refuse(cf, ...)                                                                   \
    (ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, __VA_ARGS__), NGX_CONF_ERROR)

/* Whether two texts are the same. */
bool weir_ngx_is_same(const ngx_str_t *a, const ngx_str_t *b);

/* Whether a text is this word. */
bool weir_ngx_is(const ngx_str_t *text, const char *word);

/* Whether the directive has the only argument `off`. */
bool weir_ngx_is_off(const ngx_conf_t *cf);

/* The index of a text among n words; n: it is none of them. */
size_t weir_ngx_choice(const ngx_str_t *text, const char *const words[], size_t n);

/* Whether a text can be the name of a zone or a limit: 1 to 64 letters, digits and - _ . : / as in
 * weir.yaml. So names need no escaping anywhere. */
bool weir_ngx_is_name(const ngx_str_t *text);

/* Whether an argument is the parameter `name`, which ends in '='. If so, sets *ret_value to what
 * follows, which may be empty. */
bool weir_ngx_is_parameter(const ngx_str_t *arg, const char *name, ngx_str_t *ret_value);

/* Checks that no argument from `first` on and before argument i has the same name, that is, the
 * same text up to '='. Otherwise logs a configuration error. */
bool weir_ngx_is_first(ngx_conf_t *cf, ngx_uint_t first, ngx_uint_t i);

/* The name of a parameter, without '=' and its value, which may be a secret. */
ngx_str_t weir_ngx_parameter_name(const ngx_str_t *arg);

/* Copies a text into memory of the configuration. Returns false if that is exhausted. */
bool weir_ngx_copy(ngx_conf_t *cf, const void *text, size_t len, ngx_str_t *ret);

#endif
