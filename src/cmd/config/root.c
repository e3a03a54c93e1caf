/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of the keys of weir.yaml. Larger sections have their tables in files of their own. It
 * must not know how the daemon uses the values. */

#include "cmd/config/keys.h"
#include "cmd/kit/units.h"
#include "port/assert.h"
#include "service/top/top.h"
#include "store/clock.h"

#include <string.h>

#define DAY_NS (86400 * CONFIG_S_NS)
#define TIB    (1024 * CONFIG_GIB)

/* The least memory for large states, and for all others; see weir_store_open(). */
#define LARGE_MIN (64 * CONFIG_KIB)

#define MEMBER(member)  CONFIG_MEMBER(weir_config, member)
#define TIMEOUT(preset) CONFIG_RANGE(CONFIG_MS_NS, 30 * DAY_NS, preset), .may_be_off = true

/* ---- memory ---------------------------------------------------------------------------------- */

/* Reports the keys that require a state file. */
static void check_file_keys(config_reader *r, const config_place *place)
{
    static const char *const keys[] = {"sync", "shared", "trust_others"};
    for (size_t i = 0; i < CONFIG_LENGTH(keys); i++) {
        const config_node *value = config_get(place->node, keys[i]);
        if (value)
            config_error_on(r->errors, value, place, "%s requires file: PATH", keys[i]);
    }
}

/* Reports what weir_store_open() would refuse. */
static void check_memory(config_reader *r, const config_place *place, void *base)
{
    weir_config *c = base;
    const config_node *size = config_get(place->node, "size");
    const config_node *large = config_get(place->node, "large");
    weir_store_error error;
    char text[24];
    if (!large)
        c->memory_large_bytes = c->memory_bytes / 4;
    if (large && c->memory_large_bytes + LARGE_MIN > c->memory_bytes)
        config_error_on(r->errors, large, place,
                        "large must be at least 64k less than size, which is %s",
                        size_text(c->memory_bytes, text, sizeof text));
    else if (c->state_file && (c->memory_bytes < 8 * CONFIG_MIB ||
                               c->memory_bytes - c->memory_large_bytes < 6 * CONFIG_MIB))
        config_error_on(r->errors, (large ? large : size), place,
                        "with file, size must be at least 8m, and at least 6m more than large");
    else if (large && !config_memory_fits(c, &error))
        config_error_on(r->errors, large, place, "with hand_over, %s", error.text);
    if (!config_get(place->node, "file"))
        check_file_keys(r, place);
    if (c->state_file && c->prefault)
        config_error_on(r->errors, config_get(place->node, "prefault"), place,
                        "prefault cannot be combined with file; remove one of them");
}

static const char *const sync_words[] = {
    [WEIR_SYNC_NEVER] = "never", [WEIR_SYNC_SECOND] = "1s", [WEIR_SYNC_ALWAYS] = "always"};
static const char *const full_words[] = {[WEIR_EVICT] = "evict", [WEIR_REFUSE] = "refuse"};

static const config_key memory_keys[] = {
    {"size", CONFIG_SIZE, MEMBER(memory_bytes), CONFIG_RANGE(CONFIG_MIB, TIB, 256 * CONFIG_MIB)},
    {"large", CONFIG_SIZE, MEMBER(memory_large_bytes),
     CONFIG_RANGE(LARGE_MIN, TIB, 64 * CONFIG_MIB)},
    {"file", CONFIG_PATH, MEMBER(state_file)},
    {"sync", CONFIG_WORD, MEMBER(sync), CONFIG_WORDS(sync_words, WEIR_SYNC_SECOND)},
    {"when_full", CONFIG_WORD, MEMBER(when_full), CONFIG_WORDS(full_words, WEIR_EVICT)},
    {"shared", CONFIG_BOOL, MEMBER(shared)},
    {"trust_others", CONFIG_BOOL, MEMBER(trust_others)},
    {"prefault", CONFIG_BOOL, MEMBER(prefault)},
};

/* ---- clock ----------------------------------------------------------------------------------- */

/* A step of a minute or more cannot be the error of a clock that is synchronised. */
static const config_key clock_keys[] = {
    {"step_above", CONFIG_DURATION, MEMBER(clock_step_above_ns),
     CONFIG_RANGE(60 * CONFIG_S_NS, 30 * 86400 * CONFIG_S_NS, WEIR_CLOCK_JUMP_ABOVE_NS),
     .may_be_off = true, .off = INT64_MAX},
};

/* ---- limits ---------------------------------------------------------------------------------- */

static void read_grace(config_reader *r, const config_place *place, const config_key *key,
                       void *base)
{
    ((weir_config *)base)->has_grace = true;
    config_read_value(r, place, key, base);
}

int64_t config_grace_ns(const weir_config *c)
{
    bool is_public = false;
    for (size_t i = 0; i < c->listens_len; i++)
        is_public |= c->listens[i].is_public;
    return c->has_grace || is_public ? c->grace_ns : 0;
}

static const config_key limits_keys[] = {
    {"connections", CONFIG_NUMBER, MEMBER(connections), CONFIG_RANGE(1, 1000000, 10000)},
    {"per_address", CONFIG_NUMBER, MEMBER(per_address), CONFIG_RANGE(1, 1000000, 1000),
     .may_be_off = true},
    {"buffers", CONFIG_SIZE, MEMBER(buffers_bytes),
     CONFIG_RANGE(CONFIG_MIB, TIB, 256 * CONFIG_MIB)},
    {"idle", CONFIG_DURATION, MEMBER(idle_ns), TIMEOUT(0)},
    {"request", CONFIG_DURATION, MEMBER(request_ns), TIMEOUT(10 * CONFIG_S_NS)},
    {"write", CONFIG_DURATION, MEMBER(write_ns), TIMEOUT(30 * CONFIG_S_NS)},
    {"grace", CONFIG_DURATION, MEMBER(grace_ns), TIMEOUT(5 * CONFIG_S_NS), .read = read_grace},
    {"drain", CONFIG_DURATION, MEMBER(drain_ns), TIMEOUT(5 * CONFIG_S_NS)},
};

int config_default_per_address(const weir_config *c)
{
    return c->connections < 160 ? 16 : c->connections / 10;
}

/* What an idle connection takes of limits.buffers, rounded up. */
static uint64_t idle_bytes(const weir_config *c)
{
    uint64_t most = 0;
    for (size_t i = 0; i < c->listens_len; i++) {
        const config_listen *l = &c->listens[i];
        uint64_t bytes = config_listen_tls(c, l) ? 16 * CONFIG_KIB : 0;
        bytes += l->protocol == PROTOCOL_GRPC ? 32 * CONFIG_KIB : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t config_default_buffers(const weir_config *c)
{
    uint64_t idle = (uint64_t)c->connections * idle_bytes(c);
    return idle > 256 * CONFIG_MIB ? idle : 256 * CONFIG_MIB;
}

void config_fit_limits(config_reader *r)
{
    weir_config *c = r->config;
    const config_place root = {.node = r->root}, limits = config_below(&root, "limits");
    const config_place per_address = config_below(&limits, "per_address");
    const config_place buffers = config_below(&limits, "buffers");
    c->has_per_address = per_address.node;
    c->has_buffers = buffers.node;
    if (!per_address.node)
        c->per_address = config_default_per_address(c);
    else if (c->per_address >= c->connections)
        config_warn(r->errors, &per_address, "this has no effect, because limits.connections is %d",
                    c->connections);
    uint64_t idle = (uint64_t)c->connections * idle_bytes(c);
    char text[24];
    if (!buffers.node)
        c->buffers_bytes = config_default_buffers(c);
    else if (c->buffers_bytes < idle)
        config_warn(r->errors, &buffers,
                    "%d idle connections need %s, so some would be closed: raise this, or lower "
                    "limits.connections",
                    c->connections, size_text(idle, text, sizeof text));
}

/* ---- top ------------------------------------------------------------------------------------- */

static const config_key top_keys[] = {
    {"keys", CONFIG_NUMBER, MEMBER(top_keys), CONFIG_RANGE(0, WEIR_TOP_KEYS_MAX, 100)},
    {"memory", CONFIG_SIZE, MEMBER(top_memory_bytes),
     CONFIG_RANGE(CONFIG_MIB, CONFIG_GIB, 16 * CONFIG_MIB)},
    {"metrics", CONFIG_BOOL, MEMBER(top_metrics), .live = true},
};

/* "top: off" is short for "top: {keys: 0}". */
static void read_top(config_reader *r, const config_place *place, const config_key *key, void *base)
{
    const char *text = place->node->text;
    if (strcmp(text, "off") == 0 || strcmp(text, "0") == 0)
        ((weir_config *)base)->top_keys = 0;
    else
        config_read_section(r, place, key->section, base);
}

/* ---- grpc ------------------------------------------------------------------------------------ */

#define AGE(max, value) CONFIG_RANGE(CONFIG_S_NS, max, value), .may_be_off = true

static const config_key grpc_keys[] = {
    {"max_connection_age", CONFIG_DURATION, MEMBER(grpc_max_age_ns), AGE(365 * DAY_NS, DAY_NS)},
    {"max_connection_age_grace", CONFIG_DURATION, MEMBER(grpc_max_age_grace_ns),
     AGE(DAY_NS, 3600 * CONFIG_S_NS)},
};

/* ---- all keys -------------------------------------------------------------------------------- */

/* A client sends the password in the HTTP header Authorization. */
const char *config_refuse_password(const char *text)
{
    for (size_t i = 0; text[i]; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F)
            return "the password contains a control character or a line break, which an HTTP "
                   "header cannot carry";
    }
    if (text[0] == ' ' || text[strlen(text) - 1] == ' ')
        return "the password begins or ends with a space, which an HTTP header cannot carry";
    return NULL;
}

#define PASSWORD                                                                                   \
    MEMBER(password), CONFIG_RANGE(1, CONFIG_PASSWORD_MAX, 0), .refuse = config_refuse_password

static const char *const level_words[] = {[WEIR_LOG_DEBUG] = "debug",
                                          [WEIR_LOG_INFO] = "info",
                                          [WEIR_LOG_WARNING] = "warning",
                                          [WEIR_LOG_ERROR] = "error"};
static const char *const format_words[] = {"text", "json"};

static const config_key log_keys[] = {
    {"level", CONFIG_WORD, MEMBER(log_level), CONFIG_WORDS(level_words, WEIR_LOG_INFO)},
    {"format", CONFIG_WORD, MEMBER(log_json), CONFIG_WORDS(format_words, 0)},
};

static const config_section log_section = {CONFIG_KEYS(log_keys)};
static const config_section memory_section = {CONFIG_KEYS(memory_keys), .check = check_memory};
static const config_section clock_section = {CONFIG_KEYS(clock_keys)};
static const config_section limits_section = {CONFIG_KEYS(limits_keys)};
static const config_section grpc_section = {CONFIG_KEYS(grpc_keys)};
static const config_section top_section = {
    CONFIG_KEYS(top_keys), .expected = "expected {keys: 100, metrics: false} or off"};

/* config_include() has read it. */
static void read_include(config_reader *r, const config_place *place, const config_key *key,
                         void *base)
{
    (void)r, (void)place, (void)key, (void)base;
}

static const config_key root_keys[] = {
    {"include", CONFIG_OTHER, .schema = CONFIG_TEXTS, .read = read_include},
    /* Before `listen`, which depends on it. */
    {"tls", CONFIG_SECTION, MEMBER(tls), .section = &config_tls_section, .schema = CONFIG_OR_OFF,
     .read = config_read_tls},
    {"trusted_proxies", CONFIG_OTHER, .schema = CONFIG_TEXTS, .read = config_read_trusted_proxies},
    {"headers", CONFIG_OTHER, MEMBER(answer.headers), .schema = CONFIG_TEXTS,
     .read = config_read_headers},
    {"retry_spread", CONFIG_OTHER, MEMBER(answer.retry_spread), .low = 1,
     .read = config_read_spread},
    {"denied", CONFIG_SECTION, MEMBER(answer), .section = &config_denied_section,
     .read = config_read_denied},
    /* Before `listen`, whose entries may name one. */
    {"users", CONFIG_OTHER, .entries = &config_user_section, .schema = CONFIG_MAP_OF("@"),
     .read = config_read_users},
    {"listen", CONFIG_OTHER, .schema = "@", .read = config_read_listen, .same = config_same_listen},
    {"password", CONFIG_PASSWORD, PASSWORD, .live = true},
    {"password_file", CONFIG_PASSWORD_FILE, PASSWORD, .live = true},
    {"insecure", CONFIG_BOOL, MEMBER(insecure), .live = true},
    {"hand_over", CONFIG_PATH, MEMBER(hand_over)},
    {"threads", CONFIG_NUMBER, MEMBER(threads), CONFIG_RANGE(1, 256, 0)},
    {"memory", CONFIG_SECTION, .section = &memory_section},
    {"clock", CONFIG_SECTION, .section = &clock_section, .live = true},
    {"limits", CONFIG_SECTION, .section = &limits_section, .live = true},
    {"http", CONFIG_SECTION, .section = &config_http_section, .live = true},
    {"log", CONFIG_SECTION, .section = &log_section, .live = true},
    {"top", CONFIG_SECTION, .section = &top_section, .schema = CONFIG_OR_OFF, .read = read_top},
    {"engine", CONFIG_OTHER, MEMBER(engine), .read = config_read_engine},
    {"redis", CONFIG_SECTION, .section = &config_redis_section},
    {"hybrid", CONFIG_SECTION, .section = &config_hybrid_section},
    {"grpc", CONFIG_SECTION, .section = &grpc_section, .live = true},
    {"policies", CONFIG_OTHER, .entries = &config_rule_section,
     .schema = CONFIG_MAP_OF("{\"anyOf\":[" CONFIG_TEXT ",@]}"), .read = config_read_policies},
    {"routes", CONFIG_OTHER, .entries = &config_route_section,
     .schema = "{\"type\":\"array\",\"items\":@}", .read = config_read_routes},
};

enum { KEYS = CONFIG_LENGTH(root_keys), POLICY_KEYS = 2 /* the last ones */ };

/* ---- guests ---------------------------------------------------------------------------------- */

static const config_guest *const *guests;
static size_t guests_len;
static config_key all_keys[KEYS + CONFIG_GUESTS_MAX]; /* with those of the guests */
static config_section root = {CONFIG_KEYS(root_keys)};

const config_section *config_root(void)
{
    return &root;
}

static void add_guests(bool names_policies)
{
    for (size_t i = 0; i < guests_len; i++) {
        if (!guests[i]->key.name || guests[i]->names_policies != names_policies)
            continue;
        all_keys[root.len] = guests[i]->key;
        all_keys[root.len++].guest = guests[i];
    }
}

void config_set_guests(const config_guest *const *all, size_t len)
{
    WEIR_ASSERT(len <= CONFIG_GUESTS_MAX);
    guests = all;
    guests_len = len;
    root = (config_section){.keys = all_keys};
    WEIR_ASSERT(!config_guest_of(PROTOCOLS_MAX));
    for (size_t i = 0; i < KEYS; i++) {
        if (i == KEYS - POLICY_KEYS)
            add_guests(false);
        all_keys[root.len++] = root_keys[i];
    }
    add_guests(true);
}

const config_guest *config_guest_at(size_t i)
{
    return i < guests_len ? guests[i] : NULL;
}

const config_guest *config_guest_of(protocol_kind kind)
{
    size_t i = 0;
    for (protocol_kind k = PROTOCOLS_OWN; i < guests_len; i++) {
        if (guests[i]->protocol && k++ == kind)
            break;
    }
    return config_guest_at(i);
}

protocol_kind config_protocol_of(const config_guest *guest)
{
    protocol_kind kind = PROTOCOLS_OWN;
    WEIR_ASSERT(guest->protocol);
    while (config_guest_of(kind) != guest)
        kind++;
    WEIR_ASSERT(kind < PROTOCOLS_MAX);
    return kind;
}

void *config_options(const weir_config *c, const config_guest *guest)
{
    size_t i = 0;
    while (i < guests_len && guests[i] != guest)
        i++;
    WEIR_ASSERT(i < guests_len);
    return c->guest[i];
}
