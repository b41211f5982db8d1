#include "shim/undeclared.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/hot.h"
#include "shim/registration.h"
#include "shim/session.h"

// taken only by trylock, so that a forked child cannot wait for a thread of the parent
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t charges[SHIM_DEVICES]; // for each device

// If the free part of the limit is at most this, undeclared memory may decide whether an allocation fits.
static const uint64_t near_limit = 512ull << 20;
static const uint64_t measure_every_ns = 20000000;
// This much undeclared memory is tolerated although the limit has no room for it: a pool may grow by 32 MiB before the
// growth is charged.
static const uint64_t tolerated = 32ull << 20;

// Returns the address of the number of bytes that this process is charged for undeclared memory in this ledger.
VG_HOT static _Atomic uint64_t *charge_of(const struct vg_ledger *ledger)
{
	unsigned int device = shim_device_count - 1;

	while (device && shim_session_ledger_of(device) != ledger)
		device--;
	return &charges[device];
}

// Sets the charge for undeclared memory to what the daemon measured. If the limit has no room for all of it, charges as
// much as fits: the driver has already allocated the memory, so no call can be refused.
VG_COLD static void charge_change(struct vg_ledger *ledger)
{
	_Atomic uint64_t *charge = charge_of(ledger);
	uint64_t found = vg_ledger_undeclared(ledger), charged, limit, all, more;

	if (pthread_mutex_trylock(&lock) != 0)
		return;
	charged = *charge;
	if (found < charged) {
		vg_ledger_refund(ledger, VG_LEDGER_UNDECLARED, charged - found);
		*charge = found;
	} else {
		vg_ledger_read(ledger, &limit, &all);
		more = all < limit ? limit - all : 0;
		if (more > found - charged)
			more = found - charged;
		if (more && vg_ledger_reserve(ledger, VG_LEDGER_UNDECLARED, more) == 0)
			*charge = charged + more;
	}
	pthread_mutex_unlock(&lock);
}

VG_HOT static void charge_latest(struct vg_ledger *ledger)
{
	if (__builtin_expect(vg_ledger_undeclared(ledger) != *charge_of(ledger), 0))
		charge_change(ledger);
}

void shim_undeclared_charge(struct vg_ledger *ledger)
{
	charge_latest(ledger);
}

static _Atomic bool is_change_expected;

void shim_undeclared_expect_change(void)
{
	is_change_expected = true;
}

VG_COLD static void measure_at_intervals(struct vg_ledger *ledger)
{
	static _Atomic uint64_t measured_ns;
	uint64_t now = vg_clock_monotonic_ns(), last = measured_ns;

	if (now - last >= measure_every_ns && atomic_compare_exchange_strong(&measured_ns, &last, now))
		shim_register_and_measure(vg_ledger_name(ledger));
}

VG_HOT void shim_undeclared_update(struct vg_ledger *ledger, uint64_t bytes)
{
	uint64_t limit, all;

	if (__builtin_expect(atomic_load_explicit(&is_change_expected, memory_order_relaxed), 0) &&
	    atomic_exchange(&is_change_expected, false))
		shim_register_and_measure(vg_ledger_name(ledger));
	vg_ledger_read(ledger, &limit, &all);
	if (bytes > limit || all > limit - bytes || limit - bytes - all < near_limit)
		measure_at_intervals(ledger);
	charge_latest(ledger);
}

bool shim_undeclared_measure(struct vg_ledger *ledger, uint64_t *ret_bytes)
{
	uint64_t found, charged;

	if (!shim_register_and_measure(vg_ledger_name(ledger)))
		return false;
	charged = *charge_of(ledger);
	found = vg_ledger_undeclared(ledger);
	*ret_bytes = found > charged ? found - charged : 0;
	return true;
}

bool shim_undeclared_refresh(struct vg_ledger *ledger)
{
	uint64_t before = *charge_of(ledger);

	if (!before || !shim_register_and_measure(vg_ledger_name(ledger)))
		return false;
	charge_latest(ledger);
	return *charge_of(ledger) < before;
}

bool shim_undeclared_exceeds(struct vg_ledger *ledger, uint64_t *ret_bytes)
{
	uint64_t found, charged;

	if (!shim_undeclared_measure(ledger, &found))
		return false;
	charge_latest(ledger);
	charged = *charge_of(ledger);
	found = vg_ledger_undeclared(ledger);
	if (found <= charged + tolerated)
		return false;
	*ret_bytes = found - charged;
	return true;
}

static _Atomic bool has_ended;

void shim_first_context_created(void)
{
	struct vg_ledger *ledger = shim_session_ledger();

	if (ledger && !has_ended)
		vg_ledger_set_pristine(ledger, true);
}

void shim_first_context_ended(void)
{
	struct vg_ledger *ledger;

	if (has_ended || !shim_counting())
		return;
	has_ended = true;
	for (unsigned int i = 0; (ledger = shim_session_ledger_of(i)); i++)
		vg_ledger_set_pristine(ledger, false);
}
