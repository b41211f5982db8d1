// Forks before the first call of the runtime. Not linked with kernels.o: clang would initialize CUDA before main() for
// its managed variable.
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
