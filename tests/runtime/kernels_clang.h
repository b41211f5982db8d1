// Adapts kernels.cu to clang, which has no managed variables, and which names the host function that launches a kernel
// __device_stub__KERNEL. The device code of that build is kernels.ptx: the bodies of kernels are not used.
#pragma once

#include <dlfcn.h>

#define SYNCHRONIZE_GRID()
#define READ_TEXEL(texture, index) 0

// The names that C code gives to cudaLaunchKernel
#define KERNEL(name) asm(".globl " #name "\n.set " #name ", __device_stub__" #name);
KERNEL(empty)
KERNEL(store)
KERNEL(add)
KERNEL(spin)
KERNEL(wait_for)
KERNEL(wild)
KERNEL(trapped)
KERNEL(use_variables)
KERNEL(dynamic_shared)
KERNEL(static_shared)
KERNEL(bounded)
KERNEL(sum_of_grid)
KERNEL(by_value)
KERNEL(read_texel)
KERNEL(say)
KERNEL(count_up)
#undef KERNEL

static int *shared_counter_address; // set by the runtime
#define shared_counter (*shared_counter_address)

// Registers the managed variable with the first image, which is this file's. Replaces the runtime's function.
extern "C" {
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext, size_t size,
			      int constant, int global);
void __cudaRegisterFatBinaryEnd(void **handle)
{
	static bool is_registered;

	if (!is_registered)
		__cudaRegisterManagedVar(handle, (void **)&shared_counter_address, (char *)"shared_counter",
					 "shared_counter", 0, sizeof(int), 0, 0);
	is_registered = true;
	((void (*)(void **))dlsym(RTLD_NEXT, "__cudaRegisterFatBinaryEnd"))(handle);
}
}
