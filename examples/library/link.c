// Links two sources with link-time optimisation. The second time, the result comes from a cache on disk.
#include "nvrtc.h"

static const char caller[] = "extern __device__ int forty(int);\n"
			     "__device__ int answer;\n"
			     "extern \"C\" __global__ void ask(int n) { answer = forty(n); }\n";
static const char callee[] = "__device__ int forty(int n) { return n + 40; }\n";

static struct vg_object_code *compile(const char *source, const char *name, struct vg_compile_cache *cache)
{
	struct vg_program_options options = {
		.size = sizeof options, .name = name, .relocatable_device_code = VG_CHOICE_ON};
	struct vg_compile_options how = {.size = sizeof how, .cache = cache};
	struct vg_program *program;
	struct vg_object_code *code;

	check(vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &program));
	check(vg_program_compile(program, VG_CODE_LTOIR, &how, &code));
	vg_program_destroy(program);
	return code;
}

int main(void)
{
	struct vg_linker_options options = {.size = sizeof options, .name = "ask", .link_time_optimization = 1};
	struct vg_compile_cache_statistics statistics;
	struct vg_object_code *linked = NULL;
	struct vg_compile_cache *cache;
	struct vg_kernel *kernel;
	struct vg_linker *linker;

	need_tool(VG_BACKEND_NVRTC);
	need_tool(VG_BACKEND_NVJITLINK);
	check(vg_compile_cache_open(NULL, &cache));
	for (int i = 0; i < 2; i++) {
		struct vg_object_code *codes[] = {compile(caller, "caller.cu", cache),
						  compile(callee, "callee.cu", cache)};
		vg_object_code_destroy(linked);
		check(vg_linker_create(codes, 2, &options, &linker));
		check(vg_linker_link(linker, VG_CODE_PTX, &linked));
		vg_linker_destroy(linker);
		vg_object_code_destroy(codes[0]);
		vg_object_code_destroy(codes[1]);
	}
	check(vg_compile_cache_get_statistics(cache, &statistics));
	printf("%s had %d of 4\n", vg_compile_cache_path(cache), (int)statistics.hits);
	check(vg_object_code_kernel(linked, "ask", &kernel));
	printf("link: kernel %s takes %zu argument\n", vg_kernel_name(kernel), vg_kernel_parameter_count(kernel));

	int good = statistics.hits >= 2 && vg_kernel_parameter_count(kernel) == 1;
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(linked);
	vg_compile_cache_destroy(cache);
	return !good;
}
