// A device, its processes and the arbiter in virtual time: discrete events, no thread, no clock. The policy, the
// shared words and the gate are the real ones; the device and the processes are modelled.
//
// The device serves contexts in turn, one slice each, and changes between them at a cost. Under MPS all processes share
// one context, whose kernels run side by side while they fit. A process launches kernels into one stream, waits for
// them, and thinks. All times are nanoseconds.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "turn/turn.h"

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull

enum { MODEL_PROCESSES = 160, MODEL_DEPTH = 1024, MODEL_LATENCIES = 1 << 16 };

// What a process does in a loop.
struct program {
	unsigned int launches;	   // of a request, which ends with a synchronization
	uint64_t host_ns;	   // from one launch to the next
	uint64_t kernel_ns, other_ns; // the kernels; `other_ns`: every second one, if it is not 0
	uint64_t think_ns;	   // on the host, after the synchronization
	unsigned int pause_every;  // the host pauses after so many launches
	uint64_t pause_ns;	   // for so long
	uint64_t copy_ns;	   // before the kernels: a copy between host and device
	double jitter;		   // of the host's time
	double width;		   // part of the device that a kernel fills; 0: all of it
	bool never_waits;	   // no synchronization
	bool silent;		   // waits at the gate and never launches, even if it is open
	int spins_for;		   // its kernels wait for those of process `spins_for` - 1; 0: they do not
	uint64_t requests;	   // it ends after so many requests; 0: never
};

struct model_options {
	enum turn_mode mode;
	struct turn_rules rules;
	bool ungated;	     // the driver's own time slices
	bool sees_stops;     // the daemon tells the arbiter of stopped processes
	uint64_t linger_ns;  // the device stays with a context without work for so long
	uint64_t slice_ns, switch_ns, start_ns, gap_ns, notice_ns;
	uint64_t wake_ns;    // of a sleeping thread of a process
	uint64_t late_ns;    // of the arbiter's, by a bell or a timer
	uint64_t arbiter_ns; // from reading the facts to writing the orders
	double estimate;     // of a kernel, times its length
	uint64_t seed;
};
// Returns the options of a device of the Hopper generation with a fast host.
void model_options(enum turn_mode mode, struct model_options *ret_options);

struct model_process {
	struct program program;
	unsigned int vgpu;
	uint64_t kernels, gpu_ns, requests; // that ended
	uint64_t longest_wait_ns;	    // at the gate for a turn
	uint64_t latency_count;
	uint32_t *latencies; // the first ones, in microseconds
};

struct model;
struct model *model_create(const struct model_options *options);
void model_destroy(struct model *model);
// Returns the vGPU's number in the model, which is not its index in the policy.
unsigned int model_add_vgpu(struct model *model, unsigned int share, bool is_latency, bool is_limit);
void model_set_terms(struct model *model, unsigned int vgpu, const struct turn_terms *terms);
// Returns the number of the process.
unsigned int model_start_process(struct model *model, unsigned int vgpu, const struct program *program);
void model_run(struct model *model, uint64_t ns);
uint64_t model_now(const struct model *model);
void model_stop(struct model *model, unsigned int process);
void model_continue(struct model *model, unsigned int process);
void model_kill(struct model *model, unsigned int process);
// Returns whether the vGPU has joined and has processes.
bool model_is_present(const struct model *model, unsigned int vgpu);
void model_set_speed(struct model *model, double speed); // of kernels launched from now on
void model_stop_arbiter(struct model *model);	     // as when it is killed
void model_start_arbiter(struct model *model);	     // a new one, which does not know the first one's state
// The slot of a process, for a hostile process to write.
struct turn_slot *model_slot(struct model *model, unsigned int process);
void model_ring(struct model *model);
const struct model_process *model_process(const struct model *model, unsigned int process);
void model_reset_figures(struct model *model); // of the processes
const struct turn_orders *model_orders(const struct model *model);
void model_account(const struct model *model, unsigned int vgpu, struct turn_account *ret_account);
void model_total(const struct model *model, struct turn_total *ret_total);
const struct turn_gate *model_gate(const struct model *model, unsigned int vgpu);
uint64_t model_decisions(const struct model *model);
double model_percentile(const struct model *model, unsigned int process, double part); // of latencies, microseconds
// Sets a function that is called after every decision.
void model_set_watch(struct model *model, void (*watch)(struct model *model, void *user), void *user);
const struct turn_facts *model_facts(const struct model *model, unsigned int vgpu);
