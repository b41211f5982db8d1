#include "daemon/eviction.h"

#include "base/clock.h"
#include "base/size.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READ(word) atomic_load_explicit(&(word), memory_order_relaxed)

bool eviction_is_suspended(const struct vgpu *vgpu)
{
	return vgpu->evictable && READ(vg_ledger_pager_page(vgpu->ledger)->suspended);
}

bool eviction_next_slot(const struct vgpu *vgpu, unsigned int *cursor, unsigned int *ret_slot)
{
	struct vg_ledger_tenant seen;

	while (vg_ledger_next_tenant(vgpu->ledger, cursor, &seen))
		if (!seen.guest && !seen.host) {
			*ret_slot = seen.slot;
			return true;
		}
	return false;
}

static void ring_processes(const struct vgpu *vgpu, uint32_t drain_ms)
{
	struct pager_slot *slots = vg_ledger_pager_slots(vgpu->ledger);
	unsigned int cursor = 0, slot;

	while (eviction_next_slot(vgpu, &cursor, &slot)) {
		if (drain_ms)
			atomic_store_explicit(&slots[slot].drain_ms, drain_ms, memory_order_relaxed);
		eviction_ring(&slots[slot]);
	}
}

void eviction_ring(struct pager_slot *slot)
{
	atomic_fetch_add_explicit(&slot->bell, 1, memory_order_release);
	// no FUTEX_PRIVATE_FLAG: the waiter is another process
	syscall(SYS_futex, &slot->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void eviction_name_holder(struct vgpu *vgpu, const char *holder)
{
	struct pager_page *page = vg_ledger_pager_page(vgpu->ledger);

	if (strncmp(page->holder, holder, sizeof page->holder) != 0)
		snprintf(page->holder, sizeof page->holder, "%s", holder);
}

void eviction_apply(struct vgpu *vgpu, uint32_t drain_ms)
{
	struct pager_page *page = vg_ledger_pager_page(vgpu->ledger);

	atomic_store(&page->out, eviction_is_suspended(vgpu) || vgpu->residence.is_evicted);
	ring_processes(vgpu, drain_ms);
}

// Returns a number that differs from those of earlier announcements, also of earlier daemons.
static uint32_t next_announcement(void)
{
	static uint32_t last;

	if (last == 0)
		last = (uint32_t)(vg_clock_monotonic_ns() / 1000000);
	last++;
	return last ? last : ++last;
}

void eviction_set_room_comes(struct vgpu *vgpu, bool comes)
{
	uint32_t *announced = &vgpu->residence.announced;

	if (!comes)
		*announced = 0;
	else if (*announced == 0)
		*announced = next_announcement();
	atomic_store(&vg_ledger_pager_page(vgpu->ledger)->room_comes, *announced);
}

void eviction_set_ask(struct vgpu *vgpu, uint32_t ms)
{
	struct pager_page *page = vg_ledger_pager_page(vgpu->ledger);

	if (atomic_exchange(&page->ask_ms, ms) != ms)
		ring_processes(vgpu, 0);
}

void eviction_read_slot(const struct vgpu *vgpu, unsigned int slot, struct eviction *ret_eviction)
{
	struct pager_slot *words = &vg_ledger_pager_slots(vgpu->ledger)[slot];
	uint32_t answered = atomic_load_explicit(&words->answered, memory_order_acquire); // read before the other words
	uint32_t state = READ(words->state), reason = READ(words->reason);
	struct eviction now = {.state = state < PAGER_STATE_COUNT ? (enum pager_state)state : PAGER_STATE_COUNT,
			       .reason = reason < PAGER_REASON_COUNT ? (enum pager_reason)reason : PAGER_REASON_COUNT,
			       .row = READ(words->row),
			       .waiting = READ(words->waiting),
			       .moves = READ(words->moves),
			       .bytes = vg_size_min(READ(words->bytes), vgpu->memory),
			       .host = READ(words->host),
			       .missing = READ(words->missing),
			       .unchanged = READ(words->unchanged),
			       .hash_result = READ(words->hash_result),
			       .since_ns = READ(words->since_ns),
			       .moved_ns = vg_size_min(READ(words->moved_ns), INT64_MAX),
			       .waited_ns = vg_size_min(READ(words->waited_ns), INT64_MAX),
			       .is_out = READ(words->out) || READ(vg_ledger_pager_page(vgpu->ledger)->out),
			       .is_evicted =
				       vgpu->residence.is_evicted && !READ(words->out) && !eviction_is_suspended(vgpu),
			       .active_ns = READ(words->active_ns),
			       .is_pending = READ(words->bell) != answered};

	now.host = vg_size_min(now.host, now.bytes);
	now.missing = vg_size_min(now.missing, now.bytes);
	now.unchanged = vg_size_min(now.unchanged, now.bytes);
	*ret_eviction = now;
}

bool eviction_is_deep(const struct tenant *tenant)
{
	return READ(vg_ledger_pager_slots(tenant->vgpu->ledger)[tenant->seen.slot].park) & PAGER_PARK_DEEP;
}

bool eviction_concerns(const struct tenant *tenant)
{
	return !tenant->is_dead && !tenant->is_replaced && !tenant->seen.guest && !tenant->seen.host;
}
