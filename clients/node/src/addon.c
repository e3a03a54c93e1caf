/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The N-API addon: libweir for lib/file.js, which checks the types of all arguments.
 *
 * The numbers of a call and of its answer are in an array that both sides read and write, because
 * passing them as arguments and as an object takes longer. */
#define NAPI_VERSION 8

#include "stores.h"

#include <node_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The places of the numbers in the array; lib/file.js has the same list. Milliseconds of a decision
 * are rounded up. */
typedef enum place {
    OPERATION,
    COST, /* of a commit: the real cost */
    MORE, /* what to keep, or the time to live of a reservation in ms */
    WITH_NEXT,
    NOW_NS,  /* as an int64_t; negative: the time of the store's clock */
    ID_HIGH, /* of a reservation; written when it is made */
    ID_LOW,
    STATUS, /* a weir_status */
    ALLOWED,
    LIMIT,
    REMAINING,
    RETRY_AFTER_MS, /* -1: no wait helps */
    RESET_AFTER_MS,
    DELAY_MS,
    OVER,    /* of a charge and a commit */
    NEXT_MS, /* if it was asked for */
    NUMBERS
} place;

typedef enum operation {
    OP_CHECK,
    OP_PEEK,
    OP_REFUND,
    OP_CHARGE,
    OP_RESET,
    OP_RESET_ALL,
    OP_RESERVE,
    OP_COMMIT,
    OP_RENEW,
    OPERATIONS
} operation;

/* What each thread of JavaScript has. */
typedef struct instance {
    double *numbers;
    char key[WEIR_KEY_MAX + 8]; /* a longer key is truncated to more than WEIR_KEY_MAX bytes */
} instance;

/* A policy in a store. */
typedef struct limiter {
    shared_store *shared;
    weir_store *store;
    weir_client_ids ids;
    weir_policy policy;
} limiter;

/* The arguments of a call. */
typedef struct request {
    const void *key;
    size_t key_len;
    int64_t cost;
    int64_t more;
    int64_t now_ns;
    uint64_t reservation;
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

static request request_of(const double *numbers, weir_store *store)
{
    request r = {.cost = (int64_t)numbers[COST],
                 .more = (int64_t)numbers[MORE],
                 .reservation = (uint64_t)numbers[ID_HIGH] << 32 | (uint64_t)numbers[ID_LOW]};
    memcpy(&r.now_ns, &numbers[NOW_NS], sizeof r.now_ns);
    if (r.now_ns < 0)
        r.now_ns = weir_store_now(store);
    return r;
}

static double milliseconds(int64_t ns)
{
    return (double)(ns / NS_IN_MS + (ns % NS_IN_MS > 0));
}

static double wait_of(const weir_decision *d)
{
    return d->retry_after_ns == INT64_MAX ? -1 : milliseconds(d->retry_after_ns);
}

static void write_decision(double *numbers, const weir_decision *d)
{
    numbers[ALLOWED] = d->allowed;
    numbers[LIMIT] = (double)d->limit;
    numbers[REMAINING] = (double)d->remaining;
    numbers[RETRY_AFTER_MS] = wait_of(d);
    numbers[RESET_AFTER_MS] = milliseconds(d->reset_after_ns);
    numbers[DELAY_MS] = milliseconds(d->delay_ns);
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Writes the time until a cost of 1 is allowed. */
static weir_status write_next(const limiter *l, const request *r, uint64_t id, double *numbers)
{
    weir_decision d;
    weir_status st = weir_store_peek_keep(l->store, &l->policy, id, r->key, r->key_len, r->now_ns,
                                          1, r->more, &d);
    if (st == WEIR_OK)
        numbers[NEXT_MS] = wait_of(&d);
    return st;
}

static weir_status reserve(const limiter *l, const request *r, uint64_t id, weir_decision *ret,
                           double *numbers)
{
    uint64_t reservation = 0;
    weir_status st = weir_store_reserve(l->store, &l->policy, id, r->key, r->key_len, r->now_ns,
                                        r->cost, r->more * NS_IN_MS, ret, &reservation);
    numbers[ID_HIGH] = (double)(reservation >> 32);
    numbers[ID_LOW] = (double)(uint32_t)reservation;
    return st;
}

static weir_status decide(const limiter *l, const request *r, double *numbers)
{
    weir_decision d = {.allowed = true};
    int64_t over = 0;
    weir_status st = WEIR_E_RANGE;
    weir_store *s = l->store;
    const weir_policy *p = &l->policy;
    uint64_t id = weir_store_current_id(s, l->ids.id, l->ids.group);
    switch ((operation)numbers[OPERATION]) {
    case OP_CHECK:
        st = weir_store_check_keep(s, p, id, r->key, r->key_len, r->now_ns, r->cost, r->more, &d);
        break;
    case OP_PEEK:
        st = weir_store_peek_keep(s, p, id, r->key, r->key_len, r->now_ns, r->cost, r->more, &d);
        break;
    case OP_REFUND:
        st = weir_store_refund(s, p, id, r->key, r->key_len, r->now_ns, r->cost, &d);
        break;
    case OP_CHARGE:
        st = weir_store_charge(s, p, id, r->key, r->key_len, r->now_ns, r->cost, &d, &over);
        break;
    case OP_RESET:
        return weir_store_reset(s, id, r->key, r->key_len);
    case OP_RESET_ALL:
        return weir_store_reset_policy(s, l->ids.group);
    case OP_RESERVE:
        st = reserve(l, r, id, &d, numbers);
        break;
    case OP_COMMIT:
        st = weir_store_commit(s, r->reservation, r->now_ns, r->cost, &d, &over);
        break;
    case OP_RENEW:
        st = weir_store_renew(s, r->reservation, r->now_ns, r->more * NS_IN_MS, &d);
        break;
    case OPERATIONS:
        break;
    }
    if (st != WEIR_OK)
        return st;
    write_decision(numbers, &d);
    numbers[OVER] = (double)over;
    return numbers[WITH_NEXT] != 0 ? write_next(l, r, id, numbers) : WEIR_OK;
}

/* run(limiter, key), with the numbers in the array */
static napi_value run(napi_env env, napi_callback_info info)
{
    napi_value a[2];
    size_t n = 2;
    void *data;
    napi_get_cb_info(env, info, &n, a, NULL, &data);
    instance *i = data;
    const limiter *l = pointer_of(env, a[0]);
    request r = request_of(i->numbers, l->store);
    r.key = i->key;
    napi_get_value_string_utf8(env, a[1], i->key, sizeof i->key, &r.key_len);
    i->numbers[STATUS] = decide(l, &r, i->numbers);
    return NULL;
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

/* Parses the policy and opens the store. On failure, throws an error and returns false.
 *  name  of the policy; may be empty. */
static bool set_up(napi_env env, limiter *l, const char *text, size_t len, const char *name,
                   size_t name_len, const store_settings *settings)
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
    st = weir_client_ids_of(l->store, &l->policy, name, name_len, &l->ids);
    if (st != WEIR_OK)
        throw_error(env, st, st == WEIR_E_SYNTAX ? WEIR_CLIENT_NAME_EXPECTED : weir_status_str(st));
    return st == WEIR_OK;
}

/* open(policy text, name, file, memory bytes, sync, refuse): a limiter */
static napi_value open_limiter(napi_env env, napi_callback_info info)
{
    napi_value a[6], ret = NULL;
    size_t n = 6, len, name_len;
    char text[WEIR_POLICY_TEXT_MAX + 4], name[128], file[4096];
    napi_get_cb_info(env, info, &n, a, NULL, NULL);
    napi_get_value_string_utf8(env, a[0], text, sizeof text, &len);
    napi_get_value_string_utf8(env, a[1], name, sizeof name, &name_len);
    napi_get_value_string_utf8(env, a[2], file, sizeof file, NULL);
    const store_settings settings = {.file = file,
                                     .memory_bytes = (size_t)integer_of(env, a[3]),
                                     .sync = is_true(env, a[4]),
                                     .refuse = is_true(env, a[5])};
    limiter *l = calloc(1, sizeof *l);
    if (!l)
        return throw_error(env, WEIR_E_NOMEM, weir_status_str(WEIR_E_NOMEM));
    if (!set_up(env, l, text, len, name, name_len, &settings) ||
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
static bool add_numbers(napi_env env, napi_value exports, instance *i)
{
    napi_value buffer, array;
    void *data;
    if (napi_create_arraybuffer(env, NUMBERS * sizeof(double), &data, &buffer) != napi_ok ||
        napi_create_typedarray(env, napi_float64_array, NUMBERS, buffer, 0, &array) != napi_ok)
        return false;
    i->numbers = data;
    return napi_set_named_property(env, exports, "numbers", array) == napi_ok;
}

NAPI_MODULE_INIT()
{
    instance *i = calloc(1, sizeof *i);
    const napi_property_descriptor functions[] = {
        {"open", NULL, open_limiter, NULL, NULL, NULL, napi_enumerable, NULL},
        {"close", NULL, close_limiter, NULL, NULL, NULL, napi_enumerable, NULL},
        {"watch", NULL, watch, NULL, NULL, NULL, napi_enumerable, NULL},
        {"run", NULL, run, NULL, NULL, NULL, napi_enumerable, i}};
    napi_value version;
    napi_create_string_utf8(env, WEIR_VERSION, NAPI_AUTO_LENGTH, &version);
    if (!i || napi_set_instance_data(env, i, free_instance, NULL) != napi_ok ||
        !add_numbers(env, exports, i) ||
        napi_set_named_property(env, exports, "version", version) != napi_ok ||
        napi_define_properties(env, exports, sizeof functions / sizeof functions[0], functions) !=
            napi_ok)
        return throw_error(env, WEIR_E_NOMEM, "the addon cannot be loaded");
    return exports;
}
