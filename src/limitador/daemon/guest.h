/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_LIMITADOR_DAEMON_GUEST_H
#define WEIR_LIMITADOR_DAEMON_GUEST_H
/* limitador's limits as a guest of the daemon: their section in weir.yaml and their file, a YAML
 * list of limits. */

#include "cmd/config/keys.h"
#include "limitador/limitador.h"

/* The section `limitador`. */
typedef struct limitador_settings {
    const char *file; /* a limits file; NULL: none, and no API */
    weir_limitador_options options;
    weir_limitador_config *limits; /* of the file, with one reference; NULL: it was not read */
} limitador_settings;

extern const config_guest limitador_guest;

static inline limitador_settings *limitador_settings_of(const weir_config *c)
{
    return config_options(c, &limitador_guest);
}

/* Reads to->file into to->limits, which stays NULL if the file is invalid. The errors of the file
 * are added to the chain of r->errors.
 *  place  the key that names the file.
 * Returns false if it could not be read: it may be replaced just now. */
bool limits_file_read(config_reader *r, const config_place *place, limitador_settings *to);

/* Reads limits from memory; otherwise as limits_file_read().
 *  name  for messages. */
void limits_file_parse(config_reader *r, limitador_settings *to, const char *name,
                       const char *bytes, size_t len);

#endif
