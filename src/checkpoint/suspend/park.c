#include "checkpoint/suspend/park.h"

#include "base/clock.h"
#include "base/hint.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/process/refusal.h"
#include "ledger/guard.h"
#include "pager/page.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

// A wish that processes were given, and what the wait for their answers needs.
struct wait {
	const struct tenants *tenants;
	struct vg_ledger **ledgers; // one for each vGPU of the tenants; NULL: it cannot be read
	const struct parking_wish *how;
	struct phase *phase;
	uint64_t began_ns;
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

void parking_tell_source(struct pager_slot *slot, const struct pager_file *file, enum pager_source source)
{
	atomic_store(&slot->source, PAGER_EXCHANGE);
	atomic_store(&slot->file[2], 0);
	atomic_store(&slot->file[0], file->process);
	atomic_store(&slot->file[1], file->start_time);
	atomic_store(&slot->file[2], file->number);
	atomic_store(&slot->source, source);
	wake_pager(slot);
}

static struct seen read_slot(const struct pager_slot *slot)
{
	uint32_t answered = atomic_load_explicit(&slot->answered, memory_order_acquire);
	// Read the number before the other words of the file. If the pager clears them meanwhile, has_file() sees a 0.
	uint64_t number = atomic_load(&slot->file[2]);
	bool is_whole = atomic_load(&slot->source) == PAGER_WHOLE_FILE; // no window of a restore that is under way

	return (struct seen){.is_there = true,
			     .has_answered = answered == READ(slot->bell),
			     .state = READ(slot->state),
			     .reason = READ(slot->reason),
			     .row = READ(slot->row),
			     .bytes = READ(slot->bytes),
			     .host = READ(slot->host),
			     .missing = READ(slot->missing),
			     .file = {READ(slot->file[0]), READ(slot->file[1]), is_whole ? number : 0},
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

// Returns whether all memory of the process is in its file, although the pager may still unpin and unmap the file. Call
// it after make_wish(): a pager that sees the wish keeps the memory in the file until the wish is withdrawn. A pager
// that does not see the wish yet clears `file` before it moves the memory.
static bool has_file(const struct seen *seen)
{
	return seen->is_there && (seen->state == PAGER_OUT || seen->state == PAGER_PARKED) && seen->file.process &&
	       seen->file.start_time && seen->file.number;
}

// Waits for the answer of a process. `is_early`: or until its memory is in its file.
static enum vg_status wait_for(const struct wait *wait, const struct tenant *tenant, bool is_early,
			       struct seen *ret_seen)
{
	struct vg_ledger *ledger = wait->ledgers[tenant->vgpu];
	unsigned drain_ms = wait->how->drain_ms;
	struct phase *phase = wait->phase;
	uint64_t began_ns = vg_clock_monotonic_ns();
	unsigned pause_us = LOOK_LEAST_US;

	for (;;) {
		struct seen seen = look_at(tenant, ledger);
		uint64_t now_ns = vg_clock_monotonic_ns(), waited_ns = now_ns - began_ns;
		uint64_t most_ns = PATIENCE_NS + drain_ms * UINT64_C(2000000) +
				   vg_size_min(seen.bytes, most_bytes) / pinned_each_second * UINT64_C(1000000000);
		*ret_seen = seen;
		if (is_done(&seen, now_ns - wait->began_ns) || (is_early && has_file(&seen)))
			return VG_OK;
		if (phase->stop)
			return vg_fail(VG_STATE, 0, "stopped while device memory left the GPU, as asked");
		if (waited_ns > most_ns)
			return vg_fail(
				VG_NOT_READY, 0,
				"process %d (%s) of vGPU %s did not answer for %.0f s when it was to leave the GPU",
				(int)tenant->pid, tenant->slot.command, wait->tenants->vgpus[tenant->vgpu].name,
				(double)waited_ns / 1e9);
		usleep(pause_us);
		pause_us = pause_us < LOOK_MOST_US ? pause_us * 2 : LOOK_MOST_US;
		phase_tick(phase);
	}
}

// ---- all processes -------------------------------------------------------------------------------------

static uint32_t choose_wish(bool is_deep)
{
	uint32_t wish = (uint32_t)(vg_clock_monotonic_ns() >> 10) & PAGER_PARK_NUMBER;

	return (wish ? wish : 1) | (is_deep ? (uint32_t)PAGER_PARK_DEEP : 0);
}

static void make_wishes(const struct wait *wait)
{
	const struct tenants *tenants = wait->tenants;
	bool is_deep = wait->how->is_deep;
	uint32_t wish = choose_wish(is_deep);

	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		struct vg_ledger *ledger = wait->ledgers[tenant->vgpu];
		if (can_park(tenants, tenant))
			make_wish(tenant, ledger, wish, wait->how->drain_ms);
		else if (is_deep && is_own(tenant))
			make_wish(tenant, ledger, PAGER_PARK_DEEP, wait->how->drain_ms);
	}
}

// Waits for all processes, and lists their files. `is_early`: waits only until all memory that leaves the GPU is in the
// files.
static enum vg_status wait_for_files(const struct wait *wait, bool is_early, struct parking *parking)
{
	const struct tenants *tenants = wait->tenants;
	enum vg_status status = VG_OK;
	struct seen seen;

	for (size_t i = 0; i < tenants->count && status == VG_OK; i++) {
		const struct tenant *tenant = &tenants->list[i];
		if (!can_park(tenants, tenant))
			continue;
		status = wait_for(wait, tenant, is_early, &seen);
		if (status == VG_OK && seen.is_there)
			status = seen.state == PAGER_PARKED || (is_early && has_file(&seen))
					 ? parking_find_file(tenant->pid, &seen.file, seen.knows_window, parking)
					 : judge_answer(tenants, tenant, &seen, wait->how);
	}
	return status;
}

static bool are_same(const struct parking *one, const struct parking *other)
{
	bool are_same = one->count == other->count;

	for (size_t i = 0; i < one->count && are_same; i++)
		are_same =
			one->list[i].pid == other->list[i].pid && strcmp(one->list[i].name, other->list[i].name) == 0;
	return are_same;
}

// Calls `read` as soon as all files have their memory, and then waits until the processes are parked. Fails if a
// process is not parked with the file that `read` was given.
static enum vg_status wait_and_read(const struct wait *wait, struct parking *parking)
{
	const struct parking_wish *how = wait->how;
	struct parking early = {0};

	enum vg_status status = wait_for_files(wait, true, &early);
	if (status == VG_OK && early.count)
		status = how->read(how->user, &early);
	if (status == VG_OK)
		status = wait_for_files(wait, false, parking);
	if (status == VG_OK && !are_same(&early, parking))
		status = vg_fail(VG_STATE, 0, "the memory of a process moved while it was read: try again");
	parking_finish(&early);
	return status;
}

enum vg_status parking_begin(const struct tenants *tenants, const struct parking_wish *how, struct phase *phase,
			     struct parking *ret_parking)
{
	struct vg_ledger **ledgers = open_ledgers(tenants);

	*ret_parking = (struct parking){0};
	if (!ledgers)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu vGPUs", tenants->vgpu_count);
	const struct wait wait = {tenants, ledgers, how, phase, vg_clock_monotonic_ns()};
	make_wishes(&wait);
	enum vg_status status =
		how->read ? wait_and_read(&wait, ret_parking) : wait_for_files(&wait, false, ret_parking);
	close_ledgers(tenants, ledgers);
	return status;
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

static bool is_lost(const struct tenant *tenant, struct vg_ledger *ledger)
{
	if (!ledger)
		return false;
	vg_ledger_guard(ledger);
	const struct pager_slot *slot = slot_of(ledger, tenant);
	bool waits = slot && READ(slot->source) != PAGER_WHOLE_FILE;
	return !vg_ledger_unguard() && waits;
}

enum vg_status parking_refuse_lost(const struct tenants *tenants)
{
	struct vg_ledger **ledgers = open_ledgers(tenants);
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < tenants->count && ledgers && status == VG_OK; i++)
		if (is_own(&tenants->list[i]) && is_lost(&tenants->list[i], ledgers[tenants->list[i].vgpu]))
			status = vg_fail(VG_STATE, 0,
					 "process %d has not got all of its device memory back before its restore was "
					 "killed, so it ends: restore its image again",
					 (int)tenants->list[i].pid);
	close_ledgers(tenants, ledgers);
	return status;
}

void parking_release_dumped(const struct tenants *tenants)
{
	withdraw_wishes(tenants, true);
}
