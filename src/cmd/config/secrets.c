/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What of a configuration must not be shown: the lines of a file are printed where it is wrong, and
 * a password may stand in one of them. */

#define _GNU_SOURCE /* memmem */

#include "cmd/config/errors.h"

#include <string.h>

static const char word[] = "password";
enum { WORD_LEN = sizeof word - 1 };

/* In any case. */
static bool is_word(const char *at)
{
    for (size_t i = 0; i < WORD_LEN; i++) {
        if (config_lower(at[i]) != word[i])
            return false;
    }
    return true;
}

bool config_is_secret(const config_node *key)
{
    return config_distance(key->text, word) <= 2 || strcmp(key->text, "pass") == 0;
}

static void hide(config_errors *e, size_t begin, size_t end)
{
    config_hidden *h = config_alloc(e->arena, sizeof *h);
    if (!h) {
        e->len = 0; /* then nothing at all is shown */
        return;
    }
    *h = (config_hidden){e->hidden, begin, end};
    e->hidden = h;
}

static size_t line_end(const config_errors *e, size_t at)
{
    while (at < e->len && e->text[at] != '\n' && e->text[at] != '\r')
        at++;
    return at;
}

static size_t skip_blanks(const config_errors *e, size_t at)
{
    while (at < e->len && (e->text[at] == ' ' || e->text[at] == '\t'))
        at++;
    return at;
}

/* From behind a key and its ':' to the end of the line on which its value ends: an anchor or a tag
 * before the value would be a password too, had somebody forgotten the quotes. */
static void hide_value(config_errors *e, const config_node *key)
{
    size_t end = key->value->end > key->end ? key->value->end : key->end;
    size_t begin = skip_blanks(e, key->end);
    if (begin < e->len && e->text[begin] == ':')
        begin = skip_blanks(e, begin + 1);
    hide(e, begin, line_end(e, end));
}

void config_hide_secrets(config_errors *e, const config_node *root)
{
    for (const config_node *child = root->first; child; child = child->next) {
        if (root->kind == CONFIG_LIST) {
            config_hide_secrets(e, child);
            continue;
        }
        if (config_is_secret(child))
            hide_value(e, child);
        else if (strcmp(child->text, "policies") != 0) /* a policy may well have that name */
            config_hide_secrets(e, child->value);
    }
}

/* How far a line is indented; far, for a line of blanks alone, which ends nothing. */
static size_t indentation(const config_errors *e, size_t begin)
{
    size_t at = skip_blanks(e, begin);
    return at == line_end(e, at) ? e->len : at - begin;
}

/* Where a value ends that may begin at `at`, on a line that is indented by `indent`. An open quote
 * ends nowhere. */
static size_t value_end(const config_errors *e, size_t at, size_t indent)
{
    size_t end = line_end(e, at), begin = skip_blanks(e, at);
    if (begin < end && (e->text[begin] == '"' || e->text[begin] == '\'') &&
        !memchr(e->text + begin + 1, e->text[begin], end - begin - 1))
        return e->len;
    while (end < e->len) {
        size_t next = end + 1, first = skip_blanks(e, next);
        bool goes_on = first < e->len && e->text[first] == ':';
        if (!goes_on && indentation(e, next) <= indent)
            break;
        end = line_end(e, next);
    }
    return end;
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static const char slashes[] = "://";

/* "host", "host:port", "[::1]:port", and what may follow: there is nothing to hide. */
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

/* Where a URL begins on a line, behind its "://"; or, if it has none, what stands behind the key
 * "url" or "urls". */
static const char *find_url(const char *line, size_t len)
{
    const char *found = memmem(line, len, slashes, 3);
    if (found)
        return found + 3;
    found = memmem(line, len, "url", 3);
    const char *colon = found ? memchr(found, ':', len - (size_t)(found - line)) : NULL;
    return colon ? colon + 1 : NULL;
}

/* From there to the last '@' of the line; to its end if there is none, and what stands there does
 * not look like a host. What follows a '?' is no part of a URL here, but may be of another's. */
static void hide_urls_of_line(config_errors *e, size_t begin, size_t end)
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
        hide(e, has_slashes ? from : skip_blanks(e, from), at - 1);
    else if (has_slashes && !is_host(found, end - from))
        hide(e, from, end);
    if (query && has_slashes)
        hide(e, (size_t)(query - e->text) + 1, end);
}

/* Texts that are URLs only when their escapes are undone, and those without "://" in a list. */
static void hide_other_urls(config_errors *e, const config_node *node, bool in_urls)
{
    for (const config_node *child = node->first; child; child = child->next) {
        const config_node *value = node->kind == CONFIG_MAP ? child->value : child;
        bool is_url = (in_urls || strstr(value->text, slashes)) && strchr(value->text, '@');
        if (is_url && value->end <= e->len &&
            !memmem(e->text + value->begin, value->end - value->begin, slashes, 3))
            hide(e, value->begin, line_end(e, value->end));
        hide_other_urls(e, value, node->kind == CONFIG_MAP && strcmp(child->text, "urls") == 0);
    }
}

void config_hide_urls(config_errors *e, const config_node *root)
{
    for (size_t begin = 0; begin < e->len; begin = line_end(e, begin) + 1)
        hide_urls_of_line(e, begin, line_end(e, begin));
    if (root)
        hide_other_urls(e, root, false);
}

/* ---- without a tree -------------------------------------------------------------------------- */

void config_hide_words(config_errors *e)
{
    size_t begin = 0; /* of the line */
    config_hide_urls(e, NULL);
    while (begin < e->len) {
        size_t end = line_end(e, begin), indent = indentation(e, begin);
        for (size_t at = begin; at + WORD_LEN <= end; at++) {
            if (!is_word(e->text + at))
                continue;
            size_t from = at + WORD_LEN;
            if (from < end && (e->text[from] == '_' || e->text[from] == '-'))
                continue; /* password_file */
            while (from < end && strchr("\"' \t", e->text[from]))
                from++;
            if (from < end && e->text[from] == ':')
                from++;
            end = value_end(e, from, indent);
            hide(e, from, end);
            break;
        }
        begin = end + 1;
    }
}
