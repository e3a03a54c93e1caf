/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: a damaged or invented state file. The file is a small valid one with states of
 * every kind, to which the input applies patches. The file is refused, or it is opened and used.
 * Nothing crashes, reads beyond the file or waits for ever, and every decision is in range.
 *
 * The first byte says which checksums to correct. A patch is a byte (the low bits: the part
 * of the file; the high bits: the number of bytes - 1), the offset in the part (3 bytes, little
 * endian), and the bytes. */

#include "store.h"

#include "store/image/file_header.h"
#include "store/iterate.h"
#include "store/siphash.h"

#include <stdio.h>
#include <unistd.h>

enum { HEADER = 1, RECORDS = 2, TEXTS = 4, CLOCK = 8, REFUSE = 16 };
enum { MEMORY = 1 << 20, LARGE = MEMORY - 65536, POLICIES = 10, KEYS = 2, RESERVED = 5 };
enum { PATCHES_MAX = 256 };

static const int64_t start_ns = 1767225600000000000;

static const char *const texts[POLICIES] = {
    "gcra 10/s burst 5",
    "gcra 3/s burst 5",
    "token-bucket 7 refill 3/m",
    "fixed-window 5/m count-denied",
    "fixed-window 500000/m from-first",
    "sliding-counter 5/s",
    "gcra 10/s burst 5 & gcra 100/h",
    "fixed-window 9/m & sliding-counter 50/h",
    "sliding-log 900/h",
    "sliding-slices 40/m slices 20 & sliding-log 30/h count-denied",
};

static weir_policy policies[POLICIES];
static uint64_t ids[POLICIES], reservations[RESERVED];
static uint8_t *base; /* the contents of the valid file */
static weir_file_header *head;
static size_t base_len;
static char path[] = "/tmp/weir-state-XXXXXX";
static uint8_t *file; /* the file, mapped */

static void remove_file(void)
{
    unlink(path);
}

/* Uses some of the quota of every key. */
static void fill(weir_store *s)
{
    weir_decision d;
    for (int p = 0; p < POLICIES; p++) {
        CHECK(weir_policy_parse(&policies[p], texts[p], strlen(texts[p]), NULL, NULL) == WEIR_OK);
        ids[p] = weir_store_policy_id(s, &policies[p]);
        for (int k = 0; k < 12 * KEYS; k++)
            CHECK(weir_store_check(s, &policies[p], ids[p], &k, sizeof k, start_ns, 3, &d) == 0);
    }
    for (int i = 0; i < RESERVED; i++) {
        int p = i * 2, k = -1; /* policies that support reservations */
        CHECK(weir_store_reserve(s, &policies[p], ids[p], &k, sizeof k, start_ns, 1,
                                 (i + 1) * INT64_C(1000000000), &d, &reservations[i]) == 0);
    }
}

static weir_store *open_in_memory(void)
{
    static const uint8_t secret[16] = {1};
    const weir_store_options options = {
        .memory_bytes = MEMORY, .large_bytes = LARGE, .secret = secret};
    weir_store *s;
    CHECK(weir_store_open(&s, &options) == WEIR_OK);
    return s;
}

/* Makes a file of a store in memory, which has the same layout. */
static void make_base(void)
{
    weir_store *s = open_in_memory();
    fill(s);
    const uint8_t *from =
        (const uint8_t *)weir_image_policies(s->image)->part - WEIR_FILE_HEADER_BYTES;
    base_len = ((const weir_file_header *)from)->bytes;
    base = malloc(base_len);
    CHECK(base);
    memcpy(base, from, base_len);
    head = (weir_file_header *)base;
    port_word_store_relaxed(&head->openings, 1);
    const weir_clock_reading reading = {start_ns, start_ns, 1, 1};
    weir_clock_slots_write(&head->clock_slots, &reading);
    weir_store_close(s);
    int fd = mkstemp(path);
    CHECK(fd >= 0 && atexit(remove_file) == 0);
    CHECK(write(fd, base, base_len) == (ssize_t)base_len);
    file = mmap(NULL, base_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(file != MAP_FAILED);
    close(fd);
}

/* ---- the patches ----------------------------------------------------------------------------- */

typedef struct patch {
    size_t at, len;
} patch;

/* The bytes that differ from the base. */
static patch changed[3 * PATCHES_MAX + 4];
static size_t changed_len;

static void put(size_t at, const void *bytes, size_t len)
{
    CHECK(changed_len < sizeof changed / sizeof changed[0]);
    changed[changed_len++] = (patch){at, len};
    memcpy(file + at, bytes, len);
}

static void restore(void)
{
    for (; changed_len > 0; changed_len--) {
        const patch *c = &changed[changed_len - 1];
        memcpy(file + c->at, base + c->at, c->len);
    }
}

static void get(size_t at, void *ret, size_t len)
{
    memcpy(ret, file + at, len);
}

/* Applies the patches, and returns their number. */
static size_t apply(const uint8_t *at, const uint8_t *end, patch *ret)
{
    size_t n = 0;
    while (n < PATCHES_MAX && end - at > 4) {
        unsigned part = at[0] & 7;
        size_t len = 1 + at[0] / 8, offset = at[1] | (size_t)at[2] << 8 | (size_t)at[3] << 16;
        weir_file_part in =
            part < WEIR_PARTS ? head->parts[part] : (weir_file_part){0, WEIR_FILE_HEADER_BYTES};
        at += 4;
        len = len < (size_t)(end - at) ? len : (size_t)(end - at);
        offset %= in.bytes;
        len = len < in.bytes - offset ? len : in.bytes - offset;
        ret[n] = (patch){in.at + offset, len};
        put(ret[n].at, at, len);
        at += len;
        n++;
    }
    return n;
}

static void correct_header(void)
{
    weir_file_header h;
    get(0, &h, WEIR_FILE_HEADER_FIXED);
    uint64_t sum = weir_siphash((weir_secret){0, 0}, &h, WEIR_FILE_HEADER_FIXED);
    put(WEIR_FILE_HEADER_FIXED, &sum, sizeof sum);
}

static void correct_clock(void)
{
    for (size_t i = 0; i < 2; i++) {
        uint64_t words[6];
        size_t at = offsetof(weir_file_header, clock_slots) + i * sizeof words;
        get(at, words, sizeof words);
        words[5] = weir_siphash((weir_secret){UINT64_C(0x7765697265706f63), 1}, words, 40);
        put(at, words, sizeof words);
    }
}

/* Corrects the checksum of each patched record of a reservation: the last of its 8 words. */
static void correct_record(size_t at)
{
    enum { RECORDS_AT = 128 };
    size_t first = head->parts[WEIR_PART_RESERVED].at + RECORDS_AT;
    uint64_t words[8];
    if (at < first || at >= first + 32 * sizeof words)
        return;
    at -= (at - first) % sizeof words;
    get(at, words, sizeof words);
    words[7] = weir_siphash((weir_secret){1, 0}, words + 1, 48);
    put(at, words, sizeof words);
}

/* Corrects the checksum of the text of each patched entry of the registry. */
static void correct_text(size_t at)
{
    enum { ENTRIES_AT = 4096, TEXTS_AT = ENTRIES_AT + WEIR_POLICY_REGISTRY_ENTRIES * 16 };
    size_t first = head->parts[WEIR_PART_REGISTRY].at;
    uint64_t entry[2];
    uint8_t text[256];
    if (at < first + ENTRIES_AT || at >= first + TEXTS_AT)
        return;
    get(at - (at - first) % sizeof entry, entry, sizeof entry);
    size_t len = entry[1] & 0xffff, offset = (entry[1] >> 16) - 1;
    if (len > sizeof text || offset > WEIR_POLICY_REGISTRY_TEXT_BYTES - sizeof text - 8)
        return;
    get(first + TEXTS_AT + offset + 8, text, len);
    uint64_t sum = weir_siphash((weir_secret){entry[0], len}, text, len);
    put(first + TEXTS_AT + offset, &sum, sizeof sum);
}

static void correct(uint8_t which, const patch *patches, size_t n)
{
    if (which & HEADER)
        correct_header();
    if (which & CLOCK)
        correct_clock();
    for (size_t i = 0; i < n; i++) {
        if (which & RECORDS)
            correct_record(patches[i].at);
        if (which & TEXTS)
            correct_text(patches[i].at);
    }
}

/* ---- use ------------------------------------------------------------------------------------- */

static void require(weir_status st, const weir_decision *d)
{
    CHECK(st == WEIR_OK || st == WEIR_E_FULL || st == WEIR_E_NOMEM || st == WEIR_E_BUSY ||
          st == WEIR_E_UNSUPPORTED);
    if (st != WEIR_OK)
        return;
    CHECK(d->limit >= 1 && d->remaining >= 0 && d->remaining <= d->limit);
    CHECK(d->retry_after_ns >= 0 && d->reset_after_ns >= 0);
    CHECK(!d->allowed || d->retry_after_ns == 0);
}

static void decide(weir_store *s, int64_t now_ns)
{
    weir_decision d;
    weir_store_request together[POLICIES];
    size_t blocking;
    for (int k = 0; k < KEYS; k++) {
        for (int p = 0; p < POLICIES; p++) {
            const weir_policy *policy = &policies[p];
            require(weir_store_peek(s, policy, ids[p], &k, sizeof k, now_ns, 1, &d), &d);
            require(weir_store_check(s, policy, ids[p], &k, sizeof k, now_ns, 2, &d), &d);
            require(weir_store_refund(s, policy, ids[p], &k, sizeof k, now_ns, 1, &d), &d);
            together[p] = (weir_store_request){
                .policy = policy, .policy_id = ids[p], .key = &k, .key_len = sizeof k, .cost = 1};
        }
        if (weir_store_take_many(s, together, POLICIES, now_ns, &blocking) == WEIR_OK)
            CHECK(blocking <= POLICIES);
        weir_store_check_batch(s, together, POLICIES, now_ns);
        for (int p = 0; p < POLICIES; p++)
            require(together[p].status, &together[p].decision);
    }
}

static bool copy_state(void *ctx, const weir_key_state *stored)
{
    uint64_t sum = stored->hash;
    for (size_t i = 0; i < stored->words_len; i++)
        sum += stored->words[i];
    weir_status st = weir_store_put(ctx, stored);
    CHECK(st == WEIR_OK || st == WEIR_E_FULL || st == WEIR_E_NOMEM || st == WEIR_E_RANGE ||
          sum == 0);
    return true;
}

static bool copy_text(void *ctx, uint64_t id, const char *text, size_t len)
{
    weir_store_note_text(ctx, id, text, len);
    return true;
}

static void end_reservations(weir_store *s)
{
    weir_decision d;
    int64_t over = 0;
    uint64_t id;
    int k = -1;
    for (int i = 0; i < RESERVED; i++) {
        weir_status st = weir_store_commit(s, reservations[i], start_ns, 2, &d, &over);
        CHECK(st != WEIR_OK || over >= 0);
    }
    for (int p = 0; p < POLICIES; p += 4)
        (void)!weir_store_reserve(s, &policies[p], ids[p], &k, sizeof k, start_ns, 1, 1, &d, &id);
}

/* Does what a daemon does. */
static void use(weir_store *s)
{
    end_reservations(s);
    decide(s, start_ns);
    decide(s, start_ns + INT64_C(3600) * 1000000000);
    for (int p = 0, k = 0; p < POLICIES; p++)
        CHECK(weir_store_reset(s, ids[p], &k, sizeof k) == WEIR_OK);
    (void)weir_store_stats_get(s);
}

/* Does what a resize and `weir state` do. */
static void copy_all(weir_store *s)
{
    static weir_store *copy;
    if (!copy)
        copy = open_in_memory();
    weir_store_repair_locks(s);
    weir_store_policies(s, copy_text, copy);
    weir_store_each(s, copy_state, copy);
    decide(copy, start_ns);
    fuzz_store_clear(copy);
}

/* Opens the file, calls fn, and closes it. Returns false if it is refused. */
static bool with_file(uint8_t options_byte, void (*fn)(weir_store *s))
{
    weir_store *s;
    weir_store_error error;
    const weir_store_options options = {.file = path,
                                        .read_only = true,
                                        .ret_error = &error,
                                        .when_full =
                                            options_byte & REFUSE ? WEIR_REFUSE : WEIR_EVICT};
    weir_status st = weir_store_open(&s, &options);
    CHECK(st == WEIR_OK || st == WEIR_E_SYNTAX);
    if (st != WEIR_OK)
        return false;
    fn(s);
    weir_store_close(s);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    patch patches[PATCHES_MAX];
    if (!base)
        make_base();
    if (len < 1)
        return 0;
    size_t n = apply(bytes + 1, bytes + len, patches);
    correct(bytes[0], patches, n);
    if (with_file(bytes[0], use))
        CHECK(with_file(bytes[0], copy_all)); /* read_only: the file is unchanged */
    restore();
    return 0;
}
