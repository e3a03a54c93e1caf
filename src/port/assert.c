/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/assert.h"

#ifdef WEIR_ASSERTS
#include <stdio.h>
#include <stdlib.h>

void port_assert_failed(const char *expression, const char *file, int line)
{
    dprintf(2, "%s:%d: assertion failed: %s\n", file, line, expression);
    abort();
}
#endif
