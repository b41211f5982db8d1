// Tests what `virgate top` draws: at many sizes, with and without Unicode, and with hostile names.
#include "top_lists.h"

static struct canvas canvas;

static void draw(int rows, int columns, bool is_unicode)
{
	canvas_finish(&canvas);
	CHECK_INT(canvas_init(&canvas, rows, columns, is_unicode), 0);
	draw_screen(&canvas, &model, &control, "12:34:56");
}

// Fails unless each cell has a printable character, and each cell that is the right half of a wide character follows
// its left half.
static void check_cells(void)
{
	for (int i = 0; i < canvas.rows * canvas.columns; i++) {
		const struct cell *cell = &canvas.cells[i];
		if (cell->character == 0)
			CHECK(i % canvas.columns > 0 && canvas.cells[i - 1].character > 0x7f);
		else
			CHECK(cell->character >= 0x20 && (cell->character < 0x7f || cell->character > 0x9f));
		CHECK(canvas.is_unicode || cell->character < 0x7f);
		CHECK(cell->style < STYLE_COUNT);
	}
}

TEST(a_screen_of_80_columns_shows_all_of_it)
{
	reset_lists();
	show_lists();
	draw(24, 80, true);
	check_cells();
	CHECK_CONTAINS(line_with(&canvas, "virgate top"), "1 GPU  3 vGPUs  3 programs  1 waiting  3 refused");
	CHECK_CONTAINS(line_with(&canvas, "GPU 0"), "4.0G/16.0G");
	CHECK_CONTAINS(line_with(&canvas, "GPU 0"), "phys 5.0G");
	CHECK_CONTAINS(line_with(&canvas, "GPU 0"), "81%");
	CHECK_CONTAINS(line_with(&canvas, "Test GPU"), "limits 14.0G, shares 80 %, turn train, 12 switches/s");
	CHECK_CONTAINS(line_with(&canvas, "NAME"), "MEMORY▼");
	const char *train = line_with(&canvas, "train  ");
	CHECK_CONTAINS(train, "3.0G/4.0G");
	CHECK_CONTAINS(train, "61/30%");
	CHECK_CONTAINS(train, "running");
	CHECK_CONTAINS(line_with(&canvas, "infer  "), "40%   3 waits: train");
	CHECK_CONTAINS(line_with(&canvas, "├ 102 loader"), "2.0G");
	CHECK_CONTAINS(line_with(&canvas, "└ 101 python"), "1.0G");
	CHECK_CONTAINS(line_with(&canvas, "of ann"), "train");
	CHECK_CONTAINS(line_with(&canvas, "memory "), "3.0G of 4.0G, overhead 512M, phys 3.0G");
	CHECK_CONTAINS(line_with(&canvas, "hHelp"), "qQuit");
	CHECK_INT(canvas.selected, 4);
}

TEST(every_size_is_drawn)
{
	static const enum mode modes[] = {MODE_TABLE, MODE_HELP, MODE_WAITS, MODE_FILTER, MODE_KILL};

	reset_lists();
	show_lists();
	for (size_t mode = 0; mode < sizeof modes / sizeof *modes; mode++) {
		control.mode = modes[mode];
		for (int rows = 0; rows < 60; rows += rows < 12 ? 1 : 7)
			for (int columns = 0; columns < 260; columns += columns < 12 ? 1 : 9) {
				draw(rows, columns, columns % 2 == 0);
				if (canvas.rows)
					check_cells();
			}
	}
	control.mode = MODE_TABLE;
	draw(1, 8, true); // in the smallest window, at least the selected vGPU is shown
	CHECK_CONTAINS(canvas_read(&canvas, 0, line, sizeof line), "train");
	draw(5, 30, true);
	CHECK_CONTAINS(line_with(&canvas, "train"), "3.0G/4.0G");
	draw(5, 18, true);
	CHECK_CONTAINS(line_with(&canvas, "train"), "3.0G/4.0G");
}

TEST(a_wide_screen_has_more_columns)
{
	reset_lists();
	show_lists();
	draw(40, 140, true);
	for (size_t i = 0; i < 3; i++)
		CHECK_CONTAINS(line_with(&canvas, "NAME"), ((const char *[]){"OWNER", "OVERH", "HISTORY"})[i]);
	CHECK_CONTAINS(line_with(&canvas, "infer  "), "bob");
	draw(24, 40, true);
	CHECK_CONTAINS(line_with(&canvas, "NAME"), "MEMORY");
	CHECK(!strstr(line_with(&canvas, "NAME"), "OWNER"));
}

TEST(without_unicode_all_is_ascii)
{
	reset_lists();
	show_lists();
	strcpy(control.status, "naïve");
	draw(24, 80, false);
	check_cells();
	CHECK_CONTAINS(line_with(&canvas, "NAME"), "MEMORYv");
	CHECK_CONTAINS(line_with(&canvas, "` 101 python"), "1.0G");
	CHECK_CONTAINS(line_with(&canvas, "train  "), "=");
	CHECK_CONTAINS(line_with(&canvas, "na?ve"), "na?ve");
}

TEST(hostile_names_reach_no_terminal)
{
	static const char *const names[] = {"\033[2J\033]0;x\a",
					    "\xff\xfe\x80",
					    "a\nb\r\tc",
					    "\u202e\u2028evil",
					    "\u4f60\u597d\u4e16\u754c\u4f60\u597d\u4e16\u754c",
					    "e\u0301\u0302\u0303x",
					    "\U0001f600\U0001f600",
					    "\xc2\x9b[31m",
					    ""};

	reset_lists();
	show_lists();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		train_tenants[0].command = names[i];
		vgpus[TRAIN].owner = names[i];
		vgpus[TRAIN].turns.reason = names[i];
		vgpus[TRAIN].turns.held = 0;
		snprintf(control.trouble, sizeof control.trouble, "%s", names[i]);
		device.name = names[i];
		for (int columns = 1; columns < 180; columns += 3)
			for (int is_unicode = 0; is_unicode < 2; is_unicode++) {
				draw(24, columns, is_unicode);
				check_cells();
			}
	}
	train_tenants[0].command = names[4];
	draw(24, 80, true);
	CHECK_CONTAINS(line_with(&canvas, "101 "), "你好");
	train_tenants[0].command = "python";
}

TEST(unknown_figures_are_not_zero)
{
	reset_lists();
	vgpus[TRAIN].damaged = 1;
	vgpus[INFER].turns = (struct vg_turns_info){.mode = "", .reason = "", .holder = ""};
	vgpus[INFER].tenants_known = 0;
	vgpus[INFER].tenant_count = 0;
	device.memory_used_known = 0;
	show_lists();
	draw(24, 100, true);
	CHECK_CONTAINS(line_with(&canvas, "train  "), "?/4.0G");
	CHECK_CONTAINS(line_with(&canvas, "train  "), "damaged");
	CHECK_CONTAINS(line_with(&canvas, "infer  "), " -/50%");
	CHECK_CONTAINS(line_with(&canvas, "GPU 0"), "phys ?");
}

TEST(the_pages_show_waits_and_keys)
{
	reset_lists();
	show_lists();
	control.mode = MODE_WAITS;
	draw(24, 80, true);
	CHECK_CONTAINS(line_with(&canvas, "infer"), "40 %  train 61 %");
	vgpus[INFER].turns.waited_ns = 0;
	model_update(&model, &vgpu_list, &device_list, 12);
	device.waiting = 2;
	draw(24, 80, true);
	CHECK_CONTAINS(line_with(&canvas, "no vGPU"), "no vGPU waits");
	CHECK_CONTAINS(line_with(&canvas, "--wait"), "2 `virgate run --wait` in the queue");
	control.mode = MODE_HELP;
	draw(24, 80, true);
	for (size_t i = 0; i < binding_count; i++)
		if (bindings[i].name)
			CHECK_CONTAINS(line_with(&canvas, bindings[i].description), bindings[i].name);
	CHECK_CONTAINS(line_with(&canvas, "powers of 1024"), "1024");
}

TEST(trouble_and_old_figures_are_said)
{
	reset_lists();
	draw(24, 80, true); // no figures have arrived yet
	CHECK_CONTAINS(line_with(&canvas, "virgate top"), "waits for the daemon");
	show_lists();
	strcpy(control.trouble, "no daemon answers");
	draw(24, 120, true);
	CHECK_CONTAINS(line_with(&canvas, "no new figures"), "no daemon answers");
	CHECK_CONTAINS(line_with(&canvas, "virgate top"), "OLD FIGURES");
	CHECK_CONTAINS(line_with(&canvas, "train  "), "3.0G/4.0G");
	*control.trouble = '\0';
	vgpu_list.count = 0;
	model_update(&model, &vgpu_list, &device_list, 12);
	draw(24, 80, true);
	CHECK_CONTAINS(line_with(&canvas, "no vGPUs"), "virgate create");
}

TEST(bars_and_charts_show_parts)
{
	struct canvas small;

	CHECK_INT(canvas_init(&small, 2, 8, false), 0);
	canvas_bar(&small, 0, 0, 8, &(struct bar){0.5, 0.25, -1, true});
	CHECK_STR(canvas_read(&small, 0, line, sizeof line), "====++..");
	canvas_bar(&small, 0, 0, 8, &(struct bar){0.001, 0, 1, true});
	CHECK_STR(canvas_read(&small, 0, line, sizeof line), "-......|");
	canvas_bar(&small, 0, 0, 8, &(struct bar){__builtin_nan(""), -1, -1, true});
	CHECK_STR(canvas_read(&small, 0, line, sizeof line), "........");
	canvas_bar(&small, 0, 0, 8, &(struct bar){7, 7, -1, true});
	CHECK_STR(canvas_read(&small, 0, line, sizeof line), "========");
	CHECK_INT(small.cells[0].style, STYLE_FULL);
	canvas_chart(&small, 1, 2, 0, 4, STYLE_USED, (const float[]){-1, 0, 0.5, 1});
	CHECK_STR(canvas_read(&small, 1, line, sizeof line), " _@@");
	CHECK_STR(canvas_read(&small, 0, line, sizeof line), "===@====");
	CHECK_INT(canvas_text(&small, 1, 0, 4, STYLE_PLAIN, "abcdef"), 4);
	CHECK_STR(canvas_read(&small, 1, line, sizeof line), "abc~");
	CHECK_INT(canvas_text(&small, 5, 0, 4, STYLE_PLAIN, "abcdef"), 0);
	canvas_finish(&small);
}
