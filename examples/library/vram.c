// Device memory behind handles: accesses out of bounds, beyond the limit or through an old handle are refused with a
// reason. A kernel gets the address by a loan, and freed memory is zeroed. A region with a guard ends where mapped
// memory ends.
#include "check.h"
#include "vram_ptx.h"

#include <string.h>

enum { COUNT = 1000 };

static void expect_refusal(enum vg_status status)
{
	printf("%s, so %s: %s\n", vg_status_text(status),
	       vg_status_is_retriable(status) ? "try again later" : "do not try again", vg_last_error()->text);
}

// A loan is the only way to a region's address, which is valid until the loan ends.
static void double_values(struct vg_vram_handle values, struct vg_stream *stream, struct vg_kernel *kernel)
{
	const struct vg_launch_config config = {.size = sizeof config, .grid = {(COUNT + 255) / 256}, .block = {256}};
	struct vg_vram_loan loan;

	check(vg_vram_borrow(values, VG_VRAM_READ_WRITE, &loan));
	check(vg_launch(stream, &config, kernel, VG_ARGUMENTS(loan.address, (unsigned)COUNT)));
	check(vg_stream_sync(stream)); // the kernel has ended before the loan does
	check(vg_vram_give_back(&loan));
}

int main(void)
{
	const struct vg_vram_allocate_options guarded = {.size = sizeof guarded, .guard = 1};
	struct vg_vram_handle values, again = {0};
	struct vg_vram_capacity capacity;
	struct vg_object_code *code;
	struct vg_context *context;
	struct vg_kernel *kernel;
	struct vg_stream *stream;
	struct vg_vram *vram;
	float data[COUNT];

	check(vg_vram_open(NULL, &vram));
	check(vg_context_primary(vg_vram_device(vram), &context));
	check(vg_stream_create(context, NULL, &stream));
	check(vg_object_code_create(VG_CODE_PTX, vram_ptx, sizeof vram_ptx, NULL, &code));
	check(vg_object_code_kernel(code, "twice", &kernel));

	check(vg_vram_allocate(vram, sizeof data, &guarded, &values));
	for (int i = 0; i < COUNT; i++)
		data[i] = (float)i;
	check(vg_vram_write_at(values, 0, data, sizeof data));
	double_values(values, stream, kernel);
	memset(data, 0, sizeof data);
	check(vg_vram_read_at(values, 0, data, sizeof data));
	check(vg_vram_capacity(vram, &capacity));
	printf("%zu bytes behind a handle take %llu\n", sizeof data, (unsigned long long)capacity.used);

	expect_refusal(vg_vram_write_at(values, sizeof data - 2, data, 4));
	expect_refusal(vg_vram_allocate(vram, capacity.total + 1, NULL, &again));
	check(vg_vram_free(values));
	expect_refusal(vg_vram_free(values));

	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	struct vg_vram_report report;
	check(vg_vram_close(vram, &report));
	vg_vram_destroy(vram);
	printf("vram: value %d became %g; %zu regions were left\n", COUNT - 1, data[COUNT - 1], report.regions);
	return data[COUNT - 1] == 2 * (COUNT - 1) && report.regions == 0 ? 0 : 1;
}
