/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* An image is one piece of memory: a header, then the parts. Anonymous memory has a header too,
 * which only its own process sees. In memory of the caller, process slots are in the place of the
 * locks on the bytes of a file. */

#include "store/image/image.h"

#include "port/assert.h"
#include "port/atomic.h"
#include "port/file.h"
#include "port/port.h"
#include "store/image/file_header.h"
#include "store/image/policy_registry.h"
#include "store/image/shared_memory.h"
#include "store/image/state_file.h"

#include <inttypes.h>
#include <string.h>

#define SECOND_NS INT64_C(1000000000)

/* A thread that writes the file to the disk once a second. */
typedef struct syncer {
    port_mutex *lock;
    port_cond *wake;
    port_thread *thread;
    bool stop; /* under the lock */
} syncer;

struct weir_image {
    weir_file_header *head; /* NULL: nothing is mapped */
    size_t bytes;
    weir_policy_registry registry;
    weir_state_file file;     /* fd is -1: anonymous memory, or the caller's */
    bool in_callers;          /* in memory of the caller */
    weir_process_slots slots; /* in memory of the caller, once a slot is taken; else len is 0 */
    weir_processes processes;
    weir_store_opened opened;
    uint64_t requested[WEIR_PARTS]; /* the requested sizes */
    weir_file_header wanted;        /* has the requested partitions, and nothing else */
    bool is_new;
    bool read_only; /* mapped privately: writes stay in this process */
    bool visits;    /* see weir_image_visit() */
    bool trust_others, keep_size;
    weir_image *old; /* the image that this one will replace */
    syncer syncer;
    port_counter syncs_failed, policies_refused;
};

/* Sets the memory of an image that has a header. */
static void find_registry(weir_image *m)
{
    const weir_file_part *p = &m->head->parts[WEIR_PART_REGISTRY];
    m->registry = weir_policy_registry_at((char *)m->head + p->at, (size_t)p->bytes);
}

/* Whether writes go to a file. */
static bool in_file(const weir_image *m)
{
    return m->file.fd >= 0 && !m->read_only;
}

/* ---- the disk -------------------------------------------------------------------------------- */

static bool sync_head(weir_image *m)
{
    return !in_file(m) || port_file_sync(m->head, WEIR_FILE_HEADER_BYTES);
}

weir_status weir_image_sync(weir_image *m)
{
    if (!in_file(m))
        return WEIR_OK;
    /* written_ns is shown to people only. It is stored first, so that it reaches the disk with the
     * rest. */
    port_word_store_release(&m->head->written_ns, (uint64_t)port_now_ns());
    if (port_file_sync(m->head, m->bytes))
        return WEIR_OK;
    port_add_relaxed(&m->syncs_failed, 1);
    return WEIR_E_IO;
}

static void sync_each_second(void *arg)
{
    weir_image *m = arg;
    syncer *s = &m->syncer;
    port_mutex_lock(s->lock);
    while (!s->stop) {
        int64_t begun_ns = port_steady_ns(), left_ns = SECOND_NS;
        while (!s->stop && left_ns > 0) {
            port_cond_wait_for(s->wake, s->lock, left_ns);
            left_ns = begun_ns + SECOND_NS - port_steady_ns();
        }
        if (s->stop)
            break;
        port_mutex_unlock(s->lock);
        (void)weir_image_sync(m); /* counts its own failures */
        port_mutex_lock(s->lock);
    }
    port_mutex_unlock(s->lock);
}

static weir_status start_syncer(weir_image *m, const weir_store_options *options)
{
    syncer *s = &m->syncer;
    if (!in_file(m) || options->sync != WEIR_SYNC_SECOND)
        return WEIR_OK;
    s->lock = port_mutex_new();
    s->wake = port_cond_new();
    s->thread = s->lock && s->wake ? port_thread_start(sync_each_second, m) : NULL;
    if (s->thread)
        return WEIR_OK;
    return weir_file_error(WEIR_E_NOMEM, options, "",
                           "cannot start the thread that writes the file to the disk");
}

static void stop_syncer(weir_image *m)
{
    syncer *s = &m->syncer;
    if (s->thread) {
        port_mutex_lock(s->lock);
        s->stop = true;
        port_cond_wake(s->wake);
        port_mutex_unlock(s->lock);
        port_thread_join(s->thread);
    }
    port_cond_free(s->wake);
    port_mutex_free(s->lock);
    *s = (syncer){0};
}

/* ---- a new header, an old header ------------------------------------------------------------- */

static weir_status lay_out(const weir_image *m, weir_file_header *ret,
                           const weir_store_options *options)
{
    memcpy(ret->partitions, m->wanted.partitions, sizeof ret->partitions);
    memcpy(ret->partition_names, m->wanted.partition_names, sizeof ret->partition_names);
    ret->processes = m->wanted.processes;
    if (weir_file_header_lay_out(ret, m->requested))
        return WEIR_OK;
    return weir_file_error(WEIR_E_RANGE, options, "",
                           "a state file cannot have the requested size");
}

/* Writes a header that lay_out() filled to new memory, which is all zero. */
static void write_head(weir_image *m, weir_file_header *head, const uint8_t secret[16])
{
    weir_file_header_init(head, secret, port_now_ns());
    memcpy(m->head, head, WEIR_FILE_HEADER_FIXED + sizeof head->checksum);
    memcpy(m->head->partition_names, head->partition_names, sizeof head->partition_names);
    m->is_new = true;
    find_registry(m);
}

static weir_status map_file(weir_image *m, uint64_t bytes, const weir_store_options *options)
{
    WEIR_ASSERT(bytes >= WEIR_FILE_HEADER_BYTES && !m->head);
    m->bytes = (size_t)bytes;
    m->head = m->read_only ? port_file_map_private(m->file.fd, m->bytes)
                           : port_file_map(m->file.fd, m->bytes);
    if (m->head)
        return WEIR_OK;
    return weir_file_error(WEIR_E_NOMEM, options, "",
                           "out of memory: cannot map its %" PRIu64 " MiB", bytes >> 20);
}

static weir_status take_secret(const weir_store_options *options, uint8_t ret[16])
{
    if (options->secret) {
        memcpy(ret, options->secret, 16);
        return WEIR_OK;
    }
    weir_status st = port_random(ret, 16);
    return st == WEIR_OK
               ? st
               : weir_file_error(st, options, "", "the system returned no random numbers");
}

/* Allocates the space of an empty file, and writes its header.
 *  secret  NULL: that of the options, or a new one. */
static weir_status fill_new(weir_image *m, const uint8_t *secret, const weir_store_options *options)
{
    uint8_t created[16];
    weir_file_header head = {0};
    weir_status st = lay_out(m, &head, options);
    if (st == WEIR_OK && !secret) {
        st = take_secret(options, created);
        secret = created;
    }
    if (st != WEIR_OK)
        return st;
    port_file_error error = port_file_allocate(m->file.fd, head.bytes);
    if (error != PORT_FILE_OK) {
        return weir_file_error(WEIR_E_IO, options, "", "%s: it needs %" PRIu64 " MiB",
                               port_file_error_text(error), (head.bytes + (1 << 20) - 1) >> 20);
    }
    st = map_file(m, head.bytes, options);
    if (st != WEIR_OK)
        return st;
    write_head(m, &head, secret);
    return WEIR_OK;
}

/* Validates a file and maps it. The locks guarantee that the file does not change in between. */
static weir_status check_old(weir_image *m, const weir_store_options *options)
{
    weir_file_header head = {0};
    uint64_t bytes;
    char what[128];
    port_file_error error = port_file_info(m->file.fd, &bytes, &m->opened.written_ns);
    bool whole = error == PORT_FILE_OK && port_file_read(m->file.fd, &head, sizeof head);
    if (error != PORT_FILE_OK || (!whole && bytes >= sizeof head))
        return weir_file_error(WEIR_E_IO, options, "", "cannot read the file");
    if (!weir_file_header_check(&head, bytes, options->read_only, what, sizeof what)) {
        return weir_file_error(WEIR_E_SYNTAX, options, "",
                               "%s; --reset-state replaces it with an empty file", what);
    }
    if (options->secret && memcmp(options->secret, head.secret, sizeof head.secret) != 0) {
        return weir_file_error(
            WEIR_E_RANGE, options, "",
            "its secret differs from the one given; --reset-state replaces it with an empty file");
    }
    weir_status st = map_file(m, bytes, options);
    if (st == WEIR_OK)
        find_registry(m);
    return st;
}

/* ---- opening, with the OPENING lock held ----------------------------------------------------- */

static bool process_alive(const void *ctx, uint64_t id)
{
    const weir_image *m = ctx;
    return weir_state_file_has_process(&m->file, id);
}

static weir_status take_owner(weir_image *m, const weir_store_options *options)
{
    bool taken;
    do {
        /* The OPENING lock excludes other openings. */
        uint64_t n = port_word_load_relaxed(&m->head->openings) + 1;
        port_word_store_release(&m->head->openings, n);
        m->processes.self = weir_process_id(n - 1);
        if (m->read_only)
            return WEIR_OK;
        weir_status st =
            weir_state_file_take_process_id(&m->file, m->processes.self, &taken, options);
        if (st != WEIR_OK)
            return st;
    } while (!taken); /* an opening 2^19 openings ago may still have this id */
    m->processes.alive = process_alive;
    m->processes.ctx = m;
    return WEIR_OK;
}

/* How the last process left the file. */
static weir_found found(const weir_image *m, const uint8_t boot[16])
{
    static const uint8_t unknown[16];
    if (m->file.is_new)
        return WEIR_FOUND_NOTHING;
    if (!m->file.is_first)
        return WEIR_FOUND_OPEN;
    if (port_word_load_relaxed(&m->head->attached) == 0)
        return WEIR_FOUND_CLOSED;
    bool same = memcmp(boot, m->head->boot, 16) == 0 && memcmp(boot, unknown, 16) != 0;
    return same ? WEIR_FOUND_KILLED : WEIR_FOUND_POWER_LOSS;
}

/* Counts the opening, and writes that to the disk before anything else changes. */
static weir_status attach(weir_image *m, const weir_store_options *options)
{
    uint8_t boot[16];
    port_boot_id(boot);
    m->opened.found = found(m, boot);
    uint64_t attached = m->file.is_first ? 0 : port_word_load_relaxed(&m->head->attached);
    int64_t written_ns = (int64_t)port_word_load_relaxed(&m->head->written_ns);
    if (m->opened.found == WEIR_FOUND_CLOSED || m->opened.written_ns < written_ns)
        m->opened.written_ns = written_ns;
    port_word_store_release(&m->head->attached, attached + 1);
    if (m->file.is_first) {
        memcpy(m->head->boot, boot, sizeof boot);
        weir_policy_registry_repair(&m->registry);
    }
    weir_status st = take_owner(m, options);
    if (st != WEIR_OK)
        return st;
    if (sync_head(m))
        return WEIR_OK;
    return weir_file_error(WEIR_E_IO, options, "", "cannot write the file to the disk");
}

/* ---- open and close -------------------------------------------------------------------------- */

static weir_status open_anonymous(weir_image *m, const weir_store_options *options)
{
    uint8_t secret[16];
    weir_file_header head = {0};
    weir_status st = lay_out(m, &head, options);
    if (st == WEIR_OK)
        st = take_secret(options, secret);
    if (st != WEIR_OK)
        return st;
    m->bytes = (size_t)head.bytes;
    m->head = port_map_aligned(m->bytes);
    if (!m->head)
        return weir_file_error(WEIR_E_NOMEM, options, "", "out of memory");
    write_head(m, &head, secret);
    m->processes.self = weir_process_id(0);
    return WEIR_OK;
}

static bool slot_alive(const void *ctx, uint64_t id)
{
    const weir_image *m = ctx;
    return weir_process_slots_has(&m->slots, id);
}

static weir_status take_slot(weir_image *m, const weir_store_options *options)
{
    weir_process_slots slots = weir_shared_memory_slots(m->head);
    if (!weir_process_slots_take(&slots, &m->head->openings, &m->processes.self))
        return weir_file_error(WEIR_E_BUSY, options, "",
                               "processes have it open %" PRIu64 " times, which is the limit",
                               slots.len);
    m->slots = slots;
    m->processes.alive = slot_alive;
    m->processes.ctx = m;
    return WEIR_OK;
}

/* Creates a store in memory of the caller that is all zero. */
static weir_status fill_memory(weir_image *m, weir_file_header *head,
                               const weir_store_options *options)
{
    uint8_t secret[16];
    weir_status st = take_secret(options, secret);
    if (st == WEIR_OK && !weir_shared_memory_init(m->head, head, secret))
        st = weir_file_error(WEIR_E_NOMEM, options, "", "the system has no robust mutexes");
    if (st == WEIR_OK)
        st = take_slot(m, options);
    if (st != WEIR_OK)
        return st;
    m->is_new = true;
    find_registry(m);
    weir_shared_memory_publish(m->head);
    return WEIR_OK;
}

static weir_status open_memory(weir_image *m, const weir_store_options *options)
{
    weir_file_header head = {0};
    weir_status st = lay_out(m, &head, options);
    if (st != WEIR_OK)
        return st;
    WEIR_ASSERT(head.bytes <= options->memory_bytes);
    m->bytes = (size_t)head.bytes;
    m->head = options->memory;
    if (weir_shared_memory_is_new(m->head))
        return fill_memory(m, &head, options);
    m->opened.found = WEIR_FOUND_OPEN;
    st = weir_shared_memory_check(m->head, &head, options);
    if (st == WEIR_OK)
        st = take_slot(m, options);
    if (st == WEIR_OK)
        find_registry(m);
    return st;
}

static weir_status open_file(weir_image *m, const weir_store_options *options)
{
    weir_status st = weir_state_file_open(&m->file, options);
    if (st == WEIR_OK)
        st = m->file.is_new ? fill_new(m, NULL, options) : check_old(m, options);
    if (st == WEIR_OK)
        st = attach(m, options);
    if (st == WEIR_OK && m->file.is_new)
        st = weir_state_file_install(&m->file, options);
    /* If several processes request other sizes at once, the first one resizes the file. It keeps
     * the OPENING lock until then: otherwise each process would prevent the others from
     * resizing. */
    if (st == WEIR_OK && !(m->file.is_first && weir_image_other_size(m)))
        st = weir_state_file_end_opening(&m->file, options);
    if (st == WEIR_OK)
        st = start_syncer(m, options);
    return st;
}

/* Frees the image without marking it as closed. */
static void drop(weir_image *m)
{
    stop_syncer(m);
    if (m->slots.len > 0)
        weir_process_slots_release(&m->slots, m->processes.self);
    if (!m->in_callers)
        port_unmap(m->head, m->bytes);
    weir_state_file_close(&m->file);
    port_free(m);
}

static weir_image *image_new(void)
{
    weir_image *m = port_zalloc(1, sizeof *m);
    if (m)
        m->file = WEIR_STATE_FILE_NONE;
    return m;
}

/* Creates the object of an image that the options request. */
static weir_image *image_for(const weir_store_options *options, size_t table_bytes,
                             size_t large_bytes, size_t reserved_bytes)
{
    weir_image *m = image_new();
    if (!m)
        return NULL;
    m->read_only = options->read_only;
    m->trust_others = options->trust_others;
    m->keep_size = options->keep_size;
    m->in_callers = options->memory;
    m->requested[WEIR_PART_REGISTRY] = WEIR_POLICY_REGISTRY_BYTES;
    if (m->in_callers) {
        m->wanted.processes.bytes = weir_shared_memory_processes(options->memory_bytes);
        m->requested[WEIR_PART_REGISTRY] = weir_shared_memory_registry(options->memory_bytes);
    }
    m->requested[WEIR_PART_RESERVED] = reserved_bytes;
    m->requested[WEIR_PART_LARGE] = large_bytes;
    m->requested[WEIR_PART_TABLE] = table_bytes;
    weir_partitions_set(&m->wanted, options);
    return m;
}

/* Hands an image out, or drops it. */
static weir_status hand_out(weir_image **ret, weir_image *m, weir_status st,
                            const weir_store_options *options)
{
    if (st != WEIR_OK) {
        drop(m);
        return st;
    }
    if (options->ret_opened)
        *options->ret_opened = m->opened;
    *ret = m;
    return WEIR_OK;
}

weir_status weir_image_open(weir_image **ret, const weir_store_options *options, size_t table_bytes,
                            size_t large_bytes, size_t reserved_bytes)
{
    weir_image *m = image_for(options, table_bytes, large_bytes, reserved_bytes);
    if (!m)
        return weir_file_error(WEIR_E_NOMEM, options, "", "out of memory");
    weir_status st = options->memory ? open_memory(m, options)
                     : options->file ? open_file(m, options)
                                     : open_anonymous(m, options);
    return hand_out(ret, m, st, options);
}

weir_status weir_image_visit(weir_image **ret, const weir_store_options *options)
{
    weir_image *m = image_for(options, 0, 0, 0);
    if (!m)
        return weir_file_error(WEIR_E_NOMEM, options, "", "out of memory");
    m->visits = m->keep_size = true;
    weir_status st = weir_state_file_visit(&m->file, options);
    if (st == WEIR_OK)
        st = check_old(m, options);
    if (st == WEIR_OK)
        st = take_owner(m, options);
    if (st == WEIR_OK)
        st = weir_state_file_end_opening(&m->file, options);
    return hand_out(ret, m, st, options);
}

/* Writes all changes, and only then the clean-shutdown mark. */
static void mark_closed(weir_image *m)
{
    weir_state_file_begin_closing(&m->file);
    if (weir_image_sync(m) != WEIR_OK)
        return;
    uint64_t attached = port_word_load_relaxed(&m->head->attached);
    port_word_store_release(&m->head->attached, attached > 0 ? attached - 1 : 0);
    (void)sync_head(m);
}

void weir_image_close(weir_image *m)
{
    if (!m)
        return;
    stop_syncer(m);
    if (m->old) {
        const weir_store_options quiet = {.file = m->file.path};
        (void)weir_state_file_end_opening(&m->old->file, &quiet);
    } else if (in_file(m) && !m->visits) {
        mark_closed(m);
    }
    drop(m);
}

/* ---- resizing -------------------------------------------------------------------------------- */

bool weir_image_other_size(const weir_image *m)
{
    if (m->keep_size)
        return false;
    for (size_t i = 0; i < WEIR_PARTS; i++) {
        if (m->head->parts[i].bytes != m->requested[i])
            return true;
    }
    return memcmp(m->head->partitions, m->wanted.partitions, sizeof m->wanted.partitions) != 0;
}

/* Fills a new file, with the secret and the count of openings of another. */
static weir_status fill_like(weir_image *m, const weir_image *old,
                             const weir_store_options *options)
{
    weir_status st = fill_new(m, old->head->secret, options);
    if (st != WEIR_OK)
        return st;
    weir_file_header_complete(m->head, false);
    port_word_store_release(&m->head->openings, port_word_load_relaxed(&old->head->openings));
    return attach(m, options);
}

/* Writes a copy to the disk, and only then that it is complete. */
static weir_status finish_copy(weir_image *m, const weir_store_options *options)
{
    bool synced = weir_image_sync(m) == WEIR_OK;
    weir_file_header_complete(m->head, synced);
    return synced && sync_head(m)
               ? WEIR_OK
               : weir_file_error(WEIR_E_IO, options, ".new", "cannot write the file to the disk");
}

weir_status weir_image_open_beside(weir_image **ret, weir_image *old,
                                   const weir_store_options *options)
{
    weir_image *m = image_new();
    if (!m) {
        (void)weir_state_file_end_opening(&old->file, options);
        return weir_file_error(WEIR_E_NOMEM, options, "", "out of memory");
    }
    memcpy(m->requested, old->requested, sizeof m->requested);
    m->wanted = old->wanted;
    m->trust_others = old->trust_others;
    weir_status st = weir_state_file_open_beside(&m->file, &old->file, options);
    if (st != WEIR_OK) {
        drop(m);
        return st;
    }
    m->old = old;
    st = fill_like(m, old, options);
    if (st != WEIR_OK) {
        weir_image_close(m);
        return st;
    }
    *ret = m;
    return WEIR_OK;
}

weir_status weir_image_replace(weir_image *m, weir_image *old, const weir_store_options *options)
{
    weir_status st = finish_copy(m, options);
    if (st == WEIR_OK && !m->syncer.thread)
        st = start_syncer(m, options);
    if (st == WEIR_OK)
        st = weir_state_file_install(&m->file, options);
    if (st != WEIR_OK)
        return st;
    m->old = NULL;
    weir_lock_file_hand_over(&m->file.claim, &old->file.claim);
    drop(old);
    (void)weir_state_file_end_opening(&m->file, options); /* releasing a lock does not fail */
    return WEIR_OK;
}

/* ---- backups --------------------------------------------------------------------------------- */

weir_status weir_image_begin_backup(weir_image **ret, const weir_image *of,
                                    const weir_store_options *options, size_t table_bytes,
                                    size_t large_bytes, size_t reserved_bytes)
{
    WEIR_ASSERT(options->reset);
    weir_image *m = image_for(options, table_bytes, large_bytes, reserved_bytes);
    if (!m)
        return weir_file_error(WEIR_E_NOMEM, options, "", "out of memory");
    weir_status st = weir_state_file_open(&m->file, options);
    if (st == WEIR_OK) {
        port_file_take_rights(m->file.fd, of->file.fd);
        st = fill_like(m, of, options);
    }
    return hand_out(ret, m, st, options);
}

weir_status weir_image_end_backup(weir_image *m, const weir_store_options *options)
{
    weir_status st = finish_copy(m, options);
    if (st == WEIR_OK)
        st = weir_state_file_install(&m->file, options);
    return st == WEIR_OK ? weir_state_file_end_opening(&m->file, options) : st;
}

static bool copy_text(void *ctx, uint64_t id, const char *text, size_t len)
{
    weir_image *m = ctx;
    (void)weir_image_note_policy(m, id, text, len, true); /* counts the texts that do not fit */
    return true;
}

void weir_image_copy(weir_image *m, const weir_image *from)
{
    weir_clock_reading reading;
    weir_policy_registry_each(&from->registry, copy_text, m);
    if (weir_clock_slots_read(&from->head->clock_slots, &reading))
        weir_clock_slots_write(&m->head->clock_slots, &reading);
    uint64_t entries[WEIR_RESETS_SLOTS];
    size_t n = weir_resets_entries(&from->head->resets, entries);
    for (size_t i = 0; i < n; i++)
        (void)!weir_resets_merge(&m->head->resets, entries[i]); /* fails for damaged ones only */
}

/* ---- the file -------------------------------------------------------------------------------- */

weir_file weir_image_watch(weir_image *m)
{
    const weir_store_options options = {
        .file = m->file.path, .read_only = m->read_only, .trust_others = m->trust_others};
    return m->file.fd < 0 ? WEIR_FILE_IN_PLACE
                          : weir_state_file_watch(&m->file, m->bytes, &options);
}

bool weir_image_share(weir_image *m)
{
    return weir_state_file_share(&m->file);
}

bool weir_image_own(weir_image *m)
{
    return weir_state_file_own(&m->file);
}

weir_mapping weir_image_mapping(const weir_image *m)
{
    return m->file.fd < 0 ? (weir_mapping){.fd = -1}
                          : (weir_mapping){.at = m->head, .bytes = m->bytes, .fd = m->file.fd};
}

/* ---- the parts ------------------------------------------------------------------------------- */

bool weir_image_is_new(const weir_image *m)
{
    return m->is_new;
}

static weir_part part(const weir_image *m, weir_file_part_name name)
{
    const weir_file_part *p = &m->head->parts[name];
    WEIR_ASSERT(p->at <= m->bytes && p->bytes <= m->bytes - p->at);
    return (weir_part){(char *)m->head + p->at, (size_t)p->bytes};
}

weir_image_parts weir_image_parts_get(const weir_image *m)
{
    return (weir_image_parts){.table = part(m, WEIR_PART_TABLE),
                              .large = part(m, WEIR_PART_LARGE),
                              .reserved = part(m, WEIR_PART_RESERVED)};
}

size_t weir_image_partitions(const weir_image *m, weir_image_partition *ret)
{
    return weir_partitions_get(m->head, ret);
}

const weir_processes *weir_image_processes(const weir_image *m)
{
    return &m->processes;
}

weir_clock_slots *weir_image_clock_slots(weir_image *m)
{
    return &m->head->clock_slots;
}

weir_resets *weir_image_resets(weir_image *m)
{
    return &m->head->resets;
}

const uint8_t *weir_image_secret(const weir_image *m)
{
    return m->head->secret;
}

weir_image_stats weir_image_stats_get(const weir_image *m)
{
    return (weir_image_stats){.syncs_failed = port_load_relaxed(&m->syncs_failed),
                              .policies = weir_policy_registry_len(&m->registry),
                              .policies_refused = port_load_relaxed(&m->policies_refused)};
}

_Static_assert(WEIR_POLICY_TEXT_MAX - 1 <= WEIR_POLICY_REGISTRY_TEXT_MAX, "any policy fits");

bool weir_image_note_policy(weir_image *m, uint64_t policy_id, const char *text, size_t len,
                            bool may_fill)
{
    bool noted = len < WEIR_POLICY_TEXT_MAX &&
                 weir_policy_registry_note(&m->registry, policy_id, text, len, may_fill);
    if (!noted)
        port_add_relaxed(&m->policies_refused, 1);
    return noted;
}

const weir_policy_registry *weir_image_policies(const weir_image *m)
{
    return &m->registry;
}
