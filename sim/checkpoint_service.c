// Runs the service thread of a process. When another process requests it, the thread locks, checkpoints and restores
// this process.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "checkpoint.h"
#include "context.h"
#include "entry.h"
#include "fault.h"
#include "log.h"
#include "process.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t unlocked = PTHREAD_COND_INITIALIZER;
static CUprocessState state = CU_PROCESS_STATE_RUNNING;
static bool closed; // driver calls of the program must wait
static pid_t thread_id;

// Returns whether a driver call works while the process is locked. Such a call may unlock the process, or uses no
// device.
static bool is_allowed_while_locked(enum vg_entry entry)
{
	switch (entry) {
	case VG_ENTRY_cuCheckpointProcessCheckpoint:
	case VG_ENTRY_cuCheckpointProcessGetRestoreThreadId:
	case VG_ENTRY_cuCheckpointProcessGetState:
	case VG_ENTRY_cuCheckpointProcessLock:
	case VG_ENTRY_cuCheckpointProcessRestore:
	case VG_ENTRY_cuCheckpointProcessUnlock:
	case VG_ENTRY_cuDriverGetVersion:
	case VG_ENTRY_cuGetErrorName:
	case VG_ENTRY_cuGetErrorString:
	case VG_ENTRY_cuGetProcAddress:
	case VG_ENTRY_cuGetProcAddress_v2:
		return true;
	default:
		return false;
	}
}

CUresult sim_checkpoint_enter(enum vg_entry entry)
{
	if (is_allowed_while_locked(entry))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	while (closed)
		pthread_cond_wait(&unlocked, &lock);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static void close_gate(void)
{
	pthread_mutex_lock(&lock);
	closed = true;
	pthread_mutex_unlock(&lock);
	sim_gate_set(SIM_GATE_LOCKED);
}

static void open_gate(void)
{
	sim_gate_clear(SIM_GATE_LOCKED);
	pthread_mutex_lock(&lock);
	closed = false;
	pthread_cond_broadcast(&unlocked);
	pthread_mutex_unlock(&lock);
}

// Waits until the process has been idle for a while: calls that began before the lock may still submit work.
static bool wait_idle(unsigned timeout_ms)
{
	const struct timespec nap = {.tv_nsec = 500000};
	uint64_t until = sim_clock_ns() + (uint64_t)timeout_ms * 1000000;
	unsigned quiet = 0;

	for (;;) {
		quiet = sim_has_pending_work() ? 0 : quiet + 1;
		if (quiet == 10)
			return true;
		if (timeout_ms && sim_clock_ns() > until)
			return false;
		nanosleep(&nap, NULL);
	}
}

static CUresult lock_process(unsigned timeout_ms)
{
	if (sim_process.config.mps)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (state != CU_PROCESS_STATE_RUNNING)
		return CUDA_ERROR_ILLEGAL_STATE;
	close_gate();
	if (!wait_idle(timeout_ms)) {
		open_gate();
		return CUDA_ERROR_NOT_READY;
	}
	state = CU_PROCESS_STATE_LOCKED;
	return CUDA_SUCCESS;
}

static CUresult unlock_process(void)
{
	if (state != CU_PROCESS_STATE_LOCKED)
		return CUDA_ERROR_ILLEGAL_STATE;
	state = CU_PROCESS_STATE_RUNNING;
	return CUDA_SUCCESS;
}

static CUresult checkpoint_process(void)
{
	if (state != CU_PROCESS_STATE_LOCKED)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (sim_process.config.giveup) {
		state = CU_PROCESS_STATE_FAILED;
		return CUDA_ERROR_UNKNOWN;
	}
	SIM_TRY(sim_evict_memory());
	state = CU_PROCESS_STATE_CHECKPOINTED;
	return CUDA_SUCCESS;
}

static CUresult restore_process(const struct sim_service_request *request)
{
	// The error of a failed restore. Every later restore returns it, too.
	static CUresult stuck;

	if (state != CU_PROCESS_STATE_CHECKPOINTED)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (request->pair_count > SIM_DEVICES)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(stuck);
	CUresult result = sim_restore_memory(request->pairs, request->pair_count);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && sim_fault_fails_restore())
		stuck = result;
	SIM_TRY(result);
	state = CU_PROCESS_STATE_LOCKED;
	return CUDA_SUCCESS;
}

static void serve_request(int connection)
{
	struct pollfd wait = {.fd = connection, .events = POLLIN};
	struct sim_service_request request;
	struct sim_service_reply reply = {.result = CUDA_ERROR_INVALID_VALUE};
	struct ucred peer;
	socklen_t size = sizeof peer;

	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
	    (peer.uid != geteuid() && peer.uid != 0))
		return;
	// A peer that sends nothing must not block the service.
	if (poll(&wait, 1, 1000) != 1 || recv(connection, &request, sizeof request, MSG_DONTWAIT) != sizeof request)
		return;
	switch (request.verb) {
	case SIM_SERVICE_STATE:
		reply = (struct sim_service_reply){CUDA_SUCCESS, (int32_t)state};
		break;
	case SIM_SERVICE_THREAD:
		reply = (struct sim_service_reply){CUDA_SUCCESS, thread_id};
		break;
	case SIM_SERVICE_LOCK:
		reply.result = lock_process(request.timeout_ms);
		break;
	case SIM_SERVICE_CHECKPOINT:
		reply.result = checkpoint_process();
		break;
	case SIM_SERVICE_RESTORE:
		reply.result = restore_process(&request);
		break;
	case SIM_SERVICE_UNLOCK:
		reply.result = unlock_process();
		break;
	}
	(void)send(connection, &reply, sizeof reply, MSG_NOSIGNAL);
	// Unlock only after the reply was sent, because an unlocked program may end at once.
	if (request.verb == SIM_SERVICE_UNLOCK && reply.result == CUDA_SUCCESS)
		open_gate();
}

static int listener = -1;

// Closes the socket in a forked child. The child must not answer for its parent, nor keep the address in use.
static void close_in_child(void)
{
	close(listener);
}

static void *run_service(void *argument)
{
	thread_id = (pid_t)syscall(SYS_gettid);
	for (;;) {
		int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (connection < 0) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			return NULL;
		}
		serve_request(connection);
		close(connection);
	}
}

void sim_service_start(void)
{
	struct sockaddr_un address;
	socklen_t length = sim_service_address(getpid(), &address);
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;

	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener >= 0)
		listener = vg_fd_raise_consume(listener);
	if (listener < 0)
		return;
	if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 16) != 0) {
		sim_warn("this process cannot be checkpointed: cannot open its service socket: %m");
		close(listener);
		return;
	}
	pthread_atfork(NULL, NULL, close_in_child);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all); // the program's own threads handle its signals
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, &attributes, run_service, NULL) != 0)
		close(listener);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
}
