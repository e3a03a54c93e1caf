/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_MODULE_SERVER_H
#define WEIR_TESTS_MODULE_SERVER_H
/* A fake Redis server in this process, with the parts that the module uses: keys in two databases,
 * a clock that the test sets, replies, and replication. The second database is a replica of the
 * first: it gets the commands that the module replicates, and must stay equal byte by byte. The key
 * "foreign" has a type of another module. A forbidden call by the module ends in abort(), and so
 * does a key that a command leaves open. */

#include "modules/redis/abi.h"

#include <stdbool.h>
#include <stdint.h>

enum { MODULE_SERVER_REPLIES = 160, MODULE_SERVER_ARGS = 64 };

typedef struct module_bytes {
    const void *at;
    size_t len;
} module_bytes;

/* The reply to the last command: integers, and the lengths of arrays and maps. A string is stored
 * as 0. `len` also counts the values that exceed MODULE_SERVER_REPLIES, which are not stored. */
typedef struct module_reply {
    size_t len;
    size_t maps; /* the number of maps */
    int64_t integer[MODULE_SERVER_REPLIES];
    char text[1024]; /* all strings, each followed by '|'; the part that fits */
    size_t text_len;
    bool failed; /* the reply is the error below */
    char error[512];
} module_reply;

/* Loads the module. */
void module_server_open(void);

/* The same, into a server that has no events to subscribe to. */
void module_server_open_without_events(void);

/* Sets the protocol of the client, RESP 2 or 3. The default is 2. */
void module_server_speak(int proto);

/* Finds an API function of this server by its name, which begins with "RedisModule_". */
int module_server_get_api(const char *name, void *ret);

/* Bytes of payloads that the last command replicated. */
size_t module_server_payloads(void);

/* How often the module has allocated memory so far, or set an expiry. */
unsigned long module_server_allocations(void);
unsigned long module_server_expiries(void);

/* Calls a function at each event that the module publishes in the first database, as a server calls
 * the modules that subscribed to it. NULL: none. */
void module_server_on_notice(void (*fn)(void));

/* How many blocks of memory the module has now. */
long module_server_blocks(void);
void module_server_close(void);

/* Turns replication on (the default) or off, by the event for an AOF. When it is turned on again,
 * the replica starts with a copy of all states, as from an RDB. */
void module_server_replicate(bool on);

/* Deletes all keys, all policies and their generations. */
void module_server_flush(void);

void module_server_set_time(int64_t now_ns);

/* Steps the wall clock, by which keys expire: ahead_ns, 0 or more, is how much it is then ahead of
 * the time of decisions. */
void module_server_step_wall_clock(int64_t ahead_ns);

/* Deletes the expired keys, as a server may do at any moment or never. */
void module_server_expire(void);

/* Runs a command in the first database, runs the replicated commands in the second, and checks that
 * both are equal. With replication off, the command must not serialise any state.
 * Returns the reply, which is valid until the next call; NULL if the command does not exist. */
const module_reply *module_server_run(const module_bytes *args, size_t len);

/* Loads a value from an RDB with these bytes; then saves, copies, digests and frees it. Returns
 * false if the module refused it. */
bool module_server_load(const uint8_t *bytes, size_t len);

/* Returns the value of a key as in an RDB; len is 0 if the key does not exist. Valid until the next
 * call. */
module_bytes module_server_saved(const char *name);

/* When a key expires, in ms; 0: it does not exist. */
int64_t module_server_expiry_ms(const char *name);

#endif
