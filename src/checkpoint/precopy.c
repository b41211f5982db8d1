#include "checkpoint/precopy.h"

#include "base/clock.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/process/hold.h"
#include "checkpoint/process/refusal.h"
#include "checkpoint/suspend/park.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ROUNDS = 8 };
static const uint64_t little_bytes = 64 << 20; // if a round has fewer changed bytes, it is the last one

// The processes as they were found at the beginning of a round, and the open files with their device memory.
struct snapshot {
	struct tree tree;
	struct tenants tenants;
	struct parking parking;
};

// ---- one round -------------------------------------------------------------------------------------------

static enum vg_status find_processes(const struct precopy *precopy, struct snapshot *snapshot)
{

	enum vg_status status = dump_find_tree(precopy->dump, &snapshot->tree);
	if (status)
		return status;
	status = hold_tree(&snapshot->tree, 0);
	if (status)
		return status;
	status = refusal_by_kernel(&snapshot->tree);
	if (status)
		return status;
	status = tenants_find(&snapshot->tree, &snapshot->tenants);
	if (status)
		return status;
	status = tenants_refuse_deep(&snapshot->tenants);
	if (status)
		return status;
	status = tenants_refuse_shared(&snapshot->tenants);
	if (status)
		return status;
	if (!parking_concerns(&snapshot->tenants))
		status = vg_fail(VG_UNSUPPORTED, 0,
				 "process %d (%s) does not run in an evictable vGPU, nor does a child of it: only "
				 "memory of those can be transferred while programs run; migrate it without --precopy",
				 (int)snapshot->tree.processes[0].pid, snapshot->tree.processes[0].command);
	return status;
}

// Has the pagers move the device memory into files in host memory, and opens the files. Then lets the pagers move the
// memory back.
static enum vg_status open_memory(struct precopy *precopy, struct snapshot *snapshot,
				  struct device_source **ret_sources)
{
	const struct parking_wish wish = {.drain_ms = dump_timeout(precopy->dump), .limit = "--timeout"};

	dump_open_gates(&snapshot->tenants, wish.drain_ms);
	enum vg_status status = parking_begin(&snapshot->tenants, &wish, precopy->phase, &snapshot->parking);
	dump_open_gates(&snapshot->tenants, 0);
	if (status == VG_OK)
		status = parking_open(&snapshot->parking, ret_sources);
	struct vg_kept_error kept;
	vg_error_keep(&kept);
	parking_release(&snapshot->tenants);
	vg_error_restore(&kept);
	return status;
}

static enum vg_status take_snapshot(struct precopy *precopy, struct device_source **ret_sources, size_t *ret_count)
{
	struct snapshot snapshot = {0};

	enum vg_status status = find_processes(precopy, &snapshot);
	if (status == VG_OK)
		status = open_memory(precopy, &snapshot, ret_sources);
	*ret_count = snapshot.parking.count;
	for (size_t i = 0; i < *ret_count && status == VG_OK; i++)
		(*ret_sources)[i].is_loose = true; // the pager may write to this file again
	parking_finish(&snapshot.parking);
	tenants_free(&snapshot.tenants);
	tree_free(&snapshot.tree);
	return status;
}

static enum vg_status begin_draft(const struct precopy *precopy, struct image_draft *draft)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s" IMAGE_PRECOPY, precopy->dump->dir) >= (int)sizeof path)
		return vg_fail(VG_INVALID, 0, "%.60s… is too long a path", precopy->dump->dir);
	enum vg_status status = image_begin(path, draft);
	draft->compression = precopy->dump->compression;
	draft->level = precopy->dump->compression_level;
	draft->threads = precopy->dump->threads;
	return status;
}

// Sends the packs of the round, and syncs the new ones to the disk. The image will contain them. Syncing them now does
// not stop the processes.
static enum vg_status send_packs(struct precopy *precopy, const struct device_base *base, uint32_t *numbers)
{
	uint64_t bytes;
	char name[32];

	for (unsigned i = 0; i < base->index.pack_count; i++) {
		snprintf(name, sizeof name, DEVICE_PACK_FORMAT, i);
		int fd = image_open_file(base->dir.fd, name);
		if (fd < 0)
			return vg_fail(VG_SYSTEM, -fd, "%s/%s: %s", base->dir.path, name, strerror(-fd));
		enum vg_status status = stream_send_pack(precopy->frames, &precopy->packs, fd, &numbers[i], &bytes);
		precopy->sent_bytes += bytes;
		if (status)
			return status;
		if (bytes && fsync(fd) < 0)
			return vg_fail(VG_SYSTEM, errno, "%s/%s: %s", base->dir.path, name, strerror(errno));
	}
	return VG_OK;
}

// Sends the index of the round. With it, the receiver fills host memory before the processes arrive.
static enum vg_status send_index(struct precopy *precopy, const struct device_base *base, const uint32_t *numbers)
{
	struct device_index index = base->index;
	void *data = NULL;
	size_t length;

	index.pack_count = (unsigned)precopy->packs.count;
	index.blocks = malloc((index.block_count + 1) * sizeof *index.blocks);
	for (size_t i = 0; i < index.block_count && index.blocks; i++) {
		index.blocks[i] = base->index.blocks[i];
		if (index.blocks[i].codec != DEVICE_ZERO)
			index.blocks[i].pack = numbers[index.blocks[i].pack];
	}
	if (index.blocks)
		data = device_index_encode(&index, &length);
	enum vg_status status = data ? stream_send_index(precopy->frames, data, length)
				     : vg_fail(VG_NO_MEMORY, 0, "no memory for an index");
	// The receiver removes unused packs when it has read this index, so close those packs here, too.
	if (status == VG_OK)
		status = packs_close_unused(&precopy->packs, &index);
	free(index.blocks);
	free(data);
	return status;
}

static enum vg_status send_round(struct precopy *precopy, const struct device_base *base)
{
	uint32_t *numbers = calloc(base->index.pack_count + 1, sizeof *numbers);

	enum vg_status status =
		numbers ? send_packs(precopy, base, numbers) : vg_fail(VG_NO_MEMORY, 0, "no memory for the packs");
	if (status == VG_OK)
		status = send_index(precopy, base, numbers);
	free(numbers);
	return status;
}

// Makes this round the base of the next one, in place of the previous round.
static enum vg_status keep_round(struct precopy *precopy, struct device_base *base)
{
	device_bases_close(&precopy->bases);
	return device_bases_add(&precopy->bases, base);
}

static enum vg_status run_round(struct precopy *precopy, struct device_written *ret_written)
{
	struct image_draft *draft = &precopy->drafts[precopy->rounds % 2];
	struct device_source *sources = NULL;
	struct device_base base = {.dir.fd = -1};
	struct device_out *out = NULL;
	size_t count = 0;

	*ret_written = (struct device_written){0};
	enum vg_status status = take_snapshot(precopy, &sources, &count);
	if (status || !count) {
		free(sources);
		return status;
	}
	status = begin_draft(precopy, draft);
	if (status == VG_OK)
		status = device_out_start(draft, sources, count, &precopy->bases, NULL, &out);
	else
		for (size_t i = 0; i < count; i++)
			close(sources[i].fd);
	free(sources);
	if (status)
		goto finish;
	status = device_out_finish_base(out, precopy->phase, ret_written, &base);
	if (status)
		goto finish;
	precopy->phase->bytes = 0; // from here on, count the bytes that are sent
	precopy->phase->total = ret_written->new_bytes;
	status = send_round(precopy, &base);
	if (status)
		goto finish;
	status = keep_round(precopy, &base);
	if (status)
		goto finish;
	precopy->rounds++;
	// Free the packs of the previous round that this round does not use. The next packs then take their memory.
	image_finish(&precopy->drafts[precopy->rounds % 2]);
finish:
	device_base_close(&base);
	return status;
}

// ---- all rounds ------------------------------------------------------------------------------------------

static void warn_of_changes(struct precopy *precopy, const struct device_written *written, double seconds)
{
	char text[2][VG_SIZE_TEXT];

	if (precopy->rounds < 2 || written->new_bytes <= written->bytes / 2)
		return;
	snprintf(precopy->warning, sizeof precopy->warning,
		 "copying ahead did not help: %s of %s of device memory had to be transferred again after %.1f s, so "
		 "the stop is hardly shorter than without",
		 vg_size_format(written->new_bytes, text[0]), vg_size_format(written->bytes, text[1]), seconds);
}

static void warn_of_host(struct precopy *precopy)
{
	snprintf(precopy->warning, sizeof precopy->warning,
		 "nothing was copied ahead: the processes have no memory that can move, or the host has no room for it "
		 "(--swap)");
}

// Returns whether another round would shorten the time for which the processes are stopped.
static bool is_worth_another(const struct precopy *precopy, const struct device_written *before,
			     const struct device_written *written)
{
	if (precopy->rounds >= MOST_ROUNDS)
		return false;
	return precopy->rounds < 2 ||
	       (written->new_bytes > little_bytes && written->new_bytes < before->new_bytes / 4 * 3);
}

enum vg_status precopy_run(struct precopy *precopy)
{
	struct device_written before = {0}, written = {0};
	uint64_t began_ns = 0;
	double seconds = 0;

	precopy->base.dir.fd = -1;
	enum vg_status status = phase_begin(precopy->phase, VG_CHECKPOINT_PRECOPY);
	if (status)
		return status;
	do {
		uint64_t now_ns = vg_clock_monotonic_ns();
		seconds = began_ns ? (double)(now_ns - began_ns) / 1e9 : 0;
		began_ns = now_ns;
		before = written;
		status = run_round(precopy, &written);
		if (status)
			return status;
		if (precopy->phase->stop)
			return vg_fail(VG_STATE, 0, "stopped before the processes were, as asked");
	} while (written.bytes && is_worth_another(precopy, &before, &written));
	if (!precopy->rounds)
		warn_of_host(precopy);
	else
		warn_of_changes(precopy, &written, seconds);
	if (!precopy->bases.count)
		return VG_OK;
	precopy->base = precopy->bases.list[0];
	precopy->bases.list[0] = (struct device_base){.dir.fd = -1};
	return VG_OK;
}

// ---- the packs of the image ------------------------------------------------------------------------------

static void *send_last(void *user)
{
	struct precopy *precopy = user;
	struct precopy_last *last = &precopy->last;
	uint32_t number;
	uint64_t bytes;
	char name[32];

	for (unsigned i = 0; i < last->count && !last->status; i++) {
		snprintf(name, sizeof name, DEVICE_PACK_FORMAT, i);
		int fd = image_open_file(last->directory, name);
		if (fd >= 0)
			last->status = stream_send_pack(precopy->frames, &precopy->packs, fd, &number, &bytes);
	}
	if (last->status)
		vg_error_keep(&last->error);
	return NULL;
}

void precopy_send_last(void *user, const struct image_draft *draft, unsigned count)
{
	struct precopy *precopy = user;
	struct precopy_last *last = &precopy->last;

	// Open the directory again: a duplicate of the descriptor would keep the draft locked.
	last->directory = openat(draft->lock, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (last->directory < 0)
		return;
	last->count = count;
	precopy->frames->phase = &last->phase;
	last->is_running = pthread_create(&last->thread, NULL, send_last, precopy) == 0;
	if (!last->is_running) {
		precopy->frames->phase = NULL;
		close(last->directory);
	}
}

// Waits until the thread has ended. `phase`: NULL if it must end soon.
static void join_last(struct precopy *precopy, struct phase *phase)
{
	struct precopy_last *last = &precopy->last;

	if (!last->is_running)
		return;
	do {
		if (!phase || phase->stop)
			last->phase.stop = true;
		if (phase) {
			phase->bytes = last->phase.bytes;
			phase_tick(phase);
		}
	} while (!phase_join(last->thread));
	last->is_running = false;
	precopy->frames->phase = NULL;
	close(last->directory);
}

enum vg_status precopy_end_packs(struct precopy *precopy, struct phase *phase)
{
	const struct precopy_last *last = &precopy->last;

	join_last(precopy, phase);
	if (last->status)
		return vg_fail(last->status, last->error.error.code, "%s", last->error.text);
	precopy->frames->phase = phase;
	return stream_end_packs(precopy->frames);
}

void precopy_finish(struct precopy *precopy)
{
	join_last(precopy, NULL);
	device_base_close(&precopy->base);
	device_bases_close(&precopy->bases);
	packs_finish(&precopy->packs);
	for (int i = 0; i < 2; i++)
		image_finish(&precopy->drafts[i]);
}
