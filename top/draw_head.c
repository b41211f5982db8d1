#include <stdio.h>
#include <string.h>

#include "top/draw_parts.h"
#include "top/text.h"
#include "top/waits.h"

enum { BAR_MOST = 32, WIDE_SCREEN = 60 };

static uint64_t count_refusals(const struct model *model)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < model->vgpus->count; i++)
		sum += model->vgpus->vgpus[i].refusals;
	return sum;
}

static void draw_title(struct canvas *canvas, const struct model *model, const struct control *control,
		       const char *clock)
{
	size_t programs = 0, waiting = waits_count(model);
	char text[200];

	for (size_t i = 0; model->vgpus && i < model->vgpus->count; i++)
		programs += count_programs(&model->vgpus->vgpus[i]);
	if (model->vgpus && model->devices)
		snprintf(text, sizeof text, "%zu GPU%s  %zu vGPU%s  %zu program%s  %zu waiting  %llu refused",
			 model->devices->count, model->devices->count == 1 ? "" : "s", model->vgpus->count,
			 model->vgpus->count == 1 ? "" : "s", programs, programs == 1 ? "" : "s", waiting,
			 (unsigned long long)count_refusals(model));
	else
		snprintf(text, sizeof text, "waits for the daemon");
	canvas_style(canvas, 0, 0, STYLE_TITLE);
	int used = canvas_print(canvas, 0, 0, canvas->columns, STYLE_TITLE, "virgate top  %s", text);
	int left = canvas->columns - used - 2;
	snprintf(text, sizeof text, "%severy %g s  %s", *control->trouble ? "OLD FIGURES  " : "", model->interval,
		 clock);
	if (left > 0 && (int)strlen(text) <= left)
		canvas_text_right(canvas, 0, used + 2, left, STYLE_TITLE, text);
	else if (left >= (int)strlen(clock))
		canvas_text_right(canvas, 0, used + 2, left, STYLE_TITLE, clock);
}

static uint64_t sum_charged(const struct model *model, const struct vg_device_info *device, uint64_t *ret_overhead)
{
	uint64_t charged = 0, overhead = 0;

	for (size_t i = 0; i < model->vgpus->count; i++) {
		const struct vg_vgpu_info *vgpu = &model->vgpus->vgpus[i];
		if (vgpu->device != device->index || vgpu->damaged)
			continue;
		charged += vgpu->charged;
		overhead += vgpu->overhead;
	}
	*ret_overhead = overhead;
	return charged;
}

static int draw_device_memory(struct canvas *canvas, const struct model *model, const struct vg_device_info *device,
			      int row, int column, int width)
{
	char used[SHORT_TEXT], all[SHORT_TEXT], text[64], physical[SHORT_TEXT];
	uint64_t overhead, charged = sum_charged(model, device, &overhead);
	const struct bar bar = {part(charged - overhead, device->memory), part(overhead, device->memory),
				part(device->reserved, device->memory), true};

	canvas_bar(canvas, row, column, width, &bar);
	short_size(charged, used);
	short_size(device->memory, all);
	if (device->memory_used_known)
		short_size(device->memory_used, physical);
	else
		strcpy(physical, "?");
	snprintf(text, sizeof text, "%s/%s", used, all);
	canvas_text_right(canvas, row, column + width, 12, STYLE_BOLD, text);
	snprintf(text, sizeof text, "phys %s", physical);
	canvas_text_right(canvas, row, column + width + 12, 12, STYLE_DIM, text);
	return column + width + 26;
}

static void draw_device_time(struct canvas *canvas, const struct model *model, const struct vg_device_info *device,
			     int row, int column, int width)
{
	const struct history *history = model_device_history(model, device);
	float time = history_last(history, SERIES_TIME), levels[HISTORY_SAMPLES];
	const struct bar bar = {time, 0, device->share_reserved ? device->share_reserved / 100.0 : -1, false};
	char text[32];

	snprintf(text, sizeof text, time < 0 ? "-" : "%.0f%%", (double)time * 100);
	column += canvas_text(canvas, row, column, canvas->columns - column, STYLE_PLAIN, "GPU ");
	canvas_bar(canvas, row, column, width, &bar);
	canvas_text_right(canvas, row, column + width, 5, STYLE_BOLD, text);
	column += width + 6;
	int left = canvas->columns - column;
	if (left < 4)
		return;
	left = left < HISTORY_SAMPLES ? left : HISTORY_SAMPLES;
	history_levels(history, SERIES_TIME, left, 1, levels);
	canvas_chart(canvas, row, 1, column, left, STYLE_USED, levels);
}

static const struct vg_turns_info *find_turns(const struct model *model, const struct vg_device_info *device)
{
	for (size_t i = 0; i < model->vgpus->count; i++)
		if (model->vgpus->vgpus[i].device == device->index && model->vgpus->vgpus[i].turns.known)
			return &model->vgpus->vgpus[i].turns;
	return NULL;
}

static void draw_device_text(struct canvas *canvas, const struct model *model, const struct vg_device_info *device,
			     int row)
{
	const struct vg_turns_info *turns = find_turns(model, device);
	char text[500], reserved[SHORT_TEXT];
	size_t length;

	short_size(device->reserved, reserved);
	length = (size_t)snprintf(text, sizeof text, "%.40s%s: limits %s, shares %u %%", device->name,
				  device->simulated && !strstr(device->name, "imulated") ? " (simulated)" : "",
				  reserved, device->share_reserved);
	if (device->drained)
		length += (size_t)snprintf(text + length, sizeof text - length, ", drained");
	if (device->waiting)
		length += (size_t)snprintf(text + length, sizeof text - length, ", %u in the queue", device->waiting);
	if (turns && *turns->holder)
		length += (size_t)snprintf(text + length, sizeof text - length, ", turn %.20s", turns->holder);
	if (turns)
		snprintf(text + length, sizeof text - length, ", %.0f switches/s", turns->handovers);
	canvas_text(canvas, row, 6, canvas->columns - 6, STYLE_DIM, text);
}

static int draw_device(struct canvas *canvas, const struct model *model, const struct vg_device_info *device, int row,
		       bool has_text)
{
	int width = (canvas->columns - 56) / 2, time = width > BAR_MOST / 2 ? BAR_MOST / 2 : width;

	width = width > BAR_MOST ? BAR_MOST : width < 4 ? 4 : width;
	canvas_print(canvas, row, 0, 6, STYLE_BOLD, "GPU %d", device->index);
	int column = draw_device_memory(canvas, model, device, row, 6, width);
	if (canvas->columns >= WIDE_SCREEN && time > 0)
		draw_device_time(canvas, model, device, row, column, time);
	if (has_text)
		draw_device_text(canvas, model, device, row + 1);
	return has_text ? 2 : 1;
}

int draw_head(struct canvas *canvas, const struct model *model, const struct control *control, int most,
	      const char *clock)
{
	size_t count = model->devices && model->vgpus ? model->devices->count : 0;
	bool has_text = 1 + 2 * (int)count <= most;
	int row = 1;

	draw_title(canvas, model, control, clock);
	for (size_t i = 0; i < count; i++) {
		if (row + 1 >= most && i + 1 < count) {
			canvas_print(canvas, row++, 0, canvas->columns, STYLE_DIM, "and %zu more GPUs", count - i);
			break;
		}
		row += draw_device(canvas, model, &model->devices->devices[i], row, has_text);
	}
	return row;
}
