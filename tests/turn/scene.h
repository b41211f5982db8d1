// Runs tenants on one device of the model, and measures what each of them gets. Used by the tests of the model, and for
// the table of its figures.
#pragma once
#include "model.h"

enum { SCENE_TENANTS = 8 };

// The programs, with times as measured on an H200:
extern const struct program program_train;	// 4096^3 matrix products of 204 us, synchronized after 20
extern const struct program program_small;	// bound by its launches: kernels of 4.5 us every 12 us
extern const struct program program_long;	// kernels of 6.5 ms
extern const struct program program_graph;	// captured steps of 10 ms
extern const struct program program_graph_long; // captured steps of 100 ms
extern const struct program program_loop;	// a training loop with a data loader
extern const struct program program_pausing;	// like `loop`, and the host pauses at times
extern const struct program program_forty;	// 2 ms on the device, 3 ms on the host
extern const struct program program_late_train; // like train, with the pauses of program_late_long
extern const struct program program_late_long;	// like long, but after each synchronization the host pauses for 0.2 ms
extern const struct program program_late_graph;
extern const struct program program_infer;  // 32 launches of an MLP, every 5 ms
extern const struct program program_closed; // like infer, but without pauses between requests

struct tenant {
	const struct program *program;
	unsigned int share;
	bool is_latency, is_limit;
};

struct scene {
	const char *name;
	struct tenant tenants[SCENE_TENANTS];
	enum turn_mode mode;
	double seconds;	  // duration; 0: 10 s
	double estimate;  // estimated durations of kernels, relative to the real ones; 0: 1
	uint64_t wake_ns; // how long a sleeping thread takes until it runs; 0: the model's default
	// how much work a vGPU may have in flight while a latency vGPU is active (`urgent_window_ns`); 0: the default
	uint64_t window_ns;
	uint64_t linger_ns; // how long the device keeps a context that has no more work before it serves another one
	bool ungated;	    // no launch waits for a turn: the device uses the driver's own time slices
	bool sleeper;	    // another vGPU has processes that never launch anything
	// true: the arbiter takes the time of a context switch as 0, so it charges the vGPU for it
	bool charges_switch;
};

struct result {
	unsigned int count;
	double solo[SCENE_TENANTS];   // the tenant's rate in percent of its rate when it runs alone
	double device[SCENE_TENANTS]; // the tenant's percentage of the device's time
	double part[SCENE_TENANTS];   // the tenant's percentage of the sum of `solo`
	// the largest deviation of `part` from its mean in a window of 2 s, in percentage points
	double window[SCENE_TENANTS];
	double sum;
	double p50[SCENE_TENANTS], p99[SCENE_TENANTS], solo_p99[SCENE_TENANTS]; // latencies of requests, microseconds
	// turns that passed to another vGPU, and decisions of the arbiter, per second
	double handovers, decisions;
};

void scene_run(const struct scene *scene, struct result *ret_result);
void scene_print(const struct scene *scene, const struct result *result);
