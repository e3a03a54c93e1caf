/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_KEYS_H
#define WEIR_CMD_CONFIG_KEYS_H
/* The keys of weir.yaml as tables. A row has a key's name, type, range and default, and where its
 * value is stored. Reading, defaults, `weir check` and the comparison of two configurations all
 * work from these tables. keys_test.c fails if the documentation lacks a key. docs/HACKING.md has
 * the steps to add a key. */

#include "cmd/config/config.h"

typedef enum config_type {
    CONFIG_NUMBER,        /* 1000 */
    CONFIG_BOOL,          /* true or false */
    CONFIG_SIZE,          /* bytes: 64m */
    CONFIG_DURATION,      /* nanoseconds: 10s */
    CONFIG_WORD,          /* one of `words`; its index is stored */
    CONFIG_STRING,        /* a const char * */
    CONFIG_PATH,          /* a const char *; relative to the directory of the configuration */
    CONFIG_READABLE_PATH, /* the same, of a file that can be read */
    CONFIG_PASSWORD,      /* a const char * of low..high bytes */
    CONFIG_PASSWORD_FILE, /* the path of a file whose first line is the value of key "password" */
    CONFIG_SECTION,       /* a map with keys of its own */
    CONFIG_OTHER          /* only `read` knows it */
} config_type;

typedef struct config_reader {
    weir_arena *arena;
    config_errors *errors;
    weir_config *config;
    const weir_zones *zones;
    config_node *root;
    struct config_included *included; /* files; for config_free_included() */
    bool files;                       /* whether files that the configuration names are opened */
} config_reader;

typedef struct config_key {
    const char *name;
    config_type type;
    size_t offset, size; /* of the member that stores the value */
    int64_t low, high;   /* the range of a number, a size, a duration, or a password's length;
                            CONFIG_OTHER: `low` is a parameter of `read` */
    int64_t preset;      /* the default, stored as it is */
    bool may_be_off;     /* "off" and "0" are allowed, and store `off` */
    int64_t off;
    const char *const *words; /* CONFIG_WORD, by value; NULL for a value without a word */
    size_t words_len;
    const struct config_section *section;    /* CONFIG_SECTION */
    const char *(*refuse)(const char *text); /* a password: why it is invalid; NULL if it is not */
    /* Reads the value instead of the type's own reader. */
    void (*read)(config_reader *r, const config_place *place, const struct config_key *key,
                 void *base);
    /* Whether two configurations have the same value, of a key that is not live. NULL: the values
     * are compared. */
    bool (*same)(const struct config_key *key, const void *a, const void *b);
    const struct config_section *entries; /* of the maps in the value of a CONFIG_OTHER */
    const char *schema; /* of the values, as JSON Schema, if the type does not say it (schema.c) */
    bool live;          /* changes need no restart. So is a CONFIG_OTHER without `same`. For a
                           section: all its keys */
    bool left_out;      /* of this build: `read` reports it, and no error names it */
    const struct config_guest *guest; /* whose options have the values of the section; NULL: none */
} config_key;

/* The keys of a map. */
typedef struct config_section {
    const config_key *keys;
    size_t len;
    /* The error for a value that is no map. NULL: "expected a map, found ...". */
    const char *expected;
    /* Checks keys that depend on each other. Called if each key by itself is valid. */
    void (*check)(config_reader *r, const config_place *place, void *base);
} config_section;

/* Parts of a row. */
#define CONFIG_TEXT          "{\"$ref\":\"#/$defs/text\"}"
#define CONFIG_TEXTS         "{\"$ref\":\"#/$defs/texts\"}" /* a text or a list of texts */
#define CONFIG_MAP_OF(value) "{\"type\":\"object\",\"additionalProperties\":" value "}"
#define CONFIG_OR_OFF        "{\"enum\":[\"off\",0]},@"
#define CONFIG_MEMBER(type, member)                                                                \
    .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
#define CONFIG_RANGE(from, to, preset_) .low = (from), .high = (to), .preset = (preset_)
#define CONFIG_WORDS(words_, preset_)                                                              \
    .words = (words_), .words_len = CONFIG_LENGTH(words_), .preset = (preset_)
#define CONFIG_KEYS(keys_)   .keys = (keys_), .len = CONFIG_LENGTH(keys_) /* of a section */
#define CONFIG_LENGTH(array) (sizeof(array) / sizeof(array)[0])

#define CONFIG_MS_NS ((int64_t)1000000)
#define CONFIG_S_NS  ((int64_t)1000000000)
#define CONFIG_KIB   ((int64_t)1 << 10)
#define CONFIG_MIB   ((int64_t)1 << 20)
#define CONFIG_GIB   ((int64_t)1 << 30)

/* All keys. Rows of CONFIG_SECTION lead to the others. */
const config_section *config_root(void);

extern const config_section config_redis_section, config_hybrid_section; /* redis.c */
extern const config_section config_rule_section;   /* policies.c: of a policy */
extern const config_section config_http_section;   /* http.c */
extern const config_section config_tls_section;    /* tls.c: of listeners */
extern const config_section config_route_section;  /* routes.c: of a route */
extern const config_section config_denied_section; /* answer.c */
extern const config_section config_user_section;   /* users.c: of a user */

/* Reads a map by its table, in the order of the table, and reports unknown keys. Invalid values
 * are reported and not stored.
 *  base  the structure that the rows' offsets refer to. */
void config_read_section(config_reader *r, const config_place *place, const config_section *section,
                         void *base);

/* load.c: reads a file of keys, and replaces its variables. Returns NULL if that is impossible. */
config_node *config_read_tree(weir_arena *arena, config_errors *e);

/* include.c: adds the files of the key `include` to the tree; checks the key only, if no files are
 * opened. */
void config_include(config_reader *r);

/* Frees the texts of those files. No error can be reported after that. */
void config_free_included(config_reader *r);

/* A path relative to the directory of the configuration. NULL if memory is exhausted. */
const char *config_resolve_path(config_reader *r, const char *path);

/* The row of a key; NULL if the section has no such key. */
const config_key *config_row_of(const config_section *section, const char *name);

/* Finds a key by its path, such as "limits.connections". It must exist. */
const config_key *config_find_key(const char *path);

/* Stores the defaults of a section and the sections within. */
void config_set_defaults(const config_section *section, void *base);

/* root.c: sets the limits that follow from others, and warns if those of the file do not fit. */
void config_fit_limits(config_reader *r);

/* Whether changes need no restart; of a section: whichever key changes. */
bool config_is_live(const config_key *key);

/* Whether two structures have the same value for a key, or for all keys of a section, as far as
 * they are not live. */
bool config_same(const config_key *key, const void *a, const void *b);

/* Prints the value of a number, bool, size, duration, word or CONFIG_PATH as YAML has it. Returns
 * buf; NULL for other types. */
char *config_value_text(const config_key *key, const void *base, char *buf, size_t size);

/* ---- values ---------------------------------------------------------------------------------- */

/* Whether the value is a single value that is not empty. If not, reports "expected ...". */
bool config_want_scalar(config_reader *r, const config_place *place, const char *expected);

/* Reads a value by its type; for a custom `read` that accepts more. */
void config_read_value(config_reader *r, const config_place *place, const config_key *key,
                       void *base);

/* Converts byte `column` (from 1) of a value to a byte offset in the file. Returns false if it is
 * unknown, because an escape or a line break is before it. */
bool config_column(const config_errors *e, const config_node *node, size_t column, size_t *ret_at);

/* Reads "IP:PORT" or a port. Returns false if the text is none.
 *  ret  receives `address` and `is_public`. */
bool config_address_read(const char *text, config_listen *ret);

/* Whether a text can be the name of a header. */
bool config_is_header(const char *text);

/* ---- custom readers of rows ------------------------------------------------------------------ */

/* listen.c */
enum { CONFIG_LISTEN_KEYS = PROTOCOLS_MAX + 1 };

/* The section `listen`: a row for each protocol, and `unix`. */
config_section config_listen_section(config_key keys[static CONFIG_LISTEN_KEYS]);

void config_read_listen(config_reader *r, const config_place *place, const config_key *key,
                        void *base);
bool config_same_listen(const config_key *key, const void *a, const void *b);

/* answer.c: "10%", stored in the int at key->offset, plus key->low. */
void config_read_spread(config_reader *r, const config_place *place, const config_key *key,
                        void *base);

/* answer.c: a set of weir_header_flavour, stored in the unsigned at key->offset; `denied` of the
 * weir_answer at key->offset. */
void config_read_headers(config_reader *r, const config_place *place, const config_key *key,
                         void *base);
void config_read_denied(config_reader *r, const config_place *place, const config_key *key,
                        void *base);

/* proxies.c */
void config_read_trusted_proxies(config_reader *r, const config_place *place, const config_key *key,
                                 void *base);
void config_read_client_header(config_reader *r, const config_place *place, const config_key *key,
                               void *base);

/* tls.c: "off", or a map that is stored in the config_tls at key->offset. */
void config_read_tls(config_reader *r, const config_place *place, const config_key *key,
                     void *base);

/* users.c */
void config_read_users(config_reader *r, const config_place *place, const config_key *key,
                       void *base);

/* The user of an entry of `listen`. */
void config_read_listen_user(config_reader *r, const config_place *place, const config_key *key,
                             void *base);

/* Adds the user of the top-level password. */
void config_fit_users(config_reader *r);

/* Whether clients can be users without a password: by their address or certificate. */
bool config_fixes_users(const weir_config *c);

/* Warns of users who may do nothing, and so on. */
void config_check_users(config_reader *r);

/* root.c: why a text cannot be a password; NULL if it can. */
const char *config_refuse_password(const char *text);

/* policies.c */
void config_read_policies(config_reader *r, const config_place *place, const config_key *key,
                          void *base);

/* routes.c */
#define CONFIG_ROUTE_PATH_MAX 1024
void config_read_routes(config_reader *r, const config_place *place, const config_key *key,
                        void *base);

/* The key template of a policy, a weir_rule_spec. */
void config_read_key_template(config_reader *r, const config_place *place, const config_key *key,
                              void *base);

/* Reports too many different headers in the key templates of n policies. */
void config_check_headers(config_reader *r, const config_place *place, const weir_rule_spec *specs,
                          size_t n);

/* Reports an error if a map whose limits have this engine has the key on_error. */
void config_check_on_error(config_reader *r, const config_place *place, weir_engine_kind engine);

/* Reports that a value is not the name of a policy. The policies were read before. */
void config_check_policy(config_reader *r, const config_place *place);

/* Warns, at `place`, of a cost of 0, and of one that a policy never allows to requests with
 * this `keep`, whatever the key.
 * Policies that are not in the section `policies` are not checked. */
void config_check_cost(config_reader *r, const config_place *place, const char *policy,
                       int64_t cost, int64_t keep);

/* Reports a map of TLS keys that has only one of cert and key. For config_section.check. */
void config_check_client_tls(config_reader *r, const config_place *place, void *base);

/* Prints ", keep 20" or ", keep 20%"; nothing for 0. */
void config_print_keep(int64_t keep);

/* Reads what a request keeps for others: "20" or "20%"; see weir_check_keep(). Reports any other
 * value. */
void config_read_keep(config_reader *r, const config_place *place, int64_t *ret);

/* Parses a value as a template. Returns NULL after reporting an error; else for
 * weir_key_template_free(). */
weir_key_template *config_parse_template(config_reader *r, const config_place *place);

/* Reports that a value is not a template. */
void config_check_template(config_reader *r, const config_place *place);

/* policy_memory.c */
void config_read_policy_memory(config_reader *r, const config_place *place, const config_key *key,
                               void *base);

/* Adds the partition of a policy with memory of its own to the configuration. Reports why that is
 * impossible. The memory's sizes are known.
 *  rule  the place of the policy. */
void config_add_partition(config_reader *r, const config_place *rule, const weir_rule_spec *spec);

/* Whether weir_store_open() accepts the sizes and partitions so far.
 *  ret_error  written if the result is false. */
bool config_memory_fits(const weir_config *c, weir_store_error *ret_error);

/* redis.c: a weir_engine_kind that the configuration has a server for. */
void config_read_engine(config_reader *r, const config_place *place, const config_key *key,
                        void *base);
extern const char *const config_engine_words[3];   /* by weir_engine_kind */
extern const char *const config_on_error_words[4]; /* by weir_on_error */
extern const char *const config_no_key_words[4];   /* policies.c; by weir_no_key */

/* ---- guests ---------------------------------------------------------------------------------- */

/* A part of the program with a section of its own in weir.yaml, such as Envoy's service. The
 * configuration knows it only by this structure; cmd/guests.c has the list. `self` is the guest's
 * options. Members that a guest does not need are NULL. */
typedef struct config_guest {
    config_key key;         /* of the section; its offsets refer to the options. No name: none */
    size_t size;            /* of the options, which begin as zeros and the presets of the keys */
    bool names_policies;    /* the section is read after `policies` and `routes`, not before */
    const char *limits_key; /* the key that names its limits, which are rules like the policies */
    const struct feature *feature; /* its part of the daemon; NULL: the program lacks it */
    const protocol_name *protocol; /* that it brings */
    const struct protocol_row *protocol_row; /* the functions of that protocol */

    bool (*has_limits)(const void *self); /* whether limits_key is set */
    bool (*is_active)(
        const void *self); /* whether the section has an effect; NULL: by has_limits */
    /* Reads the files that the section names, after all keys were read without an error. Returns
     * false if they cannot be read now; then an error was reported. */
    bool (*load)(config_reader *r, void *self);
    void (*check)(config_reader *r, const void *self); /* warns of keys that have no effect */
    bool (*uses_engine)(const void *self, weir_engine_kind engine);
    /* Replaces the engine `local` by `redis`. Returns false with the reason in *ret_error. */
    bool (*use_redis)(weir_config *c, void *self, weir_redis_error *ret_error);
    void (*print)(const weir_config *c, const void *self); /* for weir check, after the policies */
    void (*free)(void *self);

    /* Only the guest whose variables weir serve --envoy reads, and whose directory weir check
     * --envoy checks, has these. The error is at most CONFIG_ENVIRONMENT_ERROR_MAX bytes. */
    bool (*apply_environment)(weir_config *c, char *const *env, char *ret_error);
    void (*explain_environment)(char *const *env,
                                void (*note)(void *ctx, bool warning, const char *names,
                                             const char *why),
                                void *ctx);
    void (*set_directory)(void *self, const char *directory);
} config_guest;

#define CONFIG_ENVIRONMENT_ERROR_MAX 400 /* with the NUL */

/* Sets the guests that a configuration may have, at most CONFIG_GUESTS_MAX. Call it before all
 * other functions; without it there are none. The array is kept. */
void config_set_guests(const config_guest *const *guests, size_t len);

/* The guest with an index; NULL after the last one. */
const config_guest *config_guest_at(size_t i);

/* The guest that brings a protocol; NULL if there is none. */
const config_guest *config_guest_of(protocol_kind kind);

/* The protocol that a guest brings. */
protocol_kind config_protocol_of(const config_guest *guest);

/* The options of a guest in a configuration. */
void *config_options(const weir_config *c, const config_guest *guest);

/* ---- effects.c and patterns.c ---------------------------------------------------------------- */

/* Warns of keys that have no effect because of other keys.
 *  r  has read its tree without an error. */
void config_check_effects(config_reader *r);

/* Warns of a section that has no effect, because there is no listener of the protocols a and b.
 *  needs  "listen.http (or weir serve --http)". */
void config_check_listens(config_reader *r, const char *section, protocol_kind a, protocol_kind b,
                          const char *needs);

/* Warns of a key of a section that another key makes useless.
 *  why  follows "this has no effect, because". */
void config_check_useless(config_reader *r, const config_place *section, const char *key,
                          bool useless, const char *why);

/* Whether there is a listener of a protocol. */
bool config_listens(const weir_config *c, protocol_kind kind);

/* Warns of patterns of a policy that match no key, or other keys than they seem to.
 *  policy  its value is a map. */
void config_check_patterns(config_reader *r, const config_place *policy,
                           const weir_rule_spec *spec);

/* ---- preflight.c ----------------------------------------------------------------------------- */

/* Reports what would keep the daemon from starting on this machine as this user. Creates and
 * changes nothing.
 *  r  has read its tree without an error. */
void config_preflight(config_reader *r);

#endif
