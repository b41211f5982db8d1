// Helpers of the tests that kill and stop processes at every step of what they do with the node. The region's sources
// are built with a hook at each step. Include in exactly one file per program.
#pragma once

#include "region_internal.h"
#include "test.h"

#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

static struct sim_config config;
static char folder[64];
static pid_t owner;
static int steps_left = -1, step_signal = SIGKILL;
static bool reached_end; // no step was left to be hit

void region_step(const char *where)
{
	if (steps_left >= 0 && steps_left-- == 0)
		kill(getpid(), step_signal);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
	return remove(path);
}

static void remove_node(void)
{
	if (getpid() == owner)
		nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct region *join(void)
{
	struct region *region;
	char problem[400] = "";

	if (region_open(&config, false, &region, problem, sizeof problem) != 0)
		FAIL("%s", problem);
	return region;
}

static void make_node(const char *specification)
{
	char problem[400];

	strcpy(folder, "/tmp/virgate-sim-test-XXXXXX");
	CHECK(mkdtemp(folder));
	owner = getpid();
	atexit(remove_node);
	CHECK_INT(sim_config_parse(specification, &config, problem, sizeof problem), 0);
	snprintf(config.folder, sizeof config.folder, "%s", folder);
}

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

#define MUST(call)                                                                                                     \
	do {                                                                                                           \
		if ((call) != 0)                                                                                       \
			_exit(3);                                                                                      \
	} while (0)
