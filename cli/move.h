// The verbs suspend and resume: ask the daemon, wait for the processes, and print the result for each. One thread.
#pragma once
#include "verb.h"

// Suspend or resume the processes. Both return the verb's exit code: EXIT_OK, EXIT_NOT_MOVED if the memory of a process
// was not moved, or EXIT_FAILED if the daemon refused the request.
int suspend_memory(const struct arguments *arguments);
int resume_memory(const struct arguments *arguments);
