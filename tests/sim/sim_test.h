// Starts a simulated node of the test's own, in a folder that goes away with it.
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

static char node_folder[64];
static pid_t node_owner;

static int node_unlink(const char *path, const struct stat *status, int type, struct FTW *where)
{
	return remove(path);
}

static void node_remove(void)
{
	if (getpid() == node_owner)
		nftw(node_folder, node_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

// Once a program: before the first driver call.
static inline void node_start(const char *spec)
{
	if (node_owner)
		return;
	strcpy(node_folder, "/tmp/virgate-sim-test-XXXXXX");
	if (!mkdtemp(node_folder))
		abort();
	node_owner = getpid();
	setenv("VIRGATE_SIM", spec, 1);
	setenv("VIRGATE_SIM_DIR", node_folder, 1);
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

__attribute__((unused)) static void nap_ms(long ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&time, NULL);
}
