// Warns of NCCL jobs of which only some ranks are suspended: the others wait, and occupy their GPUs. Any thread.
#pragma once
#include <stddef.h>
#include <sys/types.h>

// Writes a warning if one of the processes is a rank of a NCCL job that has other ranks; else "". Launchers set
// variables that say how many ranks a job has and which job it is, and ranks share memory of NCCL. A process that this
// user may not read is skipped.
void nccl_warn(const pid_t *pids, size_t count, char *ret_text, size_t capacity);
