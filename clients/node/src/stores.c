/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#define _POSIX_C_SOURCE 200809L

#include "stores.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shared_store {
    shared_store *next;
    weir_store *store;
    size_t references;
    store_settings settings; /* `file` is owned */
};

/* Protects `stores` and opens, closes and watches them one at a time. Opening a store looks up the
 * zones of its policies, so zones have a mutex of their own. */
static pthread_mutex_t stores_mutex = PTHREAD_MUTEX_INITIALIZER;
static shared_store *stores;

/* ---- time zones ------------------------------------------------------------------------------ */

#define ZONE_BYTES_MAX (1 << 20)

typedef struct known_zone {
    struct known_zone *next;
    weir_zone zone;
    uint8_t *bytes;
} known_zone;

static pthread_mutex_t zones_mutex = PTHREAD_MUTEX_INITIALIZER;
static known_zone *zones;

/* Returns the contents of a zone's file, or NULL. */
static uint8_t *read_zone(const char *name, size_t *ret_len)
{
    char path[32 + WEIR_ZONE_NAME_MAX];
    snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", name);
    FILE *file = fopen(path, "rbe");
    uint8_t *bytes = file ? malloc(ZONE_BYTES_MAX) : NULL;
    *ret_len = bytes ? fread(bytes, 1, ZONE_BYTES_MAX, file) : 0;
    if (file)
        fclose(file);
    return bytes;
}

static known_zone *load_zone(const char *name, size_t len)
{
    char terminated[WEIR_ZONE_NAME_MAX + 1] = "";
    memcpy(terminated, name, len);
    size_t bytes_len;
    uint8_t *bytes = read_zone(terminated, &bytes_len);
    known_zone *z = bytes ? calloc(1, sizeof *z) : NULL;
    if (!z || weir_zone_read(&z->zone, name, len, bytes, bytes_len) != WEIR_OK) {
        free(z);
        free(bytes);
        return NULL;
    }
    z->bytes = bytes;
    z->next = zones;
    zones = z;
    return z;
}

static const weir_zone *find_zone(void *ctx, const char *name, size_t len)
{
    (void)ctx;
    if (!weir_zone_name_ok(name, len))
        return NULL;
    pthread_mutex_lock(&zones_mutex);
    known_zone *z = zones;
    while (z && (strlen(z->zone.name) != len || memcmp(z->zone.name, name, len) != 0))
        z = z->next;
    if (!z)
        z = load_zone(name, len);
    pthread_mutex_unlock(&zones_mutex);
    return z ? &z->zone : NULL;
}

const weir_zones stores_zones = {.find = find_zone};

/* ---- stores ---------------------------------------------------------------------------------- */

static shared_store *find_store(const char *file)
{
    shared_store *s = stores;
    while (s && strcmp(s->settings.file, file) != 0)
        s = s->next;
    return s;
}

static bool fits(const shared_store *s, const store_settings *wanted)
{
    return wanted->memory_bytes == s->settings.memory_bytes && wanted->sync == s->settings.sync &&
           wanted->refuse == s->settings.refuse;
}

static weir_status create(shared_store **ret, const store_settings *settings,
                          weir_store_error *ret_error)
{
    shared_store *s = calloc(1, sizeof *s);
    char *file = strdup(settings->file);
    weir_status st = WEIR_E_NOMEM;
    const weir_store_options options = {.memory_bytes = settings->memory_bytes,
                                        .file = file,
                                        .sync = settings->sync ? WEIR_SYNC_SECOND : WEIR_SYNC_NEVER,
                                        .when_full = settings->refuse ? WEIR_REFUSE : WEIR_EVICT,
                                        .shared = true,
                                        .keep_size = settings->memory_bytes == 0,
                                        .zones = &stores_zones,
                                        .ret_error = ret_error};
    if (s && file)
        st = weir_store_open(&s->store, &options);
    if (st != WEIR_OK) {
        free(file);
        free(s);
        return st;
    }
    s->settings = *settings;
    s->settings.file = file;
    *ret = s;
    return WEIR_OK;
}

weir_status stores_open(shared_store **ret, const store_settings *settings,
                        weir_store_error *ret_error)
{
    weir_status st = WEIR_OK;
    pthread_mutex_lock(&stores_mutex);
    shared_store *s = find_store(settings->file);
    if (s && !fits(s, settings)) {
        snprintf(ret_error->text, sizeof ret_error->text,
                 "%.120s: this process has it open with another memory, sync or whenFull",
                 settings->file);
        st = WEIR_E_RANGE;
    } else if (!s && (st = create(&s, settings, ret_error)) == WEIR_OK) {
        s->next = stores;
        stores = s;
    }
    if (st == WEIR_OK) {
        s->references++;
        *ret = s;
    }
    pthread_mutex_unlock(&stores_mutex);
    return st;
}

void stores_close(shared_store *s)
{
    pthread_mutex_lock(&stores_mutex);
    if (--s->references == 0) {
        shared_store **place = &stores;
        while (*place != s)
            place = &(*place)->next;
        *place = s->next;
        weir_store_close(s->store);
        free((char *)s->settings.file);
        free(s);
    }
    pthread_mutex_unlock(&stores_mutex);
}

weir_store *stores_get(const shared_store *s)
{
    return s->store;
}

weir_file stores_watch(shared_store *s)
{
    pthread_mutex_lock(&stores_mutex);
    weir_file place = weir_store_watch(s->store);
    pthread_mutex_unlock(&stores_mutex);
    return place;
}
