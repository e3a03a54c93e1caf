/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_ABI_H
#define WEIR_MODULES_REDIS_ABI_H
/* The module API of Redis (since 6.2) and Valkey: types, constants, and a table of functions. The
 * functions are looked up by name when the module is loaded. Knows nothing about weir.
 *
 * A server that lacks a function of REDIS_NEEDED is too old. Functions of REDIS_WANTED may be
 * NULL. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct redis_ctx redis_ctx;
typedef struct redis_key redis_key;
typedef struct redis_string redis_string;
typedef struct redis_io redis_io;
typedef struct redis_digest redis_digest;
typedef struct redis_type redis_type;
typedef struct redis_command redis_command;
typedef struct redis_info redis_info;

typedef struct redis_event {
    uint64_t id, version;
} redis_event;
typedef void (*redis_event_fn)(redis_ctx *ctx, redis_event event, uint64_t what, void *data);

typedef int (*redis_command_fn)(redis_ctx *ctx, redis_string **argv, int argc);

enum { REDIS_OK = 0, REDIS_ERR = 1 };
enum { REDIS_API_VERSION = 1 };
enum { REDIS_READ = 1, REDIS_WRITE = 2 };              /* of OpenKey() */
enum { REDIS_KEY_EMPTY = 0, REDIS_KEY_OF_MODULE = 6 }; /* of KeyType() */
enum { REDIS_EVENT_GENERIC = 1 << 2, REDIS_EVENT_OF_MODULE = 1 << 13 };
enum { /* of SetModuleOptions(); the last one is Valkey 9's, and other servers ignore it */
       REDIS_HANDLES_IO_ERRORS = 1 << 0,
       REDIS_SIGNALS_ITSELF = 1 << 1,
       REDIS_ALLOWS_SLOT_MIGRATION = 1 << 5
};
enum { REDIS_AUX_BEFORE = 1 };
enum { /* of GetContextFlags() */
       REDIS_CONTEXT_CLUSTER = 1 << 5,
       REDIS_CONTEXT_AOF = 1 << 6,
       REDIS_CONTEXT_RESP3 = 1 << 22
};
enum { /* of SubscribeToServerEvent(): the role changed; a file is saved; a child was forked */
       REDIS_EVENT_ROLE = 0,
       REDIS_EVENT_FILE = 1,
       REDIS_EVENT_FORK = 13,
       REDIS_EVENT_VERSION = 1
};

/* ---- a data type ----------------------------------------------------------------------------- */

/* A server that does not know this version ignores the version and the members unknown to it. */
enum { REDIS_TYPE_METHODS = 3 };

typedef struct redis_type_methods {
    uint64_t version;
    void *(*rdb_load)(redis_io *io, int encver);
    void (*rdb_save)(redis_io *io, void *value);
    void (*aof_rewrite)(redis_io *io, redis_string *key, void *value);
    size_t (*mem_usage)(const void *value);
    void (*digest)(redis_digest *digest, void *value);
    void (*free)(void *value);
    int (*aux_load)(redis_io *io, int encver, int when);
    void (*aux_save)(redis_io *io, int when);
    int aux_save_triggers;
    size_t (*free_effort)(redis_string *key, const void *value);
    void (*unlink)(redis_string *key, const void *value);
    void *(*copy)(redis_string *from, redis_string *to, const void *value);
    int (*defrag)(void *ctx, redis_string *key, void **value);
} redis_type_methods;

/* ---- for COMMAND INFO and COMMAND DOCS, since 7.0 -------------------------------------------- */

typedef struct redis_history {
    const char *since, *changes;
} redis_history;

enum { /* of a key argument: what the command does with the value, and with its contents */
       REDIS_KEY_RO = 1 << 0,
       REDIS_KEY_RW = 1 << 1,
       REDIS_KEY_RM = 1 << 3,
       REDIS_KEY_ACCESS = 1 << 4,
       REDIS_KEY_UPDATE = 1 << 5,
       REDIS_KEY_DELETE = 1 << 7
};
enum { REDIS_SEARCH_INDEX = 2, REDIS_FIND_RANGE = 2 };

typedef struct redis_key_spec {
    const char *notes;
    uint64_t flags;
    int begin_search_type;
    union {
        struct {
            int pos;
        } index;
        struct {
            const char *keyword;
            int startfrom;
        } keyword;
    } bs;
    int find_keys_type;
    union {
        struct {
            int lastkey, keystep, limit;
        } range;
        struct {
            int keynumidx, firstkey, keystep;
        } keynum;
    } fk;
} redis_key_spec;

enum {
    REDIS_ARG_STRING = 0,
    REDIS_ARG_INTEGER = 1,
    REDIS_ARG_KEY = 3,
    REDIS_ARG_TOKEN = 6,
    REDIS_ARG_BLOCK = 8
};
enum { REDIS_ARG_OPTIONAL = 1 << 0, REDIS_ARG_MULTIPLE = 1 << 1 };

typedef struct redis_arg {
    const char *name;
    int type;
    int key_spec_index;
    const char *token, *summary, *since;
    int flags;
    const char *deprecated_since;
    struct redis_arg *subargs;
    const char *display_text;
} redis_arg;

typedef struct redis_command_info_version {
    int version;
    size_t sizeof_history, sizeof_key_spec, sizeof_arg;
} redis_command_info_version;

typedef struct redis_command_info {
    const redis_command_info_version *version;
    const char *summary, *complexity, *since;
    redis_history *history;
    const char *tips;
    int arity;
    redis_key_spec *key_specs;
    redis_arg *args;
} redis_command_info;

/* ---- the functions --------------------------------------------------------------------------- */

#define REDIS_NEEDED(F)                                                                            \
    F(void *, Alloc, (size_t))                                                                     \
    F(void *, Calloc, (size_t, size_t))                                                            \
    F(void *, Realloc, (void *, size_t))                                                           \
    F(void, Free, (void *))                                                                        \
    F(size_t, MallocSize, (void *))                                                                \
    F(void, SetModuleAttribs, (redis_ctx *, const char *, int, int))                               \
    F(int, IsModuleNameBusy, (const char *))                                                       \
    F(void, SetModuleOptions, (redis_ctx *, int))                                                  \
    F(void, Log, (redis_ctx *, const char *, const char *, ...))                                   \
    F(void, LogIOError, (redis_io *, const char *, const char *, ...))                             \
    F(int, CreateCommand,                                                                          \
      (redis_ctx *, const char *, redis_command_fn, const char *, int, int, int))                  \
    F(int, WrongArity, (redis_ctx *))                                                              \
    F(int, ReplyWithLongLong, (redis_ctx *, long long))                                            \
    F(int, ReplyWithError, (redis_ctx *, const char *))                                            \
    F(int, ReplyWithSimpleString, (redis_ctx *, const char *))                                     \
    F(int, ReplyWithArray, (redis_ctx *, long))                                                    \
    F(int, ReplyWithStringBuffer, (redis_ctx *, const char *, size_t))                             \
    F(int, ReplyWithNull, (redis_ctx *))                                                           \
    F(const char *, StringPtrLen, (const redis_string *, size_t *))                                \
    F(int, GetContextFlags, (redis_ctx *))                                                         \
    F(void *, OpenKey, (redis_ctx *, redis_string *, int))                                         \
    F(void, CloseKey, (redis_key *))                                                               \
    F(int, KeyType, (redis_key *))                                                                 \
    F(int, DeleteKey, (redis_key *))                                                               \
    F(int, SetAbsExpire, (redis_key *, long long))                                                 \
    F(int, SignalModifiedKey, (redis_ctx *, redis_string *))                                       \
    F(int, NotifyKeyspaceEvent, (redis_ctx *, int, const char *, redis_string *))                  \
    F(redis_type *, CreateDataType, (redis_ctx *, const char *, int, redis_type_methods *))        \
    F(redis_type *, ModuleTypeGetType, (redis_key *))                                              \
    F(void *, ModuleTypeGetValue, (redis_key *))                                                   \
    F(int, ModuleTypeSetValue, (redis_key *, redis_type *, void *))                                \
    F(int, ModuleTypeReplaceValue, (redis_key *, redis_type *, void *, void **))                   \
    F(int, Replicate, (redis_ctx *, const char *, const char *, ...))                              \
    F(int, ReplicateVerbatim, (redis_ctx *))                                                       \
    F(int, SubscribeToServerEvent, (redis_ctx *, redis_event, redis_event_fn))                     \
    F(redis_info *, GetServerInfo, (redis_ctx *, const char *))                                    \
    F(unsigned long long, ServerInfoGetFieldUnsigned, (redis_info *, const char *, int *))         \
    F(void, FreeServerInfo, (redis_ctx *, redis_info *))                                           \
    F(void, SaveUnsigned, (redis_io *, uint64_t))                                                  \
    F(uint64_t, LoadUnsigned, (redis_io *))                                                        \
    F(void, SaveStringBuffer, (redis_io *, const char *, size_t))                                  \
    F(char *, LoadStringBuffer, (redis_io *, size_t *))                                            \
    F(int, IsIOError, (redis_io *))                                                                \
    F(void, EmitAOF, (redis_io *, const char *, const char *, ...))                                \
    F(void, DigestAddStringBuffer, (redis_digest *, const char *, size_t))                         \
    F(void, DigestEndSequence, (redis_digest *))

#define REDIS_WANTED(F)                                                                            \
    F(int, ReplyWithMap, (redis_ctx *, long))                   /* 7.0 */                          \
    F(int, ReplyWithBool, (redis_ctx *, int))                   /* 7.0 */                          \
    F(redis_command *, GetCommand, (redis_ctx *, const char *)) /* 7.0 */                          \
    F(int, CreateSubcommand,                                                                       \
      (redis_command *, const char *, redis_command_fn, const char *, int, int, int)) /* 7.0 */    \
    F(int, SetCommandInfo, (redis_command *, const redis_command_info *))             /* 7.0 */    \
    F(int, SetCommandACLCategories, (redis_command *, const char *))                  /* 7.2 */    \
    F(long long, CachedMicroseconds, (void))                                          /* 7.2 */

#define REDIS_FIELD(type, name, args) type(*name) args;
typedef struct redis_api {
    REDIS_NEEDED(REDIS_FIELD)
    REDIS_WANTED(REDIS_FIELD)
} redis_api;
#undef REDIS_FIELD

/* The functions of this server. Global, since the server calls the module without a context of its
 * own. Set before the first command. */
extern redis_api redis;

#endif
