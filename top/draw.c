#include "top/draw.h"

#include <stdio.h>
#include <string.h>

#include "top/draw_parts.h"
#include "top/keys.h"

enum {
	LOW_SCREEN = 9,	   // with fewer rows, only the table is drawn
	DETAIL_SCREEN = 18 // with fewer rows, the charts of the selected vGPU are left out
};

static void draw_keys(struct canvas *canvas, int row)
{
	static const char *const shown[] = {"h", "q", "f", "w", "/", "t", ">", "m", "+", "z", "k"};
	int column = 0;

	for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
		const struct binding *key = binding_find((uint32_t)*shown[i]);
		const char *name = *shown[i] == '+' ? "+-" : shown[i];
		int needed = (int)(strlen(name) + strlen(key->label)) + 1;
		if (column + needed > canvas->columns)
			break;
		column += canvas_text(canvas, row, column, canvas->columns, STYLE_KEY, name);
		column += canvas_text(canvas, row, column, canvas->columns, STYLE_HEADING, key->label) + 1;
	}
}

// Draws the line above the keys. It shows one of these, in this order: a question or an input; why there are no new
// figures; the last message; the vGPU that is followed, or the filter.
static void draw_status(struct canvas *canvas, const struct model *model, const struct control *control, int row)
{
	char text[REQUEST_TEXT + 64];
	const char *prompt = control_prompt(control, text, sizeof text);
	int width = canvas->columns;

	if (!prompt && model->row_count > (size_t)control->page && width > 40) {
		canvas_print(canvas, row, width - 16, 16, STYLE_DIM, " row %zu of %zu", model->selected + 1,
			     model->row_count);
		width -= 17;
	}
	if (prompt)
		canvas_text(canvas, row, 0, width, STYLE_BOLD, prompt);
	else if (*control->trouble)
		canvas_print(canvas, row, 0, width, STYLE_FULL, "no new figures: %s", control->trouble);
	else if (*control->status)
		canvas_text(canvas, row, 0, width, control->is_error ? STYLE_FULL : STYLE_BOLD, control->status);
	else if (*model->followed)
		canvas_print(canvas, row, 0, width, STYLE_DIM, "follows %s; f or Esc: all vGPUs", model->followed);
	else if (*model->filter)
		canvas_print(canvas, row, 0, width, STYLE_DIM, "filter \"%s\"; Esc clears it", model->filter);
}

static void draw_body(struct canvas *canvas, struct model *model, struct control *control, int row, int height)
{
	bool has_detail = canvas->rows >= DETAIL_SCREEN && height > DETAIL_LEAST + 4 && model_selected(model);
	int detail = has_detail ? DETAIL_LEAST : 0;

	if (has_detail && *model->followed && height - 8 > detail)
		detail = height - 8 > 26 ? 26 : height - 8;
	if (control->mode == MODE_WAITS) {
		draw_waits(canvas, model, row, height);
		return;
	}
	draw_table(canvas, model, control, row, height - detail);
	if (detail)
		draw_detail(canvas, model, row + height - detail, detail);
}

void draw_screen(struct canvas *canvas, struct model *model, struct control *control, const char *clock)
{
	bool has_prompt = control->mode >= MODE_FILTER;
	int rows = canvas->rows;

	canvas->selected = -1;
	if (rows < LOW_SCREEN) {
		bool has_status = rows > 2 && (has_prompt || *control->trouble || *control->status);
		draw_body(canvas, model, control, 0, rows - has_status);
		if (has_status || has_prompt)
			draw_status(canvas, model, control, rows - 1);
		return;
	}
	if (control->mode == MODE_HELP) {
		draw_help(canvas, 0, rows - 1);
		draw_keys(canvas, rows - 1);
		return;
	}
	int head = draw_head(canvas, model, control, rows / 3, clock);
	draw_body(canvas, model, control, head, rows - head - 2);
	draw_status(canvas, model, control, rows - 2);
	draw_keys(canvas, rows - 1);
}
