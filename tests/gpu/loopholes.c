// loopholes WHAT MIB…: ways to memory that no quota saw, tried by a program inside a vGPU. Ends with
// one line that starts with "held: " if the quota covered them, and with "lost: " and what was wrong
// otherwise.
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

#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			printf("lost: line %d: not so: %s\n", __LINE__, #what);                    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define WORKS(call)                                                                                \
	do {                                                                                       \
		CUresult result_ = (call);                                                         \
		if (result_ != CUDA_SUCCESS) {                                                     \
			printf("lost: line %d: %s is %d\n", __LINE__, #call, (int)result_);        \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

// What the quota has left.
static size_t left(void)
{
	size_t free, total;

	WORKS(cuMemGetInfo(&free, &total));
	return free;
}

static int export(size_t bytes);

// What the driver takes for itself at the first of its calls is measured before anything is compared.
static void begin(void)
{
	CUcontext context;

	WORKS(cuInit(0));
	WORKS(cuDevicePrimaryCtxRetain(&context, 0));
	WORKS(cuCtxSetCurrent(context));
	close(export(2 * MiB));
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

// Memory that nothing but a descriptor keeps.
static int export(size_t bytes)
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
	CUmemAllocationProp wanted = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

	MUST(cuMemCreate(&handle, bytes, &wanted, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

static int duplicated(size_t bytes)
{
	begin();
	size_t before = left();
	int descriptor = export(bytes), copy = dup(descriptor);

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
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
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
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
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
	int descriptor = export(bytes);
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	send_descriptor(ends[0], descriptor);
	close(descriptor);
	close(ends[0]);
	MUST(left() == before - bytes); // nobody has it but the socket
	descriptor = receive_descriptor(ends[1]);
	MUST(left() == before - bytes);
	close(descriptor);
	MUST(left() == before);
	return 0;
}

// Two pieces, of which one has two descriptors.
static int several(size_t bytes)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	int first, second, other;

	begin();
	size_t before = left();
	other = export(2 * bytes);
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

// The exporter ends, and leaves its memory to us: the vGPU goes on being charged for it.
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
	await_left(before - bytes, 5000); // its context has gone
	poll(NULL, 0, 600);		  // and the daemon has looked more than once
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
	send_descriptor(socket, export(bytes));
	return 0;
}

// Over exec a copy goes to the next program of the same process.
static int before_exec(size_t bytes, char **argv)
{
	begin();
	size_t before = left();
	char text[32];

	MUST(dup2(export(bytes), 9) == 9 && fcntl(9, F_SETFD, 0) == 0);
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
