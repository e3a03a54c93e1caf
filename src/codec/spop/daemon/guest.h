/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_SPOP_DAEMON_GUEST_H
#define WEIR_CODEC_SPOP_DAEMON_GUEST_H
/* HAProxy's messages as a guest of the daemon. */

#include "cmd/config/keys.h"
#include "codec/spop/messages.h"

/* The section `spoe`. */
typedef struct spoe_settings {
    weir_spop_messages *messages; /* with one reference; NULL: none */
    const weir_spop_spec *specs;  /* that they were built with */
    size_t len;
    uint32_t variables; /* bits of weir_spop_variable(); 0: all */
} spoe_settings;

extern const config_guest spoe_guest;

#endif
