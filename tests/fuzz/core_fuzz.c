/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: a policy and a run of requests. Every property holds. */

#include "fuzz.h"

#include "properties/properties.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    input in;
    CHECK(!input_read(&in, bytes, len) || all_properties(&in));
    return 0;
}
