/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The program whose instructions tools/instructions counts. Each case makes the same decisions in
 * the same order, without sockets, clocks or threads. So the count is reproducible, and shows
 * changes that are too small to time.
 *
 *     instructions            prints the names of the cases
 *     instructions CASE       runs a case; prints how many decisions measured() made
 *
 * It includes only public headers and those of service and codec. */

#include "codec/http/session.h"
#include "codec/resp/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEYS = 1024,
    KEY_LEN = 16, /* "key:" and 12 digits, as in redis-benchmark */
    DECISIONS = 1 << 14,
    REQUEST_MAX = 256, /* bytes of a request */
    BATCH = 16,
    STEP_NS = 100000, /* between two requests; a key is requested about 10 times a second */
};

static const int64_t start_ns = INT64_C(1767225600000000000);
static const char api[] = "gcra 100/s burst 20";

typedef struct rig {
    char keys[KEYS][KEY_LEN];
    uint32_t order[DECISIONS]; /* the keys of the requests */
    weir_policy policy;
    uint64_t policy_id;
    weir_store *store;
    weir_key prepared[KEYS];
    weir_limiter *limiter;
    weir_service *service;
    weir_resp_options resp_options;
    weir_resp_session resp;
    weir_http_options http_options;
    weir_http_session http;
    weir_buffer in, out;
    uint64_t states[KEYS][WEIR_LAYERS_MAX * 4];

    char *requests; /* DECISIONS requests, one behind the other */
    size_t *begin;  /* request i is the bytes begin[i] .. begin[i + 1] of `requests` */
    size_t pipeline;
    uint64_t allowed;
} rig;

static void die(const char *what)
{
    fprintf(stderr, "instructions: %s\n", what);
    exit(1);
}

/* ---- the rounds ------------------------------------------------------------------------------ */

static void round_check(rig *r)
{
    weir_decision d;
    for (size_t i = 0; i < DECISIONS; i++) {
        uint64_t *state = r->states[r->order[i]];
        if (weir_check(&r->policy, state, 0, start_ns + (int64_t)i * STEP_NS, 1, &d) != WEIR_OK)
            die("weir_check() failed");
        r->allowed += d.allowed;
    }
}

static void round_store(rig *r)
{
    weir_decision d;
    for (size_t i = 0; i < DECISIONS; i++) {
        if (weir_store_check(r->store, &r->policy, r->policy_id, r->keys[r->order[i]], KEY_LEN,
                             start_ns + (int64_t)i * STEP_NS, 1, &d) != WEIR_OK)
            die("weir_store_check() failed");
        r->allowed += d.allowed;
    }
}

static void round_key(rig *r)
{
    weir_decision d;
    for (size_t i = 0; i < DECISIONS; i++) {
        if (weir_store_check_key(r->store, &r->policy, r->prepared[r->order[i]],
                                 start_ns + (int64_t)i * STEP_NS, 1, &d) != WEIR_OK)
            die("weir_store_check_key() failed");
        r->allowed += d.allowed;
    }
}

static void round_batch(rig *r)
{
    weir_store_request batch[BATCH];
    for (size_t i = 0; i < DECISIONS; i += BATCH) {
        for (size_t k = 0; k < BATCH; k++)
            batch[k] = (weir_store_request){.policy = &r->policy,
                                            .policy_id = r->policy_id,
                                            .key = r->keys[r->order[i + k]],
                                            .key_len = KEY_LEN,
                                            .cost = 1};
        weir_store_check_batch(r->store, batch, BATCH, start_ns + (int64_t)i * STEP_NS);
        for (size_t k = 0; k < BATCH; k++)
            r->allowed += batch[k].status == WEIR_OK && batch[k].decision.allowed;
    }
}

/* Puts requests i .. i + pipeline - 1 into the input. */
static void arrive(rig *r, size_t i)
{
    size_t begin = r->begin[i];
    weir_buffer_append(&r->in, r->requests + begin, r->begin[i + r->pipeline] - begin);
}

/* The replies are checked by check_reply(), outside the measured part. */
static void round_resp(rig *r)
{
    for (size_t i = 0; i < DECISIONS; i += r->pipeline) {
        weir_buffer_clear(&r->out);
        arrive(r, i);
        weir_resp_session_run(&r->resp, &r->in, &r->out, 1 << 16, start_ns + (int64_t)i * STEP_NS);
    }
}

static void round_http(rig *r)
{
    for (size_t i = 0; i < DECISIONS; i += r->pipeline) {
        weir_buffer_clear(&r->out);
        arrive(r, i);
        weir_http_session_run(&r->http, &r->in, &r->out, 1 << 16, start_ns + (int64_t)i * STEP_NS);
    }
}

/* ---- the requests ---------------------------------------------------------------------------- */

typedef struct request_text {
    const char *before, *after; /* the bytes around the key */
} request_text;

static const request_text resp_request = {
    "*3\r\n$9\r\nWEIR.TAKE\r\n$3\r\napi\r\n$16\r\n",
    "\r\n",
};
static const request_text get_request = {
    "GET /v1/take?policy=api&key=",
    " HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
};
static const request_text post_request = {
    "POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\n"
    "Content-Length: 41\r\n\r\n{\"policy\":\"api\",\"key\":\"",
    "\"}",
};

static void write_requests(rig *r, const request_text *text)
{
    size_t end = 0;
    for (size_t i = 0; i < DECISIONS; i++) {
        int len = snprintf(r->requests + end, REQUEST_MAX, "%s%.*s%s", text->before, KEY_LEN,
                           r->keys[r->order[i]], text->after);
        r->begin[i] = end;
        end += (size_t)len;
    }
    r->begin[DECISIONS] = end;
}

/* ---- the cases ------------------------------------------------------------------------------- */

typedef struct bench_case {
    const char *name;
    const char *policy;
    void (*round)(rig *r);
    const request_text *request; /* NULL if the case has no protocol */
    size_t pipeline;
    const char *reply; /* the beginning of the reply to an allowed take; NULL if there is none */
} bench_case;

static const bench_case cases[] = {
    {"check.gcra", api, round_check, NULL, 1, NULL},
    {"check.fixed-window", "fixed-window 100/s", round_check, NULL, 1, NULL},
    {"check.sliding-counter", "sliding-counter 100/s", round_check, NULL, 1, NULL},
    {"check.layers", "gcra 100/s burst 20 & fixed-window 1000/m", round_check, NULL, 1, NULL},
    {"store.one", api, round_store, NULL, 1, NULL},
    {"store.key", api, round_key, NULL, 1, NULL},
    {"store.batch", api, round_batch, NULL, 1, NULL},
    {"store.layers", "gcra 100/s burst 20 & fixed-window 1000/m", round_batch, NULL, 1, NULL},
    {"store.block", "gcra 100/s burst 20 & block 10m", round_batch, NULL, 1, NULL},
    {"store.concurrent", "concurrent 100 lease 10s", round_batch, NULL, 1, NULL},
    {"resp.p1", api, round_resp, &resp_request, 1, "*6\r\n:1\r\n"},
    {"resp.p16", api, round_resp, &resp_request, 16, "*6\r\n:1\r\n"},
    {"resp.p64", api, round_resp, &resp_request, 64, "*6\r\n:1\r\n"},
    {"http.get", api, round_http, &get_request, 1, "HTTP/1.1 200 OK\r\n"},
    {"http.post", api, round_http, &post_request, 1, "HTTP/1.1 200 OK\r\n"},
};

enum { CASES = sizeof cases / sizeof cases[0] };

static weir_rules *rules_of(rig *r, const weir_zones *zones)
{
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    spec.name = "api";
    spec.limit = api;
    weir_rules *rules;
    if (weir_rules_build(&rules, r->store, zones, &spec, 1) != WEIR_OK)
        die("no rules");
    return rules;
}

static void open_rig(rig *r, const bench_case *c)
{
    static const uint8_t secret[16] = "the same always";
    weir_store_options options = {.memory_bytes = 8 << 20, .secret = secret};
    weir_zones zones = {0};
    for (uint32_t i = 0; i < KEYS; i++) {
        char text[KEY_LEN + 1];
        snprintf(text, sizeof text, "key:%012" PRIu32, i);
        memcpy(r->keys[i], text, KEY_LEN);
    }
    uint32_t x = 1;
    for (size_t i = 0; i < DECISIONS; i++) {
        x = x * 1664525 + 1013904223; /* Source: Numerical Recipes' ranqd1 */
        r->order[i] = x >> 22;
    }
    if (weir_policy_parse(&r->policy, c->policy, strlen(c->policy), NULL, NULL) != WEIR_OK ||
        weir_store_open(&r->store, &options) != WEIR_OK ||
        weir_limiter_open(&r->limiter, r->store, &zones) != WEIR_OK ||
        weir_service_open(&r->service, r->limiter) != WEIR_OK)
        die("cannot open the store");
    r->policy_id = weir_store_policy_id(r->store, &r->policy);
    for (size_t i = 0; i < KEYS; i++) {
        if (weir_store_key(r->store, r->policy_id, r->keys[i], KEY_LEN, &r->prepared[i]) != WEIR_OK)
            die("cannot prepare a key");
    }
    weir_limiter_set_rules(r->limiter, rules_of(r, &zones));
    r->resp_options = (weir_resp_options){.service = r->service, .version = ""};
    weir_resp_session_init(&r->resp, &r->resp_options);
    r->http_options = (weir_http_options){.service = r->service, .version = ""};
    weir_http_session_init(&r->http, &r->http_options);
    weir_buffer_init(&r->in, 1 << 20);
    weir_buffer_init(&r->out, 1 << 20);
    r->pipeline = c->pipeline;
    r->requests = malloc((DECISIONS + 1) * REQUEST_MAX);
    r->begin = malloc((DECISIONS + 1) * sizeof *r->begin);
    if (!r->requests || !r->begin)
        die("out of memory");
    if (c->request)
        write_requests(r, c->request);
}

static void close_rig(rig *r)
{
    weir_http_session_close(&r->http);
    weir_service_close(r->service);
    weir_limiter_close(r->limiter);
    weir_store_close(r->store);
    weir_buffer_free(&r->in);
    weir_buffer_free(&r->out);
    free(r->requests);
    free(r->begin);
    free(r);
}

/* Checks that the last reply of a round is that of an allowed take. */
static void check_reply(const rig *r, const bench_case *c)
{
    if (!c->reply) {
        if (r->allowed < DECISIONS / 2)
            die("too few requests were allowed");
        return;
    }
    size_t len = strlen(c->reply);
    if (weir_buffer_len(&r->out) < len || memcmp(weir_buffer_data(&r->out), c->reply, len) != 0)
        die("unexpected reply");
}

/* tools/instructions counts the instructions of this function, by its name, and of all that it
 * calls. */
__attribute__((noinline)) static void measured(rig *r, void (*round)(rig *))
{
    round(r);
    __asm__ __volatile__("" ::: "memory"); /* prevents a tail call, which would end the count */
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        for (size_t i = 0; i < CASES; i++)
            puts(cases[i].name);
        return 0;
    }
    for (size_t i = 0; i < CASES; i++) {
        const bench_case *c = &cases[i];
        if (strcmp(argv[1], c->name) != 0)
            continue;
        rig *r = calloc(1, sizeof *r);
        if (!r)
            die("out of memory");
        open_rig(r, c);
        measured(r, c->round);
        check_reply(r, c);
        close_rig(r);
        printf("%d\n", DECISIONS);
        return 0;
    }
    die("unknown case; without an argument this program lists the cases");
}
