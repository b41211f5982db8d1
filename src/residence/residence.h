// Decides which evictable vGPUs have their memory on the device. A vGPU needs all of its memory to run. It stays on the
// device until another vGPU needs the room. If a vGPU waits for room, idle vGPUs leave first, then those that have been
// on the device longest, each after a quantum. vGPUs of the latency class leave last. Waiting vGPUs return in the order
// in which they began to wait. A vGPU may return while others leave, as soon as the others have drained: its memory
// takes the room that they release. If they stay, or do not leave in time, it is ordered out again. A vGPU may also
// have a time after which it leaves by itself. Pure functions, any thread. Times are nanoseconds of one monotonic
// clock.
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
	uint64_t memory;	 // its limit, all of which it may use on the device
	uint64_t fixed;		 // the part of the limit that stays on the device when it is out
	bool is_suspended;	 // by its user: it stays out
	bool is_latency;	 // it is of the latency class
	bool wants;		 // one of its threads waits for the memory
	uint64_t wants_since_ns; // valid while it wants
	uint64_t in_since_ns;	 // valid while it is in
	uint64_t active_ns;	 // when it last used the device
	uint64_t switch_ns;	 // how long its last move took
	uint64_t busy_until_ns;	 // it could not leave, and is not asked again before this time
	uint64_t idle_ns;	 // it leaves after so long without use, even if no other vGPU waits; 0: never
	enum residence_state state;
	// Valid while it leaves.
	bool has_drained; // its programs no longer use the device, its memory moves, and it is in time
	bool is_overdue;  // its memory should have left by now: others must not rely on its room
	// The order.
	bool out;
};

enum {
	// A vGPU is idle if it has not used the device for half of the time of its last move, between these. The
	// longer time counts before its first move.
	RESIDENCE_IDLE_LEAST_MS = 500,
	RESIDENCE_IDLE_MOST_MS = 1000,
	// The quantum of a vGPU is a multiple of the duration of its last move, within two limits.
	RESIDENCE_QUANTUM_LEAST_MS = 5000,
	RESIDENCE_QUANTUM_MOST_MS = 60000,
	RESIDENCE_QUANTUM_SWITCHES = 10, // the factor
};

// Returns how much memory of a device these vGPUs need so that each can run while the others are out. 0: none.
uint64_t residence_least(const struct residence_vgpu *vgpus, size_t count);
// Returns how much they need to be on the device all at once.
uint64_t residence_most(const struct residence_vgpu *vgpus, size_t count);
// Decides, and writes the order of each vGPU. `capacity`: the bytes of the device that they share. Returns when to
// decide again if no fact changes before; UINT64_MAX: never.
uint64_t residence_decide(struct residence_vgpu *vgpus, size_t count, uint64_t capacity, uint64_t now);
// Returns when the vGPU may be asked to leave, because it is idle or its quantum has ended.
uint64_t residence_leaves_at(const struct residence_vgpu *vgpu);
