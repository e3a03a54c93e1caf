/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* When the certificates of listeners are loaded, and what is logged. */

#include "cmd/kit/commands.h"
#include "net/tls/server_kit_test.h"

#include "cmd/serve/parts.h"

#include <fcntl.h>
#include <sys/stat.h>

static const int64_t day_ns = 86400 * (int64_t)1000000000;

typedef struct started {
    weir_config *config;
    tls_listeners *tls;
    log_target log;
    int logged; /* the reading end of the log's pipe */
} started;

static void print_problem(void *ctx, const config_problem *p)
{
    (void)ctx;
    config_problem_print(stderr, p);
}

/*  yaml  each '#' is replaced by the directory of the files. */
static weir_config *config_of(const char *yaml)
{
    char text[2048];
    size_t len = 0;
    weir_config *c = NULL;
    const config_sink sink = {print_problem, NULL};
    for (; *yaml; yaml++)
        len += (size_t)snprintf(text + len, sizeof text - len, *yaml == '#' ? "%s" : "%.1s",
                                *yaml == '#' ? k.dir : yaml);
    assert_int_equal(config_parse(text, len, "t.yaml", true, NULL, &sink, &c), WEIR_OK);
    return c;
}

static void start_with(started *s, const char *yaml)
{
    int ends[2];
    char error[256] = "";
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    *s = (started){.config = config_of(yaml), .log = {.fd = ends[1]}, .logged = ends[0]};
    assert_int_equal(tls_listeners_open(&s->tls, s->config, &s->log, error, sizeof error), WEIR_OK);
}

static void stop_started(started *s)
{
    tls_listeners_close(s->tls);
    config_free(s->config);
    close(s->log.fd);
    close(s->logged);
}

/* Expects that so many lines were logged, all of them with the word. */
static void expect_log(started *s, const char *word, int times)
{
    char text[8192], *rest = text;
    ssize_t n = read(s->logged, text, sizeof text - 1);
    int found = 0;
    text[n > 0 ? n : 0] = '\0';
    for (char *line; (line = strsep(&rest, "\n")) && *line; found++) {
        if (!strstr(line, word))
            fail_msg("expected '%s': %s", word, line);
    }
    assert_int_equal(found, times);
}

static void reload(started *s, const char *yaml)
{
    weir_config *c = config_of(yaml);
    tls_listeners_reload(s->tls, c);
    config_free(c);
}

/* The serial number of the certificate of listener i. */
static long serial_of(const started *s, size_t i)
{
    weir_tls_protocol protocol;
    pair p;
    loop_context context = {0};
    net_tls_server *server = tls_listeners_get(s->tls, i);
    assert_int_equal(weir_tls_protocol_init(&protocol, server, &lines, &context, REQUEST_MAX),
                     WEIR_OK);
    open_pair(&p, &protocol, &(client_options){.pair = k.client});
    assert_true(shake_hands(&p));
    long serial = ASN1_INTEGER_get(X509_get_serialNumber(SSL_get0_peer_certificate(p.ssl)));
    close_pair(&p);
    weir_tls_protocol_free(&protocol);
    return serial;
}

/* Whether a client resumes its session on listener 0. Stores the client's latest session. */
static bool resumes(const started *s, SSL_SESSION **session)
{
    weir_tls_protocol protocol;
    pair p;
    loop_context context = {0};
    net_tls_server *server = tls_listeners_get(s->tls, 0);
    assert_int_equal(weir_tls_protocol_init(&protocol, server, &lines, &context, REQUEST_MAX),
                     WEIR_OK);
    open_pair(&p, &protocol, &(client_options){.resumes = *session});
    assert_true(shake_hands(&p));
    send_text(&p, "one\n");
    expect_text(&p, "one\n");
    bool resumed = SSL_session_reused(p.ssl);
    SSL_SESSION_free(*session);
    *session = SSL_get1_session(p.ssl);
    SSL_shutdown(p.ssl);
    close_pair(&p);
    weir_tls_protocol_free(&protocol);
    return resumed;
}

#define FIRST  "{cert: #/server.pem, key: #/server.pem}"
#define SECOND "{cert: #/server2.pem, key: #/server2.pem}"
#define MUTUAL "{cert: #/server.pem, key: #/server.pem, client_ca: #/ca.pem}"

static void check_choices(void **unused)
{
    (void)unused;
    started s;
    start_with(&s, "tls: " FIRST
                   "\nlisten: {resp: [1, {address: 2, tls: off}, {address: 3, tls: " SECOND
                   "}], unix: /tmp/s}");
    assert_non_null(tls_listeners_get(s.tls, 0));
    assert_null(tls_listeners_get(s.tls, 1));
    assert_int_not_equal(serial_of(&s, 0), serial_of(&s, 2));
    assert_null(tls_listeners_get(s.tls, 3));
    tls_listeners_tick(s.tls, 1);
    tls_listeners_reload(s.tls, NULL);
    expect_log(&s, "", 0);
    stop_started(&s);

    start_with(&s, "tls: " FIRST); /* the default addresses */
    assert_non_null(tls_listeners_get(s.tls, 0));
    assert_non_null(tls_listeners_get(s.tls, 1));
    stop_started(&s);
}

static void check_other_paths(void **unused)
{
    (void)unused;
    started s;
    start_with(&s, "tls: " FIRST "\nlisten: {resp: [1, 2]}");
    long first = serial_of(&s, 0);
    reload(&s, "tls: " FIRST "\nlisten: {resp: [1, 2]}");
    expect_log(&s, "", 0);
    reload(&s, "tls: " FIRST "\nlisten: {resp: [3, {address: 2, tls: " SECOND "}]}");
    expect_log(&s, "tls-reloaded listener=127.0.0.1:2 ", 1);
    assert_int_equal(serial_of(&s, 0), first);
    assert_int_not_equal(serial_of(&s, 1), first);
    reload(&s, "listen: {resp: [1, 2]}"); /* needs a restart */
    expect_log(&s, "", 0);
    stop_started(&s);
}

/* Until a restart, client_ca is neither added nor removed, and no other file is loaded with such a
 * change. */
static void check_client_ca(void **unused)
{
    (void)unused;
    started s;
    start_with(&s, "listen: {resp: [{address: 1, tls: " MUTUAL "}, {address: 2, tls: " FIRST "}]}");
    long first = serial_of(&s, 0);
    reload(&s, "listen: {resp: [{address: 1, tls: " SECOND "}, {address: 2, tls: " MUTUAL "}]}");
    expect_log(&s, "", 0);
    assert_int_equal(serial_of(&s, 0), first);
    weir_tls_protocol protocol;
    pair p;
    loop_context context = {0};
    assert_int_equal(weir_tls_protocol_init(&protocol, tls_listeners_get(s.tls, 0), &lines,
                                            &context, REQUEST_MAX),
                     WEIR_OK);
    open_pair(&p, &protocol, &(client_options){0});
    if (shake_hands(&p))
        send_text(&p, "one\n");
    assert_true(p.closed);
    close_pair(&p);
    weir_tls_protocol_free(&protocol);
    stop_started(&s);
}

static void copy_live(const char *from, time_t seconds)
{
    char text[8192], live[96];
    name_file(live, "live");
    FILE *file = fopen(from, "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    write_file(live, text);
    const struct timespec times[] = {{seconds, 0}, {seconds, 0}};
    assert_int_equal(utimensat(AT_FDCWD, live, times, 0), 0);
}

static void check_changed_files(void **unused)
{
    (void)unused;
    started s;
    char live[96];
    name_file(live, "live");
    copy_live(k.server, 1000);
    start_with(&s, "tls: {cert: #/live.pem, key: #/live.pem}\nlisten: {resp: 1}");
    long first = serial_of(&s, 0);
    copy_live(k.bad, 2000);
    tls_listeners_tick(s.tls, 1);
    tls_listeners_tick(s.tls, 2);
    expect_log(&s, "tls-reload-refused", 1); /* once */
    assert_int_equal(serial_of(&s, 0), first);
    tls_listeners_reload(s.tls, NULL); /* SIGHUP: again */
    expect_log(&s, "tls-reload-refused", 1);
    tls_listeners_tick(s.tls, 1 + day_ns); /* a file that is bad is not renewed */
    expect_log(&s, "", 0);
    copy_live(k.server2, 3000);
    tls_listeners_tick(s.tls, 3 + day_ns);
    expect_log(&s, "tls-reloaded", 1);
    assert_int_not_equal(serial_of(&s, 0), first);
    stop_started(&s);
    unlink(live);
}

/* The keys of tickets are renewed once a day, without a line in the log. */
static void check_tickets(void **unused)
{
    (void)unused;
    started s;
    SSL_SESSION *session = NULL;
    start_with(&s, "tls: " FIRST "\nlisten: {resp: 1}");
    tls_listeners_tick(s.tls, 5);
    assert_false(resumes(&s, &session));
    tls_listeners_tick(s.tls, 4 + day_ns);
    assert_true(resumes(&s, &session));
    tls_listeners_tick(s.tls, 5 + day_ns);
    assert_false(resumes(&s, &session));
    tls_listeners_tick(s.tls, 6 + day_ns);
    assert_true(resumes(&s, &session));
    expect_log(&s, "", 0);
    SSL_SESSION_free(session);
    stop_started(&s);
}

static void check_unusable(void **unused)
{
    (void)unused;
    char error[256] = "";
    tls_listeners *t = NULL;
    const log_target log = {.fd = -1};
    weir_config *c = config_of("tls: {cert: #/server.pem, key: #/server2.pem}");
    assert_int_equal(tls_listeners_open(&t, c, &log, error, sizeof error), WEIR_E_IO);
    assert_non_null(strstr(error, "does not belong to the certificate"));
    assert_null(t);
    config_free(c);
    tls_listeners_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_choices),   cmocka_unit_test(check_other_paths),
        cmocka_unit_test(check_client_ca), cmocka_unit_test(check_changed_files),
        cmocka_unit_test(check_tickets),   cmocka_unit_test(check_unusable),
    };
    weir_use_guests();
    return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
