/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Errors of Redis and Valkey begin with a word in capitals, or with "ERR". */

#include "engine/redis/client/wire.h"

#include <string.h>

bool weir_redis_error_begins(weir_slice t, const char *word)
{
    size_t len = strlen(word);
    return t.len >= len && memcmp(t.at, word, len) == 0;
}

bool weir_redis_error_contains(weir_slice t, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= t.len; i++) {
        if (memcmp(t.at + i, word, len) == 0)
            return true;
    }
    return false;
}

weir_redis_error_kind weir_redis_error_kind_of(weir_slice text, bool is_throttle)
{
    static const struct {
        const char *begins;
        weir_redis_error_kind kind;
    } known[] = {
        {"MOVED ", WEIR_REDIS_ERROR_MOVED},
        {"ASK ", WEIR_REDIS_ERROR_ASK},
        {"TRYAGAIN", WEIR_REDIS_ERROR_TRY_AGAIN},
        {"READONLY", WEIR_REDIS_ERROR_READ_ONLY},
        {"MASTERDOWN", WEIR_REDIS_ERROR_READ_ONLY},
        {"NOSCRIPT", WEIR_REDIS_ERROR_NOT_LOADED},
        {"NOTIME", WEIR_REDIS_ERROR_NOT_LOADED},
        {"ERR Function not found", WEIR_REDIS_ERROR_NOT_LOADED},
        {"ERR unknown command", WEIR_REDIS_ERROR_NOT_LOADED},
        {"ERR wrong number of arguments", WEIR_REDIS_ERROR_NO_FIGURES},
        {"ERR expected 'policy key cost'", WEIR_REDIS_ERROR_NO_FIGURES},
        {"CROSSSLOT", WEIR_REDIS_ERROR_CROSS_SLOT},
        {"ERR policy:", WEIR_REDIS_ERROR_UNSUPPORTED},
        {"ERR weir:", WEIR_REDIS_ERROR_UNSUPPORTED},
        {"CLUSTERDOWN", WEIR_REDIS_ERROR_NO_CLUSTER},
        {"LOADING", WEIR_REDIS_ERROR_LOADING},
        {"WRONGTYPE", WEIR_REDIS_ERROR_OF_KEY},
        {"OOM the key", WEIR_REDIS_ERROR_OF_KEY}, /* these two are the module's */
        {"OOM request", WEIR_REDIS_ERROR_OF_KEY},
        {"ERR The user executing", WEIR_REDIS_ERROR_OTHER},    /* NOPERM inside a script: of 7.0 */
        {"ERR ACL failure in script", WEIR_REDIS_ERROR_OTHER}, /* of Redis 8 and Valkey 8 */
        {"ERR This Redis command is not allowed", WEIR_REDIS_ERROR_OTHER},
        {"ERR", WEIR_REDIS_ERROR_OF_KEY},
    };
    if (weir_redis_error_begins(text, "ERR Error running script")) /* before 7.0 */
        return weir_redis_error_contains(text, "-READONLY") ? WEIR_REDIS_ERROR_READ_ONLY
                                                            : WEIR_REDIS_ERROR_OTHER;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (weir_redis_error_begins(text, known[i].begins))
            return known[i].kind;
    }
    return is_throttle && weir_redis_error_begins(text, "Cell error") ? WEIR_REDIS_ERROR_THROTTLE
                                                                      : WEIR_REDIS_ERROR_OTHER;
}

/* ---- MOVED and ASK --------------------------------------------------------------------------- */

bool weir_redis_host_is_valid(const char *host, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (host[i] <= ' ' || host[i] > '~')
            return false;
    }
    return len > 0 && len < WEIR_REDIS_HOST_MAX && host[0] != '/';
}

/* Removes the text up to `end`, and `end` itself, from the front. Returns the text. */
static weir_slice cut(weir_slice *t, char end)
{
    const char *at = memchr(t->at, end, t->len);
    weir_slice ret = {t->at, at ? (size_t)(at - t->at) : t->len};
    size_t used = at ? ret.len + 1 : ret.len;
    t->at += used;
    t->len -= used;
    return ret;
}

static bool number(weir_slice t, uint32_t max, uint32_t *ret)
{
    uint64_t v;
    if (!weir_decimal_read(t.at, t.len, max, &v))
        return false;
    *ret = (uint32_t)v;
    return true;
}

/* "MOVED 3999 127.0.0.1:6381": the port is behind the last ':', since an IPv6 address has others.
 * An absent host, or "?", is the host of the server that replied. */
bool weir_redis_error_target(weir_slice text, const char *host, weir_redis_target *ret)
{
    (void)cut(&text, ' ');
    weir_slice slot = cut(&text, ' ');
    size_t colon = text.len;
    while (colon > 0 && text.at[colon - 1] != ':')
        colon--;
    if (colon == 0 || !number(slot, WEIR_REDIS_SLOTS - 1, &ret->slot) ||
        !number((weir_slice){text.at + colon, text.len - colon}, 65535, &ret->port) ||
        ret->port == 0)
        return false;
    weir_slice h = {text.at, colon - 1};
    if (h.len >= 2 && h.at[0] == '[' && h.at[h.len - 1] == ']')
        h = (weir_slice){h.at + 1, h.len - 2};
    if (h.len == 0 || (h.len == 1 && h.at[0] == '?'))
        h = (weir_slice){host, strlen(host)};
    if (!weir_redis_host_is_valid(h.at, h.len))
        return false;
    memcpy(ret->host, h.at, h.len);
    ret->host[h.len] = 0;
    return true;
}

/* ---- CL.THROTTLE ----------------------------------------------------------------------------- */

weir_throttle_status weir_redis_error_throttle(weir_slice text)
{
    static const char prefix[] = "Cell error: Store error: ";
    static const weir_throttle_status known[] = {WEIR_THROTTLE_ZERO_RATE,
                                                 WEIR_THROTTLE_NEGATIVE_LIMIT};
    if (!weir_redis_error_begins(text, prefix))
        return WEIR_THROTTLE_RANGE;
    text.at += sizeof prefix - 1;
    text.len -= sizeof prefix - 1;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (weir_redis_error_begins(text, weir_throttle_status_text(known[i])))
            return known[i];
    }
    return WEIR_THROTTLE_RANGE;
}
