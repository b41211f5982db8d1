// Handles the field "container" of `enter`: the first process of a container becomes a launcher of the vGPU.
#include "base/descriptor.h"
#include "daemon/container.h"
#include "daemon/launcher.h"
#include "daemon/process.h"
#include "daemon/request_parts.h"
#include "daemon/say.h"
#include "daemon/user.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Returns whether the peer may name this process: it belongs to the peer, or to a subordinate id of the peer.
static bool may_name(const struct authority_peer *peer, pid_t pid)
{
	char path[32];
	struct stat status;

	if (peer->uid == 0 || process_belongs_to(pid, peer->uid, (gid_t)-1))
		return true;
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	return stat(path, &status) == 0 && user_owner(status.st_uid) == user_owner(peer->uid);
}

json_t *enter_container(const struct request *request, struct vgpu *vgpu)
{
	const json_t *object = json_object_get(request->object, "container");
	const char *id = json_string_value(json_object_get(object, "id"));
	json_int_t pid = json_integer_value(json_object_get(object, "pid"));
	uint64_t start_time;

	if (!container_is_id(id))
		return refuse("invalid", "\"container\" needs an \"id\" of 1 to %d letters, digits, '.', '_' and '-'",
			      CONTAINER_ID - 1);
	if (pid < 1 || pid > INT_MAX || vg_process_start_time((pid_t)pid, &start_time) < 0)
		return refuse("not_found", "container %.12s: its first process %lld has ended", id, (long long)pid);
	if (!may_name(request->peer, (pid_t)pid))
		return refuse("denied", "container %.12s: process %lld belongs to another user", id, (long long)pid);
	int r = launcher_adopt(request->node, vgpu, (pid_t)pid, start_time, false);
	if (r < 0)
		return refuse("system", "container %.12s: the daemon cannot watch process %lld: %s", id, (long long)pid,
			      strerror(-r));
	container_read(vgpu, (pid_t)pid, object);
	say("vGPU %s: container %.12s (process %lld) uses it", vgpu->name, id, (long long)pid);
	return NULL;
}
