// A program for bench_evict.py that computes with all of its device memory in each step, so that a wrong copy of any
// word shows in the result.
//   evict_steps MIB PIECE_MIB
// Prints "ready". For each line "run SECONDS" it makes steps for so long, and prints a line for each: the time when it
// has ended (CLOCK_MONOTONIC in ns); then "end". For each line "check" it prints "right" if every word is what so many
// steps make of its first value, or the number of wrong words.
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 256, BLOCKS = 4096, MIB = 1 << 20, MOST_PIECES = 4096 };
// A step makes word = word * FACTOR + ADDEND, modulo 2^32.
static const uint32_t FACTOR = 1664525, ADDEND = 1013904223;

// step(p, n, factor, addend) makes a step of n words. test(p, n, factor, addend, wrong, base) computes what the first
// value of each word, a hash of base and its index, becomes by the factor and the addend. It writes this to the words,
// or if `wrong` is not NULL, counts the words that differ.
static const char kernels[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry step(.param .u64 p, .param .u64 n, .param .u32 f, .param .u32 c)\n{\n"
	".reg .u64 %p, %n, %i, %s, %a;\n.reg .u32 %f, %c, %x, %y, %w;\n.reg .pred %q;\n"
	"ld.param.u64 %p, [p];\nld.param.u64 %n, [n];\nld.param.u32 %f, [f];\nld.param.u32 %c, [c];\n"
	"mov.u32 %x, %ctaid.x;\nmov.u32 %y, %ntid.x;\nmul.wide.u32 %i, %x, %y;\n"
	"mov.u32 %x, %tid.x;\ncvt.u64.u32 %s, %x;\nadd.u64 %i, %i, %s;\n"
	"mov.u32 %x, %nctaid.x;\nmul.wide.u32 %s, %x, %y;\n"
	"next:\nsetp.ge.u64 %q, %i, %n;\n@%q bra done;\nshl.b64 %a, %i, 2;\nadd.u64 %a, %a, %p;\n"
	"ld.global.u32 %w, [%a];\nmad.lo.u32 %w, %w, %f, %c;\nst.global.u32 [%a], %w;\n"
	"add.u64 %i, %i, %s;\nbra next;\ndone:\nret;\n}\n"
	".visible .entry test(.param .u64 p, .param .u64 n, .param .u32 f, .param .u32 c, .param .u64 w,\n"
	".param .u32 b)\n{\n.reg .u64 %p, %n, %i, %s, %a, %bad, %o;\n"
	".reg .u32 %f, %c, %x, %y, %w, %v, %b;\n.reg .pred %q, %r;\n"
	"ld.param.u64 %p, [p];\nld.param.u64 %n, [n];\nld.param.u32 %f, [f];\nld.param.u32 %c, [c];\n"
	"ld.param.u64 %o, [w];\nld.param.u32 %b, [b];\nmov.u64 %bad, 0;\nsetp.ne.u64 %r, %o, 0;\n"
	"mov.u32 %x, %ctaid.x;\nmov.u32 %y, %ntid.x;\nmul.wide.u32 %i, %x, %y;\n"
	"mov.u32 %x, %tid.x;\ncvt.u64.u32 %s, %x;\nadd.u64 %i, %i, %s;\n"
	"mov.u32 %x, %nctaid.x;\nmul.wide.u32 %s, %x, %y;\n"
	"next:\nsetp.ge.u64 %q, %i, %n;\n@%q bra done;\nshl.b64 %a, %i, 2;\nadd.u64 %a, %a, %p;\n"
	"cvt.u32.u64 %w, %i;\nadd.u32 %w, %w, %b;\nmul.lo.u32 %w, %w, 0x9e3779b1;\nshr.u32 %v, %w, 15;\n"
	"xor.b32 %w, %w, %v;\nmad.lo.u32 %w, %w, %f, %c;\nadd.u64 %i, %i, %s;\n@%r bra compare;\n"
	"st.global.u32 [%a], %w;\nbra next;\n"
	"compare:\nld.global.u32 %v, [%a];\nsetp.eq.u32 %q, %v, %w;\n@%q bra next;\nadd.u64 %bad, %bad, 1;\nbra next;\n"
	"done:\nsetp.eq.u64 %q, %bad, 0;\n@%q bra end;\natom.global.add.u64 %a, [%o], %bad;\nend:\nret;\n}\n";

static CUfunction step_function, test_function;
static CUdeviceptr pieces[MOST_PIECES], wrong;
static uint64_t piece_words[MOST_PIECES];
static uint32_t piece_count, factor = 1, addend; // what all steps together make of a word's first value

#define MUST(call) must(call, #call)
static void must(CUresult result, const char *what)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "evict_steps: %s: %s\n", what, name);
	exit(1);
}

static void launch_test(CUdeviceptr counter)
{
	for (uint32_t i = 0; i < piece_count; i++) {
		void *arguments[] = {&pieces[i], &piece_words[i], &factor, &addend, &counter, &i};
		MUST(cuLaunchKernel(test_function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
	}
	MUST(cuCtxSynchronize());
}

static void start(size_t mib, size_t piece_mib)
{
	CUcontext context;
	CUmodule module;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, kernels));
	MUST(cuModuleGetFunction(&step_function, module, "step"));
	MUST(cuModuleGetFunction(&test_function, module, "test"));
	MUST(cuMemAlloc(&wrong, sizeof(uint64_t)));
	for (; mib > 0 && piece_count < MOST_PIECES; piece_count++) {
		size_t part = mib < piece_mib ? mib : piece_mib;
		MUST(cuMemAlloc(&pieces[piece_count], part * MIB));
		piece_words[piece_count] = part * (MIB / sizeof(uint32_t));
		mib -= part;
	}
	launch_test(0);
}

static void make_step(void)
{
	uint32_t f = FACTOR, c = ADDEND;

	for (uint32_t i = 0; i < piece_count; i++) {
		void *arguments[] = {&pieces[i], &piece_words[i], &f, &c};
		MUST(cuLaunchKernel(step_function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
	}
	MUST(cuCtxSynchronize());
	factor *= FACTOR;
	addend = addend * FACTOR + ADDEND;
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void run(double seconds)
{
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);

	while (now_ns() < end) {
		make_step();
		printf("%llu\n", (unsigned long long)now_ns());
	}
	printf("end\n");
}

static void check_words(void)
{
	uint64_t count = 0;

	MUST(cuMemsetD8(wrong, 0, sizeof count));
	launch_test(wrong);
	MUST(cuMemcpyDtoH(&count, wrong, sizeof count));
	if (count)
		printf("%llu wrong words\n", (unsigned long long)count);
	else
		printf("right\n");
}

int main(int argc, char **argv)
{
	char line[64];
	double seconds;

	if (argc != 3 || strtoull(argv[1], NULL, 10) == 0 || strtoull(argv[2], NULL, 10) == 0)
		return fprintf(stderr, "usage: evict_steps MIB PIECE_MIB\n"), 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	start(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10));
	printf("ready\n");
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "check\n") == 0)
			check_words();
		else if (sscanf(line, "run %lf", &seconds) == 1)
			run(seconds);
	}
	return 0;
}
