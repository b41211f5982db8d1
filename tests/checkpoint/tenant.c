// A program that runs inside a vGPU. Usage: tenant FILE HOLD SMALL BIG, with sizes in MiB. It allocates HOLD and checks
// that memory again and again. On SIGUSR1 it allocates SMALL and BIG, and frees both. On SIGUSR2 a thread tries again
// and again to allocate BIG. FILE has the results. With HOLD 0 the program allocates all free memory except 8 MiB, and
// does not check it. If TENANT_MAPS names a file, the program maps that file. With TENANT_CHANGES=N it does not check
// its memory: it first fills each block of 2 MiB with another number, and then N blocks with a new number in each
// round. With TENANT_SPARE=N it first allocates and fills N MiB more, which it frees on SIGUSR1.
#include <cuda.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tenant_report.h"

static volatile sig_atomic_t asked, pestered;
static size_t small, big;
static CUcontext context;

static void note(int signal)
{
	if (signal == SIGUSR1)
		asked++;
	else
		pestered = 1;
}

static void must(CUresult result, int line)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "tenant: line %d: %d\n", line, (int)result);
	_exit(3);
}
#define MUST(call) must(call, __LINE__)

static int try(size_t bytes)
{
	CUdeviceptr memory;

	CUresult result = cuMemAlloc(&memory, bytes);
	if (result == CUDA_SUCCESS)
		MUST(cuMemFree(memory));
	return (int)result;
}

enum { BLOCK = 2 << 20 };

static void make_blocks_differ(CUdeviceptr memory, size_t hold)
{
	for (unsigned i = 0; i < hold / BLOCK; i++)
		MUST(cuMemsetD32(memory + (size_t)i * BLOCK, 0x5eed0000 + i, BLOCK / 4));
}

static void change(CUdeviceptr memory, unsigned round)
{
	for (int i = 0; i < atoi(getenv("TENANT_CHANGES")); i++)
		MUST(cuMemsetD32(memory + (size_t)i * BLOCK, (round + 1) * 64 + (unsigned)i, BLOCK / 4));
	MUST(cuCtxSynchronize());
}

static CUdeviceptr allocate_spare(void)
{
	size_t bytes = getenv("TENANT_SPARE") ? (size_t)atoi(getenv("TENANT_SPARE")) << 20 : 0;
	CUdeviceptr memory = 0;

	if (bytes) {
		MUST(cuMemAlloc(&memory, bytes));
		MUST(cuMemsetD32(memory, 0xabcd, bytes / 4));
	}
	return memory;
}

static void *pester(void *user)
{
	MUST(cuCtxSetCurrent(context));
	for (;;)
		if (try(big) != CUDA_ERROR_OUT_OF_MEMORY)
			_exit(5);
	return user;
}

static void map_named(void)
{
	const char *path = getenv("TENANT_MAPS");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0 && mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		_exit(7);
	if (fd >= 0)
		close(fd);
}

static void take_all(int fd, struct tenant_report *report)
{
	size_t available, total;
	CUdeviceptr memory;

	MUST(cuMemGetInfo(&available, &total));
	MUST(cuMemAlloc(&memory, available - (8 << 20)));
	report->round = 1;
	if (pwrite(fd, report, sizeof *report, 0) != sizeof *report)
		_exit(6);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	struct tenant_report report = {.pid = getpid()};
	static unsigned words[1024];
	CUdeviceptr memory, spare;
	CUdevice device;
	pthread_t thread;

	if (argc != 5)
		return 2;
	signal(SIGUSR1, note);
	signal(SIGUSR2, note);
	size_t hold = (size_t)atoi(argv[2]) << 20;
	small = (size_t)atoi(argv[3]) << 20;
	big = (size_t)atoi(argv[4]) << 20;
	int fd = open(argv[1], O_CREAT | O_RDWR, 0600);
	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	map_named();
	if (!hold)
		take_all(fd, &report);
	spare = allocate_spare();
	MUST(cuMemAlloc(&memory, hold));
	MUST(cuMemsetD32(memory, 0x5eed, hold / 4));
	if (getenv("TENANT_CHANGES"))
		make_blocks_differ(memory, hold);
	for (;;) {
		if (getenv("TENANT_CHANGES"))
			change(memory, report.round);
		else
			MUST(cuMemcpyDtoH(words, memory + hold - sizeof words, sizeof words));
		for (unsigned i = 0; i < 1024 && !getenv("TENANT_CHANGES"); i++)
			if (words[i] != 0x5eed)
				return 4;
		if (report.asked < (unsigned)asked) {
			if (spare)
				MUST(cuMemFree(spare));
			spare = 0;
			report.small = try(small);
			report.big = try(big);
			report.asked++;
		}
		if (pestered == 1 && pthread_create(&thread, NULL, pester, NULL) == 0)
			pestered = 2;
		report.round++;
		if (pwrite(fd, &report, sizeof report, 0) != sizeof report)
			return 6;
		usleep(5000);
	}
}
