// The verbs suspend and resume: asks the daemon, waits for the processes, and prints the result for each. One thread.
#pragma once
#include <stdbool.h>

#include "verb.h"

// The verb's exit code: EXIT_OK, EXIT_NOT_MOVED if a process did not obey, EXIT_FAILED if the daemon refused.
int move_memory(const struct arguments *arguments, bool is_out);
