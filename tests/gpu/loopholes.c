// loopholes WHAT MIB…: runs inside a vGPU, and tries to allocate memory that is not charged. The last line of output
// starts with "held: " if the quota covers the memory, otherwise with "lost: " and the error.
#include <cuda.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t MiB = 1 << 20;

#define MUST(what)                                                              \
	do {                                                                    \
		if (!(what)) {                                                  \
			printf("lost: line %d: not so: %s\n", __LINE__, #what); \
			exit(1);                                                \
		}                                                               \
	} while (0)
#define WORKS(call)                                                                         \
	do {                                                                                \
		CUresult result_ = (call);                                                  \
		if (result_ != CUDA_SUCCESS) {                                              \
			printf("lost: line %d: %s is %d\n", __LINE__, #call, (int)result_); \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

// Returns the bytes that are left of the quota.
static size_t left(void)
{
	size_t free, total;

	WORKS(cuMemGetInfo(&free, &total));
	return free;
}

static int export_memory(size_t bytes);

// Makes the driver allocate what it needs for itself at its first calls. Lets the daemon measure this memory before the
// test compares figures.
static void begin(void)
{
	CUcontext context;

	WORKS(cuInit(0));
	WORKS(cuDevicePrimaryCtxRetain(&context, 0));
	WORKS(cuCtxSetCurrent(context));
	close(export_memory(2 * MiB));
	left();
	poll(NULL, 0, 600);
	left();
}

static void await_left(size_t wanted, int ms)
{
	for (; left() != wanted && ms > 0; ms -= 20)
		poll(NULL, 0, 20);
	if (left() != wanted) {
		printf("lost: %zu bytes are left, %zu should be\n", left(), wanted);
		exit(1);
	}
}

// Allocates memory that only a descriptor keeps allocated. Returns the descriptor.
static int export_memory(size_t bytes)
{
	CUmemGenericAllocationHandle handle;
	int descriptor = -1;
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

	WORKS(cuMemCreate(&handle, bytes, &wanted, 0));
	WORKS(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	WORKS(cuMemRelease(handle));
	return descriptor;
}

static void must_be_refused(size_t bytes)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

	MUST(cuMemCreate(&handle, bytes, &wanted, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

static int duplicated(size_t bytes)
{
	begin();
	size_t before = left();
	int descriptor = export_memory(bytes), copy = dup(descriptor);

	close(descriptor);
	MUST(left() == before - bytes);
	must_be_refused(before - bytes + 2 * MiB);
	close(copy);
	MUST(left() == before);
	return 0;
}

static void send_descriptor(int socket, int descriptor)
{
	char byte = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec vector = {&byte, 1};
	struct msghdr message = {
		.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);

	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof descriptor);
	memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
	MUST(sendmsg(socket, &message, 0) == 1);
}

static int receive_descriptor(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec vector = {&byte, 1};
	struct msghdr message = {
		.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	int descriptor;

	MUST(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message));
	memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
	return descriptor;
}

static int sent(size_t bytes)
{
	int ends[2];

	begin();
	size_t before = left();
	int descriptor = export_memory(bytes);
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	send_descriptor(ends[0], descriptor);
	close(descriptor);
	close(ends[0]);
	MUST(left() == before - bytes); // only the descriptor in the socket's queue keeps the memory
	descriptor = receive_descriptor(ends[1]);
	MUST(left() == before - bytes);
	close(descriptor);
	MUST(left() == before);
	return 0;
}

// Exports two allocations, one of them with two descriptors.
static int several(size_t bytes)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	int first, second, other;

	begin();
	size_t before = left();
	other = export_memory(2 * bytes);
	WORKS(cuMemCreate(&handle, bytes, &wanted, 0));
	WORKS(cuMemExportToShareableHandle(&first, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	WORKS(cuMemExportToShareableHandle(&second, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	MUST(left() == before - 3 * bytes);
	WORKS(cuMemRelease(handle));
	close(first);
	MUST(left() == before - 3 * bytes);
	close(other);
	MUST(left() == before - bytes);
	close(second);
	MUST(left() == before);
	return 0;
}

// Keeps a descriptor after the exporting process has ended. The vGPU must still be charged for the memory.
static int dead(size_t bytes, char **argv)
{
	int ends[2], status;
	char number[16];

	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	begin();
	size_t before = left();
	pid_t child = fork();
	if (child == 0) {
		snprintf(number, sizeof number, "%d", ends[0]);
		execl("/proc/self/exe", argv[0], "giver", argv[2], number, NULL);
		_exit(127);
	}
	close(ends[0]);
	MUST(waitpid(child, &status, 0) == child && status == 0);
	await_left(before - bytes, 5000); // wait until the context of the ended process is refunded
	poll(NULL, 0, 600);		  // wait until the daemon has measured more than once
	MUST(left() == before - bytes);
	must_be_refused(before - bytes + 2 * MiB);
	int descriptor = receive_descriptor(ends[1]);
	MUST(left() == before - bytes);
	close(descriptor);
	await_left(before, 3000);
	return 0;
}

static int giver(size_t bytes, int socket)
{
	begin();
	send_descriptor(socket, export_memory(bytes));
	return 0;
}

// Copies the descriptor before exec. The copy survives exec, and belongs to the next program of the same process.
static int before_exec(size_t bytes, char **argv)
{
	begin();
	size_t before = left();
	char text[32];

	MUST(dup2(export_memory(bytes), 9) == 9 && fcntl(9, F_SETFD, 0) == 0);
	snprintf(text, sizeof text, "%zu", before);
	execl("/proc/self/exe", argv[0], "after", argv[2], text, NULL);
	return 127;
}

static int after_exec(size_t bytes, size_t before)
{
	begin();
	MUST(left() <= before - bytes);
	poll(NULL, 0, 600);
	MUST(left() <= before - bytes);
	return 0;
}

// Loads a library with a variable of `bytes` bytes, and a kernel that does not use it.
static CUresult load_library(size_t bytes, CUlibrary *ret_library)
{
	char image[400];

	snprintf(image, sizeof image,
		 ".version 7.0\n.target sm_70\n.address_size 64\n"
		 ".visible .global .align 8 .b8 big[%zu];\n.visible .entry small() { ret; }\n",
		 bytes);
	return cuLibraryLoadData(ret_library, image, NULL, NULL, 0, NULL, NULL, 0);
}

// Waits, so that loopholes.py can measure the memory used on the GPU.
static void wait_for_measurement(void)
{
	puts("holding");
	poll(NULL, 0, 700);
}

// Loads libraries. A library takes memory at its first cuLibraryGetKernel, which must be refused if the memory does not
// fit. A library without such a call takes none.
static int libraries(size_t bytes)
{
	enum { MOST = 64 };
	CUlibrary loaded[MOST], unused, last = NULL;
	CUkernel kernel;
	CUresult result = CUDA_SUCCESS;
	size_t count = 0;

	begin();
	size_t before = left();
	WORKS(load_library(bytes, &unused));
	MUST(before - left() < bytes / 2);
	while (count < MOST && result == CUDA_SUCCESS) {
		result = load_library(bytes, &last);
		if (result == CUDA_SUCCESS)
			result = cuLibraryGetKernel(&kernel, last, "small");
		if (result == CUDA_SUCCESS)
			loaded[count++] = last;
	}
	MUST(result == CUDA_ERROR_OUT_OF_MEMORY);
	MUST(count * bytes <= before && (count + 2) * bytes > before);
	MUST(before - left() >= count * bytes);
	wait_for_measurement();
	MUST(cuLibraryGetKernel(&kernel, last, "small") == CUDA_ERROR_OUT_OF_MEMORY);
	WORKS(cuLibraryUnload(last));
	for (size_t i = 0; i < count; i++)
		WORKS(cuLibraryUnload(loaded[i]));
	MUST(before - left() < bytes / 2);
	return 0;
}

// Uses libraries in a second context, where each is loaded again. A library that is in use cannot be unloaded from a
// context where it does not fit. So the first such load may exceed the limit, but then no other library is loaded.
static int contexts(size_t bytes)
{
	enum { LIBRARIES = 3 };
	CUlibrary libraries[LIBRARIES];
	CUctxCreateParams plain = {0};
	CUcontext second;
	CUkernel kernel;
	CUdeviceptr rest;

	begin();
	for (int i = 0; i < LIBRARIES; i++) {
		WORKS(load_library(bytes, &libraries[i]));
		WORKS(cuLibraryGetKernel(&kernel, libraries[i], "small"));
	}
	WORKS(cuCtxCreate(&second, &plain, 0, 0));
	poll(NULL, 0, 600);
	left();
	poll(NULL, 0, 600);
	WORKS(cuMemAlloc(&rest, left() - bytes / 2));
	for (int i = 0; i < 2 * LIBRARIES; i++) {
		kernel = NULL;
		MUST(cuLibraryGetKernel(&kernel, libraries[i % LIBRARIES], "small") == CUDA_ERROR_OUT_OF_MEMORY);
		MUST(!kernel); // the handle is not returned, although the driver may have loaded the code
	}
	wait_for_measurement();
	return 0;
}

static CUmodule load_local(void)
{
	static const char body[] = "{\n.local .align 16 .b8 depot[%d];\n.reg .b64 %%rd<5>;\n.reg .b32 %%r<3>;\n"
				   "ld.param.u64 %%rd1, [%s_0];\nld.param.u32 %%r1, [%s_1];\ncvt.u64.u32 %%rd2, "
				   "%%r1;\nmov.u64 %%rd3, depot;\n"
				   "add.s64 %%rd4, %%rd3, %%rd2;\ncvta.local.u64 %%rd4, %%rd4;\n"
				   "st.volatile.u32 [%%rd4], %%r1;\nld.volatile.u32 %%r2, [%%rd4+64];\n"
				   "st.global.u32 [%%rd1], %%r2;\nret;\n}\n";
	char image[3000], one[1200];
	CUmodule module;

	strcpy(image, ".version 7.0\n.target sm_70\n.address_size 64\n");
	for (int heavy = 0; heavy < 2; heavy++) {
		const char *name = heavy ? "heavy" : "mild";
		sprintf(one, ".visible .entry %s(.param .u64 %s_0, .param .u32 %s_1)\n", name, name, name);
		strcat(image, one);
		sprintf(one, body, heavy ? 16384 : 2048, name, name);
		strcat(image, one);
	}
	WORKS(cuModuleLoadData(&module, image));
	return module;
}

// Tests local memory. At the first launch of a kernel, the driver allocates it for every thread that the GPU can run at
// once. Every kind of launch must be refused before that.
static int local_memory(void)
{
	CUdeviceptr out;
	CUfunction heavy, mild;
	CUstream stream;
	CUgraph graph;
	CUgraphNode node;
	int processors, threads;
	unsigned int offset = 64;
	void *parameters[] = {&out, &offset};

	begin();
	CUmodule module = load_local();
	WORKS(cuMemAlloc(&out, 4));
	WORKS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	WORKS(cuGraphCreate(&graph, 0));
	WORKS(cuModuleGetFunction(&heavy, module, "heavy"));
	WORKS(cuModuleGetFunction(&mild, module, "mild"));
	WORKS(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	WORKS(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
	size_t before = left(), each = (size_t)processors * (size_t)threads;
	CUDA_KERNEL_NODE_PARAMS of_node = {.func = heavy,
					   .gridDimX = 1,
					   .gridDimY = 1,
					   .gridDimZ = 1,
					   .blockDimX = 1,
					   .blockDimY = 1,
					   .blockDimZ = 1,
					   .kernelParams = parameters};
	CUlaunchConfig shape = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
	MUST(cuLaunchKernel(heavy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	MUST(cuLaunchKernelEx(&shape, heavy, parameters, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	MUST(cuLaunchCooperativeKernel(heavy, 1, 1, 1, 1, 1, 1, 0, stream, parameters) == CUDA_ERROR_OUT_OF_MEMORY);
	MUST(cuGraphAddKernelNode(&node, graph, NULL, 0, &of_node) == CUDA_ERROR_OUT_OF_MEMORY);
	WORKS(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	MUST(cuLaunchKernel(heavy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	cuStreamEndCapture(stream, &graph);
	MUST(left() == before);
	WORKS(cuLaunchKernel(mild, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
	WORKS(cuStreamSynchronize(stream));
	MUST(before - left() >= 1024 * each && before - left() <= 1024 * each + 32 * MiB);
	before = left();
	WORKS(cuLaunchKernel(mild, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)); // the local memory exists already
	WORKS(cuStreamSynchronize(stream));
	MUST(left() == before);
	wait_for_measurement();
	return 0;
}

// The local memory of the current context does not serve a kernel that runs in another context.
static int elsewhere(void)
{
	CUcontext second, first;
	CUctxCreateParams plain = {0};
	CUdeviceptr out = 0, rest;
	CUstream stream;
	CUfunction mild;
	CUgraph graph;
	CUgraphNode node;
	unsigned int offset = 64;
	void *parameters[] = {&out, &offset};

	begin();
	WORKS(cuCtxGetCurrent(&first));
	WORKS(cuCtxCreate(&second, &plain, 0, 0));
	WORKS(cuModuleGetFunction(&mild, load_local(), "mild"));
	WORKS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	WORKS(cuCtxSetCurrent(first));
	WORKS(cuGraphCreate(&graph, 0));
	WORKS(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048)); // enough for the kernel
	poll(NULL, 0, 600);
	left();
	poll(NULL, 0, 600);
	WORKS(cuMemAlloc(&rest, left() - 8 * MiB));
	CUDA_KERNEL_NODE_PARAMS of_node = {.func = mild,
					   .gridDimX = 1,
					   .gridDimY = 1,
					   .gridDimZ = 1,
					   .blockDimX = 1,
					   .blockDimY = 1,
					   .blockDimZ = 1,
					   .kernelParams = parameters,
					   .ctx = second};
	MUST(cuGraphAddKernelNode(&node, graph, NULL, 0, &of_node) == CUDA_ERROR_OUT_OF_MEMORY);
	MUST(cuLaunchKernel(mild, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	wait_for_measurement();
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	size_t bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 0) * MiB;
	int failed = 2;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (strcmp(what, "duplicated") == 0)
		failed = duplicated(bytes);
	else if (strcmp(what, "sent") == 0)
		failed = sent(bytes);
	else if (strcmp(what, "several") == 0)
		failed = several(bytes);
	else if (strcmp(what, "dead") == 0)
		failed = dead(bytes, argv);
	else if (strcmp(what, "libraries") == 0)
		failed = libraries(bytes);
	else if (strcmp(what, "contexts") == 0)
		failed = contexts(bytes);
	else if (strcmp(what, "elsewhere") == 0)
		failed = elsewhere();
	else if (strcmp(what, "local") == 0)
		failed = local_memory();
	else if (strcmp(what, "giver") == 0)
		return giver(bytes, atoi(argv[3]));
	else if (strcmp(what, "exec") == 0)
		failed = before_exec(bytes, argv);
	else if (strcmp(what, "after") == 0)
		failed = after_exec(bytes, strtoull(argv[3], NULL, 10));
	if (failed == 0)
		printf("held: %s\n", what);
	return failed;
}
