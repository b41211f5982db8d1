// Kernels of the corpus whose threads wait for each other: a ticket lock in a warp and across blocks, a spin lock by
// compare-and-swap, a producer and a consumer in one warp, and grid barriers.
#include <cooperative_groups.h>

#include "corpus.cuh"

// Uses a lock with tickets. work[0] is the next free ticket, and work[1] the ticket whose thread has the lock. Nothing
// but the lock protects out[0].
KERNEL(ticket_lock)
{
	volatile unsigned *serving = work + 1, *shared_value = out;

	unsigned ticket = atomicAdd(work, 1);
	while (*serving != ticket)
		;
	__threadfence();
	*shared_value = *shared_value + in[THREAD] % 100;
	__threadfence();
	*serving = ticket + 1;
}

KERNEL(spin_lock)
{
	for (unsigned i = 0; i < n; i++) {
		while (atomicCAS(work, 0, 1) != 0)
			;
		__threadfence();
		volatile unsigned *value = out;
		value[0] = value[0] + 1;
		value[1] = value[1] + in[i];
		__threadfence();
		atomicExch(work, 0);
	}
}

// Each thread in an odd lane waits for values from its neighbour in the even lane.
KERNEL(hand_over)
{
	volatile unsigned *mail = work + 2 * (THREAD / 2);
	unsigned sum = 0;

	for (unsigned i = 1; i <= n; i++) {
		if (threadIdx.x & 1) {
			while (mail[0] != i)
				;
			__threadfence();
			sum = sum * 3 + mail[1];
			__threadfence();
			mail[0] = 0;
		} else {
			mail[1] = in[i] + THREAD;
			__threadfence();
			mail[0] = i;
			while (mail[0] != 0)
				;
		}
	}
	out[THREAD] = sum;
}

// Every block reads the words that all other blocks wrote before the barrier.
KERNEL(grid_barrier)
{
	cooperative_groups::grid_group grid = cooperative_groups::this_grid();
	unsigned x = in[THREAD];

	for (unsigned round = 0; round < n; round++) {
		work[round % 2 * THREADS + THREAD] = x;
		grid.sync();
		unsigned other = (THREAD * 17 + 5 + round) % THREADS;
		x = x * 5 + ((volatile unsigned *)work)[round % 2 * THREADS + other];
		grid.sync();
	}
	out[THREAD] = x;
}
