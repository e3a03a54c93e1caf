/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Server reflection on a small set of descriptors: which file has a symbol, the names of services,
 * and the bytes of each response. */

#include "codec/grpc/kit_test.h"
#include "codec/grpc/wire.h"

#define REFLECTION "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"

enum { BY_FILENAME = 3, BY_SYMBOL = 4, BY_EXTENSION = 5, LIST_SERVICES = 7, UNKNOWN = 15 };

/* The set, its two files, and a field of it that is no file. */
static weir_buffer set, first, second, other;

static weir_slice slice(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

static weir_slice bytes_of(const weir_buffer *b)
{
    return (weir_slice){(const char *)weir_buffer_data(b), weir_buffer_len(b)};
}

/* Appends a descriptor with a name and one child; `child` is freed. */
static void put_named(weir_buffer *b, unsigned number, const char *name, unsigned child_number,
                      weir_buffer *child)
{
    weir_buffer whole;
    weir_buffer_init(&whole, 4096);
    weir_grpc_put_bytes(&whole, 1, slice(name));
    if (child) {
        weir_grpc_put_bytes(&whole, child_number, bytes_of(child));
        weir_buffer_free(child);
    }
    weir_grpc_put_bytes(b, number, bytes_of(&whole));
    weir_buffer_free(&whole);
}

static void begin_file(weir_buffer *b, const char *name, const char *package)
{
    weir_buffer_init(b, 4096);
    weir_grpc_put_bytes(b, 1, slice(name));
    if (package)
        weir_grpc_put_bytes(b, 2, slice(package));
}

/* a.proto: package p.q, message M { f; message N { enum E { V } } }, service S { Do }.
 * b.proto: no package, message T, service U. */
static int make_set(void **unused)
{
    (void)unused;
    weir_buffer fields[3];
    for (int i = 0; i < 3; i++)
        weir_buffer_init(&fields[i], 4096);
    begin_file(&first, "a.proto", "p.q");
    put_named(&fields[0], 1, "V", 0, NULL);
    weir_buffer value = fields[0];
    weir_buffer_init(&fields[0], 4096);
    weir_buffer_consume(&value, 2); /* the value without its tag and length */
    put_named(&fields[1], 4, "E", 2, &value);
    weir_slice enums = bytes_of(&fields[1]);
    weir_buffer nested;
    weir_buffer_init(&nested, 4096);
    weir_grpc_put_bytes(&nested, 1, slice("N"));
    weir_buffer_append(&nested, enums.at, enums.len);
    weir_grpc_put_bytes(&fields[0], 1, slice("M"));
    put_named(&fields[0], 2, "f", 0, NULL);
    weir_grpc_put_bytes(&fields[0], 3, bytes_of(&nested));
    weir_grpc_put_bytes(&first, 4, bytes_of(&fields[0]));
    weir_grpc_put_bytes(&fields[2], 1, slice("S"));
    put_named(&fields[2], 2, "Do", 0, NULL);
    weir_grpc_put_bytes(&first, 6, bytes_of(&fields[2]));
    begin_file(&second, "b.proto", NULL);
    put_named(&second, 4, "T", 0, NULL);
    put_named(&second, 6, "U", 0, NULL);
    begin_file(&other, "c.proto", "hidden");
    put_named(&other, 4, "H", 0, NULL);
    weir_buffer_init(&set, 4096);
    weir_grpc_put_bytes(&set, 2, bytes_of(&other));
    weir_grpc_put_bytes(&set, 1, bytes_of(&first));
    weir_grpc_put_bytes(&set, 1, bytes_of(&second));
    weir_buffer_free(&nested);
    for (int i = 0; i < 3; i++)
        weir_buffer_free(&fields[i]);
    return 0;
}

static int free_set(void **unused)
{
    (void)unused;
    weir_buffer *const all[] = {&set, &first, &second, &other};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        weir_buffer_free(all[i]);
    return 0;
}

/* Appends the response with an error. */
static void put_expected_error(weir_buffer *b, weir_grpc_status status, const char *text)
{
    weir_buffer error;
    weir_buffer_init(&error, 4096);
    weir_grpc_put_varint(&error, 1 << 3);
    weir_grpc_put_varint(&error, status);
    weir_grpc_put_bytes(&error, 2, slice(text));
    weir_grpc_put_bytes(b, 7, bytes_of(&error));
    weir_buffer_free(&error);
}

/* Sends a request, and expects a response with `expected` after the host and the request. */
static void expect_response(fixture *f, weir_slice request, const char *host,
                            const weir_buffer *expected)
{
    uint8_t body[512];
    weir_buffer whole;
    f->options.descriptors = bytes_of(&set);
    weir_buffer_init(&whole, 4096);
    if (host)
        weir_grpc_put_bytes(&whole, 1, slice(host));
    weir_grpc_put_bytes(&whole, 2, request);
    weir_buffer_append(&whole, weir_buffer_data(expected), weir_buffer_len(expected));
    int32_t id = submit_body(f, REFLECTION, body, frame_message(body, request.at, request.len));
    exchange(f);
    const response *r = response_of(f, id);
    assert_string_equal(r->status, "0");
    assert_int_equal(r->body_len, 5 + weir_buffer_len(&whole));
    assert_memory_equal(r->body + 5, weir_buffer_data(&whole), weir_buffer_len(&whole));
    weir_buffer_free(&whole);
}

/* Expects one of the files, or the error "not found". */
static void expect_file(fixture *f, unsigned by, const char *what, const weir_buffer *file)
{
    weir_buffer request, expected, answer;
    weir_buffer_init(&request, 4096);
    weir_buffer_init(&expected, 4096);
    weir_buffer_init(&answer, 4096);
    weir_grpc_put_bytes(&request, by, slice(what));
    if (file) {
        weir_grpc_put_bytes(&answer, 1, bytes_of(file));
        weir_grpc_put_bytes(&expected, 4, bytes_of(&answer));
    } else {
        put_expected_error(&expected, WEIR_GRPC_NOT_FOUND, "not found");
    }
    expect_response(f, bytes_of(&request), NULL, &expected);
    weir_buffer_free(&request);
    weir_buffer_free(&expected);
    weir_buffer_free(&answer);
}

static void files_have_names(void **state)
{
    expect_file(*state, BY_FILENAME, "a.proto", &first);
    expect_file(*state, BY_FILENAME, "b.proto", &second);
    static const char *const absent[] = {"c.proto", "a.protX", "a.proto2", "a.prot", ""};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        expect_file(*state, BY_FILENAME, absent[i], NULL);
}

static void files_have_symbols(void **state)
{
    static const char *const in_first[] = {"p.q.M",       "p.q.M.f", "p.q.M.N",  "p.q.M.N.E",
                                           "p.q.M.N.E.V", "p.q.S",   "p.q.S.Do", "p.q.M."},
                             *const in_second[] = {"T", "U"},
                             *const absent[] = {"",      "p",     "p.q",      "p.q.",    "M",
                                                "p.q.N", "p.q.f", "p.q.MX",   "p.qX.M",  "p.q.T",
                                                "T.f",   "TX",    "hidden.H", "p.q.S.f", "p.q.M.E"};
    for (size_t i = 0; i < sizeof in_first / sizeof in_first[0]; i++)
        expect_file(*state, BY_SYMBOL, in_first[i], &first);
    for (size_t i = 0; i < sizeof in_second / sizeof in_second[0]; i++)
        expect_file(*state, BY_SYMBOL, in_second[i], &second);
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        expect_file(*state, BY_SYMBOL, absent[i], NULL);
}

static void services_have_the_name_of_their_package(void **state)
{
    static const char *const names[] = {"p.q.S", "U"};
    weir_buffer request, list, expected;
    weir_buffer_init(&request, 4096);
    weir_buffer_init(&list, 4096);
    weir_buffer_init(&expected, 4096);
    weir_grpc_put_bytes(&request, LIST_SERVICES, slice("*"));
    for (size_t i = 0; i < 2; i++)
        put_named(&list, 1, names[i], 0, NULL);
    weir_grpc_put_bytes(&expected, 6, bytes_of(&list));
    expect_response(*state, bytes_of(&request), NULL, &expected);
    weir_buffer_free(&request);
    weir_buffer_free(&list);
    weir_buffer_free(&expected);
}

/* The host is repeated. The last known field of a request counts, and there must be one. */
static void requests_have_a_host_and_one_question(void **state)
{
    static const struct {
        unsigned first, last; /* numbers of the fields */
        weir_grpc_status status;
        const char *error;
    } rows[] = {
        {BY_FILENAME, BY_EXTENSION, WEIR_GRPC_NOT_FOUND, "no message has extensions"},
        {BY_EXTENSION, BY_FILENAME, WEIR_GRPC_NOT_FOUND, "not found"},
        {BY_FILENAME, UNKNOWN, WEIR_GRPC_NOT_FOUND, "not found"},
        {UNKNOWN, 2, WEIR_GRPC_INVALID_ARGUMENT, "expected a request"},
        {UNKNOWN, 8, WEIR_GRPC_INVALID_ARGUMENT, "expected a request"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_buffer request, expected;
        weir_buffer_init(&request, 4096);
        weir_buffer_init(&expected, 4096);
        weir_grpc_put_bytes(&request, 1, slice("h"));
        weir_grpc_put_bytes(&request, rows[i].first, slice("x"));
        weir_grpc_put_bytes(&request, rows[i].last, slice("x"));
        weir_grpc_put_varint(&request, LIST_SERVICES << 3); /* not of this type */
        weir_grpc_put_varint(&request, 1);
        put_expected_error(&expected, rows[i].status, rows[i].error);
        expect_response(*state, bytes_of(&request), "h", &expected);
        weir_buffer_free(&request);
        weir_buffer_free(&expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_have_names),
        TEST(files_have_symbols),
        TEST(services_have_the_name_of_their_package),
        TEST(requests_have_a_host_and_one_question),
    };
    return cmocka_run_group_tests(tests, make_set, free_set);
}
