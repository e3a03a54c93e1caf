/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: the text of a policy. Either it is refused with a column within the text, or
 * its canonical text is parsed to the same policy. */

#include "fuzz.h"

#include <weir/weir_zone.h>

static const weir_zone *any_zone(void *ctx, const char *name, size_t len)
{
    static weir_zone zones[WEIR_LAYERS_MAX * 2];
    size_t *used = ctx;
    if (*used == WEIR_LAYERS_MAX * 2)
        *used = 0;
    weir_zone *zone = &zones[(*used)++];
    memset(zone, 0, sizeof *zone);
    memcpy(zone->name, name, len);
    return zone;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    size_t used = 0;
    const weir_zones zones = {.find = any_zone, .ctx = &used};
    weir_policy p, again;
    weir_policy_error e;
    if (weir_policy_parse(&p, (const char *)bytes, len, &zones, &e) != WEIR_OK) {
        CHECK(e.column >= 1 && e.column <= len + 1);
        CHECK(memchr(e.text, '\0', sizeof e.text) && e.text[0] != '\0');
        return 0;
    }
    char text[WEIR_POLICY_TEXT_MAX], twice[WEIR_POLICY_TEXT_MAX], report[WEIR_POLICY_REPORT_MAX];
    size_t text_len = weir_policy_print(&p, text, sizeof text);
    CHECK(text_len < sizeof text - 1);
    CHECK(weir_policy_parse(&again, text, text_len, &zones, NULL) == WEIR_OK);
    weir_policy_print(&again, twice, sizeof twice);
    CHECK(strcmp(text, twice) == 0);
    CHECK(weir_policy_report(&p, report, sizeof report) < sizeof report - 1);
    CHECK(weir_state_words(&p, 0) >= p.layers);
    return 0;
}
