/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Server reflection, grpc.reflection.v1 and v1alpha, whose messages are the same: names the
 * services, and finds the files of the FileDescriptorSet by name or by symbol. It searches the
 * serialised descriptors. */

#include "codec/grpc/connection.h"
#include "codec/grpc/session.h"
#include "codec/grpc/wire.h"

/* The numbers of the fields in google/protobuf/descriptor.proto. */
enum {
    SET_FILE = 1,
    NAME = 1, /* of a file, message, field, enum, enum value, service and method */
    FILE_PACKAGE = 2,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    FILE_EXTENSION = 7,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    MESSAGE_EXTENSION = 6,
    SERVICE_METHOD = 2,
};

/* The same of grpc/reflection/v1/reflection.proto. */
enum {
    BY_FILENAME = 3,
    BY_SYMBOL = 4,
    BY_EXTENSION = 5,
    ALL_EXTENSIONS = 6,
    LIST_SERVICES = 7,
    VALID_HOST = 1,
    ORIGINAL_REQUEST = 2,
    FILE_RESPONSE = 4,
    LIST_RESPONSE = 6,
    ERROR_RESPONSE = 7,
};

enum {
    RESPONSE_MAX = WEIR_GRPC_STREAM_OUT_MAX / 2,
    NESTED_MAX = 32,
    CREDITS = 20, /* that a request costs: it searches all descriptors */
};

/* ---- descriptors ----------------------------------------------------------------------------- */

/* The first field `number` of a message that has the type bytes; empty if there is none. */
static weir_slice find(weir_slice message, uint64_t number)
{
    weir_grpc_reader r = weir_grpc_reader_of(message);
    weir_grpc_field field;
    while (weir_grpc_next_field(&r, &field)) {
        if (weir_grpc_bytes_number(&field) == number)
            return field.bytes;
    }
    return (weir_slice){"", 0};
}

static bool is(weir_slice a, weir_slice b)
{
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

/* If `symbol` begins with `name`, and ends there or goes on with '.', removes that from *symbol. */
static bool strip(weir_slice *symbol, weir_slice name)
{
    if (symbol->len < name.len || memcmp(symbol->at, name.at, name.len) != 0)
        return false;
    weir_slice rest = {symbol->at + name.len, symbol->len - name.len};
    if (rest.len > 0 && rest.at[0] != '.')
        return false;
    if (rest.len > 0)
        rest = (weir_slice){rest.at + 1, rest.len - 1};
    *symbol = rest;
    return true;
}

/* Returns whether a message, an enum or a service declares a symbol.
 *  symbol  what follows the name of its parent. */
static bool declares(weir_slice parent, weir_slice symbol, int depth)
{
    if (!strip(&symbol, find(parent, NAME)))
        return false;
    if (symbol.len == 0)
        return true;
    weir_grpc_reader r = weir_grpc_reader_of(parent);
    weir_grpc_field field;
    bool found = false;
    while (depth < NESTED_MAX && !found && weir_grpc_next_field(&r, &field)) {
        /* Fields 2 to 6 of a message: fields, messages, enums and extensions. Field 2 of a service
         * or an enum: methods or values. */
        uint32_t number = weir_grpc_bytes_number(&field);
        bool child = number == MESSAGE_FIELD || number == MESSAGE_NESTED ||
                     number == MESSAGE_ENUM || number == MESSAGE_EXTENSION;
        found = child && declares(field.bytes, symbol, depth + 1);
    }
    return found;
}

static bool file_declares(weir_slice file, weir_slice symbol)
{
    weir_slice package = find(file, FILE_PACKAGE);
    weir_grpc_reader r = weir_grpc_reader_of(file);
    weir_grpc_field field;
    bool found = false;
    if (package.len > 0 && !strip(&symbol, package))
        return false;
    while (symbol.len > 0 && !found && weir_grpc_next_field(&r, &field)) {
        uint32_t number = weir_grpc_bytes_number(&field);
        bool child = number >= FILE_MESSAGE && number <= FILE_EXTENSION;
        found = child && declares(field.bytes, symbol, 0);
    }
    return found;
}

/* Returns the file with a name or a symbol; empty if there is none. */
static weir_slice find_file(weir_slice set, uint64_t by, weir_slice what)
{
    weir_grpc_reader r = weir_grpc_reader_of(set);
    weir_grpc_field file;
    while (weir_grpc_next_field(&r, &file)) {
        if (weir_grpc_bytes_number(&file) != SET_FILE)
            continue;
        if (by == BY_FILENAME ? is(find(file.bytes, NAME), what) : file_declares(file.bytes, what))
            return file.bytes;
    }
    return (weir_slice){"", 0};
}

/* ---- responses ------------------------------------------------------------------------------- */

static void put_error(weir_buffer *out, weir_grpc_status status, const char *text)
{
    uint8_t memory[128];
    size_t len = strlen(text);
    memory[0] = 1 << 3; /* error_code */
    memory[1] = (uint8_t)status;
    memory[2] = 2 << 3 | 2; /* error_message */
    memory[3] = (uint8_t)len;
    memcpy(memory + 4, text, len);
    weir_grpc_put_bytes(out, ERROR_RESPONSE, (weir_slice){(const char *)memory, 4 + len});
}

static void put_file(weir_buffer *out, weir_slice file)
{
    weir_buffer response;
    weir_buffer_init(&response, RESPONSE_MAX);
    weir_grpc_put_bytes(&response, 1, file);
    if (file.len == 0)
        put_error(out, WEIR_GRPC_NOT_FOUND, "not found");
    else
        weir_grpc_put_bytes(
            out, FILE_RESPONSE,
            (weir_slice){(const char *)weir_buffer_data(&response), weir_buffer_len(&response)});
    weir_buffer_free(&response);
}

/* Appends the names of the services of a file. */
static void list_file(weir_buffer *list, weir_slice file)
{
    weir_slice package = find(file, FILE_PACKAGE);
    weir_grpc_reader r = weir_grpc_reader_of(file);
    weir_grpc_field field;
    while (weir_grpc_next_field(&r, &field)) {
        if (weir_grpc_bytes_number(&field) != FILE_SERVICE)
            continue;
        weir_slice name = find(field.bytes, NAME);
        size_t dot = package.len > 0, len = package.len + dot + name.len;
        weir_buffer service;
        weir_buffer_init(&service, RESPONSE_MAX);
        weir_grpc_put_varint(&service, NAME << 3 | 2);
        weir_grpc_put_varint(&service, len);
        weir_buffer_append(&service, package.at, package.len);
        weir_buffer_append(&service, ".", dot);
        weir_buffer_append(&service, name.at, name.len);
        weir_grpc_put_bytes(
            list, 1,
            (weir_slice){(const char *)weir_buffer_data(&service), weir_buffer_len(&service)});
        weir_buffer_free(&service);
    }
}

static void put_services(weir_buffer *out, weir_slice set)
{
    weir_buffer list;
    weir_grpc_reader r = weir_grpc_reader_of(set);
    weir_grpc_field file;
    weir_buffer_init(&list, RESPONSE_MAX);
    while (weir_grpc_next_field(&r, &file)) {
        if (weir_grpc_bytes_number(&file) == SET_FILE)
            list_file(&list, file.bytes);
    }
    weir_grpc_put_bytes(
        out, LIST_RESPONSE,
        (weir_slice){(const char *)weir_buffer_data(&list), weir_buffer_len(&list)});
    weir_buffer_free(&list);
}

/* Appends a ServerReflectionResponse. Returns false if the request is invalid. */
static bool put_response(weir_buffer *out, weir_slice set, weir_slice request)
{
    weir_grpc_reader r = weir_grpc_reader_of(request);
    weir_grpc_field field, asked = {0};
    weir_slice host = find(request, 1);
    while (weir_grpc_next_field(&r, &field)) { /* of a oneof, the last field counts */
        uint32_t number = weir_grpc_bytes_number(&field);
        if (number >= BY_FILENAME && number <= LIST_SERVICES)
            asked = field;
    }
    if (r.error)
        return false;
    uint32_t number = weir_grpc_bytes_number(&asked);
    if (host.len > 0)
        weir_grpc_put_bytes(out, VALID_HOST, host);
    weir_grpc_put_bytes(out, ORIGINAL_REQUEST, request);
    if (number == LIST_SERVICES)
        put_services(out, set);
    else if (number == BY_FILENAME || number == BY_SYMBOL)
        put_file(out, find_file(set, number, asked.bytes));
    else if (number == BY_EXTENSION || number == ALL_EXTENSIONS)
        put_error(out, WEIR_GRPC_NOT_FOUND, "no message has extensions");
    else
        put_error(out, WEIR_GRPC_INVALID_ARGUMENT, "expected a request");
    return true;
}

static void reflect(weir_grpc_connection *c, weir_grpc_stream *s)
{
    weir_buffer response;
    weir_grpc_charge(c, CREDITS);
    weir_buffer_init(&response, 2 * WEIR_GRPC_STREAM_OUT_MAX);
    if (!put_response(&response, c->options->descriptors,
                      (weir_slice){(const char *)s->message, s->message_len}))
        weir_grpc_end(c, s, WEIR_GRPC_INTERNAL, "invalid protobuf");
    else if (response.failed)
        weir_grpc_end(c, s, WEIR_GRPC_RESOURCE_EXHAUSTED, "the response is too long");
    else
        weir_grpc_send(c, s, weir_buffer_data(&response), weir_buffer_len(&response));
    weir_buffer_free(&response);
    weir_grpc_drop_message(c, s);
}

const weir_grpc_own_method weir_grpc_reflection[2] = {
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", .right = WEIR_MAY_ENTER,
     .streams = true, .converses = true, .run = reflect},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", .right = WEIR_MAY_ENTER,
     .streams = true, .converses = true, .run = reflect},
};
