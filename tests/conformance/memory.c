// Tests linear memory: allocation and its rounding, pitch, frees, pointers, sets, copies, host memory.
#include "conformance.h"

#include <fcntl.h>
#include <sys/mman.h>

static CUdeviceptr need_memory(size_t bytes)
{
	CUdeviceptr address = 0;

	NEED(cuMemAlloc(&address, bytes));
	return address;
}

CONFORM(invalid_allocations)
{
	CUdeviceptr address = 77;

	need_context();
	GIVES(cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAlloc(NULL, 16), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAlloc(&address, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
	EQUALS(address, 0);  // the failed call writes 0
	WORKS(cuMemFree(0)); // like free(NULL)
	GIVES(cuMemFree(0x1000), CUDA_ERROR_INVALID_VALUE);
	address = need_memory(4096);
	GIVES(cuMemFree(address + 16), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFree(address));
	GIVES(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(blocks_of_two_mebibytes)
{
	CUdeviceptr small[3], large;
	size_t before;

	need_context();
	// keeps the driver's block for small allocations in use, so that it is not freed during the test
	CUdeviceptr keep = need_memory(16);
	before = memory_used();
	for (int i = 0; i < 3; i++) {
		small[i] = need_memory(1);
		EQUALS(small[i] % 512, 0);
	}
	EQUALS(small[1] - small[0], 512);
	EQUALS(small[2] - small[1], 512);
	EQUALS(memory_used(), before);
	for (int i = 0; i < 3; i++)
		WORKS(cuMemFree(small[i]));
	large = need_memory(2 * MiB);
	EQUALS(large % (2 * MiB), 0);
	EQUALS(memory_used() - before, 2 * MiB);
	WORKS(cuMemFree(large));
	EQUALS(memory_used(), before);
	large = need_memory(2 * MiB + 1);
	EQUALS(memory_used() - before, 4 * MiB);
	WORKS(cuMemFree(large));
	large = need_memory(100 * MiB);
	EQUALS(memory_used() - before, 100 * MiB);
	WORKS(cuMemFree(large));
	EQUALS(memory_used(), before);
	WORKS(cuMemFree(keep));
}

CONFORM(small_allocations_share_blocks)
{
	CUdeviceptr parts[5];
	size_t before;

	need_context();
	before = memory_used();
	for (int i = 0; i < 5; i++)
		parts[i] = need_memory(MiB);
	BETWEEN(memory_used() - before, 4 * MiB, 6 * MiB);
	for (int i = 0; i < 5; i++)
		WORKS(cuMemFree(parts[i]));
	EQUALS(memory_used(), before);
}

CONFORM(memory_information)
{
	size_t available = 0, total = 0;

	need_context();
	WORKS(cuMemGetInfo(&available, NULL));
	WORKS(cuMemGetInfo(NULL, &total));
	WORKS(cuMemGetInfo(NULL, NULL));
	HOLDS(available > 0 && available < total);
}

CONFORM(exhaustion_is_exact_and_leaves_no_trace)
{
	CUdeviceptr rest = 0, more = 0;
	size_t available = 0, total = 0, before;

	need_context();
	before = memory_used();
	NEED(cuMemGetInfo(&available, &total));
	GIVES(cuMemAlloc(&rest, available + 64 * MiB), CUDA_ERROR_OUT_OF_MEMORY);
	EQUALS(memory_used(), before);
	GIVES(cuMemAlloc(&more, total), CUDA_ERROR_OUT_OF_MEMORY);
	WORKS(cuMemAlloc(&more, 4096));
	WORKS(cuMemFree(more));
}

CONFORM(fresh_memory_is_zero)
{
	static unsigned char host[4 * MiB];
	CUdeviceptr address;
	size_t dirty = 0;

	need_context();
	address = need_memory(sizeof host);
	WORKS(cuMemsetD8(address, 0xa5, sizeof host));
	WORKS(cuMemFree(address));
	address = need_memory(sizeof host);
	WORKS(cuMemcpyDtoH(host, address, sizeof host));
	for (size_t i = 0; i < sizeof host; i++)
		dirty += host[i] != 0;
	EQUALS(dirty, 0);
	WORKS(cuMemFree(address));
}

CONFORM(pitch)
{
	CUdeviceptr address = 0;
	size_t pitch = 0, before;

	need_context();
	WORKS(cuMemAllocPitch(&address, &pitch, 1000, 10, 4));
	EQUALS(pitch, 1024);
	WORKS(cuMemFree(address));
	WORKS(cuMemAllocPitch(&address, &pitch, 1, 1, 4));
	EQUALS(pitch, 512);
	WORKS(cuMemFree(address));
	WORKS(cuMemAllocPitch(&address, &pitch, 513, 3, 16));
	EQUALS(pitch, 1024);
	WORKS(cuMemFree(address));
	before = memory_used();
	WORKS(cuMemAllocPitch(&address, &pitch, 4097, 4096, 8));
	EQUALS(pitch, 4608);
	EQUALS(memory_used() - before, 18 * MiB); // pitch * height
	WORKS(cuMemFree(address));
	EQUALS(memory_used(), before);
	GIVES(cuMemAllocPitch(&address, &pitch, 100, 10, 3), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAllocPitch(&address, &pitch, 100, 10, 32), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAllocPitch(&address, &pitch, 0, 10, 4), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAllocPitch(&address, &pitch, 100, 0, 4), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAllocPitch(NULL, &pitch, 100, 10, 4), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAllocPitch(&address, NULL, 100, 10, 4), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(address_ranges)
{
	CUdeviceptr address, base = 0;
	size_t size = 0;

	need_context();
	address = need_memory(10000);
	WORKS(cuMemGetAddressRange(&base, &size, address + 5000));
	EQUALS(base, address);
	EQUALS(size, 10000); // the driver reports the requested size, not the rounded one
	WORKS(cuMemGetAddressRange(&base, NULL, address));
	WORKS(cuMemGetAddressRange(NULL, &size, address));
	GIVES(cuMemGetAddressRange(&base, &size, 0x1000), CUDA_ERROR_NOT_FOUND);
	WORKS(cuMemFree(address));
	GIVES(cuMemGetAddressRange(&base, &size, address), CUDA_ERROR_NOT_FOUND);
}

CONFORM(pointer_attributes)
{
	CUdeviceptr address, start = 0;
	CUmemorytype type = 0;
	CUcontext owner = NULL;
	unsigned managed = 0x99999999;
	unsigned long long identity = 0, other = 0;
	size_t size = 0;
	int ordinal = -1, on_stack = 0;
	void *host = NULL, *seen = NULL;

	need_context();
	address = need_memory(10000);
	WORKS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 9999));
	EQUALS(type, CU_MEMORYTYPE_DEVICE);
	WORKS(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
	HOLDS(owner == context);
	WORKS(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
	EQUALS(ordinal, device);
	WORKS(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
	EQUALS(managed, 0); // the driver writes all four bytes of the attribute
	WORKS(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 5));
	EQUALS(start, address);
	WORKS(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
	EQUALS(size, 10000);
	WORKS(cuPointerGetAttribute(&identity, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
	WORKS(cuMemFree(address));
	GIVES(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&on_stack),
	      CUDA_ERROR_INVALID_VALUE);
	address = need_memory(10000);
	WORKS(cuPointerGetAttribute(&other, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
	HOLDS(identity != other); // a later buffer at the same address has another id
	GIVES(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFree(address));
	NEED(cuMemHostAlloc(&host, 4096, 0));
	WORKS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host));
	EQUALS(type, CU_MEMORYTYPE_HOST);
	WORKS(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_HOST_POINTER, (CUdeviceptr)host));
	HOLDS(seen == host);
	WORKS(cuMemFreeHost(host));
	// A query of several attributes does not fail for an unknown pointer.
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
	void *values[] = {&type, &owner};
	WORKS(cuPointerGetAttributes(2, which, values, (CUdeviceptr)&on_stack));
	EQUALS(type, 0);
	HOLDS(owner == NULL);
}

CONFORM(sets)
{
	CUdeviceptr address;
	unsigned char bytes[64];
	unsigned short halves[4];
	unsigned words[4];

	need_context();
	address = need_memory(64 * 16);
	WORKS(cuMemsetD8(address, 0x11, 64));
	WORKS(cuMemsetD16(address, 0x2233, 4));
	WORKS(cuMemcpyDtoH(halves, address, sizeof halves));
	EQUALS(halves[3], 0x2233);
	WORKS(cuMemcpyDtoH(bytes, address, 64));
	EQUALS(bytes[8], 0x11);
	WORKS(cuMemsetD32(address, 0x44556677, 4));
	WORKS(cuMemcpyDtoH(words, address, sizeof words));
	EQUALS(words[3], 0x44556677);
	GIVES(cuMemsetD16(address + 1, 0, 4), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemsetD32(address + 2, 0, 4), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemsetD8(address, 0, 64 * MiB), CUDA_ERROR_INVALID_VALUE); // past the end
	WORKS(cuMemsetD8(address, 0, 0));
	WORKS(cuMemsetD2D8(address, 64, 9, 8, 16));
	WORKS(cuMemcpyDtoH(bytes, address + 15 * 64, 64));
	EQUALS(bytes[7], 9);
	HOLDS(bytes[8] != 9);
	GIVES(cuMemsetD2D8(address, 4, 9, 8, 16), CUDA_ERROR_INVALID_VALUE); // pitch below width
	WORKS(cuMemFree(address));
}

CONFORM(copies)
{
	CUdeviceptr first, second;
	unsigned char out[256], in[256];

	need_context();
	first = need_memory(4096);
	second = need_memory(4096);
	for (int i = 0; i < 256; i++)
		out[i] = i;
	WORKS(cuMemcpyHtoD(first, out, 256));
	WORKS(cuMemcpyDtoD(second, first, 256));
	WORKS(cuMemcpyDtoH(in, second, 256));
	HOLDS(memcmp(in, out, 256) == 0);
	memset(in, 0, sizeof in);
	WORKS(cuMemcpy((CUdeviceptr)in, first, 256)); // unified addressing: the driver infers the direction
	HOLDS(memcmp(in, out, 256) == 0);
	WORKS(cuMemcpyHtoD(first, out, 0));
	GIVES(cuMemcpyHtoD(first, out, 64 * MiB), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyDtoD(first, 0x1000, 16), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyDtoH(in, first + 4000, 256), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemcpyPeer(second, context, first, context, 256));
	WORKS(cuMemFree(first));
	WORKS(cuMemFree(second));
}

CONFORM(copies_of_rectangles)
{
	CUdeviceptr address;
	size_t pitch;
	unsigned char out[16][16], in[4][4];

	need_context();
	NEED(cuMemAllocPitch(&address, &pitch, 16, 16, 4));
	for (int i = 0; i < 256; i++)
		out[i / 16][i % 16] = i;
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = out,
			      .srcPitch = 16,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = address,
			      .dstPitch = pitch,
			      .WidthInBytes = 16,
			      .Height = 16};
	WORKS(cuMemcpy2D(&copy));
	CUDA_MEMCPY2D back = {.srcXInBytes = 4,
			      .srcY = 8,
			      .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = address,
			      .srcPitch = pitch,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = in,
			      .dstPitch = 4,
			      .WidthInBytes = 4,
			      .Height = 4};
	WORKS(cuMemcpy2D(&back));
	EQUALS(in[0][0], 8 * 16 + 4);
	EQUALS(in[3][3], 11 * 16 + 7);
	back.srcPitch = 2; // the pitch is below the width
	GIVES(cuMemcpy2D(&back), CUDA_ERROR_INVALID_VALUE);
	back.srcPitch = pitch;
	back.srcMemoryType = 77;
	GIVES(cuMemcpy2D(&back), CUDA_ERROR_INVALID_VALUE);
	back.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	back.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	back.dstDevice = (CUdeviceptr)in;
	memset(in, 0, sizeof in);
	WORKS(cuMemcpy2DUnaligned(&back));
	EQUALS(in[3][3], 11 * 16 + 7);
	GIVES(cuMemcpy2D(NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFree(address));
}

CONFORM(host_memory)
{
	void *host = NULL;
	CUdeviceptr mapped = 0;
	unsigned flags = 99;
	size_t before;
	unsigned word = 0;

	need_context();
	before = memory_used();
	WORKS(cuMemHostAlloc(&host, 8 * MiB, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	EQUALS(memory_used(), before); // host memory takes no device memory
	WORKS(cuMemHostGetDevicePointer(&mapped, host, 0));
	EQUALS(mapped, (CUdeviceptr)host); // host and device use the same address
	WORKS(cuMemHostGetFlags(&flags, host));
	EQUALS(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
	GIVES(cuMemHostGetDevicePointer(&mapped, host, 1), CUDA_ERROR_INVALID_VALUE);
	CUfunction store = need_function(need_module(ptx_basic), "store");
	unsigned value = 0x600d;
	CUdeviceptr address = (CUdeviceptr)host + 64;
	void *arguments[] = {&address, &value};
	NEED(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	WORKS(cuCtxSynchronize());
	memcpy(&word, (char *)host + 64, 4);
	EQUALS(word, 0x600d);
	WORKS(cuMemFreeHost(host));
	GIVES(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemHostGetFlags(&flags, host), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemAllocHost(&host, 4096));
	WORKS(cuMemFreeHost(host));
	GIVES(cuMemHostAlloc(&host, 4096, 0x80), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemHostAlloc(NULL, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFreeHost(NULL));
}

CONFORM(registered_memory)
{
	CUdeviceptr mapped = 0;
	unsigned flags = 99;
	char *area = mmap(NULL, MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need_context();
	WORKS(cuMemHostRegister(area, MiB, CU_MEMHOSTREGISTER_DEVICEMAP));
	WORKS(cuMemHostGetDevicePointer(&mapped, area, 0));
	EQUALS(mapped, (CUdeviceptr)area);
	WORKS(cuMemHostGetFlags(&flags, area));
	GIVES(cuMemHostRegister(area, MiB, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	GIVES(cuMemHostRegister(area + 4096, 4096, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	GIVES(cuMemFreeHost(area), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemHostUnregister(area));
	GIVES(cuMemHostUnregister(area), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	GIVES(cuMemHostRegister(NULL, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemHostRegister(area, 0, 0), CUDA_ERROR_INVALID_VALUE);
	munmap(area, MiB);
}

// Checks two parts of a file that are registered separately. The memory before and behind them is pageable.
static void check_registered_file(int descriptor)
{
	enum { PIECE = 2 << 20, WHOLE = 4 * PIECE };
	CUdeviceptr memory = need_memory(WHOLE);
	CUstream stream;
	unsigned word = 0, flags = 0;
	size_t before;

	if (descriptor < 0 || ftruncate(descriptor, WHOLE) != 0)
		FAIL("a file in main memory: %m");
	char *file = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	char *pieces[] = {file + PIECE, file + 2 * PIECE};
	if (file == MAP_FAILED)
		FAIL("mmap: %m");
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	before = memory_used();
	WORKS(cuMemHostRegister(pieces[0], PIECE, CU_MEMHOSTREGISTER_PORTABLE));
	WORKS(cuMemHostRegister(pieces[1], PIECE, CU_MEMHOSTREGISTER_PORTABLE));
	BETWEEN(memory_used() - before, 0, 4 * MiB); // registering host memory takes device memory for page tables only
	WORKS(cuMemHostGetFlags(&flags, pieces[1]));
	HOLDS(flags & CU_MEMHOSTREGISTER_PORTABLE);
	GIVES(cuMemHostRegister(pieces[1], PIECE, CU_MEMHOSTREGISTER_PORTABLE),
	      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	GIVES(cuMemHostRegister(pieces[1] - 4096, 8192, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	GIVES(cuMemHostRegister(file, WHOLE, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	// The device writes into the file.
	NEED(cuMemsetD32(memory, 0xf11e, WHOLE / 4));
	for (int i = 0; i < 2; i++)
		WORKS(cuMemcpyDtoHAsync(pieces[i], memory, PIECE, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(pread(descriptor, &word, 4, 3 * PIECE - 4), 4);
	EQUALS(word, 0xf11e);
	WORKS(cuMemcpyHtoDAsync(memory, pieces[1], PIECE, stream));
	// A copy that begins in a registered part must not cross the end of that part. A copy may begin in the pageable
	// memory before the part.
	GIVES(cuMemcpyDtoHAsync(pieces[0], memory, 2 * PIECE, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyHtoDAsync(memory, pieces[1] - 64, 128, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyDtoHAsync(pieces[1], memory, PIECE + 4096, stream), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemcpyHtoDAsync(memory, pieces[0] - 4096, 8192, stream));
	GIVES(cuMemcpyDtoH(pieces[1], memory, PIECE + 4096), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemcpyHtoD(memory, pieces[0] - 4096, 8192));
	WORKS(cuMemcpyDtoH(pieces[0] - 4096, memory, 8192));
	WORKS(cuStreamSynchronize(stream));		       // the failed copies leave no other error
	WORKS(cuMemcpyDtoHAsync(file, memory, PIECE, stream)); // ends where the registered part begins
	for (int i = 0; i < 2; i++) {
		WORKS(cuMemHostUnregister(pieces[i]));
		GIVES(cuMemHostUnregister(pieces[i]), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	}
	WORKS(cuMemcpyDtoHAsync(file, memory, WHOLE, stream)); // pageable now
	WORKS(cuStreamSynchronize(stream));
	munmap(file, WHOLE);
	close(descriptor);
	WORKS(cuStreamDestroy(stream));
	WORKS(cuMemFree(memory));
}

CONFORM(registered_files)
{
	need_context();
	check_registered_file(memfd_create("registered", 0));
	check_registered_file(open("/dev/shm", O_TMPFILE | O_RDWR, 0600));
}

CONFORM(frees_across_interfaces)
{
	CUdeviceptr address;
	CUstream stream;
	CUmemoryPool pool;
	cuuint64_t reserved = 99;
	size_t before;

	need_context();
	before = memory_used();
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuDeviceGetDefaultMemPool(&pool, device));
	NEED(cuMemAllocAsync(&address, 4 * MiB, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemFree(address)); // cuMemFree also frees memory of pools
	WORKS(cuMemPoolTrimTo(pool, 0));
	WORKS(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	EQUALS(reserved, 0); // checks the reserved bytes, since the driver may still count freed memory as used
	EQUALS(memory_used(), before);
	address = need_memory(4 * MiB);
	WORKS(cuMemFreeAsync(address, stream)); // cuMemFreeAsync also frees memory of cuMemAlloc
	WORKS(cuStreamSynchronize(stream));
	EQUALS(memory_used(), before);
	GIVES(cuMemFreeAsync(address, stream), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuStreamDestroy(stream));
}
