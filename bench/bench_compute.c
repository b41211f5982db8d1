// Measures what compute units cost, and how exactly their compute shares are kept. Three units with 40, 30 and 30 % run
// under full load; each window of some seconds is one measurement, and their throughput is compared with one unit alone
// that launches the same kernels. Also measures the time from the submission of an empty kernel to its end, beside the
// driver's own launches.
//   bench_compute [--json FILE]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compute_load.h"
#include "core/core.h"
#include "core/kernel.h"

enum { LATENCIES = 1001, NOTICES = 201, BURST = 4000, BURSTS = 9 };

// A chain of multiply-adds. The result may be stored, so that the compiler cannot remove the chain.
static const char ptx[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry bench_empty() { ret; }\n"
	".visible .entry bench_spin(.param .u32 rounds, .param .u64 sink) {\n"
	".reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %p<3>;\n"
	"ld.param.u32 %r0, [rounds]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;\n"
	"again: mad.lo.u32 %r1, %r1, 1664525, 1013904223; add.u32 %r2, %r2, 1;\n"
	"setp.lt.u32 %p1, %r2, %r0; @%p1 bra again;\n"
	"setp.ne.u32 %p2, %r1, 12345; @%p2 bra done;\n"
	"ld.param.u64 %d0, [sink]; setp.eq.u64 %p2, %d0, 0; @%p2 bra done; st.global.u32 [%d0], %r1;\n"
	"done: ret; }\n";

const double kind_ms[KINDS] = {0.2, 1, 5};
struct compute_bench bench;

double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void add_figure(const char *what, const char *unit, double *values, size_t count, double beside, enum bench_rule rule,
		double limit)
{
	struct bench_figure figure = {.baseline = beside, .rule = rule, .limit = limit};

	snprintf(figure.what, sizeof figure.what, "%s", what);
	snprintf(figure.unit, sizeof figure.unit, "%s", unit);
	bench_figure_set(&figure, values, count);
	bench_report_add(bench.report, &figure);
}

// ---- kernels that take a given time ---------------------------------------------------------------

double time_of(unsigned count, unsigned launches)
{
	struct vg_launch_config config = {.size = sizeof config, .grid = {bench.grid}, .block = {bench.block}};
	struct vg_stream *stream;
	vg_address nowhere = 0;

	check(vg_stream_create(bench.context, NULL, &stream));
	double begin = 0;
	for (unsigned i = 0; i <= launches; i++) { // the first launch loads the kernel, and is not timed
		check(vg_launch(stream, &config, bench.spin_kernel,
				(struct vg_argument[]){VG_ARGUMENT(count), VG_ARGUMENT(nowhere)}, 2));
		if (i == 0) {
			check(vg_stream_sync(stream));
			begin = now_s();
		}
	}
	check(vg_stream_sync(stream));
	double ms = (now_s() - begin) * 1e3 / launches;
	vg_stream_destroy(stream);
	return ms;
}

static void calibrate(void)
{
	unsigned count = 1000;

	while (time_of(count, 4) < 2)
		count *= 2;
	double per_round = time_of(count, 20) / count;
	for (int i = 0; i < KINDS; i++) {
		bench.rounds[i] = (unsigned)(kind_ms[i] / per_round);
		printf("a kernel of %.1f ms: %u rounds on %u blocks of %u threads\n", kind_ms[i], bench.rounds[i],
		       bench.grid, bench.block);
	}
}

struct vg_compute *open_compute(enum vg_compute_placement placement)
{
	struct vg_compute_options options = {
		.size = sizeof options, .policy = VG_COMPUTE_WEIGHTED_FAIR, .placement = placement};
	struct vg_compute *compute;

	check(vg_compute_create(bench.device, &options, &compute));
	check(vg_compute_register_kernel(compute, "bench_spin", bench.spin_kernel));
	check(vg_compute_register_kernel(compute, "bench_empty", bench.empty_kernel));
	return compute;
}

// ---- single launches ------------------------------------------------------------------------------

static void launch_raw(CUstream stream)
{
	CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};

	if (core_driver->cuLaunchKernelEx(&config, (CUfunction)bench.empty_kernel->handle, NULL, NULL))
		exit(1);
}

// Measures how late the end of a kernel is noticed. The kernel is so long that the scheduler sleeps meanwhile.
static void measure_notice(struct vg_compute_unit *unit, struct vg_stream *stream)
{
	double ours[NOTICES], raw[NOTICES];
	vg_address nowhere = 0;
	struct vg_argument arguments[] = {VG_ARGUMENT(bench.rounds[1]), VG_ARGUMENT(nowhere)};
	struct vg_work work = {.size = sizeof work,
			       .kernel = "bench_spin",
			       .config = {.size = sizeof work.config, .grid = {bench.grid}, .block = {bench.block}},
			       .arguments = arguments,
			       .argument_count = 2};
	struct vg_execution *execution;

	for (int i = 0; i < NOTICES; i++) {
		double begin = now_s();
		check(vg_compute_unit_execute(unit, &work, &execution));
		check(vg_execution_wait(execution, 0));
		ours[i] = (now_s() - begin) * 1e6;
		vg_execution_destroy(execution);
		begin = now_s();
		check(vg_launch(stream, &work.config, bench.spin_kernel, arguments, 2));
		check(vg_stream_sync(stream));
		raw[i] = (now_s() - begin) * 1e6;
	}
	struct bench_figure beside;
	bench_figure_set(&beside, raw, NOTICES);
	add_figure("submission_to_end_1ms", "us", ours, NOTICES, beside.value, BENCH_NO_LIMIT, 0);
}

static void measure_latency(struct vg_compute_unit *unit, struct vg_stream *stream)
{
	static double ours[LATENCIES], raw[LATENCIES];
	struct vg_work work = {.size = sizeof work, .kernel = "bench_empty", .config = {.grid = {1}, .block = {1}}};
	struct vg_execution *execution;

	for (int i = 0; i < LATENCIES; i++) {
		double begin = now_s();
		check(vg_compute_unit_execute(unit, &work, &execution));
		check(vg_execution_wait(execution, 0));
		ours[i] = (now_s() - begin) * 1e6;
		vg_execution_destroy(execution);
		begin = now_s();
		launch_raw(vg_stream_handle(stream));
		check(vg_stream_sync(stream));
		raw[i] = (now_s() - begin) * 1e6;
	}
	struct bench_figure beside;
	bench_figure_set(&beside, raw, LATENCIES);
	add_figure("submission_to_end", "us", ours, LATENCIES, beside.value, BENCH_NO_LIMIT, 0);
}

static void measure_bursts(struct vg_compute_unit *unit, struct vg_stream *stream)
{
	struct vg_work work = {.size = sizeof work, .kernel = "bench_empty", .config = {.grid = {1}, .block = {1}}};
	double ours[BURSTS], raw[BURSTS], submission[BURSTS];

	for (int b = 0; b < BURSTS; b++) {
		double begin = now_s();
		for (int i = 0; i < BURST; i++)
			check(vg_compute_unit_execute(unit, &work, NULL));
		submission[b] = (now_s() - begin) * 1e9 / BURST;
		check(vg_compute_unit_sync_all(unit, 0));
		ours[b] = BURST / (now_s() - begin) / 1e3;
		begin = now_s();
		for (int i = 0; i < BURST; i++)
			launch_raw(vg_stream_handle(stream));
		check(vg_stream_sync(stream));
		raw[b] = BURST / (now_s() - begin) / 1e3;
	}
	struct bench_figure beside;
	bench_figure_set(&beside, raw, BURSTS);
	add_figure("submission", "ns, in bursts", submission, BURSTS, 0, BENCH_AT_MOST, 5000);
	add_figure("launches", "1000/s", ours, BURSTS, beside.value, BENCH_NO_LIMIT, 0);
}

static void measure_launches(void)
{
	struct vg_compute *compute = open_compute(VG_PLACEMENT_TIME);
	struct vg_compute_unit_options options = {.size = sizeof options, .share = 1, .streams = 1};
	struct vg_compute_unit *unit;
	struct vg_stream *stream;

	check(vg_stream_create(bench.context, NULL, &stream));
	check(vg_compute_unit_create(compute, &options, &unit));
	check(vg_context_set_current(bench.context, NULL));
	measure_latency(unit, stream);
	measure_notice(unit, stream);
	measure_bursts(unit, stream);
	vg_compute_unit_destroy(unit);
	vg_compute_destroy(compute);
	vg_stream_destroy(stream);
}

static void open_device(void)
{
	struct vg_object_code *code;
	struct vg_sm_resource *sms;

	check(vg_device_get(0, &bench.device));
	check(vg_context_primary(bench.device, &bench.context));
	check(vg_object_code_create(VG_CODE_PTX, ptx, strlen(ptx), NULL, &code));
	check(vg_object_code_kernel(code, "bench_spin", &bench.spin_kernel));
	check(vg_object_code_kernel(code, "bench_empty", &bench.empty_kernel));
	vg_object_code_destroy(code);
	check(vg_device_sm_resource(bench.device, &sms));
	// As many warps as a device runs at once. The simulated device is slow: one warp is enough there.
	bench.grid = bench.simulated ? 1 : 2 * vg_sm_resource_count(sms);
	bench.block = bench.simulated ? 32 : 1024;
	vg_sm_resource_destroy(sms);
}

int main(int argc, char **argv)
{
	static const int small[] = {0, 0, 0}, middle[] = {1, 1, 1}, large[] = {2, 2, 2}, mixed[] = {0, 1, 2};

	if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--json") == 0)) {
		fprintf(stderr, "usage: bench_compute [--json FILE]\n");
		return 2;
	}
	bench.report = bench_report_create();
	bench.simulated = getenv("VIRGATE_SIM") != NULL;
	bench.window_s = bench.simulated ? 0.5 : 2;
	if (!bench.report)
		return 1;
	open_device();
	printf("on %s; windows of %.1f s\n", vg_device_name(bench.device), bench.window_s);
	calibrate();
	measure_launches();
	measure_alone();
	measure_shares("0.2ms", small, VG_PLACEMENT_TIME, 2, 1);
	measure_shares("1ms", middle, VG_PLACEMENT_TIME, 2, 1);
	measure_shares("5ms", large, VG_PLACEMENT_TIME, 2, 1);
	measure_shares("mixed", mixed, VG_PLACEMENT_TIME, 2, 1);
	measure_shares("groups_1ms", middle, VG_PLACEMENT_GROUPS, 1, 0);
	vg_kernel_destroy(bench.spin_kernel);
	vg_kernel_destroy(bench.empty_kernel);
	vg_context_destroy(bench.context);
	return bench_report_finish(bench.report, argc == 3 ? argv[2] : NULL);
}
