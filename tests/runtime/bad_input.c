// Tests bad input: invalid images, incomplete registrations, invalid device numbers, freed handles.
#include "cudart.h"
#include "registration.h"

// machine.cu defines this kernel, which only GPUs of compute capability 7.5 can run. If the tests are built without
// nvcc, it is missing.
__attribute__((weak)) void machine_code(int *to);

static char stub, other_stub, variable;

#define PTX_OF(version, body) ".version " version "\n.target sm_75\n.address_size 64\n" body
#define NOTHING ".visible .global .u32 word = 6;\n.visible .entry nothing() { ret; }\n"

// Registers an image with one kernel and one variable.
static void **register_image(const void *data, bool with_end)
{
	// the runtime keeps the address of the wrapper, so it must not be on the stack
	struct wrapper *wrapper = malloc(sizeof *wrapper);

	CHECK(wrapper != NULL);
	*wrapper = (struct wrapper){0x466243b1, 1, data, NULL};
	void **handle = __cudaRegisterFatBinary(wrapper);
	__cudaRegisterFunction(handle, &stub, (char *)"nothing", "nothing", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterVar(handle, &variable, (char *)"word", "word", 0, 4, 0, 0);
	if (with_end)
		__cudaRegisterFatBinaryEnd(handle);
	return handle;
}

// Checks that an image that cannot be loaded makes every use of its kernel fail with the reason, also the second time.
// Other images must work as before.
static void expect_unusable(const void *kernel, cudaError_t why)
{
	struct cudaFuncAttributes attributes;
	int blocks = -1, *to;

	GIVES_LAST(launch_with(kernel, 1, 1, NULL, NULL), why);
	GIVES_LAST(launch_with(kernel, 1, 1, NULL, NULL), why);
	GIVES_LAST(cudaFuncGetAttributes(&attributes, kernel), why);
	GIVES_LAST(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024), why);
	GIVES_LAST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 32, 0), why);
	GIVES_LAST(cudaLaunchCooperativeKernel(kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL), why);
	WORKS(cudaDeviceSynchronize());
	to = need_ints(1);
	launch_store(to, 5, NULL);
	EQUALS(read_int(to), 5);
	WORKS(cudaFree(to));
}

static void expect_no_variable(cudaError_t why)
{
	void *address;
	size_t size;
	int value = 1;

	GIVES_LAST(cudaMemcpyToSymbol(&variable, &value, 4, 0, cudaMemcpyHostToDevice), why);
	GIVES_LAST(cudaMemcpyFromSymbol(&value, &variable, 4, 0, cudaMemcpyDeviceToHost), why);
	GIVES_LAST(cudaGetSymbolAddress(&address, &variable), why);
	GIVES_LAST(cudaGetSymbolSize(&size, &variable), why);
}

CHILD(machine_code)
{
	int major = 0;

	WORKS(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
	if (major != 7)
		expect_unusable(machine_code, cudaErrorNoKernelImageForDevice);
}

CONFORM(machine_code_of_another_architecture_is_rejected)
{
	if (!machine_code)
		NO_BUILT_FILE("machine.o");
	run_child("machine_code", NULL);
}

static const struct {
	const char *name, *data;
	cudaError_t why;
} images[] = {
	{"garbage", "this is no fat binary, and no PTX", cudaErrorInvalidKernelImage},
	{"syntax", PTX_OF("7.5", ".visible .entry nothing() { this is no instruction; }\n"), cudaErrorInvalidPtx},
	{"cut", PTX_OF("7.5", ".visible .global .u32 word = 6;\n.visible .entry nothing() { re"), cudaErrorInvalidPtx},
	{"later", PTX_OF("99.0", NOTHING), cudaErrorUnsupportedPtxVersion},
};

CHILD(damaged)
{
	for (size_t i = 0; i < sizeof images / sizeof *images; i++)
		if (strcmp(argument, images[i].name) == 0) {
			void **handle = register_image(images[i].data, true);
			expect_unusable(&stub, images[i].why);
			expect_no_variable(images[i].why);
			__cudaUnregisterFatBinary(handle);
			return;
		}
	FAIL("no image %s", argument);
}

CONFORM(damaged_images_are_rejected)
{
	for (size_t i = 0; i < sizeof images / sizeof *images; i++)
		run_child("damaged", images[i].name);
}

// Registers a fat binary that consists only of its header.
CHILD(empty)
{
	static const struct {
		unsigned magic;
		unsigned short version, header_size;
		unsigned long long size;
	} nothing = {0xba55ed50, 1, 16, 0};

	register_image(&nothing, true);
	expect_unusable(&stub, cudaErrorNoKernelImageForDevice);
	expect_no_variable(cudaErrorNoKernelImageForDevice);
}

CONFORM(empty_fat_binary)
{
	run_child("empty", NULL);
}

// Registers an image without __cudaRegisterFatBinaryEnd(), as object files of compilers before CUDA 10.1 do.
CHILD(without_end)
{
	int value = 0;

	register_image(PTX_OF("7.5", NOTHING), false);
	WORKS(launch_with(&stub, 1, 1, NULL, NULL));
	WORKS(cudaMemcpyFromSymbol(&value, &variable, 4, 0, cudaMemcpyDeviceToHost));
	EQUALS(value, 6);
	WORKS(cudaDeviceSynchronize());
}

CONFORM(registration_without_end_works)
{
	run_child("without_end", NULL);
}

// A kernel's stub must be unknown before its registration, and known after it.
CHILD(late)
{
	int value = 0;

	WORKS(cudaFree(NULL));
	GIVES_LAST(launch_with(&stub, 1, 1, NULL, NULL), cudaErrorInvalidResourceHandle);
	expect_no_variable(cudaErrorInvalidSymbol);
	void **handle = register_image(PTX_OF("7.5", NOTHING), true);
	WORKS(launch_with(&stub, 1, 1, NULL, NULL));
	WORKS(cudaMemcpyFromSymbol(&value, &variable, 4, 0, cudaMemcpyDeviceToHost));
	EQUALS(value, 6);
	WORKS(cudaDeviceSynchronize());
	__cudaUnregisterFatBinary(handle);
	GIVES_LAST(launch_with(&stub, 1, 1, NULL, NULL), cudaErrorInvalidResourceHandle);
	expect_no_variable(cudaErrorInvalidSymbol);
}

CONFORM(launch_before_registration_fails)
{
	run_child("late", NULL);
}

// The runtime must refuse a variable where it expects a kernel, and a kernel where it expects a variable.
CHILD(mixed)
{
	void *address;

	register_image(PTX_OF("7.5", NOTHING), true);
	GIVES_LAST(launch_with(&variable, 1, 1, NULL, NULL), cudaErrorInvalidResourceHandle);
	GIVES_LAST(cudaGetSymbolAddress(&address, &stub), cudaErrorInvalidSymbol);
	GIVES_LAST(launch_with(&other_stub, 1, 1, NULL, NULL), cudaErrorInvalidResourceHandle);
}

CONFORM(kernels_and_variables_are_distinguished)
{
	run_child("mixed", NULL);
}

CONFORM(invalid_device_ordinals_are_rejected)
{
	struct cudaDeviceProp properties;
	char bus[32];
	cudaMemPool_t pool;
	int none = 0, value = 0;

	WORKS(cudaGetDeviceCount(&none));
	for (int pass = 0; pass < 2; pass++) {
		int device = pass ? -1 : none;
		GIVES_LAST(cudaSetDevice(device), cudaErrorInvalidDevice);
		GIVES_LAST(cudaInitDevice(device, 0, 0), cudaErrorInvalidDevice);
		GIVES_LAST(cudaGetDeviceProperties(&properties, device), cudaErrorInvalidDevice);
		GIVES_LAST(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, device), cudaErrorInvalidDevice);
		GIVES_LAST(cudaDeviceGetPCIBusId(bus, sizeof bus, device), cudaErrorInvalidDevice);
		GIVES_LAST(cudaDeviceCanAccessPeer(&value, 0, device), cudaErrorInvalidDevice);
		GIVES_LAST(cudaDeviceCanAccessPeer(&value, device, 0), cudaErrorInvalidDevice);
		GIVES_LAST(cudaDeviceEnablePeerAccess(device, 0), cudaErrorInvalidDevice);
		GIVES_LAST(cudaDeviceDisablePeerAccess(device), cudaErrorInvalidDevice);
		GIVES_LAST(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, device),
			   cudaErrorInvalidDevice);
		GIVES_LAST(cudaDeviceGetDefaultMemPool(&pool, device), cudaErrorInvalidDevice);
		GIVES_LAST(cudaDeviceGetMemPool(&pool, device), cudaErrorInvalidValue);
	}
	WORKS(cudaGetDevice(&value));
	EQUALS(value, 0);
}

CHILD(freed_memory)
{
	void *device, *host;
	char text[4] = "";

	NEED(cudaMalloc(&device, 4096));
	NEED(cudaMallocHost(&host, 4096));
	WORKS(cudaFree(device));
	WORKS(cudaFreeHost(host));
	GIVES_LAST(cudaFree(device), cudaErrorInvalidValue);
	GIVES_LAST(cudaFreeHost(host), cudaErrorInvalidValue);
	GIVES_LAST(cudaMemcpy(device, text, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	GIVES_LAST(cudaMemset(device, 0, 4), cudaErrorInvalidValue);
	GIVES_LAST(cudaFreeAsync(device, NULL), cudaErrorInvalidValue);
	WORKS(cudaDeviceSynchronize());
}

CHILD(freed_pool)
{
	struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
					      .location = {.type = cudaMemLocationTypeDevice}};
	cudaMemPool_t pool;
	void *pointer;

	NEED(cudaMemPoolCreate(&pool, &properties));
	WORKS(cudaMemPoolDestroy(pool));
	GIVES_LAST(cudaMallocFromPoolAsync(&pointer, 4096, pool, NULL), cudaErrorInvalidValue);
	GIVES_LAST(cudaMemPoolTrimTo(pool, 0), cudaErrorInvalidValue);
	GIVES_LAST(cudaMemPoolDestroy(pool), cudaErrorInvalidValue);
}

// Tests handles that were freed. Leaves out streams, events and arrays that were destroyed: NVIDIA's driver ends the
// program with SIGSEGV if it gets them, also with NVIDIA's runtime.
CONFORM(freed_handles_are_rejected)
{
	run_child("freed_memory", NULL);
	run_child("freed_pool", NULL);
}
