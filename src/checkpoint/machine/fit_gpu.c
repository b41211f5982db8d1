// Checks that the GPUs of this machine fit those of an image. The map, or the UUID, says which GPU replaces which.
#include "checkpoint/machine/fit.h"

#include "base/hint.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/process/refusal.h"
#include "virgate/gpu.h"

#include <stdio.h>
#include <string.h>

enum { MOST_USERS = 1024 };

// A GPU of the image, and the GPU of this machine that replaces it.
struct wanted {
	const char *name, *target; // `target`: UUID of the GPU in this machine
	uint64_t held;		   // bytes that processes used; 0: none, or unknown
	size_t users;		   // number of processes that use the GPU
	const json_t *gpu;
};

static const char *text_of(const json_t *group, const char *key)
{
	return json_string_value(json_object_get(group, key));
}

static const char *target_of(const char *uuid, const struct vg_process_gpu_pair *pairs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(pairs[i].old_uuid, uuid) == 0)
			return pairs[i].new_uuid;
	return uuid;
}

static bool used_by(const json_t *process, const char *uuid, bool *ret_known)
{
	json_t *gpus = json_object_get(process, "gpus"), *gpu;
	size_t i;

	*ret_known = json_is_array(gpus);
	json_array_foreach(gpus, i, gpu)
		if (strcmp(text_of(gpu, "uuid"), uuid) == 0)
			return true;
	return false;
}

// Counts the processes that use the GPU. If that is unknown, counts all processes that use CUDA.
static size_t count_users(const json_t *description, const char *uuid)
{
	json_t *process;
	size_t users = 0, i;

	json_array_foreach(json_object_get(description, "processes"), i, process) {
		bool known, used = used_by(process, uuid, &known);
		users += used || (!known && json_is_true(json_object_get(process, "cuda")));
	}
	return users;
}

static enum vg_status fit_setting(const struct wanted *wanted, const char *key, enum vg_status asked, int here,
				  const char *what, const char *fix)
{
	json_t *was = json_object_get(wanted->gpu, key);

	if (asked || here < 0 || !json_is_boolean(was) || json_is_true(was) == (here != 0))
		return VG_OK;
	return refuse(REFUSE_GPU_SETTING, 0, "%s (%s) has %s %s, and had it %s: %s %d", wanted->target, wanted->name,
		      what, here ? "on" : "off", here ? "off" : "on", fix, here ? 0 : 1);
}

// Checks the compute mode: in the mode "exclusive-process", only one process may have contexts on the GPU.
static enum vg_status fit_compute_mode(const struct wanted *wanted, struct vg_gpu *gpu)
{
	static struct vg_gpu_process others[MOST_USERS];
	enum vg_gpu_compute_mode mode;
	size_t count = 0;

	if (vg_gpu_compute_mode(gpu, &mode) || mode == VG_GPU_COMPUTE_DEFAULT)
		return VG_OK;
	if (mode == VG_GPU_COMPUTE_PROHIBITED)
		return refuse(REFUSE_GPU_SETTING, 0,
			      "%s (%s) is in the compute mode prohibited: no program may use it; nvidia-smi -c 0",
			      wanted->target, wanted->name);
	if (vg_gpu_processes(gpu, others, MOST_USERS, &count))
		count = 0;
	if (wanted->users + count <= 1)
		return VG_OK;
	return refuse(REFUSE_GPU_SETTING, 0,
		      "%s (%s) is in the compute mode %s, for one process: %zu of the image's use it, and %zu here do; "
		      "nvidia-smi -c 0",
		      wanted->target, wanted->name, vg_gpu_compute_mode_name(mode), wanted->users, count);
}

static enum vg_status fit_settings(const struct wanted *wanted, struct vg_gpu *gpu)
{
	const char *was = text_of(wanted->gpu, "compute_capability");
	struct vg_gpu_mig mig;
	int major, minor, ecc = -1;

	if (was && vg_gpu_compute_capability(gpu, &major, &minor) == VG_OK) {
		char is[32];
		snprintf(is, sizeof is, "%d.%d", major, minor);
		if (strcmp(was, is) != 0)
			return refuse(REFUSE_GPU_MODEL, 0,
				      "%s (%s) has the compute capability %s, and the image's has %.20s: map it to "
				      "one that has "
				      "that",
				      wanted->target, wanted->name, is, was);
	}
	enum vg_status asked = vg_gpu_mig(gpu, &mig);
	enum vg_status status = fit_setting(wanted, "mig", asked, asked ? -1 : mig.mode, "MIG", "nvidia-smi -mig");
	if (status)
		return status;
	asked = vg_gpu_ecc_mode(gpu, &ecc, NULL);
	status = fit_setting(wanted, "ecc", asked, ecc, "error correction (ECC)", "reset it after nvidia-smi -e");
	return status ? status : fit_compute_mode(wanted, gpu);
}

static enum vg_status fit_memory(const struct wanted *wanted, struct vg_gpu *gpu)
{
	struct vg_gpu_memory memory;
	char text[2][VG_SIZE_TEXT];

	if (vg_gpu_memory(gpu, &memory) || memory.free >= wanted->held)
		return VG_OK;
	enum vg_status status = refuse(
		REFUSE_DEVICE_MEMORY, 0,
		"%s (%s) has %s free, and the image takes %s: end what else uses it (nvidia-smi), or map it to another",
		wanted->target, wanted->name, vg_size_format(memory.free, text[0]),
		vg_size_format(wanted->held, text[1]));
	vg_fail_amounts(wanted->held, memory.free);
	return status;
}

static enum vg_status fit_gpu(const struct wanted *wanted)
{
	struct vg_gpu *here;

	if (vg_gpu_by_uuid(wanted->target, &here))
		return refuse(REFUSE_GPU_MISSING, 0,
			      "there is no GPU %s here: map it to another one (`virgate devices%s` lists them)",
			      wanted->target, vg_hint_own_sim());
	if (strcmp(wanted->name, vg_gpu_name(here)) != 0)
		return refuse(REFUSE_GPU_MODEL, 0, "%s is a %s, and the image is of a %s: map it to one of those",
			      wanted->target, vg_gpu_name(here), wanted->name);
	enum vg_status status = fit_settings(wanted, here);
	return status ? status : fit_memory(wanted, here);
}

enum vg_status fit_gpus(const json_t *description, const struct vg_process_gpu_pair *pairs, size_t pair_count)
{
	json_t *gpus = json_object_get(description, "gpus"), *gpu;
	enum vg_status status = VG_OK;
	size_t i;

	json_array_foreach(gpus, i, gpu) {
		const char *uuid = text_of(gpu, "uuid");
		const struct wanted wanted = {
			.name = text_of(gpu, "name"),
			.target = target_of(uuid, pairs, pair_count),
			.held = (uint64_t)json_integer_value(json_object_get(gpu, "held")),
			.users = count_users(description, uuid),
			.gpu = gpu,
		};
		// Without a map, ignore GPUs that no process used. A map must be complete.
		if (status == VG_OK && (wanted.users || pair_count))
			status = fit_gpu(&wanted);
	}
	return status;
}
