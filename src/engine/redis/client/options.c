/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Messages never quote a URL, since it may contain a password. */

#include "engine/redis/client/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static weir_status refuse(weir_redis_error *e, weir_status st,
                                                                const char *format, ...)
{
    if (e) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(e->text, sizeof e->text, format, args);
        va_end(args);
    }
    return st;
}

/* ---- parts of a URL -------------------------------------------------------------------------- */

/* Percent-decoding: "%41" becomes "A". False: two digits are missing, a byte is a control
 * character, or the text is too long.
 *  ret  all zero before. */
static bool decode(const char *at, size_t len, char *ret, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int c = (uint8_t)at[i];
        if (c == '%') {
            c = weir_percent_read(at + i, len - i); /* -1: it is not valid */
            i += 2;
        }
        if (c < ' ' || c == 0x7f || n + 1 >= size)
            return false;
        ret[n++] = (char)c;
    }
    return true;
}

static bool number(const char *at, size_t len, uint32_t max, uint32_t *ret)
{
    uint64_t v;
    if (!weir_decimal_read(at, len, max, &v))
        return false;
    *ret = (uint32_t)v;
    return true;
}

static const char bad_user[] = "the user and the password of a URL have at most 511 bytes each; "
                               "write '@', ':', '/' and '%' in "
                               "them as %40, %3A, %2F and %25";

/* "user:password", ":password", "user". */
static weir_status read_user(const char *at, size_t len, weir_redis_url *u, weir_redis_error *e)
{
    const char *colon = memchr(at, ':', len);
    size_t user = colon ? (size_t)(colon - at) : len;
    if (!decode(at, user, u->user, sizeof u->user))
        return refuse(e, WEIR_E_SYNTAX, "%s", bad_user);
    u->has_password = colon != NULL;
    if (colon && !decode(colon + 1, len - user - 1, u->password, sizeof u->password))
        return refuse(e, WEIR_E_SYNTAX, "%s", bad_user);
    return WEIR_OK;
}

/* "host", "host:port", "[::1]:port". */
static weir_status read_host(const char *at, size_t len, weir_redis_url *u, weir_redis_error *e)
{
    const char *host = at, *end, *rest;
    if (len > 0 && *at == '[') {
        rest = memchr(at, ']', len);
        if (!rest)
            return refuse(e, WEIR_E_SYNTAX,
                          "the URL has '[' without ']': write redis://[::1]:6379");
        host++;
        end = rest++;
    } else {
        rest = memchr(at, ':', len);
        end = rest = rest ? rest : at + len;
    }
    size_t left = (size_t)(at + len - rest);
    uint32_t port = 0;
    if (end == host)
        return refuse(e, WEIR_E_SYNTAX, "the URL has no host: write redis://host:6379");
    if (!decode(host, (size_t)(end - host), u->host, sizeof u->host) || u->host[0] == '/' ||
        strchr(u->host, ' '))
        return refuse(e, WEIR_E_SYNTAX,
                      "the host of the URL is not valid: write redis://host:6379");
    if (left > 0 && (*rest != ':' || !number(rest + 1, left - 1, 65535, &port) || port == 0))
        return refuse(
            e, WEIR_E_SYNTAX,
            "the port of the URL is not a number from 1 to 65535 (an IPv6 address needs brackets: "
            "redis://[::1]:6379)");
    u->port = (uint16_t)port;
    return WEIR_OK;
}

static weir_status read_net(const char *at, weir_redis_url *u, weir_redis_error *e)
{
    size_t len = strcspn(at, "/?#");
    const char *path = at + len, *user_end = NULL;
    /* The last '@': an earlier one may belong to the password. */
    for (const char *p = at; p < path; p++) {
        if (*p == '@')
            user_end = p;
    }
    if (user_end) {
        weir_status st = read_user(at, (size_t)(user_end - at), u, e);
        if (st != WEIR_OK)
            return st;
        len -= (size_t)(user_end + 1 - at);
        at = user_end + 1;
    }
    weir_status st = read_host(at, len, u, e);
    if (st != WEIR_OK)
        return st;
    if (*path == '/')
        path++;
    if (*path && !number(path, strlen(path), 1000000, &u->database))
        return refuse(e, WEIR_E_SYNTAX,
                      "the path of the URL is not a database number: write "
                      "redis://host:6379/0");
    return WEIR_OK;
}

static weir_status read_unix(const char *at, weir_redis_url *u, weir_redis_error *e)
{
    size_t len = strcspn(at, "?#");
    const char *query = at + len;
    if (*at != '/' || !decode(at, len, u->host, sizeof u->host))
        return refuse(e, WEIR_E_SYNTAX,
                      "the URL has no absolute socket path of at most 255 bytes: "
                      "write unix:///path/of/socket");
    if (*query && (strncmp(query, "?db=", 4) != 0 ||
                   !number(query + 4, strlen(query + 4), 1000000, &u->database)))
        return refuse(e, WEIR_E_SYNTAX,
                      "the query of the URL is not a database number: write "
                      "unix:///path/of/socket?db=0");
    return WEIR_OK;
}

weir_status weir_redis_url_read(const char *text, weir_redis_url *ret, weir_redis_error *e)
{
    weir_redis_url u = {0};
    weir_status st;
    if (strncmp(text, "redis://", 8) == 0) {
        st = read_net(text + 8, &u, e);
    } else if (strncmp(text, "rediss://", 9) == 0) {
        u.tls = true;
        st = read_net(text + 9, &u, e);
    } else if (strncmp(text, "unix://", 7) == 0) {
        st = read_unix(text + 7, &u, e);
    } else {
        return refuse(e, WEIR_E_SYNTAX,
                      "the URL does not begin with redis://, rediss:// (TLS) or unix://: write "
                      "redis://127.0.0.1:6379");
    }
    if (st == WEIR_OK)
        *ret = u;
    return st;
}

/* ---- options --------------------------------------------------------------------------------- */

static bool too_long(const char *text, size_t max)
{
    return text && strlen(text) > max;
}

static weir_status check_urls(const weir_redis_options *o, weir_redis_error *e)
{
    if (!o->urls || o->urls_len < 1 || o->urls_len > WEIR_REDIS_URLS_MAX)
        return refuse(e, WEIR_E_RANGE, "expected 1 to %d URLs, found %zu", WEIR_REDIS_URLS_MAX,
                      o->urls_len);
    bool tls = false;
    for (size_t i = 0; i < o->urls_len; i++) {
        weir_redis_url u = {0};
        weir_redis_error inner;
        if (!o->urls[i])
            return refuse(e, WEIR_E_RANGE, "URL %zu is NULL", i + 1);
        weir_status st = weir_redis_url_read(o->urls[i], &u, &inner);
        if (st != WEIR_OK)
            return o->urls_len == 1 ? refuse(e, st, "%s", inner.text)
                                    : refuse(e, st, "URL %zu: %.220s", i + 1, inner.text);
        if (u.user[0] && !u.has_password)
            return refuse(e, WEIR_E_SYNTAX,
                          "the URL has a user but no password: write redis://user:password@host");
        if (u.database != 0 && o->urls_len > 1 && !o->sentinel)
            return refuse(e, WEIR_E_RANGE,
                          "URL %zu has database %u: several URLs mean a Cluster, which has "
                          "only database 0",
                          i + 1, (unsigned)u.database);
        if (i > 0 && u.tls != tls)
            return refuse(
                e, WEIR_E_RANGE,
                "some URLs begin with rediss:// and others do not: use rediss:// for all or none");
        tls = u.tls;
    }
    if (!tls && (o->tls_ca || o->tls_cert || o->tls_key || o->tls_name || o->tls_insecure))
        return refuse(e, WEIR_E_RANGE, "TLS options are given, but no URL begins with rediss://");
    return WEIR_OK;
}

static weir_status check_secrets(const weir_redis_options *o, weir_redis_error *e)
{
    if ((o->user && !o->password) || (o->sentinel_user && !o->sentinel_password))
        return refuse(e, WEIR_E_RANGE, "%s is given without %s",
                      o->user && !o->password ? "user" : "sentinel user",
                      o->user && !o->password ? "password" : "sentinel password");
    size_t max = WEIR_REDIS_SECRET_MAX - 1;
    if (too_long(o->user, max) || too_long(o->password, max) || too_long(o->sentinel_user, max) ||
        too_long(o->sentinel_password, max))
        return refuse(e, WEIR_E_RANGE, "a user or a password has more than %zu bytes", max);
    if (!o->sentinel && (o->sentinel_user || o->sentinel_password))
        return refuse(e, WEIR_E_RANGE,
                      "a password for Sentinels is given without the master's name: set sentinel");
    if (o->sentinel && (!o->sentinel[0] || too_long(o->sentinel, WEIR_REDIS_HOST_MAX - 1)))
        return refuse(e, WEIR_E_RANGE,
                      "the master's name for the Sentinels must have 1 to %d bytes",
                      WEIR_REDIS_HOST_MAX - 1);
    if ((o->tls_cert != NULL) != (o->tls_key != NULL))
        return refuse(e, WEIR_E_RANGE, "a certificate and its key must be given together");
    return WEIR_OK;
}

weir_status weir_redis_options_check(const weir_redis_options *o, weir_redis_error *e)
{
    weir_status st = check_urls(o, e);
    if (st == WEIR_OK)
        st = check_secrets(o, e);
    if (st != WEIR_OK)
        return st;
    if (too_long(o->prefix, WEIR_REDIS_PREFIX_MAX))
        return refuse(e, WEIR_E_RANGE, "the prefix has more than %d bytes", WEIR_REDIS_PREFIX_MAX);
    if ((unsigned)o->by > WEIR_REDIS_BY_SCRIPT)
        return refuse(e, WEIR_E_RANGE, "'by' must be any, module, functions or script");
    if ((unsigned)o->on_error > WEIR_REDIS_LOCAL)
        return refuse(e, WEIR_E_RANGE, "'on_error' must be open, closed or local");
    if (o->deadline_ns != 0 && (o->deadline_ns < 1000000 || o->deadline_ns > 60000000000))
        return refuse(e, WEIR_E_RANGE, "the deadline must be 1 ms to 60 s");
    if (o->in_flight > (size_t)1 << 20)
        return refuse(e, WEIR_E_RANGE, "'in_flight' must be 1 to 1048576");
    return WEIR_OK;
}
