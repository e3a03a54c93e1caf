/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_LIMITS_H
#define WEIR_PORT_LIMITS_H
/* What the system allows this process: processors and file descriptors. */

#include <stdint.h>

/* The number of processors that this process may use, 1 or more: those of its affinity, or as many
 * as the CPU quota of its cgroups allows, rounded up, if that is less. Any thread. */
unsigned port_cores(void);

/* The number of processors that the CPU quotas of cgroups (version 1 or 2) allow, rounded up; 0 if
 * there is no quota. A quota of a parent applies too.
 *  cgroups  the file that lists the cgroups of the process: /proc/self/cgroup.
 *  mounted  where the hierarchies are mounted: /sys/fs/cgroup. In a container, the cgroup of the
 *           process may be absent there: its parents are those of the container. */
uint64_t port_quota_cores(const char *cgroups, const char *mounted);

/* Raises the limit on open file descriptors as far as the process may (from the soft to the hard
 * limit). Returns the limit; UINT64_MAX: none. */
uint64_t port_raise_descriptors(void);

#endif
