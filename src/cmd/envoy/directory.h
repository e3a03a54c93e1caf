/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ENVOY_DIRECTORY_H
#define WEIR_CMD_ENVOY_DIRECTORY_H
/* Reads a directory with configuration files of envoyproxy/ratelimit, and builds the configuration
 * of the Rate Limit Service from it. */

#include "cmd/config/keys.h"

enum {
    ENVOY_FILES_MAX = 1024, /* of a directory */
    ENVOY_LEVELS_MAX = 8,   /* of directories in it */
};

/* Reads every file of c->envoy.directory and of the directories in it, sorted by path, except those
 * whose names begin with '.', into c->envoy.domains. Links to files are followed, links to
 * directories are not. The errors of each file are added to the chain of r->errors.
 *  place  the key that names the directory.
 * Returns false if memory is exhausted, or the directory or a file could not be read: it may be
 * replaced just now. */
bool envoy_read_directory(config_reader *r, const config_place *place);

/* Builds c->envoy.rls from c->envoy.domains, and replaces the one before. Returns false if memory
 * is exhausted or a descriptor is invalid.
 *  r  receives the errors; NULL: they were checked before. */
bool envoy_build(weir_config *c, config_reader *r);

#endif
