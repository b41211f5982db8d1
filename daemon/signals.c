// Sends signals to proven tenants only. Any process that can write a ledger can enter the pid of any other process in a
// slot. So a slot does not prove that its process is a tenant. The mapping of the ledger proves it: only the process
// itself can map it, and it needs the permission to open the file.
#include "daemon/signals.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

// Returns 1 if the signal was sent, 0 if the process is no tenant or has ended, or -errno.
static int signal_tenant(const struct tenant *tenant, int signal)
{
	if (tenant->pid <= 0 || tenant->pid == getpid() || tenant->proof == PROOF_DENIED)
		return 0;
	if (tenant->source.fd < 0)
		return -EMFILE; // tenant_scan() had no descriptor left for a pidfd
	if (tenant->proof != PROOF_GIVEN)
		return 0;
	if (syscall(SYS_pidfd_send_signal, tenant->source.fd, signal, NULL, 0) == 0)
		return 1;
	return errno == ESRCH ? 0 : -errno;
}

struct signals_result signals_send(const struct vgpu *vgpu, int signal)
{
	struct signals_result result = {0};

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		if (tenant->is_dead || tenant->is_replaced || tenant->seen.guest)
			continue;
		int r = signal_tenant(tenant, signal);
		if (r > 0) {
			result.sent++;
		} else if (r < 0) {
			result.failed++;
			result.error = -r;
			result.pid = tenant->pid;
		}
	}
	return result;
}
