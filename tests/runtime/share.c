// Tests memory, pools and events of another process.
#include <sys/socket.h>

#include "cudart.h"

// Reads exactly `size` bytes. Returns the descriptor that came with them, if there is one.
static int receive(int socket, void *bytes, size_t size)
{
	char space[CMSG_SPACE(sizeof(int))];
	struct iovec part = {bytes, size};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	int fd = -1;

	CHECK(recvmsg(socket, &message, MSG_WAITALL) == (ssize_t)size);
	if (CMSG_FIRSTHDR(&message))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}

static void send_with(int socket, const void *bytes, size_t size, int fd)
{
	char space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {(void *)bytes, size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		message.msg_control = space;
		message.msg_controllen = sizeof space;
		*CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof fd);
	}
	CHECK(sendmsg(socket, &message, 0) == (ssize_t)size);
}

struct handles {
	cudaIpcMemHandle_t memory;
	cudaIpcEventHandle_t event;
};

CHILD(opens)
{
	int socket = atoi(argument), *shared;
	struct handles handles;
	cudaEvent_t event;

	receive(socket, &handles, sizeof handles);
	NEED(cudaIpcOpenMemHandle((void **)&shared, handles.memory, cudaIpcMemLazyEnablePeerAccess));
	NEED(cudaIpcOpenEventHandle(&event, handles.event));
	WORKS(cudaStreamWaitEvent(NULL, event, 0));
	EQUALS(read_int(shared), 44);
	launch_store(shared + 1, 55, NULL);
	WORKS(cudaDeviceSynchronize());
	WORKS(cudaIpcCloseMemHandle(shared));
	WORKS(cudaEventDestroy(event));
}

CONFORM(another_process_opens_memory)
{
	struct handles handles;
	int *memory = need_ints(2), ends[2];
	cudaEvent_t event;
	char argument[16];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	snprintf(argument, sizeof argument, "%d", ends[1]);
	NEED(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
	launch_store(memory, 44, NULL);
	WORKS(cudaEventRecord(event, NULL));
	WORKS(cudaIpcGetMemHandle(&handles.memory, memory));
	WORKS(cudaIpcGetEventHandle(&handles.event, event));
	pid_t child = start_child("opens", argument);
	send_with(ends[0], &handles, sizeof handles, -1);
	EQUALS(wait_child(child), 0);
	EQUALS(read_int(memory + 1), 55);
	void *own;
	// a process cannot open its own handle
	FAILS(cudaIpcOpenMemHandle(&own, handles.memory, cudaIpcMemLazyEnablePeerAccess));
	cudaGetLastError();
	WORKS(cudaEventDestroy(event));
	WORKS(cudaFree(memory));
	close(ends[0]);
	close(ends[1]);
}

CHILD(imports)
{
	int socket = atoi(argument), *shared;
	struct cudaMemPoolPtrExportData data;
	int fd = receive(socket, &data, sizeof data);
	cudaMemPool_t pool;
	const struct cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};

	NEED(cudaMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, cudaMemHandleTypePosixFileDescriptor,
						  0));
	WORKS(cudaMemPoolSetAccess(pool, &access, 1));
	NEED(cudaMemPoolImportPointer((void **)&shared, pool, &data));
	EQUALS(read_int(shared), 66);
	WORKS(cudaFree(shared));
	WORKS(cudaMemPoolDestroy(pool));
}

CONFORM(another_process_imports_a_pool)
{
	const struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
						    .handleTypes = cudaMemHandleTypePosixFileDescriptor,
						    .location = {cudaMemLocationTypeDevice, 0}};
	struct cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
	enum cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
	struct cudaMemPoolPtrExportData data;
	cudaMemPool_t pool, before;
	int ends[2], fd = -1, *memory;
	char argument[16];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	snprintf(argument, sizeof argument, "%d", ends[1]);
	NEED(cudaMemPoolCreate(&pool, &properties));
	WORKS(cudaMemPoolGetAccess(&flags, pool, &here));
	EQUALS(flags, cudaMemAccessFlagsProtReadWrite);
	NEED(cudaMallocFromPoolAsync((void **)&memory, 4096, pool, NULL));
	launch_store(memory, 66, NULL);
	WORKS(cudaDeviceSynchronize());
	WORKS(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
	WORKS(cudaMemPoolExportPointer(&data, memory));
	pid_t child = start_child("imports", argument);
	send_with(ends[0], &data, sizeof data, fd);
	EQUALS(wait_child(child), 0);
	WORKS(cudaFreeAsync(memory, NULL));
	WORKS(cudaDeviceGetMemPool(&before, 0));
	WORKS(cudaDeviceSetMemPool(0, pool));
	cudaMemPool_t now;
	WORKS(cudaDeviceGetMemPool(&now, 0));
	HOLDS(now == pool);
	WORKS(cudaDeviceSetMemPool(0, before));
	WORKS(cudaMemGetDefaultMemPool(&now, &here, cudaMemAllocationTypePinned));
	WORKS(cudaDeviceGetDefaultMemPool(&before, 0));
	HOLDS(now == before);
	WORKS(cudaMemPoolDestroy(pool));
	close(fd);
	close(ends[0]);
	close(ends[1]);
}
