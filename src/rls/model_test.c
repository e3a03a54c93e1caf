/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Random configurations and requests, compared with a slow model of the reference service: which
 * limit applies, the codes, what remains, the headers and the statistics. The model works on the
 * descriptors of the configuration as they are, with text. It has weir's differences: a request of
 * 0 hits is over the limit if nothing is left, and the limit of a request has a count of its
 * own. */

#include "kit_test.h"

#include "port/random.h"

#include <ctype.h>

enum { TEXT = 1024, NODES = 60, MODEL_COUNTS = 4096, MODEL_STATS = 1024 };

static uint64_t seed;

static unsigned pick(unsigned n)
{
    return (unsigned)(port_random_next(&seed) >> 33) % n;
}

#define ONE_OF(list) (list)[pick(sizeof(list) / sizeof((list)[0]))]

/* ---- random configurations ------------------------------------------------------------------- */

static const char *const keys[] = {"a", "b", "a_b", "k", "foo*"};
static const char *const values[] = {"", "x", "x_y", "foo1", "foo2", "bfoo1", "10.0.0.1", "p:q"};
static const char *const patterns[] = {"",     "",  "x",   "x_y",  "foo1",
                                       "foo*", "*", "f*1", "f*o*", "p:q"};
static const char *const names[] = {NULL, NULL, "n1", "n2", "n3"};
static const char *const replaced[] = {"n1", "n2", "n3"};

typedef struct world {
    weir_rls_spec node[NODES];
    size_t nodes;
    weir_rls_domain_spec domain[2];
    weir_rls_options options;
} world;

static void final_text(const weir_rls_spec *s, char *ret)
{
    bool value = s->value && s->value[0];
    snprintf(ret, TEXT, "%s%s%s", s->key, value ? "_" : "", value ? s->value : "");
}

static bool has_text(const weir_rls_spec *list, size_t n, const weir_rls_spec *s)
{
    char a[TEXT], b[TEXT];
    final_text(s, a);
    for (size_t i = 0; i < n; i++) {
        final_text(&list[i], b);
        if (strcmp(a, b) == 0)
            return true;
    }
    return false;
}

static void random_limit(weir_rls_spec *s)
{
    static const uint32_t limits[] = {0, 1, 2, 3, 5, 10, 13};
    s->has_limit = true;
    s->unlimited = pick(10) == 0;
    s->requests_per_unit = ONE_OF(limits);
    s->unit = s->unlimited ? WEIR_RLS_UNIT_UNKNOWN
                           : (weir_rls_unit)(WEIR_RLS_SECOND + pick(WEIR_RLS_UNITS - 1));
    s->name = ONE_OF(names);
    size_t which = pick(sizeof replaced / sizeof replaced[0]);
    bool self = s->name && strcmp(s->name, replaced[which]) == 0;
    s->replaces = &replaced[which];
    s->replaces_len = pick(5) == 0 && !self;
    s->shadow_mode = pick(5) == 0;
    s->quota_mode = pick(5) == 0;
    s->detailed_metric = pick(5) == 0;
}

/* Fills a list of descriptors, which are adjacent. Returns its length. */
static size_t random_list(world *w, int depth, const weir_rls_spec **ret)
{
    size_t n = 1 + pick(6), len = 0;
    if (w->nodes + n > NODES || depth == 3)
        return 0;
    weir_rls_spec *list = &w->node[w->nodes];
    w->nodes += n;
    for (size_t i = 0; i < n; i++) {
        weir_rls_spec s = {.key = ONE_OF(keys), .value = ONE_OF(patterns)};
        char text[TEXT];
        if (has_text(list, len, &s))
            continue;
        final_text(&s, text);
        s.share_threshold = strchr(text, '*') && pick(2) == 0;
        s.value_to_metric = pick(4) == 0;
        if (pick(4) > 0)
            random_limit(&s);
        if (pick(2) == 0)
            s.descriptors_len = random_list(w, depth + 1, &s.descriptors);
        list[len++] = s;
    }
    *ret = list;
    return len;
}

static void random_world(world *w)
{
    *w = (world){.nodes = 0};
    for (int i = 0; i < 2; i++) {
        w->domain[i].domain = i == 0 ? "d" : "d.a";
        w->domain[i].descriptors_len = random_list(w, 0, &w->domain[i].descriptors);
    }
    w->options = (weir_rls_options){.headers = pick(2) == 0,
                                    .shadow_mode = pick(8) == 0,
                                    .quota_mode = pick(8) == 0,
                                    .near_limit_ratio = pick(2) == 0 ? 0 : 0.5};
}

/* ---- the model ------------------------------------------------------------------------------- */

typedef struct model_stat {
    char name[TEXT];
    uint64_t count[RLS_COUNTS];
} model_stat;

typedef struct model_count {
    char key[TEXT];
    int64_t window;
    uint64_t count;
} model_count;

typedef struct model {
    const world *world;
    model_count count[MODEL_COUNTS];
    model_stat stat[MODEL_STATS];
    size_t counts, stats;
    uint64_t shadowed;
} model;

/* What a descriptor matches. */
typedef struct matched {
    bool found, unlimited, shadow, quota;
    uint32_t limit;
    weir_rls_unit unit;
    const weir_rls_spec *spec; /* NULL: the limit is the request's */
    char key[TEXT], stat[TEXT];
} matched;

static bool glob(const char *pattern, const char *text)
{
    if (*pattern == '*')
        return glob(pattern + 1, text) || (*text && glob(pattern, text + 1));
    return *pattern == *text && (*text == '\0' || glob(pattern + 1, text + 1));
}

static void join(char *to, const char *a, const char *b, const char *c)
{
    size_t len = strlen(to);
    int more = snprintf(to + len, TEXT - len, "%s%s%s", a, b, c);
    assert_in_range(more, 0, TEXT - len - 1);
}

static const weir_rls_spec *by_text(const weir_rls_spec *list, size_t n, const char *text)
{
    char own[TEXT];
    for (size_t i = 0; i < n; i++) {
        final_text(&list[i], own);
        if (strcmp(own, text) == 0)
            return &list[i];
    }
    return NULL;
}

static const weir_rls_spec *by_pattern(const weir_rls_spec *list, size_t n, const char *text)
{
    char own[TEXT];
    for (size_t i = 0; i < n; i++) {
        final_text(&list[i], own);
        if (strchr(own, '*') && glob(own, text))
            return &list[i];
    }
    return NULL;
}

/* An entry as two strings. */
typedef struct pair {
    char key[TEXT], value[TEXT];
} pair;

static pair pair_of(const weir_rls_entry *e)
{
    pair p;
    snprintf(p.key, TEXT, "%.*s", (int)e->key.len, e->key.at);
    snprintf(p.value, TEXT, "%.*s", (int)e->value.len, e->value.at);
    return p;
}

/* A pattern without the key and '_' before it. */
static const char *without_key(const char *pattern, const char *key)
{
    size_t len = strlen(key);
    return strncmp(pattern, key, len) == 0 && pattern[len] == '_' ? pattern + len + 1 : pattern;
}

/* The three names that statistics may have, and what the entries so far have said. */
typedef struct walk {
    char detailed[TEXT], shared_detailed[TEXT], enhanced[TEXT], full[TEXT];
    bool shares;
} walk;

static const weir_rls_spec *step(walk *w, const weir_rls_spec *list, size_t n, const pair *p,
                                 char *state_key)
{
    char text[TEXT] = "", pattern[TEXT] = "", own[TEXT] = "";
    join(text, p->key, "_", p->value);
    const weir_rls_spec *s = by_text(list, n, text);
    bool exact = s != NULL, wild = false;
    if (!s) {
        s = by_pattern(list, n, text);
        wild = s != NULL;
    }
    if (!s)
        s = by_text(list, n, p->key);
    if (!s)
        return NULL;
    final_text(s, own);
    if (wild)
        snprintf(pattern, TEXT, "%s", without_key(own, p->key));
    bool shares = wild && s->share_threshold;
    w->shares |= shares;
    const char *metric = shares               ? pattern
                         : wild               ? (s->value_to_metric ? p->value : pattern)
                         : exact              ? p->value
                         : s->value_to_metric ? p->value
                                              : "";
    join(w->enhanced, ".", p->key, "");
    if (metric[0])
        join(w->enhanced, "_", metric, "");
    join(w->detailed, ".", text, "");
    join(w->shared_detailed, ".", p->key, "");
    if (shares || p->value[0])
        join(w->shared_detailed, "_", shares ? pattern : p->value, "");
    join(w->full, ".", own, "");
    join(state_key, "|", p->key, "=");
    join(state_key, shares ? pattern : p->value, "", "");
    return s;
}

static matched by_override(const char *domain, const weir_rls_descriptor *d)
{
    matched m = {.found = true, .limit = d->override.requests_per_unit, .unit = d->override.unit};
    join(m.stat, domain, ".", "");
    char limit[64];
    snprintf(limit, sizeof limit, "override %u %d ", m.limit, (int)m.unit);
    join(m.key, limit, domain, "");
    for (size_t i = 0; i < d->entries_len; i++) {
        pair p = pair_of(&d->entries[i]);
        join(m.stat, i > 0 ? "." : "", p.key, p.value[0] ? "_" : "");
        join(m.stat, p.value, "", "");
        join(m.key, "|", p.key, "=");
        join(m.key, p.value, "", "");
    }
    return m;
}

static matched match(const world *w, const char *domain, const weir_rls_descriptor *d)
{
    const weir_rls_domain_spec *in = NULL;
    for (int i = 0; i < 2; i++) {
        if (strcmp(w->domain[i].domain, domain) == 0)
            in = &w->domain[i];
    }
    if (!in)
        return (matched){.found = false};
    if (d->has_override)
        return by_override(domain, d);
    matched m = {.found = false};
    walk at = {.shares = false};
    const weir_rls_spec *list = in->descriptors, *s = NULL;
    size_t n = in->descriptors_len;
    snprintf(at.detailed, TEXT, "%s", domain);
    snprintf(at.shared_detailed, TEXT, "%s", domain);
    snprintf(at.enhanced, TEXT, "%s", domain);
    snprintf(at.full, TEXT, "%s", domain);
    snprintf(m.key, TEXT, "%s", domain);
    for (size_t i = 0; i < d->entries_len; i++) {
        pair p = pair_of(&d->entries[i]);
        s = step(&at, list, n, &p, m.key);
        if (!s)
            return m;
        list = s->descriptors;
        n = s->descriptors_len;
    }
    if (!s || !s->has_limit)
        return m;
    const char *stat_name = !s->detailed_metric ? at.enhanced
                            : at.shares         ? at.shared_detailed
                                                : at.detailed;
    snprintf(m.stat, TEXT, "%s", stat_name);
    char limit[TEXT]; /* a count belongs to a limit: two may share the text of their patterns */
    snprintf(limit, TEXT, " of %zu", (size_t)(s - w->node));
    join(m.key, limit, "", "");
    m.found = true;
    m.spec = s;
    m.unlimited = s->unlimited;
    m.shadow = s->shadow_mode;
    m.quota = s->quota_mode;
    m.limit = s->requests_per_unit;
    m.unit = s->unit;
    return m;
}

static int64_t unit_seconds(weir_rls_unit unit)
{
    static const int64_t seconds[] = {0, 1, 60, 3600, 86400, 2592000, 31536000, 604800};
    return seconds[unit];
}

static uint64_t *count_of(model *m, const matched *to, int64_t window)
{
    for (size_t i = 0; i < m->counts; i++) {
        if (strcmp(m->count[i].key, to->key) == 0) {
            if (m->count[i].window != window)
                m->count[i].count = 0;
            m->count[i].window = window;
            return &m->count[i].count;
        }
    }
    assert_true(m->counts < MODEL_COUNTS);
    model_count *c = &m->count[m->counts++];
    snprintf(c->key, TEXT, "%s", to->key);
    c->window = window;
    return &c->count;
}

static uint64_t *stats_of(model *m, const char *name)
{
    char text[TEXT];
    snprintf(text, TEXT, "%s", name);
    for (char *c = text; *c; c++)
        *c = *c == ':' ? '_' : *c;
    for (char *at = text; (at = strstr(at, "10.0.0.1"));)
        memcpy(at, "10_0_0_1", 8);
    for (size_t i = 0; i < m->stats; i++) {
        if (strcmp(m->stat[i].name, text) == 0)
            return m->stat[i].count;
    }
    assert_true(m->stats < MODEL_STATS);
    snprintf(m->stat[m->stats].name, TEXT, "%s", text);
    return m->stat[m->stats++].count;
}

/* Decides a descriptor. Returns its status. */
static weir_rls_status model_decide(model *m, const matched *to, uint64_t hits, int64_t at_ns)
{
    weir_rls_status s = {.code = WEIR_RLS_OK};
    if (!to->found)
        return s;
    int64_t seconds = unit_seconds(to->unit), now_s = at_ns / s_ns;
    double ratio = m->world->options.near_limit_ratio;
    uint64_t limit = to->limit, *count = count_of(m, to, now_s / seconds), before = *count;
    uint64_t near = (uint64_t)((float)limit * (float)(ratio > 0 ? ratio : 0.8));
    uint64_t after = *count += hits, *stats = stats_of(m, to->stat);
    bool over = hits == 0 ? after >= limit : after > limit;
    stats[RLS_TOTAL_HITS] += hits;
    if (over && hits > 0) {
        uint64_t n = before >= limit ? hits : after - limit;
        stats[RLS_OVER_LIMIT] += n;
        if (before < limit)
            stats[RLS_NEAR_LIMIT] += limit - (near > before ? near : before);
        if (to->shadow)
            stats[RLS_SHADOW_MODE] += n;
    } else if (hits > 0) {
        if (after > near)
            stats[RLS_NEAR_LIMIT] += before >= near ? hits : after - near;
        stats[RLS_WITHIN_LIMIT] += hits;
    }
    s.code = over && !to->shadow ? WEIR_RLS_OVER_LIMIT : WEIR_RLS_OK;
    s.has_limit = true;
    s.requests_per_unit = to->limit;
    s.unit = to->unit;
    s.remaining = over ? 0 : (uint32_t)(limit - after);
    s.reset_ns = (seconds - now_s % seconds) * s_ns;
    if (to->spec && to->spec->name)
        s.name = text_of(to->spec->name);
    return s;
}

typedef struct answer {
    weir_rls_code code;
    weir_rls_status status[8];
    const weir_rls_status *header; /* NULL: no headers */
} answer;

static void model_answer(model *m, const kit_request *r, int64_t at_ns, answer *ret)
{
    size_t n = r->request.descriptors_len, over = 0, quotas = 0, quotas_over = 0;
    char domain[TEXT];
    matched to[8];
    uint32_t least = UINT32_MAX;
    const weir_rls_options *o = &m->world->options;
    snprintf(domain, TEXT, "%.*s", (int)r->request.domain.len, r->request.domain.at);
    *ret = (answer){.code = WEIR_RLS_OK};
    for (size_t i = 0; i < n; i++)
        to[i] = match(m->world, domain, &r->descriptor[i]);
    bool gone[8] = {false};
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            const weir_rls_spec *by = to[i].spec, *of = to[k].spec;
            if (by && of && by->replaces_len > 0 && of->name && !of->unlimited &&
                strcmp(by->replaces[0], of->name) == 0)
                gone[k] = true;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (gone[i])
            to[i] = (matched){.found = false};
        bool unlimited = to[i].unlimited;
        uint64_t hits = r->descriptor[i].has_hits    ? r->descriptor[i].hits
                        : r->request.hits_addend > 0 ? r->request.hits_addend
                                                     : 1;
        if (unlimited)
            ret->status[i] = (weir_rls_status){.code = WEIR_RLS_OK, .remaining = UINT32_MAX};
        else
            ret->status[i] = model_decide(m, &to[i], hits, at_ns);
        const weir_rls_status *s = &ret->status[i];
        if (s->has_limit && s->remaining < least) {
            ret->header = s;
            least = s->remaining;
        }
        if (unlimited)
            continue;
        bool quota = o->quota_mode || to[i].quota;
        quotas += quota;
        quotas_over += quota && s->code == WEIR_RLS_OVER_LIMIT;
        if (!quota && s->code == WEIR_RLS_OVER_LIMIT) {
            over++;
            ret->header = s;
            least = 0;
        }
    }
    if (over > 0 || (quotas > 0 && quotas == quotas_over))
        ret->code = WEIR_RLS_OVER_LIMIT;
    if (ret->code == WEIR_RLS_OVER_LIMIT && o->shadow_mode) {
        ret->code = WEIR_RLS_OK;
        m->shadowed++;
    }
    if (!o->headers)
        ret->header = NULL;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void random_request(kit_request *r)
{
    static const char *const domains[] = {"d", "d", "d.a", "unknown"};
    static const char *const asked[] = {"a", "b", "a_b", "k", "foo*", "foobar", "none"};
    begin(r, ONE_OF(domains), pick(3) == 0 ? pick(5) : 0);
    size_t n = 1 + pick(4);
    for (size_t i = 0; i < n; i++) {
        weir_rls_descriptor *d = &r->descriptor[r->request.descriptors_len++];
        *d = (weir_rls_descriptor){.entries = &r->entry[r->entries], .entries_len = 1 + pick(3)};
        for (size_t k = 0; k < d->entries_len; k++)
            r->entry[r->entries++] =
                (weir_rls_entry){text_of(ONE_OF(asked)), text_of(ONE_OF(values))};
        d->has_hits = pick(4) == 0;
        d->hits = pick(8);
        d->has_override = pick(8) == 0;
        d->override = (weir_rls_override){pick(4), (weir_rls_unit)(1 + pick(WEIR_RLS_UNITS - 1))};
    }
}

static void expect_number(const weir_rls_header *header, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    assert_string_equal(header->name, name);
    assert_string_equal(header->value, text);
}

static void expect(const weir_rls_response *got, const answer *want, size_t n)
{
    assert_int_equal(got->failure, WEIR_RLS_ANSWERED);
    assert_int_equal(got->statuses_len, n);
    for (size_t i = 0; i < n; i++) {
        const weir_rls_status *a = &got->statuses[i], *b = &want->status[i];
        assert_int_equal(a->code, b->code);
        assert_int_equal(a->has_limit, b->has_limit);
        assert_int_equal(a->remaining, b->remaining);
        assert_int_equal(a->requests_per_unit, b->requests_per_unit);
        assert_int_equal(a->unit, b->unit);
        assert_int_equal(a->reset_ns, b->reset_ns);
        assert_int_equal(a->name.len, b->name.len);
        assert_true(a->name.len == 0 || memcmp(a->name.at, b->name.at, a->name.len) == 0);
    }
    assert_int_equal(got->code, want->code);
    assert_int_equal(got->headers_len, want->header ? 3 : 0);
    if (!want->header)
        return;
    expect_number(&got->headers[0], "RateLimit-Limit", want->header->requests_per_unit);
    expect_number(&got->headers[1], "RateLimit-Remaining", want->header->remaining);
    expect_number(&got->headers[2], "RateLimit-Reset", want->header->reset_ns / s_ns);
}

static void expect_stats(const model *m)
{
    static const char *const words[RLS_COUNTS] = {"total_hits", "over_limit", "near_limit",
                                                  "within_limit", "shadow_mode"};
    for (size_t i = 0; i < m->stats; i++) {
        for (int k = 0; k < RLS_COUNTS; k++) {
            char name[TEXT + 64];
            snprintf(name, sizeof name, "rate_limit.%s.%s", m->stat[i].name, words[k]);
            if (stat(name) != m->stat[i].count[k])
                fail_msg("%s: %llu, the model has %llu", name, (unsigned long long)stat(name),
                         (unsigned long long)m->stat[i].count[k]);
        }
    }
    assert_int_equal(stat("global_shadow_mode"), m->shadowed);
    assert_int_equal(stat("stat_names_not_stored"), 0);
}

/* Decides random requests in groups, and compares each with the model. */
static void compare(model *m, int requests)
{
    enum { GROUP = 20 };
    static kit_request asked[GROUP];
    weir_rls_request list[GROUP];
    weir_rls_response got[GROUP];
    static answer want;
    int64_t at_ns = now_ns + pick(100000) * s_ns;
    for (int i = 0; i < requests; i += GROUP) {
        static const int64_t steps_ns[] = {0, 1, 999999999, 1000000000, 30000000000, 3600000000000};
        at_ns += ONE_OF(steps_ns);
        for (int k = 0; k < GROUP; k++) {
            random_request(&asked[k]);
            list[k] = asked[k].request;
        }
        for (size_t done = 0; done < GROUP;) {
            size_t n = weir_rls_decide(loop, &wait, list + done, GROUP - done, got + done, at_ns);
            assert_in_range(n, 1, GROUP - done);
            for (size_t k = done; k < done + n; k++) {
                model_answer(m, &asked[k], at_ns, &want);
                expect(&got[k], &want, list[k].descriptors_len);
            }
            done += n;
        }
    }
}

static void run_seed(uint64_t first, int requests)
{
    static world w;
    static model m;
    void *state = NULL;
    seed = first;
    assert_int_equal(rls_setup(&state), 0);
    random_world(&w);
    m = (model){.world = &w};
    activate(&w.options, w.domain, 2);
    compare(&m, requests);
    expect_stats(&m);
    assert_int_equal(rls_teardown(&state), 0);
}

static uint64_t running; /* the seed that is tried; 0: none */

static int print_seed(void **unused)
{
    (void)unused;
    if (running != 0)
        print_message("WEIR_SEED=%llu repeats it\n", (unsigned long long)running);
    return 0;
}

static void answers_are_those_of_the_model(void **unused)
{
    (void)unused;
    const char *given = getenv("WEIR_SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1, n = given ? 1 : 60;
    for (running = first; running < first + n; running++)
        run_seed(running, 200);
    running = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(answers_are_those_of_the_model, print_seed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
