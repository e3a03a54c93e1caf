/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* grpc.health.v1.Health: Check answers once; Watch sends the status, and again whenever it changes.
 * The service names are "" and "ratelimit". */

#include "codec/grpc/connection.h"
#include "codec/grpc/session.h"
#include "codec/grpc/wire.h"
#include "port/assert.h"

enum { WATCHES_MAX = 100 }; /* streams of Watch on a connection */

/* HealthCheckResponse.ServingStatus */
enum { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

static uint8_t status_now(const weir_grpc_connection *c)
{
    const weir_grpc_options *o = c->options;
    bool ready = !c->stopping && (!o->ready || o->ready(o->ready_ctx));
    return ready ? SERVING : NOT_SERVING;
}

/* Reads HealthCheckRequest.service. Returns false if the message is invalid. */
static bool read_service(weir_slice message, weir_slice *ret)
{
    weir_grpc_reader r = weir_grpc_reader_of(message);
    weir_grpc_field field;
    *ret = (weir_slice){"", 0};
    while (weir_grpc_next_field(&r, &field)) {
        if (weir_grpc_bytes_number(&field) == 1)
            *ret = field.bytes;
    }
    return !r.error;
}

static bool is_known(weir_slice service)
{
    static const char name[] = "ratelimit";
    return service.len == 0 ||
           (service.len == sizeof name - 1 && memcmp(service.at, name, service.len) == 0);
}

/* Reads the service of a request. Returns false if the request was refused. */
static bool read_request(weir_grpc_connection *c, weir_grpc_stream *s, bool *ret_known)
{
    weir_slice service;
    WEIR_ASSERT(s->complete);
    if (!read_service((weir_slice){(const char *)s->message, s->message_len}, &service)) {
        weir_grpc_refuse(c, s, 200, WEIR_GRPC_INTERNAL, "invalid protobuf");
        return false;
    }
    *ret_known = is_known(service);
    return true;
}

static void check(weir_grpc_connection *c, weir_grpc_stream *s)
{
    bool known;
    if (!read_request(c, s, &known))
        return;
    const uint8_t response[] = {1 << 3, status_now(c)};
    if (!known) {
        weir_grpc_refuse(c, s, 200, WEIR_GRPC_NOT_FOUND, "unknown service");
        return;
    }
    size_t begin = weir_buffer_len(&c->replies);
    weir_buffer_append(&c->replies, response, sizeof response);
    if (c->replies.failed)
        weir_grpc_refuse(c, s, 200, WEIR_GRPC_UNAVAILABLE, "out of memory for replies");
    else
        weir_grpc_reply(c, s, begin, sizeof response);
}

static void send_status(weir_grpc_connection *c, weir_grpc_stream *s, uint8_t status)
{
    const uint8_t response[] = {1 << 3, status};
    s->health = status;
    weir_grpc_send(c, s, response, sizeof response);
}

static void watch(weir_grpc_connection *c, weir_grpc_stream *s)
{
    bool known;
    if (!read_request(c, s, &known))
        return;
    if (c->watches_len >= WATCHES_MAX) {
        weir_grpc_refuse(c, s, 200, WEIR_GRPC_RESOURCE_EXHAUSTED,
                         "too many calls of Watch on this connection");
        return;
    }
    c->watches_len++;
    send_status(c, s, known ? status_now(c) : SERVICE_UNKNOWN);
    weir_grpc_drop_message(c, s);
}

const weir_grpc_own_method weir_grpc_health[2] = {
    {"/grpc.health.v1.Health/Check", .right = WEIR_MAY_ANYONE, .run = check},
    {"/grpc.health.v1.Health/Watch", .right = WEIR_MAY_ANYONE, .streams = true, .run = watch},
};

/* Returns the next stream of Watch, from `s` on, that sends changes. */
static weir_grpc_stream *next_watch(weir_grpc_stream *s)
{
    while (s && (s->health == 0 || s->out_last))
        s = s->next;
    return s;
}

bool weir_grpc_health_changed(const weir_grpc_connection *c)
{
    uint8_t status = c->watches_len > 0 ? status_now(c) : 0;
    weir_grpc_stream *s = c->watches_len > 0 ? next_watch(c->streams) : NULL;
    for (; s; s = next_watch(s->next)) {
        if (s->health != status && s->health != SERVICE_UNKNOWN)
            return true;
    }
    return false;
}

void weir_grpc_health_update(weir_grpc_connection *c, bool end)
{
    uint8_t status = c->watches_len > 0 ? status_now(c) : 0;
    weir_grpc_stream *s = c->watches_len > 0 ? next_watch(c->streams) : NULL;
    for (; s; s = next_watch(s->next)) {
        if (s->health != status && s->health != SERVICE_UNKNOWN)
            send_status(c, s, status);
        if (end)
            weir_grpc_end(c, s, WEIR_GRPC_UNAVAILABLE, "the connection is closing");
    }
}
