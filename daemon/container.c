#include "daemon/container.h"

#include "base/descriptor.h"
#include "daemon/process.h"
#include "daemon/say.h"
#include "daemon/user.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_OUTSIDERS = 64, MOST_CGROUPS = 8192 };

bool container_is_id(const char *id)
{
	size_t length = id ? strlen(id) : 0;

	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)id[i]) && !strchr("._-", id[i]))
			return false;
	return length > 0 && length < CONTAINER_ID;
}

// Copies the name of the image. Truncates it to the size of the buffer, and replaces each blank and each character that
// is not printable ASCII by "?".
static void copy_image(char ret_image[CONTAINER_IMAGE], const char *image)
{
	snprintf(ret_image, CONTAINER_IMAGE, "%s", image ? image : "");
	for (char *at = ret_image; *at; at++)
		if (*at <= ' ' || *at > '~')
			*at = '?';
}

static struct launcher *find_launcher(const struct vgpu *vgpu, pid_t pid)
{
	for (struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		if (launcher->pid == pid)
			return launcher;
	return NULL;
}

bool container_is_owned(uid_t user, pid_t pid)
{
	char path[32];
	struct stat status;

	if (user == 0 || process_belongs_to(pid, user, (gid_t)-1))
		return true;
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	return stat(path, &status) == 0 && user_owner(status.st_uid) == user_owner(user);
}

void container_read(struct vgpu *vgpu, pid_t pid, const json_t *object, uid_t user)
{
	const char *id = json_string_value(json_object_get(object, "id"));
	struct launcher *launcher = find_launcher(vgpu, pid);

	if (!launcher || !container_is_id(id))
		return;
	snprintf(launcher->container, sizeof launcher->container, "%s", id);
	launcher->container_user = user;
	copy_image(launcher->image, json_string_value(json_object_get(object, "image")));
	launcher->kills_outside = json_is_true(json_object_get(object, "kill_outside"));
}

// ---- which container a process is in --------------------------------------------------------------------------

static bool has_containers(const struct vgpu *vgpu)
{
	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		if (*launcher->container)
			return true;
	return false;
}

// Compares control groups before pid namespaces, because containers of a pod can share one pid namespace.
const struct launcher *container_find(const struct node *node, const struct vgpu *vgpu, pid_t pid)
{
	char path[32], cgroups[MOST_CGROUPS];
	uint32_t pid_namespace, theirs, inner;

	if (pid <= 0 || !has_containers(vgpu))
		return NULL;
	snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
	bool known = vg_file_read(path, cgroups, sizeof cgroups) >= 0;
	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		if (*launcher->container && (launcher->pid == pid || (known && strstr(cgroups, launcher->container))))
			return launcher;
	if (!process_inner(pid, &pid_namespace, &inner) || pid_namespace == node->pid_namespace)
		return NULL;
	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		if (*launcher->container && process_inner(launcher->pid, &theirs, &inner) && theirs == pid_namespace)
			return launcher;
	return NULL;
}

// ---- processes without the interposer -------------------------------------------------------------------------

// Returns whether the process is a tenant of any vGPU, or may be one: the daemon still searches for a tenant's pid.
static bool may_be_tenant(const struct node *node, pid_t pid)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
			if (tenant->pid == pid || (tenant->pid == 0 && !tenant->is_dead))
				return true;
	return false;
}

size_t container_find_outsiders(const struct node *node, const struct vgpu *vgpu,
				const struct vg_system_process *processes, size_t count, struct outsider *ret_outsiders,
				size_t most)
{
	size_t found = 0;

	for (size_t i = 0; i < count && found < most && has_containers(vgpu); i++) {
		pid_t pid = (pid_t)processes[i].pid;
		const struct launcher *container = may_be_tenant(node, pid) ? NULL : container_find(node, vgpu, pid);
		if (container && container_is_owned(container->container_user, pid))
			ret_outsiders[found++] =
				(struct outsider){pid, container, processes[i].memory, processes[i].memory_known};
	}
	return found;
}

static void handle_outsider(const struct vgpu *vgpu, const struct outsider *outsider)
{
	struct launcher *container = find_launcher(vgpu, outsider->container->pid);
	uint64_t start_time;

	if (container->last_outsider != outsider->pid)
		say("process %d in container %.12s uses the GPU outside vGPU %s: Virgate's library is not loaded "
		    "there%s",
		    (int)outsider->pid, container->container, vgpu->name,
		    container->kills_outside ? "; it is killed" : "");
	container->last_outsider = outsider->pid;
	if (!container->kills_outside || vg_process_start_time(outsider->pid, &start_time) < 0)
		return;
	_cleanup_close_ int fd = process_open(outsider->pid, start_time);
	if (fd >= 0)
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

void container_check_outsiders(struct node *node)
{
	static struct vg_system_process processes[VG_SYSTEM_PROCESSES];
	struct outsider outsiders[MOST_OUTSIDERS];
	size_t count = 0;

	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (!has_containers(vgpu) || vg_system_processes(node->system, vgpu->device, processes, &count) < 0)
			continue;
		size_t found = container_find_outsiders(node, vgpu, processes, count, outsiders, MOST_OUTSIDERS);
		for (size_t i = 0; i < found; i++)
			handle_outsider(vgpu, &outsiders[i]);
	}
}
