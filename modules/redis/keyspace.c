/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Cells: from a value to the core and back. */

#include "keyspace.h"

#include "core/check.h"
#include "replicate.h"
#include "serialise.h"
#include "service/full_quota.h"

#include <string.h>

redis_type *weir_data_type;

/* ---- keys ------------------------------------------------------------------------------------ */

bool weir_key_open(weir_open_key *t, redis_ctx *ctx, redis_string *name, int mode)
{
    *t = (weir_open_key){.name = name, .key = redis.OpenKey(ctx, name, mode)};
    if (!t->key || redis.KeyType(t->key) == REDIS_KEY_EMPTY)
        return true;
    if (redis.ModuleTypeGetType(t->key) != weir_data_type) {
        redis.CloseKey(t->key);
        return false;
    }
    t->there = true;
    t->value = (weir_value)redis.ModuleTypeGetValue(t->key);
    return true;
}

void weir_key_put(weir_open_key *t)
{
    void *old;
    if (t->there)
        redis.ModuleTypeReplaceValue(t->key, weir_data_type, (void *)t->value, &old);
    else if (t->value)
        redis.ModuleTypeSetValue(t->key, weir_data_type, (void *)t->value);
    if (t->there && !t->value)
        redis.DeleteKey(t->key); /* which frees what is there: nothing any more */
    t->there = t->value != 0;
}

void weir_key_close(weir_open_key *t)
{
    if (t->key)
        redis.CloseKey(t->key);
}

/* ---- cells ----------------------------------------------------------------------------------- */

static void open_fresh(weir_cell *c)
{
    c->fresh = true;
    c->level = 0;
    c->words = weir_state_words(&c->scope->policy, 0);
    if (c->words <= WEIR_CELL_SMALL) {
        memset(c->small, 0, c->words * sizeof c->small[0]);
        c->state = c->small;
        return;
    }
    c->made = weir_heap_state_new(c->scope, 0, c->words);
    c->state = c->made->state;
}

static int64_t fresh_after(weir_value v, size_t i, int64_t now_ns)
{
    weir_state_view view;
    weir_value_at(v, i, &view);
    return weir_fresh_after(&view.scope->policy, view.state, view.level, now_ns);
}

static bool is_opened(const weir_open_key *t, const weir_interned *s)
{
    size_t i = 0;
    while (i < t->opened && t->scope[i] != s)
        i++;
    return i < t->opened;
}

/* State i is not needed: it is as good as fresh, and the command does not decide on it. */
static bool is_spare(const weir_open_key *t, size_t i, int64_t now_ns)
{
    weir_state_view view;
    weir_value_at(t->value, i, &view);
    return !is_opened(t, view.scope) && fresh_after(t->value, i, now_ns) == 0;
}

/* Whether the key's states and the new ones leave a value that can be told in one piece, however
 * far all of them grow. */
static bool fits(const weir_open_key *t, bool without_spare, int64_t now_ns)
{
    size_t policies = 0, bytes = 0, len = weir_value_len(t->value);
    for (size_t i = 0; i < t->opened; i++) {
        if (weir_value_find(t->value, t->scope[i]) < len)
            continue;
        policies++;
        bytes += weir_bytes_most(t->scope[i]);
    }
    for (size_t i = 0; i < len; i++) {
        weir_state_view view;
        if (without_spare && is_spare(t, i, now_ns))
            continue;
        weir_value_at(t->value, i, &view);
        policies++;
        bytes += weir_bytes_most(view.scope);
    }
    return policies <= WEIR_POLICIES_OF_KEY && bytes <= WEIR_VALUE_BYTES_MAX;
}

static bool has_room(weir_open_key *t, int64_t now_ns)
{
    if (!t->crowded && fits(t, false, now_ns))
        return true;
    t->crowded = true;
    return fits(t, true, now_ns);
}

weir_status weir_cell_open(weir_cell *c, weir_open_key *t, weir_interned *s, int64_t now_ns)
{
    weir_state_view view;
    c->target = t;
    c->scope = s;
    c->fresh = false;
    c->made = c->there = NULL;
    c->notes = NULL;
    c->notes_len = 0;
    t->scope[t->opened++] = s;
    size_t i = weir_value_find(t->value, s), len = weir_value_len(t->value);
    bool full = (t->crowded || (i == len && len + t->opened > 1)) && !has_room(t, now_ns);
    if (i == len) {
        open_fresh(c);
        return full ? WEIR_E_FULL : WEIR_OK;
    }
    weir_value_at(t->value, i, &view);
    c->level = c->level_before = view.level;
    c->words = view.words;
    if (view.words > WEIR_CELL_SMALL) {
        c->there = weir_value_heap_state(t->value, i);
        c->state = c->there->state;
        return full ? WEIR_E_FULL : WEIR_OK;
    }
    memcpy(c->small, view.state, view.words * sizeof c->small[0]);
    memcpy(c->before, view.state, view.words * sizeof c->before[0]);
    c->state = c->small;
    return full ? WEIR_E_FULL : WEIR_OK;
}

void weir_cell_close(weir_cell *c)
{
    for (size_t i = c->notes_len; i-- > 0;)
        c->there->state[c->notes[i].word] = c->notes[i].before;
    redis.Free(c->notes);
    weir_heap_state_free(c->made);
}

/* Notes what the words hold that are going to be written. */
static void note(weir_cell *c, int64_t now_ns, int64_t refund)
{
    enum { MOST = 64 };
    size_t word[MOST];
    size_t n = weir_state_writes(&c->scope->policy, c->state, c->level, now_ns, refund, word, MOST);
    bool any = n > MOST;
    n = any ? c->words : n;
    c->notes = redis.Realloc(c->notes, (c->notes_len + n) * sizeof *c->notes + 1);
    for (size_t k = 0; k < n; k++) {
        uint32_t at = (uint32_t)(any ? k : word[k]);
        c->notes[c->notes_len++] = (weir_note){at, c->state[at]};
    }
}

/* To the next level. False if that is too large. */
static bool grow(weir_cell *c)
{
    const weir_policy *p = &c->scope->policy;
    size_t words = weir_state_words(p, c->level + 1);
    if (words > WEIR_STATE_WORDS_MAX)
        return false;
    if (words <= WEIR_CELL_SMALL) {
        uint64_t from[WEIR_CELL_SMALL];
        memcpy(from, c->small, sizeof from);
        weir_state_grow(p, from, c->level, c->small);
    } else {
        weir_heap_state *wider = weir_heap_state_new(c->scope, c->level + 1, words);
        weir_state_grow(p, c->state, c->level, wider->state);
        weir_heap_state_free(c->made);
        c->made = wider;
        c->state = wider->state;
    }
    c->level++;
    c->words = words;
    return true;
}

static weir_status check(weir_cell *c, int64_t now_ns, int64_t cost, weir_decision *ret)
{
    weir_status st;
    if (c->there && !c->made)
        note(c, now_ns, 0);
    while ((st = weir_check(&c->scope->policy, c->state, c->level, now_ns, cost, ret)) ==
           WEIR_E_ROOM) {
        if (!grow(c))
            return WEIR_E_NOMEM;
    }
    return st;
}

static weir_status peek(const weir_cell *c, int64_t now_ns, int64_t cost, weir_decision *ret)
{
    return weir_peek(&c->scope->policy, c->state, c->level, now_ns, cost, ret);
}

static weir_status refund(weir_cell *c, int64_t now_ns, int64_t n, weir_decision *ret)
{
    if (c->there && !c->made)
        note(c, now_ns, n);
    return weir_refund(&c->scope->policy, c->state, c->level, now_ns, n, ret);
}

static weir_status grant(weir_cell *c, int64_t now_ns, int64_t n, weir_decision *ret,
                         int64_t *ret_granted)
{
    weir_decision d;
    weir_status st = peek(c, now_ns, 0, &d);
    int64_t most = st == WEIR_OK && n > d.remaining ? d.remaining : n;
    if (st == WEIR_OK && most > 0)
        st = check(c, now_ns, most, &d);
    if (st == WEIR_OK)
        st = peek(c, now_ns, 1, ret);
    if (st == WEIR_OK)
        *ret_granted = most;
    return st;
}

static void reset(weir_cell *c, weir_decision *ret)
{
    *ret = weir_full_quota(&c->scope->policy);
    weir_heap_state_free(c->made);
    c->made = NULL;
    c->state = NULL; /* there is none */
}

weir_status weir_cell_decide(weir_cell *c, weir_verb verb, int64_t now_ns, int64_t n,
                             weir_decision *ret, int64_t *ret_granted)
{
    *ret_granted = 0;
    switch (verb) {
    case WEIR_VERB_TAKE:
        return check(c, now_ns, n, ret);
    case WEIR_VERB_PEEK:
        return peek(c, now_ns, n, ret);
    case WEIR_VERB_REFUND:
        return refund(c, now_ns, n, ret);
    case WEIR_VERB_GRANT:
        return grant(c, now_ns, n, ret, ret_granted);
    case WEIR_VERB_RESET:
        reset(c, ret);
        return WEIR_OK;
    case WEIR_VERB_THROTTLE: /* decided by weir_throttle_check() on c->state */
        break;
    }
    return WEIR_E_RANGE;
}

/* ---- keeping --------------------------------------------------------------------------------- */

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
    if (!c->state)
        return !c->fresh;
    if (c->fresh)
        return !is_zero(c->state, c->words);
    if (c->made)
        return true;
    if (!c->there)
        return c->level != c->level_before ||
               memcmp(c->small, c->before, c->words * sizeof c->small[0]) != 0;
    for (size_t i = 0; i < c->notes_len; i++) {
        if (c->there->state[c->notes[i].word] != c->notes[i].before)
            return true;
    }
    return false;
}

/* Of more words than this, those that changed are told. */
enum { LONG = 64 };

/* What was done to a value, in this order. */
typedef struct deed {
    size_t i;
    const weir_cell *cell; /* NULL: state i was dropped */
    bool patched;
    size_t end; /* of its changes in the payload */
} deed;

typedef struct deeds {
    size_t len;
    deed of[2 * WEIR_DECIDED_MAX + WEIR_STATES_MAX]; /* no state is dropped twice */
} deeds;

static void keep_cell(weir_cell *c, deeds *done)
{
    weir_value *v = &c->target->value;
    size_t i = weir_value_find(*v, c->scope);
    done->of[done->len++] =
        (deed){.i = i, .cell = c->state ? c : NULL, .patched = c->there && !c->made};
    if (!c->state) {
        *v = weir_value_drop(*v, i);
    } else if (c->made) {
        *v = weir_value_put_heap_state(*v, i, c->made);
        c->made = NULL;
        c->notes_len = 0; /* of what was there before it */
    } else if (!c->there) {
        *v = weir_value_put(*v, i, c->scope, c->level, c->small, c->words);
    }
}

/* Returns after how long the whole value is as good as fresh; what already is, is dropped. */
static int64_t drop_fresh(weir_value *v, int64_t now_ns, deeds *done)
{
    int64_t longest_ns = 0;
    for (size_t i = weir_value_len(*v); i-- > 0;) {
        int64_t after_ns = fresh_after(*v, i, now_ns);
        if (after_ns > longest_ns)
            longest_ns = after_ns;
        if (after_ns > 0)
            continue;
        done->of[done->len++] = (deed){.i = i};
        *v = weir_value_drop(*v, i);
    }
    return longest_ns;
}

static void drop_spare(weir_open_key *t, int64_t now_ns, deeds *done)
{
    for (size_t i = weir_value_len(t->value); i-- > 0;) {
        if (!is_spare(t, i, now_ns))
            continue;
        done->of[done->len++] = (deed){.i = i};
        t->value = weir_value_drop(t->value, i);
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
    uint32_t *word = redis.Alloc(c->notes_len * sizeof *word + 1);
    size_t n = 0;
    for (size_t k = 0; k < c->notes_len; k++) {
        if (c->state[c->notes[k].word] != c->notes[k].before)
            word[n++] = c->notes[k].word;
    }
    weir_serialise_patch(out, i, c->state, word, n);
    redis.Free(word);
}

/* Those from `first` on, each as changes of its own: who is told of several at once takes a copy of
 * the value, which may be long. Before any state is dropped, since sets are of the value as it is
 * then. */
static void put_deeds(weir_buffer *out, weir_value v, deeds *done, size_t first)
{
    for (size_t k = first; k < done->len; k++) {
        deed *d = &done->of[k];
        weir_state_view view;
        weir_serialise_changes(out, 1);
        if (!d->cell) {
            weir_serialise_drop(out, d->i);
        } else if (d->patched) {
            put_patch(out, d->i, d->cell);
        } else {
            weir_value_at(v, weir_value_find(v, d->cell->scope), &view);
            weir_serialise_set(out, d->i, &view);
        }
        d->end = weir_buffer_len(out);
    }
}

static int64_t expiry_ms(weir_moment at, int64_t after_ns)
{
    int64_t ns = after_ns < INT64_MAX - at.wall_ns ? at.wall_ns + after_ns : INT64_MAX;
    return ns / 1000000 + (ns % 1000000 > 0);
}

/* Tells whoever follows: of all deeds in one payload, or of each in its own. */
static void tell(redis_ctx *ctx, const weir_open_key *t, int64_t at_ms, const weir_buffer *payload,
                 const deeds *done, bool by_changes)
{
    const char *bytes = (const char *)weir_buffer_data(payload);
    size_t begin = 0;
    for (size_t k = 0; k < (by_changes ? done->len : 1); k++) {
        size_t end = by_changes ? done->of[k].end : weir_buffer_len(payload);
        redis.Replicate(ctx, "WEIR.STATE", "slb", t->name, (long long)at_ms, bytes + begin,
                        end - begin);
        begin = end;
    }
}

/* Writes a target; at_ms is when it is fresh. payload: NULL if nobody follows; then the server, of
 * which the same is asked, drops what is told here, and counts one more change to be saved. */
static void write_target(redis_ctx *ctx, weir_open_key *t, int64_t at_ms,
                         const weir_buffer *payload, const deeds *done, bool by_changes,
                         const char *event)
{
    if (!t->there && !t->value)
        return; /* what was charged is as good as fresh at once */
    weir_key_put(t);
    if (t->value != 0)
        redis.SetAbsExpire(t->key, at_ms);
    if (!payload)
        redis.ReplicateVerbatim(ctx);
    else if (t->value == 0)
        redis.Replicate(ctx, "DEL", "s", t->name);
    else
        tell(ctx, t, at_ms, payload, done, by_changes);
    redis.SignalModifiedKey(ctx, t->name);
    redis.NotifyKeyspaceEvent(ctx, REDIS_EVENT_OF_MODULE, event, t->name);
    if (t->value == 0)
        redis.NotifyKeyspaceEvent(ctx, REDIS_EVENT_GENERIC, "del", t->name);
}

/* Where payloads are put together: its memory stays, unless it was much. */
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

static void keep_target(redis_ctx *ctx, weir_open_key *t, weir_cell *cells, size_t n,
                        weir_moment at, const char *event)
{
    deeds done;
    bool changed = false;
    done.len = 0;
    for (size_t i = 0; i < n; i++) {
        if (cells[i].target != t || !has_changed(&cells[i]))
            continue;
        if (!changed && t->crowded)
            drop_spare(t, at.now_ns, &done);
        changed = true;
        keep_cell(&cells[i], &done);
    }
    if (!changed)
        return;
    weir_buffer *out = weir_must_replicate(ctx) ? scratch_begin() : NULL;
    bool by_changes = out && is_long(t->value);
    if (by_changes)
        put_deeds(out, t->value, &done, 0);
    size_t kept = done.len;
    int64_t after_ns = drop_fresh(&t->value, at.now_ns, &done);
    if (by_changes)
        put_deeds(out, t->value, &done, kept);
    else if (out && t->value)
        weir_serialise_value(out, t->value);
    write_target(ctx, t, expiry_ms(at, after_ns), out, &done, by_changes, event);
    if (out)
        scratch_end();
}

void weir_cells_write(redis_ctx *ctx, weir_cell *cells, size_t n, weir_moment at, const char *event)
{
    for (size_t i = 0; i < n; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || cells[k].target == cells[i].target;
        if (!seen)
            keep_target(ctx, cells[i].target, cells, n, at, event);
    }
    for (size_t i = 0; i < n; i++)
        cells[i].notes_len = 0;
}
