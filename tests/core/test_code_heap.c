// Checks that launches allocate nothing. Code, kernels, programs and linkers that are created and destroyed many times
// do not leak.
#include "core_heap.h"

#include <sys/stat.h>

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .entry none() { ret; }\n"
			  ".visible .entry some(.param .u32 a, .param .u64 b, .param .u8 c) { ret; }\n";

static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_object_code *code;
static struct vg_kernel *none, *some;
static const struct vg_launch_config config = {sizeof config, .grid = {1}, .block = {1}};

static void open_all(void)
{
	heap_open();
	if (code)
		return;
	context = first_context();
	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx, NULL, &code));
	OK(vg_object_code_kernel(code, "none", &none));
	OK(vg_object_code_kernel(code, "some", &some));
}

static int first = 1;
static long second = 2;
static char third = 3;
static const struct vg_variable variables[] = {
	{{&first, sizeof first}}, {{&second, sizeof second}}, {{&third, sizeof third}}};

TEST(launches)
{
	const struct vg_launch_config cooperative = {sizeof cooperative, .grid = {1}, .block = {1}, .cooperative = 1};
	const struct vg_launch_config clusters = {sizeof clusters, .grid = {1}, .block = {1}, .cluster = {1},
						  .programmatic_stream_serialization = 1};
	struct vg_argument arguments[] = {VG_ARGUMENT(1), VG_ARGUMENT(2L), VG_ARGUMENT((char)3)};
	struct vg_prepared_launch *prepared;
	struct vg_argument_list *list;
	int value;

	open_all();
	OK(vg_argument_list_create(some, variables, 3, &list));
	OK(vg_launch_prepare(context, &config, some, arguments, 3, &prepared));
	for (int round = 0; round < 2; round++) { // first with another context current, then with the kernel's own
		HEAP_FREE(vg_launch(stream, &config, none, NULL, 0));
		HEAP_FREE(vg_launch(stream, &config, some, arguments, 3));
		HEAP_FREE(vg_launch(stream, &cooperative, some, arguments, 3));
		HEAP_FREE(vg_launch(stream, &clusters, none, NULL, 0));
		HEAP_FREE(vg_launch_list(stream, &config, list));
		HEAP_FREE(vg_argument_list_set(list, 1, &(long){7}, sizeof(long)));
		OK(vg_argument_list_set(list, 1, &second, sizeof second));
		HEAP_FREE(vg_launch_set_argument(prepared, 1, &(long){7}, sizeof(long)));
		HEAP_FREE(vg_launch_run(prepared, stream));
		HEAP_FREE(vg_kernel_get_attribute(some, vg_context_device(context), VG_KERNEL_NUM_REGS, &value));
		OK(vg_stream_sync(stream));
		OK(vg_context_set_current(context, NULL));
	}
	OK(vg_context_restore(NULL));
	vg_prepared_launch_destroy(prepared);
	vg_argument_list_destroy(list);
}

TEST(object_code_and_kernels)
{
	struct vg_object_code *one;
	struct vg_kernel *kernel, *borrowed;

	open_all();
	HEAP_STEADY(OK(vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx, NULL, &one));
		    OK(vg_object_code_kernel(one, "some", &kernel)); vg_object_code_destroy(one);
		    OK(vg_launch(stream, &config, none, NULL, 0)); OK(vg_stream_sync(stream));
		    OK(vg_kernel_borrow(vg_kernel_handle(kernel), NULL, NULL, NULL, &borrowed));
		    vg_kernel_destroy(borrowed); vg_kernel_destroy(kernel););
}

TEST(prepared_launches_and_argument_lists)
{
	struct vg_prepared_launch *prepared;
	struct vg_argument_list *list;

	open_all();
	HEAP_STEADY(OK(vg_argument_list_create(some, variables, 3, &list)); vg_argument_list_destroy(list););
	HEAP_STEADY(OK(vg_launch_prepare(context, &config, some, NULL, 0, &prepared));
		    vg_prepared_launch_destroy(prepared););
}

TEST(programs_and_linkers)
{
	static const char source[] = "__global__ void k() {}";
	struct vg_program_options options = {sizeof options, .arch = "sm_90", .define_macro = VG_TEXTS("A", "B=2")};
	struct vg_compile_options how = {sizeof how, .name_expressions = VG_TEXTS("k")};
	char directory[] = "/tmp/test-heap-XXXXXX", command[64];
	struct vg_compile_cache_options place = {sizeof place, .path = mkdtemp(directory)};
	struct vg_program *program;
	struct vg_linker *linker;
	struct vg_object_code *made;

	open_all();
	enum vg_status status = vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &program);
	if (status == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(status);
	OK(vg_compile_cache_open(&place, &how.cache));
	HEAP_STEADY(OK(vg_program_compile(program, VG_CODE_PTX, &how, &made)); vg_object_code_destroy(made););
	vg_program_destroy(program);
	vg_compile_cache_destroy(how.cache);
	HEAP_STEADY(OK(vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &program));
		    vg_program_destroy(program););
	HEAP_STEADY(OK(vg_linker_create(&code, 1, NULL, &linker)); vg_linker_destroy(linker););
	HEAP_STEADY(OK(vg_compile_cache_open(&place, &how.cache)); vg_compile_cache_destroy(how.cache););
	snprintf(command, sizeof command, "rm -r %s", directory);
	CHECK_INT(system(command), 0);
}

TEST(nothing_leaks)
{
	// The address sanitizer reports leaks of the tests above.
	vg_kernel_destroy(none);
	vg_kernel_destroy(some);
	vg_object_code_destroy(code);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}
