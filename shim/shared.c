#include "shim/shared.h"

#include <stdlib.h>
#include <string.h>

#include "ledger/shared.h"
#include "shim/mark.h"
#include "shim/registration.h"
#include "shim/undeclared.h"

// list of all shared allocations that this process has open; guarded by shim_physical_lock
static struct shim_physical *shared;

static void remove_shared(struct shim_physical *physical)
{
	struct shim_physical **link = &shared;

	while (*link != physical)
		link = &(*link)->next_shared;
	*link = physical->next_shared;
	physical->shared = 0;
}

// Finds this process's object for a shared allocation of its own vGPU.
static struct shim_physical *find_shared(uint32_t number)
{
	for (struct shim_physical *physical = shared; physical; physical = physical->next_shared)
		if (physical->shared == number && !physical->guest_of && physical->device == shim_device())
			return physical;
	return NULL;
}

static struct shim_physical *find_guest(uint32_t number, const char *of)
{
	for (struct shim_physical *physical = shared; physical; physical = physical->next_shared)
		if (physical->shared == number && physical->guest_of && strcmp(physical->guest_of, of) == 0)
			return physical;
	return NULL;
}

// Removes this process's object from its shared allocation. If this process owns the shared allocation and other
// processes have it open, the shared allocation keeps the charge. *ret_passed is the number of bytes that it keeps,
// which the caller does not refund.
static void leave_shared(struct shim_physical *physical, uint64_t *ret_passed)
{
	uint32_t number = physical->shared;
	SHIM_ON_DEVICE(physical->device);

	*ret_passed = 0;
	remove_shared(physical);
	if (physical->guest_of) {
		if (shim_counting())
			shim_guest_leave(vg_ledger_name(shim_session_ledger()), number, physical->guest_of);
		free(physical->guest_of);
		physical->guest_of = NULL;
		return;
	}
	if (shim_counting() && !find_shared(number)) // this process has no other reference to the shared allocation
		vg_ledger_shared_leave(shim_session_ledger(), number, physical->kind, physical->bytes, ret_passed);
}

static uint64_t leave_and_count(struct shim_physical *physical)
{
	uint64_t passed;

	leave_shared(physical, &passed);
	return physical->bytes - passed;
}

static void add_shared(struct shim_physical *physical, uint32_t number)
{
	physical->shared = number;
	physical->leave_shared = leave_and_count;
	physical->next_shared = shared;
	shared = physical;
}

// Makes memory for which this process is charged a shared allocation, unless it is one already.
static bool make_shared(struct shim_physical *physical)
{
	uint32_t number;
	SHIM_ON_DEVICE(physical->device);

	if (physical->shared)
		return true;
	if (vg_ledger_shared_create(shim_session_ledger(), physical->bytes, &number) != 0)
		return false;
	add_shared(physical, number);
	return true;
}

void shim_shared_name(struct shim_physical *physical, uint64_t key)
{
	SHIM_ON_DEVICE(physical->device);

	pthread_mutex_lock(&shim_physical_lock);
	if (shim_counting() && !physical->is_joined && make_shared(physical))
		vg_ledger_shared_add_name(shim_session_ledger(), physical->shared, key, true);
	pthread_mutex_unlock(&shim_physical_lock);
}

// Takes a reference to the shared allocation `key` of this process's vGPU. Call this and all other static functions
// below with the lock held.
static struct shim_physical *join_here(uint64_t key)
{
	struct vg_ledger *ledger = shim_session_ledger();
	uint32_t number = vg_ledger_shared_find(ledger, key);
	struct shim_physical *physical = number ? find_shared(number) : NULL;
	uint64_t size;

	if (physical) {
		shim_physical_ref_locked(physical);
		return physical;
	}
	if (!number || !(physical = shim_physical_create(VG_LEDGER_IMPORT, 0)))
		return NULL;
	if (vg_ledger_shared_join(ledger, key, &number, &size) != 0) {
		free(physical);
		return NULL;
	}
	physical->is_joined = true;
	add_shared(physical, number);
	// After the process that owns the memory has ended, the driver may report the memory as memory of this process.
	// So the daemon must not derive the size of a context from this process's memory any more.
	shim_first_context_ended();
	return physical;
}

// Creates this process's object for a shared allocation of another vGPU. The daemon has made this process a guest of
// that vGPU, so the memory stays charged there while this process has it open.
static struct shim_physical *create_guest(const struct vg_wire_guest *guest)
{
	struct shim_physical *physical = find_guest(guest->share, guest->vgpu);

	if (physical) {
		shim_physical_ref_locked(physical);
		return physical;
	}
	physical = shim_physical_create(VG_LEDGER_IMPORT, 0);
	if (physical)
		physical->guest_of = strdup(guest->vgpu);
	if (!physical || !physical->guest_of) {
		free(physical);
		shim_guest_leave(vg_ledger_name(shim_session_ledger()), guest->share, guest->vgpu);
		return NULL;
	}
	physical->is_joined = true;
	add_shared(physical, guest->share);
	shim_first_context_ended();
	return physical;
}

// Calls join_here() for all devices of this process.
static struct shim_physical *join_on_any_device(uint64_t key)
{
	struct shim_physical *physical = NULL;

	for (unsigned int i = 0; i < shim_device_count && !physical; i++) {
		SHIM_ON_DEVICE(i);
		physical = join_here(key);
	}
	return physical;
}

struct shim_physical *shim_shared_join(uint64_t key)
{
	struct shim_physical *physical;
	struct vg_wire_guest guest;

	if (!shim_counting())
		return NULL;
	// Hold the lock also while the message is sent. Otherwise messages of two threads about opening and closing
	// memory could reach the daemon in the wrong order.
	pthread_mutex_lock(&shim_physical_lock);
	physical = join_on_any_device(key);
	if (!physical && shim_guest_join(vg_ledger_name(shim_session_ledger()), key, &guest))
		physical = create_guest(&guest);
	pthread_mutex_unlock(&shim_physical_lock);
	return physical;
}

struct shim_physical *shim_shared_join_descriptor(char kind, int descriptor)
{
	enum { MOST = 8 };
	uint64_t marks[MOST];
	unsigned int count = shim_mark_read(descriptor, marks, MOST);
	struct shim_physical *physical = NULL;

	for (unsigned int i = 0; i < count && !physical; i++)
		physical = shim_shared_join(vg_ledger_key(kind, &marks[i], sizeof marks[i]));
	return physical;
}

// Notes that another process owns the memory, as shared allocation `number`. Refunds this process's charge, since the
// owner is charged.
static void become_joined(struct shim_physical *physical, uint32_t number)
{
	uint64_t charged = physical->bytes;

	physical->is_joined = true;
	add_shared(physical, number);
	shim_physical_resize(physical, 0);
	shim_refund(physical->kind, charged);
}

static void name_or_join(struct shim_physical *physical, uint64_t key)
{
	SHIM_ON_DEVICE(physical->device);
	struct vg_ledger *ledger = shim_session_ledger();
	uint64_t size, passed;
	uint32_t number;

	if (physical->is_joined)
		return;
	if (!physical->shared && vg_ledger_shared_join(ledger, key, &number, &size) == 0) {
		become_joined(physical, number);
		return;
	}
	if (!make_shared(physical) ||
	    vg_ledger_shared_add_name(ledger, physical->shared, key, false) != VG_LEDGER_REFUSED)
		return;
	// no other process has the allocation open, since no process knows a key for it
	leave_shared(physical, &passed);
	if (vg_ledger_shared_join(ledger, key, &number, &size) == 0)
		become_joined(physical, number);
}

void shim_shared_name_or_join(struct shim_physical *physical, uint64_t key)
{
	pthread_mutex_lock(&shim_physical_lock);
	if (shim_counting())
		name_or_join(physical, key);
	pthread_mutex_unlock(&shim_physical_lock);
}

bool shim_shared_is_joined(struct shim_physical *physical)
{
	pthread_mutex_lock(&shim_physical_lock);
	bool is_joined = physical->is_joined;
	pthread_mutex_unlock(&shim_physical_lock);
	return is_joined;
}

void shim_shared_mark(struct shim_physical *physical, int descriptor)
{
	pthread_mutex_lock(&shim_physical_lock);
	uint64_t mark = shim_mark_put(descriptor, physical->mark);
	if (mark)
		physical->mark = mark;
	pthread_mutex_unlock(&shim_physical_lock);
	shim_shared_name_marked(physical);
}

void shim_shared_mark_only(struct shim_physical *physical, int descriptor)
{
	pthread_mutex_lock(&shim_physical_lock);
	if (!shim_mark_read(descriptor, &physical->mark, 1)) // another importer may have set a mark
		physical->mark = shim_mark_put(descriptor, 0);
	pthread_mutex_unlock(&shim_physical_lock);
}

void shim_shared_name_marked(struct shim_physical *physical)
{
	pthread_mutex_lock(&shim_physical_lock);
	if (physical->mark && shim_counting())
		name_or_join(physical, vg_ledger_key(SHIM_KEY_DESCRIPTOR, &physical->mark, sizeof physical->mark));
	pthread_mutex_unlock(&shim_physical_lock);
}
