/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_PARAMS_H
#define WEIR_CODEC_HTTP_PARAMS_H
/* Parses the parameters of a request from its query string and its JSON body. It must not know the
 * endpoints. */

#include "codec/http/message.h"

#include <jansson.h>

typedef enum weir_http_param {
    WEIR_HTTP_P_POLICY,
    WEIR_HTTP_P_LIMIT,
    WEIR_HTTP_P_KEY,
    WEIR_HTTP_P_COST,
    WEIR_HTTP_P_KEEP,
    WEIR_HTTP_P_DELAY,
    WEIR_HTTP_P_DENIED,
    WEIR_HTTP_P_TTL,
    WEIR_HTTP_P_ID,
    WEIR_HTTP_P_ACTUAL,
    WEIR_HTTP_P_REQUESTS, /* a list; only in a body */
    WEIR_HTTP_P_OF,       /* only for /v1/top */
    WEIR_HTTP_P_K,        /* only for /v1/top */
    WEIR_HTTP_P_SHADOW,   /* "true" or "false", in a body also as a boolean */
    WEIR_HTTP_P_ROUTE,    /* only for /v1/forward-auth */
    WEIR_HTTP_P_SOURCE,   /* options->key_query; only in a query */
    WEIR_HTTP_PARAMS
} weir_http_param;

#define WEIR_HTTP_BIT(param) (1u << (param))

/* An example of a body with `requests`, for errors. */
#define WEIR_HTTP_REQUESTS_EXPECTED                                                                \
    "{\"requests\":[{\"policy\":\"name\",\"key\":\"name\",\"cost\":1}]}"

typedef struct weir_http_params {
    unsigned given;                    /* WEIR_HTTP_BIT() of each given parameter */
    weir_slice text[WEIR_HTTP_PARAMS]; /* values that are strings, and all values of a query */
    int64_t number[WEIR_HTTP_PARAMS];  /* cost, keep, denied, actual, k; ttl in nanoseconds */
    json_t *requests;                  /* in `json`, or NULL */
    const char *key_query;             /* the name of WEIR_HTTP_P_SOURCE, or NULL */
    json_t *json;                      /* owns the strings of a body */
} weir_http_params;

/* Reads the parameters of a request.
 *  known  WEIR_HTTP_BIT() of each accepted parameter.
 *  query  a buffer for the decoded query; the slices of *ret point into it.
 *  ret    always written; pass it to weir_http_params_free() in any case.
 * Returns false, and makes *a an error response, if a parameter is unknown, duplicate or
 * invalid. */
bool weir_http_params_read(weir_http_params *ret, const weir_http_request *r, unsigned known,
                           const char *key_query, char query[static WEIR_HTTP_TARGET_MAX],
                           weir_http_response *a);

/* Reads one element of `requests`. It accepts policy, limit, key, cost and keep.
 *  where  the element's name in errors: "requests[2]".
 *  ret    its slices point into `object`. It need not be freed.
 * Returns false, and makes *a an error response, if the element is invalid. */
bool weir_http_params_read_object(weir_http_params *ret, json_t *object, const char *where,
                                  weir_http_response *a);

/* Makes a request to the service from parameters: with a policy alone, or with a key and a cost.
 *  where    "", or the prefix of errors: "requests[2]: ".
 *  missing  the expected parameter if neither policy nor limit is given.
 * They return false, and make *a an error response, if the parameters are invalid. */
#define WEIR_HTTP_EITHER "\"policy\" or \"limit\""
bool weir_http_params_policy(const weir_http_params *p, const char *where, const char *missing,
                             weir_request *ret, weir_http_response *a);
bool weir_http_params_request(const weir_http_params *p, weir_slice key, const char *where,
                              const char *missing, weir_request *ret, weir_http_response *a);

void weir_http_params_free(weir_http_params *p);

#endif
