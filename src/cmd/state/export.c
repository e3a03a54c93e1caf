/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Exports a state file as JSON lines: a head, the generations of policies that were reset, the
 * policies, and the keys. 64-bit numbers that a
 * JSON reader might round to a double are written as hexadecimal strings. */

#include "cmd/state/state.h"
#include "port/port.h"
#include "port/text.h"
#include "store/image/file_header.h"
#include "store/image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_hex(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        printf("%02x", bytes[i]);
}

/* The names are printable and need no escape. */
static void put_partitions(const weir_file_header *head)
{
    weir_image_partition is[WEIR_PARTITIONS_MAX];
    size_t n = weir_partitions_get(head, is);
    for (size_t i = 0; i < n; i++)
        printf("%s{\"name\":\"%s\",\"table_bytes\":%zu,\"large_bytes\":%zu}",
               i == 0 ? ",\"partitions\":[" : ",", is[i].name, is[i].table_bytes,
               is[i].large_bytes);
    if (n > 0)
        printf("]");
}

static void put_head(const state_file *f, bool with_secret)
{
    char fingerprint[STATE_FINGERPRINT_MAX];
    state_fingerprint(f->head.secret, fingerprint);
    printf("{\"weir_state\":%d,\"time_ns\":%" PRId64 ",\"wall_ns\":%" PRId64
           ",\"memory_bytes\":%" PRIu64 ",\"large_bytes\":%" PRIu64 ",\"fingerprint\":\"%s\"",
           (int)f->head.state_version, weir_store_now(f->store), port_now_ns(),
           state_memory_bytes(&f->head), f->head.parts[WEIR_PART_LARGE].bytes, fingerprint);
    put_partitions(&f->head);
    if (with_secret) {
        printf(",\"secret\":\"");
        put_hex(f->head.secret, sizeof f->head.secret);
        printf("\"");
    }
    printf("}\n");
}

static void put_text(void *ctx, const char *at, size_t len)
{
    (void)ctx;
    fwrite(at, 1, len, stdout);
}

/* Canonical texts are ASCII without quotes. Other bytes, of a damaged file, are escaped. */
static bool put_policy(void *ctx, uint64_t id, const char *text, size_t len)
{
    (void)ctx;
    printf("{\"policy\":\"");
    weir_text_escape(text, len, WEIR_JSON_REPLY, put_text, NULL);
    printf("\",\"id\":\"%016" PRIx64 "\"}\n", id);
    return !ferror(stdout);
}

static void put_resets(const weir_store *s)
{
    uint64_t entries[WEIR_RESETS_SLOTS];
    size_t n = weir_store_resets(s, entries);
    for (size_t i = 0; i < n; i++)
        printf("{\"reset\":\"%016" PRIx64 "\"}\n", entries[i]);
}

static bool put_key(void *ctx, const weir_key_state *stored)
{
    (void)ctx;
    printf("{\"hash\":\"%016" PRIx64 "\",\"fresh_at_ns\":%" PRId64 ",\"form\":%" PRIu32
           ",\"level\":%" PRIu32 ",\"words\":\"",
           stored->hash, stored->fresh_at_ns, stored->form, stored->level);
    for (size_t i = 0; i < stored->words_len; i++)
        printf("%016" PRIx64, stored->words[i]);
    printf("\"");
    if (stored->partition != 0)
        printf(",\"partition\":\"%016" PRIx64 "\"", stored->partition);
    printf("}\n");
    return !ferror(stdout);
}

/* Returns the offset at which standard output writes next; -1 if it is not a regular file. */
static off_t output_offset(void)
{
    struct stat st;
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (flags < 0 || fstat(STDOUT_FILENO, &st) != 0 || !S_ISREG(st.st_mode))
        return -1;
    return flags & O_APPEND ? st.st_size : lseek(STDOUT_FILENO, 0, SEEK_CUR);
}

/* Removes an incomplete export: its first lines alone are a valid export with fewer keys. */
static void drop_output(off_t begin)
{
    if (begin >= 0 && ftruncate(STDOUT_FILENO, begin) != 0)
        fprintf(stderr, "weir state: the incomplete export could not be removed: %s\n",
                strerror(errno));
    if (!freopen("/dev/null", "w", stdout)) /* or main() writes the rest, and reports it again */
        clearerr(stdout);
}

int state_export(const state_file *f, bool with_secret)
{
    off_t begin = output_offset();
    put_head(f, with_secret);
    put_resets(f->store);
    weir_store_policies(f->store, put_policy, NULL);
    weir_store_each(f->store, put_key, NULL);
    errno = 0;
    bool flushed = fflush(stdout) == 0;
    if (flushed && !ferror(stdout))
        return 0;
    int reason = flushed || errno == 0 ? EIO : errno; /* the errno of earlier writes is lost */
    fprintf(stderr, "weir state: cannot write to standard output: %s\n", strerror(reason));
    drop_output(begin);
    return 1;
}
