/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_DAEMON_STATSD_H
#define WEIR_RLS_DAEMON_STATSD_H
/* Sends the statistics of the Rate Limit Service to a statsd server: for each counter that has
 * changed, a line "NAME:INCREMENT|c". With tags, NAME ends in ".__KEY=VALUE" for each, as with the
 * reference, or the line in "|#KEY:VALUE,...". It never blocks: host names are looked up in a
 * thread, and the sockets are non-blocking. While a TCP server cannot be reached, increments add
 * up; what a broken connection or a full socket loses is counted. */

#include "cmd/kit/log.h"
#include "rls/rls.h"

/* The address of a statsd server. */
typedef struct statsd_address {
    bool tcp;
    bool dog;       /* an agent for DogStatsD, on UDP: tags are behind the type, as "|#KEY:VALUE" */
    char host[256]; /* a name or an IP address, without brackets */
    uint16_t port;
} statsd_address;

/* What an address looks like, for error messages. */
#define STATSD_ADDRESS_EXPECTED "udp://HOST:PORT, tcp://HOST:PORT, dogstatsd://HOST:PORT"

/* Reads "udp://127.0.0.1:8125", "tcp://statsd:8125" or "dogstatsd://[::1]:8125". Returns false for
 * any other text; *ret is then unchanged. */
bool statsd_address_read(const char *text, statsd_address *ret);

/* Tags of all lines, sorted by key. All zero: none. */
enum {
    STATSD_TAGS_MAX = 16,
    STATSD_TAG_MAX = 64,        /* bytes of a key or a value */
    STATSD_TAGS_BYTES_MAX = 512 /* of a line */
};
typedef struct statsd_tags {
    size_t len;
    struct statsd_tag {
        char key[STATSD_TAG_MAX + 1], value[STATSD_TAG_MAX + 1];
    } tag[STATSD_TAGS_MAX];
} statsd_tags;

/* Adds a tag, with '_' for bytes that have a meaning in the protocol. Returns NULL, or why it is
 * not added: a static string. */
const char *statsd_add_tag(statsd_tags *tags, weir_slice key, weir_slice value);

typedef struct statsd_options {
    statsd_address address; /* copied */
    int64_t flush_ns;       /* between two transmissions, 1 or more */
    weir_rls *rls;
    const statsd_tags *tags; /* NULL: none. Copied */
    const log_target *log;   /* NULL: none. A failure is logged once, and its end */
} statsd_options;

typedef struct statsd statsd;

/* Opens no socket yet. Returns NULL if memory is exhausted. */
statsd *statsd_open(const statsd_options *options);

/* Connects, and sends what is due. Call it about once a second, always on the same thread.
 *  now_ns  the monotonic clock. */
void statsd_tick(statsd *s, int64_t now_ns);

/* Sends once more what is possible without waiting, and frees everything. Accepts NULL. */
void statsd_close(statsd *s);

/* Counters since the start. Any thread. */
typedef struct statsd_counts {
    uint64_t sent;    /* lines given to the system */
    uint64_t dropped; /* lines lost */
} statsd_counts;

statsd_counts statsd_count(const statsd *s);

/* Appends the counters as metrics. NULL appends nothing. Any thread. */
void statsd_put_metrics(const statsd *s, weir_buffer *out);

#endif
