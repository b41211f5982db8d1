// Allocates device memory: keeps which processes have which blocks.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "region_internal.h"

static uint64_t get_id(const struct region_header *h, uint32_t index)
{
	return (uint64_t)h->blocks[index].generation << 32 | index;
}

// Returns the head of an allocation. NULL: the id is of memory that was freed. Call it with the lock held.
static struct region_block *find_head(struct region *region, uint64_t id)
{
	uint32_t index = (uint32_t)id;
	struct region_header *h = region->header;

	if (index >= h->config.devices * region->blocks_per_device)
		return NULL;
	struct region_block *head = &h->blocks[index];
	return head->first == index + 1 && head->blocks && get_id(h, index) == id ? head : NULL;
}

// Returns the index of the first of `blocks` consecutive free blocks. UINT32_MAX: no such blocks exist.
static uint32_t find_run(const struct region *region, int device, uint32_t blocks)
{
	const struct region_header *h = region->header;
	uint32_t base = (uint32_t)device * region->blocks_per_device, run = 0;

	for (uint32_t i = h->hint[device]; i < region->blocks_per_device; i++) {
		run = h->blocks[base + i].first ? 0 : run + 1;
		if (run == blocks)
			return base + i - blocks + 1;
	}
	return UINT32_MAX;
}

static void advance_hint(struct region *region, int device)
{
	struct region_header *h = region->header;
	uint32_t base = (uint32_t)device * region->blocks_per_device, i = h->hint[device];

	while (i < region->blocks_per_device && h->blocks[base + i].first)
		i++;
	h->hint[device] = i;
}

static void charge_slot(struct region *region, int slot, int device, uint64_t bytes)
{
	region->header->used[device] += bytes;
	region->header->processes[slot].used[device] += bytes;
}

static int reserve_run(void *data, int descriptor, off_t offset, size_t at, size_t size)
{
	return region_reserve(descriptor, offset, size);
}

int region_alloc(struct region *region, int device, size_t size, uint64_t *ret_id)
{
	struct region_header *h = region->header;
	uint64_t id = 0;
	uint32_t blocks = (uint32_t)(size / REGION_BLOCK), base = (uint32_t)device * region->blocks_per_device;
	int status = REGION_FULL;

	if (size == 0 || size % REGION_BLOCK != 0)
		return -EINVAL;
	if (size / REGION_BLOCK > region->blocks_per_device)
		return REGION_FULL;
	region_lock(region);
	if (h->used[device] + size > h->config.memory)
		region_reap_locked(region);
	if (h->used[device] + size <= h->config.memory) {
		uint32_t run = find_run(region, device, blocks), at = run != UINT32_MAX ? run : base + h->hint[device],
			 head = at;
		for (uint32_t taken = 0, previous = 0; taken < blocks; at++) {
			struct region_block *block = &h->blocks[at];
			if (block->first)
				continue;
			if (taken == 0) {
				head = at;
				*block = (struct region_block){.generation = ++h->generation,
							       .owner = (uint16_t)region->slot};
				region_step("owned");
				region_bit_set(block->holders, region->slot);
			} else {
				h->blocks[previous].next = at + 1;
			}
			block->next = 0;
			region_step("free");
			block->first = head + 1;
			region_step("taken");
			previous = at;
			taken++;
		}
		charge_slot(region, region->slot, device, size);
		region_step("charged");
		h->blocks[head].blocks = blocks; // from this store on, the allocation exists, even if the process dies
		region_step("counts");
		advance_hint(region, device);
		id = get_id(h, head);
		status = 0;
	}
	region_unlock(region);
	region_step("not reserved");
	if (status == 0 && !region->overcommit)
		status = region_each_run(region, id, reserve_run, NULL);
	region_step("reserved");
	if (status == 0)
		*ret_id = id;
	else if (id)
		region_unref(region, id);
	return status;
}

int region_each_run(struct region *region, uint64_t id, int (*each)(void *, int, off_t, size_t, size_t), void *data)
{
	struct region_header *h = region->header;
	int device = (int)((uint32_t)id / region->blocks_per_device);
	uint32_t base = (uint32_t)device * region->blocks_per_device;
	size_t at = 0;

	// This needs no lock: the caller has a reference, so the blocks cannot change.
	for (uint32_t start = (uint32_t)id; start != UINT32_MAX;) {
		uint32_t last = start;
		while (h->blocks[last].next == last + 2)
			last++;
		size_t size = (last - start + 1) * REGION_BLOCK;
		int status = each(data, region->devices[device], (off_t)((start - base) * REGION_BLOCK), at, size);
		if (status != 0)
			return status;
		at += size;
		start = h->blocks[last].next ? h->blocks[last].next - 1 : UINT32_MAX;
	}
	return 0;
}

static int discard_run(void *data, int descriptor, off_t offset, size_t at, size_t size)
{
	// Punch a hole, because the next allocation must be zero, and to free the disk space.
	return fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, (off_t)size) == 0 ? 0 : -errno;
}

// Frees blocks whose contents were discarded before. Call it with the lock held.
static void free_blocks(struct region *region, struct region_block *head)
{
	struct region_header *h = region->header;
	uint32_t index = head->first - 1, base;
	int device = (int)(index / region->blocks_per_device);
	uint64_t bytes = (uint64_t)head->blocks * REGION_BLOCK;

	base = (uint32_t)device * region->blocks_per_device;
	if (head->exported)
		region_export_forget(region, get_id(h, index));
	region_step("no descriptor");
	if (head->owner == REGION_NO_PROCESS)
		h->orphans--;
	else
		h->processes[head->owner].used[device] -= bytes;
	h->used[device] -= bytes;
	region_step("not charged");
	head->blocks = 0; // from this store on, the allocation does not exist, even if the process dies
	region_step("does not count");
	for (uint32_t next = index + 1; next;) {
		struct region_block *block = &h->blocks[next - 1];
		if (next - 1 - base < h->hint[device])
			h->hint[device] = next - 1 - base;
		next = block->next;
		block->first = block->next = 0;
		region_step("given back");
	}
}

// Charges the memory to the process of another slot. -1: to no process. Call it with the lock held.
static void change_owner(struct region *region, struct region_block *head, int slot)
{
	struct region_header *h = region->header;
	int device = (int)((head->first - 1) / region->blocks_per_device);
	uint64_t bytes = (uint64_t)head->blocks * REGION_BLOCK;

	if (head->owner != REGION_NO_PROCESS)
		h->processes[head->owner].used[device] -= bytes;
	else
		h->orphans--;
	if (slot >= 0)
		h->processes[slot].used[device] += bytes;
	else
		h->orphans++;
	region_step("charged to another");
	head->owner = slot >= 0 ? (uint16_t)slot : REGION_NO_PROCESS;
	region_step("another's");
}

int region_ref(struct region *region, uint64_t id, int *ret_device, size_t *ret_size)
{
	int status = REGION_GONE;

	region_lock(region);
	struct region_block *head = find_head(region, id);
	if (head && !head->dying) {
		region_bit_set(head->holders, region->slot);
		region_step("held");
		if (head->owner == REGION_NO_PROCESS)
			change_owner(region, head, region->slot);
		*ret_device = (int)((uint32_t)id / region->blocks_per_device);
		*ret_size = (size_t)head->blocks * REGION_BLOCK;
		status = 0;
	}
	region_unlock(region);
	return status;
}

// If another process or a descriptor also keeps the memory, removes the slot's reference to it and returns false.
// Otherwise returns true and leaves the reference, and the caller frees the memory. If the caller is killed before
// that, the reference shows another process that the memory must be freed. Call it with the lock held.
static bool remove_holder(struct region *region, struct region_block *head, int slot)
{
	int other = region_bit_first_except(head->holders, slot);

	if (other < 0 && !(head->exported && region_export_is_alive(region, get_id(region->header, head->first - 1))))
		return true;
	region_step("kept alive");
	if (head->owner == slot)
		change_owner(region, head, other);
	region_bit_clear(head->holders, slot);
	region_step("left");
	return false;
}

void region_unref(struct region *region, uint64_t id)
{
	region_lock(region);
	struct region_block *head = find_head(region, id);
	if (head && region_bit(head->holders, region->slot) && remove_holder(region, head, region->slot)) {
		head->dying = 1;
		region_step("dying");
		region_unlock(region);
		(void)region_each_run(region, id, discard_run, NULL);
		region_step("zero");
		region_lock(region);
		free_blocks(region, head);
	}
	region_unlock(region);
}

static int open_device(struct region *region, int device)
{
	char path[300];

	if (region->devices[device] < 0) { // an observer opens a device only to discard memory
		snprintf(path, sizeof path, "%s/device%d", region->directory, device);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		region->devices[device] = fd < 0 ? -1 : vg_fd_raise_consume(fd);
	}
	return region->devices[device];
}

// Frees the memory of a slot whose process has died. -1: frees memory whose last exported descriptor was closed. Call
// it with the lock held.
static void reap_holder(struct region *region, int slot)
{
	struct region_header *h = region->header;
	uint32_t total = h->config.devices * region->blocks_per_device;

	for (uint32_t i = 0; i < total; i++) {
		struct region_block *head = &h->blocks[i];
		bool dead = false;
		if (head->first != i + 1 || !head->blocks)
			continue;
		if (slot < 0)
			dead = head->owner == REGION_NO_PROCESS && !region_export_is_alive(region, get_id(h, i));
		else if (region_bit(head->holders, slot))
			dead = remove_holder(region, head, slot);
		if (!dead || open_device(region, (int)(i / region->blocks_per_device)) < 0)
			continue;
		(void)region_each_run(region, get_id(h, i), discard_run, NULL);
		region_step("zero");
		free_blocks(region, head);
	}
}

bool region_is_alive_locked(struct region *region, uint32_t slot)
{
	const struct region_process *process = &region->header->processes[slot];

	if (process->pid == 0 || process->start_time == UINT64_MAX)
		return false;
	if (region_slot_is_locked(region, slot))
		return true;
	// A checkpointed process does not lock its slot. Whether it lives can only be checked in its own pid namespace,
	// so leave others to processes of that namespace.
	return process->parked && (process->pid_namespace != region_pid_namespace() ||
				   !vg_process_is_dead(process->pid, process->start_time));
}

unsigned region_reap_locked(struct region *region)
{
	struct region_header *h = region->header;
	unsigned alive = 0;

	for (uint32_t i = 0; i < h->process_high; i++) {
		struct region_process *process = &h->processes[i];
		if (process->pid == 0)
			continue;
		if (region_is_alive_locked(region, i)) {
			alive++;
			continue;
		}
		reap_holder(region, (int)i);
		region_step("holds no memory");
		region_events_unref_slot(region, (int)i);
		region_step("holds no event");
		memset(process, 0, sizeof *process);
		region_step("no process");
	}
	while (h->process_high > 0 && h->processes[h->process_high - 1].pid == 0)
		h->process_high--;
	if (h->orphans)
		reap_holder(region, -1);
	return alive;
}

uint64_t region_used(struct region *region, int device)
{
	region_lock(region);
	region_reap_locked(region);
	uint64_t used = region->header->used[device];
	region_unlock(region);
	return used;
}

void region_count_context(struct region *region, int device, int change)
{
	region_lock(region);
	struct region_process *process = &region->header->processes[region->slot];
	process->contexts += (uint32_t)change;
	process->device_contexts[device] += (uint32_t)change;
	region_unlock(region);
}

bool region_add_context(struct region *region, int device, enum sim_mode mode)
{
	bool others = false;

	region_lock(region);
	if (mode == SIM_MODE_EXCLUSIVE)
		region_reap_locked(region);
	for (uint32_t i = 0; i < region->header->process_high; i++) {
		const struct region_process *process = &region->header->processes[i];
		others |= (int)i != region->slot && process->pid && process->device_contexts[device];
	}
	bool may = mode == SIM_MODE_DEFAULT || (mode == SIM_MODE_EXCLUSIVE && !others);
	region->header->processes[region->slot].contexts += may;
	region->header->processes[region->slot].device_contexts[device] += may;
	region_unlock(region);
	return may;
}

size_t region_users(struct region *region, int device, struct region_use *ret_users, size_t capacity)
{
	size_t count = 0;

	region_lock(region);
	region_reap_locked(region);
	for (uint32_t i = 0; i < region->header->process_high; i++) {
		struct region_process *process = &region->header->processes[i];
		if (process->pid == 0 || (process->device_contexts[device] == 0 && process->used[device] == 0))
			continue;
		if (count < capacity)
			ret_users[count] =
				(struct region_use){process->pid, process->pid_namespace, process->start_time,
						    process->used[device], atomic_load(&process->busy_ns[device])};
		count++;
	}
	region_unlock(region);
	return count;
}

void region_add_busy(struct region *region, int device, uint64_t ns)
{
	atomic_fetch_add_explicit(&region->header->processes[region->slot].busy_ns[device], ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&region->header->busy_ns[device], ns, memory_order_relaxed);
}
