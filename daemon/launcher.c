#include "daemon/launcher.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/process.h"
#include "daemon/source.h"
#include "daemon/tenant.h"
#include "daemon/user.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum { SOON_MS = 2000 }; // the driver releases the memory of an ended process within this time

static void forget_launcher(struct node *node, struct launcher *launcher)
{
	struct vgpu *vgpu = launcher->vgpu;
	struct launcher **link = &vgpu->launchers;

	while (*link != launcher)
		link = &(*link)->next;
	*link = launcher->next;
	vgpu->heirs = HEIRS_UNKNOWN;
	user_uncount_process(vgpu->owner);
	source_close(node, &launcher->source);
	free(launcher);
	if (!vgpu->launchers)
		vgpu->left_ns = vg_clock_monotonic_ns();
}

static void launcher_ended(struct node *node, struct source *source, uint32_t events)
{
	struct vgpu *vgpu = ((struct launcher *)source)->vgpu;

	forget_launcher(node, (struct launcher *)source);
	// The last scan may have missed a tenant that the launcher started.
	if (vgpu->ephemeral && !vgpu->launchers)
		tenant_scan(node, vgpu);
	// Do not write the file now: very many launchers can end together, and an old file harms nothing, because the
	// next daemon checks each process.
	node->runtime_is_stale = true;
}

static struct launcher *find_launcher(const struct vgpu *vgpu, pid_t pid, uint64_t start_time)
{
	for (struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		if (launcher->pid == pid && vg_start_time_same(launcher->start_time, start_time))
			return launcher;
	return NULL;
}

// Adds the process of `peer`, or if `peer` is NULL, the process {pid, start time}.
static int add_launcher(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time,
			const struct authority_peer *peer, bool has_mapped)
{
	struct launcher *launcher = find_launcher(vgpu, pid, start_time);

	if (launcher) {
		launcher->has_mapped |= has_mapped;
		return 0;
	}
	if (!user_count_process(node, vgpu->owner))
		return -EMFILE;
	int fd = source_keep_descriptor(peer ? process_open_peer(peer) : process_open(pid, start_time));
	launcher = fd >= 0 ? calloc(1, sizeof *launcher) : NULL;
	if (!launcher) {
		user_uncount_process(vgpu->owner);
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	*launcher = (struct launcher){.source = {fd, launcher_ended, true, user_owner(vgpu->owner)},
				      .vgpu = vgpu,
				      .next = vgpu->launchers,
				      .pid = pid,
				      .start_time = start_time,
				      .has_mapped = has_mapped};
	vgpu->launchers = launcher;
	int r = source_watch(node, &launcher->source, EPOLLIN);
	if (r < 0)
		forget_launcher(node, launcher);
	return r;
}

int launcher_adopt(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time, bool has_mapped)
{
	return add_launcher(node, vgpu, pid, start_time, NULL, has_mapped);
}

int launcher_add(struct node *node, struct vgpu *vgpu, const struct authority_peer *peer)
{
	return add_launcher(node, vgpu, peer->pid, peer->start_time, peer, false);
}

void launcher_drop_all(struct node *node, struct vgpu *vgpu)
{
	while (vgpu->launchers)
		forget_launcher(node, vgpu->launchers);
}

static bool has_ended(const struct tenant *tenant)
{
	return tenant->is_dead || (tenant->source.fd >= 0 && process_has_ended(tenant->source.fd));
}

// Returns whether launchers or tenants use the vGPU. Also handles ends of launchers that the loop has not handled yet.
static bool is_used(struct node *node, struct vgpu *vgpu)
{
	for (struct launcher *launcher = vgpu->launchers, *next; launcher; launcher = next) {
		next = launcher->next;
		if (process_has_ended(launcher->source.fd))
			launcher_ended(node, &launcher->source, EPOLLIN);
	}
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (!has_ended(tenant))
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
