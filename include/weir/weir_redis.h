/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_REDIS_H
#define WEIR_WEIR_REDIS_H
/* State that several machines share, in Redis or Valkey: the same policies and the same answers as
 * weir_check(), decided there in one atomic step. The server needs the weir module, or nothing:
 * then a library of functions is loaded into it, or a script where it knows no functions.
 *
 *     const char *url = "redis://127.0.0.1:6379";
 *     weir_redis_options o = {.urls = &url, .urls_len = 1};
 *     weir_redis *r;
 *     weir_redis_open(&r, &o);
 *     if (weir_redis_check(r, &p, "alice", 5, 1, &a) == WEIR_OK && a.decision.allowed) ...
 *
 * A thread of its own speaks to the servers. It belongs to the process that opened it: a child made
 * by fork() must neither use nor close it, but may open one of its own. What the zones of policies
 * point to stays as long as it is open. Link with -lweir-redis -lweir (pkg-config weir-redis). */

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* What is answered when no server answers in time. */
typedef enum weir_redis_on_error {
    WEIR_REDIS_OPEN,   /* allowed, with the figures of a fresh key */
    WEIR_REDIS_CLOSED, /* denied */
    WEIR_REDIS_LOCAL   /* decided and charged by this process's own memory */
} weir_redis_on_error;

/* By what a server decides. */
typedef enum weir_redis_by {
    WEIR_REDIS_BY_ANY, /* the module if it is loaded, else functions, else a script */
    WEIR_REDIS_BY_MODULE,
    WEIR_REDIS_BY_FUNCTIONS,
    WEIR_REDIS_BY_SCRIPT
} weir_redis_by;

typedef struct weir_redis_error {
    char text[256]; /* one line: what is wrong and what helps */
} weir_redis_error;

#define WEIR_REDIS_URLS_MAX   64
#define WEIR_REDIS_PREFIX_MAX 64 /* bytes */

/* All zero but `urls` is good. Nothing is kept by reference. */
typedef struct weir_redis_options {
    /* "redis://[user:password@]host[:port][/database]", "rediss://..." with TLS,
     * "unix:///path/of/socket[?db=n]". One server, some of the nodes of a Cluster (which is found
     * out by asking), or, if `sentinel` is given, some of the Sentinels. A '%' and two hex digits
     * are a byte. */
    const char *const *urls;
    size_t urls_len;             /* 1..WEIR_REDIS_URLS_MAX */
    const char *user, *password; /* in the place of the URLs'; NULL: theirs */
    const char *sentinel;        /* the master's name, as the Sentinels have it; NULL: none */
    const char *sentinel_user, *sentinel_password; /* NULL: none */
    const char *prefix; /* of all keys; up to WEIR_REDIS_PREFIX_MAX bytes; NULL: "weir:" */
    weir_redis_by by;
    int64_t deadline_ns; /* 1 ms to 60 s, of a decision; 0: 50 ms */
    size_t in_flight; /* decisions that wait for an answer, of a thread; more of them are answered
                            at once as `on_error` says. 1..2^20; 0: 16384 */
    weir_redis_on_error on_error;
    size_t deny_cache_bytes;        /* for keys that are known to be denied, and answered here
                                until they are not; 0: 1 MiB; SIZE_MAX: none */
    const char *tls_ca;             /* file of the certificates to trust; NULL: the system's */
    const char *tls_cert, *tls_key; /* files of this client's own; NULL: none */
    const char *tls_name; /* that the server's certificate must be for; NULL: the URL's host */
    bool tls_insecure;    /* any certificate will do */
    const weir_zones *zones;
    weir_redis_error *ret_error; /* may be NULL; written if opening fails */
} weir_redis_options;

typedef struct weir_redis weir_redis;

typedef struct weir_redis_answer {
    weir_decision
        decision;  /* of retry_after, reset_after and delay: whole microseconds, rounded up */
    bool by_error; /* on_error decided, since no server answered in time */
} weir_redis_answer;

/* Begins to connect and returns: a server that is not there yet is an error of decisions, not of
 * this. *ret is written on WEIR_OK only.
 * Returns WEIR_OK; WEIR_E_SYNTAX for a URL; WEIR_E_RANGE; WEIR_E_NOMEM; WEIR_E_IO (files of TLS, no
 * threads or descriptors). */
WEIR_NODISCARD weir_status weir_redis_open(weir_redis **ret, const weir_redis_options *options);

/* What is under way is answered as on_error says. Accepts NULL. No other call may be under way. */
void weir_redis_close(weir_redis *r);

/* Decides for one key and charges it, and waits for that: as weir_check() in every figure but those
 * weir_redis_answer tells of. The time is the server's. Any thread.
 *  key  key_len bytes, 1..65536, of any value. Of several keys with one "{tag}" the states are on
 *       one node of a Cluster. IP addresses are not parsed. To share a key's state with a
 *       daemon, pass the key in the daemon's form: "2001:db8::/64" for an IPv6 address, "192.0.2.1"
 *       for "::ffff:192.0.2.1".
 * Returns WEIR_OK, also if on_error decided; WEIR_E_RANGE for a bad key or cost;
 * WEIR_E_UNSUPPORTED if the server cannot decide by this policy exactly; WEIR_E_NOMEM if it has no
 * memory and on_error is not to decide. */
WEIR_NODISCARD weir_status weir_redis_check(weir_redis *r, const weir_policy *p, const void *key,
                                            size_t key_len, int64_t cost, weir_redis_answer *ret);

/* See weir_peek() and weir_refund(); on_error does not decide on a refund, which is then
 * WEIR_E_IO. */
WEIR_NODISCARD weir_status weir_redis_peek(weir_redis *r, const weir_policy *p, const void *key,
                                           size_t key_len, int64_t cost, weir_redis_answer *ret);
WEIR_NODISCARD weir_status weir_redis_refund(weir_redis *r, const weir_policy *p, const void *key,
                                             size_t key_len, int64_t cost, weir_redis_answer *ret);

/* Makes a key fresh. Returns also WEIR_E_IO. */
WEIR_NODISCARD weir_status weir_redis_reset(weir_redis *r, const weir_policy *p, const void *key,
                                            size_t key_len);

/* As weir_redis_check(), without waiting: fn is called once, by the thread that speaks to the
 * servers, and must not block it; it may call weir_redis_check_async(), which is
 * WEIR_E_IO once weir_redis_close() was called. `ret` is good until it
 * returns, and NULL if the status is not WEIR_OK. What p and key point to is not needed after this
 * call. Returns WEIR_OK, or why fn will not be called. */
typedef void (*weir_redis_fn)(void *ctx, weir_status status, const weir_redis_answer *ret);
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
