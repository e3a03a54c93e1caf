/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The JSON Schema of weir.yaml (weir check --schema), made from the tables of keys. A value may
 * always be a text with a variable of the environment. */

#include "cmd/config/keys.h"

#include <inttypes.h>
#include <string.h>

/* A value that a variable replaces, a text, and a list of texts. */
static const char definitions[] =
    "\"variable\":{\"type\":\"string\",\"pattern\":\"[$][{][A-Z_][A-Z0-9_]*(:-|[}])\"},"
    "\"text\":{\"type\":[\"string\",\"number\",\"boolean\"],\"minLength\":1},"
    "\"texts\":{\"anyOf\":[" CONFIG_TEXT ",{\"type\":\"array\",\"items\":" CONFIG_TEXT "}]}";

static void print_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    fputc('"', out);
}

/* A number, of bytes or without a unit. */
static void print_integer(FILE *out, const config_key *key)
{
    fprintf(out, "{\"type\":\"integer\",\"minimum\":%" PRId64 ",\"maximum\":%" PRId64 "}", key->low,
            key->high);
}

static void print_pattern(FILE *out, const char *pattern)
{
    fprintf(out, "{\"type\":\"string\",\"pattern\":\"^%s$\"}", pattern);
}

/* The values of the type of a key, without "off". */
static void print_type(FILE *out, const config_key *key)
{
    switch (key->type) {
    case CONFIG_NUMBER:
        print_integer(out, key);
        break;
    case CONFIG_SIZE:
        print_integer(out, key);
        fputc(',', out);
        print_pattern(out, "[0-9]+[kmg]");
        break;
    case CONFIG_DURATION:
        print_pattern(out, "([0-9]+(ns|us|ms|s|m|h|d|w))+");
        break;
    case CONFIG_BOOL:
        fputs("{\"type\":\"boolean\"}", out);
        break;
    case CONFIG_WORD:
        fputs("{\"enum\":[", out);
        for (size_t i = 0, n = 0; i < key->words_len; i++) {
            if (!key->words[i])
                continue;
            fputs(n++ > 0 ? "," : "", out);
            print_string(out, key->words[i]);
        }
        fputs("]}", out);
        break;
    default:
        if (key->high > key->low && key->type == CONFIG_OTHER) /* a number with its own reader */
            print_integer(out, key);
        else
            fputs(CONFIG_TEXT, out);
    }
}

static void print_section(FILE *out, const config_section *section);

static void print_listen(FILE *out)
{
    config_key keys[CONFIG_LISTEN_KEYS];
    const config_section section = config_listen_section(keys);
    print_section(out, &section);
}

/* A schema of a row: "@" in it stands for the map of the row's section. */
static void print_own(FILE *out, const config_key *key)
{
    const config_section *section = key->section ? key->section : key->entries;
    for (const char *at = key->schema; *at; at++) {
        if (*at == '@' && section)
            print_section(out, section);
        else if (*at == '@')
            print_listen(out);
        else
            fputc(*at, out);
    }
}

static void print_key(FILE *out, const config_key *key)
{
    print_string(out, key->name);
    fputs(":{\"anyOf\":[{\"$ref\":\"#/$defs/variable\"},", out);
    if (key->may_be_off)
        fputs("{\"enum\":[\"off\",0]},", out);
    if (key->schema)
        print_own(out, key);
    else if (key->type == CONFIG_SECTION)
        print_section(out, key->section);
    else
        print_type(out, key);
    if (key->section || key->entries) /* without a value, none of its keys is set */
        fputs(",{\"type\":\"null\"}", out);
    fputs("]}", out);
}

/* A map with these keys. */
static void print_section(FILE *out, const config_section *section)
{
    fputs("{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{", out);
    for (size_t i = 0, n = 0; i < section->len; i++) {
        if (section->keys[i].left_out)
            continue;
        fputs(n++ > 0 ? "," : "", out);
        print_key(out, &section->keys[i]);
    }
    fputs("}}", out);
}

void config_print_schema(FILE *out)
{
    fputs("{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"title\":\"weir.yaml\","
          "\"$defs\":{",
          out);
    fprintf(out, "%s},\"anyOf\":[", definitions);
    print_section(out, config_root());
    fputs("]}\n", out);
}
