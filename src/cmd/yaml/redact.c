/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Redaction: error messages show lines of the file, and a line may contain a password. When in
 * doubt, too much is redacted. */

#define _GNU_SOURCE /* memmem, strncasecmp */

#include "cmd/yaml/yaml.h"
#include "port/text.h"

#include <string.h>
#include <strings.h>

static const char word[] = "password";
enum { WORD_LEN = sizeof word - 1 };

bool config_is_password(const config_node *key)
{
    return weir_edit_distance(key->text, word) <= 2 || strcmp(key->text, "pass") == 0 ||
           strcmp(key->text, "password_hash") == 0;
}

static void redact(config_errors *e, size_t begin, size_t end)
{
    config_redaction *r = weir_arena_alloc(e->arena, 1, sizeof *r);
    if (!r)
        return; /* after a failed allocation, no line is shown */
    *r = (config_redaction){e->redactions, begin, end};
    e->redactions = r;
}

static size_t skip_blanks(const config_errors *e, size_t at)
{
    while (at < e->len && (e->text[at] == ' ' || e->text[at] == '\t'))
        at++;
    return at;
}

/* ---- passwords ------------------------------------------------------------------------------- */

/* Redacts from behind a key and its ':' to the end of the line on which the value ends. An unquoted
 * password may parse as an anchor or a tag, so that the value's own position is not enough. */
static void redact_value(config_errors *e, const config_node *key)
{
    size_t end = key->value->end > key->end ? key->value->end : key->end;
    size_t begin = skip_blanks(e, key->end);
    if (begin < e->len && e->text[begin] == ':')
        begin = skip_blanks(e, begin + 1);
    redact(e, begin, config_line_end(e, end));
}

/*  top  of the file, where a policy may be called "password". */
static void redact_passwords(config_errors *e, const config_node *root, bool top)
{
    for (const config_node *child = root->first; child; child = child->next) {
        if (root->kind == CONFIG_LIST)
            redact_passwords(e, child, false);
        else if (config_is_password(child))
            redact_value(e, child);
        else if (!top || strcmp(child->text, "policies") != 0)
            redact_passwords(e, child->value, false);
    }
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static const char slashes[] = "://";

/* Whether the text begins with a host and an optional port, such as "host:80" or "[::1]:80", so
 * that there is no user and password to redact. */
static bool is_host(const char *at, size_t len)
{
    size_t host = 0;
    bool bracket = len > 0 && *at == '[';
    while (host < len && !strchr(bracket ? "]" : ":/ \t\"',]}#", at[host]))
        host++;
    host += bracket && host < len;
    if (host == len || at[host] != ':')
        return true;
    for (host++; host < len && at[host] >= '0' && at[host] <= '9';)
        host++;
    return host == len || strchr("/ \t\"',]}#?", at[host]);
}

/* Where the host or the user of a URL begins on a line: behind "://", or behind the key "url" or
 * "urls". NULL if the line has none. */
static const char *find_url(const char *line, size_t len)
{
    const char *found = memmem(line, len, slashes, 3);
    if (found)
        return found + 3;
    found = memmem(line, len, "url", 3);
    const char *colon = found ? memchr(found, ':', len - (size_t)(found - line)) : NULL;
    return colon ? colon + 1 : NULL;
}

/* Redacts from there to the last '@' of the line. Without an '@', redacts to the end of the line if
 * the text does not look like a host. A query may contain a password too. */
static void redact_urls_of_line(config_errors *e, size_t begin, size_t end)
{
    const char *found = find_url(e->text + begin, end - begin);
    if (!found)
        return;
    bool has_slashes = found[-1] == '/';
    size_t from = (size_t)(found - e->text), at = end;
    const char *query = memchr(found, '?', end - from);
    while (at > from && e->text[at - 1] != '@')
        at--;
    if (at > from)
        redact(e, has_slashes ? from : skip_blanks(e, from), at - 1);
    else if (has_slashes && !is_host(found, end - from))
        redact(e, from, end);
    if (query && has_slashes)
        redact(e, (size_t)(query - e->text) + 1, end);
}

/* Redacts URLs that redact_urls_of_line() cannot see: those with "://" written as escapes, and list
 * entries without "://". */
static void redact_other_urls(config_errors *e, const config_node *node, bool in_urls)
{
    for (const config_node *child = node->first; child; child = child->next) {
        const config_node *value = node->kind == CONFIG_MAP ? child->value : child;
        bool is_url = (in_urls || strstr(value->text, slashes)) && strchr(value->text, '@');
        if (is_url && value->end <= e->len &&
            !memmem(e->text + value->begin, value->end - value->begin, slashes, 3))
            redact(e, value->begin, config_line_end(e, value->end));
        redact_other_urls(e, value, node->kind == CONFIG_MAP && strcmp(child->text, "urls") == 0);
    }
}

/* ---- text that could not be parsed ----------------------------------------------------------- */

/* The indentation of a line; a blank line counts as indented deeply, because it ends no value. */
static size_t indentation(const config_errors *e, size_t begin)
{
    size_t at = skip_blanks(e, begin);
    return at == config_line_end(e, at) ? e->len : at - begin;
}

/* Where a value ends that may begin at `at`, on a line that is indented by `indent`. A value with
 * an open quote extends to the end of the file. */
static size_t value_end(const config_errors *e, size_t at, size_t indent)
{
    size_t end = config_line_end(e, at), begin = skip_blanks(e, at);
    if (begin < end && (e->text[begin] == '"' || e->text[begin] == '\'') &&
        !memchr(e->text + begin + 1, e->text[begin], end - begin - 1))
        return e->len;
    while (end < e->len) {
        size_t next = end + 1, first = skip_blanks(e, next);
        bool goes_on = first < e->len && e->text[first] == ':';
        if (!goes_on && indentation(e, next) <= indent)
            break;
        end = config_line_end(e, next);
    }
    return end;
}

/* Redacts whatever follows the word "password". */
static void redact_words(config_errors *e)
{
    size_t begin = 0; /* of the line */
    while (begin < e->len) {
        size_t end = config_line_end(e, begin), indent = indentation(e, begin);
        for (size_t at = begin; at + WORD_LEN <= end; at++) {
            if (strncasecmp(e->text + at, word, WORD_LEN) != 0)
                continue;
            size_t from = at + WORD_LEN;
            bool is_hash = end - from >= 5 && strncasecmp(e->text + from, "_hash", 5) == 0;
            if (!is_hash && from < end && (e->text[from] == '_' || e->text[from] == '-'))
                continue; /* password_file */
            from += is_hash ? 5 : 0;
            while (from < end && strchr("\"' \t", e->text[from]))
                from++;
            if (from < end && e->text[from] == ':')
                from++;
            end = value_end(e, from, indent);
            redact(e, from, end);
            break;
        }
        begin = end + 1;
    }
}

void config_redact(config_errors *e, const config_node *root)
{
    for (size_t begin = 0; begin < e->len; begin = config_line_end(e, begin) + 1)
        redact_urls_of_line(e, begin, config_line_end(e, begin));
    if (root) {
        redact_passwords(e, root, true);
        redact_other_urls(e, root, false);
    } else {
        redact_words(e);
    }
}
