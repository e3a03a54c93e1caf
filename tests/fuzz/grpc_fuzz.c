/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: HTTP/2 frames for a gRPC session whose methods echo. The first byte selects
 * what the session has and when an engine is pending, the second seeds the splits; the rest is the
 * input, without the connection preface. The output consists of whole frames, every stream ends at
 * most once, no call is answered twice, and the memory is bounded. */

#include "access.h"
#include "fuzz.h"

#include "codec/grpc/session.h"
#include "rls/wire/message.h"

enum {
    PASSWORD = 1,
    READY = 2,
    SLOW_ENGINE = 4,   /* every second call of answer() is pending */
    PART_OF_BATCH = 8, /* answer() answers one call */
    STOPPING = 16,     /* the server stops in the middle */
    AGEING = 32,       /* seconds pass between the pieces */
    SMALL_OUT = 64,
    MEMORY_MAX = 24 << 20,
    STREAMS = 1 << 16, /* whose ends are counted */
};

typedef struct world {
    unsigned flags;
    weir_grpc_session session;
    weir_buffer in, out;
    size_t asked;    /* calls of answer() */
    size_t answered; /* calls */
    size_t headers;  /* HEADERS frames with END_STREAM */
    bool pending, woken;
    void (*wake)(void *wake_ctx);
    void *wake_ctx;
    int64_t now_ns;
    uint8_t ends[STREAMS]; /* of each stream, by its id */
} world;

static bool ready(void *ctx)
{
    world *w = ctx;
    return w->flags & READY;
}

static size_t echo(void *ctx, void *app, weir_grpc_call *calls, size_t n, int64_t now_ns)
{
    world *w = ctx;
    CHECK(*(uint64_t *)app == 0 && now_ns == w->now_ns && n > 0);
    w->pending = (w->flags & SLOW_ENGINE) && w->asked++ % 2 == 0;
    if (w->pending)
        return 0;
    n = w->flags & PART_OF_BATCH ? 1 : n;
    for (size_t i = 0; i < n; i++) {
        CHECK(calls[i].message.len <= WEIR_GRPC_MESSAGE_MAX && calls[i].reply_len == 0);
        if (calls[i].message.len > 0 && calls[i].message.at[0] == 'e') {
            calls[i].status = WEIR_GRPC_UNAVAILABLE;
            continue;
        }
        calls[i].reply_begin = weir_buffer_len(calls[i].reply);
        calls[i].reply_len = calls[i].message.len;
        weir_buffer_append(calls[i].reply, calls[i].message.at, calls[i].message.len);
    }
    w->answered += n;
    return n;
}

static void open_app(void *ctx, void *app, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    world *w = ctx;
    (void)app;
    w->wake = wake;
    w->wake_ctx = wake_ctx;
}

static void on_woken(void *ctx)
{
    ((world *)ctx)->woken = true;
}

static uint32_t number_at(const uint8_t *at, size_t len)
{
    uint32_t v = 0;
    for (size_t i = 0; i < len; i++)
        v = v << 8 | at[i];
    return v;
}

/* The output is a sequence of frames. */
static void check_output(world *w)
{
    const uint8_t *at = weir_buffer_data(&w->out);
    CHECK(!w->out.failed);
    for (size_t left = weir_buffer_len(&w->out), n; left > 0; at += n, left -= n) {
        CHECK(left >= 9);
        n = 9 + number_at(at, 3);
        uint32_t id = number_at(at + 5, 4);
        CHECK(left >= n && n <= 9 + 16384);
        bool ends = at[3] <= 1 && (at[4] & 1);
        CHECK(at[3] != 0 || !ends); /* trailers end a stream */
        if (ends) {
            CHECK(id % 2 == 1);
            CHECK(id >= STREAMS || w->ends[id]++ == 0);
            w->headers++;
        }
    }
    weir_buffer_clear(&w->out);
}

/* Runs the session as the event loop does. Returns whether it lives. */
static bool run(world *w)
{
    weir_session_next next;
    do {
        if (w->pending) { /* the engine has answered */
            w->woken = false;
            w->wake(w->wake_ctx);
            CHECK(w->woken);
        }
        size_t pause = w->flags & SMALL_OUT ? 20 : 1 << 16;
        next = weir_grpc_session_run(&w->session, &w->in, &w->out, pause, w->now_ns).next;
        check_output(w);
        CHECK(next != WEIR_SESSION_PENDING || w->pending);
        CHECK(weir_grpc_session_usage(&w->session).bytes < MEMORY_MAX);
    } while (next == WEIR_SESSION_AGAIN || next == WEIR_SESSION_PENDING ||
             next == WEIR_SESSION_WAIT);
    CHECK(next == WEIR_SESSION_CLOSE || weir_buffer_len(&w->in) == 0);
    return next == WEIR_SESSION_READ;
}

static void run_pieces(world *w, const uint8_t *data, size_t size, uint32_t seed)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    weir_buffer_append(&w->in, preface, sizeof preface - 1);
    bool lives = run(w);
    for (size_t at = 0, n; at < size && lives; at += n) {
        seed = seed * 1664525 + 1013904223;
        n = seed == 0 || seed >> 31 ? size - at : 1 + (seed >> 16) % 64;
        n = n < size - at ? n : size - at;
        uint8_t *piece = exact_copy(data + at, n);
        weir_buffer_append(&w->in, piece, n);
        free(piece);
        w->now_ns += w->flags & AGEING ? 7000000000 : 1000;
        if (weir_grpc_session_poll(&w->session, w->now_ns, false))
            lives = run(w);
        lives = lives && run(w);
        weir_buffer_free(&w->in); /* the session keeps no pointer into it */
    }
    if (lives && (w->flags & STOPPING)) {
        for (int i = 0; i < 3 && lives; i++, w->now_ns += 2000000000) {
            if (weir_grpc_session_poll(&w->session, w->now_ns, true))
                lives = run(w);
        }
    }
    CHECK(w->headers <= size); /* a request has more than one byte */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const weir_grpc_method methods[] = {
        {"/a/b", WEIR_MAY_TAKE, echo},
        {"/a/c", WEIR_MAY_TAKE, echo},
        {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", WEIR_MAY_TAKE, echo}};
    if (size < 2)
        return 0;
    world *w = calloc(1, sizeof *w);
    CHECK(w);
    w->flags = data[0];
    w->now_ns = 1767225600000000000;
    weir_buffer_init(&w->in, 1 << 20);
    weir_buffer_init(&w->out, 16 << 20);
    weir_access access;
    fuzz_access_open(&access, w->flags & PASSWORD);
    const weir_grpc_options options = {
        .methods = methods,
        .methods_len = 3,
        .ctx = w,
        .app_size = 8,
        .open = open_app,
        .ready = ready,
        .ready_ctx = w,
        .descriptors = weir_rls_file_descriptors,
        .access = &access,
        .max_age_ns = w->flags & AGEING ? 60000000000 : 0,
        .max_age_grace_ns = w->flags & AGEING ? 10000000000 : 0,
    };
    weir_grpc_session_open(&w->session, &options, on_woken, w);
    CHECK(w->session.connection);
    run_pieces(w, data + 2, size - 2, data[1]);
    weir_grpc_session_close(&w->session);
    fuzz_access_close(&access);
    weir_buffer_free(&w->in);
    weir_buffer_free(&w->out);
    free(w);
    return 0;
}
