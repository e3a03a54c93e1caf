/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Any bytes as a policy and a run of requests: every property holds. */

#include "properties/properties.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    input in;
    if (input_read(&in, bytes, len) && !all_properties(&in))
        abort();
    return 0;
}
