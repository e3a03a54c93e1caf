/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: a CEL expression. Either it is refused with a column within the text, or its
 * value depends on nothing but the input. */

#include "fuzz.h"
#include "limitador/cel.h"
#include "rls/entry_kit_test.h"

static const weir_rls_entry entries[] = {ENTRY("a", "1"), ENTRY("b", "text"), ENTRY("a", "2")};
static const weir_rls_descriptor descriptors[] = {{.entries = entries, .entries_len = 3}};

static weir_cel_result text_of(const weir_cel *c, char *scratch, weir_slice *ret)
{
    weir_cel_input in = {.descriptors = descriptors,
                         .descriptors_len = 1,
                         .limit_id = {"x", 1},
                         .scratch = scratch,
                         .scratch_len = 256};
    weir_cel_result r = weir_cel_text(c, &in, ret);
    CHECK(in.scratch_used <= in.scratch_len);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char scratch[2][256];
    weir_slice found[2] = {{"", 0}, {"", 0}};
    weir_cel *c = NULL;
    weir_cel_error e;
    char *text = exact_copy(bytes, len);
    weir_status st = weir_cel_parse(&c, (weir_slice){text, len}, &e);
    free(text);
    if (st != WEIR_OK) {
        CHECK(st == WEIR_E_SYNTAX && e.column >= 1 && e.column <= len + 1);
        CHECK(memchr(e.text, '\0', sizeof e.text) && e.text[0] != '\0');
        return 0;
    }
    weir_cel_result first = text_of(c, scratch[0], &found[0]);
    CHECK(text_of(c, scratch[1], &found[1]) == first);
    CHECK(found[0].len == found[1].len);
    CHECK(found[0].len == 0 || memcmp(found[0].at, found[1].at, found[0].len) == 0);
    (void)weir_cel_unknown(c, false);
    weir_cel_free(c);
    return 0;
}
