#include "cases.h"

#include <stdbool.h>

enum { SIZE = 4096 };

static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_memory_resource *pool, *plain, *counted;
static struct vg_buffer *buffer, *other, *made, *borrowed;
static struct vg_memory_properties properties;
static CUstream handle;
static CUmemoryPool pool_handle;
static CUdeviceptr address, other_address, made_address;
static volatile uint64_t seen;
static char host[SIZE];

static void open_family(void)
{
	bench_begin(&context, &stream);
	LIBRARY(vg_device_pool_current(vg_context_device(context), &pool));
	LIBRARY(vg_statistics_resource_create(pool, &counted));
	LIBRARY(vg_synchronous_resource_create(context, &plain));
	LIBRARY(vg_buffer_create(pool, SIZE, stream, &buffer));
	LIBRARY(vg_buffer_create(pool, SIZE, stream, &other));
	LIBRARY(vg_buffer_borrow(vg_buffer_address(buffer), SIZE, NULL, &borrowed));
	handle = vg_stream_handle(stream);
	pool_handle = vg_memory_pool_handle(pool);
	address = vg_buffer_address(buffer);
	other_address = vg_buffer_address(other);
}

static void close_family(void)
{
	vg_buffer_destroy(borrowed);
	vg_buffer_destroy(other);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(plain);
	vg_memory_resource_destroy(counted);
	vg_memory_resource_destroy(pool);
	bench_end(context, stream);
}

static void finish_turn(void)
{
	LIBRARY(vg_stream_sync(stream));
}

SIDES(
	plain,
	{
		LIBRARY(vg_buffer_create(plain, SIZE, NULL, &made));
		vg_buffer_destroy(made);
	},
	{
		RAW(cuMemAlloc(&made_address, SIZE));
		RAW(cuMemFree(made_address));
	})
SIDES(
	pool,
	{
		LIBRARY(vg_buffer_create(pool, SIZE, stream, &made));
		vg_buffer_destroy(made);
	},
	{
		RAW(cuMemAllocFromPoolAsync(&made_address, SIZE, pool_handle, handle));
		RAW(cuMemFreeAsync(made_address, handle));
	})
SIDES(
	counted,
	{
		LIBRARY(vg_buffer_create(counted, SIZE, stream, &made));
		vg_buffer_destroy(made);
	},
	{
		RAW(cuMemAllocFromPoolAsync(&made_address, SIZE, pool_handle, handle));
		RAW(cuMemFreeAsync(made_address, handle));
	})
SIDES(copy, LIBRARY(vg_buffer_copy(other, buffer, stream)), RAW(cuMemcpyAsync(other_address, address, SIZE, handle)))
SIDES(write, LIBRARY(vg_buffer_write(buffer, 0, host, SIZE, stream)),
      RAW(cuMemcpyAsync(address, (CUdeviceptr)(uintptr_t)host, SIZE, handle)))
SIDES(read, LIBRARY(vg_buffer_read(buffer, 0, host, SIZE, stream)),
      RAW(cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, address, SIZE, handle)))
SIDES(fill, LIBRARY(vg_buffer_fill_byte(buffer, 1, stream)), RAW(cuMemsetD8Async(address, 1, SIZE, handle)))
SIDES(address, seen = vg_buffer_address(buffer) + vg_buffer_size(buffer), seen = address + SIZE)

static void attributes_library(unsigned calls)
{
	while (calls--)
		LIBRARY(vg_buffer_properties(borrowed, &properties));
}

static void attributes_raw(unsigned calls)
{
	CUmemorytype type;
	unsigned managed;
	int device;
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
					    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	void *answers[] = {&type, &managed, &device};

	while (calls--)
		RAW(cuPointerGetAttributes(3, attributes, answers, address));
}

static const struct bench_case cases[] = {
	{"mem_alloc_free", 0, 20, plain_library, plain_raw, NULL},
	{"mem_alloc_async_free_async", 0, 50, pool_library, pool_raw, finish_turn},
	{"mem_alloc_async_free_async_counted", 0, 50, counted_library, counted_raw, finish_turn},
	{"memcpy_dtod", 0, 50, copy_library, copy_raw, finish_turn},
	{"memcpy_htod", 0, 50, write_library, write_raw, finish_turn},
	{"memcpy_dtoh", 0, 50, read_library, read_raw, finish_turn},
	{"memset", 0, 50, fill_library, fill_raw, finish_turn},
	{"pointer_get_attributes", 50, 500, attributes_library, attributes_raw, NULL},
	{"buffer_address_and_size", 50, 500, address_library, address_raw, NULL},
};
const struct bench_family bench_memory = {open_family, cases, sizeof cases / sizeof *cases, close_family};
