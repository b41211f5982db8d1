// Chooses the file of a library. This room only; any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { LIBRARY_PATH = 4096 };

// Chooses the file that the environment variable `variable` names. Otherwise, if VIRGATE_SIM is set, the simulator's
// `name` (base/parts.h). Otherwise `name`, which the dynamic linker finds. Returns 0, or 1 with a sentence in
// `problem`: the simulator's file is missing.
int library_choose(const char *variable, const char *name, char ret_path[LIBRARY_PATH], bool *ret_simulated,
		   char *problem, size_t capacity);
