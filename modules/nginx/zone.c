/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The master creates each zone's store, or copies it after a change of size, and closes it again.
 * Then each worker opens the store for itself. */

#include "zone.h"

#include "codec/answer/fields.h"
#include "port/assert.h"
#include "store/iterate.h"

#include <stdio.h>
#include <string.h>

enum { LOG_AGAIN_S = 60 }; /* a zone that cannot be opened */

#define MEMORY_BYTES_MIN ((size_t)1 << 20)
#define FILE_BYTES_MIN   ((size_t)8 << 20)
#define LARGE_BYTES_MIN  ((size_t)64 << 10)

_Static_assert(sizeof(weir_ngx_counts) == 192, "whole cache lines");

/* ---- configuration --------------------------------------------------------------------------- */

static void close_store(void *data)
{
    weir_ngx_zone *zone = data;
    weir_store_close(zone->store);
}

weir_ngx_zone *weir_ngx_zone_named(ngx_conf_t *cf, weir_ngx_zones *zones, const ngx_str_t *name)
{
    weir_ngx_zone **all = zones->all.elts;
    for (ngx_uint_t i = 0; i < zones->all.nelts; i++) {
        if (weir_ngx_is_same(&all[i]->name, name))
            return all[i];
    }
    weir_ngx_zone *zone = ngx_pcalloc(cf->pool, sizeof *zone);
    weir_ngx_zone **place = zone ? ngx_array_push(&zones->all) : NULL;
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(cf->pool, 0);
    if (!place || !cleanup ||
        ngx_array_init(&zone->labels, cf->pool, 4, sizeof(ngx_str_t)) != NGX_OK)
        return NULL;
    zone->name = *name;
    zone->all = zones;
    zone->at = weir_ngx_place_of(cf);
    cleanup->handler = close_store;
    cleanup->data = zone;
    *place = zone;
    return zone;
}

bool weir_ngx_zone_is_declared(ngx_conf_t *cf, const weir_ngx_zone *zone)
{
    if (zone->bytes > 0)
        return true;
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "unknown zone \"%V\", expected the name of a weir_zone in %V:%ui", &zone->name,
                  &zone->at.file, zone->at.line);
    return false;
}

bool weir_ngx_zone_add_label(weir_ngx_zone *zone, const ngx_str_t *label)
{
    ngx_str_t *place = ngx_array_push(&zone->labels);
    if (place)
        *place = *label;
    return place != NULL;
}

/* The zone of the same name in the configuration that this one replaces. */
static weir_ngx_zone *zone_before(ngx_conf_t *cf, const weir_ngx_zone *zone)
{
    ngx_cycle_t *old = cf->cycle->old_cycle;
    if (!old || ngx_is_init_cycle(old))
        return NULL;
    for (ngx_list_part_t *part = &old->shared_memory.part; part; part = part->next) {
        ngx_shm_zone_t *zones = part->elts;
        for (ngx_uint_t i = 0; i < part->nelts; i++) {
            weir_ngx_zone *before = zones[i].data;
            if (zones[i].tag == &ngx_http_weir_module &&
                weir_ngx_is_same(&before->name, &zone->name))
                return before;
        }
    }
    return NULL;
}

/* Adds the shared memory of a zone. At a reload, nginx reuses memory of the same name and size, so
 * the name contains both sizes of the zone. (`noreuse` is no alternative: the next reload would
 * free the memory even if it reuses it.) */
static ngx_shm_zone_t *add_memory(ngx_conf_t *cf, const weir_ngx_zone *zone)
{
    bool in_file = zone->file.len > 0;
    size_t bytes = sizeof(weir_ngx_zone_shared) + WEIR_NGX_COUNTS_MAX * sizeof(weir_ngx_counts) +
                   (in_file ? 0 : zone->bytes);
    u_char text[WEIR_RATELIMIT_NAME_MAX + 2 * NGX_SIZE_T_LEN + sizeof "  "];
    u_char *end =
        in_file ? ngx_sprintf(text, "%V file", &zone->name)
                : ngx_sprintf(text, "%V %uz %uz", &zone->name, zone->bytes, zone->large_bytes);
    ngx_str_t name;
    if (!weir_ngx_copy(cf, text, (size_t)(end - text), &name))
        return NULL;
    /* nginx's slab allocator needs 24 bytes for each page. */
    return ngx_shared_memory_add(cf, &name, bytes + bytes / 64 + 16 * ngx_pagesize,
                                 &ngx_http_weir_module);
}

/* Two zones cannot have one file: a transaction could not lock it twice. */
static bool read_file(ngx_conf_t *cf, weir_ngx_zone *zone, ngx_str_t path)
{
    weir_ngx_zone **zones = zone->all->all.elts;
    if (ngx_conf_full_name(cf->cycle, &path, 0) != NGX_OK)
        return false;
    for (ngx_uint_t i = 0; i < zone->all->all.nelts; i++) {
        if (weir_ngx_is_same(&zones[i]->file, &path)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "zone \"%V\" already has the file \"%V\"",
                               &zones[i]->name, &path);
            return false;
        }
    }
    zone->file = path;
    return true;
}

/* Reads the size of a zone whose parameters were read. */
static char *read_size(ngx_conf_t *cf, weir_ngx_zone *zone, ngx_str_t *text)
{
    size_t min = zone->file.len > 0 ? FILE_BYTES_MIN : MEMORY_BYTES_MIN;
    static _Alignas(4096) char any_page[1]; /* for the check of the sizes */
    off_t bytes = ngx_parse_offset(text);
    if (bytes < (off_t)min)
        return weir_ngx_refuse(
            cf, "bad size \"%V\" of zone \"%V\", expected a number with k, m or g, at least %s",
            text, &zone->name, zone->file.len > 0 ? "8m with file=" : "1m");
    zone->bytes = ngx_align((size_t)bytes, ngx_pagesize);
    if (zone->large_bytes == 0)
        zone->large_bytes = ngx_max(zone->bytes / 16, LARGE_BYTES_MIN);
    weir_store_error error = {.text = ""};
    const weir_store_options sizes = {.memory_bytes = zone->bytes,
                                      .large_bytes = zone->large_bytes,
                                      .memory = zone->file.len > 0 ? NULL : any_page,
                                      .file = (const char *)zone->file.data,
                                      .ret_error = &error};
    if (weir_store_check_sizes(&sizes) != WEIR_OK)
        return weir_ngx_refuse(cf, "zone \"%V\": %s", &zone->name, error.text);
    return NGX_CONF_OK;
}

/* Reads file= and large=. */
static char *read_parameters(ngx_conf_t *cf, weir_ngx_zone *zone)
{
    ngx_str_t *args = cf->args->elts, value;
    for (ngx_uint_t i = 3; i < cf->args->nelts; i++) {
        if (!weir_ngx_is_first(cf, 3, i))
            return NGX_CONF_ERROR;
        if (weir_ngx_is_parameter(&args[i], "file=", &value) && value.len > 0) {
            if (!read_file(cf, zone, value))
                return NGX_CONF_ERROR;
        } else if (weir_ngx_is_parameter(&args[i], "large=", &value)) {
            off_t large = ngx_parse_offset(&value);
            if (large < (off_t)LARGE_BYTES_MIN)
                return weir_ngx_refuse(
                    cf, "bad parameter \"%V\", expected large=SIZE of at least 64k", &args[i]);
            zone->large_bytes = (size_t)large;
        } else {
            return weir_ngx_refuse(cf, "bad parameter \"%V\", expected file=PATH or large=SIZE",
                                   &args[i]);
        }
    }
    return NGX_CONF_OK;
}

static ngx_int_t init(ngx_shm_zone_t *shm, void *data);

char *weir_ngx_zone_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t *args = cf->args->elts;
    weir_ngx_zones *zones = (weir_ngx_zones *)((char *)conf + cmd->offset);
    if (!weir_ngx_is_name(&args[1]))
        return weir_ngx_refuse(
            cf, "bad zone name \"%V\", expected 1 to 64 letters, digits and - _ . : /", &args[1]);
    weir_ngx_zone *zone = weir_ngx_zone_named(cf, zones, &args[1]);
    if (!zone)
        return NGX_CONF_ERROR;
    if (zone->bytes > 0)
        return weir_ngx_refuse(cf, "zone \"%V\" is already declared", &args[1]);
    if (read_parameters(cf, zone) != NGX_CONF_OK || read_size(cf, zone, &args[2]) != NGX_CONF_OK)
        return NGX_CONF_ERROR;
    zone->at = weir_ngx_place_of(cf);
    zone->cycle = cf->cycle;
    zone->shm = add_memory(cf, zone);
    if (!zone->shm)
        return NGX_CONF_ERROR;
    zone->old = zone_before(cf, zone);
    zone->shm->init = init;
    zone->shm->data = zone;
    return NGX_CONF_OK;
}

/* ---- the store ------------------------------------------------------------------------------- */

/* The user of the workers. */
static uid_t worker_user(const weir_ngx_zone *zone)
{
    ngx_core_conf_t *core = (ngx_core_conf_t *)ngx_get_conf(zone->cycle->conf_ctx, ngx_core_module);
    return geteuid() == 0 ? core->user : geteuid();
}

/* Checks that the workers may write the state file, and no other user may. */
static bool check_file(const weir_ngx_zone *zone, bool may_create, weir_store_error *error)
{
    static const mode_t checked = S_IRUSR | S_IWUSR | S_IWGRP | S_IWOTH;
    ngx_file_info_t info;
    const char *why = NULL;
    if (zone->file.len == 0)
        return true;
    if (ngx_file_info(zone->file.data, &info) == NGX_FILE_ERROR)
        why = may_create && ngx_errno == NGX_ENOENT ? NULL : strerror(ngx_errno);
    else if (info.st_uid != worker_user(zone) && info.st_uid != geteuid() && info.st_uid != 0)
        why = "it belongs to another user: give it to the user of the workers";
    else if ((info.st_mode & checked) != (S_IRUSR | S_IWUSR))
        why = "it has a bad mode: chmod 600 it";
    if (why)
        (void)snprintf(error->text, sizeof error->text, "the state file %.150s: %s",
                       (const char *)zone->file.data, why);
    return !why;
}

/* Replaces the advice to use an option of the daemon. */
static void adapt(weir_store_error *error)
{
    char *option = strstr(error->text, "; --reset-state");
    if (option)
        (void)snprintf(option, sizeof error->text - (size_t)(option - error->text),
                       "; move it away to begin with an empty one");
}

typedef struct opening {
    const uint8_t *secret; /* NULL: that of the store, or a new one */
    bool keep_size;        /* of a file */
} opening;

static weir_status open_store(const weir_ngx_zone *zone, const opening *how, weir_store **ret,
                              weir_store_error *error)
{
    bool in_file = zone->file.len > 0;
    WEIR_ASSERT(zone->bytes > 0 && (in_file || zone->shared->memory));
    const weir_store_options options = {
        .memory_bytes = zone->bytes,
        .large_bytes = zone->large_bytes,
        .memory = in_file ? NULL : zone->shared->memory,
        .file = in_file ? (const char *)zone->file.data : NULL,
        .shared = in_file,
        .keep_size = in_file && how->keep_size,
        .trust_others = in_file, /* check_file() has checked the owner */
        .secret = how->secret,
        .zones = &zone->all->time_zones,
        .ret_error = error,
    };
    return weir_store_open(ret, &options);
}

/* Creates the file or changes its size. The workers, which run as another user, open it later. */
static weir_status create_file(const weir_ngx_zone *zone, ngx_log_t *log, weir_store **ret,
                               weir_store_error *error)
{
    if (zone->old && zone->old->file.len == 0)
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "zone \"%V\" has the states of its file now, not those in memory",
                      &zone->name);
    weir_status st = open_store(zone, &(opening){.keep_size = ngx_test_config}, ret, error);
    if (st == WEIR_E_BUSY) {
        weir_store_error busy = *error;
        st = open_store(zone, &(opening){.keep_size = true}, ret, error);
        if (st == WEIR_OK)
            ngx_log_error(NGX_LOG_WARN, log, 0,
                          "zone \"%V\": the state file keeps its size until nginx is restarted: %s",
                          &zone->name, busy.text);
    }
    if (st != WEIR_OK || geteuid() != 0)
        return st;
    u_char lock_file[NGX_MAX_PATH];
    (void)ngx_snprintf(lock_file, sizeof lock_file, "%V.lock%Z", &zone->file);
    if (lchown((const char *)zone->file.data, worker_user(zone), (gid_t)-1) != 0 ||
        lchown((const char *)lock_file, worker_user(zone), (gid_t)-1) != 0)
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      "zone \"%V\": cannot make the user of the workers own the file \"%V\"",
                      &zone->name, &zone->file);
    return WEIR_OK;
}

/* Creates the store, with the states that the zone had before a change of size. */
static weir_status create_in_memory(const weir_ngx_zone *zone, ngx_log_t *log, weir_store **ret,
                                    weir_store_error *error)
{
    const weir_ngx_zone *old = zone->old;
    weir_store *from = NULL;
    bool copy =
        old && old->shared && old->shared->memory && old->shared->memory != zone->shared->memory;
    if (copy && open_store(old, &(opening){0}, &from, error) != WEIR_OK)
        ngx_log_error(NGX_LOG_WARN, log, 0, "zone \"%V\" begins empty: %s", &zone->name,
                      error->text);
    if (old && old->file.len > 0)
        ngx_log_error(NGX_LOG_NOTICE, log, 0, "zone \"%V\" begins empty: its states are in \"%V\"",
                      &zone->name, &old->file);
    opening how = {.secret = from ? weir_store_secret(from) : NULL};
    weir_status st = open_store(zone, &how, ret, error);
    if (st == WEIR_OK && from) {
        /* States that do not fit are left out, as if they were evicted. */
        (void)!weir_store_copy(*ret, from);
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "zone \"%V\": copied %uL keys to its memory of a new size", &zone->name,
                      weir_store_stats_get(*ret).keys);
    }
    weir_store_close(from);
    return st;
}

/* Whether a zone that was created before has the same store, or a copy of its file. A transaction
 * could not lock both. */
static bool is_copy(weir_ngx_zone *zone, const weir_store *store, weir_store_error *error)
{
    weir_ngx_zone **all = zone->all->all.elts;
    ngx_memcpy(zone->secret, weir_store_secret(store), sizeof zone->secret);
    for (ngx_uint_t i = 0; i < zone->all->all.nelts; i++) {
        if (all[i] == zone || ngx_memcmp(all[i]->secret, zone->secret, sizeof zone->secret) != 0)
            continue;
        (void)snprintf(error->text, sizeof error->text,
                       "its state file is that of zone %.*s, or a copy of it",
                       (int)all[i]->name.len, (const char *)all[i]->name.data);
        return true;
    }
    return false;
}

static bool create_store(weir_ngx_zone *zone, ngx_log_t *log)
{
    weir_store *store = NULL;
    weir_store_error error = {.text = ""};
    weir_status st = WEIR_E_IO;
    if (zone->file.len == 0)
        st = create_in_memory(zone, log, &store, &error);
    else if (check_file(zone, true, &error))
        st = create_file(zone, log, &store, &error);
    if (st == WEIR_OK && is_copy(zone, store, &error))
        st = WEIR_E_RANGE;
    adapt(&error);
    if (st != WEIR_OK)
        ngx_log_error(NGX_LOG_EMERG, log, 0, "zone \"%V\": %s", &zone->name, error.text);
    weir_store_close(store);
    return st == WEIR_OK;
}

/* ---- shared memory, in the master ------------------------------------------------------------ */

static weir_ngx_zone_shared *allocate(const weir_ngx_zone *zone)
{
    ngx_slab_pool_t *pool = (ngx_slab_pool_t *)zone->shm->shm.addr;
    size_t bytes = sizeof(weir_ngx_zone_shared) + WEIR_NGX_COUNTS_MAX * sizeof(weir_ngx_counts);
    weir_ngx_zone_shared *shared = ngx_slab_calloc(pool, bytes);
    if (!shared)
        return NULL;
    if (zone->file.len == 0) {
        shared->memory = ngx_slab_alloc(pool, zone->bytes);
        if (!shared->memory)
            return NULL;
    }
    pool->data = shared;
    return shared;
}

static size_t label_len(const ngx_str_t *label)
{
    return ngx_min(label->len, WEIR_NGX_LABEL_MAX);
}

static bool is_label(const weir_ngx_counts *c, const ngx_str_t *label)
{
    return c->label_len == label_len(label) && ngx_memcmp(c->label, label->data, c->label_len) == 0;
}

weir_ngx_counts *weir_ngx_zone_counts(weir_ngx_zone *zone, const ngx_str_t *label)
{
    weir_ngx_zone_shared *shared = zone->shared;
    WEIR_ASSERT(shared && shared->counts_len <= WEIR_NGX_COUNTS_OTHERS);
    for (ngx_uint_t i = 0; i < shared->counts_len; i++) {
        if (is_label(&shared->counts[i], label))
            return &shared->counts[i];
    }
    return &shared->counts[WEIR_NGX_COUNTS_OTHERS];
}

static bool has_label(const weir_ngx_zone *zone, const weir_ngx_counts *c)
{
    ngx_str_t *labels = zone->labels.elts;
    for (ngx_uint_t i = 0; i < zone->labels.nelts; i++) {
        if (is_label(c, &labels[i]))
            return true;
    }
    return false;
}

/* Returns an unused row or, if there is none, a row whose label no limit has any more. Returns NULL
 * if there is none either. */
static weir_ngx_counts *free_row(const weir_ngx_zone *zone)
{
    weir_ngx_zone_shared *shared = zone->shared;
    if (shared->counts_len < WEIR_NGX_COUNTS_OTHERS)
        return &shared->counts[shared->counts_len++];
    for (ngx_uint_t i = 0; i < WEIR_NGX_COUNTS_OTHERS; i++) {
        if (!has_label(zone, &shared->counts[i]))
            return &shared->counts[i];
    }
    return NULL;
}

/* Gives each new label a row. Only the master does so. */
static void add_counts(weir_ngx_zone *zone)
{
    ngx_str_t *labels = zone->labels.elts;
    for (ngx_uint_t i = 0; i < zone->labels.nelts; i++) {
        if (weir_ngx_zone_counts(zone, &labels[i]) != &zone->shared->counts[WEIR_NGX_COUNTS_OTHERS])
            continue;
        weir_ngx_counts *c = free_row(zone);
        if (!c)
            return;
        ngx_memzero(c, sizeof *c);
        c->label_len = (u_char)label_len(&labels[i]);
        ngx_memcpy(c->label, labels[i].data, c->label_len);
    }
}

static void copy_counts(weir_ngx_zone_shared *to, const weir_ngx_zone_shared *from)
{
    to->counts_len = from->counts_len;
    ngx_memcpy(to->counts, from->counts, WEIR_NGX_COUNTS_MAX * sizeof to->counts[0]);
}

/* Runs in the master, before it forks the workers. `data` is the old zone if it had the same size
 * and lies in the same memory. */
static ngx_int_t init(ngx_shm_zone_t *shm, void *data)
{
    weir_ngx_zone *zone = shm->data, *reused = data;
    ngx_slab_pool_t *pool = (ngx_slab_pool_t *)shm->shm.addr;
    zone->shared = reused ? reused->shared : shm->shm.exists ? pool->data : allocate(zone);
    if (!zone->shared) {
        ngx_log_error(NGX_LOG_EMERG, shm->shm.log, 0, "zone \"%V\": out of memory", &zone->name);
        return NGX_ERROR;
    }
    if (!reused && zone->old && zone->old->shared && zone->shared->counts_len == 0)
        copy_counts(zone->shared, zone->old->shared);
    add_counts(zone);
    bool created = create_store(zone, shm->shm.log);
    zone->old = NULL;
    return created ? NGX_OK : NGX_ERROR;
}

/* ---- in a worker ----------------------------------------------------------------------------- */

void weir_ngx_zone_open(weir_ngx_zone *zone, ngx_log_t *log)
{
    weir_store_error error = {.text = ""};
    if (zone->store || zone->tried == ngx_time())
        return;
    zone->tried = ngx_time();
    weir_status st = WEIR_E_IO;
    if (check_file(zone, false, &error))
        st = open_store(zone, &(opening){.keep_size = true}, &zone->store, &error);
    adapt(&error);
    if (st != WEIR_OK && zone->tried - zone->logged >= LOG_AGAIN_S) {
        zone->logged = zone->tried;
        ngx_log_error(NGX_LOG_EMERG, log, 0, "zone \"%V\" limits no requests: %s", &zone->name,
                      error.text);
    }
}
