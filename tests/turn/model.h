// Simulates a device, its processes and the arbiter in virtual time, by discrete events without threads or a clock. The
// policy, the shared words and the gate are the real ones. The device serves contexts in turn, one slice each, and a
// switch between contexts takes time. Under MPS all processes share one context, whose kernels run side by side while
// they fit. A process launches kernels into one stream, waits for them, and thinks. All times are nanoseconds.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "turn/turn.h"

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull

enum { MODEL_DEVICES = 4, MODEL_PROCESSES = 160, MODEL_DEPTH = 1024, MODEL_LATENCIES = 1 << 16 };

// A program: what a process does in a loop.
struct program {
	unsigned int launches;	      // launches of a request, which ends with a synchronization
	uint64_t host_ns;	      // host time between two launches
	uint64_t kernel_ns, other_ns; // durations of kernels; every second kernel takes `other_ns`, unless that is 0
	uint64_t think_ns;	      // host time after the synchronization
	unsigned int pause_every;     // the host pauses after so many launches
	uint64_t pause_ns;	      // duration of that pause
	uint64_t copy_ns;	      // duration of a copy between host and device, before the kernels
	double jitter;		      // relative variation of the host's times
	double width;		      // part of the device that a kernel fills; 0: the whole device
	bool never_waits;	      // the program never synchronizes
	bool silent;		      // the process waits for its turn, but never launches when it has the turn
	// In a job, one of so many kernels is a collective operation, which waits for the same operation on the other
	// devices.
	unsigned int collective_every;
	// The number of a process plus 1: the kernels wait for kernels of that process. 0: they do not wait.
	int spins_for;
	uint64_t requests; // number of requests after which the process ends; 0: it never ends
};

struct model_options {
	enum turn_mode mode;
	struct turn_rules rules;
	bool ungated;	    // no gates: the device uses the driver's own time slices
	bool sees_stops;    // the daemon informs the arbiter of stopped processes
	uint64_t linger_ns; // how long the device keeps a context that has no more work before it serves another one
	uint64_t slice_ns, switch_ns, start_ns, gap_ns, notice_ns;
	uint64_t wake_ns;    // how long a sleeping thread of a process takes to wake up
	uint64_t late_ns;    // how long the arbiter takes to wake up, by a bell or a timer
	uint64_t arbiter_ns; // how long the arbiter takes from reading the facts to writing the orders
	double estimate;     // estimated duration of a kernel, relative to the real one
	uint64_t seed;
};
// Returns the options of a device of the Hopper generation with a fast host.
void model_options(enum turn_mode mode, struct model_options *ret_options);

struct model_process {
	struct program program;
	unsigned int vgpu;
	uint64_t kernels, gpu_ns, requests; // the kernels, GPU time and requests that have ended
	uint64_t longest_wait_ns;	    // longest time for which a launch waited for a turn
	uint64_t latency_count;
	uint32_t *latencies; // latencies of the first requests, in microseconds
};

struct model;
struct model *model_create(const struct model_options *options);
void model_destroy(struct model *model);
// Adds a vGPU. Returns its number in the model, which may differ from its index in the arbiter.
unsigned int model_add_vgpu(struct model *model, unsigned int share, bool is_latency, bool is_limit);
// Adds a job with a vGPU on each of the devices 0 to `devices` - 1. Returns the number of the first one; the others
// follow.
unsigned int model_add_job(struct model *model, unsigned int share, unsigned int devices);
void model_set_terms(struct model *model, unsigned int vgpu, const struct turn_terms *terms);
// Starts a process and returns its number.
unsigned int model_start_process(struct model *model, unsigned int vgpu, const struct program *program);
void model_run(struct model *model, uint64_t ns);
uint64_t model_now(const struct model *model);
void model_stop(struct model *model, unsigned int process);
void model_continue(struct model *model, unsigned int process);
void model_kill(struct model *model, unsigned int process);
// Returns whether the vGPU takes part in turns and has processes.
bool model_is_present(const struct model *model, unsigned int vgpu);
void model_set_speed(struct model *model, double speed); // applies to kernels launched from now on
void model_stop_arbiter(struct model *model);		 // the arbiter stops as if it were killed
// Starts a new arbiter, which does not know the state of the previous one.
void model_start_arbiter(struct model *model);
// Returns the slot of a process, so that tests can write as a hostile process.
struct turn_slot *model_slot(struct model *model, unsigned int process);
void model_ring(struct model *model);
const struct model_process *model_process(const struct model *model, unsigned int process);
void model_reset_figures(struct model *model); // clears the figures of all processes
const struct turn_orders *model_orders(const struct model *model);
void model_account(const struct model *model, unsigned int vgpu, struct turn_account *ret_account);
void model_total(const struct model *model, struct turn_total *ret_total);
const struct turn_gate *model_gate(const struct model *model, unsigned int vgpu);
uint64_t model_decisions(const struct model *model);
// Returns a percentile of the latencies, in microseconds.
double model_percentile(const struct model *model, unsigned int process, double part);
// Sets a function that the model calls after every decision.
void model_set_watch(struct model *model, void (*watch)(struct model *model, void *user), void *user);
const struct turn_facts *model_facts(const struct model *model, unsigned int vgpu);
