/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOG_FIELDS_H
#define WEIR_CODEC_LOG_FIELDS_H
/* The fields that a line of an access log can have, under one name in all formats. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum log_field {
    LOG_CLIENT,
    LOG_IDENT,
    LOG_USER,
    LOG_METHOD,
    LOG_PATH, /* the URI up to its '?' */
    LOG_URI,
    LOG_QUERY, /* the URI behind its '?' */
    LOG_PROTOCOL,
    LOG_STATUS,
    LOG_BYTES,
    LOG_REFERER,
    LOG_AGENT,
    LOG_VHOST,
    LOG_DURATION,   /* in the unit of the log */
    LOG_FORWARDED,  /* X-Forwarded-For */
    LOG_REQUEST_ID, /* X-Request-ID */
    LOG_FIELDS
} log_field;

#define LOG_BIT(field) (UINT32_C(1) << (field))

/* The name of a field, and what a message expects where it is missing. */
const char *log_field_name(log_field field);
const char *log_field_expected(log_field field);

/* Finds the field of a name or of another common name of it, such as "remote_addr" for "client".
 * Returns LOG_FIELDS if there is none. */
log_field log_field_find(const char *name, size_t len);

#endif
