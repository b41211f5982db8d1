// cdi hook: what a container runtime runs while it starts a container, as the CDI specification says.
//
// `create` runs outside the container, when its first process exists: the daemon gives that process a vGPU. `mount`
// runs in the container's mount namespace, before the runtime changes the root: it mounts that vGPU's ledger.
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "cdi.h"
#include "cdi_allocation.h"
#include "cdi_mount.h"
#include "cdi_state.h"
#include "options.h"
#include "say.h"
#include "session.h"
#include "terms.h"
#include "vgpu/container.h"
#include "virgate/profile.h"

// crun discards what a hook prints, and podman shows only what crun itself writes to the file that --log names. podman
// shows crun's standard error instead if that file is not one JSON object. So this process writes its messages to
// crun's standard error, and a line to that file.

// Returns whether standard error is discarded, and this process sees the runtime's descriptors in /proc.
static bool is_discarded(void)
{
	char self[32] = "";
	struct stat info;

	if (fstat(2, &info) == 0 && !(S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3)))
		return false;
	return readlink("/proc/self", self, sizeof self - 1) > 0 && atoi(self) == getpid();
}

static void mark_runtime_log(void)
{
	static const char name[] = "/oci-log", line[] = "{\"level\":\"error\",\"msg\":\"virgate refused\"}\n";
	char path[64], target[PATH_MAX];

	for (int i = 3; i < 32; i++) {
		snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getppid(), i);
		ssize_t length = readlink(path, target, sizeof target);
		if (length < (ssize_t)sizeof name ||
		    memcmp(target + length - (sizeof name - 1), name, sizeof name - 1) != 0)
			continue;
		_cleanup_close_ int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
		if (fd >= 0)
			vg_write_all(fd, line, sizeof line - 1, -1);
		return;
	}
}

static void open_runtime_error(void)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/fd/2", (int)getppid());
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0 && fd != 2)
		dup2(fd, 2);
	if (fd > 2)
		close(fd);
}

// Chooses the name and the GPU of the vGPU that a container with a profile gets. *ret_device is "" if any GPU will do.
// Returns false after a message if the container has an allocation that is not the device plugin's, or of another
// profile.
static bool choose_vgpu(const struct arguments *arguments, const struct cdi_state *state, const char *profile,
			char ret_name[64], char ret_device[64])
{
	*ret_device = '\0';
	snprintf(ret_name, 64, "c-%.12s", state->id);
	return !*state->allocation ||
	       cdi_read_allocation(state, profile, option_value(arguments, "runtime-dir"), ret_name, ret_device);
}

// Reads the profile as it is now: it may have changed since the CDI file was written.
static int use_profile(const struct arguments *arguments, struct session *session, const char *name,
		       struct vg_profile_list **ret_list, struct vg_vgpu_options *options)
{
	if (vg_profile_list_read(ret_list))
		return fail_with_last_error(arguments);
	const struct vg_profile *profile = vg_profile_find(*ret_list, name);
	if (!profile) {
		say_error("the CDI device %s=%s%s is of a profile that virgate.conf has no longer: write the CDI file "
			  "again with `virgate cdi generate`",
			  CDI_KIND, CDI_PROFILE, name);
		return EXIT_FAILED;
	}
	vg_profile_apply(profile, options);
	return profile->mode_given ? 0 : use_configured_modes(arguments, session, options);
}

static int refuse_entry(const struct arguments *arguments, const char *vgpu, enum vg_status status)
{
	if (status == VG_NOT_FOUND && vgpu) {
		say_error("the CDI device %s=%s is of a vGPU that exists no longer: create it again, or write the CDI "
			  "file again with `virgate cdi generate`",
			  CDI_KIND, vgpu);
		return EXIT_FAILED;
	}
	if (status == VG_NO_DAEMON)
		say_error("no container can enter a vGPU while no daemon runs: enable virgated.service, or start your "
			  "own daemon with `virgate ps`");
	return fail_with_last_error(arguments);
}

static int enter_vgpu(const struct arguments *arguments, struct session *session, const struct cdi_state *state)
{
	const char *vgpu = option_value(arguments, "vgpu"), *profile = option_value(arguments, "profile");
	struct vg_container container = {.pid = state->pid,
					 .id = state->id,
					 .image = state->image,
					 .kill_outside = option_value(arguments, "kill-outside")};
	char own_name[64], device[64], *entered = NULL;
	struct vg_vgpu_options options = {.size = sizeof options, .name = own_name};
	struct vg_profile_list *list = NULL;

	if (profile && !choose_vgpu(arguments, state, profile, own_name, device))
		return EXIT_FAILED;
	if (profile && *state->allocation && !cdi_use_allocation(own_name, option_value(arguments, "runtime-dir")))
		return EXIT_FAILED;
	if (profile && *device)
		options.device = device;
	int r = profile ? use_profile(arguments, session, profile, &list, &options) : 0;
	if (r == 0) {
		enum vg_status status = vg_container_enter(session->node, vgpu, &options, &container, &entered);
		r = status ? refuse_entry(arguments, vgpu, status) : 0;
	}
	vg_profile_list_free(list);
	if (r == 0 && state->user_known &&
	    !cdi_permit(option_value(arguments, "runtime-dir"), entered, state->outer_user))
		r = EXIT_FAILED;
	free(entered);
	return r;
}

static int run_create_hook(const struct arguments *arguments, const struct cdi_state *state)
{
	struct session session;

	if (!cdi_check_library(state))
		return EXIT_FAILED;
	int r = session_open_quietly(&session, arguments);
	if (r)
		return r;
	r = enter_vgpu(arguments, &session, state);
	session_close(&session);
	return r;
}

static int run_mount_hook(const struct arguments *arguments, const struct cdi_state *state)
{
	const char *vgpu = option_value(arguments, "vgpu"), *profile = option_value(arguments, "profile");
	char own_name[64], device[64];

	if (profile && !choose_vgpu(arguments, state, profile, own_name, device))
		return EXIT_FAILED;
	bool mounted = cdi_mount(state, option_value(arguments, "runtime-dir"), vgpu ? vgpu : own_name);
	return mounted ? EXIT_OK : EXIT_FAILED;
}

static int run_hook(const struct arguments *arguments)
{
	const char *what = arguments->words[0];
	struct cdi_state state;

	bool is_silent = is_discarded();
	if (is_silent)
		open_runtime_error();
	bool creates = strcmp(what, "create") == 0;
	if (!creates && strcmp(what, "mount") != 0)
		return say_usage(arguments->verb, "\"%s\" is no hook: there are create and mount", what);
	if (!option_value(arguments, "vgpu") == !option_value(arguments, "profile") ||
	    !option_value(arguments, "runtime-dir"))
		return say_usage(arguments->verb, "give --runtime-dir, and one of --vgpu and --profile");
	int r = EXIT_FAILED;
	if (cdi_state_read(&state))
		r = creates ? run_create_hook(arguments, &state) : run_mount_hook(arguments, &state);
	if (r && is_silent)
		mark_runtime_log();
	return r;
}

static const struct option options[] = {
	{"vgpu", 0, "NAME", "the vGPU of the device", 0},
	{"profile", 0, "NAME", "the profile of the device", 0},
	{"runtime-dir", 0, "DIRECTORY", "the daemon's runtime directory", 0},
	{"kill-outside", 0, NULL, "kill programs that use the GPU without Virgate's library", 0},
	OPTION_MODE, // use_configured_modes() reads this option
	OPTION_SIM,
	{0},
};

const struct verb verb_cdi_hook = {
	.name = "cdi hook",
	.synopsis = "create|mount [--vgpu NAME | --profile NAME] --runtime-dir DIRECTORY [--kill-outside] "
		    "[--mode MODE] [--sim]",
	.summary = "Prepare a container (container runtimes run this)",
	.options = options,
	.least = 1,
	.most = 1,
	.hidden = true,
	.run = run_hook,
};
