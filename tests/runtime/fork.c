// Forks before the first call. Not linked with kernels.o, for whose managed variable clang initializes CUDA before
// main().
#include "cudart.h"

CHILD(forks_first)
{
	void *pointer;
	pid_t child = fork();

	if (child == 0)
		_exit(cudaMalloc(&pointer, 4) == cudaSuccess ? 0 : 1);
	EQUALS(wait_child(child), 0);
	WORKS(cudaMalloc(&pointer, 4));
}

CONFORM(child_forked_before_the_first_call_works)
{
	run_child("forks_first", NULL);
}
