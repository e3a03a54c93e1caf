/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What keeps the daemon from starting on this machine: addresses, files of TLS, and the state file.
 * How much disk space is free is a fake (see meson.build). */

#include "cmd/config/config.h"
#include "cmd/kit/commands.h"
#include "service/zone_cache.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
    fsblkcnt_t free; /* blocks of 4096 bytes */
    bool fails;
    char dir[64]; /* that was asked about */
} disk;

int __wrap_statvfs64(const char *path, struct statvfs *ret);

int __wrap_statvfs64(const char *path, struct statvfs *ret)
{
    snprintf(disk.dir, sizeof disk.dir, "%s", path);
    *ret = (struct statvfs){.f_bavail = disk.free, .f_frsize = 4096};
    return disk.fails ? -1 : 0;
}

static char errors[4096]; /* of the last configuration */

/* Checks a configuration. Its errors are in `errors`. */
static weir_status preflight(const char *yaml)
{
    FILE *f = fopen("weir.yaml", "w"), *out = fmemopen(errors, sizeof errors, "w");
    assert_true(f && out);
    fputs(yaml, f);
    fclose(f);
    const config_sink sink = config_print_to(out);
    weir_config *c = NULL;
    weir_status st = config_load_and_preflight("weir.yaml", NULL, &sink, &c);
    config_free(c);
    if (ftell(out) == 0)
        errors[0] = '\0';
    fclose(out);
    return st;
}

static void expect(const char *file, const char *expected)
{
    char yaml[200];
    snprintf(yaml, sizeof yaml, "listen: {resp: '127.0.0.1:0'}\nmemory: {size: 64m, file: %s}\n",
             file);
    weir_status st = preflight(yaml);
    errors[strcspn(errors, "\n")] = '\0';
    assert_string_equal(errors, expected);
    assert_int_equal(st, expected[0] ? WEIR_E_SYNTAX : WEIR_OK);
}

#define NEEDS                                                                                      \
    "weir.yaml:2:27: error: memory.file: not enough disk space: the state file needs 64m, and "

static void check_space(void **unused)
{
    (void)unused;
    char text[200], path[64];
    disk.free = (64 << 20) / 4096;
    expect("state", "");
    assert_string_equal(disk.dir, ".");
    disk.free--;
    expect("state", NEEDS ". has 63m free");
    if (access("/", W_OK) == 0)
        expect("/state", NEEDS "/ has 63m free");
    snprintf(text, sizeof text, NEEDS "%s has 63m free", test_dir);
    snprintf(path, sizeof path, "%s/state", test_dir);
    expect(path, text);
    disk.free = 0;
    expect("state", NEEDS ". has 0 free");
    disk.fails = true; /* unknown */
    expect("state", "");
}

/* Writes `len` bytes that are no state file and no certificate. */
static void write_junk(const char *name, size_t len)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    for (size_t i = 0; i < len; i++)
        putc('#', f);
    fclose(f);
}

static void check_places(void **unused)
{
    (void)unused;
    static const struct {
        const char *yaml, *error; /* an error begins like this; "": there is none */
    } rows[] = {
        {"listen: {resp: 0, http: [0, 0], grpc: 0, spoe: 0}\n", ""},
        {"listen: {resp: off, http: 0}\n", ""},
        {"insecure: true\nlisten: {resp: 0, http: [0, '192.0.2.1:0']}\n",
         "weir.yaml:2:29: error: listen.http[1]: "},
        {"insecure: true\nlisten: {resp: 0, spoe: {address: '192.0.2.1:0'}}\n",
         "weir.yaml:2:35: error: listen.spoe.address: "},
        {"listen: {resp: 0, unix: /nothing/there/socket}\n",
         "weir.yaml:1:25: error: listen.unix: "},
        {"listen: {resp: 0, grpc: /nothing/there/socket}\n",
         "weir.yaml:1:25: error: listen.grpc: "},
        {"listen: {resp: 0}\nhand_over: socket\n", ""},
        {"listen: {resp: 0}\nhand_over: junk\n",
         "weir.yaml:2:12: error: hand_over: cannot listen on junk: a file that is not a socket "},
        {"listen: {resp: 0}\ntls: {cert: junk, key: junk}\n", "weir.yaml:2:13: error: tls.cert: "},
        {"listen: {resp: {address: 0, tls: {cert: junk, key: junk}}}\n",
         "weir.yaml:1:41: error: listen.resp.tls.cert: "},
        {"listen: {resp: 0}\nredis: {url: rediss://h, tls: {ca: junk}}\n",
         "weir.yaml:2:31: error: redis.tls: "},
        {"listen: {resp: 0}\nredis: {url: rediss://h}\n", ""},
        {"listen: {resp: 0}\nmemory: {size: 8m, file: junk}\n",
         "weir.yaml:2:26: error: memory.file: junk: it is not a state file of weir\n"},
        {"listen: {resp: 0}\nmemory: {size: 8m, file: long}\n",
         "weir.yaml:2:26: error: memory.file: long: it is not a state file of weir\n"},
        {"listen: {resp: 0}\nmemory: {size: 8m, file: .}\n",
         "weir.yaml:2:26: error: memory.file: .: "},
        {"listen: {resp: 0}\nmemory: {size: 8m, file: none/state}\n",
         "weir.yaml:2:26: error: memory.file: the directory none does not exist; create it, or "
         "choose another file\n"},
        {"listen: {resp: 0}\nmemory: {size: 8m, file: junk/state}\n",
         "weir.yaml:2:26: error: memory.file: "},
    };
    disk.free = 1 << 20;
    write_junk("junk", 100);
    write_junk("long", 100000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_status st = preflight(rows[i].yaml);
        const char *error = rows[i].error;
        assert_int_equal(st, error[0] ? WEIR_E_SYNTAX : WEIR_OK);
        if (error[0] ? !strstr(errors, error) : strstr(errors, ": error: ") != NULL)
            fail_msg("%sexpected: %s\nfound: %s", rows[i].yaml, error, errors);
    }
    (void)unlink("junk");
    (void)unlink("long");
}

#define IN_USE                                                                                     \
    "this is expected if this configuration's daemon is running; otherwise weir serve cannot "     \
    "start\n"

/* What a running daemon uses is only a warning. */
static void check_in_use(void **unused)
{
    (void)unused;
    static char yaml[300], expected[300];
    weir_store *store = NULL;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    snprintf(yaml, sizeof yaml, "listen: {resp: [0, %d]}\n", ntohs(a.sin_port));
    snprintf(expected, sizeof expected,
             "weir.yaml:1:20: warning: listen.resp[1]: 127.0.0.1:%d is already in use; " IN_USE,
             ntohs(a.sin_port));
    assert_int_equal(preflight(yaml), WEIR_OK);
    assert_memory_equal(errors, expected, strlen(expected));
    close(fd);
    static const char used[] =
        "weir.yaml:2:26: warning: memory.file: state: the state file is in use by this process; ";
    const weir_store_options options = {.file = "state", .memory_bytes = 8 << 20};
    assert_int_equal(weir_store_open(&store, &options), WEIR_OK);
    assert_int_equal(preflight("listen: {resp: 0}\nmemory: {size: 8m, file: state}\n"), WEIR_OK);
    assert_memory_equal(errors, used, sizeof used - 1);
    assert_non_null(strstr(errors, "; " IN_USE));
    assert_int_equal(
        preflight("listen: {resp: 0}\nmemory: {size: 8m, file: state, shared: true}\n"), WEIR_OK);
    assert_string_equal(errors, "");
    weir_store_close(store);
    assert_int_equal(preflight("listen: {resp: 0}\nmemory: {size: 8m, file: state}\n"), WEIR_OK);
    assert_string_equal(errors, "");
    assert_int_equal(chmod("state", 0666), 0);
    assert_int_equal(preflight("listen: {resp: 0}\nmemory: {size: 8m, file: state}\n"),
                     WEIR_E_SYNTAX);
    assert_non_null(strstr(errors, "expected mode 0600"));
    assert_int_equal(
        preflight("listen: {resp: 0}\nmemory: {size: 8m, file: state, trust_others: true}\n"),
        WEIR_OK);
    (void)unlink("state");
    (void)unlink("state.lock");
}

#define READABLE_BY_ALL(what, file)                                                                \
    "all users of this machine can read " what ", because " file                                   \
    " has the mode 0644; expected at most 0640\n"
#define READABLE(file) READABLE_BY_ALL("this password", file)

/* Passwords that all users can read are a warning, at the first of them in the file. */
static void check_passwords(void **unused)
{
    (void)unused;
    static const struct {
        const char *yaml;
        mode_t config, file;
        const char *warning; /* NULL: there is none */
    } rows[] = {
        {"password: s3cret\n", 0644, 0600,
         "weir.yaml:2:11: warning: password: " READABLE("weir.yaml")},
        {"password: s3cret\n", 0640, 0644, NULL},
        {"password: ${WEIR_A}\n", 0644, 0644, NULL},
        {"password_file: pw\n", 0644, 0640, NULL},
        {"password_file: pw\n", 0600, 0644,
         "weir.yaml:2:16: warning: password_file: " READABLE("pw")},
        {"users: {a: {password: [x, yy], may: take}}\n", 0644, 0600,
         "weir.yaml:2:24: warning: users.a.password: " READABLE("weir.yaml")},
        {"users: {a: {password_file: [own, pw], may: take}}\n", 0644, 0644,
         "weir.yaml:2:34: warning: users.a.password_file[1]: " READABLE("pw")},
        {"redis: {url: redis://h, password: x}\n", 0644, 0600,
         "weir.yaml:2:35: warning: redis.password: " READABLE("weir.yaml")},
        {"policies: {password: gcra 1/s}\n", 0644, 0644, NULL},
        {"redis: {url: \"redis://:s3cret@h\"}\n", 0644, 0600,
         "weir.yaml:2:14: warning: redis.url: " READABLE("weir.yaml")},
        {"redis: {url: \"redis://:s3cret@h\", password: x}\n", 0644, 0600,
         "weir.yaml:2:14: warning: redis.url: " READABLE("weir.yaml")},
        {"redis: {urls: [\"redis://a\", \"redis://u:s3cret@h\"]}\n", 0644, 0600,
         "weir.yaml:2:29: warning: redis.urls[1]: " READABLE("weir.yaml")},
        {"redis: {url: \"redis://:s3cret@h\"}\n", 0640, 0644, NULL},
        {"redis: {url: \"redis://:${WEIR_A}@h\"}\n", 0644, 0644, NULL},
        {"redis: {url: \"redis://h/1\"}\n", 0644, 0644, NULL},
        {"telemetry: {endpoint: \"http://h\", headers_file: pw}\n", 0600, 0644,
         "weir.yaml:2:49: warning: telemetry.headers_file: " READABLE_BY_ALL("these headers",
                                                                             "pw")},
        {"telemetry: {endpoint: \"http://h\", headers_file: pw}\n", 0644, 0640, NULL},
    };
    FILE *f = fopen("pw", "w"); /* a password, or a header */
    assert_non_null(f);
    fputs("key: s3cret\n", f);
    fclose(f);
    write_junk("own", 20);
    assert_int_equal(chmod("own", 0600), 0);
    assert_int_equal(setenv("WEIR_A", "one", 1), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char yaml[200];
        assert_int_equal(chmod("weir.yaml", rows[i].config), 0);
        assert_int_equal(chmod("pw", rows[i].file), 0);
        snprintf(yaml, sizeof yaml, "listen: {resp: 0, http: 0}\n%s", rows[i].yaml);
        assert_int_equal(preflight(yaml), WEIR_OK);
        const char *found = strstr(errors, "all users of"), *expected = rows[i].warning;
        assert_null(found ? strstr(found + 1, "all users of") : NULL);
        if (expected ? !found || !strstr(errors, expected) : found != NULL)
            fail_msg("%sexpected: %s\nfound: %s", yaml, expected ? expected : "none", errors);
    }
    (void)unlink("pw");
    (void)unlink("own");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_space),
        cmocka_unit_test(check_places),
        cmocka_unit_test(check_in_use),
        cmocka_unit_test(check_passwords),
    };
    weir_use_guests();
    return cmocka_run_group_tests_name("config-preflight", tests, make_dir, remove_dir);
}
