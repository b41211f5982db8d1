// Creates compute units, and removes them from the scheduler's list.
#include "compute/quantum.h"
#include "compute/share.h"
#include "compute/turn.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_STREAMS = 4 };

static void free_unit(struct core_object *object)
{
	struct vg_compute_unit *unit = (struct vg_compute_unit *)object;

	if (!core_forked)
		pthread_cond_destroy(&unit->changed);
	free(unit->streams);
	core_object_release(&unit->compute->object);
	free(unit);
}

static const struct core_class unit_class = {"compute unit", NULL, free_unit};

static enum vg_status check_options(const struct vg_compute_unit_options *o)
{

	if (o->streams > COMPUTE_MOST)
		return vg_fail(VG_LIMIT, 0, "%u streams: up to %d are possible", o->streams, COMPUTE_MOST);
	if (o->max_concurrent_kernels > COMPUTE_SLOTS)
		return vg_fail(VG_LIMIT, 0, "%u kernels beside each other: up to %d are possible",
			       o->max_concurrent_kernels, COMPUTE_SLOTS);
	if (o->name && (!*o->name || strlen(o->name) >= sizeof((struct vg_compute_unit *)0)->name))
		return vg_fail(VG_INVALID, 0, "a name of %zu bytes: 1 to %zu are possible", strlen(o->name),
			       sizeof((struct vg_compute_unit *)0)->name - 1);
	if ((unsigned)o->unknown_code > VG_UNKNOWN_CODE_ALLOW)
		return vg_fail(VG_INVALID, 0, "unknown_code %d: there are 0 and 1", (int)o->unknown_code);
	return VG_OK;
}

static void init_places(struct vg_compute_unit *unit)
{
	for (unsigned i = 0; i < COMPUTE_SLOTS; i++) {
		unit->whole.slots[i].place = &unit->whole;
		unit->own.slots[i].place = &unit->own;
		unit->whole.slots[i].index = unit->own.slots[i].index = i;
	}
}

static enum vg_status allocate_unit(struct vg_compute *compute, const struct vg_compute_unit_options *o,
				    struct vg_compute_unit **ret_unit)
{
	struct vg_compute_unit *unit = calloc(1, sizeof *unit);
	unsigned streams = o->streams ? o->streams : DEFAULT_STREAMS;
	pthread_condattr_t attributes;

	if (unit)
		unit->streams = calloc(streams, sizeof *unit->streams);
	if (!unit || !unit->streams) {
		free(unit);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a unit of %u streams", streams);
	}
	core_object_init(&unit->object, &unit_class);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&unit->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	core_object_retain(&compute->object);
	unit->compute = compute;
	unit->stream_count = streams;
	for (unsigned i = 0; i < streams; i++)
		unit->streams[i] = (struct compute_stream){.unit = unit, .index = i};
	unit->slot_count = o->max_concurrent_kernels ? o->max_concurrent_kernels
			   : streams < COMPUTE_SLOTS ? streams
						     : COMPUTE_SLOTS;
	init_places(unit);
	unit->priority = o->priority;
	unit->stream_priority = compute->preemption ? o->priority : 0;
	unit->tensor = !o->no_tensor_cores;
	unit->mixed = !o->no_mixed_precision;
	unit->unknown_code = o->unknown_code;
	unit->idle_since = vg_clock_monotonic_ns();
	if (o->name)
		snprintf(unit->name, sizeof unit->name, "%s", o->name);
	*ret_unit = unit;
	return VG_OK;
}

// Computes what a new compute unit may get: the unclaimed share, and the number of units that may still be created.
static void compute_left(const struct vg_compute *compute, const struct vg_compute_unit *unit,
			 struct compute_share_asked *asked)
{
	unsigned others = 0;

	asked->max_units = compute->max_units;
	asked->taken = 0;
	for (const struct vg_compute_unit *other = compute->units; other; other = other->next) {
		if (other == unit)
			continue;
		asked->taken += other->share;
		others++;
	}
	asked->places = compute->max_units > others ? compute->max_units - others : 0;
}

// Adds the compute unit to the list. Call with the lock held.
static enum vg_status add_unit(struct vg_compute *compute, struct vg_compute_unit *unit,
			       const struct vg_compute_unit_options *o)
{
	struct compute_share_asked asked = {.share = o->share, .units = o->compute_units};
	struct vg_compute_unit **end = &compute->units;

	enum vg_status status = core_object_check(&compute->object, "compute");
	if (status)
		return status;
	compute_left(compute, NULL, &asked);
	if (!asked.places)
		return vg_fail(VG_LIMIT, 0, "%u units, and max_units is %u: close one first", compute->unit_count,
			       compute->max_units);
	status = compute->direct ? VG_OK : compute_share(&asked, &unit->share);
	if (status)
		return status;
	if (compute->direct)
		unit->share = 1;
	unit->realised = unit->share;
	unit->virtual_time = compute->floor;
	compute_samples_start(&unit->samples);
	unit->serial = ++compute->unit_number;
	if (!unit->name[0])
		snprintf(unit->name, sizeof unit->name, "unit-%u", compute->unit_number);
	while (*end)
		end = &(*end)->next;
	*end = unit;
	compute->unit_count++;
	compute->regroup = true;
	return VG_OK;
}

enum vg_status vg_compute_unit_create(struct vg_compute *compute, const struct vg_compute_unit_options *options,
				      struct vg_compute_unit **ret_unit)
{
	VG_ENTRY();
	struct vg_compute_unit_options o;
	struct vg_compute_unit *unit = NULL;

	CORE_USABLE(compute, "compute");
	CORE_NEEDED(ret_unit);
	CORE_OPTIONS(o, options);
	enum vg_status status = compute_usable();
	if (status)
		return status;
	status = check_options(&o);
	if (status)
		return status;
	status = allocate_unit(compute, &o, &unit);
	if (status)
		return status;
	pthread_mutex_lock(&compute->lock);
	status = add_unit(compute, unit, &o);
	compute_unlock(compute);
	if (status) {
		core_object_release(&unit->object);
		return status;
	}
	compute_ring(compute, COMPUTE_RING_ALWAYS);
	*ret_unit = unit;
	return VG_OK;
}

// ---- for the thread ---------------------------------------------------------------------------------

// Prepares the removal of this compute unit, which ran work for other units. Virtual streams of the other units still
// refer to driver streams of this unit. Makes each refer to the first driver stream of its own unit instead. At this
// moment none of that work is on the GPU, so the next launches may use another driver stream.
static void leave_slots(struct vg_compute *compute, const struct vg_compute_unit *unit)
{
	for (struct vg_compute_unit *other = compute->units; other; other = other->next)
		for (unsigned i = 0; other != unit && i < other->stream_count; i++) {
			struct compute_stream *stream = &other->streams[i];
			if (!stream->in_flight ||
			    (stream->slot->place != &unit->whole && stream->slot->place != &unit->own))
				continue;
			stream->slot = &other->whole.slots[0];
			stream->slot->bound++;
		}
}

static void remove_unit(struct vg_compute *compute, struct vg_compute_unit *unit)
{
	struct vg_compute_unit **at = &compute->units;

	leave_slots(compute, unit);
	compute_turn_leave(unit);
	compute_place_drop(&unit->whole);
	compute_place_drop(&unit->own);
	if (compute->direct && unit->home)
		compute_lane_remove(compute, unit->home);
	unit->home = NULL;
	while (*at != unit)
		at = &(*at)->next;
	*at = unit->next;
	compute->unit_count--;
	compute->regroup = true;
	unit->gone = true;
	pthread_cond_broadcast(&unit->changed);
}

static void create_direct_lane(struct vg_compute *compute, struct vg_compute_unit *unit)
{
	unit->home = compute_lane_new(compute, compute->context, compute->sms);
	if (unit->home)
		unit->home->apart = true;
}

void compute_units_update(struct vg_compute *compute)
{
	struct vg_compute_unit *next;

	for (struct vg_compute_unit *unit = compute->units; unit; unit = next) {
		next = unit->next;
		if (unit->closing && unit->running)
			compute_queue_give_back(unit);
		if (unit->closing && !unit->unfinished && !unit->running && !unit->in_quanta)
			remove_unit(compute, unit);
		else if (compute->direct && !unit->home)
			create_direct_lane(compute, unit);
	}
}
