/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opens, resizes and closes a store: divides the memory among its parts, and moves the states of a
 * file to a new file of another size. */

#include "store/store.h"

#include "port/assert.h"
#include "port/file.h"
#include "port/port.h"
#include "store/image/shared_memory.h"
#include "store/image/state_file.h"
#include "store/iterate.h"
#include "store/kept.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PART_BYTES_MIN = 65536 }; /* of the memory for large states, and of the rest */

_Static_assert(PART_BYTES_MIN / 16 * 15 >= WEIR_TABLE_BYTES_MIN, "and of that, of the table");

#define FILE_BYTES_MIN ((size_t)8 << 20)
#define PAGE           ((size_t)4096)

typedef struct sizes {
    size_t table, large, reserved;
} sizes;

/* The memory for reservations: of the memory that is not for large states, one sixteenth, up to
 * WEIR_RESERVE_UNCHAINED_MAX of them, and one sixty-fourth if that holds more. */
static size_t reserved_of(size_t spare_bytes)
{
    size_t bytes = spare_bytes / 16 / 4096 * 4096, share = spare_bytes / 64 / 4096 * 4096;
    if (share >= WEIR_RESERVE_BYTES_CHAINED)
        return share < WEIR_RESERVE_BYTES_MAX ? share : WEIR_RESERVE_BYTES_MAX;
    return bytes < WEIR_RESERVE_BYTES_UNCHAINED ? bytes : WEIR_RESERVE_BYTES_UNCHAINED;
}

__attribute__((format(printf, 2, 3))) static weir_status refuse(const weir_store_options *o,
                                                                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (o->ret_error)
        vsnprintf(o->ret_error->text, sizeof o->ret_error->text, format, args);
    va_end(args);
    return WEIR_E_RANGE;
}

static weir_status check_flags(const weir_store_options *o)
{
    if (o->read_only && (!o->file || o->reset))
        return refuse(o, "'read_only' requires 'file', and cannot be combined with 'reset'");
    if (o->prefault && o->file)
        return refuse(o, "'prefault' cannot be combined with 'file'");
    if (!o->memory)
        return WEIR_OK;
    if (o->file || o->reset || o->read_only || o->prefault)
        return refuse(o, "'memory' cannot be combined with 'file', 'reset', 'read_only' or "
                         "'prefault'");
    if (o->memory_bytes == 0)
        return refuse(o, "'memory' requires 'memory_bytes'");
    if ((uintptr_t)o->memory % PAGE != 0)
        return refuse(o, "'memory' does not begin on a page of %zu bytes", PAGE);
    return WEIR_OK;
}

/* ---- partitions ------------------------------------------------------------------------------ */

enum { COMMON_PERCENT_MIN = 10 }; /* of each area, for the policies without a partition */

/* The smallest table or range of it. Where states may be copied later, the whole hash of a key must
 * follow from its place. */
static size_t table_min(const weir_store_options *o, size_t otherwise)
{
    return o->file ? WEIR_TABLE_BYTES_WHOLE : o->memory ? WEIR_TABLE_BYTES_FOLDED : otherwise;
}

/* Checks the name of partition i, and that it differs from those before it. */
static weir_status check_name(const weir_store_options *o, size_t i)
{
    const char *name = o->partitions[i].name;
    size_t len = name ? strnlen(name, WEIR_PARTITION_NAME_MAX + 1) : 0;
    size_t good = 0;
    while (good < len && name[good] > ' ' && name[good] <= '~' && !strchr("\"\\", name[good]))
        good++;
    if (len < 1 || len > WEIR_PARTITION_NAME_MAX || good < len)
        return refuse(o,
                      "partition %zu: expected a name of 1 to %d printable ASCII characters "
                      "without space, quote and backslash",
                      i, WEIR_PARTITION_NAME_MAX);
    for (size_t j = 0; j < i; j++) {
        const char *other = o->partitions[j].name;
        uint64_t differ = weir_partition_name_hash(name) ^ weir_partition_name_hash(other);
        if (strcmp(name, other) == 0)
            return refuse(o, "two partitions have the name '%s'", name);
        if ((differ & WEIR_ID_PARTITION) == 0)
            return refuse(o, "the partitions '%s' and '%s' have colliding names; rename one", name,
                          other);
    }
    return WEIR_OK;
}

/* Checks the sizes of partition i. */
static weir_status check_sizes(const weir_store_options *o, size_t i)
{
    const weir_store_partition *p = &o->partitions[i];
    if (p->table_bytes == 0 && p->large_bytes == 0)
        return refuse(o, "the partition '%s' has no memory", p->name);
    if (p->table_bytes > 0 && p->table_bytes < table_min(o, WEIR_TABLE_RANGE_MIN))
        return refuse(o, "the partition '%s' has %zu bytes, expected at least %s", p->name,
                      p->table_bytes,
                      o->file     ? "5 MiB for a file"
                      : o->memory ? "576 KiB in memory of the caller"
                                  : "64 KiB");
    if (p->large_bytes > 0 && p->large_bytes < WEIR_LARGE_BYTES_MIN)
        return refuse(o,
                      "the partition '%s' has %zu bytes for large states, expected at least 64 "
                      "KiB",
                      p->name, p->large_bytes);
    return WEIR_OK;
}

/* Sets *ret to what the partitions leave of an area of `bytes` bytes. Returns false if that is too
 * little. */
static bool leaves(const weir_store_options *o, size_t bytes, bool large, size_t *ret)
{
    *ret = bytes;
    for (size_t i = 0; i < o->partitions_len; i++) {
        size_t size = large ? o->partitions[i].large_bytes : o->partitions[i].table_bytes;
        if (size > *ret)
            return false;
        *ret -= size;
    }
    return *ret / COMMON_PERCENT_MIN >= bytes / 100;
}

/* Checks the partitions, which divide the table and the large states of these sizes.
 *  small  the memory that is not for large states. */
static weir_status check_partitions(const weir_store_options *o, const sizes *of, size_t small)
{
    if (o->partitions_len > WEIR_PARTITIONS_MAX)
        return refuse(o, "%zu partitions, expected at most %d", o->partitions_len,
                      WEIR_PARTITIONS_MAX);
    for (size_t i = 0; i < o->partitions_len; i++) {
        weir_status st = check_name(o, i);
        if (st == WEIR_OK)
            st = check_sizes(o, i);
        if (st != WEIR_OK)
            return st;
    }
    size_t left, small_min = small - of->table + table_min(o, WEIR_TABLE_BYTES_MIN);
    if (!leaves(o, of->large, true, &left) || left < WEIR_LARGE_BYTES_MIN + 4096)
        return refuse(o,
                      "the partitions leave too little of the %zu bytes for large states, "
                      "expected 10 %% of them and at least 68 KiB",
                      of->large);
    if (!leaves(o, small, false, &left) || left < small_min)
        return refuse(o,
                      "the partitions leave too little of the %zu bytes for small states, "
                      "expected 10 %% of them and at least %zu bytes",
                      small, small_min);
    return WEIR_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Memory of the caller also has what other stores have beside their memory. The sizes are multiples
 * of a page, so that nothing is lost between the parts. */
static weir_status memory_sizes_of(const weir_store_options *o, size_t large, sizes *ret)
{
    size_t memory = o->memory_bytes / PAGE * PAGE;
    size_t left = memory - weir_shared_memory_overhead(memory);
    large = large / PAGE * PAGE;
    size_t small = large < left ? left - large : 0, reserved = reserved_of(small) / PAGE * PAGE;
    *ret = (sizes){small - reserved, large, reserved};
    if (ret->table < WEIR_TABLE_BYTES_FOLDED)
        return refuse(o,
                      "the memory for large states leaves %zu of %zu bytes for the hash table, "
                      "expected at least 576 KiB",
                      ret->table, memory);
    return o->partitions_len > 0 ? check_partitions(o, ret, small) : WEIR_OK;
}

static weir_status sizes_of(const weir_store_options *o, sizes *ret)
{
    size_t memory = o->memory_bytes ? o->memory_bytes : (size_t)256 << 20;
    size_t large = o->large_bytes ? o->large_bytes : memory / 4;
    if (memory < (size_t)1 << 20)
        return refuse(o, "the memory has %zu bytes, expected at least 1 MiB", memory);
    if (o->file && memory < FILE_BYTES_MIN)
        return refuse(o, "the memory has %zu bytes, expected at least 8 MiB for a file", memory);
    if (large < PART_BYTES_MIN || large > memory - PART_BYTES_MIN)
        return refuse(o,
                      "the memory for large states has %zu bytes, expected at least 64 KiB, and at "
                      "least 64 KiB less than the whole memory of %zu bytes",
                      large, memory);
    if (o->memory)
        return memory_sizes_of(o, large, ret);
    size_t reserved = reserved_of(memory - large);
    *ret = (sizes){memory - large - reserved, large, reserved};
    if (o->file && ret->table < WEIR_TABLE_BYTES_WHOLE)
        return refuse(
            o,
            "without the memory for large states there are %zu bytes, expected at least 6 "
            "MiB for a file",
            memory - large);
    return o->partitions_len > 0 ? check_partitions(o, ret, memory - large) : WEIR_OK;
}

weir_status weir_store_check_sizes(const weir_store_options *options)
{
    sizes unused;
    return sizes_of(options, &unused);
}

/* ---- reservations and the clock -------------------------------------------------------------- */

static weir_status run_state(void *ctx, const weir_policy *p, uint64_t policy_id, uint64_t hash,
                             int64_t now_ns, weir_state_fn fn, void *fn_ctx)
{
    weir_table_note(weir_area_of(ctx, policy_id)->table, hash);
    return weir_store_run(ctx, p, policy_id, hash, now_ns, fn, fn_ctx);
}

static weir_status policy_find(void *ctx, uint64_t policy_id, weir_policy *ret)
{
    return weir_store_policy_find(ctx, policy_id, ret);
}

static bool policy_known(void *ctx, uint64_t policy_id)
{
    return weir_store_knows(ctx, policy_id);
}

static void policy_note(void *ctx, uint64_t policy_id, const weir_policy *p)
{
    char text[WEIR_POLICY_TEXT_MAX];
    const weir_store *s = ctx;
    size_t len = weir_policy_print(p, text, sizeof text);
    weir_image_note_policy(s->image, policy_id, text, len, false);
}

static bool may_have_moved(void *ctx, uint64_t policy_id, int64_t now_ns)
{
    return weir_kept_may_have_moved(ctx, policy_id, now_ns);
}

static weir_status open_reservations(weir_store *s, weir_part part)
{
    const weir_reserve_hooks hooks = {s,           run_state,     policy_find, policy_known,
                                      policy_note, may_have_moved};
    return weir_reserve_open(&s->reserved, part.at, part.bytes, weir_image_is_new(s->image),
                             weir_image_processes(s->image), s->secret, &hooks);
}

/* The machine's boot id as one word. */
static uint64_t boot_word(void)
{
    uint64_t words[2];
    uint8_t id[sizeof words];
    port_boot_id(id);
    memcpy(words, id, sizeof words);
    return words[0] ^ words[1];
}

void weir_store_start_clock(weir_store *s)
{
    weir_clock_start(&s->clock, port_clocks_now(), boot_word(), weir_image_clock_slots(s->image),
                     weir_store_seen_ns(s));
    weir_store_set_jump(s, WEIR_CLOCK_JUMP_ABOVE_NS);
}

/* ---- the parts of a store -------------------------------------------------------------------- */

static void close_parts(weir_store *s)
{
    weir_reserve_close(s->reserved);
    for (size_t i = 0; i < s->partitions_len; i++) {
        const weir_area *at = &s->partitions[i].area;
        weir_table_close(at->table != s->common.table ? at->table : NULL);
        weir_large_close(at->large != s->common.large ? at->large : NULL);
    }
    weir_table_close(s->common.table);
    weir_large_close(s->common.large);
    weir_kept_free(s->kept);
    port_free(s->partitions);
}

/* Reports that the image was opened, but one of its parts could not be. */
static weir_status part_error(const weir_store_options *o, weir_status st)
{
    return weir_file_error(st == WEIR_E_RANGE ? WEIR_E_SYNTAX : st, o, "", "%s",
                           st == WEIR_E_NOMEM ? "out of memory"
                           : st == WEIR_E_IO  ? "the system returned no random numbers"
                           : st == WEIR_E_RANGE
                               ? "the sizes in its header are inconsistent; --reset-state replaces "
                                 "it with an empty file"
                               : "its large states are damaged; --reset-state replaces it with an "
                                 "empty file");
}

static weir_status open_table(weir_store *s, weir_part part, bool refuse_new)
{
    size_t size[WEIR_PARTITIONS_MAX], n = 0;
    weir_table *tables[1 + WEIR_PARTITIONS_MAX] = {NULL};
    for (size_t i = 0; i < s->partitions_len; i++) {
        if (s->partitions[i].is.table_bytes > 0)
            size[n++] = s->partitions[i].is.table_bytes;
    }
    weir_status st = weir_table_open_split(tables, part.at, part.bytes,
                                           weir_image_processes(s->image), refuse_new, size, n);
    s->common.table = tables[0];
    for (size_t i = 0; i <= n && st == WEIR_OK; i++) {
        weir_table_set_order(tables[i], s->order);
        if (s->hash.folded)
            weir_table_fold(tables[i]);
    }
    for (size_t i = 0, next = 1; i < s->partitions_len; i++)
        s->partitions[i].area.table =
            s->partitions[i].is.table_bytes > 0 ? tables[next++] : s->common.table;
    return st;
}

/* The partitions lie at the end of the part, each at the beginning of a page. */
static weir_status open_large(weir_store *s, weir_part part)
{
    const weir_processes *processes = weir_image_processes(s->image);
    bool is_new = weir_image_is_new(s->image);
    size_t bytes = 0;
    for (size_t i = 0; i < s->partitions_len; i++)
        bytes += s->partitions[i].is.large_bytes;
    if (bytes > part.bytes)
        return WEIR_E_RANGE;
    size_t at = bytes > 0 ? (part.bytes - bytes) / 4096 * 4096 : part.bytes;
    weir_status st = weir_large_open(&s->common.large, part.at, at, is_new, processes);
    for (size_t i = 0; i < s->partitions_len && st == WEIR_OK; i++) {
        weir_partition *p = &s->partitions[i];
        p->area.large = s->common.large;
        if (p->is.large_bytes > 0)
            st = weir_large_open(&p->area.large, (char *)part.at + at, p->is.large_bytes, is_new,
                                 processes);
        at += p->is.large_bytes;
    }
    return st;
}

static weir_status open_partitions(weir_store *s)
{
    weir_image_partition is[WEIR_PARTITIONS_MAX];
    size_t n = weir_image_partitions(s->image, is);
    s->partitions = n > 0 ? port_zalloc(n, sizeof *s->partitions) : NULL;
    if (n > 0 && !s->partitions)
        return WEIR_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        s->partitions[i].is = is[i];
    s->partitions_len = n;
    return WEIR_OK;
}

/* Creates a store on an image, and takes ownership of the image. */
static weir_status open_on(weir_store **ret, weir_image *image, const weir_store_options *o)
{
    weir_image_parts parts = weir_image_parts_get(image);
    weir_store *s = port_zalloc(1, sizeof *s);
    if (!s) {
        weir_image_close(image);
        return part_error(o, WEIR_E_NOMEM);
    }
    s->image = image;
    s->resets = weir_image_resets(image);
    s->sync_always = o->file && !o->read_only && o->sync == WEIR_SYNC_ALWAYS;
    s->when_full = o->when_full;
    if (o->zones)
        s->zones = *o->zones;
    s->memory_max = parts.table.bytes + parts.large.bytes + parts.reserved.bytes;
    s->large_max = parts.large.bytes;
    const uint8_t *secret = weir_image_secret(image);
    s->secret = (weir_secret){weir_read8(secret), weir_read8(secret + 8)};
    s->order = weir_siphash(s->secret, "order", 5);
    weir_hash_init(&s->hash, s->secret);
    if (o->memory)
        weir_hash_fold(&s->hash);
    weir_status st = open_partitions(s);
    s->kept = weir_kept_new();
    if (!s->kept)
        st = WEIR_E_NOMEM;
    if (st == WEIR_OK)
        st = open_table(s, parts.table, o->when_full == WEIR_REFUSE);
    if (st == WEIR_OK)
        st = open_large(s, parts.large);
    if (st == WEIR_OK)
        st = open_reservations(s, parts.reserved);
    if (st == WEIR_OK && !o->file && !o->memory)
        st = weir_huge_pages_start(&s->huge_pages, s, o->prefault);
    if (st != WEIR_OK) {
        weir_store_close(s);
        return part_error(o, st);
    }
    *ret = s;
    return WEIR_OK;
}

/* ---- resizing -------------------------------------------------------------------------------- */

/* Creates a file of the requested size, copies the contents of *s there, and puts it in the place
 * of the old file. */
static weir_status change_size(weir_store **s, const weir_store_options *o)
{
    weir_image *image = NULL;
    weir_store *wider = NULL, *old = *s;
    weir_status st = weir_image_open_beside(&image, old->image, o);
    if (st == WEIR_OK)
        st = open_on(&wider, image, o);
    if (st != WEIR_OK)
        return st;
    WEIR_ASSERT(wider);
    weir_store_repair_locks(old);
    (void)!weir_store_copy(wider, old); /* what does not fit is dropped */
    st = weir_image_replace(wider->image, old->image, o);
    if (st != WEIR_OK) {
        weir_store_close(wider);
        return st;
    }
    close_parts(old);
    port_free(old);
    *s = wider;
    return WEIR_OK;
}

/* ---- backups --------------------------------------------------------------------------------- */

/* One eighth more than a size: in a table that is nearly full, keys may have other places than in a
 * copy that is filled in another order. */
static size_t wider(size_t bytes)
{
    return (bytes + bytes / 8 + PAGE - 1) / PAGE * PAGE;
}

/* Creates the new file and copies the store.
 *  options  but for their sizes and partitions, which follow from the store. */
static weir_status back_up(weir_store *from, const weir_store_options *options, uint64_t *ret_keys)
{
    weir_image_partition is[WEIR_PARTITIONS_MAX];
    weir_store_partition partitions[WEIR_PARTITIONS_MAX];
    weir_store_options o = *options;
    weir_image *image = NULL;
    weir_store *to = NULL;
    sizes of = {0};
    o.partitions = partitions;
    o.partitions_len = weir_image_partitions(from->image, is);
    for (size_t i = 0; i < o.partitions_len; i++)
        partitions[i] =
            (weir_store_partition){is[i].name, wider(is[i].table_bytes), wider(is[i].large_bytes)};
    o.large_bytes = wider(from->large_max);
    o.memory_bytes = wider(from->memory_max - from->large_max) + o.large_bytes;
    weir_status st = sizes_of(&o, &of);
    if (st == WEIR_OK)
        st = weir_image_begin_backup(&image, from->image, &o, of.table, of.large, of.reserved);
    if (st == WEIR_OK)
        st = open_on(&to, image, &o);
    if (st != WEIR_OK)
        return st;
    WEIR_ASSERT(to);
    st = weir_store_copy(to, from);
    if (st == WEIR_E_BUSY)
        st = weir_file_error(st, &o, "", "keys moved faster than they were copied; try again");
    if (st == WEIR_E_FULL)
        st = weir_file_error(st, &o, "", "not all keys fit into the backup");
    *ret_keys = weir_store_stats_get(to).keys;
    if (st == WEIR_OK)
        st = weir_image_end_backup(to->image, &o);
    weir_store_close(to);
    return st;
}

weir_status weir_store_backup(const weir_store_options *options, const char *to, uint64_t *ret_keys)
{
    weir_store_options o = *options;
    weir_store *from = NULL;
    weir_image *image = NULL;
    weir_status st = weir_image_visit(&image, &o);
    if (st == WEIR_OK)
        st = open_on(&from, image, &o);
    if (st != WEIR_OK)
        return st;
    WEIR_ASSERT(from);
    o.file = to;
    o.reset = true;
    o.when_full = WEIR_REFUSE;
    st = back_up(from, &o, ret_keys);
    weir_store_close(from);
    return st;
}

/* ---- open and close -------------------------------------------------------------------------- */

weir_status weir_store_open(weir_store **ret, const weir_store_options *options)
{
    weir_store_options o = options ? *options : (weir_store_options){0};
    weir_store *s = NULL;
    weir_image *image = NULL;
    sizes parts = {0};
    weir_status st = check_flags(&o);
    if (st == WEIR_OK)
        st = sizes_of(&o, &parts);
    if (st == WEIR_OK)
        st = weir_image_open(&image, &o, parts.table, parts.large, parts.reserved);
    if (st == WEIR_OK)
        st = open_on(&s, image, &o);
    WEIR_ASSERT(st != WEIR_OK || s);
    if (st == WEIR_OK && !o.read_only && weir_image_other_size(s->image)) {
        st = change_size(&s, &o);
        if (st != WEIR_OK)
            weir_store_close(s);
    }
    if (st != WEIR_OK)
        return st;
    weir_store_start_clock(s);
    s->plain = s->partitions_len == 0 && !s->sync_always;
    *ret = s;
    return WEIR_OK;
}

bool weir_store_share(weir_store *s)
{
    return weir_image_share(s->image);
}

bool weir_store_own(weir_store *s)
{
    return weir_image_own(s->image);
}

void weir_store_close(weir_store *s) /* accepts NULL and half-opened stores */
{
    if (!s)
        return;
    weir_huge_pages_stop(s->huge_pages);
    close_parts(s);
    weir_image_close(s->image);
    port_free(s);
}
