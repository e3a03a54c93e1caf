/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_HUGE_PAGES_H
#define WEIR_STORE_HUGE_PAGES_H
/* When a store in memory uses huge pages. Hashing spreads keys over the whole table, so a few
 * hundred of them would make all of it resident in huge pages of 2 MiB. A store therefore begins
 * with small pages, and resident memory grows by at most one of them with each key. Lookups are
 * faster in huge pages. So a thread moves the table to huge pages once a quarter of its pages is in
 * use, and the large states once they fill half of their part. It moves one huge page at a time,
 * while other threads use the memory. */

#include <weir/weir_store.h>

/* A store with less memory uses huge pages from the beginning. Without prefault it has no
 * thread. */
#define WEIR_SMALL_PAGES_BYTES_MIN ((size_t)16 << 20)

typedef struct weir_huge_pages weir_huge_pages;

/* Starts the thread for a store in memory, whose parts are open.
 *  prefault  begin to move the memory at once, however little is in use.
 *  ret       NULL if no thread is needed.
 * If the system refuses a thread, the store uses huge pages from now on. Returns WEIR_OK;
 * WEIR_E_NOMEM. */
weir_status weir_huge_pages_start(weir_huge_pages **ret, weir_store *s, bool prefault);

/* Stops the thread, which usually takes a few milliseconds at most. Accepts NULL. */
void weir_huge_pages_stop(weir_huge_pages *h);

#endif
