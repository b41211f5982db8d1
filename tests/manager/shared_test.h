// Prepares a daemon for the test, and reads its list of vGPUs. The first request starts the daemon.
#pragma once
#include "manager_test.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <virgate/vgpu.h>

static char shared_directory[64], shared_cli[PATH_MAX + 64];
static struct vg_node *shared_opened;

static inline void end_node(void)
{
	char command[128];

	if (getpid() != test_pid)
		return;
	(void)vg_node_shutdown(shared_opened);
	vg_node_close(shared_opened);
	snprintf(command, sizeof command, "rm -rf '%s'", shared_directory);
	if (system(command) != 0)
		fprintf(stderr, "left behind: %s\n", shared_directory);
}

// Finds the daemon and the command virgate beside this program, in a build tree or in a bundle.
static inline void find_programs(void)
{
	static const char *const places[][2] = {{"../../daemon/virgated", "../../cli/virgate"},
						{"../../../../bin/virgated", "../../../../bin/virgate"}};
	char own[PATH_MAX], path[PATH_MAX + 64];

	CHECK(realpath("/proc/self/exe", own));
	strrchr(own, '/')[1] = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s%s", own, places[i][0]);
		if (access(path, X_OK) != 0)
			continue;
		setenv("VIRGATE_DAEMON", path, 0);
		snprintf(shared_cli, sizeof shared_cli, "%s%s", own, places[i][1]);
	}
	CHECK(*shared_cli);
}

// Opens the connection to the daemon. Call this before the driver is loaded, because child processes use the
// connection, too.
static inline struct vg_node *shared_node(void)
{
	char path[128];

	if (shared_opened)
		return shared_opened;
	if (getenv("VIRGATE_VGPU"))
		SKIP("this program runs inside a vGPU");
	snprintf(shared_directory, sizeof shared_directory, "/tmp/test-manager-XXXXXX");
	CHECK(mkdtemp(shared_directory));
	find_programs();
	snprintf(path, sizeof path, "%s/state", shared_directory);
	setenv("VIRGATE_STATE_DIR", path, 1);
	snprintf(path, sizeof path, "%s/run", shared_directory);
	setenv("VIRGATE_RUNTIME_DIR", path, 1);
	const struct vg_node_options options = {.size = sizeof options, .runtime_dir = path};
	OK(vg_node_open(&options, &shared_opened));
	atexit(end_node);
	OK(vg_node_ping(shared_opened));
	return shared_opened;
}

struct listed {
	int found, physical_known;
	uint64_t memory, charged;
	size_t tenants;
	unsigned share;
};

static inline struct listed look(const char *name)
{
	struct vg_vgpu_list *list;
	struct listed listed = {0};

	OK(vg_vgpu_list(shared_node(), &list));
	for (size_t i = 0; i < list->count; i++) {
		const struct vg_vgpu_info *info = &list->vgpus[i];
		if (strcmp(info->name, name) == 0)
			listed = (struct listed){
				1, info->physical_known, info->memory, info->charged, info->tenant_count, info->share};
	}
	vg_vgpu_list_free(list);
	return listed;
}

// Waits until the daemon no longer lists the vGPU, after its process has ended.
static inline void await_gone(const char *name)
{
	for (int i = 0; i < 2000 && look(name).found; i++)
		poll(NULL, 0, 5);
	CHECK(!look(name).found);
}

static inline struct vg_manager *shared_manager(void)
{
	const struct vg_manager_options options = {.size = sizeof options, .node = shared_node()};

	return open_manager(&options);
}

static inline struct vg_virtual_gpu *new_shared(struct vg_manager *manager, const char *name, uint64_t limit)
{
	const struct vg_virtual_gpu_options options = {
		.size = sizeof options, .name = name, .memory_limit = limit, .compute_share = 0.25, .shared = 1};
	struct vg_virtual_gpu *vgpu;

	OK(vg_virtual_gpu_create(manager, &options, &vgpu));
	return vgpu;
}
