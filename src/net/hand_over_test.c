/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A hand-over: the old process is a server on a thread, and the test is the new process; and the
 * reverse, with messages that the test makes. */

#include "net/fixture_test.h"
#include "net/hand_over.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>

/* ---- the old process ------------------------------------------------------------------------- */

static struct {
    char texts[16][400]; /* of the events */
    size_t len, read;
    const char *text; /* of the event that was expected last */
    int prepared, failed, done_pid;
    bool refuses;
} seen;

static void on_event(void *ctx, const char *event, const char *text)
{
    snprintf(seen.texts[seen.len++], sizeof seen.texts[0], "%s: %s", event, text);
    on_say(ctx, event, text);
}

static bool on_prepare(void *ctx, int *ret_memory, char *ret_error, size_t size)
{
    (void)ctx;
    seen.prepared++;
    *ret_memory = open("/dev/null", O_RDONLY | O_CLOEXEC);
    snprintf(ret_error, size, "the state stays here");
    return !seen.refuses;
}

static void on_failed(void *ctx)
{
    (void)ctx;
    seen.failed++;
}

static void on_done(void *ctx, int pid)
{
    (void)ctx;
    seen.done_pid = pid;
}

static port_counter shortages; /* how many calls of accept4() fail next */

int __real_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags)
{
    uint64_t left = port_load_relaxed(&shortages);
    if (left == 0)
        return __real_accept4(fd, a, len, flags);
    port_store_relaxed(&shortages, left - 1);
    errno = EMFILE;
    return -1;
}

static char meeting[96], path[96];

/* A server with three loops, a TCP address, a Unix socket and a socket for hand-overs. */
static void prepare_old(fixture *f)
{
    memset(&seen, 0, sizeof seen);
    prepare(f, 3);
    snprintf(meeting, sizeof meeting, "%s/meeting", f->dir);
    snprintf(path, sizeof path, "%s/socket", f->dir);
    f->listens[1] = (weir_listen_address){.address = path, .protocol = &lines};
    f->options.listens_len = 2;
    f->options.report = on_event;
    f->options.hand_over = (net_hand_over_options){
        .path = meeting, .prepare = on_prepare, .failed = on_failed, .done = on_done};
}

static void next_event(fixture *f, char letter)
{
    expect_event(f, letter);
    seen.text = seen.texts[seen.read++];
}

static void expect_text(fixture *f, const char *expected)
{
    next_event(f, 'h');
    if (!strstr(seen.text, expected))
        assert_string_equal(seen.text, expected);
}

static void begin(net_take_over *t, net_passed *p)
{
    char error[512] = "";
    p->len = 0;
    if (net_take_over_begin(t, p, meeting, error, sizeof error) != WEIR_OK)
        fail_msg("%s", error);
    assert_true(t->fd >= 0);
    assert_int_equal(t->pid, getpid());
}

static void expect_refusal(const char *from, const char *expected)
{
    char error[512] = "";
    net_passed p = {.len = 0};
    net_take_over t;
    assert_int_equal(net_take_over_begin(&t, &p, from, error, sizeof error), WEIR_E_IO);
    assert_int_equal(t.fd, -1);
    assert_int_equal(t.memory, -1);
    if (!strstr(error, expected))
        assert_string_equal(error, expected);
    net_passed_close(&p, false);
}

/* The new process gets the socket of each loop. Once it serves, the old one ends, and the socket
 * files stay. */
static void sockets_are_passed(void **unused)
{
    (void)unused;
    static net_passed p;
    fixture f;
    net_take_over t;
    struct stat st;
    char address[64];
    prepare_old(&f);
    start(&f);
    snprintf(address, sizeof address, "%s", weir_server_address(f.server, 0));
    assert_int_equal(stat(meeting, &st), 0);
    begin(&t, &p);
    expect_text(&f, "hand-over: process ");
    assert_int_equal(seen.prepared, 1);
    assert_true(t.memory >= 0);
    close(t.memory);
    assert_int_equal(p.len, 2);
    assert_string_equal(p.sockets[0].listening.text, address);
    assert_string_equal(p.sockets[0].configured, "127.0.0.1:0");
    assert_int_equal(p.sockets[0].fds_len, 3);
    assert_false(p.sockets[0].listening.inherits);
    assert_string_equal(p.sockets[1].listening.text, path);
    assert_int_equal(p.sockets[1].fds_len, 3);
    assert_true(p.sockets[1].listening.inherits);
    for (unsigned i = 0; i < 3; i++)
        assert_true(fcntl(p.sockets[0].fds[i], F_GETFD) & FD_CLOEXEC);
    expect_refusal(meeting, "cannot take over from the running daemon: a hand-over is in progress");
    expect_text(&f, "hand-over-refused: a hand-over is in progress");
    int fd = connect_to(address);
    ask(fd, "both serve\n");
    close(fd);
    assert_true(net_take_over_end(&t));
    assert_int_equal(t.fd, -1);
    next_event(&f, 'h');
    next_event(&f, 's');
    join(&f);
    assert_int_equal(seen.done_pid, getpid());
    assert_int_equal(seen.failed, 0);
    assert_true(weir_server_handed_over(f.server));
    assert_true(weir_server_stopping(f.server));
    fd = connect_to(address); /* the socket listens, for the new process */
    close(fd);
    assert_int_equal(stat(meeting, &st), -1);
    f.running = false;
    weir_server_close(f.server);
    assert_int_equal(stat(path, &st), 0);
    net_passed_close(&p, true);
    assert_int_equal(stat(path, &st), -1);
    assert_int_equal(rmdir(f.dir), 0);
}

/* A new process that ends changes nothing, and another may come. */
static void failures(void **unused)
{
    (void)unused;
    static net_passed p;
    fixture f;
    net_take_over t;
    struct stat st;
    prepare_old(&f);
    start(&f);
    for (int i = 0; i < 2; i++) {
        begin(&t, &p);
        expect_text(&f, "hand-over: process ");
        close(t.fd);
        close(t.memory);
        net_passed_close(&p, false);
        expect_text(&f, "hand-over-failed: the new process ended before it served; its log says "
                        "why; this process goes on");
        assert_int_equal(seen.failed, i + 1);
    }
    seen.refuses = true;
    expect_refusal(meeting, "cannot take over from the running daemon: the state stays here");
    expect_text(&f, "hand-over-failed: the state stays here; this process goes on");
    assert_int_equal(seen.failed, 3);
    int fd = client(&f);
    ask(fd, "all is well\n");
    close(fd);
    assert_false(weir_server_handed_over(f.server));
    assert_int_equal(stat(path, &st), 0);
    unlink(meeting);
    expect_refusal(meeting, "meeting: No such file or directory");
    stop(&f);
}

/* The new process ends, and the old one goes on. */
static void end_attempt(fixture *f, const net_take_over *t, net_passed *p)
{
    expect_text(f, "hand-over: process ");
    close(t->memory);
    close(t->fd);
    net_passed_close(p, false);
    expect_text(f, "hand-over-failed: ");
    stop(f);
}

/* Without descriptors, accepting pauses for 100 ms. */
static void out_of_descriptors(void **unused)
{
    (void)unused;
    static net_passed p;
    fixture f;
    net_take_over t;
    prepare_old(&f);
    start(&f);
    port_store_relaxed(&shortages, 3);
    int64_t began_ns = port_steady_ns();
    begin(&t, &p);
    assert_true(port_steady_ns() - began_ns > 200 * ms_ns);
    assert_int_equal(port_load_relaxed(&shortages), 0);
    end_attempt(&f, &t, &p);
}

static void ignore(int signal)
{
    (void)signal;
}

/* Signals do not end the wait for the old process. */
static void interrupted(void **unused)
{
    (void)unused;
    static net_passed p;
    fixture f;
    net_take_over t;
    const struct sigaction act = {.sa_handler = ignore, .sa_flags = SA_RESTART};
    struct sigaction before;
    prepare_old(&f);
    start(&f);
    port_store_relaxed(&shortages, 1);
    assert_int_equal(sigaction(SIGALRM, &act, &before), 0);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 1000}, {0, 1000}}, NULL);
    begin(&t, &p);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(port_load_relaxed(&shortages), 0);
    end_attempt(&f, &t, &p);
}

/* What SIGUSR2 starts. */
static void programs(void **unused)
{
    (void)unused;
    static const struct {
        char *argv[4];
        const char *expected;
        bool starts;
    } rows[] = {
        {{"/bin/sh", "-c", "exit 7"}, "the new process ended with status 7 before it served", true},
        {{"/bin/sh", "-c", "kill -9 $$"}, "the new process was killed by signal 9 before", true},
        {{"/bin/sh", "-c", "exec 3>&-; exec sleep 1000"}, "was killed by signal 9 before", true},
        {{"/nowhere/weir"}, "cannot start /nowhere/weir: no such file or directory; this", false},
        {{"/bin/sh", "-c", "test $WEIR_HAND_OVER = 3 -a -z \"$LISTEN_FDS\" && exit 5"},
         "ended with status 5",
         true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f;
        prepare_old(&f);
        f.options.hand_over.argv = rows[i].argv;
        f.options.hand_over.prepare = NULL;
        setenv("LISTEN_FDS", "1", 1);
        start(&f);
        kill(getpid(), SIGUSR2);
        if (rows[i].starts)
            next_event(&f, 'h');
        expect_text(&f, rows[i].expected);
        unsetenv("LISTEN_FDS");
        stop(&f);
    }
}

static void no_program(void **unused)
{
    (void)unused;
    fixture f;
    prepare_old(&f);
    f.options.limits.grace_ns = PATIENCE_S * s_ns;
    start(&f);
    kill(getpid(), SIGUSR2);
    expect_text(&f, "hand-over-refused: the program is not known");
    kill(getpid(), SIGTERM);
    next_event(&f, 's');
    kill(getpid(), SIGUSR2);
    expect_text(&f, "hand-over-refused: weir is stopping");
    stop(&f);
}

/* ---- the new process ------------------------------------------------------------------------- */

typedef struct packet {
    char magic[20];
    uint32_t kind, inherits;
    char configured[128], text[256];
} packet;

/* Sends messages of these kinds as the old process, and closes the connection. */
static void send_to_new(const char *magic, const uint32_t *kinds, size_t n, const char *expected)
{
    int fds[2];
    char number[16];
    packet p = {.inherits = 0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    snprintf(p.magic, sizeof p.magic, "%s", magic);
    snprintf(p.text, sizeof p.text, "a reason");
    for (size_t i = 0; i < n; i++) {
        p.kind = kinds[i];
        assert_int_equal(send(fds[0], &p, sizeof p, 0), sizeof p);
    }
    close(fds[0]);
    snprintf(number, sizeof number, "%d", fds[1]);
    setenv("WEIR_HAND_OVER", number, 1);
    if (expected) {
        expect_refusal(NULL, expected);
    } else {
        net_passed none = {.len = 0};
        net_take_over t;
        char error[256];
        assert_int_equal(net_take_over_begin(&t, &none, NULL, error, sizeof error), WEIR_OK);
        assert_int_equal(t.fd, fds[1]);
        assert_true(fcntl(t.fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(t.memory, -1);
        assert_true(net_take_over_end(&t)); /* the old process has ended: this one serves */
    }
    assert_null(getenv("WEIR_HAND_OVER"));
    assert_int_equal(fcntl(fds[1], F_GETFD), -1); /* it is closed */
}

static void messages(void **unused)
{
    (void)unused;
    static const uint32_t all = 3, refused = 4, unknown = 9, memory[] = {2};
    static const char magic[] = "weir hand-over 1",
                      ended[] = "it has ended, or has another version";
    send_to_new(magic, &all, 1, NULL);
    send_to_new(magic, &all, 0, ended);
    send_to_new("weir hand-over 2", &all, 1, ended);
    send_to_new(magic, &refused, 1, "cannot take over from the running daemon: a reason");
    send_to_new(magic, &unknown, 1,
                "it has sent a message that this version of weir does not know");
    send_to_new(magic, memory, 1, "it has sent a message that this version of weir does not know");
}

/* The old process may give up while the new one begins to serve. */
static void given_up(void **unused)
{
    (void)unused;
    int fds[2];
    packet p = {.magic = "weir hand-over 1", .kind = 4};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(send(fds[0], &p, sizeof p, 0), sizeof p);
    net_take_over t = {.fd = fds[1], .memory = -1};
    assert_false(net_take_over_end(&t));
    assert_int_equal(recv(fds[0], &p, sizeof p, 0), sizeof p);
    assert_int_equal(p.kind, 5);
    close(fds[0]);
}

static void without_an_old_process(void **unused)
{
    (void)unused;
    net_passed none = {.len = 0};
    net_take_over t;
    char error[256], long_path[200];
    assert_int_equal(net_take_over_begin(&t, &none, NULL, error, sizeof error), WEIR_OK);
    assert_int_equal(t.fd, -1);
    assert_true(net_take_over_end(&t));
    setenv("WEIR_HAND_OVER", "x", 1);
    assert_int_equal(net_take_over_begin(&t, &none, NULL, error, sizeof error), WEIR_OK);
    assert_int_equal(t.fd, -1);
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    expect_refusal(long_path, "File name too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_are_passed),
        cmocka_unit_test(failures),
        cmocka_unit_test(out_of_descriptors),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(programs),
        cmocka_unit_test(no_program),
        cmocka_unit_test(messages),
        cmocka_unit_test(given_up),
        cmocka_unit_test(without_an_old_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
