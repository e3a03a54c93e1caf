/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `spoe`, which has the messages of HAProxy, their part of the daemon, and SPOP as a
 * protocol of the daemon. It logs messages and policies that are unknown, and messages that cannot
 * be decided. The section is read after `policies`, because a message names a policy. */

#include "codec/spop/daemon/guest.h"

#include "cmd/kit/caret.h"
#include "cmd/serve/feature.h"
#include "codec/spop/session.h"
#include "net/server.h"
#include "port/port.h"
#include "port/text.h"

#include <inttypes.h>
#include <string.h>

#define MEMBER(member) CONFIG_MEMBER(weir_spop_spec, member)

/* ---- policies -------------------------------------------------------------------------------- */

static void read_policy(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    weir_spop_spec *spec = base;
    const config_node *n = place->node;
    (void)key;
    if (!config_want_scalar(r, place, "the name of a policy, or a template such as \"$policy\""))
        return;
    spec->policy = n->text;
    if (strchr(n->text, '$')) {
        config_check_template(r, place);
        return;
    }
    config_check_policy(r, place);
}

/* ---- keys and costs -------------------------------------------------------------------------- */

static void read_key(config_reader *r, const config_place *place, const config_key *key, void *base)
{
    weir_spop_spec *spec = base;
    (void)key;
    if (!config_want_scalar(r, place, "a template such as \"$src\""))
        return;
    spec->key = place->node->text;
    weir_key_template *t = config_parse_template(r, place);
    for (size_t i = 0; t && i < weir_key_template_len(t); i++) {
        const char *name = weir_key_template_name(t, i).at;
        if (weir_edit_distance(name, "src") == 1)
            config_warn(r->errors, place,
                        "the message needs an argument named %s; did you mean $src?", name);
    }
    weir_key_template_free(t);
}

static void read_cost(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    static const char expected[] = "a number from 0 to 2147483647, or a template such as \"$cost\"";
    weir_spop_spec *spec = base;
    const config_node *n = place->node;
    uint64_t cost;
    (void)key;
    if (!config_want_scalar(r, place, expected))
        return;
    spec->cost = n->text;
    if (strchr(n->text, '$'))
        config_check_template(r, place);
    else if (!weir_decimal_read(n->text, n->len, WEIR_COST_MAX, &cost))
        config_error(r->errors, place, "expected %s, found '%.40s'", expected, n->text);
}

static void read_keep(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    (void)key;
    config_read_keep(r, place, &((weir_spop_spec *)base)->keep);
}

/* Warns of a fixed cost that a fixed policy never allows with what the request keeps. */
static void check_message(config_reader *r, const config_place *place, void *base)
{
    const weir_spop_spec *spec = base;
    const config_place at_cost = config_below(place, "cost"), at_keep = config_below(place, "keep");
    const char *text = spec->cost ? spec->cost : "1";
    uint64_t cost;
    if (spec->policy && (at_cost.node || at_keep.node) &&
        weir_decimal_read(text, strlen(text), WEIR_COST_MAX, &cost))
        config_check_cost(r, at_cost.node ? &at_cost : &at_keep, spec->policy, (int64_t)cost,
                          spec->keep);
}

static const config_key message_keys[] = {
    {"policy", CONFIG_OTHER, .read = read_policy},
    {"key", CONFIG_OTHER, .read = read_key},
    {"cost", CONFIG_OTHER,
     .schema = "{\"type\":[\"string\",\"integer\"],\"minimum\":0,\"maximum\":2147483647}",
     .read = read_cost},
    {"keep", CONFIG_OTHER, .read = read_keep},
};

static const char message_expected[] =
    "expected the name of a policy, or a map such as {policy: api, key: \"$src\"}";

static const config_section message_section = {CONFIG_KEYS(message_keys), .check = check_message,
                                               .expected = message_expected};

/* ---- the section ----------------------------------------------------------------------------- */

static void read_message(config_reader *r, const config_place *place, weir_spop_spec *ret)
{
    const config_node *n = place->node;
    ret->name = place->key->text;
    if (place->key->len == 0 || place->key->len > WEIR_SPOP_NAME_MAX)
        config_error_on(r->errors, place->key, place, "expected a name of 1 to %d bytes, found %zu",
                        WEIR_SPOP_NAME_MAX, place->key->len);
    if (n->kind == CONFIG_SCALAR && n->len > 0)
        read_policy(r, place, NULL, ret);
    else
        config_read_section(r, place, &message_section, ret);
    if ((n->kind == CONFIG_MAP || config_is_empty(n)) && !config_get(n, "policy"))
        config_error_on(r->errors, place->key, place,
                        "missing key policy, expected the name of a policy");
}

static void read_messages(config_reader *r, const config_place *place, const config_key *key,
                          void *base)
{
    spoe_settings *s = base;
    const config_node *n = place->node;
    size_t len = 0, before = config_errors_in(r->errors);
    (void)key;
    if (config_is_empty(n))
        return;
    if (n->kind != CONFIG_MAP || n->children > WEIR_SPOP_MESSAGES_MAX) {
        config_error(r->errors, place,
                     "expected a map of at most %d messages, such as check-client: {policy: api}",
                     WEIR_SPOP_MESSAGES_MAX);
        return;
    }
    weir_spop_spec *specs = weir_arena_alloc(r->arena, n->children, sizeof *specs);
    for (const config_node *k = n->first; k && specs; k = k->next) {
        const config_place below = {.up = place, .key = k, .node = k->value};
        if (!k->bad && !k->value->bad)
            read_message(r, &below, &specs[len++]);
    }
    if (!specs || config_errors_in(r->errors) > before)
        return;
    s->specs = specs;
    s->len = len;
}

static void read_variables(config_reader *r, const config_place *place, const config_key *key,
                           void *base)
{
    static const char expected[] = "a list of variables, such as [retry_after, ratelimit]";
    spoe_settings *s = base;
    (void)key;
    s->variables = weir_spop_variable("allowed", 7);
    for (config_place entry = {0}; config_next_entry(place, &entry);) {
        const config_node *n = entry.node;
        if (!config_want_scalar(r, &entry, expected))
            continue;
        uint32_t variable = weir_spop_variable(n->text, n->len);
        if (variable == 0)
            config_error(r->errors, &entry,
                         "unknown variable '%.40s', expected a name in docs/haproxy.md without "
                         "txn.weir., such as retry_after or ratelimit",
                         n->text);
        s->variables |= variable;
    }
}

static const config_key spoe_keys[] = {
    {"variables", CONFIG_OTHER, .schema = CONFIG_TEXTS, .read = read_variables},
    {"messages", CONFIG_OTHER, .entries = &message_section,
     .schema = CONFIG_MAP_OF("{\"anyOf\":[" CONFIG_TEXT ",@]}"), .read = read_messages},
};

/* Builds the messages, when all keys are read and valid. */
static void build_messages(config_reader *r, const config_place *place, void *base)
{
    spoe_settings *s = base;
    uint32_t variables = s->variables ? s->variables : WEIR_SPOP_ALL_VARIABLES;
    (void)place;
    if (weir_spop_messages_build(&s->messages, s->specs, s->len, variables) != WEIR_OK)
        r->arena->failed = true; /* the specs are valid, so it is the memory */
}

static const config_section spoe_section = {
    CONFIG_KEYS(spoe_keys), .check = build_messages,
    .expected = "expected a map, such as {messages: {check-client: {policy: api}}}"};

/* ---- the guest ------------------------------------------------------------------------------- */

static void check_effects(config_reader *r, const void *self)
{
    const config_place listen = config_below(&(config_place){.node = r->root}, "listen");
    const config_place spoe = config_below(&listen, "spoe");
    const protocol_kind kind = config_protocol_of(&spoe_guest);
    config_check_listens(r, "spoe", kind, kind, "listen.spoe (or weir serve --spoe)");
    if (spoe.node && config_listens(r->config, kind) && ((const spoe_settings *)self)->len == 0)
        config_warn(r->errors, &spoe,
                    "no message of HAProxy is limited, because spoe.messages is empty");
}

/* Prints the messages of HAProxy, one a line. */
static void print_messages(const weir_config *c, const void *self)
{
    const spoe_settings *all = self;
    (void)c;
    if (all->len > 0)
        printf("\n%zu messages of HAProxy\n", all->len);
    for (size_t i = 0; i < all->len; i++) {
        const weir_spop_spec *s = &all->specs[i];
        const char *key = s->key ? s->key : "$key or $src", *cost = s->cost ? s->cost : "1";
        fputs("  ", stdout);
        caret_text(stdout, s->name, strlen(s->name));
        fputs(": policy ", stdout);
        caret_text(stdout, s->policy, strlen(s->policy));
        fputs(", key ", stdout);
        caret_text(stdout, key, strlen(key));
        fputs(", cost ", stdout);
        caret_text(stdout, cost, strlen(cost));
        config_print_keep(s->keep);
        putchar('\n');
    }
    if (all->variables == 0 || all->len == 0)
        return;
    fputs("  variables:", stdout);
    for (size_t i = 0; weir_spop_variable_name(i); i++) {
        if (all->variables >> i & 1)
            printf(" %s", weir_spop_variable_name(i));
    }
    putchar('\n');
}

static void free_settings(void *self)
{
    weir_spop_messages_drop(((spoe_settings *)self)->messages);
}

/* ---- the feature ----------------------------------------------------------------------------- */

typedef struct spoe_part {
    weir_spop *spop;
    const log_target *log;
} spoe_part;

static bool is_wanted(const weir_config *c)
{
    return config_listens(c, config_protocol_of(&spoe_guest));
}

static weir_status spoe_open(void **ret_self, const feature_setup *s)
{
    spoe_part *p = port_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_E_NOMEM;
    *ret_self = p;
    p->log = s->log;
    p->spop = weir_spop_open();
    return p->spop ? WEIR_OK : WEIR_E_NOMEM;
}

static void spoe_close(void *self)
{
    spoe_part *p = self;
    weir_spop_close(p->spop);
    port_free(p);
}

/* The part of a loop: the options of its sessions. */
static weir_spop_options *options_of(const protocol_loop *l)
{
    return l->part[feature_index(spoe_guest.feature)];
}

static weir_status open_loop(void *self, protocol_loop *l)
{
    const spoe_part *p = self;
    weir_spop_options *o = port_zalloc(1, sizeof *o);
    if (!o)
        return WEIR_E_NOMEM;
    l->part[feature_index(spoe_guest.feature)] = o;
    o->service = l->service;
    o->access = &l->access;
    o->loop = weir_spop_loop_open(p->spop);
    return o->loop ? WEIR_OK : WEIR_E_NOMEM;
}

static void close_loop(void *self, protocol_loop *l)
{
    weir_spop_options *o = options_of(l);
    (void)self;
    if (!o)
        return;
    weir_spop_loop_close(o->loop);
    port_free(o);
}

static void activate_with(void *self, const weir_config *c, void (*activate_rules)(void *ctx),
                          void *ctx)
{
    const spoe_part *p = self;
    const spoe_settings *s = config_options(c, &spoe_guest);
    weir_spop_activate(p->spop, s->messages, activate_rules, ctx);
}

static void log_unknown(const spoe_part *p, weir_spop_unknown what, const char *event,
                        const char *text)
{
    const char *kind = what == WEIR_SPOP_POLICY ? "policy" : "message";
    char name[WEIR_SPOP_NAME_MAX + 1];
    int64_t n = (int64_t)weir_spop_take_unknown(p->spop, what, name);
    if (n > 0)
        log_event(p->log, WEIR_LOG_WARNING, event,
                  LOG(log_text(kind, name), log_integer("count", n), log_text("text", text)));
}

static void log_faults(const spoe_part *p)
{
    weir_spop_fault fault;
    uint64_t n = weir_spop_take_fault(p->spop, &fault);
    if (n > 0)
        log_event(
            p->log, WEIR_LOG_WARNING, "spoe-invalid-message",
            LOG(log_text("message", fault.message),
                log_text("error", fault.error ? fault.error : ""),
                log_text("missing_argument", fault.argument), log_integer("count", (int64_t)n),
                log_text("text", fault.error ? "such requests are denied; compare the args of the "
                                               "message in HAProxy with the templates in spoe"
                                             : "keys lack this argument; compare the args of the "
                                               "message in HAProxy with the templates in spoe")));
}

static void tick(void *self, int64_t now_ns)
{
    const spoe_part *p = self;
    (void)now_ns;
    log_unknown(p, WEIR_SPOP_MESSAGE, "spoe-unknown-message",
                "spoe.messages has no message of this name; such messages are not limited");
    log_unknown(p, WEIR_SPOP_POLICY, "spoe-unknown-policy", "no such policy; its requests pass");
    log_faults(p);
}

static void put_metrics(void *self, weir_buffer *out)
{
    const spoe_part *p = self;
    weir_spop_put_metrics(p->spop, out);
}

static const feature spoe_feature = {.is_wanted = is_wanted,
                                     .open = spoe_open,
                                     .close = spoe_close,
                                     .open_loop = open_loop,
                                     .close_loop = close_loop,
                                     .activate_with = activate_with,
                                     .tick = tick,
                                     .put_metrics = put_metrics};

/* ---- the protocol ---------------------------------------------------------------------------- */

static void open_session(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    const protocol_loop *l = ctx;
    weir_spop_session *s = session;
    weir_spop_session_init(s, options_of(l));
    s->answer = &l->answers[weir_server_listener(wake_ctx)];
    s->completion.ready = wake;
    s->completion.ctx = wake_ctx;
}

static void close_session(void *session)
{
    weir_spop_session_close(session);
}

static weir_session_step run(void *session, weir_buffer *in, weir_buffer *out, size_t out_pause,
                             int64_t now_ns)
{
    const weir_spop_session *s = session;
    weir_session_step step = weir_spop_session_run(session, in, out, out_pause, now_ns);
    return protocols_count_latency(s->options->service, now_ns, step);
}

static bool poll(void *session, int64_t now_ns, bool stopping)
{
    return weir_spop_session_poll(session, now_ns, stopping);
}

static void print_example(const char *address, const char *policy)
{
    (void)policy;
    printf("  haproxy.cfg: server weir %s in the backend of a spoe-agent; see docs/haproxy.md\n",
           address);
}

static const protocol_row spoe_row = {
    .option = "spoe",
    .usage = "  --spoe N         serve SPOP, for HAProxy, on 127.0.0.1:N instead of the addresses "
             "in FILE\n",
    .session = {.session_size = sizeof(weir_spop_session),
                .open = open_session,
                .close = close_session,
                .run = run,
                .poll = poll},
    .print_example = print_example,
};

static const protocol_name spoe_name = {
    .name = "spoe", .without_password = "SPOP", .has_headers = true};

const config_guest spoe_guest = {
    .key = {"spoe", CONFIG_SECTION, .section = &spoe_section},
    .size = sizeof(spoe_settings),
    .names_policies = true,
    .feature = &spoe_feature,
    .protocol = &spoe_name,
    .protocol_row = &spoe_row,
    .check = check_effects,
    .print = print_messages,
    .free = free_settings,
};
