/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: the messages of the Rate Limit Service. A request is decoded as protobuf-c
 * decodes it, and a response is encoded so that protobuf-c decodes it. Other than proto3 says,
 * protobuf-c does not treat groups and known fields of another wire type as unknown fields, does
 * not merge all fields of a message that is given twice, and accepts strings that are not UTF-8. A
 * second decoder finds out which of these a request has. */

#include "fuzz.h"

#include "rls/wire/message.h"
#include "rlsmessage.pb-c.h"

/* ---- a slow decoder -------------------------------------------------------------------------- */

typedef enum kind { NONE, NUMBER, STRING, REQUEST, DESCRIPTOR, ENTRY, LIMIT, WRAPPER } kind;

/* What the fields 1 to 4 of each message are. */
static const kind fields[][5] = {
    [REQUEST] = {NONE, STRING, DESCRIPTOR, NUMBER, NONE},
    [DESCRIPTOR] = {NONE, ENTRY, LIMIT, WRAPPER, NUMBER},
    [ENTRY] = {NONE, STRING, STRING, NONE, NONE},
    [LIMIT] = {NONE, NUMBER, NUMBER, NONE, NONE},
    [WRAPPER] = {NONE, NUMBER, NONE, NONE, NONE},
};

typedef struct findings {
    bool invalid;  /* every decoder must refuse it */
    bool unusual;  /* a group, a known field of another wire type, or a message to be merged */
    bool not_utf8; /* a string */
    bool lenient;  /* numbers that only some decoders refuse: tags of 6 bytes, numbers of 65 bits */
} findings;

static bool number(const uint8_t **at, const uint8_t *end, uint64_t *ret, findings *f)
{
    *ret = 0;
    for (unsigned i = 0; i < 10; i++) {
        if (*at == end) {
            f->invalid = true;
            return false;
        }
        uint8_t byte = *(*at)++;
        *ret |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (i == 9 && byte > 1)
            f->lenient = true;
        if (byte < 0x80)
            return true;
    }
    f->invalid = true;
    return false;
}

static bool is_utf8(const uint8_t *at, size_t len)
{
    bool valid = true;
    for (size_t i = 0; i < len && valid;)
        i += weir_utf8_len((const char *)at + i, len - i, &valid);
    return valid;
}

static void look(const uint8_t *at, size_t len, kind message, findings *f)
{
    const uint8_t *end = at + len;
    bool merged[8] = {false};
    while (at < end) {
        uint64_t tag, v;
        const uint8_t *begin = at;
        if (!number(&at, end, &tag, f))
            return;
        f->lenient |= at - begin > 5;
        kind field = tag >> 3 < 5 ? fields[message][tag >> 3] : NONE;
        if (tag >> 3 == 0 || tag >> 3 >= 1 << 29)
            f->lenient = true;
        if (field != NONE && (tag & 7) != (field == NUMBER ? 0 : 2))
            f->unusual = true;
        size_t fixed = (tag & 7) == 1 ? 8 : (tag & 7) == 5 ? 4 : 0;
        if ((tag & 7) == 3 || (tag & 7) == 4) {
            f->unusual =
                true; /* the fields of a group are looked at as if they were its message's */
            continue;
        }
        if ((tag & 7) > 5 || (size_t)(end - at) < fixed) {
            f->invalid = true;
            return;
        }
        at += fixed;
        if (fixed > 0 || !number(&at, end, &v, f)) {
            if (f->invalid)
                return;
            continue;
        }
        if ((tag & 7) != 2)
            continue;
        if (v > (size_t)(end - at)) {
            f->invalid = true;
            return;
        }
        if (field == STRING)
            f->not_utf8 |= !is_utf8(at, v);
        else if (field > STRING)
            look(at, v, field, f);
        f->unusual |= field >= LIMIT && merged[field];
        merged[field] = true;
        at += v;
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void check_slice(weir_slice found, ProtobufCBinaryData want)
{
    CHECK(found.len == want.len);
    CHECK(want.len == 0 || memcmp(found.at, want.data, want.len) == 0);
}

static void check_descriptor(const weir_rls_descriptor *found, const Expected__Descriptor *want)
{
    CHECK(found->entries_len == want->n_entries);
    for (size_t i = 0; i < want->n_entries; i++) {
        check_slice(found->entries[i].key, want->entries[i]->key);
        check_slice(found->entries[i].value, want->entries[i]->value);
    }
    CHECK(found->has_override == (want->limit != NULL));
    if (want->limit) {
        uint32_t unit = want->limit->unit < WEIR_RLS_UNITS ? want->limit->unit : 0;
        CHECK(found->override.requests_per_unit == want->limit->requests_per_unit);
        CHECK((uint32_t)found->override.unit == unit);
    }
    CHECK(found->has_hits == (want->hits_addend != NULL));
    CHECK(!want->hits_addend || found->hits == want->hits_addend->value);
    CHECK(found->negative == (want->is_negative_hits != 0));
}

static void check_request(const weir_rls_request *found, const Expected__Request *want)
{
    size_t kept = want->n_descriptors;
    if (kept > WEIR_RLS_DESCRIPTORS_KEPT)
        kept = WEIR_RLS_DESCRIPTORS_KEPT;
    check_slice(found->domain, want->domain);
    CHECK(found->hits_addend == want->hits_addend);
    CHECK(found->descriptors_len == kept);
    for (size_t i = 0; i < kept; i++)
        check_descriptor(&found->descriptors[i], want->descriptors[i]);
}

static void decode(const uint8_t *data, size_t size)
{
    static weir_rls_arena arena; /* for all inputs, because it is large */
    weir_rls_request found;
    findings f = {0};
    char *bytes = exact_copy(data, size);
    CHECK(arena.bytes || weir_rls_arena_open(&arena));
    arena.len = 0;
    const char *error = weir_rls_decode(&arena, (weir_slice){bytes, size}, &found);
    Expected__Request *want = expected__request__unpack(NULL, size, data);
    look(data, size, REQUEST, &f);
    if (!error && !f.unusual) {
        CHECK(!f.invalid && !f.not_utf8 && (want || f.lenient));
        if (want)
            check_request(&found, want);
    }
    if (error && want)
        CHECK(f.not_utf8 || f.lenient);
    if (want)
        expected__request__free_unpacked(want, NULL);
    free(bytes);
}

/* ---- responses ------------------------------------------------------------------------------- */

enum { STATUSES = 16 };

/* Takes a number from the input, of 0 to 8 bytes. */
static uint64_t take(const uint8_t **at, size_t *left)
{
    uint64_t v = 0;
    if (*left == 0)
        return 0;
    size_t n = **at % 9 < *left ? **at % 9 : *left - 1;
    memcpy(&v, *at + 1, n);
    *at += n + 1;
    *left -= n + 1;
    return v;
}

static void check_status(const weir_rls_status *s, const Expected__Status *found)
{
    CHECK(found->code == s->code && found->limit_remaining == s->remaining);
    CHECK(s->has_limit == (found->current_limit != NULL));
    CHECK(s->has_limit == (found->duration_until_reset != NULL));
    if (!s->has_limit)
        return;
    CHECK(found->current_limit->requests_per_unit == s->requests_per_unit);
    CHECK(found->current_limit->unit == s->unit);
    check_slice(s->name, found->current_limit->name);
    CHECK(found->duration_until_reset->seconds == s->reset_ns / 1000000000);
    CHECK(found->duration_until_reset->nanos == s->reset_ns % 1000000000);
}

static void encode(const uint8_t *data, size_t size)
{
    weir_rls_status statuses[STATUSES] = {0};
    weir_rls_header header = {.name = "RateLimit-Limit", .value = "7"};
    weir_rls_response response = {.statuses = statuses, .headers = &header};
    const char *text = (const char *)data;
    size_t left = size;
    response.code = (weir_rls_code)(take(&data, &left) % 3);
    response.headers_len = take(&data, &left) % 2;
    for (; left > 0 && response.statuses_len < STATUSES; response.statuses_len++) {
        weir_rls_status *s = &statuses[response.statuses_len];
        s->code = (weir_rls_code)(take(&data, &left) % 3);
        s->has_limit = take(&data, &left) % 4 > 0;
        s->requests_per_unit = (uint32_t)take(&data, &left);
        s->unit = (weir_rls_unit)(take(&data, &left) % WEIR_RLS_UNITS);
        s->name = (weir_slice){text, take(&data, &left) % (size + 1)};
        s->reset_ns = (int64_t)(take(&data, &left) >> 1);
        s->remaining = (uint32_t)take(&data, &left);
    }
    weir_buffer out;
    weir_buffer_init(&out, 1 << 24);
    weir_rls_encode(&response, &out);
    CHECK(!out.failed);
    Expected__Response *found =
        expected__response__unpack(NULL, weir_buffer_len(&out), weir_buffer_data(&out));
    CHECK(found && found->overall_code == response.code);
    CHECK(found->n_statuses == response.statuses_len);
    for (size_t i = 0; i < response.statuses_len; i++)
        check_status(&statuses[i], found->statuses[i]);
    CHECK(found->n_response_headers_to_add == response.headers_len);
    CHECK(protobuf_c_message_get_packed_size(&found->base) == weir_buffer_len(&out));
    expected__response__free_unpacked(found, NULL);
    weir_buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= WEIR_GRPC_MESSAGE_MAX)
        decode(data, size);
    encode(data, size);
    return 0;
}
