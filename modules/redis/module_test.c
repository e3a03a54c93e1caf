/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Loads the module into servers that lack a function of the API, or in which a call fails; and the
 * callbacks of its data type with files that cannot be read. */

#include "module_server.h"

#include "modules/redis/interned.h"
#include "modules/redis/keyspace.h"
#include "port/port.h"
#include "service/zone_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int RedisModule_OnLoad(redis_ctx *ctx, redis_string **argv, int argc);

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "line %d (%s, call %u): not true: %s\n", __LINE__,                     \
                    server.fails ? server.fails : "", server.nth, #x);                             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { COMMANDS_MAX = 32, NUMBERS_MAX = 8, STRINGS_MAX = 8 };

struct redis_ctx {
    int (*get_api)(const char *name, void *ret); /* first, as the module expects */
};

struct redis_command {
    char name[48];
    const char *flags;
    redis_command_fn fn;
    int first, last, step;
    bool described, has_categories;
};

struct redis_io { /* what was written, and how much of it was read */
    uint64_t number[NUMBERS_MAX];
    size_t numbers, numbers_read;
    char string[STRINGS_MAX][WEIR_POLICY_TEXT_MAX + 1];
    size_t len[STRINGS_MAX], strings, strings_read;
    size_t strings_max; /* reading more than these fails */
    bool failed;
};

static struct {
    const char *lacks;   /* an API function that the server lacks */
    const char *fails;   /* a function of which call number `nth` fails */
    unsigned nth, calls; /* from 1 */
    unsigned warnings, notices, options, io_errors, emitted;
    struct redis_command command[COMMANDS_MAX];
    size_t commands;
    redis_type_methods methods;
    redis_event_fn on_event;
} server;

static bool fails(const char *name)
{
    return server.fails && strcmp(name, server.fails) == 0 && ++server.calls == server.nth;
}

/* ---- functions outside the module ------------------------------------------------------------ */

weir_status __wrap_port_random(void *buf, size_t len);
weir_status __real_port_random(void *buf, size_t len);
weir_zone_cache *__wrap_weir_zone_cache_open(const char *dir);
weir_zone_cache *__real_weir_zone_cache_open(const char *dir);

weir_status __wrap_port_random(void *buf, size_t len)
{
    return fails("port_random") ? WEIR_E_IO : __real_port_random(buf, len);
}

weir_zone_cache *__wrap_weir_zone_cache_open(const char *dir)
{
    return fails("weir_zone_cache_open") ? NULL : __real_weir_zone_cache_open(dir);
}

/* ---- the API --------------------------------------------------------------------------------- */

static int fake_IsModuleNameBusy(const char *name)
{
    CHECK(strcmp(name, "weir") == 0);
    return fails("IsModuleNameBusy");
}

static void fake_SetModuleOptions(redis_ctx *ctx, int options)
{
    (void)ctx;
    server.options = (unsigned)options;
}

static void fake_Log(redis_ctx *ctx, const char *level, const char *format, ...)
{
    (void)ctx;
    (void)format;
    server.warnings += strcmp(level, "warning") == 0;
    server.notices += strcmp(level, "notice") == 0;
}

static redis_type *fake_CreateDataType(redis_ctx *ctx, const char *name, int encver,
                                       redis_type_methods *methods)
{
    (void)ctx;
    CHECK(strlen(name) == 9 && encver == 1 && methods->version == REDIS_TYPE_METHODS);
    server.methods = *methods;
    return fails("CreateDataType") ? NULL : (redis_type *)&server;
}

static int add_command(const struct redis_command *c)
{
    CHECK(server.commands < COMMANDS_MAX);
    server.command[server.commands++] = *c;
    return REDIS_OK;
}

static int fake_CreateCommand(redis_ctx *ctx, const char *name, redis_command_fn fn,
                              const char *flags, int first, int last, int step)
{
    struct redis_command c = {.flags = flags, .fn = fn, .first = first, .last = last, .step = step};
    (void)ctx;
    snprintf(c.name, sizeof c.name, "%s", name);
    return fails("CreateCommand") ? REDIS_ERR : add_command(&c);
}

static int fake_CreateSubcommand(redis_command *parent, const char *name, redis_command_fn fn,
                                 const char *flags, int first, int last, int step)
{
    struct redis_command c = {.flags = flags, .fn = fn};
    CHECK(!parent->fn && fn && first == 0 && last == 0 && step == 0);
    snprintf(c.name, sizeof c.name, "%.20s|%.20s", parent->name, name);
    return fails("CreateSubcommand") ? REDIS_ERR : add_command(&c);
}

static redis_command *fake_GetCommand(redis_ctx *ctx, const char *name)
{
    size_t i = 0;
    (void)ctx;
    while (i < server.commands && strcmp(server.command[i].name, name) != 0)
        i++;
    CHECK(i < server.commands);
    return fails("GetCommand") ? NULL : &server.command[i];
}

static int fake_SetCommandInfo(redis_command *c, const redis_command_info *info)
{
    const redis_key_spec *key = info->key_specs;
    CHECK(!c->described && info->version->version == 1 && info->summary && info->since);
    CHECK(info->arity != 0);
    if (c->first > 0) {
        CHECK(key->flags && key->begin_search_type == REDIS_SEARCH_INDEX);
        CHECK(key->bs.index.pos == c->first && key->find_keys_type == REDIS_FIND_RANGE);
        CHECK(key->fk.range.lastkey == (c->step == 3 ? -2 : 0));
        CHECK(key->fk.range.keystep == c->step);
        key++;
    }
    CHECK(key->begin_search_type == 0 && key->find_keys_type == 0); /* the end of the list */
    c->described = !fails("SetCommandInfo");
    return c->described ? REDIS_OK : REDIS_ERR;
}

static int fake_SetCommandACLCategories(redis_command *c, const char *categories)
{
    CHECK(c->described && categories[0] != '\0');
    c->has_categories = !fails("SetCommandACLCategories");
    return c->has_categories ? REDIS_OK : REDIS_ERR;
}

static int fake_SubscribeToServerEvent(redis_ctx *ctx, redis_event event, redis_event_fn fn)
{
    (void)ctx;
    CHECK(event.version == REDIS_EVENT_VERSION);
    server.on_event = fn;
    return REDIS_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void fake_SaveUnsigned(redis_io *io, uint64_t v)
{
    CHECK(io->numbers < NUMBERS_MAX);
    io->number[io->numbers++] = v;
}

static uint64_t fake_LoadUnsigned(redis_io *io)
{
    io->failed = io->failed || io->numbers_read == io->numbers;
    return io->failed ? 0 : io->number[io->numbers_read++];
}

static void fake_SaveStringBuffer(redis_io *io, const char *at, size_t len)
{
    CHECK(io->strings < STRINGS_MAX && len <= sizeof io->string[0]);
    memcpy(io->string[io->strings], at, len);
    io->len[io->strings++] = len;
}

static char *fake_LoadStringBuffer(redis_io *io, size_t *ret_len)
{
    size_t i = io->strings_read;
    io->failed = io->failed || i == io->strings || i == io->strings_max;
    if (io->failed)
        return NULL;
    io->strings_read++;
    char *copy = redis.Alloc(io->len[i]);
    memcpy(copy, io->string[i], io->len[i]);
    *ret_len = io->len[i];
    return copy;
}

static int fake_IsIOError(redis_io *io)
{
    return io->failed;
}

static void fake_LogIOError(redis_io *io, const char *level, const char *format, ...)
{
    CHECK(io && strcmp(level, "warning") == 0 && format);
    server.io_errors++;
}

static void fake_EmitAOF(redis_io *io, const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    CHECK(strcmp(command, "WEIR.STATE") == 0 && strcmp(format, "slb") == 0);
    CHECK(va_arg(args, redis_string *) == (redis_string *)&server);
    CHECK(va_arg(args, long long) == 0);
    const char *at = va_arg(args, const char *);
    fake_SaveStringBuffer(io, at, va_arg(args, size_t));
    va_end(args);
}

static int get_api(const char *name, void *ret)
{
    static const struct {
        const char *name;
        void *fn;
    } own[] = {
#define ENTRY(f) {"RedisModule_" #f, (void *)fake_##f}
        ENTRY(IsModuleNameBusy),
        ENTRY(SetModuleOptions),
        ENTRY(Log),
        ENTRY(CreateDataType),
        ENTRY(CreateCommand),
        ENTRY(CreateSubcommand),
        ENTRY(GetCommand),
        ENTRY(SetCommandInfo),
        ENTRY(SetCommandACLCategories),
        ENTRY(SubscribeToServerEvent),
        ENTRY(SaveUnsigned),
        ENTRY(LoadUnsigned),
        ENTRY(SaveStringBuffer),
        ENTRY(LoadStringBuffer),
        ENTRY(IsIOError),
        ENTRY(LogIOError),
        ENTRY(EmitAOF),
    };
    if (server.lacks && strcmp(server.lacks, name + strlen("RedisModule_")) == 0)
        return REDIS_ERR;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strcmp(own[i].name, name) == 0) {
            memcpy(ret, &own[i].fn, sizeof own[i].fn);
            return REDIS_OK;
        }
    }
    return module_server_get_api(name, ret);
}

static int load(const char *lacks, const char *failing, unsigned nth, int args)
{
    redis_ctx ctx = {get_api};
    memset(&server, 0, sizeof server);
    server.lacks = lacks;
    server.fails = failing;
    server.nth = nth;
    return RedisModule_OnLoad(&ctx, NULL, args);
}

/* ---- loading --------------------------------------------------------------------------------- */

static size_t described(bool categories)
{
    size_t n = 0;
    for (size_t i = 0; i < server.commands; i++)
        n += categories ? server.command[i].has_categories : server.command[i].described;
    return n;
}

static const struct redis_command *policy_command(void)
{
    redis_ctx ctx = {get_api};
    return fake_GetCommand(&ctx, "weir.policy");
}

static void a_needed_function_is_missing(void)
{
    static const char *const needed[] = {
#define NAME(type, name, args) #name,
        REDIS_NEEDED(NAME)};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        CHECK(load(needed[i], NULL, 0, 0) == REDIS_ERR);
        CHECK(server.warnings == (strcmp(needed[i], "Log") != 0) && server.notices == 0);
        CHECK(server.commands == 0 && !server.on_event);
    }
}

/* The subcommands of WEIR.POLICY and the documentation of commands exist since Redis 7.0. */
static void a_wanted_function_is_missing(void)
{
    static const char *const wanted[] = {NULL, REDIS_WANTED(NAME)};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const char *lacks = wanted[i] ? wanted[i] : "";
        bool docs = strcmp(lacks, "GetCommand") != 0 && strcmp(lacks, "SetCommandInfo") != 0;
        bool parts = docs && strcmp(lacks, "CreateSubcommand") != 0;
        bool lists = docs && strcmp(lacks, "SetCommandACLCategories") != 0;
        CHECK(load(wanted[i], NULL, 0, 0) == REDIS_OK);
        CHECK(server.warnings == 0 && server.notices == 1 && server.on_event);
        CHECK(server.options ==
              (REDIS_HANDLES_IO_ERRORS | REDIS_SIGNALS_ITSELF | REDIS_ALLOWS_SLOT_MIGRATION));
        CHECK(server.commands == (parts ? 19 : 15));
        CHECK(described(false) == (parts ? 19 : docs ? 14 : 0));
        CHECK(described(true) == (!lists ? 0 : parts ? 18 : 14));
        CHECK(!policy_command()->fn == parts);
        CHECK(strcmp(policy_command()->flags, parts ? "" : "write deny-oom") == 0);
        weir_interned_close();
    }
}

static void a_call_fails(void)
{
    static const struct {
        const char *name;
        unsigned calls;
    } all[] = {
        {"IsModuleNameBusy", 1}, {"port_random", 1},     {"weir_zone_cache_open", 1},
        {"CreateDataType", 1},   {"GetCommand", 19},     {"CreateCommand", 15},
        {"CreateSubcommand", 4}, {"SetCommandInfo", 19}, {"SetCommandACLCategories", 18},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        for (unsigned nth = 1; nth <= all[i].calls; nth++) {
            CHECK(load(NULL, all[i].name, nth, 0) == REDIS_ERR);
            CHECK(server.calls == nth && server.warnings == 1 && server.notices == 0);
            CHECK(!server.on_event);
            weir_interned_close();
        }
        CHECK(load(NULL, all[i].name, all[i].calls + 1, 0) == REDIS_OK);
        CHECK(server.calls == all[i].calls && server.warnings == 0 && server.notices == 1);
        weir_interned_close();
    }
    CHECK(load(NULL, NULL, 0, 1) == REDIS_ERR && server.warnings == 1 && server.commands == 0);
}

/* ---- files ----------------------------------------------------------------------------------- */

static weir_value some_value(void)
{
    weir_interned *s;
    weir_policy_error e;
    uint64_t state[2] = {1, 7};
    CHECK(weir_intern_text("fixed-window 5/m", 16, &s, &e) == WEIR_OK);
    return weir_value_put(0, 0, s, 0, state, weir_state_words(&s->policy, 0), 0);
}

static void a_value_in_a_file(void)
{
    static redis_io saved, emitted;
    const redis_type_methods *m = &server.methods;
    saved = emitted = (redis_io){.strings_max = STRINGS_MAX};
    CHECK(load(NULL, NULL, 0, 0) == REDIS_OK);
    weir_value v = some_value();
    m->rdb_save(&saved, (void *)v);
    m->aof_rewrite(&emitted, (redis_string *)&server, (void *)v);
    CHECK(saved.strings == 1 && saved.len[0] > 20 && emitted.len[0] == saved.len[0]);
    CHECK(memcmp(saved.string[0], emitted.string[0], saved.len[0]) == 0);
    CHECK(m->mem_usage((void *)v) == 32 && m->free_effort(NULL, (void *)v) == 1);
    CHECK(!m->rdb_load(&saved, 2) && server.io_errors == 1 && saved.strings_read == 0);
    weir_value again = (weir_value)m->rdb_load(&saved, 1);
    CHECK(again == v && server.io_errors == 1);
    CHECK(!m->rdb_load(&saved, 1) && server.io_errors == 1); /* the file has ended */
    saved.failed = false;
    saved.strings_read = 0;
    saved.string[0][0]++;
    CHECK(!m->rdb_load(&saved, 1) && server.io_errors == 2);
    m->free((void *)again);
    m->free((void *)v);
    weir_interned_close();
}

/* Beside the object of the server: a state on the heap, or several and their list. */
static void memory_of_a_value(void)
{
    weir_interned *s[2];
    weir_policy_error e;
    const redis_type_methods *m = &server.methods;
    CHECK(load(NULL, NULL, 0, 0) == REDIS_OK);
    CHECK(weir_intern_text("sliding-log 5/m", 15, &s[0], &e) == WEIR_OK);
    CHECK(weir_intern_text("sliding-log 6/m", 15, &s[1], &e) == WEIR_OK);
    weir_value v = 0;
    for (size_t i = 0; i < 2; i++) {
        size_t words = weir_state_words(&s[i]->policy, 0);
        v = weir_value_put_heap_state(v, i, weir_heap_state_new(s[i], 0, words));
        CHECK(m->mem_usage((void *)v) == (size_t)(i == 0 ? 32 + 16 : 32 + 3 * 16));
        CHECK(m->free_effort(NULL, (void *)v) == i + 1);
    }
    m->free((void *)v);
    weir_interned_close();
}

static void add_string(redis_io *io, const char *text)
{
    fake_SaveStringBuffer(io, text, strlen(text));
}

/* Named policies replace those before. If one cannot be read, the file is refused. */
static void policies_in_a_file(void)
{
    static redis_io io, saved;
    weir_policy_error e;
    const redis_type_methods *m = &server.methods;
    io = saved = (redis_io){.strings_max = STRINGS_MAX};
    CHECK(load(NULL, NULL, 0, 0) == REDIS_OK);
    CHECK(m->aux_save_triggers == REDIS_AUX_BEFORE);
    CHECK(weir_named_set("b", 1, "gcra  1/s", 9, &e) == WEIR_OK);
    CHECK(weir_named_set("a", 1, "gcra 2/s", 8, &e) == WEIR_OK);
    m->aux_save(&saved, REDIS_AUX_BEFORE);
    CHECK(saved.numbers == 1 && saved.number[0] == 2 && saved.strings == 4);
    weir_named_drop_all();
    CHECK(weir_named_set("old", 3, "gcra 1/s", 8, &e) == WEIR_OK);
    CHECK(m->aux_load(&saved, 2, REDIS_AUX_BEFORE) == REDIS_ERR);
    CHECK(m->aux_load(&io, 1, REDIS_AUX_BEFORE) == REDIS_ERR); /* it is empty */
    io = (redis_io){.number = {WEIR_NAMED_MAX + WEIR_GENERATIONS_MAX + 1}, .numbers = 1};
    CHECK(m->aux_load(&io, 1, REDIS_AUX_BEFORE) == REDIS_ERR);
    CHECK(weir_named_find("old", 3));
    CHECK(m->aux_load(&saved, 1, REDIS_AUX_BEFORE) == REDIS_OK);
    const weir_named *named;
    CHECK(weir_named_all(&named) == 2 && !weir_named_find("old", 3));
    CHECK(strcmp(named[0].limit, "gcra 2/s") == 0 && strcmp(named[1].limit, "gcra  1/s") == 0);
    for (size_t most = 0; most < 4; most++) {
        saved.numbers_read = saved.strings_read = 0;
        saved.failed = false;
        saved.strings_max = most;
        CHECK(m->aux_load(&saved, 1, REDIS_AUX_BEFORE) == REDIS_ERR);
        CHECK(weir_named_all(&named) == most / 2);
    }
    CHECK(server.io_errors == 0);
    io = (redis_io){.number = {1}, .numbers = 1, .strings_max = STRINGS_MAX};
    add_string(&io, "name");
    add_string(&io, "gcra 1/x");
    CHECK(m->aux_load(&io, 1, REDIS_AUX_BEFORE) == REDIS_ERR && server.io_errors == 1);
    CHECK(weir_named_set("old", 3, "gcra 1/s", 8, &e) == WEIR_OK);
    io = (redis_io){.number = {WEIR_NAMED_MAX + WEIR_GENERATIONS_MAX}, .numbers = 1};
    CHECK(m->aux_load(&io, 1, REDIS_AUX_BEFORE) == REDIS_ERR);
    CHECK(!weir_named_find("old", 3)); /* the number is good, and nothing follows */
    weir_interned_close();
}

/* Generations are loaded before the policies, which then begin in theirs. */
static void generations_in_a_file(void)
{
    static redis_io io, saved;
    static const char *const wrong[][2] = {{"?", "1"}, {"?a", "0"}, {"?a", "x"}, {"?a", ""}};
    weir_policy_error e;
    const weir_generation *g;
    const redis_type_methods *m = &server.methods;
    saved = (redis_io){.strings_max = STRINGS_MAX};
    CHECK(load(NULL, NULL, 0, 0) == REDIS_OK);
    CHECK(weir_named_set("a", 1, "gcra 2/s", 8, &e) == WEIR_OK);
    CHECK(weir_named_reset("a", 1) == WEIR_OK && weir_named_reset("a", 1) == WEIR_OK);
    CHECK(weir_text_reset("gcra 3/s", 8, &e) == WEIR_OK);
    m->aux_save(&saved, REDIS_AUX_BEFORE);
    CHECK(saved.numbers == 1 && saved.number[0] == 3 && saved.strings == 6);
    CHECK(weir_named_reset("a", 1) == WEIR_OK);
    CHECK(m->aux_load(&saved, 1, REDIS_AUX_BEFORE) == REDIS_OK);
    CHECK(weir_generations_all(&g) == 2 && weir_generation_of("a", 1) == 2);
    CHECK(weir_generation_of("gcra 3/s burst 1", 16) == 1);
    CHECK(strcmp(weir_interned_name(weir_named_find("a", 1)->interned), "a?2") == 0);
    CHECK(!weir_named_find("a", 1)->interned->former && server.io_errors == 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        io = (redis_io){.number = {1}, .numbers = 1, .strings_max = STRINGS_MAX};
        add_string(&io, wrong[i][0]);
        add_string(&io, wrong[i][1]);
        CHECK(m->aux_load(&io, 1, REDIS_AUX_BEFORE) == REDIS_ERR);
        CHECK(server.io_errors == i + 1 && weir_generations_all(&g) == 0);
    }
    for (size_t len = WEIR_POLICY_TEXT_MAX - 1; len <= WEIR_POLICY_TEXT_MAX; len++) {
        char text[WEIR_POLICY_TEXT_MAX + 2] = "?";
        memset(text + 1, 'a', len);
        io = (redis_io){.number = {1}, .numbers = 1, .strings_max = STRINGS_MAX};
        add_string(&io, text);
        add_string(&io, "7");
        bool fits = len < WEIR_POLICY_TEXT_MAX;
        CHECK(m->aux_load(&io, 1, REDIS_AUX_BEFORE) == (fits ? REDIS_OK : REDIS_ERR));
        CHECK(weir_generations_all(&g) == fits && (!fits || g[0].len == len));
    }
    weir_interned_close();
}

int main(void)
{
    a_needed_function_is_missing();
    a_wanted_function_is_missing();
    a_call_fails();
    a_value_in_a_file();
    memory_of_a_value();
    policies_in_a_file();
    generations_in_a_file();
    module_server_close(); /* all memory was freed */
    printf("7 passed, 0 failed\n");
    return 0;
}
