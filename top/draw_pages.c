#include <stdio.h>
#include <string.h>

#include "top/draw_parts.h"
#include "top/keys.h"
#include "top/waits.h"

// If the vGPU waits, draws a line with its name, how long it waits, and what for. Returns the number of lines: 1, or 0
// if the vGPU does not wait.
static int draw_waiting(struct canvas *canvas, const struct model *model, const struct vg_vgpu_info *vgpu, int row)
{
	float wait = history_last(model_history(model, vgpu), SERIES_WAIT);
	char waits[WAITS_TEXT], part[32] = "";

	waits_text(model, vgpu, true, waits);
	if (!*waits)
		return 0;
	if (waits_for_room(vgpu))
		strcpy(part, "room");
	else if (wait >= 0)
		snprintf(part, sizeof part, "%.0f %%", (double)wait * 100);
	canvas_text(canvas, row, 1, 22, STYLE_BOLD, vgpu->name);
	canvas_print(canvas, row, 24, 4, STYLE_PLAIN, "%d", vgpu->device);
	canvas_text_right(canvas, row, 28, 6, STYLE_HIGH, part);
	canvas_text(canvas, row, 36, canvas->columns - 36, STYLE_PLAIN, waits);
	return 1;
}

void draw_waits(struct canvas *canvas, const struct model *model, int row, int height)
{
	int end = row + height;

	canvas_style(canvas, row, 0, STYLE_HEADING);
	canvas_text(canvas, row, 1, 22, STYLE_HEADING, "VGPU");
	canvas_text(canvas, row, 24, 4, STYLE_HEADING, "GPU");
	canvas_text_right(canvas, row, 28, 6, STYLE_HEADING, "WAITS");
	canvas_text(canvas, row++, 36, canvas->columns - 36, STYLE_HEADING, "FOR (A PART OF THE GPU'S TIME)");
	int first = row;
	for (size_t i = 0; model->vgpus && i < model->vgpus->count && row < end; i++)
		row += draw_waiting(canvas, model, &model->vgpus->vgpus[i], row);
	if (row == first)
		canvas_text(canvas, row++, 1, canvas->columns - 1, STYLE_DIM, "no vGPU waits");
	for (size_t i = 0; model->devices && i < model->devices->count && row < end; i++)
		if (model->devices->devices[i].waiting)
			canvas_print(canvas, row++, 1, canvas->columns - 1, STYLE_HIGH,
				     "GPU %d: %u `virgate run --wait` in the queue, for room",
				     model->devices->devices[i].index, model->devices->devices[i].waiting);
	if (row + 1 < end)
		canvas_text(canvas, row + 1, 1, canvas->columns - 1, STYLE_DIM, "w or Esc: the table");
}

void draw_help(struct canvas *canvas, int row, int height)
{
	static const char *const notes[] = {
		"MEMORY: used and limit; the bar is requested memory, then overhead.",
		"PHYS: what the driver reports. GPU/SHARE: time got in the last 10 s, and",
		"the share; WAIT: part of the time spent waiting. K, M, G are powers of 1024.",
	};
	int end = row + height, names = canvas->columns > 50 ? 20 : 10;

	canvas_style(canvas, row, 0, STYLE_HEADING);
	canvas_text(canvas, row++, 0, canvas->columns, STYLE_HEADING, "KEYS (any key leaves this page)");
	for (size_t i = 0; i < binding_count && row < end; i++) {
		if (!bindings[i].name)
			continue;
		canvas_text(canvas, row, 1, names, STYLE_KEY, bindings[i].name);
		canvas_text(canvas, row++, names + 2, canvas->columns - names - 2, STYLE_PLAIN,
			    bindings[i].description);
	}
	for (size_t i = 0; i < sizeof notes / sizeof *notes && row < end; i++)
		canvas_text(canvas, row++, 1, canvas->columns - 1, STYLE_DIM, notes[i]);
}
