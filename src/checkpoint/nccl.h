// Ranks of NCCL jobs: one that waits for another, which is suspended, occupies its GPU meanwhile. Any thread.
#pragma once
#include <stddef.h>
#include <sys/types.h>

// Writes a warning if one of the processes is a rank of a NCCL job that has ranks beside them; else "". What belongs to
// a job shows in the environment that launchers set, and in shared memory of NCCL. Of processes that this user may not
// look into nothing shows.
void nccl_warn(const pid_t *pids, size_t count, char *ret_text, size_t capacity);
