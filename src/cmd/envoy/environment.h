/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ENVOY_ENVIRONMENT_H
#define WEIR_CMD_ENVOY_ENVIRONMENT_H
/* The environment variables of envoyproxy/ratelimit, for `weir serve --envoy`. docs/envoy.md has
 * the same table. */

#include "cmd/config/config.h"

/* One variable. */
typedef struct environment_row {
    const char *name; /* "GRPC_PORT"; "REDIS_*": every variable with this prefix */
    const char *key;  /* of weir.yaml, such as "listen.grpc"; NULL: weir has no such key */
    const char *why;  /* without a key: why it is not needed, or what is not supported */
    enum {
        ENVIRONMENT_SET,        /* stored */
        ENVIRONMENT_NOT_NEEDED, /* the log mentions it */
        ENVIRONMENT_WARN,       /* not supported: the log warns if it is set to something that is
                                   neither empty nor false */
        ENVIRONMENT_REFUSE      /* not supported: such a value is an error */
    } use;
    enum {
        ENVIRONMENT_TEXT,
        ENVIRONMENT_BOOL,     /* 1, t, true, 0, f, false in any case */
        ENVIRONMENT_PORT,     /* 1..65535 */
        ENVIRONMENT_DURATION, /* "24h", "1h30m", "1.5h", "0" */
        ENVIRONMENT_RATIO     /* 0..1 */
    } kind;
    size_t offset; /* of the member of struct environment */
} environment_row;

extern const environment_row environment_rows[];
extern const size_t environment_rows_len;

/* Stores the values of the variables in a configuration that has the defaults of weir.yaml, as if
 * that file had them; where a variable is not set, the reference's default applies.
 *  env        as `environ`. Later entries with the same name are ignored.
 *  ret_error  written if the result is false: the variable, what was found and expected.
 * Returns false if a variable is invalid, or asks for what weir cannot do, or if memory is
 * exhausted. */
bool environment_apply(weir_config *c, char *const *env, char ret_error[static 400]);

/* Calls note() for each reason why variables that are set have no effect.
 *  warning  they ask for something that weir cannot do.
 *  names    "REDIS_URL,REDIS_TYPE". */
void environment_explain(char *const *env,
                         void (*note)(void *ctx, bool warning, const char *names, const char *why),
                         void *ctx);

#endif
