/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_MODULE_SERVER_H
#define WEIR_TESTS_MODULE_SERVER_H
/* As much of a server as the module asks for, in this process: keys in two databases, a clock that
 * stands where it is put, replies as they are written, and what would go to replicas. The second
 * database is a replica of the first: it is told what the module tells replicas, and must become
 * the same to the byte. Whatever the module must not do ends in abort(). */

#include "modules/redis/abi.h"

#include <stdbool.h>
#include <stdint.h>

enum { MODULE_SERVER_REPLIES = 160, MODULE_SERVER_ARGS = 64 };

typedef struct module_bytes {
    const void *at;
    size_t len;
} module_bytes;

/* Of the last command: integers, and the lengths of arrays and maps; texts count as 0. Those after
 * the last that is kept are only counted. */
typedef struct module_reply {
    size_t len;
    size_t maps; /* how many of them are maps */
    int64_t integer[MODULE_SERVER_REPLIES];
    bool failed; /* an error, which is here: */
    char error[512];
} module_reply;

/* Loads the module. */
void module_server_open(void);

/* The protocol of the client, 2 or 3; 2 at first. */
void module_server_speak(int proto);

/* Whether each server that lacks one function is taken, or refused with a line in its log, as it
 * must be. */
bool module_server_old_ones(void);
void module_server_close(void);

/* Whether anybody follows, as at first: an AOF, of which the module is told by an event. A replica
 * that begins to follow again begins with what an RDB would have. */
void module_server_follow(bool followed);

/* Drops all keys, and all policies. */
void module_server_flush(void);

void module_server_set_time(int64_t now_ns);

/* Drops the keys whose time is over, as a server may at any moment or never. */
void module_server_expire(void);

/* Runs a command in the first database, then what it tells replicas in the second, and compares
 * these, unless nobody follows; then nothing may be put into words. NULL if there is no such
 * command, else its reply, which is good until the next one. */
const module_reply *module_server_run(const module_bytes *args, size_t len);

/* Loads a value as from an RDB, whose strings are these bytes, under the name "k" in the first
 * database; then saves, copies, digests and frees it. False if it was refused. */
bool module_server_load(const uint8_t *bytes, size_t len);

/* What is stored under a name, as its RDB; len 0 if nothing is. Good until the next call. */
module_bytes module_server_saved(const char *name);

#endif
