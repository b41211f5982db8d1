// Declares what the files of the model share. The tests include only model.h.
#pragma once
#include <stddef.h>

#include "model.h"
#include "turn/estimate.h"
#include "turn/gang.h"
#include "turn/gate.h"

enum event_kind {
	EVENT_HOST,    // a process continues its program
	EVENT_LOOK,    // a waiting process reads the word by which the arbiter grants turns
	EVENT_SYNCED,  // a synchronization of a process returns
	EVENT_REAPED,  // the daemon clears the slot of a killed process
	EVENT_DEVICE,  // a kernel, copy or slice ends on the device
	EVENT_COPIED,  // a copy has ended
	EVENT_GONE,    // the work of a killed process leaves the device
	EVENT_ARBITER, // the arbiter reads the facts
	EVENT_ORDERS,  // the arbiter writes its orders
};

struct event {
	uint64_t when, sequence, version;
	enum event_kind kind;
	unsigned int index; // index of the process
};
static inline bool event_before(const struct event *a, const struct event *b)
{
	return a->when != b->when ? a->when < b->when : a->sequence < b->sequence;
}

struct kernel {
	// remaining time; UINT64_MAX: the kernel runs until a kernel of another process ends
	uint64_t left_ns;
	uint64_t estimate; // estimated nanoseconds at the launch
	// The shape (a hash of the function and the number of blocks), and the measured duration. If `sampled`, both
	// are passed to turn_estimate_learn() when the kernel ends.
	uint64_t shape, measured_ns;
	bool sampled;
	// number of the collective operation that this kernel is part of, from 1; 0: it is part of none
	uint64_t collective;
	uint64_t length_ns; // duration of a collective operation after it has begun on all devices
	uint64_t awaits;    // how many kernels of the other process must end before this one can end
	bool copy;
};

enum host_state { HOST_RUNS, HOST_GATE, HOST_DEPTH, HOST_SYNC, HOST_DEAD };

struct process {
	struct model_process public;
	unsigned int slot, device;
	uint64_t arrived; // number of the last collective operation that has begun on the process's device
	enum host_state state;
	uint64_t version;      // number of the process's next event; events with a smaller number are ignored
	bool stopped, pending; // `pending`: an event came while the process was stopped
	unsigned int launched; // number of kernels of the present request that were launched
	uint64_t request_ns, total_launches;
	double pace; // the host's time for each launch of the present request is multiplied by this random factor
	// The state of src/turn/gate.h, where launches wait for a turn.
	struct turn_process gate;
	struct turn_wait wait;
	struct turn_estimates estimates;
	// `closed_ns`: when the wait for a turn began; `awake_ns`: when the thread stops spinning
	uint64_t closed_ns, awake_ns;
	// State on the device: the queue of kernels is a ring buffer.
	struct kernel *queue;
	unsigned int first, count;
	uint64_t head_ns;  // time at which the first kernel in the queue became the first
	uint64_t ready_ns; // the first kernel may begin at this time
	bool running;
};

struct vgpu {
	struct turn_page page;
	struct turn_slot slots[64];
	struct turn_terms terms;
	struct turn_facts facts; // what the arbiter has last read about the vGPU
	unsigned int slot_count, index, device;
	struct turn_gang gang; // what the arbiter remembers about a job; only the first vGPU of a job uses it
	// `job`: the first vGPU of the job; `parts`: the number of its vGPUs, or 0 outside jobs
	unsigned int job, parts;
	uint64_t stopped; // bits: stopped slots
	bool present, joined;
};

struct device {
	int current; // context; -1: none
	// `switching`: a context switch is in progress; `contended`: at the last update of the device, another context
	// had work
	bool switching, contended;
	int next; // the next context, during a switch
	uint64_t slice_end, since, idle_since, version;
	double width;
};

struct model {
	struct vgpu vgpus[MODEL_PROCESSES];
	struct process processes[MODEL_PROCESSES];
	unsigned int vgpu_count, process_count;
	struct model_options options;
	uint64_t now, sequence, random;
	struct event *events;
	size_t event_count, event_room;
	double speed;
	struct device devices[MODEL_DEVICES];
	unsigned int copy_engines;

	struct turn_arbiter *arbiter;
	struct turn_facts facts[TURN_VGPUS];
	struct turn_orders orders;
	uint64_t arbiter_due, arbiter_version, decisions;
	bool arbiter_busy, rung, arbiter_dead;
	void (*watch)(struct model *model, void *user);
	void *watch_user;
};

// ---- model.c
void model_schedule(struct model *model, uint64_t when, enum event_kind kind, unsigned int index, uint64_t version);
double model_random(struct model *model); // returns a number between 0 and 1
double model_normal(struct model *model);

// ---- device.c
void device_submit(struct model *model, unsigned int process, struct kernel kernel);
void device_step(struct model *model, unsigned int index);
void device_copied(struct model *model, unsigned int process);
void device_remove(struct model *model, unsigned int process);
// Returns the estimated work in flight, according to the events (marks) in the process's stream.
uint64_t device_ahead(const struct model *model, const struct process *process);

// ---- host.c
void host_event(struct model *model, enum event_kind kind, unsigned int process, uint64_t version);
void host_wake(struct model *model, unsigned int vgpu);
void host_kernel_ended(struct model *model, unsigned int process);
