/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Connections with pending replies: woken together, while the client reads slowly, after it has
 * disconnected, and while the server stops. */

#include "net/fixture_test.h"

#include <pthread.h>

enum { MANY = 100 };

/* ---- a protocol with pending replies --------------------------------------------------------- */

typedef struct pending_session pending_session;

/* The context of a loop, instead of that of the fixture. */
typedef struct loop_state {
    port_dialer *dialer;
    pthread_t thread;
    pending_session *held; /* sessions that wait for "let" on any connection */
    int open, begun, ended;
    bool wrong; /* thread, or order */
} loop_state;

struct pending_session {
    loop_state *loop_state;
    pending_session *next, **link; /* NULL: not held */
    port_timer *timer;
    void (*wake)(void *ctx);
    void *wake_ctx;
    bool asked, answered;
};

static loop_state loop_states[LOOPS_MAX];

static void on_begin(void *context, port_dialer *dialer)
{
    loop_state *d = context;
    d->dialer = dialer;
    d->thread = pthread_self();
    d->wrong |= d->open > 0;
    d->begun++;
}

static void on_end(void *context)
{
    loop_state *d = context;
    d->wrong |= d->open > 0 || !pthread_equal(d->thread, pthread_self());
    d->ended++;
}

static void answer(pending_session *a)
{
    a->answered = true;
    a->wake(a->wake_ctx);
}

static void on_timer(void *ctx, int64_t now_ns)
{
    (void)now_ns;
    answer(ctx);
}

static void pending_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    pending_session *a = session;
    *a = (pending_session){.loop_state = ctx, .wake = wake, .wake_ctx = wake_ctx};
    a->loop_state->open++;
    a->timer = a->loop_state->dialer->calls->new_timer(a->loop_state->dialer, on_timer, a);
    wake(wake_ctx); /* no request is pending yet: no effect */
}

static void remove_held(pending_session *a)
{
    if (!a->link)
        return;
    *a->link = a->next;
    if (a->next)
        a->next->link = a->link;
    a->link = NULL;
}

static void pending_close(void *session)
{
    pending_session *a = session;
    remove_held(a);
    a->loop_state->open--;
    a->loop_state->dialer->calls->free_timer(a->timer);
}

static int release_all(loop_state *d)
{
    int n = 0;
    for (pending_session *a; (a = d->held); n++) {
        remove_held(a);
        answer(a);
        a->wake(a->wake_ctx); /* a repeated wake has no effect */
    }
    return n;
}

/* "after MS" is answered after that time; "hold" after "let" on any connection; "fill BYTES" first
 * replies with so many bytes. */
static bool begin_pending(pending_session *a, const char *line, weir_buffer *out)
{
    long long ms = 0;
    size_t bytes = 0;
    port_dialer *dialer = a->loop_state->dialer;
    if (sscanf(line, "after %lld", &ms) == 1) {
        dialer->calls->set_timer(a->timer, dialer->calls->now(dialer) + ms * ms_ns);
        return true;
    }
    if (sscanf(line, "fill %zu", &bytes) == 1 && weir_buffer_reserve(out, bytes + 1)) {
        memset(weir_buffer_tail(out), 'x', bytes);
        weir_buffer_added(out, bytes);
        put(out, "\n");
    } else if (strcmp(line, "hold") != 0) {
        return false;
    }
    a->next = a->loop_state->held;
    a->link = &a->loop_state->held;
    if (a->next)
        a->next->link = &a->next;
    a->loop_state->held = a;
    return true;
}

static void answer_now(pending_session *a, const char *line, weir_buffer *out)
{
    char text[300];
    if (a->asked)
        snprintf(text, sizeof text, "answered\n");
    else if (strcmp(line, "let") == 0)
        snprintf(text, sizeof text, "let %d\n", release_all(a->loop_state));
    else if (strcmp(line, "open") == 0)
        snprintf(text, sizeof text, "%d\n", a->loop_state->open);
    else
        snprintf(text, sizeof text, "%s\n", line);
    put(out, text);
    a->asked = a->answered = false;
}

static weir_session_step pending_run(void *session, weir_buffer *in, weir_buffer *out,
                                     size_t out_pause, int64_t now_ns)
{
    pending_session *a = session;
    (void)now_ns;
    (void)out_pause;
    while (weir_buffer_len(in) > 0) {
        char line[256];
        const uint8_t *bytes = weir_buffer_data(in);
        const uint8_t *lf = memchr(bytes, '\n', weir_buffer_len(in));
        if (!lf)
            break;
        size_t len = (size_t)(lf - bytes);
        assert_true(len < sizeof line);
        memcpy(line, bytes, len);
        line[len] = '\0';
        if (!a->asked)
            a->asked = begin_pending(a, line, out);
        if (a->asked && !a->answered)
            return (weir_session_step){.next = WEIR_SESSION_PENDING};
        weir_buffer_consume(in, len + 1);
        answer_now(a, line, out);
    }
    return (weir_session_step){.next = WEIR_SESSION_READ};
}

static const weir_protocol pending = {.session_size = sizeof(pending_session),
                                      .open = pending_open,
                                      .close = pending_close,
                                      .run = pending_run,
                                      .overload = "OVERLOAD\n",
                                      .timeout = "TIMEOUT\n"};

static void prepare_pending(fixture *f, unsigned loops)
{
    prepare(f, loops);
    memset(loop_states, 0, sizeof loop_states);
    for (unsigned i = 0; i < loops; i++)
        f->contexts[i] = &loop_states[i];
    f->listens[0].protocol = &pending;
    f->options.begin = on_begin;
    f->options.end = on_end;
}

static void stop_pending(fixture *f, unsigned loops)
{
    stop(f);
    for (unsigned i = 0; i < loops; i++) {
        assert_int_equal(loop_states[i].begun, 1);
        assert_int_equal(loop_states[i].ended, 1);
        assert_int_equal(loop_states[i].open, 0);
        assert_null(loop_states[i].held);
        assert_false(loop_states[i].wrong);
    }
}

/* Sends `text` until the reply is `reply`. */
static void send_until(int fd, const char *text, const char *reply)
{
    char got[64] = "";
    for (int i = 0; i < 10000 && strcmp(got, reply) != 0; i++) {
        say(fd, text);
        memset(got, 0, sizeof got);
        for (size_t len = 0; len == 0 || got[len - 1] != '\n'; len++)
            assert_int_equal(receive(fd, got + len, 1, 0), 1);
    }
    assert_string_equal(got, reply);
}

/* Sends requests until the buffers of written replies are freed. */
static void send_until_unbuffered(fixture *f, int fd)
{
    for (int i = 0; i < 10000 && weir_server_stats_get(f->server).buffered > 4096; i++)
        ask(fd, "and now\n");
    assert_true(weir_server_stats_get(f->server).buffered <= 4096);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void check_pending_replies(void **unused)
{
    (void)unused;
    fixture f;
    prepare_pending(&f, 2);
    start(&f);
    int fd = client(&f), other = client(&f);
    say(fd, "one\nafter 5\ntwo\nafter 0\nafter 1\nthr");
    expect(fd, "one\n"); /* earlier replies are sent */
    ask(other, "hello\n");
    expect(fd, "answered\ntwo\nanswered\nanswered\n");
    say(fd, "ee\n");
    expect(fd, "three\n");
    close(fd);
    close(other);
    stop_pending(&f, 2);
}

/* Pending replies are sent in the iteration in which disconnected clients are dropped. */
static void check_many_at_once(void **unused)
{
    (void)unused;
    fixture f;
    prepare_pending(&f, 1);
    start(&f);
    int fds[MANY], other = client(&f);
    for (int i = 0; i < MANY; i++) {
        fds[i] = client(&f);
        say(fds[i], "hello\nhold\nbye\n");
        expect(fds[i], "hello\n");
    }
    say(other, "let\n");
    for (int i = 0; i < MANY; i += 3)
        close(fds[i]);
    expect(other, "let 100\n");
    for (int i = 0; i < MANY; i++) {
        if (i % 3 == 0)
            continue;
        expect(fds[i], "answered\nbye\n");
        close(fds[i]);
    }
    send_until(other, "open\n", "1\n");
    close(other);
    stop_pending(&f, 1);
}

/* A reset connection is noticed while its reply is pending. */
static void check_client_disconnects(void **unused)
{
    (void)unused;
    fixture f;
    prepare_pending(&f, 1);
    start(&f);
    const struct linger now = {.l_onoff = 1};
    int fd = client(&f), other = client(&f);
    say(fd, "hello\nhold\n");
    expect(fd, "hello\n");
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
    send_until(other, "open\n", "1\n");
    say(other, "let\n");
    expect(other, "let 0\n");
    close(other);
    stop_pending(&f, 1);
}

/* A client that only shuts down sending gets its replies. */
static void check_client_shuts_down_sending(void **unused)
{
    (void)unused;
    fixture f;
    prepare_pending(&f, 1);
    start(&f);
    int fd = client(&f), other = client(&f);
    say(fd, "hello\nhold\nlast\nhold\n");
    shutdown(fd, SHUT_WR);
    expect(fd, "hello\n");
    say(other, "let\n");
    expect(other, "let 1\n");
    expect(fd, "answered\nlast\n");
    send_until(other, "let\n", "let 1\n");
    expect(fd, "answered\n");
    expect_end(fd);
    close(other);
    stop_pending(&f, 1);
}

/* The reply is ready before the client has read earlier replies. */
static void check_woken_while_writing(void **unused)
{
    (void)unused;
    enum { MUCH = 12 << 20 };
    fixture f;
    prepare_pending(&f, 1);
    start(&f);
    int fd = client(&f), other = client(&f);
    char text[64];
    snprintf(text, sizeof text, "fill %d\nafter 1\nbye\n", MUCH);
    say(fd, text);
    send_until(other, "let\n", "let 1\n");
    expect_big(fd, MUCH);
    expect(fd, "answered\nanswered\nbye\n");
    close(fd);
    close(other);
    stop_pending(&f, 1);
}

/* The client reads earlier replies before the pending one is ready. */
static void check_woken_after_writing(void **unused)
{
    (void)unused;
    enum { MUCH = 12 << 20 };
    fixture f;
    prepare_pending(&f, 1);
    start(&f);
    int fd = client(&f), other = client(&f);
    char text[64];
    snprintf(text, sizeof text, "fill %d\nbye\n", MUCH);
    say(fd, text);
    expect_big(fd, MUCH);
    send_until_unbuffered(&f, other);
    say(other, "let\n");
    expect(other, "let 1\n");
    expect(fd, "answered\nbye\n");
    close(fd);
    close(other);
    stop_pending(&f, 1);
}

/* Further input stays in the socket, and is answered in the end. */
static void check_client_sends_more(void **unused)
{
    (void)unused;
    enum { LINES = 20000 };
    fixture f;
    prepare_pending(&f, 1);
    f.options.limits.buffers = 1 << 20;
    start(&f);
    int fd = client(&f), other = client(&f), sent = 0, got = 0;
    char line[64], bytes[4096];
    say(fd, "hello\nhold\n");
    expect(fd, "hello\n");
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    memset(line, 'y', sizeof line);
    line[63] = '\n';
    for (int have = 0; sent < LINES && poll(&p, 1, 100) == 1;) {
        ssize_t n = send(fd, line + have, sizeof line - (size_t)have, MSG_DONTWAIT);
        have = (have + (n > 0 ? (int)n : 0)) % (int)sizeof line;
        sent += n > 0 && have == 0;
    }
    assert_true(sent > 1000);
    assert_true(weir_server_stats_get(f.server).buffered < 200 << 10);
    say(other, "let\n");
    expect(other, "let 1\n");
    expect(fd, "answered\n");
    while (got < sent * (int)sizeof line) {
        ssize_t n = receive(fd, bytes, sizeof bytes, 0);
        assert_true(n > 0);
        got += (int)n;
    }
    close(fd);
    close(other);
    stop_pending(&f, 1);
}

/* Timeouts do not run while a reply is pending. */
static void check_no_timeout(void **unused)
{
    (void)unused;
    fixture f;
    prepare_pending(&f, 1);
    f.options.limits.idle_ns = f.options.limits.request_ns = 40 * ms_ns;
    start(&f);
    int fd = client(&f);
    say(fd, "hold\n");
    for (int i = 0; i < 3; i++)
        expect_end(client(&f)); /* after its timeout */
    int other = client(&f);
    say(other, "let\n");
    expect(other, "let 1\n");
    expect(fd, "answered\n");
    expect_end(other);
    expect_end(fd); /* the timeout runs again after the reply */
    stop_pending(&f, 1);
}

/* A stopping server sends pending replies, but does not wait forever. */
static void check_stop(void **unused)
{
    (void)unused;
    fixture f;
    prepare_pending(&f, 1);
    start(&f);
    int fd = client(&f);
    say(fd, "hello\nafter 30\nlast\n");
    expect(fd, "hello\n");
    kill(getpid(), SIGTERM);
    expect(fd, "answered\nlast\n");
    expect_end(fd);
    join(&f);
    stop_pending(&f, 1);

    prepare_pending(&f, 1);
    f.options.limits.drain_ns = 20 * ms_ns;
    start(&f);
    fd = client(&f);
    say(fd, "hello\nhold\n");
    expect(fd, "hello\n");
    kill(getpid(), SIGTERM);
    join(&f);
    expect_end(fd);
    stop_pending(&f, 1);
}

/* A server that never ran calls begin() and end(), too. */
static void check_never_ran(void **unused)
{
    (void)unused;
    fixture f;
    prepare_pending(&f, 3);
    open_server(&f);
    stop_pending(&f, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_pending_replies),
        cmocka_unit_test(check_many_at_once),
        cmocka_unit_test(check_client_disconnects),
        cmocka_unit_test(check_client_shuts_down_sending),
        cmocka_unit_test(check_woken_while_writing),
        cmocka_unit_test(check_woken_after_writing),
        cmocka_unit_test(check_client_sends_more),
        cmocka_unit_test(check_no_timeout),
        cmocka_unit_test(check_stop),
        cmocka_unit_test(check_never_ran),
    };
    return cmocka_run_group_tests_name("ask", tests, NULL, NULL);
}
