// Reads the options of evictable vGPUs in requests.
#include "daemon/options.h"
#include "daemon/overhead.h"
#include "daemon/request_parts.h"

// The default of the fixed part of the memory, not counting the context.
#define FIXED_WITHOUT_CONTEXT (UINT64_C(1) << 30)

static json_t *refuse_swap(const struct vgpu *wanted, bool is_default, uint64_t host)
{
	char text[2][VG_SIZE_TEXT];

	if (!host)
		return refuse("system",
			      "vGPU %s: the memory size of this machine is unknown: /proc/meminfo has no MemTotal",
			      wanted->name);
	return refuse("limit",
		      is_default ? "vGPU %s: each of its processes may move %s, its memory limit, to the host, but "
				   "this machine has %s of memory: give less with --swap SIZE"
				 : "vGPU %s: asked for a swap of %s for each process, but this machine has %s of "
				   "memory: ask for less",
		      wanted->name, vg_size_format(wanted->swap, text[0]), vg_size_format(host, text[1]));
}

bool read_evictable(const struct request *request)
{
	return json_is_true(json_object_get(request->object, "evictable"));
}

// Returns the default of the fixed part, the part of the limit for memory that cannot move to the host. It has room for
// a context, small allocations and allocations of libraries. Without the context, it is at most a quarter of the limit.
static uint64_t choose_fixed(const struct request *request, const struct vgpu *wanted)
{
	bool measured;
	uint64_t context = overhead_estimate(request->node, wanted->device, wanted->owner, &measured);
	uint64_t rest = vg_size_min(FIXED_WITHOUT_CONTEXT, wanted->memory / 4);

	return vg_size_min(context + rest, wanted->memory);
}

static json_t *read_fixed(const struct request *request, struct vgpu *wanted)
{
	const json_t *fixed = json_object_get(request->object, "fixed");
	char text[2][VG_SIZE_TEXT];
	bool measured;
	uint64_t context = overhead_estimate(request->node, wanted->device, wanted->owner, &measured);

	wanted->fixed = fixed ? (uint64_t)json_integer_value(fixed) : choose_fixed(request, wanted);
	if (wanted->fixed > wanted->memory)
		return refuse("invalid", "vGPU %s: a fixed part of %s is more than its memory, %s: ask for less",
			      wanted->name, vg_size_format(wanted->fixed, text[0]),
			      vg_size_format(wanted->memory, text[1]));
	if (wanted->fixed < context)
		return refuse(
			"invalid",
			"vGPU %s: a fixed part of %s is too small, since a CUDA context alone takes %s: ask for more",
			wanted->name, vg_size_format(wanted->fixed, text[0]), vg_size_format(context, text[1]));
	return NULL;
}

json_t *read_eviction(const struct request *request, struct vgpu *wanted)
{
	const json_t *evictable = json_object_get(request->object, "evictable");
	const json_t *swap = json_object_get(request->object, "swap");
	const json_t *fixed = json_object_get(request->object, "fixed");
	const json_t *idle = json_object_get(request->object, "idle_suspend");

	if (evictable && !json_is_null(evictable) && !json_is_boolean(evictable))
		return refuse("invalid", "\"evictable\" must be true or false");
	if (swap && (!json_is_integer(swap) || json_integer_value(swap) <= 0))
		return refuse("invalid", "\"swap\" must be a number of bytes above 0");
	if (fixed && (!json_is_integer(fixed) || json_integer_value(fixed) <= 0))
		return refuse("invalid", "\"fixed\" must be a number of bytes above 0");
	if (fixed && !json_is_true(evictable))
		return refuse("invalid", "a fixed part is for evictable vGPUs: give --evictable with --fixed");
	if (idle &&
	    (!json_is_integer(idle) || json_integer_value(idle) < 1 || json_integer_value(idle) > OPTIONS_IDLE_MOST_S))
		return refuse("invalid", "\"idle_suspend\" must be a number of seconds from 1 to %d",
			      OPTIONS_IDLE_MOST_S);
	if (idle && !json_is_true(evictable))
		return refuse("invalid", "only evictable vGPUs are suspended: give --evictable with --idle-suspend");
	if (swap && !json_is_true(evictable))
		return refuse("invalid", "a swap is for evictable vGPUs: give --evictable with --swap");
	if (!json_is_true(evictable))
		return NULL;
	wanted->evictable = true;
	wanted->idle_suspend = (unsigned int)json_integer_value(idle);
	wanted->swap = swap ? (uint64_t)json_integer_value(swap) : wanted->memory;
	uint64_t host = options_host_memory();
	return wanted->swap > host ? refuse_swap(wanted, !swap, host) : read_fixed(request, wanted);
}
