// What the registration interface does with images that cannot be loaded, and with calls in another order.
#include <dlfcn.h>

#include "cudart.h"

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device, const char *name, int limit, uint3 *tid,
			    uint3 *bid, dim3 *block, dim3 *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant,
		       int global);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);

void machine_code(int *to); // of machine.cu: for a GPU of compute capability 7.5 alone

static char stub, other_stub, variable;

struct wrapper {
	int magic, version;
	const void *data;
	void *file;
};

static void register_function(void **handle, const char *key, const char *name)
{
	__cudaRegisterFunction(handle, key, (char *)name, name, -1, NULL, NULL, NULL, NULL, NULL);
}

CHILD(machine_code)
{
	int *to, major = 0;

	WORKS(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
	if (major == 7)
		return;
	NEED(cudaMalloc((void **)&to, 4));
	GIVES(launch_with(machine_code, 1, 1, (void *[]){&to}, NULL), cudaErrorNoKernelImageForDevice);
	GIVES(cudaGetLastError(), cudaErrorNoKernelImageForDevice);
	struct cudaFuncAttributes attributes;
	GIVES(cudaFuncGetAttributes(&attributes, machine_code), cudaErrorNoKernelImageForDevice);
	GIVES(cudaGetLastError(), cudaErrorNoKernelImageForDevice);
	launch_store(to, 5, NULL); // other images are not affected
	EQUALS(read_int(to), 5);
}

CONFORM(machine_code_for_another_gpu)
{
	run_child("machine_code", NULL);
}

CHILD(damaged)
{
	static const char garbage[256] = "this is no fat binary";
	static struct wrapper wrapper = {0x466243b1, 1, garbage, NULL};
	void **handle = __cudaRegisterFatBinary(&wrapper);

	register_function(handle, &stub, "anything");
	__cudaRegisterFatBinaryEnd(handle);
	FAILS(launch_with(&stub, 1, 1, NULL, NULL));
	HOLDS(cudaGetLastError() != cudaSuccess);
	__cudaUnregisterFatBinary(handle);
}

CONFORM(a_damaged_image)
{
	run_child("damaged", NULL);
}

static const char ptx[] = ".version 7.5\n.target sm_75\n.address_size 64\n"
			  ".visible .global .u32 word = 6;\n.visible .entry nothing() { ret; }\n";

CHILD(order)
{
	static struct wrapper wrapper = {0x466243b1, 1, ptx, NULL};
	void **handle = __cudaRegisterFatBinary(&wrapper);
	int value = 0;

	WORKS(cudaFree(NULL));
	register_function(handle, &stub, "nothing");
	__cudaRegisterVar(handle, &variable, (char *)"word", "word", 0, 4, 0, 0);
	__cudaRegisterFatBinaryEnd(handle);
	register_function(handle, &other_stub, "is_not_there"); // after the end
	WORKS(launch_with(&stub, 1, 1, NULL, NULL));
	FAILS(launch_with(&other_stub, 1, 1, NULL, NULL));
	WORKS(cudaMemcpyFromSymbol(&value, &variable, 4, 0, cudaMemcpyDeviceToHost));
	EQUALS(value, 6);
	WORKS(cudaDeviceSynchronize());
	cudaGetLastError();
	__cudaUnregisterFatBinary(handle);
	GIVES(launch_with(&stub, 1, 1, NULL, NULL), cudaErrorInvalidDeviceFunction);
	GIVES(cudaMemcpyFromSymbol(&value, &variable, 4, 0, cudaMemcpyDeviceToHost), cudaErrorInvalidSymbol);
}

CONFORM(an_image_comes_and_goes)
{
	run_child("order", NULL);
}

CONFORM(configurations_are_a_stack)
{
	dim3 grid, block;
	size_t shared = 0;
	cudaStream_t stream = NULL;

	EQUALS(__cudaPushCallConfiguration((dim3){1, 2, 3}, (dim3){4, 5, 6}, 7, cudaStreamLegacy), 0);
	EQUALS(__cudaPushCallConfiguration((dim3){8, 1, 1}, (dim3){9, 1, 1}, 10, NULL), 0);
	WORKS(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
	EQUALS(grid.x, 8);
	EQUALS(shared, 10);
	WORKS(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
	EQUALS(grid.z, 3);
	EQUALS(block.y, 5);
	HOLDS(stream == cudaStreamLegacy);
	GIVES_LAST(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
	for (int i = 0; i < 1000; i++)
		EQUALS(__cudaPushCallConfiguration((dim3){(unsigned)i, 1, 1}, (dim3){1, 1, 1}, 0, NULL), 0);
	for (int i = 999; i >= 0; i--) {
		WORKS(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
		EQUALS(grid.x, i);
	}
}
