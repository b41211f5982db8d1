// Sends a signal to the tenants of a vGPU, through their pidfds. Whoever may write a ledger can name any process in it,
// so a slot does not prove that its process is a tenant. What proves it is that the process has the ledger mapped: only
// the process itself can map it, and it needs the right to the file.
#include "daemon/node.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

// 1: it was sent. 0: the process is no tenant, or has ended. -errno.
static int signal_tenant(const struct tenant *tenant, int signal)
{
	if (tenant->pid <= 0 || tenant->pid == getpid() || tenant->proof == PROOF_DENIED)
		return 0;
	if (tenant->source.fd < 0)
		return -EMFILE; // no pidfd: tenant_scan() had no descriptor left for it
	if (tenant->proof != PROOF_GIVEN)
		return 0;
	if (syscall(SYS_pidfd_send_signal, tenant->source.fd, signal, NULL, 0) == 0)
		return 1;
	return errno == ESRCH ? 0 : -errno;
}

struct signalled tenant_signal_all(struct node *node, struct vgpu *vgpu, int signal)
{
	struct signalled signalled = {0};

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		if (tenant->dead || tenant->replaced || tenant->seen.guest)
			continue;
		int r = signal_tenant(tenant, signal);
		if (r > 0) {
			signalled.count++;
		} else if (r < 0) {
			signalled.failed++;
			signalled.error = -r;
			signalled.pid = tenant->pid;
		}
	}
	return signalled;
}
