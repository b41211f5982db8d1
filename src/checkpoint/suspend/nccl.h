// Warns if only some ranks of an NCCL job are suspended: the other ranks then wait, and occupy their GPUs. Any thread.
#pragma once
#include <stddef.h>
#include <sys/types.h>

// Writes a warning if one of the processes is a rank of an NCCL job that has other ranks; otherwise writes "". Finds
// the ranks by variables that launchers set, which tell the job and its number of ranks, and by NCCL's shared memory.
// Skips processes that this user may not read.
void nccl_warn(const pid_t *pids, size_t count, char *ret_text, size_t capacity);
