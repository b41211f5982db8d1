// Passes slots at checkpoints: takes the slot from a process that is dumped, and gives a slot to a restored process.
#include "base/descriptor.h"
#include "ledger/layout.h"
#include "ledger/process.h"
#include "ledger/shared.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

static int read_process(pid_t pid, uint64_t address, struct ledger_process *ret_process)
{
	const struct iovec here = {ret_process, sizeof *ret_process};
	const struct iovec there = {(void *)(uintptr_t)address, sizeof *ret_process};

	if (!address)
		return -EFAULT;
	ssize_t length = process_vm_readv(pid, &here, 1, &there, 1, 0);
	return length == (ssize_t)sizeof *ret_process ? 0 : length < 0 ? -errno : -EFAULT;
}

static int write_slot_number(pid_t pid, uint64_t address, uint32_t number)
{
	const struct iovec here = {&number, sizeof number};
	const struct iovec there = {(void *)(uintptr_t)(address + offsetof(struct ledger_process, slot_number)),
				    sizeof number};

	ssize_t length = process_vm_writev(pid, &here, 1, &there, 1, 0);
	return length == (ssize_t)sizeof number ? 0 : length < 0 ? -errno : -EFAULT;
}

// Checks, in the memory of the process, that the process has slot `number`, and that none of its threads is within an
// operation.
static int check_process(const struct vg_ledger_tenant *tenant, pid_t pid, uint32_t number)
{
	struct ledger_process process;

	int r = read_process(pid, tenant->process, &process);
	if (r)
		return r == -EFAULT ? VG_LEDGER_GONE : r;
	if (process.lock.word)
		return VG_LEDGER_BUSY;
	return process.slot_number == number ? 0 : VG_LEDGER_GONE;
}

// Writes into the memory of the restored process: increments its count of restores, and stores how far its monotonic
// clock is ahead.
static int write_restore(pid_t pid, uint64_t address)
{
	struct ledger_process process;
	int r = read_process(pid, address, &process);

	if (r)
		return r;
	process.restores++;
	process.clock_ahead = vg_clock_offset(pid, "monotonic");
	const size_t from = offsetof(struct ledger_process, restores);
	const struct iovec here = {(char *)&process + from, sizeof process - from};
	const struct iovec there = {(void *)(uintptr_t)(address + from), sizeof process - from};
	ssize_t length = process_vm_writev(pid, &here, 1, &there, 1, 0);
	return length == (ssize_t)(sizeof process - from) ? 0 : length < 0 ? -errno : -EFAULT;
}

int vg_ledger_lift(const struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, pid_t pid)
{
	const struct ledger_slot *slot = &ledger_file_of(ledger)->slots[tenant->slot];

	int r = check_process(tenant, pid, tenant->slot + 1);
	// No thread of the process holds its lock. So an operation can be pending only if a tenant has overwritten the
	// slot.
	if (r == 0 && LEDGER_LOAD(slot->intent_sequence) == LEDGER_LOAD(slot->done) + 1)
		return VG_LEDGER_BUSY;
	return r ? r : write_slot_number(pid, tenant->process, LEDGER_NO_SLOT);
}

int vg_ledger_put_back(const struct vg_ledger_tenant *tenant, pid_t pid)
{
	int r = check_process(tenant, pid, LEDGER_NO_SLOT);

	return r ? r : write_slot_number(pid, tenant->process, tenant->slot + 1);
}

int vg_ledger_stand_in(struct vg_ledger *ledger, const struct vg_ledger_tenant *like)
{
	int r = vg_ledger_enter(ledger);

	for (int kind = 0; kind < VG_LEDGER_KIND_COUNT && r == 0; kind++)
		if (like->by_kind[kind])
			r = vg_ledger_reserve(ledger, (enum vg_ledger_kind)kind, like->by_kind[kind]);
	if (r)
		vg_ledger_leave(ledger);
	return r;
}

static void fill_slot(struct ledger_slot *slot, const struct vg_ledger_tenant *tenant)
{
	LEDGER_STORE(slot->entered_ns, tenant->entered_ns);
	LEDGER_STORE(slot->undeclared, tenant->undeclared);
	LEDGER_STORE(slot->pristine, tenant->pristine);
	LEDGER_STORE(slot->role, tenant->host ? LEDGER_HOST : LEDGER_TENANT);
	memcpy(slot->command, tenant->command, VG_LEDGER_COMMAND - 1);
}

// Passes the slot to the restored process. Clears the slot's image (the identity of the program) first, and writes the
// new image last. Otherwise the slot would for a moment have the new owner with the image of another program. It would
// look as if the owner had called exec since, and the charges would be refunded.
static int pass_slot(struct ledger_file *file, unsigned int index, const struct vg_ledger_tenant *tenant, pid_t pid)
{
	struct ledger_slot *slot = &file->slots[index];

	fill_slot(slot, tenant);
	ledger_word_write(&slot->image, 0);
	ledger_step("no image");
	ledger_word_write(&slot->owner, ledger_owner_word(&tenant->owner));
	ledger_step("handed over");
	LEDGER_STORE(file->processes[index], tenant->process);
	int r = write_restore(pid, tenant->process);
	if (r == 0)
		r = write_slot_number(pid, tenant->process, index + 1);
	ledger_step("numbered");
	ledger_word_write(&slot->image, (ledger_word)tenant->program << 64 | tenant->image);
	return r;
}

int vg_ledger_hand_over(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, pid_t pid)
{
	unsigned int index;

	int r = check_process(tenant, pid, LEDGER_NO_SLOT);
	if (r)
		return r;
	if (ledger_slot_lock(ledger, &index))
		return VG_LEDGER_GONE;
	r = pass_slot(ledger_file_of(ledger), index, tenant, pid);
	ledger_forget_slot(ledger);
	ledger_slot_unlock(ledger);
	return r;
}

unsigned int vg_ledger_count_shared(const struct vg_ledger *ledger, unsigned int slot)
{
	struct vg_ledger_shared_info info;
	unsigned int cursor = 0, count = 0;

	while (vg_ledger_next_shared(ledger, &cursor, &info))
		count += (info.owned && info.owner == slot) || vg_ledger_shared_is_held_by(&info, slot);
	return count;
}
