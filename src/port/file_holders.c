/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Which processes hold a lock of an open file. The kernel does not say it of such a lock when it is
 * asked for it (its l_pid is -1), but it lists the locks of each open file in /proc/PID/fdinfo. */

#include "port/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_ROOM = 320 };

/* Whether a line of fdinfo is of a lock that covers the byte:
 * "lock:  1: OFDLCK ADVISORY  WRITE -1 fe:00:1234 1 1", or EOF at the end. */
static bool is_lock_on(const char *line, uint64_t at)
{
    unsigned long long from, to;
    char last[24];
    if (strncmp(line, "lock:", 5) != 0 || !strstr(line, "OFDLCK") ||
        sscanf(line, "lock: %*s %*s %*s %*s %*s %*s %llu %23s", &from, last) != 2)
        return false;
    to = strcmp(last, "EOF") == 0 ? UINT64_MAX : strtoull(last, NULL, 10);
    return at >= from && at <= to;
}

/* Whether the file that a process has open under this number is ours, with a lock on the byte. */
static bool holds(const char *process, const char *number, const struct stat *file, uint64_t at)
{
    char path[PATH_ROOM], line[256];
    struct stat s;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.20s/fd/%.20s", process, number);
    if (stat(path, &s) != 0 || s.st_dev != file->st_dev || s.st_ino != file->st_ino)
        return false;
    snprintf(path, sizeof path, "/proc/%.20s/fdinfo/%.20s", process, number);
    FILE *info = fopen(path, "re");
    while (info && !found && fgets(line, sizeof line, info))
        found = is_lock_on(line, at);
    if (info)
        fclose(info);
    return found;
}

/* but: a descriptor that does not count, -1: all do. */
static bool process_holds(const char *process, const struct stat *file, uint64_t at, int but)
{
    char path[PATH_ROOM];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.20s/fd", process);
    DIR *fds = opendir(path);
    for (struct dirent *e; fds && !found && (e = readdir(fds));)
        found =
            e->d_name[0] != '.' && atoi(e->d_name) != but && holds(process, e->d_name, file, at);
    if (fds)
        closedir(fds);
    return found;
}

size_t port_file_holders(int fd, uint64_t at, int ret[PORT_FILE_HOLDERS_MAX])
{
    struct stat file;
    size_t n = 0;
    DIR *processes = fstat(fd, &file) == 0 ? opendir("/proc") : NULL;
    for (struct dirent *e; processes && n < PORT_FILE_HOLDERS_MAX && (e = readdir(processes));) {
        int id = atoi(e->d_name); /* 0: not the name of a process */
        if (id > 0 && process_holds(e->d_name, &file, at, id == port_process_id() ? fd : -1))
            ret[n++] = id;
    }
    if (processes)
        closedir(processes);
    return n;
}

int port_process_id(void)
{
    return (int)getpid();
}
