/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The host names of this server, and the headers that browsers add to the requests of web pages. */

#include "codec/http/access_control.h"

#include "service/rules/address.h"

#include <strings.h>

/* ---- the host -------------------------------------------------------------------------------- */

/* Returns whether [at, end) is a port of at most 5 digits, or empty (RFC 3986, 3.2.3). */
static bool is_port(const char *at, const char *end)
{
    uint64_t port;
    size_t len = (size_t)(end - at);
    return len == 0 || (len <= 5 && weir_decimal_read(at, len, 65535, &port));
}

/* Returns whether all bytes are valid in a host name (RFC 3986, reg-name). */
static bool is_name(weir_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || !strchr("-._~%!$&'()*+,;=", c)))
            return false;
    }
    return true;
}

/* Splits HOST or HOST:PORT. Returns false for any other form.
 *  ret_name     the host; an IPv6 address is without its brackets.
 *  ret_address  whether the host is an IP address. */
static bool split_host(weir_slice host, weir_slice *ret_name, bool *ret_address)
{
    const char *end = host.at + host.len, *at = host.at;
    bool v6 = host.len > 0 && *at == '[';
    const char *stop = memchr(at, v6 ? ']' : ':', host.len);
    if (v6 && !stop)
        return false;
    const char *port = v6 ? stop + 1 : stop ? stop : end;
    *ret_name =
        v6 ? (weir_slice){at + 1, (size_t)(stop - at - 1)} : (weir_slice){at, (size_t)(port - at)};
    if (port < end && (*port != ':' || !is_port(port + 1, end)))
        return false;
    weir_address address;
    *ret_address = weir_address_parse(&address, ret_name->at, ret_name->len);
    if (v6) /* weir_address_parse() reads an IPv4-mapped address as IPv4 */
        return *ret_address && memchr(ret_name->at, ':', ret_name->len);
    return is_name(*ret_name) && (ret_name->len > 0 || host.len == 0);
}

/* Compares two names. ASCII letters are case-insensitive; one trailing dot is ignored. */
static bool same_name(weir_slice name, const char *other)
{
    size_t len = strlen(other);
    if (len > 0 && other[len - 1] == '.')
        len--;
    if (name.len > 0 && name.at[name.len - 1] == '.')
        name.len--;
    return name.len == len && strncasecmp(name.at, other, len) == 0;
}

weir_http_host weir_http_check_host(const weir_http_options *o, weir_slice host)
{
    weir_slice name;
    bool address;
    if (!host.at)
        return WEIR_HTTP_OWN_HOST;
    if (!split_host(host, &name, &address))
        return WEIR_HTTP_BAD_HOST;
    if (address || same_name(name, "localhost"))
        return WEIR_HTTP_OWN_HOST;
    for (size_t i = 0; i < o->hosts.len; i++) {
        if (same_name(name, o->hosts.at[i]) || strcmp(o->hosts.at[i], "*") == 0)
            return WEIR_HTTP_OWN_HOST;
    }
    return WEIR_HTTP_OTHER_HOST;
}

/* ---- browsers -------------------------------------------------------------------------------- */

/* Returns whether an Origin is "http://" or "https://" followed by the request's own host. */
static bool origin_is_host(weir_slice origin, weir_slice host)
{
    static const char http[] = "http://", https[] = "https://";
    size_t begin = 0;
    if (origin.len >= sizeof http - 1 && memcmp(origin.at, http, sizeof http - 1) == 0)
        begin = sizeof http - 1;
    else if (origin.len >= sizeof https - 1 && memcmp(origin.at, https, sizeof https - 1) == 0)
        begin = sizeof https - 1;
    return begin > 0 && host.at && origin.len - begin == host.len &&
           memcmp(origin.at + begin, host.at, host.len) == 0;
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

bool weir_http_add_cors(const weir_http_options *o, const weir_http_request *r,
                        weir_http_response *a)
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
                        "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, "
                        "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "
                        "X-RateLimit-Used, X-RateLimit-Resource, "
                        "X-RateLimit-Limit-Requests, X-RateLimit-Remaining-Requests, "
                        "X-RateLimit-Reset-Requests, X-RateLimit-Limit-Tokens, "
                        "X-RateLimit-Remaining-Tokens, X-RateLimit-Reset-Tokens, "
                        "Retry-After\r\n",
                        (int)origin.len, origin.at);
    return true;
}

void weir_http_preflight(weir_http_response *a)
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
    if (site.at && !weir_slice_is(site, "same-origin") && !weir_slice_is(site, "none"))
        return true;
    return origin.at && !origin_is_host(origin, r->host);
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
        "x-weir-password",
    };
    static const char *const begins[] = {"accept",     "content-", "if-",
                                         "proxy-auth", "sec-",     "upgrade-"};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (weir_slice_is((weir_slice){name, len}, whole[i]))
            return false;
    }
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        size_t head = strlen(begins[i]);
        if (len >= head && weir_slice_is((weir_slice){name, head}, begins[i]))
            return false;
    }
    return true;
}

/* ---- the client ------------------------------------------------------------------------------ */

bool weir_http_peer(const weir_http_options *o, const weir_http_request *r, weir_address *ret)
{
    return o->peer_address && o->peer_address(r->peer, ret);
}

bool weir_http_from_trusted(const weir_http_options *o, const weir_http_request *r)
{
    weir_address peer;
    return o->trusted.len > 0 && weir_http_peer(o, r, &peer) &&
           weir_trusted_proxies_have(&o->trusted, &peer);
}

bool weir_http_client(const weir_http_options *o, const weir_http_request *r, weir_client *ret)
{
    weir_address peer;
    if (!weir_http_peer(o, r, &peer))
        return false;
    bool is_key =
        o->client_header && o->key_header && strcasecmp(o->client_header, o->key_header) == 0;
    weir_slice header = r->header[is_key ? WEIR_HTTP_KEY : WEIR_HTTP_CLIENT];
    ret->address = weir_client_address(&o->trusted, &peer, o->client_kind, header);
    ret->is_proxy = weir_trusted_proxies_have(&o->trusted, &ret->address);
    return true;
}
