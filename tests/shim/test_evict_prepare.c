// Host memory is pinned while the program goes on: before its memory leaves, and ahead of need where vGPUs compete.
#include <unistd.h>

#include "evictable.h"

enum { HELD = 300 << 20 };

// Pinning takes longer than threads and the GPU are waited for.
static void slow_body(void)
{
	CUdeviceptr memory;

	setenv("VIRGATE_SIM", "memory=1G,ctx=16M,slice=2ms", 1); // with costs
	setenv("VIRGATE_SIM_COST", "call:cuMemHostRegister_v2=400ms", 1);
	start();
	CHECK_INT(cuMemAlloc_v2(&memory, HELD), CUDA_SUCCESS);
	wish(true, 100);
	while (atomic_load(&slot->state) == PAGER_RUNNING)
		pause_ms(1);
	CHECK_INT(slot->state, PAGER_PREPARING);
	CHECK_INT(cuMemsetD32_v2(memory, 1, 1024), CUDA_SUCCESS);
	CHECK_INT(slot->waiting, 0);
	CHECK_INT(slot->state, PAGER_PREPARING); // nothing held the call up
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_OUT);
	move(false, PAGER_RUNNING);
}

TEST(the_time_for_draining_begins_after_the_host_memory_is_pinned)
{
	run_evictable(slow_body);
}

static size_t resident_bytes(void)
{
	unsigned long all, resident;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%lu %lu", &all, &resident) != 2)
		FAIL("/proc/self/statm: %m");
	fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void ahead_body(void)
{
	struct pager_page *page = vg_ledger_pager_page(tenant_ledger);
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, HELD), CUDA_SUCCESS);
	size_t before = resident_bytes();
	wish(false, 0); // no vGPU needs the room
	wait_for_answer();
	pause_ms(50);
	CHECK(resident_bytes() < before + HELD / 4);
	atomic_store(&page->ask_ms, 5);
	wish(false, 0);
	for (int i = 0; i < 20000 && resident_bytes() < before + HELD; i++)
		pause_ms(1);
	CHECK(resident_bytes() >= before + HELD);
	CHECK_INT(slot->state, PAGER_RUNNING);
	pause_ms(50); // it stops there
	CHECK(resident_bytes() < before + HELD * 3 / 2);
	move(true, PAGER_OUT);
	move(false, PAGER_RUNNING);
}

TEST(memory_is_pinned_ahead_where_vgpus_compete)
{
	run_evictable(ahead_body);
}
