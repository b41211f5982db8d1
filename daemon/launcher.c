#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/node.h"
#include "daemon/process.h"
#include "daemon/user.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum { SOON_MS = 2000 }; // memory of an ended process is released within this

static void forget(struct node *node, struct launcher *launcher)
{
	struct vgpu *vgpu = launcher->vgpu;
	struct launcher **link = &vgpu->launchers;

	while (*link != launcher)
		link = &(*link)->next;
	*link = launcher->next;
	vgpu->heirs = HEIRS_UNKNOWN;
	user_drop_process(vgpu->owner);
	node_unwatch(node, &launcher->source);
	free(launcher);
	if (!vgpu->launchers)
		vgpu->left_ns = vg_clock_monotonic_ns();
}

static void launcher_ended(struct node *node, struct source *source, uint32_t events)
{
	struct vgpu *vgpu = ((struct launcher *)source)->vgpu;

	forget(node, (struct launcher *)source);
	// A program that it started may be a tenant that has not said so yet: look before the sweep.
	if (vgpu->ephemeral && !vgpu->launchers)
		tenant_scan(node, vgpu);
	node->runtime_is_stale = true; // very many may end at once, and the next daemon sees itself who lives
}

static struct launcher *find(const struct vgpu *vgpu, pid_t pid, uint64_t start_time)
{
	for (struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		if (launcher->pid == pid && vg_start_time_same(launcher->start_time, start_time))
			return launcher;
	return NULL;
}

// For the process of `peer`; NULL: of {pid, start time}.
static int add(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time, const struct authority_peer *peer,
	       bool has_mapped)
{
	struct launcher *launcher = find(vgpu, pid, start_time);

	if (launcher) {
		launcher->has_mapped |= has_mapped;
		return 0;
	}
	if (!user_take_process(node, vgpu->owner))
		return -EMFILE;
	int fd = node_keep_descriptor(peer ? process_open_peer(peer) : process_open(pid, start_time));
	launcher = fd >= 0 ? calloc(1, sizeof *launcher) : NULL;
	if (!launcher) {
		user_drop_process(vgpu->owner);
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	*launcher = (struct launcher){.source = {fd, launcher_ended, true, user_owner(vgpu->owner)}, .vgpu = vgpu, .next = vgpu->launchers, .pid = pid,
				      .start_time = start_time, .has_mapped = has_mapped};
	vgpu->launchers = launcher;
	int r = node_watch(node, &launcher->source, EPOLLIN);
	if (r < 0)
		forget(node, launcher);
	return r;
}

int launcher_adopt(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time, bool has_mapped)
{
	return add(node, vgpu, pid, start_time, NULL, has_mapped);
}

int launcher_add(struct node *node, struct vgpu *vgpu, const struct authority_peer *peer)
{
	return add(node, vgpu, peer->pid, peer->start_time, peer, false);
}

void launcher_drop_all(struct node *node, struct vgpu *vgpu)
{
	while (vgpu->launchers)
		forget(node, vgpu->launchers);
}

static bool has_ended(const struct source *pidfd)
{
	return pidfd->fd >= 0 && poll(&(struct pollfd){pidfd->fd, POLLIN, 0}, 1, 0) == 1;
}

// The ends of processes that the loop has not come to yet count, too.
static bool is_used(struct node *node, struct vgpu *vgpu)
{
	for (struct launcher *launcher = vgpu->launchers, *next; launcher; launcher = next) {
		next = launcher->next;
		if (has_ended(&launcher->source))
			launcher_ended(node, &launcher->source, EPOLLIN);
	}
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (!tenant->dead && !has_ended(&tenant->source))
			return true;
	return vgpu->launchers != NULL;
}

bool launcher_goes_soon(struct node *node, struct vgpu *vgpu)
{
	return vgpu->ephemeral && !is_used(node, vgpu) && vgpu->left_ns &&
	       vg_clock_monotonic_ns() < vgpu->left_ns + SOON_MS * 1000000ull;
}

bool launcher_frees_soon(struct node *node, size_t device, uid_t owner)
{
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->owner == owner && vgpu->device == device && launcher_goes_soon(node, vgpu))
			return true;
	return false;
}

void launcher_sweep(struct node *node)
{
	bool changed = false;

	for (struct vgpu *vgpu = node->vgpus, *next; vgpu; vgpu = next) {
		struct vg_ledger_tenant seen;
		uint64_t charged;
		next = vgpu->next;
		if (!vgpu->ephemeral || vgpu->launchers || vgpu->tenants || vgpu->removing)
			continue;
		if (!search_knows_heirs(node, vgpu))
			continue;
		// A limit of 0 closes the door for whoever is about to come in; whoever came in first
		// has a slot. A charge that is nobody's is a ledger that somebody scribbled on.
		if (vgpu->damage != DAMAGE_CONTENTS)
			vg_ledger_set_limit(vgpu->ledger, 0, &charged);
		if (vgpu->damage != DAMAGE_CONTENTS &&
		    vg_ledger_next_tenant(vgpu->ledger, &(unsigned int){0}, &seen)) {
			vg_ledger_set_limit(vgpu->ledger, vgpu->limit, &charged);
			tenant_scan(node, vgpu);
			continue;
		}
		registry_drop(node, vgpu);
		changed = true;
	}
	if (changed) {
		admission_publish(node);
		state_save_runtime(node);
		node->retry = true; // somebody may wait for the room
	}
}
