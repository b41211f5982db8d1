// Forks while other threads are inside the library: the child does not have them, and must not wait for their locks.
#include "memory_test.h"

#include <cuda.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

enum { FORKS = 40, LONGEST = 20 }; // LONGEST: the time limit of a child, in seconds

static atomic_bool over;

struct shared {
	struct bench b;
	struct vg_context *green;
	struct vg_stream *green_stream;
	struct vg_event *event;
	struct vg_buffer *buffer;
	struct vg_memory_resource *counted, *named;
	unsigned char uuid[16];
};

// Makes calls that take different locks, one after the other. Their statuses do not matter.
static void use_all(struct shared *s)
{
	struct vg_memory_statistics statistics;
	struct vg_memory_resource *found;
	struct vg_sm_resource *sms;
	struct vg_stream *stream;
	struct vg_buffer *buffer;

	if (vg_device_memory_resource(s->b.device, &found) == VG_OK)
		vg_memory_resource_destroy(found);
	if (vg_graph_memory_resource(s->b.device, &found) == VG_OK)
		vg_memory_resource_destroy(found);
	if (vg_memory_pool_find(s->uuid, &found) == VG_OK)
		vg_memory_resource_destroy(found);
	vg_buffer_set_deallocation_stream(s->buffer, s->b.stream);
	if (vg_buffer_create(s->counted, 4096, s->b.stream, &buffer) == VG_OK)
		vg_buffer_destroy(buffer);
	vg_statistics_resource_read(s->counted, &statistics);
	vg_event_record(s->event, s->green_stream);
	if (vg_context_sm_resource(s->green, &sms) == VG_OK)
		vg_sm_resource_destroy(sms);
	if (vg_stream_create(s->green, NULL, &stream) == VG_OK)
		vg_stream_destroy(stream);
	vg_stream_sync(NULL);
}

static void *keep_using(void *data)
{
	while (!over)
		use_all(data);
	return NULL;
}

// Runs the function in a child. Returns the child's exit status; SIGALRM kills the child after its time limit.
static int in_child(void (*run)(void *data), void *data)
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		alarm(LONGEST);
		run(data);
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status))
		FAIL("the child was ended by signal %d: %s", WTERMSIG(status),
		     WTERMSIG(status) == SIGALRM ? "it waited for a lock" : strsignal(WTERMSIG(status)));
	return WEXITSTATUS(status);
}

static void check_refused(void *data)
{
	struct shared *s = data;

	CHECK_INT(vg_stream_sync(s->b.stream), VG_DRIVER);
	CHECK_INT(vg_last_error()->code, CUDA_ERROR_NOT_INITIALIZED);
	use_all(s);
	vg_event_destroy(s->event);
	vg_buffer_destroy(s->buffer);
	vg_memory_resource_destroy(s->counted);
	vg_memory_resource_destroy(s->named);
	vg_stream_destroy(s->green_stream);
	vg_context_destroy(s->green);
	close_bench(&s->b);
}

static struct shared open_shared(void)
{
	struct vg_device_pool_options options = {.size = sizeof options, .shareable = 1};
	struct shared s = {.b = open_bench(), .green = green_context(8)};
	struct vg_memory_resource *registered;

	OK(vg_stream_create(s.green, NULL, &s.green_stream));
	OK(vg_event_create(s.green, NULL, &s.event));
	OK(vg_buffer_create(s.b.pool, 4096, s.b.stream, &s.buffer));
	OK(vg_statistics_resource_create(s.b.pool, &s.counted));
	OK(vg_device_pool_create(s.b.device, &options, &s.named));
	OK(vg_memory_pool_uuid(s.named, s.uuid));
	OK(vg_memory_pool_register(s.named, s.uuid, &registered));
	vg_memory_resource_destroy(registered);
	return s;
}

TEST(calls_fail_in_a_child_forked_during_calls)
{
	enum { THREADS = 3 };
	static struct shared s; // static, since the threads go on after a failed check
	pthread_t threads[THREADS];
	int failed = 0;

	s = open_shared();
	over = false;
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, keep_using, &s), 0);
	for (int i = 0; i < FORKS && !failed; i++)
		failed = in_child(check_refused, &s);
	over = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_INT(failed, 0);
	OK(vg_stream_sync(s.b.stream)); // the parent's objects are unchanged
	vg_event_destroy(s.event);
	vg_buffer_destroy(s.buffer);
	vg_memory_resource_destroy(s.counted);
	vg_memory_resource_destroy(s.named);
	vg_stream_destroy(s.green_stream);
	vg_context_destroy(s.green);
	close_bench(&s.b);
}

// ---- tools ---------------------------------------------------------------------------------------------

static struct vg_program *program;

static void *keep_compiling(void *unused)
{
	struct vg_object_code *code;

	while (!over)
		if (vg_program_compile(program, VG_CODE_PTX, NULL, &code) == VG_OK)
			vg_object_code_destroy(code);
	return unused;
}

// Compiles in the child. Exits with 1 if the call was refused because another thread was compiling when the process
// forked, else with 0.
static void compile_in_child(void *unused)
{
	struct vg_object_code *code = NULL;

	enum vg_status status = vg_program_compile(program, VG_CODE_PTX, NULL, &code);
	if (status == VG_OK)
		vg_object_code_destroy(code);
	else
		CHECK_CONTAINS(vg_last_error()->text,
			       "another thread was compiling program \"busy\" when this process was forked");
	vg_program_destroy(program);
	_exit(status == VG_STATE ? 3 : status == VG_OK ? 0 : 1);
}

TEST(a_child_does_not_wait_for_a_compiling_thread)
{
	struct vg_program_options options = {sizeof options, .arch = "sm_90", .name = "busy"};
	static const char source[] = "template <int n> __device__ int sum(int x) { return sum<n - 1>(x * n) + x; }\n"
				     "template <> __device__ int sum<0>(int x) { return x; }\n"
				     "__global__ void k(int *p) { *p = sum<200>(*p); }\n";
	pthread_t thread;
	int refused = 0, status = 0;

#ifdef __SANITIZE_ADDRESS__
	SKIP("the sanitizer's own malloc may be locked in a forked child");
#endif
	enum vg_status made = vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &program);
	if (made == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(made);
	over = false;
	CHECK_INT(pthread_create(&thread, NULL, keep_compiling, NULL), 0);
	for (int i = 0; i < 10 && (status == 0 || status == 3); i++) {
		usleep(20000);
		status = in_child(compile_in_child, NULL);
		refused += status == 3;
	}
	over = true;
	pthread_join(thread, NULL);
	vg_program_destroy(program);
	CHECK(status == 0 || status == 3);
	CHECK(refused > 0);
}
