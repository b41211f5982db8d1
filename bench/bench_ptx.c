// Measures how fast the PTX interpreter is on one core: thread-instructions per second of processor time, for
// converged arithmetic and for global loads and stores. The instructions are counted in the kernels' text. The kernels
// run in alternating turns, and a figure is the median of a kernel's turns. The last figure is the speed of one launch
// on all cores, as a percentage of the speed of one process on each core.
//   bench_ptx [--json FILE]
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "figures.h"
#include "sim/ptx/ptx.h"

#define LOOPS 500
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
enum { BYTES = 1 << 20, THREADS = 256, BLOCKS = 8, ROUNDS = 15, CORE_BLOCKS = 250 };
#define BASE 0x700000000000ull

static _Alignas(4096) uint8_t memory[BYTES];
static uint8_t permission[BYTES >> 12];

#define FOUR(text) text text text text
#define SIXTEEN(text) FOUR(FOUR(text))

static const struct {
	const char *name, *what;
	unsigned per_loop; // instructions in one iteration of the loop, including three that control the loop
	double limit;	   // the least million instructions per second; 0: no limit
} kernels[] = {
	{"integers", "converged integers", 67, 300},
	{"floats", "converged f32", 67, 300},
	{"mixed", "converged mix", 99, 300},
	{"loads", "coalesced global loads", 35, 100},
	{"copies", "coalesced global loads and stores", 35, 100},
	{"scattered", "scattered global loads", 35, 100},
	{"shared", "shared loads and stores", 35, 0},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

// clang-format off
#define KERNEL(name, body)                                                                                             \
	".visible .entry " name "(.param .u64 p) {\n"                                                                  \
	".reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .f32 %f<16>;\n"                                    \
	"ld.param.u64 %rd1, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd3, %rd1, %rd2;\n"          \
	"mov.u32 %r1, 0; cvt.rn.f32.u32 %f1, %r0; mov.u32 %r2, %r0; mov.u32 %r3, %r0; mov.f32 %f2, 0f3F800001;\n"      \
	"LOOP:\n" body "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, " TEXT(                                             \
		LOOPS) "; @%p1 bra LOOP;\n"                                                                            \
		       "add.u32 %r2, %r2, %r3; st.global.u32 [%rd3], %r2; st.global.f32 [%rd3+4096], %f1; ret; }\n"

static const char text[] = ".version 8.3\n.target sm_90\n.address_size 64\n" KERNEL(
	"integers",
	SIXTEEN("mad.lo.u32 %r2, %r2, %r3, %r1; xor.b32 %r3, %r3, %r2; shl.b32 %r4, %r2, 3; add.u32 %r3, %r3, %r4;\n"))
	KERNEL("floats", SIXTEEN("fma.rn.f32 %f1, %f1, %f2, %f2; mul.f32 %f3, %f1, %f2; add.f32 %f4, %f3, %f1; sub.f32 "
				 "%f1, %f4, %f3;\n")) KERNEL(
		"mixed",
		SIXTEEN("add.u32 %r2, %r2, %r1; shr.u32 %r4, %r2, 5; and.b32 %r5, %r4, 255; setp.gt.u32 %p2, %r5, 9;\n"
			"selp.u32 %r6, %r5, %r2, %p2; cvt.rn.f32.u32 %f3, %r6;\n"))
		KERNEL("loads", SIXTEEN("ld.global.u32 %r2, [%rd3]; ld.global.f32 %f1, [%rd3+8192];\n")) KERNEL(
			"copies", SIXTEEN("ld.global.u32 %r2, [%rd3]; st.global.u32 [%rd3+8192], %r2;\n"))
			KERNEL("scattered", "mul.wide.u32 %rd4, %r0, 68; add.u64 %rd5, %rd1, %rd4;\n" SIXTEEN(
						    "ld.global.u32 %r2, [%rd5]; ld.global.f32 %f1, [%rd5+32768];\n"))
				KERNEL("shared",
				       ".shared .align 4 .b8 s[1024]; mov.u32 %r7, s; mad.lo.u32 %r7, %r0, 4, "
				       "%r7;\n" SIXTEEN("st.shared.u32 [%r7], %r1; ld.shared.u32 %r2, [%r7];\n"));
// clang-format on

// Returns the processor time of this process, which other processes on the same core do not change.
static double processor_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double wall_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int run_kernel(struct ptx_module *module, const char *name, uint32_t blocks, uint32_t host_threads)
{
	struct ptx_space space = {.base = BASE,
				  .size = BYTES,
				  .offset = (intptr_t)((uintptr_t)memory - BASE),
				  .permission = permission,
				  .granule_shift = 12};
	uint64_t parameter = BASE;
	struct ptx_launch launch = {.function = ptx_module_function(module, name),
				    .grid = {blocks, 1, 1},
				    .block = {THREADS, 1, 1},
				    .parameters = &parameter,
				    .space = &space,
				    .threads = host_threads};
	struct ptx_fault fault;

	if (ptx_run(&launch, &fault) == 0)
		return 0;
	fprintf(stderr, "bench_ptx: %s: %s\n", name, fault.text);
	return -1;
}

// Returns millions of thread-instructions a second, or a negative value on failure.
static double run_once(struct ptx_module *module, size_t kernel)
{
	double start = processor_seconds();

	if (run_kernel(module, kernels[kernel].name, BLOCKS, 1))
		return -1;
	return (double)kernels[kernel].per_loop * LOOPS * THREADS * BLOCKS / (processor_seconds() - start) / 1e6;
}

// Returns the seconds that `cores` processes need for CORE_BLOCKS blocks each, or a negative value on failure. The
// processes start computing when all of them exist.
static double run_processes(struct ptx_module *module, uint32_t cores)
{
	int start[2], status;
	bool failed = pipe(start);

	for (uint32_t i = 0; i < cores && !failed; i++) {
		pid_t child = fork();
		failed = child < 0;
		if (child)
			continue;
		char byte;
		close(start[1]);
		(void)!read(start[0], &byte, 1); // waits until the parent closes its end
		_exit(run_kernel(module, "mixed", CORE_BLOCKS, 1) ? 1 : 0);
	}
	double begin = wall_seconds();
	close(start[0]);
	close(start[1]);
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed ? -1 : wall_seconds() - begin;
}

// Measures one launch on all cores. The limit was set for 16 cores; with one core there is nothing to measure.
static int add_cores(struct ptx_module *module, struct bench_report *report)
{
	struct bench_figure figure = {.unit = "% of processes", .limit = 80, .rule = BENCH_AT_LEAST};
	double parts[ROUNDS / 3];
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < 2)
		return 0;
	uint32_t cores = (uint32_t)CPU_COUNT(&allowed);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		double apart = run_processes(module, cores), begin = wall_seconds();
		if (apart < 0 || run_kernel(module, "mixed", CORE_BLOCKS * cores, cores))
			return -1;
		parts[i] = 100 * apart / (wall_seconds() - begin);
	}
	snprintf(figure.what, sizeof figure.what, "one launch on %u cores", cores);
	bench_figure_set(&figure, parts, sizeof parts / sizeof *parts);
	bench_report_add(report, &figure);
	return 0;
}

int main(int argc, char **argv)
{
	static double rates[KERNELS][ROUNDS];
	const char *one = text;
	size_t length = strlen(text);
	char log_text[512] = "";
	struct ptx_log log = {log_text, sizeof log_text, 0};
	struct bench_report *report = bench_report_create();
	struct ptx_module *module;

	if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--json") == 0)) {
		fprintf(stderr, "usage: bench_ptx [--json FILE]\n");
		return 2;
	}
	memset(permission, 3, sizeof permission);
	if (!report || ptx_module_load(&one, &length, 1, 90, &log, &module) || ptx_module_bind(module, BASE, memory)) {
		fprintf(stderr, "bench_ptx: the kernels do not load: %s\n", log_text);
		return 1;
	}
	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < KERNELS; i++)
			if ((rates[i][round] = run_once(module, i)) < 0)
				return 1;
	for (size_t i = 0; i < KERNELS; i++) {
		struct bench_figure figure = {.unit = "M thread-instructions/s",
					      .limit = kernels[i].limit,
					      .rule = kernels[i].limit > 0 ? BENCH_AT_LEAST : BENCH_NO_LIMIT};

		snprintf(figure.what, sizeof figure.what, "%s", kernels[i].what);
		bench_figure_set(&figure, rates[i], ROUNDS);
		bench_report_add(report, &figure);
	}
	if (add_cores(module, report))
		return 1;
	ptx_module_destroy(module);
	return bench_report_finish(report, argc == 3 ? argv[2] : NULL);
}
