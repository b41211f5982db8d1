// Tests deep suspension: the driver makes a checkpoint of a parked process, which keeps its host memory mapped.
#include <pthread.h>

#include "parked.h"

static void park_deep(uint32_t request_number, enum pager_state state)
{
	ask_to_park(request_number | (uint32_t)PAGER_PARK_DEEP);
	check_state(state, PAGER_DONE);
	CHECK_INT(slot->host, slot->bytes);
}

// Makes the checkpoint and the restore in another process than the suspended one.
static void checkpoint_and_restore(void)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};

	CHECK_INT(cuCheckpointProcessLock(getpid(), &lock), CUDA_SUCCESS);
	CHECK_INT(cuCheckpointProcessCheckpoint(getpid(), NULL), CUDA_SUCCESS);
	// The pager must not call the driver now: the call would wait until the driver is unlocked.
	pause_ms(100);
	CHECK_INT(cuCheckpointProcessRestore(getpid(), NULL), CUDA_SUCCESS);
	CHECK_INT(cuCheckpointProcessUnlock(getpid(), NULL), CUDA_SUCCESS);
}

static void deep_body(void)
{
	CUdeviceptr memory;
	pthread_t thread;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, FEW), CUDA_SUCCESS);
	fill(memory, FEW, 20);
	move_out(PAGER_OUT);
	const unsigned int mappings = count_mappings();
	CHECK(mappings > 0);
	move_in(PAGER_RUNNING);
	for (uint32_t i = 1; i < 4; i++) {
		fill(memory + BLOCK, BLOCK, 20 + i);
		park_deep(i, PAGER_OUT);
		CHECK_INT(slot->unchanged, FEW - BLOCK);
		CHECK_INT(count_mappings(), mappings);
		CHECK_INT(count_descriptors(), 1);
		CHECK_INT(slot->file[2], 0);
		done = 0;
		CHECK_INT(pthread_create(&thread, NULL, launch, (void *)(uintptr_t)memory), 0);
		while (slot->waiting == 0)
			pause_ms(1);
		checkpoint_and_restore();
		// The memory stays out until the request is withdrawn.
		CHECK_INT(slot->state, PAGER_OUT);
		CHECK_INT(done, 0);
		unpark(PAGER_RUNNING);
		CHECK_INT(pthread_join(thread, NULL), 0);
		check_filled(memory, SMALL, 13);
		check_filled(memory + 2 * BLOCK, BLOCK, 20);
		fill(memory, BLOCK, 20);
		fill(memory + BLOCK, BLOCK, 20 + i);
		CHECK_INT(count_mappings(), mappings);
		move_out(PAGER_OUT);
		CHECK_INT(slot->unchanged, FEW);
		move_in(PAGER_RUNNING);
	}
	// The driver's checkpoint has unpinned the host memory. Parking must still put it into a file, and leave no
	// mapping of it.
	park(4);
	CHECK_INT(count_mappings(), 0);
	unpark(PAGER_RUNNING);
	check_filled(memory + BLOCK, BLOCK, 23);
	check_filled(memory + 2 * BLOCK, BLOCK, 20);
}

TEST(a_deep_suspension_keeps_the_host_memory_in_place)
{
	setenv("VIRGATE_SIM_HASH", "1", 1);
	run_evictable(deep_body);
	unsetenv("VIRGATE_SIM_HASH");
}

// Changes the daemon's request at will while the process is checkpointed.
static void deep_asked_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 30);
	move_out(PAGER_OUT);
	park_deep(1, PAGER_OUT);
	move_in(PAGER_OUT);
	move_out(PAGER_OUT);
	unpark(PAGER_OUT);
	park_deep(2, PAGER_OUT);
	atomic_store(&slot->out, 0);
	unpark(PAGER_RUNNING);
	check_filled(memory, SMALL, 30);
}

// Tests a process that a killed dump has left parked.
static void deep_parked_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 31);
	park(1);
	park_deep(2, PAGER_PARKED);
	checkpoint_and_restore();
	unpark(PAGER_RUNNING);
	check_filled(memory, SMALL, 31);
}

// Tests a deep suspension after the program has closed all descriptors, also the pager's. The pager then cannot give
// the file with the host memory a name. It needs none, because the host memory stays mapped.
static void deep_closed_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 32);
	move_out(PAGER_OUT);
	CHECK_INT(visit_descriptors(true), 1);
	park_deep(1, PAGER_OUT);
	checkpoint_and_restore();
	atomic_store(&slot->out, 0);
	unpark(PAGER_RUNNING);
	check_filled(memory, SMALL, 32);
}

TEST(a_deep_suspension_begins_in_any_state)
{
	run_evictable(deep_asked_body);
	run_evictable(deep_parked_body);
	run_evictable(deep_closed_body);
}
