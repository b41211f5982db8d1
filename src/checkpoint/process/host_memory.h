// Finds out how much more host memory a process can allocate. Any thread.
#pragma once
#include "virgate/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct free_memory {
	uint64_t bytes;
	bool by_group; // the limit comes from a control group of the process, not from the machine
};
// Finds the free memory: the least of what the machine has available and what each control group of the process leaves.
// Returns false if the kernel does not report it.
bool host_memory_find_free(pid_t pid, struct free_memory *ret_memory);
// Fails with INSUFFICIENT (with need and have) if `need` is more than the free memory. `what` names the purpose in the
// message. Returns VG_OK if the free memory is unknown.
enum vg_status host_memory_check(pid_t pid, uint64_t need, const char *what);
