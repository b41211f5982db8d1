// How fast the PTX interpreter is on one core: thread-instructions per second on converged
// arithmetic and on global loads and stores, counted from the kernels' own text.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/ptx/ptx.h"

enum { BYTES = 1 << 20, LOOPS = 2000, THREADS = 256, BLOCKS = 8 };
#define BASE 0x700000000000ull

static _Alignas(4096) uint8_t memory[BYTES];
static uint8_t permission[BYTES >> 12];

#define KERNEL(name, body)                                                                                             \
	".visible .entry " name "(.param .u64 p) {\n"                                                                  \
	".reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .f32 %f<16>;\n"                                    \
	"ld.param.u64 %rd1, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd3, %rd1, %rd2;\n"          \
	"mov.u32 %r1, 0; cvt.rn.f32.u32 %f1, %r0; mov.u32 %r2, %r0; mov.u32 %r3, %r0; mov.f32 %f2, 0f3F800001;\n"      \
	"LOOP:\n" body "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 2000; @%p1 bra LOOP;\n"                             \
	"add.u32 %r2, %r2, %r3; st.global.u32 [%rd3], %r2; st.global.f32 [%rd3+4096], %f1; ret; }\n"
#define FOUR(text) text text text text
#define SIXTEEN(text) FOUR(FOUR(text))

static const struct {
	const char *name, *what;
	unsigned per_loop; // instructions, the loop's own three included
} kernels[] = {
	{"integers", "converged integers", 67},
	{"floats", "converged f32", 67},
	{"mixed", "converged mix", 99},
	{"loads", "coalesced global loads", 35},
	{"copies", "coalesced loads and stores", 35},
	{"scattered", "scattered loads", 35},
	{"shared", "shared loads and stores", 35},
};

static const char text[] = ".version 8.3\n.target sm_90\n.address_size 64\n" KERNEL(
	"integers",
	SIXTEEN("mad.lo.u32 %r2, %r2, %r3, %r1; xor.b32 %r3, %r3, %r2; shl.b32 %r4, %r2, 3; add.u32 %r3, %r3, %r4;\n"))
	KERNEL("floats", SIXTEEN("fma.rn.f32 %f1, %f1, %f2, %f2; mul.f32 %f3, %f1, %f2; add.f32 %f4, %f3, %f1; sub.f32 "
				 "%f1, %f4, %f3;\n")) KERNEL(
		"mixed", SIXTEEN("add.u32 %r2, %r2, %r1; shr.u32 %r4, %r2, 5; and.b32 %r5, %r4, 255; setp.gt.u32 %p2, "
				 "%r5, 9; selp.u32 %r6, %r5, %r2, %p2; cvt.rn.f32.u32 %f3, %r6;\n"))
		KERNEL("loads", SIXTEEN("ld.global.u32 %r2, [%rd3]; ld.global.f32 %f1, [%rd3+8192];\n")) KERNEL(
			"copies", SIXTEEN("ld.global.u32 %r2, [%rd3]; st.global.u32 [%rd3+8192], %r2;\n"))
			KERNEL("scattered", "mul.wide.u32 %rd4, %r0, 68; add.u64 %rd5, %rd1, %rd4;\n" SIXTEEN(
						    "ld.global.u32 %r2, [%rd5]; ld.global.f32 %f1, [%rd5+32768];\n"))
				KERNEL("shared",
				       ".shared .align 4 .b8 s[1024]; mov.u32 %r7, s; mad.lo.u32 %r7, %r0, 4, "
				       "%r7;\n" SIXTEEN("st.shared.u32 [%r7], %r1; ld.shared.u32 %r2, [%r7];\n"));

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(void)
{
	const char *one = text;
	size_t length = strlen(text);
	char log_text[512] = "";
	struct ptx_log log = {log_text, sizeof log_text, 0};
	struct ptx_module *module;
	uint64_t parameter = BASE;

	memset(permission, 3, sizeof permission);
	if (ptx_module_load(&one, &length, 1, 90, &log, &module) || ptx_module_bind(module, BASE, memory)) {
		fprintf(stderr, "%s\n", log_text);
		return 1;
	}
	struct ptx_space space = {.base = BASE,
				  .size = BYTES,
				  .offset = (intptr_t)((uintptr_t)memory - BASE),
				  .permission = permission,
				  .granule_shift = 12};
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
		struct ptx_launch launch = {.function = ptx_module_function(module, kernels[i].name),
					    .grid = {BLOCKS, 1, 1},
					    .block = {THREADS, 1, 1},
					    .parameters = &parameter,
					    .space = &space,
					    .threads = 1};
		struct ptx_fault fault;
		double best = 0;
		for (int round = 0; round < 5; round++) {
			double start = now();
			if (ptx_run(&launch, &fault)) {
				fprintf(stderr, "%s: %s\n", kernels[i].name, fault.text);
				return 1;
			}
			double rate = (double)kernels[i].per_loop * LOOPS * THREADS * BLOCKS / (now() - start);
			best = rate > best ? rate : best;
		}
		printf("%-28s %7.0f M thread-instructions/s\n", kernels[i].what, best / 1e6);
	}
	ptx_module_destroy(module);
	return 0;
}
