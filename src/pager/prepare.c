// Prepares host memory for moves: pins it ahead of need, and releases it while no other vGPU competes for the device.
#include "base/clock.h"
#include "pager/available.h"
#include "pager/gate.h"
#include "pager/memory.h"
#include "pager/thread.h"

static const long pause_between_pieces_ns = 10000000; // other threads use the driver in this pause
// Pinning ahead of need leaves this much of the host's memory to other programs. If there is less, pinning is tried
// again later.
static const uint64_t ahead_keeps_bytes = 4ull << 30, ahead_retry_ns = 5000000000;
static const long host_look_ns = 1000000000; // interval of the checks whether the host is short of memory

enum pager_host_step pager_prepare_piece(uint64_t kept, uint64_t *ret_missing)
{
	CUcontext contexts[PAGER_CONTEXTS];
	size_t count;

	*ret_missing = 0;
	if (pager_push_context(contexts, &count) != CUDA_SUCCESS)
		return pager_memory_bytes() ? PAGER_HOST_SHORT : PAGER_HOST_READY;
	enum pager_host_step step = pager_host_grow(pager_memory_roomless(), kept, ret_missing);
	pager_pop_context();
	return step;
}

bool pager_release_piece(void)
{
	CUcontext contexts[PAGER_CONTEXTS];
	size_t count;
	CUresult pushed = pager_push_context(contexts, &count);

	pager_memory_forget_copies();
	bool are_left = pager_host_release_step();
	if (pushed == CUDA_SUCCESS)
		pager_pop_context();
	return are_left;
}

// Releases one piece of pinned host memory if the host is short of memory and no stream is being captured. No other
// vGPU needs the device now, so pinned memory would only make the next move faster. Returns in how many nanoseconds to
// call this again; 0: no host memory is pinned.
static long look_at_host(void)
{
	static uint64_t next_ns;
	uint64_t now_ns = vg_clock_monotonic_ns();

	if (!pager_host_bytes())
		return 0;
	if (now_ns >= next_ns && !pager_thread.options.captures()) {
		bool are_left = pager_host_available() < pager_thread.options.host_least && pager_release_piece();
		next_ns = now_ns + (uint64_t)(are_left ? pause_between_pieces_ns : host_look_ns);
	}
	return next_ns > now_ns ? (long)(next_ns - now_ns) : host_look_ns;
}

// If the vGPUs do not all fit on the device, the daemon sets `ask_ms`. Then reports when threads used the device
// (`active_ns`), and pins host memory ahead of need. Otherwise releases host memory if the host is short of it. Returns
// in how many nanoseconds to call this again; 0: no further call is needed.
long pager_look_ahead(struct pager_slot *slot)
{
	static uint64_t retry_after_ns;
	uint32_t ms = atomic_load(&pager_thread.options.page->ask_ms);
	bool is_running = pager_thread.state == PAGER_RUNNING;
	uint64_t missing;

	if (!ms && is_running && !pager_is_to_leave(slot))
		return look_at_host();
	if (!ms || !is_running || atomic_load(&slot->park))
		return ms * 1000000l;
	if (pager_gate_was_used())
		atomic_store(&slot->active_ns, pager_thread.options.clock_ns());
	if (vg_clock_monotonic_ns() < retry_after_ns)
		return ms * 1000000l;
	switch (pager_prepare_piece(ahead_keeps_bytes, &missing)) {
	case PAGER_HOST_MORE:
		return pause_between_pieces_ns;
	case PAGER_HOST_SHORT:
		retry_after_ns = vg_clock_monotonic_ns() + ahead_retry_ns;
		break;
	case PAGER_HOST_READY:
		break;
	}
	return ms * 1000000l;
}
