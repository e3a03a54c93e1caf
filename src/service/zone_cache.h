/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_ZONE_CACHE_H
#define WEIR_SERVICE_ZONE_CACHE_H
/* A cache of the system's time zones. It reads a TZif file at the first use of a zone, and keeps
 * the zone until the cache is closed, since policies point to it. */

#include <weir/weir_zone.h>

typedef struct weir_zone_cache weir_zone_cache;

#define WEIR_ZONEINFO_DIR "/usr/share/zoneinfo"

/* Opens an empty cache; NULL if memory is exhausted.
 *  dir  the directory of the TZif files; the string must outlive the cache. */
weir_zone_cache *weir_zone_cache_open(const char *dir);

/* Accepts NULL. No policy with a zone of the cache may be used afterwards. */
void weir_zone_cache_close(weir_zone_cache *b);

/* Returns the zones for weir_policy_parse(). Any thread. */
weir_zones weir_zone_cache_zones(weir_zone_cache *b);

#endif
