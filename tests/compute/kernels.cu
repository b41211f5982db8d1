// What the scheduler's tests and its bench launch.
extern "C" {
// Takes time in proportion to `rounds`, and touches no memory but for a value that nobody expects.
__global__ void spin(unsigned rounds, unsigned *sink)
{
	unsigned value = threadIdx.x + 1;

	for (unsigned i = 0; i < rounds; i++)
		value = value * 1664525u + 1013904223u;
	if (value == 0 && sink)
		*sink = value;
}

// The order in which they came: log[0] counts, the ids follow.
__global__ void note(unsigned id, unsigned *log) { log[1 + atomicAdd(log, 1)] = id; }

// Both, on one block.
__global__ void spin_note(unsigned rounds, unsigned id, unsigned *log)
{
	unsigned value = threadIdx.x + 1;

	for (unsigned i = 0; i < rounds; i++)
		value = value * 1664525u + 1013904223u;
	if (threadIdx.x == 0)
		log[1 + atomicAdd(log, 1 + (value == 0))] = id;
}

__global__ void empty() {}

__global__ void fault() { *(volatile int *)8 = 1; }
}
