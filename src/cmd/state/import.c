/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Imports JSON lines into a state file. The first line identifies the secret that hashed the keys:
 * hashes are useless under any other secret. The import stops at the first invalid line. */

#include "cmd/kit/input.h"
#include "cmd/state/state.h"
#include "port/assert.h"
#include "port/port.h"
#include "port/text.h"
#include "store/image/file_header.h"
#include "store/image/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

typedef struct importer {
    const char *from; /* for messages */
    FILE *in;
    size_t line;
    char *text; /* of that line, allocated by getline() */
    size_t text_size;
    state_file file;
    uint64_t keys, refused; /* keys that were imported, and that did not fit */
    /* The same of policies: objects with the texts as member names. If one is NULL for lack of
     * memory, the first policy fails. */
    json_t *texts, *texts_refused;
    uint64_t *words;
    size_t words_max;
} importer;

/* ---- errors ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool wrong(const importer *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "weir state: %s:%zu: ", m->from, m->line);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    return false;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Reads a line. Returns false at the end, and with *ret_good false after printing an error. */
static bool next_line(importer *m, json_t **ret_root, bool *ret_good)
{
    ssize_t len = getline(&m->text, &m->text_size, m->in);
    *ret_good = true;
    if (len < 0) {
        *ret_good = !ferror(m->in);
        if (!*ret_good)
            fprintf(stderr, "weir state: cannot read %s: %s\n", m->from, strerror(errno));
        return false;
    }
    WEIR_ASSERT((size_t)len < m->text_size);
    m->line++;
    json_error_t error;
    *ret_root = json_loadb(m->text, (size_t)len, JSON_REJECT_DUPLICATES, &error);
    if (!*ret_root)
        *ret_good = wrong(m, "expected a JSON object: %s", error.text);
    return *ret_root != NULL;
}

/* Reads n words of 16 hexadecimal digits each. Returns false for anything else. */
static bool read_hex(const char *text, size_t n, uint64_t *ret)
{
    if (strspn(text, "0123456789abcdef") != WEIR_HEX64_LEN * n || text[WEIR_HEX64_LEN * n] != '\0')
        return false;
    for (size_t i = 0; i < n; i++)
        (void)weir_hex64_read(text + WEIR_HEX64_LEN * i, WEIR_HEX64_LEN, &ret[i]);
    return true;
}

/* ---- the head -------------------------------------------------------------------------------- */

typedef struct head_line {
    json_int_t version, time_ns, wall_ns, memory_bytes, large_bytes;
    char fingerprint[STATE_FINGERPRINT_MAX];
    bool has_secret;
    uint8_t secret[16];
    weir_file_header partitions; /* has the partitions, and nothing else */
} head_line;

static bool read_secret(const char *text, uint8_t ret[16])
{
    uint64_t words[2];
    if (!read_hex(text, 2, words))
        return false;
    for (size_t i = 0; i < 8; i++) {
        ret[i] = (uint8_t)(words[0] >> (56 - 8 * i));
        ret[8 + i] = (uint8_t)(words[1] >> (56 - 8 * i));
    }
    return true;
}

/* Reads the partitions of the head line; NULL: none. */
static bool read_partitions(const importer *m, json_t *list, weir_file_header *ret)
{
    weir_store_partition of[WEIR_PARTITIONS_MAX];
    size_t len = json_array_size(list);
    if (list && (!json_is_array(list) || len > WEIR_PARTITIONS_MAX))
        return wrong(m, "partitions: expected a list of at most %d", WEIR_PARTITIONS_MAX);
    for (size_t i = 0; i < len; i++) {
        json_int_t table_bytes, large_bytes;
        const char *name;
        json_error_t error;
        if (json_unpack_ex(json_array_get(list, i), &error, JSON_STRICT, "{s:s,s:I,s:I}", "name",
                           &name, "table_bytes", &table_bytes, "large_bytes", &large_bytes) != 0)
            return wrong(m, "partitions: %s", error.text);
        if (strlen(name) > WEIR_PARTITION_NAME_MAX || table_bytes < 0 || large_bytes < 0 ||
            table_bytes > (json_int_t)1 << 50 || large_bytes > (json_int_t)1 << 50)
            return wrong(m,
                         "partitions: expected names of at most %d bytes, and sizes from 0 to "
                         "1 PiB",
                         WEIR_PARTITION_NAME_MAX);
        of[i] = (weir_store_partition){name, (size_t)table_bytes, (size_t)large_bytes};
    }
    weir_partitions_set(ret, &(weir_store_options){.partitions = of, .partitions_len = len});
    return true;
}

static bool read_head_line(const importer *m, json_t *root, head_line *ret)
{
    const char *fingerprint, *secret = NULL;
    json_t *partitions = NULL;
    json_error_t error;
    *ret = (head_line){0};
    if (json_unpack_ex(root, &error, JSON_STRICT, "{s:I,s:I,s:I,s:I,s:I,s:s,s?s,s?o}", "weir_state",
                       &ret->version, "time_ns", &ret->time_ns, "wall_ns", &ret->wall_ns,
                       "memory_bytes", &ret->memory_bytes, "large_bytes", &ret->large_bytes,
                       "fingerprint", &fingerprint, "secret", &secret, "partitions",
                       &partitions) != 0)
        return wrong(m, "expected the first line of an export: %s", error.text);
    if (ret->version < WEIR_STATE_VERSION_READABLE || ret->version > WEIR_STATE_VERSION_PARTITIONS)
        return wrong(m, "weir_state: expected version %d to %d, found %" JSON_INTEGER_FORMAT "%s",
                     WEIR_STATE_VERSION_READABLE, WEIR_STATE_VERSION_PARTITIONS, ret->version,
                     ret->version == 1 ? ": its keys do not say which policy they belong to, and "
                                         "cannot be converted; start with an empty file"
                                       : "");
    if (!read_partitions(m, partitions, &ret->partitions))
        return false;
    if (ret->time_ns < 0 || ret->time_ns > WEIR_NOW_NS_MAX || ret->wall_ns < 0 ||
        ret->wall_ns > WEIR_NOW_NS_MAX)
        return wrong(m, "time_ns, wall_ns: expected 0 to %" PRId64, (int64_t)WEIR_NOW_NS_MAX);
    if (ret->memory_bytes < 0 || ret->memory_bytes > (json_int_t)1 << 50 || ret->large_bytes < 0 ||
        ret->large_bytes > ret->memory_bytes)
        return wrong(m, "memory_bytes, large_bytes: expected 0 to 1 PiB, with large_bytes at most "
                        "memory_bytes");
    ret->has_secret = secret != NULL;
    if (secret && !read_secret(secret, ret->secret))
        return wrong(m, "secret: expected 32 hexadecimal digits");
    if (strlen(fingerprint) != STATE_FINGERPRINT_MAX - 1)
        return wrong(m, "fingerprint: expected 16 hexadecimal digits");
    memcpy(ret->fingerprint, fingerprint, STATE_FINGERPRINT_MAX);
    return true;
}

static bool same_secret(const importer *m, const head_line *line, const weir_file_header *head,
                        const char *path)
{
    char fingerprint[STATE_FINGERPRINT_MAX];
    state_fingerprint(head->secret, fingerprint);
    if (strcmp(fingerprint, line->fingerprint) == 0)
        return true;
    return wrong(m,
                 "expected an export of a file with the secret of %s (fingerprint %s), found "
                 "another secret (fingerprint %s); import it into a new file",
                 path, fingerprint, line->fingerprint);
}

/* Opens the file, or creates it with the secret and the sizes of the head line. */
static bool open_file(importer *m, const head_line *line, const char *path, const weir_zones *zones)
{
    weir_file_header head = {0};
    bool absent;
    weir_store_error error;
    bool there = state_read_head(path, false, &head, &absent);
    if (!there && !absent)
        return false;
    if (there && !same_secret(m, line, &head, path))
        return false;
    if (!there && !line->has_secret)
        return wrong(m,
                     "expected an export with its secret, because %s is a new file; use weir state "
                     "--export --with-secret",
                     path);
    if (!there) {
        memcpy(head.secret, line->secret, sizeof head.secret);
        head.parts[WEIR_PART_TABLE].bytes = (uint64_t)(line->memory_bytes - line->large_bytes);
        head.parts[WEIR_PART_LARGE].bytes = (uint64_t)line->large_bytes;
        memcpy(head.partitions, line->partitions.partitions, sizeof head.partitions);
        memcpy(head.partition_names, line->partitions.partition_names, sizeof head.partition_names);
    }
    const weir_store_options how = {.zones = zones, .when_full = WEIR_REFUSE};
    weir_status st = state_open(path, &head, how, &m->file, &error);
    if (st != WEIR_OK) {
        fprintf(stderr, "weir state: %s\n", error.text);
        return false;
    }
    int64_t gone_ns = port_now_ns() - line->wall_ns, left_ns = WEIR_NOW_NS_MAX - line->time_ns;
    if (gone_ns < 0)
        gone_ns = 0;
    if (!there)
        weir_store_set_time(m->file.store, line->time_ns + (gone_ns < left_ns ? gone_ns : left_ns));
    return true;
}

/* ---- policies and keys ----------------------------------------------------------------------- */

/* Counts policies by their texts, as the summary lists them: a text has several ids if several
 * policy names have it. */
static bool import_policy(importer *m, json_t *root)
{
    const char *text, *hex;
    uint64_t id;
    json_error_t error;
    if (json_unpack_ex(root, &error, JSON_STRICT, "{s:s,s:s}", "policy", &text, "id", &hex) != 0)
        return wrong(m, "expected a policy: %s", error.text);
    if (!read_hex(hex, 1, &id) || id == 0)
        return wrong(m, "id: expected 16 hexadecimal digits, not all of them 0");
    if (strlen(text) >= WEIR_POLICY_TEXT_MAX)
        return wrong(m, "policy: expected fewer than %d bytes", WEIR_POLICY_TEXT_MAX);
    bool fits = weir_store_note_text(m->file.store, id, text, strlen(text));
    json_t *texts = fits ? m->texts : m->texts_refused;
    if (json_object_set_new_nocheck(texts, text, json_true()) != 0)
        return wrong(m, "out of memory");
    return true;
}

/* Adds the generation of a policy whose keys were all reset. */
static bool import_reset(importer *m, json_t *root)
{
    const char *hex;
    uint64_t entry;
    json_error_t error;
    if (json_unpack_ex(root, &error, JSON_STRICT, "{s:s}", "reset", &hex) != 0)
        return wrong(m, "expected a reset: %s", error.text);
    weir_status st =
        read_hex(hex, 1, &entry) ? weir_store_put_reset(m->file.store, entry) : WEIR_E_RANGE;
    if (st == WEIR_E_FULL)
        return wrong(m, "reset: %s has the resets of %d policies, the maximum", m->file.path,
                     WEIR_RESETS_MAX);
    return st == WEIR_OK || wrong(m, "reset: expected 16 hexadecimal digits of an export");
}

static bool reserve_words(importer *m, size_t n)
{
    if (n <= m->words_max)
        return true;
    uint64_t *more = realloc(m->words, n * sizeof *more);
    if (!more)
        return false;
    m->words = more;
    m->words_max = n;
    return true;
}

static bool import_key(importer *m, json_t *root)
{
    const char *hash, *words, *partition = NULL;
    size_t words_len;
    json_int_t fresh_at_ns, form, level;
    weir_key_state stored = {0};
    json_error_t error;
    if (json_unpack_ex(root, &error, JSON_STRICT, "{s:s,s:I,s:I,s:I,s:s%,s?s}", "hash", &hash,
                       "fresh_at_ns", &fresh_at_ns, "form", &form, "level", &level, "words", &words,
                       &words_len, "partition", &partition) != 0)
        return wrong(m, "expected a key or a policy: %s", error.text);
    if (!read_hex(hash, 1, &stored.hash))
        return wrong(m, "hash: expected 16 hexadecimal digits");
    if (partition && !read_hex(partition, 1, &stored.partition))
        return wrong(m, "partition: expected 16 hexadecimal digits");
    if (form < 0 || form > UINT32_MAX || level < 0 || level > UINT32_MAX)
        return wrong(m, "form, level: expected 0 to 2^32 - 1");
    stored.words_len = words_len / 16;
    if (!reserve_words(m, stored.words_len))
        return wrong(m, "out of memory");
    if (!read_hex(words, stored.words_len, m->words))
        return wrong(m, "words: expected groups of 16 hexadecimal digits");
    WEIR_ASSERT(stored.words_len <= m->words_max);
    stored.fresh_at_ns = fresh_at_ns;
    stored.form = (uint32_t)form;
    stored.level = (uint32_t)level;
    stored.words = m->words;
    weir_status st = weir_store_put(m->file.store, &stored);
    if (st == WEIR_E_FULL || st == WEIR_E_NOMEM)
        m->refused++;
    else if (st == WEIR_E_ABSENT)
        return wrong(m,
                     "partition: %s has no partition with this hash; import into a new file, or "
                     "set `memory` for its policy and start weir once",
                     m->file.path);
    else if (st != WEIR_OK)
        return wrong(m, "expected a valid state: %s", weir_status_str(st));
    else
        m->keys++;
    return true;
}

static bool import_all(importer *m, const char *path, const weir_zones *zones)
{
    json_t *root = NULL;
    bool good;
    if (!next_line(m, &root, &good)) {
        if (good)
            fprintf(stderr,
                    "weir state: %s: expected the output of weir state --export, found "
                    "nothing\n",
                    m->from);
        return false;
    }
    head_line head;
    good = read_head_line(m, root, &head) && open_file(m, &head, path, zones);
    json_decref(root);
    while (good && next_line(m, &root, &good)) {
        good = json_object_get(root, "policy")  ? import_policy(m, root)
               : json_object_get(root, "reset") ? import_reset(m, root)
                                                : import_key(m, root);
        json_decref(root);
    }
    return good;
}

/* Prints how much was imported, and what did not fit. */
static void print_counts(const importer *m, const char *path)
{
    size_t refused = json_object_size(m->texts_refused);
    if (m->file.store)
        printf("%s: %" PRIu64 " keys and %zu policies imported\n", path, m->keys,
               json_object_size(m->texts));
    if (m->refused > 0)
        fprintf(stderr,
                "weir state: %s: the file is full: %" PRIu64
                " keys were not imported and have their full quota\n",
                path, m->refused);
    if (refused > 0)
        fprintf(stderr, "weir state: %s: the file is full: %zu policies were not imported\n", path,
                refused);
}

static void close_import(importer *m)
{
    weir_store_close(m->file.store);
    json_decref(m->texts);
    json_decref(m->texts_refused);
    free(m->text);
    free(m->words);
}

int state_import(const char *path, const char *from, const weir_zones *zones)
{
    bool is_stdin = strcmp(from, "-") == 0;
    importer m = {.from = is_stdin ? "<stdin>" : from,
                  .texts = json_object(),
                  .texts_refused = json_object()};
    int fd;
    const char *why = is_stdin ? NULL : input_open(from, &fd);
    m.in = is_stdin ? stdin : why ? NULL : fdopen(fd, "r");
    bool good = false;
    if (m.in) {
        good = import_all(&m, path, zones);
        print_counts(&m, path);
    } else {
        fprintf(stderr, "weir state: cannot read %s: %s\n", from, why ? why : "out of memory");
    }
    if (m.in && !is_stdin)
        fclose(m.in);
    good = good && m.refused == 0 && json_object_size(m.texts_refused) == 0;
    close_import(&m);
    return good ? 0 : 1;
}
