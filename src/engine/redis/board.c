/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The board is several tables, each under a lock of its own that is held for a look or a change.
 * Only what an engine's own table does not know comes here, so that a hot key costs no lock. */

#include "engine/redis/board.h"

#include "port/port.h"

enum {
    STRIPES = 64,
    SPINS = 64 /* before another thread is let run */
};

typedef struct stripe {
    _Alignas(64) port_word lock; /* 1: held. Acquire and release: of `table` */
    weir_deny *table;
} stripe;

struct weir_board {
    uint64_t secret[4];
    weir_redis_stats *stats; /* deny_keys is kept up to date */
    stripe stripe[STRIPES];
};

static void lock(port_word *w)
{
    for (int i = 0;; i++) {
        uint64_t none = 0;
        if (port_word_cas_acquire(w, &none, 1))
            return;
        if (i < SPINS)
            port_pause();
        else
            port_yield();
    }
}

static void unlock(port_word *w)
{
    port_word_store_release(w, 0);
}

/* ---- its life -------------------------------------------------------------------------------- */

static void close_board(weir_board *b)
{
    for (int i = 0; i < STRIPES; i++) {
        if (b->stripe[i].table)
            port_sub_relaxed(&b->stats->deny_keys, weir_deny_keys(b->stripe[i].table));
        weir_deny_close(b->stripe[i].table);
    }
    port_free(b);
}

static weir_board *open_board(weir_redis_stats *stats, size_t bytes, uint64_t seed)
{
    weir_board *b = port_zalloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->stats = stats;
    if (port_random(b->secret, sizeof b->secret) != WEIR_OK)
        for (int i = 0; i < 4; i++)
            b->secret[i] = (seed + (uint64_t)i) * 0x9e3779b97f4a7c15U;
    for (int i = 0; i < STRIPES; i++) {
        if (weir_deny_open(&b->stripe[i].table, bytes / STRIPES, b->secret) != WEIR_OK) {
            close_board(b);
            return NULL;
        }
    }
    return b;
}

weir_status weir_board_join(weir_board **ret, weir_redis_stats *stats, size_t bytes, uint64_t seed)
{
    lock(&stats->board_lock);
    if (!stats->board)
        stats->board = open_board(stats, bytes, seed);
    stats->board_users += stats->board != NULL;
    *ret = stats->board;
    unlock(&stats->board_lock);
    return *ret ? WEIR_OK : WEIR_E_NOMEM;
}

void weir_board_leave(weir_redis_stats *stats)
{
    lock(&stats->board_lock);
    if (--stats->board_users == 0) {
        close_board(stats->board);
        stats->board = NULL;
    }
    unlock(&stats->board_lock);
}

const uint64_t *weir_board_secret(const weir_board *b)
{
    return b->secret;
}

/* ---- its tables ------------------------------------------------------------------------------ */

static stripe *open_stripe(weir_board *b, weir_deny_id id, size_t *ret_keys)
{
    stripe *s = &b->stripe[(id.word[1] >> 32) % STRIPES];
    lock(&s->lock);
    *ret_keys = weir_deny_keys(s->table);
    return s;
}

/* The sum wraps as a whole: a difference that is negative is added as its complement. */
static void close_stripe(weir_board *b, stripe *s, size_t keys_before)
{
    size_t keys = weir_deny_keys(s->table);
    unlock(&s->lock);
    if (keys != keys_before)
        port_add_relaxed(&b->stats->deny_keys, (uint64_t)keys - (uint64_t)keys_before);
}

weir_deny_known weir_board_look(weir_board *b, weir_deny *own, weir_deny_id id, uint32_t epoch,
                                int64_t now_ns, int64_t claim_ns, weir_engine_request *q)
{
    size_t keys;
    stripe *s = open_stripe(b, id, &keys);
    weir_deny_known known = weir_deny_look(s->table, id, epoch, now_ns, q);
    if (known == WEIR_DENY_DENIED)
        weir_deny_copy(own, s->table, id);
    else if (known == WEIR_DENY_ENDED)
        weir_deny_claim(s->table, id, claim_ns);
    close_stripe(b, s, keys);
    return known;
}

void weir_board_learn(weir_board *b, weir_deny_id id, uint32_t epoch, int64_t sent_ns,
                      int64_t now_ns, const weir_engine_request *q)
{
    size_t keys;
    stripe *s = open_stripe(b, id, &keys);
    weir_deny_learn(s->table, id, epoch, sent_ns, now_ns, q);
    close_stripe(b, s, keys);
}

void weir_board_unclaim(weir_board *b, weir_deny_id id, int64_t left)
{
    size_t keys;
    stripe *s = open_stripe(b, id, &keys);
    weir_deny_claim(s->table, id, INT64_MIN);
    if (left >= 0)
        weir_deny_left(s->table, id, left);
    close_stripe(b, s, keys);
}

void weir_board_sweep(weir_board *b, int64_t now_ns)
{
    for (size_t i = 0; i < STRIPES; i++) {
        size_t keys;
        stripe *s = open_stripe(b, (weir_deny_id){{0, (uint64_t)i << 32}}, &keys);
        weir_deny_sweep(s->table, now_ns);
        close_stripe(b, s, keys);
    }
}

bool weir_board_holds(const weir_board *b)
{
    return port_load_relaxed(&b->stats->deny_keys) > 0;
}
