/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The values of the module, compared with plain copies of their states: random states of one or two
 * words, near each other and far apart, in values of one state and of several; and more states than
 * there are delta bases. */

#include "module_server.h"

#include "modules/redis/value.h"
#include "port/random_kit_test.h"
#include "tests/kit/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POLICIES = 4, VALUES = 30, STEPS = 60000 };

/* States of one word, of two words, and of three words, which are never stored inline. */
static const char *const texts[POLICIES] = {"gcra 10/s burst 5", "fixed-window 5/m",
                                            "token-bucket 9 refill 4 every 5s",
                                            "sliding-counter 12/m"};
static weir_interned *interned[POLICIES];

/* What a value should contain, in order. */
typedef struct copy {
    weir_value value;
    size_t len;
    int policy[POLICIES];
    uint64_t state[POLICIES][4];
} copy;

static uint64_t seed = 20260101;

static uint64_t noise(void)
{
    return next_random(&seed);
}

static uint64_t below(uint64_t n)
{
    return noise() % n;
}

static size_t words_of(int policy)
{
    return weir_state_words(&interned[policy]->policy, 0);
}

static uint32_t base_of(weir_value v)
{
    return (v & 3) == 1 ? (uint32_t)(v >> 2) % WEIR_BASES_MAX : 0;
}

/* Writes a state near an origin that grows beyond 2^64. Some states have a small last word, and are
 * far from the origin. */
static void some_state(uint64_t *ret, size_t words)
{
    static uint64_t origin = UINT64_MAX - 75 * WEIR_DELTA_MAX, high;
    uint64_t before = origin, x;
    origin += below(50) == 0 ? WEIR_DELTA_MAX / 8 : 0;
    high += origin < before;
    x = origin + below(WEIR_DELTA_MAX / 4);
    memset(ret, 0, 4 * sizeof *ret);
    ret[words - 1] = words == 1 ? x / 2 + (high << 63) : x;
    if (words > 1)
        ret[words - 2] = high + (x < origin);
    if (below(20) == 0)
        ret[words - 1] = below(100);
}

static void check(const copy *c)
{
    CHECK(weir_value_len(c->value) == c->len);
    for (size_t i = 0; i < c->len; i++) {
        weir_state_view at;
        size_t words = words_of(c->policy[i]);
        weir_value_at(c->value, i, &at);
        CHECK(at.interned == interned[c->policy[i]] && at.level == 0 && at.words == words);
        CHECK(memcmp(at.state, c->state[i], words * sizeof at.state[0]) == 0);
        CHECK(weir_value_find(c->value, at.interned) == i);
    }
    for (int p = 0; p < POLICIES; p++) {
        size_t i = 0;
        while (i < c->len && c->policy[i] != p)
            i++;
        CHECK(weir_value_find(c->value, interned[p]) == i);
    }
}

static void step(copy *c, int p)
{
    size_t i = 0;
    while (i < c->len && c->policy[i] != p)
        i++;
    if (i < c->len && below(4) == 0) {
        c->value = weir_value_drop(c->value, i);
        c->len--;
        memmove(c->policy + i, c->policy + i + 1, (c->len - i) * sizeof c->policy[0]);
        memmove(c->state + i, c->state + i + 1, (c->len - i) * sizeof c->state[0]);
        return;
    }
    size_t words = words_of(p);
    some_state(c->state[i], words);
    c->policy[i] = p;
    c->len += i == c->len;
    c->value = weir_value_put(c->value, i, interned[p], 0, c->state[i], words, 0);
}

static void random_values(void)
{
    static copy all[VALUES];
    unsigned small = 0;
    for (int n = 0; n < STEPS; n++) {
        size_t i = below(VALUES);
        copy *c = &all[i], other;
        step(c, (int)(i < VALUES / 2 ? i % POLICIES : below(POLICIES)));
        check(c);
        small += base_of(c->value) > 0;
        if (below(16) > 0)
            continue;
        other = *c;
        other.value = weir_value_copy(c->value);
        check(&other);
        weir_value_free(other.value);
        check(c);
    }
    CHECK(small > STEPS / 8);
    for (int i = 0; i < VALUES; i++)
        weir_value_free(all[i].value);
}

/* One word each, so far apart that each needs a base of its own. */
static weir_value far_value(int policy, uint64_t i)
{
    uint64_t x = i * (WEIR_DELTA_MAX + 2);
    return weir_value_put(0, 0, interned[policy], 0, &x, 1, 0);
}

static void is_far_value(weir_value v, uint64_t i)
{
    weir_state_view at;
    weir_value_at(v, 0, &at);
    CHECK(at.state[0] == i * (WEIR_DELTA_MAX + 2));
}

/* When all bases are in use, states go to the heap. A base without states is used again. */
static void bases_run_out(void)
{
    enum { FAR = WEIR_BASES_MAX + 100 };
    static weir_value v[FAR], after[FAR];
    size_t on_heap = 0, again = 0;
    for (uint64_t i = 0; i < FAR; i++) {
        v[i] = far_value(0, 1 + i);
        on_heap += base_of(v[i]) == 0;
    }
    CHECK(on_heap > 100 && on_heap < 110);
    for (uint64_t i = 0; i < FAR; i++) {
        is_far_value(v[i], 1 + i);
        if (i % 64 == 0) {
            weir_value_free(v[i]);
            v[i] = 0;
        }
    }
    for (uint64_t i = 0; i < FAR / 64; i++) {
        after[i] = far_value(0, FAR + 10 + i);
        is_far_value(after[i], FAR + 10 + i);
        again += base_of(after[i]) > 0;
    }
    CHECK(again > FAR / 64 / 2);
    CHECK(weir_interned_sound());
    for (uint64_t i = 0; i < FAR; i++) {
        if (v[i])
            is_far_value(v[i], 1 + i);
        weir_value_free(v[i]);
        weir_value_free(after[i]);
    }
}

/* States that alternate between low and high do not use up the bases. */
static void alternating_states_use_few_bases(void)
{
    weir_value low = far_value(1, 1000), v = 0;
    uint32_t first = base_of(low), last = first;
    for (int i = 0; i < 1000; i++) {
        weir_value_free(v);
        v = far_value(1, i % 2 ? 2000 : 10);
        last = base_of(v) > last ? base_of(v) : last;
    }
    CHECK(last <= first + 2);
    weir_value_free(v);
    weir_value_free(low);
}

/* Of two states, the one that is left becomes inline again. */
static void a_state_that_is_left_is_inline_again(void)
{
    uint64_t state[4] = {0};
    weir_value v = far_value(1, 4000);
    v = weir_value_put(v, 1, interned[3], 0, state, words_of(3), 0);
    CHECK(weir_value_len(v) == 2 && base_of(v) == 0);
    v = weir_value_drop(v, 1);
    CHECK(weir_value_len(v) == 1 && base_of(v) > 0);
    is_far_value(v, 4000);
    weir_value_free(v);
}

/* A state of several that grows replaces the old one, and the others stay. */
static void a_state_of_several_grows(void)
{
    enum { STATES = 3 };
    uint64_t state[STATES][8] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
    static const int policy[STATES] = {3, 0, 2};
    for (size_t grown = 0; grown < STATES; grown++) {
        weir_value v = 0;
        size_t words[STATES];
        for (size_t i = 0; i < STATES; i++) {
            words[i] = words_of(policy[i]);
            v = weir_value_put(v, i, interned[policy[i]], 0, state[i], words[i], 0);
        }
        words[grown] += 4;
        v = weir_value_put(v, grown, interned[policy[grown]], 1, state[grown], words[grown], 0);
        CHECK(weir_value_len(v) == STATES);
        for (size_t i = 0; i < STATES; i++) {
            weir_state_view at;
            weir_value_at(v, i, &at);
            CHECK(at.interned == interned[policy[i]] && at.level == (i == grown));
            CHECK(at.words == words[i] && memcmp(at.state, state[i], 8 * words[i]) == 0);
        }
        weir_value_free(v);
    }
}

/* A level without more words is kept, too: a payload may have it. */
static void the_level_is_replaced(void)
{
    uint64_t state[4] = {0};
    weir_state_view at;
    weir_value v = weir_value_put(0, 0, interned[3], 0, state, words_of(3), 0);
    v = weir_value_put(v, 0, interned[3], 2, state, words_of(3), 0);
    weir_value_at(v, 0, &at);
    CHECK(at.level == 2 && at.words == words_of(3));
    weir_value_free(v);
}

/* When all values are freed, no base has a reference. */
static void no_base_is_in_use(void)
{
    for (uint32_t base = 1; base < WEIR_BASES_MAX; base++)
        CHECK(port_word_load_acquire(&weir_base_at(base)->refs) == 0);
}

int main(void)
{
    module_server_open();
    for (int i = 0; i < POLICIES; i++) {
        weir_policy_error e;
        CHECK(weir_intern_text(texts[i], strlen(texts[i]), &interned[i], &e) == WEIR_OK);
        weir_interned_ref(interned[i]);
    }
    CHECK(interned[0]->small == 1 && interned[1]->small == 1 && interned[2]->small == 2 &&
          interned[3]->small == 0);
    alternating_states_use_few_bases();
    a_state_that_is_left_is_inline_again();
    the_level_is_replaced();
    a_state_of_several_grows();
    bases_run_out();
    random_values();
    no_base_is_in_use();
    for (int i = 0; i < POLICIES; i++)
        weir_interned_unref(interned[i]);
    module_server_close();
    printf("6 passed, 0 failed\n");
    return 0;
}
