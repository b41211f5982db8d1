// Decides which evictable vGPUs have their memory on the device ("in"), and which in the host ("out"). A vGPU needs all
// of its memory on the device to run. It stays in until another vGPU needs the room. Then idle vGPUs leave first, and
// after them those that have been in longest, each after a quantum. vGPUs of the latency class leave last. Waiting
// vGPUs return in the order in which they began to wait. A leaving vGPU has drained when its programs no longer use the
// device. From then on another vGPU may already return into the room that the leaving one releases. If the leaving one
// does not release the room in time, the returning one is ordered out again. A vGPU may also have a time without use
// after which it leaves even if no other vGPU waits. Pure functions, any thread. Times are nanoseconds of one monotonic
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
	// The caller fills all members except `out`.
	uint64_t memory; // the vGPU's limit in bytes: the most that its programs can have on the device
	// The part of the limit that stays on the device even if the vGPU's memory is in the host.
	uint64_t fixed;
	bool is_suspended;	 // true: its user suspended it, so its memory stays in the host
	bool is_latency;	 // the vGPU is of the latency class
	bool wants;		 // true: a thread of the vGPU waits until the memory is on the device
	uint64_t wants_since_ns; // since when a thread waits; valid if `wants`
	// When the vGPU was last ordered to move its memory to the device; valid while it is there.
	uint64_t in_since_ns;
	uint64_t active_ns; // when the vGPU last used the device
	uint64_t switch_ns; // how long the vGPU's last move took, to the host or to the device
	// The vGPU could not leave the device, and is not ordered to leave again before this time.
	uint64_t busy_until_ns;
	uint64_t idle_ns; // the vGPU leaves after this time without use, even if no other vGPU waits; 0: never
	enum residence_state state;
	// Valid while the vGPU leaves the device: its programs no longer use the device, and its memory is moving
	// within the expected time.
	bool has_drained;
	// Valid while the vGPU leaves the device: its memory should have left by now, so other vGPUs must not rely on
	// the room.
	bool is_overdue;
	// The order for the vGPU, which residence_decide() writes: true means to leave the device.
	bool out;
};

enum {
	// A vGPU counts as idle if it was not used for half of the time that its last move took. These two values are
	// the lower and the upper limit of that time. Before the vGPU's first move the upper limit applies.
	RESIDENCE_IDLE_LEAST_MS = 500,
	RESIDENCE_IDLE_MOST_MS = 1000,
	// The quantum of a vGPU is a multiple of the duration of its last move, bounded by these two values.
	RESIDENCE_QUANTUM_LEAST_MS = 5000,
	RESIDENCE_QUANTUM_MOST_MS = 60000,
	RESIDENCE_QUANTUM_SWITCHES = 10, // the multiple
};

// Returns how many bytes of the device these vGPUs would occupy if the memory of all of them were on the device at
// once.
uint64_t residence_most(const struct residence_vgpu *vgpus, size_t count);
// Decides, and writes the order of each vGPU. `capacity`: how many bytes of the device these vGPUs may use together.
// Returns the time at which to decide again, if no fact changes earlier; UINT64_MAX: there is no such time.
uint64_t residence_decide(struct residence_vgpu *vgpus, size_t count, uint64_t capacity, uint64_t now);
// Returns the earliest time at which the vGPU may be ordered to leave the device: when it is idle, or its quantum has
// ended.
uint64_t residence_leaves_at(const struct residence_vgpu *vgpu);
