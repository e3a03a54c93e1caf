/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir check`: says all that is wrong with a configuration, or what it means. */

#include "cmd/caret.h"
#include "cmd/cmd.h"
#include "cmd/config/config.h"
#include "cmd/config/fields.h"
#include "cmd/options.h"
#include "engine/redis/client/url.h"
#include "service/zone_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: weir check [OPTION]... FILE|-\n"
    "\n"
    "Validates a configuration and checks whether weir serve could start with it on this\n"
    "machine, as this user. Prints a summary, or every error with its line and column.\n"
    "Changes nothing. '-' reads the standard input.\n"
    "\n"
    "An address or a state file in use is a warning: it is expected while the daemon runs.\n"
    "\n"
    "  --syntax  check the text and the files it names, not this machine\n"
    "  --quiet   print errors only\n"
    "  --help    this text\n"
    "\n"
    "Exit status: 0 valid, 1 invalid, unreadable, or the daemon could not start,\n"
    "2 usage error.\n"
    "\n"
    "Examples:\n"
    "  weir check /etc/weir/weir.yaml\n"
    "  weir check --syntax --quiet deploy/weir.yaml\n"
    "  weir check --quiet weir.yaml && kill -HUP \"$(pidof weir)\"\n"
    "  printf 'policies: {login: sliding-log 5/m}' | weir check -\n";

/* ---- what it means --------------------------------------------------------------------------- */

static void print_line(const char *name, const char *value)
{
    printf("%-12s", name);
    caret_text(stdout, value, strlen(value));
    putchar('\n');
}

/* A list on one line; nothing if it is empty. */
static void print_names(const char *name, const weir_http_names *names)
{
    for (size_t i = 0; i < names->len; i++) {
        if (i == 0)
            printf("%-12s", name);
        else
            fputs(", ", stdout);
        caret_text(stdout, names->at[i], strlen(names->at[i]));
    }
    if (names->len > 0)
        putchar('\n');
}

static void print_ns(const char *name, int64_t ns, const char *zero)
{
    static const struct {
        int64_t ns;
        const char *unit;
    } units[] = {{86400000000000, "d"}, {3600000000000, "h"}, {60000000000, "m"}, {1000000000, "s"},
                 {1000000, "ms"},       {1000, "us"},         {1, "ns"}};
    if (ns == 0) {
        printf(", %s %s", name, zero);
        return;
    }
    size_t i = 0;
    while (ns % units[i].ns != 0)
        i++;
    printf(", %s %" PRId64 "%s", name, ns / units[i].ns, units[i].unit);
}

static void print_memory(const weir_config *c)
{
    static const char *const sync[] = {
        [WEIR_SYNC_NEVER] = "never", [WEIR_SYNC_SECOND] = "1s", [WEIR_SYNC_ALWAYS] = "always"};
    char text[256], a[24], b[24];
    snprintf(text, sizeof text, "%s, of it %s for large states; %s",
             config_size_text(c->memory_bytes, a, sizeof a),
             config_size_text(c->memory_large_bytes, b, sizeof b),
             c->when_full == WEIR_REFUSE ? "when full, new keys are refused"
                                         : "when full, the key closest to fresh is forgotten");
    print_line("memory", text);
    if (!c->state_file) {
        print_line("state", "in memory alone");
        return;
    }
    printf("%-12s", "state");
    caret_text(stdout, c->state_file, strlen(c->state_file));
    printf(", sync %s%s%s\n", sync[c->sync], c->shared ? ", shared with other processes" : "",
           c->trust_others ? ", also if other users own or may write it" : "");
}

static void print_server(const weir_config *c)
{
    char text[256], a[24];
    for (size_t i = 0; i < c->listens_len; i++) {
        const config_listen *l = &c->listens[i];
        snprintf(text, sizeof text, "%s on %s%s", protocols[l->protocol].name, l->address,
                 l->is_public ? ", for other machines too" : "");
        print_line(i == 0 ? "listen" : "", text);
    }
    print_line("password", c->password_len > 0 ? "set" : "none");
    snprintf(text, sizeof text, "%u", c->threads);
    print_line("threads", c->threads > 0 ? text : "one for each core");
    print_memory(c);
    printf("%-12s%d connections, %s of buffers", "limits", c->connections,
           config_size_text(c->buffers_bytes, a, sizeof a));
    print_ns("idle", c->idle_ns, "never");
    print_ns("request", c->request_ns, "never");
    print_ns("write", c->write_ns, "never");
    print_ns("drain", c->drain_ns, "at once");
    putchar('\n');
    snprintf(text, sizeof text, "%d keys of each policy, in at most %s%s", c->top_keys,
             config_size_text(c->top_memory_bytes, a, sizeof a),
             c->top_metrics ? ", also in the metrics" : "");
    print_line("top", c->top_keys > 0 ? text : "off");
    print_names("hosts", &c->http_hosts);
    print_names("origins", &c->http_origins);
    const config_http_key *key = &c->http_key;
    if (key->from == CONFIG_KEY_UNSET)
        return;
    snprintf(text, sizeof text, "%s %s", key->from == CONFIG_KEY_HEADER ? "header" : "query",
             key->name);
    if (key->hops > 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), ", element %u from the right",
                 key->hops);
    print_line("http key", text);
}

static const char *engine_name(weir_engine_kind kind)
{
    static const char *const names[] = {[WEIR_ENGINE_LOCAL] = "local",
                                        [WEIR_ENGINE_REDIS] = "redis",
                                        [WEIR_ENGINE_HYBRID] = "hybrid"};
    return names[kind];
}

static const char *on_error_name(const weir_config *c, weir_on_error on_error)
{
    static const char *const names[] = {[WEIR_ON_ERROR_OPEN] = "open",
                                        [WEIR_ON_ERROR_CLOSED] = "closed",
                                        [WEIR_ON_ERROR_LOCAL] = "local"};
    static const char *const defaults[] = {
        [WEIR_REDIS_OPEN] = "open", [WEIR_REDIS_CLOSED] = "closed", [WEIR_REDIS_LOCAL] = "local"};
    return on_error == WEIR_ON_ERROR_DEFAULT ? defaults[c->redis.on_error] : names[on_error];
}

/* Whether a policy has an engine, or would if it came by its text. */
static bool is_asked(const weir_config *c, weir_engine_kind engine)
{
    for (size_t i = 0; i < c->rules_len; i++) {
        if (c->rules[i].engine == engine)
            return true;
    }
    return c->engine == engine;
}

/* Where the server of a URL is. The URL itself may have a password in it, and is not shown. */
static void print_url(const weir_redis_options *o, const weir_redis_url *u)
{
    char text[WEIR_REDIS_HOST_MAX + 64], port[16] = "", database[24] = "";
    bool is_path = u->host[0] == '/', is_v6 = !is_path && strchr(u->host, ':') != NULL;
    unsigned number = o->sentinel ? WEIR_SENTINEL_PORT : WEIR_REDIS_PORT_DEFAULT;
    if (!is_path)
        snprintf(port, sizeof port, ":%u", u->port > 0 ? u->port : number);
    if (u->database > 0 && !o->sentinel)
        snprintf(database, sizeof database, ", database %" PRIu32, u->database);
    snprintf(text, sizeof text, "%s%s%s%s%s%s", u->tls ? "TLS to " : "", is_v6 ? "[" : "", u->host,
             is_v6 ? "]" : "", port, database);
    print_line("", text);
}

/* Which servers, and who the daemon is to them. */
static void print_servers(const weir_redis_options *o)
{
    weir_redis_url u, first = {.host = ""};
    for (size_t i = 0; i < o->urls_len; i++) {
        if (weir_redis_url_read(o->urls[i], &u, NULL) != WEIR_OK)
            continue;
        if (i == 0)
            first = u;
        print_url(o, &u);
    }
    const char *user = o->user ? o->user : first.user;
    if (o->sentinel)
        print_line("master", o->sentinel);
    printf("%-12s", "user");
    caret_text(stdout, user[0] ? user : "default", user[0] ? strlen(user) : strlen("default"));
    puts(o->password || first.has_password ? ", with a password" : ", without a password");
}

static void print_redis(const weir_config *c)
{
    static const char *const by[] = {[WEIR_REDIS_BY_ANY] = "module, functions or script",
                                     [WEIR_REDIS_BY_MODULE] = "module",
                                     [WEIR_REDIS_BY_FUNCTIONS] = "functions",
                                     [WEIR_REDIS_BY_SCRIPT] = "script"};
    const weir_redis_options *o = &c->redis;
    char a[24];
    if (!c->has_redis)
        return;
    print_line("engine", engine_name(c->engine));
    printf("%-12s%zu %s%s, by %s, on_error %s", "redis", o->urls_len,
           o->sentinel ? "Sentinel" : "server", o->urls_len > 1 ? "s" : "", by[o->by],
           on_error_name(c, WEIR_ON_ERROR_DEFAULT));
    print_ns("deadline", o->deadline_ns, "");
    putchar('\n');
    print_servers(o);
    if (!is_asked(c, WEIR_ENGINE_REDIS) && !is_asked(c, WEIR_ENGINE_HYBRID))
        print_line("", "nobody asks: no policy has the engine redis or hybrid");
    if (!is_asked(c, WEIR_ENGINE_HYBRID))
        return;
    printf("%-12scount %" PRId64, "hybrid", c->hybrid.count);
    print_ns("interval", c->hybrid.interval_ns, "");
    print_ns("idle", c->hybrid.idle_ns, "");
    printf(", memory %s of each thread\n", config_size_text(c->hybrid.memory_bytes, a, sizeof a));
}

static void print_report(const weir_policy *p)
{
    char report[WEIR_POLICY_REPORT_MAX];
    weir_policy_report(p, report, sizeof report);
    for (const char *line = report, *end; *line; line = end + (*end == '\n')) {
        end = line + strcspn(line, "\n");
        if (end > line)
            printf("    %.*s\n", (int)(end - line), line);
    }
}

static void print_rule(const weir_config *c, const weir_rule_spec *rule)
{
    printf("\n  %s\n", rule->name);
    print_report(rule->policy);
    if (rule->overrides_len + rule->allow_len + rule->deny_len > 0)
        printf("    %zu overrides, %zu always allowed, %zu always denied\n", rule->overrides_len,
               rule->allow_len, rule->deny_len);
    if (rule->engine != WEIR_ENGINE_LOCAL)
        printf("    decided by the engine %s, on_error %s\n", engine_name(rule->engine),
               on_error_name(c, rule->on_error));
    if (rule->shadow)
        puts("    shadow: it denies nobody, and counts whom it would have denied");
    if (rule->plain_keys)
        puts("    keys that look like addresses are plain bytes");
    else if (rule->v4_bits != 32 || rule->v6_bits != 64)
        printf("    an address is one key with its /%u, in IPv6 with its /%u\n", rule->v4_bits,
               rule->v6_bits);
}

static void print_summary(const char *path, const weir_config *c)
{
    caret_text(stdout, path, strlen(path));
    puts(": good\n");
    print_server(c);
    print_redis(c);
    printf("%-12s%zu\n", "policies", c->rules_len);
    for (size_t i = 0; i < c->rules_len; i++)
        print_rule(c, &c->rules[i]);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Drops warnings. */
static void print_errors(void *ctx, const config_problem *problem)
{
    if (!problem->warning)
        config_problem_print(ctx, problem);
}

static int check_file(const char *path, bool syntax, bool quiet)
{
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    if (!cache) {
        fputs("weir check: out of memory\n", stderr);
        return 1;
    }
    weir_zones zones = weir_zone_cache_zones(cache);
    config_sink sink = quiet ? (config_sink){print_errors, stderr} : config_print_to(stderr);
    weir_config *config = NULL;
    weir_status st = syntax ? config_load(path, true, &zones, &sink, &config)
                            : config_load_and_try(path, &zones, &sink, &config);
    bool good = st == WEIR_OK;
    if (good && !quiet)
        print_summary(strcmp(path, "-") == 0 ? "<stdin>" : path, config);
    config_free(config);
    weir_zone_cache_close(cache);
    return good ? 0 : 1;
}

int weir_cmd_check(int argc, char **argv)
{
    static const struct option known[] = {{"syntax", no_argument, NULL, 's'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    bool quiet = false, syntax = false;
    int c;
    optind = 0;
    while ((c = options_next("weir check", argc, argv, known)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (c == '?')
            return 2;
        quiet |= c == 'q';
        syntax |= c == 's';
    }
    if (argc - optind == 1)
        return check_file(argv[optind], syntax, quiet);
    if (optind == argc)
        fputs("weir check: FILE is missing, '-' is the standard input; see weir check --help\n",
              stderr);
    else
        fprintf(stderr, "weir check: expected one FILE, found also '%s'; see weir check --help\n",
                argv[optind + 1]);
    return 2;
}
