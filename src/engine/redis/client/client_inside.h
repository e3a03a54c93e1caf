/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_CLIENT_INSIDE_H
#define WEIR_ENGINE_REDIS_CLIENT_INSIDE_H
/* What a client is made of; for the files beside this one alone.
 *
 *     client.c    calls: their deadlines, their ends, which node they go to
 *     node.c      a line: dialled, lost, dialled again; what it has to answer, in order
 *     node_shake.c  what is said on a line before the first call, and what a node decides by
 *     node_refusal.c  errors: what is followed, tried again or given back
 *     slots.c     which nodes there are: the map of a Cluster, seeds, what is still wanted
 *     sentinel.c  which node is the master, by the Sentinels
 *
 * A call under way is in the list of deadlines, and besides it either waits (at a node, for a map,
 * or for a pause to end) or has a place among what a node has to answer. A place stays when its
 * call is gone: the reply that belongs to it is read and dropped. done() may send and abandon:
 * so whoever ends several takes them out of what others may change first. */

#include "codec/resp_reply_reader.h"
#include "engine/redis/client/url.h"
#include "engine/redis/client/wire.h"

#define WEIR_REDIS_SLOTS         16384
#define WEIR_REDIS_NO_NODE       UINT16_MAX
#define WEIR_REDIS_REDIRECTS_MAX 8
#define WEIR_REDIS_WHY_MAX       160
#define WEIR_REDIS_REASONS       32
#define WEIR_REDIS_MS            ((int64_t)1000000)

#define WEIR_REDIS_IS_REPLICA "it is a replica, which is not asked for decisions"
#define WEIR_REDIS_CROSSSLOT                                                                       \
    "the keys are on several nodes of a Cluster: give them a {tag} in common to take them as one"

enum {
    WEIR_REDIS_OUT_MAX = 8 << 20,   /* bytes that a line has still to send; calls beyond: CROWDED */
    WEIR_REDIS_NAME_MAX = 256 + 10, /* "host:port", with a NUL */
    WEIR_REDIS_LIBRARY_VERSION = 2  /* what `FCALL weir_version 0` answers, or more */
};

/* What a reply is awaited for. */
typedef enum weir_redis_kind {
    WEIR_REDIS_FOR_CALL,
    WEIR_REDIS_FOR_NOBODY, /* it is not looked at: ASKING, CLIENT SETNAME, what came too late */
    WEIR_REDIS_FOR_AUTH,
    WEIR_REDIS_FOR_SELECT,
    WEIR_REDIS_FOR_ROLE,
    WEIR_REDIS_FOR_MODULE,
    WEIR_REDIS_FOR_VERSION,
    WEIR_REDIS_FOR_LOAD,
    WEIR_REDIS_FOR_SCRIPT,
    WEIR_REDIS_FOR_SLOTS,
    WEIR_REDIS_FOR_MASTER
} weir_redis_kind;

typedef struct weir_redis_place {
    weir_redis_call *call; /* NULL: nobody waits for it any more */
    int64_t sent_ns;
    weir_redis_kind kind;
} weir_redis_place;

/* What a line has to answer, in order. Places are numbered for ever; the ring grows by doubling. */
typedef struct weir_redis_ring {
    weir_redis_place *place;
    uint32_t room;       /* 0 or a power of two */
    uint32_t head, tail; /* the number of the oldest; that of the next */
} weir_redis_ring;

static inline uint32_t weir_redis_ring_len(const weir_redis_ring *r)
{
    return r->tail - r->head;
}

static inline weir_redis_place *weir_redis_ring_at(const weir_redis_ring *r, uint32_t number)
{
    return &r->place[number & (r->room - 1)];
}

typedef enum weir_redis_state {
    WEIR_REDIS_IDLE,   /* no line, and none wanted */
    WEIR_REDIS_PAUSED, /* no line until next_ns */
    WEIR_REDIS_DIALING,
    WEIR_REDIS_SHAKING, /* connected; what it decides by is being found out */
    WEIR_REDIS_UP
} weir_redis_state;

typedef struct weir_redis_node {
    weir_redis_client *client;
    uint16_t at;             /* client->node[at] */
    uint32_t hash;           /* of host and port */
    bool is_seed;            /* one of the URLs: never forgotten */
    bool is_sentinel;        /* not asked for decisions */
    bool is_ignorant;        /* a Sentinel that did not know the master when it was last asked */
    bool in_map, was_in_map; /* of a Cluster; the latter: when it was taken up last */
    bool is_replica;         /* as it says itself */
    char host[WEIR_REDIS_HOST_MAX];
    uint16_t port;
    char name[WEIR_REDIS_NAME_MAX];
    uint32_t database;

    weir_redis_state state;
    port_connection *line;
    uint32_t lines; /* that there were; so one can be told from the next */
    port_timer *alarm;
    weir_buffer *out; /* of the line */
    int64_t used_ns;  /* when a call was sent last */
    weir_redis_ring ring;
    weir_resp_stream reader;
    int64_t figure[WEIR_REDIS_FIGURES_MAX]; /* of the reply that is being read */
    size_t figures;
    weir_redis_call waiting; /* the head of a ring, by wait_next */
    unsigned failures;       /* since it last worked */
    int64_t next_ns;         /* PAUSED: when it is dialled */
    int64_t since_ns;        /* when the state began */

    unsigned shaking; /* replies that shaking hands still waits for */
    bool has_module;  /* as it said */
    int64_t version;  /* of the library; or one of the next */
    bool tried_load;  /* FUNCTION LOAD was sent, since the line is up */
    weir_redis_by by; /* good when UP */
    char sha[WEIR_REDIS_SHA_LEN];
    char problem[WEIR_REDIS_WHY_MAX]; /* why shaking hands fails; "" */

    char said[WEIR_REDIS_WHY_MAX]; /* in the log, as the reason why it is down */
    bool said_down, said_up;
    weir_redis_by said_by;
    int64_t said_ns;         /* when a reason why it is down was last logged; 0: never */
    int64_t said_before_ns;  /* and the one before that */
    int64_t said_refuses_ns; /* when it was last logged that it refuses requests; 0: never */
} weir_redis_node;

enum { WEIR_REDIS_VERSION_ABSENT = -1, WEIR_REDIS_VERSION_NO_FUNCTIONS = -2 };

typedef enum weir_redis_mode {
    WEIR_REDIS_UNKNOWN, /* no server has been asked yet */
    WEIR_REDIS_SINGLE,  /* one node has all; with Sentinels too */
    WEIR_REDIS_CLUSTER
} weir_redis_mode;

/* A map that is being read. */
typedef struct weir_redis_draft {
    uint16_t of_slot[WEIR_REDIS_SLOTS];
    uint32_t filled; /* slots; more than there are make no sense */
    int64_t start, end;
    char host[WEIR_REDIS_HOST_MAX];
    bool has_range, is_bad;
    char problem[WEIR_REDIS_WHY_MAX];
} weir_redis_draft;

struct weir_redis_client {
    const weir_redis_options *options;
    const port_tls *tls;
    port_dialer *dialer;
    weir_redis_counts *counts;
    weir_redis_log log;
    uint64_t random;
    const char *prefix;
    size_t prefix_len;
    bool prefix_is_plain; /* has no '{': then a key's tag is the key's own */
    size_t in_flight_max;
    char user[WEIR_REDIS_SECRET_MAX], password[WEIR_REDIS_SECRET_MAX]; /* "": none */
    bool has_password;
    bool uses_tls;
    uint32_t database;
    bool closing;

    weir_redis_call deadlines; /* the head of a ring, by next; the earliest first */
    weir_redis_call ended;     /* the same, of calls that ended within send() */
    size_t in_flight;          /* calls in both */
    port_timer *alarm;         /* for them */
    int64_t alarm_ns;          /* what it is set to */
    weir_redis_call unmapped;  /* heads of rings of calls that wait, by wait_next: for a map ... */
    weir_redis_call paused;    /* ... and for resume_ns */
    bool sending;              /* a call that ends now is in send() still */
    int64_t resume_ns;
    port_timer *tending; /* for all that is not a call's or a node's */
    weir_redis_bounds bounds[WEIR_REDIS_ZONES];
    char why[WEIR_REDIS_WHY_MAX];     /* what a call's may point to */
    char *reason[WEIR_REDIS_REASONS]; /* texts that requests point to */
    size_t reasons;

    weir_redis_mode mode;
    weir_redis_node *node[WEIR_REDIS_NODES_MAX]; /* NULL: free */
    uint32_t hash[WEIR_REDIS_NODES_MAX];         /* of node[i]; 0: none */
    size_t nodes_end;                            /* one past the last that is not NULL */
    uint16_t master;                             /* SINGLE */
    uint16_t of_slot[WEIR_REDIS_SLOTS];          /* CLUSTER */

    weir_redis_draft *draft;
    bool refresh_wanted;
    weir_redis_node *refreshing; /* who is being asked for the map; NULL: nobody */
    uint32_t refresh_ticket;
    int64_t refreshed_ns;  /* when it was asked for last */
    uint16_t refresh_at;   /* who is asked next */
    bool map_is_alive;     /* a node of it is up */
    uint32_t uncovered;    /* slots that nobody has */
    int64_t said_slots_ns; /* when the log heard of the map last */
    bool map_is_another;   /* since then */

    uint16_t sentinel_at; /* of the seeds: who is asked */
    uint16_t seeds;       /* node[0 .. seeds) */
    bool sentinel_asking;
    int64_t sentinel_next_ns;
    char master_host[WEIR_REDIS_HOST_MAX]; /* being read */
    int64_t master_port;
};

/* ---- client.c -------------------------------------------------------------------------------- */

/* Ends a call, and calls done(). `why` is static, or client->why; or NULL. */
void weir_redis_call_end(weir_redis_client *c, weir_redis_call *call, weir_redis_outcome outcome,
                         const char *why, int64_t now_ns);
/* Sends it to where it belongs, or puts it where it waits, or ends it. It waits nowhere. */
void weir_redis_call_route(weir_redis_client *c, weir_redis_call *call, int64_t now_ns);
/* Adds it to a ring of those who wait; it is in none. */
void weir_redis_wait(weir_redis_call *ring, weir_redis_call *call);
/* Routes all that wait in a ring, in order. */
void weir_redis_route_all(weir_redis_client *c, weir_redis_call *ring, int64_t now_ns);
/* Moves all of a ring to one that is empty. */
void weir_redis_wait_elsewhere(weir_redis_call *from, weir_redis_call *to);
weir_redis_call *weir_redis_wait_first(weir_redis_call *ring); /* takes it out; NULL: empty */
/* Hands it to a node: it is sent there, or waits there, or ends since that would last too long. */
void weir_redis_call_hand(weir_redis_client *c, weir_redis_node *n, weir_redis_call *call,
                          int64_t now_ns);
/* It is answered that this cannot be decided there. `reason` is static, or the client's. */
void weir_redis_call_unsupported(weir_redis_client *c, weir_redis_call *call, const char *reason,
                                 int64_t now_ns);
/* Lets it be tried again in a moment. */
void weir_redis_call_pause(weir_redis_client *c, weir_redis_call *call, int64_t now_ns);
void weir_redis_say(weir_redis_client *c, const char *event, const weir_redis_node *n,
                    const char *text);
uint64_t weir_redis_random(weir_redis_client *c);
/* Copies a text of a server, without what does not belong in a line of a log. Returns ret. */
const char *weir_redis_copy(char *ret, size_t size, const char *text, size_t len);

/* ---- node.c ---------------------------------------------------------------------------------- */

weir_redis_node *weir_redis_node_new(weir_redis_client *c, const char *host, uint16_t port);
void weir_redis_node_free(weir_redis_node *n); /* it has no line and nobody waits */
void weir_redis_node_dial(weir_redis_node *n, int64_t now_ns);
/* Ends the line, if there is one: what was sent is BROKEN, what waits is tried again. */
void weir_redis_node_fail(weir_redis_node *n, const char *why, int64_t now_ns);
/* Hangs up a line that is not needed any more and has nothing to answer. */
void weir_redis_node_leave(weir_redis_node *n, int64_t now_ns);
/* Sends a call over a line that is up. False if it is too much for the line: nothing was sent. */
bool weir_redis_node_send(weir_redis_node *n, weir_redis_call *call, int64_t now_ns);
/* A request that is no call's: `words` of them, as weir_redis_node_word() adds each. False if there
 * is no memory: then the line is given up soon. */
bool weir_redis_node_ask(weir_redis_node *n, weir_redis_kind kind, size_t words, int64_t now_ns);
void weir_redis_node_word(weir_redis_node *n, const char *word);
void weir_redis_node_bulk(weir_redis_node *n, const char *bytes, size_t len);
/* Finds out again what it decides by, over the line that is up. */
void weir_redis_node_again(weir_redis_node *n, int64_t now_ns);
/* If it is paused, it need not be any longer. */
void weir_redis_node_hurry(weir_redis_node *n, int64_t now_ns);
/* Shaking hands went well. */
void weir_redis_node_up(weir_redis_node *n, int64_t now_ns);
void weir_redis_node_say_up(weir_redis_node *n); /* if that is news */

/* ---- node_shake.c ---------------------------------------------------------------------------- */

void weir_redis_shake(weir_redis_node *n, int64_t now_ns);
/* As weir_redis_node_again(), what is said. */
void weir_redis_choose(weir_redis_node *n, int64_t now_ns);
/* Takes a value of a reply to it. */
void weir_redis_shake_hear(weir_redis_node *n, weir_redis_kind kind, const weir_resp_value *v,
                           int64_t now_ns);

/* ---- node_refusal.c -------------------------------------------------------------------------- */

/* An error came in place of an answer. */
void weir_redis_refused(weir_redis_node *n, weir_redis_call *call, const char *text, size_t len,
                        int64_t now_ns);

/* ---- slots.c --------------------------------------------------------------------------------- */

/* Whether it may be the name or the address of a node that a server speaks of: printable, without
 * blanks, and no file. */
bool weir_redis_host_ok(const char *host, size_t len);
/* NULL if there is none of that name and no room for one. */
weir_redis_node *weir_redis_node_of(weir_redis_client *c, const char *host, uint16_t port);
/* Looks at what should be: which lines, which requests. After every change. */
void weir_redis_tend(weir_redis_client *c, int64_t now_ns);
void weir_redis_slots_hear(weir_redis_node *n, const weir_resp_value *v, int64_t now_ns);
void weir_redis_slots_lost(weir_redis_node *n); /* if it was asked, it will not answer */
/* Of the bytes that count, whatever is in them. */
uint32_t weir_redis_slot_of_tag(const char *tag, size_t len);
/* Of a request, whatever kind its Redis key is of. */
uint32_t weir_redis_slot_of(const weir_redis_client *c, const weir_engine_request *q);
/* The node that has it; NULL if none is known. */
weir_redis_node *weir_redis_node_for(const weir_redis_client *c, uint32_t slot);
/* A Cluster was met where none was thought to be. */
void weir_redis_become_cluster(weir_redis_client *c);
bool weir_redis_is_wanted(const weir_redis_node *n);

/* ---- sentinel.c ------------------------------------------------------------------------------ */

void weir_redis_sentinel_tend(weir_redis_client *c, int64_t now_ns, int64_t *wake_ns);
void weir_redis_sentinel_hear(weir_redis_node *n, const weir_resp_value *v, int64_t now_ns);
void weir_redis_sentinel_lost(weir_redis_node *n);

#endif
