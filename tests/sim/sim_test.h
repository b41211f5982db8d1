// Creates a simulated node for the test program, in a directory that is removed at its end.
#pragma once

#include "abi/cuda_abi.h"
#include "test.h"

#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define CU(call) CHECK_INT(call, CUDA_SUCCESS)
#define GIVES(call, want) CHECK_INT(call, want)

static char node_directory[64];
static pid_t node_owner;

static int node_unlink(const char *path, const struct stat *status, int type, struct FTW *where)
{
	return remove(path);
}

static void node_remove(void)
{
	if (getpid() == node_owner)
		nftw(node_directory, node_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

// Creates the simulated node, before the first driver call. Later calls do nothing.
static inline void node_start(const char *spec)
{
	if (node_owner)
		return;
	strcpy(node_directory, "/tmp/virgate-sim-test-XXXXXX");
	if (!mkdtemp(node_directory))
		abort();
	node_owner = getpid();
	setenv("VIRGATE_SIM", spec, 1);
	setenv("VIRGATE_SIM_DIR", node_directory, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	atexit(node_remove);
}

__attribute__((unused)) static CUcontext primary(CUdevice device)
{
	CUcontext context;
	CU(cuInit(0));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
	return context;
}

__attribute__((unused)) static size_t get_used(void)
{
	size_t free, total;
	CU(cuMemGetInfo_v2(&free, &total));
	return total - free;
}
