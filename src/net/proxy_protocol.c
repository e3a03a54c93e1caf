/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Version 1 is a line of text; version 2 is binary, with type-length-value extensions (TLVs). Only
 * the checksum of the TLVs is read. A header is read again from its beginning whenever bytes have
 * arrived, so there is no state between two calls. */

#include "net/clients.h"

#include "port/text.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    V1_MAX = 107, /* with CR LF */
    V2_FIXED = 16,
    TLV_CRC32C = 3,
    /* The families and the transports of version 2. */
    FAMILY_UNSPEC = 0,
    FAMILY_INET,
    FAMILY_INET6,
    FAMILY_UNIX,
    TRANSPORT_STREAM = 1,
    TRANSPORT_DGRAM,
};

static const char v1_signature[] = "PROXY ";
static const uint8_t v2_signature[12] = {0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D,
                                         0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A};

static weir_proxy_result malformed(const char **ret_why, const char *why)
{
    *ret_why = why;
    return WEIR_PROXY_MALFORMED;
}

static void set_address(weir_peer_address *ret, const uint8_t *bytes, bool v6, unsigned port)
{
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    bool is_mapped = v6 && memcmp(bytes, mapped, sizeof mapped) == 0;
    *ret = (weir_peer_address){.v6 = v6 && !is_mapped, .port = (uint16_t)port};
    memcpy(ret->bytes, bytes + (is_mapped ? 12 : 0), ret->v6 ? 16 : 4);
}

/* ---- version 1 ------------------------------------------------------------------------------- */

/* Removes the text up to the next space, or to the end. It is empty if there is none. */
static weir_slice take_word(weir_slice *line)
{
    const char *space = memchr(line->at, ' ', line->len);
    weir_slice word = {line->at, space ? (size_t)(space - line->at) : line->len};
    size_t used = word.len + (space != NULL);
    *line = (weir_slice){line->at + used, line->len - used};
    return word;
}

static bool read_host(weir_slice word, bool v6, uint8_t ret[16])
{
    char text[INET6_ADDRSTRLEN];
    if (word.len >= sizeof text || memchr(word.at, '\0', word.len))
        return false;
    memcpy(text, word.at, word.len);
    text[word.len] = '\0';
    return inet_pton(v6 ? AF_INET6 : AF_INET, text, ret) == 1;
}

/* A port has no leading zeros. */
static bool read_port(weir_slice word, uint64_t *ret)
{
    return (word.len <= 1 || word.at[0] != '0') && weir_decimal_read(word.at, word.len, 65535, ret);
}

/*  line  without "PROXY " and CR LF. */
static weir_proxy_result read_v1_line(weir_slice line, weir_proxy_header *ret, const char **ret_why)
{
    uint8_t client[16], server[16];
    uint64_t client_port, server_port;
    weir_slice name = take_word(&line);
    bool v6 = name.len == 4 && memcmp(name.at, "TCP6", 4) == 0;
    if (name.len == 7 && memcmp(name.at, "UNKNOWN", 7) == 0) /* the rest may be anything */
        return WEIR_PROXY_DONE;
    if (!v6 && (name.len != 4 || memcmp(name.at, "TCP4", 4) != 0))
        return malformed(ret_why, "expected TCP4, TCP6 or UNKNOWN after PROXY");
    if (!read_host(take_word(&line), v6, client) || !read_host(take_word(&line), v6, server))
        return malformed(ret_why, "malformed address");
    if (!read_port(take_word(&line), &client_port) || !read_port(line, &server_port))
        return malformed(ret_why, "malformed port");
    ret->has_address = true;
    set_address(&ret->client, client, v6, (unsigned)client_port);
    return WEIR_PROXY_DONE;
}

static weir_proxy_result read_v1(const char *text, size_t len, weir_proxy_header *ret,
                                 const char **ret_why)
{
    size_t signature = sizeof v1_signature - 1;
    if (len < signature)
        return WEIR_PROXY_MORE;
    const char *lf = memchr(text, '\n', len < V1_MAX ? len : V1_MAX);
    if (!lf)
        return len < V1_MAX ? WEIR_PROXY_MORE
                            : malformed(ret_why, "version 1 with more than 107 bytes");
    if (lf[-1] != '\r')
        return malformed(ret_why, "expected CR LF at the end of version 1");
    *ret = (weir_proxy_header){.len = (size_t)(lf + 1 - text)};
    return read_v1_line((weir_slice){text + signature, ret->len - signature - 2}, ret, ret_why);
}

/* ---- version 2 ------------------------------------------------------------------------------- */

static unsigned read_u16(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static uint32_t crc32c_byte(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++)
        crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
    return crc;
}

/* Whether the checksum in the header is that of the header with 0 in its place (CRC32C, RFC 9260,
 * appendix A).
 *  at  the offset of the checksum. */
static bool crc_is_right(const uint8_t *bytes, size_t len, size_t at)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++)
        crc = crc32c_byte(crc, i - at < 4 ? 0 : bytes[i]);
    return (crc ^ UINT32_MAX) == ((uint32_t)read_u16(bytes + at) << 16 | read_u16(bytes + at + 2));
}

/* Checks that TLVs fill the rest of the header, and the checksum if there is one.
 *  at  the offset of the first. */
static weir_proxy_result check_tlvs(const uint8_t *bytes, size_t len, size_t at,
                                    const char **ret_why)
{
    size_t crc = 0;
    while (at < len) {
        size_t value = len - at < 3 ? SIZE_MAX : read_u16(bytes + at + 1);
        if (value == SIZE_MAX || value > len - at - 3)
            return malformed(ret_why, "a TLV of version 2 exceeds the header");
        if (bytes[at] == TLV_CRC32C && (value != 4 || crc > 0))
            return malformed(ret_why, "malformed checksum");
        if (bytes[at] == TLV_CRC32C)
            crc = at + 3;
        at += 3 + value;
    }
    if (crc > 0 && !crc_is_right(bytes, len, crc))
        return malformed(ret_why, "wrong checksum");
    return WEIR_PROXY_DONE;
}

/*  bytes  len bytes, the whole header. */
static weir_proxy_result read_v2_addresses(const uint8_t *bytes, size_t len, weir_proxy_header *ret,
                                           const char **ret_why)
{
    static const uint8_t sizes[] = {
        [FAMILY_UNSPEC] = 0, [FAMILY_INET] = 12, [FAMILY_INET6] = 36, [FAMILY_UNIX] = 216};
    unsigned family = bytes[13] >> 4, transport = bytes[13] & 15;
    if (family > FAMILY_UNIX || transport > TRANSPORT_DGRAM)
        return malformed(ret_why, "unknown family or transport in version 2");
    *ret = (weir_proxy_header){.len = len};
    if (family == FAMILY_UNSPEC || transport == 0) /* what follows has no known form */
        return WEIR_PROXY_DONE;
    if (len - V2_FIXED < sizes[family])
        return malformed(ret_why, "version 2 is too short for its addresses");
    bool v6 = family == FAMILY_INET6;
    ret->has_address = transport == TRANSPORT_STREAM && family != FAMILY_UNIX;
    if (ret->has_address)
        set_address(&ret->client, bytes + V2_FIXED, v6, read_u16(bytes + V2_FIXED + (v6 ? 32 : 8)));
    return check_tlvs(bytes, len, V2_FIXED + (size_t)sizes[family], ret_why);
}

static weir_proxy_result read_v2(const uint8_t *bytes, size_t len, weir_proxy_header *ret,
                                 const char **ret_why)
{
    enum { PROXY = 0x21, LOCAL = 0x20 };
    if (len > 12 && bytes[12] != PROXY && bytes[12] != LOCAL)
        return malformed(ret_why, "expected version 2 and the command PROXY or LOCAL");
    if (len < V2_FIXED)
        return WEIR_PROXY_MORE;
    size_t whole = V2_FIXED + (size_t)read_u16(bytes + 14);
    if (whole > WEIR_PROXY_HEADER_MAX)
        return malformed(ret_why, "version 2 with more than 4096 bytes");
    if (len < whole)
        return WEIR_PROXY_MORE;
    if (bytes[12] == PROXY)
        return read_v2_addresses(bytes, whole, ret, ret_why);
    *ret = (weir_proxy_header){.len = whole};
    return WEIR_PROXY_DONE;
}

/* ---- both ------------------------------------------------------------------------------------ */

static bool begins(const uint8_t *bytes, size_t len, const void *signature, size_t size)
{
    return memcmp(bytes, signature, len < size ? len : size) == 0;
}

weir_proxy_result weir_proxy_header_read(const uint8_t *bytes, size_t len, weir_proxy_header *ret,
                                         const char **ret_why)
{
    if (len == 0)
        return WEIR_PROXY_MORE;
    weir_proxy_header header = {0};
    weir_proxy_result result;
    if (begins(bytes, len, v1_signature, sizeof v1_signature - 1))
        result = read_v1((const char *)bytes, len, &header, ret_why);
    else if (begins(bytes, len, v2_signature, sizeof v2_signature))
        result = read_v2(bytes, len, &header, ret_why);
    else
        result = malformed(ret_why, "the connection does not begin with a PROXY header");
    if (result == WEIR_PROXY_DONE)
        *ret = header;
    return result;
}
