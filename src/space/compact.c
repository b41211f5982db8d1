// Compacts the memory: moves movable blocks from the emptiest pages to fuller pages. A pass is planned under the lock.
// Planning takes source pages out of the pools' lists, so that they get no new blocks, and reserves new cells. Then the
// pass copies and compares without the lock, and only then changes the blocks' cells. On failure it frees the new
// cells, and no block has moved.
#include "space/pass.h"

#include "base/clock.h"

#include <stdlib.h>

// Executes the planned moves. On failure, undoes the plan.
static enum vg_status run_pass(struct space_pass *pass, struct vg_compact_result *result)
{
	struct vg_memory_space *space = pass->space;
	struct space_returned returned = {0};
	struct space_chunk *list = NULL;
	const uint64_t bytes = pass->bytes;
	const size_t blocks = pass->count;

	enum vg_status status = space_fence(space);
	if (status == VG_OK)
		status = space_mover_run(space->mover, space->stream, &result->copy_ms, &result->verify_ms);
	pthread_mutex_lock(&space->lock);
	space_pass_finish(pass, status == VG_OK, &list);
	if (status == VG_OK)
		space->bytes_moved += bytes;
	pthread_mutex_unlock(&space->lock);
	if (status)
		return status;
	result->bytes_moved += bytes;
	result->blocks_moved += blocks;
	status = space_free_chunks(space, list, SPACE_KEEP_REFUSED, &returned);
	result->bytes_returned += returned.bytes;
	result->remap_ms += returned.ms;
	return status;
}

static bool is_stopped(const struct vg_compact_options *o, const struct vg_compact_result *result, uint64_t start)
{
	struct vg_compact_progress progress = {result->bytes_moved, result->blocks_moved,
					       (double)(vg_clock_monotonic_ns() - start) * 1e-6};

	if (o->progress && o->progress(o->user, &progress))
		return true;
	return o->max_milliseconds > 0 && progress.milliseconds >= o->max_milliseconds;
}

static enum vg_status run_passes(struct space_pass *pass, const struct vg_compact_options *o,
				 struct vg_compact_result *result)
{
	struct vg_memory_space *space = pass->space;
	const uint64_t start = vg_clock_monotonic_ns();
	enum vg_status status = VG_OK;
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, space->context->handle);
	if (r)
		return core_driver_failed(r, "cuCtxPushCurrent", "%s", "");
	CORE_RELAXED relaxed = core_relax();
	if (!space->mover)
		status = space_mover_create(&space->mover);
	while (status == VG_OK) {
		space_mover_cut(space->mover, 0);
		pass->bytes = 0;
		pthread_mutex_lock(&space->lock);
		space_pass_plan(pass);
		pthread_mutex_unlock(&space->lock);
		if (!pass->count) {
			result->complete = !pass->bounded;
			break;
		}
		status = run_pass(pass, result);
		if (status == VG_OK && is_stopped(o, result, start))
			break;
	}
	return status;
}

static enum vg_status compact_space(struct vg_memory_space *space, const struct vg_compact_options *o,
				    struct vg_compact_result *result)
{
	struct space_pass *pass = calloc(1, sizeof *pass);

	if (!pass)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of moves");
	pass->space = space;
	pass->bytes_left = o->max_bytes ? o->max_bytes : UINT64_MAX;
	enum vg_status status = run_passes(pass, o, result);
	free(pass);
	return status;
}

static enum vg_status begin_compaction(struct vg_memory_space *space, struct vg_compact_result *result)
{
	enum vg_status status = space_present(space);

	if (status)
		return status;
	if (space->compacting)
		return vg_fail(VG_BUSY, 0, "the space is being compacted by another thread");
	space->compacting = true;
	space->active++;
	space->compactions++;
	result->before = space_fragmentation(space);
	return VG_OK;
}

enum vg_status vg_memory_space_compact(struct vg_memory_space *space, const struct vg_compact_options *options,
				       struct vg_compact_result *ret_result)
{
	VG_ENTRY();
	struct vg_compact_result result = {0};
	struct vg_compact_options o;

	SPACE_USABLE(space);
	CORE_OPTIONS(o, options);
	if (!(o.max_milliseconds >= 0))
		return vg_fail(VG_INVALID, 0, "max_milliseconds is %g: 0 or more", o.max_milliseconds);
	pthread_mutex_lock(&space->lock);
	enum vg_status status = begin_compaction(space, &result);
	pthread_mutex_unlock(&space->lock);
	if (status)
		return status;
	status = compact_space(space, &o, &result);
	pthread_mutex_lock(&space->lock);
	space->compacting = false;
	result.after = space_fragmentation(space);
	space->active--;
	pthread_cond_broadcast(&space->changed);
	pthread_mutex_unlock(&space->lock);
	if (ret_result)
		*ret_result = result;
	return status;
}
