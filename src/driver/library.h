// Chooses the file from which a library is loaded. This directory only; any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { LIBRARY_PATH = 4096 };

// Chooses the file that the environment variable `variable` names. Otherwise, if VIRGATE_SIM is set, chooses the
// simulated version of `name` (base/parts.h). Otherwise returns `name`, which the dynamic linker finds. Returns 0, or 1
// with a sentence in `problem` if the simulated version is missing.
int library_choose(const char *variable, const char *name, char ret_path[LIBRARY_PATH], bool *ret_simulated,
		   char *problem, size_t capacity);
