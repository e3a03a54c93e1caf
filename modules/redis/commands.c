/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The commands of the module: registers them with flags, keys, arity and documentation, and runs
 * them. What they accept and reply is in codec/resp/command.h. */

#include "module.h"

#include <stdio.h>
#include <string.h>

typedef struct command {
    const weir_command *cmd; /* name, arity, keys and usage */
    redis_command_fn fn;
    const char *flags;
    const char *categories; /* of the ACL */
    uint64_t key_flags;
    const char *summary, *complexity;
    const redis_arg *args;
} command;

/* ---- running --------------------------------------------------------------------------------- */

bool weir_module_last_is(redis_string **argv, int *argc, int needed, const char *word)
{
    weir_slice a;
    if (*argc <= needed)
        return false;
    a.at = redis.StringPtrLen(argv[*argc - 1], &a.len);
    bool found = weir_resp_word_is(a, word);
    *argc -= found;
    return found;
}

/* Runs a command of the shared set. */
static int run(weir_command_id id, redis_ctx *ctx, redis_string **argv, int argc)
{
    const weir_command *cmd = &weir_commands[id];
    weir_slice arg[WEIR_MODULE_ARGS_MAX];
    bool with_names = cmd->names && weir_module_last_is(argv, &argc, cmd->args_min, "WITHNAMES");
    if (!weir_command_arity_is_good(cmd, (size_t)argc))
        return redis.WrongArity(ctx);
    weir_module_call c = weir_module_call_make(ctx, argv, argc, cmd->key, arg);
    c.call.with_names = with_names;
    cmd->run(&c.call);
    return REDIS_OK;
}

/* The server calls a command without passing its name, so each needs a function. */
#define RUN(name, id)                                                                              \
    static int name(redis_ctx *ctx, redis_string **argv, int argc)                                 \
    {                                                                                              \
        return run(WEIR_COMMAND_##id, ctx, argv, argc);                                            \
    }
RUN(run_take, TAKE)
RUN(run_check, CHECK)
RUN(run_take_all, TAKEALL)
RUN(run_peek, PEEK)
RUN(run_refund, REFUND)
RUN(run_charge, CHARGE)
RUN(run_reset, RESET)
RUN(run_reset_all, RESETALL)
RUN(run_explain, EXPLAIN)
RUN(run_policy, POLICY)
RUN(run_throttle, THROTTLE)

static int run_help(redis_ctx *ctx, redis_string **argv, int argc);

/* ---- arguments, as COMMAND DOCS shows them --------------------------------------------------- */

#define ARG_OF(n, t, spec, ...)                                                                    \
    {                                                                                              \
        .name = (n), .type = REDIS_ARG_##t, .key_spec_index = (spec), __VA_ARGS__                  \
    }
#define ARG(n, t)            ARG_OF(n, t, -1, .flags = 0)
#define OPTION(n, t)         ARG_OF(n, t, -1, .flags = REDIS_ARG_OPTIONAL)
#define WORD_OPTION(n, t, w) ARG_OF(n, t, -1, .flags = REDIS_ARG_OPTIONAL, .token = (w))
#define KEY_ARG              ARG_OF("key", KEY, 0, .flags = 0)
#define COST_OPTION          WORD_OPTION("cost", INTEGER, "COST")
#define NAMES_OPTION         WORD_OPTION("withnames", TOKEN, "WITHNAMES")
#define FIGURES_OPTION       WORD_OPTION("figures", TOKEN, "FIGURES")
#define END                                                                                        \
    {                                                                                              \
        0                                                                                          \
    }

static const redis_arg take_args[] = {ARG("policy", STRING), KEY_ARG, COST_OPTION, NAMES_OPTION,
                                      END};
static const redis_arg check_args[] = {ARG("policy-text", STRING), KEY_ARG, COST_OPTION,
                                       NAMES_OPTION, END};
static const redis_arg refund_args[] = {ARG("policy", STRING), KEY_ARG, ARG("n", INTEGER),
                                        NAMES_OPTION, END};
static const redis_arg reset_args[] = {ARG("policy", STRING), KEY_ARG, END};
static const redis_arg policy_args[] = {ARG("policy", STRING), END};
static const redis_arg throttle_args[] = {KEY_ARG,
                                          ARG("max_burst", INTEGER),
                                          ARG("count", INTEGER),
                                          ARG("period", INTEGER),
                                          OPTION("quantity", INTEGER),
                                          END};
static const redis_arg ask_args[] = {ARG("verb", STRING),
                                     ARG("policy-text", STRING),
                                     KEY_ARG,
                                     ARG("n", INTEGER),
                                     FIGURES_OPTION,
                                     END};
static const redis_arg state_args[] = {KEY_ARG, ARG("unix-time-milliseconds", INTEGER),
                                       ARG("payload", STRING), END};
static redis_arg request_args[] = {ARG("policy", STRING), KEY_ARG, ARG("cost", INTEGER), END};
#define REQUEST_ARGS                                                                               \
    ARG_OF("request", BLOCK, -1, .flags = REDIS_ARG_MULTIPLE, .subargs = request_args)
static const redis_arg take_all_args[] = {ARG("n", INTEGER), REQUEST_ARGS, NAMES_OPTION, END};
static const redis_arg ask_all_args[] = {ARG("n", INTEGER), REQUEST_ARGS, FIGURES_OPTION, END};
static const redis_arg set_args[] = {ARG("name", STRING), ARG("policy-text", STRING), END};
static const redis_arg name_args[] = {ARG("name", STRING), END};

#define UPDATES (REDIS_KEY_RW | REDIS_KEY_ACCESS | REDIS_KEY_UPDATE)
#define LOOKS   (REDIS_KEY_RO | REDIS_KEY_ACCESS)

#define SHARED(id) &weir_commands[WEIR_COMMAND_##id]
#define OWN(...)                                                                                   \
    &(const weir_command)                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const command commands[] = {
    {SHARED(TAKE), run_take, "write fast deny-oom", "write fast", UPDATES,
     "Decides whether a request may pass under a policy, and charges its cost", "O(1)", take_args},
    {SHARED(CHECK), run_check, "write fast deny-oom", "write fast", UPDATES,
     "Does the same as WEIR.TAKE, with a policy text instead of a name", "O(1)", check_args},
    {SHARED(TAKEALL), run_take_all, "write deny-oom", "write slow", UPDATES,
     "Charges several keys of one slot: all of them or none", "O(n) for n requests, 1 to 16",
     take_all_args},
    {SHARED(PEEK), run_peek, "readonly fast", "read fast", LOOKS,
     "Reports what WEIR.TAKE would reply, and charges nothing", "O(1)", take_args},
    {SHARED(REFUND), run_refund, "write fast", "write fast", UPDATES,
     "Refunds units that were charged and not used", "O(1)", refund_args},
    {SHARED(CHARGE), run_charge, "write fast deny-oom", "write fast", UPDATES,
     "Charges units that were used already, whether they fit or not", "O(1)", take_args},
    {SHARED(RESET), run_reset, "write fast", "write fast", REDIS_KEY_RW | REDIS_KEY_DELETE,
     "Restores the full quota of a key under a policy", "O(1)", reset_args},
    {SHARED(RESETALL), run_reset_all, "write", "write slow", 0,
     "Restores the full quota of all keys under a policy", "O(n) for n policies", policy_args},
    {SHARED(EXPLAIN), run_explain, "readonly fast", "read fast", LOOKS,
     "Explains the state of a key in words", "O(1)", reset_args},
    {OWN("WEIR.HELP", WEIR_MAY_ENTER, NULL, 1, 1, 0, 0, false, "WEIR.HELP"), run_help, "fast",
     "fast", 0, "Lists these commands", "O(1)", NULL},
    {SHARED(THROTTLE), run_throttle, "write fast deny-oom", "write fast", UPDATES,
     "Does the same as CL.THROTTLE of redis-cell", "O(1)", throttle_args},
    {OWN("WEIR.ASK", WEIR_MAY_ENTER, NULL, 5, 6, 3, 1, false, NULL), weir_ask_command,
     "write fast deny-oom", "write fast", UPDATES,
     "Internal: TAKE, PEEK, REFUND, CHARGE, GRANT or RESET, in microseconds", "O(1)", ask_args},
    {OWN("WEIR.ASKALL", WEIR_MAY_ENTER, NULL, 5, 0, 3, 3, false, NULL), weir_ask_all_command,
     "write deny-oom", "write slow", UPDATES, "Internal: WEIR.TAKEALL in microseconds",
     "O(n) for n requests, 1 to 16", ask_all_args},
    {OWN("WEIR.STATE", WEIR_MAY_ENTER, NULL, 4, 4, 1, 1, false, NULL), weir_state_command,
     "write admin", "write admin dangerous", UPDATES,
     "Replicates the state of a key to replicas and the AOF", "O(n) for n bytes", state_args},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const command policy_commands[] = {
    {OWN("SET", WEIR_MAY_ENTER, NULL, 4, 4, 0, 0, false, NULL), run_policy, "write deny-oom",
     "write slow", 0, "Creates or replaces a named policy", "O(log n) for n policies", set_args},
    {OWN("GET", WEIR_MAY_ENTER, NULL, 3, 3, 0, 0, false, NULL), run_policy, "readonly fast",
     "read fast", 0, "Shows a policy", "O(log n) for n policies", name_args},
    {OWN("LIST", WEIR_MAY_ENTER, NULL, 2, 2, 0, 0, false, NULL), run_policy, "readonly",
     "read slow", 0, "Shows all policies", "O(n) for n policies", NULL},
    {OWN("DEL", WEIR_MAY_ENTER, NULL, 3, 3, 0, 0, false, NULL), run_policy, "write fast",
     "write fast", 0, "Deletes a policy", "O(n) for n policies", name_args},
};
enum { POLICY_COMMANDS = sizeof policy_commands / sizeof policy_commands[0] };

static void put_text(redis_ctx *ctx, const char *text)
{
    redis.ReplyWithStringBuffer(ctx, text, strlen(text));
}

static int run_help(redis_ctx *ctx, redis_string **argv, int argc)
{
    long lines = 1;
    (void)argv;
    if (argc != 1)
        return redis.WrongArity(ctx);
    for (size_t i = 0; i < COMMANDS; i++)
        lines += commands[i].cmd->usage != NULL;
    redis.ReplyWithArray(ctx, lines);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i].cmd->usage)
            put_text(ctx, commands[i].cmd->usage);
    }
    put_text(ctx, weir_commands[WEIR_COMMAND_POLICY].usage);
    return REDIS_OK;
}

/* ---- documentation --------------------------------------------------------------------------- */

/* Before 7.2, the commands of modules have no ACL categories. */
static bool put_categories(redis_command *at, const command *cmd)
{
    if (!redis.SetCommandACLCategories || !cmd->categories)
        return true;
    return redis.SetCommandACLCategories(at, cmd->categories) == REDIS_OK;
}

static bool describe(redis_command *at, const command *c)
{
    const weir_command *cmd = c->cmd;
    static const redis_command_info_version version = {1, sizeof(redis_history),
                                                       sizeof(redis_key_spec), sizeof(redis_arg)};
    redis_key_spec specs[2] = {{0}, {0}};
    redis_command_info info = {
        .version = &version,
        .summary = c->summary,
        .complexity = c->complexity,
        .since = WEIR_VERSION,
        .arity = weir_command_arity(cmd),
        .key_specs = specs,
        .args = (redis_arg *)(uintptr_t)c->args, /* copied by the server */
    };
    if (cmd->key > 0) {
        specs[0].flags = c->key_flags;
        specs[0].begin_search_type = REDIS_SEARCH_INDEX;
        specs[0].bs.index.pos = cmd->key;
        specs[0].find_keys_type = REDIS_FIND_RANGE;
        specs[0].fk.range.lastkey = cmd->key_step == 3 ? -2 : 0; /* 0: the first key */
        specs[0].fk.range.keystep = cmd->key_step;
    }
    return at && redis.SetCommandInfo(at, &info) == REDIS_OK && put_categories(at, c);
}

static bool has_docs(void)
{
    return redis.GetCommand && redis.SetCommandInfo;
}

/* ---- registering ----------------------------------------------------------------------------- */

static bool create(redis_ctx *ctx, const command *c)
{
    const weir_command *cmd = c->cmd;
    char name[WEIR_COMMAND_NAME_MAX];
    weir_command_lower(cmd, name);
    if (redis.CreateCommand(ctx, name, c->fn, c->flags, cmd->key, weir_command_last_key(cmd),
                            cmd->key_step) != REDIS_OK)
        return false;
    return !has_docs() || describe(redis.GetCommand(ctx, name), c);
}

/* As subcommands with flags of their own, or before 7.0 as one command that may write. */
static bool create_policy(redis_ctx *ctx)
{
    static const command whole = {.cmd = SHARED(POLICY), .summary = "Manages named policies"};
    if (!has_docs() || !redis.CreateSubcommand)
        return redis.CreateCommand(ctx, "weir.policy", run_policy, "write deny-oom", 0, 0, 0) ==
               REDIS_OK;
    if (redis.CreateCommand(ctx, "weir.policy", NULL, "", 0, 0, 0) != REDIS_OK)
        return false;
    redis_command *parent = redis.GetCommand(ctx, "weir.policy");
    if (!describe(parent, &whole))
        return false;
    for (size_t i = 0; i < POLICY_COMMANDS; i++) {
        const command *c = &policy_commands[i];
        char name[WEIR_COMMAND_NAME_MAX], full[WEIR_COMMAND_NAME_MAX + 16];
        weir_command_lower(c->cmd, name);
        snprintf(full, sizeof full, "weir.policy|%s", name);
        if (redis.CreateSubcommand(parent, name, c->fn, c->flags, 0, 0, 0) != REDIS_OK ||
            !describe(redis.GetCommand(ctx, full), c))
            return false;
    }
    return true;
}

bool weir_commands_create(redis_ctx *ctx)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (!create(ctx, &commands[i]))
            return false;
    }
    return create_policy(ctx);
}
