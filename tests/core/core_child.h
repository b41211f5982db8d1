// Runs a test in a child process, whose simulated driver is configured by a variable. The driver counts faults per
// process. A child cannot use a driver that its parent used: this process must not use it before.
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
