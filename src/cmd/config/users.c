/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `users`: who may log in, and what each user may do. It must not know any protocol. */

#include "cmd/config/keys.h"
#include "service/rules/key_patterns.h"

#include <string.h>

#define MEMBER(member) CONFIG_MEMBER(weir_user_spec, member)

/* ---- secrets --------------------------------------------------------------------------------- */

static void read_hash(config_reader *r, const config_place *place, const char **ret)
{
    static const char expected[] = "the hash of a password, as docs/users.md makes it";
    if (!config_want_scalar(r, place, expected))
        return;
    if (weir_scrypt_check(place->node->text))
        *ret = place->node->text;
    else
        config_error(r->errors, place, "expected %s: " WEIR_SCRYPT_EXPECTED, expected);
}

/* Reads one value or two.
 *  key->low  the type of each; CONFIG_OTHER: a hash. */
static void read_secrets(config_reader *r, const config_place *place, const config_key *key,
                         void *base)
{
    const char **ret = (const char **)((char *)base + key->offset);
    size_t n = 0;
    config_key row = {.name = key->name,
                      .type = (config_type)key->low,
                      .size = sizeof *ret,
                      .low = 1,
                      .high = CONFIG_PASSWORD_MAX,
                      .refuse = config_refuse_password};
    for (config_place entry = {0}; config_next_entry(place, &entry); n++) {
        row.offset = key->offset + n * sizeof *ret;
        if (n == WEIR_USER_SECRETS_MAX)
            config_error(r->errors, place, "expected one %s, or a list of an old and a new one",
                         key->name);
        else if (n < WEIR_USER_SECRETS_MAX && row.type == CONFIG_OTHER)
            read_hash(r, &entry, &ret[n]);
        else if (n < WEIR_USER_SECRETS_MAX)
            config_read_value(r, &entry, &row, base);
    }
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* key->low: 1 for names of policies, which are no addresses. */
static void read_patterns(config_reader *r, const config_place *place, const config_key *key,
                          void *base)
{
    const char *expected = key->low ? "the name of a policy, or a prefix followed by '*'"
                                    : "a key, a prefix followed by '*', or a network such as "
                                      "\"10.0.0.0/8\"";
    weir_user_texts *ret = (weir_user_texts *)((char *)base + key->offset);
    const bool is_list = place->node->kind == CONFIG_LIST;
    const size_t n = is_list ? place->node->children : 1;
    char why[256];
    if (n == 0 || n > WEIR_USER_PATTERNS_MAX || config_is_empty(place->node)) {
        config_error(r->errors, place, "expected 1 to %d entries, each %s; without the key, all",
                     WEIR_USER_PATTERNS_MAX, expected);
        return;
    }
    weir_key_patterns *patterns = weir_key_patterns_new(n);
    const char **texts = weir_arena_alloc(r->arena, n, sizeof *texts);
    r->arena->failed |= !patterns;
    for (config_place entry = {0}; patterns && texts && config_next_entry(place, &entry);) {
        if (!config_want_scalar(r, &entry, expected))
            continue;
        weir_status st =
            weir_key_patterns_add(patterns, entry.node->text, key->low, 0, why, sizeof why);
        if (st == WEIR_E_SYNTAX)
            config_error(r->errors, &entry, "%s", why);
        r->arena->failed |= st == WEIR_E_NOMEM;
        texts[ret->len++] = entry.node->text;
    }
    ret->at = texts;
    weir_key_patterns_free(patterns);
}

/* ---- rights ---------------------------------------------------------------------------------- */

#define WORDS                                                                                      \
    "{\"enum\":[\"take\",\"peek\",\"refund\",\"reserve\",\"reset\",\"override\",\"policy\","       \
    "\"top\",\"metrics\",\"admin\"]}"

static void read_may(config_reader *r, const config_place *place, const config_key *key, void *base)
{
    static const char expected[] =
        "a list of take, peek, refund, reserve, reset, override, policy, "
        "top and metrics, or admin, which is all of them";
    weir_user_spec *spec = base;
    (void)key;
    for (config_place entry = {0}; config_next_entry(place, &entry);) {
        unsigned i = 0;
        if (!config_want_scalar(r, &entry, expected))
            continue;
        while (i <= WEIR_RIGHTS && strcmp(entry.node->text, weir_right_words[i]) != 0)
            i++;
        if (i > WEIR_RIGHTS)
            config_error(r->errors, &entry, "unknown right '%.40s', expected %s", entry.node->text,
                         expected);
        else
            spec->may |= i == WEIR_RIGHTS ? WEIR_MAY_ALL : 1U << i;
    }
}

static void check_user(config_reader *r, const config_place *place, void *base)
{
    const config_place file = config_below(place, "password_file");
    (void)base;
    if (file.node && config_get(place->node, "password"))
        config_error_on(r->errors, file.key, place,
                        "both password and password_file are set, expected only one");
}

static const config_key user_keys[] = {
    {"password", CONFIG_OTHER, MEMBER(password), .low = CONFIG_PASSWORD, .schema = CONFIG_TEXTS,
     .read = read_secrets},
    {"password_file", CONFIG_OTHER, MEMBER(file_password), .low = CONFIG_PASSWORD_FILE,
     .schema = CONFIG_TEXTS, .read = read_secrets},
    {"password_hash", CONFIG_OTHER, MEMBER(hash), .low = CONFIG_OTHER, .schema = CONFIG_TEXTS,
     .read = read_secrets},
    {"certificate", CONFIG_OTHER, MEMBER(certificate), .low = CONFIG_STRING, .schema = CONFIG_TEXTS,
     .read = read_secrets},
    {"policies", CONFIG_OTHER, MEMBER(policies), .low = 1, .schema = CONFIG_TEXTS,
     .read = read_patterns},
    {"keys", CONFIG_OTHER, MEMBER(keys), .schema = CONFIG_TEXTS, .read = read_patterns},
    {"may", CONFIG_OTHER, .schema = WORDS ",{\"type\":\"array\",\"items\":" WORDS "}",
     .read = read_may},
};

const config_section config_user_section = {
    CONFIG_KEYS(user_keys), .check = check_user,
    .expected = "expected a user, such as {password: \"s3cret\", may: [take, peek]}"};

/* ---- the section ----------------------------------------------------------------------------- */

static void check_name(config_reader *r, const config_place *place)
{
    const config_node *name = place->key;
    bool good = name->len >= 1 && name->len <= WEIR_USER_NAME_MAX;
    for (size_t i = 0; i < name->len; i++)
        good = good && name->text[i] > ' ' && name->text[i] != 0x7F && name->text[i] != ':';
    if (!good)
        config_error_on(r->errors, name, place,
                        "expected a name of 1 to %d printable ASCII characters without spaces and "
                        "':'",
                        WEIR_USER_NAME_MAX);
    if (strcmp(name->text, WEIR_USER_DEFAULT) == 0 &&
        (config_get(r->root, "password") || config_get(r->root, "password_file")))
        config_error_on(r->errors, name, place,
                        "the top-level password is that of the user default, who is also here; "
                        "remove one of them");
}

void config_read_users(config_reader *r, const config_place *place, const config_key *key,
                       void *base)
{
    weir_config *c = base;
    const config_node *n = place->node;
    (void)key;
    if (config_is_empty(n))
        return;
    if (n->kind != CONFIG_MAP || n->children >= WEIR_USERS_MAX) {
        config_error(r->errors, place,
                     "expected a map of at most %d users, such as web: {password: \"s3cret\", may: "
                     "[take]}",
                     WEIR_USERS_MAX - 1);
        return;
    }
    /* One more, for the top-level password: config_fit_users(). */
    weir_user_spec *specs = weir_arena_alloc(r->arena, n->children + 1, sizeof *specs);
    c->users = specs;
    for (const config_node *k = n->first; k && specs; k = k->next) {
        const config_place below = {.up = place, .key = k, .node = k->value};
        if (k->bad || k->value->bad)
            continue;
        check_name(r, &below);
        specs[c->users_len].name = k->text;
        config_read_section(r, &below, &config_user_section, &specs[c->users_len++]);
    }
}

void config_read_listen_user(config_reader *r, const config_place *place, const config_key *key,
                             void *base)
{
    config_listen *listen = base;
    const weir_config *c = r->config;
    bool found = false;
    (void)key;
    if (!config_want_scalar(r, place, "the name of a user"))
        return;
    for (size_t i = 0; i < c->users_len; i++)
        found |= strcmp(c->users[i].name, place->node->text) == 0;
    listen->user = place->node->text;
    if (!found)
        config_error(r->errors, place, "unknown user '%.64s', expected one of the section users",
                     place->node->text);
}

void config_fit_users(config_reader *r)
{
    weir_config *c = r->config;
    const config_place root = {.node = r->root};
    const config_place password = config_below(&root, "password");
    c->users_single = c->users_len == 0;
    if (!c->password)
        return;
    if (!c->users_single && strchr(c->password, ':')) {
        const config_place file = config_below(&root, "password_file");
        config_error(
            r->errors, password.node ? &password : &file,
            "the password contains ':', which separates a name from a password where there "
            "are users");
    }
    weir_user_spec *specs = c->users_len > 0 ? (weir_user_spec *)c->users
                                             : weir_arena_alloc(r->arena, 1, sizeof *specs);
    if (!specs)
        return;
    specs[c->users_len++] =
        (weir_user_spec){.name = WEIR_USER_DEFAULT, .password = {c->password}, .may = WEIR_MAY_ALL};
    c->users = specs;
}

/* ---- warnings -------------------------------------------------------------------------------- */

/* Whether a pattern matches a policy, or policy texts or CL.THROTTLE. */
static bool matches_policy(const weir_config *c, const char *pattern)
{
    size_t len = strlen(pattern);
    bool prefix = pattern[len - 1] == '*', found = false;
    len -= prefix;
    const char *const others[] = {WEIR_COUNTS_TEXTS, WEIR_COUNTS_THROTTLE};
    for (size_t i = 0; i < c->rules_len + 2 && !found; i++) {
        const char *name = i < 2 ? others[i] : c->rules[i - 2].name;
        found = strncmp(name, pattern, len) == 0 && (prefix || name[len] == '\0');
    }
    return found;
}

/* Whether a listener makes its clients this user. */
static bool is_bound(const weir_config *c, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < c->listens_len; i++)
        found |= c->listens[i].user && strcmp(c->listens[i].user, name) == 0;
    return found;
}

bool config_fixes_users(const weir_config *c)
{
    bool found = false;
    for (size_t i = 0; i < c->listens_len; i++)
        found |= c->listens[i].user != NULL;
    for (size_t i = 0; i < c->users_len; i++)
        found |= c->users[i].certificate[0] != NULL;
    return found;
}

static bool reads_certificates(const weir_config *c)
{
    bool found = false;
    for (size_t i = 0; i < c->listens_len; i++) {
        const config_tls *tls = config_listen_tls(c, &c->listens[i]);
        found |= tls && tls->client_ca;
    }
    return found;
}

static void warn_of_user(config_reader *r, const config_place *user, const weir_user_spec *spec)
{
    const weir_config *c = r->config;
    const config_place policies = config_below(user, "policies");
    const config_place certificate = config_below(user, "certificate");
    bool secret = spec->password[0] || spec->file_password[0] || spec->hash[0];
    if (spec->may == 0)
        config_warn(r->errors, user, "this user may do nothing, because may is missing or empty");
    if (!secret && !spec->certificate[0] && !is_bound(c, spec->name))
        config_warn(r->errors, user,
                    "no client can be this user: it has no password and no certificate, and no "
                    "address of listen has it");
    if (certificate.node && !reads_certificates(c))
        config_warn(r->errors, &certificate,
                    "this has no effect, because no address of listen has tls.client_ca");
    for (config_place entry = {0};
         spec->policies.len > 0 && config_next_entry(&policies, &entry);) {
        if (!matches_policy(c, entry.node->text))
            config_warn(r->errors, &entry, "this matches no policy");
    }
}

void config_check_users(config_reader *r)
{
    const config_place root = {.node = r->root}, users = config_below(&root, "users");
    const weir_user_spec *spec = r->config->users; /* in the order of the file */
    for (const config_node *k = users.node ? users.node->first : NULL; k; k = k->next, spec++) {
        const config_place user = {.up = &users, .key = k, .node = k->value};
        warn_of_user(r, &user, spec);
    }
}
