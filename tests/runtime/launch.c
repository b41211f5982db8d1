// Tests launches: by <<<>>>, by function, cooperative, with attributes; shapes and arguments.
#include "cudart.h"

CONFORM(vector_add)
{
	enum { COUNT = 1000 };
	float a[COUNT], b[COUNT], c[COUNT], *da, *db, *dc;
	int wrong = 0;

	for (int i = 0; i < COUNT; i++) {
		a[i] = (float)i;
		b[i] = (float)(2 * i);
	}
	NEED(cudaMalloc((void **)&da, sizeof a));
	NEED(cudaMalloc((void **)&db, sizeof a));
	NEED(cudaMalloc((void **)&dc, sizeof a));
	WORKS(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
	WORKS(cudaMemcpy(db, b, sizeof a, cudaMemcpyHostToDevice));
	launch_add(da, db, dc, COUNT);
	WORKS(cudaGetLastError());
	WORKS(cudaMemcpy(c, dc, sizeof a, cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++)
		wrong += c[i] != (float)(3 * i);
	EQUALS(wrong, 0);
	WORKS(cudaFree(da));
	WORKS(cudaFree(db));
	WORKS(cudaFree(dc));
}

CONFORM(functions_are_launched_by_address)
{
	int *to = need_ints(4), value = 42;
	void *arguments[] = {&to, &value};
	cudaKernel_t kernel = NULL;
	cudaFunction_t function = NULL;

	WORKS(launch_with(store, 1, 1, arguments, NULL));
	EQUALS(read_int(to), 42);
	WORKS(cudaGetKernel(&kernel, store));
	HOLDS(kernel != NULL);
	value = 43;
	WORKS(launch_with((const void *)kernel, 1, 1, arguments, NULL));
	EQUALS(read_int(to), 43);
	WORKS(cudaGetFuncBySymbol(&function, store));
	HOLDS(function != NULL);
	WORKS(cudaFree(to));
}

CONFORM(arguments_are_passed_by_value)
{
	int *to = need_ints(3), got[3];
	struct pair p = {5, 6.5};
	char c = 'x';
	void *arguments[] = {&p, &c, &to};

	WORKS(launch_with(by_value, 1, 1, arguments, NULL));
	WORKS(cudaMemcpy(got, to, sizeof got, cudaMemcpyDeviceToHost));
	EQUALS(got[0], 5);
	EQUALS(got[1], 6);
	EQUALS(got[2], 'x');
	WORKS(cudaFree(to));
}

CONFORM(invalid_shapes_are_rejected)
{
	launch_shape(1, 1024, 0);
	WORKS(cudaGetLastError());
	launch_shape(1, 1025, 0);
	GIVES(cudaPeekAtLastError(), cudaErrorInvalidValue);
	GIVES(cudaGetLastError(), cudaErrorInvalidValue);
	GIVES(cudaGetLastError(), cudaSuccess);
	launch_shape(0, 1, 0);
	GIVES(cudaGetLastError(), cudaErrorInvalidValue);
	launch_shape(1, 0, 0);
	GIVES(cudaGetLastError(), cudaErrorInvalidValue);
	launch_shape(1, 1, 48 << 10);
	GIVES(cudaGetLastError(), cudaSuccess);
	launch_shape(1, 1, (48 << 10) + 1);
	GIVES(cudaGetLastError(), cudaErrorInvalidValue);
	GIVES_LAST(cudaLaunchKernel(empty, (dim3){1, 1, 1}, (dim3){1, 1, 65}, NULL, 0, NULL), cudaErrorInvalidValue);
	GIVES_LAST(cudaLaunchKernel(empty, (dim3){1, 65536, 1}, (dim3){1, 1, 1}, NULL, 0, NULL), cudaErrorInvalidValue);
	WORKS(cudaDeviceSynchronize());
}

CONFORM(unregistered_functions_are_rejected)
{
	int not_a_kernel = 0;

	GIVES_LAST(launch_with(&not_a_kernel, 1, 1, NULL, NULL), cudaErrorInvalidResourceHandle);
	GIVES_LAST(launch_with(NULL, 1, 1, NULL, NULL), cudaErrorInvalidDeviceFunction);
	struct cudaFuncAttributes attributes;
	GIVES_LAST(cudaFuncGetAttributes(&attributes, &not_a_kernel), cudaErrorInvalidResourceHandle);
}

CONFORM(launch_bounds_are_enforced)
{
	int *to = need_ints(256);
	void *arguments[] = {&to};

	WORKS(launch_with(bounded, 1, 128, arguments, NULL));
	FAILS(launch_with(bounded, 1, 129, arguments, NULL));
	cudaGetLastError();
	WORKS(cudaDeviceSynchronize());
	WORKS(cudaFree(to));
}

CONFORM(static_and_dynamic_shared_memory)
{
	int *to = need_ints(256), got[64];
	void *arguments[] = {&to};

	WORKS(cudaLaunchKernel(dynamic_shared, (dim3){1, 1, 1}, (dim3){64, 1, 1}, arguments, 64 * sizeof(int), NULL));
	WORKS(cudaMemcpy(got, to, sizeof got, cudaMemcpyDeviceToHost));
	EQUALS(got[0], 63);
	EQUALS(got[63], 0);
	WORKS(cudaFuncSetAttribute(dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
	WORKS(cudaLaunchKernel(dynamic_shared, (dim3){1, 1, 1}, (dim3){64, 1, 1}, arguments, 60 << 10, NULL));
	WORKS(cudaDeviceSynchronize());
	GIVES_LAST(cudaFuncSetAttribute(dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30),
		   cudaErrorInvalidValue);
	WORKS(cudaFree(to));
}

CONFORM(cooperative_grid_synchronizes)
{
	int *to = need_ints(2), blocks = 0, sms = 0;
	void *arguments[] = {&to};

	WORKS(cudaLaunchCooperativeKernel(sum_of_grid, (dim3){4, 1, 1}, (dim3){32, 1, 1}, arguments, 0, NULL));
	WORKS(cudaDeviceSynchronize());
	EQUALS(read_int(to + 1), 128);
	WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum_of_grid, 1024, 0));
	WORKS(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
	HOLDS(blocks > 0 && sms > 0);
	GIVES_LAST(cudaLaunchCooperativeKernel(sum_of_grid, (dim3){(unsigned)(blocks * sms + 1), 1, 1},
					       (dim3){1024, 1, 1}, arguments, 0, NULL),
		   cudaErrorCooperativeLaunchTooLarge);
	WORKS(cudaFree(to));
}

CONFORM(launches_have_attributes)
{
	int *to = need_ints(2), value = 9;
	void *arguments[] = {&to, &value};
	cudaLaunchAttribute attribute = {.id = cudaLaunchAttributePriority, .val = {.priority = 0}};
	cudaLaunchConfig_t config = {.gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}, .attrs = &attribute, .numAttrs = 1};

	WORKS(cudaLaunchKernelExC(&config, store, arguments));
	EQUALS(read_int(to), 9);
	attribute = (cudaLaunchAttribute){.id = cudaLaunchAttributeCooperative, .val = {.cooperative = 1}};
	config.gridDim.x = 2;
	config.blockDim.x = 32;
	WORKS(cudaMemset(to, 0, 2 * sizeof(int)));
	WORKS(cudaLaunchKernelExC(&config, sum_of_grid, arguments));
	EQUALS(read_int(to + 1), 64);
	config.blockDim.x = 2000;
	GIVES_LAST(cudaLaunchKernelExC(&config, sum_of_grid, arguments), cudaErrorInvalidValue);
	WORKS(cudaFree(to));
}

struct note {
	int *value;
	int seen;
};

static void CUDART_CB note_value(void *data)
{
	struct note *note = data;

	note->seen = *note->value;
}

static void CUDART_CB note_status(cudaStream_t stream, cudaError_t status, void *data)
{
	struct note *note = data;

	note->seen = status == cudaSuccess ? 1 : -1;
}

CONFORM(host_functions_run_in_order)
{
	int *host;
	cudaStream_t stream;

	NEED(cudaMallocHost((void **)&host, sizeof(int)));
	NEED(cudaStreamCreate(&stream));
	*host = 0;
	struct note note = {host, -1}, status = {host, 0};
	launch_store(host, 8, stream);
	WORKS(cudaLaunchHostFunc(stream, note_value, &note));
	WORKS(cudaStreamAddCallback(stream, note_status, &status, 0));
	WORKS(cudaStreamSynchronize(stream));
	EQUALS(note.seen, 8);
	EQUALS(status.seen, 1);
	GIVES_LAST(cudaLaunchHostFunc(stream, NULL, NULL), cudaErrorInvalidValue);
	WORKS(cudaStreamDestroy(stream));
	WORKS(cudaFreeHost(host));
}

CHILD(say)
{
	int value = 77;
	void *arguments[] = {&value};

	if (launch_with(say, 1, 1, arguments, NULL) || cudaDeviceSynchronize())
		_exit(3);
}

CONFORM(kernel_prints)
{
	char text[64] = "";
	int ends[2];

	CHECK(pipe(ends) == 0);
	fflush(stdout);
	int before = dup(1);
	dup2(ends[1], 1);
	pid_t child = start_child("say", NULL);
	dup2(before, 1);
	close(before);
	close(ends[1]);
	EQUALS(wait_child(child), 0);
	ssize_t length = read(ends[0], text, sizeof text - 1);
	close(ends[0]);
	HOLDS(length > 0 && strcmp(text, "the kernel says 77\n") == 0);
}
