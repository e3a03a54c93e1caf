/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* PROXY headers of both versions: tables, and every split. */

#include "net/clients.h"

#include "net/listen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define V2           "\r\n\r\n\0\r\nQUIT\n"
#define BYTES(text)  (text), sizeof(text) - 1
#define V4_ADDRESSES "\xC6\x33\x64\x07\x0A\0\0\1\x12\x67\0\x50" /* 198.51.100.7:4711 to :80 */
#define V6_ADDRESS   "\x20\1\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\7"
#define MAPPED       "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC6\x33\x64\x07"
#define PORTS        "\x12\x67\0\x50"
#define CRC_V4       "\xE1\x62\xEA\x20"
#define ZEROS_36     "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

/* Reads a copy of exactly len bytes, so that ASan sees a read beyond the end. */
static weir_proxy_result read_copy(const char *text, size_t len, weir_proxy_header *ret,
                                   const char **ret_why)
{
    uint8_t *copy = malloc(len + 1); /* malloc(0) may return NULL */
    assert_non_null(copy);
    memcpy(copy + 1, text, len);
    weir_proxy_result result = weir_proxy_header_read(copy + 1, len, ret, ret_why);
    free(copy);
    return result;
}

/* Reads a text byte by byte, followed by what a client sent. */
static weir_proxy_result read_split(const char *text, size_t len, weir_proxy_header *ret,
                                    const char **ret_why)
{
    weir_proxy_result result = WEIR_PROXY_MORE;
    size_t n = 0;
    while (result == WEIR_PROXY_MORE && n < len)
        result = read_copy(text, ++n, ret, ret_why);
    return result;
}

static void expect_header(const char *text, size_t len, const char *client)
{
    char more[WEIR_PROXY_HEADER_MAX + 8], printed[WEIR_PEER_TEXT_MAX] = "";
    weir_proxy_header h[2];
    const char *why = "";
    memcpy(more, text, len);
    memcpy(more + len, "PING\r\n", 6);
    for (int i = 0; i < 2; i++) {
        memset(&h[i], 0x55, sizeof h[i]);
        weir_proxy_result result =
            i == 0 ? read_copy(more, len + 6, &h[i], &why) : read_split(text, len, &h[i], &why);
        if (result != WEIR_PROXY_DONE)
            fail_msg("%d: %s (%s), result %d", i, text, why, (int)result);
        assert_int_equal(h[i].len, len);
        assert_int_equal(h[i].has_address, client != NULL);
        if (client)
            weir_listen_print_peer(&h[i].client, printed);
        else
            assert_memory_equal(&h[i].client, &(weir_peer_address){0}, sizeof h[i].client);
        assert_string_equal(printed, client ? client : "");
    }
}

/* Expects that the whole text is malformed, and also its bytes one by one. */
static void expect_malformed(const char *text, size_t len, const char *expected)
{
    weir_proxy_header h = {.len = 77};
    const char *why[2] = {"", ""};
    if (read_copy(text, len, &h, &why[0]) != WEIR_PROXY_MALFORMED ||
        read_split(text, len, &h, &why[1]) != WEIR_PROXY_MALFORMED)
        fail_msg("accepted: %s", text);
    assert_string_equal(why[0], expected);
    assert_string_equal(why[1], expected);
    assert_int_equal(h.len, 77);
}

static void reads_version_1(void **unused)
{
    static const struct {
        const char *text, *client;
    } good[] = {
        {"PROXY TCP4 198.51.100.7 10.0.0.1 4711 80\r\n", "198.51.100.7:4711"},
        {"PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n", "0.0.0.0:0"},
        {"PROXY TCP6 2001:db8::7 ::1 65535 1\r\n", "[2001:db8::7]:65535"},
        {"PROXY TCP6 ::ffff:198.51.100.7 ::1 4711 80\r\n", "198.51.100.7:4711"},
        {"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
         "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"},
        {"PROXY UNKNOWN\r\n", NULL},
        {"PROXY UNKNOWN 198.51.100.7 whatever\r\n", NULL},
    };
    static const char address[] = "malformed address", port[] = "malformed port";
    static const char family[] = "expected TCP4, TCP6 or UNKNOWN after PROXY";
    static const char end[] = "expected CR LF at the end of version 1";
    static const char none[] = "the connection does not begin with a PROXY header";
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"GET / HTTP/1.1\r\n", none},
        {"PROXX", none},
        {"proxy TCP4 1.1.1.1 1.1.1.1 1 1\r\n", none},
        {"PROXY\r\n", none},
        {"PROXY \r\n", family},
        {"PROXY  TCP4 1.1.1.1 1.1.1.1 1 1\r\n", family},
        {"PROXY TCP5 1.1.1.1 1.1.1.1 1 1\r\n", family},
        {"PROXY TCP 1.1.1.1 1.1.1.1 1 1\r\n", family},
        {"PROXY UNKNOWNX\r\n", family},
        {"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\n", end},
        {"PROXY UNKNOWN \n\r\n", end},
        {"PROXY TCP4\r\n", address},
        {"PROXY TCP4 1.1.1.1\r\n", address},
        {"PROXY TCP4 1.1.1 1.1.1.1 1 1\r\n", address},
        {"PROXY TCP4 01.1.1.1 1.1.1.1 1 1\r\n", address},
        {"PROXY TCP4 1.1.1.1  1.1.1.1 1 1\r\n", address},
        {"PROXY TCP4 ::1 ::1 1 1\r\n", address},
        {"PROXY TCP6 1.1.1.1 1.1.1.1 1 1\r\n", address},
        {"PROXY TCP6 ::1%lo ::1 1 1\r\n", address},
        {"PROXY TCP6 [::1] ::1 1 1\r\n", address},
        {"PROXY TCP4 1.1.1.1 1.1.1.1 1\r\n", port},
        {"PROXY TCP4 1.1.1.1 1.1.1.1 1 1 \r\n", port},
        {"PROXY TCP4 1.1.1.1 1.1.1.1 65536 1\r\n", port},
        {"PROXY TCP4 1.1.1.1 1.1.1.1 1 65536\r\n", port},
        {"PROXY TCP4 1.1.1.1 1.1.1.1 01 1\r\n", port},
        {"PROXY TCP4 1.1.1.1 1.1.1.1 1 00\r\n", port},
        {"PROXY TCP4 1.1.1.1 1.1.1.1  1\r\n", port},
        {"PROXY TCP4 1.1.1.1 1.1.1.1 -1 1\r\n", port},
        {"PROXY TCP4 1.1.1.1 1.1.1.1 1 1x\r\n", port},
    };
    char text[128] = "PROXY UNKNOWN ";
    (void)unused;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        expect_header(good[i].text, strlen(good[i].text), good[i].client);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_malformed(bad[i].text, strlen(bad[i].text), bad[i].why);
    expect_malformed(BYTES("PROXY TCP4 1.1.1.1\0 1.1.1.1 1 1\r\n"), address);

    memset(text + 14, 'x', sizeof text - 14);
    memcpy(text + 105, "\r\n", 2);
    expect_header(text, 107, NULL);
    memcpy(text + 105, "x\r\n", 3);
    assert_int_equal(read_copy(text, 106, NULL, NULL), WEIR_PROXY_MORE);
    expect_malformed(text, 107, "version 1 with more than 107 bytes");
    expect_malformed(text, 108, "version 1 with more than 107 bytes");
}

static void reads_version_2(void **unused)
{
    static const char tlv[] = "a TLV of version 2 exceeds the header";
    static const char fixed[] = "expected version 2 and the command PROXY or LOCAL";
    static const char family[] = "unknown family or transport in version 2";
    static const char brief[] = "version 2 is too short for its addresses";
    (void)unused;
    expect_header(BYTES(V2 "\x21\x11\0\x0C" V4_ADDRESSES), "198.51.100.7:4711");
    expect_header(BYTES(V2 "\x21\x21\0\x24" V6_ADDRESS V6_ADDRESS PORTS), "[2001:db8::7]:4711");
    expect_header(BYTES(V2 "\x21\x21\0\x24" MAPPED V6_ADDRESS PORTS), "198.51.100.7:4711");
    /* TLVs: PP2_TYPE_AUTHORITY, an empty PP2_TYPE_NOOP, PP2_TYPE_SSL with a value that is no TLV */
    expect_header(BYTES(V2 "\x21\x11\0\x19" V4_ADDRESSES "\2\0\1x\4\0\0\x20\0\3abc"),
                  "198.51.100.7:4711");
    /* The address of the connection counts. */
    expect_header(BYTES(V2 "\x20\0\0\0"), NULL);
    expect_header(BYTES(V2 "\x20\x11\0\x0C" V4_ADDRESSES), NULL);
    expect_header(BYTES(V2 "\x20\xFF\0\3abc"), NULL);
    expect_header(BYTES(V2 "\x21\0\0\0"), NULL);
    expect_header(BYTES(V2 "\x21\0\0\3abc"), NULL);
    expect_header(BYTES(V2 "\x21\x10\0\3abc"), NULL);
    expect_header(BYTES(V2 "\x21\x12\0\x0C" V4_ADDRESSES), NULL);
    expect_header(BYTES(V2 "\x21\x31\0\xD8" ZEROS_36 ZEROS_36 ZEROS_36 ZEROS_36 ZEROS_36 ZEROS_36),
                  NULL);

    expect_malformed(BYTES(V2 "\x11\x11\0\x0C" V4_ADDRESSES), fixed);
    expect_malformed(BYTES(V2 "\x22\x11\0\x0C" V4_ADDRESSES), fixed);
    expect_malformed(BYTES(V2 "\x21\x41\0\x0C" V4_ADDRESSES), family);
    expect_malformed(BYTES(V2 "\x21\x13\0\x0C" V4_ADDRESSES), family);
    expect_malformed(BYTES(V2 "\x21\x11\0\x0B" V4_ADDRESSES), brief);
    expect_malformed(BYTES(V2 "\x21\x21\0\x23" ZEROS_36), brief);
    expect_malformed(BYTES(V2 "\x21\x31\0\x24" ZEROS_36), brief);
    expect_malformed(BYTES(V2 "\x21\x11\0\x0D" V4_ADDRESSES "\4"), tlv);
    expect_malformed(BYTES(V2 "\x21\x11\0\x0E" V4_ADDRESSES "\4\0"), tlv);
    expect_malformed(BYTES(V2 "\x21\x11\0\x0F" V4_ADDRESSES "\4\0\1"), tlv);
    expect_malformed(BYTES("\r\n\r\n\0\r\nQUIT\r\n\r\n"),
                     "the connection does not begin with a PROXY header");
}

/* The checksums are those of an independent implementation (Python, bit by bit). */
static void checks_the_checksum(void **unused)
{
    static const char good[] = V2 "\x21\x11\0\x17" V4_ADDRESSES "\3\0\4" CRC_V4 "\4\0\1x";
    char text[sizeof good];
    (void)unused;
    expect_header(BYTES(good), "198.51.100.7:4711");
    for (size_t i = 16; i < sizeof good - 1; i++) {
        weir_proxy_header h;
        const char *why;
        memcpy(text, good, sizeof good);
        text[i] ^= 0x40;
        bool type = i == 28; /* without the type of the checksum, there is none */
        assert_int_equal(read_copy(text, sizeof good - 1, &h, &why),
                         type ? WEIR_PROXY_DONE : WEIR_PROXY_MALFORMED);
    }
    expect_malformed(BYTES(V2 "\x21\x11\0\x12" V4_ADDRESSES "\3\0\3abc"), "malformed checksum");
    expect_malformed(BYTES(V2 "\x21\x11\0\x1A" V4_ADDRESSES "\3\0\4abcd\3\0\4abcd"),
                     "malformed checksum");
    expect_malformed(BYTES(V2 "\x21\x11\0\x13" V4_ADDRESSES "\3\0\4abcd"), "wrong checksum");
}

static void limits_the_length(void **unused)
{
    static const char begin[] = V2 "\x20\0\x0F\xF0"; /* 4080 bytes follow */
    char text[WEIR_PROXY_HEADER_MAX] = {0};
    (void)unused;
    memcpy(text, begin, sizeof begin - 1);
    expect_header(text, sizeof text, NULL);
    text[15]++;
    expect_malformed(text, 16, "version 2 with more than 4096 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_version_1),
        cmocka_unit_test(reads_version_2),
        cmocka_unit_test(checks_the_checksum),
        cmocka_unit_test(limits_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
