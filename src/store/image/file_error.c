/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Formats error messages about state files. */

#include "store/image/state_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void weir_file_message(const weir_store_options *options, const char *suffix, const char *format,
                       ...)
{
    enum { SHOWN = 92 };
    char what[150];
    va_list args;
    if (!options->ret_error)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const char *path = options->file ? options->file : "memory";
    size_t len = strlen(path);
    bool cut = len > SHOWN;
    snprintf(options->ret_error->text, sizeof options->ret_error->text, "%s%s%s: %s",
             cut ? "..." : "", cut ? path + len - SHOWN : path, suffix, what);
}

weir_status weir_file_error_system(const weir_store_options *options, const char *suffix,
                                   port_file_error error)
{
    return weir_file_error(WEIR_E_IO, options, suffix, "%s", port_file_error_text(error));
}

weir_status weir_file_error_in_use(const weir_store_options *options, int fd, uint64_t at,
                                   const char *subject, const char *what)
{
    int pids[PORT_FILE_HOLDERS_MAX];
    char who[64] = "";
    if (!options->ret_error)
        return WEIR_E_BUSY;
    size_t n = port_file_holders(fd, at, pids), len = 0;
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(who + len, sizeof who - len, "%s%d",
                                i > 0   ? ", "
                                : n > 1 ? " (pids "
                                        : " (pid ",
                                pids[i]);
    bool only_us = n == 1 && pids[0] == port_process_id();
    return weir_file_error(WEIR_E_BUSY, options, "", "%s %s%s%s%s", subject,
                           only_us ? "this process" : "another weir process", only_us ? "" : who,
                           n > 0 && !only_us ? ")" : "", what);
}

weir_status weir_file_check_rights(const weir_store_options *options, const char *suffix, int fd)
{
    port_file_rights r;
    port_file_error error = port_file_rights_get(fd, &r);
    if (error != PORT_FILE_OK)
        return weir_file_error_system(options, suffix, error);
    if (options->trust_others || (r.is_ours && !r.others_write))
        return WEIR_OK;
    if (!r.is_ours)
        return weir_file_error(
            WEIR_E_IO, options, suffix,
            "owned by uid %u, expected uid %u (this process); change the owner, or set "
            "memory.trust_others",
            r.user, r.our_user);
    return weir_file_error(
        WEIR_E_IO, options, suffix,
        "writable by other users (mode %04o), expected mode 0600; run chmod 600, or set "
        "memory.trust_others",
        r.mode);
}
