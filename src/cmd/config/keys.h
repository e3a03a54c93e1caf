/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_KEYS_H
#define WEIR_CMD_CONFIG_KEYS_H
/* The keys of weir.yaml as tables. A row has a key's name, type, range and default, and where its
 * value is stored. Reading, defaults, `weir check` and the comparison of two configurations all
 * work from these tables. keys_test.c fails if the documentation lacks a key. docs/HACKING.md has
 * the steps to add a key. */

#include "cmd/config/errors.h"

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
    config_arena *arena;
    config_errors *errors;
    weir_config *config;
    const weir_zones *zones;
    const config_node *root;
    bool files;                   /* whether files that the configuration names are opened */
    struct envoy_origin *origins; /* of the limits in envoy.config */
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
    /* Whether two configurations have the same value. NULL: the values are compared; CONFIG_OTHER:
     * changes need no restart, or another key stores the value. */
    bool (*same)(const struct config_key *key, const weir_config *a, const weir_config *b);
    bool live; /* changes need no restart */
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
extern const config_section config_root;

extern const config_section config_redis_section, config_hybrid_section; /* redis.c */
extern const config_section config_rule_section;                       /* policies.c: of a policy */
extern const config_section config_http_section;                       /* http.c */
extern const config_section config_tls_section;                        /* tls.c: of listeners */
extern const config_section config_envoy_section, config_grpc_section; /* envoy.c */
extern const config_section config_limitador_section;                  /* limitador.c */
extern const config_section config_route_section;                      /* routes.c: of a route */
extern const config_section config_denied_section;                     /* answer.c */
extern const config_section config_spoe_section, config_spoe_message_section; /* spoe.c */

/* Reads a map by its table, in the order of the table, and reports unknown keys. Invalid values
 * are reported and not stored.
 *  base  the structure that the rows' offsets refer to. */
void config_read_section(config_reader *r, const config_place *place, const config_section *section,
                         void *base);

/* Finds a key by its path, such as "limits.connections". It must exist. */
const config_key *config_find_key(const char *path);

/* Stores the defaults of a section and the sections within. */
void config_set_defaults(const config_section *section, void *base);

/* Whether two configurations have the same value for a key, or for all keys of a section. */
bool config_same(const config_key *key, const weir_config *a, const weir_config *b);

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

/* Reads a size such as "256m". Returns false if the text is not a size from 0 to INT64_MAX.
 *  ret  written only on success. */
bool config_size_read(const char *text, int64_t *ret);

/* Reads a duration such as "10s" in nanoseconds, 1 or more. Returns false if the text is none.
 *  ret  written only on success. */
bool config_duration_read(const char *text, int64_t *ret);

/* Reads "IP:PORT" or a port. Returns false if the text is none.
 *  ret  receives `address` and `is_public`. */
bool config_address_read(const char *text, config_listen *ret);

/* Whether a text can be the name of a header. */
bool config_is_header(const char *text);

/* Prints a size as YAML has it: "256m". Returns buf, of 24 bytes or more. */
char *config_size_text(uint64_t bytes, char *buf, size_t size);

/* ---- custom readers of rows ------------------------------------------------------------------ */

/* listen.c */
void config_read_listen(config_reader *r, const config_place *place, const config_key *key,
                        void *base);
bool config_same_listen(const config_key *key, const weir_config *a, const weir_config *b);

/* answer.c: a set of weir_header_flavour, stored in the unsigned at key->offset; `denied` of the
 * weir_answer at key->offset. */
void config_read_headers(config_reader *r, const config_place *place, const config_key *key,
                         void *base);
bool config_same_headers(const config_key *key, const weir_config *a, const weir_config *b);
void config_read_denied(config_reader *r, const config_place *place, const config_key *key,
                        void *base);
bool config_same_answer(const weir_answer *a, const weir_answer *b);

/* proxies.c */
void config_read_trusted_proxies(config_reader *r, const config_place *place, const config_key *key,
                                 void *base);
bool config_same_trusted_proxies(const config_key *key, const weir_config *a, const weir_config *b);
void config_read_client_header(config_reader *r, const config_place *place, const config_key *key,
                               void *base);
bool config_same_client_header(const config_key *key, const weir_config *a, const weir_config *b);

/* tls.c: "off", or a map that is stored in the config_tls at key->offset. */
void config_read_tls(config_reader *r, const config_place *place, const config_key *key,
                     void *base);

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

/* Reports that a value is not the name of a policy. The policies were read before. */
void config_check_policy(config_reader *r, const config_place *place);

/* Warns, at `place`, of a cost that a policy never allows, whatever the key. Policies that are not
 * in the section `policies` are not checked. */
void config_check_cost(config_reader *r, const config_place *place, const char *policy,
                       int64_t cost);

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

/* redis.c: a weir_engine_kind that the configuration has a server for. */
void config_read_engine(config_reader *r, const config_place *place, const config_key *key,
                        void *base);
extern const char *const config_engine_words[3];   /* by weir_engine_kind */
extern const char *const config_on_error_words[4]; /* by weir_on_error */

/* envoy.c */
void config_read_envoy(config_reader *r, const config_place *place, const config_key *key,
                       void *base);

/* Reads the directory envoy.config, and builds its limits. Call it after all keys were read without
 * an error. Returns false if the directory cannot be read now; then an error was reported. */
bool config_read_limits(config_reader *r);

/* limitador.c */
void config_read_limitador(config_reader *r, const config_place *place, const config_key *key,
                           void *base);

/* Reads the limits file of limitador. Call it after config_read_limits(). Returns false if the file
 * could not be read. */
bool config_read_limits_file(config_reader *r);

/* ---- preflight.c ----------------------------------------------------------------------------- */

/* Reports what would keep the daemon from starting on this machine as this user. Creates and
 * changes nothing.
 *  r  has read its tree without an error. */
void config_preflight(config_reader *r);

#endif
