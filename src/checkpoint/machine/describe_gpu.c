// Describes GPUs, and which processes of the tree use them.
#include "checkpoint/machine/describe.h"
#include "virgate/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_GPUS = 64, MOST_PROCESSES = 1024 };

static json_t *describe_flag(enum vg_status status, int value)
{
	return status || value < 0 ? json_null() : json_boolean(value);
}

static json_t *describe_capability(struct vg_gpu *gpu)
{
	int major, minor;

	return vg_gpu_compute_capability(gpu, &major, &minor) ? json_null() : json_sprintf("%d.%d", major, minor);
}

static json_t *describe_gpu(struct vg_gpu *gpu)
{
	struct vg_gpu_memory memory;
	struct vg_gpu_mig mig = {.mode = -1};
	enum vg_gpu_compute_mode mode;
	int ecc = -1, persistence = -1;

	json_t *total = vg_gpu_memory(gpu, &memory) ? json_null() : json_integer((json_int_t)memory.total);
	json_t *compute = vg_gpu_compute_mode(gpu, &mode) ? json_null() : json_string(vg_gpu_compute_mode_name(mode));
	enum vg_status mig_known = vg_gpu_mig(gpu, &mig), ecc_known = vg_gpu_ecc_mode(gpu, &ecc, NULL);
	enum vg_status persistence_known = vg_gpu_persistence_mode(gpu, &persistence);
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "uuid", vg_gpu_uuid(gpu), "name", vg_gpu_name(gpu),
			 "memory", total, "compute_capability", describe_capability(gpu), "compute_mode", compute,
			 "ecc", describe_flag(ecc_known, ecc), "mig", describe_flag(mig_known, mig.mode), "persistence",
			 describe_flag(persistence_known, persistence));
}

static json_t *process_of(const struct tree *tree, json_t *processes, pid_t pid)
{
	for (size_t i = 0; i < tree->count; i++)
		if (tree->processes[i].pid == pid)
			return json_array_get(processes, i);
	return NULL;
}

// Finds the processes of the tree that use this GPU. *ret_held: the memory of all of them, or JSON null. Returns false
// if the driver does not report the processes.
static bool ask_users(const struct tree *tree, struct vg_gpu *gpu, json_t *processes, json_t **ret_held)
{
	struct vg_gpu_process *users = calloc(MOST_PROCESSES, sizeof *users);
	json_int_t sum = 0;
	bool sum_known = true;
	size_t count;

	if (!users || vg_gpu_processes(gpu, users, MOST_PROCESSES, &count)) {
		free(users);
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		json_t *process = process_of(tree, processes, users[i].pid);
		if (!process)
			continue;
		json_int_t bytes = (json_int_t)users[i].memory;
		sum += bytes;
		sum_known &= users[i].memory_known != 0;
		json_array_append_new(json_object_get(process, "gpus"),
				      json_pack("{s:s, s:o, s:n, s:n}", "uuid", vg_gpu_uuid(gpu), "held",
						users[i].memory_known ? json_integer(bytes) : json_null(), "contexts",
						"kinds"));
	}
	*ret_held = sum_known ? json_integer(sum) : json_null();
	free(users);
	return true;
}

// Returns whether NVML has reported every process with CUDA as using a GPU. If not, NVML probably reports pids of
// another namespace, and its figures about this tree are unknown.
static bool everybody_seen(const struct tree *tree, const json_t *processes)
{
	for (size_t i = 0; i < tree->count; i++)
		if (tree->processes[i].cuda &&
		    json_array_size(json_object_get(json_array_get(processes, i), "gpus")) == 0)
			return false;
	return true;
}

json_t *describe_gpus(const struct tree *tree, json_t *processes)
{
	struct vg_gpu *gpus[MOST_GPUS];
	json_t *array = json_array(), *one;
	bool asked = true;
	size_t count = 0, i;

	// Ignore a failure: a machine without a driver can run a tree without CUDA.
	if (vg_gpu_all(gpus, MOST_GPUS, &count))
		count = 0;
	json_array_foreach(processes, i, one)
		json_object_set_new(one, "gpus", json_array());
	for (i = 0; i < count; i++) {
		json_t *held = json_null();
		one = describe_gpu(gpus[i]);
		asked &= ask_users(tree, gpus[i], processes, &held);
		json_object_set_new(one, "held", held);
		json_array_append_new(array, one);
	}
	if (asked && everybody_seen(tree, processes))
		return array;
	json_array_foreach(array, i, one)
		json_object_set_new(one, "held", json_null());
	json_array_foreach(processes, i, one)
		json_object_set_new(one, "gpus", json_null());
	return array;
}
