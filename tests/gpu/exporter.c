// exporter SIZE N COMMAND…: allocates SIZE MiB of device memory, exports them as descriptor N, and runs the command,
// which inherits this descriptor. The memory is from outside every vGPU.
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void check_result(CUresult result, const char *what)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "exporter: %s: %s\n", what, name);
	exit(1);
}

static int export_memory(size_t bytes)
{
	CUdevice device;
	CUcontext context;
	CUmemGenericAllocationHandle handle;
	int descriptor = -1;

	check_result(cuInit(0), "cuInit");
	check_result(cuDeviceGet(&device, 0), "cuDeviceGet");
	check_result(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	check_result(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	check_result(cuMemCreate(&handle, bytes, &wanted, 0), "cuMemCreate");
	check_result(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		     "cuMemExportToShareableHandle");
	return descriptor;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "exporter SIZE(M) N COMMAND…\n");
		return 2;
	}
	int descriptor = export_memory((size_t)atoi(argv[1]) << 20), wanted = atoi(argv[2]), status;
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
