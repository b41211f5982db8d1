// Sends a signal to the tenants of a vGPU, through their pidfds. Whoever may write a ledger can name any process in it,
// so a slot does not prove that its process is a tenant. What proves it is that the process has the ledger mapped: only
// the process itself can map it, and it needs the right to the file.
#include "daemon/node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// A line of /proc/PID/maps. The kernel may give another device there than stat(2) does, so lines are compared with lines.
struct mapping {
	unsigned long start;
	unsigned int major, minor;
	unsigned long long inode; // 0: no file
};

static bool is_same_file(const struct mapping *left, const struct mapping *right)
{
	return left->major == right->major && left->minor == right->minor && left->inode == right->inode;
}

// NULL and errno: the process cannot be looked at; ENOENT: it has ended.
static FILE *open_mappings(pid_t pid)
{
	char path[48];

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	return fopen(path, "re");
}

static bool next_mapping(FILE *mappings, struct mapping *ret_mapping)
{
	char *line = NULL;
	size_t capacity = 0;
	bool found = false;

	while (!found && getline(&line, &capacity, mappings) > 0)
		found = sscanf(line, "%lx-%*x %*s %*x %x:%x %llu", &ret_mapping->start, &ret_mapping->major,
			       &ret_mapping->minor, &ret_mapping->inode) == 4;
	free(line);
	return found;
}

// Which file this daemon has mapped at the address. 0 or -errno; -ENOENT: none.
static int find_own_mapping(const void *address, struct mapping *ret_mapping)
{
	FILE *mappings = open_mappings(getpid());
	bool found = false;

	if (!mappings)
		return -errno;
	while (!found && next_mapping(mappings, ret_mapping))
		found = ret_mapping->start == (unsigned long)address;
	fclose(mappings);
	return found && ret_mapping->inode ? 0 : -ENOENT;
}

// 1: the process has the file mapped. 0: it has not, or has ended. -errno: that cannot be told.
static int has_mapped(pid_t pid, const struct mapping *file)
{
	FILE *mappings = open_mappings(pid);
	struct mapping mapping;
	bool found = false;

	if (!mappings)
		return errno == ENOENT ? 0 : -errno;
	while (!found && next_mapping(mappings, &mapping))
		found = is_same_file(&mapping, file);
	bool failed = !found && ferror(mappings) && errno != ESRCH; // it may have ended meanwhile
	int r = failed ? -errno : found;
	fclose(mappings);
	return r;
}

// 1: it was sent. 0: the process is no tenant, or has ended. -errno.
static int signal_tenant(const struct tenant *tenant, const struct mapping *ledger, int signal)
{
	if (tenant->pid <= 0 || tenant->pid == getpid())
		return 0;
	if (tenant->source.fd < 0)
		return -EMFILE; // no pidfd: tenant_scan() had no descriptor left for it
	int r = has_mapped(tenant->pid, ledger);
	if (r > 0 && syscall(SYS_pidfd_send_signal, tenant->source.fd, signal, NULL, 0) < 0)
		r = errno == ESRCH ? 0 : -errno;
	return r;
}

int tenant_signal_all(struct node *node, struct vgpu *vgpu, int signal, struct signalled *ret_signalled)
{
	struct signalled signalled = {0};
	struct mapping ledger;
	void *address;
	size_t length;

	tenant_scan(node, vgpu);
	vg_ledger_range(vgpu->ledger, &address, &length);
	int r = find_own_mapping(address, &ledger);
	if (r < 0)
		return r;
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		if (tenant->dead || tenant->replaced || tenant->seen.guest)
			continue;
		r = signal_tenant(tenant, &ledger, signal);
		if (r > 0) {
			signalled.count++;
		} else if (r < 0) {
			signalled.failed++;
			signalled.error = -r;
			signalled.pid = tenant->pid;
		}
	}
	*ret_signalled = signalled;
	return 0;
}
