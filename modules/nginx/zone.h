/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_NGINX_ZONE_H
#define WEIR_MODULES_NGINX_ZONE_H
/* A zone: a store that all workers share. It lies in an nginx shared memory zone, or in a state
 * file. The shared memory zone also has the counters of the limits. */

#include "arguments.h"

#include <weir/weir_store.h>

extern ngx_module_t ngx_http_weir_module; /* module.c: its address marks the memory of zones */

enum {
    WEIR_NGX_LABEL_MAX = 143,                        /* bytes of a label; longer ones are cut */
    WEIR_NGX_COUNTS_MAX = 256,                       /* rows of counters in a zone */
    WEIR_NGX_COUNTS_OTHERS = WEIR_NGX_COUNTS_MAX - 1 /* for all labels without a row */
};

/* The values of $weir_status. Of several limits, the one with the highest value is shown. */
typedef enum weir_ngx_status {
    WEIR_NGX_PASSED,
    WEIR_NGX_DELAYED_SHADOW,
    WEIR_NGX_REJECTED_SHADOW,
    WEIR_NGX_DELAYED,
    WEIR_NGX_REJECTED,
    WEIR_NGX_STATUSES,
    WEIR_NGX_FAILED = WEIR_NGX_STATUSES, /* a counter: neither the store nor the daemon decided */
    WEIR_NGX_COUNTERS
} weir_ngx_status;

/* Counters of the limits with one label, in shared memory. */
typedef struct weir_ngx_counts {
    ngx_atomic_t of[WEIR_NGX_COUNTERS];
    u_char label_len;
    u_char label[WEIR_NGX_LABEL_MAX];
} weir_ngx_counts;

typedef struct weir_ngx_zone_shared {      /* in shared memory */
    void *memory;                          /* of the store; NULL: it is in a file */
    ngx_uint_t counts_len;                 /* rows with a label; only the master adds rows */
    _Alignas(64) weir_ngx_counts counts[]; /* WEIR_NGX_COUNTS_MAX */
} weir_ngx_zone_shared;

typedef struct weir_ngx_zone {
    ngx_str_t name;
    const struct weir_ngx_zones *all; /* of the configuration */
    size_t bytes, large_bytes;        /* bytes is 0: not declared yet */
    ngx_str_t file;                   /* NUL-terminated; empty: in shared memory */
    ngx_shm_zone_t *shm;
    struct weir_ngx_zone *old; /* during a reload: the old zone of that name */
    ngx_array_t labels;        /* of ngx_str_t: the labels of its limits */
    weir_ngx_zone_shared *shared;
    uint8_t secret[16];   /* of the store; in the master, once the store was created */
    ngx_cycle_t *cycle;   /* of the configuration */
    weir_store *store;    /* of this worker; NULL in the master */
    time_t tried, logged; /* when this worker could not open it, and when it logged that */
    weir_ngx_place at;    /* where it is declared or, before that, named first */
} weir_ngx_zone;

/* The zones of a configuration. */
typedef struct weir_ngx_zones {
    ngx_array_t all;       /* of weir_ngx_zone * */
    weir_zones time_zones; /* for the texts of policies */
} weir_ngx_zones;

/* The directive `weir_zone`, whose offset in the main configuration is that of a weir_ngx_zones. */
char *weir_ngx_zone_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Returns the zone of a name, which may be declared later; NULL if memory is exhausted. */
weir_ngx_zone *weir_ngx_zone_named(ngx_conf_t *cf, weir_ngx_zones *zones, const ngx_str_t *name);

/* Checks that a zone was declared; otherwise logs a configuration error. */
bool weir_ngx_zone_is_declared(ngx_conf_t *cf, const weir_ngx_zone *zone);

/* Adds a label, so that the zone has counters for it. Returns false if memory is exhausted. */
bool weir_ngx_zone_add_label(weir_ngx_zone *zone, const ngx_str_t *label);

/* The counters of a label that was added. */
weir_ngx_counts *weir_ngx_zone_counts(weir_ngx_zone *zone, const ngx_str_t *label);

/* Opens the zone's store in a worker, unless it is open. If it cannot be opened, the log says why,
 * and the next call after a second tries again. It is closed with the configuration. */
void weir_ngx_zone_open(weir_ngx_zone *zone, ngx_log_t *log);

#endif
