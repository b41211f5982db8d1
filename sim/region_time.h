// The time of the node's devices, which all processes share: each device's state, and the channels whose work it
// serves. Only used with `slice` in the configuration. Any thread; no caller may have the region's lock. No process
// waits for another one here, and none can leave a change incomplete. A process computes the device's next state in
// memory of its own slot, and publishes it by one compare-and-swap. If another process was faster, it starts again from
// the state of that process. So a process that is stopped or killed at any instruction does not delay the others, and
// queued work is served whether or not its process runs.
#pragma once

#include "device_time.h"
#include "region.h"

enum {
	REGION_TIME_MPS = 1,		    // the context that all clients of MPS share
	REGION_TIME_PATIENCE_NS = 20000000, // longest sleep: this process, or another one, may fail meanwhile
	REGION_TIME_GONE_NS = 100000000,    // how long after its death a process's work leaves the device
};

// Returns the devices' time: CLOCK_MONOTONIC of the initial time namespace, because processes may be in other ones.
uint64_t region_time_now(const struct region *region);
// Returns a number for this process's context `id` that is unique on the node.
uint64_t region_time_context(const struct region *region, uint64_t id);
// Takes a free channel for work of `context` on the device. Returns 0, REGION_FULL (all channels are in use), or
// negative errno.
int region_time_claim(struct region *region, int device, uint64_t context, uint32_t *ret_channel);
// Releases the channel. All its work must have ended.
void region_time_release(struct region *region, int device, uint32_t channel);

struct region_piece { // of work
	enum time_engine engine;
	bool open;     // the work may not end before region_time_close()
	bool measured; // the work's time is known only at region_time_close(): its process measures it
	unsigned sms;
	uint64_t need_ns;
};
// Appends pieces of work, and returns the sequence of the first one. `ready_ns`: when the first one may begin; 0: not
// before region_time_ready(). The caller ensures that at most TIME_DEPTH pieces are in the channel, and that no other
// thread appends.
uint64_t region_time_append(struct region *region, int device, uint32_t channel, const struct region_piece *pieces,
			    unsigned count, uint64_t ready_ns);
void region_time_ready(struct region *region, int device, uint32_t channel, uint64_t sequence, uint64_t ready_ns);
// Lets open work end: from `closed_ns` on, when it has been served for need_ns.
void region_time_close(struct region *region, int device, uint32_t channel, uint64_t sequence, uint64_t need_ns,
		       uint64_t closed_ns);
// Ends the work as soon as all work before it has ended.
void region_time_cancel(struct region *region, int device, uint32_t channel, uint64_t sequence);
struct region_moment {
	enum time_stage stage;
	uint64_t end_ns;     // TIME_ENDS: when the work ended
	uint64_t wake_ns;    // otherwise: when to query again, at most REGION_TIME_PATIENCE_NS from now
	uint32_t generation; // changes when work ends whose end could not be predicted
};
// Advances the device to now and returns the stage of the work.
struct region_moment region_time_query(struct region *region, int device, uint32_t channel, uint64_t sequence,
				       enum time_stage stage);
// Sleeps until moment->wake_ns, or until work ends whose end could not be predicted.
void region_time_sleep(struct region *region, int device, const struct region_moment *moment);
// Wakes all processes that sleep in region_time_sleep().
void region_time_wake(struct region *region, int device);

// Returns figures of the device until now. Observers may call it: nothing is published.
struct region_time_view {
	uint64_t busy_ns, switching_ns, switches; // sums since the node began
	unsigned channels;			  // with work
};
struct region_time_view region_time_view(struct region *region, int device);

// Fails all clients of MPS on the device. The word changes with every failure; its low half is the error, 0 before the
// first one.
void region_time_fail(struct region *region, int device, uint32_t error);
uint64_t region_time_failure(struct region *region, int device);
