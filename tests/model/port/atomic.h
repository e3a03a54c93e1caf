/* SPDX-License-Identifier: BSD-2-Clause */
/* The atomics of src/port/atomic.h as calls to the model checker. The sources under test find this
 * header first. Statistics counters are plain numbers here: they order nothing.
 *
 * An order is named by its file, its function and its text, so that the checker can weaken it. */
#ifndef WEIR_TESTS_MODEL_PORT_ATOMIC_H
#define WEIR_TESTS_MODEL_PORT_ATOMIC_H

#include "../../../src/port/atomic.h"

#include "../model.h"

#include <string.h> /* before memcpy is a macro */

#define MODEL_SITE(order, text)                                                                    \
    __extension__({                                                                                \
        static unsigned site_;                                                                     \
        if (site_ == 0)                                                                            \
            site_ = model_site(__FILE__, __LINE__, __func__, text, order);                         \
        site_;                                                                                     \
    })

#define port_word_load_relaxed(w)                                                                  \
    model_load(MODEL_SITE(MODEL_RELAXED, "port_word_load_relaxed(" #w ")"), w)
#define port_word_load_acquire(w)                                                                  \
    model_load(MODEL_SITE(MODEL_ACQUIRE, "port_word_load_acquire(" #w ")"), w)
#define port_word_store_release(w, x)                                                              \
    model_store(MODEL_SITE(MODEL_RELEASE, "port_word_store_release(" #w ")"), w, x)
#define port_word_store_relaxed(w, x)                                                              \
    model_store(MODEL_SITE(MODEL_RELAXED, "port_word_store_relaxed(" #w ")"), w, x)
#define port_word_add_relaxed(w, n)                                                                \
    ((void)model_add(MODEL_SITE(MODEL_RELAXED, "port_word_add_relaxed(" #w ")"), w, n))
#define port_word_sub_release(w, n)                                                                \
    ((void)model_add(MODEL_SITE(MODEL_RELEASE, "port_word_sub_release(" #w ")"), w, 0 - (n)))
#define port_word_add_release(w, n)                                                                \
    model_add(MODEL_SITE(MODEL_RELEASE, "port_word_add_release(" #w ")"), w, n)
#define port_stores_in_order()                                                                     \
    model_release_fence(MODEL_SITE(MODEL_RELEASE, "port_stores_in_order()"))
#define port_word_cas_relaxed(w, from, to)                                                         \
    model_cas(MODEL_SITE(MODEL_RELAXED, "port_word_cas_relaxed(" #w ")"), w, from, to)
#define port_word_cas_acquire(w, from, to)                                                         \
    model_cas(MODEL_SITE(MODEL_ACQUIRE, "port_word_cas_acquire(" #w ")"), w, from, to)
#define port_word_cas_release(w, from, to)                                                         \
    model_cas(MODEL_SITE(MODEL_RELEASE, "port_word_cas_release(" #w ")"), w, from, to)
#define port_load_relaxed(c)     model_count((port_counter *)(c), 0)
#define port_add_relaxed(c, n)   model_count(c, n)
#define port_bump_relaxed(c, n)  ((void)model_count(c, n))
#define port_sub_relaxed(c, n)   ((void)model_count(c, 0 - (uint64_t)(n)))
#define port_store_relaxed(c, x) model_set_count(c, x)
#define port_pause()             model_pause()
#define port_back_off(n)         ((void)(n))

/* The checker must see copies of plain memory. */
#define memcpy(to, from, n) model_copy(to, from, n)

#endif
