// Tests when the exporter requests older samples from the daemon. Functions of this file replace those of the library,
// which ask the daemon.
#include "exporter/gather.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "test.h"

enum { VGPUS = 3, NEWEST = 720, PATIENCE_S = 60 };

static struct vg_vgpu_list no_vgpus;
static struct vg_device_list no_devices;
static struct vg_journal_list no_events;
static struct vg_error no_error = {.text = "no text"};
static struct vg_history_sample samples[NEWEST];
static const char names[VGPUS][8] = {"one", "two", "three"};
static enum vg_status results[VGPUS]; // results of the requests for the history of one vGPU
static double started;		      // the time at which the daemon started; another time means another daemon
static int asked[VGPUS];	      // how many times the history of each vGPU was requested

enum vg_status vg_vgpu_list(struct vg_node *node, struct vg_vgpu_list **ret_list)
{
	*ret_list = &no_vgpus;
	return VG_OK;
}

enum vg_status vg_device_list(struct vg_node *node, struct vg_device_list **ret_list)
{
	*ret_list = &no_devices;
	return VG_OK;
}

enum vg_status vg_daemon_info(struct vg_node *node, struct vg_daemon_info *ret_info)
{
	ret_info->started = started;
	return VG_OK;
}

enum vg_status vg_journal_list(struct vg_node *node, const struct vg_journal_options *options,
			       struct vg_journal_list **ret_list)
{
	*ret_list = &no_events;
	return VG_OK;
}

void vg_vgpu_list_free(struct vg_vgpu_list *list)
{
}

void vg_device_list_free(struct vg_device_list *list)
{
}

void vg_journal_list_free(struct vg_journal_list *list)
{
}

const struct vg_error *vg_last_error(void)
{
	return &no_error;
}

// Stands in for the library's function. A request for all vGPUs gets only the newest sample of each, and a request for
// one vGPU gets all its samples.
enum vg_status vg_history_list(struct vg_node *node, const struct vg_history_options *options,
			       struct vg_history_list **ret_list)
{
	static struct vg_history_series series[VGPUS];
	static struct vg_history_list list = {.series = series, .last = NEWEST, .every = 5};

	list.count = 0;
	for (int i = 0; i < VGPUS; i++) {
		if (options->vgpu && strcmp(options->vgpu, names[i]) != 0)
			continue;
		asked[i] += options->vgpu != NULL;
		if (options->vgpu && results[i])
			return results[i];
		series[list.count++] = (struct vg_history_series){.vgpu = names[i],
								  .first = options->vgpu ? 1 : NEWEST,
								  .count = options->vgpu ? NEWEST : 1,
								  .samples = samples};
	}
	*ret_list = &list;
	return VG_OK;
}

void vg_history_list_free(struct vg_history_list *list)
{
}

// Simulates the start of another daemon, and waits until gather() has asked it. gather() keeps its lists for half a
// second before it asks again.
static const struct samples *ask_new_daemon(void)
{
	const time_t end = time(NULL) + PATIENCE_S;
	const struct gathered *gathered;

	started++;
	memset(asked, 0, sizeof asked);
	do {
		gathered = gather(NULL, false);
		CHECK_STR(gathered->problem, "");
		CHECK(time(NULL) < end);
		poll(NULL, 0, 10);
	} while (gathered->samples->started != started);
	return gathered->samples;
}

static bool is_whole(const struct samples *kept, int vgpu)
{
	return samples_first(kept, kept->series[vgpu]) == 1;
}

TEST(all_vgpus_are_completed)
{
	memset(results, 0, sizeof results);
	const struct samples *kept = ask_new_daemon();

	for (int i = 0; i < VGPUS; i++)
		CHECK(asked[i] == 1 && is_whole(kept, i));
}

TEST(a_removed_vgpu_does_not_keep_others_from_being_completed)
{
	results[0] = VG_NOT_FOUND;
	const struct samples *kept = ask_new_daemon();
	CHECK(asked[0] == 1 && asked[1] == 1 && asked[2] == 1);
	CHECK(!is_whole(kept, 0) && is_whole(kept, 1) && is_whole(kept, 2));
	CHECK(!samples_find_partial(kept));
	results[0] = VG_OK;
}

// A request waits for seconds if the daemon does not answer, so it must not be repeated for each vGPU.
TEST(a_daemon_that_does_not_answer_is_asked_once_and_again_later)
{
	const time_t end = time(NULL) + PATIENCE_S;

	results[0] = VG_NO_DAEMON;
	const struct samples *kept = ask_new_daemon();
	CHECK(asked[0] == 1 && asked[1] == 0 && asked[2] == 0);
	CHECK(samples_find_partial(kept) == kept->series[0]);
	results[0] = VG_OK;
	while (samples_find_partial(kept)) {
		gather(NULL, false);
		CHECK(time(NULL) < end);
		poll(NULL, 0, 10);
	}
	for (int i = 0; i < VGPUS; i++)
		CHECK(is_whole(kept, i));
	CHECK(asked[0] == 2);
}
