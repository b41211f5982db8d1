// For tests of evictable memory: the test writes the daemon's words, and the process below it is the tenant. Include in
// one file of a program.
#pragma once
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "pager/page.h"
#include "tenant.h"

static struct pager_slot *slot;
static CUcontext context;
static CUstream stream;

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

// Of the tenant, whose slot it finds.
static void start(void)
{
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	CHECK_INT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	slot = vg_ledger_pager_slots(tenant_ledger);
}

static void wish(bool out, uint32_t drain_ms)
{
	atomic_store(&slot->out, out);
	atomic_store(&slot->drain_ms, drain_ms);
	atomic_fetch_add(&slot->bell, 1);
	syscall(SYS_futex, &slot->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void wait_for_answer(void)
{
	for (int i = 0; i < 20000 && atomic_load(&slot->answered) != atomic_load(&slot->bell); i++)
		pause_ms(1);
	CHECK_INT(atomic_load(&slot->answered), atomic_load(&slot->bell));
}

static void move(bool out, enum pager_state state)
{
	wish(out, 5000);
	wait_for_answer();
	if (atomic_load(&slot->state) != state)
		FAIL("state %u, reason %u, row %u, missing %llu", slot->state, slot->reason, slot->row,
		     (unsigned long long)slot->missing);
}

static void run_evictable(void (*body)(void))
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = 900 * MIB;
	TENANT(950 * MIB, 16 * MIB, body);
}
