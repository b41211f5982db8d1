// sharers WHAT MIB: one process allocates device memory, and two others open it by WHAT: handles, descriptors or pools.
// The owner is killed before the others close the memory. The memory must be charged once, for as long as it exists.
// The last line of output starts with "held: ", or with "lost: " and the error.
#include <cuda.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t MiB = 1 << 20;
static size_t bytes;
static CUmemoryPool pool;
static CUstream stream;
static enum { HANDLES, DESCRIPTORS, POOLS, NO_WAY } way;

#define MUST(what)                                                              \
	do {                                                                    \
		if (!(what)) {                                                  \
			printf("lost: line %d: not so: %s\n", __LINE__, #what); \
			exit(1);                                                \
		}                                                               \
	} while (0)
#define WORKS(call) MUST((call) == CUDA_SUCCESS)

static void begin(void)
{
	CUcontext context;

	WORKS(cuInit(0));
	WORKS(cuDevicePrimaryCtxRetain(&context, 0));
	WORKS(cuCtxSetCurrent(context));
	WORKS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static size_t left(void)
{
	size_t free, total;

	WORKS(cuMemGetInfo(&free, &total));
	return free;
}

// Waits until `wanted` bytes are left, with some slack: the driver allocates memory for itself in each process.
static void await_left(size_t wanted, const char *when)
{
	const size_t slack = 8 * MiB;
	bool good = false;

	for (int ms = 0; ms < 5000 && !good; ms += 100) {
		good = left() <= wanted + slack && wanted <= left() + slack;
		poll(NULL, 0, 100);
	}
	poll(NULL, 0, 600); // the figure must be the same after the daemon has measured
	if (!good || left() > wanted + slack || wanted > left() + slack) {
		printf("lost: %s: %zu MiB are left, %zu should be\n", when, left() / MiB, wanted / MiB);
		exit(1);
	}
}

struct parcel {
	char deed;
	CUipcMemHandle handle;
	CUmemPoolPtrExportData pointer;
};

static void send_parcel(int socket, const struct parcel *parcel, int descriptor)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec vector = {(void *)(uintptr_t)parcel, sizeof *parcel};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};

	if (descriptor >= 0) {
		message.msg_control = control;
		message.msg_controllen = sizeof control;
		struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof descriptor);
		memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
	}
	MUST(sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *parcel);
}

static bool receive_parcel(int socket, struct parcel *ret_parcel, int *ret_descriptor)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec vector = {ret_parcel, sizeof *ret_parcel};
	struct msghdr message = {
		.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};

	*ret_descriptor = -1;
	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *ret_parcel)
		return false;
	if (message.msg_controllen)
		memcpy(ret_descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof *ret_descriptor);
	return true;
}

static CUdeviceptr address;
static CUmemGenericAllocationHandle physical;

static void map_memory(void)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	WORKS(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	WORKS(cuMemMap(address, bytes, 0, physical, 0));
	WORKS(cuMemSetAccess(address, bytes, &access, 1));
}

static void allocate_from_pool(struct parcel *parcel, int *ret_descriptor)
{
	CUmemPoolProps wanted = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

	WORKS(cuMemPoolCreate(&pool, &wanted));
	WORKS(cuMemPoolExportToShareableHandle(ret_descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	WORKS(cuMemAllocFromPoolAsync(&address, bytes, pool, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolExportPointer(&parcel->pointer, address));
}

static void allocate(struct parcel *parcel, int *ret_descriptor)
{
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

	if (way == POOLS) {
		allocate_from_pool(parcel, ret_descriptor);
	} else if (way == DESCRIPTORS) {
		WORKS(cuMemCreate(&physical, bytes, &wanted, 0));
		WORKS(cuMemExportToShareableHandle(ret_descriptor, physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						   0));
		map_memory();
	} else {
		WORKS(cuMemAlloc(&address, bytes));
		WORKS(cuIpcGetMemHandle(&parcel->handle, address));
	}
	WORKS(cuMemsetD32(address, 0xcafe, 16));
	WORKS(cuCtxSynchronize());
}

static void open_memory(const struct parcel *parcel, int descriptor)
{
	unsigned int word = 0;

	if (way == POOLS) {
		WORKS(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)descriptor,
							 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		WORKS(cuMemPoolImportPointer(&address, pool, (CUmemPoolPtrExportData *)(uintptr_t)&parcel->pointer));
	} else if (way == DESCRIPTORS) {
		WORKS(cuMemImportFromShareableHandle(&physical, (void *)(intptr_t)descriptor,
						     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
		map_memory();
	} else {
		WORKS(cuIpcOpenMemHandle(&address, parcel->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	}
	WORKS(cuMemcpyDtoH(&word, address, sizeof word));
	MUST(word == 0xcafe);
}

static void close_memory(void)
{
	if (way == HANDLES) {
		WORKS(cuIpcCloseMemHandle(address));
	} else if (way == DESCRIPTORS) {
		WORKS(cuMemUnmap(address, bytes));
		WORKS(cuMemRelease(physical));
	} else {
		WORKS(cuMemFreeAsync(address, stream));
		WORKS(cuStreamSynchronize(stream));
		WORKS(cuMemPoolDestroy(pool)); // frees the memory that was opened from the pool
	}
}

// Handles requests in a child process. b: begin, a: allocate, o: open, c: close.
static void serve_requests(int socket)
{
	struct parcel parcel;
	int came, made;

	while (receive_parcel(socket, &parcel, &came)) {
		made = -1;
		if (parcel.deed == 'b')
			begin();
		else if (parcel.deed == 'a')
			allocate(&parcel, &made);
		else if (parcel.deed == 'o')
			open_memory(&parcel, came);
		else
			close_memory();
		if (came >= 0)
			close(came);
		send_parcel(socket, &parcel, made);
		if (made >= 0)
			close(made);
	}
	exit(0);
}

struct child {
	pid_t pid;
	int socket;
};

static struct child start_child(void)
{
	struct child child;
	int ends[2];

	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	child.pid = fork();
	if (child.pid == 0) {
		close(ends[0]);
		serve_requests(ends[1]);
	}
	close(ends[1]);
	child.socket = ends[0];
	return child;
}

static void send_request(const struct child *child, char deed, struct parcel *parcel, int descriptor,
			 int *ret_descriptor)
{
	int came;

	parcel->deed = deed;
	send_parcel(child->socket, parcel, descriptor);
	MUST(receive_parcel(child->socket, parcel, &came));
	if (ret_descriptor)
		*ret_descriptor = came;
}

int main(int argc, char **argv)
{
	static const char *const ways[] = {"handles", "descriptors", "pools"};
	const char *what = argc > 1 ? argv[1] : "";
	struct parcel parcel = {0};
	int descriptor = -1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 0) / 32 * 32 * MiB; // pools grow in steps of 32 MiB
	while (way < NO_WAY && strcmp(what, ways[way]) != 0)
		way++;
	if (!bytes || way == NO_WAY)
		return 2;
	struct child owner = start_child(), users[2] = {start_child(), start_child()};
	begin();
	for (int i = 0; i < 2; i++)
		send_request(&users[i], 'b', &parcel, -1, NULL);
	poll(NULL, 0, 600);
	size_t without_owner = left();
	send_request(&owner, 'b', &parcel, -1, NULL);
	poll(NULL, 0, 600);
	size_t before = left();
	send_request(&owner, 'a', &parcel, -1, &descriptor);
	await_left(before - bytes, "allocated");
	for (int i = 0; i < 2; i++)
		send_request(&users[i], 'o', &parcel, descriptor, NULL);
	if (descriptor >= 0)
		close(descriptor);
	await_left(before - bytes, "opened by two");
	kill(owner.pid, SIGKILL);
	MUST(waitpid(owner.pid, NULL, 0) == owner.pid);
	await_left(without_owner - bytes, "its owner was killed");
	send_request(&users[0], 'c', &parcel, -1, NULL);
	await_left(without_owner - bytes, "closed by one");
	send_request(&users[1], 'c', &parcel, -1, NULL);
	await_left(without_owner, "closed by both");
	printf("held: %s\n", what);
	return 0;
}
