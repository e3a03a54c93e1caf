/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of routes is searched from its beginning, since the first match counts. A table that is
 * too long for that would be too long for people as well. */

#include "service/rules/routes.h"

#include "port/assert.h"
#include "port/port.h"
#include "service/rules/address.h"

#include <string.h>

typedef struct entry {
    weir_route route;
    weir_slice *policies, *methods, *hosts; /* hosts: normalised; ".example.com": all below */
    size_t methods_len, hosts_len;
    weir_slice path; /* normalised, without a last '/' unless `below` */
    bool below;      /* matches only paths below `path`, which ends with '/' */
    bool wild;       /* `path` has a segment "*" */
} entry;

struct weir_routes {
    size_t refs;
    size_t len;
    weir_encoded_slash slash;
    entry at[];
};

/* ---- normal forms ---------------------------------------------------------------------------- */

static bool is_literal(int c)
{
    return c > ' ' && c < 0x7F && !strchr("%/;?#", c);
}

static size_t put_encoded(char *at, int c)
{
    static const char digits[] = "0123456789ABCDEF";
    if (is_literal(c)) {
        at[0] = (char)c;
        return 1;
    }
    at[0] = '%';
    at[1] = digits[c >> 4];
    at[2] = digits[c & 15];
    return 3;
}

/* Writes one segment. Returns its length. */
static size_t put_segment(char *buf, const char *at, const char *end)
{
    size_t n = 0;
    while (at < end) {
        int c = weir_percent_read(at, (size_t)(end - at));
        at += c >= 0 ? 3 : 1;
        n += put_encoded(buf + n, c >= 0 ? c : (uint8_t)at[-1]);
    }
    return n;
}

static bool is_slash(int c)
{
    return c == '/' || c == '\\';
}

/* An encoded slash and a backslash count as separators around "..", because they are for some
 * servers. */
weir_path_refusal weir_path_refused(weir_slice path)
{
    const char *at = path.at, *end = path.at + path.len;
    weir_path_refusal found = WEIR_PATH_GOOD;
    int dots = 0; /* of a segment that has nothing else; otherwise 3 */
    while (at < end) {
        int c = weir_percent_read(at, (size_t)(end - at));
        bool encoded = c >= 0;
        at += encoded ? 3 : 1;
        c = encoded ? c : at[-1];
        bool ends = is_slash(c) || c == ';';
        if (c == '\0')
            return WEIR_PATH_NUL;
        if (ends && dots == 2)
            found = WEIR_PATH_DOT_DOT;
        else if ((c == '\\' || (encoded && c == '/')) && found == WEIR_PATH_GOOD)
            found = WEIR_PATH_SLASH;
        if (ends)
            dots = c == ';' ? 3 : 0;
        else
            dots = c == '.' && dots < 3 ? dots + 1 : 3;
    }
    return dots == 2 ? WEIR_PATH_DOT_DOT : found;
}

/* Finds the end of a segment: a separator, or `end`.
 *  ret_next  the byte after the separator. */
static const char *segment_end(const char *at, const char *end, weir_encoded_slash slash,
                               const char **ret_next)
{
    for (; at < end; at++) {
        int c = *at == '%' ? weir_percent_read(at, (size_t)(end - at)) : *at;
        if (*at == '/' || (slash == WEIR_SLASH_SEPARATE && is_slash(c))) {
            *ret_next = at + (*at == '%' ? 3 : 1);
            return at;
        }
    }
    *ret_next = end;
    return end;
}

size_t weir_path_normalise(weir_slice path, weir_encoded_slash slash, char *buf)
{
    const char *at = path.at, *end = path.at + path.len, *next;
    size_t len = 1; /* ends with '/' before each segment */
    if (path.len > WEIR_ROUTE_PATH_MAX)
        return 0;
    weir_path_refusal found = weir_path_refused(path);
    if (found > WEIR_PATH_SLASH || (found == WEIR_PATH_SLASH && slash == WEIR_SLASH_REFUSE))
        return 0;
    buf[0] = '/';
    for (; at < end; at = next) {
        const char *stop = segment_end(at, end, slash, &next);
        const char *params = stop > at ? memchr(at, ';', (size_t)(stop - at)) : NULL;
        size_t n = put_segment(buf + len, at, params ? params : stop);
        if (n == 0 || (n == 1 && buf[len] == '.'))
            continue;
        len += n;
        if (stop < end)
            buf[len++] = '/';
    }
    return len;
}

size_t weir_host_normalise(weir_slice host, char *buf)
{
    if (host.len == 0)
        return 0;
    const char *begin = host.at, *end = host.at + host.len;
    bool v6 = *begin == '[';
    const char *stop = memchr(begin, v6 ? ']' : ':', host.len);
    if (stop)
        end = v6 ? stop + 1 : stop;
    if (end > begin && end[-1] == '.')
        end--;
    size_t len = (size_t)(end - begin);
    weir_address address;
    if (len > WEIR_ROUTE_HOST_MAX)
        return 0;
    if (v6 && stop && weir_address_parse(&address, begin + 1, len - 2)) {
        len = weir_address_print(&address, weir_address_bits(&address), buf + 1) + 2;
        buf[0] = '[';
        buf[len - 1] = ']';
        return len;
    }
    for (size_t i = 0; i < len; i++)
        buf[i] = weir_lower(begin[i]);
    return len;
}

/* ---- building -------------------------------------------------------------------------------- */

static bool copy(weir_slice *ret, const char *at, size_t len)
{
    char *bytes = port_zalloc(1, len + 1);
    if (bytes)
        memcpy(bytes, at, len);
    *ret = (weir_slice){bytes, len};
    return bytes;
}

typedef weir_status copy_one(weir_slice *ret, const char *text);

static weir_status copy_name(weir_slice *ret, const char *text)
{
    size_t len = strlen(text);
    if (weir_rule_name_check(text, len, NULL) != WEIR_OK)
        return WEIR_E_RANGE;
    return copy(ret, text, len) ? WEIR_OK : WEIR_E_NOMEM;
}

static weir_status copy_method(weir_slice *ret, const char *text)
{
    size_t len = strlen(text);
    if (len < 1 || len > WEIR_ROUTE_METHOD_MAX)
        return WEIR_E_RANGE;
    return copy(ret, text, len) ? WEIR_OK : WEIR_E_NOMEM;
}

/* Copies "*.example.com" as ".example.com". */
static weir_status copy_host(weir_slice *ret, const char *text)
{
    char host[WEIR_ROUTE_HOST_MAX];
    size_t wildcard = text[0] == '*' && text[1] == '.';
    text += wildcard;
    size_t len = weir_host_normalise((weir_slice){text, strlen(text)}, host);
    if (len <= wildcard || (!wildcard && host[0] == '.') || memchr(host, '*', len))
        return WEIR_E_RANGE;
    return copy(ret, host, len) ? WEIR_OK : WEIR_E_NOMEM;
}

static weir_status copy_list(weir_slice **ret, size_t *ret_len, const char *const *texts, size_t n,
                             size_t max, copy_one *fn)
{
    if (n > max)
        return WEIR_E_RANGE;
    weir_slice *list = port_zalloc(n > 0 ? n : 1, sizeof *list);
    weir_status st = list ? WEIR_OK : WEIR_E_NOMEM;
    *ret = list;
    for (size_t i = 0; i < n && st == WEIR_OK; i++) {
        st = fn(&list[i], texts[i]);
        *ret_len += st == WEIR_OK;
    }
    return st;
}

static void free_list(weir_slice *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        port_free((void *)list[i].at);
    port_free(list);
}

/* Whether each '*' of a normalised path is a whole segment. */
static bool has_whole_wildcards(const char *path, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (path[i] == '*' && (path[i - 1] != '/' || (i + 1 < len && path[i + 1] != '/')))
            return false;
    }
    return true;
}

static weir_status copy_path(entry *e, const char *text, weir_encoded_slash slash)
{
    char path[WEIR_PATH_ROOM];
    if (text && text[0] != '/')
        return WEIR_E_RANGE;
    size_t len =
        weir_path_normalise((weir_slice){text ? text : "/", text ? strlen(text) : 1}, slash, path);
    if (len == 0 || !has_whole_wildcards(path, len))
        return WEIR_E_RANGE;
    e->below = len > 1 && path[len - 1] == '/';
    e->wild = memchr(path, '*', len) != NULL;
    return copy(&e->path, path, len) ? WEIR_OK : WEIR_E_NOMEM;
}

static weir_status build_entry(entry *e, const weir_route_spec *spec, weir_encoded_slash slash)
{
    const char *name = spec->name ? spec->name : spec->path ? spec->path : "/";
    if (spec->cost < 0 || spec->cost > WEIR_COST_MAX)
        return WEIR_E_RANGE;
    if (spec->keep < WEIR_KEEP_PERCENT(100) || spec->keep > WEIR_COST_MAX)
        return WEIR_E_RANGE;
    e->route.cost = spec->cost;
    e->route.keep = spec->keep;
    weir_status st = copy(&e->route.name, name, strlen(name)) ? WEIR_OK : WEIR_E_NOMEM;
    if (st == WEIR_OK)
        st = copy_list(&e->methods, &e->methods_len, spec->methods, spec->methods_len,
                       WEIR_ROUTE_LIST_MAX, copy_method);
    if (st == WEIR_OK)
        st = copy_list(&e->hosts, &e->hosts_len, spec->hosts, spec->hosts_len, WEIR_ROUTE_LIST_MAX,
                       copy_host);
    if (st == WEIR_OK)
        st = copy_list(&e->policies, &e->route.policies_len, spec->policies, spec->policies_len,
                       WEIR_ROUTE_POLICIES_MAX, copy_name);
    if (st == WEIR_OK)
        st = copy_path(e, spec->path, slash);
    e->route.policies = e->policies;
    return st;
}

weir_status weir_routes_build(weir_routes **ret, const weir_route_spec *specs, size_t n,
                              weir_encoded_slash slash)
{
    if (n > WEIR_ROUTES_MAX)
        return WEIR_E_RANGE;
    weir_routes *r = port_zalloc(1, sizeof *r + n * sizeof r->at[0]);
    weir_status st = r ? WEIR_OK : WEIR_E_NOMEM;
    if (r) {
        r->refs = 1;
        r->slash = slash;
    }
    for (size_t i = 0; i < n && st == WEIR_OK; i++) {
        r->len++;
        st = build_entry(&r->at[i], &specs[i], slash);
    }
    if (st == WEIR_OK)
        *ret = r;
    else
        weir_routes_drop(r);
    return st;
}

weir_routes *weir_routes_share(weir_routes *r)
{
    if (r)
        r->refs++;
    return r;
}

void weir_routes_drop(weir_routes *r)
{
    WEIR_ASSERT(!r || r->refs > 0);
    if (!r || --r->refs > 0)
        return;
    for (entry *e = r->at; e < r->at + r->len; e++) {
        free_list(e->policies, e->route.policies_len);
        free_list(e->methods, e->methods_len);
        free_list(e->hosts, e->hosts_len);
        port_free((void *)e->route.name.at);
        port_free((void *)e->path.at);
    }
    port_free(r);
}

/* ---- finding --------------------------------------------------------------------------------- */

static bool same(weir_slice a, weir_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static bool same_text(weir_slice a, const char *text)
{
    return same(a, (weir_slice){text, strlen(text)});
}

static bool has_method(const entry *e, weir_slice method)
{
    for (size_t i = 0; i < e->methods_len; i++) {
        if (same(e->methods[i], method) ||
            (same_text(e->methods[i], "GET") && same_text(method, "HEAD")))
            return true;
    }
    return e->methods_len == 0;
}

/* Whether a host, or a pattern such as ".example.com", is within a pattern. */
static bool is_within(weir_slice host, weir_slice pattern)
{
    if (pattern.at[0] != '.' || host.len <= pattern.len)
        return same(host, pattern);
    return memcmp(host.at + host.len - pattern.len, pattern.at, pattern.len) == 0;
}

static bool has_host(const entry *e, weir_slice host)
{
    for (size_t i = 0; i < e->hosts_len; i++) {
        if (host.len > 0 && is_within(host, e->hosts[i]))
            return true;
    }
    return e->hosts_len == 0;
}

/* As has_path(), for a path with a segment "*". */
static bool has_wild_path(const entry *e, weir_slice path)
{
    const char *at = path.at, *end = path.at + path.len;
    for (const char *p = e->path.at; p < e->path.at + e->path.len; p++) {
        const char *begin = at;
        if (*p == '*') {
            while (at < end && *at != '/')
                at++;
        } else {
            at += at < end && *at == *p;
        }
        if (at == begin)
            return false;
    }
    return e->below || at == end || *at == '/';
}

static bool has_path(const entry *e, weir_slice path)
{
    size_t n = e->path.len;
    if (n == 1)
        return true;
    if (e->wild)
        return has_wild_path(e, path);
    if (path.len < n || memcmp(path.at, e->path.at, n) != 0)
        return false;
    return e->below || path.len == n || path.at[n] == '/';
}

const weir_route *weir_routes_find(const weir_routes *r, const weir_route_request *request)
{
    for (size_t i = 0; r && i < r->len; i++) {
        const entry *e = &r->at[i];
        if (has_path(e, request->path) && has_method(e, request->method) &&
            has_host(e, request->host))
            return &e->route;
    }
    return NULL;
}

const weir_route *weir_routes_named(const weir_routes *r, const char *name, size_t len)
{
    for (size_t i = 0; r && i < r->len; i++) {
        if (same(r->at[i].route.name, (weir_slice){name, len}))
            return &r->at[i].route;
    }
    return NULL;
}

weir_encoded_slash weir_routes_slash(const weir_routes *r)
{
    return r ? r->slash : WEIR_SLASH_REFUSE;
}

/* Whether a route has the methods and the paths of another one. */
static bool covers_request(const entry *a, const entry *b)
{
    bool all = has_path(a, b->path) && (a->methods_len == 0 || b->methods_len > 0);
    for (size_t i = 0; all && i < b->methods_len; i++)
        all = has_method(a, b->methods[i]);
    return all;
}

static bool covers(const entry *a, const entry *b)
{
    bool all = covers_request(a, b) && (a->hosts_len == 0 || b->hosts_len > 0);
    for (size_t i = 0; all && i < b->hosts_len; i++)
        all = has_host(a, b->hosts[i]);
    return all;
}

size_t weir_routes_covering(const weir_routes *r, size_t i)
{
    size_t first = 0;
    WEIR_ASSERT(i < r->len);
    while (first < i && !covers(&r->at[first], &r->at[i]))
        first++;
    return first;
}

bool weir_routes_miss_hosts(const weir_routes *r, size_t i)
{
    WEIR_ASSERT(i < r->len);
    size_t k = 0;
    while (k < r->len && (r->at[k].hosts_len > 0 || !covers_request(&r->at[k], &r->at[i])))
        k++;
    return r->at[i].hosts_len > 0 && k == r->len;
}
