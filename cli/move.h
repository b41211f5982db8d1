// Suspends and resumes vGPUs: asks the daemon, waits for the processes, and prints the result for each process. One
// thread.
#pragma once
#include "session.h"

// Suspend or resume the processes. Both return the verb's exit code: EXIT_OK, EXIT_NOT_MOVED if the memory of a process
// was not moved, or EXIT_FAILED if the daemon refused the request.
int suspend_memory(const struct arguments *arguments);
int resume_memory(const struct arguments *arguments);
// Suspends one vGPU in a session of checkpoint_open_session(). Returns the same exit codes as suspend_memory().
int suspend_vgpu(const struct arguments *arguments, struct session *session, const char *name);
