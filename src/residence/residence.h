// Which evictable vGPUs have their memory on the device. A vGPU needs all of its memory to run. It is on the device as
// long as nobody else needs the room. If a vGPU waits for room, idle vGPUs leave first, then those that have been there
// longest, each after a quantum; latency vGPUs leave last. vGPUs that wait come in the order in which they began to wait.
// Pure functions: times are nanoseconds of one monotonic clock.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum residence_state {
	RESIDENCE_OUT,
	RESIDENCE_COMING,
	RESIDENCE_IN,
	RESIDENCE_LEAVING,
};

struct residence_vgpu {
	// Facts.
	uint64_t memory;	 // the most that it takes on the device: its limit
	uint64_t fixed;		 // of that, what stays when it is out
	bool is_suspended;	 // by its user: it stays out
	bool is_latency;	 // its class
	bool wants;		 // a thread of it waits for the memory
	uint64_t wants_since_ns; // while it wants
	uint64_t in_since_ns;	 // while it is in
	uint64_t active_ns;	 // when it last used the device
	uint64_t switch_ns;	 // how long its last move took
	uint64_t busy_until_ns;	 // it could not leave: it is not asked again before
	enum residence_state state;
	// The order.
	bool out;
};

enum {
	RESIDENCE_IDLE_MS = 1000,	   // without use of the device for so long, a vGPU is idle
	RESIDENCE_QUANTUM_LEAST_MS = 5000, // how long a vGPU that is in use stays at least
	RESIDENCE_QUANTUM_MOST_MS = 60000,
	RESIDENCE_QUANTUM_SWITCHES = 10, // between these: so many times the time of its last move
};

// What vGPUs of these sizes need of a device: one after the other can run while the others are out. 0: none.
uint64_t residence_least(const struct residence_vgpu *vgpus, size_t count);
// What they need to be in all at once.
uint64_t residence_most(const struct residence_vgpu *vgpus, size_t count);
// Writes the order of each vGPU. `capacity`: the bytes of the device that they share. Returns when to decide again, if no
// fact changes before; UINT64_MAX: at no time.
uint64_t residence_decide(struct residence_vgpu *vgpus, size_t count, uint64_t capacity, uint64_t now);
// When the vGPU may be asked to leave, because it is idle or its quantum has ended.
uint64_t residence_leaves_at(const struct residence_vgpu *vgpu);
