/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_REDIS_H
#define WEIR_WEIR_REDIS_H
/* libweir-redis keeps the states of keys in Redis or Valkey, where several machines share them. The
 * server takes each decision as one atomic step, by the same policies as weir_check().
 *
 *     const char *url = "redis://127.0.0.1:6379";
 *     weir_redis_options o = {.urls = &url, .urls_len = 1};
 *     weir_redis *r;
 *     weir_redis_answer a;
 *     if (weir_redis_open(&r, &o) == WEIR_OK &&
 *         weir_redis_check(r, &p, "alice", 5, 1, &a) == WEIR_OK && a.decision.allowed) ...
 *
 * The server needs no preparation. If it has loaded the weir module, the module decides. Otherwise
 * the library loads its functions into the server, or, before Redis 7, a script.
 *
 * A weir_redis has a thread of its own for its connections. After fork(), the child must neither
 * use nor close the parent's weir_redis, but may open its own. The time zones of policies must
 * outlive it. Link with -lweir-redis -lweir (pkg-config weir-redis). */

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* The answer to a request when no server replies in time. */
typedef enum weir_redis_on_error {
    WEIR_REDIS_OPEN,   /* allowed, with the full quota */
    WEIR_REDIS_CLOSED, /* denied */
    WEIR_REDIS_LOCAL   /* decided and charged in this process's memory */
} weir_redis_on_error;

/* How a server decides. */
typedef enum weir_redis_by {
    WEIR_REDIS_BY_ANY, /* the module if it is loaded, else functions, else a script */
    WEIR_REDIS_BY_MODULE,
    WEIR_REDIS_BY_FUNCTIONS,
    WEIR_REDIS_BY_SCRIPT
} weir_redis_by;

typedef struct weir_redis_error {
    char text[256]; /* one line: what is wrong and what to do */
} weir_redis_error;

#define WEIR_REDIS_URLS_MAX   64
#define WEIR_REDIS_PREFIX_MAX 64 /* bytes */

/* Set `urls` and `urls_len`; everything else may be zero. weir_redis_open() copies all strings. */
typedef struct weir_redis_options {
    /* "redis://[user:password@]host[:port][/database]", the same with "rediss://" for TLS, or
     * "unix:///path/of/socket[?db=n]". "%41" is the byte 0x41. The URLs name one server, some
     * nodes of a Cluster, or, if `sentinel` is set, some Sentinels. */
    const char *const *urls;
    size_t urls_len;             /* 1..WEIR_REDIS_URLS_MAX */
    const char *user, *password; /* NULL: those of the first URL */
    const char *sentinel;        /* the name of the master at the Sentinels; NULL: no Sentinels */
    const char *sentinel_user, *sentinel_password; /* NULL: none */
    const char *prefix; /* of all Redis keys, 0..WEIR_REDIS_PREFIX_MAX bytes; NULL: "weir:" */
    weir_redis_by by;
    int64_t deadline_ns; /* of each request, 1 ms to 60 s; 0: 50 ms */
    size_t in_flight;    /* the maximum number of requests in flight; on_error answers further ones
                            at once. 1..2^20; 0: 16384 */
    weir_redis_on_error on_error;
    size_t deny_cache_bytes;        /* memory of the deny cache, which answers requests for a denied
                                       key until the denial expires; 0: 1 MiB; SIZE_MAX: no cache */
    const char *tls_ca;             /* file with the trusted certificates; NULL: the system's */
    const char *tls_cert, *tls_key; /* files with the client's certificate and key; NULL: none */
    const char *tls_name;           /* the name that the server's certificate must be valid for;
                                       NULL: the URL's host */
    bool tls_insecure;              /* accept any certificate */
    const weir_zones *zones;        /* not used; set to NULL */
    weir_redis_error *ret_error;    /* written if weir_redis_open() fails; may be NULL */
} weir_redis_options;

typedef struct weir_redis weir_redis;

typedef struct weir_redis_answer {
    weir_decision decision; /* times are whole microseconds, rounded up */
    bool by_error;          /* no server replied in time: on_error decided */
} weir_redis_answer;

/* Opens a weir_redis, which connects in the background. Opening succeeds even if no server can be
 * reached.
 *  ret  written on WEIR_OK only.
 * Returns WEIR_OK; WEIR_E_SYNTAX for a bad URL; WEIR_E_RANGE for another bad option; WEIR_E_NOMEM;
 * WEIR_E_IO if a TLS file cannot be read, or if there are no threads or descriptors left. */
WEIR_NODISCARD weir_status weir_redis_open(weir_redis **ret, const weir_redis_options *options);

/* Closes a weir_redis. Requests of weir_redis_check_async() that are in flight are answered by
 * on_error. No other call may be running. Accepts NULL. */
void weir_redis_close(weir_redis *r);

/* Decides whether `cost` units of `key` may pass, charges them if so, and waits for the answer. The
 * decision is that of weir_check() at the server's time. Threads: any.
 *  key   1..65536 bytes, any values. On a Cluster, keys with the same "{tag}" are on one node. IP
 *        addresses are not parsed. To share states with a daemon, write addresses as the daemon
 *        does: "2001:db8::/64" for an IPv6 address, "192.0.2.1" for "::ffff:192.0.2.1".
 *  cost  0..WEIR_COST_MAX.
 *  ret   written on WEIR_OK only.
 * Returns WEIR_OK, also if on_error decided; WEIR_E_RANGE for a bad key or cost;
 * WEIR_E_UNSUPPORTED if the server cannot decide exactly by this policy; WEIR_E_NOMEM; WEIR_E_IO
 * after weir_redis_close() was called. */
WEIR_NODISCARD weir_status weir_redis_check(weir_redis *r, const weir_policy *p, const void *key,
                                            size_t key_len, int64_t cost, weir_redis_answer *ret);

/* Like weir_peek() and weir_refund(), on the state in the server. If no server replies in time, a
 * refund returns WEIR_E_IO, unless on_error is WEIR_REDIS_LOCAL. */
WEIR_NODISCARD weir_status weir_redis_peek(weir_redis *r, const weir_policy *p, const void *key,
                                           size_t key_len, int64_t cost, weir_redis_answer *ret);
WEIR_NODISCARD weir_status weir_redis_refund(weir_redis *r, const weir_policy *p, const void *key,
                                             size_t key_len, int64_t cost, weir_redis_answer *ret);

/* Charges `cost` units that were used already, whether they fit or not; see weir_charge(). If
 * no server replies in time, it returns WEIR_E_IO, unless on_error is WEIR_REDIS_LOCAL. The server
 * may have charged them nevertheless: a repeated call may charge twice.
 * A policy with only concurrent and block layers has nothing to charge: WEIR_E_UNSUPPORTED.
 *  ret_over  written on WEIR_OK only. */
WEIR_NODISCARD weir_status weir_redis_charge(weir_redis *r, const weir_policy *p, const void *key,
                                             size_t key_len, int64_t cost, weir_redis_answer *ret,
                                             int64_t *ret_over);

/* Gives a key its full quota. If no server replies in time, it returns WEIR_E_IO, unless on_error
 * is WEIR_REDIS_LOCAL. */
WEIR_NODISCARD weir_status weir_redis_reset(weir_redis *r, const weir_policy *p, const void *key,
                                            size_t key_len);

/* The callback of weir_redis_check_async(). It runs on the thread of the weir_redis, and must not
 * block it. It may call weir_redis_check_async(), which returns WEIR_E_IO after weir_redis_close()
 * was called.
 *  ret  NULL unless the status is WEIR_OK; valid until the callback returns. */
typedef void (*weir_redis_fn)(void *ctx, weir_status status, const weir_redis_answer *ret);

/* The same as weir_redis_check(), but does not wait: calls fn once. *p and the key are copied.
 * Returns WEIR_OK; any other status means that fn is not called. */
WEIR_NODISCARD weir_status weir_redis_check_async(weir_redis *r, const weir_policy *p,
                                                  const void *key, size_t key_len, int64_t cost,
                                                  weir_redis_fn fn, void *ctx);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
