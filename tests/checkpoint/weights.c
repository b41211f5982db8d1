// A CUDA program that allocates random device memory and does nothing, for checkpoints of any size.
//   weights FILE SIZE[+UNTOUCHED] [SIZE[+UNTOUCHED] of the next GPU]…      sizes in MiB
// It writes "ready" to the file. On SIGUSR1 it compares every word with the original one on the GPU, and writes "right"
// or the number of wrong words. On SIGUSR2 it writes how many MiB the first GPU still grants. On SIGTERM it compares
// and exits, with 0 if all words are right. With WEIGHTS_CHANGE=SIZE it allocates that much more on the first GPU, and
// writes it again and again, with pauses of 20 ms.
#include <cuda.h>

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	GPUS = 16,
	PARTS = 3,
	CHANGING = 2,
	CHANGE_NS = 20000000,
	THREADS = 256,
	BLOCKS = 1024,
	PIECE_MIB = 16,
	MOST_PIECES = 16384
};

// Defines the kernel words(p, n, mask, wrong). Word i is a hash of i (that of splitmix64) and the mask. The kernel
// writes the words, or if `wrong` is not NULL, counts those that differ.
#define HASH                                                           \
	"add.u64 %t, %i, 1;\nmul.lo.u64 %z, %t, 0x9e3779b97f4a7c15;\n" \
	"shr.u64 %t, %z, 30;\nxor.b64 %z, %z, %t;\n"                   \
	"mul.lo.u64 %z, %z, 0xbf58476d1ce4e5b9;\n"                     \
	"shr.u64 %t, %z, 27;\nxor.b64 %z, %z, %t;\n"                   \
	"mul.lo.u64 %z, %z, 0x94d049bb133111eb;\n"                     \
	"shr.u64 %t, %z, 31;\nxor.b64 %z, %z, %t;\nand.b64 %z, %z, %m;\n"
static const char kernels[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
			      ".visible .entry words(.param .u64 p, .param .u64 n, .param .u64 m, .param .u64 w)\n{\n"
			      ".reg .u64 %p, %n, %m, %w, %i, %s, %z, %t, %bad, %a;\n"
			      ".reg .u32 %x, %y, %c;\n.reg .pred %q, %r;\n"
			      "ld.param.u64 %p, [p];\nld.param.u64 %n, [n];\n"
			      "ld.param.u64 %m, [m];\nld.param.u64 %w, [w];\n"
			      "mov.u32 %x, %ctaid.x;\nmov.u32 %y, %ntid.x;\nmov.u32 %c, %tid.x;\n"
			      "mul.wide.u32 %i, %x, %y;\ncvt.u64.u32 %t, %c;\nadd.u64 %i, %i, %t;\n"
			      "mov.u32 %x, %nctaid.x;\nmul.wide.u32 %s, %x, %y;\n"
			      "mov.u64 %bad, 0;\nsetp.ne.u64 %r, %w, 0;\n"
			      "next:\nsetp.ge.u64 %q, %i, %n;\n@%q bra done;\n" HASH
			      "shl.b64 %a, %i, 3;\nadd.u64 %a, %a, %p;\nadd.u64 %i, %i, %s;\n"
			      "@%r bra compare;\nst.global.u64 [%a], %z;\nbra next;\n"
			      "compare:\nld.global.u64 %t, [%a];\nsetp.eq.u64 %q, %t, %z;\n@%q bra next;\n"
			      "add.u64 %bad, %bad, 1;\nbra next;\n"
			      "done:\nsetp.eq.u64 %q, %bad, 0;\n@%q bra end;\n"
			      "atom.global.add.u64 %t, [%w], %bad;\nend:\nret;\n}\n";

struct part {
	CUdeviceptr memory;
	// `mask`: word i of the memory was filled with a hash of i and of this number. It is 0 as long as nothing was
	// written.
	uint64_t words, mask;
};

static struct gpu {
	CUcontext context;
	CUfunction function;
	CUdeviceptr wrong;
	struct part parts[PARTS];
} gpus[GPUS];
static int gpu_count;

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "weights: %s: %d\n", what, (int)result);
	_exit(3);
}
#define MUST(call) must(call, #call)

static void go_through(struct gpu *gpu, struct part *part, CUdeviceptr wrong)
{
	void *arguments[] = {&part->memory, &part->words, &part->mask, &wrong};

	MUST(cuLaunchKernel(gpu->function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
}

static uint64_t count_wrong(void)
{
	uint64_t all = 0, wrong = 0;

	for (int i = 0; i < gpu_count; i++) {
		struct gpu *gpu = &gpus[i];
		MUST(cuCtxSetCurrent(gpu->context));
		MUST(cuMemsetD8(gpu->wrong, 0, sizeof wrong));
		for (int part = 0; part < PARTS; part++)
			if (gpu->parts[part].words)
				go_through(gpu, &gpu->parts[part], gpu->wrong);
		MUST(cuMemcpyDtoH(&wrong, gpu->wrong, sizeof wrong));
		all += wrong;
	}
	return all;
}

// Returns how many MiB the program can allocate, in small pieces, and frees them.
static unsigned count_granted(void)
{
	static CUdeviceptr taken[MOST_PIECES];
	unsigned count = 0;

	MUST(cuCtxSetCurrent(gpus[0].context));
	while (count < MOST_PIECES && cuMemAlloc(&taken[count], (size_t)PIECE_MIB << 20) == CUDA_SUCCESS)
		count++;
	for (unsigned i = 0; i < count; i++)
		MUST(cuMemFree(taken[i]));
	return count * PIECE_MIB;
}

static int fill(int ordinal, const char *sizes)
{
	struct gpu *gpu = &gpus[ordinal];
	CUdevice device;
	CUmodule module;
	char *end;

	const uint64_t written = strtoull(sizes, &end, 10), untouched = *end == '+' ? strtoull(end + 1, &end, 10) : 0;
	if (*end || end == sizes)
		return -1;
	gpu->parts[0] = (struct part){.words = (written << 20) / 8, .mask = UINT64_MAX};
	gpu->parts[1] = (struct part){.words = (untouched << 20) / 8};
	if (ordinal == 0 && getenv("WEIGHTS_CHANGE"))
		gpu->parts[CHANGING].words = (strtoull(getenv("WEIGHTS_CHANGE"), NULL, 10) << 20) / 8;
	MUST(cuDeviceGet(&device, ordinal));
	MUST(cuDevicePrimaryCtxRetain(&gpu->context, device));
	MUST(cuCtxSetCurrent(gpu->context));
	MUST(cuModuleLoadData(&module, kernels));
	MUST(cuModuleGetFunction(&gpu->function, module, "words"));
	MUST(cuMemAlloc(&gpu->wrong, sizeof(uint64_t)));
	for (int part = 0; part < PARTS; part++)
		if (gpu->parts[part].words)
			MUST(cuMemAlloc(&gpu->parts[part].memory, gpu->parts[part].words * 8));
	if (written)
		go_through(gpu, &gpu->parts[0], 0);
	MUST(cuCtxSynchronize());
	return 0;
}

static void change(void)
{
	static uint64_t times;
	struct part *part = &gpus[0].parts[CHANGING];

	MUST(cuCtxSetCurrent(gpus[0].context));
	part->mask = ~++times;
	go_through(&gpus[0], part, 0);
	MUST(cuCtxSynchronize());
}

// Waits for a signal. Meanwhile changes memory if WEIGHTS_CHANGE is set.
static int next_signal(const sigset_t *signals)
{
	const struct timespec most = {.tv_nsec = CHANGE_NS};
	int signal;

	while (gpus[0].parts[CHANGING].words && (signal = sigtimedwait(signals, NULL, &most)) < 0)
		change();
	if (gpus[0].parts[CHANGING].words)
		return signal;
	return sigwait(signals, &signal) ? -1 : signal;
}

int main(int argc, char **argv)
{
	sigset_t signals;
	uint64_t wrong = 0;
	int signal;

	if (argc < 3 || argc - 2 > GPUS)
		return 2;
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	int file = open(argv[1], O_CREAT | O_WRONLY | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (file < 0)
		return 4;
	MUST(cuInit(0));
	for (gpu_count = 0; gpu_count < argc - 2; gpu_count++)
		if (fill(gpu_count, argv[gpu_count + 2]))
			return 2;
	if (gpus[0].parts[CHANGING].words)
		change();
	dprintf(file, "ready\n");
	do {
		signal = next_signal(&signals);
		if (signal < 0)
			return 5;
		if (signal == SIGUSR2) {
			dprintf(file, "%u MiB more\n", count_granted());
			continue;
		}
		wrong = count_wrong();
		if (wrong)
			dprintf(file, "%llu words are wrong\n", (unsigned long long)wrong);
		else
			dprintf(file, "right\n");
	} while (signal != SIGTERM);
	return wrong != 0;
}
