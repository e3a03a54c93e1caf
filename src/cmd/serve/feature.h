/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SERVE_FEATURE_H
#define WEIR_CMD_SERVE_FEATURE_H
/* A feature is a part of the daemon that only some configurations need: the engines, certificates,
 * guests such as Envoy's service, and so on. features.c has the list of features; daemon.c opens
 * those that are wanted, in the order of the list, and closes them in reverse. */

#include "cmd/config/config.h"
#include "cmd/kit/log.h"
#include "cmd/serve/protocols.h"
#include "port/dial.h"
#include "service/limiter.h"

struct weir_server;

/* What the daemon has when it opens a feature. All of it outlives the feature. */
typedef struct feature_setup {
    const weir_config *config; /* of the start */
    const log_target *log;
    weir_store *store;
    weir_limiter *limiter;
    struct weir_server *const *server; /* written when all features are open */
    char *ret_error;                   /* why, if a feature returns WEIR_E_IO; error_size bytes */
    size_t error_size;
} feature_setup;

/* The functions of a feature; all but `open` may be NULL. `self` is what open() has stored. If that
 * is NULL, the daemon does not have the feature, and calls none of the other functions. */
typedef struct feature {
    bool (*is_wanted)(const weir_config *c); /* NULL: always */
    weir_status (*open)(void **ret_self, const feature_setup *setup);
    void (*close)(void *self);

    /* For each event loop, before the server is opened and after it is closed. open_loop() keeps
     * what it opens in l->part[feature_index()], or in other members of *l. close_loop() accepts a
     * loop whose open_loop() failed. */
    weir_status (*open_loop)(void *self, protocol_loop *l);
    void (*close_loop)(void *self, protocol_loop *l);
    weir_status (*start)(void *self); /* all is open; WEIR_E_NOMEM ends the daemon */
    /* On the thread of the loop, when it begins and ends. */
    void (*begin)(void *self, protocol_loop *l, port_dialer *dialer);
    void (*end)(void *self, protocol_loop *l);
    void (*ended)(void *self); /* the loops have ended, and the server is still open */
    void (*stop)(void *self);  /* the server is closed, and the loops are still there */

    /* rules() returns the rules of a configuration that are not policies. activate() is called once
     * the rules are active, for what refers to them; the configuration is valid until the next one
     * was activated. At most one feature has activate_with() instead, which calls
     * activate_rules(ctx) itself, together with its own activation. */
    const weir_rule_spec *(*rules)(const weir_config *c, size_t *ret_len);
    void (*activate)(void *self, const weir_config *c);
    void (*activate_with)(void *self, const weir_config *c, void (*activate_rules)(void *ctx),
                          void *ctx);

    /* Called before the rules of a configuration are activated. WEIR_E_NOMEM refuses the
     * configuration, and then nothing has changed; so at most one feature has adopt(). */
    weir_status (*adopt)(void *self, const weir_config *c);
    const char *(*watched)(const weir_config *c); /* a path whose changes reload; NULL: none */
    /* After a reload that succeeded.
     *  c  NULL: the daemon has no file, and keeps the configuration of the start. */
    void (*reloaded)(void *self, const weir_config *c);
    void (*refused)(void *self); /* after a reload that was refused */

    void (*tick)(void *self, int64_t now_ns);          /* once a second; port_steady_ns() */
    void (*put_metrics)(void *self, weir_buffer *out); /* threads: any */
    log_pair (*describe)(const weir_config *c);        /* in the events started and reloaded */
} feature;

/* Returns a feature by its place in the list; NULL after the last one. */
const feature *feature_at(size_t i);

/* The place of a feature in the list. */
size_t feature_index(const feature *f);

extern const feature access_feature;  /* access.c */
extern const feature tls_feature;     /* tls_listeners.c */
extern const feature engines_feature; /* features.c */

#endif
