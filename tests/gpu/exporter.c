// exporter SIZE N COMMAND…: exports SIZE bytes of device memory as descriptor N, then runs the
// command with it: a descriptor from outside of every vGPU.
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(CUresult result, const char *what)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "exporter: %s: %s\n", what, name);
	exit(1);
}

static int export(size_t bytes)
{
	CUdevice device;
	CUcontext context;
	CUmemGenericAllocationHandle handle;
	int descriptor = -1;

	must(cuInit(0), "cuInit");
	must(cuDeviceGet(&device, 0), "cuDeviceGet");
	must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	must(cuMemCreate(&handle, bytes, &wanted, 0), "cuMemCreate");
	must(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		"cuMemExportToShareableHandle");
	return descriptor;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "exporter SIZE(M) N COMMAND…\n");
		return 2;
	}
	int descriptor = export((size_t)atoi(argv[1]) << 20), wanted = atoi(argv[2]), status;
	pid_t child = fork();
	if (child == 0) {
		if (dup2(descriptor, wanted) < 0 || fcntl(wanted, F_SETFD, 0) < 0)
			_exit(126);
		execvp(argv[3], argv + 3);
		fprintf(stderr, "exporter: %s: %s\n", argv[3], strerror(errno));
		_exit(127);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
