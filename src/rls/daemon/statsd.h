/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_DAEMON_STATSD_H
#define WEIR_RLS_DAEMON_STATSD_H
/* Sends the statistics of the Rate Limit Service to a statsd server: for each counter that has
 * changed, a line "NAME:INCREMENT|c". It never blocks: host names are looked up in a thread, and
 * the sockets are non-blocking. While a TCP server cannot be reached, increments add up; what a
 * broken connection or a full socket loses is counted. */

#include "cmd/kit/log.h"
#include "rls/rls.h"

/* The address of a statsd server. */
typedef struct statsd_address {
    bool tcp;
    char host[256]; /* a name or an IP address, without brackets */
    uint16_t port;
} statsd_address;

/* What an address looks like, for error messages. */
#define STATSD_ADDRESS_EXPECTED "udp://HOST:PORT or tcp://HOST:PORT"

/* Reads "udp://127.0.0.1:8125", "tcp://statsd:8125" or "udp://[::1]:8125". Returns false for any
 * other text; *ret is then unchanged. */
bool statsd_address_read(const char *text, statsd_address *ret);

typedef struct statsd_options {
    statsd_address address; /* copied */
    int64_t flush_ns;       /* between two transmissions, 1 or more */
    weir_rls *rls;
    const log_target *log; /* NULL: none. A failure is logged once, and its end */
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
