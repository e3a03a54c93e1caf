/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: `weir state --import`, into a store in memory instead of a file. The first byte
 * says whether the file exists. Nothing crashes, leaks or waits for ever. */

#define _GNU_SOURCE /* memfd_create() */

#include "fuzz.h"

#include "cmd/state/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint8_t secret[16] = {1, 2, 3};
static bool absent;

/* ---- in place of src/cmd/state/state.c ------------------------------------------------------- */

bool state_read_head(const char *path, bool read_only, weir_file_header *ret, bool *ret_absent)
{
    (void)path;
    (void)read_only;
    *ret_absent = absent;
    memcpy(ret->secret, secret, sizeof secret);
    return !absent;
}

void state_fingerprint(const uint8_t of[16], char ret[STATE_FINGERPRINT_MAX])
{
    uint64_t word;
    memcpy(&word, of, sizeof word);
    snprintf(ret, STATE_FINGERPRINT_MAX, "%016" PRIx64, word);
}

weir_status state_open(const char *path, const weir_file_header *head, weir_store_options how,
                       state_file *ret, weir_store_error *ret_error)
{
    CHECK(how.when_full == WEIR_REFUSE && (absent || memcmp(head->secret, secret, 16) == 0));
    *ret = (state_file){.path = path, .head = *head};
    how.memory_bytes = 1 << 20;
    how.secret = head->secret;
    how.ret_error = ret_error;
    return weir_store_open(&ret->store, &how);
}

/* ---------------------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const weir_zones no_zones;
    static char path[64];
    static int fd = -1;
    static FILE *nowhere;
    if (fd < 0) {
        fd = memfd_create("input", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        nowhere = fopen("/dev/null", "w");
        CHECK(fd >= 0 && nowhere);
    }
    if (len < 1)
        return 0;
    absent = bytes[0] & 1;
    CHECK(ftruncate(fd, 0) == 0);
    CHECK(pwrite(fd, bytes + 1, len - 1, 0) == (ssize_t)(len - 1));
    FILE *out = stdout, *err = stderr;
    stdout = stderr = nowhere;
    int status = state_import("state", path, &no_zones);
    stdout = out;
    stderr = err;
    CHECK(status == 0 || status == 1);
    return 0;
}
