// Takes over the MPS control daemons that an earlier daemon left.
#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/job.h"
#include "daemon/mps.h"
#include "daemon/mps_server.h"
#include "daemon/path.h"
#include "daemon/process.h"
#include "daemon/source.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

static void adopt_server(struct node *node, struct server *server)
{
	unsigned long long start_time;
	char path[PATH_MAX], text[64];
	int pid;

	path_format(node, path, "%s/control.pid", server->directory);
	if (vg_file_read(path, text, sizeof text) < 0 || sscanf(text, "%d %llu", &pid, &start_time) != 2)
		return;
	int fd = process_open(pid, start_time);
	if (fd < 0)
		return;
	server->source.fd = fd;
	server->pid = pid;
	server->is_adopted = true;
	server->started_ns = vg_clock_monotonic_ns();
	server->needed_ns = server->started_ns;
	server->listens = mps_is_listening(node, server);
	source_watch(node, &server->source, EPOLLIN);
}

// Parses the name of a server's directory, such as "0-1000" or "0+1-1000". Returns whether it is valid.
static bool parse_directory(const struct node *node, const char *name, uint64_t *ret_devices, uid_t *ret_uid)
{
	uint64_t devices = 0;
	char *end;

	for (;; name = end + 1) {
		unsigned long device = strtoul(name, &end, 10);
		if (*name < '0' || *name > '9' || device >= vg_system_device_count(node->system))
			return false;
		devices |= UINT64_C(1) << device;
		if (*end == '-')
			break;
		if (*end != '+')
			return false;
	}
	name = end + 1;
	unsigned long uid = strtoul(name, &end, 10);
	*ret_devices = devices;
	*ret_uid = (uid_t)uid;
	return *name >= '0' && *name <= '9' && !*end;
}

// Takes over the control daemons that run. Their directories tell which GPUs each of them serves.
static void adopt_running(struct node *node)
{
	char path[PATH_MAX];
	struct dirent *entry;
	uint64_t devices;
	uid_t uid;

	path_format(node, path, "mps");
	DIR *directory = opendir(path);
	while (directory && (entry = readdir(directory))) {
		if (!parse_directory(node, entry->d_name, &devices, &uid) || mps_next_server(NULL, devices, uid))
			continue;
		struct server *server = mps_add_server(node, devices, uid);
		if (server)
			adopt_server(node, server);
		if (server && server->source.fd < 0)
			mps_free_server(node, server);
	}
	if (directory)
		closedir(directory);
}

// Returns whether programs of the vGPU use an MPS server. A job that lacks GPUs has no programs yet.
static bool uses_server(const struct vgpu *vgpu)
{
	return vgpu->terms.is_mps && !vgpu->job_gpus && mps_count_programs(vgpu);
}

// Returns the GPUs whose programs of the user may be clients of one server with those on `devices`: those of the vGPUs
// and jobs with programs that share a GPU with them, and so on. The order of the vGPUs does not matter.
static uint64_t join_devices(const struct node *node, uint64_t devices, uid_t uid)
{
	uint64_t before;

	do {
		before = devices;
		for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
			if (uses_server(vgpu) && vgpu->owner == uid && job_devices(node, vgpu) & devices)
				devices |= job_devices(node, vgpu);
	} while (devices != before);
	return devices;
}

void mps_adopt(struct node *node)
{
	adopt_running(node);
	// If a control daemon has ended meanwhile, the programs of its vGPUs need another one.
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (!uses_server(vgpu))
			continue;
		uint64_t devices = join_devices(node, job_devices(node, vgpu), vgpu->owner);
		if (!mps_next_server(NULL, devices, vgpu->owner))
			mps_add_server(node, devices, vgpu->owner);
	}
}
