/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Each allocation of a gRPC session fails in turn: the session closes or answers, its output
 * consists of whole frames, and it frees everything. */

#include "codec/grpc/kit_test.h"
#include "rls/wire/message.h"

#include "port/memory_kit_test.h"

#include <zlib.h>

enum { PIECES = 4 };

/* What the client of a scene sends: pieces that arrive one after the other. */
static weir_buffer pieces[PIECES];

static void end_piece(fixture *f, int i)
{
    client_sends(f);
    weir_buffer_init(&pieces[i], 1 << 20);
    weir_buffer_append(&pieces[i], weir_buffer_data(&f->in), weir_buffer_len(&f->in));
    weir_buffer_clear(&f->in);
}

static void submit_gzip(fixture *f)
{
    static uint8_t body[128];
    uint8_t packed[100];
    z_stream z = {.next_in = (uint8_t *)"hello", .avail_in = 5};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, 0), Z_OK);
    z.next_out = packed;
    z.avail_out = sizeof packed;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t len = frame_message(body, packed, sizeof packed - z.avail_out);
    deflateEnd(&z);
    body[0] = 1;
    const nghttp2_nv fields[] = {MAKE_FIELD(":method", "POST"),
                                 MAKE_FIELD(":scheme", "http"),
                                 MAKE_FIELD(":authority", "a"),
                                 MAKE_FIELD(":path", "/test.Service/Echo"),
                                 MAKE_FIELD("content-type", "application/grpc"),
                                 MAKE_FIELD("grpc-encoding", "gzip")};
    submit(f, fields, sizeof fields / sizeof fields[0], body, len);
}

/* Calls of all kinds: answered, refused, blocked by flow control, in two pieces, and streams. */
static void write_scene(fixture *f)
{
    static const uint8_t list[] = {0, 0, 0, 0, 3, 0x3a, 1, '*'};
    nghttp2_settings_entry none = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    submit_call(f, "/test.Service/Echo", "first");
    submit_call(f, "/test.Service/Fail", "\5");
    submit_gzip(f);
    end_piece(f, 0);
    submit_call(f, "/test.Service/Echo", "in two pieces");
    submit_call(f, "/grpc.health.v1.Health/Watch", "");
    submit_body(f, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", list, sizeof list);
    end_piece(f, 2);
    /* Cuts the first message. */
    weir_buffer_init(&pieces[1], 1 << 20);
    weir_buffer_append(&pieces[1], weir_buffer_data(&pieces[2]), 70);
    weir_buffer_consume(&pieces[2], 70);
    nghttp2_submit_settings(f->client, 0, &none, 1);
    submit_call(f, "/test.Service/Echo", "blocked");
    end_piece(f, 3);
}

static bool attempt(uint64_t n, bool later)
{
    fixture *f = calloc(1, sizeof *f);
    const weir_grpc_options options = {.methods = methods,
                                       .methods_len = sizeof methods / sizeof methods[0],
                                       .ctx = &f->app,
                                       .app_size = 8,
                                       .open = app_open,
                                       .close = app_close,
                                       .descriptors = weir_rls_file_descriptors};
    weir_buffer_init(&f->in, 1 << 20);
    weir_buffer_init(&f->out, 1 << 20);
    assert_true(weir_buffer_reserve(&f->in, 1 << 19) && weir_buffer_reserve(&f->out, 1 << 19));
    memory_fail(n, later);
    f->session.connection = (weir_grpc_connection *)f; /* is overwritten */
    weir_grpc_session_open(&f->session, &options, wake_connection, f);
    if (!f->session.connection) { /* closes at once */
        assert_true(weir_grpc_session_poll(&f->session, 1, false));
        assert_int_equal(weir_grpc_session_usage(&f->session).bytes, 0);
    }
    weir_session_next next = WEIR_SESSION_READ;
    for (int i = 0; i < PIECES && next == WEIR_SESSION_READ; i++) {
        weir_buffer_append(&f->in, weir_buffer_data(&pieces[i]), weir_buffer_len(&pieces[i]));
        next = weir_grpc_session_run(&f->session, &f->in, &f->out, 1 << 20, 1).next;
        look_at_output(f);
        weir_buffer_clear(&f->out);
    }
    bool failed = memory_stop();
    assert_true(next == WEIR_SESSION_CLOSE || next == WEIR_SESSION_READ);
    assert_true(failed || (next == WEIR_SESSION_READ && f->app.calls == 4));
    weir_grpc_session_close(&f->session);
    assert_int_equal(f->app.opened, f->app.closed);
    weir_buffer_free(&f->in);
    weir_buffer_free(&f->out);
    free(f);
    return failed;
}

static void each_allocation_fails(void **state)
{
    write_scene(*state);
    fail_each_allocation(attempt);
    for (int i = 0; i < PIECES; i++)
        weir_buffer_free(&pieces[i]);
}

/* The heap counts its blocks, and keeps a block that cannot grow. */
static void heap_counts_its_blocks(void **state)
{
    weir_grpc_heap h;
    (void)state;
    weir_grpc_heap_init(&h);
    nghttp2_mem *m = &h.mem;
    uint64_t before = port_load_relaxed(&memory.blocks);
    char *a = m->malloc(100, m->mem_user_data), *b = m->calloc(3, 50, m->mem_user_data);
    assert_int_equal(h.bytes, 100 + 32 + 150 + 32);
    memset(a, 'a', 100);
    a = m->realloc(a, 200, m->mem_user_data);
    assert_int_equal(h.bytes, 200 + 32 + 150 + 32);
    char *c = m->realloc(NULL, 10, m->mem_user_data);
    assert_int_equal(h.bytes, 200 + 10 + 150 + 3 * 32);
    m->free(NULL, m->mem_user_data);
    m->free(b, m->mem_user_data);
    assert_int_equal(h.bytes, 200 + 10 + 2 * 32);
    assert_false(h.failed);
    assert_null(m->malloc(SIZE_MAX, m->mem_user_data));
    assert_null(m->calloc(SIZE_MAX / 2, 3, m->mem_user_data));
    assert_null(m->calloc(SIZE_MAX - 31, 1, m->mem_user_data));
    assert_null(m->realloc(a, SIZE_MAX - 31, m->mem_user_data));
    memory_fail(0, true);
    assert_null(m->realloc(a, 300, m->mem_user_data));
    assert_true(memory_stop());
    assert_true(h.failed);
    assert_int_equal(h.bytes, 200 + 10 + 2 * 32);
    for (int i = 0; i < 100; i++)
        assert_int_equal(a[i], 'a');
    m->free(c, m->mem_user_data);
    assert_int_equal(port_load_relaxed(&memory.blocks), before + 1);
    weir_grpc_heap_free(&h);
    assert_int_equal(port_load_relaxed(&memory.blocks), before);
    assert_int_equal(h.bytes, 0);
    weir_grpc_heap_free(&h); /* empty now */
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(each_allocation_fails), TEST(heap_counts_its_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
