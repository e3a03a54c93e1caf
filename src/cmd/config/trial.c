/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The trial walks the tree once more, because what it finds must point at its place in the file. An
 * address or a state file that is in use is only a warning: a file is often checked before a
 * running daemon reads it again. */

#define _GNU_SOURCE /* faccessat() with AT_EACCESS */

#include "cmd/config/trial.h"

#include "net/listen.h"
#include "net/tls.h"
#include "port/file.h"
#include "store/image/file_error.h"
#include "store/image/file_header.h"
#include "store/image/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define IN_USE "expected if the daemon of this file is running, otherwise weir serve cannot start"

/* ---- places ---------------------------------------------------------------------------------- */

/* The place of a key; below->node is NULL if the map has no such key. */
static config_place below(const config_place *up, const char *name)
{
    const config_node *key = up->node && up->node->kind == CONFIG_MAP ? up->node->first : NULL;
    while (key && strcmp(key->text, name) != 0)
        key = key->next;
    return (config_place){up, key, 0, key ? key->value : NULL};
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void try_address(config_reader *r, const config_place *place, const char *address)
{
    char error[320];
    switch (weir_listening_try(address, error, sizeof error)) {
    case WEIR_LISTENING_FREE:
        break;
    case WEIR_LISTENING_IN_USE:
        config_warn(r->errors, place, "%s is already in use; " IN_USE, address);
        break;
    case WEIR_LISTENING_IMPOSSIBLE:
        config_complain(r->errors, place, "%s", error);
        break;
    }
}

/* The addresses of one key of `listen`, which are the configuration's from *i on. */
static void try_listen(config_reader *r, const config_place *place, size_t *i)
{
    const config_node *n = place->node;
    const config_listen *listens = r->config->listens;
    if (n->kind == CONFIG_TEXT && strcmp(n->text, "off") != 0)
        try_address(r, place, listens[(*i)++].address);
    if (n->kind != CONFIG_LIST)
        return;
    size_t index = 0;
    for (const config_node *child = n->first; child; child = child->next, index++) {
        const config_place entry = {place, NULL, index, child};
        try_address(r, &entry, listens[(*i)++].address);
    }
}

static void try_listens(config_reader *r, const config_place *root)
{
    const config_place listen = below(root, "listen");
    size_t i = 0;
    if (!listen.node) { /* the defaults have no place of their own */
        for (; i < r->config->listens_len; i++)
            try_address(r, root, r->config->listens[i].address);
        return;
    }
    for (const config_node *key = listen.node->first; key; key = key->next) {
        const config_place one = {&listen, key, 0, key->value};
        try_listen(r, &one, &i);
    }
}

/* ---- the state file -------------------------------------------------------------------------- */

/* A new file would be made here. */
static void try_new_file(config_reader *r, const config_place *place)
{
    char dir[PATH_MAX] = ".", needed[24], free_text[24];
    const char *path = r->config->state_file, *slash = strrchr(path, '/');
    if (slash)
        snprintf(dir, sizeof dir, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    struct statvfs disk;
    if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            config_complain(r->errors, place,
                            "there is no directory %.200s; create it, or name another file", dir);
        else
            config_complain(r->errors, place,
                            "cannot create a file in %.200s: %s; give the user of weir serve "
                            "write permission, or choose another file",
                            dir, strerror(errno));
        return;
    }
    uint64_t bytes = r->config->memory_bytes;
    if (statvfs(dir, &disk) != 0 || disk.f_bavail >= bytes / disk.f_frsize)
        return;
    config_complain(
        r->errors, place, "not enough disk space: the state file needs %s, and %.200s has %s free",
        config_size_text(bytes, needed, sizeof needed), dir,
        config_size_text((disk.f_bavail * disk.f_frsize) >> 20 << 20, free_text, sizeof free_text));
}

/* Whose the file is, and who uses it. A file of another user is only a warning, for the check may
 * be run by another user than the daemon. */
static void try_users(config_reader *r, const config_place *place, int fd)
{
    weir_store_error said = {{0}};
    port_file_rights rights;
    const weir_store_options how = {
        .file = r->config->state_file, .trust_others = r->config->trust_others, .ret_error = &said};
    if (weir_file_check_rights(&how, "", fd) != WEIR_OK) {
        if (port_file_rights_get(fd, &rights) == PORT_FILE_OK && !rights.is_ours)
            config_warn(r->errors, place, "%s", said.text);
        else
            config_complain(r->errors, place, "%s", said.text);
    } else if (!r->config->shared && weir_state_file_is_used(fd)) {
        (void)weir_state_file_used_error(&how, fd, "");
        config_warn(r->errors, place, "%s; " IN_USE, said.text);
    }
}

/* Whether an open file is a state file that this program can use. */
static void try_head(config_reader *r, const config_place *place, int fd)
{
    weir_file_header head = {0};
    uint64_t bytes = 0;
    int64_t written_ns;
    char what[256] = "it cannot be read";
    port_file_error error = port_file_info(fd, &bytes, &written_ns);
    if (error != PORT_FILE_OK)
        config_complain(r->errors, place, "%.200s: %s", r->config->state_file,
                        port_file_error_text(error));
    else if ((bytes >= sizeof head && !port_file_read(fd, &head, sizeof head)) ||
             !weir_file_header_check(&head, bytes, what, sizeof what))
        config_complain(r->errors, place, "%.200s: %s", r->config->state_file, what);
    else
        try_users(r, place, fd);
}

static void try_state_file(config_reader *r, const config_place *root)
{
    const config_place memory = below(root, "memory"), file = below(&memory, "file");
    int fd = -1;
    if (!r->config->state_file || !file.node)
        return;
    port_file_error error = port_file_open(r->config->state_file, PORT_FILE_WRITE, &fd);
    if (error == PORT_FILE_OK)
        try_head(r, &file, fd);
    else if (error == PORT_FILE_ABSENT || error == PORT_FILE_NO_DIR)
        try_new_file(r, &file);
    else
        config_complain(r->errors, &file, "%.200s: %s", r->config->state_file,
                        port_file_error_text(error));
    port_file_close(fd);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static void try_tls(config_reader *r, const config_place *root)
{
    const config_place redis = below(root, "redis"), tls = below(&redis, "tls");
    const weir_redis_options *o = &r->config->redis;
    port_tls *opened = NULL;
    char error[256] = "out of memory";
    if (!config_wants_tls(r->config) || !redis.node)
        return;
    if (net_tls_open(&opened, o->tls_ca, o->tls_cert, o->tls_key, o->tls_insecure, error,
                     sizeof error) != WEIR_OK)
        config_complain(r->errors, tls.node ? &tls : &redis, "%s", error);
    net_tls_close(opened);
}

void config_try(config_reader *r)
{
    const config_place root = {.node = r->root};
    try_listens(r, &root);
    try_state_file(r, &root);
    try_tls(r, &root);
}
