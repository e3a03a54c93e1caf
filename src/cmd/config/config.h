/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_H
#define WEIR_CMD_CONFIG_H
/* The configuration of `weir serve`: a YAML file, read whole, checked whole, and handed out in
 * plain C. docs/configuration.md says what each key means. */

#include "cmd/protocols.h"
#include "codec/http_session.h"
#include "engine/engine.h"
#include "service/rules/rules.h"

#include <weir/weir_store.h>

#include <stdio.h>

enum {
    CONFIG_LISTENS_MAX = 16,
    CONFIG_ADDRESS_MAX = 108, /* with the terminator: the longest path of a Unix socket */
    CONFIG_PASSWORD_MAX = 512,
    CONFIG_NAME_MAX = WEIR_HTTP_NAME_MAX, /* of a header or a query parameter */
    CONFIG_HOPS_MAX = 16,
    CONFIG_HOST_MAX = 253,  /* bytes of a host name, and of an origin */
    CONFIG_NAMES_MAX = 256, /* host names, and origins */
    CONFIG_FILE_MAX = 16 << 20,
    CONFIG_ERRORS_MAX = 50, /* told of one file */
};

/* ---- what it says ---------------------------------------------------------------------------- */

typedef struct config_listen {
    protocol_kind protocol;
    bool is_public;                   /* other machines may reach it */
    char address[CONFIG_ADDRESS_MAX]; /* "127.0.0.1:6380", "[::1]:6380", "/run/weir/weir.sock" */
} config_listen;

typedef enum config_key_from {
    CONFIG_KEY_UNSET,
    CONFIG_KEY_HEADER,
    CONFIG_KEY_QUERY
} config_key_from;

/* Where an HTTP request has its key if it names none. */
typedef struct config_http_key {
    config_key_from from;
    char name[CONFIG_NAME_MAX + 1]; /* of the header or the parameter, as written */
    unsigned hops; /* header: 0: the whole value; 1..CONFIG_HOPS_MAX: that element of the
                      comma-separated list, from the right */
} config_http_key;

typedef struct weir_config {
    config_listen listens[CONFIG_LISTENS_MAX];
    size_t listens_len; /* 1 or more */

    char password[CONFIG_PASSWORD_MAX + 1]; /* terminated; never to be printed */
    size_t password_len;                    /* 0: none */
    bool insecure;

    unsigned threads; /* 1..256; 0: as many as there are cores */
    uint64_t memory_bytes, memory_large_bytes;
    const char *state_file; /* NULL: the state is in memory alone */
    weir_sync sync;         /* of the file */
    weir_when_full when_full;
    bool shared;       /* the file */
    bool trust_others; /* other users may own or write the file */

    int connections;
    uint64_t buffers_bytes;
    int64_t idle_ns, request_ns, write_ns, drain_ns; /* 0: never; drain_ns: do not wait */

    config_http_key http_key;
    weir_http_names http_hosts, http_origins;

    int top_keys; /* of a list of the keys that weigh most; 0: they are not weighed */
    uint64_t top_memory_bytes;
    bool top_metrics; /* /metrics names them */

    weir_engine_kind engine;  /* of policies that name none, of policies by text, of CL.THROTTLE */
    bool has_redis;           /* there is a server to ask; else no rule has another engine */
    weir_redis_options redis; /* good, if there is; without ret_error */
    weir_hybrid_options hybrid;

    const weir_rule_spec *rules; /* in the order of the file, with parsed policies */
    size_t rules_len;            /* 0..WEIR_RULES_MAX */

    struct config_memory *memory; /* what rules points into */
} weir_config;

/* ---- what is wrong with it ------------------------------------------------------------------- */

/* One thing that is wrong. All texts are good until the sink returns. They may hold any bytes of
 * the file, but no password. */
typedef struct config_problem {
    const char *file;
    size_t line, column; /* from 1, in characters; 0: it is about the file as a whole */
    const char *path;    /* "policies.api.limit"; "": about no key */
    const char *text;    /* what is wrong, and what was expected */
    const char *source;  /* the line of the file, source_len bytes; NULL if line is 0 */
    size_t source_len;
    size_t source_at; /* the place in it, 0..source_len */
    bool warning;     /* the configuration can be used all the same */
} config_problem;

typedef struct config_sink {
    void (*tell)(void *ctx, const config_problem *problem);
    void *ctx;
} config_sink;

/* Prints "FILE:LINE:COL: error: PATH: TEXT", or "warning" in the place of "error", then the line,
 * and a caret below the place. */
void config_problem_print(FILE *out, const config_problem *problem);

/* A sink that does so. */
config_sink config_print_to(FILE *out);

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads a file, "-" for the standard input, which is looked at once: what happens to it afterwards
 * does not matter.
 *  files  whether the files that it names with passwords are read; if not, each password is
 *         "password".
 *  zones  for the policies; NULL knows UTC alone.
 *  sink   told of everything that is wrong; also of a file that cannot be read.
 *  ret    written on WEIR_OK only; for config_free().
 * Returns WEIR_OK; WEIR_E_IO if it cannot be read; WEIR_E_SYNTAX if it is wrong; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status config_load(const char *path, bool files, const weir_zones *zones,
                                       const config_sink *sink, weir_config **ret);

/* As config_load(). A file that is right is then tried on this machine: could the daemon listen on
 * its addresses, use its state file and read its TLS files? Nothing is created or changed.
 *  sink  also receives what would keep the daemon from starting. An address or a state file in use
 *        is a warning, because a running daemon may be using it.
 * Returns WEIR_E_SYNTAX also if the daemon could not start. */
WEIR_NODISCARD weir_status config_load_and_try(const char *path, const weir_zones *zones,
                                               const config_sink *sink, weir_config **ret);

/* Reads `len` bytes as the file `name`; else as config_load().
 *  name  a relative path in the file begins where `name` lies. */
WEIR_NODISCARD weir_status config_parse(const char *bytes, size_t len, const char *name, bool files,
                                        const weir_zones *zones, const config_sink *sink,
                                        weir_config **ret);

/* What holds where no file says otherwise. NULL if there is no memory. */
weir_config *config_default(void);

/* Has all that is local be decided by a server, whatever the file says. False if the URL is wrong:
 * why. */
bool config_use_redis(weir_config *c, const char *url, weir_redis_error *ret_error);

/* Whether both ask the same servers, in the same way. */
bool config_same_redis(const weir_config *a, const weir_config *b);

/* Whether the servers are spoken to with TLS. */
bool config_wants_tls(const weir_config *c);

void config_free(weir_config *c); /* accepts NULL; the password is wiped */

#endif
