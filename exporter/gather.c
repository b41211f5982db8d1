#include "exporter/gather.h"

#include <stdio.h>
#include <time.h>

static const double FRESH_SECONDS = 0.5;
enum { COMPLETED_AT_ONCE = 16 };

// The newest events that one kind of reader may see: all events, or only those for every user.
struct kept_events {
	struct vg_journal_list *list;
	double daemon_started;
	uint64_t daemon_events; // number of events that the daemon had added to its journal at that time
};

static double read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static enum vg_status list_all(struct vg_node *node, struct gathered *gathered)
{
	struct vg_vgpu_list *vgpus = NULL;
	struct vg_device_list *devices = NULL;
	struct vg_daemon_info daemon = {.size = sizeof daemon};
	enum vg_status status = vg_vgpu_list(node, &vgpus);

	if (!status)
		status = vg_device_list(node, &devices);
	if (!status)
		status = vg_daemon_info(node, &daemon);
	if (status) {
		vg_vgpu_list_free(vgpus);
		vg_device_list_free(devices);
		return status;
	}
	vg_vgpu_list_free((struct vg_vgpu_list *)gathered->vgpus);
	vg_device_list_free((struct vg_device_list *)gathered->devices);
	gathered->vgpus = vgpus;
	gathered->devices = devices;
	gathered->daemon = daemon;
	return VG_OK;
}

// Requests the older samples of vGPUs that lack them, because an answer about many vGPUs has only the newest samples of
// each. Requests one vGPU at a time, for at most COMPLETED_AT_ONCE vGPUs in a call. Stops if the daemon does not
// answer: each request would wait for its timeout, and the server has only this thread.
static void complete_samples(struct vg_node *node, struct samples *samples)
{
	struct samples_series *series;

	for (int i = 0; i < COMPLETED_AT_ONCE && (series = samples_find_partial(samples)); i++) {
		const struct vg_history_options options = {.size = sizeof options, .vgpu = series->vgpu};
		struct vg_history_list *list = NULL;
		enum vg_status status = vg_history_list(node, &options, &list);
		if (status && status != VG_NOT_FOUND) // not found: the vGPU was just removed
			return;
		samples_complete(series, list);
		vg_history_list_free(list);
	}
}

static enum vg_status update_samples(struct vg_node *node, double daemon_started, struct samples *samples)
{
	static double asked;
	struct vg_history_list *list;
	struct vg_history_options options = {.size = sizeof options};
	double now = read_clock(CLOCK_MONOTONIC);

	if (samples->started == daemon_started) {
		options.after = samples->last;
		if (samples->last && now - asked < samples->every && !samples_find_partial(samples))
			return VG_OK; // the daemon has at most one newer sample
	}
	enum vg_status status = vg_history_list(node, &options, &list);
	if (status)
		return status;
	asked = now;
	if (samples_add(samples, list, daemon_started) < 0)
		samples_finish(samples);
	vg_history_list_free(list);
	complete_samples(node, samples);
	return VG_OK;
}

static enum vg_status update_events(struct vg_node *node, bool is_public, const struct vg_daemon_info *daemon,
				    struct kept_events *kept)
{
	const struct vg_journal_options options = {.size = sizeof options, .newest = 1, .only_public = is_public};
	struct vg_journal_list *list;

	if (kept->list && kept->daemon_started == daemon->started && kept->daemon_events == daemon->events)
		return VG_OK;
	enum vg_status status = vg_journal_list(node, &options, &list);
	if (status)
		return status;
	vg_journal_list_free(kept->list);
	kept->list = list;
	kept->daemon_started = daemon->started;
	kept->daemon_events = daemon->events;
	return VG_OK;
}

const struct gathered *gather(struct vg_node *node, bool is_public)
{
	static struct gathered gathered;
	static struct samples samples;
	static struct kept_events all_events[2];
	static double made = -1e9;
	struct kept_events *events = &all_events[is_public];
	double now = read_clock(CLOCK_MONOTONIC);

	if (now - made > FRESH_SECONDS) {
		enum vg_status status = list_all(node, &gathered);
		if (!status)
			status = update_samples(node, gathered.daemon.started, &samples);
		made = read_clock(CLOCK_MONOTONIC);
		gathered.time = read_clock(CLOCK_REALTIME);
		gathered.problem[0] = '\0';
		if (status)
			snprintf(gathered.problem, sizeof gathered.problem, "%s", vg_last_error()->text);
	}
	if (!*gathered.problem && update_events(node, is_public, &gathered.daemon, events))
		snprintf(gathered.problem, sizeof gathered.problem, "%s", vg_last_error()->text);
	gathered.samples = &samples;
	gathered.events = events->list;
	return &gathered;
}
