/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The tables of keys against the documentation: each key is in docs/configuration.md, weir.yaml(5)
 * and packaging/weir.yaml, with its range and its default.
 *
 *   keys_test DIRECTORY    the root of the repository */

#include "cmd/config/keys.h"
#include "cmd/kit/commands.h"
#include "cmd/kit/input.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *root;

static char *read_file(const char *name)
{
    char path[512], *text = NULL;
    size_t len;
    snprintf(path, sizeof path, "%s/%s", root, name);
    const char *why = input_read(path, 1 << 20, &text, &len);
    if (why)
        fail_msg("%s: %s", path, why);
    return text;
}

/* ---- all keys -------------------------------------------------------------------------------- */

typedef void visitor(void *ctx, const char *path, const config_key *key);

static void visit_section(const char *prefix, const config_section *section, visitor *visit,
                          void *ctx)
{
    for (size_t i = 0; i < section->len; i++) {
        const config_key *key = &section->keys[i];
        char path[128];
        snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] ? "." : "", key->name);
        if (key->type == CONFIG_SECTION)
            visit_section(path, key->section, visit, ctx);
        else if (strcmp(key->name, "listen") != 0)
            visit(ctx, path, key);
    }
}

/* Calls visit() for every key of a configuration, but not for the keys of a policy. */
static void visit_all(visitor *visit, void *ctx)
{
    static const config_key address = {.type = CONFIG_OTHER};
    char path[64];
    for (protocol_kind kind = 0; config_protocol(kind); kind++) {
        snprintf(path, sizeof path, "listen.%s", config_protocol(kind)->name);
        visit(ctx, path, &address);
    }
    visit(ctx, "listen.unix", &address);
    visit_section("", config_root(), visit, ctx);
}

/* Prints a value of a row. */
static void print_value(const config_key *key, int64_t value, char *buf, size_t size)
{
    config_key row = *key;
    row.offset = 0;
    row.may_be_off = key->may_be_off && value == key->off;
    assert_non_null(config_value_text(&row, &value, buf, size)); /* little-endian if size is 4 */
}

/* ---- docs/configuration.md and weir.yaml(5) -------------------------------------------------- */

typedef struct page {
    const char *name, *text;
    const char *before, *after; /* what surrounds a key */
    const char *end;            /* of a key's description */
    const char *quote;          /* around words and sizes */
    const char *default_word;   /* before a default */
} page;

/* Copies a path, with a backslash before each '_' if the page is a man page. */
static void escape(const page *p, const char *path, char *ret)
{
    for (; *path; path++) {
        if (*path == '_' && p->before[0] == '*')
            *ret++ = '\\';
        *ret++ = *path;
    }
    *ret = '\0';
}

static void require(const page *p, const char *path, const char *text, const char *expected)
{
    if (!strstr(text, expected))
        fail_msg("%s: the description of %s lacks '%s':\n%s", p->name, path, expected, text);
}

/* A number stands as it is; a word, a size or a duration is in quotes. */
static void quoted(const page *p, const config_key *key, int64_t value, char *buf, size_t size)
{
    char text[32];
    print_value(key, value, text, sizeof text);
    const char *quote = isdigit((unsigned char)text[strlen(text) - 1]) ? "" : p->quote;
    snprintf(buf, size, "%s%s%s", quote, text, quote);
}

static void check_values(const page *p, const char *path, const config_key *key, const char *text)
{
    bool has_range =
        key->type == CONFIG_NUMBER || key->type == CONFIG_SIZE || key->type == CONFIG_DURATION;
    char low[40], high[40], range[100], preset[64];
    if (has_range && strcmp(path, "memory.large") != 0) {
        quoted(p, key, key->low, low, sizeof low);
        quoted(p, key, key->high, high, sizeof high);
        snprintf(range, sizeof range, "%s to %s", low, high);
        require(p, path, text, range);
    }
    bool has_preset = key->preset != 0 || key->may_be_off || key->type == CONFIG_BOOL;
    if (key->type != CONFIG_OTHER && has_preset && strcmp(path, "memory.large") != 0) {
        quoted(p, key, key->preset, low, sizeof low);
        snprintf(preset, sizeof preset, "%s%s", p->default_word, low);
        require(p, path, text, preset);
    }
}

static void check_described(void *ctx, const char *path, const config_key *key)
{
    const page *p = ctx;
    char escaped[128], name[160];
    escape(p, path, escaped);
    snprintf(name, sizeof name, "%s%s%s", p->before, escaped, p->after);
    const char *at = strstr(p->text, name);
    if (!at)
        fail_msg("%s has no %s", p->name, name);
    const char *end = strstr(at, p->end);
    char *description = strndup(at, end ? (size_t)(end - at) : strlen(at));
    check_values(p, path, key, description);
    free(description);
}

static void check_page(page *p)
{
    char *text = read_file(p->name);
    p->text = text;
    visit_all(check_described, p);
    for (size_t i = 0; i < config_rule_section.len; i++)
        check_described(p, config_rule_section.keys[i].name, &(config_key){.type = CONFIG_OTHER});
    free(text);
}

static void check_markdown(void **unused)
{
    (void)unused;
    check_page(&(page){.name = "docs/configuration.md",
                       .before = "`",
                       .after = "`",
                       .end = "\n",
                       .quote = "`",
                       .default_word = "| "});
}

static void check_man_page(void **unused)
{
    (void)unused;
    check_page(&(page){.name = "docs/man/weir.yaml.5.scd",
                       .before = "*",
                       .after = "*",
                       .end = "\n\n",
                       .quote = "*",
                       .default_word = "Default "});
}

/* ---- packaging/weir.yaml --------------------------------------------------------------------- */

/* Removes a '#' from each line such as "# threads: 2" or "#   # hops: 1", so that the key is set.
 * Returns whether there was such a line. */
static bool uncomment(char *text)
{
    bool any = false;
    for (char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char *mark = line + strspn(line, " ");
        char *key = mark + (*mark == '#') + strspn(mark + (*mark == '#'), " #");
        size_t len = strspn(key, "abcdefghijklmnopqrstuvwxyz_");
        if (strncmp(mark, "# ", 2) != 0 || len == 0 || key[len] != ':')
            continue;
        memmove(mark, mark + 2, strlen(mark + 2) + 1);
        any = true;
    }
    return any;
}

static void print_problem(void *ctx, const config_problem *p)
{
    (void)ctx;
    config_problem_print(stderr, p);
}

static void check_present(void *ctx, const char *path, const config_key *key)
{
    const config_node *n = ctx, *parent = n;
    char copy[128], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path);
    for (const char *name; n && (name = strsep(&rest, "."));) {
        parent = n;
        n = config_get(parent, name);
    }
    if (!n && (key->type != CONFIG_PASSWORD || !config_get(parent, "password_file")))
        fail_msg("packaging/weir.yaml has no %s", path);
}

static void check_example(void **unused)
{
    (void)unused;
    char *text = read_file("packaging/weir.yaml");
    weir_arena arena = {0};
    while (uncomment(text))
        ;
    config_errors *errors = weir_arena_alloc(&arena, 1, sizeof *errors);
    *errors =
        (config_errors){.arena = &arena, .file = "uncommented", .text = text, .len = strlen(text)};
    config_node *tree = config_tree_read(&arena, errors, text, strlen(text));
    config_errors_report(errors, &(config_sink){print_problem, NULL});
    assert_int_equal(errors->found, 0);
    visit_all(check_present, tree);
    weir_arena_free(&arena);
    free(text);
}

static void fail_change(void *ctx, const char *key)
{
    (void)ctx;
    fail_msg("packaging/weir.yaml changes the default of %s", key);
}

typedef struct two_configs {
    const weir_config *a, *b;
} two_configs;

static void check_same(void *ctx, const char *path, const config_key *key)
{
    const two_configs *two = ctx;
    char a[64], b[64];
    if (!config_value_text(key, two->a, a, sizeof a))
        return;
    if (!config_value_text(key, two->b, b, sizeof b) || strcmp(a, b) != 0)
        fail_msg("packaging/weir.yaml changes the default of %s", path);
}

/* The keys that the example sets have their defaults. */
static void check_example_defaults(void **unused)
{
    (void)unused;
    char *text = read_file("packaging/weir.yaml");
    weir_config *c = NULL, *defaults = config_default();
    const config_sink sink = {print_problem, NULL};
    assert_int_equal(config_parse(text, strlen(text), "weir.yaml", false, NULL, &sink, &c),
                     WEIR_OK);
    config_each_change(defaults, c, fail_change, NULL);
    for (size_t i = 0; i < config_root()->len; i++) {
        const config_key *key = &config_root()->keys[i];
        if (!key->guest)
            visit_section("", &(config_section){.keys = key, .len = 1}, check_same,
                          &(two_configs){defaults, c});
    }
    config_free(c);
    config_free(defaults);
    free(text);
}

/* ---- what needs a restart -------------------------------------------------------------------- */

/* Whether each key of a section needs a restart, or another row stores its value. */
static bool is_read_once(const config_section *section)
{
    bool once = true;
    for (size_t i = 0; i < section->len; i++)
        once &= !section->keys[i].live;
    return once;
}

/* Calls visit() for each key that needs a restart, or for a section of such keys. */
static void visit_restarts(visitor *visit, void *ctx)
{
    for (size_t i = 0; i < config_root()->len; i++) {
        const config_key *key = &config_root()->keys[i];
        const config_section *section = key->type == CONFIG_SECTION ? key->section : NULL;
        char path[128];
        if (config_is_live(key))
            continue;
        if (!section || is_read_once(section))
            visit(ctx, key->name, key);
        for (size_t k = 0; section && !is_read_once(section) && k < section->len; k++) {
            snprintf(path, sizeof path, "%s.%s", key->name, section->keys[k].name);
            if (!config_is_live(&section->keys[k]))
                visit(ctx, path, &section->keys[k]);
        }
    }
    visit(ctx, "policies.NAME.memory", NULL);
}

/* The part of a page below a heading; for free(). */
static char *read_part(const char *name, const char *heading)
{
    char *text = read_file(name), *at = strstr(text, heading);
    assert_non_null(at);
    at += strlen(heading);
    char *end = strstr(at, "\n#"), *part = strndup(at, end ? (size_t)(end - at) : strlen(at));
    free(text);
    return part;
}

typedef struct restarts {
    const char *table, *man;
    size_t n;
} restarts;

static void check_restart(void *ctx, const char *path, const config_key *key)
{
    restarts *r = ctx;
    char row[160], escaped[128], word[160];
    snprintf(row, sizeof row, "\n| `%s` | ", path);
    if (!strstr(r->table, row))
        fail_msg("docs/configuration.md: 'What needs a restart' lacks %s", path);
    escape(&(page){.before = "*"}, path, escaped);
    snprintf(word, sizeof word, "*%s*", key ? escaped : "memory");
    if (!strstr(r->man, word))
        fail_msg("weir.yaml(5): RELOAD lacks %s", path);
    r->n++;
}

/* The two lists have all keys that need a restart, and the table has no others. */
static void check_restarts(void **unused)
{
    (void)unused;
    char *table = read_part("docs/configuration.md", "\n### What needs a restart\n");
    char *man = read_part("docs/man/weir.yaml.5.scd", "\n# RELOAD\n");
    restarts r = {table, man, 0};
    size_t rows = 0;
    visit_restarts(check_restart, &r);
    for (const char *at = table; (at = strstr(at, "\n| `")); at++)
        rows++;
    assert_int_equal(rows, r.n);
    free(table);
    free(man);
}

static void refuse(config_reader *r, const config_place *place, const config_key *key, void *base)
{
    (void)base;
    config_error_on(r->errors, place->key, place, "no %s here", key->name);
}

static void note_last(void *ctx, const config_problem *p)
{
    snprintf(ctx, 600, "%s", p->text);
}

/* No error suggests a section that this build lacks; the section itself is an error. */
static void check_left_out(void **unused)
{
    static const config_guest absent = {
        .key = {"limitador", CONFIG_OTHER, .read = refuse, .left_out = true}, .size = 1};
    static const config_guest *const guests[] = {&absent};
    static const struct {
        const char *yaml, *error;
    } rows[] = {
        {"limitadr: {}", "unknown key 'limitadr', expected one of include, "},
        {"limitador: {}", "no limitador here"},
        {"polices: {}", "unknown key 'polices', did you mean 'policies'?"},
    };
    (void)unused;
    config_set_guests(guests, 1);
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        char last[600] = "";
        const config_sink sink = {note_last, last};
        weir_config *c = NULL;
        assert_int_equal(
            config_parse(rows[i].yaml, strlen(rows[i].yaml), "t.yaml", false, NULL, &sink, &c),
            WEIR_E_SYNTAX);
        assert_memory_equal(last, rows[i].error, strlen(rows[i].error));
        assert_null(strstr(last, "limitador,"));
    }
    weir_use_guests();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_markdown), cmocka_unit_test(check_man_page),
        cmocka_unit_test(check_example),  cmocka_unit_test(check_example_defaults),
        cmocka_unit_test(check_restarts), cmocka_unit_test(check_left_out),
    };
    weir_use_guests();
    root = argc == 2 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
