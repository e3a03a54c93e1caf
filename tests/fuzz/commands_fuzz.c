/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Any bytes from a client: the session answers or closes, and how the bytes were cut changes
 * nothing of what it answers. */

#include "codec/resp_commands.h"
#include "service/top.h"

#include <stdlib.h>
#include <string.h>

enum { OUT_MAX = 1 << 20 };

static const weir_zone *no_zone(void *ctx, const char *name, size_t len)
{
    (void)ctx;
    (void)name;
    (void)len;
    return NULL;
}

/* Feeds the bytes in pieces of `step` to a fresh daemon; gives what it answered. */
static void serve(const uint8_t *bytes, size_t len, size_t step, weir_buffer *out)
{
    static const uint8_t secret[16] = {1};
    const weir_store_options options = {.memory_bytes = 1 << 20, .secret = secret};
    const weir_zones zones = {no_zone, NULL};
    weir_store *store;
    weir_hub *hub;
    weir_service *service;
    weir_resp_session session;
    weir_buffer in;
    if (weir_store_open(&store, &options) != WEIR_OK ||
        weir_hub_open(&hub, store, &zones) != WEIR_OK ||
        weir_hub_weigh(hub, &(weir_top_options){4, 1 << 20}) != WEIR_OK ||
        weir_service_open(&service, hub) != WEIR_OK)
        abort();
    weir_buffer_init(&in, 1 << 21);
    weir_buffer_init(out, OUT_MAX);
    if (weir_hub_set_limit(hub, "p", "gcra 1/s burst 9", NULL) != WEIR_OK)
        abort();
    weir_resp_options resp = {.service = service, .version = "1"};
    weir_resp_session_init(&session, &resp);
    for (size_t at = 0; at < len && !session.closing; at += step) {
        weir_buffer_append(&in, bytes + at, len - at < step ? len - at : step);
        weir_resp_session_run(&session, &in, out, OUT_MAX, 1767225600000000000);
    }
    weir_buffer_free(&in);
    weir_service_close(service);
    weir_hub_close(hub);
    weir_store_close(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    weir_buffer whole, pieces;
    serve(bytes, len, len, &whole);
    serve(bytes, len, 1 + len % 7, &pieces);
    if (weir_buffer_len(&whole) != weir_buffer_len(&pieces) ||
        (weir_buffer_len(&whole) > 0 &&
         memcmp(weir_buffer_data(&whole), weir_buffer_data(&pieces), weir_buffer_len(&whole)) != 0))
        abort();
    weir_buffer_free(&whole);
    weir_buffer_free(&pieces);
    return 0;
}
