#include "checkpoint/suspend/park.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/hint.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/process/proc.h"
#include "checkpoint/process/refusal.h"
#include "ledger/guard.h"
#include "pager/page.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_LEAST_US = 200, LOOK_MOST_US = 10000 };
#define NONE_NS UINT64_C(1000000000) // how long to wait for a process to start its pager
// How long to wait for an answer, in addition to twice `drain_ms` and the time for pinning host memory.
#define PATIENCE_NS UINT64_C(10000000000)
// `pinned_each_second`: the lowest rate, in bytes per second, at which pinning of host memory is expected to work.
// `most_bytes`: the largest size that is believed, because tenants can write any size into their ledger.
static const uint64_t pinned_each_second = 256 << 20, most_bytes = UINT64_C(1) << 40;

#define READ(word) atomic_load_explicit(&(word), memory_order_relaxed)

// What the slot of a process says about its state.
struct seen {
	bool is_there; // the slot still belongs to the process, and the ledger is valid
	bool has_answered;
	uint32_t state, reason, row;
	uint64_t bytes, host, missing;
	struct pager_file file;
	bool knows_window;
};

static bool is_own(const struct tenant *tenant)
{
	return !tenant->slot.guest && !tenant->slot.host;
}

static bool can_park(const struct tenants *tenants, const struct tenant *tenant)
{
	return tenants->vgpus[tenant->vgpu].evictable && is_own(tenant);
}

bool parking_concerns(const struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->count; i++)
		if (can_park(tenants, &tenants->list[i]))
			return true;
	return false;
}

uint64_t parking_estimate(const struct tenants *tenants)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		const struct vg_ledger *ledger = tenants->vgpus[tenant->vgpu].ledger;
		if (can_park(tenants, tenant))
			sum += vg_size_min(READ(vg_ledger_pager_slots(ledger)[tenant->slot.slot].bytes), most_bytes);
	}
	return sum;
}

// ---- the slots of the ledger ---------------------------------------------------------------------------

// Returns the pager's part of the tenant's slot; NULL if the slot belongs to another process now.
static struct pager_slot *slot_of(const struct vg_ledger *ledger, const struct tenant *tenant)
{
	unsigned int cursor = tenant->slot.slot;
	struct vg_ledger_tenant now;

	if (!vg_ledger_next_tenant(ledger, &cursor, &now) || now.slot != tenant->slot.slot ||
	    !vg_ledger_owner_same(&now.owner, &tenant->slot.owner))
		return NULL;
	return &vg_ledger_pager_slots(ledger)[now.slot];
}

static void wake_pager(struct pager_slot *slot)
{
	atomic_fetch_add_explicit(&slot->bell, 1, memory_order_release);
	syscall(SYS_futex, &slot->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static struct seen read_slot(const struct pager_slot *slot)
{
	uint32_t answered = atomic_load_explicit(&slot->answered, memory_order_acquire);

	return (struct seen){.is_there = true,
			     .has_answered = answered == READ(slot->bell),
			     .state = READ(slot->state),
			     .reason = READ(slot->reason),
			     .row = READ(slot->row),
			     .bytes = READ(slot->bytes),
			     .host = READ(slot->host),
			     .missing = READ(slot->missing),
			     .file = {READ(slot->file[0]), READ(slot->file[1]), READ(slot->file[2])},
			     .knows_window = READ(slot->knows_window) == 1};
}

// Maps the ledgers of the vGPUs. Their users may truncate them at any time.
static struct vg_ledger **open_ledgers(const struct tenants *tenants)
{
	struct vg_ledger **ledgers = calloc(tenants->vgpu_count + 1, sizeof *ledgers);

	for (size_t i = 0; i < tenants->vgpu_count && ledgers; i++)
		if (vg_ledger_open(tenants->vgpus[i].path, &ledgers[i]))
			ledgers[i] = NULL;
	return ledgers;
}

static void close_ledgers(const struct tenants *tenants, struct vg_ledger **ledgers)
{
	for (size_t i = 0; i < tenants->vgpu_count && ledgers; i++)
		vg_ledger_close(ledgers[i]);
	free(ledgers);
}

static void make_wish(const struct tenant *tenant, struct vg_ledger *ledger, uint32_t wish, unsigned drain_ms)
{
	if (!ledger)
		return;
	vg_ledger_guard(ledger);
	struct pager_slot *slot = slot_of(ledger, tenant);
	if (slot) {
		atomic_store(&slot->drain_ms, drain_ms);
		atomic_store(&slot->park, wish);
		wake_pager(slot);
	}
	(void)vg_ledger_unguard(); // ignore a truncated ledger here: wait_for() then finds no slot, and does not wait
}

// Withdraws the request to park, but not that of a deep suspension if `keeps_deep`. Returns whether it has withdrawn a
// request.
static bool withdraw_wish(const struct tenant *tenant, struct vg_ledger *ledger, bool keeps_deep)
{
	bool withdrawn = false;

	if (!ledger)
		return false;
	vg_ledger_guard(ledger);
	struct pager_slot *slot = slot_of(ledger, tenant);
	uint32_t wish = slot ? READ(slot->park) : 0;
	if (wish && !(keeps_deep && wish & PAGER_PARK_DEEP)) {
		atomic_store(&slot->park, 0);
		wake_pager(slot);
		withdrawn = true;
	}
	return !vg_ledger_unguard() && withdrawn;
}

static struct seen look_at(const struct tenant *tenant, struct vg_ledger *ledger)
{
	struct seen seen = {0};

	if (!ledger)
		return seen;
	vg_ledger_guard(ledger);
	const struct pager_slot *slot = slot_of(ledger, tenant);
	if (slot)
		seen = read_slot(slot);
	return vg_ledger_unguard() ? (struct seen){0} : seen;
}

// ---- waiting -------------------------------------------------------------------------------------------

// Returns a text for the reason that the pager reported.
static const char *reason_text(const struct seen *seen, char *buffer, size_t capacity)
{
	switch (seen->reason) {
	case PAGER_THREAD:
		return "a thread does not return from a call of the driver";
	case PAGER_GPU:
		return "the GPU has not finished its work";
	case PAGER_CAPTURE:
		return "a stream capture has not ended";
	case PAGER_FILE:
		snprintf(buffer, capacity, "the file with its memory in " PAGER_FILE_DIRECTORY ": %s",
			 strerror((int)seen->row));
		return buffer;
	case PAGER_DRIVER:
		snprintf(buffer, capacity, "the driver failed with %u", (unsigned)seen->row);
		return buffer;
	default:
		return "it gave no reason";
	}
}

// Returns an error if a process must be parked but is not. A process whose memory is all on the GPU need not be parked,
// because the driver saves that memory. For a deep suspension, it is enough that the memory is in the host: the process
// keeps it mapped there, and no file is needed.
static enum vg_status judge_answer(const struct tenants *tenants, const struct tenant *tenant, const struct seen *seen,
				   const struct parking_wish *how)
{
	const char *name = tenants->vgpus[tenant->vgpu].name;
	char text[160];

	if (how->is_deep && seen->state == PAGER_OUT)
		return VG_OK;
	if (seen->reason == PAGER_THREAD || seen->reason == PAGER_GPU || seen->reason == PAGER_CAPTURE)
		return vg_fail(
			VG_NOT_READY, 0,
			"the memory of process %d (%s) of vGPU %s did not leave the GPU within %.1f s: %s; allow "
			"more time with %s",
			(int)tenant->pid, tenant->slot.command, name, how->drain_ms / 1e3,
			reason_text(seen, text, sizeof text), how->limit);
	if (seen->reason == PAGER_FILE)
		return refuse(REFUSE_HOST_FILE, (int)seen->row,
			      "process %d (%s) of vGPU %s cannot put its host memory away: %s", (int)tenant->pid,
			      tenant->slot.command, name, reason_text(seen, text, sizeof text));
	if (seen->reason == PAGER_DRIVER && seen->state != PAGER_BROKEN)
		return vg_fail(VG_DRIVER, (int)seen->row,
			       "the memory of process %d (%s) of vGPU %s did not leave the GPU: %s", (int)tenant->pid,
			       tenant->slot.command, name, reason_text(seen, text, sizeof text));
	if (seen->state == PAGER_RUNNING || seen->state == PAGER_NONE || seen->state == PAGER_BROKEN)
		return VG_OK;
	return refuse(REFUSE_SUSPENDED, 0,
		      "process %d (%s) of vGPU %s is suspended, and did not put its host memory away: resume it first "
		      "(virgate resume%s)",
		      (int)tenant->pid, tenant->slot.command, name, vg_hint_own_sim());
}

static bool is_done(const struct seen *seen, uint64_t waited_ns)
{
	return !seen->is_there || (seen->has_answered && seen->state != PAGER_NONE) ||
	       (seen->state == PAGER_NONE && waited_ns > NONE_NS);
}

static enum vg_status wait_for(const struct tenants *tenants, const struct tenant *tenant, struct vg_ledger *ledger,
			       unsigned drain_ms, struct phase *phase, struct seen *ret_seen)
{
	uint64_t began_ns = vg_clock_monotonic_ns();
	unsigned pause_us = LOOK_LEAST_US;

	for (;;) {
		struct seen seen = look_at(tenant, ledger);
		uint64_t waited_ns = vg_clock_monotonic_ns() - began_ns;
		uint64_t most_ns = PATIENCE_NS + drain_ms * UINT64_C(2000000) +
				   vg_size_min(seen.bytes, most_bytes) / pinned_each_second * UINT64_C(1000000000);
		*ret_seen = seen;
		if (is_done(&seen, waited_ns))
			return VG_OK;
		if (phase->stop)
			return vg_fail(VG_STATE, 0, "stopped while device memory left the GPU, as asked");
		if (waited_ns > most_ns)
			return vg_fail(
				VG_NOT_READY, 0,
				"process %d (%s) of vGPU %s did not answer for %.0f s when it was to leave the GPU",
				(int)tenant->pid, tenant->slot.command, tenants->vgpus[tenant->vgpu].name,
				(double)waited_ns / 1e9);
		usleep(pause_us);
		pause_us = pause_us < LOOK_MOST_US ? pause_us * 2 : LOOK_MOST_US;
		phase_tick(phase);
	}
}

// ---- files ---------------------------------------------------------------------------------------------

// Opens the directory for pagers' files as the process sees it. The process may be in a container, and links there must
// not lead out of the container. Returns the descriptor or -errno.
static int open_directory(pid_t pid)
{
	const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	char path[32];

	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	_cleanup_close_ int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	int fd = (int)syscall(SYS_openat2, root, PAGER_FILE_DIRECTORY, &how, sizeof how);
	return fd < 0 ? -errno : fd;
}

static enum vg_status add_parked(struct parking *parking, const struct parked *parked)
{
	struct parked *grown = realloc(parking->list, (parking->count + 1) * sizeof *grown);

	if (!grown)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for another process");
	parking->list = grown;
	grown[parking->count++] = *parked;
	parking->bytes += parked->bytes;
	return VG_OK;
}

static enum vg_status find_file(const struct tenant *tenant, const struct seen *seen, struct parking *parking)
{
	struct parked parked = {.pid = tenant->pid, .knows_window = seen->knows_window};
	const struct pager_file *file = &seen->file;
	struct stat info;

	if (!file->number)
		return VG_OK; // the process has no memory in a file
	pager_file_format(file, parked.name);
	int r = vg_process_start_time(tenant->pid, &parked.start_time);
	parked.directory = r ? r : open_directory(tenant->pid);
	if (parked.directory >= 0 && fstatat(parked.directory, parked.name, &info, AT_SYMLINK_NOFOLLOW) < 0) {
		r = -errno;
		close(parked.directory);
		parked.directory = r;
	}
	if (parked.directory < 0)
		return vg_fail(VG_SYSTEM, -parked.directory, "%s/%s of process %d: %s", PAGER_FILE_DIRECTORY,
			       parked.name, (int)tenant->pid, strerror(-parked.directory));
	parked.bytes = (uint64_t)info.st_size;
	enum vg_status status = add_parked(parking, &parked);
	if (status)
		close(parked.directory);
	return status;
}

static uint32_t choose_wish(bool is_deep)
{
	uint32_t wish = (uint32_t)(vg_clock_monotonic_ns() >> 10) & PAGER_PARK_NUMBER;

	return (wish ? wish : 1) | (is_deep ? (uint32_t)PAGER_PARK_DEEP : 0);
}

static enum vg_status wait_for_parking(const struct tenants *tenants, struct vg_ledger **ledgers,
				       const struct parking_wish *how, struct phase *phase, struct parking *parking)
{
	uint32_t wish = choose_wish(how->is_deep);
	unsigned drain_ms = how->drain_ms;
	enum vg_status status = VG_OK;
	struct seen seen;

	for (size_t i = 0; i < tenants->count; i++)
		if (can_park(tenants, &tenants->list[i]))
			make_wish(&tenants->list[i], ledgers[tenants->list[i].vgpu], wish, drain_ms);
		else if (how->is_deep && is_own(&tenants->list[i]))
			make_wish(&tenants->list[i], ledgers[tenants->list[i].vgpu], PAGER_PARK_DEEP, drain_ms);
	for (size_t i = 0; i < tenants->count && status == VG_OK; i++) {
		const struct tenant *tenant = &tenants->list[i];
		if (!can_park(tenants, tenant))
			continue;
		status = wait_for(tenants, tenant, ledgers[tenant->vgpu], drain_ms, phase, &seen);
		if (status == VG_OK && seen.is_there)
			status = seen.state == PAGER_PARKED ? find_file(tenant, &seen, parking)
							    : judge_answer(tenants, tenant, &seen, how);
	}
	return status;
}

enum vg_status parking_begin(const struct tenants *tenants, const struct parking_wish *how, struct phase *phase,
			     struct parking *ret_parking)
{
	struct vg_ledger **ledgers = open_ledgers(tenants);

	*ret_parking = (struct parking){0};
	if (!ledgers)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu vGPUs", tenants->vgpu_count);
	enum vg_status status = wait_for_parking(tenants, ledgers, how, phase, ret_parking);
	close_ledgers(tenants, ledgers);
	return status;
}

// Opens the file that a process has named. Does not trust the name: the process may be hostile, and the caller may be
// root.
static int open_source(const struct parked *parked)
{
	struct proc_status process;
	struct stat info;

	int fd = openat(parked->directory, parked->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fstat(fd, &info) < 0 ? -errno : proc_status_read(parked->pid, &process);
	if (r == 0 && (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != parked->bytes ||
		       parked->bytes % DEVICE_BLOCK || info.st_uid != process.user))
		r = -EINVAL;
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

enum vg_status parking_open(const struct parking *parking, struct device_source **ret_sources)
{
	struct device_source *sources = calloc(parking->count + 1, sizeof *sources);

	if (!sources)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", parking->count);
	for (size_t i = 0; i < parking->count; i++) {
		const struct parked *parked = &parking->list[i];
		sources[i] = (struct device_source){parked->pid, open_source(parked), parked->bytes};
		if (sources[i].fd >= 0)
			continue;
		int r = sources[i].fd;
		while (i-- > 0)
			close(sources[i].fd);
		free(sources);
		return vg_fail(r == -EINVAL ? VG_INTEGRITY : VG_SYSTEM, -r, "%s/%s of process %d: %s",
			       PAGER_FILE_DIRECTORY, parked->name, (int)parked->pid,
			       r == -EINVAL ? "it is no file of that process's host memory" : strerror(-r));
	}
	*ret_sources = sources;
	return VG_OK;
}

static void mark_done(const struct tenant *tenant, struct vg_ledger *ledger)
{
	if (!ledger)
		return;
	vg_ledger_guard(ledger);
	struct pager_slot *slot = slot_of(ledger, tenant);
	if (slot && READ(slot->park) & PAGER_PARK_DEEP)
		atomic_fetch_or(&slot->park, PAGER_PARK_DEEP_DONE);
	(void)vg_ledger_unguard(); // ignore a truncated ledger: it has no slot to mark
}

void parking_mark_deep(const struct tenants *tenants)
{
	struct vg_ledger **ledgers = open_ledgers(tenants);

	for (size_t i = 0; i < tenants->count && ledgers; i++)
		if (is_own(&tenants->list[i]))
			mark_done(&tenants->list[i], ledgers[tenants->list[i].vgpu]);
	close_ledgers(tenants, ledgers);
}

static size_t withdraw_wishes(const struct tenants *tenants, bool keeps_deep)
{
	struct vg_ledger **ledgers = tenants->count ? open_ledgers(tenants) : NULL;
	size_t released = 0;

	for (size_t i = 0; i < tenants->count && ledgers; i++)
		if (is_own(&tenants->list[i]))
			released += withdraw_wish(&tenants->list[i], ledgers[tenants->list[i].vgpu], keeps_deep);
	close_ledgers(tenants, ledgers);
	return released;
}

size_t parking_release(const struct tenants *tenants)
{
	return withdraw_wishes(tenants, false);
}

void parking_release_dumped(const struct tenants *tenants)
{
	withdraw_wishes(tenants, true);
}

static void free_list(struct parking *parking)
{
	for (size_t i = 0; i < parking->count; i++)
		close(parking->list[i].directory);
	free(parking->list);
	*parking = (struct parking){0};
}

void parking_finish(struct parking *parking)
{
	for (size_t i = 0; i < parking->count; i++)
		if (vg_process_is_dead(parking->list[i].pid, parking->list[i].start_time))
			unlinkat(parking->list[i].directory, parking->list[i].name, 0);
	free_list(parking);
}

// ---- a restore -----------------------------------------------------------------------------------------

enum vg_status parking_check_room(uint64_t bytes)
{
	char text[2][VG_SIZE_TEXT];
	struct statvfs info;

	if (bytes == 0)
		return VG_OK;
	pager_file_sweep(0);
	if (statvfs(PAGER_FILE_DIRECTORY, &info) < 0)
		return VG_OK; // skip the check: the processes may see another file system at this path
	uint64_t have = (uint64_t)info.f_bavail * info.f_frsize;
	if (bytes <= have)
		return VG_OK;
	enum vg_status status = refuse(REFUSE_HOST_MEMORY, 0,
				       "%s of device memory goes through " PAGER_FILE_DIRECTORY
				       ", which has %s free: free some, or enlarge it "
				       "(mount -o remount,size=…)",
				       vg_size_format(bytes, text[0]), vg_size_format(have, text[1]));
	vg_fail_amounts(bytes, have);
	return status;
}

// Changes the file's owner to the user of the process, because the process opens the file itself.
static int give_to(int fd, pid_t pid)
{
	struct proc_status process;
	int r = geteuid() == 0 ? proc_status_read(pid, &process) : 0;

	return r == 0 && geteuid() == 0 && fchown(fd, process.user, (gid_t)-1) < 0 ? -errno : r;
}

enum vg_status parking_make(struct parking *parking, pid_t pid, int *ret_fd, struct pager_file *ret_file)
{
	struct parked parked = {.pid = pid, .directory = -1};
	int fd = -1, r = pager_file_choose(pid, ret_file);

	if (r == 0)
		r = vg_process_start_time(pid, &parked.start_time);
	if (r == 0) {
		pager_file_format(ret_file, parked.name);
		parked.directory = open_directory(pid);
		r = parked.directory < 0 ? parked.directory : 0;
	}
	if (r == 0) {
		fd = openat(parked.directory, parked.name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		r = fd < 0 ? -errno : give_to(fd, pid);
	}
	enum vg_status status = r ? vg_fail(VG_SYSTEM, -r, "%s/%s for process %d: %s", PAGER_FILE_DIRECTORY,
					    parked.name, (int)pid, strerror(-r))
				  : add_parked(parking, &parked);
	if (status == VG_OK) {
		*ret_fd = fd;
		return VG_OK;
	}
	if (fd >= 0) {
		unlinkat(parked.directory, parked.name, 0);
		close(fd);
	}
	if (parked.directory >= 0)
		close(parked.directory);
	return status;
}

bool parking_adopt(struct parking *parking, pid_t pid, int fd, struct pager_file *ret_file)
{
	struct parked parked = {.pid = pid, .directory = -1};
	bool is_linked = false;
	char from[32];

	snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
	if (pager_file_choose(pid, ret_file) || vg_process_start_time(pid, &parked.start_time))
		return false;
	pager_file_format(ret_file, parked.name);
	parked.directory = open_directory(pid);
	// Give the file a name in a directory of the process. This fails if the process is in a container in which that
	// directory is on another file system.
	if (parked.directory >= 0 && give_to(fd, pid) == 0)
		is_linked = linkat(AT_FDCWD, from, parked.directory, parked.name, AT_SYMLINK_FOLLOW) == 0;
	if (is_linked && add_parked(parking, &parked) == VG_OK)
		return true;
	if (is_linked)
		unlinkat(parked.directory, parked.name, 0);
	if (parked.directory >= 0)
		close(parked.directory);
	return false;
}

void parking_remove_first(struct parking *parking, pid_t pid)
{
	size_t i = 0;

	while (i < parking->count && parking->list[i].pid != pid)
		i++;
	if (i == parking->count)
		return;
	unlinkat(parking->list[i].directory, parking->list[i].name, 0);
	close(parking->list[i].directory);
	parking->bytes -= parking->list[i].bytes;
	parking->count--;
	memmove(&parking->list[i], &parking->list[i + 1], (parking->count - i) * sizeof *parking->list);
}

void parking_remove(struct parking *parking)
{
	for (size_t i = 0; i < parking->count; i++)
		unlinkat(parking->list[i].directory, parking->list[i].name, 0);
	free_list(parking);
}
