/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_GRPC_CONNECTION_H
#define WEIR_CODEC_GRPC_CONNECTION_H
/* The parts of a gRPC session: the connection, its streams, and the functions that read requests
 * and send replies. Private to codec/grpc. */

#include "codec/grpc/method.h"

#include <nghttp2/nghttp2.h>

typedef struct weir_grpc_connection weir_grpc_connection;
typedef struct weir_grpc_stream weir_grpc_stream;

/* ---- memory ---------------------------------------------------------------------------------- */

/* The heap of a connection: counts what libnghttp2 and the session allocate. */
typedef struct weir_grpc_heap {
    size_t bytes;
    bool failed; /* memory was exhausted once: do not call libnghttp2 again */
    struct weir_grpc_block *blocks;
    nghttp2_mem mem;
} weir_grpc_heap;

/* Do not move *h afterwards. */
void weir_grpc_heap_init(weir_grpc_heap *h);

/* Frees all blocks. */
void weir_grpc_heap_free(weir_grpc_heap *h);

/* As malloc() and free(). */
void *weir_grpc_alloc(weir_grpc_heap *h, size_t size);
void weir_grpc_free(weir_grpc_heap *h, void *p);

/* ---- streams --------------------------------------------------------------------------------- */

/* Bytes before each message: the compressed flag and the length, big-endian. */
#define WEIR_GRPC_PREFIX_LEN 5

/* A method of the session itself. */
typedef struct weir_grpc_own_method {
    const char *path;
    weir_right right;
    bool streams; /* the response is a stream of messages */
    bool
        converses; /* the request is a stream too: `run` gets each message, not the whole request */
    void (*run)(weir_grpc_connection *c, weir_grpc_stream *s);
} weir_grpc_own_method;

/* What the header fields of a request have shown. */
enum {
    WEIR_GRPC_POST = 1 << 0,
    WEIR_GRPC_CONTENT_TYPE = 1 << 1,
    WEIR_GRPC_KNOWN_METHOD = 1 << 2,
    WEIR_GRPC_GZIP = 1 << 3,             /* grpc-encoding */
    WEIR_GRPC_UNKNOWN_ENCODING = 1 << 4, /* grpc-encoding */
    WEIR_GRPC_PASSWORD = 1 << 5,         /* was given */
    WEIR_GRPC_WRONG_PASSWORD = 1 << 6,
    WEIR_GRPC_BAD_TIMEOUT = 1 << 7,
    WEIR_GRPC_HEAD_TOO_LONG = 1 << 8,
    WEIR_GRPC_BUSY = 1 << 9,          /* see WEIR_LOGIN_BUSY */
    WEIR_GRPC_TRACE_PARENT = 1 << 10, /* a field `traceparent`, with a tracer */
    WEIR_GRPC_TRACED = 1 << 11,       /* it is the only one, and weir_trace_parent_read() */
};

struct weir_grpc_stream {
    weir_grpc_stream *next, **link; /* in connection->streams */
    /* In connection->ready; ready_link is NULL if it is not queued. */
    weir_grpc_stream *ready_next, **ready_link;
    int32_t id;
    uint16_t fields;                 /* WEIR_GRPC_POST and so on */
    weir_login login;                /* by the password in the header fields */
    const weir_grpc_method *method;  /* of the application; NULL: `own` */
    const weir_grpc_own_method *own; /* NULL: the request is not checked, or `method` */
    size_t head_len;                 /* of the header list, as RFC 9113, 6.5.2 counts it */
    int64_t begun_ns;                /* when the request began to arrive */
    int64_t deadline_ns;             /* 0: none */
    weir_trace_parent trace_parent;  /* with WEIR_GRPC_TRACED */

    bool checked;   /* the header fields are complete and accepted */
    bool counted;   /* in connection->incomplete_len */
    bool ended;     /* the request is complete: END_STREAM was received */
    bool responded; /* response headers were submitted */
    bool closed;    /* by the client, while an engine decided the call */
    bool reset;     /* RST_STREAM follows the response, since the request is not complete */

    /* The request message. `message` points into the input buffer of the session's run, or is equal
     * to `owned`. */
    uint8_t prefix[WEIR_GRPC_PREFIX_LEN];
    uint8_t prefix_len;
    bool complete; /* a message is complete */
    const uint8_t *message;
    size_t message_len;
    size_t received; /* bytes of the message in `owned`, while it is incomplete */
    uint8_t *owned;

    /* The bytes to send. A unary reply is the message alone, in `out_owned` or at out_begin of
     * connection->replies. A stream has messages with their prefixes in `out_owned`. */
    uint8_t *out_owned;
    size_t out_begin, out_len;
    size_t out_sent; /* of prefix and message */
    bool out_last;   /* of a stream: then trailers */
    weir_grpc_status end_status;
    const char *end_why;
    uint8_t health; /* of Watch: the status that was sent; 0: none, or another method */
};

/* Whether each message of the request is answered as it arrives. */
static inline bool weir_grpc_is_conversation(const weir_grpc_stream *s)
{
    return s->own && s->own->converses;
}

static inline bool weir_grpc_is_streaming(const weir_grpc_stream *s)
{
    return s->own && s->own->streams;
}

/* ---- the connection -------------------------------------------------------------------------- */

/* How a connection ends, without losing a request. */
typedef enum weir_grpc_ending {
    WEIR_GRPC_OPEN,
    WEIR_GRPC_NOTICED, /* GOAWAY with the last possible stream, and PING, were sent */
    WEIR_GRPC_FINAL    /* GOAWAY with the last stream was sent: new streams are ignored */
} weir_grpc_ending;

struct weir_grpc_connection {
    const struct weir_grpc_options *options;
    weir_grpc_heap heap;
    nghttp2_session *h2;
    void (*wake)(void *wake_ctx);
    void *wake_ctx;
    int64_t now_ns; /* of the current run */

    weir_grpc_stream *streams;
    weir_grpc_stream *current; /* the one whose frames arrive; NULL: unknown */
    weir_grpc_stream *ready, **ready_end;
    size_t incomplete_len; /* streams whose request is not complete, but for streaming methods */
    size_t borrowed_len;   /* streams whose message is in the input buffer */
    size_t body_bytes;     /* of the copied messages of all streams */
    size_t watches_len;    /* streams of Watch */

    weir_buffer replies;      /* response messages that are not sent */
    size_t replies_len;       /* streams that have one there */
    size_t blocked_bytes;     /* of messages in `out_owned` */
    int64_t blocked_since_ns; /* the last progress of one of these */

    int64_t born_ns, max_age_ns; /* 0: not known yet; no limit */
    weir_grpc_ending ending;
    int64_t ending_since_ns; /* of the state `ending` */
    int64_t credits;         /* frames that the client may send; see charge_frame() */
    int64_t credits_ns;      /* when they were counted */
    unsigned wrong_passwords;

    weir_login login;  /* by the listener or a certificate */
    bool known;        /* a request had a right password */
    bool prefaced;     /* the connection preface has begun */
    bool pending;      /* an engine decides the first calls of `ready` */
    bool woken;        /* since they were passed to answer() last */
    bool pinged;       /* the PING of WEIR_GRPC_NOTICED was answered */
    bool stopping;     /* the server stops */
    bool late;         /* weir_grpc_has_late() at the last poll */
    bool penalty;      /* a wrong password: the output is delayed */
    bool flooded;      /* GOAWAY ENHANCE_YOUR_CALM was submitted */
    bool failed;       /* memory is exhausted, or libnghttp2 reported an error: close */
    max_align_t app[]; /* options->app_size bytes */
};

/* Whether the connection is closed without calling libnghttp2 again. */
static inline bool weir_grpc_is_broken(const weir_grpc_connection *c)
{
    return c->failed || c->heap.failed;
}

/* ---- accounting: connection.c ---------------------------------------------------------------- */

enum {
    WEIR_GRPC_CREDITS_MAX = 10000, /* frames that the client may send at once ... */
    WEIR_GRPC_CREDITS_A_SECOND = 1000,
    WEIR_GRPC_CREDITS_OF_CALL = 8 /* ... and for each call that is answered */
};

/* Sends GOAWAY ENHANCE_YOUR_CALM, then closes. */
void weir_grpc_calm(weir_grpc_connection *c);

/* Takes credits from the client, and closes the connection of one that floods. */
void weir_grpc_charge(weir_grpc_connection *c, int64_t credits);

/* Gives the client credits. */
void weir_grpc_earn(weir_grpc_connection *c, int64_t credits);

/* Gives the client the credits for the time since the last run. */
void weir_grpc_earn_by_time(weir_grpc_connection *c);

/* Charges a frame that has arrived. */
int weir_grpc_on_begin_frame(nghttp2_session *h2, const nghttp2_frame_hd *head, void *user_data);

/* ---- the life of a stream: stream.c ---------------------------------------------------------- */

/* A request begins, and its stream ends. */
int weir_grpc_on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *user_data);
int weir_grpc_on_stream_close(nghttp2_session *h2, int32_t id, uint32_t code, void *user_data);

/* Finds a stream; NULL: unknown, or closed. */
weir_grpc_stream *weir_grpc_stream_of(weir_grpc_connection *c, int32_t id);

/* The timeout of incomplete requests does not apply to the stream any more. */
void weir_grpc_uncount(weir_grpc_connection *c, weir_grpc_stream *s);

/* Adds a complete call to the queue of those that wait for an answer. */
void weir_grpc_enqueue(weir_grpc_connection *c, weir_grpc_stream *s);

/* Removes a call from the queue. */
void weir_grpc_unqueue(weir_grpc_connection *c, weir_grpc_stream *s);

/* Frees the message of a stream, which may receive another. */
void weir_grpc_drop_message(weir_grpc_connection *c, weir_grpc_stream *s);

/* Removes and frees a stream. */
void weir_grpc_free_stream(weir_grpc_connection *c, weir_grpc_stream *s);

/* ---- reading requests: request.c ------------------------------------------------------------- */

/* The functions for libnghttp2; user_data is the connection. */
int weir_grpc_on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
                        size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                        void *user_data);
int weir_grpc_on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *bytes,
                      size_t len, void *user_data);
int weir_grpc_on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *user_data);

/* Copies every message that is in the input buffer, or refuses its request if there is no room. */
void weir_grpc_own_messages(weir_grpc_connection *c);

/* Returns whether a request should be complete by now. */
bool weir_grpc_has_late(const weir_grpc_connection *c);

/* Refuses such requests. */
void weir_grpc_refuse_late(weir_grpc_connection *c);

/* ---- sending replies: reply.c ---------------------------------------------------------------- */

/* Sends a response message, `len` bytes at `begin` of connection->replies, and OK. */
void weir_grpc_reply(weir_grpc_connection *c, weir_grpc_stream *s, size_t begin, size_t len);

/* Sends a status other than OK, without a message: "trailers only".
 *  http  the HTTP status: 200, or that of a request that is not gRPC.
 *  why   text of grpc-message. */
void weir_grpc_refuse(weir_grpc_connection *c, weir_grpc_stream *s, unsigned http,
                      weir_grpc_status status, const char *why);

/* Sends the next message of a stream.
 *  len  up to WEIR_GRPC_STREAM_OUT_MAX bytes may be unsent; more ends the stream. */
#define WEIR_GRPC_STREAM_OUT_MAX (256 << 10)
void weir_grpc_send(weir_grpc_connection *c, weir_grpc_stream *s, const void *message, size_t len);

/* Ends a stream after its messages.
 *  why  as for weir_grpc_refuse(); kept by reference. NULL: none. */
void weir_grpc_end(weir_grpc_connection *c, weir_grpc_stream *s, weir_grpc_status status,
                   const char *why);

/* Frees the message that was or will be sent. */
void weir_grpc_drop_reply(weir_grpc_connection *c, weir_grpc_stream *s);

/* A frame was sent. */
int weir_grpc_on_frame_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *user_data);

/* Appends frames to `out` until it has more than out_pause bytes. Returns whether all were
 * appended that the client's flow control allows. */
bool weir_grpc_flush(weir_grpc_connection *c, weir_buffer *out, size_t out_pause);

/* ---- grpc.health.v1.Health: health.c --------------------------------------------------------- */

extern const weir_grpc_own_method weir_grpc_health[2];

/* Returns whether the status of a stream of Watch has changed. */
bool weir_grpc_health_changed(const weir_grpc_connection *c);

/* Sends the status to the streams of Watch for which it has changed.
 *  end  ends them, so that the clients connect again. */
void weir_grpc_health_update(weir_grpc_connection *c, bool end);

/* ---- grpc.reflection: reflection.c ----------------------------------------------------------- */

extern const weir_grpc_own_method weir_grpc_reflection[2];

#endif
