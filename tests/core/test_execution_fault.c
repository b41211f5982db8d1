// Tests failures of every driver call that creates contexts, streams, events and resources.
#include "core_fault.h"

static struct vg_device *device;
static struct vg_context *context, *made_context;
static struct vg_sm_resource *all, *groups[2], *rest;
static struct vg_stream *stream, *made_stream;
static struct vg_event *made_event;

static void clean(void)
{
	CHECK(device == NULL || vg_device_ordinal(device) == 0);
	vg_event_destroy(made_event);
	vg_stream_destroy(made_stream);
	vg_stream_destroy(stream);
	vg_context_destroy(made_context);
	vg_context_destroy(context);
	for (int i = 0; i < 2; i++)
		vg_sm_resource_destroy(groups[i]);
	vg_sm_resource_destroy(rest);
	vg_sm_resource_destroy(all);
}

static enum vg_status find_device(void)
{
	return vg_device_get(0, &device);
}

static enum vg_status open_context(void)
{
	TRY(find_device());
	return vg_context_primary(device, &context);
}

static enum vg_status open_stream(void)
{
	TRY(open_context());
	return vg_stream_create(context, NULL, &stream);
}

static enum vg_status find_sms(void)
{
	TRY(find_device());
	return vg_device_sm_resource(device, &all);
}

static enum vg_status split_sms(void)
{
	size_t count;

	return vg_sm_resource_split_by_count(all, 16, 0, 2, groups, &count, &rest);
}

static enum vg_status prepare_green(void)
{
	TRY(find_sms());
	return split_sms();
}

static enum vg_status make_green(void)
{
	struct vg_context_options options = {sizeof options, .sms = groups, .sm_count = 2};

	return vg_context_create(device, &options, &made_context);
}

static enum vg_status open_green(void)
{
	TRY(prepare_green());
	return make_green();
}

static enum vg_status make_primary(void)
{
	return vg_context_primary(device, &made_context);
}

static enum vg_status borrow_context(void)
{
	return vg_context_borrow(vg_context_handle(context), &made_context);
}

static enum vg_status make_stream(void)
{
	return vg_stream_create(context, NULL, &made_stream);
}

static enum vg_status make_green_stream(void)
{
	return vg_stream_create(made_context, NULL, &made_stream);
}

static enum vg_status find_default(void)
{
	return vg_stream_default(context, VG_DEFAULT_STREAM_PER_THREAD, &made_stream);
}

static enum vg_status borrow_stream(void)
{
	return vg_stream_borrow(vg_stream_handle(stream), NULL, NULL, &made_stream);
}

static enum vg_status open_green_stream(void)
{
	TRY(open_green());
	return vg_stream_create(made_context, NULL, &stream);
}

static enum vg_status make_event(void)
{
	return vg_event_create(context, NULL, &made_event);
}

static enum vg_status record(void)
{
	struct vg_event_options options = {sizeof options, .ipc = 1};

	return vg_stream_record(stream, &options, &made_event);
}

static enum vg_status open_two_streams(void)
{
	TRY(open_stream());
	return vg_stream_create(context, NULL, &made_stream);
}

static enum vg_status wait_for_stream(void)
{
	return vg_stream_wait_stream(made_stream, stream);
}

TEST(contexts)
{
	FAULT_EVERY_CALL(&((struct fault_subject){find_device, make_primary, clean}), "cuDevicePrimaryCtxRetain");
	FAULT_EVERY_CALL(&((struct fault_subject){prepare_green, make_green, clean}), "cuDevResourceGenerateDesc",
			 "cuDevicePrimaryCtxRetain", "cuGreenCtxCreate", "cuCtxFromGreenCtx");
	FAULT_EVERY_CALL(&((struct fault_subject){open_context, borrow_context, clean}), "cuStreamGetGreenCtx",
			 "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxGetDevice");
}

TEST(resources)
{
	FAULT_EVERY_CALL(&((struct fault_subject){find_device, find_sms, clean}), "cuDeviceGetDevResource");
	FAULT_EVERY_CALL(&((struct fault_subject){find_sms, split_sms, clean}), "cuDevSmResourceSplitByCount");
}

TEST(streams)
{
	FAULT_EVERY_CALL(&((struct fault_subject){open_context, make_stream, clean}), "cuCtxGetCurrent",
			 "cuCtxPushCurrent_v2", "cuCtxGetStreamPriorityRange", "cuStreamCreateWithPriority");
	FAULT_EVERY_CALL(&((struct fault_subject){open_green, make_green_stream, clean}), "cuCtxPushCurrent_v2",
			 "cuCtxGetStreamPriorityRange", "cuGreenCtxStreamCreate");
	FAULT_EVERY_CALL(&((struct fault_subject){open_context, find_default, clean}), "cuStreamGetFlags",
			 "cuStreamGetPriority");
	FAULT_EVERY_CALL(&((struct fault_subject){open_stream, borrow_stream, clean}), "cuStreamGetCtx_v2",
			 "cuCtxGetDevice", "cuStreamGetFlags", "cuStreamGetPriority");
	FAULT_EVERY_CALL(&((struct fault_subject){open_green_stream, borrow_stream, clean}), "cuCtxFromGreenCtx",
			 "cuDevicePrimaryCtxRetain", "cuStreamGetPriority");
	FAULT_EVERY_CALL(&((struct fault_subject){open_two_streams, wait_for_stream, clean}), "cuEventCreate",
			 "cuEventRecord", "cuStreamWaitEvent", "cuCtxGetCurrent", "cuCtxPushCurrent_v2");
}

TEST(events)
{
	FAULT_EVERY_CALL(&((struct fault_subject){open_context, make_event, clean}), "cuCtxGetCurrent",
			 "cuCtxPushCurrent_v2", "cuEventCreate");
	FAULT_EVERY_CALL(&((struct fault_subject){open_stream, record, clean}), "cuEventCreate", "cuEventRecord");
}

// Runs `body` in a child process with a fault of the driver. The library's first two queries of attributes ask for the
// compute capability, when it makes the table of devices. A fault that counts queries must count these two, too.
static void with_fault(const char *fault, void (*body)(struct vg_device *))
{
	pid_t child = fork();
	if (child == 0) {
		setenv("VIRGATE_SIM_FAULT", fault, 1);
		OK(vg_device_get(0, &device));
		body(device);
		exit(0);
	}
	CHECK_CHILD(child);
}

static void check_fallbacks(struct vg_device *old)
{
	int value;

#define X(NAME, name, number, kind, fallback)                                     \
	OK(vg_device_property(old, VG_DEVICE_##NAME, &value));                    \
	CHECK_INT(value, VG_DEVICE_##NAME == VG_DEVICE_MEM_SYNC_DOMAIN_COUNT ? 1  \
			 : VG_DEVICE_##NAME == VG_DEVICE_HOST_NUMA_ID	     ? -1 \
									     : 0);
	VG_DEVICE_PROPERTY_LIST(X)
#undef X
}

static void check_kept(struct vg_device *asked)
{
	static const enum vg_device_property live[] = {VG_DEVICE_CLOCK_RATE, VG_DEVICE_KERNEL_EXEC_TIMEOUT,
						       VG_DEVICE_COMPUTE_MODE, VG_DEVICE_MEMORY_CLOCK_RATE,
						       VG_DEVICE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO};
	int value = -1;

	OK(vg_device_property(asked, VG_DEVICE_WARP_SIZE, &value)); // the third query is the last one that succeeds
	OK(vg_device_property(asked, VG_DEVICE_WARP_SIZE, &value));
	CHECK_INT(value, 32);
	for (size_t i = 0; i < sizeof live / sizeof *live; i++)
		REFUSED(vg_device_property(asked, live[i], &value), VG_DRIVER, vg_device_property_name(live[i]));
	REFUSED(vg_device_property(asked, VG_DEVICE_MAX_PITCH, &value), VG_DRIVER, "max_pitch of device 0");
	CHECK_INT(value, 32);
}

static void check_live(struct vg_device *asked)
{
	int value;

	OK(vg_device_property(asked, VG_DEVICE_CLOCK_RATE, &value));
	REFUSED(vg_device_property(asked, VG_DEVICE_CLOCK_RATE, &value), VG_DRIVER, "clock_rate");
}

TEST(properties)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("faults are injected by the simulated driver");
	with_fault("cuDeviceGetAttribute:3+=CUDA_ERROR_INVALID_VALUE", check_fallbacks);
	with_fault("cuDeviceGetAttribute:4+=CUDA_ERROR_OPERATING_SYSTEM", check_kept);
	with_fault("cuDeviceGetAttribute:4+=CUDA_ERROR_OPERATING_SYSTEM", check_live);
}

static int warnings;

static void count_warning(void *part, enum vg_log_level level, const char *text)
{
	warnings += level == VG_LOG_WARNING && strstr(text, part);
}

// If the driver does not destroy a handle, _close returns the failure, and destroy writes it to the log.
static void check_close(struct vg_device *of)
{
	OK(vg_context_primary(of, &context));
	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_event_create(context, NULL, &made_event));
	REFUSED(vg_event_close(made_event), VG_DRIVER, "cuEventDestroy: CUDA_ERROR_OPERATING_SYSTEM");
	OK(vg_event_close(made_event));
	REFUSED(vg_stream_close(stream), VG_DRIVER, "cuStreamDestroy: CUDA_ERROR_OPERATING_SYSTEM");
	vg_event_destroy(made_event);
	vg_stream_destroy(stream);
	REFUSED(vg_context_close(context), VG_DRIVER, "cuDevicePrimaryCtxRelease: CUDA_ERROR_OPERATING_SYSTEM");
	vg_context_destroy(context);
}

static void check_destroy(struct vg_device *of)
{
	vg_log_set(count_warning, "destroying a stream: cuStreamDestroy");
	OK(vg_context_primary(of, &context));
	OK(vg_stream_create(context, NULL, &stream));
	vg_context_destroy(context);
	vg_stream_destroy(stream);
	CHECK_INT(warnings, 1);
	CHECK_INT(fault_primary_is_active(), 0); // the context was released although the close failed
}

TEST(handles_that_the_driver_does_not_destroy)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("faults are injected by the simulated driver");
	with_fault("cuEventDestroy_v2=CUDA_ERROR_OPERATING_SYSTEM;cuStreamDestroy_v2=CUDA_ERROR_OPERATING_SYSTEM;"
		   "cuDevicePrimaryCtxRelease_v2=CUDA_ERROR_OPERATING_SYSTEM",
		   check_close);
	with_fault("cuStreamDestroy_v2=CUDA_ERROR_OPERATING_SYSTEM", check_destroy);
}
