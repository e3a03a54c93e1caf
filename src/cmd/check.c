/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir check`: validates a configuration, and prints its errors or a summary. */

#include "cmd/config/keys.h"
#include "cmd/kit/caret.h"
#include "cmd/kit/commands.h"
#include "cmd/kit/options.h"
#include "cmd/kit/units.h"
#include "engine/redis/client/client.h"
#include "service/limiter.h"
#include "service/zone_cache.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: weir check [OPTION]... FILE|-\n"
    "       weir check [--syntax] --print FILE|-\n"
    "       weir check [OPTION]... --against OLD FILE|-\n"
    "       weir check [--quiet] --envoy DIR\n"
    "       weir check --schema\n"
    "\n"
    "Validates a configuration and checks whether weir serve could start with it on this\n"
    "machine, as this user. Prints a summary, or every error with its line and column.\n"
    "Changes nothing. '-' reads the standard input. A directory of limits that FILE names is\n"
    "checked too; with --envoy, only such a directory is checked.\n"
    "\n"
    "An address or a state file that is in use is only a warning, because the daemon may\n"
    "be running.\n"
    "\n"
    "  --syntax       check FILE and the files that it names, but not this machine\n"
    "  --against OLD  print a line for each policy whose limit differs from that in the\n"
    "                 file OLD, also with --quiet: 'kept' if keys keep what they used when\n"
    "                 OLD is replaced by FILE, 'reset' if they begin with their full quota;\n"
    "                 and a line 'reset' for each other setting that has this effect\n"
    "  --print        print FILE as one configuration without secrets: with the files that it\n"
    "                 includes and the variables that it names; defaults are comments\n"
    "  --schema       print the JSON Schema of configurations, which editors read\n"
    "  --envoy        check a directory with configuration files of envoyproxy/ratelimit\n"
    "  --quiet        print errors only\n"
    "  --help         print this text\n"
    "\n"
    "Exit status: 0 valid, 1 invalid or unreadable, or the daemon could not start,\n"
    "2 usage error.\n"
    "\n"
    "Examples:\n"
    "  weir check /etc/weir/weir.yaml\n"
    "  weir check --syntax --quiet deploy/weir.yaml\n"
    "  weir check --envoy /etc/ratelimit/config\n"
    "  weir check --quiet --against /etc/weir/weir.yaml new.yaml\n"
    "  weir check --quiet weir.yaml && kill -HUP \"$(pidof weir)\"\n"
    "  printf 'policies: {login: sliding-log 5/m}' | weir check -\n";

/* ---- the summary ----------------------------------------------------------------------------- */

static void print_line(const char *name, const char *value)
{
    printf("%-12s", name);
    caret_text(stdout, value, strlen(value));
    putchar('\n');
}

/* Prints the values of a section: "limits      connections 10000, buffers 256m, ...". */
static void print_section(const weir_config *c, const config_key *section)
{
    const config_section *keys = section->section;
    const void *base = section->guest ? config_options(c, section->guest) : c;
    char text[PATH_MAX];
    bool any = false;
    for (size_t i = 0; i < keys->len; i++) {
        if (!config_value_text(&keys->keys[i], base, text, sizeof text))
            continue;
        printf(any ? ", %s " : "%-12s", any ? keys->keys[i].name : section->name);
        if (!any)
            printf("%s ", keys->keys[i].name);
        caret_text(stdout, text, strlen(text));
        any = true;
    }
    if (any) /* print_listens() prints the section tls */
        putchar('\n');
}

/* Prints a list on one line, or nothing if it is empty. */
static void print_names(const char *name, const weir_http_names *names)
{
    for (size_t i = 0; i < names->len; i++) {
        printf(i == 0 ? "%-12s" : ", ", name);
        caret_text(stdout, names->at[i], strlen(names->at[i]));
    }
    if (names->len > 0)
        putchar('\n');
}

static void print_listens(const weir_config *c)
{
    char text[CONFIG_ADDRESS_MAX + 64];
    for (size_t i = 0; i < c->listens_len; i++) {
        const config_listen *l = &c->listens[i];
        const config_tls *tls = config_listen_tls(c, l);
        snprintf(text, sizeof text, "%s on %s%s%s%s", config_protocol(l->protocol)->name,
                 l->address, l->is_public ? ", public" : "",
                 l->proxy_protocol ? ", PROXY protocol" : "",
                 !tls             ? ""
                 : tls->client_ca ? ", TLS with client certificates"
                                  : ", TLS");
        print_line(i == 0 ? "listen" : "", text);
    }
}

static void print_proxies(const weir_config *c)
{
    const weir_trusted_proxies *t = &c->trusted_proxies;
    for (size_t i = 0; i < t->len; i++) {
        char text[WEIR_ADDRESS_TEXT_MAX];
        size_t len = weir_address_print(&t->at[i].address, t->at[i].bits, text);
        printf(i == 0 ? "%-12s%.*s" : "%s%.*s", i == 0 ? "proxies" : ", ", (int)len, text);
    }
    if (t->len > 0)
        printf("; client in %s\n", config_client_header(c));
}

static void print_http(const weir_config *c)
{
    const config_http_key *key = &c->http_key;
    print_names("hosts", &c->http_hosts);
    print_names("origins", &c->http_origins);
    if (key->from == CONFIG_KEY_UNSET)
        return;
    printf("%-12s%s ", "http key", key->from == CONFIG_KEY_HEADER ? "header" : "query");
    caret_text(stdout, key->name, strlen(key->name));
    if (key->hops > 0)
        printf(", element %u from the right", key->hops);
    putchar('\n');
}

/* Prints the address in a URL. The URL itself may contain a password. */
static void print_url(const char *name, const weir_redis_options *o, const weir_redis_url *u)
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
    print_line(name, text);
}

/* Prints the addresses of the servers, and the user name that weir logs in with. */
static void print_servers(const weir_redis_options *o)
{
    weir_redis_url u, first = {.host = ""};
    for (size_t i = 0; i < o->urls_len; i++) {
        if (weir_redis_url_read(o->urls[i], &u, NULL) != WEIR_OK)
            continue;
        if (i == 0)
            first = u;
        print_url(i > 0 ? "" : o->sentinel ? "sentinels" : "servers", o, &u);
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
    print_line("engine", config_engine_words[c->engine]);
    print_servers(&c->redis);
}

/* Whether a section has an effect in this configuration. */
static bool is_active(const weir_config *c, const config_key *key)
{
    if (key->section == &config_redis_section || key->section == &config_hybrid_section)
        return c->has_redis;
    if (key->guest && key->guest->is_active)
        return key->guest->is_active(config_options(c, key->guest));
    if (key->guest && key->guest->has_limits)
        return key->guest->has_limits(config_options(c, key->guest));
    if (strcmp(key->name, "grpc") == 0)
        return config_listens(c, PROTOCOL_GRPC);
    return key->section && key->section != &config_http_section;
}

/* Prints the names of the section `users`. */
static void print_users(const weir_config *c)
{
    size_t n = c->users_len - (c->password != NULL);
    for (size_t i = 0; i < n; i++)
        print_line(i == 0 ? "users" : "", c->users[i].name);
}

/* Prints all keys but `policies`. */
static void print_keys(const weir_config *c)
{
    char threads[24];
    print_listens(c);
    print_proxies(c);
    print_line("password", c->password ? "set" : "none");
    print_users(c);
    snprintf(threads, sizeof threads, "%u", c->threads);
    print_line("threads", c->threads > 0 ? threads : "one for each core");
    print_http(c);
    if (c->has_redis)
        print_redis(c);
    for (size_t i = 0; i < config_root()->len; i++) {
        const config_key *key = &config_root()->keys[i];
        if (is_active(c, key))
            print_section(c, key);
    }
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

/* Prints the memory that a policy has of its own. */
static void print_memory(const weir_config *c, const char *name)
{
    char small[24], large[24];
    for (size_t i = 0; i < c->partitions_len; i++) {
        const weir_store_partition *p = &c->partitions[i];
        if (strcmp(p->name, name) != 0)
            continue;
        size_text(p->table_bytes, small, sizeof small);
        size_text(p->large_bytes, large, sizeof large);
        printf("    memory        %s%s%s%s, for its keys alone\n", p->table_bytes > 0 ? small : "",
               p->table_bytes > 0 && p->large_bytes > 0 ? " for small states and " : "",
               p->large_bytes > 0 ? large : "", p->large_bytes > 0 ? " for large states" : "");
    }
}

static void print_candidate(const weir_policy *p)
{
    char text[WEIR_POLICY_TEXT_MAX];
    weir_policy_print(p, text, sizeof text);
    printf("    candidate %s: also decides each request, and changes no answer\n", text);
}

static void print_rule(const weir_config *c, const weir_rule_spec *rule)
{
    static const weir_on_error defaults[] = {[WEIR_REDIS_OPEN] = WEIR_ON_ERROR_OPEN,
                                             [WEIR_REDIS_CLOSED] = WEIR_ON_ERROR_CLOSED,
                                             [WEIR_REDIS_LOCAL] = WEIR_ON_ERROR_LOCAL};
    weir_on_error on_error = rule->on_error;
    if (on_error == WEIR_ON_ERROR_DEFAULT)
        on_error = defaults[c->redis.on_error];
    printf("\n  %s\n", rule->name);
    print_report(rule->policy);
    if (rule->overrides_len + rule->allow_len + rule->deny_len > 0)
        printf("    %zu overrides, %zu always allowed, %zu always denied\n", rule->overrides_len,
               rule->allow_len, rule->deny_len);
    if (rule->engine != WEIR_ENGINE_LOCAL)
        printf("    engine %s, on_error %s\n", config_engine_words[rule->engine],
               config_on_error_words[on_error]);
    print_memory(c, rule->name);
    if (rule->key) {
        fputs("    key           ", stdout);
        caret_text(stdout, rule->key, strlen(rule->key));
        printf("; without a value: %s\n", config_no_key_words[rule->no_key]);
    }
    if (rule->shadow)
        puts("    shadow: allows every request, and counts those that it would deny");
    if (rule->candidate)
        print_candidate(rule->candidate_policy);
    if (rule->plain_keys)
        puts("    keys are never read as IP addresses");
    else if (rule->v4_bits != 32 || rule->v6_bits != 64)
        printf(
            "    one limit for each IPv4 network of size /%u, and each IPv6 network of size /%u\n",
            rule->v4_bits, rule->v6_bits);
}

static void print_texts(const char *const *texts, size_t n, const char *preset)
{
    if (n == 0)
        fputs(preset, stdout);
    for (size_t i = 0; i < n; i++)
        printf("%s%s", i > 0 ? "," : "", texts[i]);
}

/* Prints the routes in their order, one a line: "login: POST api.example.com /login -> login". */
static void print_routes(const weir_config *c)
{
    if (c->routes_len > 0)
        printf("\n%-12s%zu\n", "routes", c->routes_len);
    for (size_t i = 0; i < c->routes_len; i++) {
        const weir_route_spec *route = &c->routes[i];
        const char *path = route->path ? route->path : "/";
        fputs("  ", stdout);
        caret_text(stdout, route->name ? route->name : path,
                   strlen(route->name ? route->name : path));
        fputs(": ", stdout);
        print_texts(route->methods, route->methods_len, "*");
        putchar(' ');
        print_texts(route->hosts, route->hosts_len, "*");
        putchar(' ');
        caret_text(stdout, path, strlen(path));
        fputs(" -> ", stdout);
        print_texts(route->policies, route->policies_len, "not limited");
        if (route->cost != 1)
            printf(", cost %" PRId64, route->cost);
        config_print_keep(route->keep);
        putchar('\n');
    }
}

static void print_guests(const weir_config *c)
{
    for (size_t i = 0; config_guest_at(i); i++) {
        if (config_guest_at(i)->print)
            config_guest_at(i)->print(c, c->guest[i]);
    }
}

static void print_summary(const char *path, const weir_config *c)
{
    caret_text(stdout, path, strlen(path));
    puts(": valid\n");
    print_keys(c);
    printf("%-12s%zu\n", "policies", c->rules_len);
    for (size_t i = 0; i < c->rules_len; i++)
        print_rule(c, &c->rules[i]);
    print_routes(c);
    print_guests(c);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* A callback that ignores warnings. */
static void print_errors(void *ctx, const config_problem *problem)
{
    if (!problem->warning)
        config_problem_print(ctx, problem);
}

typedef enum check_kind { CHECK_ALL, CHECK_SYNTAX, CHECK_LIMITS } check_kind;

static weir_status load(const char *path, check_kind kind, const weir_zones *zones,
                        const config_sink *sink, weir_config **ret)
{
    if (kind == CHECK_LIMITS)
        return config_load_limits(path, zones, sink, ret);
    return kind == CHECK_SYNTAX ? config_load(path, true, zones, sink, ret)
                                : config_load_and_preflight(path, zones, sink, ret);
}

static void print_valid(const char *path, check_kind kind, const weir_config *c)
{
    if (kind == CHECK_LIMITS) {
        caret_text(stdout, path, strlen(path));
        puts(": valid\n");
        print_guests(c);
    } else {
        print_summary(strcmp(path, "-") == 0 ? "<stdin>" : path, c);
    }
}

static const weir_rule_spec *find_rule(const weir_config *c, const char *name)
{
    for (size_t i = 0; i < c->rules_len; i++) {
        if (strcmp(c->rules[i].name, name) == 0)
            return &c->rules[i];
    }
    return NULL;
}

/* What --against compares. */
typedef struct changes {
    const weir_config *from, *to;
    const char *from_path, *to_path; /* of the files */
    bool apart;                      /* print an empty line before the first line */
} changes;

__attribute__((format(printf, 2, 3))) static void print_change(changes *c, const char *format, ...)
{
    va_list args;
    if (c->apart)
        putchar('\n');
    c->apart = false;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* Prints the limit of a policy if it differs, as the log of a reload does. */
static void print_limit_change(changes *c, const weir_rule_spec *old, const weir_rule_spec *new)
{
    char before[WEIR_POLICY_TEXT_MAX], after[WEIR_POLICY_TEXT_MAX];
    (void)weir_policy_print(old->policy, before, sizeof before);
    (void)weir_policy_print(new->policy, after, sizeof after);
    bool kept = weir_limit_is_kept(old->policy, old->engine, new->policy, new->engine);
    if (strcmp(before, after) != 0)
        print_change(c, "%s policy=%s from=\"%s\" to=\"%s\"", weir_kept_word(kept), new->name,
                     before, after);
}

/* Whether a policy has memory of its own. */
static bool has_memory(const weir_config *c, const char *name)
{
    for (size_t i = 0; i < c->partitions_len; i++) {
        if (strcmp(c->partitions[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Prints that the keys of one kind of address are counted under other texts. An address that is
 * never read as one has its own text. */
static void print_network_change(changes *c, const char *policy, const char *kind, unsigned before,
                                 unsigned after)
{
    if (before != after)
        print_change(c, "reset policy=%s setting=ip.%s from=\"%u\" to=\"%u\"", policy, kind, before,
                     after);
}

/* Prints the other settings of a policy that decide where its states are and which keys they
 * have. */
static void print_setting_changes(changes *c, const weir_rule_spec *old, const weir_rule_spec *new)
{
    const char *name = new->name;
    bool own_before = has_memory(c->from, name), own_after = has_memory(c->to, name);
    if ((old->engine == WEIR_ENGINE_LOCAL) != (new->engine == WEIR_ENGINE_LOCAL))
        print_change(c, "reset policy=%s setting=engine from=\"%s\" to=\"%s\"", name,
                     config_engine_words[old->engine], config_engine_words[new->engine]);
    print_network_change(c, name, "v4", old->plain_keys ? 32 : old->v4_bits,
                         new->plain_keys ? 32 : new->v4_bits);
    print_network_change(c, name, "v6", old->plain_keys ? 128 : old->v6_bits,
                         new->plain_keys ? 128 : new->v6_bits);
    if (own_before != own_after)
        print_change(c, "reset policy=%s setting=memory from=\"%s\" to=\"%s\"", name,
                     own_before ? "own" : "shared", own_after ? "own" : "shared");
}

/* The state file as the file of the configuration names it, or "none". The directory of that file
 * is left out, since the new file will replace the old one. */
static const char *state_file_of(const weir_config *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) + 1 : 0;
    if (!c->state_file)
        return "none";
    return c->state_file + (strncmp(c->state_file, path, len) == 0 ? len : 0);
}

static void print_restart(void *ctx, const char *key)
{
    static const char of_policy[] = "policies.";
    if (strncmp(key, of_policy, sizeof of_policy - 1) != 0)
        print_change(ctx,
                     "reset setting=%s text=\"takes effect at a restart, and without memory.file "
                     "no state in memory survives one\"",
                     key);
}

/* Prints why states in memory do not survive: the state file is another one, or there is none, and
 * a setting takes effect at a restart only. */
static void print_lost_states(changes *c)
{
    const char *before = state_file_of(c->from, c->from_path),
               *after = state_file_of(c->to, c->to_path);
    bool same = !c->from->state_file == !c->to->state_file &&
                (!c->to->state_file || strcmp(before, after) == 0 ||
                 strcmp(c->from->state_file, c->to->state_file) == 0);
    if (!same)
        print_change(c, "reset setting=memory.file from=\"%s\" to=\"%s\"", before, after);
    else if (!c->to->state_file)
        config_each_change(c->from, c->to, print_restart, c);
}

/* Prints what differs so that keys keep what they used, or do not. */
static void print_changes(changes *c)
{
    if (config_uses_engine(c->from, WEIR_ENGINE_LOCAL) &&
        config_uses_engine(c->to, WEIR_ENGINE_LOCAL))
        print_lost_states(c);
    for (size_t i = 0; i < c->to->rules_len; i++) {
        const weir_rule_spec *new = &c->to->rules[i], *old = find_rule(c->from, new->name);
        if (!old)
            continue;
        print_limit_change(c, old, new);
        print_setting_changes(c, old, new);
    }
}

/* Compares the configuration of the file `path` with another file. Returns false after it has
 * printed the errors of that file.
 *  apart  print an empty line before the first */
static bool compare(const char *against, const char *path, const weir_zones *zones,
                    const weir_config *config, bool apart)
{
    config_sink sink = {print_errors, stderr};
    weir_config *old = NULL;
    bool valid = load(against, CHECK_SYNTAX, zones, &sink, &old) == WEIR_OK;
    if (valid)
        print_changes(&(changes){old, config, against, path, apart});
    config_free(old);
    return valid;
}

/* What the command prints of a valid file. */
typedef enum check_output {
    CHECK_SUMMARY,
    CHECK_QUIET,
    CHECK_PRINT,
    CHECK_SCHEMA /* of all files */
} check_output;

static int check_file(const char *path, const char *against, check_kind kind, check_output output)
{
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    if (!cache) {
        fputs("weir check: out of memory\n", stderr);
        return 1;
    }
    weir_zones zones = weir_zone_cache_zones(cache);
    config_sink sink =
        output == CHECK_QUIET ? (config_sink){print_errors, stderr} : config_print_to(stderr);
    weir_config *config = NULL;
    bool valid = load(path, kind, &zones, &sink, &config) == WEIR_OK;
    if (valid) {
        int64_t grace_ns = config->grace_ns;
        config->grace_ns = config_grace_ns(config); /* the default depends on the addresses */
        if (output == CHECK_SUMMARY)
            print_valid(path, kind, config);
        else if (output == CHECK_PRINT)
            config_print(config, stdout);
        config->grace_ns = grace_ns; /* as it is compared */
    }
    if (valid && against)
        valid = compare(against, path, &zones, config, output == CHECK_SUMMARY);
    config_free(config);
    weir_zone_cache_close(cache);
    return valid ? 0 : 1;
}

int weir_cmd_check(int argc, char **argv)
{
    static const struct option known[] = {
        {"syntax", no_argument, NULL, 's'}, {"against", required_argument, NULL, 'a'},
        {"envoy", no_argument, NULL, 'E'},  {"quiet", no_argument, NULL, 'q'},
        {"print", no_argument, NULL, 'p'},  {"schema", no_argument, NULL, 'S'},
        {"help", no_argument, NULL, 'h'},   {NULL, 0, NULL, 0}};
    check_output output = CHECK_SUMMARY;
    const char *against = NULL;
    check_kind kind = CHECK_ALL;
    int c;
    optind = 0;
    while ((c = options_next("weir check", argc, argv, known)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (c == '?')
            return 2;
        output = c == 'q' ? CHECK_QUIET : c == 'p' ? CHECK_PRINT : c == 'S' ? CHECK_SCHEMA : output;
        against = c == 'a' ? optarg : against;
        kind = c == 's' ? CHECK_SYNTAX : c == 'E' ? CHECK_LIMITS : kind;
    }
    if (against && (kind == CHECK_LIMITS || strcmp(against, "-") == 0)) {
        fputs("weir check: --against needs a file, and compares policies of weir.yaml; "
              "see weir check --help\n",
              stderr);
        return 2;
    }
    if (output == CHECK_PRINT && (kind == CHECK_LIMITS || against)) {
        fputs("weir check: --print prints weir.yaml only, without --envoy and --against; "
              "see weir check --help\n",
              stderr);
        return 2;
    }
    if (output == CHECK_SCHEMA && optind == argc) {
        config_print_schema(stdout);
        return 0;
    }
    if (argc - optind == 1 && output != CHECK_SCHEMA)
        return check_file(argv[optind], against, kind, output);
    if (output == CHECK_SCHEMA)
        fputs("weir check: --schema takes no file; see weir check --help\n", stderr);
    else if (optind == argc)
        fputs("weir check: missing FILE ('-' for the standard input); see weir check --help\n",
              stderr);
    else
        fprintf(stderr, "weir check: expected one FILE, also found '%s'; see weir check --help\n",
                argv[optind + 1]);
    return 2;
}
