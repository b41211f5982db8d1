// Who is in a vGPU, and what becomes of the dead: their charges go once the driver has released
// their memory, and not before.
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/size.h"
#include "daemon/node.h"
#include "daemon/process.h"
#include "daemon/user.h"
#include "pager/host_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum {
	SCAN_TURN_MS = 2, // of the loop's turn
	REAP_EVERY_MS = 20, // and where only descriptors keep memory, EXPORTS_EVERY_MS
	EXPORTS_EVERY_MS = 250,
	WARN_AFTER_S = 10,
	BLIND_S = 1, // how long a dead tenant waits while NVML says nothing
};

static void unwatch(struct node *node, struct tenant *tenant)
{
	if (tenant->source.fd >= 0)
		user_drop_process(tenant->vgpu->owner);
	node_unwatch(node, &tenant->source);
}

static void forget(struct node *node, struct tenant *tenant)
{
	struct vgpu *vgpu = tenant->vgpu;
	struct tenant **link = &vgpu->tenants;

	while (*link != tenant)
		link = &(*link)->next;
	*link = tenant->next;
	unwatch(node, tenant);
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
		forget(node, vgpu->tenants);
}

static void mark_dead(struct node *node, struct tenant *tenant)
{
	unwatch(node, tenant);
	tenant->dead = true;
	tenant->dead_since_ns = vg_clock_monotonic_ns();
	node->next_reap_ns = tenant->dead_since_ns; // at once
}

static void tenant_ended(struct node *node, struct source *source, uint32_t events)
{
	mark_dead(node, (struct tenant *)source);
}

// Is the process the one that calls itself `owner` in its own pid namespace?
static bool is_owner(pid_t pid, const struct vg_ledger_owner *owner)
{
	uint32_t pid_namespace, inner_pid;
	uint64_t start_time;

	return pid > 0 && process_inner(pid, &pid_namespace, &inner_pid) && pid_namespace == owner->pid_namespace &&
	       inner_pid == owner->pid && vg_process_start_time(pid, &start_time) == 0 &&
	       vg_start_time_same(start_time, owner->start_time);
}

// Under which number we see the tenant; 0: that is to be searched.
static pid_t outer_pid(const struct node *node, const struct vg_ledger_tenant *seen)
{
	bool here = seen->owner.pid_namespace == node->pid_namespace;
	uint32_t pid = here ? seen->owner.pid : seen->outer_pid;

	return pid <= INT_MAX && (here || is_owner((pid_t)pid, &seen->owner)) ? (pid_t)pid : 0;
}

// A guest is a tenant of another vGPU.
static bool is_known_guest(const struct node *node, const struct tenant *guest)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu && guest->seen.guest; vgpu = vgpu->next)
		for (const struct tenant *tenant = vgpu->tenants; tenant && vgpu != guest->vgpu; tenant = tenant->next)
			if (tenant->source.fd >= 0 && !tenant->seen.guest && tenant->pid == guest->pid &&
			    vg_start_time_same(tenant->start_time, guest->start_time))
				return true;
	return false;
}

// Opens a pidfd of the tenant's process, or sees that it has ended. A slot may name any process: only one that runs for
// the vGPU's owner or group is watched, or one that is known to have the ledger mapped.
static void watch(struct node *node, struct tenant *tenant)
{
	const struct vgpu *vgpu = tenant->vgpu;

	if (tenant->pid == 0)
		tenant->pid = outer_pid(node, &tenant->seen);
	tenant->start_time = tenant->seen.owner.start_time;
	if (tenant->pid == 0 && tenant->proof == PROOF_NONE)
		tenant->proof = PROOF_WANTED;
	if (tenant->pid <= 0)
		return;
	bool is_ours = tenant->proof == PROOF_GIVEN ||
		       process_belongs_to(tenant->pid, vgpu->owner, vgpu->group) || is_known_guest(node, tenant);
	if (!is_ours && tenant->proof == PROOF_NONE)
		tenant->proof = PROOF_WANTED;
	if (!is_ours && tenant->proof == PROOF_DENIED && !tenant->seen.guest)
		tenant->pid = -1; // somebody else's process
	bool counted = is_ours && user_take_process(node, vgpu->owner);
	int fd = counted ? node_keep_descriptor(process_open(tenant->pid, tenant->start_time)) : -EMFILE;
	if (fd >= 0) {
		tenant->source.fd = fd;
		node_watch(node, &tenant->source, EPOLLIN);
		return;
	}
	if (counted)
		user_drop_process(vgpu->owner);
	// Else it is asked again at the next scan.
	if (tenant->pid > 0 && (fd == -ESRCH || vg_process_is_dead(tenant->pid, tenant->start_time)))
		mark_dead(node, tenant);
}

void tenant_found(struct node *node, struct tenant *tenant, pid_t pid, uint64_t start_time, bool has_mapped)
{
	bool elsewhere = tenant->seen.owner.pid_namespace != node->pid_namespace;
	bool was_known = tenant->pid > 0; // else the search has not looked at what it has mapped

	if (elsewhere && !pid) {
		mark_dead(node, tenant);
		return;
	}
	if (elsewhere && tenant->vgpu->damage != DAMAGE_CONTENTS)
		vg_ledger_set_outer(tenant->vgpu->ledger, &tenant->seen, (uint32_t)pid, start_time);
	if (tenant->pid == 0)
		tenant->pid = pid;
	tenant->proof = has_mapped ? PROOF_GIVEN : was_known ? PROOF_DENIED : PROOF_NONE;
	if (tenant->source.fd < 0 && !tenant->dead)
		watch(node, tenant);
}

bool tenant_are_proven(struct node *node, struct vgpu *vgpu)
{
	bool proven = true;

	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		if (tenant->dead || tenant->replaced || tenant->seen.guest || tenant->source.fd < 0)
			continue;
		if (tenant->proof == PROOF_NONE)
			tenant->proof = PROOF_WANTED;
		proven &= tenant->proof != PROOF_WANTED;
	}
	if (!proven)
		search_begin(node, vgpu);
	return proven;
}

// Exec leaves pid and start time, and the charges of a program that is no more. One that enters
// again settles them itself; for others we do.
static void look_for_exec(struct node *node, struct tenant *tenant)
{
	uint64_t program = tenant->seen.program && tenant->pid > 0 ? vg_ledger_program_of(tenant->pid) : 0;
	bool replaced = program && program != tenant->seen.program;

	if (replaced && !tenant->replaced) {
		tenant->dead_since_ns = vg_clock_monotonic_ns();
		node->next_reap_ns = tenant->dead_since_ns;
	}
	tenant->replaced = replaced;
}

static bool is_same(const struct vg_ledger_tenant *left, const struct vg_ledger_tenant *right)
{
	return left->slot == right->slot && left->generation == right->generation &&
	       memcmp(&left->owner, &right->owner, sizeof left->owner) == 0;
}

// NULL: the owner has as many as may be, or there is no memory.
static struct tenant *add(struct node *node, struct vgpu *vgpu, const struct vg_ledger_tenant *seen)
{
	bool room = !user_is_limited(node, vgpu->owner) || user_total(vgpu->owner).tenants < USER_TENANTS;
	struct tenant *tenant = room ? calloc(1, sizeof *tenant) : NULL;

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

static void see(struct node *node, struct vgpu *vgpu, const struct vg_ledger_tenant *seen)
{
	struct tenant *tenant = vgpu->by_slot[seen->slot];

	if (tenant && !is_same(&tenant->seen, seen)) {
		forget(node, tenant);
		tenant = NULL;
	}
	if (!tenant)
		tenant = add(node, vgpu, seen);
	if (!tenant)
		return;
	tenant->seen = *seen;
	if (tenant->source.fd < 0 && !tenant->dead)
		watch(node, tenant);
	if (!tenant->dead)
		look_for_exec(node, tenant);
}

// From where the last scan ended, as far as the owner's share of the loop's time goes.
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
			if (vgpu->by_slot[slot]) // it gave its slot back itself
				forget(node, vgpu->by_slot[slot]);
		if (more)
			see(node, vgpu, &seen);
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

	damage_look(node, vgpu);
	if (user_begin_time(node, vgpu->owner)) {
		if (vgpu->damage != DAMAGE_CONTENTS)
			scan_slots(node, vgpu);
		else
			for (struct tenant *tenant = vgpu->tenants; tenant && user_has_time(); tenant = tenant->next)
				if (tenant->source.fd < 0 && !tenant->dead)
					watch(node, tenant);
		for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
			wanted |= tenant->proof == PROOF_WANTED && !tenant->dead;
	}
	user_end_time();
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

	while (node->scan_next && vg_clock_monotonic_ns() - begun_ns < SCAN_TURN_MS * 1000000ull) {
		struct vgpu *vgpu = node->scan_next;
		node->scan_next = vgpu->next; // registry.c, if it goes
		tenant_scan(node, vgpu);
	}
	return !node->scan_next;
}

// A process that ran several programs (exec) has a slot for each that exported something; the
// newest is the one that speaks.
static void take_exports(const struct node *node, struct vgpu *vgpu, const struct vg_ledger_owner *owner, int offered)
{
	struct tenant *speaker = NULL;

	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (vg_ledger_owner_same(&tenant->seen.owner, owner) && !tenant->replaced && !tenant->seen.guest &&
		    (!speaker || tenant->seen.entered_ns > speaker->seen.entered_ns))
			speaker = tenant;
	if (!speaker)
		discard(offered);
	else if (exports_take(node, speaker, offered) == -EPROTO)
		say("process %d of vGPU %s sent a descriptor that is no epoll instance", (int)speaker->pid, vgpu->name);
}

void tenant_hello(struct node *node, struct vgpu *vgpu, const struct vg_ledger_owner *owner,
		  const struct authority_peer *peer, int exports_fd)
{
	struct vg_ledger_tenant seen;
	unsigned int cursor = 0;

	// Who restored a process says its hello for it.
	bool speaks = owner->pid_namespace != node->pid_namespace && is_owner(peer->pid, owner);
	while (speaks && vgpu->damage != DAMAGE_CONTENTS && vg_ledger_next_tenant(vgpu->ledger, &cursor, &seen))
		if (vg_ledger_owner_same(&seen.owner, owner))
			vg_ledger_set_outer(vgpu->ledger, &seen, (uint32_t)peer->pid, peer->start_time);
	tenant_scan(node, vgpu);
	if (exports_fd >= 0)
		take_exports(node, vgpu, owner, exports_fd);
	measure_device(node, vgpu->device);
}

static double waited(const struct tenant *tenant)
{
	return (double)(vg_clock_monotonic_ns() - tenant->dead_since_ns) / 1e9;
}

// True once the tenant's memory is released, as far as anybody can say.
static bool is_released(struct tenant *tenant, int known, const struct vg_system_process *processes, size_t count)
{
	double since = waited(tenant);

	if (known < 0)
		return since >= BLIND_S;
	for (size_t i = 0; i < count; i++) {
		uint64_t now;
		if (processes[i].pid != (uint32_t)tenant->pid)
			continue;
		if (vg_process_start_time(tenant->pid, &now) == 0 && !vg_start_time_same(now, tenant->start_time))
			return true; // the number has gone to another process: ours is long released
		if (since >= WARN_AFTER_S && !tenant->warned) {
			tenant->warned = true;
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
		if (!tenant->dead)
			return true;
	return vgpu->launchers;
}

// What descriptors keep of a program's memory after its end. Where we were not told how to look (the
// daemon before us was), all that it had exported, as long as somebody is there who may have one. False: not known yet.
static bool kept_by_descriptors(struct tenant *tenant, struct vg_ledger_keep *ret_keep)
{
	uint64_t most = tenant->seen.exported < tenant->seen.used ? tenant->seen.exported : tenant->seen.used;

	if (most && tenant->exports >= 0)
		return exports_open(tenant, most, ret_keep);
	*ret_keep = (struct vg_ledger_keep){.bytes = most && has_living(tenant->vgpu) ? most : 0};
	return true;
}

static void tell_of_exports(struct tenant *tenant, uint64_t kept)
{
	char text[VG_SIZE_TEXT];

	if (!tenant->told_of_exports)
		say("process %d of vGPU %s ended, but descriptors of %s that it exported are still open: charged until "
		    "they are closed",
		    (int)tenant->pid, tenant->vgpu->name, vg_size_format(kept, text));
	tenant->told_of_exports = true;
}

static void reap_one(struct node *node, struct tenant *tenant)
{
	struct vgpu *vgpu = tenant->vgpu;
	struct vg_ledger_tenant last;
	unsigned int cursor = tenant->seen.slot;
	char text[VG_SIZE_TEXT];

	// What it did after we looked last counts as well.
	bool sound = vgpu->damage != DAMAGE_CONTENTS;
	if (sound && vg_ledger_next_tenant(vgpu->ledger, &cursor, &last) && is_same(&last, &tenant->seen))
		tenant->seen = last;
	if (tenant->seen.exported && tenant->exports < 0 && waited(tenant) < BLIND_S)
		return; // its last word may be on its way
	uint64_t refunded = 0;
	struct vg_ledger_keep keep;
	if (!kept_by_descriptors(tenant, &keep))
		return; // being looked at
	int r = VG_LEDGER_GONE;
	if (sound && tenant->dead)
		r = vg_ledger_reap(vgpu->ledger, &tenant->seen, &keep, &refunded);
	else if (sound)
		r = vg_ledger_reap_program(vgpu->ledger, &tenant->seen, &keep, &refunded);
	if (r == -EAGAIN) {
		return; // next time
	} else if (r < 0) {
		say("process %d of vGPU %s cannot be refunded: %s", (int)tenant->pid, vgpu->name, strerror(-r));
		return;
	}
	if (refunded)
		say("process %d of vGPU %s %s: %s refunded", (int)tenant->pid, vgpu->name,
		    tenant->dead ? "ended" : "runs another program", vg_size_format(refunded, text));
	if (vgpu->evictable && tenant->dead)
		pager_file_sweep();
	if (r == 0 && keep.bytes)
		tell_of_exports(tenant, keep.bytes);
	else
		forget(node, tenant);
}

static bool has_dead(const struct node *node, size_t device)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		for (const struct tenant *tenant = vgpu->tenants; tenant && vgpu->device == device;
		     tenant = tenant->next)
			if (tenant->dead || tenant->replaced)
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
			if ((tenant->dead || tenant->replaced) && is_released(tenant, known, processes, count))
				reap_one(node, tenant);
		}
		user_end_time();
	}
	return has_dead(node, device);
}

// Somebody waits for more than the last descriptor of something.
static bool is_pressing(const struct node *node)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
			if ((tenant->dead || tenant->replaced) && !tenant->told_of_exports)
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
		node->next_reap_ns =
			vg_clock_monotonic_ns() + (is_pressing(node) ? REAP_EVERY_MS : EXPORTS_EVERY_MS) * 1000000ull;
}
