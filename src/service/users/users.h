/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_USERS_USERS_H
#define WEIR_SERVICE_USERS_USERS_H
/* Who a client is, and what it may do: users with their secrets, their rights, and the policies and
 * keys that they may use. A session asks before it runs a request. This module must not know any
 * protocol.
 *
 * The users are in a table, which a reload replaces. Each thread has a weir_access, which refers to
 * the active table, and each session has a weir_login. */

#include "port/atomic.h"
#include "port/text.h"
#include "service/rules/rules.h"

#include <weir/weir.h>

/* ---- rights ---------------------------------------------------------------------------------- */

/* The rights of users. The table of a protocol has a set of them for each command or endpoint: the
 * user needs one of the set. */
typedef enum weir_right {
    WEIR_MAY_TAKE = 1 << 0,
    WEIR_MAY_PEEK = 1 << 1,
    WEIR_MAY_REFUND = 1 << 2,
    WEIR_MAY_RESERVE = 1 << 3,
    WEIR_MAY_RESET = 1 << 4,
    WEIR_MAY_OVERRIDE = 1 << 5, /* shadow mode and candidates */
    WEIR_MAY_POLICY = 1 << 6,
    WEIR_MAY_TOP = 1 << 7,
    WEIR_MAY_METRICS = 1 << 8,
    WEIR_MAY_ENTER = 1 << 9,   /* every user has it */
    WEIR_MAY_ANYONE = 1 << 10, /* clients that have not logged in have it too */
    /* `take` and `metrics` of a user without patterns, for the limits of Envoy's service and of
     * limitador, which patterns do not cover */
    WEIR_MAY_TAKE_OTHERS = 1 << 11,
    WEIR_MAY_METRICS_OTHERS = 1 << 12,
} weir_right;

enum {
    WEIR_RIGHTS = 9,                      /* the first ones, which weir.yaml names */
    WEIR_MAY_ALL = (1 << WEIR_RIGHTS) - 1 /* all of these: admin */
};

/* "take", "peek" and so on, by bit; "admin" is the last one. */
extern const char *const weir_right_words[WEIR_RIGHTS + 1];

/* Returns the word of the first right of a set, for messages. */
const char *weir_right_word(unsigned rights);

/* ---- users ----------------------------------------------------------------------------------- */

enum {
    WEIR_USERS_MAX = 256,
    WEIR_USER_NAME_MAX = 64,
    WEIR_USER_SECRETS_MAX = 2, /* of each kind: an old one and a new one */
    WEIR_USER_PATTERNS_MAX = 4096,
};

/* The user of a client that sends a password without a name. */
#define WEIR_USER_DEFAULT "default"

/* Texts of a user. */
typedef struct weir_user_texts {
    const char *const *at;
    size_t len;
} weir_user_texts;

typedef struct weir_user_spec {
    const char *name; /* 1..WEIR_USER_NAME_MAX bytes */
    const char *password[WEIR_USER_SECRETS_MAX];
    const char *file_password[WEIR_USER_SECRETS_MAX]; /* from password_file */
    const char *hash[WEIR_USER_SECRETS_MAX];          /* that weir_scrypt_check() accepts */
    const char *certificate[WEIR_USER_SECRETS_MAX];   /* names in a client certificate */
    weir_user_texts policies, keys;                   /* patterns; len 0: all */
    unsigned may;                                     /* of WEIR_MAY_ALL */
} weir_user_spec;

typedef struct weir_user weir_user;

const char *weir_user_name(const weir_user *u);

/* Whether the user has one of the rights. NULL has all. */
bool weir_user_may(const weir_user *u, unsigned rights);

/* Whether the user may use a policy, and see it. NULL sees all.
 *  policy  a name; WEIR_COUNTS_TEXTS for a policy text, WEIR_COUNTS_THROTTLE for CL.THROTTLE. */
bool weir_user_sees(const weir_user *u, weir_slice policy);

/* Whether the user may use a key. A key that is an address is compared in its canonical form, and
 * with networks. NULL may use all keys.
 *  key     key.at NULL stands for all keys.
 *  client  the client whose address the key contains, or NULL: networks are compared with it too,
 *          unless it is a trusted proxy. */
bool weir_user_has_key(const weir_user *u, weir_slice key, const weir_client *client);

/* Whether the user has patterns, and so may not use all policies and keys. */
bool weir_user_is_bound(const weir_user *u);

/* ---- the active users ------------------------------------------------------------------------ */

typedef struct weir_users weir_users;
typedef struct weir_user_table weir_user_table;

/* Opens an empty set: without users, every client may do everything.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_IO without random numbers. */
WEIR_NODISCARD weir_status weir_users_open(weir_users **ret);
void weir_users_close(weir_users *u); /* accepts NULL */

/* Replaces the users. Copies the specs.
 *  n       1..WEIR_USERS_MAX; 0: there are no users.
 *  single  weir.yaml has only a password: `default` is the only user, and HTTP needs no name.
 * Returns WEIR_OK; WEIR_E_NOMEM, with the old users active. Threads: any. */
WEIR_NODISCARD weir_status weir_users_set(weir_users *u, const weir_user_spec *specs, size_t n,
                                          bool single);

/* ---- a thread's access ----------------------------------------------------------------------- */

/* What a thread needs to log clients in. Its owner sets the members up to `ctx`; callbacks may be
 * NULL.
 *  peer  the connection of a session. */
typedef struct weir_access {
    weir_users *users; /* NULL: every client may do everything */
    /* Called for each wrong password. Returns true to delay the reply, false to send it at once and
     * close the connection. */
    bool (*wrong_password)(void *ctx, const void *peer);
    /* Called for each request that needs a right which the user does not have. */
    void (*denied)(void *ctx, const void *peer, const weir_user *user, unsigned rights);
    /* Returns the `user` of the connection's listener: the name of the user that all of its clients
     * are. NULL: there is none. */
    const char *(*bound_to)(void *ctx, const void *peer);
    /* Whether the client has a certificate with this name. */
    bool (*is_certified)(void *ctx, const void *peer, const char *name);
    void *ctx;

    const weir_user_table *table; /* the users that the thread refers to; NULL: none */
    uint64_t generation;          /* of the table */
    int64_t second_ns;            /* when the current second of slow hashes began */
    unsigned slow;                /* passwords compared with slow hashes in that second */
} weir_access;

/* Adopts the active users, and drops the former ones. Call it on the thread of the access, before a
 * session runs. */
void weir_access_adopt(weir_access *a);
bool weir_access_is_stale(const weir_access *a);
void weir_access_close(weir_access *a); /* the end of the thread's references */

static inline void weir_access_refresh(weir_access *a)
{
    if (a && __builtin_expect(weir_access_is_stale(a), 0))
        weir_access_adopt(a);
}

/* Whether there are users. */
static inline bool weir_access_is_limited(const weir_access *a)
{
    return a && a->table;
}

/* Whether `default` is the only user: see `single` of weir_users_set(). */
bool weir_access_is_single(const weir_access *a);

/* ---- logins ---------------------------------------------------------------------------------- */

/* Who a client is. All zero: it has not logged in. */
typedef struct weir_login {
    const weir_user *user; /* NULL: none */
    bool everything;       /* may run each request: there are no users, or the user is an admin
                              without patterns */
    bool is_fixed;         /* the listener or a certificate decides: no password is read */
    uint64_t generation;   /* of the table that `user` is in; 0: not known yet */
    uint64_t name_id, secret_id; /* of the name and the password that were given; 0: none */
} weir_login;

/* Finds the user again after the users have changed. If the user or the password that was given is
 * gone, the client is no longer logged in. The listener and the certificate come before a
 * password. */
void weir_login_resolve(weir_login *l, const weir_access *a, const void *peer);

/* Resolves the login if the users have changed. Call weir_access_refresh(a) before. */
static inline void weir_login_refresh(weir_login *l, const weir_access *a, const void *peer)
{
    if (a && __builtin_expect(l->generation != a->generation, 0))
        weir_login_resolve(l, a, peer);
}

/* The login of a client that has sent nothing yet. */
weir_login weir_login_begin(const weir_access *a);

typedef enum weir_login_result {
    WEIR_LOGIN_OK,
    WEIR_LOGIN_WRONG, /* an unknown user, or a wrong password: both take the same time */
    WEIR_LOGIN_BUSY   /* too many passwords are compared with slow hashes: try again */
} weir_login_result;

/* Compares a password in constant time.
 *  ret  written on WEIR_LOGIN_OK. */
weir_login_result weir_login_try(weir_access *a, weir_slice name, weir_slice password,
                                 int64_t now_ns, weir_login *ret);

/* Call the callbacks of an access. Without a callback, the first returns true. */
bool weir_access_wrong_password(const weir_access *a, const void *peer);
void weir_access_denied(const weir_access *a, const void *peer, const weir_login *l,
                        unsigned rights);

/* Returns the user whose rights and patterns limit the requests of a login; NULL: none does. */
static inline const weir_user *weir_login_bounds(const weir_login *l)
{
    return l->everything ? NULL : l->user;
}

/* ---- slow hashes (scrypt.c) ------------------------------------------------------------------ */

#define WEIR_SCRYPT_EXPECTED                                                                       \
    "$scrypt$ln=14,r=8,p=1$SALT$HASH with ln from 10 to 14, r=8, p=1, a SALT of 8 to 64 bytes "    \
    "and a HASH of 32 bytes in base64"

/* Whether a text is a hash of this form. Pure. */
bool weir_scrypt_check(const char *hash);

/* Whether a password has the hash; false if memory is exhausted. Takes about 40 ms with ln=14, and
 * half as long with each step down.
 *  hash  weir_scrypt_check() accepts it. */
bool weir_scrypt_is(const char *hash, const void *password, size_t len);

/* Computes a keyed hash of a password (HMAC-SHA256), which is fast. Returns false if memory is
 * exhausted. */
bool weir_password_digest(const uint8_t key[32], const void *password, size_t len, uint64_t ret[4]);

#endif
