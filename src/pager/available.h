// Determines how much host memory the process may still use. Any thread.
#pragma once
#include <stdint.h>

// Returns how many bytes the kernel can provide without swapping, within the limits of the process's control groups.
// UINT64_MAX: unknown.
uint64_t pager_host_available(void);
// Returns the bytes left below the limits of a process's control groups (version 1 or 2) and of the groups' parents.
// `root`: where the groups are mounted; `groups`: the text of /proc/PID/cgroup. UINT64_MAX: no limit.
uint64_t pager_group_available(const char *root, const char *groups);
