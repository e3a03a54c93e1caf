/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_WEB_PAGES_H
#define WEIR_CMD_WEB_PAGES_H
/* The web pages in the program. tools/build-web generates the definitions from the files in web/.
 * They are empty if weir was built without clang, lld and esbuild. */

#include "codec/http_session.h"

extern const weir_http_page_table weir_web_pages; /* those of the daemon */

/* The page of `weir replay --html`. */
typedef struct weir_report_template {
    weir_http_page page;
    size_t data_at; /* where in the uncompressed page the report's JSON is inserted */
} weir_report_template;

extern const weir_report_template weir_report_page;

#endif
