/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The rare parts of reading protobuf: long numbers, and groups. */

#include "codec/grpc/wire.h"

enum { GROUPS_MAX = 32 /* groups within groups, which only unknown fields have */ };

bool weir_grpc_read_long_varint(weir_grpc_reader *r, uint64_t *ret)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        if (r->at == r->end)
            return weir_grpc_fail(r, "invalid protobuf: a number is cut off");
        uint8_t byte = *r->at++;
        if (shift == 63 && byte > 1)
            return weir_grpc_fail(r, "invalid protobuf: a number has more than 64 bits");
        v |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *ret = v;
            return true;
        }
    }
}

bool weir_grpc_skip_group(weir_grpc_reader *r, uint32_t tag)
{
    uint32_t open[GROUPS_MAX];
    size_t depth = 0;
    open[depth++] = tag >> 3;
    while (depth > 0) {
        weir_grpc_field f = {0};
        if (!weir_grpc_read_tag(r, &f.tag))
            return false;
        unsigned type = f.tag & 7;
        if (type == WEIR_GRPC_GROUP_END && f.tag >> 3 != open[--depth])
            return weir_grpc_fail(r, "invalid protobuf: a group ends that did not begin");
        if (type == WEIR_GRPC_GROUP && depth == GROUPS_MAX)
            return weir_grpc_fail(r, "invalid protobuf: groups are nested too deeply");
        if (type == WEIR_GRPC_GROUP)
            open[depth++] = f.tag >> 3;
        else if (type != WEIR_GRPC_GROUP_END && !weir_grpc_read_value(r, &f))
            return false;
    }
    return true;
}
