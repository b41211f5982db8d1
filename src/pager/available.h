// How much host memory the process may still use. Any thread.
#pragma once
#include <stdint.h>

// Bytes that the kernel could give without swapping, within the memory limits of the process's control groups
// (cgroup v2). UINT64_MAX: the kernel does not say.
uint64_t pager_host_available(void);
// Bytes below the limits of a control group and of those around it. `root` is where cgroup2 is mounted; `groups` is the
// text of /proc/PID/cgroup, which the call changes. UINT64_MAX: no limit.
uint64_t pager_group_available(const char *root, char *groups);
