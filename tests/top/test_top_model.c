// Tests the model of `virgate top`: order, filter, views, selection, history, and which vGPU waits for which.
#include "top_lists.h"

#include "top/text.h"
#include "top/waits.h"

// Returns the rows as text: "train 102 101 infer 201 batch".
static const char *rows_text(void)
{
	static char text[512];
	size_t length = 0;

	*text = '\0';
	for (size_t i = 0; i < model.row_count; i++)
		if (model.rows[i].tenant)
			length += (size_t)snprintf(text + length, sizeof text - length, "%s%lld", i ? " " : "",
						   (long long)model.rows[i].tenant->pid);
		else
			length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i ? " " : "",
						   model.rows[i].vgpu->name);
	return text;
}

TEST(rows_are_sorted_by_each_key)
{
	reset_lists();
	show_lists();
	CHECK_STR(rows_text(), "train 102 101 infer 201 batch");
	model.view = VIEW_VGPUS;
	static const struct {
		enum sort_key key;
		const char *order;
	} orders[] = {{SORT_NAME, "batch infer train"},	    {SORT_MEMORY, "train infer batch"},
		      {SORT_TIME, "train infer batch"},	    {SORT_WAIT, "infer train batch"},
		      {SORT_REFUSALS, "infer batch train"}, {SORT_OWNER, "train infer batch"},
		      {SORT_PHYSICAL, "train batch infer"}};
	CHECK_INT(sizeof orders / sizeof *orders, SORT_COUNT);
	for (size_t i = 0; i < SORT_COUNT; i++) {
		model.sort = orders[i].key;
		model_arrange(&model);
		CHECK_STR(rows_text(), orders[i].order);
	}
	model.sort = SORT_MEMORY;
	model.is_reversed = true;
	model_arrange(&model);
	CHECK_STR(rows_text(), "batch infer train");
}

TEST(programs_of_all_vgpus_are_sorted_together)
{
	reset_lists();
	show_lists();
	model.view = VIEW_PROGRAMS;
	model_arrange(&model);
	CHECK_STR(rows_text(), "102 201 101");
}

TEST(the_filter_matches_vgpus_owners_and_programs)
{
	static const struct {
		const char *filter, *rows;
	} cases[] = {{"TRAIN", "train 102 101"},
		     {"load", "train 102"},
		     {"201", "infer 201"},
		     {"carol", "batch"},
		     {"nothing", ""}};

	reset_lists();
	show_lists();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		strcpy(model.filter, cases[i].filter);
		model_arrange(&model);
		CHECK_STR(rows_text(), cases[i].rows);
	}
	CHECK(!model_selected(&model));
	*model.filter = '\0';
	model_arrange(&model);
	CHECK_STR(selected_row(), "batch 0"); // the row that was selected last before the filter hid all rows
}

TEST(only_the_followed_vgpu_is_shown)
{
	reset_lists();
	show_lists();
	strcpy(model.followed, "infer");
	model_arrange(&model);
	CHECK_STR(rows_text(), "infer 201");
	model.view = VIEW_VGPUS;
	model_arrange(&model);
	CHECK_STR(rows_text(), "infer 201");
}

TEST(the_selection_follows_its_row)
{
	reset_lists();
	show_lists();
	model_move(&model, 2);
	CHECK_STR(selected_row(), "train 101");
	train_tenants[0].charged = 3 * GiB; // the row of this program moves up
	model_update(&model, &vgpu_list, &device_list, 12);
	train_tenants[0].charged = 1 * GiB;
	CHECK_STR(rows_text(), "train 101 102 infer 201 batch");
	CHECK_STR(selected_row(), "train 101");
	vgpus[TRAIN].tenant_count = 0; // the selected program has ended, so the row of its vGPU is selected
	model_update(&model, &vgpu_list, &device_list, 13);
	CHECK_STR(selected_row(), "train 0");
	model_move(&model, 100);
	CHECK_STR(selected_row(), "batch 0");
	vgpu_list.count = 0;
	model_update(&model, &vgpu_list, &device_list, 14);
	CHECK(!model_selected(&model));
	model_move(&model, 1);
	vgpu_list.count = VGPUS;
	model_update(&model, &vgpu_list, &device_list, 15);
	CHECK(model_selected(&model));
}

TEST(the_table_scrolls_to_the_selected_row)
{
	reset_lists();
	show_lists();
	model_move(&model, 5);
	model_scroll(&model, 3);
	CHECK_INT(model.top, 3);
	model_move(&model, -4);
	model_scroll(&model, 3);
	CHECK_INT(model.top, 1);
	model_scroll(&model, 100); // the screen has become larger than the table
	CHECK_INT(model.top, 0);
	model_scroll(&model, 0);
}

TEST(a_history_keeps_the_last_samples)
{
	static struct histories histories;
	float levels[4];

	struct history *history = histories_find(&histories, "one", 1);
	history_levels(history, SERIES_TIME, 4, 1, levels);
	CHECK(levels[3] < 0 && history_last(history, SERIES_TIME) < 0 && history_last(NULL, SERIES_TIME) < 0);
	for (int i = 0; i < HISTORY_SAMPLES + 10; i++)
		history_add(history, i, (const float[SERIES_COUNT]){0, (float)i, -1});
	history_levels(history, SERIES_TIME, 4, 2, levels);
	CHECK_INT(levels[3], HISTORY_SAMPLES + 9);
	CHECK_INT(levels[2], HISTORY_SAMPLES + 7);
	history_levels(history, SERIES_WAIT, 4, 2, levels);
	CHECK(levels[3] < 0);
	CHECK(histories_find(&histories, "one", 1) == history && history->count);
	// a new vGPU with the same name must not get the history of the old one
	CHECK(histories_find(&histories, "one", 2)->count == 0);
	histories_find(&histories, "two", 1)->is_seen = true;
	histories_sweep(&histories);
	CHECK_INT(histories.count, 1);
	CHECK(!histories_look(&histories, "one") && histories_look(&histories, "two"));
	histories_finish(&histories);
}

TEST(a_vgpu_waits_for_those_that_have_the_gpu)
{
	char text[WAITS_TEXT];

	reset_lists();
	show_lists();
	CHECK_STR(waits_text(&model, &vgpus[INFER], true, text), "train 61 %");
	CHECK_STR(waits_text(&model, &vgpus[INFER], false, text), "train");
	CHECK_STR(waits_text(&model, &vgpus[TRAIN], true, text), "");
	CHECK_INT(waits_count(&model), 1);
	vgpus[TRAIN].turns.known = 0;
	CHECK_STR(waits_text(&model, &vgpus[INFER], true, text), "its turn");
	vgpus[BATCH].eviction_state = "waiting";
	CHECK_STR(waits_text(&model, &vgpus[BATCH], true, text), "room on the GPU");
	vgpus[TRAIN].evictable = 1;
	vgpus[TRAIN].on_gpu = GiB;
	CHECK_STR(waits_text(&model, &vgpus[BATCH], true, text), "train");
	CHECK_INT(waits_count(&model), 2);
	vgpus[TRAIN].device = 1; // a vGPU on another GPU does not occupy the room for which this one waits
	CHECK_STR(waits_text(&model, &vgpus[BATCH], true, text), "room on the GPU");
}

TEST(counters_that_fall_and_clocks_that_stand_still_do_no_harm)
{
	reset_lists();
	show_lists();
	vgpus[INFER].turns.waited_ns = 5; // the daemon was restarted, so its counter starts at zero again
	model_update(&model, &vgpu_list, &device_list, 12);
	CHECK_INT(history_last(model_history(&model, &vgpus[INFER]), SERIES_WAIT), 0);
	vgpus[INFER].turns.waited_ns = UINT64_MAX;
	// no time has passed since the last update, so this adds no sample
	model_update(&model, &vgpu_list, &device_list, 12);
	CHECK_INT(model_history(&model, &vgpus[INFER])->count, 3);
	model_update(&model, &vgpu_list, &device_list, 13);
	CHECK_INT(history_last(model_history(&model, &vgpus[INFER]), SERIES_WAIT), 1);
	CHECK_INT(model_history(&model, &vgpus[INFER])->refused, 0);
	vgpus[INFER].refusals++;
	model_update(&model, &vgpu_list, &device_list, 14);
	CHECK_INT(model_history(&model, &vgpus[INFER])->refused, 14);
}

TEST(sizes_and_times_are_short)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} sizes[] = {{0, "0"},
		     {1023, "1023B"},
		     {1 << 20, "1M"},
		     {1023 * 1048576ull + 1000000, "1.0G"},
		     {5 * GiB / 2, "2.5G"},
		     {128 * GiB, "128G"},
		     {UINT64_MAX, "16.0E"}};
	static const struct {
		uint64_t ns;
		const char *text;
	} times[] = {{400000000, "0.4 s"},
		     {59000000000, "59 s"},
		     {720000000000, "12 min"},
		     {10800000000000, "3 h"},
		     {86400000000000 * 14, "14 d"}};
	char text[SHORT_TEXT];

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		CHECK_STR(short_size(sizes[i].bytes, text), sizes[i].text);
		CHECK(strlen(text) <= 5);
	}
	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		CHECK_STR(short_duration(times[i].ns, text), times[i].text);
}
