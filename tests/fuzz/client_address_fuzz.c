/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: the header in which proxies report their clients, and networks. Whatever a
 * client sends, the result is the address that the first trusted proxy appended, and the result for
 * a peer that is not trusted is the peer. The first byte selects the kind of header and the number
 * of proxies. */

#include "fuzz.h"

#include "codec/answer/client_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same(const weir_address *a, const weir_address *b)
{
    return a->v6 == b->v6 && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* A network that is read is printed and read again without a change. */
static void check_network(const char *text, size_t len)
{
    weir_network n, again;
    char printed[WEIR_ADDRESS_TEXT_MAX];
    if (!weir_network_parse(&n, text, len))
        return;
    size_t printed_len = weir_address_print(&n.address, n.bits, printed);
    CHECK(weir_network_parse(&again, printed, printed_len));
    CHECK(again.bits == n.bits && same(&again.address, &n.address));
    CHECK(weir_trusted_proxies_have(&(weir_trusted_proxies){&n, 1}, &n.address));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const appended[2] = {", 198.51.100.7", ", host=\"a\\\"\";for=198.51.100.7"};
    static const char *const hop[2] = {", 10.0.0.1", ", for=\"10.0.0.1:80\";host=\"b, c\""};
    if (size == 0)
        return 0;
    weir_network trusted;
    weir_address proxy, client, found;
    CHECK(weir_network_parse(&trusted, "10.0.0.0/8", 10));
    CHECK(weir_address_parse(&proxy, "10.0.0.2", 8));
    CHECK(weir_address_parse(&client, "198.51.100.7", 12));
    const weir_trusted_proxies proxies = {&trusted, 1};
    weir_client_header kind = data[0] & 1 ? WEIR_CLIENT_FORWARDED : WEIR_CLIENT_LIST;
    char *header = malloc(size + 256);
    CHECK(header);
    size_t len = size - 1;
    memcpy(header, data + 1, len);
    check_network(header, len);
    found = weir_client_address(&proxies, &client, kind, (weir_slice){header, len});
    CHECK(same(&found, &client));
    (void)weir_client_address(&proxies, &proxy, kind, (weir_slice){header, len});

    len += (size_t)sprintf(header + len, "%s", appended[kind]);
    for (int i = data[0] >> 1 & 3; i > 0; i--)
        len += (size_t)sprintf(header + len, "%s", hop[kind]);
    found = weir_client_address(&proxies, &proxy, kind, (weir_slice){header, len});
    CHECK(same(&found, &client));
    free(header);
    return 0;
}
