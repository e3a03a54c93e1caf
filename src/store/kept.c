/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Families of limits, and how a state moves from one limit to another. A process remembers the
 * families that it has limits of. Another process may add a member at any time, so every search
 * looks for a next one. */

#include "store/kept.h"

#include "store/iterate.h"
#include "store/shape.h"

#include "core/algorithm.h"
#include "core/wide.h"
#include "port/assert.h"
#include "port/port.h"
#include "store/table/pack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SLOTS = 256,
    MEMBERS = WEIR_FORMER_MAX + 1, /* of a family: one is the own id */
    OLD = MEMBERS / 4 * 3          /* the place in the order of members from which one is old */
};

#define HOUR_NS ((int64_t)3600 * 1000000000)
#define DAY_NS  (24 * HOUR_NS)

typedef struct member {
    uint64_t number; /* of the first member 1, of the next one 2, ...; 0: there is none */
    uint64_t id;
    uint64_t place; /* in the family */
} member;

typedef struct family {
    uint64_t id;
    uint64_t reset_id; /* for weir_store_current_id() */
    size_t len;
    member of[MEMBERS]; /* the newest first, as of the last look */
    uint64_t changes;   /* of the registry, at the last look */
    struct family *next;
    struct family *next_noted;
    bool noted;     /* a limit of it was noted since the last weir_store_keep() */
    uint64_t turns; /* 2 + how often weir_store_keep() found that */
} family;

/* A limit of a family. */
typedef struct variant {
    uint64_t id;
    uint64_t text_id; /* weir_store_policy_id() */
    family *family;
    weir_policy policy; /* its time zone is one of the store */
    uint64_t turn;      /* family->turns when it was noted last */
    struct variant *next;
} variant;

struct weir_kept {
    port_mutex *mutex; /* guards all below. Variants are never removed */
    family *families;
    family *noted;
    variant *slot[SLOTS];
    bool begun; /* weir_store_keep() was called */
};

weir_kept *weir_kept_new(void)
{
    weir_kept *k = port_zalloc(1, sizeof *k);
    if (k && !(k->mutex = port_mutex_new())) {
        port_free(k);
        return NULL;
    }
    return k;
}

void weir_kept_free(weir_kept *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < SLOTS; i++) {
        for (variant *next, *v = k->slot[i]; v; v = next) {
            next = v->next;
            port_free(v);
        }
    }
    for (family *next, *f = k->families; f; f = next) {
        next = f->next;
        port_free(f);
    }
    port_mutex_free(k->mutex);
    port_free(k);
}

/* ---- families -------------------------------------------------------------------------------- */

static uint64_t family_id(const weir_store *s, const weir_policy *p, const char *name, size_t len)
{
    char shape[WEIR_POLICY_TEXT_MAX];
    weir_secret secret = {weir_siphash(s->secret, shape, weir_policy_shape(p, shape, sizeof shape)),
                          0x66616d696c79};
    return weir_siphash(secret, name, len);
}

#define MEMBER_TEXT WEIR_MEMBER_TEXT "%016" PRIx64 " %016" PRIx64 /* its number and its id */

static member read_member(const weir_store *s, const family *f, uint64_t place)
{
    char text[64] = "";
    member m = {.place = place};
    (void)weir_policy_registry_text(weir_image_policies(s->image), f->id + place, text,
                                    sizeof text);
    if (sscanf(text, WEIR_MEMBER_TEXT "%" SCNx64 " %" SCNx64, &m.number, &m.id) != 2)
        m.number = m.id = 0;
    return m;
}

/* Notices members that were added. */
static void look(const weir_store *s, family *f)
{
    uint64_t changes = weir_policy_registry_changes(weir_image_policies(s->image));
    if (changes == f->changes)
        return;
    f->changes = changes;
    f->len = 0;
    for (size_t i = 0; i < MEMBERS; i++) {
        size_t at = i;
        member m = read_member(s, f, i);
        for (; at > 0 && f->of[at - 1].number < m.number; at--)
            f->of[at] = f->of[at - 1];
        f->of[at] = m;
        f->len += m.number > 0;
    }
}

/* The place of an id in the order of members; MEMBERS if it is none. */
static size_t order_of(const family *f, uint64_t id)
{
    size_t i = 0;
    while (i < f->len && f->of[i].id != id)
        i++;
    return i < f->len ? i : MEMBERS;
}

static family *get_family(weir_kept *k, uint64_t id, uint64_t reset_id)
{
    family *f = k->families;
    while (f && f->id != id)
        f = f->next;
    if (!f && (f = port_zalloc(1, sizeof *f))) {
        f->id = id;
        f->reset_id = reset_id;
        f->changes = UINT64_MAX; /* unlike any */
        f->turns = 2; /* more than 0, the turn of what was not noted, and not the next one */
        f->next = k->families;
        k->families = f;
    }
    return f;
}

static variant *find_variant(const weir_kept *k, uint64_t id)
{
    variant *v = k->slot[id % SLOTS];
    while (v && v->id != id)
        v = v->next;
    return v;
}

/* Returns a member of a family, whose policy is in the registry. NULL if it is not, or if memory is
 * exhausted. */
static variant *get_variant(const weir_store *s, uint64_t id, family *f)
{
    weir_policy p;
    variant *v = find_variant(s->kept, id);
    if (v || weir_store_policy_find(s, id, &p) != WEIR_OK || !(v = port_zalloc(1, sizeof *v)))
        return v;
    v->id = id;
    v->text_id = weir_store_policy_id(s, &p);
    v->family = f;
    v->policy = p;
    v->next = s->kept->slot[id % SLOTS];
    s->kept->slot[id % SLOTS] = v;
    return v;
}

static void note_family(weir_kept *k, family *f)
{
    if (f->noted)
        return;
    f->noted = true;
    f->next_noted = k->noted;
    k->noted = f;
}

/* Forgets the text of an id, unless a reservation needs it. */
static void forget_text(const weir_store *s, uint64_t id)
{
    if (!weir_reserve_refers(s->reserved, id))
        weir_policy_registry_forget(weir_image_policies(s->image), id);
}

/* Forgets the text of a limit that is no member any more, and of its policy if no member that this
 * process knows has it. */
static void forget_limit(const weir_store *s, uint64_t id)
{
    const variant *of = find_variant(s->kept, id);
    bool used = !of;
    for (size_t i = 0; i < SLOTS && !used; i++) {
        for (const variant *v = s->kept->slot[i]; v && !used; v = v->next)
            used = v->text_id == of->text_id && order_of(v->family, v->id) < MEMBERS;
    }
    forget_text(s, id);
    if (!used)
        forget_text(s, of->text_id);
}

/* The turn in which this process noted a limit last; 0: it did not. */
static uint64_t turn_of(const weir_store *s, uint64_t id)
{
    const variant *v = find_variant(s->kept, id);
    return v ? v->turn : 0;
}

/* Whether this process noted a limit in this turn or the last one. */
static bool is_in_use(const weir_store *s, const family *f, uint64_t id)
{
    return turn_of(s, id) + 1 >= f->turns;
}

/* Finds a free place; or else the member that was not in use for the longest time; or else the
 * oldest one. */
static member find_place(const weir_store *s, const family *f)
{
    member last = f->of[MEMBERS - 1];
    uint64_t turn = f->len < MEMBERS ? 0 : turn_of(s, last.id);
    for (size_t i = MEMBERS - 1; i-- > 0;) {
        uint64_t other = turn_of(s, f->of[i].id);
        if (other < turn && !is_in_use(s, f, f->of[i].id)) {
            last = f->of[i];
            turn = other;
        }
    }
    return last;
}

/* Whether a limit that is not in use is newer than a member. */
static bool has_newer_former(const weir_store *s, const family *f, size_t order)
{
    while (order-- > 0) {
        if (!is_in_use(s, f, f->of[order].id))
            return true;
    }
    return false;
}

/* Makes an id the newest member, in the place of another one or of its own. */
static void add_member(const weir_store *s, family *f, uint64_t id, member gone)
{
    char text[64];
    int len = snprintf(text, sizeof text, MEMBER_TEXT, f->of[0].number + 1, id);
    weir_policy_registry_forget(weir_image_policies(s->image), f->id + gone.place);
    (void)!weir_image_note_policy(s->image, f->id + gone.place, text, (size_t)len, true);
    look(s, f);
    if (gone.id != 0 && gone.id != id)
        forget_limit(s, gone.id);
}

/* A limit that is in use but no member is one of many. It stays so: otherwise all of them would
 * come and go in each turn. An old member that is in use becomes the newest, because a process that
 * opens the file later does not know that it is in use. */
static void note_member(const weir_store *s, family *f, uint64_t id)
{
    size_t order = order_of(f, id);
    if (order == MEMBERS && !is_in_use(s, f, id))
        add_member(s, f, id, find_place(s, f));
    else if (order >= OLD && order < MEMBERS && has_newer_former(s, f, order))
        add_member(s, f, id, f->of[order]);
}

weir_status weir_store_note_limit(const weir_store *s, uint64_t id, const weir_policy *p,
                                  const char *name, size_t len)
{
    weir_reserve_lock(s->reserved); /* one thread of all processes changes families */
    weir_store_note_policy(s, id, p);
    port_mutex_lock(s->kept->mutex);
    family *f = get_family(s->kept, family_id(s, p, name, len), weir_store_reset_id(name, len));
    bool no_memory = !f;
    if (f) {
        weir_policy unused;
        look(s, f);
        note_member(s, f, id);
        variant *v = get_variant(s, id, f);
        no_memory = !v && weir_store_policy_find(s, id, &unused) == WEIR_OK;
        if (v)
            v->turn = f->turns;
        note_family(s->kept, f);
    }
    port_mutex_unlock(s->kept->mutex);
    weir_reserve_unlock(s->reserved);
    return no_memory ? WEIR_E_NOMEM : WEIR_OK;
}

bool weir_store_keeps_limit(const weir_store *s, uint64_t id)
{
    port_mutex_lock(s->kept->mutex);
    const variant *v = find_variant(s->kept, id);
    bool keeps = v && order_of(v->family, id) < MEMBERS;
    port_mutex_unlock(s->kept->mutex);
    return keeps;
}

/* ---- how long former states matter ----------------------------------------------------------- */

/* How long a key of a layer may take to become idle. */
static int64_t span_of(const weir_layer *l)
{
    switch (l->calendar) {
    case WEIR_DAY:
        return 2 * DAY_NS;
    case WEIR_WEEK:
        return 8 * DAY_NS;
    case WEIR_MONTH:
        return 32 * DAY_NS;
    case WEIR_YEAR:
        return 367 * DAY_NS;
    case WEIR_ALIGNED:
    case WEIR_FROM_FIRST:
        break;
    }
    if (!weir_layer_is_bucket(l))
        return 2 * l->period_ns;
    /* No overflow: weir_layer_init() ensures that a bucket refills within WEIR_SPAN_NS_MAX. */
    if (l->stepped)
        return (l->limit / l->rate + 1) * l->period_ns;
    return (int64_t)weir_wide_div_ceil((weir_wide){l->cap_hi, l->cap_lo}, l->num);
}

/* The longest span of the members of a family, if it has several; else 0. */
static int64_t family_span(const weir_store *s, family *f)
{
    int64_t longest_ns = 0;
    look(s, f);
    for (size_t i = 0; f->len > 1 && i < f->len; i++) {
        const variant *v = get_variant(s, f->of[i].id, f);
        for (uint32_t j = 0; v && j < v->policy.layers; j++) {
            int64_t span_ns = span_of(&v->policy.layer[j]);
            longest_ns = span_ns > longest_ns ? span_ns : longest_ns;
        }
    }
    return longest_ns;
}

static bool area_has(const weir_area *at, uint64_t hash)
{
    size_t stripe = weir_large_stripe(at->large, hash);
    weir_large_lock(at->large, stripe);
    bool large = weir_large_has(at->large, hash);
    weir_large_unlock(at->large, stripe);
    return large || weir_table_has(at->table, hash);
}

/* Completes the moves of processes that were killed. The state of a hash is in one of all areas. */
static void complete_moves(weir_store *s)
{
    for (size_t slot = 0; slot < WEIR_TABLE_MOVES; slot++) {
        uint64_t from, to;
        bool moved = false;
        if (!weir_table_move_take_over(s->common.table, slot, &from, &to))
            continue;
        for (size_t i = 0; i <= s->partitions_len; i++)
            moved |= area_has(i > 0 ? &s->partitions[i - 1].area : &s->common, to);
        for (size_t i = 0; i <= s->partitions_len && moved; i++) {
            const weir_area *at = i > 0 ? &s->partitions[i - 1].area : &s->common;
            weir_table_reset(at->table, from);
            weir_large_reset(at->large, from);
        }
        weir_table_move_end(s->common.table, slot);
    }
}

void weir_store_keep(weir_store *s)
{
    int64_t longest_ns = 0;
    complete_moves(s);
    port_mutex_lock(s->kept->mutex);
    for (family *f; (f = s->kept->noted);) {
        int64_t span_ns = family_span(s, f);
        longest_ns = span_ns > longest_ns ? span_ns : longest_ns;
        s->kept->noted = f->next_noted;
        f->noted = false;
        f->turns++;
    }
    bool first = !s->kept->begun;
    s->kept->begun = true;
    port_mutex_unlock(s->kept->mutex);
    /* The limits of a new store have no former ones. Later, another thread or process may use a
     * former limit even if there is no key yet. */
    if (longest_ns == 0 ||
        (first && weir_image_is_new(s->image) && weir_store_stats_get(s).keys == 0))
        return;
    int64_t until_ns = weir_ns_add(weir_store_now(s), weir_ns_add(longest_ns, HOUR_NS));
    weir_table_keep_until(s->common.table, until_ns);
}

/* ---- moving a state -------------------------------------------------------------------------- */

/* Finds the limit that has an id in a generation of its states. */
static const variant *find_limit(const weir_store *s, uint64_t id)
{
    const variant *v = find_variant(s->kept, id);
    for (size_t i = 0; i < SLOTS && !v; i++) {
        for (v = s->kept->slot[i]; v && !weir_id_is_of(s, id, v->id, v->family->reset_id);)
            v = v->next;
    }
    return v;
}

bool weir_kept_may_have_moved(weir_store *s, uint64_t recorded_id, int64_t now_ns)
{
    bool may_have_moved = false;
    weir_table *t = s->common.table;
    if (!weir_kept_until(weir_table_kept_until(t), weir_table_now(t, now_ns)))
        return false;
    port_mutex_lock(s->kept->mutex);
    for (size_t i = 0; i < SLOTS; i++) {
        for (const variant *v = s->kept->slot[i]; v; v = v->next) {
            if (!weir_id_is_of(s, recorded_id, v->id, v->family->reset_id) &&
                ((recorded_id ^ v->text_id) & ~WEIR_ID_PARTITION) != 0)
                continue;
            look(s, v->family);
            may_have_moved |= v->family->len > 1;
        }
    }
    port_mutex_unlock(s->kept->mutex);
    return may_have_moved;
}

/* A key under the id of another limit of its family. */
typedef struct former {
    const weir_policy *policy;
    const weir_area *at;
    uint64_t hash;
} former;

/* Finds where the state of a key may be, the newest limit first: under the ids of the generation of
 * policy_id, which differ from those of generation 0 in the same bits. Returns how many there
 * are. */
static size_t find_formers(weir_store *s, uint64_t policy_id, const void *key, size_t key_len,
                           former ret[WEIR_FORMER_MAX])
{
    size_t n = 0;
    port_mutex_lock(s->kept->mutex);
    const variant *own = find_limit(s, policy_id);
    family *f = own ? own->family : NULL;
    uint64_t generation = own ? own->id ^ policy_id : 0;
    if (f)
        look(s, f);
    for (size_t i = 0; f && i < f->len && n < WEIR_FORMER_MAX; i++) {
        uint64_t id = f->of[i].id;
        const variant *v = id != own->id ? get_variant(s, id, f) : NULL;
        if (v)
            ret[n++] = (former){&v->policy, weir_area_of(s, id),
                                weir_store_hash(s, id ^ generation, key, key_len)};
    }
    port_mutex_unlock(s->kept->mutex);
    return n;
}

static bool is_small(const weir_policy *p)
{
    return weir_table_words(p) > 0;
}

/* A state that moves, and the callback that runs on it afterwards. */
typedef struct move {
    const weir_area *at;         /* of the new state */
    const weir_large_call *call; /* the request's own */
    const former *of;
    size_t n;
    const weir_policy *from; /* NULL: no state was found */
    const uint64_t *state;
    unsigned level;
    uint64_t from_hash;
    uint64_t small[WEIR_ENTRY_WORDS];                 /* a copy of a state of the table */
    size_t slot;                                      /* of the journal; WEIR_TABLE_MOVES: none */
    size_t stripes[WEIR_TABLE_MANY_MAX], stripes_len; /* of the large states, locked */
    weir_status status;
} move;

/* One of the keys in the table. */
typedef struct place {
    move *m;
    uint64_t hash;
} place;

/* Takes the state of a former limit, and leaves zeros. Only the newest one counts. */
static weir_status take_out(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                            int64_t now_ns, weir_usage *ret_usage)
{
    (void)now_ns;
    (void)ret_usage;
    const place *at = ctx;
    move *m = at->m;
    bool found = !weir_state_is_zero(p, state, level), first = found && !m->from;
    for (size_t i = weir_state_words(p, level); i-- > 0;) {
        if (first)
            m->small[i] = state[i];
        state[i] = 0;
    }
    if (first) {
        m->from = p;
        m->from_hash = at->hash;
        m->state = m->small;
        m->level = level;
    }
    return WEIR_OK;
}

/* ---- large states ---------------------------------------------------------------------------- */

/* Adds a stripe to those that are in ascending order, each once. */
static void add_stripe(move *m, size_t stripe)
{
    size_t to = m->stripes_len;
    while (to > 0 && m->stripes[to - 1] > stripe)
        to--;
    if (to > 0 && m->stripes[to - 1] == stripe)
        return;
    for (size_t i = m->stripes_len++; i > to; i--)
        m->stripes[i] = m->stripes[i - 1];
    m->stripes[to] = stripe;
}

/* Locks the stripes of all large states, while all small ones are locked. Finds the state, if no
 * small one was found. */
static void find_large(move *m)
{
    weir_large *l = m->at->large;
    for (size_t i = 0; i < m->n; i++) {
        if (!is_small(m->of[i].policy))
            add_stripe(m, weir_large_stripe(l, m->of[i].hash));
    }
    if (!is_small(m->call->policy))
        add_stripe(m, weir_large_stripe(l, m->call->hash));
    for (size_t i = 0; i < m->stripes_len; i++)
        weir_large_lock(l, m->stripes[i]);
    for (size_t i = 0; i < m->n && !m->from; i++) {
        const former *of = &m->of[i];
        m->state =
            is_small(of->policy) ? NULL : weir_large_look(l, of->policy, of->hash, &m->level);
        m->from = m->state ? of->policy : NULL;
        m->from_hash = of->hash;
    }
}

static void end_large(move *m, bool moved)
{
    for (size_t i = 0; i < m->n && moved; i++) {
        if (!is_small(m->of[i].policy))
            weir_large_drop(m->at->large, m->of[i].hash);
    }
    if (m->slot < WEIR_TABLE_MOVES)
        weir_table_move_end(m->at->table, m->slot);
    for (size_t i = m->stripes_len; i-- > 0;)
        weir_large_unlock(m->at->large, m->stripes[i]);
}

/* ---- the transaction ------------------------------------------------------------------------- */

/* Puts the state that was found in the place of zeros, and runs the callback. */
static weir_status put_in(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                          int64_t now_ns, weir_usage *ret_usage)
{
    const move *m = ctx;
    if (m->from && weir_state_is_zero(p, state, level) &&
        weir_state_convert(m->from, m->state, m->level, p, now_ns, state, level) == WEIR_E_ROOM)
        return WEIR_E_ROOM;
    return m->call->fn(m->call->ctx, p, state, level, now_ns, ret_usage);
}

/* The same for a small state: the last callback of the transaction. */
static weir_status find_and_put_in(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                   int64_t now_ns, weir_usage *ret_usage)
{
    move *m = ctx;
    find_large(m);
    m->status = put_in(m, p, state, level, now_ns, ret_usage);
    return m->status;
}

static void note_move(move *m)
{
    if (m->from && m->status == WEIR_OK)
        m->slot = weir_table_move_begin(m->at->table, m->from_hash, m->call->hash);
}

/* Runs under the locks of all small states. A large state is committed here, before small ones are
 * removed. */
static bool decide(void *ctx, const weir_table_one *ones)
{
    (void)ones;
    move *m = ctx;
    if (is_small(m->call->policy)) {
        note_move(m);
        return m->status == WEIR_OK;
    }
    find_large(m);
    weir_large_call with = *m->call;
    with.fn = put_in;
    with.ctx = m;
    with.kept_until_ns = NULL;
    size_t own = weir_large_stripe(m->at->large, with.hash);
    m->status = weir_large_try(m->at->large, &with);
    note_move(m);
    if (m->status == WEIR_OK)
        weir_large_commit(m->at->large, own);
    else
        weir_large_roll_back(m->at->large, own);
    return m->status == WEIR_OK;
}

static void finish(void *ctx, bool written)
{
    (void)ctx;
    (void)written;
}

static weir_status run(move *m)
{
    weir_table_one ones[WEIR_TABLE_MANY_MAX];
    place places[WEIR_FORMER_MAX];
    size_t len = 0;
    for (size_t i = 0; i < m->n; i++) {
        const former *of = &m->of[i];
        places[i] = (place){m, of->hash};
        if (is_small(of->policy))
            ones[len++] = (weir_table_one){of->policy, of->hash, take_out,
                                           &places[i], WEIR_OK,  of->at->table};
    }
    if (is_small(m->call->policy))
        ones[len++] = (weir_table_one){m->call->policy, m->call->hash, find_and_put_in, m,
                                       WEIR_OK,         m->at->table};
    weir_status st =
        weir_table_run_many(m->at->table, ones, len, m->call->now_ns, decide, finish, m);
    if (st != WEIR_OK) /* a small state did not fit */
        m->status = st;
    end_large(m, m->status == WEIR_OK);
    return m->status;
}

/* Leaves out large states that cannot be locked together with those of `at`. */
static size_t of_one_area(const weir_area *at, former *of, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_small(of[i].policy) || of[i].at->large == at->large)
            of[len++] = of[i];
    }
    return len;
}

weir_status weir_kept_run(weir_store *s, const weir_area *at, const weir_large_call *call,
                          const weir_store_request *named)
{
    former of[WEIR_FORMER_MAX];
    size_t n = named->key ? find_formers(s, named->policy_id, named->key, named->key_len, of) : 0;
    move m = {
        .at = at, .call = call, .of = of, .n = of_one_area(at, of, n), .slot = WEIR_TABLE_MOVES};
    bool reserved = m.n > 0 && weir_reserve_any(s->reserved);
    if (reserved)
        weir_reserve_lock(s->reserved);
    weir_status st = run(&m);
    for (size_t i = 0; reserved && st == WEIR_OK && i < m.n; i++) {
        if (!m.from || m.from_hash == of[i].hash)
            weir_reserve_rename(s->reserved, of[i].hash, call->hash,
                                weir_recorded_id(s, call->policy, named->policy_id));
    }
    if (reserved)
        weir_reserve_unlock(s->reserved);
    return st;
}

weir_status weir_kept_run_there(weir_store *s, const weir_large_call *call,
                                const weir_store_request *named)
{
    former of[WEIR_FORMER_MAX];
    size_t n = find_formers(s, named->policy_id, named->key, named->key_len, of);
    weir_status st = WEIR_E_ABSENT;
    for (size_t i = 0; i < n && st == WEIR_E_ABSENT; i++) {
        weir_large_call there = *call;
        there.policy = of[i].policy;
        there.hash = of[i].hash;
        st = weir_store_call(s, of[i].at, &there, NULL);
        st = st == WEIR_E_ELSEWHERE ? WEIR_E_ABSENT : st;
    }
    return st;
}

void weir_kept_move(weir_store *s, const weir_store_request *request, int64_t now_ns)
{
    const weir_area *at = weir_area_of(s, request->policy_id);
    weir_state_call peek = {.cost = 0};
    if (!weir_kept_until(weir_table_kept_until(at->table), weir_table_now(at->table, now_ns)))
        return;
    weir_large_call call = {
        .policy = request->policy,
        .hash = weir_store_hash(s, request->policy_id, request->key, request->key_len),
        .now_ns = now_ns,
        .fn = weir_peek_state,
        .ctx = &peek};
    (void)!weir_kept_run(s, at, &call, request); /* the call that follows has the same error */
}

void weir_kept_reset(weir_store *s, uint64_t policy_id, const void *key, size_t key_len)
{
    former of[WEIR_FORMER_MAX];
    size_t n = find_formers(s, policy_id, key, key_len, of);
    for (size_t i = 0; i < n; i++) {
        weir_reserve_zero_units(s->reserved, of[i].hash);
        weir_table_reset(of[i].at->table, of[i].hash);
        weir_large_reset(of[i].at->large, of[i].hash);
    }
}
