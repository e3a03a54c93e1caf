/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Clients behind proxies: tables of headers, and the property that nothing that a client sends
 * changes the address that counts. */

#include "codec/answer/client_address.h"

#include "port/random_kit_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- networks -------------------------------------------------------------------------------- */

static weir_network network(const char *text)
{
    weir_network n;
    if (!weir_network_parse(&n, text, strlen(text)))
        fail_msg("'%s' is no network", text);
    return n;
}

static weir_address address(const char *text)
{
    weir_address a;
    if (!weir_address_parse(&a, text, strlen(text)))
        fail_msg("'%s' is no address", text);
    return a;
}

static void parses_networks(void **unused)
{
    static const struct {
        const char *text, *printed; /* NULL: refused */
    } cases[] = {
        {"10.0.0.0/8", "10.0.0.0/8"},
        {"10.0.0.7", "10.0.0.7"},
        {"10.0.0.7/32", "10.0.0.7"},
        {"0.0.0.0/0", "0.0.0.0/0"},
        {"2001:db8::/32", "2001:db8::/32"},
        {"::/0", "::/0"},
        {"::1", "::1"},
        {"::1/128", "::1"},
        {"::ffff:10.0.0.0/104", "10.0.0.0/8"},
        {"::ffff:10.0.0.7", "10.0.0.7"},
        {"::ffff:0:0/96", "0.0.0.0/0"},
        {"10.0.0.1/8", NULL},
        {"10.0.0.0/33", NULL},
        {"10.0.0.0/", NULL},
        {"10.0.0.0/-1", NULL},
        {"10.0.0.0/8 ", NULL},
        {"10.0.0.0/8/8", NULL},
        {"10.0.0.0/99999999999999999999", NULL},
        {"2001:db8::1/32", NULL},
        {"::/129", NULL},
        {"::ffff:10.0.0.0/95", NULL},
        {"::ffff:10.0.0.0/8", NULL},
        {"[::1]", NULL},
        {"example.com", NULL},
        {"/8", NULL},
        {"", NULL},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_network n = {.bits = 77};
        char text[WEIR_ADDRESS_TEXT_MAX + 1] = "";
        bool parsed = weir_network_parse(&n, cases[i].text, strlen(cases[i].text));
        if (parsed != (cases[i].printed != NULL))
            fail_msg("'%s': %s", cases[i].text, parsed ? "accepted" : "refused");
        if (parsed)
            text[weir_address_print(&n.address, n.bits, text)] = '\0';
        assert_string_equal(text, parsed ? cases[i].printed : "");
        if (!parsed)
            assert_int_equal(n.bits, 77); /* unchanged */
    }
}

static void finds_trusted_proxies(void **unused)
{
    static const struct {
        const char *network, *address;
        bool has;
    } cases[] = {
        {"10.0.0.0/8", "10.255.255.255", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/9", "10.127.0.1", true},
        {"10.0.0.0/9", "10.128.0.1", false},
        {"10.0.0.7", "10.0.0.7", true},
        {"10.0.0.7", "10.0.0.6", false},
        {"0.0.0.0/0", "255.1.2.3", true},
        {"0.0.0.0/0", "::1", false},
        {"::/0", "2001:db8::1", true},
        {"::/0", "10.0.0.1", false},
        {"fe80::/10", "febf::1", true},
        {"fe80::/10", "fec0::1", false},
        {"::1", "::1", true},
        {"::1", "::", false},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_network n[2] = {network("192.0.2.99"), network(cases[i].network)};
        weir_address a = address(cases[i].address);
        if (weir_trusted_proxies_have(&(weir_trusted_proxies){n, 2}, &a) != cases[i].has)
            fail_msg("%s in %s", cases[i].address, cases[i].network);
    }
    weir_address a = address("10.0.0.1");
    assert_false(weir_trusted_proxies_have(&(weir_trusted_proxies){NULL, 0}, &a));
}

/* ---- the client ------------------------------------------------------------------------------ */

/* The client of a request from `peer`, as text. 10.0.0.0/8 and fd00::/8 are trusted. */
static const char *client_n(const char *peer, weir_client_header kind, const char *header,
                            size_t len)
{
    static char text[WEIR_ADDRESS_TEXT_MAX + 1];
    weir_network trusted[2] = {network("10.0.0.0/8"), network("fd00::/8")};
    weir_address a = address(peer);
    char *copy = header ? malloc(len + 1) : NULL; /* ASan sees a read beyond its end */
    if (copy)
        memcpy(copy, header, len);
    a = weir_client_address(&(weir_trusted_proxies){trusted, 2}, &a, kind, (weir_slice){copy, len});
    free(copy);
    text[weir_address_print(&a, weir_address_bits(&a), text)] = '\0';
    return text;
}

typedef struct header_case {
    const char *header, *client; /* of a request from 10.0.0.2 */
} header_case;

static void check_cases(weir_client_header kind, const header_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *found = client_n("10.0.0.2", kind, cases[i].header,
                                     cases[i].header ? strlen(cases[i].header) : 0);
        if (strcmp(found, cases[i].client) != 0)
            fail_msg("'%s': %s, expected %s", cases[i].header, found, cases[i].client);
        /* Another peer is not asked at all. */
        found = client_n("192.0.2.1", kind, cases[i].header,
                         cases[i].header ? strlen(cases[i].header) : 0);
        assert_string_equal(found, "192.0.2.1");
    }
}

static void reads_lists(void **unused)
{
    static const header_case cases[] = {
        {NULL, "10.0.0.2"},
        {"", "10.0.0.2"},
        {"198.51.100.7", "198.51.100.7"},
        {" \t198.51.100.7\t ", "198.51.100.7"},
        {"198.51.100.7:4711", "198.51.100.7"},
        {"198.51.100.7:0", "198.51.100.7"},
        {"2001:db8::7", "2001:db8::7"},
        {"[2001:db8::7]", "2001:db8::7"},
        {"[2001:db8::7]:4711", "2001:db8::7"},
        {"::ffff:198.51.100.7", "198.51.100.7"},
        {"[::ffff:198.51.100.7]:1", "198.51.100.7"},
        {"1.1.1.1, 198.51.100.7", "198.51.100.7"},
        {"1.1.1.1,198.51.100.7", "198.51.100.7"},
        {"198.51.100.7, 10.0.0.1", "198.51.100.7"},
        {"198.51.100.7, ::ffff:10.0.0.1", "198.51.100.7"},
        {"198.51.100.7, fd00::1, 10.0.0.1", "198.51.100.7"},
        {"10.9.9.9, 10.0.0.1", "10.9.9.9"},
        {"1.1.1.1, 10.9.9.9, 198.51.100.7, 10.0.0.1", "198.51.100.7"},
        /* empty elements */
        {", , 198.51.100.7, ,\t,", "198.51.100.7"},
        {",", "10.0.0.2"},
        {"198.51.100.7,, 10.0.0.1", "198.51.100.7"},
        /* elements that end the search */
        {"198.51.100.7, unknown", "10.0.0.2"},
        {"198.51.100.7, unknown, 10.0.0.1", "10.0.0.1"},
        {"198.51.100.7, _hidden, 10.0.0.1", "10.0.0.1"},
        {"198.51.100.7, 10.0.0.1 10.0.0.3", "10.0.0.2"},
        {"198.51.100.7, fe80::1%eth0", "10.0.0.2"},
        {"198.51.100.7, [fe80::1%eth0]", "10.0.0.2"},
        {"198.51.100.7, [10.0.0.1]", "10.0.0.2"},
        {"198.51.100.7, [fd00::1", "10.0.0.2"},
        {"198.51.100.7, fd00::1]", "10.0.0.2"},
        {"198.51.100.7, [fd00::1]x", "10.0.0.2"},
        {"198.51.100.7, [fd00::1]:", "10.0.0.2"},
        {"198.51.100.7, []", "10.0.0.2"},
        {"198.51.100.7, [", "10.0.0.2"},
        {"198.51.100.7, 10.0.0.1:", "10.0.0.2"},
        {"198.51.100.7, 10.0.0.1:65536", "10.0.0.2"},
        {"198.51.100.7, 10.0.0.1:000080", "10.0.0.2"},
        {"198.51.100.7, 10.0.0.1:80x", "10.0.0.2"},
        {"198.51.100.7, 10.0.0.01", "10.0.0.2"},
        {"198.51.100.7, 10.1", "10.0.0.2"},
        {"198.51.100.7, 0x0a.0.0.1", "10.0.0.2"},
        {"198.51.100.7, :80", "10.0.0.2"},
        {"198.51.100.7, :", "10.0.0.2"},
        {"198.51.100.7, example.com", "10.0.0.2"},
        {"198.51.100.7, \"10.0.0.1\"", "10.0.0.2"},
        {"198.51.100.7, for=10.0.0.1", "10.0.0.2"},
        {"\"198.51.100.8, 198.51.100.7", "198.51.100.7"},
    };
    (void)unused;
    check_cases(WEIR_CLIENT_LIST, cases, sizeof cases / sizeof cases[0]);
}

static void reads_forwarded(void **unused)
{
    static const header_case cases[] = {
        {NULL, "10.0.0.2"},
        {"for=198.51.100.7", "198.51.100.7"},
        {"For=\"198.51.100.7\"", "198.51.100.7"},
        {"for=\"198.51.100.7:4711\";proto=https", "198.51.100.7"},
        {"proto=https; FOR=198.51.100.7 ;by=10.0.0.1", "198.51.100.7"},
        {"for=\"[2001:db8::7]:4711\"", "2001:db8::7"},
        {"for=\"[2001:db8::7]\"", "2001:db8::7"},
        {"for=\"[2001:db8::7]:_port.1\"", "2001:db8::7"},
        {"for=\"198.51.100.7:_p\"", "198.51.100.7"},
        {"for=1.1.1.1, for=198.51.100.7", "198.51.100.7"},
        {"for=198.51.100.7, for=10.0.0.1;by=10.0.0.2", "198.51.100.7"},
        {"for=198.51.100.7, , for=10.0.0.1", "198.51.100.7"},
        {"for=198.51.100.7;", "198.51.100.7"},
        /* quoted commas and quotes are part of a value */
        {"for=198.51.100.7;host=\"a, for=1.1.1.1\"", "198.51.100.7"},
        {"for=198.51.100.7;host=\"a\\\", for=1.1.1.1\"", "198.51.100.7"},
        {"for=198.51.100.7;host=\"a\\\\\"", "198.51.100.7"},
        {"for=198.51.100.7;host=\"a\\\\\\\", for=1.1.1.1\"", "198.51.100.7"},
        {"for=1.1.1.1, for=198.51.100.7;host=\"\"", "198.51.100.7"},
        /* an unbalanced quote of the client does not reach what the proxy appended */
        {"for=\"1.1.1.1, for=198.51.100.7", "198.51.100.7"},
        {"for=\"1.1.1.1, for=198.51.100.7;host=\"b\"", "198.51.100.7"},
        {"\", for=\"[2001:db8::7]\"", "2001:db8::7"},
        {"for=\"1.1.1.1\\, for=198.51.100.7;host=\"b\"", "198.51.100.7"},
        {"for=\"1.1.1.1, for=10.0.0.1", "10.0.0.1"},
        /* elements that end the search */
        {"for=198.51.100.7, for=unknown", "10.0.0.2"},
        {"for=198.51.100.7;x", "10.0.0.2"},
        {"for=198.51.100.7, for=_hidden, for=10.0.0.1", "10.0.0.1"},
        {"for=198.51.100.7, proto=https", "10.0.0.2"},
        {"for=198.51.100.7, for=10.0.0.1;for=10.0.0.3", "10.0.0.2"},
        {"for=198.51.100.7, for=", "10.0.0.2"},
        {"for=198.51.100.7, for=\"\"", "10.0.0.2"},
        {"for=198.51.100.7, for", "10.0.0.2"},
        {"for=198.51.100.7, =10.0.0.1", "10.0.0.2"},
        {"for=198.51.100.7, =a=b;for=10.0.0.1", "10.0.0.2"},
        {"for=198.51.100.7, 10.0.0.1", "10.0.0.2"},
        {"for=198.51.100.7, ;for=10.0.0.1", "10.0.0.2"},
        {"for=198.51.100.7, for =10.0.0.1", "10.0.0.2"},
        {"for=198.51.100.7, for= 10.0.0.1", "10.0.0.2"},
        {"for=198.51.100.7, for=10.0.0.1 proto=https", "10.0.0.2"},
        {"for=198.51.100.7, for=\"10.0.0.1\"x", "10.0.0.2"},
        {"for=198.51.100.7, for=\"10.0.0.1", "10.0.0.2"},
        {"for=198.51.100.7, for=10.0.0.1\"", "10.0.0.2"},
        {"for=198.51.100.7, for=\"10.0.0.1\\\"", "10.0.0.2"},
        {"for=198.51.100.7, for=\"[fe80::1%eth0]\"", "10.0.0.2"},
        {"for=198.51.100.7, for=\"[fd00::1]:_\"", "10.0.0.2"},
        {"for=198.51.100.7, for=\"[fd00::1]:_a b\"", "10.0.0.2"},
        {"\"", "10.0.0.2"},
    };
    (void)unused;
    check_cases(WEIR_CLIENT_FORWARDED, cases, sizeof cases / sizeof cases[0]);
}

static void reads_no_byte_0(void **unused)
{
    static const char list[] = "198.51.100.7, 10.0.0.1\0", forwarded[] = "for=198.51.100.7;a\0=b";
    static const char value[] = "for=198.51.100.7;a=b\0";
    (void)unused;
    assert_string_equal(client_n("10.0.0.2", WEIR_CLIENT_LIST, list, sizeof list - 1), "10.0.0.2");
    assert_string_equal(
        client_n("10.0.0.2", WEIR_CLIENT_FORWARDED, forwarded, sizeof forwarded - 1), "10.0.0.2");
    assert_string_equal(client_n("10.0.0.2", WEIR_CLIENT_FORWARDED, value, sizeof value - 1),
                        "10.0.0.2");
}

/* The address 10.H.I.J of hop i. */
static size_t put_hop(char *text, const char *before, unsigned i)
{
    return (size_t)sprintf(text, "%s10.0.%u.%u", before, i / 256, i % 256);
}

static void reads_at_most_64_hops(void **unused)
{
    char text[4096];
    size_t len = put_hop(text, "", 0);
    (void)unused;
    for (unsigned i = 1; i < 100; i++)
        len += put_hop(text + len, ", ", i);
    assert_string_equal(client_n("10.0.9.9", WEIR_CLIENT_LIST, text, len), "10.0.0.36");
}

/* ---- forged headers -------------------------------------------------------------------------- */

enum { ROUNDS = 20000, FORGED_MAX = 16 << 10 };

/* Returns a random number below n. */
static size_t pick(uint64_t *seed, size_t n)
{
    return (size_t)(next_random(seed) % n);
}

/* Writes what a client may send: pieces that matter to the syntax, in random order. */
static size_t forge(uint64_t *seed, char *ret, size_t max)
{
    static const char *const pieces[] = {
        ",",
        "\"",
        "\\",
        "\\\"",
        ";",
        "for=",
        "for=\"",
        "host=\"",
        "10.0.0.1",
        " ",
        "\t",
        "[",
        "]",
        ":",
        "%eth0",
        "_x",
        "unknown",
        "203.0.113.9",
        "=",
        ", ",
        "fd00::1",
        "::",
        ":80",
        "[::1]",
        "\"\"",
        "\",for=\"",
        "10.0.0.1,",
        "x",
        "::ffff:10.0.0.1",
        "\x80",
        "for=203.0.113.9,",
        "203.0.113.9,",
    };
    size_t len = 0, want = pick(seed, 8) == 0 ? max : pick(seed, 60);
    while (len < want) {
        const char *piece = pieces[pick(seed, sizeof pieces / sizeof pieces[0])];
        size_t n = strlen(piece);
        if (len + n > want)
            break;
        memcpy(ret + len, piece, n);
        len += n;
    }
    return len;
}

static size_t put_text(char *ret, const char *text)
{
    memcpy(ret, text, strlen(text));
    return strlen(text);
}

/* Writes a quoted string (RFC 9110, 5.6.4) as a proxy does, with a text that the client chose. */
static size_t put_quoted(char *ret, const char *text, size_t len)
{
    size_t n = 0;
    ret[n++] = '"';
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\\')
            ret[n++] = '\\';
        ret[n++] = text[i];
    }
    ret[n++] = '"';
    return n;
}

/* Writes the element that a proxy appends for a client or for another proxy. */
static size_t put_element(uint64_t *seed, weir_client_header kind, char *ret, const char *node)
{
    char host[64];
    size_t n = 0, host_len = forge(seed, host, sizeof host);
    if (kind == WEIR_CLIENT_LIST)
        return put_text(ret, node);
    if (pick(seed, 2)) {
        n += put_text(ret + n, "host=");
        n += put_quoted(ret + n, host, host_len);
        ret[n++] = ';';
    }
    n += put_text(ret + n, "for=");
    n += put_quoted(ret + n, node, strlen(node));
    if (pick(seed, 2)) {
        n += put_text(ret + n, ";host=");
        n += put_quoted(ret + n, host, host_len);
    }
    return n;
}

/* Whatever the client sends, the result is the address that the first trusted proxy appended. */
static void forged_headers_change_nothing(void **unused)
{
    static const char *const clients[][2] = {
        {"198.51.100.7", "198.51.100.7"},        {"198.51.100.7:4711", "198.51.100.7"},
        {"[2001:db8::7]:4711", "2001:db8::7"},   {"2001:db8::7", "2001:db8::7"},
        {"::ffff:198.51.100.7", "198.51.100.7"},
    };
    char *header = malloc(2 * FORGED_MAX);
    uint64_t seed = 19;
    (void)unused;
    assert_non_null(header);
    for (int i = 0; i < ROUNDS; i++) {
        weir_client_header kind = pick(&seed, 2) ? WEIR_CLIENT_FORWARDED : WEIR_CLIENT_LIST;
        const char *const *client = clients[pick(&seed, 5)];
        size_t len = forge(&seed, header, pick(&seed, 50) ? 200 : FORGED_MAX);
        len += put_text(header + len, pick(&seed, 2) ? ", " : ",");
        len += put_element(&seed, kind, header + len, client[0]);
        for (size_t proxies = pick(&seed, 3); proxies > 0; proxies--) {
            len += put_text(header + len, ", ");
            len += put_element(&seed, kind, header + len, "10.0.0.1");
        }
        const char *found = client_n("10.0.0.2", kind, header, len);
        if (strcmp(found, client[1]) != 0)
            fail_msg("%s, expected %s: %.*s", found, client[1], (int)len, header);
    }
    free(header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_networks),
        cmocka_unit_test(finds_trusted_proxies),
        cmocka_unit_test(reads_lists),
        cmocka_unit_test(reads_forwarded),
        cmocka_unit_test(reads_no_byte_0),
        cmocka_unit_test(reads_at_most_64_hops),
        cmocka_unit_test(forged_headers_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
