// Tests what keys do. Five tasks must need at most three keys each. Also tests inputs, questions and refusals.
#include "top_lists.h"

#include <signal.h>

static struct request request;

// Types keys one after the other. Returns the result of the last key.
static enum control_result type(const char *keys)
{
	enum control_result result = CONTROL_NONE;

	request = (struct request){0};
	for (; *keys; keys++)
		result = control_key(&control, &model, (uint32_t)*keys, &request);
	return result;
}

static void start(void)
{
	reset_lists();
	show_lists();
	control.page = 10;
}

static const char *prompt(void)
{
	static char text[300];

	return control_prompt(&control, text, sizeof text);
}

TEST(task_find_the_vgpu_with_most_memory)
{
	start();
	type("N");
	CHECK_STR(selected_row(), "batch 0");
	type("M");
	CHECK_STR(selected_row(), "train 0");
}

TEST(task_follow_one_vgpu)
{
	start();
	type("f");
	CHECK_STR(model.followed, "train");
	CHECK_INT(model.row_count, 3);
	type("f");
	CHECK_INT(model.row_count, 6);
}

TEST(task_change_a_share)
{
	start();
	CHECK_INT(type("+"), CONTROL_REQUEST);
	CHECK_INT(request.kind, REQUEST_SHARE);
	CHECK_STR(request.vgpu, "train");
	CHECK_INT(request.share, 35);
	type("+"); // the daemon has not answered the first request yet
	CHECK_INT(request.share, 40);
	control_report(&control, true, "train: share 40 %");
	vgpus[TRAIN].share = 40;
	type("-");
	CHECK_INT(request.share, 35);
	control_report(&control, true, "");
	vgpus[TRAIN].share = 98;
	type("+");
	CHECK_INT(request.share, 100);
	control_report(&control, true, "");
	vgpus[TRAIN].share = 5;
	CHECK_INT(type("-"), CONTROL_NONE);
	CHECK_CONTAINS(control.status, "its share is 5 %");
	vgpus[TRAIN].share = 0;
	CHECK_INT(type("-"), CONTROL_NONE);
	CHECK_CONTAINS(control.status, "has no share");
}

TEST(task_see_which_vgpu_waits)
{
	start();
	type("w");
	CHECK_INT(control.mode, MODE_WAITS);
	type("w");
	CHECK_INT(control.mode, MODE_TABLE);
	type("wM"); // a key that does not belong to this page leaves it, and has its usual effect
	CHECK_INT(control.mode, MODE_TABLE);
	CHECK_CONTAINS(control.status, "sorted by memory");
}

TEST(task_suspend_a_tenant)
{
	start();
	CHECK_INT(type("z"), CONTROL_NONE);
	CHECK_CONTAINS(control.status, "train is not evictable");
	vgpus[TRAIN].evictable = 1;
	CHECK_INT(type("z"), CONTROL_REQUEST);
	CHECK_INT(request.kind, REQUEST_SUSPEND);
	CHECK_INT(request.pid, 0);
	model_move(&model, 1);
	CHECK_INT(type("z"), CONTROL_REQUEST);
	CHECK_INT(request.pid, 102);
	train_tenants[1].eviction.suspended = 1;
	type("z");
	CHECK_INT(request.kind, REQUEST_RESUME);
	train_tenants[1].eviction.suspended = 0;
	train_tenants[1].guest = 1;
	CHECK_INT(type("z"), CONTROL_NONE);
	train_tenants[1].guest = 0;
	CHECK_CONTAINS(control.status, "cannot be suspended");
	model_move(&model, -1);
	vgpus[TRAIN].suspended = 1;
	type("z");
	CHECK_INT(request.kind, REQUEST_RESUME);
}

TEST(a_limit_is_typed)
{
	start();
	type("m8");
	CHECK_CONTAINS(prompt(), "Limit of train: 8_");
	CHECK_INT(type("G\n"), CONTROL_REQUEST);
	CHECK_INT(request.kind, REQUEST_LIMIT);
	CHECK_INT(request.memory, 8 * GiB);
	CHECK_INT(type("mhuge\n"), CONTROL_NONE);
	CHECK_CONTAINS(control.status, "\"huge\" is not a size");
	CHECK(control.is_error);
	CHECK_INT(type("m0\n"), CONTROL_NONE);
	CHECK_CONTAINS(control.status, "no limit");
	CHECK_INT(type("m\n"), CONTROL_NONE);
	CHECK_INT(type("m12\b\b8G\033"), CONTROL_NONE);
	CHECK_INT(control.mode, MODE_TABLE);
	type("m");
	for (int i = 0; i < 500; i++)
		type("9");
	CHECK_INT(type("\n"), CONTROL_NONE);
	CHECK(control.is_error);
}

TEST(a_share_is_typed)
{
	start();
	CHECK_INT(type("s45\n"), CONTROL_REQUEST);
	CHECK_INT(request.share, 45);
	CHECK_INT(type("snone\n"), CONTROL_REQUEST);
	CHECK_INT(request.share, VG_SHARE_NONE);
	CHECK_INT(type("+"), CONTROL_REQUEST); // adds 5 to the share; a vGPU without a share gets 5
	CHECK_INT(request.share, 5);
	static const char *const wrong[] = {"s101\n", "s-5\n", "s5x\n", "s4.5\n"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		CHECK_INT(type(wrong[i]), CONTROL_NONE);
		CHECK_CONTAINS(control.status, "is not a share");
	}
}

TEST(a_signal_is_sent_only_after_the_question)
{
	start();
	type("k");
	CHECK_CONTAINS(prompt(), "Send TERM to 2 programs of train?");
	CHECK_INT(type("n"), CONTROL_NONE);
	CHECK_STR(control.status, "no signal was sent");
	CHECK_INT(type("ky"), CONTROL_REQUEST);
	CHECK_INT(request.signal, SIGTERM);
	CHECK_INT(type("kK"), CONTROL_REQUEST);
	CHECK_INT(request.signal, SIGKILL);
	model_move(&model, 2);
	type("k");
	CHECK_CONTAINS(prompt(), "process 101 (python) of train");
	// the table changes while a question is shown, but the question must stay about the same process
	vgpu_list.count = 1;
	model_move(&model, -2);
	model_update(&model, &vgpu_list, &device_list, 12);
	CHECK_INT(type("y"), CONTROL_REQUEST);
	CHECK_INT(request.pid, 101);
	CHECK_INT(request.started, 5);
	vgpus[TRAIN].tenant_count = 0;
	model_update(&model, &vgpu_list, &device_list, 13);
	CHECK_INT(type("k"), CONTROL_NONE);
	CHECK_CONTAINS(control.status, "no program runs in train");
}

TEST(a_filter_works_while_it_is_typed)
{
	start();
	type("/inf");
	CHECK_INT(model.row_count, 2);
	CHECK_INT(control.mode, MODE_FILTER);
	type("\n");
	CHECK_STR(model.filter, "inf");
	type("\033");
	CHECK_INT(model.row_count, 6);
	type("/zzz");
	CHECK_INT(model.row_count, 0);
	type("\033");
	CHECK_INT(model.row_count, 6);
}

TEST(without_rows_keys_say_so)
{
	start();
	vgpu_list.count = 0;
	model_update(&model, &vgpu_list, &device_list, 12);
	static const char *const keys[] = {"m", "s", "+", "-", "z", "k", "f"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		*control.status = '\0';
		CHECK_INT(type(keys[i]), CONTROL_NONE);
		CHECK_CONTAINS(control.status, "no vGPU is selected");
		CHECK_INT(control.mode, MODE_TABLE);
	}
}

TEST(all_keys_in_all_modes_are_harmless)
{
	start();
	for (int mode = MODE_TABLE; mode <= MODE_KILL; mode++)
		for (uint32_t key = 0; key < 0x200; key++) {
			control.mode = (enum mode)mode;
			control_key(&control, &model, key, &request);
			control_key(&control, &model, KEYS_UP + key % 16, &request);
		}
	CHECK_INT(type("q"), control.mode == MODE_TABLE ? CONTROL_QUIT : CONTROL_NONE);
	control.mode = MODE_TABLE;
	CHECK_INT(type("q"), CONTROL_QUIT);
}

TEST(every_binding_has_a_key_of_its_own)
{
	for (size_t i = 0; i < binding_count; i++)
		CHECK(binding_find(bindings[i].key) == &bindings[i]);
	CHECK(!binding_find('x'));
}

TEST(the_target_text_is_printable)
{
	start();
	train_tenants[1].command = "\033[2J";
	model_move(&model, 1);
	type("k");
	CHECK_CONTAINS(prompt(), "(?[2J)");
	train_tenants[1].command = "loader";
}
