/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_KIT_TEST_H
#define WEIR_CMD_CONFIG_KIT_TEST_H
/* Reads texts as weir.yaml, for tests of what is stored and of what is reported. */

#include "cmd/config/config.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define API "policies: {api: gcra 9/s burst 2147483647}\n"

static char *errors; /* of the last configuration */

/*  yaml  "": the defaults. */
static weir_status parse(const char *yaml, const char *name, bool files, weir_config **ret)
{
    size_t len = 0;
    yaml = yaml[0] ? yaml : "{}";
    free(errors);
    errors = NULL;
    FILE *out = open_memstream(&errors, &len);
    assert_non_null(out);
    const config_sink sink = config_print_to(out);
    weir_status st = config_parse(yaml, strlen(yaml), name, files, NULL, &sink, ret);
    fclose(out);
    return st;
}

static weir_config *valid(const char *yaml)
{
    weir_config *c = NULL;
    if (parse(yaml, "t.yaml", false, &c) != WEIR_OK)
        fail_msg("%.300s\nis invalid: %s", yaml, errors);
    assert_null(strstr(errors, ": error: "));
    return c;
}

static inline void invalid(const char *yaml, const char *part)
{
    weir_config *c = NULL;
    assert_int_equal(parse(yaml, "t.yaml", false, &c), WEIR_E_SYNTAX);
    if (!strstr(errors, part))
        fail_msg("expected '%s', found: %s", part, errors);
}

/* Returns HEAD, `n` times EACH, and TAIL; for free(). */
static char *repeated(const char *head, const char *each, size_t n, const char *tail)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    fputs(head, out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, each, i);
    fputs(tail, out);
    fclose(out);
    return text;
}

/* Writes a file that has `each` n times. */
static inline void write_many(const char *path, const char *head, const char *each, size_t n)
{
    char *text = repeated(head, each, n, "");
    write_file(path, text);
    free(text);
}

#endif
