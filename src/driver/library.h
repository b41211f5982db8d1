// Which file to load. This room only; any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { LIBRARY_PATH = 4096 };

// The file that `variable` names; or, where VIRGATE_SIM is set, the simulator's `name`, in
// the place where base/parts.h finds it; or `name`, for the dynamic linker to find. 0, or 1
// with a sentence in `problem`: the simulated driver was asked for and is not there.
int library_choose(const char *variable, const char *name, char ret_path[LIBRARY_PATH], bool *ret_simulated,
		   char *problem, size_t capacity);
