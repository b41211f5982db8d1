// Creates a simulated node for tests that call the functions of its shared region (sim/region.h) directly, without the
// driver. The directory is removed when the program ends. Include in exactly one file of a program.
#pragma once

#include "region_internal.h"
#include "test.h"

#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

static struct sim_config config;
static char directory[64];
static pid_t owner;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
	return remove(path);
}

static void remove_node(void)
{
	if (getpid() == owner)
		nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct region *join(void)
{
	struct region *region;
	char problem[400] = "";

	if (region_open(&config, &region, problem, sizeof problem) != 0)
		FAIL("%s", problem);
	return region;
}

static void make_node(const char *specification)
{
	char problem[400];

	strcpy(directory, "/tmp/virgate-sim-test-XXXXXX");
	CHECK(mkdtemp(directory));
	owner = getpid();
	atexit(remove_node);
	CHECK_INT(sim_config_parse(specification, &config, problem, sizeof problem), 0);
	snprintf(config.directory, sizeof config.directory, "%s", directory);
}
