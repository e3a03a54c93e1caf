/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Preflight checks: could the daemon start on this machine with a valid configuration? A problem is
 * reported at its position in the file. An address or a state file in use is only a warning: a file
 * is often checked before a running daemon reloads it. */

#define _GNU_SOURCE /* faccessat() with AT_EACCESS, memmem() */

#include "cmd/config/keys.h"
#include "cmd/kit/units.h"

#include "net/listen.h"
#include "net/tls/client.h"
#include "net/tls/server.h"
#include "port/file.h"
#include "port/port.h"
#include "store/image/file_header.h"
#include "store/image/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define IN_USE                                                                                     \
    "this is expected if this configuration's daemon is running; otherwise weir serve cannot "     \
    "start"

/* ---- addresses ------------------------------------------------------------------------------- */

static void check_address(config_reader *r, const config_place *place, const char *address,
                          weir_listen_trial try(const char *, char *, size_t))
{
    char error[320];
    switch (try(address, error, sizeof error)) {
    case WEIR_LISTEN_FREE:
        break;
    case WEIR_LISTEN_IN_USE:
        config_warn(r->errors, place, "%s is already in use; " IN_USE, address);
        break;
    case WEIR_LISTEN_IMPOSSIBLE:
        config_error(r->errors, place, "%s", error);
        break;
    }
}

/* ---- TLS of listeners ------------------------------------------------------------------------ */

static void check_expiry(config_reader *r, const config_place *place, const char *cert,
                         const net_tls_server *server)
{
    if (net_tls_server_stats_get(server).not_after_s <= port_now_ns() / CONFIG_S_NS)
        config_warn(r->errors, place, "the certificate %.200s has expired; clients will refuse it",
                    cert);
}

/* Loads the files of a section `tls`.
 *  place  of the section. */
static void check_tls_files(config_reader *r, const config_place *place, const config_tls *tls)
{
    static const char *const keys[] = {
        [NET_TLS_CERT] = "cert", [NET_TLS_KEY] = "key", [NET_TLS_CA] = "client_ca"};
    const net_tls_server_files files = {tls->cert, tls->key, tls->client_ca};
    net_tls_failure why = {NET_TLS_CERT, "out of memory"};
    net_tls_server *server = NULL;
    weir_status st = net_tls_server_open(&server, &files, NULL, &why);
    const config_place file = config_below(place, keys[st == WEIR_OK ? NET_TLS_CERT : why.file]);
    if (st == WEIR_OK)
        check_expiry(r, &file, tls->cert, server);
    else
        config_error(r->errors, &file, "%s", why.text);
    net_tls_server_close(server);
}

static void check_entry(config_reader *r, const config_place *entry, const config_listen *listen)
{
    const config_place address = config_below(entry, "address"), tls = config_below(entry, "tls");
    check_address(r, address.node ? &address : entry, listen->address, weir_listen_try);
    if (listen->tls_choice == CONFIG_TLS_OWN)
        check_tls_files(r, &tls, &listen->tls);
}

/* Finds the place of each address. The tables are read in order, so the addresses of a
 * configuration are in the order of the keys. */
static void check_addresses(config_reader *r, const config_place *root)
{
    const config_place listen = config_below(root, "listen");
    const config_listen *next = r->config->listens, *end = next + r->config->listens_len;
    bool last = false;
    for (protocol_kind kind = 0; !last; kind++) {
        last = !config_protocol(kind);
        const config_place place =
            config_below(&listen, last ? "unix" : config_protocol(kind)->name);
        if (!place.node || strcmp(place.node->text, "off") == 0)
            continue;
        for (config_place entry = {0}; next < end && config_next_entry(&place, &entry); next++)
            check_entry(r, &entry, next);
    }
    for (; next < end; next++) /* defaults, which are not in the file */
        check_address(r, root, next->address, weir_listen_try);
}

/* ---- the state file -------------------------------------------------------------------------- */

/* Checks whether the state file could be created. */
static void check_new_file(config_reader *r, const config_place *place)
{
    char dir[PATH_MAX] = ".", needed[24], free_text[24];
    const char *path = r->config->state_file, *slash = strrchr(path, '/');
    if (slash)
        snprintf(dir, sizeof dir, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    struct statvfs disk;
    if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            config_error(r->errors, place,
                         "the directory %.200s does not exist; create it, or choose another "
                         "file",
                         dir);
        else
            config_error(r->errors, place,
                         "cannot create a file in %.200s: %s; give the user of weir serve "
                         "write permission, or choose another file",
                         dir, strerror(errno));
        return;
    }
    uint64_t bytes = r->config->memory_bytes;
    if (statvfs(dir, &disk) != 0 || disk.f_bavail >= bytes / disk.f_frsize)
        return;
    config_error(
        r->errors, place, "not enough disk space: the state file needs %s, and %.200s has %s free",
        size_text(bytes, needed, sizeof needed), dir,
        size_text((disk.f_bavail * disk.f_frsize) >> 20 << 20, free_text, sizeof free_text));
}

/* Checks the owner of the file, and whether a process uses it. A file of another user is only a
 * warning, because the daemon may run as that user. */
static void check_users(config_reader *r, const config_place *place, int fd)
{
    weir_store_error refusal = {{0}};
    port_file_rights rights;
    const weir_store_options how = {.file = r->config->state_file,
                                    .trust_others = r->config->trust_others,
                                    .ret_error = &refusal};
    if (weir_file_check_rights(&how, "", fd) != WEIR_OK) {
        if (port_file_rights_get(fd, &rights) == PORT_FILE_OK && !rights.is_ours)
            config_warn(r->errors, place, "%s", refusal.text);
        else
            config_error(r->errors, place, "%s", refusal.text);
    } else if (!r->config->shared && weir_state_file_is_used(fd)) {
        (void)weir_state_file_used_error(&how, fd, "");
        config_warn(r->errors, place, "%s; " IN_USE, refusal.text);
    }
}

/* Checks whether an open file is a state file of this version. */
static void check_head(config_reader *r, const config_place *place, int fd)
{
    weir_file_header head = {0};
    uint64_t bytes = 0;
    int64_t written_ns;
    char what[256] = "cannot be read";
    port_file_error error = port_file_info(fd, &bytes, &written_ns);
    if (error != PORT_FILE_OK)
        config_error(r->errors, place, "%.200s: %s", r->config->state_file,
                     port_file_error_text(error));
    else if ((bytes >= sizeof head && !port_file_read(fd, &head, sizeof head)) ||
             !weir_file_header_check(&head, bytes, false, what, sizeof what))
        config_error(r->errors, place, "%.200s: %s", r->config->state_file, what);
    else
        check_users(r, place, fd);
}

static void check_state_file(config_reader *r, const config_place *root)
{
    const config_place memory = config_below(root, "memory"), file = config_below(&memory, "file");
    int fd = -1;
    if (!r->config->state_file || !file.node)
        return;
    port_file_error error = port_file_open(r->config->state_file, PORT_FILE_WRITE, &fd);
    if (error == PORT_FILE_OK)
        check_head(r, &file, fd);
    else if (error == PORT_FILE_ABSENT || error == PORT_FILE_NO_DIR)
        check_new_file(r, &file);
    else
        config_error(r->errors, &file, "%.200s: %s", r->config->state_file,
                     port_file_error_text(error));
    port_file_close(fd);
}

/* ---- TLS to Redis ---------------------------------------------------------------------------- */

static void check_redis_tls(config_reader *r, const config_place *root)
{
    const config_place redis = config_below(root, "redis"), tls = config_below(&redis, "tls");
    const weir_redis_options *o = &r->config->redis;
    port_tls *opened = NULL;
    char error[256] = "out of memory";
    if (!config_wants_tls(r->config) || !redis.node)
        return;
    if (net_tls_open(&opened, o->tls_ca, o->tls_cert, o->tls_key, o->tls_insecure, error,
                     sizeof error) != WEIR_OK)
        config_error(r->errors, tls.node ? &tls : &redis, "%s", error);
    net_tls_close(opened);
}

/* ---- passwords ------------------------------------------------------------------------------- */

/*  what  such as "this password". */
static void warn_if_readable(config_reader *r, const config_place *place, const char *what,
                             const char *path)
{
    struct stat st;
    if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IROTH))
        config_warn(r->errors, place,
                    "all users of this machine can read %s, because %.200s has the mode %04o; "
                    "expected at most 0640",
                    what, path, (unsigned)st.st_mode & 07777U);
}

/* Whether a value is in the file itself, and not in a variable. */
static bool is_written_out(const config_node *n)
{
    return n->kind == CONFIG_SCALAR && n->len > 0 &&
           !memmem(n->file->text + n->begin, n->end - n->begin, "${", 2);
}

static bool is_key(const config_node *key, const char *name, const char *other)
{
    return strcmp(key->text, name) == 0 || strcmp(key->text, other) == 0;
}

static bool has_password(const config_node *url)
{
    weir_redis_url parsed;
    return url->kind == CONFIG_SCALAR && weir_redis_url_read(url->text, &parsed, NULL) == WEIR_OK &&
           parsed.has_password;
}

/* Warns of passwords and headers of a map and the maps below that all users can read.
 *  last  the file of the last password that was written out; one warning for a file is enough. */
static void check_passwords(config_reader *r, const config_place *map, const config_errors **last)
{
    for (const config_node *key = map->node->first; key; key = key->next) {
        const config_place below = {.up = map, .key = key, .node = key->value};
        bool here = strcmp(key->text, "password") == 0, in_url = is_key(key, "url", "urls");
        bool named = is_key(key, "password_file", "headers_file");
        config_place entry = {0};
        while ((here || in_url || named) && config_next_entry(&below, &entry)) {
            const config_errors *file = entry.node->file;
            if (named) {
                warn_if_readable(r, &entry, key->text[0] == 'h' ? "these headers" : "this password",
                                 config_resolve_path(r, entry.node->text));
            } else if (file != *last && is_written_out(entry.node) &&
                       (here || has_password(entry.node))) {
                warn_if_readable(r, &entry, "this password", file->file);
                *last = file;
            }
        }
        if (!here && key->value->kind == CONFIG_MAP && strcmp(key->text, "policies") != 0)
            check_passwords(r, &below, last);
    }
}

void config_preflight(config_reader *r)
{
    const config_place root = {.node = r->root};
    const config_place tls = config_below(&root, "tls"),
                       hand_over = config_below(&root, "hand_over");
    if (r->config->tls.cert)
        check_tls_files(r, &tls, &r->config->tls);
    check_addresses(r, &root);
    if (r->config->hand_over)
        check_address(r, &hand_over, r->config->hand_over, weir_listen_try_packets);
    check_state_file(r, &root);
    check_redis_tls(r, &root);
    check_passwords(r, &root, &(const config_errors *){NULL});
}
