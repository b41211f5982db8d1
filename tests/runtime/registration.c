// Tests the registration interface: registering and unregistering images, and the stack of launch configurations.
#include "cudart.h"
#include "registration.h"

static char stub, other_stub, variable;

static void register_function(void **handle, const char *key, const char *name)
{
	__cudaRegisterFunction(handle, key, (char *)name, name, -1, NULL, NULL, NULL, NULL, NULL);
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
	GIVES(launch_with(&stub, 1, 1, NULL, NULL), cudaErrorInvalidResourceHandle);
	GIVES(cudaMemcpyFromSymbol(&value, &variable, 4, 0, cudaMemcpyDeviceToHost), cudaErrorInvalidSymbol);
}

CONFORM(image_is_registered_and_unregistered)
{
	run_child("order", NULL);
}

CONFORM(launch_configurations_are_a_stack)
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
