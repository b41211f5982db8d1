#include "top/feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { QUEUE = 8 };

struct feed {
	struct vg_node *node;
	uint64_t interval_ns;
	int event;
	pthread_t looks, changes;
	atomic_bool is_ended;
	pthread_mutex_t mutex; // guards all members below; the threads' condition variables belong to it
	pthread_cond_t look, change;
	bool is_look_due;
	struct snapshot *latest;
	char vgpu[NAME_TEXT]; // the vGPU whose refusals the snapshots shall have
	struct request queue[QUEUE];
	size_t queued;
	bool has_report, succeeded;
	char report[REQUEST_TEXT];
};

void snapshot_destroy(struct snapshot *snapshot)
{
	if (!snapshot)
		return;
	vg_vgpu_list_free(snapshot->vgpus);
	vg_device_list_free(snapshot->devices);
	vg_refusal_list_free(snapshot->refusals);
	free(snapshot);
}

static void ring(const struct feed *feed)
{
	eventfd_write(feed->event, 1);
}

// ---- the thread that looks -------------------------------------------------------------------------------

static bool has_refusals(const struct vg_vgpu_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->vgpus[i].name, name) == 0)
			return list->vgpus[i].refusals > 0;
	return false;
}

static struct snapshot *take_snapshot(struct vg_node *node, const char *vgpu)
{
	struct snapshot *snapshot = calloc(1, sizeof *snapshot);

	if (!snapshot)
		return NULL;
	if (vg_vgpu_list(node, &snapshot->vgpus) || vg_device_list(node, &snapshot->devices)) {
		snprintf(snapshot->trouble, sizeof snapshot->trouble, "%s", vg_last_error()->text);
		vg_vgpu_list_free(snapshot->vgpus);
		snapshot->vgpus = NULL;
		return snapshot;
	}
	snapshot->time = (double)vg_clock_monotonic_ns() / 1e9;
	snprintf(snapshot->refusals_of, sizeof snapshot->refusals_of, "%s", vgpu);
	if (has_refusals(snapshot->vgpus, vgpu) && vg_refusal_list(node, vgpu, &snapshot->refusals))
		snapshot->refusals = NULL; // the vGPU was just removed, or belongs to another user
	return snapshot;
}

static void wait_until_due(struct feed *feed, uint64_t due_ns)
{
	const struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000), .tv_nsec = (long)(due_ns % 1000000000)};

	while (!feed->is_ended && !feed->is_look_due)
		if (pthread_cond_timedwait(&feed->look, &feed->mutex, &due) == ETIMEDOUT)
			break;
	feed->is_look_due = false;
}

static void *look_repeatedly(void *user)
{
	struct feed *feed = user;
	char vgpu[NAME_TEXT];

	pthread_mutex_lock(&feed->mutex);
	while (!feed->is_ended) {
		uint64_t due = vg_clock_monotonic_ns() + feed->interval_ns;
		strcpy(vgpu, feed->vgpu);
		pthread_mutex_unlock(&feed->mutex);
		struct snapshot *snapshot = take_snapshot(feed->node, vgpu);
		pthread_mutex_lock(&feed->mutex);
		if (snapshot) {
			snapshot_destroy(feed->latest);
			feed->latest = snapshot;
			ring(feed);
		}
		wait_until_due(feed, due);
	}
	pthread_mutex_unlock(&feed->mutex);
	return NULL;
}

// ---- the thread that changes -----------------------------------------------------------------------------

static void *change_repeatedly(void *user)
{
	struct feed *feed = user;
	char text[REQUEST_TEXT];

	pthread_mutex_lock(&feed->mutex);
	while (!feed->is_ended) {
		if (!feed->queued) {
			pthread_cond_wait(&feed->change, &feed->mutex);
			continue;
		}
		struct request request = feed->queue[0];
		memmove(feed->queue, feed->queue + 1, --feed->queued * sizeof *feed->queue);
		pthread_mutex_unlock(&feed->mutex);
		bool succeeded = request_perform(feed->node, &request, &feed->is_ended, text);
		pthread_mutex_lock(&feed->mutex);
		strcpy(feed->report, text);
		feed->succeeded = succeeded;
		feed->has_report = feed->is_look_due = true;
		pthread_cond_signal(&feed->look);
		ring(feed);
	}
	pthread_mutex_unlock(&feed->mutex);
	return NULL;
}

// ---- start and end ---------------------------------------------------------------------------------------

static void init_locks(struct feed *feed)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&feed->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&feed->look, &attributes);
	pthread_cond_init(&feed->change, NULL);
	pthread_condattr_destroy(&attributes);
}

struct feed *feed_start(struct vg_node *node, double interval)
{
	struct feed *feed = calloc(1, sizeof *feed);

	if (!feed)
		return NULL;
	feed->node = node;
	feed->interval_ns = (uint64_t)(interval * 1e9);
	feed->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	init_locks(feed);
	if (feed->event < 0 || pthread_create(&feed->looks, NULL, look_repeatedly, feed))
		goto failed;
	if (pthread_create(&feed->changes, NULL, change_repeatedly, feed) == 0)
		return feed;
	pthread_mutex_lock(&feed->mutex);
	feed->is_ended = true;
	pthread_cond_signal(&feed->look);
	pthread_mutex_unlock(&feed->mutex);
	pthread_join(feed->looks, NULL);
failed:
	if (feed->event >= 0)
		close(feed->event);
	snapshot_destroy(feed->latest);
	free(feed);
	return NULL;
}

bool feed_stop(struct feed *feed)
{
	struct timespec end;

	pthread_mutex_lock(&feed->mutex);
	feed->is_ended = true;
	pthread_cond_signal(&feed->look);
	pthread_cond_signal(&feed->change);
	pthread_mutex_unlock(&feed->mutex);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec++;
	bool looks = pthread_timedjoin_np(feed->looks, NULL, &end) != 0,
	     changes = pthread_timedjoin_np(feed->changes, NULL, &end) != 0;
	if (looks)
		pthread_detach(feed->looks);
	if (changes)
		pthread_detach(feed->changes);
	if (looks || changes)
		return false;
	close(feed->event);
	snapshot_destroy(feed->latest);
	free(feed);
	return true;
}

// ---- for the screen --------------------------------------------------------------------------------------

int feed_descriptor(const struct feed *feed)
{
	return feed->event;
}

struct snapshot *feed_take(struct feed *feed)
{
	eventfd_t count;

	eventfd_read(feed->event, &count);
	pthread_mutex_lock(&feed->mutex);
	struct snapshot *snapshot = feed->latest;
	feed->latest = NULL;
	pthread_mutex_unlock(&feed->mutex);
	return snapshot;
}

bool feed_take_report(struct feed *feed, bool *ret_succeeded, char ret_text[REQUEST_TEXT])
{
	pthread_mutex_lock(&feed->mutex);
	bool has_report = feed->has_report;
	if (has_report) {
		*ret_succeeded = feed->succeeded;
		strcpy(ret_text, feed->report);
	}
	feed->has_report = false;
	pthread_mutex_unlock(&feed->mutex);
	return has_report;
}

void feed_look_at(struct feed *feed, const char *vgpu)
{
	pthread_mutex_lock(&feed->mutex);
	snprintf(feed->vgpu, sizeof feed->vgpu, "%s", vgpu);
	pthread_mutex_unlock(&feed->mutex);
}

bool feed_request(struct feed *feed, const struct request *request)
{
	pthread_mutex_lock(&feed->mutex);
	bool has_room = feed->queued < QUEUE;
	if (has_room)
		feed->queue[feed->queued++] = *request;
	pthread_cond_signal(&feed->change);
	pthread_mutex_unlock(&feed->mutex);
	return has_room;
}
