#include "pager/pager.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pager/blocks.h"
#include "pager/drain.h"
#include "pager/gate.h"
#include "pager/memory.h"
#include "pager/thread.h"
#include "pager/window.h"

// How often a parked pager checks its slot. It must not only wait for `bell`: a dumped process may be restored with
// another slot, and then it would wait at the old slot. And a restore may end without a word.
static const long parked_look_ns = 50000000;

static bool is_started;
// Held while the value of `bytes` or `charged` is computed and stored in the slot, so that the newest value is stored
// last.
static pthread_mutex_t figures_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t charged;

// Waits while `bell` is still `heard`, the value that it had before the last request was read. Waits at most `most_ns`
// nanoseconds; 0: without limit.
static void wait_for_bell(struct pager_slot *slot, uint32_t heard, long most_ns)
{
	struct timespec most = {most_ns / 1000000000, most_ns % 1000000000};

	syscall(SYS_futex, &slot->bell, FUTEX_WAIT, heard, most_ns ? &most : NULL, NULL, 0);
}

// Carries out the request in the slot or in the page: to park, to leave the device, or to return. `is_first`: this is
// the first attempt. Returns false if another attempt is needed later.
static bool carry_out_request(struct pager_slot *slot, bool is_first)
{
	uint32_t park = atomic_load(&slot->park), request = park & PAGER_PARK_NUMBER;

	if (!request)
		pager_forget_refusal(slot);
	if (pager_thread.state == PAGER_PARKED && (!request || atomic_load(&slot->source) != PAGER_WHOLE_FILE)) {
		if (!pager_unpark(slot, is_first))
			return false;
		if (pager_thread.state == PAGER_PARKED) // declined: the restore rings when it has filled a file
			return true;
	}
	if (pager_thread.state == PAGER_BROKEN)
		return true;
	if (request)
		return pager_park(slot, request, park & PAGER_PARK_DEEP);
	if (!pager_is_to_leave(slot))
		return pager_thread.state != PAGER_OUT || pager_return_to_device(slot, is_first);
	if (pager_thread.is_partly_out)
		return pager_leave_device_again(slot);
	return pager_thread.state == PAGER_OUT || pager_leave_device(slot);
}

// Carries out the request that `bell` announced. `retry_ns`: the pause before this attempt; 0: it is the first one.
// Returns the pause before the next attempt; 0: the request is done or given up.
static long answer_bell(struct pager_slot *slot, uint32_t bell, long retry_ns)
{
	if (!carry_out_request(slot, retry_ns == 0))
		return retry_ns ? pager_longer(retry_ns, PAGER_RETRY_MOST_NS) : PAGER_RETRY_FIRST_NS;
	atomic_store_explicit(&slot->answered, bell, memory_order_release);
	return 0;
}

// Fills a slot that the process has just got: its first slot, or a new one after a restore. After a restore, no memory
// is pinned any more.
static void fill_slot(struct pager_slot *slot, bool is_restored)
{
	enum pager_state state = pager_thread.state;

	if (is_restored)
		pager_host_forget(NULL);
	atomic_store(&slot->knows_window, 1);
	pager_gate_count_in(slot);
	pthread_mutex_lock(&figures_lock);
	atomic_store(&slot->bytes, pager_memory_bytes());
	atomic_store(&slot->charged, charged);
	pthread_mutex_unlock(&figures_lock);
	if (is_restored && (state == PAGER_PARKED || state == PAGER_OUT)) {
		atomic_store(&slot->host, pager_memory_bytes());
		pager_enter_state(slot, state);
		return;
	}
	pager_enter_state(slot, PAGER_RUNNING);
	// The gate is closed at the start if there is a request to leave. If that request was withdrawn, open the gate.
	if (!pager_is_to_leave(slot))
		pager_gate_open();
}

static void *run_pager(void *unused)
{
	struct pager_slot *slot, *before = NULL;
	uint32_t restores_before = 0;
	long retry_ns = 0;

	(void)unused;
	for (;;) {
		slot = pager_thread.options.slot();
		if (!slot) { // the process has no slot while it is dumped or restored
			pager_sleep(PAGER_POLL_MOST_NS);
			continue;
		}
		uint32_t restores = pager_thread.options.restores();
		if (slot != before || restores != restores_before)
			fill_slot(slot, before != NULL);
		before = slot;
		restores_before = restores;
		uint32_t bell = atomic_load_explicit(&slot->bell, memory_order_acquire);
		retry_ns = answer_bell(slot, bell, retry_ns);
		bool is_parked = atomic_load(&slot->park) || pager_thread.state == PAGER_PARKED;
		long look_ns = is_parked ? parked_look_ns : pager_look_ahead(slot);
		wait_for_bell(slot, bell, retry_ns && (!look_ns || retry_ns < look_ns) ? retry_ns : look_ns);
	}
	return NULL;
}

int pager_start(const struct pager_options *options)
{
	sigset_t all, before;
	pthread_t thread;
	int r;

	pager_thread.options = *options;
	pager_host_limit(options->host_limit);
	pager_blocks_limit(options->hash_least);
	r = pager_gate_start(options->waits);
	if (r < 0)
		return r;
	pager_gate_count_in(options->slot());
	// Close the gate now, because the program may use the device before the thread runs.
	if (atomic_load(&options->page->out))
		pager_gate_bar();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&thread, NULL, run_pager, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		return r;
	pthread_detach(thread);
	is_started = true;
	return 0;
}

void pager_note_bytes(void)
{
	struct pager_slot *slot = is_started ? pager_thread.options.slot() : NULL;

	if (!slot)
		return;
	pthread_mutex_lock(&figures_lock);
	atomic_store(&slot->bytes, pager_memory_bytes());
	pthread_mutex_unlock(&figures_lock);
}

void pager_note_charge(int64_t bytes)
{
	struct pager_slot *slot = bytes ? pager_thread.options.slot() : NULL;

	pthread_mutex_lock(&figures_lock);
	charged += (uint64_t)bytes;
	if (slot)
		atomic_store(&slot->charged, charged);
	pthread_mutex_unlock(&figures_lock);
}

void pager_reset(void)
{
	is_started = false;
	pager_gate_reset();
	pager_host_reset();
	pager_blocks_forget(NULL);
	pager_window_reset();
}
