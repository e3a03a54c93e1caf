/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_H
#define WEIR_CMD_CONFIG_H
/* The configuration of `weir serve`: a YAML file, read and checked as a whole, and stored in plain
 * C. docs/configuration.md describes the keys; keys.h has them as tables. */

#include "cmd/kit/log.h"
#include "cmd/yaml/yaml.h"
#include "codec/http/options.h"
#include "engine/engine.h"
#include "service/rules/rule.h"
#include "service/users/users.h"

#include <weir/weir_store.h>

#include <stdio.h>

/* The protocols of this program, and after them those that guests bring, in the order of the
 * guests. */
typedef enum protocol_kind {
    PROTOCOL_RESP,
    PROTOCOL_HTTP,
    PROTOCOL_GRPC,
    PROTOCOLS_OWN,
    PROTOCOLS_MAX = PROTOCOLS_OWN + 4
} protocol_kind;

/* What a configuration knows of a protocol; cmd/serve/protocols.c has its functions. */
typedef struct protocol_name {
    const char *name;             /* in weir.yaml (listen.NAME), the log, the metrics */
    const char *default_address;  /* used if weir.yaml has no `listen`; NULL: off */
    const char *without_password; /* the name in errors of one that has no password; else NULL */
    bool has_headers;             /* answers have rate limit headers, or the same as variables */
} protocol_name;

/* The name of a protocol; NULL after the last one. */
const protocol_name *config_protocol(protocol_kind kind);

enum {
    CONFIG_INCLUDES_MAX = 4, /* files and patterns of the key `include` */
    CONFIG_FILE_LISTENS_MAX = 16,
    CONFIG_LISTENS_MAX =
        CONFIG_FILE_LISTENS_MAX + PROTOCOLS_MAX, /* with those of the command line */
    CONFIG_ADDRESS_MAX = 108, /* with the terminator: the longest path of a Unix socket */
    CONFIG_PASSWORD_MAX = 512,
    CONFIG_NAME_MAX = WEIR_HTTP_NAME_MAX, /* of a header or a query parameter */
    CONFIG_HOPS_MAX = 16,
    CONFIG_HOST_MAX = 253,  /* bytes of a host name, and of an origin */
    CONFIG_NAMES_MAX = 256, /* host names, and origins */
    CONFIG_FILE_MAX = 16 << 20,
    CONFIG_GUESTS_MAX = 8,
};

/* ---- values ---------------------------------------------------------------------------------- */

/* The PEM files of a TLS listener; see net_tls_server_files. */
typedef struct config_tls {
    const char *cert, *key; /* NULL: no TLS */
    const char *client_ca;  /* NULL: clients need no certificate */
} config_tls;

typedef enum config_tls_choice {
    CONFIG_TLS_DEFAULT, /* the top-level key `tls` */
    CONFIG_TLS_OFF,
    CONFIG_TLS_OWN
} config_tls_choice;

typedef struct config_listen {
    protocol_kind protocol;
    config_tls_choice tls_choice;     /* a Unix socket never uses TLS */
    config_tls tls;                   /* if tls_choice is CONFIG_TLS_OWN */
    bool is_public;                   /* reachable from other machines */
    bool proxy_protocol;              /* connections begin with a PROXY header */
    const char *user;                 /* that all its clients are; NULL: they log in */
    weir_answer answer;               /* unset members are those of weir_config.answer */
    char address[CONFIG_ADDRESS_MAX]; /* "127.0.0.1:6380", "[::1]:6380", "/run/weir/weir.sock" */
} config_listen;

typedef enum config_key_from {
    CONFIG_KEY_UNSET,
    CONFIG_KEY_HEADER,
    CONFIG_KEY_QUERY
} config_key_from;

/* Where the key of an HTTP request is, if the request does not have it as a parameter. */
typedef struct config_http_key {
    config_key_from from;
    const char *name; /* of the header or the query parameter, as written */
    unsigned hops;    /* 0: the whole header; n: the n-th element of a comma-separated list, counted
                         from the right, 1..CONFIG_HOPS_MAX */
} config_http_key;

typedef struct weir_config {
    config_listen listens[CONFIG_LISTENS_MAX];
    size_t listens_len; /* 1 or more */
    config_tls tls;     /* of the TCP listeners without a choice of their own */

    const char *password; /* NULL: none; never printed */
    bool insecure;        /* public addresses need no password */
    /* Those of the section `users`, in the order of the file, and `default` with `password`. */
    const weir_user_spec *users;
    size_t users_len;  /* 0: every client may do everything */
    bool users_single; /* the section is empty */

    unsigned threads; /* 1..256; 0: port_cores() */
    uint64_t memory_bytes, memory_large_bytes;
    const char *state_file; /* NULL: in memory only */
    weir_sync sync;         /* of the state file, as the next two */
    bool shared;            /* by several processes */
    bool trust_others;      /* other users may own or write it */
    weir_when_full when_full;
    bool prefault; /* not with a state file */

    const char *hand_over; /* where a new process asks for the sockets; NULL: nowhere */

    int64_t clock_step_above_ns; /* INT64_MAX: weir's clock never steps */

    int connections;
    int per_address; /* 0: no limit */
    uint64_t buffers_bytes;
    bool has_per_address, has_buffers;     /* they are given, and do not follow from others */
    int64_t idle_ns, request_ns, write_ns; /* 0: no timeout */
    int64_t grace_ns;                      /* see config_grace_ns() */
    bool has_grace;                        /* it is given */
    int64_t drain_ns;                      /* 0: no wait */

    config_http_key http_key;
    weir_encoded_slash encoded_slash; /* in the paths of routes and of proxies' requests */
    weir_http_names http_hosts, http_origins;
    const char *http_client_header; /* NULL: X-Forwarded-For; see config_client_header() */
    weir_trusted_proxies trusted_proxies;
    weir_answer answer; /* of every response to a decision, unless a listener or a policy differs */

    weir_log_level log_level;
    bool log_json;

    int top_keys; /* of each list of top keys; 0: no lists */
    uint64_t top_memory_bytes;
    bool top_metrics; /* /metrics includes the top keys */

    weir_engine_kind engine;  /* of policies that name none, of inline policies, of CL.THROTTLE */
    bool has_redis;           /* `redis` is valid; if not, all rules have the local engine */
    weir_redis_options redis; /* without ret_error */
    weir_hybrid_options hybrid;

    int64_t grpc_max_age_ns, grpc_max_age_grace_ns; /* of a connection; 0: no limit */

    const weir_rule_spec *rules;   /* in the order of the file; unique names, all valid */
    size_t rules_len;              /* 0..WEIR_RULES_MAX */
    const weir_route_spec *routes; /* in the order of the file; all valid */
    size_t routes_len;             /* 0..WEIR_ROUTES_MAX */
    /* The memory of the rules that have memory of their own. */
    weir_store_partition partitions[WEIR_PARTITIONS_MAX];
    size_t partitions_len;

    void *guest[CONFIG_GUESTS_MAX]; /* the options of each guest: config_options() */

    /* The files and directories whose changes change what `include` stands for; NULL: none. */
    const char *include[CONFIG_INCLUDES_MAX];
    const config_node *tree;  /* the keys as they were read; NULL: no file */
    struct weir_config *next; /* in a list of the owner */
    weir_arena *arena;        /* owns all strings and rules */
} weir_config;

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads and checks a configuration file; "-" is the standard input.
 *  files  whether the files that it names, such as password_file, are opened. If not, each password
 *         from a file is "password".
 *  zones  for the policies; NULL knows UTC only.
 *  sink   receives each error and warning, in the order of the file.
 *  ret    written on WEIR_OK only; for config_free().
 * Returns WEIR_OK; WEIR_E_IO if the file cannot be read; WEIR_E_SYNTAX if it is invalid;
 * WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status config_load(const char *path, bool files, const weir_zones *zones,
                                       const config_sink *sink, weir_config **ret);

/* As config_load(). A valid file is then checked against this machine: can the daemon listen on its
 * addresses, use its state file and read its TLS files? Nothing is created or changed.
 *  sink  also receives what would keep the daemon from starting. An address or a state file in use
 *        is a warning, because a running daemon may be using it.
 * Returns WEIR_E_SYNTAX also if the daemon could not start. */
WEIR_NODISCARD weir_status config_load_and_preflight(const char *path, const weir_zones *zones,
                                                     const config_sink *sink, weir_config **ret);

/* Reads the environment variables that a guest knows (config_guest.apply_environment), and then a
 * file, whose keys win; otherwise as config_load().
 *  path  NULL: no file.
 *  env   as `environ`. */
WEIR_NODISCARD weir_status config_load_environment(const char *path, char *const *env,
                                                   const weir_zones *zones, const config_sink *sink,
                                                   weir_config **ret);

/* As config_load() with a file that only names a directory of limits (config_guest.set_directory).
 */
WEIR_NODISCARD weir_status config_load_limits(const char *directory, const weir_zones *zones,
                                              const config_sink *sink, weir_config **ret);

/* Reads a configuration from memory; otherwise as config_load().
 *  name  for messages. Relative paths in the file are relative to the directory of `name`. */
WEIR_NODISCARD weir_status config_parse(const char *bytes, size_t len, const char *name, bool files,
                                        const weir_zones *zones, const config_sink *sink,
                                        weir_config **ret);

/* Returns the configuration of an empty file. NULL if memory is exhausted. */
weir_config *config_default(void);

/* Frees a configuration, and wipes its passwords. Accepts NULL. */
void config_free(weir_config *c);

/* Prints a valid configuration as one YAML file (weir check --print): included files and variables
 * are replaced by what they stand for, keys that are not set are comments with their defaults, and
 * secrets are asterisks. */
void config_print(const weir_config *c, FILE *out);

/* Prints the JSON Schema of weir.yaml, for editors (weir check --schema). */
void config_print_schema(FILE *out);

/* ---- using ----------------------------------------------------------------------------------- */

/* Replaces the engine `local` by `redis` with this server, everywhere (`weir serve --redis`).
 * Returns false if the URL is invalid, with the reason in *ret_error. */
bool config_use_redis(weir_config *c, const char *url, weir_redis_error *ret_error);

/* The defaults of limits that follow from others: a tenth of the connections; 256 MiB, or what idle
 * connections take of the listener where they take most. */
int config_default_per_address(const weir_config *c);
uint64_t config_default_buffers(const weir_config *c);

/* The TLS files of a listener; NULL if it accepts plain text. */
const config_tls *config_listen_tls(const weir_config *c, const config_listen *l);

/* Whether the same files are named, also if they have other paths. Adding or removing a file needs
 * a restart: for example, without client_ca a listener needs a password, which is read at the
 * start. */
bool config_same_tls(const config_tls *a, const config_tls *b);

/* The header in which trusted proxies report the client, and how it is read. NULL if no proxy is
 * trusted. */
const char *config_client_header(const weir_config *c);

/* How long a daemon that received SIGTERM accepts connections: limits.grace. Without that key, it
 * is 0 if no other machine can connect: then there is no load balancer to wait for. */
int64_t config_grace_ns(const weir_config *c);
weir_client_header config_client_kind(const weir_config *c);

/* Replaces the listeners by those of another configuration, with which the daemon was started. Each
 * keeps what needs no restart, if it is in both: the answer.
 *  start  outlives c. */
void config_keep_listens(weir_config *c, const weir_config *start);

/* Whether a policy or a limit has the engine, or those that name none. */
bool config_uses_engine(const weir_config *c, weir_engine_kind engine);

/* Whether connections to the servers use TLS. */
bool config_wants_tls(const weir_config *c);

/* Calls changed() for each key of the file that has another value in `b`, or that only one of the
 * two has: "threads", or within a section "limits.idle" and "policies.login". Nothing without
 * files. */
void config_each_edit(const weir_config *a, const weir_config *b,
                      void (*changed)(void *ctx, const char *key), void *ctx);

/* Calls changed() for each top-level key that has another value in `b` than in `a` and takes effect
 * at the next start only, and for the `memory` of each policy, such as "policies.login.memory". */
void config_each_change(const weir_config *a, const weir_config *b,
                        void (*changed)(void *ctx, const char *key), void *ctx);

#endif
