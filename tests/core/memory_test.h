// Helpers that the tests of memory share: a device with a stream and a pool, captures, and mapped memory.
#pragma once
#include "code_test.h"

#include <pthread.h>
#include <stdatomic.h>

struct bench {
	struct vg_device *device;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_memory_resource *pool;
};

static inline struct bench open_bench(void)
{
	struct bench b = {.context = first_context()};

	b.device = vg_context_device(b.context);
	OK(vg_stream_create(b.context, NULL, &b.stream));
	OK(vg_device_pool_create(b.device, NULL, &b.pool));
	return b;
}

static inline void close_bench(struct bench *b)
{
	vg_memory_resource_destroy(b->pool);
	vg_stream_destroy(b->stream);
	vg_context_destroy(b->context);
}

// Blocks a stream until *hold is 0.
__attribute__((unused)) static void wait_for_release(void *hold)
{
	while (atomic_load((atomic_int *)hold))
		usleep(1000);
}

static inline void hold_up(struct vg_stream *stream, atomic_int *hold)
{
	struct CUctx_st *before;

	DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st *), vg_context_handle(vg_stream_context(stream)));
	DRIVER(cuLaunchHostFunc, (struct CUstream_st *, void (*)(void *), void *), vg_stream_handle(stream),
	       wait_for_release, hold);
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
}

// Captures what is queued on the stream from now on.
static inline struct vg_graph_builder *begin_capture(struct vg_stream *stream)
{
	struct vg_graph_builder *builder;

	OK(vg_graph_builder_create_on(stream, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_THREAD_LOCAL));
	return builder;
}

// Returns the granularity of mapped memory: its size must be a multiple of the granularity.
static inline size_t get_granularity(struct vg_device *device)
{
	struct vg_physical_memory *memory;

	OK(vg_physical_memory_create(device, 1, NULL, &memory));
	size_t size = vg_physical_memory_size(memory);
	vg_physical_memory_destroy(memory);
	return size;
}

// Returns the access to mapped memory from a device: 0 none, 1 read, 3 read and write.
static inline int access_of(vg_address address, int device)
{
	struct {
		int type, id;
	} location = {1, device};
	unsigned long long flags = 99;

	DRIVER(cuMemGetAccess, (unsigned long long *, void *, vg_address), &flags, &location, address);
	return (int)flags;
}
