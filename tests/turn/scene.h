// Runs tenants on one device of the model, and measures what each gets. For the tests of the model and its table.
#pragma once
#include "model.h"

enum { SCENE_TENANTS = 8 };

// Programs as in the measurements on an H200.
extern const struct program program_train;	// 4096^3 products of 204 us, a synchronization after 20
extern const struct program program_small;	// bound by its launches: 4.5 us each 12 us
extern const struct program program_long;	// kernels of 6.5 ms
extern const struct program program_graph;	// captured steps of 10 ms
extern const struct program program_graph_long; // captured steps of 100 ms
extern const struct program program_loop;	// a training loop with a data loader
extern const struct program program_pausing;	// the same, and the host pauses at times
extern const struct program program_forty;	// 2 ms on the device, 3 ms on the host
extern const struct program program_late_train;	// the same as train, long and graph, but the host takes 0.2 ms after
extern const struct program program_late_long;	// each synchronization until it launches again
extern const struct program program_late_graph;
extern const struct program program_infer;	// 32 launches of an MLP, every 5 ms
extern const struct program program_closed;	// the same, one request after the other

struct tenant {
	const struct program *program;
	unsigned int share;
	bool is_latency, is_limit;
};

struct scene {
	const char *name;
	struct tenant tenants[SCENE_TENANTS];
	enum turn_mode mode;
	double seconds;	     // 0: 10
	double estimate;     // of kernels, times their length; 0: 1
	uint64_t wake_ns;    // of a sleeping thread; 0: the model's
	uint64_t window_ns;  // while a latency tenant is active; 0: the rules'
	uint64_t linger_ns;  // of the device with a context that has no work
	bool ungated;	     // the driver's own time slices
	bool sleeper;	     // another vGPU has processes that do nothing
	bool charges_switch; // the rules do not know the cost of a context switch
};

struct result {
	unsigned int count;
	double solo[SCENE_TENANTS];   // of its rate alone, percent
	double device[SCENE_TENANTS]; // of the device's time, percent
	double part[SCENE_TENANTS];   // of the sum of `solo`, percent
	double window[SCENE_TENANTS]; // largest difference of that part from its mean in a window of 2 s, points
	double sum;
	double p50[SCENE_TENANTS], p99[SCENE_TENANTS], solo_p99[SCENE_TENANTS]; // of requests, microseconds
	double handovers, decisions; // a second
};

void scene_run(const struct scene *scene, struct result *ret_result);
void scene_print(const struct scene *scene, const struct result *result);
