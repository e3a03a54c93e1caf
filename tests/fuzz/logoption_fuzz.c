/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: the texts of --key and --where. The first byte selects the use of the rest: a
 * template, a filter, or a pattern. A text that cannot be parsed has an error with a place in it. A
 * template makes a key of 1 to 65536 bytes. A pattern matches a field, or it does not: the filters
 * "uri=P" and "uri!=P" never agree. */

#include "fuzz.h"

#include "accesslog/formats/logline.h"

#include <stdio.h>

static const char *const lines[] = {
    "2001:db8::7 - joe [01/Aug/1995:02:00:04 -0400] \"GET /a/b*|c?d HTTP/1.0\" 404 17 \"-\" \"x "
    "y\"",
    "{\"ts\":1767323045,\"remote_addr\":\"192.0.2.7\",\"uri\":\"/a/b*|c?d\",\"a\":{\"b\":[1.5]}}",
};
enum { LINES = sizeof lines / sizeof lines[0] };

static weir_logline_result read_with(const weir_logline_options *o, const char *line,
                                     const char *option)
{
    weir_logline_reader *r = NULL;
    weir_logline_error e;
    weir_log_record record;
    char text[700];
    weir_logline_result result = WEIR_LOGLINE_USAGE;
    weir_status st = weir_logline_open(&r, o, &e);
    if (st == WEIR_OK) {
        result = weir_logline_read(r, line, strlen(line), &record, &e);
        if (result == WEIR_LOGLINE_REQUEST)
            CHECK(record.key_len >= 1 && record.key_len <= WEIR_LOGLINE_KEY_LEN_MAX);
    } else {
        CHECK(!r && st == WEIR_E_SYNTAX && e.column >= 1 && e.column <= strlen(option) + 1);
    }
    if (result == WEIR_LOGLINE_USAGE) {
        CHECK(e.option);
        weir_logline_error_text(&e, text, sizeof text);
        CHECK(strncmp(text, "--", 2) == 0);
    }
    weir_logline_close(r);
    return result;
}

static void read_pattern(const char *pattern, const char *line)
{
    weir_logline_result result[2];
    if (*pattern == '=' || strpbrk(pattern, " \t")) /* no filter, or several words */
        return;
    for (int i = 0; i < 2; i++) {
        char *filter = malloc(strlen(pattern) + 8);
        sprintf(filter, "uri%s%s", i ? "!=" : "=", pattern);
        const char *where = filter;
        weir_logline_options o = {.where = &where, .wheres = 1};
        result[i] = read_with(&o, line, filter);
        free(filter);
    }
    CHECK((result[0] == WEIR_LOGLINE_REQUEST && result[1] == WEIR_LOGLINE_LEFT_OUT) ||
          (result[0] == WEIR_LOGLINE_LEFT_OUT && result[1] == WEIR_LOGLINE_REQUEST));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096 || memchr(data, '\0', size))
        return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    const char *where = text;
    weir_logline_options o = {.key = text};
    if (data[0] % 3 == 1)
        o = (weir_logline_options){.where = &where, .wheres = 1};
    for (int i = 0; i < LINES; i++) {
        if (data[0] % 3 == 2)
            read_pattern(text, lines[i]);
        else
            read_with(&o, lines[i], text);
    }
    free(text);
    return 0;
}
