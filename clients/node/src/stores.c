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

/* Protects `stores` and `zones`, and opens, closes and watches stores one at a time. */
static pthread_mutex_t stores_mutex = PTHREAD_MUTEX_INITIALIZER;
static shared_store *stores;
static weir_zones zones; /* set by the first call of stores_zones() */

const weir_zones *stores_zones(void)
{
    pthread_mutex_lock(&stores_mutex);
    if (!zones.find)
        zones = weir_client_zones();
    pthread_mutex_unlock(&stores_mutex);
    return &zones;
}

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
                                        .zones = &zones,
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
                 "%.120s: this process has opened the file with other options: memory, sync or "
                 "whenFull",
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
