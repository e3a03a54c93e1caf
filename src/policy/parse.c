/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The recursive-descent parser of policy texts: the grammar of docs/policy.md, with one function
 * for each algorithm. */

#include "core/algorithm.h"
#include "policy/scan.h"
#include "port/assert.h"

#include <weir/weir_zone.h>

typedef struct parser {
    weir_scan scan;
    const weir_zones *zones;
    const char *next; /* for errors: what may follow the layer just parsed */
    size_t limit_at;  /* for errors: the position of the layer's limit */
    uint32_t layers;
    bool holds; /* a concurrent layer was parsed */
    bool has_block;
    size_t block_at; /* the position of the block */
    int64_t lowest;  /* the lowest limit of the other layers */
} parser;

/* Requires a space, '&' or the end of the text after a word or number, and skips spaces. */
static weir_status boundary(parser *p)
{
    weir_scan *s = &p->scan;
    if (weir_scan_end(s) || s->text[s->at] == '&' || s->text[s->at] == ' ' ||
        s->text[s->at] == '\t' || s->text[s->at] == '\n' || s->text[s->at] == '\r') {
        weir_scan_space(s);
        return WEIR_OK;
    }
    return weir_scan_unexpected(s, s->at, "a space, '&' or the end");
}

/* Requires a space after a keyword that takes a value. */
static weir_status keyword_end(parser *p, const char *keyword)
{
    char expected[80];
    weir_writer t = weir_writer_init(expected, sizeof expected);
    if (weir_hint_equals(&p->scan, keyword, &t))
        return weir_scan_unexpected(&p->scan, p->scan.at, expected);
    return boundary(p);
}

static weir_status number(parser *p, const char *what, int64_t low, int64_t high, int64_t *ret)
{
    weir_status st = weir_scan_number(&p->scan, what, low, high, ret);
    return st == WEIR_OK ? boundary(p) : st;
}

/* Parses a keyword and its number, such as "burst 20". */
static weir_status keyword_number(parser *p, const char *keyword, const char *expected,
                                  const char *what, int64_t low, int64_t high, int64_t *ret)
{
    if (!weir_scan_keyword(&p->scan, keyword))
        return weir_scan_unexpected(&p->scan, p->scan.at, expected);
    weir_status st = keyword_end(p, keyword);
    p->limit_at = p->scan.at;
    return st == WEIR_OK ? number(p, what, low, high, ret) : st;
}

/* Parses the number of a rate. For a fraction, the error suggests the rate in whole numbers. */
static weir_status rate_number(parser *p, const char *what, int64_t high, int64_t *ret)
{
    char expected[80];
    weir_writer t = weir_writer_init(expected, sizeof expected);
    if (weir_hint_fraction(&p->scan, &t))
        return weir_scan_unexpected(&p->scan, p->scan.at, expected);
    size_t from = p->scan.at;
    weir_status st = weir_scan_number(&p->scan, what, 1, high, ret);
    bool is_zero = st == WEIR_E_RANGE && p->scan.at == from + 1 && p->scan.text[from] == '0';
    if (is_zero)
        weir_scan_unexpected(&p->scan, from, "1 or more; " WEIR_HINT_DENY);
    return st;
}

/* Parses a period that is not a calendar window. */
static weir_status period(parser *p, int64_t *ret_ns)
{
    weir_status st = weir_scan_period(&p->scan, ret_ns, NULL);
    return st == WEIR_OK ? boundary(p) : st;
}

/* Parses a rate such as "100/s". */
static weir_status rate(parser *p, const char *what, int64_t high, weir_layer *l,
                        weir_calendar *ret_calendar)
{
    size_t from = p->scan.at;
    weir_status st = rate_number(p, what, high, &l->rate);
    if (st != WEIR_OK)
        return st;
    if (!weir_scan_char(&p->scan, '/')) {
        char expected[80];
        weir_writer t = weir_writer_init(expected, sizeof expected);
        weir_hint_slash(&p->scan, from, &t);
        return weir_scan_unexpected(&p->scan, p->scan.at, expected);
    }
    st = weir_scan_period(&p->scan, &l->period_ns, ret_calendar);
    return st == WEIR_OK ? boundary(p) : st;
}

static weir_status bucket_rate(parser *p, weir_layer *l)
{
    return rate(p, "a rate such as 100/s", WEIR_RATE_MAX, l, NULL);
}

static weir_status window_rate(parser *p, weir_layer *l, weir_calendar *ret_calendar)
{
    weir_status st = rate(p, "a limit such as 100/m", WEIR_LIMIT_MAX, l, ret_calendar);
    l->limit = l->rate;
    return st;
}

static weir_status parse_gcra(parser *p, weir_layer *l)
{
    weir_status st = bucket_rate(p, l);
    l->limit = 1;
    p->next = "burst and a number, '&' or the end";
    if (st != WEIR_OK || !weir_scan_keyword(&p->scan, "burst"))
        return st;
    p->next = "'&' or the end";
    st = keyword_end(p, "burst");
    p->limit_at = p->scan.at;
    return st == WEIR_OK ? number(p, "a burst", 1, WEIR_LIMIT_MAX, &l->limit) : st;
}

/* Reports a rate in place of the capacity, as in "token-bucket 10/s". */
static weir_status refuse_token_rate(parser *p)
{
    char expected[120];
    weir_writer t = weir_writer_init(expected, sizeof expected);
    weir_hint_token_bucket(&p->scan, p->limit_at, &t);
    return weir_scan_unexpected(&p->scan, p->scan.at - 1, expected);
}

static weir_status parse_token_bucket(parser *p, weir_layer *l)
{
    p->limit_at = p->scan.at;
    weir_status st =
        weir_scan_number(&p->scan, "a capacity in tokens", 1, WEIR_LIMIT_MAX, &l->limit);
    if (st != WEIR_OK)
        return st;
    if (weir_scan_char(&p->scan, '/'))
        return refuse_token_rate(p);
    st = boundary(p);
    if (st != WEIR_OK)
        return st;
    if (!weir_scan_keyword(&p->scan, "refill"))
        return weir_scan_unexpected(&p->scan, p->scan.at,
                                    "refill and a rate, as in refill 100/s or refill 5 every 1s");
    st = keyword_end(p, "refill");
    if (st != WEIR_OK)
        return st;
    st = rate_number(p, "a refill such as 100/s or 5 every 1s", WEIR_RATE_MAX, &l->rate);
    if (st != WEIR_OK)
        return st;
    if (weir_scan_char(&p->scan, '/'))
        return period(p, &l->period_ns);
    weir_scan_space(&p->scan);
    if (!weir_scan_keyword(&p->scan, "every"))
        return weir_scan_unexpected(&p->scan, p->scan.at,
                                    "'/' and a period, or 'every' and a period");
    st = keyword_end(p, "every");
    if (st != WEIR_OK)
        return st;
    l->stepped = true;
    return period(p, &l->period_ns);
}

static weir_status parse_leaky_bucket(parser *p, weir_layer *l)
{
    weir_status st = bucket_rate(p, l);
    if (st != WEIR_OK)
        return st;
    return keyword_number(p, "capacity", "capacity and a number, as in capacity 20", "a capacity",
                          1, WEIR_LIMIT_MAX, &l->limit);
}

static weir_status parse_leaky_queue(parser *p, weir_layer *l)
{
    weir_status st = bucket_rate(p, l);
    if (st != WEIR_OK)
        return st;
    int64_t depth = 0;
    st = keyword_number(p, "depth", "depth and a number, as in depth 20", "a depth", 0,
                        WEIR_LIMIT_MAX - 1, &depth);
    if (st != WEIR_OK)
        return st;
    l->limit = depth + 1; /* one request is served and `depth` requests wait */
    p->next = "nodelay and a number, '&' or the end";
    if (!weir_scan_keyword(&p->scan, "nodelay"))
        return WEIR_OK;
    p->next = "'&' or the end";
    st = keyword_end(p, "nodelay");
    int64_t nodelay = 0;
    if (st == WEIR_OK)
        st = number(p, "a number of undelayed requests", 0, depth, &nodelay);
    l->nodelay = (int32_t)nodelay;
    return st;
}

static bool is_zone_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '_' || c == '+' || c == '-';
}

static bool is_utc(const char *name, size_t len)
{
    return len == 3 && name[0] == 'U' && name[1] == 'T' && name[2] == 'C';
}

static weir_status parse_zone(parser *p, weir_layer *l)
{
    weir_scan *s = &p->scan;
    weir_status st = keyword_end(p, "tz");
    if (st != WEIR_OK)
        return st;
    size_t from = s->at;
    while (!weir_scan_end(s) && is_zone_char(s->text[s->at]))
        s->at++;
    const char *name = s->text + from;
    size_t len = s->at - from;
    if (!is_utc(name, len)) {
        if (len > 0 && p->zones && weir_zone_name_ok(name, len))
            l->zone = p->zones->find(p->zones->ctx, name, len);
        if (!l->zone) {
            char expected[160];
            expected[0] = '\0';
            if (len > 0 && p->zones && p->zones->expected)
                p->zones->expected(p->zones->ctx, name, len, expected, sizeof expected);
            weir_scan_unexpected(
                s, from,
                expected[0] != '\0' ? expected : "the name of a time zone, as in tz Europe/Berlin");
            return WEIR_E_ZONE;
        }
        if (l->zone->name[0] == '\0')
            return weir_scan_refuse(s, from, WEIR_E_NOMEM, "no memory is left",
                                    "enough to read the time zone");
    }
    return boundary(p);
}

static weir_status parse_anchor(parser *p, weir_layer *l)
{
    weir_status st = keyword_end(p, "from");
    if (st == WEIR_OK)
        st = weir_anchor_scan(&p->scan, l->calendar, &l->anchor);
    return st == WEIR_OK ? boundary(p) : st;
}

static weir_status parse_fixed_window(parser *p, weir_layer *l)
{
    weir_scan *s = &p->scan;
    weir_status st = window_rate(p, l, &l->calendar);
    bool calendar = l->calendar != WEIR_ALIGNED, anchored = false, zoned = false;
    p->next = calendar ? "from START, tz ZONE or count-denied, each once, '&' or the end"
                       : "from-first or count-denied, each once, '&' or the end";
    if (calendar)
        l->window = weir_calendar_window;
    while (st == WEIR_OK) {
        size_t from = s->at;
        if (!anchored && weir_scan_keyword(s, "from")) {
            if (!calendar)
                return weir_scan_unexpected(s, from,
                                            "from-first, or day, week, month or year before from, "
                                            "as in 100/month from 17");
            anchored = true;
            st = parse_anchor(p, l);
        } else if (!zoned && weir_scan_keyword(s, "tz")) {
            if (!calendar)
                return weir_scan_unexpected(s, from,
                                            "day, week, month or year before tz, as in 100/day");
            zoned = true;
            st = parse_zone(p, l);
        } else if (l->calendar != WEIR_FROM_FIRST && weir_scan_keyword(s, "from-first")) {
            if (calendar)
                return weir_scan_unexpected(s, from, "a length such as 24h with from-first");
            l->calendar = WEIR_FROM_FIRST;
            st = boundary(p);
        } else if (!l->count_denied && weir_scan_keyword(s, "count-denied")) {
            l->count_denied = true;
            st = boundary(p);
        } else {
            return WEIR_OK;
        }
    }
    return st;
}

static weir_status parse_sliding_log(parser *p, weir_layer *l)
{
    weir_status st = window_rate(p, l, NULL);
    p->next = "count-denied, '&' or the end";
    if (st != WEIR_OK || !weir_scan_keyword(&p->scan, "count-denied"))
        return st;
    p->next = "'&' or the end";
    l->count_denied = true;
    return boundary(p);
}

static weir_status parse_sliding_counter(parser *p, weir_layer *l)
{
    weir_status st = window_rate(p, l, NULL);
    if (st != WEIR_OK)
        return st;
    p->next = "strict or relaxed, '&' or the end";
    l->relaxed = weir_scan_keyword(&p->scan, "relaxed");
    if (!l->relaxed && !weir_scan_keyword(&p->scan, "strict"))
        return WEIR_OK;
    p->next = "'&' or the end";
    return boundary(p);
}

static weir_status parse_sliding_slices(parser *p, weir_layer *l)
{
    weir_status st = window_rate(p, l, NULL);
    if (st != WEIR_OK)
        return st;
    int64_t most = l->period_ns < WEIR_SLICES_MAX ? l->period_ns : WEIR_SLICES_MAX;
    return keyword_number(p, "slices", "slices and a number, as in slices 60", "a number of slices",
                          1, most, &l->slices);
}

/* The limit of a block follows from the other layers: see weir_policy_parse(). */
static weir_status parse_block(parser *p, weir_layer *l)
{
    weir_status st = period(p, &l->period_ns);
    l->limit = l->rate = WEIR_LIMIT_MAX;
    p->next = "doubling and a period, '&' or the end";
    if (st != WEIR_OK || !weir_scan_keyword(&p->scan, "doubling"))
        return st;
    p->next = "'&' or the end";
    st = keyword_end(p, "doubling");
    size_t from = p->scan.at;
    if (st == WEIR_OK)
        st = period(p, &l->longest_ns);
    if (st != WEIR_OK || l->longest_ns > l->period_ns)
        return st;
    weir_scan_unexpected(&p->scan, from,
                         "a period longer than the first block, as in block 1m doubling 1d");
    return WEIR_E_RANGE;
}

static weir_status parse_concurrent(parser *p, weir_layer *l)
{
    weir_status st = number(p, "a limit", 1, WEIR_LIMIT_MAX, &l->limit);
    if (st != WEIR_OK)
        return st;
    if (!weir_scan_keyword(&p->scan, "lease"))
        return weir_scan_unexpected(&p->scan, p->scan.at, "lease and a period, as in lease 30s");
    st = keyword_end(p, "lease");
    l->rate = l->limit;
    return st == WEIR_OK ? period(p, &l->period_ns) : st;
}

typedef weir_status (*layer_parser)(parser *p, weir_layer *l);

static const layer_parser layer_parsers[] = {
    [WEIR_GCRA] = parse_gcra,
    [WEIR_TOKEN_BUCKET] = parse_token_bucket,
    [WEIR_LEAKY_BUCKET] = parse_leaky_bucket,
    [WEIR_LEAKY_QUEUE] = parse_leaky_queue,
    [WEIR_FIXED_WINDOW] = parse_fixed_window,
    [WEIR_SLIDING_LOG] = parse_sliding_log,
    [WEIR_SLIDING_COUNTER] = parse_sliding_counter,
    [WEIR_SLIDING_SLICES] = parse_sliding_slices,
    [WEIR_BLOCK] = parse_block,
    [WEIR_CONCURRENT] = parse_concurrent,
};

_Static_assert(sizeof layer_parsers / sizeof layer_parsers[0] == WEIR_ALGORITHMS,
               "each algorithm has a parser");

static weir_status parse_algorithm(parser *p, weir_algorithm *ret)
{
    weir_scan *s = &p->scan;
    size_t from = s->at;
    for (unsigned i = 0; i < WEIR_ALGORITHMS; i++) {
        if (weir_scan_keyword(s, weir_facts_of((weir_algorithm)i)->name)) {
            *ret = (weir_algorithm)i;
            return boundary(p);
        }
    }
    char expected[160];
    weir_writer t = weir_writer_init(expected, sizeof expected);
    size_t end = weir_hint_algorithm(s, &t);
    if (end > from)
        return weir_scan_unexpected_to(s, from, end, expected);
    weir_write_str(&t, "one of");
    for (unsigned i = 0; i < WEIR_ALGORITHMS; i++) {
        weir_write_char(&t, ' ');
        weir_write_str(&t, weir_facts_of((weir_algorithm)i)->name);
    }
    return weir_scan_unexpected(s, from, expected);
}

/* Reports a limit that is too large for its rate: the bucket would take too long to refill. */
static weir_status refuse_limit(parser *p, const weir_layer *l, int64_t limit_max)
{
    char expected[120];
    weir_writer t = weir_writer_init(expected, sizeof expected);
    if (weir_layer_can(l, WEIR_CAN_DELAY))
        limit_max--;
    weir_write_str(&t, "at most ");
    weir_write_u64(&t, (uint64_t)limit_max);
    weir_write_str(&t, " at this rate (an empty bucket must refill within 36.5 years)");
    weir_scan_unexpected(&p->scan, p->limit_at, expected);
    return WEIR_E_RANGE;
}

static void layer_clear(weir_layer *l)
{
    char *bytes = (char *)l;
    for (size_t i = 0; i < sizeof *l; i++)
        bytes[i] = 0;
}

static weir_status parse_layer(parser *p, weir_layer *l)
{
    layer_clear(l);
    p->next = "'&' or the end";
    weir_status st = parse_algorithm(p, &l->algorithm);
    if (st == WEIR_OK)
        st = layer_parsers[l->algorithm](p, l);
    if (st != WEIR_OK)
        return st;
    int64_t limit_max;
    WEIR_ASSERT(l->limit >= 1);
    return weir_layer_init(l, &limit_max) == WEIR_OK ? WEIR_OK : refuse_limit(p, l, limit_max);
}

/* Takes note of a layer that was parsed: a policy has at most one block and one concurrent layer.
 *  from  the start of the layer. */
static weir_status note_layer(parser *p, const weir_layer *l, size_t from)
{
    p->layers++;
    if (p->holds && weir_layer_holds(l))
        return weir_scan_unexpected(&p->scan, from, "at most one concurrent layer");
    p->holds |= weir_layer_holds(l);
    if (!weir_layer_is_block(l)) {
        p->lowest = l->limit < p->lowest ? l->limit : p->lowest;
        return WEIR_OK;
    }
    if (p->has_block)
        return weir_scan_unexpected(&p->scan, from, "at most one block");
    p->has_block = true;
    p->block_at = from;
    return WEIR_OK;
}

/* Parses the layers without storing them. */
static weir_status validate(parser *p)
{
    weir_layer unused;
    p->lowest = INT64_MAX;
    do {
        if (p->layers == WEIR_LAYERS_MAX)
            return weir_scan_unexpected(&p->scan, p->scan.at - 1, "at most 8 layers");
        weir_scan_space(&p->scan);
        size_t from = p->scan.at;
        weir_status st = parse_layer(p, &unused);
        if (st == WEIR_OK)
            st = note_layer(p, &unused, from);
        if (st != WEIR_OK)
            return st;
    } while (weir_scan_char(&p->scan, '&'));
    if (!weir_scan_end(&p->scan))
        return weir_scan_unexpected(&p->scan, p->scan.at, p->next);
    if (p->has_block && p->layers == 1)
        return weir_scan_unexpected(&p->scan, p->block_at,
                                    "a limit beside it, as in sliding-log 5/m & block 10m");
    return WEIR_OK;
}

/* Parses the layers of a valid text again, and stores them in their order, but the block last. */
static weir_status store(parser *p, weir_policy *ret)
{
    weir_layer *last = &ret->layer[p->layers - 1], *next = ret->layer;
    p->scan.at = 0;
    do {
        weir_scan_space(&p->scan);
        bool is_block = p->has_block && p->scan.at == p->block_at;
        weir_status st = parse_layer(p, is_block ? last : next++);
        if (st != WEIR_OK)
            return st;
    } while (weir_scan_char(&p->scan, '&'));
    if (p->has_block)
        last->limit = last->rate = p->lowest;
    ret->layers = p->layers;
    return WEIR_OK;
}

weir_status weir_policy_parse(weir_policy *ret, const char *text, size_t len,
                              const weir_zones *zones, weir_policy_error *ret_error)
{
    parser p = {.scan = {text, len, 0, ret_error}, .zones = zones};
    if (len >= WEIR_POLICY_TEXT_MAX)
        return weir_scan_refuse(&p.scan, 0, WEIR_E_SYNTAX, "the policy text is too long",
                                "at most 1023 bytes");
    weir_status st = validate(&p);
    return st == WEIR_OK ? store(&p, ret) : st;
}
