// Declares the registered images, and their symbols. A symbol is a function or variable of the host program that stands
// for a kernel or a device variable. Any thread.
#pragma once

#include "runtime.h"

struct rt_image;

enum rt_symbol_kind { RT_FUNCTION, RT_VARIABLE, RT_MANAGED, RT_KERNEL };

struct rt_symbol {
	enum rt_symbol_kind kind;
	const void *key;	// host function, host variable, address of a managed variable, or kernel handle
	const char *name;	// name of the symbol in the image
	struct rt_image *image; // NULL: a kernel of a library that the program has loaded
	void **managed;		// the program's pointer to a managed variable
	size_t size;
	_Atomic(CUkernel) kernel;
	CUlibrary library;
	struct rt_symbol *next; // next symbol of the same image
};

// Adds a symbol to the table of symbols, which is searched by key.
cudaError_t rt_table_add(struct rt_symbol *symbol);
void rt_table_remove(const struct rt_symbol *symbol);
// Finds a symbol by its key. NULL: the key is unknown.
struct rt_symbol *rt_table_find(const void *key);
// Returns the key of the symbol that stands for a kernel. NULL: not found.
const void *rt_table_find_kernel(CUkernel kernel, CUfunction function);
// Removes and frees the kernels of a library that the program unloads.
void rt_table_remove_library(CUlibrary library);

// Loads an image into the driver, unless it is loaded.
cudaError_t rt_image_load(struct rt_image *image, CUlibrary *ret_library);

// Finds the kernel of a host function or a kernel handle. cudaErrorInvalidDeviceFunction: `function` is NULL, or the
// image has no such kernel. cudaErrorInvalidResourceHandle: `function` is neither a registered function nor a handle.
cudaError_t rt_kernel_find(const void *function, CUkernel *ret_kernel);
cudaError_t rt_symbol_kernel(struct rt_symbol *symbol, CUkernel *ret_kernel);
// Adds a kernel handle to the table, so that the program can pass it in place of a host function.
cudaError_t rt_kernel_add(CUkernel kernel, CUlibrary library);

// Finds the address and size of a registered variable in the current context. cudaErrorInvalidSymbol: the variable is
// not registered.
cudaError_t rt_variable_find(const void *symbol, CUdeviceptr *ret_address, size_t *ret_size);

// Finds the kernel of a host function, as a function of the current context.
cudaError_t rt_function_find(const void *function, CUfunction *ret_function);

// Converts a launch configuration to the driver's. The attributes are not copied.
cudaError_t rt_launch_config(const cudaLaunchConfig_t *config, CUlaunchConfig *ret_config);
