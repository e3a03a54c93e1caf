/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_ZONE_CACHE_H
#define WEIR_SERVICE_ZONE_CACHE_H
/* The system's time zones, read once each and kept for as long as any policy may point to them. */

#include <weir/weir_zone.h>

typedef struct weir_zone_cache weir_zone_cache;

#define WEIR_ZONEINFO_DIR "/usr/share/zoneinfo"

/* dir: where the TZif files lie, kept by reference. NULL if there is no memory. */
weir_zone_cache *weir_zone_cache_open(const char *dir);

/* Accepts NULL. No policy that names one of its zones may be used any more. */
void weir_zone_cache_close(weir_zone_cache *b);

/* For weir_policy_parse(): find() reads a zone at its first use. Any thread. */
weir_zones weir_zone_cache_zones(weir_zone_cache *b);

#endif
