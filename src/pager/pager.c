#include "pager/pager.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "pager/gate.h"
#include "pager/host.h"
#include "pager/memory.h"
#include "pager/move.h"
#include "pager/page.h"

enum { CONTEXTS = 64, DEFAULT_DRAIN_MS = 10000 };
static const long poll_least_ns = 20000, poll_most_ns = 1000000, retry_most_ns = 1000000000;
static const long pause_between_pieces_ns = 10000000; // other threads use the driver meanwhile
// Pinning ahead of need leaves so much of the host's memory to others. If there is too little, it tries again later.
static const uint64_t ahead_keeps_bytes = 4ull << 30, ahead_retry_ns = 5000000000;

static struct pager_options options;
static bool started;
static uint64_t ahead_after_ns; // of the pager's thread
static pthread_mutex_t charge_lock = PTHREAD_MUTEX_INITIALIZER; // of the next, and its copy in the slot
static uint64_t charged;

static void sleep_ns(long ns)
{
	nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static long longer(long pause_ns, long most_ns)
{
	return pause_ns < most_ns / 2 ? pause_ns * 2 : most_ns;
}

static void enter_state(struct pager_slot *slot, enum pager_state state)
{
	atomic_store(&slot->since_ns, options.clock_ns());
	atomic_store(&slot->state, state);
}

static void give_reason(struct pager_slot *slot, enum pager_reason reason, uint32_t row, uint64_t missing)
{
	atomic_store(&slot->row, row);
	atomic_store(&slot->missing, missing);
	atomic_store(&slot->reason, reason);
}

static bool is_to_leave(const struct pager_slot *slot)
{
	return atomic_load(&options.page->out) || atomic_load(&slot->out);
}

// Makes a context current; false: the process has none, and therefore no memory.
static bool push_context(CUcontext contexts[CONTEXTS], size_t *ret_count)
{
	*ret_count = options.contexts(contexts, CONTEXTS);
	return *ret_count && pager_driver.cuCtxPushCurrent_v2(contexts[0]) == CUDA_SUCCESS;
}

static void pop_context(void)
{
	CUcontext popped;

	pager_driver.cuCtxPopCurrent_v2(&popped);
}

// Waits until the GPU has done all work of the context, at most until the deadline. The event covers all its streams.
static CUresult drain_context(CUcontext context, uint64_t deadline_ns)
{
	CUresult result = pager_driver.cuCtxPushCurrent_v2(context);
	long pause_ns = poll_least_ns;
	CUevent event;

	if (result != CUDA_SUCCESS)
		return result;
	result = pager_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result == CUDA_SUCCESS) {
		result = pager_driver.cuCtxRecordEvent(context, event);
		while (result == CUDA_SUCCESS && (result = pager_driver.cuEventQuery(event)) == CUDA_ERROR_NOT_READY &&
		       vg_clock_monotonic_ns() < deadline_ns) {
			sleep_ns(pause_ns);
			pause_ns = longer(pause_ns, poll_most_ns);
			result = CUDA_SUCCESS;
		}
		pager_driver.cuEventDestroy_v2(event);
	}
	pop_context();
	return result;
}

static CUresult drain(const CUcontext *contexts, size_t count, uint64_t deadline_ns)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = drain_context(contexts[i], deadline_ns);
	return result;
}

// Waits with the gate open, since a thread that captures needs the gate to end its capture.
static bool wait_for_captures(uint64_t deadline_ns)
{
	for (long pause_ns = poll_least_ns; options.captures(); pause_ns = longer(pause_ns, poll_most_ns)) {
		if (vg_clock_monotonic_ns() >= deadline_ns)
			return false;
		sleep_ns(pause_ns);
	}
	return true;
}

// Closes the gate while no stream is being captured.
static bool close_gate(struct pager_slot *slot, uint64_t deadline_ns)
{
	uint32_t row;

	for (;;) {
		if (!wait_for_captures(deadline_ns)) {
			give_reason(slot, PAGER_CAPTURE, 0, 0);
			return false;
		}
		if (!pager_gate_close(deadline_ns, &row)) {
			give_reason(slot, PAGER_THREAD, row, 0);
			return false;
		}
		if (!options.captures())
			return true;
		pager_gate_open(); // one began meanwhile
	}
}

static uint64_t deadline_of(const struct pager_slot *slot)
{
	uint32_t ms = atomic_load(&slot->drain_ms);

	return vg_clock_monotonic_ns() + (ms ? ms : DEFAULT_DRAIN_MS) * UINT64_C(1000000);
}

static void stay(struct pager_slot *slot)
{
	enter_state(slot, PAGER_RUNNING);
	pager_gate_open();
	options.failed(slot);
}

// A copy to the host failed: what has left comes back, if the context still works.
static void come_back(struct pager_slot *slot, CUresult result)
{
	uint64_t missing;

	give_reason(slot, PAGER_DRIVER, result, 0);
	if (pager_move_in(slot, &missing) != CUDA_SUCCESS) {
		enter_state(slot, PAGER_BROKEN);
		pager_gate_open();
		options.failed(slot);
		return;
	}
	stay(slot);
}

static void move_out(struct pager_slot *slot)
{
	uint64_t began_ns = vg_clock_monotonic_ns(), missing;
	CUresult result = pager_move_out(slot, &missing);

	if (missing) {
		give_reason(slot, PAGER_HOST, 0, missing);
		stay(slot);
		return;
	}
	if (result != CUDA_SUCCESS) {
		come_back(slot, result);
		return;
	}
	atomic_store(&slot->moved_ns, vg_clock_monotonic_ns() - began_ns);
	atomic_fetch_add(&slot->moves, 1);
	give_reason(slot, PAGER_DONE, 0, 0);
	enter_state(slot, PAGER_OUT);
}

// Pins another piece of host memory for what can leave.
static enum pager_host_step prepare_piece(uint64_t kept, uint64_t *ret_missing)
{
	CUcontext contexts[CONTEXTS];
	enum pager_host_step step;
	size_t count;

	if (!push_context(contexts, &count))
		return PAGER_HOST_READY;
	step = pager_host_grow(pager_memory_bytes(), kept, ret_missing);
	pop_context();
	return step;
}

// Pins host memory before the gate closes, since that takes longer than the copy. Returns false if the process stays:
// there is too little, or the wish was withdrawn meanwhile.
static bool prepare_host(struct pager_slot *slot)
{
	CUcontext contexts[CONTEXTS];
	enum pager_host_step step;
	uint64_t missing = 0;

	give_reason(slot, PAGER_DONE, 0, 0);
	if (pager_memory_bytes() && options.contexts(contexts, CONTEXTS) == 0) {
		give_reason(slot, PAGER_DRIVER, CUDA_ERROR_INVALID_CONTEXT, 0);
		return false;
	}
	while ((step = prepare_piece(0, &missing)) == PAGER_HOST_MORE && is_to_leave(slot))
		;
	if (step == PAGER_HOST_SHORT)
		give_reason(slot, PAGER_HOST, 0, missing);
	return step == PAGER_HOST_READY && is_to_leave(slot);
}

// With the gate closed.
static void drain_and_move_out(struct pager_slot *slot, uint64_t deadline_ns)
{
	CUcontext contexts[CONTEXTS];
	size_t count;
	bool pushed = push_context(contexts, &count);
	CUresult result = drain(contexts, count, deadline_ns);

	if (result == CUDA_SUCCESS) {
		enter_state(slot, PAGER_LEAVING);
		move_out(slot);
	} else {
		give_reason(slot, result == CUDA_ERROR_NOT_READY ? PAGER_GPU : PAGER_DRIVER, result, 0);
		stay(slot);
	}
	if (pushed)
		pop_context();
}

static void leave(struct pager_slot *slot)
{
	uint64_t deadline_ns;

	enter_state(slot, PAGER_PREPARING);
	if (!prepare_host(slot)) {
		enter_state(slot, PAGER_RUNNING);
		if (atomic_load(&slot->reason) != PAGER_DONE)
			options.failed(slot);
		return;
	}
	deadline_ns = deadline_of(slot);
	enter_state(slot, PAGER_CLOSING);
	if (close_gate(slot, deadline_ns))
		drain_and_move_out(slot, deadline_ns);
	else
		stay(slot);
}

// Brings all memory back. False: the device has no room for it now.
static bool come(struct pager_slot *slot)
{
	CUcontext contexts[CONTEXTS];
	size_t count;
	uint64_t began_ns = vg_clock_monotonic_ns(), missing = 0;
	CUresult result = CUDA_SUCCESS;

	enter_state(slot, PAGER_COMING);
	if (push_context(contexts, &count)) {
		result = pager_move_in(slot, &missing);
		pop_context();
	}
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		bool is_known = atomic_load(&slot->reason) == PAGER_DEVICE;
		give_reason(slot, PAGER_DEVICE, 0, missing);
		enter_state(slot, PAGER_OUT);
		if (!is_known)
			options.failed(slot);
		return false;
	}
	give_reason(slot, result == CUDA_SUCCESS ? PAGER_DONE : PAGER_DRIVER, result, 0);
	atomic_store(&slot->moved_ns, vg_clock_monotonic_ns() - began_ns);
	enter_state(slot, result == CUDA_SUCCESS ? PAGER_RUNNING : PAGER_BROKEN);
	pager_gate_open();
	if (result != CUDA_SUCCESS)
		options.failed(slot);
	return true;
}

// Waits for a wish, or for `most_ns` if that is not 0.
static void wait_for_bell(struct pager_slot *slot, uint32_t heard, long most_ns)
{
	struct timespec most = {most_ns / 1000000000, most_ns % 1000000000};

	syscall(SYS_futex, &slot->bell, FUTEX_WAIT, heard, most_ns ? &most : NULL, NULL, 0);
}

static bool is_out(const struct pager_slot *slot)
{
	return atomic_load(&slot->state) == PAGER_OUT;
}

// While the vGPUs do not fit on the device together: reports whether threads use the device, and pins host memory ahead
// of need. Returns when to look again, in nanoseconds; 0: at no time.
static long look_ahead(struct pager_slot *slot)
{
	uint32_t ms = atomic_load(&options.page->ask_ms);
	uint64_t missing;

	if (!ms || atomic_load(&slot->state) != PAGER_RUNNING)
		return ms * 1000000l;
	if (pager_gate_was_used())
		atomic_store(&slot->active_ns, options.clock_ns());
	if (vg_clock_monotonic_ns() < ahead_after_ns)
		return ms * 1000000l;
	switch (prepare_piece(ahead_keeps_bytes, &missing)) {
	case PAGER_HOST_MORE:
		return pause_between_pieces_ns;
	case PAGER_HOST_SHORT:
		ahead_after_ns = vg_clock_monotonic_ns() + ahead_retry_ns;
		break;
	case PAGER_HOST_READY:
		break;
	}
	return ms * 1000000l;
}

// Carries out the wish that `bell` announced. Returns after how long to try again; 0: it is done, or given up.
static long obey(struct pager_slot *slot, uint32_t bell, long retry_ns)
{
	bool done = true;

	if (is_to_leave(slot) && !is_out(slot))
		leave(slot);
	else if (!is_to_leave(slot) && is_out(slot))
		done = come(slot);
	if (!done)
		return retry_ns ? longer(retry_ns, retry_most_ns) : 10000000;
	atomic_store_explicit(&slot->answered, bell, memory_order_release);
	return 0;
}

// The process has a slot: its first, or a new one after a restore, which host memory that was pinned does not outlive.
static void take_slot(struct pager_slot *slot, bool is_restored)
{
	if (is_restored)
		pager_host_forget(NULL);
	pager_gate_count_in(slot);
	atomic_store(&slot->bytes, pager_memory_bytes());
	pthread_mutex_lock(&charge_lock);
	atomic_store(&slot->charged, charged);
	pthread_mutex_unlock(&charge_lock);
	enter_state(slot, PAGER_RUNNING);
	if (!is_to_leave(slot)) // the wish for which the gate was barred at the start may be gone
		pager_gate_open();
}

static void *run(void *unused)
{
	struct pager_slot *slot, *before = NULL;
	long retry_ns = 0;

	(void)unused;
	for (;;) {
		slot = options.slot();
		if (!slot) { // it is being checkpointed or restored
			sleep_ns(poll_most_ns);
			continue;
		}
		if (slot != before)
			take_slot(slot, before != NULL);
		before = slot;
		uint32_t bell = atomic_load_explicit(&slot->bell, memory_order_acquire);
		retry_ns = obey(slot, bell, retry_ns);
		long look_ns = look_ahead(slot);
		wait_for_bell(slot, bell, retry_ns && (!look_ns || retry_ns < look_ns) ? retry_ns : look_ns);
	}
	return NULL;
}

int pager_start(const struct pager_options *wanted)
{
	sigset_t all, before;
	pthread_t thread;
	int r;

	options = *wanted;
	pager_host_limit(options.host_limit);
	r = pager_gate_start(options.waits);
	if (r < 0)
		return r;
	pager_gate_count_in(options.slot());
	if (atomic_load(&options.page->out)) // the thread below comes later than the first call
		pager_gate_bar();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0) {
		pthread_detach(thread);
		started = true;
	}
	return r;
}

void pager_note_bytes(void)
{
	struct pager_slot *slot = started ? options.slot() : NULL;

	if (slot)
		atomic_store(&slot->bytes, pager_memory_bytes());
}

void pager_note_charge(int64_t bytes)
{
	struct pager_slot *slot = bytes ? options.slot() : NULL;

	pthread_mutex_lock(&charge_lock);
	charged += (uint64_t)bytes;
	if (slot)
		atomic_store(&slot->charged, charged);
	pthread_mutex_unlock(&charge_lock);
}

void pager_reset(void)
{
	started = false;
	pager_gate_reset();
}
