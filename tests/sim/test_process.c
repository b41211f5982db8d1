// Tests several processes on one simulated node: device memory, IPC, killed processes, fork.
#include "sim_test.h"

#include <poll.h>
#include <sys/socket.h>

static CUcontext start(void)
{
	node_start("memory=256M,ctx=16M");
	return primary(0);
}

// A child that executes commands of one letter, and replies with one letter. It was forked before this process called
// cuInit, so it has a driver of its own.
static struct {
	pid_t pid;
	int socket;
} helper;

static void send_fd(int socket, int fd)
{
	char letter = 'f', space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {&letter, 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	CHECK(sendmsg(socket, &message, 0) == 1);
}

static int receive_fd(int socket)
{
	char letter, space[CMSG_SPACE(sizeof(int))];
	struct iovec part = {&letter, 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	int fd = -1;
	if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}

static char execute_command(int socket, char letter)
{
	static CUdeviceptr address;
	static CUmemGenericAllocationHandle handle;
	CUipcMemHandle ipc;
	unsigned word = 0;

	switch (letter) {
	case 'c':
		primary(0);
		return 'k';
	case 'a': // 64 MiB
		return cuMemAlloc_v2(&address, 64 * MIB) == CUDA_SUCCESS &&
				       cuMemsetD8_v2(address, 0x5a, 64 * MIB) == CUDA_SUCCESS
			       ? 'k'
			       : 'n';
	case 'i': // 'i': opens an IPC handle, checks a word of the memory, and changes it
		if (read(socket, &ipc, sizeof ipc) != sizeof ipc ||
		    cuIpcOpenMemHandle_v2(&address, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS)
			return 'n';
		cuMemcpyDtoH_v2(&word, address, 4);
		return word == 0xabcd && cuMemsetD32_v2(address, 0x1234, 1) == CUDA_SUCCESS ? 'k' : 'n';
	case 'f': { // 'f': imports memory from a descriptor, and keeps the memory
		int fd = receive_fd(socket);
		CUresult result = cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
								 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
		close(fd);
		return result == CUDA_SUCCESS ? 'k' : 'n';
	}
	}
	return '?';
}

__attribute__((constructor)) static void start_helper(void)
{
	int pair[2];
	node_start("memory=256M,ctx=16M");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		abort();
	helper.pid = fork();
	if (helper.pid == 0) {
		char letter;
		close(pair[0]);
		while (read(pair[1], &letter, 1) == 1) {
			char answer = execute_command(pair[1], letter);
			if (write(pair[1], &answer, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(pair[1]);
	helper.socket = pair[0];
}

static char send_command(char letter)
{
	char answer = 0;
	CHECK(write(helper.socket, &letter, 1) == 1);
	CHECK(read(helper.socket, &answer, 1) == 1);
	return answer;
}

TEST(memory_of_other_processes_counts_as_used)
{
	start();
	size_t before = get_used();
	CUdeviceptr rest;
	CHECK_INT(send_command('c'), 'k');
	CHECK_INT(get_used() - before, 16 * MIB); // its context
	CHECK_INT(send_command('a'), 'k');
	CHECK_INT(get_used() - before, 80 * MIB);
	CU(cuMemAlloc_v2(&rest, 150 * MIB));
	CHECK_INT(send_command('a'), 'n'); // too little memory is left
	CU(cuMemFree_v2(rest));
}

TEST(ipc_memory)
{
	start();
	CUdeviceptr address;
	CUipcMemHandle handle;
	char letter = 'i', answer;
	unsigned word;
	CU(cuMemAlloc_v2(&address, 8 * MIB));
	CU(cuMemsetD32_v2(address, 0xabcd, 16));
	CU(cuIpcGetMemHandle(&handle, address));
	CHECK(write(helper.socket, &letter, 1) == 1);
	CHECK(write(helper.socket, &handle, sizeof handle) == sizeof handle);
	CHECK(read(helper.socket, &answer, 1) == 1);
	CHECK_INT(answer, 'k');
	CU(cuMemcpyDtoH_v2(&word, address, 4));
	CHECK_INT(word, 0x1234);
	CU(cuMemFree_v2(address)); // the helper still has the memory open
}

TEST(sigkill_frees_memory_without_other_references)
{
	start();
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle handle;
	char letter = 'f', answer;
	int fd, status;
	CU(cuMemCreate(&handle, 10 * MIB, &properties, 0));
	CU(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CHECK(write(helper.socket, &letter, 1) == 1);
	send_fd(helper.socket, fd);
	CHECK(read(helper.socket, &answer, 1) == 1);
	CHECK_INT(answer, 'k');
	close(fd);
	size_t before = get_used();
	CU(cuMemRelease(handle)); // the memory stays allocated, because the helper has imported it
	CHECK_INT(get_used(), before);
	kill(helper.pid, SIGKILL);
	CHECK(waitpid(helper.pid, &status, 0) == helper.pid);
	CHECK_INT(get_used(), 16 * MIB); // only the context of this process is left
	CUdeviceptr all;
	CU(cuMemAlloc_v2(&all, 240 * MIB));
	CU(cuMemFree_v2(all));
}

TEST(a_forked_child_has_no_driver)
{
	start();
	pid_t child = fork();
	if (child == 0) {
		size_t free, total;
		int count;
		CUdeviceptr address;
		_exit(cuMemGetInfo_v2(&free, &total) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuMemAlloc_v2(&address, 16) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	}
	CHECK_CHILD(child);
	CHECK_INT(get_used(), 16 * MIB); // the end of the child has freed nothing
}
