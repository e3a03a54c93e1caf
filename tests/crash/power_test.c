/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* After a power failure, the pages of a state file are from different moments, and some were never
 * written. This test records a file at several moments while processes use it, and mixes the pages.
 * Each mixed file must open, or be refused with a message. Nothing crashes, and no key is charged
 * more than was requested.
 *
 *     power_test [SECONDS [SEED]] */

#include "crash.h"

#include "store/image/file_header.h"
#include "store/iterate.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 4, MOMENTS = 6, FILES_OF_A_RUN = 60, PAGE = 4096, OPENED = 0, REFUSED = 2 };

/* A file at several moments. */
typedef struct moments {
    size_t bytes;
    uint8_t *at[MOMENTS];
} moments;

static void read_file(crash *c, uint8_t *to, size_t bytes)
{
    int fd = open(c->file, O_RDONLY | O_CLOEXEC);
    for (size_t have = 0; have < bytes;) {
        ssize_t n = fd < 0 ? -1 : pread(fd, to + have, bytes - have, (off_t)have);
        if (n <= 0)
            crash_fail(c, "cannot read the file");
        have += (size_t)n;
    }
    close(fd);
}

static void write_file(crash *c, const uint8_t *from, size_t bytes)
{
    unlink(c->file);
    int fd = open(c->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    for (size_t done = 0; done < bytes;) {
        ssize_t n = fd < 0 ? -1 : pwrite(fd, from + done, bytes - done, (off_t)done);
        if (n <= 0)
            crash_fail(c, "cannot write the file");
        done += (size_t)n;
    }
    close(fd);
}

/* Lets a process use a new file, and records the file meanwhile. */
static void record_moments(crash *c, moments *m)
{
    struct stat st;
    unlink(c->file);
    crash_clear(c);
    pid_t pid = crash_start(c, 0, THREADS, (crash_when){0});
    crash_await(c, pid, 0, 1);
    if (stat(c->file, &st) != 0)
        crash_fail(c, "there is no file");
    m->bytes = (size_t)st.st_size;
    for (size_t i = 0; i < MOMENTS; i++) {
        m->at[i] = malloc(m->bytes);
        if (!m->at[i])
            crash_fail(c, "out of memory");
        crash_await(c, pid, 0, 1 + crash_below(c, i < 2 ? 50 : 8000));
        read_file(c, m->at[i], m->bytes);
    }
    crash_kill(c, pid);
}

/* Makes the file look as if the machine had restarted since. */
static void note_power_loss(uint8_t *file)
{
    weir_file_header *head = (weir_file_header *)file;
    memset(head->boot, 0x5a, sizeof head->boot);
}

/* Takes each page from one of the moments, or leaves it zero, as if it was never written. */
static void mix(crash *c, const moments *m, uint8_t *to)
{
    static const uint64_t lost_of_1000[] = {0, 2, 20, 200};
    uint64_t lost = lost_of_1000[crash_below(c, 4)], first = crash_below(c, MOMENTS);
    uint64_t torn = crash_below(c, 2); /* mix sectors instead of pages */
    size_t step = torn ? 512 : PAGE;
    for (size_t at = 0; at < m->bytes; at += step) {
        size_t len = m->bytes - at < step ? m->bytes - at : step;
        uint64_t from = crash_below(c, 3) == 0 ? crash_below(c, MOMENTS) : first;
        /* Keep most headers, so that most files open. */
        bool head = at < WEIR_FILE_HEADER_BYTES && crash_below(c, 50) != 0;
        if (crash_below(c, 1000) < lost && !head)
            memset(to + at, 0, len);
        else
            memcpy(to + at, m->at[from] + at, len);
    }
    note_power_loss(to);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool see(void *ctx, const weir_key_state *stored)
{
    uint64_t *sum = ctx;
    for (size_t i = 0; i < stored->words_len; i++)
        *sum += stored->words[i];
    return true;
}

/* After a charge, a key has less quota, whatever it had before. */
static void charge_one(crash *c, weir_store *s, const weir_policy *p, const char *key)
{
    const int64_t now_ns = INT64_C(1800000000000000000);
    weir_decision before, after;
    uint64_t id = weir_store_policy_id(s, p);
    if (weir_store_peek(s, p, id, key, strlen(key), now_ns, 0, &before) != WEIR_OK ||
        weir_store_check(s, p, id, key, strlen(key), now_ns, 1, &after) != WEIR_OK ||
        (after.allowed && after.remaining != before.remaining - 1))
        crash_fail(c, "%s cannot be charged", key);
}

static int look(crash *c)
{
    weir_store *s = NULL;
    weir_store_error error;
    uint64_t sum = 0;
    weir_status st = crash_open(c, &s, &error);
    if (st != WEIR_OK && error.text[0] == '\0')
        crash_fail(c, "refused without a message: %s", weir_status_str(st));
    if (st != WEIR_OK)
        return REFUSED;
    crash_verify(c, s, false);
    weir_store_each(s, see, &sum);
    for (size_t i = 0; i < 200; i++) {
        char key[24];
        snprintf(key, sizeof key, i < CRASH_KEYS ? "key %zu" : "new %zu", i);
        charge_one(c, s, &c->policy[i % CRASH_POLICIES], key);
    }
    weir_store_stats stats = weir_store_stats_get(s);
    port_add_relaxed(&c->record->calls[CRASH_PROCESSES - 1], stats.damaged);
    weir_store_close(s);
    return OPENED;
}

/* Returned charges may be lost, and returned units may still be charged. */
static void forget_answers(crash *c)
{
    for (size_t p = 0; p < CRASH_POLICIES; p++) {
        for (size_t k = 0; k < CRASH_KEYS; k++)
            c->record->sums[p][k].answered = c->record->sums[p][k].returned = (port_counter){0};
    }
}

int main(int argc, char **argv)
{
    crash c;
    moments m;
    int seconds;
    unsigned files = 0, refused = 0;
    uint64_t damaged = 0;
    crash_init(&c, argc, argv, 5, &seconds);
    for (int64_t until_ms = crash_ms() + (int64_t)seconds * 1000; crash_ms() < until_ms;) {
        record_moments(&c, &m);
        forget_answers(&c);
        uint8_t *mixed = malloc(m.bytes);
        if (!mixed)
            crash_fail(&c, "out of memory");
        for (unsigned i = 0; i < FILES_OF_A_RUN; i++, files++) {
            mix(&c, &m, mixed);
            write_file(&c, mixed, m.bytes);
            int status = crash_apart(&c, look);
            if (status != OPENED && status != REFUSED)
                crash_fail(&c, "after %u files", files + 1);
            refused += status == REFUSED;
        }
        damaged += port_load_relaxed(&c.record->calls[CRASH_PROCESSES - 1]);
        free(mixed);
        for (size_t i = 0; i < MOMENTS; i++)
            free(m.at[i]);
    }
    if (refused > files / 2)
        crash_fail(&c, "%u of %u files were refused", refused, files);
    crash_end(&c);
    printf("%u files, %u refused, %" PRIu64 " damaged entries found\n", files, refused, damaged);
    printf("1 passed, 0 failed, 0 skipped\n");
    return 0;
}
