// Compiles CUDA C++ at run time: a template, a macro, and the compiler's log for an error.
#include "nvrtc.h"

static const char source[] = "template <typename T> __global__ void saxpy(T *y, const T *x, T a, unsigned count)\n"
			     "{\n"
			     "	unsigned i = blockIdx.x * THREADS + threadIdx.x;\n"
			     "	if (i < count)\n"
			     "		y[i] += a * x[i];\n"
			     "}\n";
enum { COUNT = 10000, THREADS = 128 };
static float x[COUNT], y[COUNT];

static struct vg_object_code *compile(struct vg_device *device)
{
	struct vg_program_options options = {.size = sizeof options, .name = "saxpy.cu", .device = device};
	struct vg_compile_options how = {.size = sizeof how, .name_expressions = VG_TEXTS("saxpy<float>")};
	struct vg_program *program;
	struct vg_object_code *code;

	need_tool(VG_BACKEND_NVRTC);
	// Without THREADS the compilation fails: the error contains the compiler's log.
	check(vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &program));
	if (vg_program_compile(program, VG_CODE_PTX, &how, &code))
		printf("%s\n", vg_last_error()->log);
	vg_program_destroy(program);

	options.define_macro = (struct vg_texts)VG_TEXTS("THREADS=128");
	check(vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &program));
	check(vg_program_compile(program, VG_CODE_PTX, &how, &code));
	vg_program_destroy(program);
	return code;
}

int main(void)
{
	struct vg_launch_config config = {
		.size = sizeof config, .grid = {(COUNT + THREADS - 1) / THREADS}, .block = {THREADS}};
	struct vg_memory_resource *pool;
	struct vg_buffer *device_x, *device_y;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_kernel *kernel;

	for (int i = 0; i < COUNT; i++)
		x[i] = y[i] = i;
	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	check(vg_device_pool_current(device, &pool));
	check(vg_buffer_create(pool, sizeof x, stream, &device_x));
	check(vg_buffer_create(pool, sizeof y, stream, &device_y));
	check(vg_buffer_write(device_x, 0, x, sizeof x, stream));
	check(vg_buffer_write(device_y, 0, y, sizeof y, stream));

	struct vg_object_code *code = compile(device);
	check(vg_object_code_kernel(code, "saxpy<float>", &kernel));
	check(vg_launch(stream, &config, kernel,
			VG_ARGUMENTS(vg_buffer_address(device_y), vg_buffer_address(device_x), 2.0f, (unsigned)COUNT)));
	check(vg_buffer_read(device_y, 0, y, sizeof y, stream));
	check(vg_stream_sync(stream));

	int wrong = 0;
	for (int i = 0; i < COUNT; i++)
		wrong += y[i] != 3 * x[i];
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	vg_buffer_destroy(device_x);
	vg_buffer_destroy(device_y);
	vg_memory_resource_destroy(pool);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("compile: %d of %d elements are wrong\n", wrong, COUNT);
	return wrong != 0;
}
