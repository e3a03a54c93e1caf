/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* INFO is lines of "name:value"; the line of a policy is "policy_NAME:allowed=1,denied=2,...". A
 * name may have colons, a value of numbers has none. */

#include "cmd/client/top_stats.h"

#include "cmd/client/connection.h"
#include "port/assert.h"
#include "port/text.h"

#include <stdio.h>
#include <string.h>

/* ---- INFO ------------------------------------------------------------------------------------ */

static bool begins(weir_slice text, const char *with)
{
    size_t len = strlen(with);
    return text.len >= len && memcmp(text.at, with, len) == 0;
}

/* Copies text with a terminator, cut to `size` bytes. */
static void copy(char *ret, size_t size, const char *at, size_t len)
{
    size_t n = len < size ? len : size - 1;
    memcpy(ret, at, n);
    ret[n] = '\0';
}

/* The number after NAME= in "a=1,b=2"; 0 if it is not there. */
static uint64_t number_of(weir_slice list, const char *name)
{
    size_t len = strlen(name);
    for (size_t at = 0; at < list.len;) {
        const char *comma = memchr(list.at + at, ',', list.len - at);
        size_t end = comma ? (size_t)(comma - list.at) : list.len;
        if (end - at > len && memcmp(list.at + at, name, len) == 0 && list.at[at + len] == '=') {
            uint64_t n;
            weir_digits_read(list.at + at + len + 1, end - at - len - 1, &n);
            return n;
        }
        at = end + 1;
    }
    return 0;
}

/* Reads a line after "policy_". */
static void read_policy(weir_slice line, top_sample *ret)
{
    size_t colon = line.len;
    while (colon > 0 && line.at[colon - 1] != ':')
        colon--;
    if (colon < 2 || colon - 1 > TOP_NAME_MAX || ret->policies == TOP_POLICIES_MAX)
        return;
    const weir_slice list = {line.at + colon, line.len - colon};
    top_policy *p = &ret->policy[ret->policies++];
    copy(p->name, sizeof p->name, line.at, colon - 1);
    p->counts = (top_counts){
        .allowed = number_of(list, "allowed"),
        .denied = number_of(list, "denied"),
        .shadowed = number_of(list, "shadowed"),
        .allow_listed = number_of(list, "allow_listed"),
        .deny_listed = number_of(list, "deny_listed"),
        .failed = number_of(list, "failed"),
        .unreached = number_of(list, "unreached"),
    };
}

static void read_latency(weir_slice list, top_sample *ret)
{
    for (unsigned i = 0; i < TOP_BUCKETS - 1; i++) {
        char name[24];
        snprintf(name, sizeof name, "%llu", 1ULL << (i + 7));
        ret->latency[i] = number_of(list, name);
    }
    ret->latency[TOP_BUCKETS - 1] = number_of(list, "inf");
}

static void read_line(weir_slice line, top_sample *ret)
{
    const struct {
        const char *name;
        uint64_t *ret;
    } numbers[] = {
        {"uptime_in_seconds:", &ret->uptime_s}, {"connected_clients:", &ret->connections},
        {"maxclients:", &ret->connections_max}, {"store_keys:", &ret->keys},
        {"store_memory_bytes:", &ret->bytes},   {"store_memory_max_bytes:", &ret->bytes_max},
        {"store_evicted:", &ret->evicted},      {"store_refused:", &ret->refused}};
    static const char version[] = "weir_version:", policy[] = "policy_",
                      latency[] = "decision_duration_ns:";
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t len = strlen(numbers[i].name);
        if (begins(line, numbers[i].name))
            weir_digits_read(line.at + len, line.len - len, numbers[i].ret);
    }
    if (begins(line, version))
        copy(ret->version, sizeof ret->version, line.at + strlen(version),
             line.len - strlen(version));
    if (begins(line, policy))
        read_policy((weir_slice){line.at + strlen(policy), line.len - strlen(policy)}, ret);
    if (begins(line, latency))
        read_latency((weir_slice){line.at + strlen(latency), line.len - strlen(latency)}, ret);
}

bool top_read_info(const weir_resp_reply *reply, int64_t at_ns, top_sample *ret)
{
    const weir_resp_value *head = reply->value;
    static const char first[] = "# Server\r\nweir_version:";
    if (head->type != WEIR_RESP_BULK || !begins((weir_slice){head->text, head->len}, first))
        return false;
    memset(ret, 0, offsetof(top_sample, policy));
    ret->at_ns = at_ns;
    for (size_t at = 0; at < head->len;) {
        const char *end = memchr(head->text + at, '\n', head->len - at);
        size_t next = end ? (size_t)(end - head->text) + 1 : head->len;
        size_t len = next - at;
        while (len > 0 && (head->text[at + len - 1] == '\n' || head->text[at + len - 1] == '\r'))
            len--;
        read_line((weir_slice){head->text + at, len}, ret);
        at = next;
    }
    return true;
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* Counters keep their order, so the same place is tried first. */
static const top_policy *find_before(const top_sample *before, const top_policy *p, size_t i)
{
    if (i < before->policies && strcmp(before->policy[i].name, p->name) == 0)
        return &before->policy[i];
    for (size_t k = 0; k < before->policies; k++) {
        if (strcmp(before->policy[k].name, p->name) == 0)
            return &before->policy[k];
    }
    return NULL;
}

static uint64_t denied(const top_counts *n)
{
    return n->denied + n->deny_listed;
}

static uint64_t decided(const top_counts *n)
{
    return n->allowed + n->shadowed + n->allow_listed + n->unreached + denied(n);
}

/* 0 if the counter was reset. */
static double rate(uint64_t before, uint64_t now, double seconds)
{
    return now > before ? (double)(now - before) / seconds : 0;
}

/* The seconds between two samples of the same run of the daemon; 0 if they are not. */
static double seconds_between(const top_sample *before, const top_sample *now)
{
    if (!before || before->at_ns >= now->at_ns || before->uptime_s > now->uptime_s)
        return 0;
    return (double)(now->at_ns - before->at_ns) / 1e9;
}

top_rates top_policy_rates(const top_sample *before, const top_sample *now, size_t i)
{
    static const top_counts none;
    double seconds = seconds_between(before, now);
    WEIR_ASSERT(i < now->policies);
    if (seconds <= 0)
        return (top_rates){0};
    const top_counts *n = &now->policy[i].counts;
    const top_policy *found = find_before(before, &now->policy[i], i);
    const top_counts *o = found ? &found->counts : &none;
    return (top_rates){
        .decided = rate(decided(o), decided(n), seconds),
        .denied = rate(denied(o), denied(n), seconds),
        .shadowed = rate(o->shadowed, n->shadowed, seconds),
        .failed = rate(o->failed, n->failed, seconds),
    };
}

double top_latency_ns(const top_sample *before, const top_sample *now, double q)
{
    uint64_t n[TOP_BUCKETS], sum = 0;
    WEIR_ASSERT(q >= 0 && q <= 1);
    if (seconds_between(before, now) <= 0)
        return -1;
    for (unsigned i = 0; i < TOP_BUCKETS; i++) {
        n[i] = now->latency[i] > before->latency[i] ? now->latency[i] - before->latency[i] : 0;
        sum += n[i];
    }
    if (sum == 0)
        return -1;
    double rank = q * (double)sum, below = 0;
    unsigned i = 0;
    while (i < TOP_BUCKETS - 1 && below + (double)n[i] < rank)
        below += (double)n[i++];
    double low = i == 0 ? 0 : (double)(UINT64_C(1) << (i + 6));
    if (i == TOP_BUCKETS - 1 || n[i] == 0)
        return low;
    double high = (double)(UINT64_C(1) << (i + 7));
    return low + (high - low) * (rank - below) / (double)n[i];
}

/* ---- policies and keys ----------------------------------------------------------------------- */

static const weir_resp_value *text_member(const weir_resp_value *map, const char *name)
{
    const weir_resp_value *v = weir_resp_value_member(map, name);
    return v && v->type == WEIR_RESP_BULK ? v : NULL;
}

/* Whether a map has an integer of 0 or more. */
static bool number_member(const weir_resp_value *map, const char *name, int64_t *ret)
{
    const weir_resp_value *v = weir_resp_value_member(map, name);
    if (!v || v->type != WEIR_RESP_INTEGER || v->integer < 0)
        return false;
    *ret = v->integer;
    return true;
}

static bool read_rule(const weir_resp_value *map, top_rule *ret)
{
    const weir_resp_value *name = text_member(map, "name"), *limit = text_member(map, "limit");
    const weir_resp_value *shadow = weir_resp_value_member(map, "shadow");
    if (!name || !limit || !shadow)
        return false;
    copy(ret->name, sizeof ret->name, name->text, name->len);
    weir_text_escape_to(ret->limit, sizeof ret->limit, limit->text, limit->len, WEIR_MASKED);
    ret->shadow = shadow->integer != 0;
    return true;
}

static bool read_array(const weir_resp_value *array, size_t max, void *ctx,
                       bool (*read)(void *ctx, size_t i, const weir_resp_value *v))
{
    if (!array || array->type != WEIR_RESP_ARRAY || array->len > max)
        return false;
    const weir_resp_value *at = array + 1;
    for (size_t i = 0; i < array->len; i++, at = weir_resp_value_next(at)) {
        if (!read(ctx, i, at))
            return false;
    }
    return true;
}

static bool read_one_rule(void *ctx, size_t i, const weir_resp_value *v)
{
    top_rules *rules = ctx;
    return read_rule(v, &rules->rule[i]);
}

bool top_read_rules(const weir_resp_reply *reply, top_rules *ret)
{
    ret->len = 0;
    if (!read_array(reply->value, TOP_RULES_MAX, ret, read_one_rule))
        return false;
    ret->len = reply->value->len;
    return true;
}

const top_rule *top_find_rule(const top_rules *rules, const char *name)
{
    for (size_t i = 0; i < rules->len; i++) {
        if (strcmp(rules->rule[i].name, name) == 0)
            return &rules->rule[i];
    }
    return NULL;
}

static bool read_one_key(void *ctx, size_t i, const weir_resp_value *v)
{
    top_key *k = &((top_keys *)ctx)->key[i];
    int64_t error, bytes;
    const weir_resp_value *text = text_member(v, "key");
    if (!text || !number_member(v, "cost", &k->units) || !number_member(v, "error", &error) ||
        !number_member(v, "requests", &k->requests) || !number_member(v, "key_bytes", &bytes))
        return false;
    k->len = text->len < sizeof k->text ? text->len : sizeof k->text;
    memcpy(k->text, text->text, k->len);
    k->cut = bytes > (int64_t)k->len;
    k->at_least = k->units > error ? k->units - error : 0;
    return true;
}

bool top_read_keys(const weir_resp_reply *reply, top_keys *ret)
{
    const weir_resp_value *head = reply->value;
    ret->len = 0;
    ret->note[0] = '\0';
    if (head->type == WEIR_RESP_ERROR_REPLY) {
        size_t code = head->len > 4 && memcmp(head->text, "ERR ", 4) == 0 ? 4 : 0;
        weir_text_escape_to(ret->note, sizeof ret->note, head->text + code, head->len - code,
                            WEIR_MASKED);
        return true;
    }
    const weir_resp_value *keys = weir_resp_value_member(head, "keys");
    if (!read_array(keys, TOP_KEYS_MAX, ret, read_one_key))
        return false;
    ret->len = keys->len;
    return true;
}
