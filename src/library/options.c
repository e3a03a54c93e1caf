/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The copy is one block: the options, the list of URLs, then every text. */

#include "library/options.h"

#include "net/tls.h"
#include "port/port.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The texts that are single, by where they are. */
static const char **texts(weir_redis_options *o, size_t i)
{
    const char **all[] = {
        &o->user,   &o->password, &o->sentinel, &o->sentinel_user, &o->sentinel_password,
        &o->prefix, &o->tls_ca,   &o->tls_cert, &o->tls_key,       &o->tls_name};
    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *copy(char **to, const char *text)
{
    size_t size = size_of(text);
    if (size == 0)
        return NULL;
    const char *at = memcpy(*to, text, size);
    *to += size;
    return at;
}

weir_redis_options *weir_redis_options_copy(const weir_redis_options *options)
{
    weir_redis_options from = *options;
    size_t size = sizeof from + from.urls_len * sizeof *from.urls;
    for (size_t i = 0; i < from.urls_len; i++)
        size += size_of(from.urls[i]);
    for (size_t i = 0; texts(&from, i); i++)
        size += size_of(*texts(&from, i));

    weir_redis_options *o = port_zalloc(1, size);
    if (!o)
        return NULL;
    const char **urls = (const char **)(void *)(o + 1);
    char *to = (char *)(urls + from.urls_len);
    *o = from;
    for (size_t i = 0; i < from.urls_len; i++)
        urls[i] = copy(&to, from.urls[i]);
    o->urls = urls;
    for (size_t i = 0; texts(o, i); i++)
        *texts(o, i) = copy(&to, *texts(o, i));
    o->zones = NULL;
    o->ret_error = NULL;
    return o;
}

weir_status weir_redis_options_tls(const weir_redis_options *options, port_tls **ret,
                                   weir_redis_error *ret_error)
{
    bool wanted = false;
    *ret = NULL;
    for (size_t i = 0; i < options->urls_len; i++)
        wanted = wanted || strncasecmp(options->urls[i], "rediss://", 9) == 0;
    if (!wanted)
        return WEIR_OK;
    return net_tls_open(ret, options->tls_ca, options->tls_cert, options->tls_key,
                        options->tls_insecure, ret_error->text, sizeof ret_error->text);
}
