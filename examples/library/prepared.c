// A launch that is checked once and run many times, with a block size that the driver recommends. Invalid arguments
// are reported before anything runs.
#include "check.h"

#include <string.h>

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .global .align 4 .u32 total = 0;\n"
			  ".visible .entry add(.param .u32 amount) {\n"
			  "	.reg .b32 %r<3>;\n	.reg .b64 %d<2>;\n"
			  "	ld.param.u32 %r1, [amount];\n	mov.u64 %d1, total;\n"
			  "	atom.global.add.u32 %r2, [%d1], %r1;\n	ret;\n}\n";

int main(void)
{
	struct vg_prepared_launch *launch;
	struct vg_object_code *code;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_kernel *kernel;
	struct vg_buffer *total;
	unsigned grid, block, got, one = 1;
	vg_address address;
	size_t size;

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	check(vg_object_code_create(VG_CODE_PTX, ptx, strlen(ptx), NULL, &code));
	check(vg_object_code_kernel(code, "add", &kernel));
	check(vg_kernel_max_potential_block_size(kernel, context, NULL, &grid, &block));
	printf("%u blocks of %u threads fill %s\n", grid, block, vg_device_name(device));

	struct vg_launch_config config = {.size = sizeof config, .grid = {2}, .block = {block}};
	if (vg_launch_prepare(context, &config, kernel, VG_ARGUMENTS((size_t)1), &launch))
		printf("refused: %s\n", vg_last_error()->text);
	check(vg_launch_prepare(context, &config, kernel, NULL, 0, &launch));
	for (one = 1; one <= 3; one++) {
		check(vg_launch_set_argument(launch, 0, &one, sizeof one));
		check(vg_launch_run(launch, stream));
	}

	check(vg_object_code_global(code, context, "total", &address, &size));
	check(vg_buffer_borrow(address, size, NULL, &total));
	check(vg_buffer_read(total, 0, &got, sizeof got, stream));
	check(vg_stream_sync(stream));
	vg_buffer_destroy(total);
	vg_prepared_launch_destroy(launch);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("prepared: %u threads added up to %u\n", 2 * block, got);
	return got != 2 * block * (1 + 2 + 3);
}
