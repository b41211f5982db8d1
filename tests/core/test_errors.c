// Tests errors: their source, their text, the thread that gets them, and their cost for calls that succeed.
#include "core_child.h"

#include <cuda.h>
#include <pthread.h>

static const char nonsense[] = ".version 7.0\n.target sm_75\n.address_size 64\nthis is not PTX\n";

// Asks for more memory than any device has.
static enum vg_status ask_too_much(struct vg_context *context, struct vg_stream *stream)
{
	struct vg_memory_resource *pool;
	struct vg_buffer *buffer = NULL;

	OK(vg_device_pool_current(vg_context_device(context), &pool));
	enum vg_status status = vg_buffer_create(pool, (size_t)1 << 50, stream, &buffer);
	CHECK(buffer == NULL);
	vg_memory_resource_destroy(pool);
	return status;
}

// ---- errors in children: the driver counts faults per process ------------------------------------------

// Runs in a child whose simulated device is lost at the third read of the driver's log.
static void read_the_log(void)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream, *another;
	struct vg_event *event;
	int done;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_stream_record(stream, NULL, &event));
	for (int i = 0; i < 1000; i++) {
		OK(vg_event_record(event, stream));
		OK(vg_event_query(event, &done));
		OK(vg_stream_query(stream, &done));
		OK(vg_stream_sync(stream));
		CHECK_INT(vg_stream_sync(NULL), VG_INVALID); // errors of the library do not read the driver's log
	}
	for (int i = 0; i < 2; i++) {
		CHECK_INT(ask_too_much(context, stream), VG_DRIVER);
		OK(vg_stream_create(context, NULL, &another));
		vg_stream_destroy(another);
	}
	CHECK_INT(ask_too_much(context, stream), VG_DRIVER);
	CHECK_INT(vg_last_error()->code, CUDA_ERROR_OUT_OF_MEMORY); // the error of the failed call itself
	CHECK_INT(vg_stream_create(context, NULL, &another), VG_DRIVER);
	// the third read of the log has lost the device, so each of the three failures has read the log once
	CHECK_INT(vg_last_error()->code, CUDA_ERROR_UNKNOWN);
}

TEST(driver_log_is_read_once_for_each_failure)
{
	in_child(read_the_log, "VIRGATE_SIM_FAULT", "lost@cuLogsDumpToMemory:3");
}

static void without_a_log(void)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream;

	OK(vg_stream_create(context, NULL, &stream));
	REFUSED(ask_too_much(context, stream), VG_DRIVER, "CUDA_ERROR_OUT_OF_MEMORY");
	CHECK_STR(vg_last_error()->log, "");
}

TEST(drivers_without_a_log_work)
{
	in_child(without_a_log, "VIRGATE_SIM_FAULT", "cuLogsDumpToMemory=CUDA_ERROR_NOT_SUPPORTED");
}

static char warning[512];

static void note_warning(void *user, enum vg_log_level level, const char *text)
{
	snprintf(warning, sizeof warning, "%d: %s", level, text);
}

static void destroy_with_fault(void)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream;

	OK(vg_stream_create(context, NULL, &stream));
	CHECK_INT(vg_stream_create(NULL, NULL, &stream), VG_INVALID);
	vg_log_set(note_warning, NULL);
	vg_stream_destroy(stream);
	CHECK_CONTAINS(warning, "1: destroying a stream: ");
	CHECK_CONTAINS(warning, "CUDA_ERROR_OPERATING_SYSTEM");
	CHECK_INT(vg_last_error()->status,
		  VG_INVALID); // the failure of the destroy has not replaced this error
	CHECK_CONTAINS(vg_last_error()->text, "context is NULL");
	OK(vg_stream_create(context, NULL, &stream));
	// an explicit close reports the failure
	REFUSED(vg_stream_close(stream), VG_DRIVER, "CUDA_ERROR_OPERATING_SYSTEM");
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(failures_of_destroy_go_to_the_log)
{
	in_child(destroy_with_fault, "VIRGATE_SIM_FAULT", "cuStreamDestroy_v2=CUDA_ERROR_OPERATING_SYSTEM");
}

// ---- errors in this process --------------------------------------------------------------------------

TEST(errors_of_library_and_driver_are_separate)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream = NULL;
	int value;

	// An error of the library has no code and no log.
	REFUSED(vg_stream_create(NULL, NULL, &stream), VG_INVALID, "context is NULL");
	CHECK_INT(vg_last_error()->code, 0);
	CHECK_STR(vg_last_error()->function, "vg_stream_create");
	CHECK_STR(vg_last_error()->log, "");
	CHECK(stream == NULL);

	// After the driver has refused a call, the error has the driver's code. The text has the name of this code, and
	// the arguments of the call.
	OK(vg_stream_create(context, NULL, &stream));
	REFUSED(ask_too_much(context, stream), VG_DRIVER, "CUDA_ERROR_OUT_OF_MEMORY: ");
	CHECK_INT(vg_last_error()->code, CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_STR(vg_last_error()->function, "vg_buffer_create");

	// The next error of the library contains nothing of the driver's error.
	REFUSED(vg_device_property(vg_context_device(context), 100000, &value), VG_INVALID, "100000");
	CHECK_INT(vg_last_error()->code, 0);
	CHECK_STR(vg_last_error()->log, "");
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(driver_log_is_in_the_error)
{
	struct vg_object_code *code;

	OK(vg_object_code_create(VG_CODE_PTX, nonsense, sizeof nonsense - 1, NULL, &code));
	CHECK_INT(vg_object_code_load(code), VG_DRIVER);
	CHECK_INT(vg_last_error()->code, CUDA_ERROR_INVALID_PTX);
	CHECK(*vg_last_error()->log);
	vg_object_code_destroy(code);
}

static const char kernels[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			      ".visible .entry one(.param .u64 a) { ret; }\n"
			      ".visible .entry three(.param .u64 a, .param .u32 b, .param .u8 c) { ret; }\n";

// Makes calls that fail in the driver in ways that the library expects. The library must report them with its own
// texts.
static void expect_refusals(struct vg_context *context, struct vg_stream *stream)
{
	struct vg_graph_definition *definition;
	struct vg_memory_resource *pool;
	struct vg_object_code *code;
	struct vg_buffer *buffer;
	struct vg_kernel *kernel;
	struct vg_event *event;
	vg_address address;
	char host[16];
	float ms;
	int done;

	OK(vg_object_code_create(VG_CODE_PTX, kernels, sizeof kernels - 1, NULL, &code));
	OK(vg_object_code_kernel(code, "three", &kernel));
	REFUSED(vg_kernel_set_attribute(kernel, vg_context_device(context), VG_KERNEL_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					-9),
		VG_INVALID, "refuses -9");
	vg_kernel_destroy(kernel);
	OK(vg_object_code_kernel(code, "one", &kernel));
	vg_kernel_destroy(kernel);
	REFUSED(vg_object_code_kernel(code, "two", &kernel), VG_NOT_FOUND, "two");
	REFUSED(vg_object_code_global(code, context, "none", &address, NULL), VG_NOT_FOUND, "none");
	REFUSED(vg_object_code_managed(code, context, "none", &address, NULL), VG_NOT_FOUND, "none");
	vg_object_code_destroy(code);
	OK(vg_event_create(context, &(struct vg_event_options){sizeof(struct vg_event_options), .timing = 1}, &event));
	REFUSED(vg_event_elapsed(event, event, &ms), VG_STATE, "never recorded");
	OK(vg_device_pool_current(vg_context_device(context), &pool));
	OK(vg_buffer_create(pool, sizeof host, stream, &buffer));
	OK(vg_buffer_write(buffer, 0, host, sizeof host, stream));
	OK(vg_event_record(event, stream));
	OK(vg_event_query(event, &done));
	OK(vg_stream_query(stream, &done));
	OK(vg_graph_definition_create(context, &definition));
	struct vg_graph_memcpy copy = {sizeof copy, .destination = vg_buffer_address(buffer), .source = (uintptr_t)host,
				       .bytes = sizeof host};
	OK(vg_graph_add_memcpy(definition, NULL, 0, &copy, NULL));
	vg_graph_definition_destroy(definition);
	vg_event_destroy(event);
	OK(vg_stream_sync(stream));
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pool);
}

static int count_log_lines(struct vg_context *context, struct vg_stream *stream)
{
	int lines = 0;

	CHECK_INT(ask_too_much(context, stream), VG_DRIVER);
	for (const char *at = vg_last_error()->log; *at; at++)
		lines += *at == '\n';
	return lines;
}

TEST(the_log_belongs_to_the_failed_call_only)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream;

	OK(vg_stream_create(context, NULL, &stream));
	ask_too_much(context, stream);
	int lines = count_log_lines(context, stream);
	expect_refusals(context, stream);
	int after = count_log_lines(context, stream);
	CHECK(!strstr(vg_last_error()->log, "outside of kernel parameter count"));
	CHECK_INT(after, lines);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(success_and_destroy_keep_the_last_error)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream, *none = NULL;

	OK(vg_stream_create(context, NULL, &stream));
	CHECK_INT(vg_stream_create(context, &(struct vg_stream_options){.size = 3}, &none), VG_INVALID);
	char text[256];
	snprintf(text, sizeof text, "%s", vg_last_error()->text);
	CHECK_CONTAINS(text, "size is 3");
	OK(vg_stream_sync(stream));
	vg_stream_destroy(stream);
	vg_stream_destroy(NULL);
	vg_context_destroy(context);
	CHECK_INT(vg_last_error()->status, VG_INVALID);
	CHECK_STR(vg_last_error()->function, "vg_stream_create");
	CHECK_STR(vg_last_error()->text, text);
}

TEST(each_status_has_its_own_text)
{
	enum { STATUSES = VG_POLICY + 1 };

	for (int i = 0; i < STATUSES; i++) {
		CHECK(*vg_status_text((enum vg_status)i) &&
		      strcmp(vg_status_text((enum vg_status)i), "unknown status") != 0);
		for (int j = 0; j < i; j++)
			CHECK(strcmp(vg_status_text((enum vg_status)i), vg_status_text((enum vg_status)j)) != 0);
	}
	CHECK_STR(vg_status_text((enum vg_status) - 1), "unknown status");
	CHECK_STR(vg_status_text((enum vg_status)9999), "unknown status");
}

// ---- threads -------------------------------------------------------------------------------------

struct thread {
	pthread_barrier_t *both;
	int bytes; // size of the options structure, different in each thread
	char problem[256];
};

static void *fail_in_thread(void *thread_)
{
	struct thread *thread = thread_;
	const struct vg_error *error = vg_last_error();
	struct vg_stream *stream = NULL;
	char part[64];

	if (error->status || error->code || *error->text || *error->log || *error->function)
		snprintf(thread->problem, sizeof thread->problem, "a new thread begins with \"%s\"", error->text);
	snprintf(part, sizeof part, "size is %d:", thread->bytes);
	for (int i = 0; i < 1000 && !*thread->problem; i++) {
		struct vg_context *context;
		struct vg_device *device;
		vg_device_get(0, &device);
		if (vg_context_primary(device, &context))
			snprintf(thread->problem, sizeof thread->problem, "%s", vg_last_error()->text);
		else if (vg_stream_create(context, &(struct vg_stream_options){.size = (size_t)thread->bytes},
					  &stream) != VG_INVALID)
			snprintf(thread->problem, sizeof thread->problem, "options of %d bytes were taken",
				 thread->bytes);
		if (i == 0)
			pthread_barrier_wait(thread->both);
		if (!*thread->problem && !strstr(vg_last_error()->text, part))
			snprintf(thread->problem, sizeof thread->problem, "not this thread's: %s",
				 vg_last_error()->text);
		vg_context_destroy(context);
	}
	return NULL;
}

TEST(each_thread_has_its_own_last_error)
{
	struct vg_context *kept = first_context(); // a new one takes half a second on hardware
	pthread_barrier_t both;
	struct thread threads[2] = {{&both, 1, ""}, {&both, 2, ""}};
	pthread_t ids[2];

	CHECK_INT(vg_stream_sync(NULL), VG_INVALID);
	CHECK_INT(pthread_barrier_init(&both, NULL, 2), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(pthread_create(&ids[i], NULL, fail_in_thread, &threads[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&both);
	CHECK_STR(threads[0].problem, "");
	CHECK_STR(threads[1].problem, "");
	CHECK_CONTAINS(vg_last_error()->text, "stream is NULL"); // the error of this thread is unchanged
	vg_context_destroy(kept);
}

// ---- fork -----------------------------------------------------------------------------------------

static void use_after_fork(struct vg_context *context, struct vg_stream *stream)
{
	struct vg_stream *another = NULL;

	CHECK_INT(vg_stream_sync(stream), VG_DRIVER);
	CHECK_INT(vg_last_error()->code, CUDA_ERROR_NOT_INITIALIZED);
	CHECK_CONTAINS(vg_last_error()->text, "CUDA_ERROR_NOT_INITIALIZED: this process was forked from one that used");
	CHECK_INT(vg_stream_create(context, NULL, &another), VG_DRIVER);
	CHECK(another == NULL);
	CHECK_INT(vg_stream_create(NULL, NULL, &another), VG_INVALID);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(calls_in_a_forked_child_fail)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream;

	OK(vg_stream_create(context, NULL, &stream));
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		use_after_fork(context, stream);
		_exit(0);
	}
	CHECK_CHILD(child);
	OK(vg_stream_sync(stream)); // the parent's objects are unchanged
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}
