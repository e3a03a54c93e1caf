/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* SUBSCRIBE, PSUBSCRIBE, UNSUBSCRIBE and PUNSUBSCRIBE. Nothing is published here, so a subscription
 * never gets a message. Client libraries subscribe on their own, and wait for the confirmations. */

#include "codec/resp/call.h"
#include "codec/resp/session.h"

#include <string.h>

enum { NAMES_MAX = 8192 /* bytes, with 8 for each name */ };

/* A name in the buffer of the session; its bytes follow. */
typedef struct record {
    uint32_t len;
    bool pattern;
} record;

static bool is_pattern_command(const weir_call *c)
{
    return c->arg[0].at[0] == 'P' || c->arg[0].at[0] == 'p';
}

static size_t record_bytes(const uint8_t *at, record *ret)
{
    memcpy(ret, at, sizeof *ret);
    return sizeof *ret + ret->len;
}

/* Finds a name, or the first one of its kind if name.at is NULL. Returns the offset of its record,
 * or the length of the buffer. */
static size_t find(const weir_buffer *names, bool pattern, weir_slice name)
{
    size_t at = 0, end = weir_buffer_len(names);
    while (at < end) {
        record r;
        const uint8_t *here = weir_buffer_data(names) + at;
        size_t bytes = record_bytes(here, &r);
        if (r.pattern == pattern &&
            (!name.at || (r.len == name.len && memcmp(here + sizeof r, name.at, r.len) == 0)))
            break;
        at += bytes;
    }
    return at;
}

/* Appends the confirmation of one name; a NULL name is null.
 *  verb  that of patterns: without its first letter it is that of channels. */
static void confirm(weir_call *call, const char *verb, weir_slice name)
{
    weir_resp_call *c = weir_resp_call_of(call);
    if (c->session->proto >= 3)
        weir_buffer_text(c->out, ">3\r\n"); /* a push */
    else
        weir_resp_put_array(c->out, 3);
    weir_resp_put_text(c->out, is_pattern_command(call) ? verb : verb + 1);
    if (name.at)
        weir_resp_put_bulk(c->out, name.at, name.len);
    else
        weir_resp_put_null(c->out, c->session->proto);
    weir_resp_put_i64(c->out, (int64_t)c->session->subscriptions);
}

void weir_resp_subscribe(weir_call *c)
{
    weir_resp_session *s = weir_resp_call_of(c)->session;
    bool pattern = is_pattern_command(c);
    if (s->subscriptions == 0)
        weir_buffer_init(&s->names, NAMES_MAX);
    for (size_t i = 1; i < c->args; i++) {
        weir_slice name = c->arg[i];
        if (find(&s->names, pattern, name) == weir_buffer_len(&s->names)) {
            record r = {(uint32_t)name.len, pattern};
            if (weir_buffer_len(&s->names) + sizeof r + name.len > NAMES_MAX ||
                !weir_buffer_reserve(&s->names, sizeof r + name.len)) {
                weir_call_error(c,
                                "ERR the names of subscriptions exceed %d bytes, or memory is "
                                "exhausted",
                                NAMES_MAX);
                return;
            }
            weir_buffer_append(&s->names, &r, sizeof r);
            weir_buffer_append(&s->names, name.at, name.len);
            s->subscriptions++;
        }
        confirm(c, "psubscribe", name);
    }
}

void weir_resp_end_subscriptions(weir_resp_session *s)
{
    s->subscriptions = 0;
    weir_buffer_free(&s->names);
}

/* Confirms the end of one subscription, if there is one at `at`. */
static bool end_one(weir_call *c, size_t at)
{
    weir_resp_session *s = weir_resp_call_of(c)->session;
    if (at == weir_buffer_len(&s->names))
        return false;
    record r;
    uint8_t *here = weir_buffer_data(&s->names) + at;
    size_t bytes = record_bytes(here, &r);
    s->subscriptions--;
    confirm(c, "punsubscribe", (weir_slice){(const char *)here + sizeof r, r.len});
    memmove(weir_buffer_data(&s->names) + bytes, weir_buffer_data(&s->names), at);
    weir_buffer_consume(&s->names, bytes);
    return true;
}

void weir_resp_unsubscribe(weir_call *c)
{
    weir_resp_session *s = weir_resp_call_of(c)->session;
    bool pattern = is_pattern_command(c);
    weir_slice any = {NULL, 0};
    for (size_t i = 1; i < c->args; i++) {
        if (!end_one(c, find(&s->names, pattern, c->arg[i])))
            confirm(c, "punsubscribe", c->arg[i]);
    }
    if (c->args == 1) {
        if (!end_one(c, find(&s->names, pattern, any)))
            confirm(c, "punsubscribe", any);
        while (end_one(c, find(&s->names, pattern, any)))
            continue;
    }
    if (s->subscriptions == 0)
        weir_resp_end_subscriptions(s);
}
