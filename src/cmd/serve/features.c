/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The list of features: those of the guests follow the users and TLS, in the order of the
 * guests. A feature that uses another one follows it. */

#include "cmd/serve/feature.h"

#include "cmd/config/keys.h"
#include "cmd/serve/parts.h"
#include "port/assert.h"
#include "service/top/top.h"

/* ---- the top keys ---------------------------------------------------------------------------- */

static bool wants_top(const weir_config *c)
{
    return c->top_keys > 0;
}

static weir_status open_top(void **ret_self, const feature_setup *s)
{
    const weir_top_options top = {(size_t)s->config->top_keys, (size_t)s->config->top_memory_bytes};
    (void)ret_self; /* the limiter has it */
    return weir_limiter_enable_top(s->limiter, &top);
}

static const feature top_feature = {.is_wanted = wants_top, .open = open_top};

/* ---- the engines ----------------------------------------------------------------------------- */

static weir_status open_engines(void **ret_self, const feature_setup *s)
{
    engines *e = NULL;
    weir_status st = engines_open(&e, s->config, s->store, s->log, s->ret_error, s->error_size);
    *ret_self = e;
    return st;
}

static void close_engines(void *self)
{
    engines_close(self);
}

static void begin_engines(void *self, protocol_loop *l, port_dialer *dialer)
{
    engines_begin(self, l->i, l->service, dialer);
}

static void end_engines(void *self, protocol_loop *l)
{
    engines_end(self, l->i, l->service);
}

static void put_engines_metrics(void *self, weir_buffer *out)
{
    engines_put_metrics(self, out);
}

const feature engines_feature = {.open = open_engines,
                                 .close = close_engines,
                                 .begin = begin_engines,
                                 .end = end_engines,
                                 .put_metrics = put_engines_metrics};

/* ---- the list -------------------------------------------------------------------------------- */

static bool never(const weir_config *c)
{
    (void)c;
    return false;
}

/* The feature of a guest that was left out of the build: never wanted. */
static const feature none = {.is_wanted = never};
static const feature *const first[] = {&access_feature, &tls_feature};
static const feature *const last[] = {&engines_feature, &top_feature};
enum { FIRST = sizeof first / sizeof first[0], LAST = sizeof last / sizeof last[0] };
_Static_assert(FIRST + CONFIG_GUESTS_MAX + LAST <= FEATURES_MAX, "each has a place");

const feature *feature_at(size_t i)
{
    size_t guests = 0;
    while (config_guest_at(guests))
        guests++;
    WEIR_ASSERT(FIRST + guests + LAST <= FEATURES_MAX);
    if (i < FIRST)
        return first[i];
    if (i < FIRST + guests)
        return config_guest_at(i - FIRST)->feature ? config_guest_at(i - FIRST)->feature : &none;
    return i < FIRST + guests + LAST ? last[i - FIRST - guests] : NULL;
}

size_t feature_index(const feature *f)
{
    size_t i = 0;
    while (feature_at(i) && feature_at(i) != f)
        i++;
    WEIR_ASSERT(feature_at(i));
    return i;
}
