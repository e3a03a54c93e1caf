/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_FIELDS_H
#define WEIR_CMD_CONFIG_FIELDS_H
/* Reading a tree by tables: which keys a map may have, and what each is to be. Every function that
 * reads complains of what it does not take, and then writes nothing. */

#include "cmd/config/errors.h"

typedef struct config_reader {
    config_arena *arena;
    config_errors *errors;
    weir_config *config;
    const weir_zones *zones;
    const config_node *root;
    bool files;              /* other files may be read */
    bool guarded;            /* there is a password, or it is said that there need be none */
    bool has_redis;          /* a section of that name */
    weir_engine_kind engine; /* of policies that name none */
} config_reader;

/* One key of a map. Each kind of value has a function here; a map has its own. */
typedef struct config_field {
    const char *name;
    bool (*read)(config_reader *r, const config_place *place, const struct config_field *field,
                 void *base);
    size_t offset;     /* of what is written, in base */
    int64_t low, high; /* numbers, sizes and durations: from, to */
} config_field;

/* Reads a map key by key.
 *  base  what the fields' offsets are in.
 * Returns false if it is no map. */
bool config_read_map(config_reader *r, const config_place *place, const config_field *fields,
                     size_t n, void *base);

/* The value of a key; NULL if the map has no such key, or is none. */
const config_node *config_get(const config_node *map, const char *key);

/* Whether a value was left empty, as a section of which every line is a comment. */
bool config_is_empty(const config_node *node);

/* Warns of a password that begins with '$', as ${X} does. The text must not be empty. */
void config_warn_variable(config_reader *r, const config_place *place);

/* A text that is not empty. "expected ..." is what else would do. */
bool config_want_text(config_reader *r, const config_place *place, const char *expected);

bool config_read_int(config_reader *r, const config_place *place, const config_field *field,
                     void *base); /* an int */
bool config_read_bool(config_reader *r, const config_place *place, const config_field *field,
                      void *base); /* true or false */
bool config_read_size(config_reader *r, const config_place *place, const config_field *field,
                      void *base); /* a uint64_t of bytes */
bool config_read_ns(config_reader *r, const config_place *place, const config_field *field,
                    void *base); /* an int64_t; 0 or low..high */

bool config_read_interval(config_reader *r, const config_place *place, const config_field *field,
                          void *base); /* an int64_t; low..high, whole ms */

/* A path; a relative one begins where the configuration lies. NULL if there is no memory. */
char *config_beside(config_reader *r, const char *path);

/* The first line of the file that a value names; "password" if no files may be read. Written on
 * true only. */
bool config_read_secret(config_reader *r, const config_place *place, const char **ret,
                        size_t *ret_len);

/* One of a few words. Returns which, -1 if it is none of them.
 *  expected  "never, 1s or always". */
int config_read_word(config_reader *r, const config_place *place, const char *const *words,
                     size_t n, const char *expected);

/* The byte of the file at which byte `column` (from 1) of a text stands, if it can be known:
 * nothing before it may be escaped or on another line. */
bool config_column(const config_errors *e, const config_node *node, size_t column, size_t *ret_at);

/* A size as it is written: "256m". Returns buf, of 24 bytes or more. */
char *config_size_text(uint64_t bytes, char *buf, size_t size);

#endif
