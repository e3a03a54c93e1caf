/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sessions of SPOP, from bytes to bytes: the frames of a real HAProxy, every error of the protocol,
 * and the variables of each decision. */

#include "codec/answer/fields.h"
#include "codec/spop/session_kit_test.h"

/* ---- handshake ------------------------------------------------------------------------------- */

/* To the byte, as recorded with HAProxy 2.6.12. */
static void check_recorded(void **state)
{
    fixture *f = *state;
    static const char hello[] = "\0\0\0\x40\x65\0\0\0\x01\0\0\x07version\x08\x03"
                                "2.0\x0Emax-frame-size\x03\xFC\xF0\x06\x0C"
                                "capabilities\x08\x0Apipelining";
    static const char ack[] =
        "\0\0\0\x87\x67\0\0\0\x01\0\x01\x01\x03\x02\x07"
        "allowed\x11\x01\x03\x02\x0Bretry_after\x04\0\x01\x03\x02\x05reset\x04\x01\x01\x03\x02\x09"
        "remaining\x04\x04\x01\x03\x02\x05limit\x04\x05\x01\x03\x02\x06policy\x08\x03"
        "api\x01\x03\x02\x06reason\x08\x05limit\x01\x03\x02\x05"
        "delay\x04\0\x01\x03\x02\x04next\x04\0\x02\x02\x02\x05"
        "error";
    static const char bye[] = "\0\0\0\x25\x66\0\0\0\x01\0\0\x0Bstatus-code\x03\0\x07message\x08"
                              "\x06normal";
    send_bytes(f, BYTES(HELLO));
    assert_int_equal(f->last, WEIR_SESSION_READ);
    assert_int_equal(weir_buffer_len(&f->output), sizeof hello - 1);
    assert_memory_equal(weir_buffer_data(&f->output), hello, sizeof hello - 1);
    weir_buffer_clear(&f->output);
    send_bytes(f, BYTES(NOTIFY));
    assert_int_equal(f->last, WEIR_SESSION_READ);
    assert_int_equal(weir_buffer_len(&f->output), sizeof ack - 1);
    assert_memory_equal(weir_buffer_data(&f->output), ack, sizeof ack - 1);
    weir_buffer_clear(&f->output);
    send_bytes(f, BYTES(DISCONNECT));
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    assert_int_equal(weir_buffer_len(&f->output), sizeof bye - 1);
    assert_memory_equal(weir_buffer_data(&f->output), bye, sizeof bye - 1);
    assert_int_equal(step(f, OUT_PAUSE), WEIR_SESSION_CLOSE);
}

static void check_healthcheck(void **state)
{
    fixture *f = *state;
    send_bytes(f, BYTES(HEALTHCHECK NOTIFY));
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    expect(f, "101 1 0.0 version='2.0' max-frame-size=16380 capabilities=''");
    expect(f, "");
}

/* A HELLO frame with these items; NULL: it is absent.
 *  size  0: it is absent. */
static void add_hello(weir_buffer *b, const char *versions, unsigned size, const char *capabilities)
{
    size_t at = begin_frame(b, WEIR_SPOP_HAPROXY_HELLO, WEIR_SPOP_FIN, 0, 0);
    if (versions)
        add_text(b, "supported-versions", versions);
    if (size > 0) {
        uint8_t bytes[16];
        weir_spop_writer w = {.at = bytes, .end = bytes + sizeof bytes};
        weir_spop_put_uint32(&w, size);
        add_string(b, "max-frame-size");
        weir_buffer_append(b, bytes, (size_t)(w.at - bytes));
    }
    if (capabilities)
        add_text(b, "capabilities", capabilities);
    end_frame(b, at);
}

static void check_hellos(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *versions, *capabilities;
        unsigned size;
        const char *answer;
    } cases[] = {
        {"2.0", "pipelining", 16384,
         "101 1 0.0 version='2.0' max-frame-size=16384 capabilities='pipelining'"},
        {" 1.5 , 2.3 ", " async , pipelining ", 65532,
         "101 1 0.0 version='2.0' max-frame-size=16384 capabilities='pipelining'"},
        {"3.0,2.0", "", 256, "101 1 0.0 version='2.0' max-frame-size=256 capabilities=''"},
        {"2.0", "async,fragmentation", 257,
         "101 1 0.0 version='2.0' max-frame-size=257 capabilities=''"},
        {"1.0", "", 1000, DISCONNECTED("8", "unsupported version, expected 2.0")},
        {"", "", 1000, DISCONNECTED("8", "unsupported version, expected 2.0")},
        {"2", "", 1000, DISCONNECTED("8", "unsupported version, expected 2.0")},
        {"2.x,12.0", "", 1000, DISCONNECTED("8", "unsupported version, expected 2.0")},
        {NULL, "", 1000, DISCONNECTED("5", "version value not found")},
        {"2.0", "", 0, DISCONNECTED("6", "max-frame-size value not found")},
        {"2.0", "", 255, DISCONNECTED("9", "max-frame-size too big or too small")},
        {"2.0", NULL, 1000, DISCONNECTED("7", "capabilities value not found")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        add_hello(&f->in, cases[i].versions, cases[i].size, cases[i].capabilities);
        step(f, OUT_PAUSE);
        expect(f, cases[i].answer);
        expect(f, "");
        assert_int_equal(f->last,
                         cases[i].answer[2] == '1' ? WEIR_SESSION_READ : WEIR_SESSION_CLOSE);
        weir_spop_session_close(&f->session);
        open_session(f);
        weir_buffer_clear(&f->in);
    }
    assert_true(port_load_relaxed(&weir_spop_loop_counts(f->options.loop)->refused) == 8);
}

/* ---- errors of the protocol ------------------------------------------------------------------ */

/* Sends a frame, and expects that the session ends with this status. */
static void refuse(fixture *f, bool greeted, const char *frame, size_t len, const char *answer)
{
    if (greeted)
        greet(f);
    send_bytes(f, frame, len);
    expect(f, answer);
    expect(f, "");
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
    weir_spop_session_close(&f->session);
    open_session(f);
    weir_buffer_clear(&f->in);
}

static void check_protocol_errors(void **state)
{
    fixture *f = *state;
    static const char invalid[] = DISCONNECTED("4", "invalid frame received"),
                      fragment[] = DISCONNECTED("10", "fragmentation not supported"),
                      big[] = DISCONNECTED("3", "frame is too big");
    refuse(f, false, BYTES(NOTIFY), invalid);
    refuse(f, false, BYTES("\0\0\0\x07\x63\0\0\0\x01\0\0"), invalid); /* no HELLO yet */
    refuse(f, false, BYTES("\0\0\x40\x01"), big);
    refuse(f, false, BYTES("GET / HTTP/1.1\r\n\r\n"), big);
    refuse(f, false, BYTES(DISCONNECT), DISCONNECTED("0", "normal"));
    refuse(f, false, BYTES("\0\0\0\x07\x01\0\0\0\x01\x01\0"), invalid); /* HELLO of a stream */
    refuse(f, false, BYTES("\0\0\0\x07\x01\0\0\0\0\0\0"), fragment);
    refuse(f, false, BYTES("\0\0\0\x08\x01\0\0\0\x01\0\0\x05"), invalid);
    refuse(f, true, BYTES(HELLO), invalid);
    refuse(f, true, BYTES("\0\0\x3F\xFD"), big); /* 16381, and 16380 was agreed */
    refuse(f, true, BYTES("\0\0\0\0"), invalid);
    refuse(f, true, BYTES("\0\0\0\x06\x03\0\0\0\x01\0"), invalid);
    refuse(f, true, BYTES("\0\0\0\x07\x03\0\0\0\0\x01\x01"), fragment);
    refuse(f, true, BYTES("\0\0\0\x07\0\0\0\0\x01\x01\x01"), fragment);
    refuse(f, true, BYTES("\0\0\0\x09\x03\0\0\0\x01\x01\x01\x01x"), invalid);     /* no arguments */
    refuse(f, true, BYTES("\0\0\0\x0A\x03\0\0\0\x01\x01\x01\x01x\x01"), invalid); /* of 1 */
    refuse(f, true, BYTES("\0\0\0\x0D\x03\0\0\0\x01\x01\x01\x01x\x01\x01y\x0F"), invalid);
}

/* A payload that ends early is invalid, except where a message ends. */
static void check_truncated(void **state)
{
    fixture *f = *state;
    static const char frame[] = NOTIFY;
    int whole = 0;
    for (size_t len = 12; len < sizeof frame - 2; len++) {
        char cut[sizeof frame];
        memcpy(cut, frame, len);
        cut[3] = (char)(len - 4);
        greet(f);
        send_bytes(f, cut, len);
        if (f->last == WEIR_SESSION_READ)
            whole++;
        else
            expect(f, DISCONNECTED("4", "invalid frame received"));
        assert_int_equal(weir_buffer_len(&f->in), 0);
        weir_spop_session_close(&f->session);
        open_session(f);
        weir_buffer_clear(&f->output);
    }
    assert_int_equal(whole, 2); /* after the first and after the second message */
}

/* Frames of unknown types, and those that only agents send, are skipped. */
static void check_unknown_frames(void **state)
{
    fixture *f = *state;
    greet(f);
    send_bytes(f, BYTES("\0\0\0\x0A\x63\0\0\0\x01\0\0xyz\0\0\0\x07\x67\0\0\0\x01\x01\x01"));
    add_notify(&f->in, 3, "plain", "a", "");
    step(f, OUT_PAUSE);
    assert_int_equal(f->last, WEIR_SESSION_READ);
    assert_memory_equal(take_frame(f), "103 1 3.1 allowed=1", 19);
    expect(f, "");
}

/* Replies come before the DISCONNECT of a later frame. */
static void check_order(void **state)
{
    fixture *f = *state;
    greet(f);
    add_notify(&f->in, 3, "plain", "a", "");
    weir_buffer_append(&f->in, BYTES("\0\0\0\0"));
    step(f, OUT_PAUSE);
    assert_memory_equal(take_frame(f), "103 1 3.1 allowed=1", 19);
    expect(f, DISCONNECTED("4", "invalid frame received"));
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
}

/* ---- decisions ------------------------------------------------------------------------------- */

static void check_decisions(void **state)
{
    fixture *f = *state;
    greet(f);
    ask(f, "costly", "a", "4", ALLOWED("0", "4", "1", "5", "api", "limit", "0", "0"));
    ask(f, "costly", "a", "0", ALLOWED("0", "4", "1", "5", "api", "limit", "0", "0"));
    ask(f, "costly", "a", "3", DENIED("2", "4", "1", "5", "api", "0"));
    ask(f, "costly", "a", "6", NEVER("1", "5", "api", "limit", " next=0"));
    ask(f, "fixed", "b", "9", ALLOWED("0", "2", "3", "5", "api", "limit", "0", "0"));
    ask(f, "plain", "b", "9", ALLOWED("0", "3", "2", "5", "api", "limit", "0", "0"));
    ask(f, "kept", "c", "", ALLOWED("0", "1", "1", "5", "api", "limit", "0", "0"));
    ask(f, "kept", "c", "", ALLOWED("0", "2", "0", "5", "api", "limit", "0", "1"));
    ask(f, "kept", "c", "", DENIED("1", "2", "0", "5", "api", "1"));
    ask(f, "plain", "c", "", ALLOWED("0", "3", "2", "5", "api", "limit", "0", "0"));
    ask(f, "plain", "evil", "", NEVER("0", "5", "api", "deny-list", " -next"));
    ask(f, "plain", "root", "", ALLOWED("0", "0", "5", "5", "api", "allow-list", "0", "0"));
    ask(f, "shadow", "a", "", ALLOWED("0", "60", "0", "1", "shadow", "limit", "0", "60"));
    ask(f, "shadow", "a", "", ALLOWED("0", "60", "0", "1", "shadow", "shadow", "0", "60"));
    ask(f, "queue", "a", "", ALLOWED("0", "1", "2", "3", "queue", "limit", "0", "0"));
    ask(f, "queue", "a", "", ALLOWED("0", "1", "1", "3", "queue", "limit", "100", "0"));
    ask(f, "other", "a", "", "");
}

/* A denied right is neither allowed nor denied. */
static void check_rights(void **state)
{
    static const char *const policies[] = {"api"}, *const keys[] = {"user:*", "10.0.0.0/8"};
    weir_user_spec spec = {
        .name = "haproxy", .policies = {policies, 1}, .keys = {keys, 2}, .may = WEIR_MAY_TAKE};
    static const char allowed[] = ALLOWED("0", "1", "4", "5", "api", "limit", "0", "0");
    fixture *f = *state;
    greet(f);
    users_kit_set_password(&f->users, "secret"); /* a password alone is none for SPOP */
    ask(f, "plain", "user:0", "", allowed);
    assert_int_equal(f->users.denied, 0);
    f->users.bound_to = "haproxy";
    users_kit_set(&f->users, &spec, 1, false);
    ask(f, "plain", "user:1", "", allowed);
    ask(f, "narrow", "user:1", "", FAILED("the user may not use the policy"));
    ask(f, "plain", "bob", "", FAILED("the user may not use the key"));
    assert_int_equal(f->users.denied, 2);
    size_t at = begin(f); /* one message of two is denied */
    add_plain(f, "plain", "user:2");
    add_plain(f, "plain", "bob");
    end_frame(&f->in, at);
    step(f, OUT_PAUSE);
    const char *frame = take_frame(f);
    assert_non_null(strstr(frame, " -allowed error='the user may not use the key'"));
    spec.may = WEIR_MAY_PEEK;
    users_kit_set(&f->users, &spec, 1, false);
    ask(f, "plain", "user:3", "", FAILED("the user lacks the right \"take\""));
    f->users.bound_to = NULL;
    users_kit_set(&f->users, &spec, 1, false);
    ask(f, "plain", "user:3", "",
        FAILED("the client is not logged in: give the address of listen.spoe a user"));
    users_kit_set(&f->users, NULL, 0, false);
    ask(f, "plain", "user:3", "", allowed);
}

static void check_failures(void **state)
{
    fixture *f = *state;
    static const char cost[] = REFUSED("the cost is not a number from 0 to 2147483647");
    weir_buffer *in = &f->in;
    greet(f);
    ask(f, "costly", "a", "", cost);
    ask(f, "costly", "a", "-1", cost);
    ask(f, "costly", "a", "1.5", cost);
    ask(f, "costly", "a", "2147483648", cost);
    ask(f, "costly", "a", "000000000000000000000000000001", cost);
    ask(f, "plain", "", "", REFUSED("the key is empty or too long"));
    ask(f, "check-client", "a", "1", REFUSED("the key is empty or too long")); /* no argument src */
    ask(f, "named", "a", "", REFUSED("the name of the policy is empty or too long"));
    size_t at = begin_frame(in, WEIR_SPOP_NOTIFY, WEIR_SPOP_FIN, 9, 1);
    add_message(in, "named", 2);
    add_text(in, "policy", "nobody");
    add_text(in, "key", "a");
    end_frame(in, at);
    step(f, OUT_PAUSE);
    expect(f, "103 1 9.1" FAILED("unknown policy \"nobody\""));
    at = begin_frame(in, WEIR_SPOP_NOTIFY, WEIR_SPOP_FIN, 9, 1);
    add_message(in, "named", 2);
    add_text(in, "policy", "a\r\nX: \x7F\xC3\xA9");
    add_text(in, "key", "a");
    end_frame(in, at);
    step(f, OUT_PAUSE);
    expect(f, "103 1 9.1" FAILED("unknown policy \"a  X:  \xC3\xA9\""));
    char unknown[WEIR_SPOP_NAME_MAX + 1];
    assert_int_equal(weir_spop_take_unknown(f->spop, WEIR_SPOP_POLICY, unknown), 2);
    assert_string_equal(unknown, "nobody");
    assert_int_equal(weir_spop_take_unknown(f->spop, WEIR_SPOP_POLICY, unknown), 0);
    assert_int_equal(weir_spop_take_unknown(f->spop, WEIR_SPOP_MESSAGE, unknown), 0);
    at = begin_frame(in, WEIR_SPOP_NOTIFY, WEIR_SPOP_FIN, 9, 1);
    add_message(in, "plain", 0); /* neither key nor src */
    end_frame(in, at);
    step(f, OUT_PAUSE);
    expect(f, "103 1 9.1" REFUSED("the key is empty or too long"));
    at = begin_frame(in, WEIR_SPOP_NOTIFY, WEIR_SPOP_FIN, 9, 1);
    add_message(in, "plain", 65);
    for (int i = 0; i < 65; i++)
        add_text(in, i < 64 ? "key" : "", "a");
    end_frame(in, at);
    step(f, OUT_PAUSE);
    expect(f, "103 1 9.1" REFUSED("a message has more than 64 arguments"));
    const weir_spop_counts *counts = weir_spop_loop_counts(f->options.loop);
    assert_true(port_load_relaxed(&counts->errors) == 12);
    assert_true(port_load_relaxed(&counts->notifies) == 12);
}

/* Adds a message with an IPv6 address as `src`: 2001:db8:: and a last byte. */
static void add_ipv6(fixture *f, const char *message, uint8_t network)
{
    const uint8_t address[] = {
        WEIR_SPOP_IPV6, 0x20, 1, 0x0D, 0xB8, 0, 0, 0, network, 0, 0, 0, 0, 0, 0, 0, 1};
    add_message(&f->in, message, 1);
    add_string(&f->in, "src");
    weir_buffer_append(&f->in, address, sizeof address);
}

/* Addresses are texts of the batch: those of different frames are different keys. Without a key
 * template and with one, an address counts as its /64. */
static void check_addresses(void **state)
{
    fixture *f = *state;
    enum { NETWORKS = 3, FRAMES = 4 * NETWORKS };
    greet(f);
    for (unsigned i = 0; i < FRAMES; i++) {
        size_t at = begin_frame(&f->in, WEIR_SPOP_NOTIFY, WEIR_SPOP_FIN, i, 1);
        add_ipv6(f, i % 4 == 3 ? "whole" : "plain", (uint8_t)(1 + i % NETWORKS));
        end_frame(&f->in, at);
    }
    step(f, OUT_PAUSE);
    for (unsigned i = 0; i < FRAMES; i++) {
        char remaining[32];
        snprintf(remaining, sizeof remaining, " remaining=%u ", 4 - i / NETWORKS);
        assert_non_null(strstr(take_frame(f), remaining));
    }
    size_t at = begin(f); /* an address in the same network is the same key */
    add_ipv6(f, "plain", 1);
    weir_buffer_data(&f->in)[weir_buffer_len(&f->in) - 1] = 2;
    end_frame(&f->in, at);
    step(f, OUT_PAUSE);
    assert_non_null(strstr(take_frame(f), " remaining=0 "));
}

/* The keys of a frame have 128 KiB together, whatever frames are in its batch. */
static void check_long_keys(void **state)
{
    fixture *f = *state;
    char text[2201]; /* a key of more than 52 KB, since % is escaped */
    memset(text, '%', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    greet(f);
    for (int keys = 2; keys <= 3; keys++) {
        add_notify(&f->in, 8, "long", text, "");
        size_t at = begin(f);
        for (int i = 0; i < keys; i++)
            add_plain(f, "long", text);
        end_frame(&f->in, at);
        step(f, OUT_PAUSE);
        assert_memory_equal(take_frame(f), "103 1 8.1 allowed=1", 19);
        if (keys == 2)
            assert_memory_equal(take_frame(f), "103 1 9.1 allowed=1", 19);
    }
    expect(f, "103 1 9.1" REFUSED("the keys of a frame exceed 128 KiB together"));
    size_t at = begin(f);
    add_plain(f, "long", text);
    add_plain(f, "long", text);
    add_plain(f, "long", "");
    finish(f, at, REFUSED("the key is empty or too long"));
    assert_int_equal(weir_buffer_len(&f->output), 0);
}

/* The keys of a frame fill its 128 KiB to the byte, and then there is no room for more. */
static void check_full_frame(void **state)
{
    fixture *f = *state;
    enum { LONG = 8 * 6600 + 7, PARTS = 3, LEFT = 2 * WEIR_KEY_MAX - 2 * LONG };
    static const uint8_t address[] = {3, 's', 'r', 'c', WEIR_SPOP_IPV4, 198, 51, 100, 7};
    static const struct {
        size_t free;         /* bytes */
        const char *message; /* after those that leave them free; its src is 198.51.100.7, or "x" */
        bool fits;
    } rows[] = {{12, "plain", true},  {11, "plain", false}, {0, "plain", false},
                {12, "whole", true},  {11, "whole", false}, {1, "whole x", true},
                {0, "whole x", false}};
    char text[2201], half[2201];
    memset(text, '%', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    greet(f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t left = LEFT - rows[i].free, at = begin(f);
        add_plain(f, "long", text);
        add_plain(f, "long", text);
        for (size_t part = PARTS; part > 0; part--) {
            size_t len = left / part - 6601; /* of the second half, where '%' has three bytes */
            memset(half, '%', len / 3);
            memset(half + len / 3, 'x', len % 3);
            half[len / 3 + len % 3] = '\0';
            left -= 6601 + len;
            add_message(&f->in, "check-all", 2);
            add_text(&f->in, "src", text);
            add_text(&f->in, "path", half);
        }
        bool is_text = strchr(rows[i].message, ' ');
        add_message(&f->in, is_text ? "whole" : rows[i].message, 1);
        if (is_text)
            add_text(&f->in, "src", "x");
        else
            weir_buffer_append(&f->in, address, sizeof address);
        end_frame(&f->in, at);
        step(f, OUT_PAUSE);
        const char *answer = take_frame(f);
        if (rows[i].fits)
            assert_null(strstr(answer, "error='"));
        else
            assert_non_null(strstr(answer, "error='the keys of a frame exceed 128 KiB together'"));
    }
}

/* Each message of a frame is decided. A denial wins over an allowance and over an error; an error
 * wins over an allowance. */
static void check_several_messages(void **state)
{
    fixture *f = *state;
    greet(f);
    size_t at = begin(f);
    add_plain(f, "plain", "a"); /* 4 left */
    add_plain(f, "narrow", "a");
    add_plain(f, "other", "a");
    finish(f, at, ALLOWED("0", "60", "1", "2", "narrow", "limit", "0", "0"));
    at = begin(f);
    add_plain(f, "narrow", "a"); /* 0 left */
    add_plain(f, "plain", "a");
    add_plain(f, "queue", "a");
    add_plain(f, "queue", "a");
    finish(f, at, ALLOWED("0", "60", "0", "2", "narrow", "limit", "100", "60"));
    at = begin(f);
    add_plain(f, "narrow", "a");
    add_plain(f, "plain", "a"); /* charged nevertheless: 2 left */
    add_plain(f, "plain", "");
    finish(f, at, DENIED("60", "60", "0", "2", "narrow", "60"));
    at = begin(f);
    add_plain(f, "narrow", "a");
    add_plain(f, "plain", "evil");
    finish(f, at, NEVER("0", "5", "api", "deny-list", " -next"));
    at = begin(f);
    add_plain(f, "plain", "a"); /* 1 left */
    add_plain(f, "plain", "");
    finish(f, at, REFUSED("the key is empty or too long"));
    at = begin(f);
    add_plain(f, "shadow", "s");
    add_plain(f, "plain", "root");
    add_plain(f, "shadow", "s"); /* in shadow: it does not represent the frame */
    finish(f, at, ALLOWED("0", "60", "0", "1", "shadow", "limit", "0", "60"));
    ask(f, "costly", "a", "0", ALLOWED("0", "4", "1", "5", "api", "limit", "0", "0"));
    at = begin(f);
    finish(f, at, "");
}

static void check_too_many_messages(void **state)
{
    fixture *f = *state;
    greet(f);
    size_t at = begin(f);
    for (int i = 0; i < WEIR_SPOP_DECIDED_MAX + 1; i++)
        add_plain(f, "narrow", "a");
    finish(f, at, DENIED("60", "60", "0", "2", "narrow", "60"));
    at = begin(f);
    for (int i = 0; i < WEIR_SPOP_DECIDED_MAX + 1; i++)
        add_plain(f, "plain", "root");
    finish(f, at, FAILED("a frame has more than 16 messages with a policy"));
}

static void check_aborted(void **state)
{
    fixture *f = *state;
    greet(f);
    size_t at = begin_frame(&f->in, WEIR_SPOP_NOTIFY, WEIR_SPOP_FIN | WEIR_SPOP_ABORT, 9, 1);
    add_plain(f, "plain", "a");
    end_frame(&f->in, at);
    step(f, OUT_PAUSE);
    expect(f, "103 3 9.1");
    ask(f, "costly", "a", "0", ALLOWED("0", "0", "5", "5", "api", "limit", "0", "0"));
}

/* The policy's own header fields. */
#define TOKENS                                                                                     \
    " x_ratelimit_limit_tokens='1' x_ratelimit_remaining_tokens='0'"                               \
    " x_ratelimit_reset_tokens='1m0s'"

/* An address counts as the policy's network, in a key of several parts too. */
static void check_networks(void **state)
{
    fixture *f = *state;
    greet(f);
    for (int i = 0; i < 3; i++) {
        size_t at = begin(f);
        add_message(&f->in, "network", 2);
        weir_buffer_append(&f->in, BYTES("\x03src\x06\x0A\x01\x02"));
        weir_buffer_append_byte(&f->in, (uint8_t)i);
        add_text(&f->in, "path", i < 2 ? "/a" : "/b");
        finish(f, at,
               i == 1 ? DENIED("60", "60", "0", "1", "network", "60") TOKENS
                      : ALLOWED("0", "60", "0", "1", "network", "limit", "0", "60") TOKENS);
    }
}

/* A message that lacks an argument which its template names is decided, and kept for the log. */
static void check_missing_argument(void **state)
{
    fixture *f = *state;
    weir_spop_fault fault;
    greet(f);
    for (int i = 0; i < 2; i++) {
        size_t at = begin(f);
        add_message(&f->in, i == 0 ? "plain" : "network", 1); /* `plain` needs key or src */
        add_text(&f->in, "src", "x");
        end_frame(&f->in, at);
        step(f, OUT_PAUSE);
        assert_non_null(strstr(take_frame(f), " allowed=1"));
        assert_int_equal(weir_spop_take_fault(f->spop, &fault), i);
    }
    assert_null(fault.error);
    assert_string_equal(fault.message, "network");
    assert_string_equal(fault.argument, "path");
    ask(f, "costly", "a", "", REFUSED("the cost is not a number from 0 to 2147483647"));
    assert_int_equal(weir_spop_take_fault(f->spop, &fault), 1);
    assert_string_equal(fault.error, "the cost is not a number from 0 to 2147483647");
}

/* Patterns of addresses match the client in a key of several parts. */
static void check_clients(void **state)
{
    fixture *f = *state;
    greet(f);
    for (int i = 0; i < 2; i++) {
        size_t at = begin(f);
        add_message(&f->in, "network", 2);
        weir_buffer_append(&f->in, BYTES("\x03src\x06\x0A"));
        weir_buffer_append_byte(&f->in, i == 0 ? 9 : 8);
        weir_buffer_append(&f->in, BYTES("\x02\x03"));
        add_text(&f->in, "path", "/a");
        end_frame(&f->in, at);
        step(f, OUT_PAUSE);
        assert_int_equal(strstr(take_frame(f), "deny-list") != NULL, i == 0);
    }
}

/* With the smallest frames, all variables of the longest names fit. */
static void check_small_frames(void **state)
{
    fixture *f = *state;
    weir_spop_session_close(&f->session);
    open_session(f);
    add_hello(&f->in, "2.0", WEIR_SPOP_FRAME_MIN, "");
    step(f, OUT_PAUSE);
    weir_buffer_clear(&f->output);
    char name[WEIR_RULE_NAME_MAX + 1];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(
        weir_limiter_set_limit(f->limiter, name, "fixed-window 1000000000/10000d", NULL), WEIR_OK);
    size_t at = begin_frame(&f->in, WEIR_SPOP_NOTIFY, WEIR_SPOP_FIN, 9, 1);
    add_message(&f->in, "named", 2);
    add_text(&f->in, "policy", name);
    add_text(&f->in, "key", "a");
    end_frame(&f->in, at);
    step(f, OUT_PAUSE);
    const char *answer = take_frame(f);
    assert_non_null(strstr(answer, " remaining=999999999 limit=1000000000 policy='nnnn"));
    assert_non_null(strstr(answer, " delay=0 next=0 -error"));
    f->answer.headers = 0;
    add_notify(&f->in, 9, "narrow", "a", "");
    step(f, OUT_PAUSE);
    answer = take_frame(f); /* the fields that fit */
    assert_non_null(strstr(answer, " ratelimit_policy='"));
    assert_null(strstr(answer, " x_ratelimit_reset='"));
}

/* The longest answers that the smallest frame may have: `allowed` is always in them. */
static void check_longest_answers(void **state)
{
    fixture *f = *state;
    char name[WEIR_RULE_NAME_MAX + 1], error[200], expected[400];
    memset(name, 'n', sizeof name - 1);
    memset(error, 'e', sizeof error - 1);
    name[sizeof name - 1] = error[sizeof error - 1] = '\0';
    weir_request r = {.rule = {name, sizeof name - 1}, .reason = WEIR_BY_DENY_LIST};
    r.decision = (weir_decision){.limit = WEIR_COST_MAX,
                                 .remaining = WEIR_COST_MAX,
                                 .retry_after_ns = INT64_MAX,
                                 .reset_after_ns = INT64_MAX};
    weir_spop_answer a = {.stream_id = UINT64_MAX,
                          .frame_id = UINT64_MAX,
                          .requests = &r,
                          .len = 1,
                          .answer = {.headers = WEIR_HEADERS_NONE},
                          .variables = WEIR_SPOP_ALL_VARIABLES};
    f->session.frame_max = WEIR_SPOP_FRAME_MIN;
    assert_true(weir_spop_put_answer(&f->output, WEIR_SPOP_FRAME_MIN, &a, NOW_NS));
    snprintf(expected, sizeof expected, " policy='%s' reason='deny-list' delay=0 next=0 -error",
             name);
    const char *answer = take_frame(f);
    assert_non_null(strstr(answer, ".4294967295 allowed=0 retry_after=9223372037 reset="));
    assert_non_null(strstr(answer, expected));
    a.error = error;
    a.refused = true;
    r.decision.allowed = true;
    assert_false(weir_spop_put_answer(&f->output, WEIR_SPOP_FRAME_MIN, &a, NOW_NS));
    answer = take_frame(f);
    assert_non_null(strstr(answer, ".4294967295 allowed=0 error='eeee"));
    assert_non_null(strstr(answer, "eeee' -retry_after -reset -remaining -limit -policy -reason -de"
                                   "lay"));
}

static weir_policy one_layer(void)
{
    weir_policy p;
    weir_policy_error e;
    assert_int_equal(weir_policy_parse(&p, "gcra 5/s", 8, NULL, &e), WEIR_OK);
    return p;
}

static void answer_is(fixture *f, const weir_spop_answer *a, const char *expected)
{
    char frame[256];
    (void)weir_spop_put_answer(&f->output, WEIR_SPOP_FRAME_MAX, a, NOW_NS);
    snprintf(frame, sizeof frame, "103 1 1.1 %s", expected);
    expect(f, frame);
}

/* Only the variables that are asked for are set or unset, and `allowed`. */
static void check_variables(void **state)
{
    fixture *f = *state;
    const weir_policy p = one_layer();
    weir_request r = {.rule = {"api", 3}, .status = WEIR_OK, .policy = &p};
    weir_spop_answer a = {.stream_id = 1,
                          .frame_id = 1,
                          .requests = &r,
                          .len = 1,
                          .answer = {.headers = WEIR_HEADERS_X_RATELIMIT}};
    r.decision = (weir_decision){.allowed = true, .limit = 5, .remaining = 4};
    static const struct {
        const char *names, *allowed, *never, *refused;
    } rows[] = {
        {"", "allowed=1", "allowed=0", "allowed=0"},
        {"allowed", "allowed=1", "allowed=0", "allowed=0"},
        {"retry_after error", "allowed=1 retry_after=0 -error", "allowed=0 -retry_after -error",
         "allowed=0 error='bad' -retry_after"},
        {"limit policy reason", "allowed=1 limit=5 policy='api' reason='limit'",
         "allowed=0 limit=5 policy='api' reason='limit'", "allowed=0 -limit -policy -reason"},
        {"remaining delay reset", "allowed=1 reset=0 remaining=4 delay=0",
         "allowed=0 -reset remaining=4 delay=0", "allowed=0 -reset -remaining -delay"},
        {"next", "allowed=1 next=0", "allowed=0 next=0", "allowed=0 -next"},
        {"x_ratelimit_remaining", "allowed=1 x_ratelimit_remaining='4'",
         "allowed=0 x_ratelimit_remaining='4'", "allowed=0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char names[64];
        snprintf(names, sizeof names, "%s", rows[i].names);
        a.variables = 0;
        for (char *rest, *name = strtok_r(names, " ", &rest); name;
             name = strtok_r(NULL, " ", &rest)) {
            assert_int_not_equal(weir_spop_variable(name, strlen(name)), 0);
            a.variables |= weir_spop_variable(name, strlen(name));
        }
        answer_is(f, &a, rows[i].allowed);
        r.decision.allowed = false;
        r.decision.never = true;
        answer_is(f, &a, rows[i].never);
        r.decision.allowed = true;
        r.decision.never = false;
        a.error = "bad";
        a.refused = true;
        answer_is(f, &a, rows[i].refused);
        a.error = NULL;
        a.refused = false;
    }
}

/* Every header field but Retry-After has a variable, whose name is in the table. */
static void check_variable_names(void **unused)
{
    (void)unused;
    const weir_policy p = one_layer();
    const weir_decision d = {.limit = 5};
    const weir_answered all[] = {
        {.policy = &p, .decision = &d, .unit = WEIR_UNIT_REQUESTS, .resets = true},
        {.policy = &p, .decision = &d, .unit = WEIR_UNIT_TOKENS, .resets = true}};
    weir_answer_field fields[WEIR_ANSWER_FIELDS_MAX];
    char values[WEIR_ANSWER_ROOM];
    size_t names = 0;
    for (; weir_spop_variable_name(names); names++) {
        const char *name = weir_spop_variable_name(names);
        assert_int_equal(weir_spop_variable(name, strlen(name)), UINT32_C(1) << names);
    }
    assert_int_equal(weir_spop_variable("none", 4), 0);
    assert_int_equal(weir_spop_variable("", 0), 0);
    size_t n = weir_answer_fields(WEIR_HEADERS_IETF | WEIR_HEADERS_IETF_03 | WEIR_HEADERS_GITHUB |
                                      WEIR_HEADERS_OPENAI,
                                  all, 2, 0, NOW_NS, fields, values);
    assert_int_equal(n, names - 10 + 1); /* 10 variables are no header fields */
    for (size_t i = 0; i + 1 < n; i++) {
        char name[64];
        size_t len = 0;
        for (; fields[i].name[len]; len++) {
            char c = fields[i].name[len];
            name[len] = c == '-' ? '_' : (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
        }
        assert_int_not_equal(weir_spop_variable(name, len), 0);
    }
    assert_string_equal(fields[n - 1].name, "Retry-After");
}

/* ---- header fields --------------------------------------------------------------------------- */

/* Asks with this set of header fields, and expects these variables after `error`. */
static void ask_fields(fixture *f, unsigned headers, const char *message, const char *expected)
{
    f->answer.headers = headers;
    add_notify(&f->in, 9, message, "f", "0");
    step(f, OUT_PAUSE);
    const char *fields = strstr(take_frame(f), " -error");
    assert_non_null(fields);
    assert_string_equal(fields + strlen(" -error"), expected);
}

static void check_fields(void **state)
{
    fixture *f = *state;
    static const char both[] =
        " ratelimit_policy='\"narrow\";q=2;w=60' ratelimit='\"narrow\";r=1;t=60'"
        " x_ratelimit_limit='2' x_ratelimit_remaining='1' x_ratelimit_reset='60'";
    greet(f);
    ask_fields(f, 0, "narrow", both);
    ask_fields(f, WEIR_HEADERS_X_RATELIMIT, "narrow",
               " x_ratelimit_limit='2' x_ratelimit_remaining='0' x_ratelimit_reset='60'");
    ask_fields(f, WEIR_HEADERS_IETF, "narrow", /* denied */
               " ratelimit_policy='\"narrow\";q=2;w=60' ratelimit='\"narrow\";r=0;t=60'");
    ask_fields(f, WEIR_HEADERS_NONE, "narrow", "");
    ask_fields(f, WEIR_HEADERS_GITHUB, "narrow",
               " x_ratelimit_limit='2' x_ratelimit_remaining='0' x_ratelimit_reset='1767225660'"
               " x_ratelimit_used='2' x_ratelimit_resource='narrow'");
    ask_fields(f, WEIR_HEADERS_OPENAI, "costly",
               " x_ratelimit_limit_requests='5' x_ratelimit_remaining_requests='5'"
               " x_ratelimit_reset_requests='0s'");
}

/* A field of several policies, whose denied one is first. */
static void check_fields_of_several(void **state)
{
    fixture *f = *state;
    greet(f);
    ask_fields(f, WEIR_HEADERS_NONE, "narrow", "");
    ask_fields(f, WEIR_HEADERS_NONE, "narrow", "");
    f->answer.headers = WEIR_HEADERS_IETF;
    size_t at = begin(f);
    add_plain(f, "plain", "f");
    add_plain(f, "other", "f");
    add_plain(f, "narrow", "f");
    add_plain(f, "named", "f"); /* fails */
    finish(f, at,
           DENIED("60", "60", "0", "2", "narrow",
                  "60") " ratelimit_policy='\"narrow\";q=2;w=60, \"api\";q=5;w=5'"
                        " ratelimit='\"narrow\";r=0;t=60, \"api\";r=4;t=1'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_recorded),          TEST(check_rights),
        TEST(check_healthcheck),       TEST(check_hellos),
        TEST(check_protocol_errors),   TEST(check_truncated),
        TEST(check_unknown_frames),    TEST(check_order),
        TEST(check_decisions),         TEST(check_failures),
        TEST(check_addresses),         TEST(check_long_keys),
        TEST(check_full_frame),        TEST(check_several_messages),
        TEST(check_too_many_messages), TEST(check_aborted),
        TEST(check_networks),          TEST(check_clients),
        TEST(check_missing_argument),  TEST(check_small_frames),
        TEST(check_longest_answers),   TEST(check_variables),
        TEST(check_variable_names),    TEST(check_fields),
        TEST(check_fields_of_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
