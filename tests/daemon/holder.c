// A tenant: allocates the given number of MiB, writes "ready" to standard output, and waits until it is killed.
#include "abi/cuda_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOAD(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(driver, #name)

int main(int argc, char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext context;
	CUdeviceptr address;
	CUdevice device;

	if (!driver || argc < 2)
		return 1;
	LOAD(cuInit);
	LOAD(cuDeviceGet);
	LOAD(cuDevicePrimaryCtxRetain);
	LOAD(cuCtxSetCurrent);
	LOAD(cuMemAlloc_v2);
	if (p_cuInit(0) || p_cuDeviceGet(&device, 0) || p_cuDevicePrimaryCtxRetain(&context, device) ||
	    p_cuCtxSetCurrent(context) || p_cuMemAlloc_v2(&address, (size_t)atoi(argv[1]) << 20))
		return 2;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
