/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Warnings of what a valid configuration sets and what has no effect: effects.c and patterns.c, and
 * those of routes and messages. */

#include "cmd/config/guests_kit_test.h"
#include "cmd/config/keys.h"
#include "cmd/config/kit_test.h"

/* Expects these warnings, each "KEY: TEXT", in the order of the file, and no others. */
static void warns(const char *yaml, const char *expected)
{
    char found[4000] = "";
    if (names_absent_guest(yaml, expected))
        return;
    static const char begin[] = "t.yaml:", word[] = ": warning: ";
    config_free(valid(yaml));
    for (char *rest = errors, *line; (line = strsep(&rest, "\n"));) {
        const char *text = strstr(line, word);
        if (strncmp(line, begin, sizeof begin - 1) == 0 && text)
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s\n",
                     text + sizeof word - 1);
    }
    if (strcmp(found, expected) != 0)
        fail_msg("%s\nexpected:\n%s\nfound:\n%s", yaml, expected, found);
}

/* ---- warnings -------------------------------------------------------------------------------- */

#define NO_HTTP "this has no effect without listen.http (or weir serve --http)\n"
#define PROXIES "trusted_proxies: [10.0.0.0/8, '2001:db8:1::/48']\n"
#define GRPC    "this has no effect without listen.grpc (or weir serve --grpc)\n"
#define EITHER                                                                                     \
    "this has no effect without listen.grpc or listen.http (or weir serve --grpc, --http)\n"

#define TELEMETRY "telemetry: {endpoint: 'http://c'"
#define SPOE      API "spoe: {messages: {m: api}}\n"
#define ANY_HOST  "this has no effect, because localhost and IP addresses are always accepted\n"
#define BEFORE    "this has no effect, because an entry before it has the same addresses\n"

/* Sections that no address uses, and addresses that no section limits. */
static void check_listeners(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"listen: {resp: 1}\nhttp: {hosts: a}\ndenied: {status: 403}\nheaders: none\n"
         "retry_spread: 1%\nroutes: [{path: /}]\n" PROXIES,
         "http: " NO_HTTP "denied: " NO_HTTP
         "headers: this has no effect without listen.http or listen.spoe (or weir serve "
         "--http, --spoe)\n"
         "retry_spread: this has no effect without listen.http or listen.spoe (or weir serve "
         "--http, --spoe)\nroutes: " NO_HTTP "trusted_proxies: " NO_HTTP},
        {"listen: {http: 1}\ngrpc: {max_connection_age: off, max_connection_age_grace: 1s}\n" API
         "spoe: {messages: {m: api}}\n",
         "grpc: " GRPC "grpc.max_connection_age_grace: this has no effect, because "
         "grpc.max_connection_age is off\n"
         "spoe: this has no effect without listen.spoe (or weir serve --spoe)\n"},
        {"listen: {resp: 1}\nlimitador: {limits: x}\nenvoy: {config: x}\n",
         "limitador: " EITHER "envoy: " EITHER},
        {"listen: {http: 1}\nlimitador: {limits: x}\nenvoy: {config: x, statsd_flush: 2s}\n",
         "envoy.statsd_flush: this has no effect, because envoy.statsd is off\n"},
        {"listen: {http: 1}\nenvoy: {config: x, statsd_tags: {a: b}}\n",
         "envoy.statsd_tags: this has no effect, because envoy.statsd is off\n"},
        {"listen: {http: 1, grpc: 2}\nenvoy: {shadow_mode: true}\n",
         "listen.grpc: every request is allowed, because there is neither envoy.config nor "
         "limitador.limits\nenvoy: this has no effect, because envoy.config is not set\n"},
        {"envoy: {config: x, headers: {limit: A}}\n",
         "envoy.headers.limit: this has no effect, because envoy.headers.enabled is not "
         "true\n"},
        {"envoy: {config: x, headers: {retry_spread: 1%}}\n",
         "envoy.headers.retry_spread: this has no effect, because envoy.headers.flavour is not "
         "set\n"},
        {"envoy: {config: x, headers: {flavour: none, retry_spread: 1%}}\n", ""},
        {"envoy: {config: x, headers: {enabled: true, flavour: ietf, reset: A}}\n",
         "envoy.headers.reset: this has no effect, because envoy.headers.flavour names other "
         "headers\n"},
        {"listen: {spoe: 1}\n",
         "listen.spoe: no message of HAProxy is limited, because spoe.messages is empty\n"},
        {TELEMETRY "}\n", ""},
        {TELEMETRY ", metrics: false}\nlisten: {http: 1}\n", ""},
        {TELEMETRY ", metrics: false, traces: false}\n",
         "telemetry.endpoint: this has no effect, because metrics and traces are false\n"},
        {TELEMETRY ", metrics: false, interval: 1s}\n",
         "telemetry.interval: this has no effect, because metrics is false\n"},
        {TELEMETRY ", traces: true}\nlisten: {grpc: 1}\nenvoy: {config: x}\n", ""},
        {TELEMETRY ", traces: true}\nlisten: {resp: 1}\n",
         "telemetry.traces: this has no effect, because there is no listen.http and no "
         "listen.grpc\n"},
        {TELEMETRY ", traces: false}\nlisten: {resp: 1}\n", ""},
        {"listen: {resp: {address: 1, proxy_protocol: true}}\n" PROXIES, ""},
        {"http: {client_header: X-Real-IP, hosts: a}\npassword: x\n",
         "http.client_header: the header is never read, because trusted_proxies is empty\n"
         "http.hosts: this has no effect with a password, which makes every host name "
         "acceptable\n"},
        {"users: {web: {may: take}}\nlisten: {http: {address: 1, user: web}}\nhttp: {hosts: a}\n",
         ""},
        {"tls: {cert: c, key: k}\nlisten: {http: {address: 1, tls: off}, unix: /s}\n",
         "tls: this has no effect, because no address of listen uses it\n"},
        {"top: {keys: 0, memory: 2m, metrics: true}\n",
         "top.memory: this has no effect, because top.keys is 0\n"
         "top.metrics: this has no effect, because top.keys is 0\n"},
        {"redis: {url: redis://h}\nhybrid: {count: 2}\n",
         "redis: this has no effect, because no policy has the engine redis or hybrid\n"
         "hybrid: this has no effect, because no policy has the engine hybrid\n"},
        {"redis: {url: redis://h}\nhybrid: {count: 2}\nengine: hybrid\n", ""},
        {"redis: {url: redis://h}\npolicies: {p: {limit: gcra 1/s, engine: redis}}\n", ""},
        {"insecure: true\n",
         "insecure: this has no effect, because no address of listen is public without a password "
         "or client certificates\n"},
        {"insecure: true\npassword: a\nlisten: {resp: 0.0.0.0:1, spoe: 0.0.0.0:2}\n" SPOE, ""},
        {"insecure: true\npassword: a\nlisten: {spoe: 0.0.0.0:2}\n" SPOE,
         "password: this has no effect, because SPOP has no password\n"},
        {"limits: {per_address: 20}\nlisten: {resp: 1, unix: /s}\n",
         "limits.per_address: this has no effect, because clients of loopback addresses and of "
         "Unix sockets are not limited\n"},
        {"limits: {per_address: 20}\nlisten: {resp: {address: 1, proxy_protocol: true}}\n", ""},
        {"http: {encoded_slash: keep}\n",
         "http.encoded_slash: this has no effect, because trusted_proxies is empty, so that no "
         "proxy may ask\n"},
        {"http: {hosts: [a.b, '*', localhost]}\n",
         "http.hosts[0]: this has no effect, because \"*\" is any name\n"
         "http.hosts[2]: this has no effect, because \"*\" is any name\n"},
        {"http: {hosts: [a.b, localhost, 192.0.2.1]}\n",
         "http.hosts[1]: " ANY_HOST "http.hosts[2]: " ANY_HOST},
        {"trusted_proxies: [10.0.0.0/8, 11.1.1.1, '::ffff:10.1.1.1', 11.0.0.0/8, 11.1.1.1]\n",
         "trusted_proxies[2]: " BEFORE "trusted_proxies[4]: " BEFORE},
        {"top: {metrics: true}\nlisten: {resp: 1}\n",
         "top.metrics: this has no effect, because there is no listen.http\n"},
        {"listen: {resp: {address: 1, headers: none, retry_spread: 1%, denied: {status: 403}}, "
         "http: {address: 2, headers: none, denied: {status: 403}}, "
         "spoe: [{address: 3, headers: none, retry_spread: 1%, denied: {status: 403}}]}\n" SPOE,
         "listen.resp.headers: this has an effect in listen.http and listen.spoe only\n"
         "listen.resp.retry_spread: this has an effect in listen.http and listen.spoe only\n"
         "listen.resp.denied: this has an effect in listen.http only\n"
         "listen.spoe[0].denied: this has an effect in listen.http only\n"},
        {"", ""},
    };
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++)
        warns(rows[i][0], rows[i][1]);
}

/* Routes that proxies cannot use, or that their clients get around. */
static void check_route_warnings(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {API "routes: [{path: /, policy: api}]\n",
         "routes: no request can use these routes, because trusted_proxies is empty: "
         "/v1/forward-auth answers 403; add the address of the proxy to trusted_proxies\n"},
        {API PROXIES "routes: [{path: /a, host: a.b, policy: api}, {path: /a/b, policy: api}]\n",
         "routes[0]: a request with another Host is not limited, because no route without a "
         "host has this path: add one, such as {path: /, policy: api}, or let the proxy refuse "
         "other hosts\n"},
        {API PROXIES "routes: [{path: /a, host: a.b, policy: api}, {policy: api}]\n", ""},
        {API PROXIES "routes: [{path: /a, cost: 2}, {policy: api, cost: 0}]\n",
         "routes[0].cost: the cost has no effect, because the route has no policy\n"
         "routes[1].cost: a cost of 0 charges nothing: the policy api denies such a request only "
         "while others have used up the limit\n"},
        {API PROXIES "routes: [{path: /a, keep: 2}, {policy: api, keep: 20%}]\n",
         "routes[0].keep: keep has no effect, because the route has no policy\n"},
        {"policies: {a: gcra 1/m burst 10}\n" PROXIES
         "routes: [{path: /a, policy: a, cost: 2, keep: 8}, {path: /b, policy: a, keep: 90%},\n"
         "         {path: /c, policy: a, cost: 2, keep: 9}, {policy: a, keep: 12}]\n",
         "routes[2].cost: no request is allowed, because the policy a allows a cost of at most 1 "
         "with what the request keeps\n"
         "routes[3].keep: no request is allowed, because the policy a allows a cost of at most 0 "
         "with what the request keeps\n"},
        {"policies: {a: gcra 1/m burst 10}\nlisten: {spoe: 1}\n"
         "spoe: {messages: {m: {policy: a, key: $src, keep: 9}, n: {policy: a, key: $src, keep: "
         "10}}}\n",
         "spoe.messages.n.keep: no request is allowed, because the policy a allows a cost of at "
         "most 0 with what the request keeps\n"},
        {API PROXIES "routes: [{method: [PSOT, BREW, PATCH], policy: api}]\n",
         "routes[0].method[0]: the route matches no request unless clients send the method "
         "PSOT; did you mean POST?\n"},
        {API "listen: {spoe: 1}\nspoe: {messages: {m: {policy: api, cost: 0, key: $src}}}\n",
         "spoe.messages.m.cost: a cost of 0 charges nothing: the policy api denies such a request "
         "only while others have used up the limit\n"},
        {API "listen: {spoe: 1}\nspoe: {messages: {m: {policy: api, key: $scr/$user}}}\n",
         "spoe.messages.m.key: the message needs an argument named scr; did you mean "
         "$src?\n"},
    };
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++)
        warns(rows[i][0], rows[i][1]);
}

#define P(rest) "policies: {p: {limit: gcra 1/s" rest "}}\n"

/* Keys of a policy that other keys make useless. */
static void check_policy_warnings(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {P(", candidate: gcra 1/s burst 1"),
         "policies.p.candidate: this has no effect, because it is the limit itself\n"},
        {P(", candidate: gcra 2/s"), ""},
        {P(", retry_spread: 5%"), ""},
        {P(", shadow: true, retry_spread: 5%"), "policies.p.retry_spread: this has no effect, "
                                                "because a policy with shadow has no waits\n"},
        {"listen: {resp: 1}\n" P(", retry_spread: 5%"),
         "policies.p.retry_spread: this has no effect without listen.http or listen.spoe (or weir "
         "serve --http, --spoe)\n"},
        {P(", shadow: true, denied: {status: 403}"),
         "policies.p.denied: this has no effect, because a policy with shadow denies only what is "
         "on its deny list\n"},
        {P(", shadow: true, denied: {status: 403}, deny: [x]"), ""},
        {P(", denied: {type: a/b}"),
         "policies.p.denied.type: this has no effect, because there is no body and no "
         "body_file\n"},
        {"denied: {type: a/b}\n", "denied.type: this has no effect, because there is no body and "
                                  "no body_file\n"},
        {"denied: {type: a/b}\n" P(", denied: {body: x}"), ""},
        {P(", unit: tokens"),
         "policies.p.unit: this has no effect, because only the headers openai report tokens\n"},
        {P(", unit: tokens, headers: openai"), ""},
        {P(", unit: bytes"), ""},
        {"headers: x-ratelimit\n" P(", unit: bytes"),
         "policies.p.unit: this has no effect, because only the headers ietf report bytes\n"},
        {"listen: {resp: 1}\n" P(", headers: none, denied: {status: 403}, key: $client"),
         "policies.p.headers: this has no effect without listen.http or listen.spoe (or weir serve "
         "--http, --spoe)\npolicies.p.denied: " NO_HTTP "policies.p.key: " NO_HTTP},
        {"listen: {spoe: 1}\nspoe: {messages: {m: p}}\n" P(", headers: none, key: $client"),
         "policies.p.key: " NO_HTTP},
        {"listen: {resp: 1}\n" P(", key: $header.x, no_key: deny"),
         "policies.p.key: " NO_HTTP "policies.p.no_key: " NO_HTTP},
        {P(", key: $header.x, no_key: skip"), ""},
        {P(", no_key: skip"), "policies.p.no_key: this has no effect, because the policy has no "
                              "key\n"},
    };
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++)
        warns(rows[i][0], rows[i][1]);
}

/* Warnings do not crowd out errors. */
static void check_crowd(void **unused)
{
    (void)unused;
    char *yaml = repeated("routes: [", "{path: /%zu, cost: 2}, ", 60, "]\nthreads: 0\n");
    invalid(yaml, "error: threads: expected a number");
    assert_non_null(strstr(errors, "t.yaml: warning: and 11 more"));
    free(yaml);
    yaml = repeated("threads: 0\nhttp: {hosts: [", "/, ", 60, "]}\n");
    invalid(yaml, "t.yaml: error: and 11 more");
    free(yaml);
}

#define LISTED(rest) PROXIES "policies: {p: {limit: gcra 1/s, " rest "}}\n"
#define COVERED                                                                                    \
    ", but allow never matches a trusted proxy: its address may stand for any client that it "     \
    "does not report\n"
#define DENIED   "this has no effect, because deny matches it too\n"
#define ALLOWED  "this has no effect, because allow matches it too\n"
#define TWICE    "this has no effect, because another entry of the list matches the same keys\n"
#define EVERY    "limit has no effect, because this matches every key\n"
#define OF_PROXY "this covers the trusted proxy "

/* Patterns that match no key, or fewer or other keys than they seem to. */
static void check_pattern_warnings(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {LISTED("allow: [10.1.2.0/24, 198.51.100.0/24, '10.*', 11.0.0.1, '::/0']"),
         "policies.p.allow[0]: " OF_PROXY "10.0.0.0/8" COVERED "policies.p.allow[0]: " TWICE
         "policies.p.allow[2]: " OF_PROXY "10.0.0.0/8" COVERED "policies.p.allow[4]: " OF_PROXY
         "2001:db8:1::/48" COVERED},
        {LISTED("key: $client/$path, allow: [10.1.2.3]"),
         "policies.p.allow[0]: " OF_PROXY "10.0.0.0/8" COVERED},
        {LISTED("key: $header.x-api-key, allow: [10.1.2.3]"), ""},
        {LISTED("key: $header.x-api-key/$path, deny: [192.0.2.1, k, '192.1.*']"),
         "policies.p.deny[0]: this matches no key that the template of the policy makes, "
         "because it has no $client\n"
         "policies.p.deny[2]: this matches no key that the template of the policy makes, "
         "because it has no $client\n"},
        {LISTED("key: $header.x-api-key, ip: false, deny: [192.0.2.0/24, 192.0.3.1]"),
         "policies.p.deny[0]: this matches no key that the template of the policy makes, "
         "because it has no $client\n"},
        {LISTED("key: '${path}', deny: [192.0.2.1]"),
         "policies.p.deny[0]: this matches no key that the template of the policy makes, "
         "because it has no $client\n"},
        {LISTED("ip: false, deny: [192.0.2.0/24, 192.0.2.1]"),
         "policies.p.deny[0]: with ip: false, this matches only the address in $client, and no "
         "whole key\n"},
        {LISTED("deny: ['2001:DB8:*', '2001:db8:*', '2001:db9:0:0:*', 'dead:*', 'ab:cd:*']"),
         "policies.p.deny[0]: this misses some spellings of the addresses that it means: write the "
         "network 2001:db8::/32\n"
         "policies.p.deny[2]: this misses some spellings of the addresses that it means: write the "
         "network 2001:db9::/64\n"},
        {LISTED("key: $client/$path, deny: [203.0.113.9/*, '2001:db8::1/*', 203.0.113.9]"),
         "policies.p.deny[1]: no key begins like this, because the key template writes this "
         "address in another form: write the address alone, which matches all keys of that "
         "client\n"},
        {LISTED("ip: {v4: 24}, key: $client/$path, deny: [203.0.113.9/*]"),
         "policies.p.deny[0]: no key begins like this, because the key template writes this "
         "address in another form: write the address alone, which matches all keys of that "
         "client\n"},
        {LISTED("deny: [192.0.2.0/24, 'x-*'], allow: [192.0.2.7, x-1, y], overrides: {x-2: gcra "
                "2/s, '::ffff:192.0.2.8': gcra 3/s}"),
         "policies.p.allow[0]: this has no effect, because deny matches it too\n"
         "policies.p.allow[1]: this has no effect, because deny matches it too\n"
         "policies.p.overrides.x-2: this has no effect, because deny matches it too\n"
         "policies.p.overrides.\"::ffff:192.0.2.8\": this has no effect, because deny "
         "matches it too\n"},
        {LISTED("deny: [192.0.2.0/24, '2001:db8::/32'], allow: [192.0.2.0/24, 192.0.2.128/25, "
                "192.0.0.0/16, '2001:DB8:1:*', 192.0.3.1]"),
         "policies.p.allow[0]: " DENIED "policies.p.allow[1]: " DENIED
         "policies.p.allow[3]: this misses some spellings of the addresses that it means: write "
         "the network 2001:db8:1::/48\n"
         "policies.p.allow[4]: " TWICE},
        {LISTED("allow: [192.0.2.0/24, 'ci-*', 172.16.0.0/12], overrides: {192.0.2.128/25: gcra "
                "2/s, 192.0.0.0/16: gcra 3/s, ci-7: gcra 4/s, 'ci*': gcra 5/s, '*': gcra 6/s}"),
         "policies.p.overrides.\"192.0.2.128/25\": " ALLOWED "policies.p.overrides.ci-7: " ALLOWED
         "policies.p.overrides.\"*\": " EVERY},
        {PROXIES "policies: {p: {limit: gcra 1/s, allow: ['*'], overrides: {10.1.0.0/16: gcra "
                 "2/s, 11.1.0.0/16: gcra 2/s}}}\n",
         "policies.p.allow[0]: " EVERY "policies.p.overrides.\"11.1.0.0/16\": " ALLOWED},
        {LISTED("deny: [192.0.2.7, 192.0.*, '::ffff:192.0.2.7', a, 'ab*', 'abc*', abd, a, "
                "'::ffff:11.0.0.0/104', 11.*]"),
         "policies.p.deny[0]: " TWICE "policies.p.deny[2]: " TWICE "policies.p.deny[5]: " TWICE
         "policies.p.deny[6]: " TWICE "policies.p.deny[7]: " TWICE "policies.p.deny[9]: " TWICE},
        {LISTED("ip: false, deny: [192.0.2.7, 192.0.2.*, '*'], allow: ['::1']"),
         "policies.p.deny[0]: " TWICE
         "policies.p.deny[1]: with ip: false, this matches only the address in $client, and no "
         "whole key\npolicies.p.deny[1]: " TWICE "policies.p.deny[2]: " EVERY
         "policies.p.allow[0]: " DENIED},
    };
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++)
        warns(rows[i][0], rows[i][1]);
}

static int end(void **unused)
{
    (void)unused;
    free(errors);
    return 0;
}

static void check_user_warnings(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {API "users: {web: {password: x, policies: [api, 'a*', '(texts)', '(throttle)', '*'], may: "
             "take}}\n",
         ""},
        {API "users: {web: {password: x, policies: [ap, 'b*', 'api2'], may: take}}\n",
         "users.web.policies[0]: this matches no policy\n"
         "users.web.policies[1]: this matches no policy\n"
         "users.web.policies[2]: this matches no policy\n"},
        {"users: {web: {password: x}}\n",
         "users.web: this user may do nothing, because may is missing or empty\n"},
        {"users: {web: {may: take}, sock: {may: take}}\n"
         "listen: {resp: [{address: 'unix:/x/y', user: sock}]}\n",
         "users.web: no client can be this user: it has no password and no certificate, and no "
         "address of listen has it\n"},
        {"users: {web: {certificate: a, may: take}}\n",
         "users.web.certificate: this has no effect, because no address of listen has "
         "tls.client_ca\n"},
        {"users: {web: {password: x, may: take}}\nhttp: {hosts: a}\n",
         "http.hosts: this has no effect with a password, which makes every host name "
         "acceptable\n"},
        {"users: {web: {password: x, may: take}}\nlisten: {resp: 0.0.0.0:1}\ninsecure: true\n",
         "insecure: this has no effect, because no address of listen is public without a password "
         "or client certificates\n"},
        {"users: {web: {may: take}}\nlisten: {resp: {address: 0.0.0.0:1, user: web}}\n"
         "insecure: true\n",
         ""},
    };
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++)
        warns(rows[i][0], rows[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_listeners),        cmocka_unit_test(check_route_warnings),
        cmocka_unit_test(check_policy_warnings),  cmocka_unit_test(check_crowd),
        cmocka_unit_test(check_pattern_warnings), cmocka_unit_test(check_user_warnings),
    };
    weir_use_guests();
    return cmocka_run_group_tests_name("config-effects", tests, NULL, end);
}
