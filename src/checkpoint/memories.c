#include "checkpoint/memories.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/device/in.h"
#include "checkpoint/device/window.h"
#include "ledger/guard.h"

#include <stdlib.h>
#include <unistd.h>

struct arriving {
	pid_t pid;
	uint64_t start_time, program; // program: vg_ledger_program_of()
	struct device_window *window; // NULL: the memory is in a file
	struct tenant *tenant;
	struct pager_slot *slot; // the slot of the process, in the ledger tenant->stand_in
};

enum vg_status memories_read(struct memories *memories, const struct image_dir *image, const struct image_files *files,
			     const json_t *description)
{
	const json_t *device = json_object_get(description, "device");

	memories->know_window = json_is_true(json_object_get(device, "window"));
	return device_index_read(image, files, &memories->index);
}

// Finds the tenant with the pager of this memory. A process may have slots in several vGPUs.
static struct tenant *find_tenant(const struct memories *memories, size_t memory)
{
	struct tenants *tenants = memories->tenants;
	struct tenant *found = NULL;

	for (size_t i = 0; i < tenants->count; i++) {
		struct tenant *tenant = &tenants->list[i];
		if ((uint64_t)tenant->pid == memories->index.memories[memory].pid &&
		    (!found || (tenants->vgpus[tenant->vgpu].evictable && !tenant->slot.host)))
			found = tenant;
	}
	return found;
}

// Returns whether the memory of the vGPU must be in the host now. Then its processes decline a window.
static bool is_out(const struct memories *memories, const struct tenant *tenant)
{
	struct vg_ledger *ledger;

	if (vg_ledger_open(memories->tenants->vgpus[tenant->vgpu].path, &ledger))
		return false;
	vg_ledger_guard(ledger);
	bool out = atomic_load(&vg_ledger_pager_page(ledger)->out) != 0;
	out &= !vg_ledger_unguard();
	vg_ledger_close(ledger);
	return out;
}

// Returns how much room in the host the memory needs.
static uint64_t room_for(const struct memories *memories, size_t memory, bool takes_window)
{
	const struct device_memory *one = &memories->index.memories[memory];
	const struct device_block *have;

	if (takes_window)
		return device_window_bytes(one->bytes);
	return prefill_find(memories->prefill, one, &have) < 0 ? one->bytes : 0;
}

enum vg_status memories_check(const struct memories *memories, uint64_t *ret_bytes)
{
	const struct device_index *index = &memories->index;
	uint64_t needed = 0;

	*ret_bytes = 0;
	for (size_t i = 0; i < index->memory_count; i++) {
		const struct tenant *tenant = find_tenant(memories, i);
		if (!tenant)
			return vg_fail(VG_INTEGRITY, 0,
				       "%s/" DEVICE_INDEX " has memory of process %llu, which is none of the tenants "
				       "in " IMAGE_DESCRIPTION,
				       memories->image->path, (unsigned long long)index->memories[i].pid);
		*ret_bytes += index->memories[i].bytes;
		needed += room_for(memories, i, memories->know_window && !is_out(memories, tenant));
	}
	return parking_check_room(needed);
}

uint64_t memories_late_bytes(const struct memories *memories)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < memories->index.memory_count && memories->list; i++)
		bytes += memories->list[i].window ? memories->index.memories[i].bytes : 0;
	return bytes;
}

// Returns whether the process has no use for its memory any more: it has ended, or executed another program.
static bool is_gone(const void *user)
{
	const struct arriving *arriving = user;
	uint64_t program = vg_ledger_program_of(arriving->pid);

	return vg_process_is_dead(arriving->pid, arriving->start_time) ||
	       (program && arriving->program && program != arriving->program);
}

// ---- what the slot says ----------------------------------------------------------------------------------

// Finds the slot of the process. Call it before the slot is handed over.
static void find_slot(struct arriving *arriving)
{
	if (arriving->tenant->stand_in)
		arriving->slot = vg_ledger_pager_slot(arriving->tenant->stand_in);
}

// Records, in the slot of the process, where its memory is. The pager reads this when the process runs. Fails if the
// ledger was truncated.
static enum vg_status record(const struct memories *memories, const struct arriving *arriving,
			     const struct pager_file *file, enum pager_source source)
{
	struct pager_slot *slot = arriving->slot;

	// The slot of a process that is gone may belong to another one.
	if (!slot || is_gone(arriving))
		return VG_OK;
	vg_ledger_guard(arriving->tenant->stand_in);
	parking_tell_source(slot, file, source);
	return vg_ledger_unguard() ? vg_fail(VG_STATE, 0, "the ledger of vGPU %s was truncated",
					     memories->tenants->vgpus[arriving->tenant->vgpu].name)
				   : VG_OK;
}

// ---- files -----------------------------------------------------------------------------------------------

// Makes a file with the memory of a process. Takes the file that earlier rounds of a migration have filled, if there is
// one and the process can open it. `phase`: may be NULL.
static enum vg_status make_file(struct memories *memories, size_t memory, struct phase *phase,
				_Atomic uint64_t *progress)
{
	const struct device_memory *one = &memories->index.memories[memory];
	const struct device_block *have = NULL;
	pid_t pid = (pid_t)one->pid;
	enum vg_status status = VG_OK;
	struct pager_file file;

	int fd = prefill_take(memories->prefill, one, &have);
	if (fd >= 0 && !parking_adopt(&memories->parking, pid, fd, &file)) {
		close(fd); // free the host memory of the old file for a new one
		fd = -1;
	}
	if (fd < 0) {
		have = NULL;
		status = parking_make(&memories->parking, pid, &fd, &file);
	}
	if (status)
		return status;
	status = device_in_fill(memories->image, &memories->index, memory, have, fd, phase, progress);
	close(fd);
	return status ? status : record(memories, &memories->list[memory], &file, PAGER_WHOLE_FILE);
}

// ---- windows ---------------------------------------------------------------------------------------------

static enum vg_status make_window(struct memories *memories, size_t memory)
{
	const struct device_memory *one = &memories->index.memories[memory];
	struct device_content content = {.dir = memories->image,
					 .blocks =
						 memories->index.blocks + device_index_first(&memories->index, memory),
					 .count = one->bytes / DEVICE_BLOCK};
	struct pager_file file;
	int fd;

	content.have_fd = prefill_find(memories->prefill, one, &content.have);
	if (content.have_fd < 0)
		content.have = NULL;
	enum vg_status status = parking_make(&memories->parking, (pid_t)one->pid, &fd, &file);
	if (status)
		return status;
	status = device_window_start(&content, fd, &memories->list[memory].window);
	return status ? status : record(memories, &memories->list[memory], &file, PAGER_WINDOW);
}

static enum vg_status begin_memory(struct memories *memories, size_t memory, struct phase *phase)
{
	struct arriving *arriving = &memories->list[memory];
	pid_t pid = (pid_t)memories->index.memories[memory].pid;

	arriving->tenant = find_tenant(memories, memory);
	find_slot(arriving);
	arriving->pid = pid;
	arriving->program = vg_ledger_program_of(pid);
	int r = vg_process_start_time(pid, &arriving->start_time);
	if (r)
		return vg_fail(VG_SYSTEM, -r, "process %d has ended", (int)pid);
	return memories->know_window && !is_out(memories, arriving->tenant)
		       ? make_window(memories, memory)
		       : make_file(memories, memory, phase, &phase->bytes);
}

enum vg_status memories_begin(struct memories *memories, struct phase *phase)
{
	enum vg_status status = VG_OK;

	memories->list = calloc(memories->index.memory_count + 1, sizeof *memories->list);
	if (!memories->list)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", memories->index.memory_count);
	for (size_t i = 0; i < memories->index.memory_count && status == VG_OK; i++)
		status = begin_memory(memories, i, phase);
	return status;
}

// Puts the memory of a running process into a file, since it has declined the window.
static enum vg_status replace_window(struct memories *memories, size_t memory, struct phase *phase)
{
	const struct arriving *arriving = &memories->list[memory];

	enum vg_status status = parking_check_room(room_for(memories, memory, false));
	if (status)
		return status;
	status = make_file(memories, memory, NULL, &phase->bytes); // without a phase, a request to stop is ignored
	return is_gone(arriving) ? VG_OK : status;
}

// Serves the window of a process. If the process declines it, puts the memory into a file.
static enum vg_status finish_window(struct memories *memories, size_t memory, struct phase *phase)
{
	struct arriving *arriving = &memories->list[memory];
	pid_t pid = (pid_t)memories->index.memories[memory].pid;
	bool is_declined = false;

	if (!arriving->window)
		return VG_OK;
	const struct device_taker taker = {pid, is_gone, arriving};
	enum vg_status status = device_window_serve(arriving->window, &taker, phase, &is_declined);
	if (status == VG_OK && is_declined)
		status = replace_window(memories, memory, phase);
	if (status)
		return status;
	// Close the window only when the slot names the file: a process that finds its window closed gives up.
	device_window_close(arriving->window);
	arriving->window = NULL;
	parking_remove_first(&memories->parking, pid); // the window, which was made before the file
	if (is_gone(arriving))
		parking_remove_first(&memories->parking, pid); // the file, if there is one
	return VG_OK;
}

enum vg_status memories_finish(struct memories *memories, struct phase *phase)
{
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < memories->index.memory_count && status == VG_OK; i++)
		status = finish_window(memories, i, phase);
	return status;
}

static void close_windows(struct memories *memories)
{
	for (size_t i = 0; i < memories->index.memory_count && memories->list; i++) {
		device_window_close(memories->list[i].window);
		memories->list[i].window = NULL;
	}
}

void memories_abort(struct memories *memories)
{
	close_windows(memories);
	parking_remove(&memories->parking);
}

void memories_free(struct memories *memories)
{
	close_windows(memories);
	device_index_free(&memories->index);
	parking_finish(&memories->parking);
	free(memories->list);
}
