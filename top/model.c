#include "top/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "top/rows.h"

void model_init(struct model *model, double interval)
{
	*model = (struct model){.interval = interval};
}

void model_finish(struct model *model)
{
	histories_finish(&model->histories);
	free(model->rows);
	*model = (struct model){0};
}

// ---- history ---------------------------------------------------------------------------------------------

// Makes the key of a GPU's history. It begins with a character that names of vGPUs cannot have.
static void device_key(const char *uuid, char key[HISTORY_KEY])
{
	snprintf(key, HISTORY_KEY, "/%s", uuid);
}

static float part_of(uint64_t part, uint64_t whole)
{
	return whole ? (float)((double)part / (double)whole) : -1;
}

// Returns the part of the time since the last sample in which the vGPU waited; negative: unknown. If the counter is
// lower than before, it has begun again, and the part is 0.
static float waited_part(const struct history *history, const struct vg_vgpu_info *vgpu, double time)
{
	double seconds = time - history->time;

	if (!vgpu->turns.known)
		return -1;
	if (!history->count || !(seconds > 0) || vgpu->turns.waited_ns < history->waited_ns)
		return 0;
	double part = (double)(vgpu->turns.waited_ns - history->waited_ns) / 1e9 / seconds;
	return part < 1 ? (float)part : 1;
}

// Notes that the lists still have this vGPU or GPU. Returns whether it is too early for another sample: after a
// request, the lists are read before the interval is over.
static bool is_early(const struct model *model, struct history *history, double time)
{
	history->is_seen = true;
	return history->count && time - history->time < model->interval / 2;
}

static void sample_vgpu(struct model *model, const struct vg_vgpu_info *vgpu, double time)
{
	struct history *history = histories_find(&model->histories, vgpu->name, vgpu->created);

	if (!history || is_early(model, history, time))
		return;
	const float samples[SERIES_COUNT] = {
		[SERIES_MEMORY] = vgpu->damaged ? -1 : part_of(vgpu->charged, vgpu->memory),
		[SERIES_TIME] = vgpu->turns.known ? (float)(vgpu->turns.recent / 100) : -1,
		[SERIES_WAIT] = waited_part(history, vgpu, time),
	};
	if (!history->count)
		history->first_refusals = vgpu->refusals;
	else if (vgpu->refusals > history->refusals)
		history->refused = time;
	history_add(history, time, samples);
	history->waited_ns = vgpu->turns.waited_ns;
	history->refusals = vgpu->refusals;
}

// Returns the part of the GPU's time that its vGPUs used together; negative: unknown.
static float device_time(const struct vg_vgpu_list *vgpus, const struct vg_device_info *device)
{
	double sum = -1;

	for (size_t i = 0; i < vgpus->count; i++)
		if (vgpus->vgpus[i].device == device->index && vgpus->vgpus[i].turns.known)
			sum = (sum < 0 ? 0 : sum) + vgpus->vgpus[i].turns.recent / 100;
	return (float)sum;
}

static uint64_t device_charged(const struct vg_vgpu_list *vgpus, const struct vg_device_info *device)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < vgpus->count; i++)
		if (vgpus->vgpus[i].device == device->index && !vgpus->vgpus[i].damaged)
			sum += vgpus->vgpus[i].charged;
	return sum;
}

static void sample_device(struct model *model, const struct vg_device_info *device, double time)
{
	char key[HISTORY_KEY];

	device_key(device->uuid, key);
	struct history *history = histories_find(&model->histories, key, 0);
	if (!history || is_early(model, history, time))
		return;
	const float samples[SERIES_COUNT] = {
		[SERIES_MEMORY] = part_of(device_charged(model->vgpus, device), device->memory),
		[SERIES_TIME] = device_time(model->vgpus, device),
		[SERIES_WAIT] = -1,
	};
	history_add(history, time, samples);
}

const struct history *model_history(const struct model *model, const struct vg_vgpu_info *vgpu)
{
	return histories_look(&model->histories, vgpu->name);
}

const struct history *model_device_history(const struct model *model, const struct vg_device_info *device)
{
	char key[HISTORY_KEY];

	device_key(device->uuid, key);
	return histories_look(&model->histories, key);
}

// ---- rows ------------------------------------------------------------------------------------------------

void model_update(struct model *model, const struct vg_vgpu_list *vgpus, const struct vg_device_list *devices,
		  double time)
{
	model->vgpus = vgpus;
	model->devices = devices;
	model->time = time;
	for (size_t i = 0; i < vgpus->count; i++)
		sample_vgpu(model, &vgpus->vgpus[i], time);
	for (size_t i = 0; i < devices->count; i++)
		sample_device(model, &devices->devices[i], time);
	histories_sweep(&model->histories);
	model_arrange(model);
}

static void note_selection(struct model *model)
{
	const struct row *row = model_selected(model);

	snprintf(model->selected_name, sizeof model->selected_name, "%s", row ? row->vgpu->name : "");
	model->selected_pid = row && row->tenant ? row->tenant->pid : 0;
}

// Finds the row that was selected before the rows were made again. If its program has ended, selects the vGPU. If that
// is gone, too, keeps the number of the selected row.
static void find_selection(struct model *model)
{
	size_t vgpu = model->row_count;

	for (size_t i = 0; i < model->row_count; i++) {
		const struct row *row = &model->rows[i];
		if (strcmp(row->vgpu->name, model->selected_name) != 0)
			continue;
		if ((row->tenant ? row->tenant->pid : 0) == model->selected_pid) {
			model->selected = i;
			return;
		}
		vgpu = vgpu < i ? vgpu : i;
	}
	if (vgpu < model->row_count)
		model->selected = vgpu;
}

void model_arrange(struct model *model)
{
	rows_make(model);
	find_selection(model);
	model_move(model, 0);
}

void model_move(struct model *model, long rows)
{
	long last = (long)model->row_count - 1, at = (long)model->selected + rows;

	model->selected = (size_t)(at > last ? (last > 0 ? last : 0) : at > 0 ? at : 0);
	if (model->row_count)
		note_selection(model);
}

void model_select_first(struct model *model)
{
	model->selected = 0;
	note_selection(model);
}

const struct row *model_selected(const struct model *model)
{
	return model->selected < model->row_count ? &model->rows[model->selected] : NULL;
}

void model_scroll(struct model *model, size_t height)
{
	size_t last = model->row_count > height ? model->row_count - height : 0;

	if (model->selected < model->top)
		model->top = model->selected;
	if (height && model->selected >= model->top + height)
		model->top = model->selected - height + 1;
	if (model->top > last)
		model->top = last;
}

const char *sort_name(enum sort_key key)
{
	static const char *const names[SORT_COUNT] = {"name",	  "memory", "physical memory", "GPU time", "waiting",
						      "refusals", "owner"};

	return names[key];
}

size_t count_programs(const struct vg_vgpu_info *vgpu)
{
	size_t count = 0;

	for (size_t i = 0; i < vgpu->tenant_count; i++)
		count += !vgpu->tenants[i].guest && !vgpu->tenants[i].ended && !vgpu->tenants[i].outside;
	return count;
}
