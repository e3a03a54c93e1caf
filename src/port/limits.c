/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Limits of the process, by POSIX and Linux. libweir does not need them. */

#define _GNU_SOURCE /* sched_getaffinity */

#include "port/limits.h"

#include "port/port.h"
#include "port/text.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { CGROUPS_MAX = 1 << 16, QUOTA_MAX = 64 };

/* ---- processors ------------------------------------------------------------------------------ */

/* Reads a small file into a text. Returns its length; 0 if that failed. */
static size_t read_text(const char *dir, const char *name, char *ret, size_t size)
{
    char path[4096];
    uint8_t *bytes;
    size_t len;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path ||
        port_read_file(path, size - 1, &bytes, &len) != WEIR_OK)
        return 0;
    memcpy(ret, bytes, len);
    ret[len] = '\0';
    port_free(bytes);
    return len;
}

/* Returns the processors of one cgroup; 0: it has no quota, which is "max" or -1. */
static uint64_t cores_of(const char *dir, bool v2)
{
    char text[2 * QUOTA_MAX];
    uint64_t quota, period;
    size_t len = read_text(dir, v2 ? "cpu.max" : "cpu.cfs_quota_us", text, QUOTA_MAX);
    if (!v2 && len > 0)
        read_text(dir, "cpu.cfs_period_us", text + len, QUOTA_MAX);
    size_t digits = weir_digits_read(text, len, &quota);
    if (digits == 0 || digits == len || quota == 0)
        return 0;
    const char *rest = text + digits + 1; /* after a space or a line feed */
    if (weir_digits_read(rest, strlen(rest), &period) == 0 || period == 0)
        return 0;
    return quota / period + (quota % period > 0);
}

/* Returns the least of the cgroup at `path` and its parents, up to `top` bytes of the path. */
static uint64_t least_cores(char *path, size_t top, bool v2)
{
    uint64_t least = 0;
    for (;;) {
        uint64_t cores = cores_of(path, v2);
        if (cores > 0 && (least == 0 || cores < least))
            least = cores;
        char *slash = strrchr(path + top, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* Whether a list such as "cpu,cpuacct" has the controller cpu. */
static bool has_cpu(const char *list)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strcspn(at, ",") == 3 && memcmp(at, "cpu", 3) == 0)
            return true;
    }
    return false;
}

/* Returns the processors of a line "ID:CONTROLLERS:/PATH"; 0: no quota. Without controllers, the
 * line is that of version 2. */
static uint64_t cores_of_line(char *line, const char *mounted)
{
    char path[4096];
    char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
    if (!group)
        return 0;
    *group++ = '\0';
    bool v2 = list[1] == '\0';
    if (!v2 && !has_cpu(list + 1))
        return 0;
    int top = snprintf(path, sizeof path, "%s%s%s", mounted, v2 ? "" : "/", list + 1);
    if (top < 0 || (size_t)top + strlen(group) >= sizeof path)
        return 0;
    memcpy(path + top, group, strlen(group) + 1);
    return least_cores(path, (size_t)top, v2);
}

uint64_t port_quota_cores(const char *cgroups, const char *mounted)
{
    uint8_t *bytes;
    size_t len;
    uint64_t least = 0;
    if (port_read_file(cgroups, CGROUPS_MAX, &bytes, &len) != WEIR_OK)
        return 0;
    char *line = (char *)bytes;
    for (char *end; (end = memchr(line, '\n', len - (size_t)(line - (char *)bytes))) != NULL;
         line = end + 1) {
        *end = '\0';
        uint64_t cores = cores_of_line(line, mounted);
        if (cores > 0 && (least == 0 || cores < least))
            least = cores;
    }
    port_free(bytes);
    return least;
}

unsigned port_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    unsigned cores = n > 0 ? (unsigned)n : 1;
    uint64_t quota = port_quota_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota > 0 && quota < cores ? (unsigned)quota : cores;
}

/* ---- file descriptors ------------------------------------------------------------------------ */

uint64_t port_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return UINT64_MAX;
    const struct rlimit raised = {limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
        limit = raised;
    return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}
