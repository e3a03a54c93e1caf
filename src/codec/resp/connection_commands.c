/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs the connection commands (AUTH, HELLO, CLIENT, SELECT, PING, QUIT, RESET ...) and the server
 * commands CONFIG and INFO. Client libraries send some of them on their own when they connect. The
 * replies to those let the library continue. */

#include "codec/answer/metrics.h"
#include "codec/answer/password.h"
#include "codec/resp/call.h"
#include "codec/resp/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- PING, ECHO, QUIT, RESET ----------------------------------------------------------------- */

void weir_resp_ping(weir_call *c)
{
    const weir_resp_session *s = weir_resp_call_of(c)->session;
    if (s->subscriptions > 0 && s->proto == 2) { /* as Redis, for clients that expect only arrays */
        c->backend->array(c, 2);
        weir_call_put_text(c, "pong");
        c->backend->bulk(c, c->args == 2 ? c->arg[1].at : "", c->args == 2 ? c->arg[1].len : 0);
    } else if (c->args == 2)
        weir_resp_echo(c);
    else
        c->backend->simple(c, "PONG");
}

void weir_resp_echo(weir_call *c)
{
    c->backend->bulk(c, c->arg[1].at, c->arg[1].len);
}

void weir_resp_quit(weir_call *c)
{
    c->backend->simple(c, "OK");
    weir_resp_call_of(c)->session->closing = true;
}

/* Puts the session back into the state of a new connection. */
void weir_resp_reset(weir_call *c)
{
    weir_resp_session *s = weir_resp_call_of(c)->session;
    s->proto = 2;
    s->login = weir_login_begin(s->options->access);
    weir_login_refresh(&s->login, s->options->access, s->completion.ctx);
    s->name_len = 0;
    weir_resp_end_transaction(s);
    weir_resp_end_subscriptions(s);
    c->backend->simple(c, "RESET");
}

/* ---- AUTH and HELLO -------------------------------------------------------------------------- */

/* Delays the reply to a wrong password, and closes the connection after a few of them. This slows
 * down password guessing. */
static void delay_reply(weir_resp_call *c)
{
    weir_resp_session *s = c->session;
    bool hold = weir_access_wrong_password(s->options->access, s->completion.ctx);
    if (hold) {
        c->stop = WEIR_SESSION_WAIT;
        c->held_ns = c->now_ns + WEIR_PASSWORD_DELAY_NS;
    }
    if (++s->wrong >= WEIR_PASSWORD_TRIES || !hold)
        s->closing = true;
}

/* Logs in. As in Redis, names are compared byte by byte, and without users any password is right
 * for "default". */
static bool authenticate(weir_resp_call *c, weir_slice name, weir_slice password)
{
    static const char wrong[] = "WRONGPASS invalid username-password pair or user is disabled.";
    weir_resp_session *s = c->session;
    weir_access *a = s->options->access;
    if (!weir_access_is_limited(a)) {
        bool good = weir_resp_word_is(name, "DEFAULT");
        if (!good)
            weir_call_error(&c->call, "%s", wrong);
        return good;
    }
    if (s->login.is_fixed) {
        weir_call_error(&c->call,
                        "ERR this connection is the user '%s', by its listener or its "
                        "certificate, and cannot be another one",
                        s->login.user ? weir_user_name(s->login.user) : "");
        return false;
    }
    switch (weir_login_try(a, name, password, c->now_ns, &s->login)) {
    case WEIR_LOGIN_OK:
        return true;
    case WEIR_LOGIN_BUSY:
        weir_call_error(&c->call, "BUSY too many passwords are being checked, try again");
        return false;
    case WEIR_LOGIN_WRONG:
        weir_call_error(&c->call, "%s", wrong);
        delay_reply(c);
    }
    return false;
}

void weir_resp_auth(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    const weir_slice preset = {WEIR_USER_DEFAULT, sizeof WEIR_USER_DEFAULT - 1};
    if (c->call.args == 2 && !weir_access_is_limited(c->session->options->access))
        weir_call_error(&c->call, "ERR AUTH <password> called without any password configured for "
                                  "the default user. Are you sure your configuration is correct?");
    else if (authenticate(c, c->call.args == 3 ? c->call.arg[1] : preset,
                          c->call.arg[c->call.args - 1]))
        weir_resp_put_simple(c->out, "OK");
}

/* The name of the session's user. */
static const char *user_of(const weir_resp_session *s)
{
    return s->login.user ? weir_user_name(s->login.user) : WEIR_USER_DEFAULT;
}

void weir_resp_acl(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    if (weir_resp_word_is(c->call.arg[1], "WHOAMI"))
        weir_resp_put_text(c->out, user_of(c->session));
    else
        weir_call_error(&c->call, "ERR ACL supports only WHOAMI: the users are in weir.yaml");
}

static bool set_name(weir_resp_call *c, weir_slice name)
{
    bool good = name.len <= WEIR_RESP_NAME_MAX;
    for (size_t i = 0; i < name.len && good; i++)
        good = name.at[i] > ' ' && name.at[i] < 0x7f;
    if (!good) {
        weir_call_error(&c->call,
                        "ERR Client names cannot contain spaces, newlines or special "
                        "characters, and have at most %d bytes.",
                        WEIR_RESP_NAME_MAX);
        return false;
    }
    memcpy(c->session->name, name.at, name.len);
    c->session->name_len = (uint8_t)name.len;
    return true;
}

static bool read_proto(weir_resp_call *c, int *ret)
{
    int64_t proto;
    if (!weir_i64_read(c->call.arg[1].at, c->call.arg[1].len, &proto)) {
        weir_call_error(&c->call, "ERR Protocol version is not an integer or out of range");
        return false;
    }
    if (proto < 2 || proto > 3) {
        weir_call_error(&c->call, "NOPROTO unsupported protocol version");
        return false;
    }
    *ret = (int)proto;
    return true;
}

/* Runs the options of HELLO: AUTH user password, SETNAME name. None takes effect if one has a
 * syntax error or the password is wrong. As in Redis, AUTH takes effect even if the name is not
 * allowed. */
static bool read_hello(weir_resp_call *c)
{
    size_t auth = 0, name = 0;
    for (size_t i = 2; i < c->call.args; i++) {
        if (weir_resp_word_is(c->call.arg[i], "AUTH") && i + 2 < c->call.args) {
            auth = i + 1;
            i += 2;
        } else if (weir_resp_word_is(c->call.arg[i], "SETNAME") && i + 1 < c->call.args) {
            name = ++i;
        } else {
            weir_call_error(&c->call, "ERR Syntax error in HELLO option '%.*s'",
                            c->call.arg[i].len < 64 ? (int)c->call.arg[i].len : 64,
                            c->call.arg[i].at);
            return false;
        }
    }
    if (auth > 0 && !authenticate(c, c->call.arg[auth], c->call.arg[auth + 1]))
        return false;
    return name == 0 || set_name(c, c->call.arg[name]);
}

void weir_resp_hello(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_resp_session *s = c->session;
    int proto = s->proto;
    if ((c->call.args > 1 && !read_proto(c, &proto)) || !read_hello(c))
        return;
    if (!s->login.user && !s->login.everything) {
        weir_call_error(&c->call,
                        "NOAUTH HELLO must be called with the client already authenticated, "
                        "otherwise the HELLO <proto> AUTH <user> <pass> option can be used "
                        "to authenticate the client and select the RESP protocol version "
                        "at the same time");
        return;
    }
    s->proto = proto;
    weir_resp_put_map(c->out, 7, proto);
    weir_resp_put_text(c->out, "server");
    weir_resp_put_text(c->out, "weir");
    weir_resp_put_text(c->out, "version");
    weir_resp_put_text(c->out, s->options->version);
    weir_resp_put_text(c->out, "proto");
    weir_resp_put_i64(c->out, proto);
    weir_resp_put_text(c->out, "id");
    weir_resp_put_i64(c->out, (int64_t)s->id);
    weir_resp_put_text(c->out, "mode");
    weir_resp_put_text(c->out, "standalone");
    weir_resp_put_text(c->out, "role");
    weir_resp_put_text(c->out, "master");
    weir_resp_put_text(c->out, "modules");
    weir_resp_put_array(c->out, 0);
}

/* ---- CLIENT, SELECT, CONFIG ------------------------------------------------------------------ */

static void put_client_line(weir_resp_call *c)
{
    const weir_resp_session *s = c->session;
    char line[160 + WEIR_USER_NAME_MAX];
    int len = snprintf(line, sizeof line, "id=%" PRIu64 " name=%.*s db=0 resp=%d user=%s\n", s->id,
                       s->name_len, s->name, s->proto, user_of(s));
    weir_resp_put_bulk(c->out, line, (size_t)len);
}

void weir_resp_client(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    weir_resp_session *s = c->session;
    if (c->call.args == 3 && weir_resp_word_is(c->call.arg[1], "SETNAME")) {
        if (set_name(c, c->call.arg[2]))
            weir_resp_put_simple(c->out, "OK");
    } else if (c->call.args == 2 && weir_resp_word_is(c->call.arg[1], "GETNAME")) {
        if (s->name_len > 0)
            weir_resp_put_bulk(c->out, s->name, s->name_len);
        else
            weir_resp_put_null(c->out, s->proto);
    } else if (c->call.args == 2 && weir_resp_word_is(c->call.arg[1], "ID")) {
        weir_resp_put_i64(c->out, (int64_t)s->id);
    } else if (weir_resp_word_is(c->call.arg[1], "INFO") ||
               weir_resp_word_is(c->call.arg[1], "LIST")) {
        put_client_line(c); /* only this client: other clients are private */
    } else if ((c->call.args == 4 && weir_resp_word_is(c->call.arg[1], "SETINFO")) ||
               (c->call.args >= 3 && weir_resp_word_is(c->call.arg[1], "TRACKING")) ||
               (c->call.args == 3 && weir_resp_word_is(c->call.arg[1], "NO-EVICT")) ||
               (c->call.args == 3 && weir_resp_word_is(c->call.arg[1], "NO-TOUCH")) ||
               (c->call.args == 3 && weir_resp_word_is(c->call.arg[1], "REPLY") &&
                weir_resp_word_is(c->call.arg[2], "ON"))) {
        weir_resp_put_simple(c->out, "OK");
    } else {
        weir_call_error(&c->call, "ERR unknown subcommand or wrong number of arguments for '%.*s'",
                        c->call.arg[1].len < 64 ? (int)c->call.arg[1].len : 64, c->call.arg[1].at);
    }
}

void weir_resp_select(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    int64_t db;
    if (!weir_i64_read(c->call.arg[1].at, c->call.arg[1].len, &db))
        weir_call_error(&c->call, "ERR value is not an integer or out of range");
    else if (db != 0)
        weir_call_error(&c->call, "ERR DB index is out of range");
    else
        weir_resp_put_simple(c->out, "OK");
}

/* CONFIG GET of the settings that benchmarks and client libraries read. Others are left out of the
 * reply, as in Redis. */
void weir_resp_config(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    static const struct {
        const char *name, *word, *value;
    } known[] = {
        {"save", "SAVE", ""},
        {"appendonly", "APPENDONLY", "no"},
        {"databases", "DATABASES", "1"},
        {"maxmemory-policy", "MAXMEMORY-POLICY", "volatile-ttl"},
    };
    if (!weir_resp_word_is(c->call.arg[1], "GET") || c->call.args < 3) {
        weir_call_error(&c->call,
                        "ERR CONFIG supports only GET: weir reads its settings from weir.yaml");
        return;
    }
    size_t found[sizeof known / sizeof known[0]], n = 0;
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        bool wanted = false;
        for (size_t i = 2; i < c->call.args; i++)
            wanted = wanted || weir_resp_word_is(c->call.arg[i], known[k].word);
        if (wanted)
            found[n++] = k;
    }
    weir_resp_put_map(c->out, n, c->session->proto);
    for (size_t i = 0; i < n; i++) {
        weir_resp_put_text(c->out, known[found[i]].name);
        weir_resp_put_text(c->out, known[found[i]].value);
    }
}

/* ---- INFO ------------------------------------------------------------------------------------ */

/* Appends the counters that INFO has: "aX1bX2" with before, between and joint as a, X and b. */
static void put_counters(weir_buffer *out, const weir_counter *c, size_t n, const void *stats,
                         const char *before, const char *between, const char *joint)
{
    for (size_t place = 0; place < n; place++) {
        for (size_t i = 0; i < n; i++) {
            if (c[i].info && c[i].info_place == place)
                weir_buffer_printf(out, "%s%s%s%s%" PRIu64, place > 0 ? joint : "", before,
                                   c[i].info, between, weir_counter_value(&c[i], stats));
        }
    }
    weir_buffer_append(out, "\r\n", 2);
}

/* INFO for a user, who sees only some policies. */
typedef struct info {
    weir_buffer text;
    const weir_user *user;
} info;

static bool sees(const info *i, const char *policy)
{
    return weir_user_sees(i->user, (weir_slice){policy, strlen(policy)});
}

static void put_counts(void *ctx, const char *name, const weir_counts *n)
{
    info *i = ctx;
    if (!sees(i, name))
        return;
    weir_buffer_printf(&i->text, "policy_%s:", name);
    put_counters(&i->text, weir_verdict_counters, WEIR_VERDICTS, n, "", "=", ",");
}

/* The policies that have memory of their own. */
static void put_partitions(info *to, weir_limiter *h)
{
    weir_buffer *out = &to->text;
    weir_partition_stats stats[WEIR_PARTITIONS_MAX];
    size_t n = weir_limiter_partitions(h, stats, WEIR_PARTITIONS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!sees(to, stats[i].name))
            continue;
        weir_buffer_printf(out, "memory_%s:", stats[i].name);
        put_counters(out, weir_partition_counters, WEIR_PARTITION_COUNTERS, &stats[i], "", "=",
                     ",");
    }
}

/* The fields with the names of Redis are those that redis-cli --stat and client libraries read. */
static void put_version(weir_buffer *out, const weir_resp_options *o)
{
    weir_buffer_printf(out,
                       "# Server\r\nweir_version:%s\r\nredis_version:7.0.0\r\n"
                       "redis_mode:standalone\r\n",
                       o->version);
}

static void put_server(weir_buffer *out, const weir_resp_options *o)
{
    weir_resp_server s = {0};
    put_version(out, o);
    if (!o->server)
        return;
    o->server(o->server_ctx, &s);
    weir_buffer_printf(
        out,
        "uptime_in_seconds:%" PRId64 "\r\n"
        "\r\n# Clients\r\nconnected_clients:%" PRIu64 "\r\nblocked_clients:0\r\nmaxclients:%" PRIu64
        "\r\nrejected_connections:%" PRIu64 "\r\nrejected_connections_per_address:%" PRIu64
        "\r\ntotal_connections_received:%" PRIu64 "\r\n",
        s.uptime_s, s.connections, s.connections_max, s.rejected, s.rejected_address,
        s.accepted + s.rejected);
}

static void add_counts(void *ctx, const char *name, const weir_counts *n)
{
    uint64_t *sum = ctx;
    (void)name;
    for (size_t i = 0; i < WEIR_VERDICTS; i++)
        *sum += weir_counter_value(&weir_verdict_counters[i], n);
}

/* The histogram of /metrics, but each count is of its bucket alone. Empty buckets are left out. */
static void put_latency(weir_buffer *out, weir_limiter *h)
{
    weir_latency l = weir_limiter_latency(h);
    weir_buffer_printf(out, "\r\n# Latency\r\ndecision_duration_ns:");
    const char *comma = "";
    for (unsigned i = 0; i < WEIR_LATENCY_BUCKETS; i++) {
        if (l.count[i] == 0)
            continue;
        if (i < WEIR_LATENCY_BUCKETS - 1)
            weir_buffer_printf(out, "%s%" PRIu64 "=", comma, UINT64_C(1) << (i + 7));
        else
            weir_buffer_printf(out, "%sinf=", comma);
        weir_buffer_printf(out, "%" PRIu64, l.count[i]);
        comma = ",";
    }
    weir_buffer_printf(out, "\r\n");
}

static void put_sections(info *i, weir_limiter *h)
{
    weir_store_stats store = weir_limiter_store_stats(h);
    weir_clock_view clock = weir_limiter_clock(h);
    weir_buffer *text = &i->text;
    uint64_t decisions = 0;
    weir_limiter_counts(h, add_counts, &decisions);
    weir_buffer_printf(text,
                       "\r\n# Stats\r\ntotal_commands_processed:%" PRIu64
                       "\r\n\r\n# Persistence\r\nloading:0\r\n"
                       "\r\n# Keyspace\r\ndb0:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0\r\n"
                       "\r\n# Memory\r\nused_memory:%" PRIu64 "\r\nmaxmemory:%" PRIu64 "\r\n",
                       decisions, store.keys, store.keys, store.memory_bytes, store.memory_max);
    put_counters(text, weir_store_counters, WEIR_STORE_COUNTERS, &store, "store_", ":", "\r\n");
    put_partitions(i, h);
    put_latency(text, h);
    weir_buffer_printf(text,
                       "\r\n# Clock\r\nclock_offset_ms:%" PRId64 "\r\nclock_steps:%" PRIu64
                       "\r\nclock_jumps:%" PRIu64 "\r\n"
                       "\r\n# Replication\r\nrole:master\r\n"
                       "\r\n# Decisions\r\n",
                       clock.offset_ns / 1000000, clock.steps, clock.jumps);
    weir_limiter_counts(h, put_counts, i);
}

/* Replies with all sections, whichever is asked for. A user without the right to metrics gets what
 * client libraries read when they connect. */
void weir_resp_info(weir_call *call)
{
    weir_resp_call *c = weir_resp_call_of(call);
    const weir_resp_options *o = c->session->options;
    info i = {.user = weir_login_bounds(&c->session->login)};
    weir_buffer_init(&i.text, 4 << 20);
    if (weir_user_may(i.user, WEIR_MAY_METRICS)) {
        put_server(&i.text, o);
        put_sections(&i, weir_service_limiter(o->service));
    } else {
        put_version(&i.text, o);
        weir_buffer_printf(&i.text, "\r\n# Persistence\r\nloading:0\r\n"
                                    "\r\n# Replication\r\nrole:master\r\n");
    }
    if (i.text.failed)
        weir_call_error(&c->call, "ERR out of memory");
    else
        weir_resp_put_bulk(c->out, weir_buffer_data(&i.text), weir_buffer_len(&i.text));
    weir_buffer_free(&i.text);
}
