// Declares the time of the simulated node's devices, which all processes share: the state of each device, and the
// channels with its work (device_time.h). It is used only with `slice` in the configuration. Any thread; no caller may
// hold the region's lock.
//
// No process waits for another one here, and none can leave a change incomplete. A process computes the device's next
// state in memory of its own slot, and publishes it by one compare-and-swap. If another process was faster, it starts
// again from that process's state. So a process that is stopped or killed at any instruction does not delay the others.
// Queued work is served whether or not its process runs.
#pragma once

#include "device_time.h"
#include "region.h"

enum {
	REGION_TIME_MPS = 1,		    // the number of the context that all clients of MPS share
	REGION_TIME_PATIENCE_NS = 20000000, // longest sleep, since this process or another one may fail meanwhile
	REGION_TIME_GONE_NS = 100000000,    // when a process has died, its work leaves the device after this time
};

// Returns the devices' time. It is CLOCK_MONOTONIC of the initial time namespace, because processes may be in others.
uint64_t region_time_now(const struct region *region);
// Returns a number for this process's context `id` that is unique on the simulated node.
uint64_t region_time_context(const struct region *region, uint64_t id);
// Takes a free channel for work of `context` on the device. Returns 0, REGION_FULL (all channels are in use), or
// negative errno.
int region_time_claim(struct region *region, int device, uint64_t context, uint32_t *ret_channel);
// Releases the channel. All its work must have ended.
void region_time_release(struct region *region, int device, uint32_t channel);

struct region_piece { // of work
	enum time_engine engine;
	bool open;     // the work may not end before region_time_close()
	bool measured; // the process measures how long the work takes, and reports that to region_time_close()
	unsigned sms;
	uint64_t need_ns;
};
// Appends pieces of work to a channel, and returns the number of the first one. `ready_ns` is when the first one may
// begin. If it is 0, the work waits for region_time_ready(). The caller ensures that the channel has room (TIME_DEPTH),
// and that no other thread appends.
uint64_t region_time_append(struct region *region, int device, uint32_t channel, const struct region_piece *pieces,
			    unsigned count, uint64_t ready_ns);
void region_time_ready(struct region *region, int device, uint32_t channel, uint64_t sequence, uint64_t ready_ns);
// Lets work end that was appended with `open` set. It ends at `closed_ns` or later, when the device has spent need_ns
// on it.
void region_time_close(struct region *region, int device, uint32_t channel, uint64_t sequence, uint64_t need_ns,
		       uint64_t closed_ns);
// Ends the work as soon as all work before it has ended.
void region_time_cancel(struct region *region, int device, uint32_t channel, uint64_t sequence);
struct region_moment {
	enum time_stage stage;
	uint64_t end_ns;     // when the work ended; only in the stage TIME_ENDS
	uint64_t wake_ns;    // before TIME_ENDS: when to query again, at most REGION_TIME_PATIENCE_NS from now
	uint32_t generation; // changes when work ends at a time that could not be predicted
};
// Advances the device to the present. Returns the stage of the piece of work, and when to query again if it has not
// reached `stage` yet.
struct region_moment region_time_query(struct region *region, int device, uint32_t channel, uint64_t sequence,
				       enum time_stage stage);
// Sleeps until moment->wake_ns, or until work ends whose end could not be predicted.
void region_time_sleep(struct region *region, int device, const struct region_moment *moment);
// Wakes all processes that sleep in region_time_sleep().
void region_time_wake(struct region *region, int device);

// Figures of a device until now. A process without a slot in the region, such as NVML, may query them, because the
// query stores no new state of the device.
struct region_time_view {
	uint64_t busy_ns, switching_ns, switches; // sums since the simulated node was created
	unsigned channels;			  // with work
};
struct region_time_view region_time_view(struct region *region, int device);

// Fails all clients of MPS on the device. region_time_failure() returns 0 before the first failure, and then a value
// that changes with every failure. The low half of the value is the error.
void region_time_fail(struct region *region, int device, uint32_t error);
uint64_t region_time_failure(struct region *region, int device);
