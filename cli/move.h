// The verbs suspend and resume: ask the daemon, wait for the processes, and print the result for each. One thread.
#pragma once
#include "verb.h"

// Move memory to the host, or back to the GPU. Return the verb's exit code: EXIT_OK, EXIT_NOT_MOVED if the memory of a
// process was not moved, EXIT_FAILED if the daemon refused.
int suspend_memory(const struct arguments *arguments);
int resume_memory(const struct arguments *arguments);
