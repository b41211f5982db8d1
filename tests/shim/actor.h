// Starts child processes (actors) that call CUDA on request. A message names one action, and may carry a descriptor.
// Include once.
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_abi.h"
#include "test.h"

enum action {
	START,
	ALLOC,	    // allocates `value` bytes and returns their address, which becomes the current address
	FREE,	    // frees the current address
	GET_HANDLE, // returns an IPC handle of the current address
	OPEN,	    // opens the IPC handle in `bytes`
	CLOSE,
	// Creates `value` bytes of physical memory, exports them, and returns the descriptor.
	CREATE,
	IMPORT, // imports the descriptor
	EXPORT, // exports the created memory again
	MAP,	// maps `value` bytes
	UNMAP,
	RELEASE,
	POOL,	     // creates and exports a pool, and returns the descriptor
	POOL_ALLOC,  // allocates `value` bytes from the pool
	GET_POINTER, // exports the pool pointer of the current address
	POOL_IMPORT, // imports the pool of the descriptor
	OPEN_POINTER,
	FREE_ASYNC, // frees the current address in stream order, and waits
	TRIM,	    // trims the pool
	POOL_DESTROY,
	GET_INFO, // calls cuMemGetInfo
};

struct act {
	enum action action;
	CUresult result;
	uint64_t value;
	unsigned char bytes[64];
};

struct actor {
	pid_t pid;
	int socket;
};

static struct {
	CUcontext context;
	CUstream stream;
	CUdeviceptr address;
	CUmemGenericAllocationHandle handle;
	CUmemoryPool pool;
	size_t mapped;
} stage; // the state of an actor: what it has created or opened

static inline void act_send(int socket, const struct act *act, int fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec part = {(void *)(uintptr_t)act, sizeof *act};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof control;
		memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
	}
	CHECK_INT(sendmsg(socket, &message, MSG_NOSIGNAL), sizeof *act);
}

static inline bool act_receive(int socket, struct act *ret_act, int *ret_fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {ret_act, sizeof *ret_act};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};

	*ret_fd = -1;
	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof *ret_act)
		return false;
	if (message.msg_controllen)
		memcpy(ret_fd, CMSG_DATA(&control.head), sizeof *ret_fd);
	return true;
}

static inline CUresult act_start(void)
{
	CUresult result = cuInit(0);

	if (result == CUDA_SUCCESS)
		result = cuDevicePrimaryCtxRetain(&stage.context, 0);
	if (result == CUDA_SUCCESS)
		result = cuCtxSetCurrent(stage.context);
	return result == CUDA_SUCCESS ? cuStreamCreate(&stage.stream, CU_STREAM_NON_BLOCKING) : result;
}

static inline CUresult act_create(size_t bytes)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

	return cuMemCreate(&stage.handle, bytes, &properties, 0);
}

static inline CUresult act_pool(int *ret_fd)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUresult result = cuMemPoolCreate(&stage.pool, &properties);

	return result == CUDA_SUCCESS ? cuMemPoolExportToShareableHandle(ret_fd, stage.pool,
									 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
				      : result;
}

static inline CUresult act_map(size_t bytes)
{
	CUdeviceptr address;
	CUresult result = cuMemAddressReserve(&address, bytes, 0, 0, 0);

	if (result == CUDA_SUCCESS)
		result = cuMemMap(address, bytes, 0, stage.handle, 0);
	if (result == CUDA_SUCCESS) {
		stage.address = address;
		stage.mapped = bytes;
	}
	return result;
}

static inline CUresult act_and_wait(CUresult result)
{
	return result == CUDA_SUCCESS ? cuStreamSynchronize(stage.stream) : result;
}

static inline CUresult do_action(struct act *act, int fd, int *ret_fd)
{
	CUipcMemHandle handle;
	size_t left;

	memcpy(&handle, act->bytes, sizeof handle);
	switch (act->action) {
	case START:
		return act_start();
	case ALLOC:
		return cuMemAlloc_v2(&stage.address, act->value);
	case FREE:
		return cuMemFree_v2(stage.address);
	case GET_HANDLE:
		return cuIpcGetMemHandle((CUipcMemHandle *)act->bytes, stage.address);
	case OPEN:
		return cuIpcOpenMemHandle_v2(&stage.address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	case CLOSE:
		return cuIpcCloseMemHandle(stage.address);
	case CREATE: {
		CUresult result = act_create(act->value);
		if (result != CUDA_SUCCESS)
			return result;
	} // fall through
	case EXPORT:
		return cuMemExportToShareableHandle(ret_fd, stage.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	case IMPORT:
		return cuMemImportFromShareableHandle(&stage.handle, (void *)(intptr_t)fd,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	case MAP:
		return act_map(act->value);
	case UNMAP:
		return cuMemUnmap(stage.address, stage.mapped);
	case RELEASE:
		return cuMemRelease(stage.handle);
	case POOL:
		return act_pool(ret_fd);
	case POOL_ALLOC:
		return act_and_wait(cuMemAllocFromPoolAsync(&stage.address, act->value, stage.pool, stage.stream));
	case GET_POINTER:
		return cuMemPoolExportPointer((CUmemPoolPtrExportData *)act->bytes, stage.address);
	case POOL_IMPORT:
		return cuMemPoolImportFromShareableHandle(&stage.pool, (void *)(intptr_t)fd,
							  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	case OPEN_POINTER:
		return cuMemPoolImportPointer(&stage.address, stage.pool, (CUmemPoolPtrExportData *)act->bytes);
	case FREE_ASYNC:
		return act_and_wait(cuMemFreeAsync(stage.address, stage.stream));
	case TRIM:
		return cuMemPoolTrimTo(stage.pool, 0);
	case POOL_DESTROY:
		return cuMemPoolDestroy(stage.pool);
	case GET_INFO:
		return cuMemGetInfo_v2(&left, NULL);
	}
	return CUDA_ERROR_UNKNOWN;
}

static inline void serve_actions(int socket)
{
	struct act act;
	int fd, made;

	while (act_receive(socket, &act, &fd)) {
		made = -1;
		act.result = do_action(&act, fd, &made);
		act.value = stage.address;
		if (fd >= 0)
			close(fd);
		act_send(socket, &act, made);
		if (made >= 0)
			close(made);
	}
	_exit(0);
}

// Starts an actor, in the vGPU that VIRGATE_LEDGER names, if any. The actor does not initialize CUDA yet.
static inline struct actor actor_start(void)
{
	struct actor actor;
	int pair[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	actor.pid = fork();
	CHECK(actor.pid >= 0);
	if (actor.pid == 0) {
		alarm(TEST_CHILD_SECONDS);
		// Close the sockets of other actors. An actor that inherited such a socket would keep it open, so the
		// other actor would not notice the end of the test.
		for (int fd = 3; fd < 256; fd++)
			if (fd != pair[1])
				close(fd);
		serve_actions(pair[1]);
	}
	close(pair[1]);
	actor.socket = pair[0];
	return actor;
}

// Makes the actor do `action` with `value`, the descriptor `fd`, and further values from `with`, which may be NULL.
// Returns the actor's answer. *ret_fd: the descriptor that the actor sent; if ret_fd is NULL, that descriptor is
// closed.
static inline struct act act_with(struct actor *actor, enum action action, const struct act *with, uint64_t value,
				  int fd, int *ret_fd)
{
	struct act act = {.action = action};
	int came;

	if (with)
		act = *with;
	act.action = action;
	act.value = value;
	act_send(actor->socket, &act, fd);
	CHECK(act_receive(actor->socket, &act, &came));
	if (ret_fd)
		*ret_fd = came;
	else if (came >= 0)
		close(came);
	return act;
}

static inline CUresult act(struct actor *actor, enum action action, uint64_t value)
{
	return act_with(actor, action, NULL, value, -1, NULL).result;
}

static inline void actor_kill(struct actor *actor)
{
	kill(actor->pid, SIGKILL);
	CHECK_INT(waitpid(actor->pid, NULL, 0), actor->pid);
	close(actor->socket);
}

static inline void actor_end(struct actor *actor)
{
	close(actor->socket);
	CHECK_CHILD(actor->pid);
}
