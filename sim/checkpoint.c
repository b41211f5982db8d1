// Implements the driver's functions that checkpoint another process. Each sends a request to a thread of the driver in
// that process.

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "checkpoint.h"
#include "entry.h"
#include "process.h"

socklen_t sim_service_address(pid_t pid, struct sockaddr_un *ret_address)
{
	uint8_t node[16];

	region_uuid(&sim_process.config, 0, node); // the UUID identifies the simulated node
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	unsigned long long words[2];
	memcpy(words, node, sizeof words);
	int length = snprintf(ret_address->sun_path + 1, sizeof ret_address->sun_path - 1,
			      "virgate-sim-%016llx%016llx-%d", words[0], words[1], (int)pid);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

// Checks that the socket's peer has this pid. A process of another pid namespace may have the same pid, and so the same
// socket address.
static bool is_process(int fd, pid_t pid)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == pid;
}

static CUresult send_request(int pid, const struct sim_service_request *request, int32_t *ret_value)
{
	struct sim_service_reply reply;
	struct sockaddr_un address;
	socklen_t length = sim_service_address(pid, &address);

	if (pid <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	CUresult result = CUDA_ERROR_OPERATING_SYSTEM;
	if (connect(fd, (struct sockaddr *)&address, length) != 0 || !is_process(fd, pid))
		result = kill(pid, 0) == 0 || errno == EPERM ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_OPERATING_SYSTEM;
	else if (send(fd, request, sizeof *request, MSG_NOSIGNAL) == sizeof *request &&
		 recv(fd, &reply, sizeof reply, 0) == sizeof reply) {
		result = (CUresult)reply.result;
		if (ret_value && result == CUDA_SUCCESS)
			*ret_value = reply.value;
	}
	close(fd);
	return result;
}

static bool is_zero(const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	for (size_t i = 0; i < size; i++)
		if (at[i])
			return false;
	return true;
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
	int32_t value;

	SIM_ENTER(cuCheckpointProcessGetState);
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(send_request(pid, &(struct sim_service_request){.verb = SIM_SERVICE_STATE}, &value));
	*state = (CUprocessState)value;
	return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
	int32_t value;

	SIM_ENTER(cuCheckpointProcessGetRestoreThreadId);
	if (!tid)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(send_request(pid, &(struct sim_service_request){.verb = SIM_SERVICE_THREAD}, &value));
	*tid = value;
	return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
	struct sim_service_request request = {.verb = SIM_SERVICE_LOCK};

	SIM_ENTER(cuCheckpointProcessLock);
	if (args) {
		if (args->reserved0 || !is_zero(args->reserved1, sizeof args->reserved1))
			return CUDA_ERROR_INVALID_VALUE;
		request.timeout_ms = args->timeoutMs;
	}
	return send_request(pid, &request, NULL);
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
	SIM_ENTER(cuCheckpointProcessCheckpoint);
	if (args && !is_zero(args, sizeof *args))
		return CUDA_ERROR_INVALID_VALUE;
	return send_request(pid, &(struct sim_service_request){.verb = SIM_SERVICE_CHECKPOINT}, NULL);
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
	struct sim_service_request request = {.verb = SIM_SERVICE_RESTORE};

	SIM_ENTER(cuCheckpointProcessRestore);
	if (args) {
		if (args->gpuPairsCount > SIM_DEVICES || (args->gpuPairsCount && !args->gpuPairs) ||
		    !is_zero(args->reserved, sizeof args->reserved) || args->reserved1)
			return CUDA_ERROR_INVALID_VALUE;
		request.pair_count = args->gpuPairsCount;
		for (unsigned i = 0; i < args->gpuPairsCount; i++)
			request.pairs[i] = args->gpuPairs[i];
	}
	return send_request(pid, &request, NULL);
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
	SIM_ENTER(cuCheckpointProcessUnlock);
	if (args && !is_zero(args, sizeof *args))
		return CUDA_ERROR_INVALID_VALUE;
	return send_request(pid, &(struct sim_service_request){.verb = SIM_SERVICE_UNLOCK}, NULL);
}
