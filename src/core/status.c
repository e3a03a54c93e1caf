/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The names of the statuses. */

#include <weir/weir.h>

const char *weir_status_str(weir_status st)
{
    switch (st) {
    case WEIR_OK:
        return "ok";
    case WEIR_E_RANGE:
        return "a number is out of range";
    case WEIR_E_SYNTAX:
        return "not what was expected";
    case WEIR_E_ROOM:
        return "the state must grow first";
    case WEIR_E_UNSUPPORTED:
        return "this policy cannot do that";
    case WEIR_E_NOMEM:
        return "out of memory";
    case WEIR_E_ZONE:
        return "not a known time zone";
    case WEIR_E_FULL:
        return "full";
    case WEIR_E_IO:
        return "the operating system refused";
    case WEIR_E_BUSY:
        return "too much contention";
    case WEIR_E_ABSENT:
        return "there is nothing of that name";
    }
    return "unknown status";
}
