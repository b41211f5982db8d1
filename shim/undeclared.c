#include "shim/undeclared.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/hot.h"
#include "shim/hello.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // only ever tried: a fork cannot hang on it
static _Atomic uint64_t charged;

// Within this of the limit every allocation may be the one too many.
static const uint64_t near_limit = 512ull << 20;
static const uint64_t measure_every_ns = 20000000;
// A pool grows in steps of this before it is charged for it.
static const uint64_t over_let_pass = 32ull << 20;

VG_COLD static void charge_change(struct vg_ledger *ledger)
{
	uint64_t found = vg_ledger_undeclared(ledger), limit, all, more;

	if (pthread_mutex_trylock(&lock) != 0)
		return;
	if (found < charged) {
		vg_ledger_refund(ledger, VG_LEDGER_UNDECLARED, charged - found);
		charged = found;
	} else {
		// As far as the quota has room: what is there already cannot be refused any more.
		vg_ledger_read(ledger, &limit, &all);
		more = all < limit ? limit - all : 0;
		if (more > found - charged)
			more = found - charged;
		if (more && vg_ledger_reserve(ledger, VG_LEDGER_UNDECLARED, more) == 0)
			charged += more;
	}
	pthread_mutex_unlock(&lock);
}

VG_HOT static void charge(struct vg_ledger *ledger)
{
	if (__builtin_expect(vg_ledger_undeclared(ledger) != charged, 0))
		charge_change(ledger);
}

static _Atomic bool doubtful;

void shim_undeclared_doubt(void)
{
	doubtful = true;
}

VG_COLD static void measure_now_and_then(struct vg_ledger *ledger)
{
	static _Atomic uint64_t measured_ns;
	uint64_t now = vg_clock_monotonic_ns(), last = measured_ns;

	if (now - last >= measure_every_ns && atomic_compare_exchange_strong(&measured_ns, &last, now))
		shim_hello(vg_ledger_name(ledger), true);
}

VG_HOT void shim_undeclared_follow(struct vg_ledger *ledger, uint64_t bytes)
{
	uint64_t limit, all;

	if (__builtin_expect(atomic_load_explicit(&doubtful, memory_order_relaxed), 0) &&
	    atomic_exchange(&doubtful, false))
		shim_hello(vg_ledger_name(ledger), true);
	vg_ledger_read(ledger, &limit, &all);
	if (bytes > limit || all > limit - bytes || limit - bytes - all < near_limit)
		measure_now_and_then(ledger);
	charge(ledger);
}

bool shim_undeclared_measure(struct vg_ledger *ledger, uint64_t *ret_bytes)
{
	uint64_t found;

	if (!shim_hello(vg_ledger_name(ledger), true))
		return false;
	found = vg_ledger_undeclared(ledger);
	*ret_bytes = found > charged ? found - charged : 0;
	return true;
}

bool shim_undeclared_refresh(struct vg_ledger *ledger)
{
	uint64_t before = charged;

	if (!before || !shim_hello(vg_ledger_name(ledger), true))
		return false;
	charge(ledger);
	return charged < before;
}

CUresult shim_undeclared_gate(enum vg_entry entry)
{
	struct vg_ledger *ledger = shim_session_ledger();
	uint64_t found;

	if (!ledger || !shim_undeclared_measure(ledger, &found))
		return CUDA_SUCCESS;
	charge(ledger);
	found = vg_ledger_undeclared(ledger);
	return found > charged + over_let_pass ? shim_refuse(entry, found - charged) : CUDA_SUCCESS;
}

void shim_undeclared_settle(struct vg_ledger *ledger)
{
	charge(ledger);
}

static _Atomic bool over;

void shim_first_context_stands(void)
{
	struct vg_ledger *ledger = shim_session_ledger();

	if (ledger && !over)
		vg_ledger_set_pristine(ledger, true);
}

void shim_first_context_over(void)
{
	struct vg_ledger *ledger = shim_session_ledger();

	if (over || !ledger)
		return;
	over = true;
	vg_ledger_set_pristine(ledger, false);
}
