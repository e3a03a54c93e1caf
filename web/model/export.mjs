// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Writes a policy as a configuration, a command or a program, and a timeline as CSV.
// The texts of policies must be valid.

const NAME_MAX = 64;
const NEVER = "never";

/** Returns a name that every configuration accepts: letters, digits and "-". */
function nameOf(name) {
    return name.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, NAME_MAX) || "api";
}

/** Joins the words of a policy with single spaces. */
const oneLine = (text) => text.trim().split(/\s+/).join(" ");

/**
 * Returns a weir.yaml with the policy.
 * @param {string} text
 * @param {string} name of the policy
 */
export function toYaml(text, name) {
    return [
        "# weir serve weir.yaml",
        "listen: {resp: 127.0.0.1:6380, http: 127.0.0.1:8080}",
        "policies:",
        `  ${JSON.stringify(nameOf(name))}: ${JSON.stringify(oneLine(text))}`,
        "",
    ].join("\n");
}

/**
 * Returns the part of nginx.conf that belongs in `http`, for the module of weir.
 * @param {string} text
 * @param {string} name of the memory zone
 */
export function toNginx(text, name) {
    const zone = nameOf(name);
    const large = /sliding-(log|slices)/.test(text) ? " large=6m" : "";
    return [
        "# At the top of nginx.conf: load_module modules/ngx_http_weir_module.so;",
        `weir_zone ${zone} 8m${large};`,
        "",
        "server {",
        "    listen 80;",
        "",
        "    location / {",
        `        weir ${zone} "${oneLine(text)}" key=$binary_remote_addr;`,
        "        weir_headers ietf;",
        "        proxy_pass http://127.0.0.1:8000;",
        "    }",
        "}",
        "",
    ].join("\n");
}

/** Quotes an argument for a POSIX shell. */
const shellQuoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;

/**
 * Returns a shell command that sends a request with the policy to the daemon.
 * @param {string} text
 * @param {string} key
 */
export function toResp(text, key) {
    return `redis-cli -p 6380 WEIR.CHECK ${shellQuoted(oneLine(text))} ${shellQuoted(key)} COST 1\n`;
}

/** The lookup of time zones, for policies that name one. Each zone is loaded once and kept. */
const C_ZONES = `
#define ZONEINFO "/usr/share/zoneinfo/"

typedef struct loaded_zones {
    weir_zone zone[WEIR_LAYERS_MAX];
    size_t count;
} loaded_zones;

/* Reads a whole file. The caller frees it. */
static uint8_t *read_file(const char *path, size_t *ret_len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = file ? malloc(65536) : NULL;
    *ret_len = bytes ? fread(bytes, 1, 65536, file) : 0;
    if (file)
        fclose(file);
    return bytes;
}

/* A weir_zone_find callback. weir passes only names without "..". The bytes stay allocated. */
static const weir_zone *find_zone(void *ctx, const char *name, size_t len)
{
    loaded_zones *zones = ctx;
    for (size_t i = 0; i < zones->count; i++) {
        if (strlen(zones->zone[i].name) == len && memcmp(zones->zone[i].name, name, len) == 0)
            return &zones->zone[i];
    }
    char path[sizeof ZONEINFO + WEIR_ZONE_NAME_MAX];
    snprintf(path, sizeof path, ZONEINFO "%.*s", (int)len, name);
    size_t bytes_len;
    uint8_t *bytes = read_file(path, &bytes_len);
    if (!bytes || zones->count == WEIR_LAYERS_MAX ||
        weir_zone_read(&zones->zone[zones->count], name, len, bytes, bytes_len) != WEIR_OK) {
        free(bytes);
        return NULL;
    }
    return &zones->zone[zones->count++];
}
`;

const C_ZONES_DECLARED = `    loaded_zones loaded = {.count = 0};
    weir_zones zones = {.find = find_zone, .ctx = &loaded};
`;

/**
 * Returns a C program that limits requests with libweir.
 * @param {string} text
 * @param {string} name of the function that decides
 */
export function toC(text, name) {
    const policy = oneLine(text), zoned = / tz (?!UTC( |$))/.test(policy);
    const verb = `allow_${nameOf(name).replace(/-/g, "_")}`;
    return `/* cc limit.c $(pkg-config --cflags --libs weir) && ./a.out */
#include <weir/weir_store.h>
${zoned ? "#include <weir/weir_zone.h>\n" : ""}
#include <inttypes.h>
#include <stdio.h>
${zoned ? "#include <stdlib.h>\n" : ""}#include <string.h>
#include <time.h>
${zoned ? C_ZONES : ""}
static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Decides about one request of the key. *ret is valid only if WEIR_OK is returned. */
static weir_status ${verb}(weir_store *store, const weir_policy *policy, const char *key,
    weir_decision *ret)
{
    uint64_t policy_id = weir_store_policy_id(store, policy);
    return weir_store_check(store, policy, policy_id, key, strlen(key), clock_ns(), 1, ret);
}

int main(void)
{
    static const char text[] = ${JSON.stringify(policy)};
    weir_policy policy;
    weir_policy_error error;
    weir_store *store;
${zoned ? C_ZONES_DECLARED : ""}\
    if (weir_policy_parse(&policy, text, strlen(text), ${zoned ? "&zones" : "NULL"}, &error) != WEIR_OK) {
        fprintf(stderr, "column %" PRIu32 ": %s\\n", error.column, error.text);
        return 1;
    }
    if (weir_store_open(&store, NULL) != WEIR_OK)
        return 1;
    weir_decision d;
    if (${verb}(store, &policy, "alice", &d) == WEIR_OK)
        printf("%s, %" PRId64 " of %" PRId64 " remaining\\n", d.allowed ? "allowed" : "denied",
            d.remaining, d.limit);
    weir_store_close(store);
    return 0;
}
`;
}

function csvField(value) {
    const text = String(value);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

const CSV_LANE = [
    "policy", "allowed", "limit", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns", "layer",
];

const CSV_PART = 256; // lines

function csvOfLane(lane, policy, i) {
    if (i >= lane.decided)
        return CSV_LANE.map(() => "");
    const { allowed, limit, remaining, retryNs, resetNs, delayNs, layer } = lane.event(i);
    const retry = retryNs === Infinity ? NEVER : retryNs;
    return [policy, Number(allowed), limit, remaining, retry, resetNs, delayNs, layer];
}

/**
 * Writes the requests until now with the decisions of all lanes, some lines at a time: RFC 4180, with a
 * header line. Between two parts, decided requests must not change: it throws an Error if they did.
 * @param {import("./world.mjs").World} world
 * @returns {Generator<{text: string, done: number}>} done: the part that is written so far, 0 to 1
 */
export function* csvParts(world) {
    const { traffic, index } = world, lanes = [...world.lanes], baseNs = BigInt(world.beginMs) * 1000000n;
    const versions = lanes.map((lane) => lane.version);
    const policies = lanes.map((lane) => lane.policy?.text ?? lane.text);
    const named = (n) => CSV_LANE.map((name) => (lanes.length > 1 ? `lane${n + 1}_${name}` : name));
    const written = (line) => `${line.map(csvField).join(",")}\r\n`;
    let text = written(["t_ns", "key", "cost", ...lanes.flatMap((_, n) => named(n))]);
    for (let i = 0; i < index; i++) {
        const request = [baseNs + BigInt(traffic.times[i]), traffic.names[traffic.keys[i]], traffic.costs[i]];
        text += written([...request, ...lanes.flatMap((lane, n) => csvOfLane(lane, policies[n], i))]);
        if ((i + 1) % CSV_PART !== 0)
            continue;
        yield { text, done: (i + 1) / index };
        text = "";
        if (world.traffic !== traffic || lanes.some((lane, n) => lane.version !== versions[n]))
            throw new Error("the scene has changed meanwhile");
    }
    yield { text, done: 1 };
}

/** Returns the same as one text. @param {import("./world.mjs").World} world */
export function toCsv(world) {
    return Array.from(csvParts(world), ({ text }) => text).join("");
}
