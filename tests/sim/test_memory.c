// Tests allocation, addresses, copies and memsets.
#include "sim_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

static CUcontext start(void)
{
	node_start("memory=256M,ctx=16M");
	return primary(0);
}

TEST(a_context_costs_memory)
{
	start();
	CHECK_INT(get_used(), 16 * MIB);
	CUcontext second;
	CU(cuCtxCreate_v2(&second, 0, 0));
	CHECK_INT(get_used(), 32 * MIB);
	CU(cuCtxDestroy_v2(second));
	start();
	CHECK_INT(get_used(), 16 * MIB);
}

TEST(small_allocations_are_in_one_granule)
{
	start();
	size_t before = get_used();
	CUdeviceptr a, b, c;
	CU(cuMemAlloc_v2(&a, 1));
	CU(cuMemAlloc_v2(&b, 1));
	CHECK_INT(b - a, 512);
	CHECK_INT(get_used() - before, 2 * MIB);
	CU(cuMemAlloc_v2(&c, 2 * MIB + 1));
	CHECK_INT(get_used() - before, 6 * MIB);
	CU(cuMemFree_v2(a));
	CU(cuMemFree_v2(b));
	CU(cuMemFree_v2(c));
	CHECK_INT(get_used(), before);
	GIVES(cuMemFree_v2(c), CUDA_ERROR_INVALID_VALUE);
	CU(cuMemFree_v2(0));
}

TEST(new_memory_is_zero_and_copies_are_exact)
{
	start();
	CUdeviceptr a, b;
	unsigned char out[4096], in[4096];
	for (size_t i = 0; i < sizeof in; i++)
		in[i] = (unsigned char)(i * 7);
	CU(cuMemAlloc_v2(&a, 8 * MIB));
	memset(out, 1, sizeof out);
	CU(cuMemcpyDtoH_v2(out, a + 4 * MIB, sizeof out));
	for (size_t i = 0; i < sizeof out; i++)
		CHECK_INT(out[i], 0);
	CU(cuMemcpyHtoD_v2(a + 5 * MIB, in, sizeof in));
	CU(cuMemAlloc_v2(&b, sizeof in));
	CU(cuMemcpyDtoD_v2(b, a + 5 * MIB, sizeof in));
	CU(cuMemcpyDtoH_v2(out, b, sizeof out));
	CHECK(memcmp(in, out, sizeof in) == 0);
	CU(cuMemFree_v2(a));
	CU(cuMemFree_v2(b));
	CU(cuMemAlloc_v2(&a, 8 * MIB)); // the driver may return the memory that was just freed; it must be zero
	CU(cuMemcpyDtoH_v2(out, a + 5 * MIB, sizeof out));
	for (size_t i = 0; i < sizeof out; i++)
		CHECK_INT(out[i], 0);
	CU(cuMemFree_v2(a));
}

TEST(copies_out_of_bounds_are_refused)
{
	start();
	CUdeviceptr a;
	char byte[8] = {0};
	CU(cuMemAlloc_v2(&a, 1000));
	GIVES(cuMemcpyHtoD_v2(a + 996, byte, 8), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyHtoD_v2(a + 100 * MIB, byte, 8), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemsetD8_v2(a, 0, 1001), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemsetD32_v2(a + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
	CU(cuMemFree_v2(a));
}

TEST(memsets_of_every_width)
{
	start();
	CUdeviceptr a;
	size_t pitch;
	CU(cuMemAllocPitch_v2(&a, &pitch, 100, 4, 4));
	CHECK_INT(pitch, 512);
	CU(cuMemsetD2D8_v2(a, pitch, 0xab, 100, 4));
	unsigned char row[512];
	CU(cuMemcpyDtoH_v2(row, a + 3 * pitch, 101));
	CHECK_INT(row[99], 0xab);
	CHECK_INT(row[100], 0);
	unsigned words[4];
	CU(cuMemsetD32_v2(a, 0x01020304, 4));
	CU(cuMemcpyDtoH_v2(words, a, sizeof words));
	CHECK_INT(words[3], 0x01020304);
	CU(cuMemFree_v2(a));
}

TEST(out_of_memory_is_not_sticky)
{
	start();
	CUdeviceptr a, b;
	GIVES(cuMemAlloc_v2(&a, 300 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cuMemAlloc_v2(&a, 200 * MIB));
	GIVES(cuMemAlloc_v2(&b, 100 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cuMemAlloc_v2(&b, 10 * MIB));
	CU(cuMemFree_v2(a));
	CU(cuMemFree_v2(b));
	GIVES(cuMemAlloc_v2(&a, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAlloc_v2(&a, (size_t)-1), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(host_dereference_faults)
{
	start();
	CUdeviceptr a;
	CU(cuMemAlloc_v2(&a, 4096));
	pid_t child = fork();
	if (child == 0) {
		// without this, a sanitizer's handler would exit instead of letting the signal end the process
		signal(SIGSEGV, SIG_DFL);
		*(volatile char *)a = 1;
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CU(cuMemFree_v2(a));
}

TEST(pinned_memory)
{
	start();
	char *p;
	CUdeviceptr device;
	unsigned flags;
	CU(cuMemHostAlloc((void **)&p, 10000, CU_MEMHOSTALLOC_PORTABLE));
	CU(cuMemHostGetDevicePointer_v2(&device, p, 0));
	CHECK_INT(device, (CUdeviceptr)(uintptr_t)p);
	CU(cuMemHostGetFlags(&flags, p));
	CHECK(flags & CU_MEMHOSTALLOC_PORTABLE);
	GIVES(cuMemHostUnregister(p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	CU(cuMemFreeHost(p));
	GIVES(cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
	static char mine[10000];
	CU(cuMemHostRegister_v2(mine, sizeof mine, 0));
	GIVES(cuMemHostRegister_v2(mine, sizeof mine, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	CU(cuMemHostUnregister(mine));
}

TEST(lookup_by_name)
{
	start();
	void *function = NULL;
	CUdriverProcAddressQueryResult status;
	CU(cuGetProcAddress_v2("cuMemAlloc", &function, 13000, 0, &status));
	CHECK(function == (void *)cuMemAlloc_v2 && status == CU_GET_PROC_ADDRESS_SUCCESS);
	CU(cuGetProcAddress_v2("cuStreamQuery", &function, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
			       &status));
	CHECK(function == (void *)cuStreamQuery_ptsz);
	CU(cuGetProcAddress_v2("cuGreenCtxCreate", &function, 11000, 0, &status));
	CHECK(!function && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	CU(cuGetProcAddress_v2("cuNothing", &function, 13000, 0, &status));
	CHECK(!function && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	function = &function;
	CU(cuGetProcAddress_v2("cuNothing", &function, 13000, 0, NULL));
	CHECK(!function);
}

enum { ROUNDS = 60 };

struct churn {
	CUcontext context;
	// The address of an allocation in a managed pool; 0: none yet. The allocation may be freed already.
	_Atomic CUdeviceptr address;
	_Atomic unsigned refused; // how often advice was refused because the memory was still allocated
	_Atomic bool ends;
};

// Frees each allocation while the other thread gives advice on it.
static void *allocate_and_free(void *user)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	struct churn *churn = user;

	CU(cuCtxSetCurrent(churn->context));
	for (int i = 0; i < ROUNDS; i++) {
		unsigned before = churn->refused;
		CUmemoryPool pool;
		CUdeviceptr address;
		CU(cuMemPoolCreate(&pool, &properties));
		CU(cuMemAllocFromPoolAsync(&address, 2 * MIB, pool, CU_STREAM_PER_THREAD));
		CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
		churn->address = address;
		while (churn->refused == before)
			sched_yield();
		CU(cuMemFreeAsync(address, CU_STREAM_PER_THREAD));
		CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
		CU(cuMemPoolDestroy(pool));
	}
	churn->ends = true;
	return NULL;
}

// Gives advice on memory while another thread frees it. With the thread sanitizer, the test fails if the driver reads
// its table of memory without the lock.
TEST(advice_is_safe_while_another_thread_frees_the_memory)
{
	struct churn churn = {.context = start()};
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	pthread_t thread;

	CHECK_INT(pthread_create(&thread, NULL, allocate_and_free, &churn), 0);
	while (!churn.ends) {
		// Advice on memory of this pool is refused, because the pool determines the location. Once the memory
		// is freed, another error is right, too.
		CUresult result = cuMemAdvise_v2(churn.address, MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, here);
		churn.refused += result == CUDA_ERROR_NOT_SUPPORTED;
		sched_yield();
	}
	pthread_join(thread, NULL);
}
