#include "space/mover.h"

#include "core/error.h"
#include "core/kernel.h"
#include "kernels/move_fatbin.h"
#include "virgate/object_code.h"

#include <stdlib.h>
#include <string.h>

static void (*_Atomic between_hook)(const struct move_piece *pieces, size_t count);

struct space_mover {
	struct vg_object_code *code;
	struct vg_kernel *move, *compare;
	CUevent events[3];	   // recorded before the copies, after the copies, after the comparison
	struct move_piece *pieces; // page-locked memory; the member `different` points into the same allocation
	uint32_t *different;
	uint32_t count;
};

void space_mover_set_between(void (*between)(const struct move_piece *pieces, size_t count))
{
	between_hook = between;
}

// ---- creation and close -----------------------------------------------------------------------------

static enum vg_status load_kernels(struct space_mover *mover)
{
	static const struct vg_object_code_options options = {.size = sizeof options, .name = "virgate move"};

	enum vg_status status =
		vg_object_code_create(VG_CODE_FATBIN, move_fatbin, sizeof move_fatbin - 1, &options, &mover->code);
	if (status)
		return status;
	status = vg_object_code_kernel(mover->code, "virgate_move", &mover->move);
	return status ? status : vg_object_code_kernel(mover->code, "virgate_compare", &mover->compare);
}

static enum vg_status allocate_lists(struct space_mover *mover)
{
	void *lists = NULL;

	CUresult r = core_driver->cuMemHostAlloc(
		&lists, SPACE_MOVER_PIECES * (sizeof *mover->pieces + sizeof *mover->different), 0);
	if (r)
		return core_driver_failed(r, "cuMemHostAlloc", "%s", "for a list of copies");
	mover->pieces = lists;
	mover->different = (uint32_t *)(mover->pieces + SPACE_MOVER_PIECES);
	for (int i = 0; i < 3; i++) {
		r = core_driver->cuEventCreate(&mover->events[i], CU_EVENT_DEFAULT);
		if (r)
			return core_driver_failed(r, "cuEventCreate", "%s", "");
	}
	return VG_OK;
}

enum vg_status space_mover_create(struct space_mover **ret_mover)
{
	struct space_mover *mover = calloc(1, sizeof *mover);

	if (!mover)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of copies");
	enum vg_status status = load_kernels(mover);
	if (status)
		goto fail;
	status = allocate_lists(mover);
	if (status)
		goto fail;
	*ret_mover = mover;
	return VG_OK;
fail:
	space_mover_destroy(mover);
	return status;
}

void space_mover_destroy(struct space_mover *mover)
{
	if (!mover)
		return;
	for (int i = 0; i < 3; i++)
		if (mover->events[i])
			(void)core_driver->cuEventDestroy_v2(mover->events[i]);
	if (mover->pieces)
		(void)core_driver->cuMemFreeHost(mover->pieces);
	vg_kernel_destroy(mover->compare);
	vg_kernel_destroy(mover->move);
	vg_object_code_destroy(mover->code);
	free(mover);
}

// ---- the list ---------------------------------------------------------------------------------------

uint32_t space_mover_count(const struct space_mover *mover)
{
	return mover->count;
}

void space_mover_cut(struct space_mover *mover, uint32_t count)
{
	mover->count = count;
}

bool space_mover_add(struct space_mover *mover, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	const size_t rounded = (bytes + 15) / 16 * 16, pieces = (rounded + MOVE_PIECE_BYTES - 1) / MOVE_PIECE_BYTES;

	if (pieces > SPACE_MOVER_PIECES - mover->count)
		return false;
	for (size_t at = 0; at < rounded; at += MOVE_PIECE_BYTES)
		mover->pieces[mover->count++] = (struct move_piece){
			to + at, from + at, rounded - at < MOVE_PIECE_BYTES ? rounded - at : MOVE_PIECE_BYTES};
	return true;
}

// ---- the work ---------------------------------------------------------------------------------------

static CUresult launch_kernel(struct space_mover *mover, struct vg_kernel *kernel, CUstream stream)
{
	void *arguments[] = {&mover->pieces, &mover->different};

	return core_driver->cuLaunchKernel((CUfunction)kernel->handle, mover->count, 1, 1, MOVE_THREADS, 1, 1, 0,
					   stream, arguments, NULL);
}

static CUresult queue_copies(struct space_mover *mover, CUstream stream)
{
	CUresult r = core_driver->cuEventRecord(mover->events[0], stream);

	if (r == CUDA_SUCCESS)
		r = launch_kernel(mover, mover->move, stream);
	return r ? r : core_driver->cuEventRecord(mover->events[1], stream);
}

static CUresult queue_comparison(struct space_mover *mover, CUstream stream)
{
	void (*between)(const struct move_piece *pieces, size_t count) = between_hook;
	CUresult r = CUDA_SUCCESS;

	if (between) {
		r = core_driver->cuStreamSynchronize(stream);
		between(mover->pieces, mover->count);
	}
	if (r == CUDA_SUCCESS)
		r = launch_kernel(mover, mover->compare, stream);
	return r ? r : core_driver->cuEventRecord(mover->events[2], stream);
}

static CUresult add_times(const struct space_mover *mover, double *copy_ms, double *verify_ms)
{
	float copy = 0, verify = 0;

	CUresult r = core_driver->cuEventElapsedTime_v2(&copy, mover->events[0], mover->events[1]);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuEventElapsedTime_v2(&verify, mover->events[1], mover->events[2]);
	*copy_ms += (double)copy;
	*verify_ms += (double)verify;
	return r;
}

enum vg_status space_mover_run(struct space_mover *mover, struct vg_stream *stream, double *copy_ms, double *verify_ms)
{
	const char *call = "cuLaunchKernel";

	memset(mover->different, 0, mover->count * sizeof *mover->different);
	CUresult r = queue_copies(mover, stream->handle);
	if (r == CUDA_SUCCESS)
		r = queue_comparison(mover, stream->handle);
	CUresult end = core_driver->cuStreamSynchronize(stream->handle);
	if (r == CUDA_SUCCESS && end) {
		call = "cuStreamSynchronize";
		r = end;
	} else if (r == CUDA_SUCCESS) {
		call = "cuEventElapsedTime";
		r = add_times(mover, copy_ms, verify_ms);
	}
	if (r)
		return core_driver_failed(r, call, "copying %u pieces", mover->count);
	for (uint32_t i = 0; i < mover->count; i++)
		if (mover->different[i])
			return vg_fail(VG_INTEGRITY, 0,
				       "a copy at 0x%llx differs from its source at 0x%llx, %llu bytes: the blocks of "
				       "this pass "
				       "stay where they were",
				       (unsigned long long)mover->pieces[i].to,
				       (unsigned long long)mover->pieces[i].from,
				       (unsigned long long)mover->pieces[i].bytes);
	return VG_OK;
}
