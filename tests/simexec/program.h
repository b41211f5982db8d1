// Helpers of the tests of this directory: they load the kernels of kernels.cu, create a context, and use words of
// device memory.
#pragma once

#include "sim/sim_test.h"

static CUmodule kernels;

// Reads a file of the build directory, and appends a 0 byte. The caller frees the contents.
__attribute__((unused)) static char *read_built(const char *name, size_t *ret_size)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", BUILT, name);
	FILE *file = fopen(path, "r");
	if (!file)
		NO_BUILT_FILE(name);
	char *data = calloc(1, 1 << 20);
	size_t size = fread(data, 1, (1 << 20) - 1, file);
	fclose(file);
	if (ret_size)
		*ret_size = size;
	return data;
}

__attribute__((unused)) static void load_kernels(void)
{
	node_start("memory=1G");
	primary(0);
	if (kernels)
		return;
	char *ptx = read_built("kernels.ptx", NULL);
	CU(cuModuleLoadData(&kernels, ptx));
	free(ptx);
}

__attribute__((unused)) static CUfunction kernel(const char *name)
{
	CUfunction function;
	CU(cuModuleGetFunction(&function, kernels, name));
	return function;
}

__attribute__((unused)) static CUdeviceptr words(size_t count)
{
	CUdeviceptr address;
	CU(cuMemAlloc_v2(&address, count * 4));
	CU(cuMemsetD32_v2(address, 0, count));
	return address;
}

__attribute__((unused)) static int word(CUdeviceptr address)
{
	int value;
	CU(cuMemcpyDtoH_v2(&value, address, sizeof value));
	return value;
}

static char output[8192];

// Runs a part in a child, with the faults of the specification unless it is NULL. Stores what it writes in `output`.
__attribute__((unused)) static void run_with_fault(const char *specification, void (*part)(void))
{
	node_start("memory=1G");
	FILE *file = tmpfile();
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		dup2(fileno(file), 1);
		dup2(fileno(file), 2);
		if (specification)
			setenv("VIRGATE_SIM_FAULT", specification, 1);
		part();
		fflush(stdout);
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	rewind(file);
	output[fread(output, 1, sizeof output - 1, file)] = 0;
	fclose(file);
	if (status != 0)
		FAIL("%s: status %#x: %s", specification ? specification : "without faults", status, output);
}

#define LAUNCH(function, blocks, threads, shared, stream, ...) \
	cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, (void *[]){__VA_ARGS__}, NULL)
