// How much more host memory a process can allocate. Any thread.
#pragma once
#include "virgate/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct free_memory {
	uint64_t bytes;
	bool by_group; // a control group of the process sets this limit, not the machine
};
// Finds the least of what the machine has available and what the limits of the process's control groups leave. Returns
// false if the kernel does not say.
bool host_memory_find_free(pid_t pid, struct free_memory *ret_memory);
// Refuses with INSUFFICIENT (with need and have) if `what` needs more than is free. Returns VG_OK if that is unknown.
enum vg_status host_memory_check(pid_t pid, uint64_t need, const char *what);
