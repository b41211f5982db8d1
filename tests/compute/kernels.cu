// Kernels for the scheduler's tests and its benchmark.
extern "C" {
// Takes time in proportion to `rounds`. The write to `sink` hardly ever happens, but keeps the compiler from removing
// the loop.
__global__ void spin(unsigned rounds, unsigned *sink)
{
	unsigned value = threadIdx.x + 1;

	for (unsigned i = 0; i < rounds; i++)
		value = value * 1664525u + 1013904223u;
	if (value == 0 && sink)
		*sink = value;
}

// Adds `id` to a log of executions. log[0] is the number of ids in the log, and the ids follow.
__global__ void note(unsigned id, unsigned *log)
{
	log[1 + atomicAdd(log, 1)] = id;
}

// Takes time in proportion to `rounds`, and adds `id` to the log. Runs in one block.
__global__ void spin_note(unsigned rounds, unsigned id, unsigned *log)
{
	unsigned value = threadIdx.x + 1;

	for (unsigned i = 0; i < rounds; i++)
		value = value * 1664525u + 1013904223u;
	if (threadIdx.x == 0)
		log[1 + atomicAdd(log, 1 + (value == 0))] = id;
}

__global__ void empty()
{
}

__global__ void fault()
{
	*(volatile int *)8 = 1;
}
}
