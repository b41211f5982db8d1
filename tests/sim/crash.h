// Helpers of tests that kill or stop a process at every step of its work with the simulated node. The sources of the
// node's shared region (sim/region*.c) are built with a call of region_step() at each step. Include this header in
// exactly one file of a program.
#pragma once

#include "region_node.h"

static int steps_left = -1, step_signal = SIGKILL;
static bool reached_end; // whether the work ended before run_until() reached the step

void region_step(const char *where)
{
	if (steps_left >= 0 && steps_left-- == 0)
		kill(getpid(), step_signal);
}

// Starts a child that does the work, and that sends itself the signal when it reaches the step.
static pid_t start_until(void (*work)(void), int step)
{
	pid_t child = fork();

	if (child == 0) {
		steps_left = step;
		work();
		_exit(0);
	}
	return child;
}

static void run_until(void (*work)(void), int step)
{
	int status;
	pid_t child = start_until(work, step);

	CHECK_INT(waitpid(child, &status, 0), child);
	if (WIFEXITED(status))
		CHECK_INT(WEXITSTATUS(status), 0);
	reached_end = WIFEXITED(status);
}

#define MUST(call)                \
	do {                      \
		if ((call) != 0)  \
			_exit(3); \
	} while (0)
