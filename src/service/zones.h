/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_ZONES_H
#define WEIR_SERVICE_ZONES_H
/* The system's time zones, read once each and kept for as long as any policy may point to them. */

#include <weir/weir_zone.h>

typedef struct weir_zone_book weir_zone_book;

#define WEIR_ZONEINFO_DIR "/usr/share/zoneinfo"

/* dir: where the TZif files lie, kept by reference. NULL if there is no memory. */
weir_zone_book *weir_zone_book_open(const char *dir);

/* Accepts NULL. No policy that names one of its zones may be used any more. */
void weir_zone_book_close(weir_zone_book *b);

/* For weir_policy_parse(): find() reads a zone at its first use. Any thread. */
weir_zones weir_zone_book_zones(weir_zone_book *b);

#endif
