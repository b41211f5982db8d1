#include "daemon/options.h"

#include "base/descriptor.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t options_host_memory(void)
{
	char text[4096];
	uint64_t kib;

	const char *line = vg_file_read("/proc/meminfo", text, sizeof text) > 0 ? strstr(text, "MemTotal:") : NULL;
	return line && sscanf(line, "MemTotal: %" SCNu64 " kB", &kib) == 1 ? kib << 10 : 0;
}

void options_write_terms(json_t *object, const struct turn_terms *terms)
{
	json_object_set_new(object, "share", json_integer((json_int_t)terms->share));
	json_object_set_new(object, "share_limit", json_boolean(terms->is_limit));
	json_object_set_new(object, "class", json_string(terms->is_latency ? "latency" : "batch"));
	json_object_set_new(object, "mode", json_string(terms->is_mps ? "mps" : "time"));
}

bool options_read_terms(const json_t *object, struct turn_terms *ret_terms)
{
	json_int_t share = json_integer_value(json_object_get(object, "share"));
	const char *class = json_string_value(json_object_get(object, "class"));
	const char *mode = json_string_value(json_object_get(object, "mode"));

	if (share < 0 || share > 100)
		return false;
	*ret_terms = (struct turn_terms){.share = (unsigned int)share,
					 .is_limit = share && json_is_true(json_object_get(object, "share_limit")),
					 .is_latency = class && strcmp(class, "latency") == 0,
					 .is_mps = mode && strcmp(mode, "mps") == 0};
	return true;
}

void options_write_eviction(json_t *object, const struct vgpu *vgpu)
{
	json_object_set_new(object, "evictable", json_boolean(vgpu->evictable));
	if (!vgpu->evictable)
		return;
	json_object_set_new(object, "swap", json_integer((json_int_t)vgpu->swap));
	json_object_set_new(object, "fixed", json_integer((json_int_t)vgpu->fixed));
	if (vgpu->idle_suspend)
		json_object_set_new(object, "idle_suspend", json_integer(vgpu->idle_suspend));
}

bool options_read_eviction(const json_t *object, struct vgpu *ret_vgpu)
{
	bool evictable = json_is_true(json_object_get(object, "evictable"));
	json_int_t swap = json_integer_value(json_object_get(object, "swap"));
	json_int_t fixed = json_integer_value(json_object_get(object, "fixed"));
	json_int_t idle = json_integer_value(json_object_get(object, "idle_suspend"));

	if (evictable && (swap <= 0 || fixed <= 0 || idle < 0 || idle > OPTIONS_IDLE_MOST_S))
		return false;
	ret_vgpu->evictable = evictable;
	ret_vgpu->fixed = evictable ? (uint64_t)fixed : 0;
	ret_vgpu->swap = evictable ? (uint64_t)swap : 0;
	ret_vgpu->idle_suspend = evictable ? (unsigned int)idle : 0;
	return true;
}

void options_read_ledger(const struct vg_ledger *ledger, struct vgpu *ret_vgpu)
{
	uint64_t swap = vg_ledger_swap(ledger), host = options_host_memory();

	ret_vgpu->evictable = vg_ledger_flags(ledger) & VG_LEDGER_EVICTABLE;
	ret_vgpu->swap = !ret_vgpu->evictable ? 0 : swap < host ? swap : host;
	ret_vgpu->fixed = ret_vgpu->evictable ? vg_size_min(vg_ledger_fixed(ledger), ret_vgpu->memory) : 0;
}
