/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What a wrong configuration is told, to the letter and to the caret. */

#include "cmd/config/config.h"
#include "service/zone_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static weir_zone_cache *cache;

static void refused(const char *yaml, const char *expected)
{
    weir_zones zones = weir_zone_cache_zones(cache);
    char *told = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&told, &len);
    assert_non_null(out);
    config_sink sink = config_print_to(out);
    weir_config *c = NULL;
    assert_int_equal(config_parse(yaml, strlen(yaml), "t.yaml", false, &zones, &sink, &c),
                     WEIR_E_SYNTAX);
    assert_null(c);
    fclose(out);
    assert_string_equal(told, expected);
    free(told);
}

static void check_listen(void **unused)
{
    (void)unused;
    refused("listen: {resp: 127.0.0.1:70000, http: \"::1:80\"}\n",
            "t.yaml:1:16: error: listen.resp: expected an IP address and a port, such as "
            "127.0.0.1:6380 or "
            "\"[::1]:6380\", a port alone, or off, found a port beyond 65535 in '127.0.0.1:70000'\n"
            "  listen: {resp: 127.0.0.1:70000, http: \"::1:80\"}\n"
            "                 ^\n"
            "t.yaml:1:39: error: listen.http: expected an IP address and a port, such as "
            "127.0.0.1:6380 or "
            "\"[::1]:6380\", a port alone, or off, found '::1:80'\n"
            "  listen: {resp: 127.0.0.1:70000, http: \"::1:80\"}\n"
            "                                        ^\n");
    refused(
        "listen:\n"
        "  resp: localhost:6380\n"
        "  http: [1.2.3:80, \"[::1]\", \"\"]\n"
        "  unix: weir.sock\n",
        "t.yaml:2:9: error: listen.resp: expected an IP address and a port, such as 127.0.0.1:6380 "
        "or \"[::1]:6380\", a port alone, or off, found a name (127.0.0.1 is localhost) in "
        "'localhost:6380'\n"
        "    resp: localhost:6380\n"
        "          ^\n"
        "t.yaml:3:10: error: listen.http[0]: expected an IP address and a port, such as "
        "127.0.0.1:6380 or \"[::1]:6380\", a port alone, or off, found '1.2.3:80'\n"
        "    http: [1.2.3:80, \"[::1]\", \"\"]\n"
        "           ^\n"
        "t.yaml:3:20: error: listen.http[1]: expected an IP address and a port, such as "
        "127.0.0.1:6380 or \"[::1]:6380\", a port alone, or off, found '[::1]'\n"
        "    http: [1.2.3:80, \"[::1]\", \"\"]\n"
        "                     ^\n"
        "t.yaml:3:29: error: listen.http[2]: expected an IP address and a port, such as "
        "127.0.0.1:6380 or \"[::1]:6380\", a port alone, or off, found nothing\n"
        "    http: [1.2.3:80, \"[::1]\", \"\"]\n"
        "                              ^\n"
        "t.yaml:4:9: error: listen.unix: expected an absolute path of at most 107 bytes, or "
        "off, found 9 bytes that begin with 'weir.sock'\n"
        "    unix: weir.sock\n"
        "          ^\n");
    refused("listen:\n"
            "  resp: [6380, \":6380\"]\n"
            "  http: 127.0.0.1:6380\n",
            "t.yaml:2:16: error: listen.resp[1]: 127.0.0.1:6380 is listened on already, expected "
            "another address\n"
            "    resp: [6380, \":6380\"]\n"
            "                 ^\n"
            "t.yaml:3:9: error: listen.http: 127.0.0.1:6380 is listened on already, expected "
            "another address\n"
            "    http: 127.0.0.1:6380\n"
            "          ^\n");
    refused(
        "listen:\n"
        "  resp: 0.0.0.0:6380\n"
        "  http:\n"
        "    - \"[::]:8080\"\n"
        "    - 127.0.0.1:1\n",
        "t.yaml:2:9: error: listen.resp: other machines may reach 0.0.0.0:6380, and there is no "
        "password; set password or password_file, or insecure: true if everybody may use it\n"
        "    resp: 0.0.0.0:6380\n"
        "          ^\n"
        "t.yaml:4:7: error: listen.http[0]: other machines may reach [::]:8080, and there is no "
        "password; set password or password_file, or insecure: true if everybody may use it\n"
        "      - \"[::]:8080\"\n"
        "        ^\n");
    refused(
        "insecure: false\n"
        "listen: {resp: \"[::ffff:10.0.0.1]:1\"}\n",
        "t.yaml:2:16: error: listen.resp: other machines may reach [::ffff:10.0.0.1]:1, and there "
        "is no password; set password or password_file, or insecure: true if everybody may use it\n"
        "  listen: {resp: \"[::ffff:10.0.0.1]:1\"}\n"
        "                 ^\n");
    refused("listen: {resp: off}\n", "t.yaml:1:9: error: listen: nothing to listen on, expected an "
                                     "address for resp, http or unix\n"
                                     "  listen: {resp: off}\n"
                                     "          ^\n");
    refused("listen:\n", "t.yaml:1:1: error: listen: nothing to listen on, expected an address for "
                         "resp, http or unix\n"
                         "  listen:\n"
                         "  ^\n");
    refused("listen: [6380]\n", "t.yaml:1:9: error: listen: expected a map, found a list\n"
                                "  listen: [6380]\n"
                                "          ^\n");
    refused("listen: {respp: 6380}\n",
            "t.yaml:1:10: error: listen: unknown key 'respp', did you mean 'resp'?\n"
            "  listen: {respp: 6380}\n"
            "           ^\n");
}

static void check_values(void **unused)
{
    (void)unused;
    refused(
        "threads: 0\n"
        "limits:\n"
        "  connections: -1\n"
        "  buffers: 1023k\n"
        "  idle: 10\n"
        "  request: 1us\n"
        "  write: 1s1m\n"
        "  drain: never\n",
        "t.yaml:1:10: error: threads: expected a number from 1 to 256, found '0'\n"
        "  threads: 0\n"
        "           ^\n"
        "t.yaml:3:16: error: limits.connections: expected a number from 1 to 1000000, found '-1'\n"
        "    connections: -1\n"
        "                 ^\n"
        "t.yaml:4:12: error: limits.buffers: expected a size from 1m to 1024g, as 64m (k, m, g), "
        "found '1023k'\n"
        "    buffers: 1023k\n"
        "             ^\n"
        "t.yaml:5:9: error: limits.idle: expected a duration from 1ms to 30d, as 10s or 1m30s, or "
        "off, found '10'\n"
        "    idle: 10\n"
        "          ^\n"
        "t.yaml:6:12: error: limits.request: expected a duration from 1ms to 30d, as 10s or 1m30s, "
        "or off, found '1us'\n"
        "    request: 1us\n"
        "             ^\n"
        "t.yaml:7:10: error: limits.write: expected a duration from 1ms to 30d, as 10s or 1m30s, "
        "or off, found '1s1m'\n"
        "    write: 1s1m\n"
        "           ^\n"
        "t.yaml:8:10: error: limits.drain: expected a duration from 1ms to 30d, as 10s or 1m30s, "
        "or off, found 'never'\n"
        "    drain: never\n"
        "           ^\n");
    refused("memory: {size: 1mb, large: 1.5g}\n"
            "insecure: yes\n",
            "t.yaml:1:16: error: memory.size: expected a size from 1m to 1024g, as 64m (k, m, g), "
            "found '1mb'\n"
            "  memory: {size: 1mb, large: 1.5g}\n"
            "                 ^\n"
            "t.yaml:1:28: error: memory.large: expected a size from 64k to 1024g, as 64m (k, m, "
            "g), found '1.5g'\n"
            "  memory: {size: 1mb, large: 1.5g}\n"
            "                             ^\n"
            "t.yaml:2:11: error: insecure: expected true or false, found 'yes'\n"
            "  insecure: yes\n"
            "            ^\n");
    refused("memory: {large: 256m}\n", "t.yaml:1:17: error: memory: large is a part of the memory, "
                                       "expected at least 64k less than its size, 256m\n"
                                       "  memory: {large: 256m}\n"
                                       "                  ^\n");
    refused("memory: {size: 8m, large: 8m}\n",
            "t.yaml:1:27: error: memory: large is a part of the memory, expected at least 64k less "
            "than its size, 8m\n"
            "  memory: {size: 8m, large: 8m}\n"
            "                            ^\n");
    refused("memory: {file: [], sync: 2s, when_full: ask, shared: 1}\n",
            "t.yaml:1:16: error: memory.file: expected the path of a file, found a list\n"
            "  memory: {file: [], sync: 2s, when_full: ask, shared: 1}\n"
            "                 ^\n"
            "t.yaml:1:26: error: memory.sync: expected never, 1s or always, found '2s'\n"
            "  memory: {file: [], sync: 2s, when_full: ask, shared: 1}\n"
            "                           ^\n"
            "t.yaml:1:41: error: memory.when_full: expected evict or refuse, found 'ask'\n"
            "  memory: {file: [], sync: 2s, when_full: ask, shared: 1}\n"
            "                                          ^\n"
            "t.yaml:1:54: error: memory.shared: expected true or false, found '1'\n"
            "  memory: {file: [], sync: 2s, when_full: ask, shared: 1}\n"
            "                                                       ^\n");
    refused(
        "memory: {file: s, size: 8191k}\n",
        "t.yaml:1:25: error: memory: with a file expected a size of 8m at least, and 6m that is "
        "not for large\n"
        "  memory: {file: s, size: 8191k}\n"
        "                          ^\n");
    refused(
        "memory: {file: s, size: 8m, large: 2049k}\n",
        "t.yaml:1:36: error: memory: with a file expected a size of 8m at least, and 6m that is "
        "not for large\n"
        "  memory: {file: s, size: 8m, large: 2049k}\n"
        "                                     ^\n");
    refused("memory: {sync: always}\n",
            "t.yaml:1:16: error: memory: sync is of a file, expected file: PATH beside it\n"
            "  memory: {sync: always}\n"
            "                 ^\n");
    refused("memory: {shared: false, size: 2m}\n",
            "t.yaml:1:18: error: memory: shared is of a file, expected file: PATH beside it\n"
            "  memory: {shared: false, size: 2m}\n"
            "                   ^\n");
    refused("memory: {fil: /x}\n", "t.yaml:1:10: error: memory: unknown key 'fil', did you mean "
                                   "'file'?\n"
                                   "  memory: {fil: /x}\n"
                                   "           ^\n");
    refused("memory: 256m\n"
            "limits: [1]\n"
            "http: {key: X-Real-IP}\n",
            "t.yaml:1:9: error: memory: expected a map, found a text\n"
            "  memory: 256m\n"
            "          ^\n"
            "t.yaml:2:9: error: limits: expected a map, found a list\n"
            "  limits: [1]\n"
            "          ^\n"
            "t.yaml:3:13: error: http.key: expected {header: X-Real-IP} or {query: user}\n"
            "  http: {key: X-Real-IP}\n"
            "              ^\n");
    refused("threads: {a: 1}\n"
            "insecure: []\n"
            "limits: {idle: , connections: \"\"}\n",
            "t.yaml:1:10: error: threads: expected a number from 1 to 256, found a map\n"
            "  threads: {a: 1}\n"
            "           ^\n"
            "t.yaml:2:11: error: insecure: expected true or false, found a list\n"
            "  insecure: []\n"
            "            ^\n"
            "t.yaml:3:10: error: limits.idle: expected a duration from 1ms to 30d, as 10s or "
            "1m30s, or off, found nothing\n"
            "  limits: {idle: , connections: \"\"}\n"
            "           ^\n"
            "t.yaml:3:31: error: limits.connections: expected a number from 1 to 1000000, found "
            "nothing\n"
            "  limits: {idle: , connections: \"\"}\n"
            "                                ^\n");
}

static void check_http(void **unused)
{
    (void)unused;
    refused(
        "http: {key: {header: \"X Real\", hops: 17}}\n",
        "t.yaml:1:22: error: http.key.header: expected the name of a header, such as X-Real-IP, of "
        "at most 64 bytes, found 'X Real'\n"
        "  http: {key: {header: \"X Real\", hops: 17}}\n"
        "                       ^\n"
        "t.yaml:1:38: error: http.key.hops: expected a number from 1 to 16, found '17'\n"
        "  http: {key: {header: \"X Real\", hops: 17}}\n"
        "                                       ^\n");
    refused("http: {key: {header: A, query: b}}\n",
            "t.yaml:1:25: error: http.key.query: both header and query are set, expected only "
            "one\n"
            "  http: {key: {header: A, query: b}}\n"
            "                          ^\n");
    refused("http:\n"
            "  key: {query: user, hops: 1}\n",
            "t.yaml:2:28: error: http.key: hops requires header\n"
            "    key: {query: user, hops: 1}\n"
            "                             ^\n");
    refused("http: {key: {hops: 1}}\n",
            "t.yaml:1:13: error: http.key: expected {header: X-Real-IP} or {query: user}\n"
            "  http: {key: {hops: 1}}\n"
            "              ^\n");
    refused("http: {kye: 1}\n", "t.yaml:1:8: error: http: unknown key 'kye', did you mean 'key'?\n"
                                "  http: {kye: 1}\n"
                                "         ^\n");
}

static void check_keys(void **unused)
{
    (void)unused;
    refused("polices: {}\n", "t.yaml:1:1: error: unknown key 'polices', did you mean 'policies'?\n"
                             "  polices: {}\n"
                             "  ^\n");
    refused("memroy: 1\n"
            "listen: {htttp: 1}\n"
            "limits: {conections: 1, x: 1}\n",
            "t.yaml:1:1: error: unknown key 'memroy', did you mean 'memory'?\n"
            "  memroy: 1\n"
            "  ^\n"
            "t.yaml:2:10: error: listen: unknown key 'htttp', did you mean 'http'?\n"
            "  listen: {htttp: 1}\n"
            "           ^\n"
            "t.yaml:3:10: error: limits: unknown key 'conections', did you mean 'connections'?\n"
            "  limits: {conections: 1, x: 1}\n"
            "           ^\n"
            "t.yaml:3:25: error: limits: unknown key 'x', expected one of connections, buffers, "
            "idle, request, write, drain\n"
            "  limits: {conections: 1, x: 1}\n"
            "                          ^\n");
    refused("zebra: 1\n",
            "t.yaml:1:1: error: unknown key 'zebra', expected one of listen, password, "
            "password_file, insecure, threads, memory, limits, http, top, engine, redis, hybrid, "
            "policies\n"
            "  zebra: 1\n"
            "  ^\n");
    refused("\"a\\tb\": 1\n"
            "d\303\251j\303\240: 2\n",
            "t.yaml:1:1: error: unknown key 'a b', expected one of listen, password, "
            "password_file, insecure, threads, memory, limits, http, top, engine, redis, hybrid, "
            "policies\n"
            "  \"a\\tb\": 1\n"
            "  ^\n"
            "t.yaml:2:1: error: unknown key 'd\303\251j\303\240', expected one of listen, "
            "password, password_file, insecure, threads, memory, limits, http, top, engine, redis, "
            "hybrid, policies\n"
            "  d\303\251j\303\240: 2\n"
            "  ^\n");
    refused("threads: 1\n"
            "memory: {size: 2m, size: 3m}\n"
            "threads: 2\n",
            "t.yaml:2:20: error: memory.size: a key that was there before, on line 2\n"
            "  memory: {size: 2m, size: 3m}\n"
            "                     ^\n"
            "t.yaml:3:1: error: threads: a key that was there before, on line 1\n"
            "  threads: 2\n"
            "  ^\n");
}

static void check_policies(void **unused)
{
    (void)unused;
    refused(
        "policies:\n"
        "  login: sliding-log 5/q\n",
        "t.yaml:2:24: error: policies.login: unknown unit 'q', expected one of ns us ms s m h d w\n"
        "    login: sliding-log 5/q\n"
        "                         ^\n");
    refused("policies:\n"
            "  a: 'gcra 1/s brst 5'\n"
            "  b: \"gcra 1/s burst\"\n",
            "t.yaml:2:16: error: policies.a: found 'brst', expected burst and a number, '&' or the "
            "end\n"
            "    a: 'gcra 1/s brst 5'\n"
            "                 ^\n"
            "t.yaml:3:21: error: policies.b: found the end, expected a burst, 1 to 2147483647\n"
            "    b: \"gcra 1/s burst\"\n"
            "                      ^\n");
    refused("policies:\n"
            "  a:\n"
            "    gcra 1/s\n"
            "    burst x\n",
            "t.yaml:3:5: error: policies.a: column 16 of the policy: found 'x', expected a burst, "
            "1 to 2147483647\n"
            "      gcra 1/s\n"
            "      ^\n");
    refused("policies:\n"
            "  a: \"gcra\\x20\\x31/q\"\n"
            "  b: 'gcra ''1'''\n",
            "t.yaml:2:6: error: policies.a: column 8 of the policy: unknown unit 'q', expected one "
            "of ns us ms s m h d w\n"
            "    a: \"gcra\\x20\\x31/q\"\n"
            "       ^\n"
            "t.yaml:3:12: error: policies.b: found ''1'', expected a rate such as 100/s, 1 to "
            "1099511627776\n"
            "    b: 'gcra ''1'''\n"
            "             ^\n");
    refused("policies:\n"
            "  a: |\n"
            "    gcra 1/q\n",
            "t.yaml:2:6: error: policies.a: column 8 of the policy: unknown unit 'q', expected one "
            "of ns us ms s m h d w\n"
            "    a: |\n"
            "       ^\n");
    refused("policies:\n"
            "\ta: gcra 1/q\n",
            "t.yaml:2:1: error: not YAML: while scanning for the next token: found character that "
            "cannot start any token; put the text in quotes, and indent with spaces\n"
            "   a: gcra 1/q\n"
            "  ^\n");
    refused("policies: {\"\303\274\303\274\": gcra 1/s, b: gcra 1/q}\n",
            "t.yaml:1:12: error: policies.\"\303\274\303\274\": byte 1 of a policy's name: "
            "expected a letter, a digit or one of - _ . : /\n"
            "  policies: {\"\303\274\303\274\": gcra 1/s, b: gcra 1/q}\n"
            "             ^\n"
            "t.yaml:1:38: error: policies.b: unknown unit 'q', expected one of ns us ms s m h d w\n"
            "  policies: {\"\303\274\303\274\": gcra 1/s, b: gcra 1/q}\n"
            "                                       ^\n");
    refused("policies:\n"
            "  \"a b\": gcra 1/q\n"
            "  \"\": gcra 1/s\n",
            "t.yaml:2:3: error: policies.\"a b\": byte 2 of a policy's name: expected a letter, a "
            "digit or one of - _ . : /\n"
            "    \"a b\": gcra 1/q\n"
            "    ^\n"
            "t.yaml:2:17: error: policies.\"a b\": unknown unit 'q', expected one of ns us ms s m "
            "h d w\n"
            "    \"a b\": gcra 1/q\n"
            "                  ^\n"
            "t.yaml:3:3: error: policies.\"\": a policy's name has 1 to 64 bytes, this one has 0\n"
            "    \"\": gcra 1/s\n"
            "    ^\n");
    refused(
        "policies:\n"
        "  a: {shadow: maybe, ip: {v4: 33, v6: 129}}\n"
        "  b: [gcra 1/s]\n"
        "  c:\n",
        "t.yaml:2:3: error: policies.a: the key limit is missing, expected a policy text, such as "
        "\"gcra 100/s burst 20\"\n"
        "    a: {shadow: maybe, ip: {v4: 33, v6: 129}}\n"
        "    ^\n"
        "t.yaml:2:15: error: policies.a.shadow: expected true or false, found 'maybe'\n"
        "    a: {shadow: maybe, ip: {v4: 33, v6: 129}}\n"
        "                ^\n"
        "t.yaml:2:31: error: policies.a.ip.v4: expected a number from 0 to 32, found '33'\n"
        "    a: {shadow: maybe, ip: {v4: 33, v6: 129}}\n"
        "                                ^\n"
        "t.yaml:2:39: error: policies.a.ip.v6: expected a number from 0 to 128, found '129'\n"
        "    a: {shadow: maybe, ip: {v4: 33, v6: 129}}\n"
        "                                        ^\n"
        "t.yaml:3:6: error: policies.b: expected a policy text, such as \"gcra 100/s burst 20\", "
        "or "
        "a map, found a list\n"
        "    b: [gcra 1/s]\n"
        "       ^\n"
        "t.yaml:4:3: error: policies.c: expected a policy text, such as \"gcra 100/s burst 20\", "
        "or "
        "a map, found nothing\n"
        "    c:\n"
        "    ^\n");
    refused(
        "policies:\n"
        "  api:\n"
        "    limit: gcra 1/s\n"
        "    overrides: {big: gcra 0/s, \"a b\": gcra 1/s, c: [], d: gcra 2/q}\n"
        "    allow: [10.0.0.0/33, {}, ok]\n"
        "    deny: \"10.0.0.0/8\"\n"
        "    ip: none\n",
        "t.yaml:4:27: error: policies.api.overrides.big: found '0/s', expected a rate such as "
        "100/s, 1 to 1099511627776\n"
        "      overrides: {big: gcra 0/s, \"a b\": gcra 1/s, c: [], d: gcra 2/q}\n"
        "                            ^\n"
        "t.yaml:4:52: error: policies.api.overrides.c: expected a policy text, such as \"gcra "
        "100/s "
        "burst 20\", found a list\n"
        "      overrides: {big: gcra 0/s, \"a b\": gcra 1/s, c: [], d: gcra 2/q}\n"
        "                                                     ^\n"
        "t.yaml:4:66: error: policies.api.overrides.d: unknown unit 'q', expected one of ns us "
        "ms s m h d w\n"
        "      overrides: {big: gcra 0/s, \"a b\": gcra 1/s, c: [], d: gcra 2/q}\n"
        "                                                                   ^\n"
        "t.yaml:5:13: error: policies.api.allow[0]: '10.0.0.0/33' is not a network: expected "
        "/0 to /32 after the address\n"
        "      allow: [10.0.0.0/33, {}, ok]\n"
        "              ^\n"
        "t.yaml:5:26: error: policies.api.allow[1]: expected a key, a prefix and '*', or a "
        "network as \"10.0.0.0/8\", found a map\n"
        "      allow: [10.0.0.0/33, {}, ok]\n"
        "                           ^\n"
        "t.yaml:6:11: error: policies.api.deny: expected a list of keys, as [\"10.0.0.0/8\", "
        "\"ci-*\"]\n"
        "      deny: \"10.0.0.0/8\"\n"
        "            ^\n"
        "t.yaml:7:9: error: policies.api.ip: expected a map, such as {v4: 32, v6: 64}, or false\n"
        "      ip: none\n"
        "          ^\n");
    refused("policies:\n"
            "  api:\n"
            "    limit: fixed-window 1/day tz Mars/Olympus\n"
            "    overrides: [x]\n"
            "    allow:\n",
            "t.yaml:3:34: error: policies.api.limit: found 'Mars/Olympus', expected the name of a "
            "time zone, as in tz Europe/Berlin\n"
            "      limit: fixed-window 1/day tz Mars/Olympus\n"
            "                                   ^\n"
            "t.yaml:4:16: error: policies.api.overrides: expected a map of keys and their "
            "policies, as \"trial-*\": gcra 1/s\n"
            "      overrides: [x]\n"
            "                 ^\n");
    refused("policies: gcra 1/s\n", "t.yaml:1:11: error: policies: expected a map of names and "
                                    "policies, such as login: gcra 5/m burst 3\n"
                                    "  policies: gcra 1/s\n"
                                    "            ^\n");
}

static void check_yaml(void **unused)
{
    (void)unused;
    refused("threads: 1\n"
            "\tlimits: 2\n",
            "t.yaml:2:1: error: not YAML: while scanning a plain scalar from line 1 on: found a "
            "tab character that violates indentation\n"
            "   limits: 2\n"
            "  ^\n");
    refused("listen:\n"
            "  resp: [::]:6380\n",
            "t.yaml:2:10: error: listen.resp: not YAML: while parsing a flow node: did not find "
            "expected node content; put an address like \"[::]:6380\" in quotes\n"
            "    resp: [::]:6380\n"
            "           ^\n");
    refused("policies: {a: gcra 1/s\n",
            "t.yaml:1:23: error: policies: not YAML: while parsing a flow mapping from line 1 on: "
            "did not find expected ',' or '}'; a bracket is not closed, or an address like "
            "\"[::]:6380\" has no quotes\n"
            "  policies: {a: gcra 1/s\n"
            "                        ^\n");
    refused("policies:\n"
            "  a: \"gcra 1/s\n",
            "t.yaml:2:15: error: policies: not YAML: while scanning a quoted scalar from line 2 "
            "on: found unexpected end of stream; a quote is not closed\n"
            "    a: \"gcra 1/s\n"
            "                ^\n");
    refused("a: b: c\n",
            "t.yaml:1:5: error: not YAML: mapping values are not allowed in this context; a text "
            "with ': ' in it needs quotes, and keys of one map the same indentation\n"
            "  a: b: c\n"
            "      ^\n");
    refused(
        "threads: *x\n"
        "limits: &y {idle: 1s}\n"
        "memory: !!map {}\n"
        "<<: {}\n",
        "t.yaml:1:10: error: threads: an alias (*) is not allowed here; write the value itself, "
        "and in quotes if it begins with '*'\n"
        "  threads: *x\n"
        "           ^\n"
        "t.yaml:2:9: error: limits: an anchor (&) is not allowed here; write the value where it is "
        "needed, and in quotes if it begins with '&'\n"
        "  limits: &y {idle: 1s}\n"
        "          ^\n"
        "t.yaml:3:9: error: memory: a tag (!) is not allowed here; put a text that begins with '!' "
        "in quotes\n"
        "  memory: !!map {}\n"
        "          ^\n"
        "t.yaml:4:1: error: \"<<\": maps cannot be merged; write the keys where they are needed\n"
        "  <<: {}\n"
        "  ^\n");
    refused("? [a]\n"
            ": 1\n",
            "t.yaml:1:3: error: a map or a list as a key, expected a text\n"
            "  ? [a]\n"
            "    ^\n");
    refused("threads: 1\n"
            "---\n"
            "threads: 2\n",
            "t.yaml:2:1: error: a second document, expected one in a file\n"
            "  ---\n"
            "  ^\n");
    refused("- 1\n", "t.yaml:1:1: error: expected a map, found a list\n"
                     "  - 1\n"
                     "  ^\n");
    refused("listen: {resp: [::1]:6380}\n",
            "t.yaml:1:17: error: listen.resp: not YAML: while parsing a flow node: did not find "
            "expected node content; put an address like \"[::]:6380\" in quotes\n"
            "  listen: {resp: [::1]:6380}\n"
            "                  ^\n");
    refused("threads: [[[[[[[[[[[[[[[[[1\n",
            "t.yaml:1:25: error: threads[0][0][0][0][0][0][0][0][0][0][0][0][0][0]: maps and lists "
            "lie too deep in each other\n"
            "  threads: [[[[[[[[[[[[[[[[[1\n"
            "                          ^\n");
    refused("threads: \"1\\0\"\n",
            "t.yaml:1:10: error: threads: a NUL character (\\0), which no value may have\n"
            "  threads: \"1\\0\"\n"
            "           ^\n");
    refused("threads: \007\n", "t.yaml:1:10: error: a control character, expected a text in UTF-8\n"
                               "  threads:  \n"
                               "           ^\n");
    refused(": 1\n", "t.yaml:1:1: error: not YAML: while parsing a block mapping: did not find "
                     "expected key; keys of one map need the same indentation, and an address like "
                     "\"[::]:6380\" needs quotes\n"
                     "  : 1\n"
                     "  ^\n");
    refused("? q:\t?", "t.yaml:1:3: error: a map or a list as a key, expected a text\n"
                       "  ? q: ?\n"
                       "    ^\n");
}

static void check_caret(void **unused)
{
    (void)unused;
    refused("threads:\t\t0\r\n",
            "t.yaml:1:11: error: threads: expected a number from 1 to 256, found '0'\n"
            "  threads:  0\n"
            "            ^\n");
    refused("\357\273\277threads: 0\n",
            "t.yaml:1:10: error: threads: expected a number from 1 to 256, found '0'\n"
            "  threads: 0\n"
            "           ^\n");
    refused(
        "policies: {a: \"gcra 1/s\", b: \"gcra 1/s\", c: \"gcra 1/s\", d: \"gcra 1/s\", e: \"gcra "
        "1/x\", f: \"gcra 1/s\", g: gcra 1/s}\n",
        "t.yaml:1:83: error: policies.e: unknown unit 'x', expected one of ns us ms s m h d w\n"
        "  ... c: \"gcra 1/s\", d: \"gcra 1/s\", e: \"gcra 1/x\", f: \"gcra 1/s\", g: gcra 1/s}\n"
        "                                               ^\n");
    refused("listen: {http: \"\302\23331m\"}\n",
            "t.yaml:1:17: error: a control character, expected a text in UTF-8\n"
            "  listen: {http: \" 31m\"}\n"
            "                  ^\n");
    refused("a: \"\377\"\n", "t.yaml:1:5: error: byte 0xFF, expected a text in UTF-8\n"
                             "  a: \"?\"\n"
                             "      ^\n");
}

/* Where the scheme was forgotten, or the password stands where others want it. */
static void check_secret_in_url(void **unused)
{
    (void)unused;
    refused("policies: {a: gcra 1/s}\n"
            "redis: {url: 'user:hunter2@host:6379'}\n",
            "t.yaml:2:14: error: redis.url: a URL begins with redis://, rediss:// (TLS) or unix:// "
            "and a path: write redis://127.0.0.1:6379\n"
            "  redis: {url: *************@host:6379'}\n"
            "               ^\n");
    refused("policies: {a: gcra 1/s}\n"
            "redis:\n"
            "  urls:\n"
            "    - ':hunter2@host:6379'\n",
            "t.yaml:4:7: error: redis.urls[0]: a URL begins with redis://, rediss:// (TLS) or "
            "unix:// and a path: write redis://127.0.0.1:6379\n"
            "      - ********************\n"
            "        ^\n");
    refused("policies: {a: gcra 1/s}\n"
            "redis: {url: 'redis://host?password=hunter2'}\n",
            "t.yaml:2:14: error: redis.url: what stands behind a URL's host is not a database: "
            "write redis://host:6379/0\n"
            "  redis: {url: 'redis://host?******************\n"
            "               ^\n");
    refused("policies: {a: gcra 1/s}\n"
            "redis: {url: 'redis://host', sentinel: {name: a, pass: hunter2}}\n",
            "t.yaml:2:50: error: redis.sentinel: unknown key 'pass', expected one of name, user, "
            "password, password_file\n"
            "  redis: {url: 'redis://host', sentinel: {name: a, pass: *********\n"
            "                                                   ^\n");
}

static void check_secret(void **unused)
{
    (void)unused;
    refused("password: [hunter2]\n",
            "t.yaml:1:11: error: password: expected a password in quotes, found a list\n"
            "  password: *********\n"
            "            ^\n");
    refused("password: \"hunter2\\x01\"\n"
            "threads: 0\n",
            "t.yaml:1:11: error: password: a control character or a line end in the password, "
            "which no HTTP client could send\n"
            "  password: *************\n"
            "            ^\n"
            "t.yaml:2:10: error: threads: expected a number from 1 to 256, found '0'\n"
            "  threads: 0\n"
            "           ^\n");
    refused("{password: hunter2, threads: 0}\n",
            "t.yaml:1:30: error: threads: expected a number from 1 to 256, found '0'\n"
            "  {password: ********************\n"
            "                               ^\n");
    refused("pasword: hunter2\n",
            "t.yaml:1:1: error: unknown key 'pasword', did you mean 'password'?\n"
            "  pasword: *******\n"
            "  ^\n");
    refused("listen: {password: hunter2}\n",
            "t.yaml:1:10: error: listen: unknown key 'password', expected one of resp, http, unix\n"
            "  listen: {password: ********\n"
            "           ^\n");
    refused("password: &hunter2 x\n",
            "t.yaml:1:11: error: password: an anchor (&) is not allowed here; write the value "
            "where it is needed, and in quotes if it begins with '&'\n"
            "  password: **********\n"
            "            ^\n");
    refused("password: *hunter2\n",
            "t.yaml:1:11: error: password: an alias (*) is not allowed here; write the value "
            "itself, and in quotes if it begins with '*'\n"
            "  password: ********\n"
            "            ^\n");
    refused("password:\n"
            "  hunter2: x\n"
            "  hunter2: y\n",
            "t.yaml:2:3: error: password: expected a password in quotes, found a map\n"
            "  ************\n"
            "    ^\n"
            "t.yaml:3:3: error: password: a key that was there before, on line 2\n"
            "  ************\n"
            "    ^\n");
    refused("password: \"hunter2\\q\"\n",
            "t.yaml:1:19: error: not YAML: while parsing a quoted scalar: found unknown escape "
            "character; write \\\\ for a backslash, or use single quotes\n"
            "  password:************\n"
            "                    ^\n");
    refused("password: \"hunter2\n"
            "  hunter2\n",
            "t.yaml:2:10: error: not YAML: while scanning a quoted scalar from line 1 on: found "
            "unexpected end of stream; a quote is not closed\n"
            "  *********\n"
            "           ^\n");
    refused("password:\n"
            "  hunter2: [\n",
            "t.yaml:2:13: error: password: not YAML: while parsing a flow node: did not find "
            "expected node content; put an address like \"[::]:6380\" in quotes\n"
            "  ************\n"
            "              ^\n");
    refused("password: \" hunter2\"\n"
            "password_file: x\n",
            "t.yaml:1:11: error: password: a space at an end of the password, which no HTTP client "
            "could send\n"
            "  password: **********\n"
            "            ^\n"
            "t.yaml:2:1: error: password_file: there is a password already, expected one of "
            "password and password_file\n"
            "  password_file: x\n"
            "  ^\n");
    refused("password: \"\"\n"
            "listen: {resp: 0.0.0.0:1}\n",
            "t.yaml:1:11: error: password: expected a password in quotes, found nothing\n"
            "  password: **\n"
            "            ^\n");
    refused("policies:\n"
            "  password: gcra 1/x\n",
            "t.yaml:2:20: error: policies.password: unknown unit 'x', expected one of ns us ms s m "
            "h d w\n"
            "    password: gcra 1/x\n"
            "                     ^\n");
}

/* Whatever is wrong beside it, and however it is written. */
static void check_no_password(void **unused)
{
    (void)unused;
    static const char *const files[] = {
        "password: hunter2\n\001",
        "password: hunter2\n\xFF",
        "password: hunter2\n  hunter2: [\n",
        "password:\n  - hunter2\n  - {hunter2: [hunter2\n",
        "threads: 0\npassword: |\n  hunter2\n   hunter2\n\n  hunter2\n",
        "{\"password\":\"hunter2\", x",
        "? password\n: hunter2\n? [\n",
        "password:\n  hunter2: hunter2\n  hunter2: !hunter2 x\n",
        "password: &hunter2\n",
        "password: hunter2 # hunter2\npassword: hunter2\nthreads: 0\n",
        "passwort: hunter2\nlimits: {password: hunter2}\n",
        "password: \"hunter2\\x7f\"\nlisten: {password: {hunter2: hunter2}}\n",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *told = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&told, &len);
        assert_non_null(out);
        config_sink sink = config_print_to(out);
        weir_config *c = NULL;
        assert_int_equal(config_parse(files[i], strlen(files[i]), "t", false, NULL, &sink, &c),
                         WEIR_E_SYNTAX);
        fclose(out);
        assert_true(len > 0);
        if (strstr(told, "hunter"))
            fail_msg("file %zu: %s", i, told);
        free(told);
    }
}

static int open_book(void **unused)
{
    (void)unused;
    cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    return cache ? 0 : -1;
}

static int close_book(void **unused)
{
    (void)unused;
    weir_zone_cache_close(cache);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_listen),        cmocka_unit_test(check_values),
        cmocka_unit_test(check_http),          cmocka_unit_test(check_keys),
        cmocka_unit_test(check_policies),      cmocka_unit_test(check_yaml),
        cmocka_unit_test(check_caret),         cmocka_unit_test(check_secret),
        cmocka_unit_test(check_secret_in_url), cmocka_unit_test(check_no_password),
    };
    return cmocka_run_group_tests(tests, open_book, close_book);
}
