// Tests objects of one device that are used with another device, or with another context of the same device.
#include "core_test.h"

#include <cuda.h>
#include <dlfcn.h>

static struct vg_device *device_number(int ordinal)
{
	struct vg_device *device;
	int count;

	OK(vg_device_count(&count));
	if (ordinal >= count)
		SKIP("needs %d devices, there is %d", ordinal + 1, count);
	OK(vg_device_get(ordinal, &device));
	return device;
}

static struct vg_context *context_of(int ordinal)
{
	struct vg_context *context;

	OK(vg_context_primary(device_number(ordinal), &context));
	return context;
}

TEST(each_device_has_its_own_context)
{
	struct vg_device *first = device_number(0), *second = device_number(1), *current;
	struct vg_context *context = context_of(1);
	int can;

	CHECK(first != second && strcmp(vg_device_uuid(first), vg_device_uuid(second)) != 0);
	CHECK(strcmp(vg_device_pci_bus_id(first), vg_device_pci_bus_id(second)) != 0);
	OK(vg_device_can_access_peer(first, second, &can));
	CHECK(can == 0 || can == 1);
	OK(vg_context_set_current(context, NULL));
	OK(vg_device_current(&current));
	CHECK(current == second && vg_context_device(context) == second);
	OK(vg_context_set_current(NULL, NULL));
	vg_context_destroy(context);
}

TEST(streams_wait_across_devices)
{
	struct vg_context *second = context_of(1), *first = context_of(0);
	struct vg_stream *one, *two;
	struct vg_event *event;

	OK(vg_stream_create(first, NULL, &one));
	OK(vg_stream_create(second, NULL, &two));
	OK(vg_stream_record(one, NULL, &event));
	OK(vg_stream_wait_event(two, event));
	OK(vg_stream_wait_stream(one, two));
	OK(vg_stream_sync(one));
	OK(vg_stream_sync(two));
	vg_event_destroy(event);
	vg_stream_destroy(one);
	vg_stream_destroy(two);
	vg_context_destroy(first);
	vg_context_destroy(second);
}

TEST(events_stay_with_their_device)
{
	struct vg_context *second = context_of(1), *first = context_of(0);
	struct vg_event_options timed = {.size = sizeof timed, .timing = 1};
	struct vg_stream *one, *two;
	struct vg_event *start, *end;
	float time = 42;

	OK(vg_stream_create(first, NULL, &one));
	OK(vg_stream_create(second, NULL, &two));
	OK(vg_stream_record(one, &timed, &start));
	OK(vg_stream_record(two, &timed, &end));
	REFUSED(vg_event_record(start, two), VG_INVALID,
		"the event is of a context on device 0, the work of another one on device 1");
	REFUSED(vg_context_record(second, start), VG_INVALID, "both must be of one context");
	REFUSED(vg_event_elapsed(start, end, &time), VG_INVALID, "of different contexts, on devices 0 and 1");
	CHECK(time == 42);
	vg_event_destroy(start);
	vg_event_destroy(end);
	vg_stream_destroy(one);
	vg_stream_destroy(two);
	vg_context_destroy(first);
	vg_context_destroy(second);
}

TEST(resources_stay_with_their_device)
{
	struct vg_device *second = device_number(1);
	struct vg_sm_resource *all, *group;
	struct vg_context *context = NULL;
	size_t made;

	OK(vg_device_sm_resource(device_number(0), &all));
	OK(vg_sm_resource_split_by_count(all, 8, 0, 1, &group, &made, NULL));
	REFUSED(vg_context_create(second,
				  &(struct vg_context_options){
					  .size = sizeof(struct vg_context_options), .sms = &group, .sm_count = 1},
				  &context),
		VG_INVALID, "resource 0 is of device 0, the context of device 1");
	CHECK(!context);
	vg_sm_resource_destroy(group);
	vg_sm_resource_destroy(all);
}

// Uses a context that the program created itself, and a stream in that context.
TEST(a_context_of_the_program_is_used)
{
	struct vg_context *primary = context_of(0), *foreign;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	CUresult (*create)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice) = dlsym(driver, "cuCtxCreate_v4");
	CUresult (*make_stream)(CUstream *, unsigned) = dlsym(driver, "cuStreamCreate");
	CUresult (*end_stream)(CUstream) = dlsym(driver, "cuStreamDestroy_v2");
	CUresult (*end)(CUcontext) = dlsym(driver, "cuCtxDestroy_v2");
	struct vg_stream *stream, *own;
	struct vg_event *event;
	struct CUctx_st *now;
	CUcontext context;
	CUstream handle;

	CHECK_INT(create(&context, NULL, 0, 0), CUDA_SUCCESS); // the new context is current then
	CHECK_INT(make_stream(&handle, 0), CUDA_SUCCESS);
	OK(vg_context_set_current(NULL, NULL));
	OK(vg_stream_borrow(handle, NULL, NULL, &stream));
	foreign = vg_stream_context(stream);
	CHECK(vg_context_handle(foreign) == context && !vg_context_equal(foreign, primary));
	CHECK(vg_context_device(foreign) == device_number(0));
	OK(vg_stream_record(stream, NULL, &event));
	OK(vg_event_sync(event));
	OK(vg_stream_create(foreign, NULL, &own));
	OK(vg_event_record(event, own));
	OK(vg_stream_sync(own));
	vg_stream_destroy(own);
	OK(vg_stream_create(primary, NULL, &own));
	REFUSED(vg_event_record(event, own), VG_INVALID, "both must be of one context");
	OK(vg_context_current(&now));
	CHECK(!now);
	vg_stream_destroy(own);
	vg_event_destroy(event);
	vg_stream_destroy(stream);
	CHECK_INT(end_stream(handle), CUDA_SUCCESS);
	CHECK_INT(end(context), CUDA_SUCCESS); // destroying the object did not destroy the context
	vg_context_destroy(primary);
	dlclose(driver);
}

TEST(code_is_loaded_once_for_both)
{
	static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				  ".visible .global .align 4 .u32 count = 0;\n"
				  ".visible .entry add() { .reg .b32 %r<2>; .reg .b64 %d<2>; mov.u64 %d1, count;\n"
				  " atom.global.add.u32 %r1, [%d1], 1; ret; }\n";
	struct vg_launch_config config = {sizeof config, .grid = {1}, .block = {32}};
	struct vg_context *second = context_of(1), *contexts[] = {context_of(0), second};
	struct vg_prepared_launch *launch;
	struct vg_stream *streams[2];
	struct vg_object_code *code;
	struct vg_kernel *kernel;
	vg_address counts[2];

	OK(vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx, NULL, &code));
	OK(vg_object_code_kernel(code, "add", &kernel));
	for (int i = 0; i < 2; i++) {
		OK(vg_stream_create(contexts[i], NULL, &streams[i]));
		for (int k = 0; k <= i; k++)
			OK(vg_launch(streams[i], &config, kernel, NULL, 0));
		OK(vg_object_code_global(code, contexts[i], "count", &counts[i], NULL));
	}
	for (int i = 0; i < 2; i++) { // each device has its own copy of the variable `count`
		struct vg_buffer *buffer;
		unsigned count;
		OK(vg_buffer_borrow(counts[i], sizeof count, NULL, &buffer));
		OK(vg_buffer_read(buffer, 0, &count, sizeof count, streams[i]));
		OK(vg_stream_sync(streams[i]));
		CHECK_INT(count, 32 * (i + 1));
		vg_buffer_destroy(buffer);
	}
	OK(vg_kernel_set_attribute(kernel, device_number(1), VG_KERNEL_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
	int carveout;
	OK(vg_kernel_get_attribute(kernel, device_number(0), VG_KERNEL_PREFERRED_SHARED_MEMORY_CARVEOUT, &carveout));
	CHECK_INT(carveout, -1);
	OK(vg_launch_prepare(contexts[0], &config, kernel, NULL, 0, &launch));
	REFUSED(vg_launch_run(launch, streams[1]), VG_INVALID, "prepared for device 0, the stream is of device 1");
	OK(vg_launch_run(launch, streams[0]));
	vg_prepared_launch_destroy(launch);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	for (int i = 0; i < 2; i++) {
		vg_stream_destroy(streams[i]);
		vg_context_destroy(contexts[i]);
	}
}

// Launches a kernel from a thread whose current context is `other`, a context of another device.
static void launch_beside(struct vg_context *other, struct vg_stream *stream, struct vg_kernel *kernel,
			  const struct vg_argument *argument)
{
	struct vg_launch_config config = {sizeof config, .grid = {1}, .block = {1}};
	struct CUctx_st *now;

	OK(vg_context_set_current(other, NULL));
	OK(vg_launch(stream, &config, kernel, argument, 1));
	OK(vg_context_current(&now));
	CHECK(now == vg_context_handle(other));
	OK(vg_context_set_current(NULL, NULL));
}

TEST(launches_run_on_the_device_of_their_stream)
{
	static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				  ".visible .entry add(.param .u64 p) { .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
				  " ld.param.u64 %d1, [p]; atom.global.add.u32 %r1, [%d1], 1; ret; }\n";
	struct vg_context *second = context_of(1), *first = context_of(0);
	struct vg_graph_builder *builder;
	struct vg_stream *own, *legacy;
	struct vg_object_code *code;
	struct vg_buffer *buffer;
	struct vg_kernel *kernel;
	struct vg_graph *graph;
	unsigned count = 0;

	OK(vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx, NULL, &code));
	OK(vg_object_code_kernel(code, "add", &kernel));
	OK(vg_stream_create(first, NULL, &own));
	OK(vg_stream_default(first, VG_DEFAULT_STREAM_LEGACY, &legacy));
	OK(vg_device_allocate(device_number(0), sizeof count, own, &buffer));
	OK(vg_buffer_write(buffer, 0, &count, sizeof count, own));
	OK(vg_stream_sync(own));
	vg_address where = vg_buffer_address(buffer);
	struct vg_argument argument = VG_ARGUMENT(where);
	launch_beside(second, own, kernel, &argument);
	OK(vg_stream_sync(own));
	launch_beside(second, legacy, kernel, &argument);
	OK(vg_stream_sync(legacy));
	OK(vg_graph_builder_create(first, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	launch_beside(second, vg_graph_builder_stream(builder), kernel, &argument);
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_complete(builder, NULL, &graph));
	OK(vg_graph_launch(graph, own));
	OK(vg_buffer_read(buffer, 0, &count, sizeof count, own));
	OK(vg_stream_sync(own));
	CHECK_INT(count, 3);
	vg_graph_destroy(graph);
	vg_graph_builder_destroy(builder);
	vg_buffer_destroy(buffer);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	vg_stream_destroy(legacy);
	vg_stream_destroy(own);
	vg_context_destroy(first);
	vg_context_destroy(second);
}
