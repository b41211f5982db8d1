// Implements the daemon's operations on a ledger: it lists and reaps tenants, and sets the limit.
#include "ledger/ledger.h"

#include "ledger/layout.h"

#include <errno.h>
#include <string.h>

static bool read_tenant(struct ledger_file *file, unsigned int index, struct vg_ledger_tenant *ret_tenant)
{
	struct ledger_slot *slot = &file->slots[index];
	ledger_word owner = LEDGER_LOAD(*(uint64_t *)&slot->owner) ? ledger_word_read(&slot->owner) : 0;
	struct vg_ledger_tenant tenant = {.slot = index};

	if (!owner)
		return false;
	tenant.owner = (struct vg_ledger_owner){.pid = (uint32_t)owner,
						.pid_namespace = (uint32_t)(owner >> 32),
						.start_time = (uint64_t)(owner >> 64)};
	tenant.generation = LEDGER_LOAD(slot->generation);
	ledger_word image = ledger_word_read(&slot->image);
	tenant.image = (uint64_t)image;
	tenant.program = (uint64_t)(image >> 64);
	tenant.changes = LEDGER_LOAD(slot->done);
	tenant.used = ledger_slot_used(slot);
	for (int kind = 0; kind < VG_LEDGER_KIND_COUNT; kind++)
		tenant.by_kind[kind] = LEDGER_LOAD(slot->by_kind[kind]);
	for (int kind = VG_LEDGER_CONTEXT; kind < VG_LEDGER_KIND_COUNT; kind++)
		tenant.overhead += tenant.by_kind[kind];
	tenant.declared = ledger_slot_declared(slot, tenant.used);
	// Add a charge that is still pending to `declared`. The pending operation has the number `changes` + 1. If the
	// intent has another number, no operation is pending, or the process has begun a later one meanwhile: ignore
	// it. Each value is read only once, because it may change between two reads.
	bool is_pending = LEDGER_LOAD(slot->intent_sequence) == tenant.changes + 1;
	int64_t delta = LEDGER_LOAD(slot->intent_delta);
	if (is_pending && delta > 0)
		tenant.declared += (uint64_t)delta;
	tenant.peak = LEDGER_LOAD(slot->peak);
	tenant.undeclared = LEDGER_LOAD(slot->undeclared);
	tenant.exported = LEDGER_LOAD(slot->exported);
	tenant.adrift = LEDGER_LOAD(slot->adrift);
	tenant.pristine = LEDGER_LOAD(slot->pristine);
	tenant.guest = LEDGER_LOAD(slot->role) == LEDGER_GUEST;
	tenant.host = LEDGER_LOAD(slot->role) == LEDGER_HOST;
	tenant.entered_ns = LEDGER_LOAD(slot->entered_ns);
	tenant.process = LEDGER_LOAD(file->processes[index]);
	tenant.outer_pid = LEDGER_LOAD(slot->outer_pid);
	tenant.outer_start_time = LEDGER_LOAD(slot->outer_start_time);
	memcpy(tenant.command, slot->command, sizeof tenant.command - 1);
	if (ledger_word_read(&slot->owner) != owner || LEDGER_LOAD(slot->generation) != tenant.generation)
		return false; // the process left while its slot was read
	*ret_tenant = tenant;
	return true;
}

bool vg_ledger_next_tenant(const struct vg_ledger *ledger, unsigned int *cursor, struct vg_ledger_tenant *ret_tenant)
{
	while (*cursor < ledger_slots_touched(ledger_file_of(ledger)))
		if (read_tenant(ledger_file_of(ledger), (*cursor)++, ret_tenant))
			return true;
	return false;
}

// Returns the slot of a tenant; NULL: the slot has another owner now.
static struct ledger_slot *find_slot(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant)
{
	struct ledger_slot *slot = &ledger_file_of(ledger)->slots[tenant->slot];

	return ledger_word_read(&slot->owner) == ledger_owner_word(&tenant->owner) &&
			       LEDGER_LOAD(slot->generation) == tenant->generation
		       ? slot
		       : NULL;
}

int vg_ledger_set_outer(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, uint32_t pid,
			uint64_t start_time)
{
	struct ledger_slot *slot = find_slot(ledger, tenant);

	if (!slot)
		return VG_LEDGER_GONE;
	LEDGER_STORE(slot->outer_start_time, start_time);
	LEDGER_STORE(slot->outer_pid, pid);
	return 0;
}

int vg_ledger_set_undeclared(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, uint64_t bytes)
{
	struct ledger_slot *slot = find_slot(ledger, tenant);

	if (!slot)
		return VG_LEDGER_GONE;
	LEDGER_STORE(slot->undeclared, bytes);
	return 0;
}

void vg_ledger_clear_peak(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant)
{
	struct ledger_slot *slot = &ledger_file_of(ledger)->slots[tenant->slot];

	// A sequentially consistent store, so that no later read of this thread is done before it.
	__atomic_store_n(&slot->peak, 0, __ATOMIC_SEQ_CST);
}

// Records that all `bytes` that remain charged to the slot of a dead process are memory that exported descriptors keep
// allocated.
static void keep_exported(struct ledger_slot *slot, uint64_t bytes)
{
	for (int kind = 0; kind < VG_LEDGER_KIND_COUNT; kind++)
		LEDGER_STORE(slot->by_kind[kind], kind == VG_LEDGER_VMM ? bytes : 0);
	LEDGER_STORE(slot->apart, 0);
	LEDGER_STORE(slot->exported, bytes);
	LEDGER_STORE(slot->undeclared, 0);
}

// Makes this process the owner of the slot while it refunds; the dead owner does not access the slot. If the function
// fails or a charge remains, makes the dead process the owner again.
int vg_ledger_reap(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, const struct vg_ledger_keep *keep,
		   uint64_t *ret_refunded)
{
	struct ledger_slot *slot = &ledger_file_of(ledger)->slots[tenant->slot];
	struct vg_ledger_owner self;
	ledger_word from = ledger_owner_word(&tenant->owner);
	int r = vg_ledger_self(&self);

	if (r < 0)
		return r;
	// If this process is killed after this swap, the slot has a dead owner again and will be reaped.
	if (LEDGER_LOAD(slot->generation) != tenant->generation ||
	    !ledger_word_swap(&slot->owner, &from, ledger_owner_word(&self)))
		return VG_LEDGER_GONE;
	ledger_step("taken");
	r = ledger_slot_refund(ledger_file_of(ledger), tenant->slot, keep, LEDGER_ATTEMPTS, ret_refunded);
	uint64_t kept = ledger_slot_used(slot);
	if (r == 0 && kept)
		keep_exported(slot, kept);
	if (r == 0 && !kept) {
		// ledger_slot_refund() did not end the ownership of the shared allocations in `keep`. End it, as the
		// slot is freed.
		if (keep)
			ledger_shared_leave_all(ledger_file_of(ledger), tenant->slot, NULL, LEDGER_ATTEMPTS);
		ledger_slot_free(ledger_file_of(ledger), tenant->slot);
	} else { // the daemon reaps this slot again later
		ledger_word mine = ledger_owner_word(&self);
		ledger_word_swap(&slot->owner, &mine, ledger_owner_word(&tenant->owner));
	}
	return r;
}

// Refunds the charges of an earlier program of the process. The process may take over its old slot at the same time.
// The daemon and the process both try to swap the slot's image (the identity of the program), and the one that succeeds
// refunds the charges.
int vg_ledger_reap_program(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant,
			   const struct vg_ledger_keep *keep, uint64_t *ret_refunded)
{
	struct ledger_slot *slot = &ledger_file_of(ledger)->slots[tenant->slot];
	ledger_word image = (ledger_word)tenant->program << 64 | tenant->image, reaped = LEDGER_IMAGE_REAPED;

	if (!image || LEDGER_LOAD(slot->generation) != tenant->generation ||
	    !ledger_word_swap(&slot->image, &image, LEDGER_IMAGE_REAPED))
		return VG_LEDGER_GONE;
	ledger_step("image reaped");
	int r = vg_ledger_reap(ledger, tenant, keep, ret_refunded);
	// If the slot was not freed, put back the image that this function has replaced.
	if (r || ledger_slot_used(slot))
		ledger_word_swap(&slot->image, &reaped, image);
	return r;
}

int vg_ledger_set_limit(struct vg_ledger *ledger, uint64_t limit, uint64_t *ret_charged)
{
	struct ledger_file *file = ledger_file_of(ledger);

	for (int attempt = 0; attempt < LEDGER_ATTEMPTS; attempt++) {
		struct ledger_account now = ledger_account_read(&file->header.account);
		unsigned int generation = ledger_tag_limit(now.tag) + 1;

		*ret_charged = now.charged;
		if (now.charged > limit)
			return VG_LEDGER_REFUSED;
		LEDGER_STORE(file->header.limits[generation & 1], limit);
		ledger_step("limit");
		if (ledger_replace_tag(file, now,
				       ledger_tag(LEDGER_NO_SLOT,
						  __atomic_add_fetch(&file->header.admin_sequence, 1, __ATOMIC_RELAXED),
						  generation)))
			return 0;
		ledger_step("limit lost");
	}
	return -EAGAIN;
}
