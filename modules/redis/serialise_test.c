/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Serialised values, byte by byte: what is written, and which bytes are refused. */

#include "server_kit_test.h"

#define GCRA     "gcra 1/s burst 5" /* one word, inline */
#define LOG      "sliding-log 9/d"  /* on the heap */
#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

#define WORD(a) a "\0\0\0\0\0\0\0"
/* A set item of GCRA with one word: index 0, level 0, no name, 16 bytes of text, 1 word. */
#define GCRA_SET "\x00\x00\x00\x00\x00\x10\x00\x01\x00\x00\x00" GCRA
#define WHOLE_1  "\x01\x00\x01\x00"
#define CHANGE_1 "\x01\x01\x01\x00"

/* A value of one state, all of whose words are 0 but for the first. */
static weir_value value_of(const char *text, uint64_t first)
{
    uint64_t state[64] = {first};
    weir_interned *s = intern(text);
    return weir_value_put(0, 0, s, 0, state, weir_state_words(&s->policy, 0), 0);
}

static void expect_bytes(const weir_buffer *out, const void *bytes, size_t len)
{
    assert_int_equal(weir_buffer_len(out), len);
    assert_memory_equal(weir_buffer_data(out), bytes, len);
}

static weir_buffer saved(weir_value v)
{
    weir_buffer out;
    weir_buffer_init(&out, WEIR_SERIALISED_MAX);
    weir_serialise_value(&out, v);
    return out;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void a_whole_value(void **unused)
{
    (void)unused;
    static const char expected[] = WHOLE_1 GCRA_SET WORD("\x07");
    weir_value v = value_of(GCRA, 7), again = 0;
    weir_buffer out = saved(v);
    expect_bytes(&out, expected, sizeof expected - 1);
    assert_int_equal(weir_deserialise(weir_buffer_data(&out), weir_buffer_len(&out), &again),
                     WEIR_OK);
    weir_buffer_free(&out);
    out = saved(again);
    expect_bytes(&out, expected, sizeof expected - 1);
    weir_buffer_free(&out);
    weir_value_free(again);
    weir_value_free(v);
}

/* A named policy: the state has its name and its text. */
static void a_named_value(void **unused)
{
    (void)unused;
    static const char expected[] = WHOLE_1 "\x00\x00\x00\x00\x03\x10\x00\x01\x00\x00\x00"
                                           "api" GCRA WORD("\x01");
    weir_interned *s;
    uint64_t state = 1;
    assert_int_equal(weir_intern_stored("api", 3, GCRA, strlen(GCRA), &s), WEIR_OK);
    weir_value v = weir_value_put(0, 0, s, 0, &state, 1, 0);
    weir_buffer out = saved(v);
    expect_bytes(&out, expected, sizeof expected - 1);
    weir_buffer_free(&out);
    weir_value_free(v);
}

static void changes(void **unused)
{
    (void)unused;
    static const char expected[] =
        "\x01\x01\x02\x00"
        "\x01\x05\x00"
        "\x02\x00\x00\x00"
        "\x03\x00\x00\x00" WORD("\x09") "\x01\x00\x00\x00"
                                        "\x08\x07\x06\x05\x04\x03\x02\x01"
                                        "\x02\x06\x00";
    const uint64_t state[] = {0, 0x0102030405060708, 0, 9};
    const uint32_t word[] = {3, 1};
    weir_buffer out;
    weir_buffer_init(&out, WEIR_SERIALISED_MAX);
    weir_serialise_changes(&out, 2);
    weir_serialise_patch(&out, 5, state, word, 2);
    weir_serialise_drop(&out, 6);
    expect_bytes(&out, expected, sizeof expected - 1);
    weir_buffer_free(&out);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Expects that a payload is refused for a value, which stays as it is. */
static void expect_refused(weir_value *v, const uint8_t *bytes, size_t len)
{
    weir_value before = *v;
    weir_buffer first = *v ? saved(*v) : (weir_buffer){0};
    weir_status st = weir_deserialise(bytes, len, v);
    if (st != WEIR_E_SYNTAX)
        fail_msg("%zu bytes: found %s", len, weir_status_str(st));
    assert_true(*v == before);
    if (*v) {
        weir_buffer second = saved(*v);
        expect_bytes(&second, weir_buffer_data(&first), weir_buffer_len(&first));
        weir_buffer_free(&second);
    }
    weir_buffer_free(&first);
}

/* Each byte of the head and of the numbers that differs makes the payload invalid, and so does each
 * end that comes too early or too late. */
static void damaged_values(void **unused)
{
    (void)unused;
    static const uint8_t good[] = WHOLE_1 GCRA_SET WORD("\x07") "x";
    enum { LEN = sizeof good - 2, NUMBERS = sizeof WHOLE_1 - 1 + 11 };
    weir_value v = 0;
    for (size_t len = 0; len <= LEN + 1; len++) {
        if (len != LEN)
            expect_refused(&v, good, len);
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        uint8_t bad[LEN];
        memcpy(bad, good, LEN);
        bad[i] = (uint8_t)(bad[i] + 1);
        if (i != 1) /* a set item is also a change */
            expect_refused(&v, bad, LEN);
    }
}

static void policies_in_a_payload(void **unused)
{
    (void)unused;
    static const struct {
        const uint8_t *bytes;
        size_t len;
    } rows[] = {
        /* "gcra  1/s" is no canonical text; 1/x is none at all; "a b" is no name; two states under
         * one policy. */
        {BYTES(WHOLE_1 "\x00\x00\x00\x00\x00\x11\x00\x01\x00\x00\x00"
                       "gcra  1/s burst 5" WORD("\x01"))},
        {BYTES(WHOLE_1 "\x00\x00\x00\x00\x00\x08\x00\x01\x00\x00\x00"
                       "gcra 1/x" WORD("\x01"))},
        {BYTES(WHOLE_1 "\x00\x00\x00\x00\x03\x10\x00\x01\x00\x00\x00"
                       "a b" GCRA WORD("\x01"))},
        {BYTES("\x01\x00\x02\x00" GCRA_SET WORD(
            "\x01") "\x00\x01\x00\x00\x00\x10\x00\x01\x00\x00\x00" GCRA WORD("\x01"))},
    };
    weir_value v = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_refused(&v, rows[i].bytes, rows[i].len);
}

/* Changes of a value that has one inline state: it cannot be patched, and only index 0 is there. */
static void changes_of_an_inline_state(void **unused)
{
    (void)unused;
    static const struct {
        const uint8_t *bytes;
        size_t len;
    } rows[] = {
        {BYTES(CHANGE_1 "\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00" WORD("\x01"))}, /* patch */
        {BYTES(CHANGE_1 "\x02\x01\x00")},                    /* no state 1 to drop */
        {BYTES(CHANGE_1 "\x03\x00\x00")},                    /* an unknown item */
        {BYTES("\x01\x01\x02\x00\x02\x00\x00\x02\x00\x00")}, /* dropped twice */
        {BYTES("\x01\x00\x01\x00\x02\x00\x00")},             /* a drop in a whole value */
        {BYTES("\x01\x01\x00\x00")},                         /* no item */
    };
    weir_value v = value_of(GCRA, 7);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_refused(&v, rows[i].bytes, rows[i].len);
    static const uint8_t drop[] = CHANGE_1 "\x02\x00\x00";
    assert_int_equal(weir_deserialise(drop, sizeof drop - 1, &v), WEIR_OK);
    assert_true(v == 0);
}

/* A patch of a state on the heap is applied as a whole or not at all. */
static void patches(void **unused)
{
    (void)unused;
    weir_value v = value_of(LOG, 0);
    weir_heap_state *e = weir_value_heap_state(v, 0);
    assert_non_null(e);
    static const uint8_t beyond[] =
        CHANGE_1 "\x01\x00\x00"
                 "\x02\x00\x00\x00"
                 "\x00\x00\x00\x00" WORD("\x05") "\xff\x00\x00\x00" WORD("\x05");
    static const uint8_t unsound[] = CHANGE_1 "\x01\x00\x00"
                                              "\x01\x00\x00\x00"
                                              "\x00\x00\x00\x00"
                                              "\xff\xff\xff\xff\xff\xff\xff\xff";
    expect_refused(&v, beyond, sizeof beyond - 1);
    expect_refused(&v, unsound, sizeof unsound - 1);
    static const uint8_t none[] = CHANGE_1 "\x01\x00\x00"
                                           "\x00\x00\x00\x00";
    e->epoch = 3;
    assert_int_equal(weir_deserialise(none, sizeof none - 1, &v), WEIR_OK);
    assert_true(weir_value_heap_state(v, 0) == e); /* in place */
    assert_int_equal(e->epoch, WEIR_EPOCH_UNKNOWN);
    weir_value_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_whole_value),
                                       cmocka_unit_test(a_named_value),
                                       cmocka_unit_test(changes),
                                       cmocka_unit_test(damaged_values),
                                       cmocka_unit_test(policies_in_a_payload),
                                       cmocka_unit_test(changes_of_an_inline_state),
                                       cmocka_unit_test(patches)};
    return cmocka_run_group_tests_name("serialise", tests, open_server, close_server);
}
