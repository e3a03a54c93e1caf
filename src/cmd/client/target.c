/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Messages never quote a URL, since it may contain a password. */

#include "cmd/client/target.h"

#include "port/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

typedef struct reading {
    const client_login *login;
    client_target *ret;
    char *error;
} reading;

__attribute__((format(printf, 2, 3))) static bool refuse(const reading *r, const char *text, ...)
{
    va_list args;
    va_start(args, text);
    vsnprintf(r->error, CLIENT_ERROR_MAX, text, args);
    va_end(args);
    return false;
}

/* ---- where ----------------------------------------------------------------------------------- */

static bool read_port(const char *digits, uint16_t *ret)
{
    uint64_t n = 0;
    if (strlen(digits) > 5 || !weir_decimal_read(digits, strlen(digits), 65535, &n))
        return false;
    *ret = (uint16_t)n;
    return n >= 1;
}

/* Returns the digits of PORT or :PORT, which mean a port of 127.0.0.1, as `listen` in weir.yaml
 * does; NULL if `server` is anything else. */
static const char *port_alone(const char *server)
{
    const char *digits = server + (server[0] == ':');
    return *digits && digits[strspn(digits, "0123456789")] == '\0' ? digits : NULL;
}

/* Splits HOST:PORT, [IPV6]:PORT, HOST, [IPV6] or a bare IPv6 address. */
static bool split(const char *server, weir_redis_url *u)
{
    bool bracket = server[0] == '[';
    const char *begin = server + bracket, *end = strchr(server, bracket ? ']' : ':');
    if (!bracket && end && strchr(end + 1, ':')) /* two colons: an IPv6 address without a port */
        end = NULL;
    if (bracket && !end)
        return false;
    const char *rest = end ? end + bracket : "";
    size_t host_len = end ? (size_t)(end - begin) : strlen(begin);
    if (host_len == 0 || host_len >= sizeof u->host || (*rest && *rest != ':'))
        return false;
    memcpy(u->host, begin, host_len);
    return read_port(*rest ? rest + 1 : CLIENT_PORT, &u->port);
}

/* Reads an address without a scheme. A port alone gets CLIENT_HOST, also in messages. */
static bool read_host(const reading *r)
{
    const char *server = r->login->server, *digits = port_alone(server);
    weir_redis_url *u = &r->ret->url;
    bool good = digits ? read_port(digits, &u->port) : split(server, u);
    if (!good)
        return refuse(r, "'%s': expected " CLIENT_EXPECTED, server);
    u->tls = r->login->tls;
    if (digits) {
        snprintf(u->host, sizeof u->host, CLIENT_HOST);
        snprintf(r->ret->name, sizeof r->ret->name, CLIENT_HOST ":%u", (unsigned)u->port);
    } else {
        snprintf(r->ret->name, sizeof r->ret->name, "%s", server);
    }
    return true;
}

static bool read_path(const reading *r, const char *path)
{
    size_t len = strlen(path), max = sizeof((struct sockaddr_un *)0)->sun_path - 1;
    weir_redis_url *u = &r->ret->url;
    if (len > max)
        return refuse(r, "%s: expected a socket path of at most %zu bytes, found %zu", path, max,
                      len);
    if (r->login->tls)
        return refuse(r, "--tls: expected HOST:PORT, found the path of a socket, which has no TLS");
    memmove(u->host, path, len + 1);
    memcpy(r->ret->name, path, len + 1);
    return r->ret->is_path = true;
}

/* ---- URLs ------------------------------------------------------------------------------------ */

/* The length of a URL scheme with its "://", or 0 if `server` is not a URL. */
static size_t scheme_len(const char *server)
{
    size_t len = strspn(server, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return len > 0 && strncmp(server + len, "://", 3) == 0 ? len + 3 : 0;
}

static bool read_url(const reading *r, size_t scheme)
{
    const char *server = r->login->server;
    weir_redis_url *u = &r->ret->url;
    weir_redis_error why;
    if (strncmp(server, "redis://", 8) != 0 && strncmp(server, "rediss://", 9) != 0 &&
        strncmp(server, "unix://", 7) != 0)
        return refuse(r,
                      "the server begins with %.*s, expected redis://, rediss:// (TLS), "
                      "unix://, or HOST:PORT",
                      (int)scheme, server);
    if (weir_redis_url_read(server, u, &why) != WEIR_OK)
        return refuse(r, "the server: %s", why.text);
    if (u->database != 0)
        return refuse(r, "the server's URL has database %u, expected 0 or none",
                      (unsigned)u->database);
    if (u->has_password && r->login->visible)
        return refuse(r, "--server: the URL has a password, which other users of this machine can "
                         "see; set WEIR_SERVER to the URL, or use --user and --password-file");
    if (u->host[0] == '/')
        return read_path(r, u->host);
    if (r->login->tls && !u->tls)
        return refuse(r, "--tls: the server begins with redis://, expected rediss://");
    if (u->port == 0)
        (void)read_port(CLIENT_PORT, &u->port);
    bool v6 = strchr(u->host, ':') != NULL;
    snprintf(r->ret->name, sizeof r->ret->name, "%s%s%s:%u", v6 ? "[" : "", u->host, v6 ? "]" : "",
             (unsigned)u->port);
    return true;
}

/* ---- who ------------------------------------------------------------------------------------- */

static bool check_tls(const reading *r)
{
    const client_login *l = r->login;
    const char *option = l->ca ? "--ca" : l->cert ? "--cert" : l->key ? "--key" : "--server-name";
    if (!r->ret->url.tls && (l->ca || l->cert || l->key || l->server_name))
        return refuse(r, "%s: expected --tls, too, or a server that begins with rediss://", option);
    if (!l->cert != !l->key)
        return refuse(r, "expected both --cert and --key, found only %s",
                      l->cert ? "--cert" : "--key");
    return true;
}

/* The URL's password is used instead of that of WEIR_PASSWORD. */
static bool read_login(const reading *r)
{
    const client_login *l = r->login;
    client_target *a = r->ret;
    if (l->user && a->url.user[0])
        return refuse(r, "--user: the server's URL has a user, too; expected only one");
    if (l->password_file && a->url.has_password)
        return refuse(r,
                      "--password-file: the server's URL has a password, too; expected only one");
    a->user = a->url.user[0] ? a->url.user : l->user;
    a->password = a->url.has_password ? a->url.password : l->password;
    a->password_from = a->url.has_password ? "the server's URL"
                       : l->password_file  ? l->password_file
                                           : "WEIR_PASSWORD";
    if (a->user && !a->password)
        return refuse(r, "a user requires a password: set WEIR_PASSWORD, or use --password-file");
    return true;
}

bool client_target_read(const client_login *login, client_target *ret, char *ret_error)
{
    const reading r = {login, ret, ret_error};
    *ret = (client_target){0};
    size_t scheme = scheme_len(login->server);
    bool good = scheme > 0                   ? read_url(&r, scheme)
                : strchr(login->server, '/') ? read_path(&r, login->server)
                                             : read_host(&r);
    return good && check_tls(&r) && read_login(&r);
}
