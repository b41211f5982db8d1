// A test in a process of its own, whose simulated driver is told something else by a variable. Faults are counted per
// process, and no fork has use of a driver that its parent used: so before this process uses it.
#pragma once
#include "core_test.h"

#include <sys/wait.h>

static inline void in_child(void (*run)(void), const char *variable, const char *value)
{
	int status;

	if (!getenv("VIRGATE_SIM"))
		SKIP("%s is for the simulated driver", variable);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		setenv(variable, value, 1);
		run();
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	if (status)
		FAIL("%s=%s: the child says more", variable, value);
}
