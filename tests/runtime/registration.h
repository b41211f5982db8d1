// Declares the functions by which host code that nvcc has compiled registers its kernels and variables. Any thread may
// use this header.
#pragma once

#include <cuda_runtime_api.h>

// Describes an image of device code. nvcc puts this structure into the section .nvFatBinSegment of a program.
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
