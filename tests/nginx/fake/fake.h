/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_NGX_FAKE_H
#define WEIR_TESTS_NGX_FAKE_H
/* The test's side of the fake nginx: what the module logged, sent and answered; its events and its
 * socket. */

#include "ngx_core.h"

#include "modules/nginx/module.h"
#include "tests/kit/kit.h"

enum { FAKE_TEXT_MAX = 1 << 16 };

typedef struct fake_nginx {
    char log[FAKE_TEXT_MAX]; /* the lines since the last fake_logged(): "LEVEL TEXT\n" */
    size_t log_len;
    long allocations; /* until memory is exhausted; -1: never */
    time_t now_s;
    ngx_conf_t cf;
    ngx_pool_t pool; /* of the configuration and of requests */
    ngx_http_core_loc_conf_t core_loc;
    weir_ngx_loc_conf *loc; /* of the location that is configured */
    weir_ngx_main_conf *conf;

    /* The socket. */
    ngx_connection_t c;
    ngx_int_t connect_rc;
    int connects, closes;
    char sent[FAKE_TEXT_MAX]; /* since the last fake_sent() */
    size_t sent_len;
    const char *received; /* what recv() returns; then NGX_AGAIN */
    bool ended;           /* then 0 instead */

    /* A request. */
    ngx_str_t variable; /* the value of all variables */
    ngx_http_request_t r;
    char body[FAKE_TEXT_MAX];
    ngx_int_t finalized; /* the status with which the request ended; NGX_AGAIN: not yet */
    int phases;          /* how often its phases were run */
} fake_nginx;
extern fake_nginx fake;

/* For setup and teardown: a new configuration, and its end. */
int fake_open(void **unused);
int fake_close(void **unused);

/* Begins a new configuration, as a reload does. Shared memory stays. */
void fake_reload(void);

/* Runs a directive, whose words are separated by spaces; quotes keep spaces. Returns what its
 * function returns, with an empty text for NGX_CONF_ERROR; NULL: it was accepted. */
const char *fake_conf(const char *directive);

/* fake_conf(), whose log must be `log`. Both are NULL or empty if it must be accepted. */
void fake_expect_conf(const char *directive, const char *error, const char *log);

/* Runs directives that are separated by ';' and must be accepted, after "weir_zone z 1m". */
void fake_configure(const char *directives);

/* Begins the next location. */
void fake_next_location(void);

/* Ends the configuration, and starts a worker. Returns whether nginx would start. */
bool fake_start(void);

/* The lines of the log since the last call. */
const char *fake_logged(void);

/* The bytes that were sent since the last call. */
const char *fake_sent(void);

/* Runs posted events, and timers as time passes. */
void fake_run(void);
void fake_pass(ngx_msec_t ms);

/* Drops all events, and closes the socket. For fake_close(). */
void fake_forget_events(void);

/* Lets bytes arrive at the socket. NULL: the daemon closes the connection. */
void fake_receive(const char *bytes);

/* connect() ends, with this error; 0: none. */
void fake_connected(int error);

/* Begins a request. Returns it. */
ngx_http_request_t *fake_request(void);

/* The value of a header of the response; NULL: there is none. */
const char *fake_header(const char *name);

/* The value of a variable of the request; NULL: it has none. */
const char *fake_variable(const char *name);

#endif
