/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ENVOY_DESCRIPTORS_H
#define WEIR_CMD_ENVOY_DESCRIPTORS_H
/* Reads a configuration file of envoyproxy/ratelimit: a domain with its descriptors. The file has
 * the meaning that the reference gives it, and two keys more: `weir` and `atomic`. It must not know
 * how limits are matched. */

#include "cmd/config/errors.h"
#include "service/rls/rls_config.h"

/* Where a domain or a descriptor was read, for errors that are found later. */
typedef struct envoy_origin {
    struct envoy_origin *next;
    const weir_rls_domain_spec *domain; /* NULL: a descriptor */
    const weir_rls_spec *descriptor;    /* NULL: a domain */
    config_errors *errors;
    const config_place *place; /* of its map */
} envoy_origin;

/* Reads a file, which errors->text holds, and reports its errors. Everything is in the arena.
 *  origins  a list; receives the domain and its descriptors.
 *  ret      written as far as the file is valid. */
void envoy_read_descriptors(config_arena *arena, config_errors *errors, envoy_origin **origins,
                            weir_rls_domain_spec *ret);

/* Reports an error of weir_rls_config_build() at its place. */
void envoy_report_descriptor(const envoy_origin *origin, uint32_t column, const char *text);

#endif
