/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_WEB_PAGES_H
#define WEIR_CMD_WEB_PAGES_H
/* The web pages in the program. tools/build-web generates the definition from the files in web/. */

#include "codec/http_session.h"

extern const weir_http_page_table
    weir_web_pages; /* empty if built without clang, lld and esbuild */

#endif
