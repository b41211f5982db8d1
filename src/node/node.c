#include "node/node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/status.h"
#include "virgate/version.h"
#include "node/paths.h"
#include "wire/wire.h"

enum { DEFAULT_TIMEOUT = 20 }; // seconds

const char *vg_version(void)
{
	return VG_VERSION_TEXT;
}

static int copy_text(char *buffer, size_t capacity, const char *text)
{
	return snprintf(buffer, capacity, "%s", text ? text : "") < (int)capacity ? 0 : -ENAMETOOLONG;
}

// Returns whether the system's daemon serves the requested simulated GPU, and copies the parameters of this GPU to
// `system`. If VIRGATE_SIM_DIR is set, the daemon must use the same directory.
static bool serves_simulation(struct vg_node *system)
{
	const char *named = secure_getenv("VIRGATE_SIM_DIR");
	char *answer = NULL, here[PATH_MAX];

	int r = vg_wire_request(system->socket, "{\"op\":\"ping\"}", (int)system->timeout * 1000, &answer);
	json_t *reply = r == 0 ? json_loads(answer, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const char *served = json_string_value(json_object_get(reply, "simulate"));
	const char *directory = json_string_value(json_object_get(reply, "simulate_dir"));
	bool serves = served && *served && directory &&
		      (strcmp(system->simulate, "1") == 0 || strcmp(system->simulate, served) == 0) &&
		      (!named || !*named || (realpath(named, here) && strcmp(here, directory) == 0)) &&
		      copy_text(system->simulate_dir, sizeof system->simulate_dir, directory) == 0 &&
		      copy_text(system->simulate, sizeof system->simulate, served) == 0;
	json_decref(reply);
	free(answer);
	return serves;
}

// Chooses the system's daemon, which serves real GPUs or a simulated one for all users, unless the caller or the
// environment names a runtime directory. If the socket of the system's daemon exists but refuses connections, that
// daemon was killed (at a normal exit it removes the socket) and will be restarted. Then requests wait for the restart,
// since a daemon of the user would not know the vGPUs of the system's daemon.
static void choose_daemon(struct vg_node *node, const char *explicit_dir)
{
	const char *given = explicit_dir ? explicit_dir : secure_getenv("VIRGATE_RUNTIME_DIR");
	const char *directory = secure_getenv("VIRGATE_SYSTEM_DIR");
	struct vg_node system = *node;

	node->own = true;
	if (given && *given)
		return;
	directory = directory && *directory ? directory : "/run/virgate";
	if (copy_text(system.runtime_dir, sizeof system.runtime_dir, directory) < 0 ||
	    snprintf(system.socket, sizeof system.socket, "%.4000s/virgated.sock", directory) >=
		    (int)sizeof((struct sockaddr_un *)NULL)->sun_path)
		return;
	_cleanup_close_ int fd = vg_node_connect(&system);
	if (*node->simulate ? fd < 0 || !serves_simulation(&system) : fd < 0 && fd != -ECONNREFUSED)
		return;
	*node = system;
	node->own = false;
}

// Returns whether another user owns the default runtime directory: in /tmp, any user can create a directory with that
// name.
static bool is_foreign(const struct vg_node *node, const char *explicit_dir, unsigned *ret_owner)
{
	const char *given = explicit_dir ? explicit_dir : secure_getenv("VIRGATE_RUNTIME_DIR");
	struct stat info;

	if (!node->own || (given && *given) || lstat(node->runtime_dir, &info) < 0 || info.st_uid == geteuid())
		return false;
	*ret_owner = info.st_uid;
	return true;
}

enum vg_status vg_node_open(const struct vg_node_options *options, struct vg_node **ret_node)
{
	VG_ENTRY();
	struct vg_node_options all;
	struct sockaddr_un address; // the socket's path must fit into this struct

	VG_NEEDED(ret_node);
	enum vg_status status = vg_options_copy(&all, sizeof all, options);
	if (status)
		return status;
	struct vg_node *node = calloc(1, sizeof *node);
	if (!node)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for a node");
	node->may_start = !all.no_start;
	node->timeout = all.timeout ? all.timeout : DEFAULT_TIMEOUT;
	if (!all.simulate)
		all.simulate = vg_simulation_wanted();
	int r = copy_text(node->simulate, sizeof node->simulate, all.simulate);
	if (r == 0)
		r = copy_text(node->libdir, sizeof node->libdir, all.libdir);
	if (r == 0)
		r = vg_paths_runtime(all.runtime_dir, node->simulate, node->runtime_dir);
	if (r < 0) {
		free(node);
		return vg_fail(VG_INVALID, -r, "a path or the simulation's specification is too long");
	}
	// A relative path is an error, because the daemon and the tenants have other working directories.
	if (*node->runtime_dir != '/') {
		vg_fail(VG_INVALID, EINVAL, "the runtime directory \"%.200s\" must begin with '/'", node->runtime_dir);
		free(node);
		return VG_INVALID;
	}
	if (snprintf(node->socket, sizeof node->socket, "%.4000s/virgated.sock", node->runtime_dir) >=
	    (int)sizeof address.sun_path) {
		vg_fail(VG_INVALID, ENAMETOOLONG,
			"the path %.200s of the socket is longer than %zu characters: name a shorter directory in "
			"VIRGATE_RUNTIME_DIR",
			node->socket, sizeof address.sun_path - 1);
		free(node);
		return VG_INVALID;
	}
	choose_daemon(node, all.runtime_dir);
	unsigned owner;
	if (is_foreign(node, all.runtime_dir, &owner)) {
		vg_fail(VG_DENIED, EPERM,
			"%.200s belongs to another user (%u): remove it, or name a directory of yours in "
			"VIRGATE_RUNTIME_DIR",
			node->runtime_dir, owner);
		free(node);
		return VG_DENIED;
	}
	*ret_node = node;
	return VG_OK;
}

void vg_node_close(struct vg_node *node)
{
	free(node);
}

const char *vg_node_socket(const struct vg_node *node)
{
	return node ? node->socket : "";
}

enum vg_status vg_node_ping(struct vg_node *node)
{
	VG_ENTRY();
	VG_NEEDED(node);
	return vg_node_order(node, json_pack("{s:s}", "op", "ping"));
}

enum vg_status vg_node_shutdown(struct vg_node *node)
{
	VG_ENTRY();
	VG_NEEDED(node);
	return vg_node_order(node, json_pack("{s:s}", "op", "shutdown"));
}

int vg_node_connect(const struct vg_node *node)
{
	return vg_wire_connect(node->socket, (int)node->timeout * 1000);
}
