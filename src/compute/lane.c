// Creates the lanes, in which quanta run, and the driver streams of compute units in lanes. Each driver stream is
// created when it is first used.
#include "compute/quantum.h"

#include "core/error.h"

#include <stdlib.h>

struct compute_lane *compute_lane_new(struct vg_compute *compute, struct vg_context *context, unsigned sms)
{
	struct compute_lane *lane = calloc(1, sizeof *lane), **end = &compute->lanes;

	if (!lane)
		return NULL;
	core_object_retain(&context->object);
	lane->context = context;
	lane->sms = sms;
	lane->group = -1;
	while (*end)
		end = &(*end)->next;
	*end = lane;
	return lane;
}

static void destroy_lane(struct compute_lane *lane)
{
	vg_context_destroy(lane->context);
	free(lane);
}

void compute_lane_remove(struct vg_compute *compute, struct compute_lane *lane)
{
	struct compute_lane **at = &compute->lanes;

	while (*at != lane)
		at = &(*at)->next;
	*at = lane->next;
	destroy_lane(lane);
}

enum vg_status compute_lanes_create(struct vg_compute *compute)
{
	struct vg_sm_resource *all;

	enum vg_status status = vg_device_sm_resource(compute->device, &all);
	if (status)
		return status;
	compute->sms = vg_sm_resource_count(all);
	struct compute_lane *whole = compute_lane_new(compute, compute->context, compute->sms);
	vg_sm_resource_destroy(all);
	if (!whole)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a scheduler");
	// The lane has all smallest groups. They do not exist yet, but there are at most as many as SMs.
	whole->end = whole->sms;
	whole->rest = true;
	return VG_OK;
}

void compute_lanes_destroy(struct vg_compute *compute)
{
	while (compute->lanes) {
		struct compute_lane *next = compute->lanes->next;
		destroy_lane(compute->lanes);
		compute->lanes = next;
	}
	compute_parts_destroy(compute->parts);
	compute->parts = NULL;
}

void compute_place_drop(struct compute_place *place)
{
	for (unsigned i = 0; i < COMPUTE_SLOTS; i++) {
		vg_stream_destroy(place->slots[i].stream);
		place->slots[i].stream = NULL;
		place->slots[i].bound = 0;
	}
	place->lane = NULL;
}

// Converts a compute unit's priority to the driver's priority. The driver has few levels, and its lower numbers are
// more urgent.
static int convert_priority(int priority)
{
	int least = 0, greatest = 0;

	if (core_driver->cuCtxGetStreamPriorityRange(&least, &greatest))
		return 0;
	return priority <= 0 ? least : -priority < greatest ? greatest : -priority;
}

enum vg_status compute_slot_ready(struct vg_compute_unit *unit, struct compute_slot *slot, struct compute_lane *lane)
{
	struct vg_stream *stream;

	if (slot->stream)
		return VG_OK;
	struct vg_stream_options options = {.size = sizeof options,
					    .priority = convert_priority(unit->stream_priority)};
	enum vg_status status = vg_stream_create(lane->context, &options, &stream);
	if (status)
		return status;
	pthread_mutex_lock(&unit->compute->lock); // compute_fence() reads the streams under this lock
	slot->stream = stream;
	pthread_mutex_unlock(&unit->compute->lock);
	return VG_OK;
}
