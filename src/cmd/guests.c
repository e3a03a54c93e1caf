/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The guests of this program, in the order in which they are read, opened and printed. A guest that
 * uses another one follows it. To add one, write its folder, and add a row here. */

#include "cmd/kit/commands.h"
#include "codec/spop/daemon/guest.h"
#include "rls/daemon/guest.h"
#include "telemetry/guest.h"

#ifdef WEIR_LIMITADOR
#include "limitador/daemon/guest.h"
#else
static void refuse(config_reader *r, const config_place *place, const config_key *key, void *base)
{
    (void)base;
    config_error_on(r->errors, place->key, place, "this weir was built without %s", key->name);
}

static const config_guest limitador_guest = {
    .key = {"limitador", CONFIG_OTHER, .read = refuse, .left_out = true}, .size = 1};
#endif

void weir_use_guests(void)
{
    static const config_guest *const guests[] = {&envoy_guest, &limitador_guest, &spoe_guest,
                                                 &telemetry_guest};
    config_set_guests(guests, CONFIG_LENGTH(guests));
}
