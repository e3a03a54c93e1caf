/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: URLs of Redis servers. A URL that is accepted has complete strings without
 * control characters. A URL that is refused has an error of one line, without any part of the URL
 * that could be a secret. The options refuse a URL of a user without a password, which a client may
 * get elsewhere. */

#include "fuzz.h"

#include "engine/redis/client/client.h"

static void check_text(const char *text, size_t size)
{
    CHECK(memchr(text, 0, size));
    for (; *text; text++)
        CHECK((uint8_t)*text >= ' ' && *text != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    weir_redis_url u;
    memset(&u, 0x55, sizeof u);
    weir_redis_error e = {""};
    weir_status st = weir_redis_url_read(text, &u, &e);
    CHECK(st == WEIR_OK || st == WEIR_E_SYNTAX);
    if (st == WEIR_OK) {
        check_text(u.host, sizeof u.host);
        check_text(u.user, sizeof u.user);
        check_text(u.password, sizeof u.password);
        CHECK(u.host[0] && (u.has_password || !u.password[0]));
        CHECK((u.host[0] == '/') == (strncmp(text, "unix:", 5) == 0));
    } else {
        CHECK(e.text[0] && !e.text[sizeof e.text - 1]);
        check_text(e.text, sizeof e.text);
    }
    const char *url = text;
    weir_redis_options o = {.urls = &url, .urls_len = 1};
    weir_status checked = weir_redis_options_check(&o, &e);
    bool lacks_password = st == WEIR_OK && u.user[0] && !u.has_password;
    CHECK(checked == (lacks_password ? WEIR_E_SYNTAX : st));
    free(text);
    return 0;
}
