/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: PROXY headers. The result does not depend on how the bytes were split, and what
 * follows a header does not change it. */

#include "fuzz.h"

#include "net/clients.h"

#include <stdlib.h>
#include <string.h>

/* Reads a copy of exactly len bytes, so that ASan sees a read beyond the end. */
static weir_proxy_result read_copy(const uint8_t *data, size_t len, weir_proxy_header *ret)
{
    const char *why = NULL;
    uint8_t *copy = malloc(len + 1);
    CHECK(copy);
    if (len > 0)
        memcpy(copy + 1, data, len);
    weir_proxy_result result = weir_proxy_header_read(copy + 1, len, ret, &why);
    CHECK((result == WEIR_PROXY_MALFORMED) == (why != NULL));
    free(copy);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weir_proxy_header whole = {0}, part = {0};
    weir_proxy_result result = read_copy(data, size, &whole), early = WEIR_PROXY_MORE;
    CHECK(result != WEIR_PROXY_MORE || size < WEIR_PROXY_HEADER_MAX);
    size_t len = 0;
    for (; early == WEIR_PROXY_MORE && len < size; len++)
        early = read_copy(data, len + 1, &part);
    CHECK(early == result);
    if (result != WEIR_PROXY_DONE)
        return 0;
    CHECK(whole.len == len && part.len == len && len <= WEIR_PROXY_HEADER_MAX);
    CHECK(whole.has_address == part.has_address);
    CHECK(memcmp(whole.client.bytes, part.client.bytes, sizeof part.client.bytes) == 0);
    CHECK(whole.client.v6 == part.client.v6 && whole.client.port == part.client.port);
    return 0;
}
