// The program that the containers of this suite run. It allocates device memory in steps of 16 MiB until the quota
// refuses one, and prints how much it got. `tenant STEPS hold` stops after that many steps, and waits to be killed.
// It uses no symbol of a glibc newer than 2.31, so that it runs in containers with an old one. So it also starts
// without the compiler's C runtime, which would need a newer symbol.
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { STEP = 16 << 20 };

static int run(int count, char **words)
{
	int steps = count > 1 ? atoi(words[1]) : 0, got = 0;
	CUdeviceptr pointer;
	CUcontext context;
	CUdevice device;

	CUresult r = cuInit(0);
	if (r == CUDA_SUCCESS)
		r = cuDeviceGet(&device, 0);
	if (r == CUDA_SUCCESS)
		r = cuDevicePrimaryCtxRetain(&context, device);
	if (r == CUDA_SUCCESS)
		r = cuCtxSetCurrent(context);
	while (r == CUDA_SUCCESS && (!steps || got < steps)) {
		r = cuMemAlloc(&pointer, STEP);
		got += r == CUDA_SUCCESS;
	}
	printf("%d MiB, result %d\n", got * 16, (int)r);
	fflush(stdout);
	while (count > 2)
		pause();
	return r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY ? 0 : 1;
}

__attribute__((force_align_arg_pointer, noreturn, used)) static void start(long *stack)
{
	exit(run((int)*stack, (char **)(stack + 1)));
}

__asm__(".globl _start\n_start:\n\txorl %ebp, %ebp\n\tmovq %rsp, %rdi\n\tcall start\n");
