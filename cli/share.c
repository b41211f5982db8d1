#include "share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "node/node.h"
#include "node/paths.h"
#include "options.h"
#include "say.h"
#include "session.h"

// Chooses the simulated GPUs of the system's daemon, if that daemon serves simulated GPUs to all users.
static void choose_node(const struct session *session)
{
	const struct vg_node_options options = {.size = sizeof options,
						.runtime_dir = session->config.values[CONFIG_RUNTIME_DIR],
						.simulate = session->simulate,
						.no_start = 1};
	struct vg_node *node = NULL;

	if (vg_node_open(&options, &node) == VG_OK && *node->simulate_dir) {
		setenv("VIRGATE_SIM", node->simulate, 1);
		setenv("VIRGATE_SIM_DIR", node->simulate_dir, 1);
	}
	vg_node_close(node);
}

// Chooses between a real and a simulated GPU. Inside a vGPU, uses the vGPU's GPU; elsewhere, --sim and the settings
// decide.
int share_choose_driver(const struct session *session, const struct arguments *arguments)
{
	const char *vgpu = getenv("VIRGATE_VGPU"), *simulated = getenv("VIRGATE_SIM");

	if (!vgpu && *session->simulate) {
		if (session->config.values[CONFIG_LIBDIR])
			setenv("VIRGATE_LIBDIR", session->config.values[CONFIG_LIBDIR], 0);
		setenv("VIRGATE_SIM", session->simulate, 1);
		choose_node(session);
	} else if (vgpu && option_value(arguments, "sim") && !(simulated && *simulated)) {
		say_error("this runs in vGPU %s of a real GPU: leave out --sim, or run it outside the vGPU", vgpu);
		return verb_failure_code(arguments->verb);
	}
	return 0;
}

// Chooses the path of the socket: --socket, or a path in the user's runtime directory, which is the same inside and
// outside a vGPU.
static int choose_socket(const struct session *session, const struct arguments *arguments, char ret_path[PATH_MAX])
{
	const char *given = option_value(arguments, "socket"), *simulated = getenv("VIRGATE_SIM");
	char directory[PATH_MAX], problem[300] = "its name is too long";

	if (given && !*given)
		return say_usage(arguments->verb, "--socket: the path is empty");
	int r = 0, length;
	if (given) {
		length = snprintf(ret_path, PATH_MAX, "%s", given);
	} else {
		r = vg_paths_runtime(session->config.values[CONFIG_RUNTIME_DIR], "", directory);
		if (r == 0)
			r = vg_paths_make_private(directory, problem, sizeof problem);
		length = snprintf(ret_path, PATH_MAX, "%.4000s/share%s.sock", directory,
				  simulated && *simulated ? "-sim" : "");
	}
	if (r == 0 && length < PATH_MAX)
		return 0;
	if (r < 0)
		say_error("%s: remove it, or name a socket with --socket", problem);
	else
		say_error("--socket: a path has at most %d characters", PATH_MAX - 1);
	return verb_failure_code(arguments->verb);
}

static int read_seconds(const struct arguments *arguments, int *ret_seconds)
{
	const char *text = option_value(arguments, "timeout");
	const char *wrong = text ? config_check(KIND_SECONDS, text) : NULL;

	if (wrong)
		return say_usage(arguments->verb, "--timeout: \"%s\" %s", text, wrong);
	*ret_seconds = text ? atoi(text) : SHARE_SECONDS;
	return 0;
}

int share_pair_read(const struct arguments *arguments, struct share_pair *ret_pair)
{
	struct session session;

	ret_pair->device = option_value(arguments, "device");
	int r = read_seconds(arguments, &ret_pair->seconds);
	if (r)
		return r;
	r = session_read_settings(&session, arguments);
	if (r == 0)
		r = share_choose_driver(&session, arguments);
	if (r == 0)
		r = choose_socket(&session, arguments, ret_pair->socket);
	session_close(&session);
	return r;
}

int share_pair_run(const struct arguments *arguments, const char *title, int (*work)(const struct share_pair *pair))
{
	struct share_pair pair;

	int r = share_pair_read(arguments, &pair);
	if (r)
		return r;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("=== CUDA VMM %s ===\n", title);
	r = work(&pair);
	if (r == 0)
		printf("Cleanup complete\n");
	return r;
}

// ---- the device -----------------------------------------------------------------------------------------

enum vg_status share_find_device(const char *named, struct vg_device **ret_device)
{
	const char *digits = "0123456789";
	struct vg_device *device;
	int count;

	if (!named || (strspn(named, digits) == strlen(named) && strlen(named) <= 4))
		return vg_device_get(named ? atoi(named) : 0, ret_device);
	enum vg_status status = vg_device_count(&count);
	if (status)
		return status;
	for (int i = 0; i < count; i++) {
		status = vg_device_get(i, &device);
		if (status)
			return status;
		if (strcasecmp(vg_device_uuid(device), named + 4 * !strncmp(named, "GPU-", 4)) == 0) {
			*ret_device = device;
			return VG_OK;
		}
	}
	return vg_fail(VG_NOT_FOUND, 0,
		       "no GPU here is \"%s\": give an index from 0 to %d, or a UUID that `virgate devices%s` lists",
		       named, count - 1, sim_flag());
}

enum vg_status share_open_vram(const struct arguments *arguments, const struct key *key, struct vg_vram **ret_vram)
{
	struct vg_vram_options options = {
		.size = sizeof options, .key_file = key->file, .key_ring = key->ring, .vgpu = "host"};

	enum vg_status status = share_find_device(option_value(arguments, "device"), &options.device);
	return status ? status : vg_vram_open(&options, ret_vram);
}

// Finds out whether the device lacks virtual memory management, or the export of memory as descriptors. *ret_missing:
// the missing feature; NULL if the device has both.
static enum vg_status find_missing_feature(struct vg_device *device, const char **ret_missing)
{
	int virtual_memory = 0, descriptors = 0;
	enum vg_status status =
		vg_device_property(device, VG_DEVICE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &virtual_memory);

	if (status == VG_OK)
		status =
			vg_device_property(device, VG_DEVICE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &descriptors);
	*ret_missing = !virtual_memory ? "virtual memory management"
		       : !descriptors  ? "memory with POSIX descriptors"
				       : NULL;
	return status;
}

int share_fail_with_hint(void)
{
	if (vg_last_error()->status == VG_NO_DRIVER)
		say_error("%s: install NVIDIA's driver, or use the simulated GPU with --sim", vg_last_error()->text);
	else
		say_last_error();
	return EXIT_FAILED;
}

int share_pair_open(const struct share_pair *pair, struct vg_vram **ret_vram)
{
	struct vg_vram_options options = {.size = sizeof options};
	int major, minor;
	const char *missing;

	if (share_find_device(pair->device, &options.device))
		return share_fail_with_hint();
	vg_device_compute_capability(options.device, &major, &minor);
	printf("Using CUDA device %d: %s\n", vg_device_ordinal(options.device), vg_device_name(options.device));
	if (find_missing_feature(options.device, &missing))
		return share_fail_with_hint();
	if (missing) {
		say_error("this device has no %s (CUDA_ERROR_NOT_SUPPORTED): that needs compute capability 6.0 or "
			  "later (this GPU has %d.%d) and Linux outside WSL",
			  missing, major, minor);
		return EXIT_FAILED;
	}
	return vg_vram_open(&options, ret_vram) ? share_fail_with_hint() : 0;
}

void share_say_mapped(struct vg_vram_handle handle, const char *mapped)
{
	struct vg_vram_loan loan;

	if (vg_vram_borrow(handle, VG_VRAM_READ, &loan))
		return;
	printf("Reserved virtual address space at 0x%llx\n", (unsigned long long)loan.address);
	vg_vram_give_back(&loan);
	printf("%s\nSet read/write access permissions\n", mapped);
}
