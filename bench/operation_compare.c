// Compares matrix multiplication by cuBLASLt called directly, by a plan on a stream, and by a virtual GPU.
#include "operation_bench.h"
#include "operation_direct.h"

#include <stdio.h>
#include <stdlib.h>

#define TURN_SECONDS 0.02 // long compared with its start and end, but too short for a change of the GPU's clock

enum way { DIRECTLY, PLANNED, MANAGED, WAYS };

struct comparison {
	struct vg_matrix_multiply d;
	struct vg_manager *manager;
	struct vg_virtual_gpu *vgpu;
	struct vg_stream *stream;
	struct operation_set *set;
	struct direct *direct;
	vg_address workspace;
	int calls; // in a turn
};

static enum vg_status allocate(struct comparison *c, uint64_t bytes, vg_address *ret_address)
{
	return vg_virtual_gpu_allocate(c->vgpu, bytes, 0, ret_address);
}

static void open_memory(struct comparison *c, enum vg_element_type type, uint64_t side)
{
	size_t bytes = side * side * elements[type].bytes;
	void *numbers = make_numbers(type, bytes);

	c->d = (struct vg_matrix_multiply){.size = sizeof c->d, .type = type, .m = side, .n = side, .k = side};
	check(allocate(c, bytes, &c->d.a));
	check(allocate(c, bytes, &c->d.b));
	check(allocate(c, bytes, &c->d.c));
	check(allocate(c, 32 * MIB, &c->workspace));
	check(vg_virtual_gpu_write(c->vgpu, c->d.a, numbers, bytes));
	check(vg_virtual_gpu_write(c->vgpu, c->d.b, numbers, bytes));
	free(numbers);
}

static struct comparison open_comparison(struct vg_device *device, enum vg_element_type type, uint64_t side)
{
	const struct vg_virtual_gpu_options options = {
		.size = sizeof options, .name = "bench", .memory_limit = 1024 * MIB, .compute_share = 1};
	struct vg_context *context;
	struct comparison c = {.calls = 2};

	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &c.stream));
	check(operation_set_create(context, &c.set));
	vg_context_destroy(context);
	check(vg_manager_create(device, NULL, &c.manager));
	check(vg_virtual_gpu_create(c.manager, &options, &c.vgpu));
	open_memory(&c, type, side);
	return c;
}

static void close_comparison(struct comparison *c)
{
	direct_destroy(c->direct);
	operation_set_destroy(c->set);
	check(vg_virtual_gpu_close(c->vgpu));
	vg_virtual_gpu_destroy(c->vgpu);
	vg_manager_destroy(c->manager);
	vg_stream_destroy(c->stream);
}

static void call(struct comparison *c, enum way way)
{
	struct operation_plan *plan;

	if (way == DIRECTLY) {
		direct_run(c->direct, vg_stream_handle(c->stream), c->workspace);
	} else if (way == MANAGED) {
		check(vg_virtual_gpu_matrix_multiply(c->vgpu, &c->d, 0, NULL));
	} else {
		check(operation_plan_matrix_multiply(c->set, &c->d, (struct operation_rules){0}, &plan));
		check(operation_plan_run(plan, c->stream, c->workspace));
		operation_plan_destroy(plan);
	}
}

// Queues the calls of a turn and waits for all of them. Returns the seconds for one call.
static double time_turn(struct comparison *c, enum way way)
{
	double begin = now();

	for (int i = 0; i < c->calls; i++)
		call(c, way);
	check(way == MANAGED ? vg_virtual_gpu_sync(c->vgpu, 0, 60) : vg_stream_sync(c->stream));
	return (now() - begin) / c->calls;
}

// Reports the time of single multiplications in µs, with a wait after each.
static void measure_alone(struct bench_report *report, struct comparison *c, enum way way, const char *name)
{
	double times[TURNS];
	char what[40];

	c->calls = 1;
	for (int i = 0; i < TURNS; i++)
		times[i] = time_turn(c, way) * 1e6;
	snprintf(what, sizeof what, "multiply_alone_%s", name);
	report_figure(report, what, elements[c->d.type].name, "us", times, TURNS, 0);
}

static void print_plan(struct comparison *c)
{
	struct operation_plan *plan;

	check(operation_plan_matrix_multiply(c->set, &c->d, (struct operation_rules){0}, &plan));
	printf("%s: %s; directly: %s\n", elements[c->d.type].name, operation_plan_says(plan),
	       c->direct ? direct_says(c->direct) : "not measured");
	operation_plan_destroy(plan);
}

void compare_multiply(struct bench_report *report, struct vg_device *device, enum vg_element_type type, uint64_t side,
		      double limit)
{
	static const char *const names[WAYS] = {"directly", "planned", "managed"};
	struct comparison c = open_comparison(device, type, side);
	double rates[WAYS][TURNS], ratios[WAYS][TURNS], seconds[WAYS], end = now() + WAYS * SECONDS;
	double work = 2 * (double)side * (double)side * (double)side;
	char what[40];
	int turns = 0;

	if (!operation_set_lacks(c.set, OPERATION_CUBLASLT)) {
		c.direct = direct_create(&c.d);
		if (!c.direct || direct_workspace(c.direct) > 32 * MIB)
			exit(1);
	}
	enum way first = c.direct ? DIRECTLY : PLANNED;
	print_plan(&c);
	for (int i = -WARM; i < TURNS && (turns < LEAST_TURNS || now() < end); i++) {
		for (int j = 0; j < WAYS; j++) { // each turn begins with another way
			enum way way = (enum way)((i + WARM + j) % WAYS);
			seconds[way] = way >= first ? time_turn(&c, way) : 0;
		}
		if (i < 0) {
			c.calls = (int)(TURN_SECONDS / seconds[first]) + 1;
			continue;
		}
		for (int way = first; way < WAYS; way++) {
			rates[way][turns] = work / seconds[way] * rate_scale;
			ratios[way][turns] = 100 * seconds[first] / seconds[way];
		}
		turns++;
	}
	for (int way = first; way < WAYS; way++) {
		snprintf(what, sizeof what, "multiply_%s", names[way]);
		report_figure(report, what, elements[type].name, rate_unit, rates[way], (size_t)turns, 0);
		if (way == (int)first)
			continue;
		snprintf(what, sizeof what, "multiply_%s_ratio", names[way]);
		report_figure(report, what, elements[type].name, c.direct ? "% of directly" : "% of planned",
			      ratios[way], (size_t)turns, c.direct ? limit : 0);
	}
	for (int way = first; way < WAYS; way++)
		measure_alone(report, &c, (enum way)way, names[way]);
	close_comparison(&c);
}
