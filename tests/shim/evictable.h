// Runs a tenant in an evictable vGPU, and writes into its ledger what the daemon would write. Include once, in place of
// tenant.h.
#pragma once
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "pager/page.h"
#include "tenant.h"

enum { BLOCK = 2 << 20 };

static struct pager_slot *slot;
static CUcontext context;
static CUstream stream;

static inline void start(void)
{
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	CHECK_INT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	slot = vg_ledger_pager_slots(tenant_ledger);
}

// Requests that the process moves its memory out of the device, or back, as the daemon does.
static inline void request_move(bool out, uint32_t drain_ms)
{
	atomic_store(&slot->out, out);
	atomic_store(&slot->drain_ms, drain_ms);
	atomic_fetch_add(&slot->bell, 1);
	syscall(SYS_futex, &slot->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static inline void wait_for_answer(void)
{
	for (int i = 0; i < 20000 && atomic_load(&slot->answered) != atomic_load(&slot->bell); i++)
		pause_ms(1);
	CHECK_INT(atomic_load(&slot->answered), atomic_load(&slot->bell));
}

// Moves the memory of the process, and checks the state in its slot afterwards.
static inline void move_memory(bool out, enum pager_state state)
{
	request_move(out, 5000);
	wait_for_answer();
	if (atomic_load(&slot->state) != state)
		FAIL("state %u, reason %u, row %u, missing %llu", slot->state, slot->reason, slot->row,
		     (unsigned long long)slot->missing);
}

static inline void move_out(enum pager_state state)
{
	move_memory(true, state);
}

static inline void move_in(enum pager_state state)
{
	move_memory(false, state);
}

static inline void fill(CUdeviceptr address, size_t bytes, uint32_t value)
{
	CHECK_INT(cuMemsetD32_v2(address, value, bytes / 4), CUDA_SUCCESS);
}

static inline void check_filled(CUdeviceptr address, size_t bytes, uint32_t value)
{
	uint32_t *copy = malloc(bytes);

	CHECK_INT(cuMemcpyDtoH_v2(copy, address, bytes), CUDA_SUCCESS);
	// memcmp() does the check, because with a sanitizer it is many times faster than a loop. The loop below only
	// finds the wrong word.
	bool is_filled = copy[0] == value && memcmp(copy, copy + 1, bytes - 4) == 0;
	for (size_t i = 0; i < bytes / 4 && !is_filled; i++)
		if (copy[i] != value)
			FAIL("word %zu of %zu is %#x, not %#x", i, bytes / 4, copy[i], value);
	free(copy);
}

static inline void run_evictable(void (*body)(void))
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = 900 * MIB;
	TENANT(950 * MIB, 16 * MIB, body);
}

// The same with a fixed part of 50 MiB, of which a context takes 16 MiB.
static inline void run_with_fixed_part(void (*body)(void))
{
	tenant_fixed = 50 * MIB;
	run_evictable(body);
	tenant_fixed = 0;
}

static inline size_t free_on_device(void)
{
	size_t free_bytes, total;

	CHECK_INT(cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
	return free_bytes;
}

// Starts a process outside the vGPU that occupies memory of the device until it is killed.
static inline pid_t occupy_device(size_t bytes)
{
	int ends[2];
	char byte;
	pid_t child;

	CHECK_INT(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		char *const arguments[] = {"/proc/self/exe", "hold", NULL};
		char number[32];
		snprintf(number, sizeof number, "%zu", bytes);
		setenv("EVICT_HOLD", number, 1);
		unsetenv("VIRGATE_LEDGER");
		dup2(ends[1], 3);
		execv(arguments[0], arguments);
		_exit(1);
	}
	close(ends[1]);
	CHECK_INT(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	return child;
}

// Runs in the child process of occupy_device().
__attribute__((constructor)) static void occupy_in_child(void)
{
	const char *bytes = getenv("EVICT_HOLD");
	CUdeviceptr memory;

	if (!bytes)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
	    cuCtxSetCurrent(context) != CUDA_SUCCESS ||
	    cuMemAlloc_v2(&memory, strtoull(bytes, NULL, 10)) != CUDA_SUCCESS || write(3, "x", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}
