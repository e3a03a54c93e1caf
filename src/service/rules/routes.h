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

/* A route in the configuration. */
typedef struct weir_route_spec {
    const char *name;           /* as a policy's name; NULL: the path is the name */
    const char *const *methods; /* "GET", which also matches HEAD; case-sensitive */
    size_t methods_len;         /* 0: every method */
    const char *const *hosts; /* "api.example.com" or "*.example.com"; case-insensitive, no port */
    size_t hosts_len;         /* 0: every host */
    const char *path; /* begins with '/'. "/v1" matches "/v1" and "/v1/x", not "/v10"; "/" and NULL
                         match every path. A path that ends with '/' matches what is below it */
    const char *const *policies; /* names of rules; all of them must allow the request */
    size_t policies_len;         /* 0: requests of this route are not limited */
    int64_t cost;                /* 0..WEIR_COST_MAX */
} weir_route_spec;

typedef struct weir_route {
    weir_slice name;
    const weir_slice *policies;
    size_t policies_len;
    int64_t cost;
} weir_route;

/* An immutable table of routes with a reference count, which the limiter's lock guards. */
typedef struct weir_routes weir_routes;

/* Copies the specs. The table has one reference.
 * Returns WEIR_OK; WEIR_E_RANGE for a value outside its range; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_routes_build(weir_routes **ret, const weir_route_spec *specs,
                                             size_t n);

/* Adds a reference; returns r. Accepts NULL. */
weir_routes *weir_routes_share(weir_routes *r);

/* Drops a reference; the last one frees. Accepts NULL. */
void weir_routes_drop(weir_routes *r);

/* Returns the first route that matches every request of route i, which no request reaches then; i
 * if there is no such route. Pure. */
size_t weir_routes_covering(const weir_routes *r, size_t i);

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
 *  path  as it was sent, without the query. If it does not begin with '/', one is added.
 *  buf   WEIR_PATH_ROOM bytes.
 * Returns the length, 1 or more; 0 if the path exceeds WEIR_ROUTE_PATH_MAX or has a segment "..".
 * Such a segment is found also if its bytes, or a '/' or '\' around it, are percent-encoded. */
#define WEIR_PATH_ROOM (3 * WEIR_ROUTE_PATH_MAX + 1)
size_t weir_path_normalise(weir_slice path, char *buf);

/* Writes a host in lower case, without a port and a trailing dot. Pure.
 *  host  HOST or HOST:PORT.
 *  buf   WEIR_ROUTE_HOST_MAX bytes.
 * Returns the length; 0 if the host is empty or longer than WEIR_ROUTE_HOST_MAX. */
size_t weir_host_normalise(weir_slice host, char *buf);

#endif
