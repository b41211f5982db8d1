// Creates directories for simulated GPUs and for their daemon. The `virgate` program starts that daemon, as it does for
// users. Include this header in one file of a program.
#pragma once
#include "daemon_fixture.h"

static inline void end_daemon(void)
{
	if (*directory && access(socket_path, F_OK) == 0)
		json_decref(ask("{'op':'shutdown'}"));
}

static inline void set_up_simulated_node(void)
{
	char path[300];

	fresh_node();
	CHECK_INT(mkdir(runtime_dir, 0700), 0);
	setenv("VIRGATE_RUNTIME_DIR", runtime_dir, 1);
	snprintf(path, sizeof path, "%s/state", directory);
	setenv("VIRGATE_STATE_DIR", path, 1);
	snprintf(path, sizeof path, "%s/sim", directory);
	setenv("VIRGATE_SIM_DIR", path, 1);
	setenv("VIRGATE_SIM", "memory=1G,ctx=16M", 1);
	unsetenv("VIRGATE_NVML");
}

static inline int virgate(const char *arguments)
{
	char command[600];

	snprintf(command, sizeof command, VIRGATE " %s >/dev/null", arguments);
	return system(command);
}

// Returns the pid of the program in the vGPU, without the launcher.
static inline pid_t find_tenant(const char *name)
{
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name);
	const json_t *tenants = json_object_get(json_object_get(reply, "vgpu"), "tenants");
	pid_t pid = (pid_t)json_integer_value(json_object_get(json_array_get(tenants, 0), "pid"));

	json_decref(reply);
	CHECK(pid > 1);
	return pid;
}

#ifdef HOLDER
// Runs `virgate run --vgpu NAME -- holder MIB`. Returns the pid of the launcher after the holder has allocated its
// memory.
static inline pid_t run_holder(const char *name, const char *mib)
{
	int out[2];
	char word[8];

	CHECK_INT(pipe(out), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(out[1], 1);
		close(out[0]);
		execl(VIRGATE, "virgate", "run", "--sim", "--vgpu", name, "--", HOLDER, mib, NULL);
		_exit(9);
	}
	close(out[1]);
	CHECK(read(out[0], word, sizeof word) == 6);
	close(out[0]);
	return child;
}
#endif
