/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The fake server of the tests of the module. */

#include "module_server.h"

#include "module_rdb.h"
#include "module_sound.h"
#include "modules/redis/keyspace.h"
#include "modules/redis/value.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int RedisModule_OnLoad(redis_ctx *ctx, redis_string **argv, int argc);

enum { DATABASES = 2, COMMANDS_MAX = 32, KEYS_MAX = 64, REPLICATED_MAX = 128 };

struct redis_string {
    char *at;
    size_t len;
};

typedef struct stored {
    redis_string name;
    void *value;
    long long expires_ms;
} stored;

struct redis_key {
    int database, mode;
    const redis_string *name;
    bool open;
};

struct redis_ctx {
    int (*get_api)(const char *name, void *ret); /* first, as the module expects */
    int database;
};

struct redis_type {
    redis_type_methods methods;
};

typedef struct replicated { /* a replicated command: DEL or WEIR.STATE */
    redis_string arg[4];
    int args;
} replicated;

static struct {
    struct redis_type type;
    struct {
        char name[32];
        redis_command_fn fn;
    } command[COMMANDS_MAX];
    size_t commands;
    stored key[DATABASES][KEYS_MAX];
    size_t keys[DATABASES];
    module_reply reply;
    long missing; /* values that the reply still needs */
    bool resp3;
    replicated replicated[REPLICATED_MAX];
    size_t replicated_len, payloads;
    bool not_replicated, has_no_events;
    enum { TO_AOF, TO_BACKLOG, TO_CLUSTER, TO_UNKNOWN, TARGETS } target; /* why it is replicated */
    redis_event_fn on_event;
    int64_t now_ns, ahead_ns; /* of the clock of decisions; of the wall clock */
    uint32_t steps;
    char *saved;
    long blocks; /* of memory that the module has */
    long open_keys;
    unsigned long allocations, expiries;     /* so far */
    unsigned signals, notices, propagations; /* of the command that runs */
    void (*on_notice)(void);
    uint64_t commands_run;
} server;

/* ---- the clock, in place of the module's ----------------------------------------------------- */

void weir_moment_start(void)
{
}

weir_moment weir_moment_now(void)
{
    return (weir_moment){server.now_ns, server.ahead_ns, 1 + server.steps};
}

void module_server_set_time(int64_t now_ns)
{
    server.now_ns = now_ns;
}

void module_server_step_wall_clock(int64_t ahead_ns)
{
    server.ahead_ns = ahead_ns;
    server.steps++;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *fake_Alloc(size_t n)
{
    void *p = malloc(n + 1);
    assert(p);
    server.blocks++;
    server.allocations++;
    return p;
}

static void *fake_Calloc(size_t n, size_t size)
{
    void *p = calloc(n, size);
    assert(p);
    server.blocks++;
    server.allocations++;
    return p;
}

static void *fake_Realloc(void *p, size_t n)
{
    server.blocks += !p;
    server.allocations++;
    p = realloc(p, n);
    assert(p);
    return p;
}

static void fake_Free(void *p)
{
    server.blocks -= p != NULL;
    free(p);
}

static size_t fake_MallocSize(void *p)
{
    return p ? 16 : 0;
}

/* ---- replies --------------------------------------------------------------------------------- */

static void begin_reply(void)
{
    server.reply = (module_reply){0};
    server.missing = 1;
}

/* Adds a value to the reply. An array or a map holds further values. */
static int note(int64_t v, long holds)
{
    assert(server.missing > 0 && holds >= 0);
    server.missing += holds - 1;
    if (server.reply.len < MODULE_SERVER_REPLIES)
        server.reply.integer[server.reply.len] = v;
    server.reply.len++;
    return REDIS_OK;
}

static int fake_ReplyWithLongLong(redis_ctx *ctx, long long v)
{
    (void)ctx;
    return note(v, 0);
}

static int fake_ReplyWithArray(redis_ctx *ctx, long len)
{
    (void)ctx;
    return note(len, len);
}

static int fake_ReplyWithMap(redis_ctx *ctx, long pairs)
{
    (void)ctx;
    assert(server.resp3);
    server.reply.maps++;
    return note(pairs, 2 * pairs);
}

static int fake_ReplyWithBool(redis_ctx *ctx, int v)
{
    (void)ctx;
    assert(server.resp3);
    return note(v, 0);
}

static int note_text(const char *at, size_t len)
{
    module_reply *r = &server.reply;
    for (size_t i = 0; i < len; i++) {
        char c = at[i]; /* also if it is not stored: the arguments are complete */
        if (r->text_len < sizeof r->text - 2)
            r->text[r->text_len++] = c;
    }
    r->text[r->text_len] = '|';
    r->text_len += r->text_len < sizeof r->text - 2;
    return note(0, 0);
}

static int fake_ReplyWithSimpleString(redis_ctx *ctx, const char *text)
{
    (void)ctx;
    return note_text(text, strlen(text));
}

static int fake_ReplyWithStringBuffer(redis_ctx *ctx, const char *at, size_t len)
{
    (void)ctx;
    return note_text(at, len);
}

static int fake_ReplyWithNull(redis_ctx *ctx)
{
    (void)ctx;
    return note(0, 0);
}

static int fake_ReplyWithError(redis_ctx *ctx, const char *text)
{
    (void)ctx;
    assert(server.missing == 1 && server.reply.len == 0 && strcspn(text, "\r\n") == strlen(text));
    server.reply.failed = true;
    server.missing = 0;
    snprintf(server.reply.error, sizeof server.reply.error, "%s", text);
    return REDIS_OK;
}

static int fake_WrongArity(redis_ctx *ctx)
{
    return fake_ReplyWithError(ctx, "ERR wrong number of arguments");
}

/* ---- keys ------------------------------------------------------------------------------------ */

static bool same(const redis_string *a, const redis_string *b)
{
    return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

static stored *find(int database, const redis_string *name)
{
    for (size_t i = 0; i < server.keys[database]; i++) {
        if (same(&server.key[database][i].name, name))
            return &server.key[database][i];
    }
    return NULL;
}

static redis_string copy_of(const void *at, size_t len)
{
    redis_string s = {malloc(len + 1), len};
    assert(s.at);
    if (len > 0)
        memcpy(s.at, at, len);
    return s;
}

static void drop(int database, stored *k)
{
    if (k->value)
        server.type.methods.free(k->value);
    free(k->name.at);
    *k = server.key[database][--server.keys[database]];
}

static void drop_all(int database)
{
    while (server.keys[database] > 0)
        drop(database, &server.key[database][0]);
}

void module_server_expire(void)
{
    for (int database = 0; database < DATABASES; database++) {
        for (size_t i = server.keys[database]; i-- > 0;) {
            stored *k = &server.key[database][i];
            if (k->expires_ms > 0 && (server.now_ns + server.ahead_ns) / 1000000 > k->expires_ms)
                drop(database, k);
        }
    }
}

static bool is_foreign(const redis_string *name)
{
    return name->len == 7 && memcmp(name->at, "foreign", 7) == 0;
}

static void *fake_OpenKey(redis_ctx *ctx, redis_string *name, int mode)
{
    redis_key *k = malloc(sizeof *k);
    assert(k && mode);
    *k = (redis_key){ctx->database, mode, name, true};
    if (!(mode & REDIS_WRITE) && !find(ctx->database, name) && !is_foreign(name)) {
        free(k);
        return NULL;
    }
    server.open_keys++;
    return k;
}

static void fake_CloseKey(redis_key *k)
{
    assert(k && k->open);
    k->open = false;
    server.open_keys--;
    free(k);
}

static int fake_KeyType(redis_key *k)
{
    bool there = find(k->database, k->name) || is_foreign(k->name);
    return there ? REDIS_KEY_OF_MODULE : REDIS_KEY_EMPTY;
}

static int fake_DeleteKey(redis_key *k)
{
    stored *at = find(k->database, k->name);
    assert(at && (k->mode & REDIS_WRITE));
    drop(k->database, at);
    return REDIS_OK;
}

static int fake_SetAbsExpire(redis_key *k, long long at_ms)
{
    stored *at = find(k->database, k->name);
    assert(at && (k->mode & REDIS_WRITE) && at_ms >= 0);
    at->expires_ms = at_ms;
    server.expiries += k->database == 0;
    return REDIS_OK;
}

static redis_type *fake_ModuleTypeGetType(redis_key *k)
{
    return find(k->database, k->name) ? &server.type : NULL;
}

static void *fake_ModuleTypeGetValue(redis_key *k)
{
    return find(k->database, k->name)->value;
}

static int fake_ModuleTypeSetValue(redis_key *k, redis_type *type, void *value)
{
    assert(type == &server.type && value && !find(k->database, k->name));
    assert((k->mode & REDIS_WRITE) && server.keys[k->database] < KEYS_MAX);
    server.key[k->database][server.keys[k->database]++] =
        (stored){copy_of(k->name->at, k->name->len), value, 0};
    return REDIS_OK;
}

static int fake_ModuleTypeReplaceValue(redis_key *k, redis_type *type, void *value, void **old)
{
    stored *at = find(k->database, k->name);
    assert(at && type == &server.type && (k->mode & REDIS_WRITE));
    *old = at->value;
    at->value = value;
    return REDIS_OK;
}

static int fake_SignalModifiedKey(redis_ctx *ctx, redis_string *name)
{
    assert(name);
    server.signals += ctx->database == 0;
    return REDIS_OK;
}

static int fake_NotifyKeyspaceEvent(redis_ctx *ctx, int type, const char *event, redis_string *name)
{
    bool is_gone = !find(ctx->database, name);
    assert(type == REDIS_EVENT_OF_MODULE
               ? strncmp(event, "weir.", 5) == 0 || strcmp(event, "cl.throttle") == 0
               : type == REDIS_EVENT_GENERIC && strcmp(event, "del") == 0 && is_gone);
    server.notices += ctx->database == 0 && type == REDIS_EVENT_OF_MODULE;
    if (server.on_notice && ctx->database == 0)
        server.on_notice();
    return REDIS_OK;
}

/* ---- replication ----------------------------------------------------------------------------- */

static int fake_Replicate(redis_ctx *ctx, const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    replicated *t = &server.replicated[server.replicated_len];
    assert(ctx->database == 0 && server.replicated_len < REPLICATED_MAX);
    assert(!server.not_replicated || server.has_no_events);
    t->arg[0] = copy_of(command, strlen(command));
    t->args = 1;
    for (; *format; format++) {
        char number[32];
        redis_string *to = &t->arg[t->args++];
        if (*format == 's') {
            const redis_string *s = va_arg(args, redis_string *);
            *to = copy_of(s->at, s->len);
        } else if (*format == 'l') {
            int len = snprintf(number, sizeof number, "%lld", va_arg(args, long long));
            *to = copy_of(number, (size_t)len);
        } else {
            assert(*format == 'b');
            const char *at = va_arg(args, const char *);
            *to = copy_of(at, va_arg(args, size_t));
            server.payloads += to->len;
        }
    }
    va_end(args);
    server.propagations++;
    server.replicated_len++;
    return REDIS_OK;
}

static int fake_ReplicateVerbatim(redis_ctx *ctx)
{
    server.propagations += ctx->database == 0;
    return REDIS_OK;
}

static int fake_SubscribeToServerEvent(redis_ctx *ctx, redis_event event, redis_event_fn fn)
{
    (void)ctx;
    assert(event.version == 1 && fn);
    server.on_event = fn;
    return server.has_no_events ? REDIS_ERR : REDIS_OK;
}

static bool is_replicated_to(int target)
{
    return !server.not_replicated && (int)server.target == target;
}

static redis_info *fake_GetServerInfo(redis_ctx *ctx, const char *section)
{
    (void)ctx;
    assert(strcmp(section, "replication") == 0);
    return (redis_info *)&server;
}

static unsigned long long fake_ServerInfoGetFieldUnsigned(redis_info *info, const char *field,
                                                          int *error)
{
    assert(info && strcmp(field, "repl_backlog_active") == 0);
    *error = is_replicated_to(TO_UNKNOWN) ? REDIS_ERR : REDIS_OK;
    return is_replicated_to(TO_BACKLOG);
}

static void fake_FreeServerInfo(redis_ctx *ctx, redis_info *info)
{
    (void)ctx;
    assert(info == (redis_info *)&server);
}

/* ---- other API functions --------------------------------------------------------------------- */

static void fake_SetModuleAttribs(redis_ctx *ctx, const char *name, int version, int api)
{
    (void)ctx;
    assert(name && version > 0 && api == REDIS_API_VERSION);
}

static int fake_IsModuleNameBusy(const char *name)
{
    assert(strcmp(name, "weir") == 0);
    return 0;
}

static void fake_SetModuleOptions(redis_ctx *ctx, int options)
{
    (void)ctx;
    assert(options & REDIS_HANDLES_IO_ERRORS);
}

static void fake_Log(redis_ctx *ctx, const char *level, const char *format, ...)
{
    (void)ctx;
    assert(level && format);
}

static void fake_LogIOError(redis_io *io, const char *level, const char *format, ...)
{
    assert(io && level && format);
}

static int fake_CreateCommand(redis_ctx *ctx, const char *name, redis_command_fn fn,
                              const char *flags, int first, int last, int step)
{
    (void)ctx;
    assert(server.commands < COMMANDS_MAX && flags && first >= 0 && last >= -2 && step >= 0);
    snprintf(server.command[server.commands].name, 32, "%s", name);
    server.command[server.commands++].fn = fn;
    return REDIS_OK;
}

static const char *fake_StringPtrLen(const redis_string *s, size_t *ret_len)
{
    *ret_len = s->len;
    return s->at;
}

static int fake_GetContextFlags(redis_ctx *ctx)
{
    (void)ctx;
    return (is_replicated_to(TO_AOF) ? REDIS_CONTEXT_AOF : 0) |
           (is_replicated_to(TO_CLUSTER) ? REDIS_CONTEXT_CLUSTER : 0) |
           (server.resp3 ? REDIS_CONTEXT_RESP3 : 0);
}

static redis_type *fake_CreateDataType(redis_ctx *ctx, const char *name, int encver,
                                       redis_type_methods *methods)
{
    (void)ctx;
    assert(strlen(name) == 9 && encver == 1);
    server.type.methods = *methods;
    return &server.type;
}

int module_server_get_api(const char *name, void *ret)
{
    static const struct {
        const char *name;
        void *fn;
    } all[] = {
#define ENTRY(type, name, args) {"RedisModule_" #name, (void *)fake_##name},
        REDIS_NEEDED(ENTRY) ENTRY(int, ReplyWithMap, ) ENTRY(int, ReplyWithBool, )};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, name) == 0) {
            memcpy(ret, &all[i].fn, sizeof all[i].fn);
            return REDIS_OK;
        }
    }
    return REDIS_ERR;
}

/* ---- the API of the fake server -------------------------------------------------------------- */

void module_server_open(void)
{
    redis_ctx ctx = {module_server_get_api, 0};
    assert(RedisModule_OnLoad(&ctx, NULL, 0) == REDIS_OK);
}

void module_server_open_without_events(void)
{
    server.has_no_events = true;
    module_server_open();
}

size_t module_server_payloads(void)
{
    return server.payloads;
}

unsigned long module_server_allocations(void)
{
    return server.allocations;
}

void module_server_on_notice(void (*fn)(void))
{
    server.on_notice = fn;
}

long module_server_blocks(void)
{
    return server.blocks;
}

unsigned long module_server_expiries(void)
{
    return server.expiries;
}

void module_server_speak(int proto)
{
    server.resp3 = proto >= 3;
}

void module_server_flush(void)
{
    for (int d = 0; d < DATABASES; d++)
        drop_all(d);
    weir_named_drop_all();
    weir_generations_drop_all();
    weir_generations_loaded();
}

void module_server_close(void)
{
    module_server_flush();
    free(server.saved);
    weir_interned_close();
    assert(server.blocks == 0);
    memset(&server, 0, sizeof server);
}

static module_bytes save(stored *k)
{
    redis_io io = {0};
    server.type.methods.rdb_save(&io, k->value);
    free(server.saved);
    server.saved = io.written;
    return (module_bytes){io.written, io.written_len};
}

module_bytes module_server_saved(const char *name)
{
    redis_string s = {(char *)(uintptr_t)name, strlen(name)};
    stored *k = find(0, &s);
    return k ? save(k) : (module_bytes){0};
}

int64_t module_server_expiry_ms(const char *name)
{
    redis_string s = {(char *)(uintptr_t)name, strlen(name)};
    stored *k = find(0, &s);
    return k ? k->expires_ms : 0;
}

static void copy_all(void)
{
    drop_all(1);
    for (size_t i = 0; i < server.keys[0]; i++) {
        stored *from = &server.key[0][i], *to = &server.key[1][server.keys[1]++];
        module_bytes bytes = save(from);
        redis_io io = {.at = bytes.at, .left = bytes.len};
        *to = (stored){copy_of(from->name.at, from->name.len), server.type.methods.rdb_load(&io, 1),
                       from->expires_ms};
        assert(to->value);
    }
}

void module_server_replicate(bool on)
{
    redis_ctx ctx = {module_server_get_api, 0};
    redis_event event = {on ? REDIS_EVENT_FORK : REDIS_EVENT_ROLE, REDIS_EVENT_VERSION};
    server.not_replicated = !on;
    server.target = (server.target + on) % TARGETS;
    server.on_event(&ctx, event, 0, NULL);
    if (on)
        copy_all();
}

static bool is_same(stored *a, stored *b)
{
    if (!b || a->expires_ms != b->expires_ms)
        return false;
    module_bytes first = save(a);
    redis_string kept = copy_of(first.at, first.len);
    module_bytes second = save(b);
    bool same = kept.len == second.len && memcmp(kept.at, second.at, kept.len) == 0;
    free(kept.at);
    return same;
}

/* Returns how many keys are in one database only, or differ in their values or expiries. */
static unsigned differences(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < server.keys[0]; i++)
        n += !is_same(&server.key[0][i], find(1, &server.key[0][i].name));
    for (size_t i = 0; i < server.keys[1]; i++)
        n += !find(0, &server.key[1][i].name);
    return n;
}

/* Runs after each command. Checks all values, and the policies after every 64th command. */
static void check_structures(void)
{
    for (size_t i = 0; i < server.keys[0]; i++)
        assert(is_sound_value((weir_value)server.key[0][i].value));
    if (server.commands_run++ % 64 == 0)
        assert(weir_interned_sound());
}

static bool run_in(int database, redis_string *args, size_t len)
{
    redis_ctx ctx = {module_server_get_api, database};
    redis_string *argv[MODULE_SERVER_ARGS];
    for (size_t i = 0; i < len; i++)
        argv[i] = &args[i];
    if (database == 1 && args[0].len == 3 && memcmp(args[0].at, "DEL", 3) == 0) {
        stored *k = find(database, &args[1]);
        assert(k);
        drop(database, k);
        return true;
    }
    for (size_t i = 0; i < server.commands; i++) {
        const char *name = server.command[i].name;
        if (strlen(name) != args[0].len || strncasecmp(name, args[0].at, args[0].len) != 0)
            continue;
        assert(server.command[i].fn(&ctx, argv, (int)len) == REDIS_OK);
        assert(server.open_keys == 0);
        return true;
    }
    return false;
}

static void update_replica(void)
{
    module_reply answer = server.reply;
    /* Before the replica gets the changes, the keys that differ are those that changed. */
    unsigned changed = differences();
    assert(server.signals == changed && server.notices == changed);
    assert(server.propagations >= changed && (changed > 0 || server.replicated_len == 0));
    for (size_t i = 0; i < server.replicated_len; i++) {
        replicated *t = &server.replicated[i];
        begin_reply();
        assert(run_in(1, t->arg, (size_t)t->args) && !server.reply.failed);
        for (int k = 0; k < t->args; k++)
            free(t->arg[k].at);
    }
    server.reply = answer;
    assert(differences() == 0);
}

const module_reply *module_server_run(const module_bytes *args, size_t len)
{
    redis_string copies[MODULE_SERVER_ARGS]; /* of exact size, for ASan */
    assert(len > 0 && len <= MODULE_SERVER_ARGS);
    for (size_t i = 0; i < len; i++)
        copies[i] = copy_of(args[i].at, args[i].len);
    begin_reply();
    server.replicated_len = server.payloads = 0;
    server.signals = server.notices = server.propagations = 0;
    bool known = run_in(0, copies, len);
    assert(!known || server.missing == 0); /* one complete reply */
    /* A replica forwards a WEIR.STATE of its master unchanged. */
    if (known && !server.not_replicated && !server.reply.failed &&
        strncasecmp(copies[0].at, "WEIR.STATE", 10) == 0) {
        module_reply answer = server.reply;
        begin_reply();
        run_in(1, copies, len);
        server.reply = answer;
    }
    for (size_t i = 0; i < len; i++)
        free(copies[i].at);
    check_structures();
    bool has_replica = !server.not_replicated || server.has_no_events;
    bool is_state = len > 0 && args[0].len == 10 && strncasecmp(args[0].at, "WEIR.STATE", 10) == 0;
    if (known && has_replica && !is_state)
        update_replica();
    else if (known && has_replica)
        assert(differences() == 0);
    else
        assert(server.signals == server.notices && server.propagations >= server.signals);
    return known ? &server.reply : NULL;
}

bool module_server_load(const uint8_t *bytes, size_t len)
{
    redis_io io = {.at = bytes, .left = len};
    redis_digest digest = {0};
    const redis_type_methods *m = &server.type.methods;
    void *value = m->rdb_load(&io, 1);
    if (!value)
        return false;
    stored k = {.value = value};
    module_bytes once = save(&k);
    redis_string kept = copy_of(once.at, once.len);
    stored copy = {.value = m->copy(NULL, NULL, value)};
    module_bytes twice = save(&copy);
    assert(kept.len == twice.len && memcmp(kept.at, twice.at, kept.len) == 0);
    m->digest(&digest, value);
    assert(m->mem_usage(value) > 0 && m->free_effort(NULL, value) > 0);
    m->free(copy.value);
    m->free(value);
    free(kept.at);
    return true;
}
