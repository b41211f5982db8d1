// Tests a kernel that copies with a tensor map, which needs hardware of compute capability 9.0.
#include "code_test.h"

#include <stdbool.h>

enum { ROWS = 64, COLUMNS = 128, BOX_ROWS = 8, BOX_COLUMNS = 16, BOX = BOX_ROWS * BOX_COLUMNS };

static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_memory_resource *pool;
static struct vg_kernel *kernel;

static void begin(void)
{
	if (getenv("VIRGATE_SIM"))
		SKIP("the simulated driver executes no tensor copies");
	if (kernel)
		return;
	context = first_context();
	int major, minor;
	vg_device_compute_capability(vg_context_device(context), &major, &minor);
	if (major != 9)
		SKIP("tma.cubin is for compute capability 9.0, this is %d.%d", major, minor);
	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_device_pool_current(vg_context_device(context), &pool));
	OK(vg_object_code_kernel(built_code(VG_CODE_CUBIN, "tma.cubin"), "copy_box", &kernel));
}

static struct vg_buffer *upload(const void *data, size_t size)
{
	struct vg_buffer *host, *buffer;

	OK(vg_buffer_create(pool, size, stream, &buffer));
	OK(vg_buffer_borrow((uintptr_t)data, size, NULL, &host));
	OK(vg_buffer_copy(buffer, host, stream));
	OK(vg_stream_sync(stream));
	vg_buffer_destroy(host);
	return buffer;
}

static struct vg_view *matrix_view(struct vg_buffer *buffer)
{
	struct vg_layout layout;
	struct vg_view *view;

	OK(vg_layout_dense(2, (int64_t[]){ROWS, COLUMNS}, 4, VG_ORDER_C, &layout));
	OK(vg_view_of_buffer(buffer, &layout, (struct vg_data_type){VG_TYPE_FLOAT, 32, 1}, 0, &view));
	return view;
}

static void check_box(struct vg_tensor_map *map, int row, int column, float first)
{
	static float box[BOX];
	struct vg_buffer *out = upload(box, sizeof box), *host;
	vg_address address = vg_buffer_address(out);
	struct vg_argument arguments[] = {{vg_tensor_map_value(map), VG_TENSOR_MAP_BYTES},
					  VG_ARGUMENT(address),
					  VG_ARGUMENT(row),
					  VG_ARGUMENT(column)};
	struct vg_launch_config config = {.size = sizeof config, .grid = {1}, .block = {BOX}};

	OK(vg_launch(stream, &config, kernel, arguments, 4));
	OK(vg_buffer_borrow((uintptr_t)box, sizeof box, NULL, &host));
	OK(vg_buffer_copy(host, out, stream));
	OK(vg_stream_sync(stream));
	for (int i = 0; i < BOX; i++) {
		int r = row + i / BOX_COLUMNS, c = column + i % BOX_COLUMNS;
		bool inside = r >= 0 && r < ROWS && c >= 0 && c < COLUMNS;
		CHECK(box[i] == (inside ? first + (float)(r * COLUMNS + c) : 0));
	}
	vg_buffer_destroy(host);
	vg_buffer_destroy(out);
}

TEST(a_kernel_copies_boxes_with_zeros_outside)
{
	static float values[ROWS * COLUMNS];
	struct vg_tensor_map *map;

	begin();
	for (int i = 0; i < ROWS * COLUMNS; i++)
		values[i] = (float)(i + 1);
	struct vg_buffer *one = upload(values, sizeof values);
	for (int i = 0; i < ROWS * COLUMNS; i++)
		values[i] = (float)(i + 1001);
	struct vg_buffer *other = upload(values, sizeof values);
	struct vg_view *view = matrix_view(one), *second = matrix_view(other);

	OK(vg_tensor_map_tiled(context, view, (unsigned[]){BOX_ROWS, BOX_COLUMNS}, NULL, &map));
	check_box(map, 0, 0, 1);
	check_box(map, 40, 100, 1);
	// the column must be a multiple of 4 floats (16 bytes), or the kernel fails with an illegal instruction
	check_box(map, ROWS - 3, COLUMNS - 4, 1);
	check_box(map, -2, -4, 1);
	OK(vg_tensor_map_replace_address(map, second));
	check_box(map, 8, 16, 1001);
	vg_tensor_map_destroy(map);
	vg_view_destroy(view);
	vg_view_destroy(second);
	vg_buffer_destroy(one);
	vg_buffer_destroy(other);
}
