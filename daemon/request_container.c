// Handles the field "container" of `enter`: the first process of a container becomes a launcher of the vGPU.
#include "base/descriptor.h"
#include "daemon/container.h"
#include "daemon/launcher.h"
#include "daemon/process.h"
#include "daemon/request_parts.h"
#include "daemon/say.h"
#include "daemon/user.h"

#include <limits.h>
#include <string.h>

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
	if (!container_is_owned(request->peer->uid, (pid_t)pid))
		return refuse("denied", "container %.12s: process %lld belongs to another user", id, (long long)pid);
	int r = launcher_adopt(request->node, vgpu, (pid_t)pid, start_time, false);
	if (r < 0)
		return refuse("system", "container %.12s: the daemon cannot watch process %lld: %s", id, (long long)pid,
			      strerror(-r));
	container_read(vgpu, (pid_t)pid, object, user_owner(request->peer->uid));
	say("vGPU %s: container %.12s (process %lld) uses it", vgpu->name, id, (long long)pid);
	return NULL;
}
