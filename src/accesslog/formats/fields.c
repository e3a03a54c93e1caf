/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The names of fields. Where two servers name the same thing, both names are accepted. */

#include "accesslog/formats/formats.h"

#include "port/assert.h"

#include <string.h>

static const struct {
    const char *name;
    const char *expected;
} fields[LOG_FIELDS] = {
    [LOG_CLIENT] = {"client", "a client"},
    [LOG_IDENT] = {"ident", "an ident"},
    [LOG_USER] = {"user", "a user"},
    [LOG_METHOD] = {"method", "a request in quotes that has a method"},
    [LOG_PATH] = {"path", "a request in quotes that has a path"},
    [LOG_URI] = {"uri", "a request in quotes that has a uri"},
    [LOG_QUERY] = {"query", "a request in quotes that has a query"},
    [LOG_PROTOCOL] = {"protocol", "a request in quotes that has a protocol"},
    [LOG_STATUS] = {"status", "a request in quotes, then a status"},
    [LOG_BYTES] = {"bytes", "a request in quotes, then a status and bytes"},
    [LOG_REFERER] = {"referer", "a referer in quotes"},
    [LOG_AGENT] = {"agent", "an agent in quotes"},
    [LOG_VHOST] = {"vhost", "a virtual host"},
    [LOG_DURATION] = {"duration", "a duration"},
    [LOG_FORWARDED] = {"http_x_forwarded_for", "an X-Forwarded-For"},
    [LOG_REQUEST_ID] = {"http_x_request_id", "an X-Request-ID"},
};

static const struct {
    const char *name;
    log_field field;
} others[] = {
    {"remote_addr", LOG_CLIENT},       {"remote_user", LOG_USER},
    {"request_method", LOG_METHOD},    {"request_uri", LOG_URI},
    {"query_string", LOG_QUERY},       {"args", LOG_QUERY},
    {"server_protocol", LOG_PROTOCOL}, {"body_bytes_sent", LOG_BYTES},
    {"bytes_sent", LOG_BYTES},         {"http_referer", LOG_REFERER},
    {"http_user_agent", LOG_AGENT},    {"http_host", LOG_VHOST},
    {"server_name", LOG_VHOST},        {"request_time", LOG_DURATION},
};

const char *log_field_name(log_field field)
{
    WEIR_ASSERT(field < LOG_FIELDS);
    return fields[field].name;
}

const char *log_field_expected(log_field field)
{
    WEIR_ASSERT(field < LOG_FIELDS);
    return fields[field].expected;
}

log_field log_field_find(const char *name, size_t len)
{
    for (unsigned i = 0; i < LOG_FIELDS; i++)
        if (log_is((weir_slice){name, len}, fields[i].name))
            return (log_field)i;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (log_is((weir_slice){name, len}, others[i].name))
            return others[i].field;
    return LOG_FIELDS;
}
