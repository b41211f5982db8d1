#include "top/waits.h"

#include <stdio.h>
#include <string.h>

enum { NAMED_MOST = 4 };

// A vGPU counts as waiting if it waits for at least waits_least of the time. Another vGPU counts as the cause if it
// uses at least uses_least percent of the GPU's time.
static const float waits_least = 0.05f;
static const double uses_least = 0.5;

static bool waits_for_turn(const struct model *model, const struct vg_vgpu_info *vgpu)
{
	return history_last(model_history(model, vgpu), SERIES_WAIT) >= waits_least;
}

bool waits_for_room(const struct vg_vgpu_info *vgpu)
{
	return strcmp(vgpu->eviction_state, "waiting") == 0 || strcmp(vgpu->eviction_state, "out") == 0;
}

// Returns how much another vGPU on the GPU has of what this one waits for: bytes of memory if `is_room`, otherwise
// percent of the GPU's time.
static double amount_of(const struct vg_vgpu_info *other, bool is_room)
{
	if (is_room)
		return other->evictable && !other->suspended ? (double)other->on_gpu : 0;
	return other->turns.known && other->turns.recent >= uses_least ? other->turns.recent : 0;
}

static const struct vg_vgpu_info *find_largest(const struct model *model, const struct vg_vgpu_info *vgpu, bool is_room,
					       const struct vg_vgpu_info *const *named, size_t count)
{
	const struct vg_vgpu_info *largest = NULL;

	for (size_t i = 0; i < model->vgpus->count; i++) {
		const struct vg_vgpu_info *other = &model->vgpus->vgpus[i];
		bool is_known = other == vgpu || other->device != vgpu->device;
		for (size_t j = 0; j < count; j++)
			is_known |= named[j] == other;
		if (is_known || amount_of(other, is_room) <= 0)
			continue;
		if (!largest || amount_of(other, is_room) > amount_of(largest, is_room))
			largest = other;
	}
	return largest;
}

const char *waits_text(const struct model *model, const struct vg_vgpu_info *vgpu, bool has_parts,
		       char buffer[WAITS_TEXT])
{
	const struct vg_vgpu_info *named[NAMED_MOST], *next;
	bool is_room = waits_for_room(vgpu);
	size_t count = 0, length = 0;

	*buffer = '\0';
	if (!is_room && !waits_for_turn(model, vgpu))
		return buffer;
	while (count < NAMED_MOST && (next = find_largest(model, vgpu, is_room, named, count))) {
		length += (size_t)snprintf(buffer + length, WAITS_TEXT - length, "%s%.20s", count ? ", " : "",
					   next->name);
		if (has_parts && !is_room)
			length +=
				(size_t)snprintf(buffer + length, WAITS_TEXT - length, " %.0f %%", next->turns.recent);
		named[count++] = next;
	}
	if (!count)
		snprintf(buffer, WAITS_TEXT, "%s", is_room ? "room on the GPU" : "its turn");
	return buffer;
}

size_t waits_count(const struct model *model)
{
	size_t count = 0;

	for (size_t i = 0; model->vgpus && i < model->vgpus->count; i++)
		count += waits_for_room(&model->vgpus->vgpus[i]) || waits_for_turn(model, &model->vgpus->vgpus[i]);
	return count;
}
