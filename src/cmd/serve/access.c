/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The users of the daemon, and the access of each event loop: what sessions ask, and the failures
 * that they report. It must not know any protocol. */

#include "cmd/config/keys.h"
#include "cmd/serve/feature.h"
#include "cmd/serve/parts.h"
#include "net/server.h"
#include "port/port.h"

typedef struct access_part {
    auth_failures *failures;
    weir_users *users;
} access_part;

/* ---- callbacks of a loop's sessions ---------------------------------------------------------- */

static const config_listen *listen_of(const protocol_loop *l, const void *peer)
{
    return &l->config->listens[weir_server_listener(peer)];
}

static bool wrong_password(void *ctx, const void *peer)
{
    const protocol_loop *l = ctx;
    char text[WEIR_PEER_TEXT_MAX];
    weir_server_peer(peer, text);
    return auth_failures_add(l->failures, listen_of(l, peer)->protocol, text, port_steady_ns());
}

static void denied(void *ctx, const void *peer, const weir_user *user, unsigned rights)
{
    const protocol_loop *l = ctx;
    char text[WEIR_PEER_TEXT_MAX];
    weir_server_peer(peer, text);
    const auth_denial d = {listen_of(l, peer)->protocol, text, user ? weir_user_name(user) : "",
                           rights ? weir_right_word(rights) : "policies or keys"};
    auth_failures_add_denial(l->failures, &d, port_steady_ns());
}

static const char *bound_to(void *ctx, const void *peer)
{
    return listen_of(ctx, peer)->user;
}

static bool is_certified(void *ctx, const void *peer, const char *name)
{
    (void)ctx;
    return weir_server_peer_has_name(peer, name);
}

/* ---- the feature ----------------------------------------------------------------------------- */

/* How many replies to wrong passwords may be delayed per second. A delay takes a second, so at most
 * twice as many are delayed at once: a quarter of the connections. */
static uint64_t held_max_of(const weir_config *c)
{
    return (uint64_t)c->connections / 8 + 1;
}

static weir_status adopt(void *self, const weir_config *c)
{
    const access_part *p = self;
    weir_status st = weir_users_set(p->users, c->users, c->users_len, c->users_single);
    if (st == WEIR_OK)
        auth_failures_set_held_max(p->failures, held_max_of(c));
    return st;
}

static weir_status open_access(void **ret_self, const feature_setup *s)
{
    access_part *p = port_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_E_NOMEM;
    *ret_self = p;
    weir_status st = auth_failures_open(&p->failures, s->log, held_max_of(s->config));
    if (st == WEIR_OK)
        st = weir_users_open(&p->users);
    return st;
}

static void close_access(void *self)
{
    access_part *p = self;
    auth_failures_close(p->failures);
    weir_users_close(p->users);
    port_free(p);
}

static weir_status open_loop(void *self, protocol_loop *l)
{
    const access_part *p = self;
    l->failures = p->failures;
    l->access = (weir_access){.users = p->users,
                              .wrong_password = wrong_password,
                              .denied = denied,
                              .bound_to = bound_to,
                              .is_certified = is_certified,
                              .ctx = l};
    weir_access_refresh(&l->access);
    return WEIR_OK;
}

static void close_loop(void *self, protocol_loop *l)
{
    (void)self;
    weir_access_close(&l->access);
}

static void tick(void *self, int64_t now_ns)
{
    auth_failures_tick(((access_part *)self)->failures, now_ns);
}

static void put_metrics(void *self, weir_buffer *out)
{
    auth_failures_put_metrics(((access_part *)self)->failures, out);
}

const feature access_feature = {.open = open_access,
                                .close = close_access,
                                .open_loop = open_loop,
                                .close_loop = close_loop,
                                .adopt = adopt,
                                .tick = tick,
                                .put_metrics = put_metrics};
