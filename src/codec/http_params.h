/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_PARAMS_H
#define WEIR_CODEC_HTTP_PARAMS_H
/* The parameters of a request, from its query and its JSON body. It must not know the endpoints. */

#include "codec/http_message.h"

#include <jansson.h>

typedef enum weir_http_param {
    WEIR_HTTP_P_POLICY,
    WEIR_HTTP_P_LIMIT,
    WEIR_HTTP_P_KEY,
    WEIR_HTTP_P_COST,
    WEIR_HTTP_P_DELAY,
    WEIR_HTTP_P_DENIED,
    WEIR_HTTP_P_TTL,
    WEIR_HTTP_P_ID,
    WEIR_HTTP_P_ACTUAL,
    WEIR_HTTP_P_REQUESTS, /* in a body only: a list */
    WEIR_HTTP_P_OF,       /* these two of /v1/top alone */
    WEIR_HTTP_P_K,
    WEIR_HTTP_P_SOURCE, /* options->key_query, in a query only */
    WEIR_HTTP_PARAMS
} weir_http_param;

#define WEIR_HTTP_BIT(param) (1u << (param))

/* What a body with `requests` is like, for an error. */
#define WEIR_HTTP_REQUESTS_EXPECTED                                                                \
    "{\"requests\":[{\"policy\":\"name\",\"key\":\"name\",\"cost\":1}]}"

typedef struct weir_http_params {
    unsigned given;                    /* WEIR_HTTP_BIT() of each that is there */
    weir_slice text[WEIR_HTTP_PARAMS]; /* of those that are texts, and of all from a query */
    int64_t number[WEIR_HTTP_PARAMS];  /* of cost, denied, actual, k, and in ns of ttl, once read */
    json_t *requests;                  /* in `json`, or NULL */
    const char *key_query;             /* the name of WEIR_HTTP_P_SOURCE, or NULL */
    json_t *json;                      /* what texts from a body lie in */
} weir_http_params;

/* Reads a request's parameters.
 *  known  WEIR_HTTP_BIT() of each that may be there.
 *  query  room that the texts of *ret may lie in.
 *  ret    all written, to be given to weir_http_params_free() in any case.
 * Returns false if they are wrong; then `a` is the answer that says how: one that is not known, is
 * given twice, or is not what it should be. */
bool weir_http_params_read(weir_http_params *ret, const weir_http_request *r, unsigned known,
                           const char *key_query, char query[static WEIR_HTTP_TARGET_MAX],
                           weir_http_response *a);

/* Reads one of the objects that `requests` has, all of whose members are of policy, limit, key,
 * cost.
 *  where  what it is called in errors: "requests[2]".
 *  ret    as of a request that has these parameters alone; its texts lie in `object`.
 * Returns false if it is wrong; then `a` says how. */
bool weir_http_params_read_object(weir_http_params *ret, json_t *object, const char *where,
                                  weir_http_response *a);

/* Makes an ask of parameters.
 *  where    "" or the object they are of, with a blank behind it: "requests[2]: ".
 *  missing  what is missing if there is neither a policy nor a limit.
 * Returns false if they are wrong; then `a` says how. */
#define WEIR_HTTP_EITHER "\"policy\", or else \"limit\","
bool weir_http_params_ask(const weir_http_params *p, weir_slice key, const char *where,
                          const char *missing, weir_request *ret, weir_http_response *a);

void weir_http_params_free(weir_http_params *p);

#endif
