// How much more memory processes can take. Any thread.
#pragma once
#include "virgate/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct free_memory {
	uint64_t bytes;
	bool by_group; // the limit of a control group of the process says so, and not the machine
};
// What `pid` can still take: what the machine has available, and what each of its control groups leaves of its limit,
// the smallest of all. False: the kernel does not say.
bool host_memory_find_free(pid_t pid, struct free_memory *ret_memory);
// INSUFFICIENT with need and have: `what` takes more than that. VG_OK where nobody knows.
enum vg_status host_memory_check(pid_t pid, uint64_t need, const char *what);
