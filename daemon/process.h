// Identifies processes by pid and start time. Main thread only, except where a function says otherwise.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct authority_peer;

// Reads the start time of the process that connected. Call it while the pid surely still belongs to that process. 0:
// the process has ended, or its pid is unknown.
uint64_t process_start_of_peer(const struct authority_peer *peer);
// Opens a pidfd of the process that connected. Returns the pidfd or -errno; -ESRCH: the process has ended.
int process_open_peer(const struct authority_peer *peer);
// Opens a pidfd of {pid, start time}. -ESRCH: that process has ended, and another process may have its pid. Any thread.
int process_open(pid_t pid, uint64_t start_time);
// Reads the pid namespace of the process, and its pid there. Returns false if they cannot be read. Any thread.
bool process_inner(pid_t pid, uint32_t *ret_pid_namespace, uint32_t *ret_inner_pid);
// Returns whether the process of the pidfd has ended. Any thread.
bool process_has_ended(int pidfd);
// Returns whether a signal or a debugger has stopped the process; false if that is unknown. Any thread.
bool process_is_stopped(pid_t pid);
// Returns whether the kernel shows that the process runs for this user or has this group ((gid_t)-1: none).
bool process_belongs_to(pid_t pid, uid_t owner, gid_t group);
