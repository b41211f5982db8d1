// Splits builders off from a capture, and joins them again.
#include <stdlib.h>

#include "core/graph_builder.h"
#include "core/stream.h"

enum { MOST_FORKS = 1 << 12 };

static const char not_building[] = "must be building before it can be split";

// Makes the builder `to` wait for the work that `from` has captured so far.
static CUresult wait_for_stream(CUstream to, CUstream from, CUevent event)
{
	CUresult r = core_driver->cuEventRecord(event, from);

	return r ? r : core_driver->cuStreamWaitEvent(to, event, CU_EVENT_WAIT_DEFAULT);
}

static enum vg_status create_fork(struct vg_graph_builder *builder, CUevent event, struct vg_graph_builder **ret_fork)
{
	struct vg_stream *stream;

	enum vg_status status = vg_stream_create(builder->stream->context, NULL, &stream);
	if (status)
		return status;
	struct vg_graph_builder *fork = core_builder_new(stream, &status);
	vg_stream_destroy(stream); // the builder has its own reference
	if (!fork)
		return status;
	CUresult r = core_driver->cuStreamWaitEvent(stream->handle, event, CU_EVENT_WAIT_DEFAULT);
	if (r) {
		core_object_release(&fork->object);
		return core_driver_failed(r, "cuStreamWaitEvent", "%s", "");
	}
	struct vg_graph_builder *origin = builder->origin;
	stream->builder = fork;
	fork->origin = origin;
	core_object_retain(&origin->object);
	// The stream of the fork takes part in the capture until the capture ends, even if the program destroys the
	// fork's builder.
	core_object_retain(&fork->object);
	fork->next_fork = origin->forks;
	origin->forks = fork;
	origin->unjoined++;
	*ret_fork = fork;
	return VG_OK;
}

static enum vg_status create_forks(struct vg_graph_builder *builder, unsigned count, CUevent event,
				   struct vg_graph_builder **forks)
{
	enum vg_status status = VG_OK;
	unsigned made = 0;

	CUresult r = core_driver->cuEventRecord(event, builder->stream->handle);
	if (r)
		return core_driver_failed(r, "cuEventRecord", "%s", "");
	while (made < count && status == VG_OK) {
		status = create_fork(builder, event, &forks[made]);
		made += status == VG_OK;
	}
	// The forks created so far have captured nothing, so the capture can end without them.
	for (unsigned i = 0; status && i < made; i++)
		vg_graph_builder_destroy(forks[i]);
	return status;
}

enum vg_status vg_graph_builder_split(struct vg_graph_builder *builder, unsigned count,
				      struct vg_graph_builder **ret_builders)
{
	VG_ENTRY();
	CUevent event;

	enum vg_status status = core_builder_check(builder, not_building);
	if (status)
		return status;
	CORE_NEEDED(ret_builders);
	if (count < 2)
		return vg_fail(VG_INVALID, 0, "invalid split count: expecting 2 or more, got %u", count);
	if (count > MOST_FORKS)
		return vg_fail(VG_INVALID, 0, "a split into %u: no device runs as many streams, %d are the most", count,
			       MOST_FORKS);
	struct vg_graph_builder **forks = calloc(count, sizeof(struct vg_graph_builder *));
	if (!forks)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %u graph builders", count);
	CORE_ENTER(scope, builder->stream->context->handle);
	CUresult r = core_driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (r) {
		status = core_driver_failed(r, "cuEventCreate", "%s", "");
	} else {
		status = create_forks(builder, count - 1, event, forks);
		core_driver->cuEventDestroy_v2(event);
	}
	if (status == VG_OK) {
		ret_builders[0] = builder;
		for (unsigned i = 1; i < count; i++)
			ret_builders[i] = forks[i - 1];
	}
	free(forks);
	return status;
}

int vg_graph_builder_is_join_required(const struct vg_graph_builder *builder)
{
	return builder && builder->origin != builder && !builder->joined && !builder->object.closed;
}

// ---- joining ------------------------------------------------------------------------------------

static enum vg_status check_join(struct vg_graph_builder *const *builders, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		CORE_TRY(core_builder_check(builders[i], "must be building before it can be joined"));
		if (builders[i]->origin != builders[0]->origin)
			return vg_fail(VG_INVALID, 0, "graph builders 0 and %zu belong to different captures", i);
		for (size_t j = 0; j < i; j++)
			if (builders[j] == builders[i])
				return vg_fail(VG_INVALID, 0, "graph builders %zu and %zu are the same", j, i);
	}
	return VG_OK;
}

enum vg_status vg_graph_builder_join(struct vg_graph_builder *const *builders, size_t count,
				     struct vg_graph_builder **ret_builder)
{
	VG_ENTRY();
	CUevent event;

	CORE_NEEDED(builders);
	if (count < 2)
		return vg_fail(VG_INVALID, 0, "must join 2 or more graph builders, got %zu", count);
	CORE_TRY(check_join(builders, count));
	struct vg_graph_builder *root = builders[0];
	for (size_t i = 0; i < count; i++)
		if (builders[i]->origin == builders[i])
			root = builders[i];
	CORE_ENTER(scope, root->stream->context->handle);
	CUresult r = core_driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (r)
		return core_driver_failed(r, "cuEventCreate", "%s", "");
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++)
		if (builders[i] != root)
			r = wait_for_stream(root->stream->handle, builders[i]->stream->handle, event);
	core_driver->cuEventDestroy_v2(event);
	// On failure no builder is closed; the waits that were queued do no harm.
	if (r)
		return core_driver_failed(r, "cuStreamWaitEvent", "%s", "");
	for (size_t i = 0; i < count; i++) {
		if (builders[i] == root)
			continue;
		builders[i]->joined = true;
		builders[i]->origin->unjoined--;
		vg_graph_builder_close(builders[i]);
	}
	if (ret_builder)
		*ret_builder = root;
	return VG_OK;
}
