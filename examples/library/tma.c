// The Tensor Memory Accelerator: a map describes a matrix, and one thread starts the copy of a box of it to shared
// memory. What is beyond the edge of the matrix becomes zero.
#include "nvrtc.h"

enum { ROWS = 64, COLUMNS = 128, BOX_ROWS = 8, BOX_COLUMNS = 16, BOX = BOX_ROWS * BOX_COLUMNS };
enum { NOT_SUPPORTED = 801 }; // CUDA_ERROR_NOT_SUPPORTED of <cuda.h>

// The kernel's parameter is a CUtensorMap: 128 bytes, by value.
static const char source[] =
	"struct alignas(64) map { char bytes[128]; };\n"
	"\n"
	"extern \"C\" __global__ void copy_box(const __grid_constant__ map m, float *out, int row, int column)\n"
	"{\n"
	"	__shared__ alignas(128) float box[128];\n"
	"	__shared__ alignas(8) unsigned long long barrier;\n"
	"	unsigned box_at = __cvta_generic_to_shared(box), done = 0;\n"
	"	unsigned barrier_at = __cvta_generic_to_shared(&barrier);\n"
	"\n"
	"	if (threadIdx.x == 0) {\n"
	"		asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\" ::\"r\"(barrier_at));\n"
	"		asm volatile(\"fence.proxy.async.shared::cta;\");\n"
	"		asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;\"\n"
	"			     ::\"r\"(barrier_at));\n"
	"		asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes \"\n"
	"			     \"[%0], [%1, {%2, %3}], [%4];\"\n"
	"			     ::\"r\"(box_at), \"l\"(&m), \"r\"(column), \"r\"(row), \"r\"(barrier_at)\n"
	"			     : \"memory\");\n"
	"	}\n"
	"	__syncthreads();\n"
	"	while (!done)\n"
	"		asm volatile(\"{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\"\n"
	"			     \" selp.u32 %0, 1, 0, p; }\" : \"=r\"(done) : \"r\"(barrier_at) : \"memory\");\n"
	"	out[threadIdx.x] = box[threadIdx.x];\n"
	"}\n";

static float values[ROWS * COLUMNS], box[BOX];

// Copies the box at a row and a column, and counts the values in it that are wrong.
static int copy_box(struct vg_stream *stream, struct vg_kernel *kernel, const struct vg_tensor_map *map,
		    struct vg_buffer *out, int row, int column)
{
	struct vg_launch_config config = {.size = sizeof config, .grid = {1}, .block = {BOX}};
	vg_address address = vg_buffer_address(out);
	struct vg_argument arguments[] = {{vg_tensor_map_value(map), VG_TENSOR_MAP_BYTES},
					  VG_ARGUMENT(address),
					  VG_ARGUMENT(row),
					  VG_ARGUMENT(column)};
	int wrong = 0;

	check(vg_launch(stream, &config, kernel, arguments, 4));
	check(vg_buffer_read(out, 0, box, sizeof box, stream));
	check(vg_stream_sync(stream));
	for (int i = 0; i < BOX; i++) {
		int r = row + i / BOX_COLUMNS, c = column + i % BOX_COLUMNS;
		int inside = r >= 0 && r < ROWS && c >= 0 && c < COLUMNS;
		wrong += box[i] != (inside ? values[r * COLUMNS + c] : 0);
	}
	printf("box at (%d, %d): %d values are wrong\n", row, column, wrong);
	return wrong;
}

int main(void)
{
	struct vg_buffer *matrix, *out;
	struct vg_memory_resource *pool;
	struct vg_object_code *code;
	struct vg_context *context;
	struct vg_tensor_map *map;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_kernel *kernel;
	struct vg_layout layout;
	struct vg_view *view;
	int major, minor;

	check(vg_device_get(0, &device));
	vg_device_compute_capability(device, &major, &minor);
	if (major < 9) {
		printf("skipped: needs compute capability 9.0, %s has %d.%d\n", vg_device_name(device), major, minor);
		return 77;
	}
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	code = compile_code(device, source);
	if (vg_object_code_kernel(code, "copy_box", &kernel)) {
		if (vg_last_error()->code != NOT_SUPPORTED)
			check(vg_last_error()->status);
		printf("skipped: the simulated GPU copies no tensors: %s", vg_last_error()->log);
		exit(77);
	}

	for (int i = 0; i < ROWS * COLUMNS; i++)
		values[i] = (float)(i + 1);
	check(vg_device_pool_current(device, &pool));
	check(vg_buffer_create(pool, sizeof values, stream, &matrix));
	check(vg_buffer_create(pool, sizeof box, stream, &out));
	check(vg_buffer_write(matrix, 0, values, sizeof values, stream));
	check(vg_layout_dense(2, (int64_t[]){ROWS, COLUMNS}, sizeof(float), VG_ORDER_C, &layout));
	check(vg_view_of_buffer(matrix, &layout, (struct vg_data_type){VG_TYPE_FLOAT, 32, 1}, 0, &view));
	check(vg_tensor_map_tiled(context, view, (unsigned[]){BOX_ROWS, BOX_COLUMNS}, NULL, &map));
	int wrong =
		copy_box(stream, kernel, map, out, 40, 96) + copy_box(stream, kernel, map, out, ROWS - 3, COLUMNS - 4);

	vg_tensor_map_destroy(map);
	vg_view_destroy(view);
	vg_buffer_destroy(matrix);
	vg_buffer_destroy(out);
	vg_memory_resource_destroy(pool);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("tma: %d values are wrong\n", wrong);
	return wrong != 0;
}
