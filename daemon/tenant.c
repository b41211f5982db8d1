#include "daemon/tenant.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/size.h"
#include "daemon/damage.h"
#include "daemon/exports.h"
#include "daemon/journal.h"
#include "daemon/process.h"
#include "daemon/say.h"
#include "daemon/search.h"
#include "daemon/source.h"
#include "daemon/sweep.h"
#include "daemon/usage.h"
#include "daemon/user.h"
#include "pager/host_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum {
	SCAN_STEP_MS = 2,   // the longest step of tenant_scan_some()
	REAP_EVERY_MS = 20, // time between two attempts to reap dead tenants whose memory the driver has not released
	EXPORTS_EVERY_MS = 250, // pause between attempts to reap dead tenants whose exported memory others have open
	WARN_AFTER_S = 10,
	BLIND_S = 1, // for how long a dead tenant's memory counts as not released if NVML has no figures
};

static void close_pidfd(struct node *node, struct tenant *tenant)
{
	if (tenant->source.fd >= 0)
		user_uncount_process(tenant->vgpu->owner);
	source_close(node, &tenant->source);
}

static void forget_tenant(struct node *node, struct tenant *tenant)
{
	struct vgpu *vgpu = tenant->vgpu;
	struct tenant **link = &vgpu->tenants;

	while (*link != tenant)
		link = &(*link)->next;
	*link = tenant->next;
	close_pidfd(node, tenant);
	if (vgpu->by_slot[tenant->seen.slot] == tenant)
		vgpu->by_slot[tenant->seen.slot] = NULL;
	user_of(vgpu->owner)->tenants--;
	vgpu->heirs = HEIRS_UNKNOWN;
	exports_drop(tenant);
	free(tenant);
}

void tenant_drop_all(struct node *node, struct vgpu *vgpu)
{
	while (vgpu->tenants)
		forget_tenant(node, vgpu->tenants);
}

static void mark_dead(struct node *node, struct tenant *tenant)
{
	usage_note(tenant->vgpu); // read the figures before the arbiter forgets a vGPU that has no programs any more
	close_pidfd(node, tenant);
	tenant->is_dead = true;
	tenant->dead_since_ns = vg_clock_monotonic_ns();
	node->next_reap_ns = tenant->dead_since_ns; // reap at once
}

static void tenant_ended(struct node *node, struct source *source, uint32_t events)
{
	mark_dead(node, (struct tenant *)source);
}

bool tenant_is_process(pid_t pid, const struct vg_ledger_owner *owner)
{
	uint32_t pid_namespace, inner_pid;
	uint64_t start_time;

	return pid > 0 && process_inner(pid, &pid_namespace, &inner_pid) && pid_namespace == owner->pid_namespace &&
	       inner_pid == owner->pid && vg_process_start_time(pid, &start_time) == 0 &&
	       vg_start_time_same(start_time, owner->start_time);
}

// Returns the tenant's pid in the daemon's pid namespace; 0: a search must find it.
static pid_t find_outer_pid(const struct node *node, const struct vg_ledger_tenant *seen)
{
	bool here = seen->owner.pid_namespace == node->pid_namespace;
	uint32_t pid = here ? seen->owner.pid : seen->outer_pid;

	return pid <= INT_MAX && (here || tenant_is_process((pid_t)pid, &seen->owner)) ? (pid_t)pid : 0;
}

// Returns whether `guest`, a process that has opened memory of this vGPU, is known as a tenant of another vGPU.
static bool is_known_guest(const struct node *node, const struct tenant *guest)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu && guest->seen.guest; vgpu = vgpu->next)
		for (const struct tenant *tenant = vgpu->tenants; tenant && vgpu != guest->vgpu; tenant = tenant->next)
			if (tenant->source.fd >= 0 && !tenant->seen.guest && tenant->pid == guest->pid &&
			    vg_start_time_same(tenant->start_time, guest->start_time))
				return true;
	return false;
}

// Adds an event for the entry of a process that the daemon watches, unless the process entered before the daemon
// started: an earlier daemon did that.
static void note_entry(struct node *node, struct tenant *tenant)
{
	const struct journal_note note = {.vgpu = tenant->vgpu, .pid = tenant->pid, .command = tenant->seen.command};

	if (!tenant->is_in_journal && !tenant->seen.guest && tenant->seen.entered_ns >= node->started_ns)
		journal_add(node, JOURNAL_ENTERED, &note, "uses the GPU");
	tenant->is_in_journal = true;
}

static void note_leave(struct node *node, const struct tenant *tenant, enum journal_kind kind, uint64_t bytes,
		       const char *text)
{
	const struct journal_note note = {
		.vgpu = tenant->vgpu, .pid = tenant->pid, .command = tenant->seen.command, .bytes = bytes};

	journal_add_last_refusals(node, tenant->vgpu);
	if (tenant->is_in_journal && !tenant->seen.guest)
		journal_add(node, kind, &note, "%s", text);
}

// Opens a pidfd of the tenant's process, or notes that it has ended. A slot can name any process. So the daemon watches
// only a process that runs for the vGPU's owner or group, or that is known to have the ledger mapped.
static void watch_tenant(struct node *node, struct tenant *tenant)
{
	const struct vgpu *vgpu = tenant->vgpu;

	if (tenant->pid == 0)
		tenant->pid = find_outer_pid(node, &tenant->seen);
	tenant->start_time = tenant->seen.owner.start_time;
	if (tenant->pid == 0 && tenant->proof == PROOF_NONE)
		tenant->proof = PROOF_WANTED;
	if (tenant->pid <= 0)
		return;
	bool is_ours = tenant->proof == PROOF_GIVEN || process_belongs_to(tenant->pid, vgpu->owner, vgpu->group) ||
		       is_known_guest(node, tenant);
	if (!is_ours && tenant->proof == PROOF_NONE)
		tenant->proof = PROOF_WANTED;
	if (!is_ours && tenant->proof == PROOF_DENIED && !tenant->seen.guest)
		tenant->pid = -1; // the process runs for another user, so it is no tenant
	bool counted = is_ours && user_count_process(node, vgpu->owner);
	int fd = counted ? source_keep_descriptor(process_open(tenant->pid, tenant->start_time)) : -EMFILE;
	if (fd >= 0) {
		tenant->source.fd = fd;
		source_watch(node, &tenant->source, EPOLLIN);
		note_entry(node, tenant);
		return;
	}
	if (counted)
		user_uncount_process(vgpu->owner);
	// After any other error, the next scan tries again to open a pidfd.
	if (tenant->pid > 0 && (fd == -ESRCH || vg_process_is_dead(tenant->pid, tenant->start_time)))
		mark_dead(node, tenant);
}

void tenant_prove(struct node *node, struct tenant *tenant, pid_t pid, uint64_t start_time, bool has_mapped)
{
	bool elsewhere = tenant->seen.owner.pid_namespace != node->pid_namespace;
	// The search that has found this process reads the mappings only of processes whose pid the daemon knew before.
	bool was_known = tenant->pid > 0;

	if (elsewhere && !pid) {
		mark_dead(node, tenant);
		return;
	}
	if (elsewhere && tenant->vgpu->damage != DAMAGE_CONTENTS)
		vg_ledger_set_outer(tenant->vgpu->ledger, &tenant->seen, (uint32_t)pid, start_time);
	if (tenant->pid == 0)
		tenant->pid = pid;
	tenant->proof = has_mapped ? PROOF_GIVEN : was_known ? PROOF_DENIED : PROOF_NONE;
	if (tenant->source.fd < 0 && !tenant->is_dead)
		watch_tenant(node, tenant);
}

bool tenant_are_proven(struct node *node, struct vgpu *vgpu)
{
	bool proven = true;

	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		if (tenant->is_dead || tenant->is_replaced || tenant->seen.guest || tenant->source.fd < 0)
			continue;
		if (tenant->proof == PROOF_NONE)
			tenant->proof = PROOF_WANTED;
		proven &= tenant->proof != PROOF_WANTED;
	}
	if (!proven)
		search_begin(node, vgpu);
	return proven;
}

// Checks whether the process runs another program now. After exec(), the process has the same pid and start time, and
// its slot still has the charges of the program that has ended. If the new program enters the vGPU, it refunds these
// charges itself; otherwise the daemon does.
static void check_exec(struct node *node, struct tenant *tenant)
{
	uint64_t program = tenant->seen.program && tenant->pid > 0 ? vg_ledger_program_of(tenant->pid) : 0;
	bool replaced = program && program != tenant->seen.program;

	if (replaced && !tenant->is_replaced) {
		tenant->dead_since_ns = vg_clock_monotonic_ns();
		node->next_reap_ns = tenant->dead_since_ns;
	}
	tenant->is_replaced = replaced;
}

static bool is_same_slot(const struct vg_ledger_tenant *left, const struct vg_ledger_tenant *right)
{
	return left->slot == right->slot && left->generation == right->generation &&
	       memcmp(&left->owner, &right->owner, sizeof left->owner) == 0;
}

// Adds a tenant. Returns NULL if the owner has reached the limit, or if there is no memory.
static struct tenant *add_tenant(struct node *node, struct vgpu *vgpu, const struct vg_ledger_tenant *seen)
{
	bool has_room = !user_is_limited(node, vgpu->owner) || user_total(vgpu->owner).tenants < USER_TENANTS;
	struct tenant *tenant = has_room ? calloc(1, sizeof *tenant) : NULL;

	if (!tenant)
		return NULL;
	*tenant = (struct tenant){.source = {-1, tenant_ended, true, user_owner(vgpu->owner)},
				  .vgpu = vgpu,
				  .next = vgpu->tenants,
				  .seen = *seen,
				  .exports = -1};
	vgpu->tenants = tenant;
	vgpu->by_slot[seen->slot] = tenant;
	user_of(vgpu->owner)->tenants++;
	return tenant;
}

static void note_slot(struct node *node, struct vgpu *vgpu, const struct vg_ledger_tenant *seen)
{
	struct tenant *tenant = vgpu->by_slot[seen->slot];

	if (tenant && !is_same_slot(&tenant->seen, seen)) {
		note_leave(node, tenant, JOURNAL_LEFT, 0, "another process has its slot");
		forget_tenant(node, tenant);
		tenant = NULL;
	}
	if (!tenant)
		tenant = add_tenant(node, vgpu, seen);
	if (!tenant)
		return;
	tenant->seen = *seen;
	if (tenant->source.fd < 0 && !tenant->is_dead)
		watch_tenant(node, tenant);
	if (!tenant->is_dead)
		check_exec(node, tenant);
}

// Scans the slots from where the last scan ended, until the owner's part of the loop's time is used up.
static void scan_slots(struct node *node, struct vgpu *vgpu)
{
	struct vg_ledger_tenant seen;
	unsigned int slot = vgpu->next_slot, end;

	vgpu->next_slot = 0;
	do {
		unsigned int next = slot;
		bool more = vg_ledger_next_tenant(vgpu->ledger, &next, &seen);
		end = more ? seen.slot : VG_LEDGER_SLOTS;
		for (; slot < end; slot++)
			if (vgpu->by_slot[slot]) { // the tenant freed its slot itself
				note_leave(node, vgpu->by_slot[slot], JOURNAL_LEFT, 0, "freed its slot");
				forget_tenant(node, vgpu->by_slot[slot]);
			}
		if (more)
			note_slot(node, vgpu, &seen);
		slot = next;
		if (more && !user_has_time()) {
			vgpu->next_slot = slot;
			return;
		}
	} while (end < VG_LEDGER_SLOTS);
}

void tenant_scan(struct node *node, struct vgpu *vgpu)
{
	bool wanted = false;

	damage_check(node, vgpu);
	if (user_begin_time(node, vgpu->owner)) {
		if (vgpu->damage != DAMAGE_CONTENTS)
			scan_slots(node, vgpu);
		else
			for (struct tenant *tenant = vgpu->tenants; tenant && user_has_time(); tenant = tenant->next)
				if (tenant->source.fd < 0 && !tenant->is_dead)
					watch_tenant(node, tenant);
		for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
			wanted |= tenant->proof == PROOF_WANTED && !tenant->is_dead;
	}
	user_end_time();
	usage_note(vgpu);
	if (wanted)
		search_begin(node, vgpu);
}

void tenant_scan_all(struct node *node)
{
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		tenant_scan(node, vgpu);
}

bool tenant_scan_some(struct node *node)
{
	uint64_t begun_ns = vg_clock_monotonic_ns();

	while (node->scan_next && vg_clock_monotonic_ns() - begun_ns < SCAN_STEP_MS * 1000000ull) {
		struct vgpu *vgpu = node->scan_next;
		node->scan_next = vgpu->next; // vgpu_drop() changes scan_next, too
		tenant_scan(node, vgpu);
	}
	return !node->scan_next;
}

static double seconds_since_end(const struct tenant *tenant)
{
	return (double)(vg_clock_monotonic_ns() - tenant->dead_since_ns) / 1e9;
}

// Returns whether the driver has released the tenant's memory, as far as the daemon can tell.
static bool is_released(struct tenant *tenant, int known, const struct vg_system_process *processes, size_t count)
{
	double since = seconds_since_end(tenant);

	if (known < 0)
		return since >= BLIND_S;
	for (size_t i = 0; i < count; i++) {
		uint64_t now;
		if (processes[i].pid != (uint32_t)tenant->pid)
			continue;
		if (vg_process_start_time(tenant->pid, &now) == 0 && !vg_start_time_same(now, tenant->start_time))
			return true; // another process has the pid by now, so this tenant's memory was released
		if (since >= WARN_AFTER_S && !tenant->delay_reported) {
			tenant->delay_reported = true;
			say("process %d of vGPU %s ended %.0f s ago, but the driver still lists its memory: not "
			    "refunded yet",
			    (int)tenant->pid, tenant->vgpu->name, since);
		}
		return false;
	}
	return true;
}

static bool has_living(const struct vgpu *vgpu)
{
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (!tenant->is_dead)
			return true;
	return vgpu->launchers;
}

// Finds out how much memory of an ended program is still allocated because other programs have descriptors of it. The
// epoll instance of the program's exports shows that. If the program gave it to an earlier daemon, this daemon does not
// have it: then all exported memory counts as allocated while other programs of the vGPU live. Returns false if the
// amount is not known yet.
static bool find_kept(struct tenant *tenant, struct vg_ledger_keep *ret_keep)
{
	uint64_t most = tenant->seen.exported < tenant->seen.used ? tenant->seen.exported : tenant->seen.used;

	if (most && tenant->exports >= 0)
		return exports_find_kept(tenant, most, ret_keep);
	*ret_keep = (struct vg_ledger_keep){.bytes = most && has_living(tenant->vgpu) ? most : 0};
	return true;
}

static void report_exports(struct tenant *tenant, uint64_t kept)
{
	char text[VG_SIZE_TEXT];

	if (!tenant->exports_reported)
		say("process %d of vGPU %s ended, but descriptors of %s that it exported are still open: charged until "
		    "they are closed",
		    (int)tenant->pid, tenant->vgpu->name, vg_size_format(kept, text));
	tenant->exports_reported = true;
}

static void reap_tenant(struct node *node, struct tenant *tenant)
{
	struct vgpu *vgpu = tenant->vgpu;
	struct vg_ledger_tenant last;
	unsigned int cursor = tenant->seen.slot;
	char text[VG_SIZE_TEXT];

	// The process may have changed its slot after the last scan.
	bool sound = vgpu->damage != DAMAGE_CONTENTS;
	if (sound && vg_ledger_next_tenant(vgpu->ledger, &cursor, &last) && is_same_slot(&last, &tenant->seen))
		tenant->seen = last;
	if (tenant->seen.exported && tenant->exports < 0 && seconds_since_end(tenant) < BLIND_S)
		return; // the last registration of the process may not have arrived yet
	usage_note(vgpu);
	uint64_t refunded = 0;
	struct vg_ledger_keep keep;
	if (!find_kept(tenant, &keep))
		return;
	int r = VG_LEDGER_GONE;
	if (sound && tenant->is_dead)
		r = vg_ledger_reap(vgpu->ledger, &tenant->seen, &keep, &refunded);
	else if (sound)
		r = vg_ledger_reap_program(vgpu->ledger, &tenant->seen, &keep, &refunded);
	if (r == -EAGAIN) {
		return; // the next call of this function tries again
	} else if (r < 0) {
		say("process %d of vGPU %s cannot be refunded: %s", (int)tenant->pid, vgpu->name, strerror(-r));
		return;
	}
	if (refunded)
		say("process %d of vGPU %s %s: %s refunded", (int)tenant->pid, vgpu->name,
		    tenant->is_dead ? "ended" : "runs another program", vg_size_format(refunded, text));
	if (vgpu->evictable)
		tenant->is_dead ? sweep_files(vgpu->owner) : pager_file_sweep(tenant->pid);
	if (!tenant->exports_reported)
		note_leave(node, tenant, tenant->is_dead ? JOURNAL_DIED : JOURNAL_LEFT, refunded,
			   tenant->was_killed ? "killed, because the vGPU is removed"
			   : tenant->is_dead  ? "has ended"
					      : "runs another program");
	if (r == 0 && keep.bytes)
		report_exports(tenant, keep.bytes);
	else
		forget_tenant(node, tenant);
}

static bool has_dead(const struct node *node, size_t device)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		for (const struct tenant *tenant = vgpu->tenants; tenant && vgpu->device == device;
		     tenant = tenant->next)
			if (tenant->is_dead || tenant->is_replaced)
				return true;
	return false;
}

static bool reap_device(struct node *node, size_t device)
{
	static struct vg_system_process processes[VG_SYSTEM_PROCESSES];
	size_t count = 0;

	if (!has_dead(node, device))
		return false;
	int known = vg_system_processes(node->system, device, processes, &count);
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (vgpu->device != device)
			continue;
		user_begin_time(node, vgpu->owner);
		for (struct tenant *tenant = vgpu->tenants, *next; tenant && user_has_time(); tenant = next) {
			next = tenant->next;
			if ((tenant->is_dead || tenant->is_replaced) && is_released(tenant, known, processes, count))
				reap_tenant(node, tenant);
		}
		user_end_time();
	}
	return has_dead(node, device);
}

// Returns whether an ended tenant's memory is still allocated for another reason than that descriptors of it are open.
static bool is_release_pending(const struct node *node)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
			if ((tenant->is_dead || tenant->is_replaced) && !tenant->exports_reported)
				return true;
	return false;
}

void tenant_reap(struct node *node)
{
	bool waiting = false;

	node->next_reap_ns = 0;
	for (size_t device = 0; device < vg_system_device_count(node->system); device++)
		waiting |= reap_device(node, device);
	if (waiting)
		node->next_reap_ns = vg_clock_monotonic_ns() +
				     (is_release_pending(node) ? REAP_EVERY_MS : EXPORTS_EVERY_MS) * 1000000ull;
}
