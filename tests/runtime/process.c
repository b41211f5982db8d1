// Tests threads, forked children, and reset devices.
#include <pthread.h>

#include "cudart.h"

CHILD(reset)
{
	void *pointer = NULL;
	int *to, value = 5;

	WORKS(cudaDeviceReset()); // before anything else
	NEED(cudaMalloc(&pointer, 1 << 20));
	WORKS(cudaDeviceReset());
	FAILS(cudaFree(pointer)); // the reset has destroyed the context, and so freed this memory
	cudaGetLastError();
	NEED(cudaMalloc((void **)&to, sizeof *to));
	WORKS(launch_with(store, 1, 1, (void *[]){&to, &value}, NULL));
	EQUALS(read_int(to), 5);
	// After the reset, variables have their initial values again.
	WORKS(cudaMemcpyFromSymbol(&value, symbol_counter(), sizeof value, 0, cudaMemcpyDeviceToHost));
	EQUALS(value, 7);
	value = 8;
	WORKS(cudaMemcpyToSymbol(symbol_counter(), &value, sizeof value, 0, cudaMemcpyHostToDevice));
	WORKS(cudaDeviceReset());
	WORKS(cudaMemcpyFromSymbol(&value, symbol_counter(), sizeof value, 0, cudaMemcpyDeviceToHost));
	EQUALS(value, 7);
}

CONFORM(reset_device_has_a_new_context)
{
	run_child("reset", NULL);
}

struct seen {
	int device;
	cudaError_t set, get, launch;
};

static void *in_a_thread(void *data)
{
	struct seen *seen = data;
	int *to, value = 3;

	seen->get = cudaGetDevice(&seen->device);
	seen->set = cudaSetDevice(0);
	cudaMalloc((void **)&to, sizeof *to);
	seen->launch = launch_with(store, 1, 1, (void *[]){&to, &value}, NULL);
	cudaMemcpy(&value, to, sizeof value, cudaMemcpyDeviceToHost);
	cudaFree(to);
	return value == 3 ? data : NULL;
}

CONFORM(threads_share_the_device)
{
	struct seen seen[4];
	pthread_t threads[4];
	void *result;

	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, in_a_thread, &seen[i]) == 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &result);
		HOLDS(result == &seen[i]);
		EQUALS(seen[i].device, 0);
		GIVES(seen[i].get, cudaSuccess);
		GIVES(seen[i].set, cudaSuccess);
		GIVES(seen[i].launch, cudaSuccess);
	}
}

CHILD(forks)
{
	void *pointer;

	NEED(cudaMalloc(&pointer, 4));
	pid_t child = fork();
	if (child == 0)
		_exit(cudaMalloc(&pointer, 4) == cudaErrorInitializationError ? 0 : 1);
	EQUALS(wait_child(child), 0);
	WORKS(cudaFree(pointer));
}

CONFORM(child_forked_after_the_first_call_fails)
{
	run_child("forks", NULL);
}
