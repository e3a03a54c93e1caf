/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Prints a state file for people. */

#include "cmd/kit/log.h"
#include "cmd/kit/sigbus.h"
#include "cmd/state/state.h"
#include "port/port.h"
#include "store/image/image.h"
#include "store/table/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LABEL = 12 };

static void print_label(const char *label)
{
    printf("%-*s", LABEL, label);
}

static void print_time(int64_t ns)
{
    char text[LOG_TIME_MAX];
    log_time_text(ns, text);
    fputs(text, stdout);
}

static void print_size(uint64_t bytes)
{
    if (bytes >= (uint64_t)10 << 20)
        printf("%" PRIu64 " MiB", bytes >> 20);
    else if (bytes >= 10 << 10)
        printf("%" PRIu64 " KiB", bytes >> 10);
    else
        printf("%" PRIu64 " bytes", bytes);
}

void state_print_head(const char *path, const weir_file_header *head)
{
    char fingerprint[STATE_FINGERPRINT_MAX];
    state_fingerprint(head->secret, fingerprint);
    printf("%s\n", path);
    print_label("format");
    printf("%" PRIu32 ", state version %" PRIu32 "\n", head->format, head->state_version);
    print_label("size");
    print_size(head->bytes);
    printf(" (table ");
    print_size(head->parts[WEIR_PART_TABLE].bytes);
    printf(", large states ");
    print_size(head->parts[WEIR_PART_LARGE].bytes);
    printf(")\n");
    print_label("created");
    print_time(head->made_ns);
    printf("\n");
    print_label("secret");
    printf("fingerprint %s\n", fingerprint);
    print_label("opened");
    printf("%" PRIu64 " times\n", port_word_load_relaxed(&head->openings));
}

static void print_found(const weir_store_opened *opened)
{
    print_label("last used");
    if (opened->written_ns > 0) {
        print_time(opened->written_ns);
        printf(", ");
    }
    printf("%s\n", state_found_text(opened->found));
}

static void print_clock(weir_store *s)
{
    int64_t now_ns = weir_store_now(s);
    int64_t offset_ms = weir_store_clock(s).offset_ns / 1000000;
    uint64_t ms = (uint64_t)(offset_ms < 0 ? -offset_ms : offset_ms);
    print_label("time");
    print_time(now_ns);
    if (ms >= 1000)
        printf(", the wall clock is %" PRIu64 ".%03" PRIu64 " s %s", ms / 1000, ms % 1000,
               offset_ms < 0 ? "behind" : "ahead");
    printf("\n");
}

typedef struct tally {
    int64_t now_ns;
    uint64_t live;
} tally;

static bool count_live(void *ctx, const weir_key_state *stored)
{
    tally *t = ctx;
    t->live += weir_table_idle_at(stored) > t->now_ns;
    return true;
}

static void print_partitions(weir_store *s)
{
    weir_partition_stats stats[WEIR_PARTITIONS_MAX];
    size_t n = weir_store_partitions(s, stats, WEIR_PARTITIONS_MAX);
    for (size_t i = 0; i < n; i++) {
        print_label(i == 0 ? "partitions" : "");
        printf("%s: %" PRIu64 " keys, ", stats[i].name, stats[i].keys);
        print_size(stats[i].memory_bytes);
        printf(" of ");
        print_size(stats[i].memory_max);
        printf(", %" PRIu64 " evicted\n", stats[i].evicted);
    }
}

static void print_keys(weir_store *s)
{
    weir_store_stats stats = weir_store_stats_get(s);
    tally t = {.now_ns = weir_store_now(s)};
    weir_store_each(s, count_live, &t);
    print_label("keys");
    printf("%" PRIu64 " stored, %" PRIu64 " of them without full quota, %" PRIu64 " large\n",
           stats.keys, t.live, stats.large_keys);
    print_label("memory");
    print_size(stats.memory_bytes);
    printf(" of ");
    print_size(stats.memory_max);
    uint64_t permille = stats.memory_max > 0 ? stats.memory_bytes * 1000 / stats.memory_max : 0;
    printf(" (%" PRIu64 ".%" PRIu64 " %%)\n", permille / 10, permille % 10);
    print_partitions(s);
    print_label("evicted");
    printf("%" PRIu64 "\n", stats.evicted);
    print_label("reserved");
    printf("%" PRIu64 " open\n", stats.reserved);
    size_t resets = weir_store_resets(s, NULL);
    if (resets > 0) {
        print_label("resets");
        printf("of all keys of %zu %s\n", resets, resets == 1 ? "policy" : "policies");
    }
    print_label("damaged");
    printf("%" PRIu64 "\n", stats.damaged);
}

typedef struct listing {
    weir_store *store;
    size_t printed;
} listing;

typedef struct twin {
    uint64_t id;
    const char *text;
    size_t len;
    bool found;
} twin;

static bool find_twin(void *ctx, uint64_t id, const char *text, size_t len)
{
    twin *t = ctx;
    if (id == t->id)
        return false;
    t->found = len == t->len && memcmp(text, t->text, len) == 0;
    return !t->found;
}

/* Prints each text once. A text has several ids if several policy names have it. */
static bool print_policy(void *ctx, uint64_t id, const char *text, size_t len)
{
    listing *l = ctx;
    twin before = {id, text, len, false};
    weir_store_policies(l->store, find_twin, &before);
    if (before.found)
        return true;
    print_label(l->printed++ == 0 ? "policies" : "");
    printf("%.*s\n", (int)len, text);
    return true;
}

void state_print(const state_file *f)
{
    listing policies = {.store = f->store};
    state_print_head(f->path, &f->head);
    print_found(&f->opened);
    print_clock(f->store);
    print_keys(f->store);
    weir_store_policies(f->store, print_policy, &policies);
    if (policies.printed == 0) {
        print_label("policies");
        printf("none\n");
    }
}
