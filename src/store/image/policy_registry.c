/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A hash index by id, and an area of texts. An id takes an index entry with one compare-and-swap.
 * Its text is written to memory that it has reserved, and published with one more. A process that
 * is killed in between leaves an id without a text; the next process that stores a text for the id
 * completes it.
 *
 * The entry of a forgotten id is marked. A thread that marks it as taken gives it to another id,
 * with the memory of the text if the new one fits, and counts that. The checksum covers the id and
 * the count: a thread that still reads the old text finds a wrong one. If the process is killed,
 * the entry stays taken until the registry is repaired. */

#include "store/image/policy_registry.h"

#include "port/assert.h"
#include "port/atomic.h"
#include "store/siphash.h"

#include <string.h>

/* Bits of `place`: the text's length, 1 + its offset, and how often the entry got another id. */
enum { LEN_BITS = 16, AT_BITS = 22, USES_AT = LEN_BITS + AT_BITS, USES_BITS = 62 - USES_AT };

#define LEN_MASK  (((uint64_t)1 << LEN_BITS) - 1)
#define AT_MASK   (((uint64_t)1 << AT_BITS) - 1)
#define USES_MASK ((((uint64_t)1 << USES_BITS) - 1) << USES_AT)
/* With one of these, no text is found. */
#define FORGOTTEN ((uint64_t)1 << 63)
#define TAKEN     ((uint64_t)1 << 62)

typedef struct entry {
    port_word id;    /* 0: free */
    port_word place; /* 0: the text is not published yet */
} entry;

/* Behind the entries are the texts. Each has a checksum of 8 bytes before it. */
typedef struct registry_part {
    port_word used;    /* bytes used of the texts */
    port_word changes; /* how often a text was stored */
    uint8_t unused[4080];
    entry entries[];
} registry_part;

enum { TEXT_BYTES = WEIR_POLICY_REGISTRY_TEXT_BYTES / WEIR_POLICY_REGISTRY_ENTRIES };

_Static_assert(sizeof(registry_part) == 4096, "the file's layout");
_Static_assert(sizeof(entry) == 16, "the file's layout");
_Static_assert(WEIR_POLICY_REGISTRY_BYTES < 1 << AT_BITS, "the offset of a text fits");
_Static_assert(WEIR_POLICY_REGISTRY_TEXT_BYTES % WEIR_POLICY_REGISTRY_ENTRIES == 0,
               "the file's layout");

weir_policy_registry weir_policy_registry_at(void *part, size_t bytes)
{
    WEIR_ASSERT(bytes >= WEIR_POLICY_REGISTRY_MIN && bytes <= WEIR_POLICY_REGISTRY_BYTES);
    uint64_t left = bytes - sizeof(registry_part), entries = left / (sizeof(entry) + TEXT_BYTES);
    return (weir_policy_registry){part, entries, (left - entries * sizeof(entry)) / 8 * 8};
}

static registry_part *part_of(const weir_policy_registry *r)
{
    return r->part;
}

/* The words of the text at an offset: its checksum, and the text. */
static port_word *words_at(const weir_policy_registry *r, uint64_t begin)
{
    return (port_word *)((char *)(part_of(r)->entries + r->entries_len) + begin);
}

static size_t bytes_of(size_t len)
{
    return (8 + len + 7) / 8 * 8;
}

/* A text with zeros behind it. */
typedef union copy {
    uint64_t words[WEIR_POLICY_REGISTRY_TEXT_MAX / 8];
    char text[WEIR_POLICY_REGISTRY_TEXT_MAX];
} copy;

/* Of a text. A checksum against accidents: its key is no secret. */
static uint64_t checksum(uint64_t id, uint64_t place, const copy *c)
{
    const weir_secret key = {id, (place & USES_MASK) | (place & LEN_MASK)};
    return weir_siphash(key, c->text, place & LEN_MASK);
}

/* Splits a place, whatever its marks are. Returns false if no text can be there. */
static bool split(const weir_policy_registry *r, uint64_t place, uint64_t *ret_begin,
                  size_t *ret_len)
{
    *ret_len = place & LEN_MASK;
    *ret_begin = (place >> LEN_BITS & AT_MASK) - 1;
    return *ret_len > 0 && *ret_len <= WEIR_POLICY_REGISTRY_TEXT_MAX && *ret_begin % 8 == 0 &&
           *ret_begin <= r->texts_len && bytes_of(*ret_len) <= r->texts_len - *ret_begin;
}

/* Reads the text at a place. Returns its length; 0 if it is not valid. */
static size_t read_text(const weir_policy_registry *r, uint64_t id, uint64_t place, copy *ret)
{
    uint64_t begin;
    size_t len;
    if ((place & (FORGOTTEN | TAKEN)) || !split(r, place, &begin, &len))
        return 0;
    const port_word *from = words_at(r, begin);
    for (size_t i = 0; i < bytes_of(len) / 8 - 1; i++)
        ret->words[i] = port_word_load_relaxed(&from[1 + i]);
    return port_word_load_relaxed(from) == checksum(id, place, ret) ? len : 0;
}

/* An entry in the search for an id. */
static entry *entry_at(const weir_policy_registry *r, uint64_t id, uint64_t i)
{
    return &part_of(r)->entries[(id % r->entries_len + i) % r->entries_len];
}

/* Finds the valid text of an id. Returns its entry and length; NULL if there is none. */
static entry *find(const weir_policy_registry *r, uint64_t id, copy *ret, size_t *ret_len)
{
    for (uint64_t i = 0; id != 0 && i < r->entries_len; i++) {
        entry *e = entry_at(r, id, i);
        uint64_t there = port_word_load_relaxed(&e->id); /* relaxed: `place` publishes the entry */
        if (there == 0)
            return NULL;
        if (there == id && (*ret_len = read_text(r, id, port_word_load_acquire(&e->place), ret)))
            return e;
    }
    return NULL;
}

/* Reserves memory for a text. Returns false if there is none. */
static bool reserve_bytes(const weir_policy_registry *r, size_t bytes, uint64_t max,
                          uint64_t *ret_begin)
{
    uint64_t used = port_word_load_relaxed(&part_of(r)->used);
    do {
        if (used % 8 != 0 || used > max || bytes > max - used)
            return false;
    } while (!port_word_cas_relaxed(&part_of(r)->used, &used, used + bytes));
    WEIR_ASSERT(used % 8 == 0 && used + bytes <= r->texts_len);
    *ret_begin = used;
    return true;
}

/* Where a text goes. */
typedef struct target {
    entry *entry;
    uint64_t place; /* what the entry has until the text is published */
    uint64_t begin; /* of the memory, if has_memory */
    bool has_memory;
} target;

/* Takes the entry of a forgotten id. Returns false if another thread did. */
static bool take(const weir_policy_registry *r, entry *e, uint64_t place, uint64_t id, size_t bytes,
                 target *ret)
{
    size_t room;
    const uint64_t taken = ((place & ~FORGOTTEN) + ((uint64_t)1 << USES_AT)) | TAKEN;
    if (!port_word_cas_relaxed(&e->place, &place, taken))
        return false;
    port_word_store_relaxed(&e->id, id);
    *ret = (target){.entry = e, .place = taken};
    ret->has_memory = split(r, taken, &ret->begin, &room) && bytes <= bytes_of(room);
    return true;
}

/* Whether no memory is lost if a text of so many bytes takes the place of a forgotten one. */
static bool fits(const weir_policy_registry *r, uint64_t place, size_t bytes)
{
    uint64_t begin;
    size_t len;
    return !split(r, place, &begin, &len) || bytes <= bytes_of(len);
}

typedef enum claimed { KNOWN, CLAIMED, NO_ENTRY, LOST_RACE } claimed;

/* Finds an entry for an id that has no valid text: its own without a text, a forgotten one that
 * fits, a free one, or any other forgotten one.
 *  may_add  false: no free one. */
static claimed claim(const weir_policy_registry *r, uint64_t id, size_t bytes, bool may_add,
                     target *ret)
{
    entry *fit = NULL, *other = NULL;
    uint64_t fit_place = 0, other_place = 0;
    for (uint64_t i = 0; i < r->entries_len; i++) {
        copy c;
        entry *e = entry_at(r, id, i);
        uint64_t there = port_word_load_relaxed(&e->id);
        uint64_t place = port_word_load_relaxed(&e->place);
        *ret = (target){.entry = e};
        if (there == 0 && !fit && may_add)
            return port_word_cas_relaxed(&e->id, &there, id) ? CLAIMED : LOST_RACE;
        if (there == 0)
            break;
        if (there == id && place == 0)
            return CLAIMED;
        if (there == id && read_text(r, id, place, &c) > 0)
            return KNOWN;
        if ((place & FORGOTTEN) && !fit && fits(r, place, bytes)) {
            fit = e;
            fit_place = place;
        } else if (place & FORGOTTEN) {
            other = e;
            other_place = place;
        }
    }
    if (fit)
        return take(r, fit, fit_place, id, bytes, ret) ? CLAIMED : LOST_RACE;
    if (other)
        return take(r, other, other_place, id, bytes, ret) ? CLAIMED : LOST_RACE;
    return NO_ENTRY;
}

/* Writes a text and publishes it. Two threads that complete an entry write the same text, and the
 * first counts. */
static void publish(const weir_policy_registry *r, target t, uint64_t id, const copy *text,
                    size_t len)
{
    port_word *to = words_at(r, t.begin);
    uint64_t place = (t.place & USES_MASK) | (t.begin + 1) << LEN_BITS | len;
    port_word_store_relaxed(to, checksum(id, place, text));
    for (size_t i = 0; i < bytes_of(len) / 8 - 1; i++)
        port_word_store_relaxed(&to[1 + i], text->words[i]);
    (void)port_word_cas_release(&t.entry->place, &t.place, place);
    (void)port_word_add_release(&part_of(r)->changes, 1);
}

/* The part of the space that any call may use. */
static uint64_t part_for_all(uint64_t whole)
{
    return whole / 4 * 3;
}

/* Lets another id have an entry that gets no text. */
static void give_back(target t)
{
    uint64_t without = t.place == 0 ? FORGOTTEN : (t.place & ~TAKEN) | FORGOTTEN;
    (void)port_word_cas_relaxed(&t.entry->place, &t.place, without);
}

bool weir_policy_registry_note(const weir_policy_registry *r, uint64_t id, const char *text,
                               size_t len, bool may_fill)
{
    copy c;
    target t;
    claimed found;
    size_t known_len;
    if (id == 0 || len == 0 || len > WEIR_POLICY_REGISTRY_TEXT_MAX)
        return false;
    if (find(r, id, &c, &known_len))
        return true;
    do {
        bool may_add = may_fill || weir_policy_registry_len(r) < part_for_all(r->entries_len);
        found = claim(r, id, bytes_of(len), may_add, &t);
    } while (found == LOST_RACE);
    if (found != CLAIMED)
        return found == KNOWN;
    uint64_t max = may_fill ? r->texts_len : part_for_all(r->texts_len);
    if (!t.has_memory && !reserve_bytes(r, bytes_of(len), max, &t.begin)) {
        give_back(t);
        return false;
    }
    c = (copy){.words = {0}};
    memcpy(c.text, text, len);
    publish(r, t, id, &c, len);
    return true;
}

void weir_policy_registry_forget(const weir_policy_registry *r, uint64_t id)
{
    copy c;
    size_t len;
    entry *e = find(r, id, &c, &len);
    uint64_t place = e ? port_word_load_relaxed(&e->place) : 0;
    if (place != 0 && !(place & (FORGOTTEN | TAKEN)))
        (void)port_word_cas_relaxed(&e->place, &place, place | FORGOTTEN);
}

uint64_t weir_policy_registry_changes(const weir_policy_registry *r)
{
    return port_word_load_acquire(&part_of(r)->changes);
}

size_t weir_policy_registry_text(const weir_policy_registry *r, uint64_t id, char *buf, size_t size)
{
    copy c;
    size_t len;
    if (!find(r, id, &c, &len) || len >= size)
        return 0;
    memcpy(buf, c.text, len);
    buf[len] = '\0';
    return len;
}

size_t weir_policy_registry_len(const weir_policy_registry *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->entries_len; i++) {
        const entry *e = &part_of(r)->entries[i];
        n +=
            port_word_load_relaxed(&e->id) != 0 && !(port_word_load_relaxed(&e->place) & FORGOTTEN);
    }
    return n;
}

void weir_policy_registry_each(const weir_policy_registry *r,
                               bool (*fn)(void *ctx, uint64_t id, const char *text, size_t len),
                               void *ctx)
{
    for (size_t i = 0; i < r->entries_len; i++) {
        copy c;
        const entry *e = &part_of(r)->entries[i];
        uint64_t place = port_word_load_acquire(&e->place);
        uint64_t id = port_word_load_relaxed(&e->id);
        size_t len = read_text(r, id, place, &c);
        if (len > 0 && !fn(ctx, id, c.text, len))
            return;
    }
}

void weir_policy_registry_repair(const weir_policy_registry *r)
{
    uint64_t used = 0;
    for (size_t i = 0; i < r->entries_len; i++) {
        copy c;
        entry *e = &part_of(r)->entries[i];
        uint64_t id = port_word_load_relaxed(&e->id), place = port_word_load_relaxed(&e->place);
        size_t len = read_text(r, id, place & ~FORGOTTEN, &c);
        if (len == 0) {
            port_word_store_release(&e->place, id != 0 ? (place & USES_MASK) | FORGOTTEN : 0);
            continue;
        }
        uint64_t end = (place >> LEN_BITS & AT_MASK) - 1 + bytes_of(len);
        used = used < end ? end : used;
    }
    port_word_store_release(&part_of(r)->used, used);
}
