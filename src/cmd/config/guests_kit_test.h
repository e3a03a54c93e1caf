/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_GUESTS_KIT_TEST_H
#define WEIR_CMD_CONFIG_GUESTS_KIT_TEST_H
/* For tests of texts that name guests: the program may have been built without one of them. */

#include "cmd/config/keys.h"
#include "cmd/kit/commands.h"

#include <string.h>

/* Whether one of two texts names a guest that this program lacks. Then it says so. */
static inline bool names_absent_guest(const char *text, const char *other)
{
    bool found = false;
    for (size_t i = 0; config_guest_at(i); i++) {
        const char *name = config_guest_at(i)->key.name;
        found |=
            name && !config_guest_at(i)->feature && (strstr(text, name) || strstr(other, name));
    }
    if (found)
        printf("left out, because weir was built without a guest: %.60s\n", text);
    return found;
}

#endif
