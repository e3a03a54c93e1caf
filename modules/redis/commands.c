/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One table of commands: from it come their flags, keys, arities and docs, and WEIR.HELP. */

#include "commands.h"

#include "call.h"

#include <stdio.h>

typedef enum keys { NO_KEY, ONE_KEY, EACH_THIRD } keys;

typedef struct command {
    const char *name;
    redis_command_fn fn;
    const char *flags;
    const char *categories; /* of the ACL */
    keys keys;
    int key;   /* where the first is */
    int arity; /* with the name; -n: n or more */
    uint64_t key_flags;
    const char *summary, *complexity;
    const char *usage; /* NULL: not for people */
    const redis_arg *args;
} command;

/* ---- arguments, as COMMAND DOCS shows them --------------------------------------------------- */

#define ARG(n, t)                                                                                  \
    {                                                                                              \
        .name = (n), .type = REDIS_ARG_##t, .key_spec_index = -1                                   \
    }
#define KEY_ARG                                                                                    \
    {                                                                                              \
        .name = "key", .type = REDIS_ARG_KEY, .key_spec_index = 0                                  \
    }
#define OPTION(n, t)                                                                               \
    {                                                                                              \
        .name = (n), .type = REDIS_ARG_##t, .key_spec_index = -1, .flags = REDIS_ARG_OPTIONAL      \
    }
#define COST_OPTION                                                                                \
    {                                                                                              \
        .name = "cost", .type = REDIS_ARG_INTEGER, .key_spec_index = -1, .token = "COST",          \
        .flags = REDIS_ARG_OPTIONAL                                                                \
    }
#define NAMES_OPTION                                                                               \
    {                                                                                              \
        .name = "withnames", .type = REDIS_ARG_TOKEN, .key_spec_index = -1, .token = "WITHNAMES",  \
        .flags = REDIS_ARG_OPTIONAL                                                                \
    }
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
static const redis_arg throttle_args[] = {KEY_ARG,
                                          ARG("max_burst", INTEGER),
                                          ARG("count", INTEGER),
                                          ARG("period", INTEGER),
                                          OPTION("quantity", INTEGER),
                                          END};
static const redis_arg ask_args[] = {ARG("verb", STRING), ARG("policy-text", STRING), KEY_ARG,
                                     ARG("n", INTEGER), END};
static const redis_arg state_args[] = {KEY_ARG, ARG("unix-time-milliseconds", INTEGER),
                                       ARG("payload", STRING), END};
static redis_arg request_args[] = {ARG("policy", STRING), KEY_ARG, ARG("cost", INTEGER), END};
#define REQUEST_ARGS                                                                               \
    {                                                                                              \
        .name = "request", .type = REDIS_ARG_BLOCK, .key_spec_index = -1,                          \
        .flags = REDIS_ARG_MULTIPLE, .subargs = request_args                                       \
    }
static const redis_arg take_all_args[] = {ARG("n", INTEGER), REQUEST_ARGS, NAMES_OPTION, END};
static const redis_arg ask_all_args[] = {ARG("n", INTEGER), REQUEST_ARGS, END};
static const redis_arg set_args[] = {ARG("name", STRING), ARG("policy-text", STRING), END};
static const redis_arg name_args[] = {ARG("name", STRING), END};

#define UPDATES (REDIS_KEY_RW | REDIS_KEY_ACCESS | REDIS_KEY_UPDATE)
#define LOOKS   (REDIS_KEY_RO | REDIS_KEY_ACCESS)

static const command commands[] = {
    {"weir.take", weir_take_command, "write fast deny-oom", "write fast", ONE_KEY, 2, -3, UPDATES,
     "Decides whether a cost may pass under a policy, and charges it", "O(1)",
     "WEIR.TAKE policy key [COST n] [WITHNAMES]", take_args},
    {"weir.check", weir_check_command, "write fast deny-oom", "write fast", ONE_KEY, 2, -3, UPDATES,
     "The same under a policy that is given as text", "O(1)",
     "WEIR.CHECK policy-text key [COST n] [WITHNAMES]", check_args},
    {"weir.takeall", weir_take_all_command, "write deny-oom", "write slow", EACH_THIRD, 3, -5,
     UPDATES, "Takes from several keys of one slot: from all or from none",
     "O(n) for n requests, 1 to 16",
     "WEIR.TAKEALL n policy key cost [policy key cost ...] [WITHNAMES]", take_all_args},
    {"weir.peek", weir_peek_command, "readonly fast", "read fast", ONE_KEY, 2, -3, LOOKS,
     "Says what WEIR.TAKE would answer, and charges nothing", "O(1)",
     "WEIR.PEEK policy key [COST n] [WITHNAMES]", take_args},
    {"weir.refund", weir_refund_command, "write fast", "write fast", ONE_KEY, 2, -4, UPDATES,
     "Gives back what was charged and not used", "O(1)", "WEIR.REFUND policy key n [WITHNAMES]",
     refund_args},
    {"weir.reset", weir_reset_command, "write fast", "write fast", ONE_KEY, 2, 3,
     REDIS_KEY_RW | REDIS_KEY_DELETE, "Makes a key fresh under a policy", "O(1)",
     "WEIR.RESET policy key", reset_args},
    {"weir.explain", weir_explain_command, "readonly fast", "read fast", ONE_KEY, 2, 3, LOOKS,
     "Says in words what holds for a key", "O(1)", "WEIR.EXPLAIN policy key", reset_args},
    {"weir.help", weir_help_command, "fast", "fast", NO_KEY, 0, 1, 0, "Lists these commands",
     "O(1)", "WEIR.HELP", NULL},
    {"cl.throttle", weir_throttle_command, "write fast deny-oom", "write fast", ONE_KEY, 1, -1,
     UPDATES, "Decides as redis-cell does", "O(1)",
     "CL.THROTTLE key max_burst count period [quantity]", throttle_args},
    {"weir.ask", weir_ask_command, "write fast deny-oom", "write fast", ONE_KEY, 3, 5, UPDATES,
     "What weir's programs ask: TAKE, PEEK, REFUND, GRANT or RESET, in microseconds", "O(1)", NULL,
     ask_args},
    {"weir.askall", weir_ask_all_command, "write deny-oom", "write slow", EACH_THIRD, 3, -5,
     UPDATES, "What weir's programs ask about several keys", "O(n) for n requests, 1 to 16", NULL,
     ask_all_args},
    {"weir.state", weir_state_command, "write admin", "write admin dangerous", ONE_KEY, 1, 4,
     UPDATES, "What replicas and an AOF are told of a key", "O(n) for n bytes", NULL, state_args},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const command policy_commands[] = {
    {"set", weir_policy_set_command, "write deny-oom", "write slow", NO_KEY, 0, 4, 0,
     "Sets a policy under a name", "O(log n) for n policies", NULL, set_args},
    {"get", weir_policy_get_command, "readonly fast", "read fast", NO_KEY, 0, 3, 0,
     "Shows a policy", "O(log n) for n policies", NULL, name_args},
    {"list", weir_policy_list_command, "readonly", "read slow", NO_KEY, 0, 2, 0,
     "Shows all policies", "O(n) for n policies", NULL, NULL},
    {"del", weir_policy_del_command, "write fast", "write fast", NO_KEY, 0, 3, 0,
     "Takes a policy away", "O(n) for n policies", NULL, name_args},
};
enum { POLICY_COMMANDS = sizeof policy_commands / sizeof policy_commands[0] };

static const char policy_usage[] = "WEIR.POLICY LIST | GET name | SET name policy-text | DEL name";

int weir_help_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_call c = {ctx, argv, argc, false};
    long lines = 1;
    if (argc != 1)
        return redis.WrongArity(ctx);
    for (size_t i = 0; i < COMMANDS; i++)
        lines += commands[i].usage != NULL;
    redis.ReplyWithArray(ctx, lines);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i].usage)
            weir_call_text(&c, commands[i].usage);
    }
    weir_call_text(&c, policy_usage);
    return REDIS_OK;
}

/* ---- docs ------------------------------------------------------------------------------------ */

/* Before 7.2 the commands of modules are in none. */
static bool put_categories(redis_command *at, const command *cmd)
{
    if (!redis.SetCommandACLCategories || !cmd->categories)
        return true;
    return redis.SetCommandACLCategories(at, cmd->categories) == REDIS_OK;
}

static bool describe(redis_command *at, const command *cmd)
{
    static const redis_command_info_version version = {1, sizeof(redis_history),
                                                       sizeof(redis_key_spec), sizeof(redis_arg)};
    redis_key_spec specs[2] = {{0}, {0}};
    redis_command_info info = {
        .version = &version,
        .summary = cmd->summary,
        .complexity = cmd->complexity,
        .since = WEIR_VERSION,
        .arity = cmd->arity,
        .key_specs = specs,
        .args = (redis_arg *)(uintptr_t)cmd->args, /* which the server copies */
    };
    if (cmd->keys != NO_KEY) {
        specs[0].flags = cmd->key_flags;
        specs[0].begin_search_type = REDIS_SEARCH_INDEX;
        specs[0].bs.index.pos = cmd->key;
        specs[0].find_keys_type = REDIS_FIND_RANGE;
        specs[0].fk.range.lastkey = cmd->keys == EACH_THIRD ? -2 : 0;
        specs[0].fk.range.keystep = cmd->keys == EACH_THIRD ? 3 : 1;
    }
    return at && redis.SetCommandInfo(at, &info) == REDIS_OK && put_categories(at, cmd);
}

static bool has_docs(void)
{
    return redis.GetCommand && redis.SetCommandInfo;
}

/* ---- making them known ----------------------------------------------------------------------- */

static bool create(redis_ctx *ctx, const command *cmd)
{
    int last = cmd->keys == EACH_THIRD ? -2 : cmd->key;
    int step = cmd->keys == EACH_THIRD ? 3 : cmd->keys == ONE_KEY ? 1 : 0;
    if (redis.CreateCommand(ctx, cmd->name, cmd->fn, cmd->flags, cmd->key, last, step) != REDIS_OK)
        return false;
    return !has_docs() || describe(redis.GetCommand(ctx, cmd->name), cmd);
}

/* With subcommands, of which each has its own flags; or as one command that may write. */
static bool create_policy(redis_ctx *ctx)
{
    static const command whole = {.summary = "Policies by name", .arity = -2};
    if (!has_docs() || !redis.CreateSubcommand)
        return redis.CreateCommand(ctx, "weir.policy", weir_policy_command, "write deny-oom", 0, 0,
                                   0) == REDIS_OK;
    if (redis.CreateCommand(ctx, "weir.policy", NULL, "", 0, 0, 0) != REDIS_OK)
        return false;
    redis_command *parent = redis.GetCommand(ctx, "weir.policy");
    if (!describe(parent, &whole))
        return false;
    for (size_t i = 0; i < POLICY_COMMANDS; i++) {
        const command *cmd = &policy_commands[i];
        char name[32];
        snprintf(name, sizeof name, "weir.policy|%s", cmd->name);
        if (redis.CreateSubcommand(parent, cmd->name, cmd->fn, cmd->flags, 0, 0, 0) != REDIS_OK ||
            !describe(redis.GetCommand(ctx, name), cmd))
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
