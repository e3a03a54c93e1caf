/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The increments are differences to the values of the last transmission. Both lists are sorted by
 * name, so they are merged. */

#define _GNU_SOURCE /* SOCK_NONBLOCK */

#include "rls/daemon/statsd.h"

#include "codec/answer/metrics.h"
#include "port/atomic.h"
#include "port/buffer.h"
#include "port/port.h"
#include "port/text.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PACKET_MAX = 1432,    /* bytes of a datagram: with its headers it fits in an Ethernet frame */
    NAMES_MAX = 64 << 20, /* bytes of the names and values of all counters */
    UNSENT_MAX = 16 << 20 /* bytes of a transmission over TCP */
};
#define RETRY_NS  INT64_C(3000000000)  /* between two attempts to connect */
#define LOOKUP_NS INT64_C(60000000000) /* how long the address of a name is used */

/* ---- the address ----------------------------------------------------------------------------- */

bool statsd_address_read(const char *text, statsd_address *ret)
{
    statsd_address a = {.tcp = strncmp(text, "tcp://", 6) == 0,
                        .dog = strncmp(text, "dogstatsd://", 12) == 0};
    uint64_t port;
    if (!a.tcp && !a.dog && strncmp(text, "udp://", 6) != 0)
        return false;
    const char *host = strchr(text, '/') + 2, *colon = strrchr(host, ':');
    if (!colon || !weir_decimal_read(colon + 1, strlen(colon + 1), UINT16_MAX, &port) || port == 0)
        return false;
    size_t len = (size_t)(colon - host);
    bool brackets = len > 2 && host[0] == '[' && host[len - 1] == ']';
    if (brackets) {
        host++;
        len -= 2;
    }
    if (len == 0 || len >= sizeof a.host || (!brackets && memchr(host, ':', len)) ||
        strcspn(host, "/[]@") < len)
        return false;
    memcpy(a.host, host, len);
    a.port = (uint16_t)port;
    *ret = a;
    return true;
}

/* ---- tags ------------------------------------------------------------------------------------ */

static void copy_tag(char *to, weir_slice from)
{
    for (size_t i = 0; i < from.len; i++) {
        bool special = (unsigned char)from.at[i] <= ' ' || strchr(".:|,#@=", from.at[i]);
        to[i] = special ? '_' : from.at[i];
    }
    to[from.len] = '\0';
}

const char *statsd_add_tag(statsd_tags *tags, weir_slice key, weir_slice value)
{
    struct statsd_tag new = {.key = ""};
    size_t at = 0, bytes = key.len + value.len + 4; /* with the marks around them */
    for (size_t i = 0; i < tags->len; i++)
        bytes += strlen(tags->tag[i].key) + strlen(tags->tag[i].value) + 4;
    if (key.len == 0 || value.len == 0)
        return "expected a key and a value";
    if (key.len > STATSD_TAG_MAX || value.len > STATSD_TAG_MAX)
        return "a key or a value has more than 64 bytes";
    if (tags->len == STATSD_TAGS_MAX)
        return "expected at most 16 tags";
    if (bytes >= STATSD_TAGS_BYTES_MAX)
        return "the tags and their separators have 512 bytes or more";
    copy_tag(new.key, key);
    copy_tag(new.value, value);
    while (at < tags->len && strcmp(tags->tag[at].key, new.key) < 0)
        at++;
    if (at < tags->len && strcmp(tags->tag[at].key, new.key) == 0)
        return "the key is given twice";
    memmove(&tags->tag[at + 1], &tags->tag[at], (tags->len - at) * sizeof new);
    tags->tag[at] = new;
    tags->len++;
    return NULL;
}

/* ---- host names ------------------------------------------------------------------------------ */

/* A lookup, which its thread and the sender share. */
typedef struct lookup {
    statsd_address name;
    port_mutex *lock; /* guards the members below */
    bool done, abandoned;
    int error; /* of getaddrinfo() */
    struct sockaddr_storage address;
    socklen_t len;
} lookup;

static void free_lookup(lookup *l)
{
    port_mutex_free(l->lock);
    port_free(l);
}

static void resolve(lookup *l, int flags)
{
    char port[8];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = l->name.tcp ? SOCK_STREAM : SOCK_DGRAM,
                                   .ai_flags = AI_NUMERICSERV | flags};
    snprintf(port, sizeof port, "%u", (unsigned)l->name.port);
    l->error = getaddrinfo(l->name.host, port, &hints, &found);
    if (l->error == 0) {
        memcpy(&l->address, found->ai_addr, found->ai_addrlen);
        l->len = found->ai_addrlen;
        freeaddrinfo(found);
    }
}

static void run_lookup(void *arg)
{
    lookup *l = arg, own = {.name = l->name};
    resolve(&own, 0);
    port_mutex_lock(l->lock);
    l->error = own.error;
    l->address = own.address;
    l->len = own.len;
    l->done = true;
    bool abandoned = l->abandoned;
    port_mutex_unlock(l->lock);
    if (abandoned)
        free_lookup(l);
}

/* Begins a lookup. An IP address is read at once. Returns NULL if memory or threads are
 * exhausted. */
static lookup *start_lookup(const statsd_address *name)
{
    lookup *l = port_zalloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->name = *name;
    l->lock = port_mutex_new();
    if (!l->lock) {
        port_free(l);
        return NULL;
    }
    resolve(l, AI_NUMERICHOST);
    l->done = l->error == 0;
    if (!l->done && !port_thread_run(run_lookup, l)) {
        free_lookup(l);
        return NULL;
    }
    return l;
}

static bool lookup_is_done(lookup *l)
{
    port_mutex_lock(l->lock);
    bool done = l->done;
    port_mutex_unlock(l->lock);
    return done;
}

/* The thread of a lookup that is not done frees it. */
static void abandon_lookup(lookup *l)
{
    port_mutex_lock(l->lock);
    bool done = l->done;
    l->abandoned = true;
    port_mutex_unlock(l->lock);
    if (done)
        free_lookup(l);
}

/* ---- the sender ------------------------------------------------------------------------------ */

struct statsd {
    statsd_options options;
    lookup *lookup; /* in progress; NULL: none */
    struct sockaddr_storage address;
    socklen_t address_len;   /* 0: not known yet */
    int64_t lookup_ns;       /* when the next lookup is due */
    int fd;                  /* -1: none */
    bool connected;          /* of a TCP socket */
    bool failing;            /* and that was logged */
    int64_t connect_ns;      /* when the next attempt is due */
    int64_t flush_ns;        /* when the next transmission is due; 0: not set */
    weir_buffer before, now; /* counters at the last and at this transmission: for each its value,
                                and its name with a NUL */
    size_t merged;           /* bytes of `before` that this transmission has passed */
    bool incomplete;         /* `before` lacks counters, because memory was exhausted */
    char after_name[STATSD_TAGS_BYTES_MAX],
        after_type[STATSD_TAGS_BYTES_MAX]; /* the tags, in one of them */
    char packet[PACKET_MAX];
    size_t packet_len;
    weir_buffer unsent; /* of TCP */
    port_counter sent, dropped;
};

static void note_failure(statsd *s, const char *what, const char *why)
{
    if (!s->failing && s->options.log)
        log_event(s->options.log, WEIR_LOG_WARNING, "statsd",
                  LOG(log_text("host", s->options.address.host),
                      log_integer("port", s->options.address.port), log_text("text", what),
                      log_text("reason", why)));
    s->failing = true;
}

static void note_success(statsd *s)
{
    if (s->failing && s->options.log)
        log_event(s->options.log, WEIR_LOG_INFO, "statsd",
                  LOG(log_text("host", s->options.address.host),
                      log_integer("port", s->options.address.port),
                      log_text("text", "statistics are sent again")));
    s->failing = false;
}

static uint64_t lines_of(const void *bytes, size_t len)
{
    const char *text = bytes;
    uint64_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    return n;
}

/* Closes the socket. What it has not sent is lost. */
static void disconnect(statsd *s)
{
    port_bump_relaxed(&s->dropped,
                      lines_of(weir_buffer_data(&s->unsent), weir_buffer_len(&s->unsent)));
    weir_buffer_clear(&s->unsent);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->connected = false;
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* Takes the result of a lookup, and begins one if it is time. */
static void look_up(statsd *s, int64_t now_ns)
{
    if (!s->lookup && now_ns >= s->lookup_ns) {
        s->lookup = start_lookup(&s->options.address);
        s->lookup_ns = now_ns + (s->lookup ? LOOKUP_NS : RETRY_NS);
    }
    if (!s->lookup || !lookup_is_done(s->lookup))
        return;
    lookup *l = s->lookup;
    s->lookup = NULL;
    if (l->error != 0) {
        note_failure(s, "cannot look up the host", gai_strerror(l->error));
        s->lookup_ns = now_ns + RETRY_NS;
    } else if (l->len != s->address_len || memcmp(&l->address, &s->address, l->len) != 0) {
        s->address = l->address;
        s->address_len = l->len;
        if (!s->options.address.tcp) /* a TCP connection is used as long as it exists */
            disconnect(s);
    }
    free_lookup(l);
}

static void begin_connect(statsd *s, int64_t now_ns)
{
    bool tcp = s->options.address.tcp;
    int type = (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC;
    s->connect_ns = now_ns + RETRY_NS;
    s->fd = socket(s->address.ss_family, type, 0);
    if (s->fd >= 0 && connect(s->fd, (const struct sockaddr *)&s->address, s->address_len) == 0) {
        s->connected = true;
    } else if (s->fd < 0 || errno != EINPROGRESS) {
        note_failure(s, "cannot connect", strerror(errno));
        s->lookup_ns = now_ns; /* the name may have another address now */
        disconnect(s);
    }
}

/* Finds out whether the connection in progress is established. */
static void finish_connect(statsd *s, int64_t now_ns)
{
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof error;
    if (poll(&p, 1, 0) == 0 && now_ns < s->connect_ns)
        return;
    if (p.revents == 0)
        error = ETIMEDOUT;
    else if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    s->connected = error == 0;
    if (error == 0)
        return;
    note_failure(s, "cannot connect", strerror(error));
    s->lookup_ns = now_ns;
    disconnect(s);
}

/* Notices that the server has closed the connection. What it sends is read and ignored. */
static void check_connection(statsd *s)
{
    char ignored[512];
    ssize_t n = recv(s->fd, ignored, sizeof ignored, MSG_DONTWAIT);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    note_failure(s, "the connection is closed", n < 0 ? strerror(errno) : "by the server");
    disconnect(s);
}

/* ---- sending --------------------------------------------------------------------------------- */

static void send_unsent(statsd *s)
{
    while (s->connected && weir_buffer_len(&s->unsent) > 0) {
        ssize_t n = send(s->fd, weir_buffer_data(&s->unsent), weir_buffer_len(&s->unsent),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            note_failure(s, "the connection is closed", strerror(errno));
            disconnect(s);
            return;
        }
        port_bump_relaxed(&s->sent, lines_of(weir_buffer_data(&s->unsent), (size_t)n));
        weir_buffer_consume(&s->unsent, (size_t)n);
    }
}

static void send_packet(statsd *s)
{
    uint64_t lines = lines_of(s->packet, s->packet_len);
    if (s->packet_len == 0)
        return;
    ssize_t n = send(s->fd, s->packet, s->packet_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    port_bump_relaxed(n < 0 ? &s->dropped : &s->sent, lines);
    if (n < 0)
        note_failure(s, "cannot send", strerror(errno));
    else
        note_success(s);
    s->packet_len = 0;
}

/* Copies a name without the bytes that have a meaning in the protocol. */
static void copy_name(char *to, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool special = name[i] == ':' || name[i] == '|' || (unsigned char)name[i] < ' ';
        to[i] = special ? '_' : name[i];
    }
}

/* Adds a line to the packet, or to the output of the connection. */
static void put_line(statsd *s, const char *name, uint64_t increment)
{
    char tail[2 * STATSD_TAGS_BYTES_MAX + 32];
    bool tcp = s->options.address.tcp;
    size_t name_len = strlen(name);
    size_t tail_len = (size_t)snprintf(tail, sizeof tail, "%s:%" PRIu64 "|c%s\n", s->after_name,
                                       increment, s->after_type);
    size_t len = name_len + tail_len;
    if (!tcp && len <= PACKET_MAX && s->packet_len + len > PACKET_MAX)
        send_packet(s);
    if (tcp ? !weir_buffer_reserve(&s->unsent, len) : len > PACKET_MAX) {
        port_bump_relaxed(&s->dropped, 1);
        return;
    }
    char *line = tcp ? (char *)weir_buffer_tail(&s->unsent) : s->packet + s->packet_len;
    copy_name(line, name, name_len);
    memcpy(line + name_len, tail, tail_len);
    if (tcp)
        weir_buffer_added(&s->unsent, len);
    else
        s->packet_len += len;
}

/* ---- increments ------------------------------------------------------------------------------ */

/* Finds a counter among those of the last transmission, which are sorted by name. */
static bool find_before(statsd *s, const char *name, uint64_t *ret)
{
    while (s->merged < weir_buffer_len(&s->before)) {
        const uint8_t *at = weir_buffer_data(&s->before) + s->merged;
        const char *other = (const char *)at + sizeof *ret;
        int order = strcmp(other, name);
        if (order > 0)
            return false;
        memcpy(ret, at, sizeof *ret);
        s->merged += sizeof *ret + strlen(other) + 1;
        if (order == 0)
            return true;
    }
    return false;
}

/* A counter whose value cannot be kept is not sent, since the next transmission would not know what
 * was sent. */
static void add_stat(void *ctx, const weir_rls_stat *stat)
{
    statsd *s = ctx;
    size_t len = strlen(stat->name) + 1;
    uint64_t before = 0;
    bool known = find_before(s, stat->name, &before);
    if (!weir_buffer_reserve(&s->now, sizeof stat->value + len))
        return;
    weir_buffer_append(&s->now, &stat->value, sizeof stat->value);
    weir_buffer_append(&s->now, stat->name, len);
    if (stat->value > before && (known || !s->incomplete))
        put_line(s, stat->name, stat->value - before);
}

/* Sends all increments. */
static void transmit(statsd *s)
{
    s->merged = 0;
    weir_buffer_clear(&s->now);
    weir_buffer_clear(&s->unsent); /* it is empty; lines that did not fit before may fit now */
    weir_rls_each_stat(s->options.rls, add_stat, s);
    s->incomplete = s->now.failed;
    if (s->options.address.tcp)
        send_unsent(s);
    else
        send_packet(s);
    weir_buffer before = s->before;
    s->before = s->now;
    s->now = before;
}

/* ---- open, tick, close ----------------------------------------------------------------------- */

static void write_tags(statsd *s, const statsd_tags *tags)
{
    bool dog = s->options.address.dog;
    char *to = dog ? s->after_type : s->after_name;
    const char *before = dog ? "|#" : ".__";
    for (size_t i = 0, len = 0; i < tags->len; i++)
        len += (size_t)snprintf(to + len, STATSD_TAGS_BYTES_MAX - len, dog ? "%s%s:%s" : "%s%s=%s",
                                dog && i > 0 ? "," : before, tags->tag[i].key, tags->tag[i].value);
}

statsd *statsd_open(const statsd_options *options)
{
    statsd *s = port_zalloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->options = *options;
    s->options.tags = NULL;
    s->fd = -1;
    if (options->tags)
        write_tags(s, options->tags);
    weir_buffer_init(&s->before, NAMES_MAX);
    weir_buffer_init(&s->now, NAMES_MAX);
    weir_buffer_init(&s->unsent, UNSENT_MAX);
    return s;
}

/* Continues a lookup, a connection attempt or a transmission. Returns whether increments can be
 * sent. */
static bool make_progress(statsd *s, int64_t now_ns)
{
    bool tcp = s->options.address.tcp;
    look_up(s, now_ns);
    if (s->fd < 0 && s->address_len > 0 && now_ns >= s->connect_ns)
        begin_connect(s, now_ns);
    else if (s->fd >= 0 && !s->connected)
        finish_connect(s, now_ns);
    if (tcp && s->connected)
        check_connection(s);
    if (tcp && s->connected)
        note_success(s);
    send_unsent(s);
    return s->connected && weir_buffer_len(&s->unsent) == 0;
}

void statsd_tick(statsd *s, int64_t now_ns)
{
    bool can_send = make_progress(s, now_ns);
    if (s->flush_ns == 0)
        s->flush_ns = now_ns + s->options.flush_ns;
    if (!can_send || now_ns < s->flush_ns)
        return;
    s->flush_ns = now_ns + s->options.flush_ns;
    transmit(s);
}

void statsd_close(statsd *s)
{
    if (!s)
        return;
    if (s->connected && weir_buffer_len(&s->unsent) == 0)
        transmit(s);
    disconnect(s);
    if (s->lookup)
        abandon_lookup(s->lookup);
    weir_buffer_free(&s->before);
    weir_buffer_free(&s->now);
    weir_buffer_free(&s->unsent);
    port_free(s);
}

statsd_counts statsd_count(const statsd *s)
{
    return (statsd_counts){port_load_relaxed(&s->sent), port_load_relaxed(&s->dropped)};
}

void statsd_put_metrics(const statsd *s, weir_buffer *out)
{
    if (!s)
        return;
    statsd_counts counts = statsd_count(s);
    weir_metrics_put_one(out, "weir_statsd_lines_total", "counter",
                         "Lines sent to the statsd server.", counts.sent);
    weir_metrics_put_one(out, "weir_statsd_dropped_lines_total", "counter",
                         "Lines for the statsd server that were lost.", counts.dropped);
}
