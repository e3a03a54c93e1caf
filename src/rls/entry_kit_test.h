/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_ENTRY_KIT_TEST_H
#define WEIR_RLS_ENTRY_KIT_TEST_H

/* An entry of a descriptor: a key and a value, which are literals. */
#define ENTRY(k, v)                                                                                \
    {                                                                                              \
        {k, sizeof(k) - 1},                                                                        \
        {                                                                                          \
            v, sizeof(v) - 1                                                                       \
        }                                                                                          \
    }

#endif
