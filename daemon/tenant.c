// Who is in a vGPU, and what becomes of the dead: their charges go once the driver has released
// their memory, and not before.
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/size.h"
#include "daemon/node.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

enum {
	REAP_EVERY_MS = 20, // and where only descriptors keep memory, EXPORTS_EVERY_MS
	EXPORTS_EVERY_MS = 250,
	WARN_AFTER_S = 10,
	BLIND_S = 1, // how long a dead tenant waits while NVML says nothing
	SEARCHES_A_SCAN = 8, // through /proc, for what a ledger says of processes elsewhere: the others wait for the next
};

static unsigned int searches_left;

static void forget(struct node *node, struct tenant *tenant)
{
	struct tenant **link = &tenant->vgpu->tenants;

	while (*link != tenant)
		link = &(*link)->next;
	*link = tenant->next;
	node_unwatch(node, &tenant->source);
	if (tenant->exports >= 0)
		close(tenant->exports);
	free(tenant);
}

void tenant_drop_all(struct node *node, struct vgpu *vgpu)
{
	while (vgpu->tenants)
		forget(node, vgpu->tenants);
}

static void mark_dead(struct node *node, struct tenant *tenant)
{
	node_unwatch(node, &tenant->source);
	tenant->dead = true;
	tenant->dead_since_ns = vg_clock_monotonic_ns();
	node->next_reap_ns = tenant->dead_since_ns; // at once
}

static void tenant_ended(struct node *node, struct source *source, uint32_t events)
{
	mark_dead(node, (struct tenant *)source);
}

// Is the process in /proc/`name` the one that calls itself `owner` in its own pid namespace?
static bool is_owner(const char *name, const struct vg_ledger_owner *owner)
{
	char path[300], text[4096];
	struct stat namespace;
	uint64_t start_time;

	snprintf(path, sizeof path, "/proc/%s/ns/pid", name);
	if (stat(path, &namespace) < 0 || (uint32_t)namespace.st_ino != owner->pid_namespace)
		return false;
	if (vg_process_start_time((pid_t)atoi(name), &start_time) < 0 ||
	    !vg_start_time_same(start_time, owner->start_time))
		return false;
	snprintf(path, sizeof path, "/proc/%s/status", name);
	if (vg_file_read(path, text, sizeof text) < 0)
		return false;
	char *line = strstr(text, "\nNSpid:");
	if (!line)
		return false;
	line[1 + strcspn(line + 1, "\n")] = '\0';
	char *last = strrchr(line, '\t'); // the innermost namespace's number
	return last && (uint32_t)atoi(last + 1) == owner->pid;
}

// A tenant in a container that never said HELLO to us: look for it. 0: there is none.
static pid_t search_process(const struct vg_ledger_owner *owner)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	pid_t pid = 0;

	while (folder && pid == 0 && (entry = readdir(folder)))
		if (isdigit((unsigned char)entry->d_name[0]) && is_owner(entry->d_name, owner))
			pid = (pid_t)atoi(entry->d_name);
	if (folder)
		closedir(folder);
	return pid;
}

// Under which number and start time we see the tenant; 0: it is gone. -EAGAIN: to be asked again at the next scan.
static pid_t outer_pid(const struct node *node, const struct vg_ledger_tenant *seen, uint64_t *ret_start_time)
{
	uint64_t now;

	if (seen->owner.pid > INT_MAX)
		return 0;
	*ret_start_time = seen->owner.start_time;
	if (seen->owner.pid_namespace == node->pid_namespace)
		return (pid_t)seen->owner.pid;
	if (seen->outer_pid && vg_process_start_time((pid_t)seen->outer_pid, &now) == 0 &&
	    vg_start_time_same(now, seen->outer_start_time)) {
		*ret_start_time = now;
		return (pid_t)seen->outer_pid;
	}
	if (!searches_left)
		return -EAGAIN;
	searches_left--;
	return search_process(&seen->owner);
}

static void watch(struct node *node, struct tenant *tenant)
{
	uint64_t now;
	int r;

	tenant->pid = outer_pid(node, &tenant->seen, &tenant->start_time);
	tenant->source.fd = tenant->pid > 0 ? node_keep_descriptor(vg_pidfd_open(tenant->pid)) : -1;
	if (tenant->pid == -EAGAIN)
		return;
	if (tenant->source.fd < 0) {
		if (tenant->pid <= 0 || vg_process_is_dead(tenant->pid, tenant->start_time))
			mark_dead(node, tenant);
		return; // out of descriptors: the scan asks again
	}
	// The number may have come to mean another process before the pidfd was open, not after.
	r = vg_process_start_time(tenant->pid, &now);
	if (r == -ESRCH || (r == 0 && !vg_start_time_same(now, tenant->start_time)))
		mark_dead(node, tenant);
	else
		node_watch(node, &tenant->source, EPOLLIN);
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

static struct tenant *find(const struct vgpu *vgpu, const struct vg_ledger_tenant *seen)
{
	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (is_same(&tenant->seen, seen))
			return tenant;
	return NULL;
}

static void see(struct node *node, struct vgpu *vgpu, const struct vg_ledger_tenant *seen)
{
	struct tenant *tenant = find(vgpu, seen);

	if (!tenant) {
		tenant = calloc(1, sizeof *tenant);
		if (!tenant)
			return;
		*tenant = (struct tenant){.source = {-1, tenant_ended},
					  .vgpu = vgpu,
					  .next = vgpu->tenants,
					  .seen = *seen,
					  .exports = -1};
		vgpu->tenants = tenant;
	}
	tenant->seen = *seen;
	tenant->found = true;
	if (tenant->source.fd < 0 && !tenant->dead)
		watch(node, tenant);
	if (!tenant->dead)
		look_for_exec(node, tenant);
}

void tenant_scan(struct node *node, struct vgpu *vgpu)
{
	struct vg_ledger_tenant seen;
	unsigned int cursor = 0;

	damage_look(node, vgpu);
	if (vgpu->damage == DAMAGE_CONTENTS) {
		for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
			if (tenant->source.fd < 0 && !tenant->dead)
				watch(node, tenant);
		return;
	}
	searches_left = SEARCHES_A_SCAN;
	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		tenant->found = false;
	while (vg_ledger_next_tenant(vgpu->ledger, &cursor, &seen))
		see(node, vgpu, &seen);
	for (struct tenant *tenant = vgpu->tenants, *next; tenant; tenant = next) {
		next = tenant->next;
		if (!tenant->found) // it gave its slot back itself
			forget(node, tenant);
	}
}

void tenant_scan_all(struct node *node)
{
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		tenant_scan(node, vgpu);
}

// A process that ran several programs (exec) has a slot for each that exported something; the
// newest is the one that speaks.
static void take_exports(struct vgpu *vgpu, const struct vg_ledger_owner *owner, int offered)
{
	struct tenant *speaker = NULL;

	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (vg_ledger_owner_same(&tenant->seen.owner, owner) && !tenant->replaced && !tenant->seen.guest &&
		    (!speaker || tenant->seen.entered_ns > speaker->seen.entered_ns))
			speaker = tenant;
	if (!speaker)
		discard(offered);
	else if (exports_take(&speaker->exports, offered) == -EPROTO)
		say("process %d of vGPU %s sent a descriptor that is no epoll instance", (int)speaker->pid, vgpu->name);
}

// Who restored a process says its hello for it.
static bool speaks_for(pid_t pid, const struct vg_ledger_owner *owner)
{
	char name[16];

	snprintf(name, sizeof name, "%d", (int)pid);
	return is_owner(name, owner);
}

void tenant_hello(struct node *node, struct vgpu *vgpu, const struct vg_ledger_owner *owner, pid_t pid, int exports_fd)
{
	struct vg_ledger_tenant seen;
	unsigned int cursor = 0;
	uint64_t start_time;

	while (owner->pid_namespace != node->pid_namespace && vg_ledger_next_tenant(vgpu->ledger, &cursor, &seen))
		if (vg_ledger_owner_same(&seen.owner, owner) && pid > 0 &&
		    vg_process_start_time(pid, &start_time) == 0 && speaks_for(pid, owner))
			vg_ledger_set_outer(vgpu->ledger, &seen, (uint32_t)pid, start_time);
	tenant_scan(node, vgpu);
	if (exports_fd >= 0)
		take_exports(vgpu, owner, exports_fd);
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
// daemon before us was), all that it had exported, as long as somebody is there who may have one.
static struct vg_ledger_keep kept_by_descriptors(const struct tenant *tenant)
{
	uint64_t most = tenant->seen.exported < tenant->seen.used ? tenant->seen.exported : tenant->seen.used;
	struct vg_ledger_keep keep = {0};

	if (most && tenant->exports >= 0)
		exports_open(tenant->exports, most, &keep);
	else if (most && has_living(tenant->vgpu))
		keep.bytes = most;
	return keep;
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
	struct vg_ledger_keep keep = kept_by_descriptors(tenant);
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
		for (struct tenant *tenant = vgpu->tenants, *next; tenant && vgpu->device == device; tenant = next) {
			next = tenant->next;
			if ((tenant->dead || tenant->replaced) && is_released(tenant, known, processes, count))
				reap_one(node, tenant);
		}
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
