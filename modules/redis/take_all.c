/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decides several requests as one, for WEIR.TAKEALL and WEIR.ASKALL: all are charged, or none is.
 * A denial that a policy counts is not charged either. A Cluster ensures that all keys are in one
 * slot. WEIR.ASK and WEIR.ASKALL are the commands of weir's Redis client, with replies in
 * microseconds. */

#include "module.h"

#include "core/algorithm.h"
#include "core/check.h"
#include "core/decision.h"
#include "port/assert.h"

_Static_assert(WEIR_DECIDED_MAX == WEIR_ALL_MAX, "one limit everywhere");

typedef struct one {
    weir_interned *interned;
    size_t key, cell;       /* indexes of its key and its cell */
    weir_decision alone;    /* as if it were the only request */
    weir_decision together; /* with the requests for its cell before it */
    int64_t sum;            /* of its cost and the costs of those requests */
    int64_t next_ns;        /* before any is charged */
} one;

typedef struct many {
    weir_module_call *call;
    weir_request *request;
    size_t len, keys, cells, interned;
    bool allowed;
    one of[WEIR_DECIDED_MAX];
    weir_open_key key[WEIR_DECIDED_MAX];
    weir_cell cell[WEIR_DECIDED_MAX];
} many;

/* ---- opening --------------------------------------------------------------------------------- */

static size_t key_of(const many *m, weir_slice name)
{
    for (size_t i = 0; i < m->keys; i++) {
        size_t len;
        const char *at = redis.StringPtrLen(m->key[i].name, &len);
        if (len == name.len && memcmp(at, name.at, len) == 0)
            return i;
    }
    return m->keys;
}

static size_t cell_of(const many *m, const weir_open_key *key, const weir_interned *s)
{
    for (size_t i = 0; i < m->cells; i++) {
        if (m->cell[i].key == key && m->cell[i].interned == s)
            return i;
    }
    return m->cells;
}

/* The costs of the requests before request i for its cell. */
static int64_t sum_before(const many *m, size_t i)
{
    size_t k = i;
    while (k > 0 && m->of[k - 1].cell != m->of[i].cell)
        k--;
    return k > 0 ? m->of[k - 1].sum : 0;
}

static bool intern_all(many *m)
{
    for (; m->interned < m->len; m->interned++) {
        weir_request *r = &m->request[m->interned];
        r->status = weir_request_intern(r, &m->of[m->interned].interned);
        if (r->status != WEIR_OK)
            return false;
        r->policy = &m->of[m->interned].interned->policy;
    }
    return true;
}

/* Opens each key once, and each state once. Returns false after it has replied that a key has
 * another type. Other failures are in the status of their request. */
static bool open_all(many *m, int64_t now_ns)
{
    enum { FIRST_KEY = 3, TRIPLE = 3 };
    for (size_t i = 0; i < m->len; i++) {
        one *o = &m->of[i];
        weir_request *r = &m->request[i];
        o->key = key_of(m, r->key);
        if (o->key == m->keys) {
            redis_string *name = m->call->argv[FIRST_KEY + i * TRIPLE];
            if (!weir_module_open_key(m->call, &m->key[o->key], name, REDIS_READ | REDIS_WRITE))
                return false;
            m->keys++;
        }
        o->cell = cell_of(m, &m->key[o->key], o->interned);
        if (o->cell == m->cells)
            r->status = weir_cell_open(&m->cell[m->cells++], &m->key[o->key], o->interned, now_ns);
        o->sum = r->cost + sum_before(m, i);
    }
    return true;
}

static void close_all(many *m)
{
    for (size_t i = 0; i < m->cells; i++)
        weir_cell_close(&m->cell[i]);
    for (size_t i = 0; i < m->keys; i++)
        weir_key_close(&m->key[i]);
    for (size_t i = 0; i < m->interned; i++)
        weir_interned_unref(m->of[i].interned);
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* Peeks at every request, alone and with those for its cell before it. Sets `allowed` if all are
 * charged. */
static void decide_all(many *m, int64_t now_ns)
{
    int64_t unused;
    m->allowed = true;
    for (size_t i = 0; i < m->len; i++) {
        one *o = &m->of[i];
        const weir_cell *cell = &m->cell[o->cell];
        int64_t cost = m->request[i].cost, keep = m->request[i].keep;
        const weir_policy *p = m->request[i].policy;
        weir_status st = weir_peek_keep(p, cell->state, cell->level, now_ns, cost, keep, &o->alone);
        if (st == WEIR_OK)
            st = weir_peek_sum(p, cell->state, cell->level, now_ns, o->sum, keep, &o->together);
        WEIR_ASSERT(st == WEIR_OK);
        o->next_ns = weir_cell_next(cell, now_ns, keep, &o->alone);
        m->allowed = m->allowed && o->together.allowed;
    }
    for (size_t i = 0; i < m->len && m->allowed; i++) {
        one *o = &m->of[i];
        weir_request *r = &m->request[i];
        r->status = weir_cell_decide(&m->cell[o->cell], WEIR_VERB_TAKE, now_ns, r->cost, r->keep,
                                     &o->together, &unused);
        m->allowed = r->status == WEIR_OK;
        WEIR_ASSERT(o->together.allowed);
    }
}

/* A denied command writes nothing but this: each policy that denies its request alone begins its
 * block. Returns whether there is one. */
static bool begin_blocks(many *m, int64_t now_ns)
{
    bool any = false;
    for (size_t i = 0; i < m->len; i++) {
        one *o = &m->of[i];
        const weir_request *r = &m->request[i];
        weir_decision d;
        if (o->together.allowed || !weir_policy_blocks(r->policy))
            continue;
        weir_status st = weir_cell_block(&m->cell[o->cell], now_ns, r->cost, r->keep, &d);
        WEIR_ASSERT(st == WEIR_OK);
        if (weir_outranks(&d, &o->together))
            o->together = d;
        o->next_ns = weir_cell_next(&m->cell[o->cell], now_ns, r->keep, &o->together);
        any |= !d.allowed;
    }
    return any;
}

/* Returns the status of the first request that failed. */
static weir_status status_of(const many *m)
{
    for (size_t i = 0; i < m->len; i++) {
        if (m->request[i].status != WEIR_OK)
            return m->request[i].status;
    }
    return WEIR_OK;
}

/* Interns, opens, decides and writes back. Returns false after it has replied with an error. */
static bool run(many *m)
{
    if (!intern_all(m))
        return true;
    weir_moment at = weir_moment_now();
    if (!open_all(m, at.now_ns))
        return false;
    if (status_of(m) == WEIR_OK)
        decide_all(m, at.now_ns);
    for (size_t i = 0; i < m->len && m->allowed; i++) {
        one *o = &m->of[i];
        o->next_ns = weir_cell_next(&m->cell[o->cell], at.now_ns, m->request[i].keep, &o->together);
    }
    if (m->allowed || (status_of(m) == WEIR_OK && begin_blocks(m, at.now_ns)))
        weir_cells_write(m->call->ctx, m->cell, m->cells, at, "weir.take");
    return true;
}

/* The request that the reply describes: the one that weir_outranks() puts first, of those denied
 * or, if none is, of all. */
static size_t described(const many *m)
{
    size_t at = m->len;
    for (size_t i = 0; i < m->len; i++) {
        const weir_decision *d = &m->of[i].together;
        if (d->allowed == m->allowed && (at == m->len || weir_outranks(d, &m->of[at].together)))
            at = i;
    }
    WEIR_ASSERT(at < m->len);
    return at;
}

/* The decision that is reported for request i. */
static const weir_decision *decision_of(const many *m, size_t i)
{
    const one *o = &m->of[i];
    return m->allowed || !o->together.allowed ? &o->together : &o->alone;
}

static many *many_new(weir_call *c, weir_request *r, size_t n)
{
    many *m = redis.Alloc(sizeof *m); /* too large for the stack */
    WEIR_ASSERT(n > 0 && n <= WEIR_DECIDED_MAX);
    m->call = (weir_module_call *)c;
    m->request = r;
    m->len = n;
    m->keys = m->cells = m->interned = 0;
    m->allowed = false;
    return m;
}

bool weir_module_take_all(weir_call *c, weir_request *r, size_t n, weir_all_result *ret)
{
    many *m = many_new(c, r, n);
    bool done = run(m);
    *ret = (weir_all_result){.status = status_of(m)};
    if (done && ret->status == WEIR_OK) {
        ret->allowed = m->allowed;
        ret->index = described(m);
        r[ret->index].decision = *decision_of(m, ret->index);
        r[ret->index].next_ns = m->of[ret->index].next_ns;
        for (size_t i = 0; i < n && m->allowed; i++) {
            if (m->of[i].together.delay_ns > ret->delay_ns)
                ret->delay_ns = m->of[i].together.delay_ns;
        }
    }
    close_all(m);
    redis.Free(m);
    return done;
}

/* ---- WEIR.ASK and WEIR.ASKALL ---------------------------------------------------------------- */

/* The fields of a decision in microseconds, and two more; with FIGURES, the wait for the next unit
 * and the figures follow. */
enum { LAYER = WEIR_DECISION_FIELDS, GRANTED, ASK_FIELDS, COUNT = ASK_FIELDS + 1, PREVIOUS, START };
enum { FIGURES_FIELDS = START + 1 };

/* Returns the number of fields. */
static size_t put_ask_fields(const weir_call *c, int64_t *ret, const weir_decision *d,
                             int64_t granted, int64_t next_ns, const weir_figures *f)
{
    weir_decision_get_fields(d, 1000, ret);
    ret[LAYER] = d->layer;
    ret[GRANTED] = granted;
    if (!c->with_names)
        return ASK_FIELDS;
    ret[ASK_FIELDS] = weir_next_units(next_ns, 1000);
    ret[COUNT] = f->count;
    ret[PREVIOUS] = f->previous;
    ret[START] = f->start_ns == WEIR_NO_FIGURE ? WEIR_NO_FIGURE : f->start_ns / 1000;
    return FIGURES_FIELDS;
}

/* The Redis client recognises errors by their beginning: "ERR policy:" and "ERR weir:". */
static void put_ask_error(weir_call *c, const weir_request *r, const char *where)
{
    if (r->error.column > 0)
        where = "";
    else if (r->status == WEIR_E_UNSUPPORTED)
        where = "weir: ";
    weir_call_request_error(c, r, where);
}

static bool read_verb(weir_slice a, weir_verb *ret)
{
    static const struct {
        const char *word;
        weir_verb verb;
    } verbs[] = {
        {"TAKE", WEIR_VERB_TAKE},     {"PEEK", WEIR_VERB_PEEK},     {"GRANT", WEIR_VERB_GRANT},
        {"REFUND", WEIR_VERB_REFUND}, {"CHARGE", WEIR_VERB_CHARGE}, {"RESET", WEIR_VERB_RESET},
    };
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (weir_resp_word_is(a, verbs[i].word)) {
            *ret = verbs[i].verb;
            return true;
        }
    }
    return false;
}

static void run_ask(weir_module_call *c)
{
    weir_call *call = &c->call;
    weir_verb verb;
    int64_t granted, fields[FIGURES_FIELDS];
    if (!read_verb(call->arg[1], &verb)) {
        weir_call_error(call,
                        "ERR expected TAKE, PEEK, REFUND, CHARGE, GRANT or RESET, found '%.*s'",
                        call->arg[1].len < 64 ? (int)call->arg[1].len : 64, call->arg[1].at);
        return;
    }
    weir_request r = weir_call_request(call, 2);
    r.by_text = true;
    r.figures = WEIR_NO_FIGURES;
    bool keeps = verb == WEIR_VERB_TAKE || verb == WEIR_VERB_PEEK;
    const char *error =
        keeps ? weir_call_read_units(call->arg[4], &r) : weir_call_read_cost(call, 4, &r.cost);
    if (error) {
        weir_call_error(call, "ERR %s", error);
        return;
    }
    if (!weir_module_decide(c, verb, &r, &granted))
        return;
    if (r.status != WEIR_OK) {
        put_ask_error(call, &r, "");
        return;
    }
    size_t n = put_ask_fields(call, fields, &r.decision, granted, r.next_ns, &r.figures);
    call->backend->integers(call, fields, n, 0);
}

/* WEIR.ASK verb policy-text key n[+keep] [FIGURES] */
int weir_ask_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_slice arg[WEIR_MODULE_ARGS_MAX];
    bool figures = weir_module_last_is(argv, &argc, 5, "FIGURES");
    if (argc != 5)
        return redis.WrongArity(ctx);
    weir_module_call c = weir_module_call_make(ctx, argv, argc, 3, arg);
    c.of_daemon = true;
    c.call.with_names = figures;
    run_ask(&c);
    return REDIS_OK;
}

static void put_all_fields(weir_call *c, const many *m)
{
    int64_t fields[1 + FIGURES_FIELDS * WEIR_DECIDED_MAX];
    size_t n = 1;
    fields[0] = (int64_t)(m->allowed ? m->len : described(m)); /* the one that denies */
    for (size_t i = 0; i < m->len; i++)
        n +=
            put_ask_fields(c, fields + n, decision_of(m, i), 0, m->of[i].next_ns, &WEIR_NO_FIGURES);
    c->backend->integers(c, fields, n, 0);
}

static void run_ask_all(weir_call *c)
{
    weir_request r[WEIR_ALL_MAX];
    size_t n = weir_call_read_all(c, r), i = 0;
    if (n == 0)
        return;
    for (size_t k = 0; k < n; k++)
        r[k].by_text = true;
    many *m = many_new(c, r, n);
    if (run(m)) {
        while (i < n && r[i].status == WEIR_OK)
            i++;
        if (i < n)
            put_ask_error(c, &r[i], weir_where_request(i).text);
        else
            put_all_fields(c, m);
    }
    close_all(m);
    redis.Free(m);
}

/* WEIR.ASKALL n policy-text key cost[+keep] [policy-text key cost[+keep] ...] [FIGURES] */
int weir_ask_all_command(redis_ctx *ctx, redis_string **argv, int argc)
{
    weir_slice arg[WEIR_MODULE_ARGS_MAX];
    bool figures = weir_module_last_is(argv, &argc, 5, "FIGURES");
    if (argc < 5)
        return redis.WrongArity(ctx);
    weir_module_call c = weir_module_call_make(ctx, argv, argc, 3, arg);
    c.of_daemon = true;
    c.call.with_names = figures;
    run_ask_all(&c.call);
    return REDIS_OK;
}
