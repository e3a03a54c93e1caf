/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The report as tables: the columns of several policies stay aligned, whatever the figures are. */

#include "cmd/replay/report.h"

#include "cmd/replay/policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The table of figures of two policies over so many requests, of which one tenth is denied. */
static char *table_of(uint64_t requests)
{
    replay_stats stats = {.requests = requests};
    replay_timeline_move(&stats.timeline, 0);
    replay_policy policies[2] = {{.text = "gcra 1/s"}, {.text = "gcra 2/s"}};
    replay_report *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->stats = &stats;
    r->policies = 2;
    for (size_t i = 0; i < 2; i++) {
        policies[i].counts = (replay_counts){.denied = requests / 10, .window_ns = 1000000000};
        r->policy[i] = (replay_policy_report){
            .policy = &policies[i], .keys = 1, .allowed = requests - requests / 10};
    }
    weir_buffer out;
    weir_buffer_init(&out, SIZE_MAX / 4);
    replay_report_text(&out, r, (terminal_style){.cols = 120});
    free(r);
    weir_buffer_append(&out, "", 1);
    assert_false(out.failed);
    const char *begin = (const char *)weir_buffer_data(&out);
    for (int i = 0; i < 2; i++) { /* behind the policies and the number of requests */
        begin = strstr(begin, "\n\n");
        assert_non_null(begin);
        begin += 2;
    }
    const char *end = strstr(begin, "\n\n");
    assert_non_null(end);
    char *text = strndup(begin, (size_t)(end + 1 - begin));
    assert_non_null(text);
    weir_buffer_free(&out);
    return text;
}

static void check_columns(void **unused)
{
    (void)unused;
    for (uint64_t requests = 10; requests < UINT64_MAX / 10; requests *= 10) {
        char *text = table_of(requests);
        size_t cols = strcspn(text, "\n"), lines = 0;
        for (const char *line = text; *line; line += cols + 1, lines++)
            assert_int_equal(strcspn(line, "\n"), cols);
        assert_in_range(lines, 3, 10);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_columns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
