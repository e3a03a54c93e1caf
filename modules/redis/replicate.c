/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Writing back and replicating.
 *
 * weir_must_replicate() queries the server once, and again after each event that may change the
 * answer. These events suffice, because a replica or an AOF starts in one of three ways:
 * - From a copy of the data set. A forked child or the server itself writes the copy; both cause an
 *   event. The server creates the replication backlog or the AOF before it begins the copy, but no
 *   reader needs changes from before the copy: the copy contains them.
 * - From a backlog that an earlier replica left, or that was loaded with the data set. Such a
 *   backlog existed when the server was queried.
 * - From the backlog of a replica that becomes a master. The change of role causes an event.
 * A node of a Cluster always replicates, since slots can migrate through separate streams. */

#include "keyspace.h"

#include "port/assert.h"
#include "store/siphash.h"

#include <string.h>

/* ---- whether to replicate -------------------------------------------------------------------- */

static bool is_known; /* must_replicate is valid until the next event */
static bool must_replicate;
static bool has_no_events; /* the server publishes no such events: always replicate */

static void on_event(redis_ctx *ctx, redis_event event, uint64_t what, void *data)
{
    (void)ctx;
    (void)event;
    (void)what;
    (void)data;
    is_known = false;
}

void weir_replicate_start(redis_ctx *ctx)
{
    static const uint64_t events[] = {REDIS_EVENT_ROLE, REDIS_EVENT_FORK, REDIS_EVENT_FILE};
    is_known = has_no_events = false;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        redis_event event = {events[i], REDIS_EVENT_VERSION};
        if (redis.SubscribeToServerEvent(ctx, event, on_event) != REDIS_OK)
            has_no_events = true;
    }
}

static bool has_backlog(redis_ctx *ctx)
{
    int error = REDIS_OK;
    redis_info *info = redis.GetServerInfo(ctx, "replication");
    unsigned long long active =
        redis.ServerInfoGetFieldUnsigned(info, "repl_backlog_active", &error);
    redis.FreeServerInfo(ctx, info);
    return active > 0 || error != REDIS_OK;
}

bool weir_must_replicate(redis_ctx *ctx)
{
    if (has_no_events)
        return true;
    if (!is_known) {
        int flags = redis.GetContextFlags(ctx);
        must_replicate = (flags & (REDIS_CONTEXT_AOF | REDIS_CONTEXT_CLUSTER)) || has_backlog(ctx);
        is_known = true;
    }
    return must_replicate;
}

/* ---- changes --------------------------------------------------------------------------------- */

static bool is_zero(const uint64_t *state, size_t words)
{
    for (size_t i = 0; i < words; i++) {
        if (state[i] != 0)
            return false;
    }
    return true;
}

static bool has_changed(const weir_cell *c)
{
    if (c->former)
        return true;
    if (!c->state)
        return !c->absent;
    if (c->absent)
        return !is_zero(c->state, c->words);
    if (c->new_state)
        return true;
    if (!c->in_place)
        return c->level != c->level_before ||
               memcmp(c->small, c->before, c->words * sizeof c->small[0]) != 0;
    for (size_t i = 0; i < c->undo_len; i++) {
        if (c->in_place->state[c->undo[i].word] != c->undo[i].before)
            return true;
    }
    return false;
}

/* A value of more words is replicated as the words that changed, not as a whole. */
enum { LONG = 64 };

/* A change to a value. */
typedef struct change {
    size_t i;              /* which state */
    const weir_cell *cell; /* NULL: the state was dropped */
    bool patched;          /* written in place: the cell's undo log has the words */
    size_t end;            /* of its bytes in the payload */
} change;

/* In the order in which they were made. */
typedef struct changes {
    size_t len;
    change of[2 * WEIR_DECIDED_MAX + WEIR_STATES_MAX]; /* no state is dropped twice */
} changes;

/* Moves the state of a cell into the value of its key, in place of that of a former limit. */
static void store_cell(weir_cell *c, uint32_t epoch, changes *done)
{
    weir_value *v = &c->key->value;
    size_t i = weir_value_find(*v, c->former ? c->former : c->interned);
    WEIR_ASSERT(done->len < sizeof done->of / sizeof done->of[0]);
    WEIR_ASSERT((c->absent && !c->former) == (i == weir_value_len(*v)));
    done->of[done->len++] =
        (change){.i = i, .cell = c->state ? c : NULL, .patched = c->in_place && !c->new_state};
    if (!c->state) {
        *v = weir_value_drop(*v, i);
    } else if (c->new_state) {
        *v = weir_value_put_heap_state(*v, i, c->new_state);
        c->new_state = NULL;
        c->undo_len = 0; /* the state that it logged is gone */
    } else if (!c->in_place) {
        *v = weir_value_put(*v, i, c->interned, c->level, c->small, c->words, epoch);
    }
}

/* The expiry of a state by the clock of decisions: the first multiple of the policy's grid at which
 * it is idle. 0 if it is idle now, or of a former generation. */
static int64_t expiry_of(const weir_interned *s, const uint64_t *state, unsigned level,
                         int64_t now_ns)
{
    const weir_policy *p = &s->policy;
    int64_t after_ns, tat_ns = (int64_t)state[0];
    if (s->former)
        return 0;
    if (p->layers == 1 && p->layer[0].format == WEIR_STATE_TAT_NS) /* the usual case, inlined */
        after_ns = tat_ns > now_ns ? tat_ns - now_ns : 0;
    else
        after_ns = weir_fresh_after(p, state, level, now_ns);
    int64_t grid_ns = INT64_C(1) << s->grid;
    WEIR_ASSERT(after_ns >= 0 && now_ns >= 0);
    if (after_ns > INT64_MAX - now_ns - grid_ns)
        return INT64_MAX;
    return after_ns > 0 ? (now_ns + after_ns + grid_ns - 1) & -grid_ns : 0;
}

/* Drops the idle states. Returns the latest expiry of the others; 0 if there are none. */
static int64_t drop_idle(weir_value *v, int64_t now_ns, changes *done)
{
    int64_t last_ns = 0;
    for (size_t i = weir_value_len(*v); i-- > 0;) {
        weir_state_view view;
        weir_value_at(*v, i, &view);
        int64_t at_ns = expiry_of(view.interned, view.state, view.level, now_ns);
        if (at_ns > last_ns)
            last_ns = at_ns;
        if (at_ns == 0) {
            WEIR_ASSERT(done->len < sizeof done->of / sizeof done->of[0]);
            done->of[done->len++] = (change){.i = i};
            *v = weir_value_drop(*v, i);
        }
    }
    return last_ns;
}

/* Drops the idle states that the command does not decide on. */
static void make_room(weir_open_key *k, int64_t now_ns, changes *done)
{
    for (size_t i = weir_value_len(k->value); i-- > 0;) {
        if (weir_key_can_drop(k, i, now_ns)) {
            done->of[done->len++] = (change){.i = i};
            k->value = weir_value_drop(k->value, i);
        }
    }
}

static bool is_long(weir_value v)
{
    size_t words = 0;
    for (size_t i = 0; i < weir_value_len(v); i++) {
        const weir_heap_state *e = weir_value_heap_state(v, i);
        words += e ? e->words : 0;
    }
    return words > LONG;
}

static void put_patch(weir_buffer *out, size_t i, const weir_cell *c)
{
    uint32_t *word = redis.Alloc(c->undo_len * sizeof *word + 1);
    size_t n = 0;
    for (size_t k = 0; k < c->undo_len; k++) {
        if (c->state[c->undo[k].word] != c->undo[k].before)
            word[n++] = c->undo[k].word;
    }
    weir_serialise_patch(out, i, c->state, word, n);
    redis.Free(word);
}

/* Serialises the changes from `first` on, each as a payload of its own: a payload with several
 * changes makes the replica copy the value, which may be long. Must be called before the next state
 * is dropped, since a set item is serialised from the current value. */
static void put_changes(weir_buffer *out, weir_value v, changes *done, size_t first)
{
    for (size_t k = first; k < done->len; k++) {
        change *d = &done->of[k];
        weir_state_view view;
        weir_serialise_changes(out, 1);
        if (!d->cell) {
            weir_serialise_drop(out, d->i);
        } else if (d->patched) {
            put_patch(out, d->i, d->cell);
        } else {
            weir_value_at(v, weir_value_find(v, d->cell->interned), &view);
            weir_serialise_set(out, d->i, &view);
        }
        d->end = weir_buffer_len(out);
    }
}

/* Whether a key can keep its expiry: the state of cell c is its only state, before and after the
 * write, and both have the same expiry.
 *  epoch_before  of the value before the write */
static bool keeps_expiry(const weir_cell *c, uint32_t epoch_before, weir_moment at,
                         int64_t expiry_ns)
{
    return !c->former && epoch_before == at.epoch && weir_value_epoch(c->key->value) == at.epoch &&
           expiry_of(c->interned, c->before, c->level_before, at.now_ns) == expiry_ns;
}

/* The expiry of a key by the wall clock. Keys with equal expiries are spread over one interval of
 * the grid, since the server would otherwise delete them all at once. */
static int64_t wall_ms(const weir_open_key *k, const weir_interned *s, int64_t expiry_ns,
                       int64_t ahead_ns)
{
    size_t len;
    const char *name = redis.StringPtrLen(k->name, &len);
    uint64_t more = weir_siphash((weir_secret){0}, name, len) & ((UINT64_C(1) << s->grid) - 1);
    WEIR_ASSERT(expiry_ns >= 0 && ahead_ns >= 0);
    int64_t ns = ahead_ns + (int64_t)more;
    ns = expiry_ns < INT64_MAX - ns ? expiry_ns + ns : INT64_MAX;
    return ns / 1000000 + (ns % 1000000 > 0);
}

/* Replicates the payload whole, or each change by itself. */
static void replicate_payload(redis_ctx *ctx, const weir_open_key *k, int64_t at_ms,
                              const weir_buffer *payload, const changes *done, bool by_changes)
{
    const char *bytes = (const char *)weir_buffer_data(payload);
    size_t begin = 0;
    for (size_t i = 0; i < (by_changes ? done->len : 1); i++) {
        size_t end = by_changes ? done->of[i].end : weir_buffer_len(payload);
        redis.Replicate(ctx, "WEIR.STATE", "slb", k->name, (long long)at_ms, bytes + begin,
                        end - begin);
        begin = end;
    }
}

/* Writes a key.
 *  at_ms    its expiry
 *  moved    whether the expiry must be set
 *  payload  NULL: no replica and no AOF needs the change. Then the command itself is replicated:
 *           the server discards it, but counts one more change for its next save. */
static void write_key(redis_ctx *ctx, weir_open_key *k, int64_t at_ms, bool moved,
                      const weir_buffer *payload, const changes *done, bool by_changes,
                      const char *event)
{
    if (!k->exists && !k->value)
        return; /* a new key whose states are already idle again is not stored */
    weir_key_put(k);
    if (k->value != 0 && moved)
        redis.SetAbsExpire(k->key, at_ms);
    if (!payload)
        redis.ReplicateVerbatim(ctx);
    else if (k->value == 0)
        redis.Replicate(ctx, "DEL", "s", k->name);
    else
        replicate_payload(ctx, k, at_ms, payload, done, by_changes);
    redis.SignalModifiedKey(ctx, k->name);
    redis.NotifyKeyspaceEvent(ctx, REDIS_EVENT_OF_MODULE, event, k->name);
    if (k->value == 0)
        redis.NotifyKeyspaceEvent(ctx, REDIS_EVENT_GENERIC, "del", k->name);
}

/* The buffer of payloads. Its memory is kept, unless it grew large. */
static weir_buffer scratch;

static weir_buffer *scratch_begin(void)
{
    if (scratch.len_max == 0)
        weir_buffer_init(&scratch, WEIR_SERIALISED_MAX);
    weir_buffer_clear(&scratch);
    return &scratch;
}

static void scratch_end(void)
{
    enum { MUCH = 1 << 16 };
    if (weir_buffer_memory(&scratch) > MUCH)
        weir_buffer_free(&scratch);
}

/* Whether write_only() can write a cell: its state is small, and the only one of its key. */
static bool is_only_state(const weir_cell *c)
{
    return c->state == c->small && !c->key->must_drop_idle &&
           weir_value_len(c->key->value) == (c->absent && !c->former ? 0 : 1);
}

/* Does the same as write_cells() for such a cell if no replica and no AOF needs the change: the
 * usual case. */
static void write_only(redis_ctx *ctx, weir_cell *c, weir_moment at, const char *event)
{
    weir_open_key *k = c->key;
    uint32_t epoch_before = weir_value_epoch(k->value);
    int64_t expiry_ns = expiry_of(c->interned, c->state, c->level, at.now_ns);
    if (expiry_ns > 0)
        k->value = weir_value_put(k->value, 0, c->interned, c->level, c->state, c->words, at.epoch);
    else if (k->value)
        k->value = weir_value_drop(k->value, 0);
    bool moved = !keeps_expiry(c, epoch_before, at, expiry_ns);
    int64_t at_ms = moved ? wall_ms(k, c->interned, expiry_ns, at.ahead_ns) : 0;
    write_key(ctx, k, at_ms, moved, NULL, NULL, false, event);
}

static void write_cells(redis_ctx *ctx, weir_open_key *k, weir_cell *cells, size_t n,
                        weir_moment at, const char *event)
{
    changes done;
    const weir_cell *changed = NULL;
    uint32_t epoch_before = weir_value_epoch(k->value);
    done.len = 0;
    for (size_t i = 0; i < n; i++) {
        if (cells[i].key != k || !has_changed(&cells[i]))
            continue;
        if (!changed && k->must_drop_idle)
            make_room(k, at.now_ns, &done);
        changed = &cells[i];
        store_cell(&cells[i], at.epoch, &done);
    }
    if (!changed)
        return;
    weir_buffer *out = weir_must_replicate(ctx) ? scratch_begin() : NULL;
    bool by_changes = out && is_long(k->value);
    if (by_changes)
        put_changes(out, k->value, &done, 0);
    size_t stored = done.len;
    int64_t expiry_ns = drop_idle(&k->value, at.now_ns, &done);
    bool moved = !keeps_expiry(changed, epoch_before, at, expiry_ns);
    if (by_changes)
        put_changes(out, k->value, &done, stored);
    else if (out && k->value)
        weir_serialise_value(out, k->value);
    int64_t at_ms = out || moved ? wall_ms(k, changed->interned, expiry_ns, at.ahead_ns) : 0;
    write_key(ctx, k, at_ms, moved, out, &done, by_changes, event);
    if (out)
        scratch_end();
}

void weir_cells_write(redis_ctx *ctx, weir_cell *cells, size_t n, weir_moment at, const char *event)
{
    if (n == 1 && is_only_state(cells) && !weir_must_replicate(ctx)) {
        if (has_changed(cells))
            write_only(ctx, cells, at, event);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || cells[k].key == cells[i].key;
        if (!seen)
            write_cells(ctx, cells[i].key, cells, n, at, event);
    }
    for (size_t i = 0; i < n; i++)
        cells[i].undo_len = 0;
}
