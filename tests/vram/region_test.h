// Helpers of the tests of regions: they open contexts, load kernels that use an address, and check contents.
#pragma once
#include "core/code_test.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static inline struct vg_vram *open_vram(void)
{
	struct vg_vram *vram = NULL;

	OK(vg_vram_open(NULL, &vram));
	return vram;
}

// Closes the context, and checks that no region was left in it.
static inline void close_vram(struct vg_vram *vram)
{
	struct vg_vram_report report;

	OK(vg_vram_close(vram, &report));
	CHECK_INT(report.regions, 0);
	CHECK_INT(report.failures, 0);
	vg_vram_destroy(vram);
}

static inline struct vg_vram_handle allocate(struct vg_vram *vram, size_t bytes)
{
	struct vg_vram_handle handle = {0};

	OK(vg_vram_allocate(vram, bytes, NULL, &handle));
	return handle;
}

static const struct vg_vram_allocate_options guarded_options = {.size = sizeof guarded_options, .guard = 1},
					     shareable_options = {.size = sizeof shareable_options, .shareable = 1};
#define GUARDED (&guarded_options)
#define SHAREABLE (&shareable_options)

// Checks that every byte of the range is `value`.
static inline void check_bytes(struct vg_vram_handle handle, size_t offset, size_t bytes, int value)
{
	unsigned char *copy = malloc(bytes);

	memset(copy, ~value, bytes);
	OK(vg_vram_read_at(handle, offset, copy, bytes));
	for (size_t i = 0; i < bytes; i++)
		if (copy[i] != value)
			FAIL("byte %zu is %d, not %d", offset + i, copy[i], value);
	free(copy);
}

// A stream on the device of the region, which does not wait for the default streams, and a kernel of kernels.cu for it.
struct work {
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_object_code *code;
	struct vg_kernel *kernel;
};

static inline struct work open_work(const char *kernel)
{
	struct work work = {.context = first_context(), .code = built_code(VG_CODE_PTX, "region-kernels.ptx")};

	OK(vg_stream_create(work.context, NULL, &work.stream));
	OK(vg_object_code_kernel(work.code, kernel, &work.kernel));
	return work;
}

static inline void close_work(struct work *work)
{
	vg_kernel_destroy(work->kernel);
	vg_object_code_destroy(work->code);
	vg_stream_destroy(work->stream);
	vg_context_destroy(work->context);
}
