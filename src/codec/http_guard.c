/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The password (RFC 6750, RFC 7617), the names of this server, and the marks that browsers put on
 * what pages send. */

#include "codec/http_guard.h"

#include "codec/password.h"
#include "service/address.h"

/* ---- the password ---------------------------------------------------------------------------- */

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Decodes base64; its length, or SIZE_MAX if it is none or does not fit. */
static size_t base64_decode(weir_slice from, char *to, size_t size)
{
    unsigned bits = 0, word = 0;
    size_t end = 0;
    while (from.len > 0 && from.at[from.len - 1] == '=')
        from.len--;
    for (size_t i = 0; i < from.len; i++) {
        int digit = base64_digit(from.at[i]);
        if (digit < 0)
            return SIZE_MAX;
        word = (word << 6 | (unsigned)digit) & 0xFFFF;
        bits += 6;
        if (bits < 8)
            continue;
        if (end == size)
            return SIZE_MAX;
        bits -= 8;
        to[end++] = (char)(word >> bits & 0xFF);
    }
    return end;
}

/* What follows "scheme " in a header's value; `at` is NULL if it is another scheme. */
static weir_slice after_scheme(weir_slice value, const char *scheme)
{
    size_t len = strlen(scheme);
    weir_slice head = {value.at, len};
    if (value.len <= len || value.at[len] != ' ' || !weir_http_is(head, scheme))
        return (weir_slice){NULL, 0};
    return weir_http_trim((weir_slice){value.at + len, value.len - len});
}

bool weir_http_password_is(weir_slice authorization, const char *password)
{
    if (!authorization.at)
        return false;
    weir_slice bearer = after_scheme(authorization, "bearer");
    if (bearer.at)
        return weir_password_is(bearer.at, bearer.len, password);
    weir_slice basic = after_scheme(authorization, "basic");
    char pair[1024];
    size_t len = basic.at ? base64_decode(basic, pair, sizeof pair) : SIZE_MAX;
    const char *colon = len == SIZE_MAX ? NULL : memchr(pair, ':', len);
    return colon && weir_password_is(colon + 1, (size_t)(pair + len - colon - 1), password);
}

/* ---- the name of this server ----------------------------------------------------------------- */

/* A Host without its port: "[::1]:80" is "::1". False if what follows the name is no port. */
static bool without_port(weir_slice host, weir_slice *ret)
{
    const char *end = host.at + host.len, *at = host.at;
    bool v6 = host.len > 0 && *at == '[';
    const char *stop = memchr(at, v6 ? ']' : ':', host.len);
    const char *port = !stop ? end : v6 ? stop + 1 : stop;
    *ret = v6 ? (weir_slice){at + 1, stop ? (size_t)(stop - at - 1) : 0}
              : (weir_slice){at, (size_t)(port - at)};
    if (v6 && !stop)
        return false;
    if (port < end && *port++ != ':')
        return false;
    while (port < end && *port >= '0' && *port <= '9')
        port++;
    return port == end;
}

bool weir_http_is_own_host(const weir_http_options *o, weir_slice host)
{
    weir_slice name;
    weir_address address;
    if (!host.at)
        return true;
    if (!without_port(host, &name))
        return false;
    if (weir_address_parse(&address, name.at, name.len))
        return true;
    if (weir_http_is(name, "localhost"))
        return true;
    for (size_t i = 0; i < o->hosts.len; i++) {
        if (weir_http_is(name, o->hosts.at[i]) || strcmp(o->hosts.at[i], "*") == 0)
            return true;
    }
    return false;
}

/* ---- browsers -------------------------------------------------------------------------------- */

/* Whether an Origin names the host that was asked: what follows "://" is equal. */
static bool origin_is_host(weir_slice origin, weir_slice host)
{
    for (size_t i = 0; i + 3 <= origin.len; i++) {
        if (memcmp(origin.at + i, "://", 3) != 0)
            continue;
        weir_slice rest = {origin.at + i + 3, origin.len - i - 3};
        return host.at && rest.len == host.len && memcmp(rest.at, host.at, host.len) == 0;
    }
    return false; /* "null" */
}

static bool is_listed(const weir_http_options *o, weir_slice origin)
{
    for (size_t i = 0; origin.at && i < o->origins.len; i++) {
        const char *at = o->origins.at[i];
        if (strlen(at) == origin.len && memcmp(at, origin.at, origin.len) == 0)
            return true;
    }
    return false;
}

bool weir_http_add_cors(const weir_http_options *o, const weir_http_request *r, weir_http_answer *a)
{
    weir_slice origin = r->header[WEIR_HTTP_ORIGIN];
    if (o->origins.len == 0)
        return false;
    weir_http_add_field(a, "Vary: Origin\r\n");
    if (!is_listed(o, origin))
        return false;
    weir_http_add_field(a,
                        "Access-Control-Allow-Origin: %.*s\r\n"
                        "Access-Control-Allow-Credentials: true\r\n"
                        "Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, "
                        "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "
                        "Retry-After\r\n",
                        (int)origin.len, origin.at);
    return true;
}

void weir_http_preflight(weir_http_answer *a)
{
    a->status = 204;
    weir_http_add_field(a, "Access-Control-Allow-Methods: GET, HEAD, POST\r\n"
                           "Access-Control-Allow-Headers: Authorization, Content-Type\r\n"
                           "Access-Control-Max-Age: 7200\r\n");
}

bool weir_http_from_other_site(const weir_http_options *o, const weir_http_request *r)
{
    weir_slice site = r->header[WEIR_HTTP_FETCH_SITE], origin = r->header[WEIR_HTTP_ORIGIN];
    if (is_listed(o, origin))
        return false;
    if (site.at && !weir_http_is(site, "same-origin") && !weir_http_is(site, "none"))
        return true;
    return origin.at && !origin_is_host(origin, r->header[WEIR_HTTP_HOST]);
}

bool weir_http_may_be_key(const char *name, size_t len)
{
    static const char *const whole[] = {
        "authorization",
        "cache-control",
        "connection",
        "cookie",
        "date",
        "dnt",
        "expect",
        "host",
        "origin",
        "pragma",
        "range",
        "referer",
        "te",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
    };
    static const char *const begins[] = {"accept",     "content-", "if-",
                                         "proxy-auth", "sec-",     "upgrade-"};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (weir_http_is((weir_slice){name, len}, whole[i]))
            return false;
    }
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        size_t head = strlen(begins[i]);
        if (len >= head && weir_http_is((weir_slice){name, head}, begins[i]))
            return false;
    }
    return true;
}
