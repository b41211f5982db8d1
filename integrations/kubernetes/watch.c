#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <virgate/gpu.h>
#include <virgate/gpu_event.h>

enum { MOST_GPUS = 64, SLICE_MS = 500 };

static const uint64_t wanted_types = VG_GPU_EVENT_XID_CRITICAL_ERROR | VG_GPU_EVENT_DOUBLE_BIT_ECC_ERROR |
				     VG_GPU_EVENT_FATAL_POISON_ERROR | VG_GPU_EVENT_GPU_UNAVAILABLE_ERROR;

struct watch {
	struct source source; // must be the first member; it has the end of the pipe that the loop reads
	struct loop *loop;
	const struct watch_options *options;
	watch_failed *failed;
	void *user;
	int writer; // the other end
	pthread_t thread;
	atomic_bool is_stopped;
	struct vg_gpu *gpus[MOST_GPUS];
	size_t count;
	struct vg_gpu_events *events;
};

// A message through the pipe to the main thread, written with one write().
struct report {
	char uuid[48], reason[128];
};

static bool is_ignored(const struct watch_options *options, const struct vg_gpu_event *event)
{
	if (event->type != VG_GPU_EVENT_XID_CRITICAL_ERROR)
		return false;
	for (size_t i = 0; i < options->ignored_count; i++)
		if (options->ignored[i] == event->data)
			return true;
	return false;
}

static void report(const struct watch *watch, struct vg_gpu *gpu, const char *reason)
{
	struct report made = {0};

	snprintf(made.uuid, sizeof made.uuid, "%s", vg_gpu_uuid(gpu));
	snprintf(made.reason, sizeof made.reason, "%s", reason);
	// The report may be lost if the pipe is full: then the pipe already has many reports of failed GPUs.
	if (write(watch->writer, &made, sizeof made) < 0)
		return;
}

static void handle_event(const struct watch *watch, const struct vg_gpu_event *event)
{
	char reason[128];

	if (is_ignored(watch->options, event))
		return;
	if (event->type == VG_GPU_EVENT_XID_CRITICAL_ERROR)
		snprintf(reason, sizeof reason, "it reported Xid %llu", (unsigned long long)event->data);
	else
		snprintf(reason, sizeof reason, "it reported the event %s", vg_gpu_event_type_name(event->type));
	report(watch, event->gpu, reason);
}

// Reports the GPUs that NVML cannot reach any more. If a GPU is lost, waiting for events fails, and NVML does not say
// which GPU it is.
static void find_lost_gpus(const struct watch *watch)
{
	struct vg_gpu_memory memory;

	for (size_t i = 0; i < watch->count; i++)
		if (vg_gpu_memory(watch->gpus[i], &memory))
			report(watch, watch->gpus[i], "NVML cannot reach it any more");
	nanosleep(&(struct timespec){.tv_nsec = SLICE_MS * 1000000L}, NULL);
}

static void *run(void *watch_)
{
	struct watch *watch = watch_;
	struct vg_gpu_event event;

	while (!atomic_load(&watch->is_stopped)) {
		enum vg_status status = vg_gpu_events_wait(watch->events, SLICE_MS, &event);
		if (status == VG_OK)
			handle_event(watch, &event);
		else if (status != VG_NOT_READY)
			find_lost_gpus(watch);
	}
	return NULL;
}

static void ready(struct source *source, uint32_t events)
{
	struct watch *watch = (struct watch *)source;
	struct report got;

	if (read(source->fd, &got, sizeof got) == sizeof got)
		watch->failed(watch->user, got.uuid, got.reason);
}

// Registers each GPU for those of the wanted events that it supports. Returns false if NVML fails.
static bool register_events(struct watch *watch)
{
	if (vg_gpu_all(watch->gpus, MOST_GPUS, &watch->count))
		return false;
	for (size_t i = 0; i < watch->count; i++) {
		uint64_t types = 0;
		if (vg_gpu_supported_events(watch->gpus[i], &types))
			return false;
		types &= wanted_types;
		if (watch->events ? vg_gpu_events_add(watch->events, watch->gpus[i], types)
				  : vg_gpu_events_create(watch->gpus[i], types, &watch->events))
			return false;
	}
	return watch->events != NULL;
}

struct watch *watch_start(struct loop *loop, const struct watch_options *options, watch_failed *failed, void *user,
			  const char **ret_problem)
{
	struct watch *watch = calloc(1, sizeof *watch);
	int ends[2] = {-1, -1};

	*ret_problem = "no memory, or too many open files";
	if (!watch || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		free(watch);
		return NULL;
	}
	watch->source = (struct source){ends[0], ready};
	watch->writer = ends[1];
	watch->loop = loop;
	watch->options = options;
	watch->failed = failed;
	watch->user = user;
	bool registered = register_events(watch);
	if (!registered)
		*ret_problem = vg_last_error()->text;
	if (registered && loop_add(loop, &watch->source, EPOLLIN) == 0 &&
	    pthread_create(&watch->thread, NULL, run, watch) == 0)
		return watch;
	vg_gpu_events_destroy(watch->events);
	loop_close(loop, &watch->source);
	close(watch->writer);
	free(watch);
	return NULL;
}

void watch_stop(struct watch *watch)
{
	if (!watch)
		return;
	atomic_store(&watch->is_stopped, true);
	pthread_join(watch->thread, NULL);
	vg_gpu_events_destroy(watch->events);
	loop_close(watch->loop, &watch->source);
	close(watch->writer);
	free(watch);
}
