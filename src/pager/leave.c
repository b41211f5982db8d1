// Moves the memory to the host: pins host memory, closes the gate, waits for the GPU, and copies.
#include "base/clock.h"
#include "pager/drain.h"
#include "pager/gate.h"
#include "pager/memory.h"
#include "pager/move.h"
#include "pager/thread.h"

enum { DEFAULT_DRAIN_MS = 10000 };

// Waits for stream captures to end. The gate stays open meanwhile, since a capturing thread must enter the gate to end
// its capture. Returns false at the deadline.
static bool wait_for_captures(uint64_t deadline_ns)
{
	long pause_ns = PAGER_POLL_LEAST_NS;

	while (pager_thread.options.captures()) {
		if (vg_clock_monotonic_ns() >= deadline_ns)
			return false;
		pager_sleep(pause_ns);
		pause_ns = pager_longer(pause_ns, PAGER_POLL_MOST_NS);
	}
	return true;
}

// Closes the gate at a moment when no stream is being captured. Returns false at the deadline, with the reason in the
// slot.
static bool close_gate(struct pager_slot *slot, uint64_t deadline_ns)
{
	uint32_t row;

	for (;;) {
		if (!wait_for_captures(deadline_ns)) {
			pager_give_reason(slot, PAGER_CAPTURE, 0, 0);
			return false;
		}
		if (!pager_gate_close(deadline_ns, &row)) {
			pager_give_reason(slot, PAGER_THREAD, row, 0);
			return false;
		}
		if (!pager_thread.options.captures())
			return true;
		pager_gate_open(); // a capture has begun since the last check: open the gate, so that it can end
	}
}

static uint64_t find_deadline(const struct pager_slot *slot)
{
	uint32_t ms = atomic_load(&slot->drain_ms);

	return vg_clock_monotonic_ns() + (ms ? ms : DEFAULT_DRAIN_MS) * UINT64_C(1000000);
}

// Pins host memory before the gate closes, since pinning takes longer than the copy. Returns false if the memory stays
// on the device, because there is too little host memory or the request was withdrawn.
static bool prepare_host(struct pager_slot *slot)
{
	enum pager_host_step step;
	uint64_t missing;

	pager_give_reason(slot, PAGER_DONE, 0, 0);
	do
		step = pager_prepare_piece(0, &missing);
	while (step == PAGER_HOST_MORE && pager_is_to_leave(slot));
	if (step == PAGER_HOST_SHORT && missing)
		pager_give_reason(slot, PAGER_HOST, 0, missing);
	else if (step == PAGER_HOST_SHORT)
		pager_give_reason(slot, PAGER_DRIVER, CUDA_ERROR_INVALID_CONTEXT, 0);
	return step == PAGER_HOST_READY && pager_is_to_leave(slot);
}

// Pins host memory and closes the gate. If a thread has allocated more memory before the gate closed, repeats both.
// Returns false if the memory stays on the device.
static bool prepare_and_close(struct pager_slot *slot, uint64_t *ret_deadline_ns)
{
	for (;;) {
		pager_enter_state(slot, PAGER_PREPARING);
		if (!prepare_host(slot)) {
			pager_enter_state(slot, PAGER_RUNNING);
			if (atomic_load(&slot->reason) != PAGER_DONE)
				pager_thread.options.failed(slot);
			return false;
		}
		*ret_deadline_ns = find_deadline(slot);
		pager_enter_state(slot, PAGER_CLOSING);
		if (!close_gate(slot, *ret_deadline_ns)) {
			pager_stay(slot);
			return false;
		}
		if (pager_host_has(pager_memory_roomless()))
			return true;
		pager_gate_open();
	}
}

// Moves the memory. The gate is closed, the device idle, and a context current. Returns false if the move must be tried
// again.
static bool move_out(struct pager_slot *slot)
{
	uint64_t began_ns = vg_clock_monotonic_ns(), missing;

	pager_enter_state(slot, PAGER_LEAVING);
	CUresult result = pager_move_out(slot, &missing);
	if (result != CUDA_SUCCESS) {
		pager_give_reason(slot, missing ? PAGER_HOST : PAGER_DRIVER, missing ? 0 : result, missing);
		return pager_undo_leaving(slot);
	}
	pager_thread.is_partly_out = false;
	atomic_store(&slot->moved_ns, vg_clock_monotonic_ns() - began_ns);
	atomic_fetch_add(&slot->moves, 1);
	if (atomic_load(&slot->hash_result))
		pager_thread.options.not_hashed(slot);
	pager_give_reason(slot, PAGER_DONE, 0, 0);
	pager_enter_state(slot, PAGER_OUT);
	return true;
}

// Waits for the GPU, then moves the memory. A context is current if the process has memory. Returns false if the move
// must be tried again.
static bool drain_and_leave(struct pager_slot *slot, const CUcontext *contexts, size_t count, uint64_t deadline_ns)
{
	CUresult result = pager_drain(contexts, count, deadline_ns);

	if (result == CUDA_SUCCESS)
		return move_out(slot);
	pager_give_reason(slot, result == CUDA_ERROR_NOT_READY ? PAGER_GPU : PAGER_DRIVER, result, 0);
	return pager_undo_leaving(slot);
}

// Makes a context current, waits for the GPU, and moves the memory. The gate is closed. Returns false if the move must
// be tried again.
static bool drain_and_move_out(struct pager_slot *slot, uint64_t deadline_ns)
{
	CUcontext contexts[PAGER_CONTEXTS];
	size_t count;
	CUresult pushed = pager_push_context(contexts, &count);

	if (pushed != CUDA_SUCCESS && pager_memory_bytes()) {
		pager_give_reason(slot, PAGER_DRIVER, pushed, 0);
		return pager_undo_leaving(slot);
	}
	bool is_done = drain_and_leave(slot, contexts, count, deadline_ns);
	if (pushed == CUDA_SUCCESS)
		pager_pop_context();
	return is_done;
}

bool pager_leave_device(struct pager_slot *slot)
{
	uint64_t deadline_ns;

	return !prepare_and_close(slot, &deadline_ns) || drain_and_move_out(slot, deadline_ns);
}

bool pager_leave_device_again(struct pager_slot *slot)
{
	return drain_and_move_out(slot, find_deadline(slot));
}
