/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opens, resizes and closes a store: divides the memory among its parts, and moves the states of a
 * file to a new file of another size. */

#include "store/store.h"

#include "port/assert.h"
#include "port/file.h"
#include "port/port.h"
#include "store/huge_pages.h"
#include "store/image/file_error.h"
#include "store/iterate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PART_BYTES_MIN = 65536 }; /* of the memory for large states, and of the rest */

_Static_assert(PART_BYTES_MIN / 16 * 15 >= WEIR_TABLE_BYTES_MIN, "and of that, of the table");

#define FILE_BYTES_MIN ((size_t)8 << 20)

typedef struct sizes {
    size_t table, large, reserved;
} sizes;

/* The memory for reservations: one sixteenth of the memory that is not for large states, and at
 * most WEIR_RESERVE_BYTES_MAX. */
static size_t reserved_of(size_t spare_bytes)
{
    size_t bytes = spare_bytes / 16 / 4096 * 4096;
    return bytes < WEIR_RESERVE_BYTES_MAX ? bytes : WEIR_RESERVE_BYTES_MAX;
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
    return WEIR_OK;
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
    size_t reserved = reserved_of(memory - large);
    *ret = (sizes){memory - large - reserved, large, reserved};
    if (o->file && ret->table < WEIR_TABLE_BYTES_WHOLE)
        return refuse(
            o,
            "without the memory for large states there are %zu bytes, expected at least 6 "
            "MiB for a file",
            memory - large);
    return WEIR_OK;
}

/* ---- reservations and the clock -------------------------------------------------------------- */

static weir_status run_state(void *ctx, const weir_policy *p, uint64_t hash, int64_t now_ns,
                             weir_state_fn fn, void *fn_ctx)
{
    return weir_store_run(ctx, p, hash, now_ns, fn, fn_ctx);
}

static weir_status policy_find(void *ctx, uint64_t policy_id, weir_policy *ret)
{
    char text[WEIR_POLICY_TEXT_MAX];
    const weir_store *s = ctx;
    size_t len =
        weir_policy_registry_text(weir_image_policies(s->image), policy_id, text, sizeof text);
    const weir_zones *zones = s->zones.find ? &s->zones : NULL;
    bool known = len > 0 && weir_policy_parse(ret, text, len, zones, NULL) == WEIR_OK;
    return known ? WEIR_OK : WEIR_E_ABSENT;
}

static void policy_note(void *ctx, uint64_t policy_id, const weir_policy *p)
{
    weir_store_note_policy(ctx, policy_id, p);
}

static weir_status open_reservations(weir_store *s, weir_part part)
{
    const weir_reserve_hooks hooks = {s, run_state, policy_find, policy_note};
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

static void start_clock(weir_store *s)
{
    weir_clock_start(&s->clock, port_clocks_now(), boot_word(), weir_image_clock_slots(s->image),
                     weir_store_seen_ns(s));
}

/* ---- the parts of a store -------------------------------------------------------------------- */

static void close_parts(weir_store *s)
{
    weir_reserve_close(s->reserved);
    weir_table_close(s->table);
    weir_large_close(s->large);
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

/* Creates a store on an image, and takes ownership of the image. */
static weir_status open_on(weir_store **ret, weir_image *image, const weir_store_options *o)
{
    weir_image_parts parts = weir_image_parts_get(image);
    const weir_processes *processes = weir_image_processes(image);
    weir_store *s = port_zalloc(1, sizeof *s);
    if (!s) {
        weir_image_close(image);
        return part_error(o, WEIR_E_NOMEM);
    }
    s->image = image;
    s->sync_always = o->file && !o->read_only && o->sync == WEIR_SYNC_ALWAYS;
    s->when_full = o->when_full;
    if (o->zones)
        s->zones = *o->zones;
    s->memory_max = parts.table.bytes + parts.large.bytes + parts.reserved.bytes;
    s->large_max = parts.large.bytes;
    const uint8_t *secret = weir_image_secret(image);
    s->secret = (weir_secret){weir_read8(secret), weir_read8(secret + 8)};
    weir_hash_init(&s->hash, s->secret);
    weir_status st = weir_table_open(&s->table, parts.table.at, parts.table.bytes, processes,
                                     o->when_full == WEIR_REFUSE);
    if (st == WEIR_OK)
        st = weir_large_open(&s->large, parts.large.at, parts.large.bytes, weir_image_is_new(image),
                             processes);
    if (st == WEIR_OK)
        st = open_reservations(s, parts.reserved);
    if (st == WEIR_OK && !o->file)
        st = weir_huge_pages_start(&s->huge_pages, s, o->prefault);
    if (st != WEIR_OK) {
        weir_store_close(s);
        return part_error(o, st);
    }
    *ret = s;
    return WEIR_OK;
}

/* ---- resizing -------------------------------------------------------------------------------- */

static bool put_into(void *ctx, const weir_key_state *stored)
{
    /* A state that does not fit is dropped. The new store counts it. */
    (void)!weir_store_put(ctx, stored);
    return true;
}

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
    (void)weir_table_now(wider->table, weir_store_seen_ns(old));
    weir_store_repair_locks(old);
    weir_store_each(old, put_into, wider);
    weir_reserve_copy(wider->reserved, old->reserved);
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
    start_clock(s);
    *ret = s;
    return WEIR_OK;
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
