/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Frames of SPOP as bytes: the encodings of HAProxy's doc/SPOE.txt, in both directions, and input
 * that ends too early. */

#include "codec/spop/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define BYTES(literal) literal, sizeof(literal) - 1

static weir_spop_reader reader_of(const void *at, size_t len)
{
    return (weir_spop_reader){at, (const uint8_t *)at + len};
}

/* The limits are those of the table in doc/SPOE.txt, section 3.1. */
static const struct {
    uint64_t v;
    const char *bytes;
    size_t len;
} varints[] = {
    {0, BYTES("\x00")},
    {239, BYTES("\xEF")},
    {240, BYTES("\xF0\x00")},
    {241, BYTES("\xF1\x00")},
    {2287, BYTES("\xFF\x7F")},
    {2288, BYTES("\xF0\x80\x00")},
    {16380, BYTES("\xFC\xF0\x06")},
    {264431, BYTES("\xFF\xFF\x7F")},
    {264432, BYTES("\xF0\x80\x80\x00")},
    {33818863, BYTES("\xFF\xFF\xFF\x7F")},
    {33818864, BYTES("\xF0\x80\x80\x80\x00")},
    {1000000000000, BYTES("\xF0\xF1\xA0\xA8\xE9\xE7\x00")},
    {UINT64_MAX, BYTES("\xFF\xF0\xFE\xFE\xFE\xFE\xFE\xFE\xFE\x0E")},
};

static void check_varints(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof varints / sizeof varints[0]; i++) {
        uint8_t buf[16];
        uint64_t v = 7;
        size_t len = varints[i].len;
        weir_spop_writer w = {.at = buf, .end = buf + sizeof buf};
        weir_spop_put_varint(&w, varints[i].v);
        assert_int_equal(w.at - buf, len);
        assert_memory_equal(buf, varints[i].bytes, len);
        weir_spop_reader r = reader_of(buf, sizeof buf);
        assert_true(weir_spop_read_varint(&r, &v));
        assert_true(v == varints[i].v);
        assert_ptr_equal(r.at, buf + len);
        for (size_t cut = 0; cut < len; cut++) {
            r = reader_of(buf, cut);
            assert_false(weir_spop_read_varint(&r, &v));
            w = (weir_spop_writer){.at = buf, .end = buf + cut};
            weir_spop_put_varint(&w, varints[i].v);
            assert_true(w.full);
        }
    }
}

static void check_long_varints(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "\xFF\xF0\xFE\xFE\xFE\xFE\xFE\xFE\xFE\x0F",         /* 2^64 + 2^60 - 1 */
        "\xFF\xFF\xFE\xFE\xFE\xFE\xFE\xFE\xFE\x0E",         /* the sum exceeds 2^64 */
        "\xFF\xF0\xFE\xFE\xFE\xFE\xFE\xFE\xFE\x8E",         /* another byte follows */
        "\xF0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", /* 12 bytes */
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint64_t v;
        weir_spop_reader r = reader_of(texts[i], strlen(texts[i]) + 1);
        assert_false(weir_spop_read_varint(&r, &v));
    }
}

/* A value of each type, and its text. */
static const struct {
    const char *bytes;
    size_t len;
    const char *text; /* NULL: none */
    bool is_address;
} values[] = {
    {BYTES("\x00"), NULL, false},
    {BYTES("\x01"), "0", false},
    {BYTES("\x11"), "1", false},
    {BYTES("\x02\x05"), "5", false},
    {BYTES("\x02\xFF\xF0\xFE\xFE\xFE\xFE\xFE\xFE\xFE\x0E"), "-1", false},
    {BYTES("\x03\xFC\xF0\x06"), "16380", false},
    {BYTES("\x03\xFF\xF0\xFE\xFE\xFE\xFE\xFE\xFE\xFE\x0E"), "4294967295", false},
    {BYTES("\x04\xFF\xF0\xFE\xFE\xFE\xFE\xFE\xFE\xFE\x0E"), "-1", false},
    {BYTES("\x05\xFF\xF0\xFE\xFE\xFE\xFE\xFE\xFE\xFE\x0E"), "18446744073709551615", false},
    {BYTES("\x06\x7F\x00\x00\x01"), "127.0.0.1", true},
    {BYTES("\x07\x20\x01\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\x07"), "2001:db8::7", true},
    {BYTES("\x07\0\0\0\0\0\0\0\0\0\0\xFF\xFF\x0A\x01\x02\x03"), "10.1.2.3", true},
    {BYTES("\x08\x05/a/b "), "/a/b ", false},
    {BYTES("\x08\x00"), "", false},
    {BYTES("\x09\x03\x01z\x02"), "\x01z\x02", false},
};

static void check_values(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        weir_spop_value v;
        weir_slice text;
        char buf[WEIR_SPOP_TEXT_MAX];
        bool is_address = false;
        weir_spop_reader r = reader_of(values[i].bytes, values[i].len);
        assert_true(weir_spop_read_value(&r, &v));
        assert_ptr_equal(r.at, r.end);
        assert_int_equal(weir_spop_text(&v, buf, &text, &is_address), values[i].text != NULL);
        assert_int_equal(is_address, values[i].is_address);
        if (values[i].text) {
            assert_int_equal(text.len, strlen(values[i].text));
            assert_memory_equal(text.at, values[i].text, text.len);
        }
        for (size_t cut = 0; cut < values[i].len; cut++) {
            r = reader_of(values[i].bytes, cut);
            assert_false(weir_spop_read_value(&r, &v));
        }
    }
    for (uint8_t type = 10; type < 16; type++) {
        const uint8_t bytes[20] = {type};
        weir_spop_value v;
        weir_spop_reader r = reader_of(bytes, sizeof bytes);
        assert_false(weir_spop_read_value(&r, &v));
    }
    weir_slice huge;
    weir_spop_reader r = reader_of(BYTES("\xFF\xF0\xFE\xFE\xFE\xFE\xFE\xFE\xFE\x0E"));
    assert_false(weir_spop_read_string(&r, &huge));
}

static void check_frames(void **unused)
{
    (void)unused;
    static const char bytes[] = "\0\0\0\x15\x67\0\0\0\x01\xF0\x00\x07\x11\x04\x03\x03\xFC\xF0\x06"
                                "\x08\x04weir";
    weir_buffer out;
    weir_spop_frame f;
    weir_buffer_init(&out, 4096);
    weir_spop_writer w =
        weir_spop_begin(&out, WEIR_SPOP_FRAME_MIN, WEIR_SPOP_ACK, WEIR_SPOP_FIN, 240, 7);
    weir_spop_put_bool(&w, true);
    weir_spop_put_int64(&w, 3);
    weir_spop_put_uint32(&w, 16380);
    weir_spop_put_text(&w, "weir", 4);
    weir_spop_end(&out, &w);
    assert_int_equal(weir_buffer_len(&out), sizeof bytes - 1);
    assert_memory_equal(weir_buffer_data(&out), bytes, sizeof bytes - 1);
    weir_spop_reader r = reader_of(bytes + 4, sizeof bytes - 5);
    assert_true(weir_spop_read_frame(&r, &f));
    assert_true(f.type == WEIR_SPOP_ACK && f.flags == WEIR_SPOP_FIN && f.stream_id == 240 &&
                f.frame_id == 7);
    assert_int_equal(f.payload.end - f.payload.at, 13);
    for (size_t cut = 0; cut < 8; cut++) {
        r = reader_of(bytes + 4, cut);
        assert_false(weir_spop_read_frame(&r, &f));
    }
    weir_buffer_free(&out);
}

/* A frame that does not fit the buffer is left out as a whole. */
static void check_no_memory(void **unused)
{
    (void)unused;
    weir_buffer out;
    weir_buffer_init(&out, WEIR_SPOP_FRAME_MIN);
    weir_spop_writer w =
        weir_spop_begin(&out, WEIR_SPOP_FRAME_MIN, WEIR_SPOP_ACK, WEIR_SPOP_FIN, 1, 1);
    weir_spop_put_text(&w, "weir", 4);
    assert_true(w.full);
    weir_spop_end(&out, &w);
    assert_true(out.failed);
    assert_int_equal(weir_buffer_len(&out), 0);
    weir_buffer_free(&out);
}

/* The flags of a frame have four bytes. */
static void check_flags(void **unused)
{
    (void)unused;
    static const uint8_t head[] = {0, 0, 0, 7, WEIR_SPOP_ACK, 0x12, 0x34, 0x56, 0x78, 1, 2};
    weir_buffer out;
    weir_spop_frame frame;
    weir_buffer_init(&out, 1 << 10);
    weir_spop_writer w =
        weir_spop_begin(&out, WEIR_SPOP_FRAME_MIN, WEIR_SPOP_ACK, 0x12345678, 1, 2);
    weir_spop_end(&out, &w);
    assert_int_equal(weir_buffer_len(&out), sizeof head);
    assert_memory_equal(weir_buffer_data(&out), head, sizeof head);
    weir_spop_reader r = {weir_buffer_data(&out) + 4, weir_buffer_data(&out) + sizeof head};
    assert_true(weir_spop_read_frame(&r, &frame));
    assert_int_equal(frame.flags, 0x12345678);
    weir_buffer_free(&out);
}

/* A writer takes bytes up to its end. Nothing is written after something that did not fit. */
static void check_room(void **unused)
{
    (void)unused;
    uint8_t bytes[4] = {9, 9, 9, 9};
    weir_spop_writer w = {.at = bytes, .end = bytes + 3};
    weir_spop_put_string(&w, "ab", 2);
    assert_false(w.full);
    assert_ptr_equal(w.at, w.end);
    w.at = bytes + 2;
    weir_spop_put_byte(&w, 7);
    assert_true(!w.full && bytes[2] == 7);
    weir_spop_put_byte(&w, 8);
    assert_true(w.full && bytes[3] == 9);
    w.at = bytes;
    weir_spop_put_byte(&w, 8);
    assert_int_equal(bytes[0], 2);
}

static void check_null_text(void **unused)
{
    (void)unused;
    const weir_spop_value none = {.type = WEIR_SPOP_NULL};
    char buf[WEIR_SPOP_TEXT_MAX];
    weir_slice text;
    bool is_address = false;
    assert_false(weir_spop_text(&none, buf, &text, &is_address));
    assert_int_equal(text.len, 0);
}

static void check_status_texts(void **unused)
{
    (void)unused;
    assert_string_equal(weir_spop_status_text(WEIR_SPOP_TOO_BIG), "frame is too big");
    assert_string_equal(weir_spop_status_text((weir_spop_status)1), "unknown");
    assert_string_equal(weir_spop_status_text((weir_spop_status)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_varints),   cmocka_unit_test(check_long_varints),
        cmocka_unit_test(check_values),    cmocka_unit_test(check_frames),
        cmocka_unit_test(check_no_memory), cmocka_unit_test(check_status_texts),
        cmocka_unit_test(check_flags),     cmocka_unit_test(check_room),
        cmocka_unit_test(check_null_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
