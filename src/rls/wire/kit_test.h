/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_WIRE_KIT_TEST_H
#define WEIR_RLS_WIRE_KIT_TEST_H
/* Messages of the Rate Limit Service, for the tests of their encodings: protobuf in hexadecimal,
 * JSON, and requests as text. The Go types of github.com/envoyproxy/go-control-plane/envoy v1.40.0
 * made them, with proto.Marshal and protojson.Marshal. */

#include "rls/wire/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct request_vector {
    const char *hex, *json, *text;
} request_vector;

static const request_vector request_vectors[] = {
    {"", "{}", " 0:"},
    {"0a0164", "{\"domain\":\"d\"}", "d 0:"},
    {"0a046564676512280a1a0a0e72656d6f74655f61646472657373120831302e302e302e310a0a0a04"
     "7061746812022f6112290a130a0b67656e657269635f6b65791204736c6f770a120a047573657212"
     "0ac3a974c3a920f09f98801801",
     "{\"domain\":\"edge\",\"descriptors\":[{\"entries\":[{\"key\":\"remote_address\","
     "\"value\":\"10.0.0.1\"},{\"key\":\"path\",\"value\":\"/a\"}]},{\"entries\":[{\"k"
     "ey\":\"generic_key\",\"value\":\"slow\"},{\"key\":\"user\",\"value\":\"été 😀\"}]"
     "}],\"hitsAddend\":1}",
     "edge 1: [remote_address=10.0.0.1,path=/a] [generic_key=slow,user=été 😀]"},
    {"0a0164120012020a00120a0a080a016b120361006218ffffffff0f",
     "{\"domain\":\"d\",\"descriptors\":[{},{\"entries\":[{}]},{\"entries\":[{\"key\":"
     "\"k\",\"value\":\"a\\u0000b\"}]}],\"hitsAddend\":4294967295}",
     "d 4294967295: [] [=] [k=a<0>b]"},
    {"0a016412140a060a016b120176120808ffffffff0f10061a0012190a060a016b12017612001a0b08"
     "ffffffffffffffffff012001",
     "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":\"k\",\"value\":\"v\"}"
     "],\"limit\":{\"requestsPerUnit\":4294967295,\"unit\":\"YEAR\"},\"hitsAddend\":\""
     "0\"},{\"entries\":[{\"key\":\"k\",\"value\":\"v\"}],\"limit\":{},\"hitsAddend\":"
     "\"18446744073709551615\",\"isNegativeHits\":true}]}",
     "d 0: [k=v limit 4294967295/6 hits 0] [k=v limit 0/0 hits 18446744073709551615 ne"
     "gative]"},
};
enum { REQUEST_VECTORS = sizeof request_vectors / sizeof request_vectors[0] };

static inline void put_text(weir_buffer *b, weir_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i])
            weir_buffer_append_byte(b, (uint8_t)text.at[i]);
        else
            weir_buffer_append(b, "<0>", 3);
    }
}

static inline void put_descriptor(weir_buffer *b, const weir_rls_descriptor *d)
{
    weir_buffer_append(b, " [", 2);
    for (size_t i = 0; i < d->entries_len; i++) {
        weir_buffer_append(b, ",", i > 0);
        put_text(b, d->entries[i].key);
        weir_buffer_append(b, "=", 1);
        put_text(b, d->entries[i].value);
    }
    if (d->has_override)
        weir_buffer_printf(b, " limit %" PRIu32 "/%d", d->override.requests_per_unit,
                           (int)d->override.unit);
    if (d->has_hits)
        weir_buffer_printf(b, " hits %" PRIu64, d->hits);
    weir_buffer_printf(b, "%s]", d->negative ? " negative" : "");
}

/* Appends a request as the vectors' text, with a NUL at the end. */
static inline void put_request(weir_buffer *b, const weir_rls_request *r)
{
    put_text(b, r->domain);
    weir_buffer_printf(b, " %" PRIu32 ":", r->hits_addend);
    for (size_t i = 0; i < r->descriptors_len; i++)
        put_descriptor(b, &r->descriptors[i]);
    weir_buffer_append(b, "", 1);
}

/* Decodes hexadecimal digits. The result is allocated with exactly its length. */
static inline weir_slice bytes_of_hex(const char *hex)
{
    size_t len = strlen(hex) / 2;
    char *at = malloc(len > 0 ? len : 1);
    for (size_t i = 0; i < len; i++)
        at[i] = (char)(weir_hex_digit(hex[2 * i]) * 16 + weir_hex_digit(hex[2 * i + 1]));
    return (weir_slice){at, len};
}

/* ---- responses ------------------------------------------------------------------------------- */

typedef struct response_vector {
    const char *hex, *json;
    const weir_rls_response *response;
} response_vector;

static const weir_rls_response empty_response;

static const weir_rls_status no_limits[] = {
    {.code = WEIR_RLS_OK}, {.code = WEIR_RLS_OK, .remaining = UINT32_MAX}, /* unlimited */
};
static const weir_rls_response no_limits_response = {
    .code = WEIR_RLS_OK, .statuses = no_limits, .statuses_len = 2};

static const weir_rls_status over[] = {
    {.code = WEIR_RLS_OVER_LIMIT,
     .has_limit = true,
     .requests_per_unit = 1,
     .unit = WEIR_RLS_MINUTE,
     .reset_ns = INT64_C(49000000000)},
    {.code = WEIR_RLS_OK,
     .has_limit = true,
     .requests_per_unit = 300,
     .unit = WEIR_RLS_WEEK,
     .name = {"per \"week\"\n\xc3\xa9", 13},
     .remaining = 299,
     .reset_ns = INT64_C(604800250000000)},
    {.code = WEIR_RLS_OK, .has_limit = true},
};
static const weir_rls_header over_headers[] = {{"RateLimit-Limit", "1"}, {"RateLimit-Reset", ""}};
static const weir_rls_response over_response = {.code = WEIR_RLS_OVER_LIMIT,
                                                .statuses = over,
                                                .statuses_len = 3,
                                                .headers = over_headers,
                                                .headers_len = 2};

#define N10 "nnnnnnnnnn"
static const weir_rls_status large[] = {
    {.code = WEIR_RLS_OK,
     .has_limit = true,
     .requests_per_unit = UINT32_MAX,
     .unit = WEIR_RLS_YEAR,
     .name = {N10 N10 N10 N10 N10 N10 N10 N10 N10 N10 N10 N10 N10 N10 N10 N10 N10 N10 N10 N10, 200},
     .remaining = UINT32_MAX - 1,
     .reset_ns = INT64_MAX},
    {.code = WEIR_RLS_OK,
     .has_limit = true,
     .requests_per_unit = 5,
     .unit = WEIR_RLS_SECOND,
     .remaining = 4,
     .reset_ns = 1500},
    {.code = WEIR_RLS_OK,
     .has_limit = true,
     .requests_per_unit = 5,
     .unit = WEIR_RLS_SECOND,
     .remaining = 4,
     .reset_ns = 1000000001},
};
static const weir_rls_response large_response = {
    .code = WEIR_RLS_OK, .statuses = large, .statuses_len = 3};

/* One value of each kind, as Python's google.protobuf encodes them. */
static weir_rls_value metadata_values[] = {
    {.kind = WEIR_RLS_MAP, .first = &metadata_values[1]},
    {.name = {"a", 1}, .next = &metadata_values[2]},
    {.name = {"b", 1}, .kind = WEIR_RLS_BOOL, .truth = true, .next = &metadata_values[3]},
    {.name = {"c", 1}, .kind = WEIR_RLS_NUMBER, .number = -2.5, .next = &metadata_values[4]},
    {.name = {"d", 1}, .kind = WEIR_RLS_TEXT, .text = {"x\"y", 3}, .next = &metadata_values[5]},
    {.name = {"e", 1},
     .kind = WEIR_RLS_LIST,
     .first = &metadata_values[6],
     .next = &metadata_values[10]},
    {.kind = WEIR_RLS_NUMBER, .number = 1, .next = &metadata_values[7]},
    {.kind = WEIR_RLS_MAP, .first = &metadata_values[8], .next = &metadata_values[9]},
    {.name = {"f", 1}, .kind = WEIR_RLS_TEXT},
    {.kind = WEIR_RLS_LIST},
    {.name = {"g", 1}, .kind = WEIR_RLS_MAP, .first = &metadata_values[11]},
    {.kind = WEIR_RLS_NUMBER, .number = 1e21, .next = &metadata_values[12]},
    {.name = {"h", 1}, .kind = WEIR_RLS_BOOL},
};
static const weir_rls_response metadata_response = {.code = WEIR_RLS_OK,
                                                    .metadata = metadata_values};

static const response_vector response_vectors[] = {
    {"0801"
     "3274"
     "0a070a0161120208000a070a0162120220010a0e0a016312091100000000000004c00a0a0a016412051a"
     "037822790a230a0165121e321c0a0911000000000000f03f0a0b2a090a070a016612021a000a0232000a"
     "1f0a0167121a2a180a0d0a0012091150efe2d6e41a4b440a070a01681202200"
     "0",
     "{\"overallCode\":\"OK\",\"dynamicMetadata\":{\"a\":null,\"b\":true,\"c\":-2.5,\"d\":"
     "\"x\\\"y\",\"e\":[1,{\"f\":\"\"},[]],\"g\":{\"\":1e+21,\"h\":false}}}",
     &metadata_response},
    {"", "{}", &empty_response},
    {"0801120208011208080118ffffffff0f",
     "{\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OK\"},{\"code\":\"OK\",\"limit"
     "Remaining\":4294967295}]}",
     &no_limits_response},
    {"0802120c08021204080110022202083112260801121408ac0210071a0d70657220227765656b220a"
     "c3a918ab0222090880f5241080e59a7712060801120022001a140a0f526174654c696d69742d4c69"
     "6d69741201311a110a0f526174654c696d69742d5265736574",
     "{\"overallCode\":\"OVER_LIMIT\",\"statuses\":[{\"code\":\"OVER_LIMIT\",\"current"
     "Limit\":{\"requestsPerUnit\":1,\"unit\":\"MINUTE\"},\"durationUntilReset\":\"49s"
     "\"},{\"code\":\"OK\",\"currentLimit\":{\"name\":\"per \\\"week\\\"\\né\",\"reque"
     "stsPerUnit\":300,\"unit\":\"WEEK\"},\"limitRemaining\":299,\"durationUntilReset"
     "\":\"604800.250s\"},{\"code\":\"OK\",\"currentLimit\":{},\"durationUntilReset\":"
     "\"0s\"}],\"responseHeadersToAdd\":[{\"key\":\"RateLimit-Limit\",\"value\":\"1\"}"
     ",{\"key\":\"RateLimit-Reset\"}]}",
     &over_response},
    {"080112ec01080112d30108ffffffff0f10061ac8016e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e"
     "6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e"
     "6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e"
     "6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e"
     "6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e"
     "6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e18feffffff0f220c0884fa85ae2210ffafcb97"
     "03120f08011204080510011804220310dc0b121008011204080510011804220408011001",
     "{\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OK\",\"currentLimit\":{\"name"
     "\":\"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
     "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
     "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\",\"requestsPerUnit\":4294967295,"
     "\"unit\":\"YEAR\"},\"limitRemaining\":4294967294,\"durationUntilReset\":\"922337"
     "2036.854775807s\"},{\"code\":\"OK\",\"currentLimit\":{\"requestsPerUnit\":5,\"un"
     "it\":\"SECOND\"},\"limitRemaining\":4,\"durationUntilReset\":\"0.000001500s\"},{"
     "\"code\":\"OK\",\"currentLimit\":{\"requestsPerUnit\":5,\"unit\":\"SECOND\"},\"l"
     "imitRemaining\":4,\"durationUntilReset\":\"1.000000001s\"}]}",
     &large_response},
};
enum { RESPONSE_VECTORS = sizeof response_vectors / sizeof response_vectors[0] };

#endif
