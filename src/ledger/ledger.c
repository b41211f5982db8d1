#include "ledger/ledger.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/hot.h"
#include "ledger/layout.h"
#include "ledger/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

struct vg_ledger {
	struct ledger_file *file;
	struct ledger_process *process;
	struct ledger_slot *likely; // this process's own, unless it was forked: for vg_ledger_warm only
};

struct ledger_file *ledger_file_of(const struct vg_ledger *ledger)
{
	return ledger->file;
}

int ledger_wrap(struct ledger_file *file, struct vg_ledger **ret_ledger)
{
	struct vg_ledger *ledger = calloc(1, sizeof *ledger);

	if (!ledger)
		return -ENOMEM;
	int r = ledger_process_create(&ledger->process);
	if (r < 0) {
		free(ledger);
		return r;
	}
	ledger->file = file;
	*ret_ledger = ledger;
	return 0;
}

void vg_ledger_close(struct vg_ledger *ledger)
{
	if (!ledger)
		return;
	ledger_file_unmap(ledger->file);
	ledger_process_destroy(ledger->process);
	free(ledger);
}

int vg_ledger_self(struct vg_ledger_owner *ret_owner)
{
	struct stat namespace;
	uint64_t start_time;

	if (stat("/proc/self/ns/pid", &namespace) < 0)
		return -errno;
	// By /proc/self: in a pid namespace with the outer /proc the number is another one.
	int r = ledger_start_time_of_self(&start_time);
	if (r < 0)
		return r;
	*ret_owner = (struct vg_ledger_owner){
		.pid = (uint32_t)getpid(), .pid_namespace = (uint32_t)namespace.st_ino, .start_time = start_time};
	return 0;
}

static uint64_t hash_of(const unsigned char *bytes, size_t length)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * 1099511628211u;
	return hash;
}

uint64_t vg_ledger_program_of(pid_t pid)
{
	char path[32], bytes[4096];

	snprintf(path, sizeof path, "/proc/%d/auxv", (int)pid);
	ssize_t length = vg_file_read(pid ? path : "/proc/self/auxv", bytes, sizeof bytes);
	return length > 0 ? hash_of((unsigned char *)bytes, (size_t)length) : 0;
}

// The kernel gives every program it starts other random bytes and addresses, and fork keeps
// them. The bytes are hashed since they also seed the stack protector; the addresses are what
// the daemon can see from outside.
static ledger_word image_of_self(void)
{
	const unsigned char *bytes = (const unsigned char *)getauxval(AT_RANDOM);

	return (ledger_word)vg_ledger_program_of(0) << 64 | (bytes ? hash_of(bytes, 16) | 2 : 2);
}

ledger_word ledger_owner_word(const struct vg_ledger_owner *owner)
{
	return (ledger_word)owner->start_time << 64 | (ledger_word)owner->pid_namespace << 32 | owner->pid;
}

// pid and namespace, and a start time that may be a tick off (base/descriptor.h).
static bool ledger_owner_same(ledger_word left, ledger_word right)
{
	return (uint64_t)left == (uint64_t)right && vg_start_time_same((uint64_t)(left >> 64), (uint64_t)(right >> 64));
}

bool vg_ledger_owner_same(const struct vg_ledger_owner *left, const struct vg_ledger_owner *right)
{
	return ledger_owner_same(ledger_owner_word(left), ledger_owner_word(right));
}

static void describe_slot(struct ledger_slot *slot)
{
	char command[64] = "";

	slot->entered_ns = vg_clock_realtime_ns();
	if (vg_file_read("/proc/self/comm", command, sizeof command) > 0) {
		command[strcspn(command, "\n")] = '\0';
		memcpy(slot->command, command, VG_LEDGER_COMMAND - 1);
	}
}

static void touch_slot(struct ledger_header *header, unsigned int index)
{
	uint32_t touched = LEDGER_LOAD(header->slots_touched);

	while (touched < index + 1 && !__atomic_compare_exchange_n(&header->slots_touched, &touched, index + 1, false,
								   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
}

static unsigned int slots_touched(const struct ledger_file *file)
{
	uint32_t touched = LEDGER_LOAD(file->header.slots_touched);

	return touched < VG_LEDGER_SLOTS ? touched : VG_LEDGER_SLOTS;
}

// A slot of this very process that the program before exec left behind.
static int take_over_slot(struct ledger_file *file, ledger_word self, ledger_word image, unsigned int *ret_index)
{
	for (unsigned int i = 0; i < slots_touched(file); i++) {
		struct ledger_slot *slot = &file->slots[i];
		uint64_t refunded;

		if (LEDGER_LOAD(*(uint64_t *)&slot->owner) != (uint64_t)self ||
		    !ledger_owner_same(ledger_word_read(&slot->owner), self))
			continue;
		// Descriptors that it exported may have passed over exec: the daemon knows which.
		if (LEDGER_LOAD(slot->exported))
			continue;
		ledger_word old = ledger_word_read(&slot->image);
		if (!old || old == image || old == LEDGER_IMAGE_TAKEN || !ledger_word_swap(&slot->image, &old, image))
			continue;
		ledger_slot_refund(file, i, NULL, 0, &refunded);
		memset(slot->by_kind, 0, sizeof slot->by_kind);
		LEDGER_STORE(slot->apart, 0);
		LEDGER_STORE(slot->undeclared, 0);
		LEDGER_STORE(slot->pristine, 0);
		LEDGER_STORE(slot->role, LEDGER_TENANT);
		*ret_index = i;
		return 0;
	}
	return VG_LEDGER_FULL;
}

static int claim_slot(struct ledger_file *file, ledger_word self, ledger_word image, unsigned int *ret_index)
{
	for (unsigned int i = 0; i < VG_LEDGER_SLOTS; i++) {
		struct ledger_slot *slot = &file->slots[i];

		// Touched first: the daemon must find a slot whose claimer died right here.
		touch_slot(&file->header, i);
		if (LEDGER_LOAD(*(uint64_t *)&slot->owner) != 0)
			continue;
		ledger_word nobody = 0;
		if (!ledger_word_swap(&slot->owner, &nobody, self))
			continue;
		ledger_step("claimed");
		ledger_word none = 0;
		ledger_word_swap(&slot->image, &none, image);
		ledger_step("image");
		*ret_index = i;
		return 0;
	}
	return VG_LEDGER_FULL;
}

VG_COLD static int enter_locked(struct vg_ledger *ledger)
{
	struct ledger_file *file = ledger->file;
	struct ledger_process *process = ledger->process;
	struct vg_ledger_owner owner;
	ledger_word image = image_of_self();
	unsigned int index;

	if (process->slot_number != LEDGER_NO_SLOT)
		return 0;
	int r = vg_ledger_self(&owner);
	if (r < 0)
		return r;
	r = take_over_slot(file, ledger_owner_word(&owner), image, &index);
	if (r == VG_LEDGER_FULL)
		r = claim_slot(file, ledger_owner_word(&owner), image, &index);
	if (r)
		return r;
	describe_slot(&file->slots[index]);
	LEDGER_STORE(file->processes[index], (uint64_t)(uintptr_t)process);
	__atomic_add_fetch(&file->header.enters, 1, __ATOMIC_RELAXED);
	process->slot_number = index + 1;
	__atomic_store_n(&ledger->likely, &file->slots[index], __ATOMIC_RELAXED);
	return 0;
}

int ledger_slot_take(const struct vg_ledger *ledger, unsigned int *ret_index)
{
	vg_lock_take(&ledger->process->lock);
	if (ledger->process->slot_number != LEDGER_NO_SLOT) {
		*ret_index = ledger->process->slot_number - 1;
		return 0;
	}
	vg_lock_give(&ledger->process->lock);
	return VG_LEDGER_FULL;
}

void ledger_forget_slot(struct vg_ledger *ledger)
{
	ledger->process->slot_number = LEDGER_NO_SLOT;
}

void ledger_slot_give(const struct vg_ledger *ledger)
{
	vg_lock_give(&ledger->process->lock);
}

int ledger_guest_slot(struct ledger_file *file, const struct vg_ledger_owner *process, const uint64_t *program,
		      unsigned int *ret_index)
{
	ledger_word self = ledger_owner_word(process);

	for (unsigned int i = 0; i < slots_touched(file); i++) {
		struct ledger_slot *slot = &file->slots[i];
		if (LEDGER_LOAD(slot->role) != LEDGER_GUEST || !ledger_owner_same(ledger_word_read(&slot->owner), self))
			continue;
		ledger_slot_settle(file, i); // a daemon before us may have been killed
		*ret_index = i;
		return 0;
	}
	if (!program)
		return VG_LEDGER_GONE;
	int r = claim_slot(file, self, *program ? (ledger_word)*program << 64 | 2 : 0, ret_index);
	if (r == 0) {
		LEDGER_STORE(file->slots[*ret_index].entered_ns, vg_clock_realtime_ns());
		LEDGER_STORE(file->slots[*ret_index].role, LEDGER_GUEST);
	}
	return r;
}

int vg_ledger_enter(struct vg_ledger *ledger)
{
	vg_lock_take(&ledger->process->lock);
	int r = enter_locked(ledger);
	vg_lock_give(&ledger->process->lock);
	return r;
}

void vg_ledger_leave(struct vg_ledger *ledger)
{
	uint64_t refunded;

	vg_lock_take(&ledger->process->lock);
	unsigned int number = ledger->process->slot_number;
	if (number != LEDGER_NO_SLOT && ledger_slot_refund(ledger->file, number - 1, NULL, 0, &refunded) == 0) {
		ledger->process->slot_number = LEDGER_NO_SLOT;
		ledger_slot_free(ledger->file, number - 1);
	}
	vg_lock_give(&ledger->process->lock);
}

VG_HOT void vg_ledger_warm(const struct vg_ledger *ledger)
{
	const struct ledger_header *header = &ledger->file->header;
	const struct ledger_slot *slot = __atomic_load_n(&ledger->likely, __ATOMIC_RELAXED);

	__builtin_prefetch(ledger->process, 1);
	__builtin_prefetch(&header->account, 1);
	__builtin_prefetch(header->limits);
	__builtin_prefetch(&slot->intent_sequence, 1);
	__builtin_prefetch(slot->used, 1);
	__builtin_prefetch(slot->by_kind, 1);
}

VG_HOT int vg_ledger_reserve(struct vg_ledger *ledger, enum vg_ledger_kind kind, uint64_t bytes)
{
	if (bytes > INT64_MAX)
		return VG_LEDGER_REFUSED;
	vg_lock_take(&ledger->process->lock);
	int r = ledger->process->slot_number == LEDGER_NO_SLOT ? enter_locked(ledger) : 0;
	if (r == 0)
		r = ledger_operate(ledger->file, ledger->process->slot_number - 1, kind, (int64_t)bytes, 0);
	vg_lock_give(&ledger->process->lock);
	return r;
}

VG_HOT void vg_ledger_refund(struct vg_ledger *ledger, enum vg_ledger_kind kind, uint64_t bytes)
{
	vg_lock_take(&ledger->process->lock);
	unsigned int number = ledger->process->slot_number;
	if (number != LEDGER_NO_SLOT) { // a forked child has charged nothing
		struct ledger_slot *slot = &ledger->file->slots[number - 1];
		uint64_t most = slot->by_kind[kind];

		if (bytes > most)
			bytes = most;
		if (bytes)
			ledger_operate(ledger->file, number - 1, kind, -(int64_t)bytes, 0);
	}
	vg_lock_give(&ledger->process->lock);
}

uint64_t vg_ledger_used_here(const struct vg_ledger *ledger)
{
	unsigned int number = ledger->process->slot_number;

	return number == LEDGER_NO_SLOT ? 0 : ledger_slot_used(&ledger->file->slots[number - 1]);
}

VG_HOT uint64_t vg_ledger_undeclared(const struct vg_ledger *ledger)
{
	unsigned int number = ledger->process->slot_number;

	return number == LEDGER_NO_SLOT ? 0 : LEDGER_LOAD(ledger->file->slots[number - 1].undeclared);
}

void vg_ledger_set_pristine(struct vg_ledger *ledger, bool pristine)
{
	unsigned int index;

	if (ledger_slot_take(ledger, &index))
		return;
	LEDGER_STORE(ledger->file->slots[index].pristine, pristine);
	ledger_slot_give(ledger);
}

void vg_ledger_set_host(struct vg_ledger *ledger)
{
	unsigned int index;

	if (ledger_slot_take(ledger, &index))
		return;
	LEDGER_STORE(ledger->file->slots[index].role, LEDGER_HOST);
	ledger_slot_give(ledger);
}

void vg_ledger_set_exported(struct vg_ledger *ledger, uint64_t exported, uint64_t adrift)
{
	unsigned int index;

	if (ledger_slot_take(ledger, &index))
		return;
	LEDGER_STORE(ledger->file->slots[index].exported, exported);
	LEDGER_STORE(ledger->file->slots[index].adrift, adrift);
	ledger_slot_give(ledger);
}

static bool read_tenant(struct ledger_file *file, unsigned int index, struct vg_ledger_tenant *ret_tenant)
{
	struct ledger_slot *slot = &file->slots[index];
	ledger_word owner = LEDGER_LOAD(*(uint64_t *)&slot->owner) ? ledger_word_read(&slot->owner) : 0;
	struct vg_ledger_tenant tenant = {.slot = index};

	if (!owner)
		return false;
	tenant.owner = (struct vg_ledger_owner){.pid = (uint32_t)owner, .pid_namespace = (uint32_t)(owner >> 32),
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
	bool coming = LEDGER_LOAD(slot->intent_sequence) == tenant.changes + 1; // before what it is
	int64_t delta = LEDGER_LOAD(slot->intent_delta);		       // once: the next one may be a refund
	if (coming && delta > 0)
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
		return false; // it left meanwhile
	*ret_tenant = tenant;
	return true;
}

bool vg_ledger_next_tenant(const struct vg_ledger *ledger, unsigned int *cursor, struct vg_ledger_tenant *ret_tenant)
{
	while (*cursor < slots_touched(ledger->file))
		if (read_tenant(ledger->file, (*cursor)++, ret_tenant))
			return true;
	return false;
}

int vg_ledger_set_outer(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, uint32_t pid,
			uint64_t start_time)
{
	struct ledger_slot *slot = &ledger->file->slots[tenant->slot];

	if (ledger_word_read(&slot->owner) != ledger_owner_word(&tenant->owner) ||
	    LEDGER_LOAD(slot->generation) != tenant->generation)
		return VG_LEDGER_GONE;
	LEDGER_STORE(slot->outer_start_time, start_time);
	LEDGER_STORE(slot->outer_pid, pid);
	return 0;
}

int vg_ledger_set_undeclared(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, uint64_t bytes)
{
	struct ledger_slot *slot = &ledger->file->slots[tenant->slot];

	if (ledger_word_read(&slot->owner) != ledger_owner_word(&tenant->owner) ||
	    LEDGER_LOAD(slot->generation) != tenant->generation)
		return VG_LEDGER_GONE;
	LEDGER_STORE(slot->undeclared, bytes);
	return 0;
}

void vg_ledger_clear_peak(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant)
{
	__atomic_store_n(&ledger->file->slots[tenant->slot].peak, 0, __ATOMIC_SEQ_CST); // before what is read next
}

// What is kept are exported descriptors' charges.
static void keep_exported(struct ledger_slot *slot, uint64_t bytes)
{
	for (int kind = 0; kind < VG_LEDGER_KIND_COUNT; kind++)
		LEDGER_STORE(slot->by_kind[kind], kind == VG_LEDGER_VMM ? bytes : 0);
	LEDGER_STORE(slot->apart, 0);
	LEDGER_STORE(slot->exported, bytes);
	LEDGER_STORE(slot->undeclared, 0);
}

// The slot's owner will not touch it. On failure, or where something is kept, it is his again.
static int reap_slot(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant,
		   const struct vg_ledger_keep *keep, uint64_t *ret_refunded)
{
	enum { ATTEMPTS = 100000 }; // a tenant that changes the account for ever must not hold the daemon
	struct ledger_slot *slot = &ledger->file->slots[tenant->slot];
	struct vg_ledger_owner self;
	ledger_word from = ledger_owner_word(&tenant->owner);
	int r = vg_ledger_self(&self);

	if (r < 0)
		return r;
	// Were we killed from here on, the slot is a dead process's, and reaped as such.
	if (LEDGER_LOAD(slot->generation) != tenant->generation ||
	    !ledger_word_swap(&slot->owner, &from, ledger_owner_word(&self)))
		return VG_LEDGER_GONE;
	ledger_step("taken");
	r = ledger_slot_refund(ledger->file, tenant->slot, keep, ATTEMPTS, ret_refunded);
	uint64_t kept = ledger_slot_used(slot);
	if (r == 0 && kept)
		keep_exported(slot, kept);
	if (r == 0 && !kept) {
		if (keep) // a share that was to be kept, but of which nothing is charged
			ledger_shares_leave(ledger->file, tenant->slot, NULL, ATTEMPTS);
		ledger_slot_free(ledger->file, tenant->slot);
	} else { // to be looked at again
		ledger_word mine = ledger_owner_word(&self);
		ledger_word_swap(&slot->owner, &mine, ledger_owner_word(&tenant->owner));
	}
	return r;
}

int vg_ledger_reap(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant,
		   const struct vg_ledger_keep *keep, uint64_t *ret_refunded)
{
	return reap_slot(ledger, tenant, keep, ret_refunded);
}

// The process may take the slot over at the same time: who changes the image has it.
int vg_ledger_reap_program(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant,
			   const struct vg_ledger_keep *keep, uint64_t *ret_refunded)
{
	struct ledger_slot *slot = &ledger->file->slots[tenant->slot];
	ledger_word image = (ledger_word)tenant->program << 64 | tenant->image, taken = LEDGER_IMAGE_TAKEN;

	if (!image || LEDGER_LOAD(slot->generation) != tenant->generation ||
	    !ledger_word_swap(&slot->image, &image, LEDGER_IMAGE_TAKEN))
		return VG_LEDGER_GONE;
	ledger_step("image taken");
	int r = reap_slot(ledger, tenant, keep, ret_refunded);
	if (r || ledger_slot_used(slot)) // a slot that was freed has no image any more
		ledger_word_swap(&slot->image, &taken, image);
	return r;
}

int vg_ledger_set_limit(struct vg_ledger *ledger, uint64_t limit, uint64_t *ret_charged)
{
	struct ledger_file *file = ledger->file;

	for (int attempt = 0; attempt < 100000; attempt++) {
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

VG_HOT void vg_ledger_read(const struct vg_ledger *ledger, uint64_t *ret_limit, uint64_t *ret_charged)
{
	struct ledger_account account, again = ledger_account_read(&ledger->file->header.account);
	uint64_t limit;

	do { // the limit of the same generation
		account = again;
		limit = LEDGER_LOAD(ledger->file->header.limits[ledger_tag_limit(account.tag) & 1]);
		again = ledger_account_read(&ledger->file->header.account);
	} while (ledger_tag_limit(again.tag) != ledger_tag_limit(account.tag));
	*ret_limit = limit;
	*ret_charged = account.charged;
}
