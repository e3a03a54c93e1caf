/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The cache of time zones: a linked list, since there are a few hundred zones at most, and lookups
 * happen only when a policy is parsed. */

#include "service/zone_cache.h"

#include "port/port.h"
#include "port/text.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

typedef struct entry {
    struct entry *next;
    uint8_t *bytes; /* of the file; the zone points into them */
    weir_zone zone;
} entry;

struct weir_zone_cache {
    const char *dir;
    port_mutex *lock;
    entry *entries;
};

weir_zone_cache *weir_zone_cache_open(const char *dir)
{
    weir_zone_cache *b = port_zalloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->dir = dir;
    b->lock = port_mutex_new();
    if (!b->lock) {
        weir_zone_cache_close(b);
        return NULL;
    }
    return b;
}

void weir_zone_cache_close(weir_zone_cache *b)
{
    if (!b)
        return;
    for (entry *p = b->entries, *next; p; p = next) {
        next = p->next;
        port_free(p->bytes);
        port_free(p);
    }
    port_mutex_free(b->lock);
    port_free(b);
}

static const weir_zone *find_cached(const weir_zone_cache *b, const char *name, size_t len)
{
    for (const entry *p = b->entries; p; p = p->next) {
        if (strlen(p->zone.name) == len && memcmp(p->zone.name, name, len) == 0)
            return &p->zone;
    }
    return NULL;
}

static const weir_zone *read_zone(weir_zone_cache *b, const char *name, size_t len)
{
    static const weir_zone no_memory; /* its name is empty: see weir_zone_find */
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%.*s", b->dir, (int)len, name);
    if ((size_t)n >= sizeof path)
        return NULL;
    entry *p = port_zalloc(1, sizeof *p);
    if (!p)
        return &no_memory;
    size_t bytes_len = 0;
    weir_status st = port_read_file(path, FILE_MAX, &p->bytes, &bytes_len);
    if (st == WEIR_OK)
        st = weir_zone_read(&p->zone, name, len, p->bytes, bytes_len);
    if (st != WEIR_OK) {
        port_free(p->bytes);
        port_free(p);
        return st == WEIR_E_NOMEM ? &no_memory : NULL;
    }
    p->next = b->entries;
    b->entries = p;
    return &p->zone;
}

/* Whether the file is the machine's own time zone: policies must mean the same on every machine. */
static bool is_local_zone(const char *name, size_t len)
{
    static const char *const links[] = {"localtime", "posixrules"};
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        if (strlen(links[i]) == len && memcmp(links[i], name, len) == 0)
            return true;
    }
    return false;
}

static const weir_zone *find(void *ctx, const char *name, size_t len)
{
    weir_zone_cache *b = ctx;
    if (!weir_zone_name_ok(name, len) || is_local_zone(name, len))
        return NULL;
    port_mutex_lock(b->lock);
    const weir_zone *zone = find_cached(b, name, len);
    if (!zone)
        zone = read_zone(b, name, len);
    port_mutex_unlock(b->lock);
    return zone;
}

/* ---- unknown names --------------------------------------------------------------------------- */

/* Reads the next zone or link of tzdata.zi, the list of all zones in the language of zic(8), whose
 * lines are "Z name ..." or "L target name". Returns false at the end.
 *  ret_target  "" for a zone. */
static bool next_zone(const char **at, const char *end, char ret_target[WEIR_ZONE_NAME_MAX + 1],
                      char ret_name[WEIR_ZONE_NAME_MAX + 1])
{
    while (*at < end) {
        char line[2 * WEIR_ZONE_NAME_MAX + 4];
        const char *line_end = memchr(*at, '\n', (size_t)(end - *at));
        size_t len = (size_t)((line_end ? line_end : end) - *at);
        snprintf(line, sizeof line, "%.*s", (int)(len < sizeof line ? len : sizeof line - 1), *at);
        *at += len + 1;
        *ret_target = '\0';
        if (sscanf(line, "Z %63s", ret_name) == 1 ||
            sscanf(line, "L %63s %63s", ret_target, ret_name) == 2)
            return true;
    }
    return false;
}

/* Suggests the nearest name. A link may be in the list without being installed: then it suggests
 * the link's target. */
static void suggest(weir_zone_cache *b, const char *name, char *ret, size_t size)
{
    char path[4096], target[WEIR_ZONE_NAME_MAX + 1], found[WEIR_ZONE_NAME_MAX + 1];
    uint8_t *list;
    size_t len, nearest = 1 + strlen(name) / 4; /* a distance of this or more is not near */
    snprintf(path, sizeof path, "%s/tzdata.zi", b->dir);
    if (port_read_file(path, FILE_MAX, &list, &len) != WEIR_OK)
        return;
    for (const char *at = (const char *)list, *end = at + len;
         next_zone(&at, end, target, found);) {
        size_t distance = weir_edit_distance(name, found);
        if (distance >= nearest)
            continue;
        const char *meant = find(b, found, strlen(found)) ? found : target;
        if (!find(b, meant, strlen(meant)))
            continue;
        nearest = distance;
        snprintf(ret, size, "the name of a time zone; did you mean '%s'?", meant);
    }
    port_free(list);
}

static void expected(void *ctx, const char *name, size_t len, char *ret, size_t size)
{
    weir_zone_cache *b = ctx;
    char text[WEIR_ZONE_NAME_MAX + 1];
    if (!find(b, "Etc/UTC", 7)) {
        snprintf(ret, size, "the name of a time zone, but %s has none: install tzdata", b->dir);
    } else if (len < sizeof text) {
        snprintf(text, sizeof text, "%.*s", (int)len, name);
        suggest(b, text, ret, size);
    }
}

weir_zones weir_zone_cache_zones(weir_zone_cache *b)
{
    return (weir_zones){find, b, expected};
}
