#include "checkpoint/memories.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/device/in.h"
#include "checkpoint/device/window.h"
#include "ledger/guard.h"
#include "pager/page.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct arriving {
	uint64_t start_time;
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

static struct tenant *find_tenant(const struct memories *memories, size_t memory)
{
	struct tenants *tenants = memories->tenants;

	for (size_t i = 0; i < tenants->count; i++)
		if ((uint64_t)tenants->list[i].pid == memories->index.memories[memory].pid)
			return &tenants->list[i];
	return NULL;
}

enum vg_status memories_check(const struct memories *memories, uint64_t *ret_bytes)
{
	const struct device_index *index = &memories->index;
	const struct device_block *have;
	uint64_t needed = 0;

	*ret_bytes = 0;
	for (size_t i = 0; i < index->memory_count; i++) {
		uint64_t bytes = index->memories[i].bytes;
		if (!find_tenant(memories, i))
			return vg_fail(VG_INTEGRITY, 0,
				       "%s/" DEVICE_INDEX " has memory of process %llu, which is none of the tenants "
				       "in " IMAGE_DESCRIPTION,
				       memories->image->path, (unsigned long long)index->memories[i].pid);
		*ret_bytes += bytes;
		if (memories->know_window)
			needed += device_window_bytes(bytes);
		else if (prefill_find(memories->prefill, &index->memories[i], &have) < 0)
			needed += bytes;
	}
	return parking_check_room(needed);
}

uint64_t memories_late_bytes(const struct memories *memories)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < memories->index.memory_count && memories->know_window; i++)
		bytes += memories->index.memories[i].bytes;
	return bytes;
}

// ---- what the slot says ----------------------------------------------------------------------------------

// Finds the slot of the process. Call it before the slot is handed over.
static void find_slot(struct arriving *arriving)
{
	if (arriving->tenant->stand_in)
		arriving->slot = vg_ledger_pager_slot(arriving->tenant->stand_in);
}

// Records, in the slot of the process, where its memory is. The pager reads this when the process runs.
static void record(const struct arriving *arriving, const struct pager_file *file, enum pager_source source)
{
	struct pager_slot *slot = arriving->slot;

	if (!slot)
		return;
	vg_ledger_guard(arriving->tenant->stand_in);
	atomic_store(&slot->source, PAGER_EXCHANGE);
	atomic_store(&slot->file[0], file->process);
	atomic_store(&slot->file[1], file->start_time);
	atomic_store(&slot->file[2], file->number);
	atomic_store(&slot->source, source);
	atomic_fetch_add_explicit(&slot->bell, 1, memory_order_release);
	syscall(SYS_futex, &slot->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	(void)vg_ledger_unguard(); // ignore a truncated ledger here: tenants_hand_over() fails with it later
}

// ---- files -----------------------------------------------------------------------------------------------

// Makes a file with the memory of a process. Takes the file that earlier rounds of a migration have filled, if there is
// one and the process can open it.
static enum vg_status make_file(struct memories *memories, size_t memory, struct phase *phase)
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
	status = device_in_fill(memories->image, &memories->index, memory, have, fd, phase, &phase->bytes);
	close(fd);
	if (status == VG_OK)
		record(&memories->list[memory], &file, PAGER_WHOLE_FILE);
	return status;
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
	if (status == VG_OK)
		record(&memories->list[memory], &file, PAGER_WINDOW);
	return status;
}

enum vg_status memories_begin(struct memories *memories, struct phase *phase)
{
	enum vg_status status = VG_OK;

	memories->list = calloc(memories->index.memory_count + 1, sizeof *memories->list);
	if (!memories->list)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", memories->index.memory_count);
	for (size_t i = 0; i < memories->index.memory_count && status == VG_OK; i++) {
		struct arriving *arriving = &memories->list[i];
		arriving->tenant = find_tenant(memories, i);
		find_slot(arriving);
		status = memories->know_window ? make_window(memories, i) : make_file(memories, i, phase);
	}
	return status;
}

// Serves the window of a process. If the process declines it, puts the memory into a file.
static enum vg_status finish_window(struct memories *memories, size_t memory, struct phase *phase)
{
	struct arriving *arriving = &memories->list[memory];
	pid_t pid = (pid_t)memories->index.memories[memory].pid;
	bool is_declined = false;

	if (!arriving->window)
		return VG_OK;
	int r = vg_process_start_time(pid, &arriving->start_time);
	if (r)
		return vg_fail(VG_STATE, -r, "process %d ended before its device memory was back", (int)pid);
	enum vg_status status = device_window_serve(arriving->window, pid, arriving->start_time, phase, &is_declined);
	if (status == VG_OK && is_declined)
		status = parking_check_room(memories->index.memories[memory].bytes);
	if (status == VG_OK && is_declined)
		status = make_file(memories, memory, phase);
	if (status)
		return status;
	// Close the window only when the slot names the file: a process that finds its window closed gives up.
	device_window_close(arriving->window);
	arriving->window = NULL;
	parking_remove_first(&memories->parking, pid); // the window, which was made before the file
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
