// Asks the daemon in threads of its own, so that the screen still reacts to keys while the daemon does not answer. All
// functions here are called by one thread.
#pragma once
#include <stdbool.h>

#include <virgate/vgpu.h>

#include "top/request.h"

struct feed;

// The daemon's answers to one round of requests.
struct snapshot {
	struct vg_vgpu_list *vgpus; // NULL: the daemon did not answer, for the reason in `trouble`
	struct vg_device_list *devices;
	struct vg_refusal_list *refusals; // the refusals of the vGPU `refusals_of`; NULL: unknown
	char refusals_of[NAME_TEXT];
	double time;
	char trouble[REQUEST_TEXT];
};
// Frees a snapshot. Accepts NULL.
void snapshot_destroy(struct snapshot *snapshot);

// Starts the threads. The caller keeps `node` open until feed_stop(). Returns NULL if there is no memory or no thread.
struct feed *feed_start(struct vg_node *node, double interval);
// Ends the threads. Returns false if one of them still waits for the daemon after a second. That thread continues to
// use the feed and the node, so the caller must end the process without freeing them.
bool feed_stop(struct feed *feed);
// Returns a descriptor that is readable when there is a snapshot or a report.
int feed_descriptor(const struct feed *feed);
// Returns the latest snapshot, which the caller destroys, or NULL if there is no new one. Clears the descriptor.
struct snapshot *feed_take(struct feed *feed);
// Returns whether a request has been completed since the last call. If so, copies what request_perform() reported.
bool feed_take_report(struct feed *feed, bool *ret_succeeded, char ret_text[REQUEST_TEXT]);
// Chooses the vGPU whose refusals the next snapshots have.
void feed_look_at(struct feed *feed, const char *vgpu);
// Adds a request to the queue. A thread performs the requests one after the other. Returns false if the queue is full.
bool feed_request(struct feed *feed, const struct request *request);
