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
#include "pager/available.h"
#include "pager/blocks.h"
#include "pager/drain.h"
#include "pager/gate.h"
#include "pager/host.h"
#include "pager/host_file.h"
#include "pager/memory.h"
#include "pager/move.h"
#include "pager/page.h"

enum { CONTEXTS = 64, DEFAULT_DRAIN_MS = 10000 };
static const long retry_most_ns = 1000000000;
static const long look_for_room_ns = 500000;
static const uint64_t patience_ns = 10000000000; // since the last memory for which there was room
static const long pause_between_pieces_ns = 10000000; // other threads use the driver meanwhile
// Pinning ahead of need leaves so much of the host's memory to others. If there is too little, it tries again later.
static const uint64_t ahead_keeps_bytes = 4ull << 30, ahead_retry_ns = 5000000000;
static const long host_look_ns = 1000000000; // between two checks whether the host is short of memory
// A process that is dumped may be another one in another slot afterwards, whose bell its pager does not hear.
static const long parked_look_ns = 50000000;

static struct pager_options options;
static bool started;
static uint64_t ahead_after_ns; // of the pager's thread
static bool is_partly_out;	// likewise: a move to the host failed, and what has left cannot come back yet
static enum pager_state state;	// likewise: as in the slot, which the process does not have while it is dumped
static uint32_t park_refused;	// likewise: the wish to park that could not be carried out; 0: none
// Held while a figure is computed and stored in the slot, so that the last one stored is the last one computed.
static pthread_mutex_t figures_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t charged;

static void enter_state(struct pager_slot *slot, enum pager_state next)
{
	state = next;
	atomic_store(&slot->since_ns, options.clock_ns());
	atomic_store(&slot->state, next);
}

static void give_reason(struct pager_slot *slot, enum pager_reason reason, uint32_t row, uint64_t missing)
{
	atomic_store(&slot->row, row);
	atomic_store(&slot->missing, missing);
	atomic_store(&slot->reason, reason);
}

static bool is_to_leave(const struct pager_slot *slot)
{
	return atomic_load(&options.page->out) || atomic_load(&slot->out) || atomic_load(&slot->park);
}

// Allows this thread calls that would end captures of other threads. The driver must have been initialized.
static void relax(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	static bool is_relaxed;

	if (!is_relaxed)
		is_relaxed = pager_driver.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
}

// Makes one of the process's contexts current. Returns CUDA_ERROR_INVALID_CONTEXT if there is none.
static CUresult push_context(CUcontext contexts[CONTEXTS], size_t *ret_count)
{
	CUresult result = CUDA_ERROR_INVALID_CONTEXT;

	*ret_count = options.contexts(contexts, CONTEXTS);
	for (size_t i = 0; i < *ret_count && result != CUDA_SUCCESS; i++)
		result = pager_driver.cuCtxPushCurrent_v2(contexts[i]);
	if (result == CUDA_SUCCESS)
		relax();
	return result;
}

static void pop_context(void)
{
	CUcontext popped;

	pager_driver.cuCtxPopCurrent_v2(&popped);
}

// Waits with the gate open, since a thread that captures needs the gate to end its capture.
static bool wait_for_captures(uint64_t deadline_ns)
{
	for (long pause_ns = PAGER_POLL_LEAST_NS; options.captures(); pause_ns = pager_longer(pause_ns, PAGER_POLL_MOST_NS)) {
		if (vg_clock_monotonic_ns() >= deadline_ns)
			return false;
		pager_sleep(pause_ns);
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
	is_partly_out = false;
	enter_state(slot, PAGER_RUNNING);
	pager_gate_open();
	options.failed(slot);
}

static void give_up(struct pager_slot *slot)
{
	is_partly_out = false;
	enter_state(slot, PAGER_BROKEN);
	pager_gate_open();
	options.failed(slot);
}

// The device lacks `missing` bytes: the pager tries again later.
static void wait_for_room(struct pager_slot *slot, uint64_t missing, bool is_known)
{
	give_reason(slot, PAGER_DEVICE, 0, missing);
	enter_state(slot, PAGER_OUT);
	if (!is_known)
		options.failed(slot);
}

// A move to the host failed, for the reason in the slot: what has left comes back, if anything has, and if the context
// still works. Returns false if the device has no room for it now.
static bool come_back(struct pager_slot *slot)
{
	bool is_known = is_partly_out;
	uint64_t missing;
	CUresult result = pager_move_in(slot, NULL, &missing);

	if (result == CUDA_SUCCESS) {
		stay(slot);
	} else if (result != CUDA_ERROR_OUT_OF_MEMORY) {
		give_up(slot);
	} else {
		is_partly_out = true;
		if (!is_known)
			options.failed(slot);
		wait_for_room(slot, missing, is_known);
	}
	return !is_partly_out;
}

// With the gate closed, the device idle and a context current. Returns false if it is to be called again.
static bool move_out(struct pager_slot *slot)
{
	uint64_t began_ns = vg_clock_monotonic_ns(), missing;
	CUresult result;

	enter_state(slot, PAGER_LEAVING);
	result = pager_move_out(slot, &missing);
	if (result != CUDA_SUCCESS) {
		give_reason(slot, missing ? PAGER_HOST : PAGER_DRIVER, missing ? 0 : result, missing);
		return come_back(slot);
	}
	is_partly_out = false;
	atomic_store(&slot->moved_ns, vg_clock_monotonic_ns() - began_ns);
	atomic_fetch_add(&slot->moves, 1);
	if (atomic_load(&slot->hash_result))
		options.not_hashed(slot);
	give_reason(slot, PAGER_DONE, 0, 0);
	enter_state(slot, PAGER_OUT);
	return true;
}

// Pins another piece of host memory for what can leave. *ret_missing is 0 if there is no context to do it in.
static enum pager_host_step prepare_piece(uint64_t kept, uint64_t *ret_missing)
{
	CUcontext contexts[CONTEXTS];
	enum pager_host_step step;
	size_t count;

	*ret_missing = 0;
	if (push_context(contexts, &count) != CUDA_SUCCESS)
		return pager_memory_bytes() ? PAGER_HOST_SHORT : PAGER_HOST_READY;
	step = pager_host_grow(pager_memory_roomless(), kept, ret_missing);
	pop_context();
	return step;
}

// Pins host memory before the gate closes, since that takes longer than the copy. Returns false if the process stays:
// there is too little, or the wish was withdrawn meanwhile.
static bool prepare_host(struct pager_slot *slot)
{
	enum pager_host_step step;
	uint64_t missing = 0;

	give_reason(slot, PAGER_DONE, 0, 0);
	while ((step = prepare_piece(0, &missing)) == PAGER_HOST_MORE && is_to_leave(slot))
		;
	if (step == PAGER_HOST_SHORT)
		give_reason(slot, missing ? PAGER_HOST : PAGER_DRIVER, missing ? 0 : CUDA_ERROR_INVALID_CONTEXT,
			    missing);
	return step == PAGER_HOST_READY && is_to_leave(slot);
}

// With the gate closed. Returns false if the move is to be tried again.
static bool drain_and_move_out(struct pager_slot *slot, uint64_t deadline_ns)
{
	CUcontext contexts[CONTEXTS];
	size_t count;
	CUresult result, pushed = push_context(contexts, &count);
	bool done = true;

	result = pushed == CUDA_SUCCESS || !pager_memory_bytes() ? pager_drain(contexts, count, deadline_ns) : pushed;
	if (result == CUDA_SUCCESS) {
		done = move_out(slot);
	} else {
		give_reason(slot, result == CUDA_ERROR_NOT_READY ? PAGER_GPU : PAGER_DRIVER, result, 0);
		done = come_back(slot);
	}
	if (pushed == CUDA_SUCCESS)
		pop_context();
	return done;
}

// Prepares and closes the gate, again if a thread has allocated memory meanwhile. Returns false if the process stays.
static bool prepare_and_close(struct pager_slot *slot, uint64_t *ret_deadline_ns)
{
	for (;;) {
		enter_state(slot, PAGER_PREPARING);
		if (!prepare_host(slot)) {
			enter_state(slot, PAGER_RUNNING);
			if (atomic_load(&slot->reason) != PAGER_DONE)
				options.failed(slot);
			return false;
		}
		*ret_deadline_ns = deadline_of(slot);
		enter_state(slot, PAGER_CLOSING);
		if (!close_gate(slot, *ret_deadline_ns)) {
			stay(slot);
			return false;
		}
		if (pager_host_has(pager_memory_roomless()))
			return true;
		pager_gate_open();
	}
}

// Returns false if the move is to be tried again.
static bool leave(struct pager_slot *slot)
{
	uint64_t deadline_ns;

	return !prepare_and_close(slot, &deadline_ns) || drain_and_move_out(slot, deadline_ns);
}

// Waits a moment for room that other processes make. Returns false if this process is to leave again, or if it has
// waited too long.
static bool wait_for_others(uint64_t waited_ns)
{
	const struct pager_slot *slot = options.slot();

	if (!slot || is_to_leave(slot) || waited_ns > patience_ns)
		return false;
	pager_sleep(look_for_room_ns);
	return true;
}

// Releases the host memory after a dump, because its file has a name. The GPU is idle: unpinning waits for it.
static void release_named(void)
{
	if (!pager_host_is_named())
		return;
	pager_memory_forget_copies();
	pager_host_release();
}

// Brings all memory back. Only the first attempt waits for room that others make. Later attempts take room only if all
// memory fits, so that two processes do not block each other with parts. Returns false if the device has no room now,
// and true if the process is to leave again.
static bool come(struct pager_slot *slot, bool is_first)
{
	bool waits = is_first && atomic_load(&options.page->room_comes);
	CUcontext contexts[CONTEXTS];
	size_t count;
	uint64_t began_ns = vg_clock_monotonic_ns(), missing = 0;
	CUresult result = push_context(contexts, &count);

	enter_state(slot, PAGER_COMING);
	if (result == CUDA_SUCCESS) {
		result = pager_move_in(slot, waits ? wait_for_others : NULL, &missing);
		if (result == CUDA_SUCCESS)
			release_named();
		pop_context();
	} else if (!pager_memory_bytes()) {
		result = CUDA_SUCCESS;
	}
	if (result == CUDA_ERROR_OUT_OF_MEMORY && is_to_leave(slot)) { // it stopped waiting for room for that reason
		give_reason(slot, PAGER_DONE, 0, 0);
		enter_state(slot, PAGER_OUT);
		return true;
	}
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		wait_for_room(slot, missing, atomic_load(&slot->reason) == PAGER_DEVICE);
		return false;
	}
	give_reason(slot, result == CUDA_SUCCESS ? PAGER_DONE : PAGER_DRIVER, result, 0);
	atomic_store(&slot->moved_ns, vg_clock_monotonic_ns() - began_ns);
	if (result != CUDA_SUCCESS) {
		give_up(slot);
		return true;
	}
	is_partly_out = false;
	enter_state(slot, PAGER_RUNNING);
	pager_gate_open();
	return true;
}

// Waits for a wish, or for `most_ns` if that is not 0.
static void wait_for_bell(struct pager_slot *slot, uint32_t heard, long most_ns)
{
	struct timespec most = {most_ns / 1000000000, most_ns % 1000000000};

	syscall(SYS_futex, &slot->bell, FUTEX_WAIT, heard, most_ns ? &most : NULL, NULL, 0);
}

// Unpins the next piece of host memory, in which there are only copies, and releases all of it after the last piece.
// Unpinning waits for the GPU. Returns whether pieces are left.
static bool release_piece(void)
{
	CUcontext contexts[CONTEXTS];
	size_t count;
	CUresult pushed = push_context(contexts, &count);

	pager_memory_forget_copies();
	bool are_left = pager_host_release_step();
	if (pushed == CUDA_SUCCESS)
		pop_context();
	return are_left;
}

// While no other vGPU needs the room, the host memory is only of use for the next move. Releases it, one piece a look,
// if the host is short of memory and no stream is being captured. Returns when to look again, in nanoseconds; 0: never.
static long look_at_host(void)
{
	static uint64_t next_ns;
	uint64_t now_ns = vg_clock_monotonic_ns();

	if (!pager_host_bytes())
		return 0;
	if (now_ns >= next_ns && !options.captures()) {
		bool are_left = pager_host_available() < options.host_least && release_piece();
		next_ns = now_ns + (uint64_t)(are_left ? pause_between_pieces_ns : host_look_ns);
	}
	return next_ns > now_ns ? (long)(next_ns - now_ns) : host_look_ns;
}

// While the vGPUs do not fit on the device together: reports whether threads use the device, and pins host memory ahead
// of need. Otherwise looks whether to release it. Returns when to look again, in nanoseconds; 0: at no time.
static long look_ahead(struct pager_slot *slot)
{
	uint32_t ms = atomic_load(&options.page->ask_ms);
	uint64_t missing;

	if (!ms && state == PAGER_RUNNING && !is_to_leave(slot))
		return look_at_host();
	if (!ms || state != PAGER_RUNNING || atomic_load(&slot->park))
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

// ---- dump and restore ----------------------------------------------------------------------------------

static void write_file(struct pager_slot *slot, const struct pager_file *file)
{
	atomic_store(&slot->file[0], file->process);
	atomic_store(&slot->file[1], file->start_time);
	atomic_store(&slot->file[2], file->number);
}

// All memory is in the host: unpins it and puts it away. Returns false if that failed.
static bool put_away(struct pager_slot *slot)
{
	struct pager_file file = {0};
	CUcontext contexts[CONTEXTS];
	size_t count;
	CUresult pushed = push_context(contexts, &count);
	int r = pager_host_put_away(&file);

	if (pushed == CUDA_SUCCESS)
		pop_context();
	if (r < 0) {
		give_reason(slot, PAGER_FILE, (uint32_t)-r, 0);
		return false;
	}
	write_file(slot, &file);
	enter_state(slot, PAGER_PARKED);
	return true;
}

// Carries out the wish to park, or gives it up. Returns false if it is to be called again. For a deep suspension the
// host memory stays mapped and pinned. Then the pager makes no calls to the driver until the wish is withdrawn.
static bool park(struct pager_slot *slot, uint32_t wish, bool is_deep)
{
	if (state == PAGER_PARKED || wish == park_refused)
		return true;
	if (is_partly_out ? !drain_and_move_out(slot, deadline_of(slot)) : state != PAGER_OUT && !leave(slot))
		return false;
	if (state == PAGER_OUT && is_deep)
		return true;
	if (state == PAGER_OUT ? put_away(slot) : !atomic_load(&slot->park))
		return true;
	// The dump goes on although the memory stays, and CRIU would write pinned memory. For other reasons the dump fails.
	if (state == PAGER_RUNNING && atomic_load(&slot->reason) == PAGER_HOST)
		while (release_piece())
			;
	park_refused = wish;
	return true;
}

// Pins the memory again that is mapped again.
static void pin_again(void)
{
	CUcontext contexts[CONTEXTS];
	uint64_t missing;
	size_t count;

	if (push_context(contexts, &count) != CUDA_SUCCESS)
		return;
	while (pager_host_grow(0, 0, &missing) == PAGER_HOST_MORE)
		;
	pop_context();
}

// Maps the memory again that was put away, and pins it. Returns false if it is to be called again.
static bool unpark(struct pager_slot *slot)
{
	const struct pager_file file = {atomic_load(&slot->file[0]), atomic_load(&slot->file[1]),
					atomic_load(&slot->file[2])};
	int r = pager_host_take_back(&file);

	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EINTR)
		return false;
	if (r < 0) {
		give_reason(slot, PAGER_FILE, (uint32_t)-r, 0);
		give_up(slot);
		return true;
	}
	write_file(slot, &(struct pager_file){0});
	enter_state(slot, PAGER_OUT);
	pin_again();
	return true;
}

// ---- wishes --------------------------------------------------------------------------------------------

// Carries out the wish that `bell` announced. Returns after how long to try again; 0: it is done, or given up.
static long obey(struct pager_slot *slot, uint32_t bell, long retry_ns)
{
	uint32_t words = atomic_load(&slot->park), wish = words & PAGER_PARK_NUMBER;
	bool done = true;

	if (!wish && park_refused) {
		give_reason(slot, PAGER_DONE, 0, 0);
		park_refused = 0;
	}
	if (!wish && state == PAGER_PARKED)
		done = unpark(slot);
	if (!done || state == PAGER_BROKEN)
		; // the memory is lost, or is not there yet
	else if (wish)
		done = park(slot, wish, words & PAGER_PARK_DEEP);
	else if (is_to_leave(slot) && is_partly_out)
		done = drain_and_move_out(slot, deadline_of(slot));
	else if (is_to_leave(slot) && state != PAGER_OUT)
		done = leave(slot);
	else if (!is_to_leave(slot) && state == PAGER_OUT)
		done = come(slot, retry_ns == 0);
	if (!done)
		return retry_ns ? pager_longer(retry_ns, retry_most_ns) : 10000000;
	atomic_store_explicit(&slot->answered, bell, memory_order_release);
	return 0;
}

// The process has a slot: its first, or a new one after a restore, which host memory that was pinned does not outlive.
static void take_slot(struct pager_slot *slot, bool is_restored)
{
	if (is_restored)
		pager_host_forget(NULL);
	pager_gate_count_in(slot);
	pthread_mutex_lock(&figures_lock);
	atomic_store(&slot->bytes, pager_memory_bytes());
	atomic_store(&slot->charged, charged);
	pthread_mutex_unlock(&figures_lock);
	if (is_restored && (state == PAGER_PARKED || state == PAGER_OUT)) {
		atomic_store(&slot->host, pager_memory_bytes());
		enter_state(slot, state);
		return;
	}
	enter_state(slot, PAGER_RUNNING);
	if (!is_to_leave(slot)) // the wish for which the gate was barred at the start may be gone
		pager_gate_open();
}

static void *run(void *unused)
{
	struct pager_slot *slot, *before = NULL;
	uint32_t restores_before = 0;
	long retry_ns = 0;

	(void)unused;
	for (;;) {
		slot = options.slot();
		if (!slot) { // it is being checkpointed or restored
			pager_sleep(PAGER_POLL_MOST_NS);
			continue;
		}
		uint32_t restores = options.restores();
		if (slot != before || restores != restores_before)
			take_slot(slot, before != NULL);
		before = slot;
		restores_before = restores;
		uint32_t bell = atomic_load_explicit(&slot->bell, memory_order_acquire);
		retry_ns = obey(slot, bell, retry_ns);
		long look_ns = atomic_load(&slot->park) ? parked_look_ns : look_ahead(slot);
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
	pager_blocks_limit(options.hash_least);
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

	if (!slot)
		return;
	pthread_mutex_lock(&figures_lock);
	atomic_store(&slot->bytes, pager_memory_bytes());
	pthread_mutex_unlock(&figures_lock);
}

void pager_note_charge(int64_t bytes)
{
	struct pager_slot *slot = bytes ? options.slot() : NULL;

	pthread_mutex_lock(&figures_lock);
	charged += (uint64_t)bytes;
	if (slot)
		atomic_store(&slot->charged, charged);
	pthread_mutex_unlock(&figures_lock);
}

void pager_reset(void)
{
	started = false;
	pager_gate_reset();
	pager_host_reset();
	pager_blocks_forget(NULL);
}
