// Measures matrix multiplication by a virtual GPU beside cuBLASLt called directly, in alternating turns
// (operation_compare.c). Also measures the library's own kernels, convolutions and activations.
//   bench_operation [--json FILE]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operation_bench.h"

enum { CALLS = 5 }; // in each turn

static struct vg_stream *stream;
static struct vg_context *context;
static struct operation_set *set;
static struct vg_buffer *a, *b, *c, *workspace;
static bool simulated;
const char *rate_unit = "TFLOP/s";
double rate_scale = 1e-12;

static void fill(struct vg_buffer *buffer, enum vg_element_type type)
{
	size_t bytes = vg_buffer_size(buffer), tile = bytes < 16 * MIB ? bytes : 16 * MIB;
	void *numbers = make_numbers(type, tile);

	for (size_t at = 0; at < bytes; at += tile)
		check(vg_buffer_write(buffer, at, numbers, bytes - at < tile ? bytes - at : tile, stream));
	check(vg_stream_sync(stream));
	free(numbers);
}

static void open_buffers(struct vg_memory_resource *memory, enum vg_element_type type, size_t left, size_t right,
			 size_t result)
{
	check(vg_buffer_create(memory, left * elements[type].bytes, NULL, &a));
	check(vg_buffer_create(memory, right * elements[type].bytes, NULL, &b));
	check(vg_buffer_create(memory, result * elements[type].bytes, NULL, &c));
	fill(a, type);
	fill(b, type);
}

static void close_buffers(void)
{
	vg_buffer_destroy(a);
	vg_buffer_destroy(b);
	vg_buffer_destroy(c);
}

static void run(struct operation_plan *plan)
{
	if (operation_plan_workspace(plan) > vg_buffer_size(workspace)) {
		fprintf(stderr, "bench_operation: %s wants %zu bytes of workspace\n", operation_plan_says(plan),
			operation_plan_workspace(plan));
		exit(1);
	}
	check(operation_plan_run(plan, stream, vg_buffer_address(workspace)));
}

// Reports how much a plan does in a second, if each of its runs does `work`. Destroys the plan.
static void measure(struct bench_report *report, struct operation_plan *plan, const char *what, const char *of,
		    const char *unit, double work, double limit)
{
	double rates[TURNS], end = now() + SECONDS;
	int turns = 0, calls = simulated ? 1 : CALLS;

	printf("%s_%s: %s\n", what, of, operation_plan_says(plan));
	for (int i = -WARM; i < TURNS && (turns < LEAST_TURNS || now() < end); i++) {
		double begin = now();
		for (int j = 0; j < calls; j++)
			run(plan);
		check(vg_stream_sync(stream));
		if (i >= 0)
			rates[turns++] = work * calls / (now() - begin);
	}
	report_figure(report, what, of, unit, rates, (size_t)turns, limit);
	operation_plan_destroy(plan);
}

static void bench_multiply(struct bench_report *report, struct vg_memory_resource *memory, enum vg_element_type type)
{
	const uint64_t side = simulated ? 128 : 4096;
	double work = 2 * (double)side * (double)side * (double)side;
	struct operation_plan *plan;

	open_buffers(memory, type, side * side, side * side, side * side);
	struct vg_matrix_multiply d = {.size = sizeof d, .type = type, .m = side, .n = side, .k = side};
	d.a = vg_buffer_address(a);
	d.b = vg_buffer_address(b);
	d.c = vg_buffer_address(c);
	check(operation_plan_matrix_multiply(set, &d, (struct operation_rules){.portable = true}, &plan));
	measure(report, plan, "multiply_own", elements[type].name, rate_unit, work * rate_scale,
		simulated && type == VG_F32 ? 0.03 : 0);
	close_buffers();
}

// Measures a layer of a residual network: a 3 x 3 convolution over 28 x 28 positions.
static void bench_convolve(struct bench_report *report, struct vg_memory_resource *memory, enum vg_element_type type)
{
	uint64_t batch = simulated ? 1 : 64, channels = simulated ? 8 : 128, side = 28;
	size_t image = batch * channels * side * side;
	double work = 2 * (double)image * (double)channels * 9 * rate_scale;
	struct operation_plan *plan;

	open_buffers(memory, type, image, channels * channels * 9, image);
	struct vg_convolution d = {.size = sizeof d,
				   .type = type,
				   .input = vg_buffer_address(a),
				   .filter = vg_buffer_address(b),
				   .output = vg_buffer_address(c),
				   .batch = batch,
				   .in_channels = channels,
				   .out_channels = channels,
				   .height = side,
				   .width = side,
				   .kernel_height = 3,
				   .kernel_width = 3,
				   .padding = {1, 1}};
	if (!operation_set_lacks(set, OPERATION_CUDNN)) {
		check(operation_plan_convolution(set, &d, (struct operation_rules){0}, &plan));
		measure(report, plan, "convolve", elements[type].name, rate_unit, work, 0);
	}
	check(operation_plan_convolution(set, &d, (struct operation_rules){.portable = true}, &plan));
	measure(report, plan, "convolve_own", elements[type].name, rate_unit, work, 0);
	close_buffers();
}

static void bench_activate(struct bench_report *report, struct vg_memory_resource *memory, enum vg_element_type type)
{
	static const enum vg_activation_kind kinds[] = {VG_ACTIVATION_RELU, VG_ACTIVATION_GELU, VG_ACTIVATION_SOFTMAX};
	struct vg_activation d = {.size = sizeof d, .type = type, .batch = simulated ? 16 : 65536, .channels = 1024};
	size_t count = d.batch * d.channels;
	struct operation_plan *plan;
	char of[40];

	open_buffers(memory, type, count, 1, count);
	d.height = d.width = 1;
	d.input = vg_buffer_address(a);
	d.output = vg_buffer_address(c);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		d.kind = kinds[i];
		check(operation_plan_activation(set, &d, (struct operation_rules){0}, &plan));
		snprintf(of, sizeof of, "%s_%s", vg_activation_name(d.kind), elements[type].name);
		measure(report, plan, "activate", of, "GB/s", 2e-9 * (double)(count * elements[type].bytes), 0);
	}
	close_buffers();
}

int main(int argc, char **argv)
{
	struct bench_report *report = bench_report_create();
	struct vg_memory_resource *memory;
	struct vg_device *device;

	if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--json") == 0)) {
		fprintf(stderr, "usage: bench_operation [--json FILE]\n");
		return 2;
	}
	if (!report)
		return 1;
	simulated = getenv("VIRGATE_SIM") != NULL;
	if (simulated) {
		rate_unit = "GFLOP/s";
		rate_scale = 1e-9;
	}
	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	// makes the context current, because cuBLASLt is also called directly
	check(vg_context_set_current(context, NULL));
	check(vg_stream_create(context, NULL, &stream));
	check(vg_synchronous_resource_create(context, &memory));
	check(vg_buffer_create(memory, simulated ? 1 : 256 * MIB, NULL, &workspace));
	check(operation_set_create(context, &set));
	printf("on %s; multiplications of %s\n", vg_device_name(device), simulated ? "128x128x128" : "4096x4096x4096");
	for (enum operation_provider provider = OPERATION_CUBLASLT; provider < OPERATION_PORTABLE; provider++)
		if (operation_set_lacks(set, provider))
			printf("not measured: %s\n", operation_set_lacks(set, provider));
	for (int type = VG_F32; type <= VG_F64; type++) {
		compare_multiply(report, device, (enum vg_element_type)type, simulated ? 128 : 4096,
				 type == VG_BF16 ? 99 : 0);
		bench_multiply(report, memory, (enum vg_element_type)type);
	}
	bench_convolve(report, memory, VG_F32);
	bench_convolve(report, memory, VG_BF16);
	bench_activate(report, memory, VG_F32);
	bench_activate(report, memory, VG_BF16);
	operation_set_destroy(set);
	vg_buffer_destroy(workspace);
	vg_memory_resource_destroy(memory);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	return bench_report_finish(report, argc == 3 ? argv[2] : NULL);
}
