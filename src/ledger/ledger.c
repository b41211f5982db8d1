#include "ledger/ledger.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/hash.h"
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
	struct ledger_slot *likely; // for prefetching only: the slot of this process, or of its parent after a fork
	dev_t device;		    // device number and inode of the ledger file; 0: no file
	ino_t inode;
};

struct ledger_file *ledger_file_of(const struct vg_ledger *ledger)
{
	return ledger->file;
}

int ledger_wrap(struct ledger_file *file, int fd, struct vg_ledger **ret_ledger)
{
	struct vg_ledger *ledger = calloc(1, sizeof *ledger);
	struct stat status = {0};

	if (!ledger)
		return -ENOMEM;
	int r = fd >= 0 && fstat(fd, &status) < 0 ? -errno : ledger_process_create(&ledger->process);
	if (r < 0) {
		free(ledger);
		return r;
	}
	ledger->file = file;
	ledger->device = status.st_dev;
	ledger->inode = status.st_ino;
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

int vg_ledger_check_file(const struct vg_ledger *ledger, const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0 || status.st_dev != ledger->device || status.st_ino != ledger->inode)
		return VG_LEDGER_GONE;
	if (status.st_size > (off_t)sizeof(struct ledger_file))
		return VG_LEDGER_GROWN;
	return status.st_size == sizeof(struct ledger_file) ? 0 : VG_LEDGER_DAMAGED;
}

size_t vg_ledger_size(void)
{
	return sizeof(struct ledger_file);
}

ino_t vg_ledger_inode(const struct vg_ledger *ledger)
{
	return ledger->inode;
}

int vg_ledger_self(struct vg_ledger_owner *ret_owner)
{
	struct stat namespace;
	uint64_t start_time;

	if (stat("/proc/self/ns/pid", &namespace) < 0)
		return -errno;
	int r = vg_process_start_time(0, &start_time);
	if (r < 0)
		return r;
	*ret_owner = (struct vg_ledger_owner){
		.pid = (uint32_t)getpid(), .pid_namespace = (uint32_t) namespace.st_ino, .start_time = start_time};
	return 0;
}

uint64_t vg_ledger_program_of(pid_t pid)
{
	char path[32], bytes[4096];

	snprintf(path, sizeof path, "/proc/%d/auxv", (int)pid);
	ssize_t length = vg_file_read(pid ? path : "/proc/self/auxv", bytes, sizeof bytes);
	return length > 0 ? vg_hash(bytes, (size_t)length) : 0;
}

// Identifies the program that this process runs. The kernel gives each program at its start new random bytes
// (AT_RANDOM) and addresses (auxv), and a forked child keeps them. The random bytes also seed the stack protector, so
// only their hash is used. The daemon can read only the addresses.
static ledger_word read_own_image(void)
{
	const void *bytes = (const void *)getauxval(AT_RANDOM);

	return (ledger_word)vg_ledger_program_of(0) << 64 | (bytes ? vg_hash(bytes, 16) | 2 : 2);
}

ledger_word ledger_owner_word(const struct vg_ledger_owner *owner)
{
	return (ledger_word)owner->start_time << 64 | (ledger_word)owner->pid_namespace << 32 | owner->pid;
}

// Returns whether two owners are the same process: they have the same pid and pid namespace, and vg_start_time_same()
// holds.
static bool is_same_owner(ledger_word left, ledger_word right)
{
	return (uint64_t)left == (uint64_t)right && vg_start_time_same((uint64_t)(left >> 64), (uint64_t)(right >> 64));
}

bool vg_ledger_owner_same(const struct vg_ledger_owner *left, const struct vg_ledger_owner *right)
{
	return is_same_owner(ledger_owner_word(left), ledger_owner_word(right));
}

static void fill_slot(struct ledger_slot *slot)
{
	char command[64] = "";

	slot->entered_ns = vg_clock_realtime_ns();
	if (vg_file_read("/proc/self/comm", command, sizeof command) > 0) {
		command[strcspn(command, "\n")] = '\0';
		memcpy(slot->command, command, VG_LEDGER_COMMAND - 1);
	}
}

// Takes over a slot that an earlier program of this process, before exec, left behind. Refunds the charges of that
// program.
static int take_over_slot(struct ledger_file *file, ledger_word self, ledger_word image, unsigned int *ret_index)
{
	for (unsigned int i = 0; i < ledger_slots_touched(file); i++) {
		struct ledger_slot *slot = &file->slots[i];
		uint64_t refunded;

		if (LEDGER_LOAD(*(uint64_t *)&slot->owner) != (uint64_t)self ||
		    !is_same_owner(ledger_word_read(&slot->owner), self))
			continue;
		// Descriptors that the earlier program exported may still be open. The daemon checks that, and refunds
		// the rest.
		if (LEDGER_LOAD(slot->exported))
			continue;
		ledger_word old = ledger_word_read(&slot->image);
		if (!old || old == image || old == LEDGER_IMAGE_REAPED || !ledger_word_swap(&slot->image, &old, image))
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

		// The count is raised first, so that the daemon finds the slot if this process is killed after claiming
		// it.
		ledger_touch(&file->header.slots_touched, i);
		if (LEDGER_LOAD(*(uint64_t *)&slot->owner) != 0)
			continue;
		ledger_word no_owner = 0;
		if (!ledger_word_swap(&slot->owner, &no_owner, self))
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
	ledger_word image = read_own_image();
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
	fill_slot(&file->slots[index]);
	memset(&file->turns[index], 0, sizeof file->turns[index]);
	memset(&file->pagers[index], 0, sizeof file->pagers[index]);
	LEDGER_STORE(file->processes[index], (uint64_t)(uintptr_t)process);
	__atomic_add_fetch(&file->header.enters, 1, __ATOMIC_RELAXED);
	process->clock_ahead = vg_clock_offset(0, "monotonic");
	process->slot_number = index + 1;
	__atomic_store_n(&ledger->likely, &file->slots[index], __ATOMIC_RELAXED);
	return 0;
}

int ledger_slot_lock(const struct vg_ledger *ledger, unsigned int *ret_index)
{
	vg_lock_acquire(&ledger->process->lock);
	if (ledger->process->slot_number != LEDGER_NO_SLOT) {
		*ret_index = ledger->process->slot_number - 1;
		return 0;
	}
	vg_lock_release(&ledger->process->lock);
	return VG_LEDGER_FULL;
}

void ledger_forget_slot(struct vg_ledger *ledger)
{
	ledger->process->slot_number = LEDGER_NO_SLOT;
}

void ledger_slot_unlock(const struct vg_ledger *ledger)
{
	vg_lock_release(&ledger->process->lock);
}

int ledger_guest_slot(struct ledger_file *file, const struct vg_ledger_owner *process, const uint64_t *program,
		      unsigned int *ret_index)
{
	ledger_word self = ledger_owner_word(process);

	for (unsigned int i = 0; i < ledger_slots_touched(file); i++) {
		struct ledger_slot *slot = &file->slots[i];
		if (LEDGER_LOAD(slot->role) != LEDGER_GUEST || !is_same_owner(ledger_word_read(&slot->owner), self))
			continue;
		// If the daemon was killed within an operation on this slot, complete that operation.
		ledger_slot_complete(file, i);
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
	vg_lock_acquire(&ledger->process->lock);
	int r = enter_locked(ledger);
	vg_lock_release(&ledger->process->lock);
	return r;
}

void vg_ledger_leave(struct vg_ledger *ledger)
{
	uint64_t refunded;

	vg_lock_acquire(&ledger->process->lock);
	unsigned int number = ledger->process->slot_number;
	if (number != LEDGER_NO_SLOT && ledger_slot_refund(ledger->file, number - 1, NULL, 0, &refunded) == 0) {
		ledger->process->slot_number = LEDGER_NO_SLOT;
		ledger_slot_free(ledger->file, number - 1);
	}
	vg_lock_release(&ledger->process->lock);
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
	vg_lock_acquire(&ledger->process->lock);
	int r = ledger->process->slot_number == LEDGER_NO_SLOT ? enter_locked(ledger) : 0;
	if (r == 0)
		r = ledger_operate(ledger->file, ledger->process->slot_number - 1, kind, (int64_t)bytes, 0);
	vg_lock_release(&ledger->process->lock);
	return r;
}

VG_HOT void vg_ledger_refund(struct vg_ledger *ledger, enum vg_ledger_kind kind, uint64_t bytes)
{
	vg_lock_acquire(&ledger->process->lock);
	unsigned int number = ledger->process->slot_number;
	if (number != LEDGER_NO_SLOT) { // not in a forked child: it has no slot and has charged nothing
		struct ledger_slot *slot = &ledger->file->slots[number - 1];
		uint64_t most = slot->by_kind[kind]; // other tenants may have written any value here

		most = most < INT64_MAX ? most : INT64_MAX;
		if (bytes > most)
			bytes = most;
		if (bytes)
			ledger_operate(ledger->file, number - 1, kind, -(int64_t)bytes, 0);
	}
	vg_lock_release(&ledger->process->lock);
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

	if (ledger_slot_lock(ledger, &index))
		return;
	LEDGER_STORE(ledger->file->slots[index].pristine, pristine);
	ledger_slot_unlock(ledger);
}

void vg_ledger_set_host(struct vg_ledger *ledger)
{
	unsigned int index;

	if (ledger_slot_lock(ledger, &index))
		return;
	LEDGER_STORE(ledger->file->slots[index].role, LEDGER_HOST);
	ledger_slot_unlock(ledger);
}

void vg_ledger_set_exported(struct vg_ledger *ledger, uint64_t exported, uint64_t adrift)
{
	unsigned int index;

	if (ledger_slot_lock(ledger, &index))
		return;
	LEDGER_STORE(ledger->file->slots[index].exported, exported);
	LEDGER_STORE(ledger->file->slots[index].adrift, adrift);
	ledger_slot_unlock(ledger);
}

struct turn_page *vg_ledger_turn_page(const struct vg_ledger *ledger)
{
	return &ledger->file->turn;
}

const struct turn_slot *vg_ledger_turn_slots(const struct vg_ledger *ledger)
{
	return ledger->file->turns;
}

unsigned int vg_ledger_turn_count(const struct vg_ledger *ledger)
{
	return ledger_slots_touched(ledger->file);
}

VG_HOT uint32_t vg_ledger_restores(const struct vg_ledger *ledger)
{
	return __atomic_load_n(&ledger->process->restores, __ATOMIC_RELAXED);
}

VG_HOT uint64_t vg_ledger_clock_ns(const struct vg_ledger *ledger)
{
	return vg_clock_monotonic_ns() - (uint64_t)__atomic_load_n(&ledger->process->clock_ahead, __ATOMIC_RELAXED);
}

// Returns the index of this process's slot; VG_LEDGER_SLOTS or more: the process has no slot.
static inline uint32_t own_index(const struct vg_ledger *ledger)
{
	return __atomic_load_n(&ledger->process->slot_number, __ATOMIC_RELAXED) - 1;
}

VG_HOT struct turn_slot *vg_ledger_turn_slot(const struct vg_ledger *ledger)
{
	uint32_t index = own_index(ledger);

	return index < VG_LEDGER_SLOTS ? &ledger->file->turns[index] : NULL;
}

struct pager_page *vg_ledger_pager_page(const struct vg_ledger *ledger)
{
	return &ledger->file->pager;
}

struct pager_slot *vg_ledger_pager_slots(const struct vg_ledger *ledger)
{
	return ledger->file->pagers;
}

struct pager_slot *vg_ledger_pager_slot(const struct vg_ledger *ledger)
{
	uint32_t index = own_index(ledger);

	return index < VG_LEDGER_SLOTS ? &ledger->file->pagers[index] : NULL;
}

VG_HOT void vg_ledger_read(const struct vg_ledger *ledger, uint64_t *ret_limit, uint64_t *ret_charged)
{
	struct ledger_account account, again = ledger_account_read(&ledger->file->header.account);
	uint64_t limit;
	int tries = 0;

	// Repeat if the limit was changed while it was read. Otherwise the result could be a new limit with a charge
	// from before the change.
	do {
		account = again;
		limit = LEDGER_LOAD(ledger->file->header.limits[ledger_tag_limit(account.tag) & 1]);
		again = ledger_account_read(&ledger->file->header.account);
	} while (ledger_tag_limit(again.tag) != ledger_tag_limit(account.tag) && ++tries < LEDGER_TRIES);
	*ret_limit = limit;
	*ret_charged = account.charged;
}
