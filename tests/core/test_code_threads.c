// Tests threads that use the same code, kernels, programs, linkers and cache, mainly for the thread sanitizer.
#include "core_test.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 6, ROUNDS = 20 };

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .entry k(.param .u64 p, .param .u32 v) { .reg .b64 %d<3>; .reg .b32 %r<3>;\n"
			  " ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1; ld.param.u32 %r1, [v];\n"
			  " atom.global.add.u32 %r2, [%d2], %r1; ret; }\n.visible .global .u32 sum = 0;\n";

static struct vg_context *context;
static struct vg_object_code *code;
static struct vg_program *program;
static struct vg_linker *linker;
static struct vg_compile_cache *cache;
static atomic_int failures;

static void run_in_threads(void *(*run)(void *))
{
	pthread_t threads[THREADS];

	failures = 0;
	for (size_t i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, run, (void *)i), 0);
	for (size_t i = 0; i < THREADS; i++)
		CHECK_INT(pthread_join(threads[i], NULL), 0);
	CHECK_INT(failures, 0);
}

// Counts a failed call. A check that fails in a thread must not end the test there.
#define GOOD(call)                                                                 \
	do {                                                                       \
		if (call) {                                                        \
			fprintf(stderr, "%s: %s\n", #call, vg_last_error()->text); \
			failures++;                                                \
			return NULL;                                               \
		}                                                                  \
	} while (0)

static void *load_and_launch(void *arg)
{
	struct vg_launch_config config = {sizeof config, .grid = {1}, .block = {1}};
	struct vg_prepared_launch *prepared;
	struct vg_stream *stream;
	struct vg_kernel *kernel;
	vg_address sum;

	GOOD(vg_object_code_kernel(code, "k", &kernel));
	GOOD(vg_object_code_global(code, context, "sum", &sum, NULL));
	GOOD(vg_stream_create(context, NULL, &stream));
	struct vg_argument arguments[] = {VG_ARGUMENT(sum), VG_ARGUMENT((int){1})};
	GOOD(vg_launch_prepare(context, &config, kernel, arguments, 2, &prepared));
	for (int i = 0; i < ROUNDS; i++) {
		GOOD(vg_launch(stream, &config, kernel, arguments, 2));
		GOOD(vg_launch_run(prepared, stream));
	}
	GOOD(vg_stream_sync(stream));
	vg_prepared_launch_destroy(prepared);
	vg_kernel_destroy(kernel);
	vg_stream_destroy(stream);
	return NULL;
}

TEST(threads_load_code_once_and_launch_it)
{
	context = first_context();
	for (int i = 0; i < 5; i++) {
		OK(vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx, NULL, &code));
		run_in_threads(load_and_launch);
		vg_object_code_destroy(code);
	}
	vg_context_destroy(context);
}

static void *compile_and_link(void *arg)
{
	struct vg_compile_options how = {sizeof how, .cache = (size_t)arg % 2 ? cache : NULL};
	struct vg_object_code *made;

	for (int i = 0; i < 3; i++) {
		GOOD(vg_program_compile(program, i % 2 ? VG_CODE_PTX : VG_CODE_CUBIN, &how, &made));
		vg_object_code_destroy(made);
		GOOD(vg_linker_link(linker, VG_CODE_CUBIN, &made));
		vg_object_code_destroy(made);
	}
	return NULL;
}

TEST(threads_use_one_program_and_linker)
{
	static const char source[] = "__global__ void k() {}";
	struct vg_program_options options = {sizeof options, .arch = "sm_90"};
	struct vg_linker_options link = {sizeof link, .arch = "sm_90"};
	char directory[] = "/tmp/test-threads-XXXXXX", command[64];
	struct vg_compile_cache_options place = {sizeof place, .path = mkdtemp(directory)};

	enum vg_status status = vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &program);
	if (status == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(status);
	OK(vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx, NULL, &code));
	OK(vg_linker_create(&code, 1, &link, &linker));
	OK(vg_compile_cache_open(&place, &cache));
	run_in_threads(compile_and_link);
	vg_compile_cache_destroy(cache);
	vg_linker_destroy(linker);
	vg_object_code_destroy(code);
	vg_program_destroy(program);
	snprintf(command, sizeof command, "rm -r %s", directory);
	CHECK_INT(system(command), 0);
}
