// How much host memory the process may still use. Any thread.
#pragma once
#include <stdint.h>

// Returns the bytes that the kernel could give without swapping, within the memory limits of the process's control
// groups. UINT64_MAX: the kernel does not say.
uint64_t pager_host_available(void);
// Returns the bytes that are left below the limits of a process's control groups (version 1 or 2) and of their parents.
// `root` is where they are mounted; `groups` is the text of /proc/PID/cgroup. UINT64_MAX: no limit.
uint64_t pager_group_available(const char *root, const char *groups);
