// Runs a test in a child process, with an environment variable that configures the simulated driver. Each process has
// its own counters of faults. The parent must not use the driver before, since then its forked child could not use it.
#pragma once
#include "core_test.h"

#include <sys/wait.h>

static inline void in_child(void (*run)(void), const char *variable, const char *value)
{
	int status;

	if (!getenv("VIRGATE_SIM"))
		SKIP("%s configures the simulated driver only", variable);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		setenv(variable, value, 1);
		run();
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	if (status)
		FAIL("%s=%s: see the output of the child", variable, value);
}
