/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Texts of the configuration, which have a length and no NUL. */

#include "arguments.h"

#include "codec/answer/fields.h"
#include "port/assert.h"

#include <ctype.h>
#include <string.h>

bool weir_ngx_is_same(const ngx_str_t *a, const ngx_str_t *b)
{
    return a->len == b->len && ngx_memcmp(a->data, b->data, a->len) == 0;
}

bool weir_ngx_is(const ngx_str_t *text, const char *word)
{
    return text->len == strlen(word) && ngx_memcmp(text->data, word, text->len) == 0;
}

bool weir_ngx_is_off(const ngx_conf_t *cf)
{
    const ngx_str_t *args = cf->args->elts;
    return cf->args->nelts == 2 && weir_ngx_is(&args[1], "off");
}

size_t weir_ngx_choice(const ngx_str_t *text, const char *const words[], size_t n)
{
    size_t i = 0;
    while (i < n && !weir_ngx_is(text, words[i]))
        i++;
    return i;
}

bool weir_ngx_is_name(const ngx_str_t *text)
{
    size_t good = 0;
    while (good < text->len && text->data[good] < 0x80 &&
           (isalnum(text->data[good]) || (text->data[good] && strchr("-_.:/", text->data[good]))))
        good++;
    return good > 0 && good == text->len && good <= WEIR_RATELIMIT_NAME_MAX;
}

/* ---- parameters ------------------------------------------------------------------------------ */

bool weir_ngx_is_parameter(const ngx_str_t *arg, const char *name, ngx_str_t *ret_value)
{
    size_t len = strlen(name);
    WEIR_ASSERT(len > 1 && name[len - 1] == '=');
    if (arg->len < len || ngx_memcmp(arg->data, name, len) != 0)
        return false;
    *ret_value = (ngx_str_t){arg->len - len, arg->data + len};
    return true;
}

ngx_str_t weir_ngx_parameter_name(const ngx_str_t *arg)
{
    const u_char *end = arg->len > 0 ? memchr(arg->data, '=', arg->len) : NULL;
    return (ngx_str_t){end ? (size_t)(end - arg->data) : arg->len, arg->data};
}

bool weir_ngx_is_first(ngx_conf_t *cf, ngx_uint_t first, ngx_uint_t i)
{
    const ngx_str_t *args = cf->args->elts;
    ngx_str_t name = weir_ngx_parameter_name(&args[i]);
    bool has_value = name.len < args[i].len;
    WEIR_ASSERT(i < cf->args->nelts);
    for (ngx_uint_t j = first; j < i; j++) {
        ngx_str_t before = weir_ngx_parameter_name(&args[j]);
        if (!weir_ngx_is_same(&before, &name) || has_value != (before.len < args[j].len))
            continue;
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate parameter \"%*s\"",
                           name.len + has_value, name.data);
        return false;
    }
    return true;
}

bool weir_ngx_copy(ngx_conf_t *cf, const void *text, size_t len, ngx_str_t *ret)
{
    *ret = (ngx_str_t){len, ngx_pnalloc(cf->pool, len)};
    if (ret->data)
        ngx_memcpy(ret->data, text, len);
    return ret->data != NULL;
}
