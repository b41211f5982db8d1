// Managed variables. clang supports them for HIP only, so scripts/virgate-clang compiles the host code of such programs
// as HIP. Each access reads a pointer, which the runtime sets. HIP's functions for registration and launches are those
// of CUDA with other names. The constructor that clang generates calls them, and at its end
// __virgate_end_registration() instead of atexit().
#pragma once
#include <stdlib.h>
#include "host.h"

extern "C" {
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **image);
void __cudaUnregisterFatBinary(void **image);
void __cudaRegisterFunction(void **image, const char *stub, char *name, const char *device_name, int threads,
			    uint3 *thread, uint3 *block, dim3 *block_size, dim3 *grid_size, int *warp_size);
void __cudaRegisterVar(void **image, char *variable, char *address, const char *name, int is_extern, size_t size,
		       int is_constant, int is_global);
void __cudaRegisterManagedVar(void **image, void **pointer, char *address, const char *name, int is_extern, size_t size,
			      int is_constant, int is_global);
char __cudaInitModule(void **image);

// Marks a function or variable that clang's generated code uses by name. All object files of a program have a single
// copy in common. They can share it, because their constructors run one after the other.
#define CALLED_BY_CLANG __attribute__((weak, used, visibility("hidden")))
CALLED_BY_CLANG void **virgate_image;

CALLED_BY_CLANG void **__hipRegisterFatBinary(const void *given)
{
	struct wrapper {
		unsigned int magic, version;
		const void *data;
		void *unused;
	} *wrapper = (struct wrapper *)malloc(sizeof *wrapper); // never freed

	if (!wrapper)
		abort(); // the function cannot return an error
	*wrapper = {0x466243b1, 1, ((const struct wrapper *)given)->data, 0};
	virgate_image = __cudaRegisterFatBinary(wrapper);
	return virgate_image;
}
CALLED_BY_CLANG void __hipUnregisterFatBinary(void **image)
{
	__cudaUnregisterFatBinary(image);
}
CALLED_BY_CLANG int __hipRegisterFunction(void **image, const char *stub, char *name, const char *device_name,
					  int threads, uint3 *thread, uint3 *block, dim3 *block_size, dim3 *grid_size,
					  int *warp_size)
{
	__cudaRegisterFunction(image, stub, name, device_name, threads, thread, block, block_size, grid_size,
			       warp_size);
	return 0;
}
CALLED_BY_CLANG void __hipRegisterVar(void **image, char *variable, char *address, const char *name, int is_extern,
				      size_t size, int is_constant, int is_global)
{
	__cudaRegisterVar(image, variable, address, name, is_extern, size, is_constant, is_global);
}
CALLED_BY_CLANG void __hipRegisterManagedVar(void **image, void **pointer, void *, const char *name, size_t size,
					     unsigned int)
{
	__cudaRegisterManagedVar(image, pointer, (char *)name, name, 0, size, 0, 0);
}
// Allocates the variables now, because the program reads their pointers without a call.
CALLED_BY_CLANG int __virgate_end_registration(void (*unregister)(void))
{
	__cudaRegisterFatBinaryEnd(virgate_image);
	__cudaInitModule(virgate_image);
	return atexit(unregister);
}
CALLED_BY_CLANG unsigned int __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0,
							cudaStream_t stream = 0)
{
	return __cudaPushCallConfiguration(grid, block, shared, stream);
}
CALLED_BY_CLANG cudaError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	return __cudaPopCallConfiguration(grid, block, shared, stream);
}
CALLED_BY_CLANG cudaError_t hipLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
					    cudaStream_t stream)
{
	return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
#undef CALLED_BY_CLANG
}
