// Memory that more than one thing of this process can keep: its charge goes with the last of them.
#include <stdlib.h>

#include "ledger/share.h"
#include "shim/evict.h"
#include "shim/physical.h"

struct pin {
	uint64_t owner, offset;
	struct shim_physical *physical;
	struct pin *next;
};

pthread_mutex_t shim_physical_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pin *pins;
static uint64_t exported, adrift; // bytes: with descriptors, and with nothing but descriptors

static bool is_adrift(const struct shim_physical *physical)
{
	return physical->exported && physical->holders == 1;
}

// For every change of an exported one: who dies leaves to the daemon what its descriptors keep.
static void change_exported(struct shim_physical *physical, bool now, unsigned int holders)
{
	bool was_adrift = is_adrift(physical);

	exported -= physical->exported ? physical->bytes : 0;
	adrift -= was_adrift ? physical->bytes : 0;
	physical->exported = now;
	physical->holders = holders;
	exported += physical->exported ? physical->bytes : 0;
	adrift += is_adrift(physical) ? physical->bytes : 0;
	if (!shim_counting())
		return;
	vg_ledger_set_exported(shim_session_ledger(), exported, adrift);
	if (physical->share && !physical->joined && is_adrift(physical) != was_adrift)
		vg_ledger_share_set_away(shim_session_ledger(), physical->share, !was_adrift);
}

static void set_holders(struct shim_physical *physical, unsigned int holders)
{
	if (physical->exported)
		change_exported(physical, true, holders);
	else
		physical->holders = holders;
}

void shim_physical_add(struct shim_physical *physical)
{
	set_holders(physical, physical->holders + 1);
}

void shim_physical_resize(struct shim_physical *physical, uint64_t bytes)
{
	bool was = physical->exported;

	if (was)
		change_exported(physical, false, physical->holders);
	physical->bytes = bytes;
	if (was)
		change_exported(physical, true, physical->holders);
}

static uint64_t end(struct shim_physical *physical)
{
	if (physical->binds)
		shim_unpin_locked((uintptr_t)physical, true, 0);
	uint64_t left = physical->share ? shim_share_end(physical) : physical->bytes;
	free(physical);
	return left;
}

void shim_physical_drop_locked(struct shim_physical *physical, unsigned int count)
{
	if (!physical)
		return;
	set_holders(physical, physical->holders - count);
	if (physical->holders)
		return;
	enum vg_ledger_kind kind = physical->kind;
	bool evictable = physical->evictable;
	uint64_t bytes = end(physical);
	if (evictable)
		shim_refund_evictable(kind, bytes);
	else
		shim_refund(kind, bytes);
}

void shim_physical_hold_again(struct shim_physical *physical)
{
	pthread_mutex_lock(&shim_physical_lock);
	shim_physical_add(physical);
	pthread_mutex_unlock(&shim_physical_lock);
}

void shim_physical_drop(struct shim_physical *physical)
{
	pthread_mutex_lock(&shim_physical_lock);
	shim_physical_drop_locked(physical, 1);
	pthread_mutex_unlock(&shim_physical_lock);
}

struct shim_physical *shim_physical_hold(CUmemGenericAllocationHandle handle, uint64_t *ret_bytes)
{
	struct shim_record record;
	struct shim_physical *physical = NULL;

	pthread_mutex_lock(&shim_physical_lock);
	if (shim_record_find(SHIM_HANDLE, handle, &record)) {
		physical = record.data;
		shim_physical_add(physical);
		*ret_bytes = physical->bytes;
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return physical;
}

struct shim_physical *shim_physical_new(enum vg_ledger_kind kind, uint64_t bytes)
{
	struct shim_physical *physical = malloc(sizeof *physical);

	if (physical)
		*physical = (struct shim_physical){.bytes = bytes, .kind = kind, .holders = 1};
	return physical;
}

uint64_t shim_physical_return(struct shim_physical *physical)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&shim_physical_lock);
	if (physical->holders == 1)
		bytes = end(physical);
	else
		set_holders(physical, physical->holders - 1);
	pthread_mutex_unlock(&shim_physical_lock);
	return bytes;
}

// With the lock held. The charge of a record becomes that of memory which others may hold as well.
static struct shim_physical *lend(enum shim_what what, uint64_t key)
{
	struct shim_physical *physical;
	struct shim_record record;

	if (!shim_record_find(what, key, &record))
		return NULL;
	if (record.origin == SHIM_LENT)
		return record.data;
	if (record.origin == SHIM_SMALL)
		return lend(SHIM_BLOCK, key >> SHIM_BLOCK_SHIFT);
	physical = record.origin == SHIM_ALLOCATED ? shim_physical_new(record.kind, record.bytes) : NULL;
	if (!physical)
		return NULL;
	if (shim_record_lend(what, key, physical))
		return physical;
	free(physical);
	return NULL;
}

struct shim_physical *shim_physical_lend(CUdeviceptr address, uint64_t *ret_bytes)
{
	pthread_mutex_lock(&shim_physical_lock);
	struct shim_physical *physical = lend(SHIM_POINTER, address);
	if (physical) {
		shim_physical_add(physical);
		*ret_bytes = physical->bytes;
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return physical;
}

uint64_t shim_physical_set_evictable(struct shim_physical *physical, bool is_evictable)
{
	pthread_mutex_lock(&shim_physical_lock);
	uint64_t bytes = physical->evictable != is_evictable ? physical->bytes : 0;
	physical->evictable = is_evictable;
	pthread_mutex_unlock(&shim_physical_lock);
	return bytes;
}

void shim_physical_exported(struct shim_physical *physical, bool now)
{
	pthread_mutex_lock(&shim_physical_lock);
	change_exported(physical, now, physical->holders);
	pthread_mutex_unlock(&shim_physical_lock);
}

static bool is_pinned(const struct pin *wanted)
{
	const struct pin *pin = pins;

	while (pin && (pin->owner != wanted->owner || pin->offset != wanted->offset || pin->physical != wanted->physical))
		pin = pin->next;
	return pin != NULL;
}

void shim_physical_pin(struct shim_physical *physical, uint64_t owner, uint64_t offset)
{
	struct pin *pin = malloc(sizeof *pin);

	if (!pin)
		return; // the hold stays: charged until the process ends
	*pin = (struct pin){owner, offset, physical, NULL};
	pthread_mutex_lock(&shim_physical_lock);
	if (is_pinned(pin)) { // a sparse array's tiles are often mapped again
		shim_physical_drop_locked(physical, 1);
		free(pin);
	} else {
		pin->next = pins;
		pins = pin;
	}
	pthread_mutex_unlock(&shim_physical_lock);
}

void shim_unpin_locked(uint64_t owner, bool all, uint64_t offset)
{
	for (struct pin **link = &pins; *link;) {
		struct pin *pin = *link;
		if (pin->owner != owner || (!all && pin->offset != offset)) {
			link = &pin->next;
			continue;
		}
		*link = pin->next;
		shim_physical_drop_locked(pin->physical, 1);
		free(pin);
	}
}

void shim_unpin(uint64_t owner, uint64_t offset)
{
	pthread_mutex_lock(&shim_physical_lock);
	shim_unpin_locked(owner, false, offset);
	pthread_mutex_unlock(&shim_physical_lock);
}

void shim_unpin_all(uint64_t owner)
{
	pthread_mutex_lock(&shim_physical_lock);
	shim_unpin_locked(owner, true, 0);
	pthread_mutex_unlock(&shim_physical_lock);
}
