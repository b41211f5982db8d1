// The options of evictable vGPUs, in requests, files and ledgers.
#include "daemon/eviction.h"

#include "base/descriptor.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The default of the fixed part, without the context.
#define FIXED_WITHOUT_CONTEXT (UINT64_C(1) << 30)
enum { IDLE_MOST_S = 3600 };

// Returns MemTotal of /proc/meminfo in bytes, or 0 if it cannot be read.
static uint64_t read_host_memory(void)
{
	char text[4096];
	uint64_t kib;

	const char *line = vg_file_read("/proc/meminfo", text, sizeof text) > 0 ? strstr(text, "MemTotal:") : NULL;
	return line && sscanf(line, "MemTotal: %" SCNu64 " kB", &kib) == 1 ? kib << 10 : 0;
}

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

bool eviction_is_asked(const struct request *request)
{
	return json_is_true(json_object_get(request->object, "evictable"));
}

// Returns the default of the fixed part: a context, and room for small allocations and the libraries' own. The room is
// at most a quarter of the memory.
static uint64_t choose_fixed(const struct request *request, const struct vgpu *wanted)
{
	bool measured;
	uint64_t context = overhead_estimate(request->node, wanted->device, wanted->owner, &measured);
	uint64_t rest = vg_size_min(FIXED_WITHOUT_CONTEXT, wanted->memory / 4);

	return vg_size_min(context + rest, wanted->memory);
}

static json_t *take_fixed(const struct request *request, struct vgpu *wanted)
{
	const json_t *fixed = json_object_get(request->object, "fixed");
	char text[2][VG_SIZE_TEXT];
	bool measured;
	uint64_t context = overhead_estimate(request->node, wanted->device, wanted->owner, &measured);

	wanted->fixed = fixed ? (uint64_t)json_integer_value(fixed) : choose_fixed(request, wanted);
	if (wanted->fixed > wanted->memory)
		return refuse("invalid", "vGPU %s: a fixed part of %s is more than its memory, %s: ask for less",
			      wanted->name, vg_size_format(wanted->fixed, text[0]), vg_size_format(wanted->memory, text[1]));
	if (wanted->fixed < context)
		return refuse("invalid",
			      "vGPU %s: a fixed part of %s is too small, since a CUDA context alone takes %s: ask for more",
			      wanted->name, vg_size_format(wanted->fixed, text[0]), vg_size_format(context, text[1]));
	return NULL;
}

json_t *eviction_take(const struct request *request, struct vgpu *wanted)
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
	if (idle && (!json_is_integer(idle) || json_integer_value(idle) < 1 || json_integer_value(idle) > IDLE_MOST_S))
		return refuse("invalid", "\"idle_suspend\" must be a number of seconds from 1 to %d", IDLE_MOST_S);
	if (idle && !json_is_true(evictable))
		return refuse("invalid", "only evictable vGPUs are suspended: give --evictable with --idle-suspend");
	if (swap && !json_is_true(evictable))
		return refuse("invalid", "a swap is for evictable vGPUs: give --evictable with --swap");
	if (!json_is_true(evictable))
		return NULL;
	wanted->evictable = true;
	wanted->idle_suspend = (unsigned int)json_integer_value(idle);
	wanted->swap = swap ? (uint64_t)json_integer_value(swap) : wanted->memory;
	uint64_t host = read_host_memory();
	return wanted->swap > host ? refuse_swap(wanted, !swap, host) : take_fixed(request, wanted);
}

void eviction_write(json_t *object, const struct vgpu *vgpu)
{
	json_object_set_new(object, "evictable", json_boolean(vgpu->evictable));
	if (!vgpu->evictable)
		return;
	json_object_set_new(object, "swap", json_integer((json_int_t)vgpu->swap));
	json_object_set_new(object, "fixed", json_integer((json_int_t)vgpu->fixed));
	if (vgpu->idle_suspend)
		json_object_set_new(object, "idle_suspend", json_integer(vgpu->idle_suspend));
}

bool eviction_read(const json_t *object, struct vgpu *ret_vgpu)
{
	bool evictable = json_is_true(json_object_get(object, "evictable"));
	json_int_t swap = json_integer_value(json_object_get(object, "swap"));
	json_int_t fixed = json_integer_value(json_object_get(object, "fixed"));
	json_int_t idle = json_integer_value(json_object_get(object, "idle_suspend"));

	if (evictable && (swap <= 0 || fixed <= 0 || idle < 0 || idle > IDLE_MOST_S))
		return false;
	ret_vgpu->evictable = evictable;
	ret_vgpu->fixed = evictable ? (uint64_t)fixed : 0;
	ret_vgpu->swap = evictable ? (uint64_t)swap : 0;
	ret_vgpu->idle_suspend = evictable ? (unsigned int)idle : 0;
	return true;
}

void eviction_adopt(const struct vg_ledger *ledger, struct vgpu *ret_vgpu)
{
	uint64_t swap = vg_ledger_swap(ledger), host = read_host_memory();

	ret_vgpu->evictable = vg_ledger_flags(ledger) & VG_LEDGER_EVICTABLE;
	ret_vgpu->swap = !ret_vgpu->evictable ? 0 : swap < host ? swap : host;
	ret_vgpu->fixed = ret_vgpu->evictable ? vg_size_min(vg_ledger_fixed(ledger), ret_vgpu->memory) : 0;
}
