/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The error message of each weir_status. */

#include <weir/weir.h>

const char *weir_status_str(weir_status st)
{
    switch (st) {
    case WEIR_OK:
        return "ok";
    case WEIR_E_RANGE:
        return "number out of range";
    case WEIR_E_SYNTAX:
        return "syntax error";
    case WEIR_E_ROOM:
        return "the state is too small and must grow";
    case WEIR_E_UNSUPPORTED:
        return "the policy does not support this operation";
    case WEIR_E_NOMEM:
        return "out of memory";
    case WEIR_E_ZONE:
        return "unknown time zone";
    case WEIR_E_FULL:
        return "full";
    case WEIR_E_IO:
        return "a system call failed";
    case WEIR_E_BUSY:
        return "busy, try again later";
    case WEIR_E_ABSENT:
        return "not found";
    }
    return "unknown status";
}
