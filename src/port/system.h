/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_SYSTEM_H
#define WEIR_PORT_SYSTEM_H
/* What differs between operating systems, for port.c and file.c. weir runs on Linux. On another
 * system with POSIX, only a store in the memory of one process can be opened: opening a file or
 * memory that processes share fails there, since no test kills processes on these systems. Include
 * it after the headers of the system. */

/* Whether files and shared memory are supported. -DPORT_LINUX=0 gives Linux, too, what other
 * systems have, so that tests can run that. */
#ifndef PORT_LINUX
#ifdef __linux__
#define PORT_LINUX 1
#else
#define PORT_LINUX 0
#endif
#endif

#ifdef __linux__
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* glibc has it from version 2.35 on */
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* glibc has it from version 2.37 on */
#endif
#else
/* madvise() refuses these hints, which has no effect. */
#define MADV_HUGEPAGE       (-1)
#define MADV_NOHUGEPAGE     (-1)
#define MADV_POPULATE_WRITE (-1)
#define MADV_COLLAPSE       (-1)
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
/* No file is open, so these are never used. */
#ifndef F_OFD_SETLK
#define F_OFD_SETLK  (-1)
#define F_OFD_SETLKW (-1)
#define F_OFD_GETLK  (-1)
#endif
#endif

#ifdef __APPLE__
#define CLOCK_BOOTTIME                   CLOCK_MONOTONIC /* includes the time of a suspension */
#define st_mtim                          st_mtimespec
#define posix_fallocate(fd, from, bytes) ENOTSUP /* no file is open */
#endif

#endif
