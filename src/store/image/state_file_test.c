/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Several processes and one state file: which of them may open it, which are known to be alive, and
 * what a killed process leaves behind. The children are forked before any file is open, because a
 * child shares its parent's locks. They receive commands through a pipe. */

#include "port/file.h"
#include "store/image/image_kit_test.h"
#include "store/kill_kit_test.h"

#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { OPEN = 'o', CLOSE = 'c', SIZE_OPEN = 's', SIZE_BESIDE = 'b', REPLACE = 'r' };

typedef struct child {
    pid_t pid;
    int to, from;
} child;

typedef struct answer {
    weir_status st;
    weir_found found;
    uint64_t id;
    bool is_new;
    uint64_t table_bytes;
} answer;

/* ---- in a child ------------------------------------------------------------------------------ */

static answer obey(fixture *f, char order, weir_image **m, weir_image **old)
{
    answer a = {.st = WEIR_OK};
    weir_image *wide = NULL;
    if (order == OPEN)
        a.st = weir_image_open(m, &f->options, TABLE, LARGE, RESERVED);
    if (order == SIZE_OPEN)
        a.st = weir_image_open(old, &f->options, 2 * TABLE, LARGE, RESERVED);
    if (order == SIZE_BESIDE) {
        a.st = weir_image_open_beside(&wide, *old, &f->options);
        *m = wide;
    }
    if (order == REPLACE)
        a.st = weir_image_replace(*m, *old, &f->options);
    if (order == CLOSE) {
        weir_image_close(*m);
        *m = NULL;
    }
    if (*m) {
        weir_image_parts p = weir_image_parts_get(*m);
        a.found = f->opened.found;
        a.id = weir_image_processes(*m)->self;
        a.is_new = weir_image_is_new(*m);
        a.table_bytes = p.table.bytes;
        ((uint8_t *)p.table.at)[a.id] = 1; /* so that the other processes see it */
    }
    return a;
}

typedef struct pipes {
    fixture *f;
    int to[2], from[2];
} pipes;

static int serve(void *ctx)
{
    const pipes *p = ctx;
    weir_image *m = NULL, *old = NULL;
    char order;
    close(p->to[1]);
    close(p->from[0]);
    while (read(p->to[0], &order, 1) == 1) {
        const answer a = obey(p->f, order, &m, &old);
        if (write(p->from[1], &a, sizeof a) != sizeof a)
            break;
    }
    return 0;
}

/* ---- commands to a child --------------------------------------------------------------------- */

/* Call it before any file is open. The child uses the current options. */
static child start(fixture *f)
{
    pipes p = {.f = f};
    assert_int_equal(pipe(p.to), 0);
    assert_int_equal(pipe(p.from), 0);
    child c = {.pid = fork_child(serve, &p), .to = p.to[1], .from = p.from[0]};
    assert_true(c.pid > 0);
    close(p.to[0]);
    close(p.from[1]);
    return c;
}

static void send(const child *c, char order)
{
    assert_int_equal(write(c->to, &order, 1), 1);
}

static answer receive(const child *c)
{
    answer a;
    assert_int_equal(read(c->from, &a, sizeof a), sizeof a);
    return a;
}

static answer ask(const child *c, char order)
{
    send(c, order);
    return receive(c);
}

/* Kills the child, without closing its file. */
static void end(child *c)
{
    assert_true(kill_child(c->pid));
    close(c->to);
    close(c->from);
}

/* ---- exclusive and shared -------------------------------------------------------------------- */

static void check_exclusive(void **state)
{
    fixture *f = *state;
    child a = start(f), b = start(f);
    f->options.shared = true;
    child c = start(f);
    f->options.shared = false;
    assert_int_equal(ask(&a, OPEN).st, WEIR_OK);
    assert_int_equal(ask(&b, OPEN).st, WEIR_E_BUSY);
    assert_int_equal(ask(&c, OPEN).st, WEIR_E_BUSY);
    char text[200];
    snprintf(text, sizeof text,
             "the state file is in use by another weir process (pid %d); use another file, or set "
             "'shared' in both",
             (int)a.pid);
    must_refuse(f, WEIR_E_BUSY, text);
    f->options.shared = true;
    snprintf(text, sizeof text,
             "the state file is in use by another weir process (pid %d), which does not set "
             "'shared'",
             (int)a.pid);
    must_refuse(f, WEIR_E_BUSY, text);
    end(&a); /* releases its lock */
    answer found = ask(&b, OPEN);
    assert_int_equal(found.st, WEIR_OK);
    assert_int_equal(found.found, WEIR_FOUND_KILLED);
    assert_int_equal(found.id, 3);
    ask(&b, CLOSE);
    found = ask(&c, OPEN);
    assert_int_equal(found.st, WEIR_OK);
    assert_int_equal(found.found, WEIR_FOUND_CLOSED);
    f->options.shared = false;
    must_refuse(f, WEIR_E_BUSY, NULL);
    end(&b);
    end(&c);
}

/* A file that is lent for a while: see weir_store_share(). */
static void check_lent(void **state)
{
    fixture *f = *state;
    weir_image *m = must_open(f);
    assert_true(weir_image_own(m));
    assert_true(weir_image_share(m));
    must_refuse(f, WEIR_E_BUSY, NULL); /* without `shared` */
    f->options.shared = true;
    weir_image *second = must_open(f);
    assert_int_equal(f->opened.found, WEIR_FOUND_OPEN);
    const weir_processes *a = weir_image_processes(m), *b = weir_image_processes(second);
    assert_true(weir_process_is_alive(a, b->self) && weir_process_is_alive(b, a->self));
    assert_false(weir_image_own(m));
    assert_false(weir_image_own(second));
    weir_image_close(m);
    assert_true(weir_image_own(second)); /* as the next daemon */
    must_refuse(f, WEIR_E_BUSY, NULL);
    weir_image_close(second);
}

static void check_same_process(void **state)
{
    fixture *f = *state;
    weir_image *m = must_open(f);
    must_refuse(f, WEIR_E_BUSY, NULL);
    must_refuse(f, WEIR_E_BUSY, NULL); /* a refused opening releases no lock */
    weir_image_close(m);
    f->options.shared = true;
    m = must_open(f);
    weir_image *second = must_open(f);
    assert_int_equal(f->opened.found, WEIR_FOUND_OPEN);
    const weir_processes *a = weir_image_processes(m), *b = weir_image_processes(second);
    assert_true(a->self != b->self);
    ((uint8_t *)weir_image_parts_get(m).table.at)[5] = 77;
    assert_int_equal(((uint8_t *)weir_image_parts_get(second).table.at)[5], 77);
    assert_true(weir_process_is_alive(a, a->self) && weir_process_is_alive(a, b->self));
    assert_true(weir_process_is_alive(b, a->self) && weir_process_is_alive(b, b->self));
    uint64_t gone = a->self;
    weir_image_close(m);
    assert_false(weir_process_is_alive(b, gone));
    assert_false(weir_process_is_alive(b, gone + 100));
    weir_image_close(second);
    f->options.shared = false;
    m = must_open(f);
    assert_int_equal(f->opened.found, WEIR_FOUND_CLOSED);
    weir_image_close(m);
}

static void check_killed_sharer(void **state)
{
    fixture *f = *state;
    f->options.shared = true;
    child a = start(f), b = start(f);
    weir_image *m = must_open(f);
    const weir_processes *o = weir_image_processes(m);
    answer from_a = ask(&a, OPEN), from_b = ask(&b, OPEN);
    assert_int_equal(from_a.found, WEIR_FOUND_OPEN);
    assert_int_equal(from_b.found, WEIR_FOUND_OPEN);
    const uint8_t *table = weir_image_parts_get(m).table.at;
    assert_true(table[from_a.id] == 1 && table[from_b.id] == 1);
    assert_true(weir_process_is_alive(o, from_a.id) && weir_process_is_alive(o, from_b.id));
    end(&a);
    assert_false(weir_process_is_alive(o, from_a.id));
    assert_true(weir_process_is_alive(o, from_b.id));
    ask(&b, CLOSE);
    assert_false(weir_process_is_alive(o, from_b.id));
    end(&b);
    weir_image_close(m);
    weir_image_close(must_open(f)); /* one of them was killed, and not the last one */
    assert_int_equal(f->opened.found, WEIR_FOUND_KILLED);
    weir_image_close(must_open(f));
    assert_int_equal(f->opened.found, WEIR_FOUND_CLOSED);
}

/* The message names the other processes, although this process has the file open too. */
static void check_size_of_others(void **state)
{
    fixture *f = *state;
    char text[256];
    f->options.shared = true;
    child a = start(f);
    assert_int_equal(ask(&a, OPEN).st, WEIR_OK);
    weir_image *m = must_open(f), *wide = NULL;
    assert_int_equal(weir_image_open_beside(&wide, m, &f->options), WEIR_E_BUSY);
    snprintf(text, sizeof text,
             "%s: the state file is in use by another weir process (pid %d); to change "
             "memory.size, memory.large or a policy's memory, stop it first",
             f->path, (int)a.pid);
    assert_string_equal(f->error.text, text);
    weir_image_close(m);
    end(&a);
}

/* ---- the path -------------------------------------------------------------------------------- */

static void lose_by_removing(const fixture *f)
{
    assert_int_equal(unlink(f->path), 0);
}

static void lose_by_moving(const fixture *f)
{
    char moved[120];
    snprintf(moved, sizeof moved, "%s.moved", f->path);
    assert_int_equal(rename(f->path, moved), 0);
}

/* The other file is valid and has the same contents. */
static void lose_by_replacing(const fixture *f)
{
    char command[500];
    snprintf(command, sizeof command, "cp '%s' '%s' && mv '%s' '%s'", f->path, f->beside, f->beside,
             f->path);
    assert_int_equal(system(command), 0);
}

/* A file in use is deleted, moved or replaced: no process can open another file at its path. */
static void must_claim(fixture *f, void (*lose)(const fixture *), bool shared)
{
    char text[200];
    f->options.shared = shared;
    child a = start(f), b = start(f);
    assert_int_equal(ask(&a, OPEN).st, WEIR_OK);
    lose(f);
    assert_int_equal(ask(&b, OPEN).st, WEIR_E_BUSY);
    snprintf(text, sizeof text,
             "a state file that was moved or deleted from this path is still in use by another "
             "weir process (pid %d); stop it first",
             (int)a.pid);
    must_refuse(f, WEIR_E_BUSY, text);
    f->options.reset = true;
    must_refuse(f, WEIR_E_BUSY, text);
    f->options.reset = false;
    end(&a); /* killed: its lock is released, FILE.lock stays */
    assert_int_equal(access(f->lock, F_OK), 0);
    snprintf(text, sizeof text, "%s.moved", f->path);
    unlink(text);
    assert_int_equal(ask(&b, OPEN).st, WEIR_OK);
    ask(&b, CLOSE);
    end(&b);
    assert_int_equal(access(f->lock, F_OK), -1);
    unlink(f->path);
}

static void check_claims(void **state)
{
    for (int shared = 0; shared <= 1; shared++) {
        must_claim(*state, lose_by_removing, shared);
        must_claim(*state, lose_by_moving, shared);
        must_claim(*state, lose_by_replacing, shared);
    }
}

/* A file in use may have any name, even PATH.new. */
static void check_moved_to_new(void **state)
{
    fixture *f = *state;
    child a = start(f);
    assert_int_equal(ask(&a, OPEN).st, WEIR_OK);
    assert_int_equal(rename(f->path, f->beside), 0);
    must_refuse(
        f, WEIR_E_BUSY,
        "it is in use as a state file, but weir uses this name for creating a state file; move "
        "that file away");
    assert_int_equal(rename(f->beside, f->path), 0);
    end(&a);
    weir_image_close(must_open(f));
    assert_int_equal(f->opened.found, WEIR_FOUND_KILLED);
}

/* FILE.lock was removed too: weir_image_watch() creates and locks it again. */
static void check_claim_again(void **state)
{
    fixture *f = *state;
    f->options.shared = true;
    child a = start(f);
    weir_image *m = must_open(f);
    lose_by_removing(f);
    assert_int_equal(unlink(f->lock), 0);
    assert_int_equal(weir_image_watch(m), WEIR_FILE_REMOVED);
    assert_int_equal(ask(&a, OPEN).st, WEIR_E_BUSY);
    weir_image_close(m);
    assert_int_equal(ask(&a, OPEN).st, WEIR_OK);
    end(&a);
}

static int open_as_nobody(void *ctx)
{
    fixture *f = ctx;
    weir_image *m = NULL;
    if (setgroups(0, NULL) != 0 || setuid(65534) != 0)
        return 2;
    weir_status st = weir_image_open(&m, &f->options, TABLE, LARGE, RESERVED);
    bool good = st == WEIR_OK && weir_image_watch(m) == WEIR_FILE_IN_PLACE;
    weir_image_close(m);
    return good ? 0 : 1;
}

/* In a directory that this process cannot write there is no FILE.lock. */
static void check_no_claim(void **state)
{
    fixture *f = *state;
    if (getuid() != 0) {
        print_message("skipped: only root can change the owner of a file\n");
        skip();
    }
    weir_image_close(must_open(f));
    assert_int_equal(chown(f->path, 65534, 65534), 0);
    assert_int_equal(chmod(f->dir, 0755), 0);
    assert_int_equal(run_in_child(open_as_nobody, f), 0);
    assert_int_equal(access(f->lock, F_OK), -1);
}

/* ---- at the same time ------------------------------------------------------------------------ */

enum { CROWD = 8, ROUNDS = 10 };

static void check_crowd(void **state)
{
    fixture *f = *state;
    f->options.shared = true;
    for (int round = 0; round < ROUNDS; round++) {
        child crowd[CROWD];
        uint64_t ids = 0;
        int made = 0;
        for (int i = 0; i < CROWD; i++)
            crowd[i] = start(f);
        for (int i = 0; i < CROWD; i++)
            send(&crowd[i], OPEN);
        for (int i = 0; i < CROWD; i++) {
            answer a = receive(&crowd[i]);
            assert_int_equal(a.st, WEIR_OK);
            made += a.is_new;
            ids |= UINT64_C(1) << (a.id / 2);
        }
        assert_int_equal(made, 1);
        assert_int_equal(ids, (UINT64_C(1) << CROWD) - 1);
        for (int i = 0; i < CROWD; i += 2) /* some close while others are killed */
            send(&crowd[i], CLOSE);
        for (int i = 1; i < CROWD; i += 2)
            end(&crowd[i]);
        for (int i = 0; i < CROWD; i += 2) {
            receive(&crowd[i]);
            end(&crowd[i]);
        }
        weir_image *m = must_open(f);
        const uint8_t *table = weir_image_parts_get(m).table.at;
        for (int i = 1; i <= CROWD; i++)
            assert_int_equal(table[2 * i - 1], 1); /* all opened the same file */
        assert_int_equal(f->opened.found, WEIR_FOUND_KILLED);
        weir_image_close(m);
        assert_int_equal(count_files(f), 1);
        unlink(f->path);
    }
}

static void check_crowd_for_one(void **state)
{
    fixture *f = *state;
    for (int round = 0; round < ROUNDS; round++) {
        f->options.reset = round % 2; /* every other round resets the file */
        child crowd[CROWD];
        int got = 0;
        for (int i = 0; i < CROWD; i++)
            crowd[i] = start(f);
        for (int i = 0; i < CROWD; i++)
            send(&crowd[i], OPEN);
        for (int i = 0; i < CROWD; i++) {
            answer a = receive(&crowd[i]);
            got += a.st == WEIR_OK;
            assert_true(a.st == WEIR_OK || a.st == WEIR_E_BUSY);
        }
        assert_int_equal(got, 1);
        for (int i = 0; i < CROWD; i++)
            end(&crowd[i]);
        assert_int_equal(count_files(f), 1);
    }
}

/* A process is killed while it creates or resizes a file: the file found is complete, or absent. */
static void check_killed_makers(void **state)
{
    fixture *f = *state;
    for (int round = 0; round < 4 * ROUNDS; round++) {
        child c = start(f);
        send(&c, round % 4 == 3 ? SIZE_OPEN : OPEN);
        if (round % 4 == 3)
            send(&c, SIZE_BESIDE);
        for (int i = 0; i < round * 500; i++) /* a little later in each round */
            getppid();
        end(&c);
        weir_image *m = must_open(f);
        assert_true(is_zero(weir_image_parts_get(m).large));
        weir_image_close(m);
        assert_int_equal(count_files(f), 1);
        if (round % 2 == 0)
            unlink(f->path);
    }
}

static void check_wait_for_other_size(void **state)
{
    fixture *f = *state;
    f->options.shared = true;
    child a = start(f), b = start(f);
    weir_image_close(must_open(f));
    assert_int_equal(ask(&a, SIZE_OPEN).st, WEIR_OK);
    send(&b, OPEN); /* it waits, or comes later: in any case it finds the new file */
    int fd;
    assert_int_equal(port_file_open(f->path, PORT_FILE_READ, &fd), PORT_FILE_OK);
    assert_true(port_file_is_locked(fd, 0)); /* the OPENING lock */
    port_file_close(fd);
    assert_int_equal(ask(&a, SIZE_BESIDE).st, WEIR_OK);
    assert_int_equal(ask(&a, REPLACE).st, WEIR_OK);
    answer from_b = receive(&b);
    assert_int_equal(from_b.st, WEIR_OK);
    assert_int_equal(from_b.table_bytes, 2 * TABLE);
    assert_int_equal(from_b.found, WEIR_FOUND_OPEN);
    end(&a);
    end(&b);
}

/* ---- what the system refuses ----------------------------------------------------------------- */

/* Returns 0 if opening fails with WEIR_E_IO and this message. */
static int fails(fixture *f, const char *message)
{
    weir_image *m = NULL;
    weir_status st = weir_image_open(&m, &f->options, TABLE, LARGE, RESERVED);
    return st == WEIR_E_IO && strcmp(f->error.text + strlen(f->path), message) == 0 ? 0 : 1;
}

static int open_with_file_limit(void *ctx)
{
    const struct rlimit little = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_FSIZE, &little) != 0)
        return 2;
    return fails(ctx, ": the file would exceed a limit on file sizes: it needs 5 MiB");
}

static void check_no_room(void **state)
{
    fixture *f = *state;
    assert_int_equal(run_in_child(open_with_file_limit, f), 0);
    assert_int_equal(count_files(f), 0);
}

/* root may write anywhere, so root becomes another user. */
static int open_without_right(void *ctx)
{
    if (getuid() == 0 && (setgroups(0, NULL) != 0 || setuid(65534) != 0))
        return 2;
    return fails(ctx, ": writing there is not allowed");
}

static void must_not_be_allowed(fixture *f)
{
    assert_int_equal(run_in_child(open_without_right, f), 0);
}

static void check_not_allowed(void **state)
{
    fixture *f = *state;
    assert_int_equal(chmod(f->dir, 0555), 0);
    must_not_be_allowed(f); /* to create one */
    assert_int_equal(chmod(f->dir, 0755), 0);
    weir_image_close(must_open(f));
    assert_int_equal(chmod(f->path, 0444), 0);
    must_not_be_allowed(f); /* to open one */
    assert_int_equal(unlink(f->path), 0);
    if (getuid() != 0)
        return;
    /* In a directory with the sticky bit, the PATH.new of another user cannot be removed. */
    write_file(f->beside, "");
    assert_int_equal(chmod(f->beside, 0666), 0);
    assert_int_equal(chmod(f->dir, 01777), 0);
    must_not_be_allowed(f);
}

int main(void)
{
#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_fixture, drop_fixture)
    const struct CMUnitTest tests[] = {
        IN_DIR(check_exclusive),
        IN_DIR(check_lent),
        IN_DIR(check_same_process),
        IN_DIR(check_killed_sharer),
        IN_DIR(check_crowd),
        IN_DIR(check_claims),
        IN_DIR(check_claim_again),
        IN_DIR(check_moved_to_new),
        IN_DIR(check_size_of_others),
        IN_DIR(check_no_claim),
        IN_DIR(check_crowd_for_one),
        IN_DIR(check_killed_makers),
        IN_DIR(check_wait_for_other_size),
        IN_DIR(check_no_room),
        IN_DIR(check_not_allowed),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
