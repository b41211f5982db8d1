#include "shim/physical.h"

#include <stdlib.h>

#include "ledger/shared.h"

struct pin {
	uint64_t owner, offset;
	struct shim_physical *physical;
	struct pin *next;
};

pthread_mutex_t shim_physical_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pin *pins;
// For each device: bytes of all memory that has exported descriptors, and bytes of the part that only these descriptors
// keep allocated.
static struct {
	uint64_t exported, descriptor_only;
} sums[SHIM_DEVICES];

static bool has_descriptors_only(const struct shim_physical *physical)
{
	return physical->is_exported && physical->references == 1;
}

// Sets two members, is_exported and references, and writes the new sums to the ledger. If this process dies, the daemon
// finds the sums there.
static void change_exported(struct shim_physical *physical, bool is_exported, unsigned int references)
{
	bool had_descriptors_only = has_descriptors_only(physical);
	__typeof__(sums[0]) *sum = &sums[physical->device];

	sum->exported -= physical->is_exported ? physical->bytes : 0;
	sum->descriptor_only -= had_descriptors_only ? physical->bytes : 0;
	physical->is_exported = is_exported;
	physical->references = references;
	sum->exported += physical->is_exported ? physical->bytes : 0;
	sum->descriptor_only += has_descriptors_only(physical) ? physical->bytes : 0;
	if (!shim_counting())
		return;
	SHIM_ON_DEVICE(physical->device);
	vg_ledger_set_exported(shim_session_ledger(), sum->exported, sum->descriptor_only);
	if (physical->shared && !physical->is_joined && has_descriptors_only(physical) != had_descriptors_only)
		vg_ledger_shared_set_away(shim_session_ledger(), physical->shared, !had_descriptors_only);
}

static void set_references(struct shim_physical *physical, unsigned int references)
{
	if (physical->is_exported)
		change_exported(physical, true, references);
	else
		physical->references = references;
}

void shim_physical_ref_locked(struct shim_physical *physical)
{
	set_references(physical, physical->references + 1);
}

void shim_physical_resize(struct shim_physical *physical, uint64_t bytes)
{
	bool was_exported = physical->is_exported;

	if (was_exported)
		change_exported(physical, false, physical->references);
	physical->bytes = bytes;
	if (was_exported)
		change_exported(physical, true, physical->references);
}

// Removes pins (references that keep memory allocated) of an array or multicast object `owner`: those with this
// `offset`, or all of them. Call it with the lock held.
static void remove_pins(uint64_t owner, bool all, uint64_t offset)
{
	for (struct pin **link = &pins; *link;) {
		struct pin *pin = *link;
		if (pin->owner != owner || (!all && pin->offset != offset)) {
			link = &pin->next;
			continue;
		}
		*link = pin->next;
		shim_physical_unref_locked(pin->physical);
		free(pin);
	}
}

// Frees the object and returns how many bytes are left to refund.
static uint64_t destroy_physical(struct shim_physical *physical)
{
	SHIM_ON_DEVICE(physical->device);

	if (physical->has_pins)
		remove_pins((uintptr_t)physical, true, 0);
	uint64_t left = physical->shared ? physical->leave_shared(physical) : physical->bytes;
	free(physical);
	return left;
}

void shim_physical_unref_locked(struct shim_physical *physical)
{
	set_references(physical, physical->references - 1);
	if (physical->references)
		return;
	enum vg_ledger_kind kind = physical->kind;
	bool is_evictable = physical->is_evictable;
	SHIM_ON_DEVICE(physical->device);
	uint64_t bytes = destroy_physical(physical);
	if (is_evictable)
		shim_refund_evictable(kind, bytes);
	else
		shim_refund(kind, bytes);
}

void shim_physical_ref(struct shim_physical *physical)
{
	pthread_mutex_lock(&shim_physical_lock);
	shim_physical_ref_locked(physical);
	pthread_mutex_unlock(&shim_physical_lock);
}

void shim_physical_unref(struct shim_physical *physical)
{
	if (!physical)
		return;
	pthread_mutex_lock(&shim_physical_lock);
	shim_physical_unref_locked(physical);
	pthread_mutex_unlock(&shim_physical_lock);
}

struct shim_physical *shim_physical_create(enum vg_ledger_kind kind, uint64_t bytes)
{
	struct shim_physical *physical = malloc(sizeof *physical);

	if (physical)
		*physical = (struct shim_physical){
			.bytes = bytes, .kind = kind, .references = 1, .device = (uint8_t)shim_device()};
	return physical;
}

uint64_t shim_physical_detach(struct shim_physical *physical)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&shim_physical_lock);
	if (physical->references == 1)
		bytes = destroy_physical(physical);
	else
		set_references(physical, physical->references - 1);
	pthread_mutex_unlock(&shim_physical_lock);
	return bytes;
}

// Moves the charge of a record into a new shim_physical. Call it with the lock held.
static struct shim_physical *move_charge(enum shim_record_type type, uint64_t key)
{
	struct shim_physical *physical;
	struct shim_record record;

	if (!shim_record_find(type, key, &record))
		return NULL;
	if (record.origin == SHIM_SHARED)
		return record.data;
	if (record.origin == SHIM_SMALL)
		return move_charge(SHIM_BLOCK, key >> SHIM_BLOCK_SHIFT);
	physical = record.origin == SHIM_ALLOCATED ? shim_physical_create(record.kind, record.bytes) : NULL;
	if (!physical)
		return NULL;
	physical->device = (uint8_t)(record.device - 1);
	if (shim_record_set_physical(type, key, physical))
		return physical;
	free(physical);
	return NULL;
}

struct shim_physical *shim_physical_of_allocation(CUdeviceptr address, uint64_t *ret_bytes)
{
	pthread_mutex_lock(&shim_physical_lock);
	struct shim_physical *physical = move_charge(SHIM_POINTER, address);
	if (physical) {
		shim_physical_ref_locked(physical);
		*ret_bytes = physical->bytes;
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return physical;
}

uint64_t shim_physical_set_evictable(struct shim_physical *physical, bool is_evictable)
{
	pthread_mutex_lock(&shim_physical_lock);
	uint64_t bytes = physical->is_evictable != is_evictable ? physical->bytes : 0;
	physical->is_evictable = is_evictable;
	pthread_mutex_unlock(&shim_physical_lock);
	return bytes;
}

void shim_physical_set_exported(struct shim_physical *physical, bool is_exported)
{
	pthread_mutex_lock(&shim_physical_lock);
	change_exported(physical, is_exported, physical->references);
	pthread_mutex_unlock(&shim_physical_lock);
}

static bool is_pinned(const struct pin *wanted)
{
	const struct pin *pin = pins;

	while (pin &&
	       (pin->owner != wanted->owner || pin->offset != wanted->offset || pin->physical != wanted->physical))
		pin = pin->next;
	return pin != NULL;
}

void shim_physical_pin(struct shim_physical *physical, uint64_t owner, uint64_t offset)
{
	struct pin *pin = malloc(sizeof *pin);

	if (!pin)
		return; // the reference stays, so the memory stays charged until the process ends
	*pin = (struct pin){owner, offset, physical, NULL};
	pthread_mutex_lock(&shim_physical_lock);
	if (is_pinned(pin)) { // already pinned: the same memory is often mapped again as a tile of a sparse array
		shim_physical_unref_locked(physical);
		free(pin);
	} else {
		pin->next = pins;
		pins = pin;
	}
	pthread_mutex_unlock(&shim_physical_lock);
}

void shim_unpin(uint64_t owner, uint64_t offset)
{
	pthread_mutex_lock(&shim_physical_lock);
	remove_pins(owner, false, offset);
	pthread_mutex_unlock(&shim_physical_lock);
}

void shim_unpin_all(uint64_t owner)
{
	pthread_mutex_lock(&shim_physical_lock);
	remove_pins(owner, true, 0);
	pthread_mutex_unlock(&shim_physical_lock);
}
