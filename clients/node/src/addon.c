/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The N-API addon: libweir for lib/file.js, which checks the types of all arguments.
 *
 * A call returns a weir_status. Its numbers are written to an array that JavaScript reads after the
 * call, because creating an object here would take longer than the decision. */
#define NAPI_VERSION 8

#include "stores.h"

#include <node_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The array of results; lib/file.js has the same list. Milliseconds are rounded up. */
typedef enum result {
    RESULT_ALLOWED,
    RESULT_LIMIT,
    RESULT_REMAINING,
    RESULT_RETRY_AFTER_MS, /* -1: no wait helps */
    RESULT_RESET_AFTER_MS,
    RESULT_DELAY_MS,
    RESULT_OVER,    /* of a charge and a commit */
    RESULT_NEXT_MS, /* if it was asked for */
    RESULT_ID_HIGH, /* of a reservation */
    RESULT_ID_LOW,
    RESULTS
} result;

typedef enum operation {
    OP_CHECK,
    OP_PEEK,
    OP_REFUND,
    OP_CHARGE,
    OP_RESET,
    OP_RESET_ALL,
    OP_RESERVE,
    OPERATIONS
} operation;

/* What each thread of JavaScript has. */
typedef struct instance {
    double *results;
    char key[WEIR_KEY_MAX + 8]; /* a longer key is truncated to more than WEIR_KEY_MAX bytes */
} instance;

/* A policy in a store. */
typedef struct limiter {
    shared_store *shared;
    weir_store *store;
    uint64_t id;
    weir_policy policy;
} limiter;

/* The arguments of a decision. */
typedef struct request {
    const void *key;
    size_t key_len;
    int64_t cost;
    int64_t more; /* what to keep, or the time to live of a reservation in ms */
    int64_t now_ns;
    bool with_next;
} request;

#define NS_IN_MS 1000000

/* ---- values ---------------------------------------------------------------------------------- */

static napi_value throw_error(napi_env env, weir_status st, const char *text)
{
    napi_value code, message, error;
    napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &message);
    napi_create_error(env, NULL, message, &error);
    napi_create_int32(env, st, &code);
    napi_set_named_property(env, error, "status", code);
    napi_throw(env, error);
    return NULL;
}

static napi_value number(napi_env env, double n)
{
    napi_value v;
    napi_create_double(env, n, &v);
    return v;
}

static int64_t integer_of(napi_env env, napi_value v)
{
    int64_t n = 0;
    napi_get_value_int64(env, v, &n);
    return n;
}

static bool is_true(napi_env env, napi_value v)
{
    bool b = false;
    napi_get_value_bool(env, v, &b);
    return b;
}

static void *pointer_of(napi_env env, napi_value v)
{
    void *p = NULL;
    napi_get_value_external(env, v, &p);
    return p;
}

static instance *instance_of(napi_env env)
{
    void *i = NULL;
    napi_get_instance_data(env, &i);
    return i;
}

/* The time of a call: that of the argument in ns, a BigInt, or that of the store's clock. */
static int64_t time_of(napi_env env, napi_value v, weir_store *store)
{
    int64_t now_ns;
    bool lossless;
    if (napi_get_value_bigint_int64(env, v, &now_ns, &lossless) == napi_ok)
        return now_ns;
    return weir_store_now(store);
}

static double milliseconds(int64_t ns)
{
    return (double)(ns / NS_IN_MS + (ns % NS_IN_MS > 0));
}

static void write_decision(double *results, const weir_decision *d)
{
    results[RESULT_ALLOWED] = d->allowed;
    results[RESULT_LIMIT] = (double)d->limit;
    results[RESULT_REMAINING] = (double)d->remaining;
    results[RESULT_RETRY_AFTER_MS] =
        d->retry_after_ns == INT64_MAX ? -1 : milliseconds(d->retry_after_ns);
    results[RESULT_RESET_AFTER_MS] = milliseconds(d->reset_after_ns);
    results[RESULT_DELAY_MS] = milliseconds(d->delay_ns);
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Writes the time until a cost of 1 is allowed. */
static weir_status write_next(const limiter *l, const request *r, uint64_t id, double *results)
{
    weir_decision d;
    weir_status st = weir_store_peek_keep(l->store, &l->policy, id, r->key, r->key_len, r->now_ns,
                                          1, r->more, &d);
    if (st == WEIR_OK)
        results[RESULT_NEXT_MS] =
            d.retry_after_ns == INT64_MAX ? -1 : milliseconds(d.retry_after_ns);
    return st;
}

static weir_status reserve(const limiter *l, const request *r, uint64_t id, weir_decision *ret,
                           double *results)
{
    uint64_t reservation = 0;
    weir_status st = weir_store_reserve(l->store, &l->policy, id, r->key, r->key_len, r->now_ns,
                                        r->cost, r->more * NS_IN_MS, ret, &reservation);
    results[RESULT_ID_HIGH] = (double)(reservation >> 32);
    results[RESULT_ID_LOW] = (double)(uint32_t)reservation;
    return st;
}

static weir_status decide(const limiter *l, operation op, const request *r, double *results)
{
    weir_decision d = {.allowed = true};
    int64_t over = 0;
    weir_status st = WEIR_E_RANGE;
    const weir_policy *p = &l->policy;
    uint64_t id = weir_store_current_id(l->store, l->id, l->id);
    switch (op) {
    case OP_CHECK:
        st = weir_store_check_keep(l->store, p, id, r->key, r->key_len, r->now_ns, r->cost, r->more,
                                   &d);
        break;
    case OP_PEEK:
        st = weir_store_peek_keep(l->store, p, id, r->key, r->key_len, r->now_ns, r->cost, r->more,
                                  &d);
        break;
    case OP_REFUND:
        st = weir_store_refund(l->store, p, id, r->key, r->key_len, r->now_ns, r->cost, &d);
        break;
    case OP_CHARGE:
        st = weir_store_charge(l->store, p, id, r->key, r->key_len, r->now_ns, r->cost, &d, &over);
        break;
    case OP_RESET:
        return weir_store_reset(l->store, id, r->key, r->key_len);
    case OP_RESET_ALL:
        return weir_store_reset_policy(l->store, l->id);
    case OP_RESERVE:
        st = reserve(l, r, id, &d, results);
        break;
    case OPERATIONS:
        break;
    }
    write_decision(results, &d);
    results[RESULT_OVER] = (double)over;
    return st == WEIR_OK && r->with_next ? write_next(l, r, id, results) : st;
}

/* run(operation, limiter, key, cost, more, now, withNext): a weir_status */
static napi_value run(napi_env env, napi_callback_info info)
{
    napi_value a[7];
    size_t n = 7;
    napi_get_cb_info(env, info, &n, a, NULL, NULL);
    instance *i = instance_of(env);
    const limiter *l = pointer_of(env, a[1]);
    request r = {.key = i->key, .cost = integer_of(env, a[3]), .more = integer_of(env, a[4])};
    napi_get_value_string_utf8(env, a[2], i->key, sizeof i->key, &r.key_len);
    r.now_ns = time_of(env, a[5], l->store);
    r.with_next = is_true(env, a[6]);
    return number(env, decide(l, (operation)integer_of(env, a[0]), &r, i->results));
}

/* settle(limiter, high, low, actual or -1, ttl in ms, now): commits a reservation, or renews it if
 * actual is -1; a weir_status */
static napi_value settle(napi_env env, napi_callback_info info)
{
    napi_value a[6];
    size_t n = 6;
    napi_get_cb_info(env, info, &n, a, NULL, NULL);
    const limiter *l = pointer_of(env, a[0]);
    uint64_t id = (uint64_t)integer_of(env, a[1]) << 32 | (uint64_t)integer_of(env, a[2]);
    int64_t actual = integer_of(env, a[3]), now_ns = time_of(env, a[5], l->store), over = 0;
    weir_decision d = {0};
    weir_status st =
        actual < 0 ? weir_store_renew(l->store, id, now_ns, integer_of(env, a[4]) * NS_IN_MS, &d)
                   : weir_store_commit(l->store, id, now_ns, actual, &d, &over);
    double *results = instance_of(env)->results;
    write_decision(results, &d);
    results[RESULT_OVER] = (double)over;
    return number(env, st);
}

/* ---- limiters -------------------------------------------------------------------------------- */

static void free_limiter(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    limiter *l = data;
    if (l->shared)
        stores_close(l->shared);
    free(l);
}

/* Parses the policy and opens the store. On failure, throws an error and returns false. */
static bool set_up(napi_env env, limiter *l, const char *text, size_t len,
                   const store_settings *settings)
{
    weir_policy_error wrong = {0};
    weir_store_error error = {""};
    char message[sizeof wrong.text + 32];
    weir_status st = weir_policy_parse(&l->policy, text, len, stores_zones(), &wrong);
    if (st != WEIR_OK) {
        snprintf(message, sizeof message, "policy: column %u: %s", wrong.column, wrong.text);
        throw_error(env, WEIR_E_SYNTAX, message);
        return false;
    }
    st = stores_open(&l->shared, settings, &error);
    if (st != WEIR_OK) {
        throw_error(env, WEIR_E_IO, error.text[0] ? error.text : weir_status_str(st));
        return false;
    }
    l->store = stores_get(l->shared);
    l->id = weir_store_policy_id(l->store, &l->policy);
    return true;
}

/* open(policy text, file, memory bytes, sync, refuse): a limiter */
static napi_value open_limiter(napi_env env, napi_callback_info info)
{
    napi_value a[5], ret = NULL;
    size_t n = 5, len;
    char text[WEIR_POLICY_TEXT_MAX + 4], file[4096];
    napi_get_cb_info(env, info, &n, a, NULL, NULL);
    napi_get_value_string_utf8(env, a[0], text, sizeof text, &len);
    napi_get_value_string_utf8(env, a[1], file, sizeof file, NULL);
    const store_settings settings = {.file = file,
                                     .memory_bytes = (size_t)integer_of(env, a[2]),
                                     .sync = is_true(env, a[3]),
                                     .refuse = is_true(env, a[4])};
    limiter *l = calloc(1, sizeof *l);
    if (!l)
        return throw_error(env, WEIR_E_NOMEM, weir_status_str(WEIR_E_NOMEM));
    if (!set_up(env, l, text, len, &settings) ||
        napi_create_external(env, l, free_limiter, NULL, &ret) != napi_ok)
        free_limiter(env, l, NULL);
    return ret;
}

/* close(limiter). No later call may use it. */
static napi_value close_limiter(napi_env env, napi_callback_info info)
{
    napi_value a[1];
    size_t n = 1;
    napi_get_cb_info(env, info, &n, a, NULL, NULL);
    limiter *l = pointer_of(env, a[0]);
    stores_close(l->shared);
    l->shared = NULL;
    return NULL;
}

/* watch(limiter): a weir_file */
static napi_value watch(napi_env env, napi_callback_info info)
{
    napi_value a[1];
    size_t n = 1;
    napi_get_cb_info(env, info, &n, a, NULL, NULL);
    const limiter *l = pointer_of(env, a[0]);
    return number(env, stores_watch(l->shared));
}

/* ---- the module ------------------------------------------------------------------------------ */

static void free_instance(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    free(data);
}

/* The array lives as long as the addon's object. */
static bool add_results(napi_env env, napi_value exports, instance *i)
{
    napi_value buffer, array;
    void *data;
    if (napi_create_arraybuffer(env, RESULTS * sizeof(double), &data, &buffer) != napi_ok ||
        napi_create_typedarray(env, napi_float64_array, RESULTS, buffer, 0, &array) != napi_ok)
        return false;
    i->results = data;
    return napi_set_named_property(env, exports, "results", array) == napi_ok;
}

NAPI_MODULE_INIT()
{
    static const napi_property_descriptor functions[] = {
        {"open", NULL, open_limiter, NULL, NULL, NULL, napi_enumerable, NULL},
        {"close", NULL, close_limiter, NULL, NULL, NULL, napi_enumerable, NULL},
        {"watch", NULL, watch, NULL, NULL, NULL, napi_enumerable, NULL},
        {"run", NULL, run, NULL, NULL, NULL, napi_enumerable, NULL},
        {"settle", NULL, settle, NULL, NULL, NULL, napi_enumerable, NULL}};
    napi_value version;
    instance *i = calloc(1, sizeof *i);
    napi_create_string_utf8(env, WEIR_VERSION, NAPI_AUTO_LENGTH, &version);
    if (!i || napi_set_instance_data(env, i, free_instance, NULL) != napi_ok ||
        !add_results(env, exports, i) ||
        napi_set_named_property(env, exports, "version", version) != napi_ok ||
        napi_define_properties(env, exports, sizeof functions / sizeof functions[0], functions) !=
            napi_ok)
        return throw_error(env, WEIR_E_NOMEM, "the addon cannot be loaded");
    return exports;
}
