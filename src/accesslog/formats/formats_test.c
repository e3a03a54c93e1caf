/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests the formats of proxies, of JSON logs and of columns: tables of lines and errors, detection,
 * every prefix of a line, and every byte of a line changed. */

#include "accesslog/formats/kit_test.h"

#define T1_NS (1767323045 * S) /* 2026-01-02T03:04:05Z */

#define HAPROXY_FRONT                                                                              \
    "10.0.1.2:33317 [02/Jan/2026:03:04:05.655] http-in static/srv1 10/0/30/69/109 "
#define HAPROXY HAPROXY_FRONT "200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} \"GET /i/x?q HTTP/1.1\""
#define HAPROXY_FIELDS                                                                             \
    "expected the fields of HAProxy's HTTP log ('option httplog'): frontend, backend/server, "     \
    "times, status, bytes and so on"
#define HAPROXY_CLIENT "expected an address and a port, then a time like [06/Feb/2009:12:14:14.655]"
#define T_MS           (T1_NS + 655000000)

static void haproxy_lines(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"haproxy", NULL, NULL, HAPROXY, T_MS, "10.0.1.2", 1},
        {"haproxy", NULL, "bytes", HAPROXY, T_MS, "10.0.1.2", 2750},
        {"haproxy", "method", NULL, HAPROXY, T_MS, "GET", 1},
        {"haproxy", "path", NULL, HAPROXY, T_MS, "/i/x", 1},
        {"haproxy", "query", NULL, HAPROXY, T_MS, "q", 1},
        {"haproxy", "status", NULL, HAPROXY, T_MS, "200", 1},
        {"haproxy", NULL, NULL, "<134>Jan  2 03:04:05 lb haproxy[14389]: " HAPROXY, T_MS,
         "10.0.1.2", 1},
        {"haproxy", NULL, NULL, "<134>1 2026-01-02T03:04:05.6+00:00 lb haproxy 14389 - - " HAPROXY,
         T_MS, "10.0.1.2", 1},
        {"haproxy", NULL, NULL,
         "2001:db8::7:33317 [02/Jan/2026:03:04:05] f b/s 0/0/0/0/0 -1 +9 - - "
         "---- 1/1/1/1/0 0/0 \"<BADREQ>\"",
         T1_NS, "2001:db8::7", 1},
        {"haproxy", NULL, "bytes",
         "[::1]:3 [02/Jan/2026:03:04:05] f b/s 0/0/0/0/0 -1 +9 - - ---- "
         "1/1/1/1/0 0/0 \"<BADREQ>\"",
         T1_NS, "::1", 9},
    };
    static const line_row errors[] = {
        {"haproxy", NULL, NULL, "GET / HTTP/1.1", BAD, "column 1: " HAPROXY_CLIENT, 0},
        {"haproxy", NULL, NULL, "x 10.0.1.2 [02/Jan/2026:03:04:05.655] a", BAD,
         "column 3: " HAPROXY_CLIENT, 0},
        {"haproxy", NULL, NULL, "10.0.1.2:1 [32/Jan/2026:03:04:05.655] a", BAD,
         "column 12: " HAPROXY_CLIENT, 0},
        {"haproxy", NULL, NULL, "10.0.1.2:1 [02/Jan/1969:03:04:05.655] a", BAD,
         "column 12: expected a time from 1970 to 2225-09-28T23:48:52Z", 0},
        {"haproxy", NULL, NULL, HAPROXY_FRONT "x 2750 - - ---- 1/1/1/1/0 0/0", BAD,
         "column 42: " HAPROXY_FIELDS, 0},
        {"haproxy", NULL, NULL, HAPROXY_FRONT "200 2750 - - ----", BAD,
         "column 42: " HAPROXY_FIELDS, 0},
        {"haproxy", "path", NULL, HAPROXY_FRONT "200 2750 - - ---- 1/1/1/1/0 0/0 \"GET /cut off",
         BAD, "column 110: expected a request in quotes that has a path", 0},
        {"haproxy", NULL, "bytes", HAPROXY_FRONT "200 -1 - - ---- 1/1/1/1/0 0/0 \"GET / HTTP/1.1\"",
         BAD, "column 82: expected a cost: a whole number from 0", 0},
    };
    CHECK(rows, true);
    CHECK(errors, false);
}

#define ALB_FRONT  "h2 2026-01-02T03:04:05.186641Z app/lb/50dc "
#define ALB_MIDDLE "192.0.2.7:2817 10.0.0.1:80 0.000 0.001 0.002 200 201 34 366 "
#define ALB                                                                                        \
    ALB_FRONT ALB_MIDDLE "\"GET https://s.example:443/a/b?c HTTP/2.0\" \"curl \\\"x\\\"\" - -"
#define T_US (T1_NS + 186641000)

static void alb_lines(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"alb", NULL, NULL, ALB, T_US, "192.0.2.7", 1},
        {"alb", "path", "bytes", ALB, T_US, "/a/b", 366},
        {"alb", "uri", NULL, ALB, T_US, "/a/b?c", 1},
        {"alb", "vhost", NULL, ALB, T_US, "s.example", 1},
        {"alb", "agent", NULL, ALB, T_US, "curl \\\"x\\\"", 1},
        {"alb", "status", NULL, ALB, T_US, "200", 1},
        {"alb", "duration", NULL, ALB, T_US, "0.001", 1},
        {"alb", NULL, NULL, ALB_FRONT ALB_MIDDLE "\"-\" \"c\"", T_US, "192.0.2.7", 1},
        {"alb", "uri", NULL, ALB_FRONT ALB_MIDDLE "\"GET /a HTTP/2.0\" \"c\"", T_US, "/a", 1},
    };
    static const line_row errors[] = {
        {"alb", NULL, NULL, "h2 2026-01-02T03:04:05Z lb -", BAD,
         "column 1: expected the type, a time like 2026-01-02T03:04:05.678901Z, the name of the "
         "load "
         "balancer, and the client with its port",
         0},
        {"alb", NULL, NULL, ALB_FRONT ALB_MIDDLE "GET", BAD,
         "column 58: expected the fields of a load balancer of AWS: target, three times, two "
         "statuses, two numbers of bytes, and the request in quotes",
         0},
    };
    CHECK(rows, true);
    CHECK(errors, false);
}

#define ENVOY_TAIL                                                                                 \
    "200 - 0 18 1 0 \"6.6.6.6, 192.0.2.7\" \"c\"url\" \"id-1\" \"s.example\" \"10.0.0.1:9\""
#define ENVOY "[2026-01-02T03:04:05Z] \"GET /a?b HTTP/1.1\" " ENVOY_TAIL
#define EXPECT_ENVOY                                                                               \
    "expected the default format of Envoy: [2026-01-02T03:04:05.678Z] \"METHOD PATH PROTOCOL\" "   \
    "200 - 0 18 1 0 \"X-FORWARDED-FOR\" \"USER-AGENT\" \"REQUEST-ID\" \"AUTHORITY\" \"UPSTREAM\""

/* Envoy does not escape quotes: a line that a client made ambiguous is refused. */
static void envoy_lines(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"envoy", NULL, NULL, ENVOY, T1_NS, "192.0.2.7", 1},
        {"envoy", "uri", "bytes", ENVOY, T1_NS, "/a?b", 18},
        {"envoy", "agent", NULL, ENVOY, T1_NS, "c\"url", 1},
        {"envoy", "http_x_forwarded_for", NULL, ENVOY, T1_NS, "6.6.6.6, 192.0.2.7", 1},
        {"envoy", "http_x_request_id", NULL, ENVOY, T1_NS, "id-1", 1},
        {"envoy", "vhost", NULL, ENVOY, T1_NS, "s.example", 1},
        {"envoy", "duration", NULL, ENVOY, T1_NS, "1", 1},
        {"envoy", "path", NULL, "[2026-01-02T03:04:05Z] \"GET /a\"b HTTP/1.1\" " ENVOY_TAIL, T1_NS,
         "/a\"b", 1},
    };
    static const line_row errors[] = {
        {"envoy", NULL, NULL,
         "[2026-01-02T03:04:05Z] \"GET /a\" 200 - 0 18 1 0 \"x HTTP/1.1\" " ENVOY_TAIL, BAD,
         "column 25: " EXPECT_ENVOY, 0},
        {"envoy", NULL, NULL,
         "[2026-01-02T03:04:05Z] \"GET /a HTTP/1.1\" 200 - 0 18 1 0 \"6.6.6.6\" \"forged, "
         "192.0.2.7\" \"a\" \"b\" \"c\" \"d\"",
         BAD, "column 58: " EXPECT_ENVOY, 0},
        {"envoy", NULL, NULL,
         "[2026-01-02T03:04:05Z] \"GET /a HTTP/1.1\" 200 - 0 18 1 0 \"-\" \"a\" \"b\" \"c\" \"d\"",
         BAD, "column 58: expected a client", 0},
        {"envoy", NULL, NULL, "[2026-01-02T03:04:05Z] \"GET /a HTTP/1.1\" 200", BAD,
         "column 25: " EXPECT_ENVOY, 0},
        {"envoy", NULL, NULL, "x", BAD, "column 1: " EXPECT_ENVOY, 0},
        {"envoy", NULL, NULL, "[2026-13-02T03:04:05Z] \"GET /a HTTP/1.1\" " ENVOY_TAIL, BAD,
         "column 1: " EXPECT_ENVOY, 0},
    };
    CHECK(rows, true);
    CHECK(errors, false);
}

#define TRAEFIK_FRONT "192.0.2.7 - joe [02/Jan/2026:03:04:05 +0000] \"GET /a HTTP/1.1\" 200 12 "
#define TRAEFIK_HEAD  TRAEFIK_FRONT "\"-\" \"c\""
#define TRAEFIK_END   " 17 \"web@docker\" \"http://10.0.0.1:80\" 3ms"
#define TRAEFIK       TRAEFIK_HEAD TRAEFIK_END
#define EXPECT_TRAEFIK                                                                             \
    "expected a combined line, then a number, the router and the server in quotes, and a "         \
    "duration like 3ms"

static void traefik_lines(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"traefik", NULL, NULL, TRAEFIK, T1_NS, "192.0.2.7", 1},
        {"traefik", "user", "duration", TRAEFIK, T1_NS, "joe", 3},
        {"combined", "agent", NULL, TRAEFIK, T1_NS, "c", 1},
        {"traefik", "agent", NULL, TRAEFIK_FRONT "\"-\" \"a \"b\" \\ c\"" TRAEFIK_END, T1_NS,
         "a \"b\" \\ c", 1},
        {"traefik", "referer", NULL, TRAEFIK_FRONT "\"r\" \"a\"" TRAEFIK_END, T1_NS, "r", 1},
    };
    static const line_row errors[] = {
        {"traefik", NULL, NULL, TRAEFIK_HEAD, BAD, "column 78: " EXPECT_TRAEFIK, 0},
        {"traefik", NULL, NULL, TRAEFIK_HEAD " 17 \"a\" \"b\" 3", BAD, "column 91: " EXPECT_TRAEFIK,
         0},
        {"traefik", NULL, NULL, TRAEFIK_HEAD " 17 \"a\" \"b\" ams", BAD,
         "column 93: " EXPECT_TRAEFIK, 0},
        {"traefik", NULL, NULL, TRAEFIK_HEAD " x \"a\" \"b\" 3ms", BAD,
         "column 92: " EXPECT_TRAEFIK, 0},
        {"traefik", NULL, NULL, TRAEFIK_HEAD "17 \"a\" \"b\" 3ms", BAD,
         "column 92: " EXPECT_TRAEFIK, 0},
        {"traefik", "agent", NULL, TRAEFIK_FRONT "\"r\" \"a\" \"b\"" TRAEFIK_END, BAD,
         "column 70: expected an agent in quotes", 0},
    };
    CHECK(rows, true);
    CHECK(errors, false);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

#define CADDY                                                                                      \
    "{\"ts\":1767323045.3229647,\"request\":{\"remote_ip\":\"192.0.2.7\",\"proto\":\"HTTP/2.0\","  \
    "\"method\":\"GET\",\"host\":\"s.example\",\"uri\":\"/a?b\",\"headers\":{\"User-Agent\":"      \
    "[\"c\",\"d\"],\"X-Api-Key\":[\"k\"]}},\"user_id\":\"\",\"duration\":0.5,\"size\":7,"          \
    "\"status\":200}"
#define CADDY_PROXY                                                                                \
    "{\"ts\":1767323045,\"request\":{\"remote_ip\":\"10.0.0.1\",\"client_ip\":\"192.0.2.8\","      \
    "\"method\":\"GET\",\"uri\":\"/\"}}"
#define CADDY_OLD                                                                                  \
    "{\"ts\":1767323045,\"request\":{\"remote_addr\":\"[2001:db8::1]:4\",\"method\":\"GET\","      \
    "\"uri\":\"/\"}}"
#define TRAEFIK_JSON                                                                               \
    "{\"ClientAddr\":\"192.0.2.7:9\",\"ClientHost\":\"192.0.2.7\",\"ClientUsername\":\"-\","       \
    "\"DownstreamContentSize\":5,\"DownstreamStatus\":200,\"Duration\":1500,\"RequestHost\":"      \
    "\"s.example\",\"RequestMethod\":\"GET\",\"RequestPath\":\"/a?b\",\"RequestProtocol\":"        \
    "\"HTTP/1.1\",\"StartUTC\":\"2026-01-02T03:04:05.000000009Z\",\"request_X-Api-Key\":\"k\","    \
    "\"request_User-Agent\":\"c\",\"time\":\"2026-01-02T04:04:06+01:00\"}"
#define ENVOY_JSON                                                                                 \
    "{\"start_time\":\"2026-01-02T03:04:05Z\",\"response_code\":200,\"method\":\"GET\",\"path\":"  \
    "\"/a?b\",\"downstream_remote_address\":\"192.0.2.7:9\",\"x_forwarded_for\":\"6.6.6.6\","      \
    "\"authority\":\"s.example\",\"bytes_sent\":7}"
#define NGINX_JSON                                                                                 \
    "{\"msec\":\"1767323045.250\",\"time_iso8601\":\"2026-01-02T03:04:05+00:00\",\"remote_addr\":" \
    "\"192.0.2.7\",\"request\":\"GET /a?b HTTP/1.1\",\"status\":\"200\",\"body_bytes_sent\":"      \
    "\"7\",\"http_x_api_key\":\"k\",\"host\":\"s.example\"}"

static void json_flavours(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"caddy", NULL, NULL, CADDY, T1_NS + 322964700, "192.0.2.7", 1},
        {"caddy", "agent", "bytes", CADDY, T1_NS + 322964700, "c", 7},
        {"caddy", "http_x_api_key", NULL, CADDY, T1_NS + 322964700, "k", 1},
        {"caddy", "request.headers.X-Api-Key", NULL, CADDY, T1_NS + 322964700, "k", 1},
        {"caddy", "path", NULL, CADDY, T1_NS + 322964700, "/a", 1},
        {"caddy", "query", NULL, CADDY, T1_NS + 322964700, "b", 1},
        {"caddy", "vhost", NULL, CADDY, T1_NS + 322964700, "s.example", 1},
        {"caddy", "duration", NULL, CADDY, T1_NS + 322964700, "0.5", 1},
        {"caddy", NULL, NULL, CADDY_PROXY, T1_NS, "192.0.2.8", 1},
        {"caddy", NULL, NULL, CADDY_OLD, T1_NS, "2001:db8::1", 1},
        {"traefik", NULL, "bytes", TRAEFIK_JSON, T1_NS + 9, "192.0.2.7", 5},
        {"traefik", "http_x_api_key", NULL, TRAEFIK_JSON, T1_NS + 9, "k", 1},
        {"traefik", "http_user_agent", NULL, TRAEFIK_JSON, T1_NS + 9, "c", 1},
        {"traefik", "user", NULL, TRAEFIK_JSON, T1_NS + 9, "-", 1},
        {"traefik", "status", NULL, TRAEFIK_JSON, T1_NS + 9, "200", 1},
        {"envoy", NULL, "bytes", ENVOY_JSON, T1_NS, "192.0.2.7", 7},
        {"envoy", NULL, NULL,
         "{\"start_time\":\"2026-01-02T03:04:05Z\",\"response_code\":200,\"downstream_remote_"
         "address\":\"2001:db8:0:1::7\"}",
         T1_NS, "2001:db8:0:1::7", 1},
        {"envoy", NULL, NULL,
         "{\"start_time\":\"2026-01-02T03:04:05Z\",\"response_code\":200,\"downstream_remote_"
         "address\":\"[2001:db8::7]:80\"}",
         T1_NS, "2001:db8::7", 1},
        {"envoy", NULL, NULL,
         "{\"start_time\":\"2026-01-02T03:04:05Z\",\"response_code\":200,\"downstream_remote_"
         "address\":\"192.0.2.7\"}",
         T1_NS, "192.0.2.7", 1},
        {"envoy", NULL, NULL,
         "{\"start_time\":\"2026-01-02T03:04:05Z\",\"response_code\":200,\"downstream_remote_"
         "address\":\"1:2:3:4:5:6:7:8\"}",
         T1_NS, "1:2:3:4:5:6:7:8", 1},
        {"envoy", "uri", NULL, ENVOY_JSON, T1_NS, "/a?b", 1},
        {"envoy", "http_x_forwarded_for", NULL, ENVOY_JSON, T1_NS, "6.6.6.6", 1},
        {"nginx-json", NULL, "bytes", NGINX_JSON, T1_NS + S / 4, "192.0.2.7", 7},
        {"nginx-json", "method", NULL, NGINX_JSON, T1_NS + S / 4, "GET", 1},
        {"nginx-json", "path", NULL, NGINX_JSON, T1_NS + S / 4, "/a", 1},
        {"nginx-json", "vhost", NULL, NGINX_JSON, T1_NS + S / 4, "s.example", 1},
        {"nginx-json", "host", NULL, NGINX_JSON, T1_NS + S / 4, "s.example", 1},
        {"jsonl", "a.b.c", "n", "{\"time\":5,\"a\":{\"b\":{\"c\":[true,2]}},\"n\":\"3\"}", 5 * S,
         "true", 3},
        {"jsonl", "a.b", NULL, "{\"time\":5,\"a.b\":\"whole\",\"a\":{\"b\":1}}", 5 * S, "whole", 1},
    };
    static const line_row errors[] = {
        {"caddy", NULL, NULL, "{\"ts\":1,\"msg\":\"started\"}", BAD,
         "column 1: expected a key: a string, number or boolean; member \"client\"", 0},
        {"envoy", NULL, NULL,
         "{\"start_time\":\"2026-01-02T03:04:05Z\",\"response_code\":200,\"x_forwarded_for\":\"-"
         "\"}",
         BAD, "column 1: expected a key: a string, number or boolean; member \"client\"", 0},
        {"caddy", "request", NULL, CADDY, BAD,
         "column 1: expected a key: a string, number or boolean; member \"request\"", 0},
    };
    CHECK(rows, true);
    CHECK(errors, false);
}

/* ---- times ----------------------------------------------------------------------------------- */

static void times_of_members(void **state)
{
    (void)state;
    static const struct {
        const char *member;
        int64_t want_ns; /* -1: not a time */
    } rows[] = {
        {"\"ts\":1767323045", T1_NS},
        {"\"ts\":1767323045.000001", T1_NS + 1000},
        {"\"ts\":\"1767323045.123456789\"", T1_NS + 123456789},
        {"\"time\":1767323045250", T1_NS + S / 4},
        {"\"time\":1767323045250.5", T1_NS + S / 4 + 500000},
        {"\"timestamp\":1767323045250001", T1_NS + S / 4 + 1000},
        {"\"@timestamp\":1767323045250000001", T1_NS + S / 4 + 1},
        {"\"time\":99999999999", -1},
        {"\"time\":100000000000", 100000000 * S},
        {"\"time\":99999999999999", -1},
        {"\"time\":100000000000000", 100000000 * S},
        {"\"time\":99999999999999999", -1},
        {"\"time\":100000000000000000", 100000000 * S},
        {"\"time\":8070450532", 8070450532 * S},
        {"\"time\":8070450533", -1},
        {"\"t_ms\":5", 5000000},
        {"\"time_us\":7.5", 7500},
        {"\"t_ns\":7.5", -1},
        {"\"msec\":\"100000000000\"", -1},
        {"\"time_local\":\"02/Jan/2026:03:04:05 +0000\"", T1_NS},
        {"\"time_local\":\"[02/Jan/2026:04:04:05 +0100]\"", T1_NS},
        {"\"time_local\":\"[02/Jan/2026:04:04:05 +0100\"", -1},
        {"\"time_iso8601\":\"2026-01-02T04:04:05+0100\"", T1_NS},
        {"\"time_iso8601\":\"2026-01-02T04:04:05+010\"", -1},
        {"\"time\":\"2026-01-02T03:04:05\"", -1},
        {"\"time\":\"soon\"", -1},
        {"\"time\":\"\"", -1},
        {"\"time\":\"/\"", -1},
        {"\"time\":true", -1},
        {"\"time\":-1", -1},
        {"\"time\":1e9", S * S},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[200];
        snprintf(line, sizeof line, "{\"key\":1,%s}", rows[i].member);
        weir_logline_reader *r = open_reader("jsonl", NULL, NULL);
        weir_log_record record = {.t_ns = -1};
        weir_logline_error e;
        weir_logline_result got = weir_logline_read(r, line, strlen(line), &record, &e);
        if (record.t_ns != rows[i].want_ns ||
            got != (rows[i].want_ns < 0 ? WEIR_LOGLINE_BAD : WEIR_LOGLINE_REQUEST))
            fail_msg("%s: %d, %lld", line, got, (long long)record.t_ns);
        weir_logline_close(r);
    }
}

/* ---- columns --------------------------------------------------------------------------------- */

#define CSV   "# made by hand\ntime, \"client\" ,path,n\n"
#define QUOTE "expected a closing quote, then a separator; a line break cannot be quoted"

static void columns(void **state)
{
    (void)state;
    static const line_row rows[] = {
        {"csv", NULL, NULL, CSV "5,a,/x,2", 5 * S, "a", 1},
        {"csv", "path", "n", CSV "5,a,\"/x,\"\"y\"\"\",2", 5 * S, "/x,\"y\"", 2},
        {"csv", "path", NULL, CSV "\"1970-01-01T00:00:05Z\",a,\"/x\",", 5 * S, "/x", 1},
        {"csv", "remote_addr", NULL, CSV "5,\"\"\"\",,", 5 * S, "\"", 1},
        {"csv", NULL, NULL, "\xef\xbb\xbfkey,cost,t_ns\nk,3,7", 7, "k", 3},
        {"csv", NULL, NULL, "key,x,x,t_ns\nk,3,4,7", 7, "k", 1},
        {"csv", NULL, NULL, "# a comment, time\nkey,t_ns\nk,7", 7, "k", 1},
        {NULL, NULL, NULL, "# a comment, time\n#\nkey,t_ns\nk,7", 7, "k", 1},
        {NULL, NULL, NULL,
         "\xef\xbb\xbf"
         "1.2.3.4 - - [01/Jan/1970:00:00:05 +0000]",
         5 * S, "1.2.3.4", 1},
        {"combined", NULL, NULL,
         "\xef\xbb\xbf"
         "1.2.3.4 - - [01/Jan/1970:00:00:05 +0000]",
         5 * S, "1.2.3.4", 1},
        {NULL, NULL, NULL, "\xef\xbb\xbf{\"t_ns\":7,\"key\":\"k\"}", 7, "k", 1},
        {"csv", NULL, NULL, "msec,remote_addr,client\n7,a,b", 7 * S, "b", 1},
        {"tsv", "q", NULL, "time\tq\n5\t\"a\"\"", 5 * S, "\"a\"\"", 1},
        {"tsv", NULL, NULL, "5\tk\t2", 5, "k", 2},
        {"tsv", NULL, NULL, "5\ttime\t2", 5, "time", 2},
        {NULL, NULL, NULL, "5\ttime\t2", 5, "time", 2},
        {NULL, "q", NULL, "time\tq\n5\ta", 5 * S, "a", 1},
        {NULL, "q", NULL, "time,q\n5,a", 5 * S, "a", 1},
    };
    static const line_row errors[] = {
        {"csv", NULL, NULL, CSV "5,a,/x", BAD,
         "column 7: expected as many columns as there are names in the first line; 4, found 3", 0},
        {"csv", NULL, NULL, CSV "5,a,/x,1,9,9", BAD,
         "column 10: expected as many columns as there are names in the first line; 4, found 6", 0},
        {"csv", NULL, NULL, CSV "x,a,/x,", BAD,
         "column 1: expected t_ns, whole nanoseconds since 1970, or a time like "
         "2026-01-02T03:04:05.678Z",
         0},
        {"csv", NULL, NULL, CSV "9999999999,a,/x,", BAD,
         "column 1: expected a time from 1970 to 2225-09-28T23:48:52Z", 0},
        {"csv", NULL, NULL, CSV "5,,/x,", BAD, "column 3: expected a key of 1 to 65536 bytes", 0},
        {"csv", NULL, "n", CSV "5,a,/x,", BAD, "column 8: expected a cost: a whole number from 0",
         0},
        {"csv", NULL, NULL, CSV "5,\"a,/x,", BAD, "column 3: " QUOTE, 0},
        {"csv", NULL, NULL, CSV "5,\"a\"b,/x,", BAD, "column 3: " QUOTE, 0},
        {"csv", NULL, NULL, "client,n", BAD,
         "column 1: expected the names of the columns, one of which is a time: t_ns, time, ts, "
         "timestamp, @timestamp, time_local, time_iso8601, msec, datetime, or time_ms, time_us or "
         "time_ns",
         0},
    };
    CHECK(rows, true);
    CHECK(errors, false);
}

/* A name that no column has is wrong usage, once the names are known. */
static void missing_columns(void **state)
{
    (void)state;
    static const struct {
        const char *format, *key, *line, *want;
    } rows[] = {
        {"csv", NULL, "time,client,client", "--key: two columns have the name 'client'"},
        {"csv", "$remote_addr", "time,client,client", "--key: two columns have the name 'client'"},
        {NULL, "q", "time,q,time", "two columns have the name 'time'"},
        {"csv", NULL, "time,q",
         "--key: it is needed: a csv line has no column 'key' and no column 'client', expected one "
         "of time q"},
        {"csv", "user", "time,q", "--key: a csv line has no column 'user', expected one of time q"},
        {NULL, "$client", "time\tq",
         "--key: a tsv line has no column 'client', expected one of time q"},
        {NULL, "agent", "5\tk",
         "--key: a tsv file without a line of names has no named fields: the time is the first "
         "column, the key the second, the cost the third"},
        {NULL, "vhost", "h - - [02/Jan/2026:03:04:05 +0000]",
         "--key: a combined line has no field 'vhost', expected one of client ident user method "
         "path uri query protocol status bytes referer agent"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_logline_reader *r = open_reader(rows[i].format, rows[i].key, NULL);
        weir_log_record record;
        weir_logline_error e;
        char text[500];
        assert_int_equal(weir_logline_read(r, rows[i].line, strlen(rows[i].line), &record, &e),
                         WEIR_LOGLINE_USAGE);
        weir_logline_error_text(&e, text, sizeof text);
        assert_string_equal(text, rows[i].want);
        assert_int_equal(weir_logline_read(r, "5,a", 3, &record, &e), WEIR_LOGLINE_USAGE);
        weir_logline_close(r);
    }
}

/* ---- --time ---------------------------------------------------------------------------------- */

/* The member or column that is the time, also where another one is a time by its name. */
static void named_time(void **state)
{
    (void)state;
    static const struct {
        const char *format, *time, *line;
        int64_t t_ns; /* BAD or a USAGE: the error is `want` */
        const char *want;
    } rows[] = {
        {NULL, "at", "key,at,time\nk,5,9", 5 * S, NULL},
        {NULL, "at_ms", "key,at_ms\nk,5", 5000000, NULL},
        {NULL, "at_us", "key,at_us\nk,5", 5000, NULL},
        {"csv", "at_ns", "key,at_ns\nk,5", 5, NULL},
        {"csv", "_ms", "key,_ms\nk,5", 5 * S, NULL},
        {"csv", "msec", "key,time,msec\nk,1,5", 5 * S, NULL},
        {NULL, "at", "key\tat\nk\t1970-01-01T00:00:05Z", 5 * S, NULL},
        {NULL, "at", "{\"key\":\"k\",\"time\":9,\"at\":5}", 5 * S, NULL},
        {NULL, "meta.at_ms", "{\"key\":\"k\",\"meta\":{\"at_ms\":5}}", 5000000, NULL},
        {"jsonl", "a.b", "{\"key\":\"k\",\"a.b\":5}", 5 * S, NULL},
        {"csv", "at", "key,time", BAD,
         "column 1: expected the names of the columns, one of which is that of --time"},
        {"jsonl", "at", "{\"key\":\"k\",\"time\":9}", BAD,
         "column 1: expected t_ns, whole nanoseconds since 1970, or a time like "
         "2026-01-02T03:04:05.678Z; member \"at\""},
        {NULL, "at", "5\tk", WEIR_LOGLINE_USAGE,
         "--time: a tsv file without a line of names has no named fields: the time is the first "
         "column, the key the second, the cost the third"},
        {NULL, "at", "h - - [02/Jan/2026:03:04:05 +0000]", WEIR_LOGLINE_USAGE,
         "--time: a combined line has its time at a fixed place; leave out --time"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_logline_options o = {.format = rows[i].format, .time = rows[i].time};
        weir_logline_reader *r;
        weir_log_record record;
        weir_logline_error e;
        char text[500];
        assert_int_equal(weir_logline_open(&r, &o, &e), WEIR_OK);
        const char *line = read_header(r, rows[i].line);
        weir_logline_result result = weir_logline_read(r, line, strlen(line), &record, &e);
        if (rows[i].want) {
            assert_int_equal(result, rows[i].t_ns);
            weir_logline_error_text(&e, text, sizeof text);
            assert_string_equal(text, rows[i].want);
        } else {
            assert_int_equal(result, WEIR_LOGLINE_REQUEST);
            assert_int_equal(record.t_ns, rows[i].t_ns);
        }
        weir_logline_close(r);
    }
}

/* ---- all formats ----------------------------------------------------------------------------- */

static const struct {
    const char *format, *line;
} samples[] = {
    {"combined", "h - - [02/Jan/2026:03:04:05 +0000] \"GET /a HTTP/1.1\" 200 12 \"-\" \"c\""},
    {"common", "h - - [02/Jan/2026:03:04:05 +0000] \"GET /a HTTP/1.1\" 200 12"},
    {"vhost_combined",
     "v:80 h - - [02/Jan/2026:03:04:05 +0000] \"GET /a HTTP/1.1\" 200 12 \"-\" \"c\""},
    {"vhost_common", "v:80 192.0.2.7 - - [02/Jan/2026:03:04:05 +0000] \"GET /a HTTP/1.1\" 200 12"},
    {"nginx-json", NGINX_JSON},
    {"caddy", CADDY},
    {"traefik", TRAEFIK_JSON},
    {"traefik", TRAEFIK},
    {"envoy", ENVOY_JSON},
    {"envoy", ENVOY},
    {"haproxy", HAPROXY},
    {"haproxy", "Jan  2 03:04:05 lb haproxy[14389]: " HAPROXY},
    {"alb", ALB},
    {"tsv", "1767323045000000000\tk"},
    {"jsonl", "{\"t_ns\":5,\"key\":\"k\",\"remote_addr\":\"h\"}"},
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

/* Each line is detected as its format, and refused in every format that is not alike. */
static void detection(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        const char *line = samples[i].line, *found = weir_logline_detect(line, strlen(line));
        if (!found || strcmp(found, samples[i].format) != 0)
            fail_msg("%s: %s", line, found ? found : "none");
        for (size_t k = 0; k < SAMPLES; k++) {
            weir_logline_reader *r = open_reader(samples[k].format, NULL, NULL);
            weir_log_record record;
            weir_logline_error e;
            bool alike = weir_logline_alike(samples[i].format, samples[k].format);
            weir_logline_result got = weir_logline_read(r, line, strlen(line), &record, &e);
            if (i == k || (!alike && got != WEIR_LOGLINE_BAD))
                assert_int_equal(got, i == k ? WEIR_LOGLINE_REQUEST : WEIR_LOGLINE_BAD);
            weir_logline_close(r);
        }
    }
    assert_null(weir_logline_detect("hello", 5));
    assert_null(weir_logline_detect("a,b", 3));
    assert_string_equal(weir_logline_detect("time,b", 6), "csv");
    assert_string_equal(weir_logline_detect("{", 1), "jsonl");
}

/* A first JSON line that is no request does not choose the format of the others. */
static void messages_before_the_first_request(void **state)
{
    (void)state;
    static const char message[] = "{\"level\":\"info\",\"ts\":1.5,\"msg\":\"started\"}";
    weir_logline_reader *r = open_reader(NULL, NULL, NULL);
    weir_log_record record;
    weir_logline_error e;
    assert_int_equal(weir_logline_read(r, message, strlen(message), &record, &e), WEIR_LOGLINE_BAD);
    assert_null(weir_logline_format(r));
    assert_int_equal(weir_logline_read(r, CADDY, strlen(CADDY), &record, &e), WEIR_LOGLINE_REQUEST);
    assert_string_equal(weir_logline_format(r), "caddy");
    assert_int_equal(weir_logline_read(r, "", 0, &record, &e), WEIR_LOGLINE_HEADER);
    weir_logline_close(r);
    r = open_reader(NULL, NULL, "bytes"); /* the cost that was asked for stays */
    assert_int_equal(weir_logline_read(r, message, strlen(message), &record, &e), WEIR_LOGLINE_BAD);
    assert_int_equal(weir_logline_read(r, CADDY, strlen(CADDY), &record, &e), WEIR_LOGLINE_REQUEST);
    assert_int_equal(record.cost, 7);
    weir_logline_close(r);
    r = open_reader(NULL, NULL, NULL); /* the one of jsonl is forgotten */
    assert_int_equal(weir_logline_read(r, message, strlen(message), &record, &e), WEIR_LOGLINE_BAD);
    assert_int_equal(weir_logline_read(r, TRAEFIK, strlen(TRAEFIK), &record, &e),
                     WEIR_LOGLINE_REQUEST);
    assert_int_equal(record.cost, 1);
    weir_logline_close(r);
}

/* A hint names the unit of the times if it is probably not nanoseconds. */
static void units_of_times(void **state)
{
    (void)state;
    static const struct {
        const char *line, *want;
    } rows[] = {
        {"1199999999\tk", NULL},
        {"1200000000\tk", "seconds"},
        {"2199999999\tk", "seconds"},
        {"2200000000\tk", NULL},
        {"1199999999999\tk", NULL},
        {"1200000000000\tk", "milliseconds"},
        {"2199999999999\tk", "milliseconds"},
        {"2200000000000\tk", NULL},
        {"1200000000000000\tk", "microseconds"},
        {"2199999999999999\tk", "microseconds"},
        {"2200000000000000\tk", NULL},
        {"1200000000000000000\tk", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_logline_reader *r = open_reader("tsv", NULL, NULL);
        weir_log_record record;
        weir_logline_error e;
        assert_int_equal(weir_logline_read(r, rows[i].line, strlen(rows[i].line), &record, &e),
                         WEIR_LOGLINE_REQUEST);
        const char *unit = weir_logline_unit(r);
        if ((unit != NULL) != (rows[i].want != NULL) || (unit && strcmp(unit, rows[i].want) != 0))
            fail_msg("%s: %s", rows[i].line, unit ? unit : "none");
        weir_logline_close(r);
    }
}

/* Formats are alike if a line of one may be read as the other. */
static void formats_that_are_alike(void **state)
{
    (void)state;
    static const char *const groups[][6] = {
        {"combined", "common", "traefik"},
        {"vhost_combined", "vhost_common"},
        {"nginx-json", "caddy", "traefik", "envoy", "jsonl"},
        {"haproxy"},
        {"alb"},
        {"csv"},
        {"tsv"},
    };
    for (size_t a = 0; a < 7; a++)
        for (size_t b = 0; b < 7; b++)
            for (size_t i = 0; i < 6 && groups[a][i]; i++)
                for (size_t k = 0; k < 6 && groups[b][k]; k++) {
                    bool same = a == b || strcmp(groups[a][i], "traefik") == 0 ||
                                strcmp(groups[b][k], "traefik") == 0;
                    if (a != b && same)
                        continue; /* traefik is in two groups */
                    if (weir_logline_alike(groups[a][i], groups[b][k]) != same)
                        fail_msg("%s, %s", groups[a][i], groups[b][k]);
                }
    assert_false(weir_logline_alike("clf", "clf"));
    assert_false(weir_logline_alike("csv", "clf"));
    assert_false(weir_logline_alike("clf", "csv"));
}

/* Errors show no control characters of the log. */
static void texts_of_errors(void **state)
{
    (void)state;
    static const struct {
        weir_logline_error error;
        const char *want;
    } rows[] = {
        {{.detail = "a\x01\x1f \x7f~"}, "a\\x01\\x1f \\x7f~"},
        {{.detail = "\xc2\x7f\xc2\x80\xc2\x9f\xc2\xa0\xc3\x80"},
         "\xc2\\x7f\\xc2\\x80\\xc2\\x9f\xc2\xa0\xc3\x80"},
        {{.option = "--key", .column = 1, .expected = "x", .detail = "y"},
         "--key: column 1: expected x; y"},
        {{.column = 2, .detail = "y"}, "column 2: y"},
        {{.expected = "x"}, "expected x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200];
        weir_logline_error_text(&rows[i].error, text, sizeof text);
        assert_string_equal(text, rows[i].want);
    }
}

/* Any prefix of a line, and a line with any byte changed, is read or refused without an access
 * beyond its end. What is read depends on the line alone. */
static void damaged_lines(void **state)
{
    (void)state;
    static const char *const keys[] = {NULL, "path", "${status}/$agent"};
    weir_log_record one = {0}, two = {0};
    weir_logline_error e = {0};
    for (size_t i = 0; i < SAMPLES * 3; i++) {
        const char *line = samples[i / 3].line, *format = samples[i / 3].format;
        const char *key = keys[i % 3];
        if (strcmp(format, "tsv") == 0 || (i % 3 == 2 && !strstr(line, "c\"")))
            key = NULL;
        weir_logline_options o = {.format = format, .key = key};
        for (size_t at = 0; at <= strlen(line); at++) {
            for (const char *c = "\n \"\\[]{/:,-9x"; *c; c++) {
                weir_logline_reader *a = NULL, *b = NULL;
                if (weir_logline_open(&a, &o, &e) != WEIR_OK)
                    break;
                assert_int_equal(weir_logline_open(&b, &o, &e), WEIR_OK);
                char *copy, longer[1000];
                size_t len = *c == '\n' ? at : strlen(line);
                memset(longer, '"', sizeof longer);
                memcpy(longer, line, len);
                if (*c != '\n' && at < len)
                    longer[at] = *c;
                weir_logline_result got = read_copy(a, longer, len, &one, &e, &copy);
                if (got == WEIR_LOGLINE_BAD && (e.column < 1 || e.column > len + 1))
                    fail_msg("%.*s: column %zu", (int)len, longer, e.column);
                assert_int_equal(weir_logline_read(b, longer, len, &two, &e), got);
                if (got == WEIR_LOGLINE_REQUEST) {
                    assert_true(one.t_ns == two.t_ns && one.cost == two.cost);
                    assert_int_equal(one.key_len, two.key_len);
                    assert_memory_equal(one.key, two.key, one.key_len);
                }
                weir_logline_close(a);
                weir_logline_close(b);
                free(copy);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(haproxy_lines),
        cmocka_unit_test(alb_lines),
        cmocka_unit_test(envoy_lines),
        cmocka_unit_test(traefik_lines),
        cmocka_unit_test(json_flavours),
        cmocka_unit_test(times_of_members),
        cmocka_unit_test(columns),
        cmocka_unit_test(missing_columns),
        cmocka_unit_test(named_time),
        cmocka_unit_test(detection),
        cmocka_unit_test(messages_before_the_first_request),
        cmocka_unit_test(damaged_lines),
        cmocka_unit_test(units_of_times),
        cmocka_unit_test(formats_that_are_alike),
        cmocka_unit_test(texts_of_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
