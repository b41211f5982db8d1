// Who multiplies, in turns: cuBLASLt called directly, a plan on a stream, a virtual GPU.
#include "operation_bench.h"
#include "operation_direct.h"

#include <stdio.h>
#include <stdlib.h>

#define TURN_SECONDS 0.02 // long beside its beginning and end, short beside what the GPU does to its clock

enum who { DIRECTLY, PLANNED, MANAGED, EVERYBODY };

struct comparison {
	struct vg_matrix_multiply d;
	struct vg_manager *manager;
	struct vg_virtual_gpu *vgpu;
	struct vg_stream *stream;
	struct operation_set *set;
	struct direct *direct;
	vg_address workspace;
	int calls; // of a turn
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

static void call(struct comparison *c, enum who who)
{
	struct operation_plan *plan;

	if (who == DIRECTLY) {
		direct_run(c->direct, vg_stream_handle(c->stream), c->workspace);
	} else if (who == MANAGED) {
		check(vg_virtual_gpu_matrix_multiply(c->vgpu, &c->d, 0, NULL));
	} else {
		check(operation_plan_matrix_multiply(c->set, &c->d, (struct operation_rules){0},
						     &plan));
		check(operation_plan_run(plan, c->stream, c->workspace));
		operation_plan_destroy(plan);
	}
}

// Seconds for one of the turn's calls, which are queued, and waited for together.
static double time_turn(struct comparison *c, enum who who)
{
	double begin = now();

	for (int i = 0; i < c->calls; i++)
		call(c, who);
	check(who == MANAGED ? vg_virtual_gpu_sync(c->vgpu, 0, 60) : vg_stream_sync(c->stream));
	return (now() - begin) / c->calls;
}

// How long one multiplication takes that is waited for at once, in µs.
static void measure_alone(struct bench_report *report, struct comparison *c, enum who who, const char *name)
{
	double times[TURNS];
	char what[40];

	c->calls = 1;
	for (int i = 0; i < TURNS; i++)
		times[i] = time_turn(c, who) * 1e6;
	snprintf(what, sizeof what, "multiply_alone_%s", name);
	report_figure(report, what, elements[c->d.type].name, "us", times, TURNS, 0);
}

static void say(struct comparison *c)
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
	static const char *const names[EVERYBODY] = {"directly", "planned", "managed"};
	struct comparison c = open_comparison(device, type, side);
	double rates[EVERYBODY][TURNS], ratios[EVERYBODY][TURNS], seconds[EVERYBODY], end = now() + EVERYBODY * SECONDS;
	double work = 2 * (double)side * (double)side * (double)side;
	char what[40];
	int turns = 0;

	if (!operation_set_lacks(c.set, OPERATION_CUBLASLT)) {
		c.direct = direct_create(&c.d);
		if (!c.direct || direct_workspace(c.direct) > 32 * MIB)
			exit(1);
	}
	enum who first = c.direct ? DIRECTLY : PLANNED;
	say(&c);
	for (int i = -WARM; i < TURNS && (turns < LEAST_TURNS || now() < end); i++) {
		for (int j = 0; j < EVERYBODY; j++) { // whoever begins is another one each time
			enum who who = (enum who)((i + WARM + j) % EVERYBODY);
			seconds[who] = who >= first ? time_turn(&c, who) : 0;
		}
		if (i < 0) {
			c.calls = (int)(TURN_SECONDS / seconds[first]) + 1;
			continue;
		}
		for (int who = first; who < EVERYBODY; who++) {
			rates[who][turns] = work / seconds[who] * rate_scale;
			ratios[who][turns] = 100 * seconds[first] / seconds[who];
		}
		turns++;
	}
	for (int who = first; who < EVERYBODY; who++) {
		snprintf(what, sizeof what, "multiply_%s", names[who]);
		report_figure(report, what, elements[type].name, rate_unit, rates[who], (size_t)turns, 0);
		if (who == (int)first)
			continue;
		snprintf(what, sizeof what, "multiply_%s_ratio", names[who]);
		report_figure(report, what, elements[type].name, c.direct ? "% of directly" : "% of planned",
			      ratios[who], (size_t)turns, c.direct ? limit : 0);
	}
	for (int who = first; who < EVERYBODY; who++)
		measure_alone(report, &c, (enum who)who, names[who]);
	close_comparison(&c);
}
