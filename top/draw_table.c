#include <stdio.h>
#include <string.h>

#include "top/draw_parts.h"
#include "top/text.h"
#include "top/waits.h"

struct place {
	struct canvas *canvas;
	const struct model *model;
	int row, column, width;
	bool is_narrow; // programs have no bar for their memory, so that their names are longer
};

enum { SHORT_NAME = 6, WIDE_NAME = 24, MEMORY_LEAST = 18, MEMORY_FIGURES = 11 };

static const char *unicode_or(const struct canvas *canvas, const char *text, const char *ascii)
{
	return canvas->is_unicode ? text : ascii;
}

// ---- columns ---------------------------------------------------------------------------------------------

static void draw_name(const struct place *at, const struct row *row)
{
	struct canvas *canvas = at->canvas;

	if (!row->tenant) {
		canvas_text(canvas, at->row, at->column, at->width, STYLE_BOLD, row->vgpu->name);
		return;
	}
	int width = at->width + (at->is_narrow ? MEMORY_LEAST - MEMORY_FIGURES : 0);
	const char *branch = row->is_last ? unicode_or(canvas, "└ ", "` ") : unicode_or(canvas, "├ ", "|-");
	int used = at->model->view == VIEW_PROGRAMS
			   ? 0
			   : canvas_text(canvas, at->row, at->column, width, STYLE_DIM, branch);
	canvas_print(canvas, at->row, at->column + used, width - used, STYLE_PLAIN, "%lld %s",
		     (long long)row->tenant->pid, *row->tenant->command ? row->tenant->command : "-");
}

static void draw_memory(const struct place *at, const struct row *row)
{
	const struct vg_vgpu_info *vgpu = row->vgpu;
	uint64_t charged = row->tenant ? row->tenant->charged : vgpu->charged;
	uint64_t overhead = row->tenant ? row->tenant->overhead : vgpu->overhead;
	const struct bar bar = {part(charged > overhead ? charged - overhead : 0, vgpu->memory),
				part(overhead, vgpu->memory), -1, true};
	int text_width = at->width < MEMORY_FIGURES ? at->width : MEMORY_FIGURES,
	    bar_width = at->width - text_width - 1;
	char used[SHORT_TEXT], limit[SHORT_TEXT], text[64];

	short_size(charged, used);
	if (vgpu->damaged)
		strcpy(used, "?");
	if (row->tenant)
		snprintf(text, sizeof text, "%s      ", used);
	else
		snprintf(text, sizeof text, "%s/%-5s", used, short_size(vgpu->memory, limit));
	if (bar_width > 2 && !(row->tenant && at->is_narrow))
		canvas_bar(at->canvas, at->row, at->column, bar_width, &bar);
	canvas_text_right(at->canvas, at->row, at->column + at->width - text_width, text_width, STYLE_PLAIN, text);
}

static void draw_overhead(const struct place *at, const struct row *row)
{
	char text[SHORT_TEXT];

	canvas_text_right(
		at->canvas, at->row, at->column, at->width, STYLE_PLAIN,
		row->vgpu->damaged ? "?" : short_size(row->tenant ? row->tenant->overhead : row->vgpu->overhead, text));
}

static void draw_physical(const struct place *at, const struct row *row)
{
	int is_known = row->tenant ? row->tenant->physical_known : row->vgpu->physical_known;
	uint64_t physical = row->tenant ? row->tenant->physical : row->vgpu->physical;
	char text[SHORT_TEXT];

	canvas_text_right(at->canvas, at->row, at->column, at->width, STYLE_PLAIN,
			  is_known ? short_size(physical, text) : "-");
}

static void draw_share(const struct place *at, const struct row *row)
{
	const struct vg_vgpu_info *vgpu = row->vgpu;
	float time = history_last(model_history(at->model, vgpu), SERIES_TIME);
	const struct bar bar = {time, 0, vgpu->share ? vgpu->share / 100.0 : -1, false};
	char got[16], asked[16], text[40];

	if (row->tenant)
		return;
	snprintf(got, sizeof got, time < 0 ? "-" : "%.0f", (double)time * 100);
	snprintf(asked, sizeof asked, vgpu->share ? "%u%%" : "-", vgpu->share);
	snprintf(text, sizeof text, "%s/%-4s", got, asked);
	int text_width = at->width < 8 ? at->width : 8, bar_width = at->width - text_width - 1;
	if (bar_width > 2)
		canvas_bar(at->canvas, at->row, at->column, bar_width, &bar);
	canvas_text_right(at->canvas, at->row, at->column + at->width - text_width, text_width, STYLE_PLAIN, text);
}

static void draw_history(const struct place *at, const struct row *row)
{
	float levels[HISTORY_SAMPLES];
	const struct history *history = model_history(at->model, row->vgpu);
	bool has_time = history_last(history, SERIES_TIME) >= 0;
	double each = 180 / at->model->interval / at->width;

	if (row->tenant || at->width > HISTORY_SAMPLES)
		return;
	history_levels(history, has_time ? SERIES_TIME : SERIES_MEMORY, at->width, each > 1 ? (unsigned)each : 1,
		       levels);
	canvas_chart(at->canvas, at->row, 1, at->column, at->width, has_time ? STYLE_USED : STYLE_OTHER, levels);
}

static void draw_wait(const struct place *at, const struct row *row)
{
	float wait = history_last(model_history(at->model, row->vgpu), SERIES_WAIT);
	char text[16];

	if (row->tenant)
		return;
	snprintf(text, sizeof text, wait < 0 ? "-" : "%.0f%%", (double)wait * 100);
	canvas_text_right(at->canvas, at->row, at->column, at->width, wait >= 0.05f ? STYLE_HIGH : STYLE_PLAIN, text);
}

static void draw_refusals(const struct place *at, const struct row *row)
{
	const struct history *history = model_history(at->model, row->vgpu);
	bool is_recent = history && history->refused > 0 && at->model->time - history->refused < 60;
	char text[24];

	if (row->tenant)
		return;
	if (row->vgpu->refusals < 10000)
		snprintf(text, sizeof text, "%u", (unsigned)row->vgpu->refusals);
	else
		snprintf(text, sizeof text, "%lluk", (unsigned long long)(row->vgpu->refusals / 1000));
	canvas_text_right(at->canvas, at->row, at->column, at->width, is_recent ? STYLE_FULL : STYLE_PLAIN, text);
}

static void draw_owner(const struct place *at, const struct row *row)
{
	if (!row->tenant)
		canvas_text(at->canvas, at->row, at->column, at->width, STYLE_PLAIN, row->vgpu->owner);
}

// Describes a vGPU's state. Of several states, chooses the most important one. Returns the style of the text.
static enum style vgpu_state(const struct model *model, const struct vg_vgpu_info *vgpu, char text[STATE_TEXT])
{
	char waits[WAITS_TEXT];
	const char *state = vgpu->eviction_state;

	waits_text(model, vgpu, false, waits);
	if (vgpu->damaged) {
		strcpy(text, "damaged");
		return STYLE_FULL;
	}
	if (*waits) {
		snprintf(text, STATE_TEXT, "waits: %s", waits);
		return STYLE_HIGH;
	}
	if (vgpu->suspended || strstr(state, "suspended") || strcmp(state, "moving") == 0) {
		snprintf(text, STATE_TEXT, "%s", *state ? state : "suspended");
		return STYLE_OTHER;
	}
	if (vgpu->turns.known && !vgpu->turns.held) {
		snprintf(text, STATE_TEXT, "%s", vgpu->turns.reason);
		return STYLE_HIGH;
	}
	strcpy(text, !vgpu->tenants_known   ? "hidden"
		     : count_programs(vgpu) ? "running"
		     : vgpu->drained	    ? "drained"
					    : "idle");
	return vgpu->tenants_known && count_programs(vgpu) ? STYLE_PLAIN : STYLE_DIM;
}

static void draw_state(const struct place *at, const struct row *row)
{
	char text[STATE_TEXT];

	if (row->tenant) {
		const char *state = tenant_state(row->tenant, text);
		bool is_shown = !*state && at->model->view == VIEW_PROGRAMS;
		canvas_text(at->canvas, at->row, at->column, at->width, STYLE_DIM, is_shown ? row->vgpu->name : state);
		return;
	}
	enum style style = vgpu_state(at->model, row->vgpu, text);
	canvas_text(at->canvas, at->row, at->column, at->width, style, text);
}

// The columns, in their order on the screen. A narrow screen has room only for the columns with the lowest `rank`.
static const struct column {
	const char *title;
	int least, rank;
	bool is_right;
	enum sort_key sort;
	void (*draw)(const struct place *at, const struct row *row);
} columns[] = {
	{"NAME", 16, 0, false, SORT_NAME, draw_name},
	{"OWNER", 8, 9, false, SORT_OWNER, draw_owner},
	{"MEMORY", MEMORY_LEAST, 1, true, SORT_MEMORY, draw_memory},
	{"OVERH", 5, 8, true, SORT_COUNT, draw_overhead},
	{"PHYS", 5, 4, true, SORT_PHYSICAL, draw_physical},
	{"GPU/SHARE", 14, 2, true, SORT_TIME, draw_share},
	{"HISTORY", 12, 7, false, SORT_COUNT, draw_history},
	{"WAIT", 4, 5, true, SORT_WAIT, draw_wait},
	{"REF", 3, 6, true, SORT_REFUSALS, draw_refusals},
	{"STATE", 13, 3, false, SORT_COUNT, draw_state},
};
enum { COLUMN_COUNT = sizeof columns / sizeof *columns };

// Returns the least width of a column on a screen of that width. On a very narrow screen, the memory is shown without a
// bar, and names are shorter. On the narrowest, only names are shown.
static int least_width(int column, int screen)
{
	int both = columns[0].least + 1 + MEMORY_FIGURES, spare = screen - 1 - MEMORY_FIGURES;

	if (columns[column].draw == draw_name && screen < both)
		return spare >= SHORT_NAME ? spare : screen;
	if (columns[column].draw == draw_memory && screen < columns[0].least + 1 + MEMORY_LEAST)
		return MEMORY_FIGURES;
	return columns[column].least;
}

// Chooses the widths of the columns; 0: a column is not shown.
static void choose_widths(int width, int ret_widths[COLUMN_COUNT])
{
	// Room that is left makes columns wider, one after the other in this order, each up to the width `most`.
	static const struct {
		int column, most;
	} growing[] = {{0, 20}, {9, 22}, {0, 24}, {2, 28}, {5, 20}, {6, 24},
		       {8, 5},	{9, 34}, {0, 30}, {1, 12}, {6, 60}, {9, 200}};
	int left = width;

	memset(ret_widths, 0, COLUMN_COUNT * sizeof *ret_widths);
	for (int rank = 0; rank < COLUMN_COUNT; rank++)
		for (int i = 0; i < COLUMN_COUNT; i++) {
			int needed = least_width(i, width);
			if (columns[i].rank != rank || needed + (rank > 0) > left)
				continue;
			ret_widths[i] = needed;
			left -= needed + (rank > 0);
		}
	for (size_t i = 0; i < sizeof growing / sizeof *growing; i++) {
		int *one = &ret_widths[growing[i].column], more = growing[i].most - *one;
		more = !*one || more < 0 ? 0 : more < left ? more : left;
		*one += more;
		left -= more;
	}
}

// ---- the table -------------------------------------------------------------------------------------------

static void draw_titles(struct canvas *canvas, const struct model *model, int row, const int *widths)
{
	int column = 0;

	canvas_style(canvas, row, 0, STYLE_HEADING);
	for (int i = 0; i < COLUMN_COUNT; i++) {
		if (!widths[i])
			continue;
		bool is_sorted = columns[i].sort == model->sort;
		const char *arrow = !is_sorted		 ? ""
				    : model->is_reversed ? unicode_or(canvas, "▲", "^")
							 : unicode_or(canvas, "▼", "v");
		char title[32];
		snprintf(title, sizeof title, "%s%s", columns[i].title, arrow);
		enum style style = is_sorted ? STYLE_SORTED : STYLE_HEADING;
		if (columns[i].is_right)
			canvas_text_right(canvas, row, column, widths[i], style, title);
		else
			canvas_text(canvas, row, column, widths[i], style, title);
		column += widths[i] + 1;
	}
}

static void draw_row(struct canvas *canvas, const struct model *model, const struct row *row, int at, const int *widths)
{
	bool is_narrow = widths[0] < WIDE_NAME && !widths[1] && widths[2] >= MEMORY_LEAST;
	struct place place = {canvas, model, at, 0, 0, is_narrow};

	for (int i = 0; i < COLUMN_COUNT; i++) {
		if (!widths[i])
			continue;
		place.width = widths[i];
		columns[i].draw(&place, row);
		place.column += widths[i] + 1;
	}
}

static void draw_empty(struct canvas *canvas, const struct model *model, const struct control *control, int row)
{
	const char *text = *control->trouble || !model->vgpus ? ""
			   : *model->followed		      ? "this vGPU is gone; Esc: all vGPUs"
			   : *model->filter		      ? "nothing matches the filter; Esc clears it"
			   : model->vgpus->count	      ? "no program runs in a vGPU"
						 : "no vGPUs: `virgate create` and `virgate run` make them";

	canvas_text(canvas, row, 2, canvas->columns - 2, STYLE_DIM, text);
}

void draw_table(struct canvas *canvas, struct model *model, struct control *control, int row, int height)
{
	int widths[COLUMN_COUNT], titles = height > 2;

	choose_widths(canvas->columns, widths);
	if (titles)
		draw_titles(canvas, model, row, widths);
	control->page = height - titles > 1 ? height - titles : 1;
	model_scroll(model, (size_t)control->page);
	for (int i = 0; i < height - titles; i++) {
		size_t at = model->top + (size_t)i;
		if (at >= model->row_count)
			break;
		draw_row(canvas, model, &model->rows[at], row + titles + i, widths);
		if (at == model->selected)
			canvas->selected = row + titles + i;
	}
	if (!model->row_count)
		draw_empty(canvas, model, control, row + titles);
}
