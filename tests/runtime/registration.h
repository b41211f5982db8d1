// Declares the registration interface, which host code compiled by nvcc calls. Any thread.
#pragma once

#include <cuda_runtime_api.h>

// The description of an image in a program's section .nvFatBinSegment.
struct wrapper {
	int magic, version;
	const void *data;
	void *file;
};

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device, const char *name, int limit, uint3 *tid,
			    uint3 *bid, dim3 *block, dim3 *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant,
		       int global);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
