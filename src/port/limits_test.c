/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* CPU quotas of cgroups, as files in a directory of the test's own, and the limit on file
 * descriptors, with wrappers of the system calls; the linker options are in meson.build. */

#define _GNU_SOURCE /* sched_getaffinity */

#include "port/limits.h"
#include "tests/kit/kit.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* ---- CPU quotas ------------------------------------------------------------------------------ */

/* Writes a file below the directory `fs`, and makes the directories of its path. */
static void put(const char *path, const char *text)
{
    char at[300];
    snprintf(at, sizeof at, "%s", path);
    for (char *slash = strchr(at, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(at, 0700);
        *slash = '/';
    }
    write_file(path, text);
}

static uint64_t cores(const char *cgroups)
{
    write_file("cgroup", cgroups);
    return port_quota_cores("cgroup", "fs");
}

static void quotas_of_version_2(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        uint64_t cores;
    } rows[] = {{"max 100000\n", 0},    {"100000 100000\n", 1},
                {"100001 100000\n", 2}, {"199999 100000\n", 2},
                {"200000 100000\n", 2}, {"1 100000\n", 1},
                {"350000 50000\n", 7},  {"18446744073709551615 100000\n", 184467440737096},
                {"0 100000\n", 0},      {"100000 0\n", 0},
                {"100000 \n", 0},       {"100000\n", 0},
                {"100000", 0},          {"", 0},
                {"-1 100000\n", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put("fs/a/cpu.max", rows[i].text);
        assert_int_equal(cores("0::/a\n"), rows[i].cores);
    }
    put("fs/a/cpu.max", "max 100000\n");
}

/* The least quota of the cgroup and its parents applies. */
static void quotas_of_parents(void **unused)
{
    (void)unused;
    put("fs/p/q/cpu.max", "300000 100000\n");
    assert_int_equal(cores("0::/p/q\n"), 3);
    put("fs/p/cpu.max", "500000 100000\n");
    assert_int_equal(cores("0::/p/q\n"), 3);
    put("fs/p/cpu.max", "200000 100000\n");
    assert_int_equal(cores("0::/p/q\n"), 2);
    assert_int_equal(cores("0::/p/q/absent/deeper\n"), 2);
    assert_int_equal(cores("0::/elsewhere\n"), 0);
    put("fs/cpu.max", "100000 100000\n");
    assert_int_equal(cores("0::/p/q\n"), 1);
    assert_int_equal(cores("0::/elsewhere\n"), 1); /* the root of a container */
    assert_int_equal(cores("0::/\n"), 1);
    assert_int_equal(remove("fs/cpu.max"), 0);
}

static void quotas_of_version_1(void **unused)
{
    (void)unused;
    put("fs/cpu,cpuacct/g/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(cores("3:cpu,cpuacct:/g\n"), 0); /* without a period */
    put("fs/cpu,cpuacct/g/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores("3:cpu,cpuacct:/g\n"), 3);
    assert_int_equal(cores("4:memory:/m\n3:cpu,cpuacct:/g\n0::/a\n"), 3);
    assert_int_equal(cores("3:cpuset:/g\n2:cpuacct:/g\n"), 0);
    put("fs/cpu,cpuacct/g/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(cores("3:cpu,cpuacct:/g\n"), 0);
    put("fs/cpuacct,cpu/cpu.cfs_quota_us", "400000\n");
    put("fs/cpuacct,cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores("3:cpuacct,cpu:/g\n"), 4); /* of the parent */
    put("fs/p/cpu.max", "200000 100000\n");
    assert_int_equal(cores("3:cpuacct,cpu:/g\n0::/p\n"), 2); /* the least of both versions */
    assert_int_equal(cores("0::/p\n3:cpuacct,cpu:/g\n"), 2);
}

static void files_that_cannot_be_used(void **unused)
{
    (void)unused;
    char line[5000];
    assert_int_equal(port_quota_cores("absent", "fs"), 0);
    assert_int_equal(cores(""), 0);
    assert_int_equal(cores("0::/p"), 0); /* no line feed */
    assert_int_equal(cores("nonsense\n0:nonsense\n0::/p\n"), 2);
    snprintf(line, sizeof line, "0::/p/%04091d\n", 1); /* fs/p/0... has 4096 bytes */
    assert_int_equal(cores(line), 0);
    snprintf(line, sizeof line, "0::/p/%04090d\n", 1);
    assert_int_equal(cores(line), 2); /* with the name of a file, it is too long */
    snprintf(line, sizeof line, "0::/p/%0200d\n", 1);
    assert_int_equal(cores(line), 2);
}

static void cores_are_at_most_those_of_the_affinity(void **unused)
{
    (void)unused;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    uint64_t quota = port_quota_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    unsigned all = (unsigned)CPU_COUNT(&set);
    assert_int_equal(port_cores(), quota > 0 && quota < all ? quota : all);
}

/* ---- file descriptors ------------------------------------------------------------------------ */

static struct {
    struct rlimit limit;
    int get, set; /* what the calls return */
} os;

int __wrap_getrlimit64(int resource, struct rlimit *ret);
int __wrap_getrlimit64(int resource, struct rlimit *ret)
{
    assert_int_equal(resource, RLIMIT_NOFILE);
    *ret = os.limit;
    return os.get;
}

int __wrap_setrlimit64(int resource, const struct rlimit *limit);
int __wrap_setrlimit64(int resource, const struct rlimit *limit)
{
    assert_int_equal(resource, RLIMIT_NOFILE);
    if (os.set == 0)
        os.limit = *limit;
    return os.set;
}

static void the_soft_limit_is_raised(void **unused)
{
    (void)unused;
    os.limit = (struct rlimit){1024, 4096};
    assert_int_equal(port_raise_descriptors(), 4096);
    assert_int_equal(os.limit.rlim_cur, 4096);
    assert_int_equal(os.limit.rlim_max, 4096);
    os.limit = (struct rlimit){1024, 4096};
    os.set = -1;
    assert_int_equal(port_raise_descriptors(), 1024);
    os.limit.rlim_cur = RLIM_INFINITY;
    assert_int_equal(port_raise_descriptors(), UINT64_MAX);
    os.get = -1;
    os.limit.rlim_cur = 1;
    assert_int_equal(port_raise_descriptors(), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas_of_version_2),
        cmocka_unit_test(quotas_of_parents),
        cmocka_unit_test(quotas_of_version_1),
        cmocka_unit_test(files_that_cannot_be_used),
        cmocka_unit_test(cores_are_at_most_those_of_the_affinity),
        cmocka_unit_test(the_soft_limit_is_raised),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
