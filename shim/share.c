#include <stdlib.h>
#include <string.h>

#include "ledger/share.h"
#include "shim/hello.h"
#include "shim/physical.h"
#include "shim/undeclared.h"

static struct shim_physical *shared; // all with a share

static void remember(struct shim_physical *physical, uint32_t share)
{
	physical->share = share;
	physical->next_shared = shared;
	shared = physical;
}

static void forget(struct shim_physical *physical)
{
	struct shim_physical **link = &shared;

	while (*link != physical)
		link = &(*link)->next_shared;
	*link = physical->next_shared;
	physical->share = 0;
}

static struct shim_physical *find(uint32_t share)
{
	for (struct shim_physical *physical = shared; physical; physical = physical->next_shared)
		if (physical->share == share && !physical->guest_of)
			return physical;
	return NULL;
}

// Our own share of what we are charged for, made when it is first asked for.
static bool have_share(struct shim_physical *physical)
{
	uint32_t share;

	if (physical->share)
		return true;
	if (vg_ledger_share_make(shim_session_ledger(), physical->bytes, &share) != 0)
		return false;
	remember(physical, share);
	return true;
}

void shim_share_publish(struct shim_physical *physical, uint64_t key)
{
	pthread_mutex_lock(&shim_physical_lock);
	if (shim_counting() && !physical->joined && have_share(physical))
		vg_ledger_share_name(shim_session_ledger(), physical->share, key, true);
	pthread_mutex_unlock(&shim_physical_lock);
}

static struct shim_physical *join_locked(uint64_t key)
{
	struct vg_ledger *ledger = shim_session_ledger();
	uint32_t share = vg_ledger_share_find(ledger, key);
	struct shim_physical *physical = share ? find(share) : NULL;
	uint64_t size;

	if (physical) {
		shim_physical_add(physical);
		return physical;
	}
	if (!share || !(physical = shim_physical_new(VG_LEDGER_IMPORT, 0)))
		return NULL;
	if (vg_ledger_share_join(ledger, key, &share, &size) != 0) {
		free(physical);
		return NULL;
	}
	physical->joined = true;
	physical->size = size;
	remember(physical, share);
	shim_first_context_over(); // when its owner has gone, it may show with us
	return physical;
}

static struct shim_physical *find_guest(uint32_t share, const char *of)
{
	for (struct shim_physical *physical = shared; physical; physical = physical->next_shared)
		if (physical->share == share && physical->guest_of && strcmp(physical->guest_of, of) == 0)
			return physical;
	return NULL;
}

// What the daemon has made us a guest for.
static struct shim_physical *guest_locked(const struct vg_wire_guest *guest)
{
	struct shim_physical *physical = find_guest(guest->share, guest->vgpu);

	if (physical) {
		shim_physical_add(physical);
		return physical;
	}
	physical = shim_physical_new(VG_LEDGER_IMPORT, 0);
	if (physical)
		physical->guest_of = strdup(guest->vgpu);
	if (!physical || !physical->guest_of) {
		free(physical);
		shim_guest_leave(vg_ledger_name(shim_session_ledger()), guest->share, guest->vgpu);
		return NULL;
	}
	physical->joined = true;
	physical->size = guest->key;
	remember(physical, guest->share);
	shim_first_context_over();
	return physical;
}

struct shim_physical *shim_share_hold(uint64_t key)
{
	struct shim_physical *physical;
	struct vg_wire_guest guest;

	if (!shim_counting())
		return NULL;
	pthread_mutex_lock(&shim_physical_lock); // the daemon, too, must hear of joining and leaving in order
	physical = join_locked(key);
	if (!physical && shim_guest_join(vg_ledger_name(shim_session_ledger()), key, &guest))
		physical = guest_locked(&guest);
	pthread_mutex_unlock(&shim_physical_lock);
	return physical;
}

static uint64_t key_of_mark(uint64_t mark)
{
	return vg_ledger_key(SHIM_KEY_DESCRIPTOR, &mark, sizeof mark);
}

struct shim_physical *shim_share_hold_descriptor(char kind, int descriptor)
{
	enum { MOST = 8 };
	uint64_t marks[MOST];
	unsigned int count = shim_mark_read(descriptor, marks, MOST);
	struct shim_physical *physical = NULL;

	for (unsigned int i = 0; i < count && !physical; i++)
		physical = shim_share_hold(vg_ledger_key(kind, &marks[i], sizeof marks[i]));
	return physical;
}

static void leave(struct shim_physical *physical, uint64_t *ret_passed)
{
	uint32_t share = physical->share;

	*ret_passed = 0;
	forget(physical);
	if (physical->guest_of) {
		if (shim_counting())
			shim_guest_leave(vg_ledger_name(shim_session_ledger()), share, physical->guest_of);
		free(physical->guest_of);
		physical->guest_of = NULL;
		return;
	}
	if (shim_counting() && !find(share)) // another address of the same memory
		vg_ledger_share_leave(shim_session_ledger(), share, physical->kind, physical->bytes, ret_passed);
}

uint64_t shim_share_end(struct shim_physical *physical)
{
	uint64_t passed;

	leave(physical, &passed);
	return physical->bytes - passed;
}

// The charge was ours, and is another's from now on.
static void become_joined(struct shim_physical *physical, uint32_t share, uint64_t size)
{
	uint64_t charged = physical->bytes;

	physical->joined = true;
	physical->size = size;
	remember(physical, share);
	shim_physical_resize(physical, 0);
	shim_refund(physical->kind, charged);
}

// With the lock held.
static void offer(struct shim_physical *physical, uint64_t key)
{
	struct vg_ledger *ledger = shim_session_ledger();
	uint64_t size, passed;
	uint32_t share;

	if (physical->joined)
		return;
	if (!physical->share && vg_ledger_share_join(ledger, key, &share, &size) == 0) {
		become_joined(physical, share, size);
		return;
	}
	if (!have_share(physical) || vg_ledger_share_name(ledger, physical->share, key, false) != VG_LEDGER_REFUSED)
		return;
	leave(physical, &passed); // nobody knew it
	if (vg_ledger_share_join(ledger, key, &share, &size) == 0)
		become_joined(physical, share, size);
}

void shim_share_offer(struct shim_physical *physical, uint64_t key)
{
	pthread_mutex_lock(&shim_physical_lock);
	if (shim_counting())
		offer(physical, key);
	pthread_mutex_unlock(&shim_physical_lock);
}

CUresult shim_share_own(enum vg_entry entry, struct shim_physical *physical)
{
	uint64_t size, passed, ours = 0;

	pthread_mutex_lock(&shim_physical_lock);
	size = physical->joined ? physical->size : 0;
	pthread_mutex_unlock(&shim_physical_lock);
	CUresult result = size ? shim_charge(entry, VG_LEDGER_IMPORT, size) : CUDA_SUCCESS;
	if (!size || result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&shim_physical_lock);
	if (physical->joined) {
		ours = size;
		leave(physical, &passed);
		physical->joined = false;
		physical->mark = 0;
		shim_physical_resize(physical, size);
	}
	pthread_mutex_unlock(&shim_physical_lock);
	shim_refund(VG_LEDGER_IMPORT, size - ours);
	return CUDA_SUCCESS;
}

void shim_share_mark(struct shim_physical *physical, int descriptor)
{
	pthread_mutex_lock(&shim_physical_lock);
	uint64_t mark = shim_mark_put(descriptor, physical->mark);
	if (mark)
		physical->mark = mark;
	pthread_mutex_unlock(&shim_physical_lock);
	shim_share_offer_marked(physical);
}

void shim_share_mark_later(struct shim_physical *physical, int descriptor)
{
	pthread_mutex_lock(&shim_physical_lock);
	if (!shim_mark_read(descriptor, &physical->mark, 1)) // another importer's will do
		physical->mark = shim_mark_put(descriptor, 0);
	pthread_mutex_unlock(&shim_physical_lock);
}

void shim_share_offer_marked(struct shim_physical *physical)
{
	pthread_mutex_lock(&shim_physical_lock);
	if (physical->mark && shim_counting())
		offer(physical, key_of_mark(physical->mark));
	pthread_mutex_unlock(&shim_physical_lock);
}
