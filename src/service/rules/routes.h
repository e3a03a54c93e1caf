/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_ROUTES_H
#define WEIR_SERVICE_RULES_ROUTES_H
/* Routes: which policies apply to an HTTP request, by its method, host and path. The first route
 * that matches is used. Routes belong to a set of rules, so that both change together. This file
 * must not know how a request was parsed. */

#include "port/text.h"

#include <weir/weir.h>

#define WEIR_ROUTES_MAX         1024
#define WEIR_ROUTE_POLICIES_MAX 16 /* WEIR_ALL_MAX: they are decided together */
#define WEIR_ROUTE_LIST_MAX     64 /* methods or hosts of a route */
#define WEIR_ROUTE_METHOD_MAX   32 /* bytes of a method */
#define WEIR_ROUTE_HOST_MAX     255
#define WEIR_ROUTE_PATH_MAX     8192 /* bytes of a path, before it is normalised */

/* ---- names ----------------------------------------------------------------------------------- */

/* A policy and a route have names of the same form. */
#define WEIR_RULE_NAME_MAX 64 /* bytes of a name: letters, digits, and - _ . : / */

/* An error in the name or the limit of a rule. */
typedef struct weir_rule_error {
    uint32_t column; /* in the policy text, from 1; 0: the error is in the name */
    char text[256];  /* the message, without the column */
} weir_rule_error;

/* Checks the name of a rule. Returns WEIR_OK, or WEIR_E_SYNTAX with *ret_error written unless NULL.
 * Pure. */
WEIR_NODISCARD weir_status weir_rule_name_check(const char *name, size_t len,
                                                weir_rule_error *ret_error);

/* ---- routes ---------------------------------------------------------------------------------- */

/* A route in the configuration. */
typedef struct weir_route_spec {
    const char *name;           /* as a policy's name; NULL: the path is the name */
    const char *const *methods; /* "GET", which also matches HEAD; case-sensitive */
    size_t methods_len;         /* 0: every method */
    const char *const *hosts; /* "api.example.com" or "*.example.com"; case-insensitive, no port */
    size_t hosts_len;         /* 0: every host */
    const char *path; /* begins with '/'. "/v1" matches "/v1" and "/v1/x", not "/v10"; "/" and NULL
                         match every path. A path that ends with '/' matches what is below it. A
                         segment "*" matches any one segment; '*' occurs nowhere else */
    const char *const *policies; /* names of rules; all of them must allow the request */
    size_t policies_len;         /* 0: requests of this route are not limited */
    int64_t cost;                /* 0..WEIR_COST_MAX */
    int64_t keep;                /* see weir_check_keep() */
} weir_route_spec;

typedef struct weir_route {
    weir_slice name;
    const weir_slice *policies;
    size_t policies_len;
    int64_t cost, keep;
} weir_route;

/* An immutable table of routes with a reference count, which the limiter's lock guards. */
typedef struct weir_routes weir_routes;

/* How an encoded slash, an encoded backslash and a plain backslash are read in a path. Servers
 * disagree: for some, "/login%2F" and "/login\\" are "/login/". */
typedef enum weir_encoded_slash {
    WEIR_SLASH_REFUSE,   /* the path has no normal form */
    WEIR_SLASH_SEPARATE, /* it separates segments */
    WEIR_SLASH_KEEP      /* a byte of its segment, like any other */
} weir_encoded_slash;

/* Copies the specs. The table has one reference.
 *  slash  how the paths of routes and of requests are read.
 * Returns WEIR_OK; WEIR_E_RANGE for a value outside its range; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_routes_build(weir_routes **ret, const weir_route_spec *specs,
                                             size_t n, weir_encoded_slash slash);

/* Adds a reference; returns r. Accepts NULL. */
weir_routes *weir_routes_share(weir_routes *r);

/* Drops a reference; the last one frees. Accepts NULL. */
void weir_routes_drop(weir_routes *r);

/* Returns the first earlier route that matches every request that route i matches, so that route i
 * is never used; or i if there is none. Pure. */
size_t weir_routes_covering(const weir_routes *r, size_t i);

/* Returns whether a request with another host than those of route i may match no route, although
 * route i has its method and path. False if route i matches every host. Pure. */
bool weir_routes_miss_hosts(const weir_routes *r, size_t i);

/* How the paths of requests are read. WEIR_SLASH_REFUSE without routes. */
weir_encoded_slash weir_routes_slash(const weir_routes *r);

/* A request, as a route sees it. */
typedef struct weir_route_request {
    weir_slice method; /* "GET" */
    weir_slice host;   /* from weir_host_normalise(); empty: matches only routes without hosts */
    weir_slice path;   /* from weir_path_normalise() */
} weir_route_request;

/* Finds the first route that matches. Returns NULL if there is none. Accepts NULL routes. Pure. */
const weir_route *weir_routes_find(const weir_routes *r, const weir_route_request *request);

/* Finds the first route with a name. Returns NULL if there is none. Accepts NULL routes. Pure. */
const weir_route *weir_routes_named(const weir_routes *r, const char *name, size_t len);

/* Writes a path in its normal form, so that all spellings of a path are equal (RFC 3986, 6.2.2).
 * Percent-encoded printable characters are decoded, except for '%', '/', ';', '?' and '#'. All
 * other bytes are percent-encoded with upper-case digits. The parameters of a segment, which begin
 * with ';', are removed, and then empty segments and those that are ".". A segment ".." has no
 * normal form: servers disagree on what "/a//../b" and "/a/..;/b" are. Pure.
 *  path   as it was sent, without the query. If it does not begin with '/', one is added.
 *  slash  how an encoded slash is read.
 *  buf    WEIR_PATH_ROOM bytes.
 * Returns the length, 1 or more; 0 if the path exceeds WEIR_ROUTE_PATH_MAX, is refused because of
 * `slash`, or has a NUL or a segment "..". These are found also if their bytes, or a '/' or '\'
 * around a segment, are percent-encoded. A NUL ends the path for some servers. */
#define WEIR_PATH_ROOM (3 * WEIR_ROUTE_PATH_MAX + 1)
size_t weir_path_normalise(weir_slice path, weir_encoded_slash slash, char *buf);

/* What may keep a path from having a normal form; of several, the last. */
typedef enum weir_path_refusal {
    WEIR_PATH_GOOD,
    WEIR_PATH_SLASH, /* a slash that is encoded, or a backslash: depends on weir_encoded_slash */
    WEIR_PATH_DOT_DOT,
    WEIR_PATH_NUL
} weir_path_refusal;

/* Finds why weir_path_normalise() refuses a path that is not too long. Pure. */
weir_path_refusal weir_path_refused(weir_slice path);

/* Writes a host in lower case, without a port and a trailing dot, and an IPv6 address in canonical
 * form. Pure.
 *  host  HOST or HOST:PORT.
 *  buf   WEIR_ROUTE_HOST_MAX bytes.
 * Returns the length; 0 if the host is empty or longer than WEIR_ROUTE_HOST_MAX. */
size_t weir_host_normalise(weir_slice host, char *buf);

#endif
