#include "base/descriptor.h"
#include "daemon/node.h"
#include "daemon/process.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

static void forget(struct node *node, struct launcher *launcher)
{
	struct launcher **link = &launcher->vgpu->launchers;

	while (*link != launcher)
		link = &(*link)->next;
	*link = launcher->next;
	node_unwatch(node, &launcher->source);
	free(launcher);
}

static void launcher_ended(struct node *node, struct source *source, uint32_t events)
{
	forget(node, (struct launcher *)source);
	// A program that it started may be a tenant that has not said so yet: look before the sweep.
	node->next_scan_ns = 0;
	state_save_runtime(node);
}

static struct launcher *find(const struct vgpu *vgpu, pid_t pid, uint64_t start_time)
{
	for (struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		if (launcher->pid == pid && vg_start_time_same(launcher->start_time, start_time))
			return launcher;
	return NULL;
}

// Takes the pidfd, or passes its error on.
static int add(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time, int fd)
{
	struct launcher *launcher;

	fd = node_keep_descriptor(fd);
	if (fd < 0)
		return fd;
	launcher = calloc(1, sizeof *launcher);
	if (!launcher) {
		close(fd);
		return -ENOMEM;
	}
	*launcher = (struct launcher){.source = {fd, launcher_ended}, .vgpu = vgpu, .next = vgpu->launchers, .pid = pid,
				      .start_time = start_time};
	vgpu->launchers = launcher;
	int r = node_watch(node, &launcher->source, EPOLLIN);
	if (r < 0)
		forget(node, launcher);
	return r;
}

int launcher_adopt(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time)
{
	return find(vgpu, pid, start_time) ? 0 : add(node, vgpu, pid, start_time, process_open(pid, start_time));
}

int launcher_add(struct node *node, struct vgpu *vgpu, const struct authority_peer *peer)
{
	return find(vgpu, peer->pid, peer->start_time)
		       ? 0
		       : add(node, vgpu, peer->pid, peer->start_time, process_open_peer(peer));
}

void launcher_drop_all(struct node *node, struct vgpu *vgpu)
{
	while (vgpu->launchers)
		forget(node, vgpu->launchers);
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
		heir_adopt_all(node, vgpu);
		if (vgpu->launchers) {
			changed = true;
			continue;
		}
		// A limit of 0 closes the door for whoever is about to come in; whoever came in first
		// has a slot. A charge that is nobody's is a ledger that somebody scribbled on.
		if (vgpu->damage != DAMAGE_CONTENTS)
			vg_ledger_set_limit(vgpu->ledger, 0, &charged);
		if (vgpu->damage != DAMAGE_CONTENTS &&
		    vg_ledger_next_tenant(vgpu->ledger, &(unsigned int){0}, &seen)) {
			vg_ledger_set_limit(vgpu->ledger, vgpu->memory, &charged);
			tenant_scan(node, vgpu);
			continue;
		}
		registry_drop(node, vgpu);
		changed = true;
	}
	if (changed) {
		admission_publish(node);
		state_save_runtime(node);
	}
}
