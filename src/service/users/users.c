/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of users, logins, and the check of patterns. A table has a reference for the set and
 * one for each thread that uses it. */

#include "service/users/users.h"

#include "port/arena.h"
#include "port/assert.h"
#include "port/port.h"
#include "service/rules/key_patterns.h"
#include "store/siphash.h"

#include <string.h>

enum { SLOW_A_SECOND = 4 /* passwords that a thread compares with slow hashes */ };

const char *const weir_right_words[WEIR_RIGHTS + 1] = {
    "take", "peek", "refund", "reserve", "reset", "override", "policy", "top", "metrics", "admin"};

typedef struct secret {
    const char *text;
    size_t len;
    uint64_t id;
    bool is_hash;
    port_word *verified; /* of a hash: the digest of the password that has it; 0: not known */
} secret;

struct weir_user {
    const char *name;
    size_t name_len;
    uint64_t id;
    unsigned may;
    weir_key_patterns *policies, *keys; /* NULL: all */
    secret secret[3 * WEIR_USER_SECRETS_MAX];
    size_t secrets_len;
    const char *certificate[WEIR_USER_SECRETS_MAX];
};

struct weir_user_table {
    weir_arena arena;
    weir_user *user;
    size_t len;
    size_t hashes_max; /* of a user */
    const char *hash;  /* of any user: for comparisons with a name that is no user */
    bool single;
    size_t references; /* guarded by the lock of the set */
};

struct weir_users {
    port_mutex *lock;        /* guards `table` and the counts of references */
    weir_user_table *table;  /* NULL: none */
    port_counter generation; /* of `table`; 1 or more */
    weir_secret secret;      /* of ids: the same for all tables, so that logins survive a reload */
    uint8_t digest_key[32];
};

const char *weir_right_word(unsigned rights)
{
    unsigned i = 0;
    if (rights & (WEIR_MAY_TAKE_OTHERS | WEIR_MAY_METRICS_OTHERS))
        rights = rights & WEIR_MAY_TAKE_OTHERS ? WEIR_MAY_TAKE : WEIR_MAY_METRICS;
    while (i < WEIR_RIGHTS && !(rights >> i & 1))
        i++;
    return weir_right_words[i];
}

/* ---- users ----------------------------------------------------------------------------------- */

const char *weir_user_name(const weir_user *u)
{
    return u->name;
}

bool weir_user_may(const weir_user *u, unsigned rights)
{
    return !u || (u->may & rights);
}

bool weir_user_is_bound(const weir_user *u)
{
    return u && (u->policies || u->keys);
}

bool weir_user_sees(const weir_user *u, weir_slice policy)
{
    uint32_t value;
    return !u || !u->policies ||
           weir_key_patterns_find(u->policies, policy.at, policy.len, NULL, &value);
}

bool weir_user_has_key(const weir_user *u, weir_slice key, const weir_client *client)
{
    weir_address a;
    uint32_t value;
    char text[WEIR_ADDRESS_TEXT_MAX];
    if (!u || !u->keys || !key.at)
        return !u || !u->keys;
    if (!weir_address_parse(&a, key.at, key.len))
        return weir_key_patterns_find(u->keys, key.at, key.len,
                                      client && !client->is_proxy ? &client->address : NULL,
                                      &value);
    size_t len = weir_address_print(&a, weir_address_bits(&a), text);
    return weir_key_patterns_find(u->keys, text, len, &a, &value);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static uint64_t id_of(const weir_users *u, const char *text, size_t len)
{
    uint64_t id = weir_siphash(u->secret, text, len);
    return id ? id : 1; /* 0 is no id */
}

static void add_secrets(const weir_users *u, weir_user_table *t, weir_user *user,
                        const char *const *texts, bool is_hash)
{
    size_t hashes = 0;
    for (size_t i = 0; i < WEIR_USER_SECRETS_MAX; i++) {
        if (!texts[i])
            continue;
        size_t len = strlen(texts[i]);
        secret s = {weir_arena_copy(&t->arena, texts[i], len), len, id_of(u, texts[i], len),
                    is_hash, weir_arena_alloc(&t->arena, 4, sizeof(port_word))};
        user->secret[user->secrets_len++] = s;
        hashes += is_hash;
        if (is_hash)
            t->hash = s.text;
    }
    t->hashes_max = hashes > t->hashes_max ? hashes : t->hashes_max;
}

/*  ret  NULL if there are no patterns. */
static weir_status make_patterns(const weir_user_texts *texts, bool plain, weir_key_patterns **ret)
{
    *ret = NULL;
    if (texts->len == 0)
        return WEIR_OK;
    *ret = weir_key_patterns_new(texts->len);
    weir_status st = *ret ? WEIR_OK : WEIR_E_NOMEM;
    for (size_t i = 0; i < texts->len && st == WEIR_OK; i++)
        st = weir_key_patterns_add(*ret, texts->at[i], plain, 0, NULL, 0);
    return st;
}

static weir_status add_user(const weir_users *u, weir_user_table *t, const weir_user_spec *spec)
{
    weir_user *user = &t->user[t->len++];
    user->name_len = strlen(spec->name);
    user->name = weir_arena_copy(&t->arena, spec->name, user->name_len);
    user->id = id_of(u, spec->name, user->name_len);
    user->may = spec->may | WEIR_MAY_ENTER | WEIR_MAY_ANYONE;
    add_secrets(u, t, user, spec->password, false);
    add_secrets(u, t, user, spec->file_password, false);
    add_secrets(u, t, user, spec->hash, true);
    for (size_t i = 0; i < WEIR_USER_SECRETS_MAX; i++)
        user->certificate[i] =
            spec->certificate[i]
                ? weir_arena_copy(&t->arena, spec->certificate[i], strlen(spec->certificate[i]))
                : NULL;
    weir_status st = make_patterns(&spec->policies, true, &user->policies);
    if (st == WEIR_OK)
        st = make_patterns(&spec->keys, false, &user->keys);
    if (!weir_user_is_bound(user))
        user->may |= (spec->may & WEIR_MAY_TAKE ? WEIR_MAY_TAKE_OTHERS : 0) |
                     (spec->may & WEIR_MAY_METRICS ? WEIR_MAY_METRICS_OTHERS : 0);
    return t->arena.failed ? WEIR_E_NOMEM : st;
}

static void free_table(weir_user_table *t)
{
    for (size_t i = 0; t && i < t->len; i++) {
        weir_key_patterns_free(t->user[i].policies);
        weir_key_patterns_free(t->user[i].keys);
    }
    if (t)
        weir_arena_free(&t->arena);
    port_free(t);
}

static weir_status make_table(const weir_users *u, const weir_user_spec *specs, size_t n,
                              bool single, weir_user_table **ret)
{
    weir_user_table *t = port_zalloc(1, sizeof *t);
    if (!t)
        return WEIR_E_NOMEM;
    t->single = single;
    t->references = 1;
    t->user = weir_arena_alloc(&t->arena, n, sizeof *t->user);
    weir_status st = t->user ? WEIR_OK : WEIR_E_NOMEM;
    for (size_t i = 0; i < n && st == WEIR_OK; i++)
        st = add_user(u, t, &specs[i]);
    if (st == WEIR_OK)
        *ret = t;
    else
        free_table(t);
    return st;
}

/* ---- the set --------------------------------------------------------------------------------- */

weir_status weir_users_open(weir_users **ret)
{
    weir_users *u = port_zalloc(1, sizeof *u);
    if (!u)
        return WEIR_E_NOMEM;
    u->lock = port_mutex_new();
    weir_status st = u->lock ? port_random(&u->secret, sizeof u->secret) : WEIR_E_NOMEM;
    if (st == WEIR_OK)
        st = port_random(u->digest_key, sizeof u->digest_key);
    port_store_relaxed(&u->generation, 1);
    if (st == WEIR_OK)
        *ret = u;
    else
        weir_users_close(u);
    return st;
}

void weir_users_close(weir_users *u)
{
    if (!u)
        return;
    WEIR_ASSERT(!u->table || u->table->references == 1);
    free_table(u->table);
    port_mutex_free(u->lock);
    port_free(u);
}

/* Drops a reference. Under the lock. */
static void drop(weir_user_table *t)
{
    if (t && --t->references == 0)
        free_table(t);
}

weir_status weir_users_set(weir_users *u, const weir_user_spec *specs, size_t n, bool single)
{
    weir_user_table *t = NULL;
    weir_status st = n > 0 ? make_table(u, specs, n, single, &t) : WEIR_OK;
    if (st != WEIR_OK)
        return st;
    port_mutex_lock(u->lock);
    drop(u->table);
    u->table = t;
    port_add_relaxed(&u->generation, 1);
    port_mutex_unlock(u->lock);
    return WEIR_OK;
}

/* ---- a thread's access ----------------------------------------------------------------------- */

bool weir_access_is_stale(const weir_access *a)
{
    return a->users && a->generation != port_load_relaxed(&a->users->generation);
}

void weir_access_adopt(weir_access *a)
{
    weir_users *u = a->users;
    port_mutex_lock(u->lock);
    drop((weir_user_table *)a->table);
    a->table = u->table;
    if (u->table)
        u->table->references++;
    a->generation = port_load_relaxed(&u->generation);
    port_mutex_unlock(u->lock);
}

void weir_access_close(weir_access *a)
{
    if (!a->users)
        return;
    port_mutex_lock(a->users->lock);
    drop((weir_user_table *)a->table);
    port_mutex_unlock(a->users->lock);
    a->table = NULL;
    a->generation = 0;
}

bool weir_access_is_single(const weir_access *a)
{
    return a->table && a->table->single;
}

bool weir_access_wrong_password(const weir_access *a, const void *peer)
{
    return !a->wrong_password || a->wrong_password(a->ctx, peer);
}

void weir_access_denied(const weir_access *a, const void *peer, const weir_login *l,
                        unsigned rights)
{
    if (a->denied)
        a->denied(a->ctx, peer, l->user, rights);
}

/* ---- logins ---------------------------------------------------------------------------------- */

/* Compares in a time that depends on the lengths alone. */
static bool is_same(const char *text, size_t len, weir_slice given)
{
    unsigned different = given.len != len;
    for (size_t i = 0; i < len; i++)
        different |=
            (unsigned)(uint8_t)text[i] ^ (i < given.len ? (unsigned)(uint8_t)given.at[i] : 0U);
    return different == 0;
}

static const weir_user *find_user(const weir_user_table *t, weir_slice name)
{
    const weir_user *found = NULL;
    for (size_t i = 0; i < t->len; i++) {
        const weir_user *u = &t->user[i];
        if (is_same(u->name, u->name_len, name))
            found = u;
    }
    return found;
}

/* The user with the password that a login has given. */
static const weir_user *find_again(const weir_user_table *t, const weir_login *l)
{
    const weir_user *found = NULL;
    for (size_t i = 0; i < t->len && l->name_id != 0; i++) {
        for (size_t k = 0; k < t->user[i].secrets_len; k++) {
            if (t->user[i].id == l->name_id && t->user[i].secret[k].id == l->secret_id)
                found = &t->user[i];
        }
    }
    return found;
}

static const weir_user *find_certified(const weir_access *a, const void *peer)
{
    const weir_user *found = NULL;
    for (size_t i = 0; a->is_certified && i < a->table->len && !found; i++) {
        const weir_user *u = &a->table->user[i];
        for (size_t k = 0; k < WEIR_USER_SECRETS_MAX; k++) {
            if (u->certificate[k] && a->is_certified(a->ctx, peer, u->certificate[k]))
                found = u;
        }
    }
    return found;
}

static void set_user(weir_login *l, const weir_access *a, const weir_user *user)
{
    l->user = user;
    l->generation = a->generation;
    l->everything =
        !a->table || (user && !weir_user_is_bound(user) && (~user->may & WEIR_MAY_ALL) == 0);
}

void weir_login_resolve(weir_login *l, const weir_access *a, const void *peer)
{
    const weir_user *user = NULL;
    const char *bound = a->table && a->bound_to ? a->bound_to(a->ctx, peer) : NULL;
    if (bound)
        user = find_user(a->table, (weir_slice){bound, strlen(bound)});
    else if (a->table)
        user = find_certified(a, peer);
    l->is_fixed = bound || user;
    if (a->table && !l->is_fixed)
        user = find_again(a->table, l);
    set_user(l, a, user);
}

weir_login weir_login_begin(const weir_access *a)
{
    return (weir_login){.everything = !weir_access_is_limited(a)};
}

/* Whether the password is the one that had this hash before. A half-written digest matches none. */
static bool is_verified(const secret *s, const uint64_t digest[4])
{
    uint64_t different = 0, any = 0;
    for (size_t i = 0; i < 4; i++) {
        uint64_t word = port_word_load_relaxed(&s->verified[i]);
        different |= word ^ digest[i];
        any |= word;
    }
    return any != 0 && different == 0;
}

/* Counts a comparison with slow hashes. Returns false if there were too many in this second. */
static bool may_hash(weir_access *a, int64_t now_ns)
{
    if (now_ns - a->second_ns >= 1000000000 || now_ns < a->second_ns) {
        a->second_ns = now_ns;
        a->slow = 0;
    }
    return a->slow++ < SLOW_A_SECOND;
}

/* Compares with all hashes of a user, and as often if it has fewer than others or is unknown. */
static const secret *find_slowly(const weir_user_table *t, const weir_user *user,
                                 weir_slice password, const uint64_t digest[4])
{
    const secret *found = NULL;
    size_t n = 0;
    for (size_t i = 0; user && i < user->secrets_len; i++) {
        const secret *s = &user->secret[i];
        n += s->is_hash;
        if (s->is_hash && weir_scrypt_is(s->text, password.at, password.len))
            found = s;
    }
    for (; n < t->hashes_max; n++)
        (void)weir_scrypt_is(t->hash, password.at, password.len);
    for (size_t i = 0; found && i < 4; i++)
        port_word_store_relaxed(&found->verified[i], digest[i]);
    return found;
}

/* Finds a secret without slow hashes. */
static const secret *find_fast(const weir_user *user, weir_slice password, const uint64_t digest[4])
{
    const secret *found = NULL;
    for (size_t i = 0; i < user->secrets_len; i++) {
        const secret *s = &user->secret[i];
        if (s->is_hash ? is_verified(s, digest) : is_same(s->text, s->len, password))
            found = s;
    }
    return found;
}

weir_login_result weir_login_try(weir_access *a, weir_slice name, weir_slice password,
                                 int64_t now_ns, weir_login *ret)
{
    const weir_user_table *t = a->table;
    uint64_t digest[4] = {0};
    WEIR_ASSERT(t);
    const weir_user *user = find_user(t, name);
    bool slow = t->hashes_max > 0 &&
                weir_password_digest(a->users->digest_key, password.at, password.len, digest);
    const secret *found = find_fast(user ? user : t->user, password, digest);
    found = user ? found : NULL; /* an unknown user is compared with another one */
    if (!found && slow && !may_hash(a, now_ns))
        return WEIR_LOGIN_BUSY;
    if (!found && slow)
        found = find_slowly(t, user, password, digest);
    if (!user || !found)
        return WEIR_LOGIN_WRONG;
    *ret = (weir_login){.name_id = user->id, .secret_id = found->id};
    set_user(ret, a, user);
    return WEIR_LOGIN_OK;
}
