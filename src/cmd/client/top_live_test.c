/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The loop of `weir top`: what it asks the daemon, when, and what it shows after each key, reply
 * and timeout. The terminal, the daemon and the clock are fakes (see meson.build): a test is a list
 * of turns, each of which ends when the loop waits. */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/client/screen.h"

#include "cmd/client/connection.h"
#include "cmd/client/top_stats.h"
#include "cmd/kit/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define MS INT64_C(1000000)

enum { FD = 77 };

/* What the loop did since the last wait, and what happens then. */
typedef struct turn {
    const char *sent;  /* requests, each with a '|' */
    const char *shown; /* the last frame; NULL: none */
    int64_t wait_ms;   /* at most, until the next event */
    /* The event: */
    int64_t ms;          /* the time that passes */
    const char *keys;    /* typed; "": the terminal is gone */
    bool socket, redraw; /* the socket can be read; the size has changed */
    client_status read;  /* what reading it returns */
    bool odd;            /* the reply is not understood */
    bool bare;           /* INFO has no numbers */
    bool denied;         /* the reply is an error */
} turn;

static struct {
    const turn *turn; /* the next one */
    int64_t now_ns;
    char sent[200], shown[400];
    bool drawn, can_fill, open_fails, write_fails, frame_fails, is_open;
    client_status opens, reopens, sends;
    int closed, reopened, infos;
    int64_t timeout_ns, reopen_timeout_ns;
    const char *error;
    size_t no_memory; /* the first allocation fails */
} fake;

/* ---- the daemon ------------------------------------------------------------------------------ */

int64_t __wrap_port_steady_ns(void);
void *__wrap_port_zalloc(size_t n, size_t size);
void *__real_port_zalloc(size_t n, size_t size);
client_status __wrap_client_open(client *c, const client_login *login, int64_t timeout_ns);
client_status __wrap_client_reopen(client *c, int64_t timeout_ns);
void __wrap_client_set_timeout(client *c, int64_t timeout_ns);
client_status __wrap_client_send(client *c, const weir_slice *words, size_t n);
client_status __wrap_client_read(client *c);
void __wrap_client_close(client *c);
bool __wrap_top_read_info(const weir_resp_reply *reply, int64_t at_ns, top_sample *ret);
bool __wrap_top_read_rules(const weir_resp_reply *reply, top_rules *ret);
bool __wrap_top_read_keys(const weir_resp_reply *reply, top_keys *ret);

int64_t __wrap_port_steady_ns(void)
{
    return fake.now_ns;
}

void *__wrap_port_zalloc(size_t n, size_t size)
{
    return fake.no_memory-- == 1 ? NULL : __real_port_zalloc(n, size);
}

client_status __wrap_client_open(client *c, const client_login *login, int64_t timeout_ns)
{
    assert_string_equal(login->server, "here:1");
    assert_string_equal(login->password, "secret");
    assert_int_equal(timeout_ns, 5000 * MS);
    *c = (client){.fd = FD, .to = {.name = "here:1"}};
    snprintf(c->error, sizeof c->error, "%s", fake.error ? fake.error : "");
    return fake.opens;
}

client_status __wrap_client_reopen(client *c, int64_t timeout_ns)
{
    fake.reopened++;
    fake.reopen_timeout_ns = timeout_ns;
    snprintf(c->error, sizeof c->error, "gone %d", fake.reopened);
    return fake.reopens;
}

void __wrap_client_set_timeout(client *c, int64_t timeout_ns)
{
    c->deadline_ns = fake.now_ns + timeout_ns;
}

client_status __wrap_client_send(client *c, const weir_slice *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(fake.sent);
        snprintf(fake.sent + len, sizeof fake.sent - len, "%s%.*s%s", i > 0 ? " " : "",
                 (int)words[i].len, words[i].at, i + 1 == n ? "|" : "");
    }
    snprintf(c->error, sizeof c->error, "cannot send");
    return fake.sends;
}

/* The event of the last wait. */
static const turn *event(void)
{
    return fake.turn - 1;
}

client_status __wrap_client_read(client *c)
{
    assert_true(event()->socket);
    snprintf(c->error, sizeof c->error, "cannot read");
    c->reply.value[0].type = event()->denied ? WEIR_RESP_ERROR_REPLY : WEIR_RESP_ARRAY;
    return event()->read;
}

void __wrap_client_close(client *c)
{
    assert_int_equal(c->fd, FD);
    fake.closed++;
}

/* Three policies. From the second sample on, `c` decides most, and `b` denies most. */
bool __wrap_top_read_info(const weir_resp_reply *reply, int64_t at_ns, top_sample *ret)
{
    assert_non_null(reply);
    assert_int_equal(at_ns, fake.now_ns);
    if (event()->odd)
        return false;
    uint64_t n = (uint64_t)fake.infos++;
    *ret = (top_sample){
        .at_ns = at_ns, .uptime_s = n, .policies = 3, .connections_max = event()->bare ? 0 : 1};
    ret->policy[0] = (top_policy){.name = "a", .counts = {.allowed = 10 * n, .denied = n}};
    ret->policy[1] = (top_policy){.name = "b", .counts = {.allowed = n, .denied = 3 * n}};
    ret->policy[2] = (top_policy){.name = "c", .counts = {.allowed = 50 * n}};
    return true;
}

bool __wrap_top_read_rules(const weir_resp_reply *reply, top_rules *ret)
{
    assert_non_null(reply);
    ret->len = 3;
    return !event()->odd;
}

bool __wrap_top_read_keys(const weir_resp_reply *reply, top_keys *ret)
{
    assert_non_null(reply);
    ret->len = 1;
    return !event()->odd;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

terminal_style __wrap_terminal_style_get(void);
bool __wrap_terminal_can_fill(void);
bool __wrap_terminal_open(void);
void __wrap_terminal_close(void);
terminal_size __wrap_terminal_size_get(void);
terminal_events __wrap_terminal_wait(int fd, int64_t timeout_ns);
bool __wrap_terminal_write(const void *bytes, size_t len);
size_t __wrap_terminal_read(int *keys, size_t max);
void __wrap_screen_draw(const screen_model *m, int cols, int rows, weir_buffer *out);
void __wrap_screen_print(const screen_model *m, int cols, weir_buffer *out);
int __wrap_screen_page(const screen_model *m, int rows);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

terminal_style __wrap_terminal_style_get(void)
{
    return (terminal_style){.cols = 70, .utf8 = true, .colour = true};
}

bool __wrap_terminal_can_fill(void)
{
    return fake.can_fill;
}

bool __wrap_terminal_open(void)
{
    fake.is_open = !fake.open_fails;
    return fake.is_open;
}

void __wrap_terminal_close(void)
{
    assert_true(fake.is_open);
    fake.is_open = false;
}

terminal_size __wrap_terminal_size_get(void)
{
    return (terminal_size){60, 20};
}

int __wrap_screen_page(const screen_model *m, int rows)
{
    assert_non_null(m);
    assert_int_equal(rows, 20);
    return 2;
}

/* Describes what is shown: the policies with '>' before the chosen one, and whatever is unusual. */
static void describe(const screen_model *m, char *ret, size_t size)
{
    size_t len = (size_t)snprintf(ret, size, "%d:%d", m->before ? (int)m->before->uptime_s : -1,
                                  m->now ? (int)m->now->uptime_s : -1);
    assert_string_equal(m->server, "here:1");
    assert_true(m->colour && m->utf8);
    for (size_t i = 0; i < m->rows; i++)
        len += (size_t)snprintf(ret + len, size - len, " %s%s", i == m->chosen ? ">" : "",
                                m->row[i].policy->name);
    if (m->keys)
        len += (size_t)snprintf(ret + len, size - len, " keys %s", m->keys->policy);
    snprintf(ret + len, size - len, "%s%s%s%s%s%s%s%s%s", m->rules->len > 0 ? " rules" : "",
             m->allowed ? " allowed" : "", m->help ? " help" : "", m->typing ? " typing" : "",
             m->sort == SCREEN_BY_NAME      ? " by-name"
             : m->sort == SCREEN_BY_DECIDED ? " by-decided"
                                            : "",
             m->filter[0] ? " filter " : "", m->filter, m->notice[0] ? " notice " : "", m->notice);
}

void __wrap_screen_draw(const screen_model *m, int cols, int rows, weir_buffer *out)
{
    assert_int_equal(cols, 60);
    assert_int_equal(rows, 20);
    assert_int_equal(weir_buffer_len(out), 0);
    describe(m, fake.shown, sizeof fake.shown);
    fake.drawn = true;
    weir_buffer_append(out, "frame", 5);
    out->failed |= fake.frame_fails;
}

void __wrap_screen_print(const screen_model *m, int cols, weir_buffer *out)
{
    char text[400];
    assert_int_equal(cols, 70);
    assert_int_equal(weir_buffer_len(out), 0);
    describe(m, text, sizeof text);
    weir_buffer_append(out, text, strlen(text));
    weir_buffer_append_byte(out, '\n');
    out->failed |= fake.frame_fails;
}

bool __wrap_terminal_write(const void *bytes, size_t len)
{
    assert_int_equal(len, 5);
    assert_memory_equal(bytes, "frame", 5);
    return !fake.write_fails;
}

/* The loop waits: compares what it did, and begins the next turn. */
static const turn *next_turn(int fd)
{
    const turn *t = fake.turn++;
    if (strcmp(fake.sent, t->sent) != 0)
        fail_msg("sent: expected %s, found %s", t->sent, fake.sent);
    if ((t->shown != NULL) != fake.drawn || (t->shown && strcmp(fake.shown, t->shown) != 0))
        fail_msg("shown: expected %s, found %s", t->shown ? t->shown : "nothing",
                 fake.drawn ? fake.shown : "nothing");
    assert_true(fd == FD || (fd == -1 && !t->socket));
    fake.sent[0] = '\0';
    fake.drawn = false;
    fake.now_ns += t->ms * MS;
    return t;
}

terminal_events __wrap_terminal_wait(int fd, int64_t timeout_ns)
{
    const turn *t = next_turn(fd);
    assert_int_equal(timeout_ns, t->wait_ms * MS);
    return (terminal_events){.key = t->keys != NULL, .socket = t->socket, .redraw = t->redraw};
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    assert_true(n == 1 && fds->events == POLLIN);
    const turn *t = next_turn(fds->fd);
    assert_int_equal(timeout_ms, t->wait_ms);
    return t->socket;
}

/* "\1" is Up, "\2" Down, "\3" Page Up, "\4" Page Down, "\5" Home, and "\6" End. */
size_t __wrap_terminal_read(int *keys, size_t max)
{
    static const int special[] = {0,
                                  TERMINAL_UP,
                                  TERMINAL_DOWN,
                                  TERMINAL_PAGE_UP,
                                  TERMINAL_PAGE_DOWN,
                                  TERMINAL_HOME,
                                  TERMINAL_END};
    const char *typed = event()->keys;
    size_t n = 0;
    for (; typed[n] && n < max; n++)
        keys[n] = typed[n] <= 6 ? special[(int)typed[n]] : typed[n];
    return n;
}

/* ---- running it ------------------------------------------------------------------------------ */

static char errors[400], printed[2000];

static void read_back(int fd, char *ret, size_t size)
{
    ssize_t n = pread(fd, ret, size - 1, 0);
    ret[n > 0 ? n : 0] = '\0';
    close(fd);
}

/* Plays the turns; `out` is standard output if 0 or more. Expects that all are played. */
static int play_to(int out, const turn *turns, size_t n, const top_live_options *o)
{
    int saved[] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)}, err = memfd_create("err", 0);
    bool own = out < 0;
    if (own)
        out = memfd_create("out", 0);
    fake.turn = turns;
    fake.now_ns = 1000 * MS;
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    int status = top_live(o);
    fflush(NULL);
    dup2(saved[0], STDOUT_FILENO);
    dup2(saved[1], STDERR_FILENO);
    close(saved[0]);
    close(saved[1]);
    read_back(err, errors, sizeof errors);
    if (own)
        read_back(out, printed, sizeof printed);
    assert_int_equal(fake.turn - turns, n);
    assert_false(fake.is_open);
    return status;
}

static const top_live_options defaults = {.login = {.server = "here:1", .password = "secret"},
                                          .policy = "",
                                          .interval_ns = 2000 * MS,
                                          .timeout_ns = 5000 * MS};

#define PLAY(turns, options) play_to(-1, turns, sizeof(turns) / sizeof *(turns), options)

static int reset(void **unused)
{
    (void)unused;
    memset(&fake, 0, sizeof fake);
    fake.can_fill = true;
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

#define LOST(WHY) " notice " WHY "; trying again every second"

/* INFO, the policies, the keys of the first policy; then INFO and the keys in each interval. */
#define START                                                                                      \
    {"INFO|", "-1:-1", 5000, .socket = true, .ms = 1},                                             \
        {"WEIR.POLICY LIST|", "-1:0 >a b c", 5000, .socket = true, .ms = 1},                       \
    {                                                                                              \
        "WEIR.TOP a denied|", "-1:0 >a b c rules", 5000, .socket = true, .ms = 1                   \
    }

static void asks_in_each_interval(void **unused)
{
    (void)unused;
    static const turn turns[] = {
        START,
        {"", "-1:0 >a b c keys a rules", 1997, .ms = 1996},
        {"", NULL, 1, .ms = 1},
        {"INFO|", NULL, 5000, .socket = true, .read = CLIENT_WAITING},
        {"", NULL, 5000, .ms = 3, .socket = true},
        {"WEIR.TOP b denied|", "0:1 >b a c rules", 5000, .socket = true},
        {"", "0:1 >b a c keys b rules", 1997, .redraw = true},
        {"", "0:1 >b a c keys b rules", 1997, .keys = "q"},
    };
    assert_int_equal(PLAY(turns, &defaults), 0);
    assert_string_equal(errors, "");
    assert_int_equal(fake.closed, 1);
}

/* The policies are listed again in every tenth interval. */
static void lists_policies_now_and_then(void **unused)
{
    (void)unused;
    turn turns[3 + 3 * 9 + 2] = {START};
    char shown[20][2][60];
    size_t n = 3;
    for (int i = 1; i <= 9; i++) {
        bool rules = i == 9;
        snprintf(shown[i][0], sizeof shown[i][0],
                 i == 1 ? "-1:0 >a b c keys a rules" : "%d:%d >b a c keys b rules", i - 2, i - 1);
        snprintf(shown[i][1], sizeof shown[i][1], "%d:%d >b a c%s rules", i - 1, i,
                 i > 1 ? " keys b" : "");
        turns[n++] = (turn){"", shown[i][0], i == 1 ? 1997 : 2000, .ms = i == 1 ? 1997 : 2000};
        turns[n++] = (turn){"INFO|", NULL, 5000, .socket = true};
        turns[n++] = (turn){rules ? "WEIR.POLICY LIST|" : "WEIR.TOP b denied|", shown[i][1], 5000,
                            .socket = true};
    }
    turns[n++] = (turn){"WEIR.TOP b denied|", "8:9 >b a c keys b rules", 5000, .socket = true};
    turns[n++] = (turn){"", "8:9 >b a c keys b rules", 2000, .keys = "q"};
    assert_int_equal(play_to(-1, turns, n, &defaults), 0);
}

static void moves_and_sorts(void **unused)
{
    (void)unused;
    static const turn turns[] = {
        START,
        {"", "-1:0 >a b c keys a rules", 1997, .keys = "\2"},
        {"WEIR.TOP b denied|", "-1:0 a >b c rules", 5000, .keys = "j"},
        {"", "-1:0 a b >c rules", 5000, .keys = "\2"}, /* the reply of `b` is awaited */
        {"", "-1:0 a b >c rules", 5000, .socket = true},
        {"WEIR.TOP c denied|", "-1:0 a b >c rules", 5000, .socket = true},
        {"", "-1:0 a b >c keys c rules", 1997, .keys = "\1k"},
        {"WEIR.TOP b denied|", "-1:0 >a b c rules", 5000, .socket = true},
        {"WEIR.TOP a denied|", "-1:0 >a b c rules", 5000, .socket = true},
        {"", "-1:0 >a b c keys a rules", 1997, .keys = "\1"},
        {"", "-1:0 >a b c keys a rules", 1997, .keys = "\4"},
        {"WEIR.TOP c denied|", "-1:0 a b >c rules", 5000, .keys = "\3"},
        {"", "-1:0 >a b c rules", 5000, .keys = "\6"},
        {"", "-1:0 a b >c rules", 5000, .keys = "\5"},
        {"", "-1:0 >a b c rules", 5000, .keys = "G"},
        {"", "-1:0 a b >c rules", 5000, .keys = "g"},
        {"", "-1:0 >a b c rules", 5000, .keys = "G"},
        {"", "-1:0 a b >c rules", 5000, .socket = true},
        {"", "-1:0 a b >c keys c rules", 1997, .keys = "t"},
        {"WEIR.TOP c allowed|", "-1:0 a b >c rules allowed", 5000, .socket = true},
        {"", "-1:0 a b >c keys c rules allowed", 1997, .keys = "r"},
        {"", "-1:0 a b >c keys c rules allowed by-decided", 1997, .ms = 1997},
        {"INFO|", NULL, 5000, .socket = true},
        {"WEIR.TOP c allowed|", "0:1 >c a b keys c rules allowed by-decided", 5000, .socket = true},
        {"", "0:1 >c a b keys c rules allowed by-decided", 2000, .keys = "n"},
        {"", "0:1 a b >c keys c rules allowed by-name", 2000, .keys = "d"},
        {"", "0:1 b a >c keys c rules allowed", 2000, .keys = "x"},
        {"", "0:1 b a >c keys c rules allowed", 2000, .keys = "q"},
    };
    assert_int_equal(PLAY(turns, &defaults), 0);
}

static void filters_and_helps(void **unused)
{
    (void)unused;
    static const turn turns[] = {
        START,
        {"", "-1:0 >a b c keys a rules", 1997, .keys = "?"},
        {"", "-1:0 >a b c keys a rules help", 1997, .keys = "q"}, /* any key ends the help */
        {"", "-1:0 >a b c keys a rules", 1997, .keys = "h"},
        {"", "-1:0 >a b c keys a rules help", 1997, .keys = " "},
        {"", "-1:0 >a b c keys a rules", 1997, .keys = "/"},
        {"", "-1:0 >a b c keys a rules typing", 1997, .keys = "b"},
        {"", "-1:0 >b keys a rules typing filter b", 1997, .keys = "q~! \177\b\177"},
        {"", "-1:0 >b keys a rules typing filter b", 1997, .keys = "\b"},
        {"", "-1:0 >a b c keys a rules typing", 1997, .keys = "\177x"},
        {"", "-1:0 keys a rules typing filter x", 1997, .keys = "\2"},
        {"", "-1:0 keys a rules typing filter x", 1997, .keys = "\r\2"},
        {"", "-1:0 keys a rules filter x", 1997, .keys = "t"}, /* no policy is shown */
        {"", "-1:0 keys a rules allowed filter x", 1997, .keys = "t"},
        {"", "-1:0 keys a rules filter x", 1997, .keys = "\033"},
        {"", "-1:0 >a b c keys a rules", 1997, .keys = "/c\n"},
        {"", "-1:0 >c keys a rules filter c", 1997, .keys = "/\033"},
        {"", "-1:0 >a b c keys a rules", 1997, .keys = "/0123456789012345678901234567890123456789"},
        {"", "-1:0 keys a rules typing filter 01234567890123456789012345678901", 1997, .ms = 1997},
        {"INFO|", NULL, 5000, .socket = true},
        {"", "0:1 keys a rules typing filter 01234567890123456789012345678901", 2000, .keys = ""},
    };
    assert_int_equal(PLAY(turns, &defaults), 0); /* the terminal is gone */
}

static void keeps_the_choice(void **unused)
{
    (void)unused;
    static const turn turns[] = {
        START,
        {"", "-1:0 >a b c keys a rules", 1997, .keys = "/bc\033/x"},
        {"", "-1:0 keys a rules typing filter x", 1997, .keys = "\033/bx\r\2\033"},
        {"", "-1:0 >a b c keys a rules", 1997, .keys = "/c\r\2\033"}, /* the only one */
        {"WEIR.TOP c denied|", "-1:0 a b >c rules", 5000, .keys = "/b"},
        {"", "-1:0 >b rules typing filter b", 5000, .keys = "\033"},
        {"", "-1:0 a b >c rules", 5000, .keys = "q"},
    };
    assert_int_equal(PLAY(turns, &defaults), 0);
}

static void refuses_a_reply_without_a_request(void **unused)
{
    (void)unused;
    static const turn turns[] = {
        START,
        {"", "-1:0 >a b c keys a rules", 1997, .socket = true},
        {"", "-1:0 >a b c keys a rules" LOST("unexpected reply; is this server a weir daemon?"),
         1000, .keys = "q"},
    };
    assert_int_equal(PLAY(turns, &defaults), 0);
}

static void needs_rights(void **unused)
{
    (void)unused;
    static const turn turns[] = {
        {"INFO|", "-1:-1", 5000, .socket = true, .bare = true},
        {"", "-1:-1" LOST("this needs a user with the rights metrics, peek and top"), 1000,
         .keys = "q"},
    };
    assert_int_equal(PLAY(turns, &defaults), 0);
}

static void shows_the_chosen_policy_first(void **unused)
{
    (void)unused;
    top_live_options o = defaults;
    o.policy = "c";
    o.allowed = true;
    static const turn turns[] = {
        {"INFO|", "-1:-1 allowed", 5000, .socket = true},
        {"WEIR.POLICY LIST|", "-1:0 a b >c allowed", 5000, .socket = true},
        {"WEIR.TOP c allowed|", "-1:0 a b >c rules allowed", 5000, .keys = "qk"},
    };
    assert_int_equal(PLAY(turns, &o), 0);
}

/* A lost daemon is asked again every second, and the last figures stay. */
static void reconnects(void **unused)
{
    (void)unused;
    static const turn turns[] = {
        START,
        {"", "-1:0 >a b c keys a rules", 1997, .ms = 1997},
        {"INFO|", NULL, 5000, .socket = true, .read = CLIENT_FAILED},
        {"", "-1:0 >a b c keys a rules" LOST("cannot read"), 1000, .ms = 999},
        {"", NULL, 1, .keys = "\2"},
        {"", "-1:0 a >b c keys a rules" LOST("cannot read"), 1, .ms = 1},
        {"INFO|", NULL, 5000, .ms = 4999}, /* connected again */
        {"", NULL, 1, .ms = 1},
        {"", "-1:0 a >b c keys a rules" LOST("timeout: no reply from the daemon"), 1000,
         .ms = 1000},
        {"INFO|", NULL, 5000, .socket = true, .odd = true},
        {"", "-1:0 a >b c keys a rules" LOST("unexpected reply; is this server a weir daemon?"),
         1000, .ms = 1000},
        {"INFO|", NULL, 5000, .socket = true},
        {"WEIR.POLICY LIST|", "0:1 >b a c keys a rules", 5000, .socket = true, .odd = true},
        {"", "0:1 >b a c keys a rules" LOST("unexpected reply; is this server a weir daemon?"),
         1000, .ms = 1000},
        {"INFO|", NULL, 5000, .socket = true},
        {"WEIR.POLICY LIST|", "1:2 >b a c keys a rules", 5000, .socket = true},
        {"WEIR.TOP b denied|", "1:2 >b a c rules", 5000, .socket = true, .odd = true},
        {"", "1:2 >b a c rules" LOST("unexpected reply; is this server a weir daemon?"), 1000,
         .keys = "q"},
    };
    assert_int_equal(PLAY(turns, &defaults), 0);
    assert_int_equal(fake.reopened, 4);
    assert_int_equal(fake.reopen_timeout_ns, 1000 * MS);
}

static void tries_again(void **unused)
{
    (void)unused;
    top_live_options o = defaults;
    o.timeout_ns = 5000 * MS;
    fake.reopens = CLIENT_UNREACHABLE;
    static const turn turns[] = {
        {"INFO|", "-1:-1", 5000, .socket = true, .read = CLIENT_FAILED},
        {"", "-1:-1" LOST("cannot read"), 1000, .ms = 1000},
        {"", "-1:-1" LOST("gone 1"), 1000, .ms = 1500},
        {"", "-1:-1" LOST("gone 2"), 1000, .keys = "jtq"},
    };
    assert_int_equal(PLAY(turns, &o), 0);
}

static void cannot_send(void **unused)
{
    (void)unused;
    fake.sends = CLIENT_FAILED;
    static const turn turns[] = {
        {"INFO|", "-1:-1" LOST("cannot send"), 1000, .keys = "q"},
    };
    assert_int_equal(PLAY(turns, &defaults), 0);
}

/* With --count 1, one table with rates. */
static void ends_after_count(void **unused)
{
    (void)unused;
    top_live_options o = defaults;
    o.count = 1;
    static const turn turns[] = {
        START,
        {"", "-1:0 >a b c keys a rules", 1997, .ms = 1997},
        {"INFO|", NULL, 5000, .socket = true},
        {"WEIR.TOP b denied|", "0:1 >b a c rules", 5000, .socket = true},
    };
    assert_int_equal(PLAY(turns, &o), 0);
}

static void ends_with_the_terminal(void **unused)
{
    (void)unused;
    fake.open_fails = true;
    assert_int_equal(play_to(-1, NULL, 0, &defaults), 1);
    assert_string_equal(errors, "weir top: cannot set the modes of the terminal\n");
    static const turn turns[] = {{"INFO|", "-1:-1", 5000, .ms = 0}};
    for (int i = 0; i < 2; i++) { /* one frame is drawn, and the loop ends after the wait */
        (void)reset(NULL);
        fake.write_fails = i == 0;
        fake.frame_fails = i == 1;
        assert_int_equal(PLAY(turns, &defaults), 0);
    }
}

static void cannot_connect(void **unused)
{
    (void)unused;
    static const struct {
        client_status st;
        int status;
        const char *error;
    } rows[] = {
        {CLIENT_UNREACHABLE, 1,
         "weir top: no daemon; start a daemon with `weir serve`, or set its address with --server "
         "or WEIR_SERVER\n"},
        {CLIENT_FAILED, 1, "weir top: no daemon\n"},
        {CLIENT_USAGE, 2, "weir top: no daemon\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake.opens = rows[i].st;
        fake.error = "no daemon";
        assert_int_equal(play_to(-1, NULL, 0, &defaults), rows[i].status);
        assert_string_equal(errors, rows[i].error);
    }
    assert_int_equal(fake.closed, 3);
    fake.no_memory = 1;
    assert_int_equal(play_to(-1, NULL, 0, &defaults), 1);
    assert_string_equal(errors, "weir top: out of memory\n");
}

/* ---- tables ---------------------------------------------------------------------------------- */

#define FIRST_TABLE                                                                                \
    {"INFO|", NULL, 5001, .socket = true}, {"WEIR.POLICY LIST|", NULL, 5001, .socket = true},      \
        {"WEIR.TOP a denied|", NULL, 5001, .socket = true}, {"", NULL, 2001, .ms = 2000},          \
        {"INFO|", NULL, 5001, .socket = true},                                                     \
    {                                                                                              \
        "WEIR.TOP b denied|", NULL, 5001, .socket = true                                           \
    }

static void prints_tables(void **unused)
{
    (void)unused;
    top_live_options o = defaults;
    o.count = 2;
    fake.can_fill = false;
    static const turn turns[] = {
        FIRST_TABLE,
        {"", NULL, 2001, .ms = 1999},
        {"", NULL, 2, .ms = 1},
        {"INFO|", NULL, 5001, .socket = true, .read = CLIENT_FAILED},
        {"", NULL, 1001, .ms = 1000},
        {"INFO|", NULL, 5001, .socket = true},
        {"WEIR.POLICY LIST|", NULL, 5001, .socket = true},
        {"WEIR.TOP b denied|", NULL, 5001, .socket = true},
    };
    assert_int_equal(PLAY(turns, &o), 0);
    assert_string_equal(printed, "0:1 >b a c keys b rules\n\n1:2 >b a c keys b rules\n\n");
    assert_string_equal(errors, "weir top: cannot read; trying again every second\n");
}

/* Before the first table, any error ends it. */
static void fails_without_a_table(void **unused)
{
    (void)unused;
    fake.can_fill = false;
    static const turn bare[] = {{"INFO|", NULL, 5001, .socket = true, .bare = true}};
    assert_int_equal(PLAY(bare, &defaults), 1);
    assert_string_equal(printed, "");
    assert_string_equal(errors,
                        "weir top: this needs a user with the rights metrics, peek and top\n");
    (void)reset(NULL);
    fake.can_fill = false;
    static const turn refused[] = {
        {"INFO|", NULL, 5001, .socket = true},
        {"WEIR.POLICY LIST|", NULL, 5001, .socket = true, .read = CLIENT_FAILED}};
    assert_int_equal(PLAY(refused, &defaults), 1);
    assert_string_equal(printed, "");
    assert_string_equal(errors, "weir top: cannot read\n");
    (void)reset(NULL);
    fake.can_fill = false;
    static const turn denied[] = {
        {"INFO|", NULL, 5001, .socket = true},
        {"WEIR.POLICY LIST|", NULL, 5001, .socket = true, .odd = true, .denied = true}};
    assert_int_equal(PLAY(denied, &defaults), 1);
    assert_string_equal(errors,
                        "weir top: this needs a user with the rights metrics, peek and top\n");
}

static void cannot_print(void **unused)
{
    (void)unused;
    static const turn turns[] = {FIRST_TABLE};
    int full = open("/dev/full", O_WRONLY);
    fake.can_fill = false;
    assert_int_equal(play_to(full, turns, 6, &defaults), 1);
    assert_string_equal(errors,
                        "weir top: cannot write to standard output: No space left on device\n");
    close(full);
    (void)reset(NULL);
    fake.can_fill = false;
    fake.frame_fails = true;
    assert_int_equal(PLAY(turns, &defaults), 1);
    assert_string_equal(errors, "weir top: out of memory\n");
}

#define TEST(function) cmocka_unit_test_setup(function, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(asks_in_each_interval),
        TEST(lists_policies_now_and_then),
        TEST(moves_and_sorts),
        TEST(filters_and_helps),
        TEST(keeps_the_choice),
        TEST(refuses_a_reply_without_a_request),
        TEST(needs_rights),
        TEST(shows_the_chosen_policy_first),
        TEST(reconnects),
        TEST(tries_again),
        TEST(cannot_send),
        TEST(ends_after_count),
        TEST(ends_with_the_terminal),
        TEST(cannot_connect),
        TEST(prints_tables),
        TEST(fails_without_a_table),
        TEST(cannot_print),
    };
    return cmocka_run_group_tests_name("client-top-live", tests, NULL, NULL);
}
