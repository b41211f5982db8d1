// Asks the daemon on threads of its own, so that the screen answers keys also while the daemon does not. The functions
// are for one thread.
#pragma once
#include <stdbool.h>

#include <virgate/vgpu.h>

#include "top/request.h"

struct feed;

// What the daemon answered.
struct snapshot {
	struct vg_vgpu_list *vgpus; // NULL: it did not answer, see `trouble`
	struct vg_device_list *devices;
	struct vg_refusal_list *refusals; // of `refusals_of`; NULL: unknown
	char refusals_of[NAME_TEXT];
	double time;
	char trouble[REQUEST_TEXT];
};
// Frees a snapshot. Accepts NULL.
void snapshot_destroy(struct snapshot *snapshot);

// Starts the threads. `node` is the caller's, and must stay until feed_stop(). NULL: no memory or threads are left.
struct feed *feed_start(struct vg_node *node, double interval);
// Ends the threads. Returns false if one still waits for the daemon after a second: it then runs on, and the process
// may only end.
bool feed_stop(struct feed *feed);
// Returns a descriptor that is readable when there is a snapshot or a report.
int feed_descriptor(const struct feed *feed);
// Returns the latest snapshot, which the caller destroys, or NULL if there is no new one. Clears the descriptor.
struct snapshot *feed_take(struct feed *feed);
// Returns whether a request has been performed since the last call. Then copies what request_perform() reported.
bool feed_take_report(struct feed *feed, bool *ret_succeeded, char ret_text[REQUEST_TEXT]);
// Chooses the vGPU whose refusals the next snapshots have.
void feed_look_at(struct feed *feed, const char *vgpu);
// Adds a request to a queue. Returns false if the queue is full.
bool feed_request(struct feed *feed, const struct request *request);
