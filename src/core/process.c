#include "virgate/process.h"

#include "core/core.h"
#include "core/error.h"
#include "core/object.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct vg_process {
	struct core_object object;
	pid_t pid;
};

static void free_process(struct core_object *object)
{
	free(object);
}

static const struct core_class process_class = {"process", NULL, free_process};

enum vg_status vg_process_open(pid_t pid, struct vg_process **ret_process)
{
	VG_ENTRY();
	CORE_NEEDED(ret_process);
	if (pid < 1)
		return vg_fail(VG_INVALID, 0, "pid %d: a process has a positive one", (int)pid);
	CORE_TRY(core_open());
	if (core_driver_version() < 12080 || core_driver->missing[VG_ENTRY_cuCheckpointProcessLock])
		return core_needs_driver(12080, "process checkpoints");
	struct vg_process *process = calloc(1, sizeof *process);
	if (!process)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a process");
	core_object_init(&process->object, &process_class);
	process->pid = pid;
	*ret_process = process;
	return VG_OK;
}

void vg_process_destroy(struct vg_process *process)
{
	core_object_release(process ? &process->object : NULL);
}

pid_t vg_process_pid(const struct vg_process *process)
{
	return process ? process->pid : 0;
}

static CUresult read_state(pid_t pid, enum vg_process_state *ret_state)
{
	CUprocessState state;

	CUresult r = core_driver->cuCheckpointProcessGetState(pid, &state);
	if (r == CUDA_SUCCESS)
		*ret_state = (enum vg_process_state)state;
	return r;
}

// Sets the error of a failed query.
static enum vg_status fail_query(const struct vg_process *process, CUresult result, const char *call)
{
	if (result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_NOT_INITIALIZED &&
	    result != CUDA_ERROR_OPERATING_SYSTEM)
		return core_driver_failed(result, call, "the state of process %d is unknown", (int)process->pid);
	return core_explained(vg_fail(VG_NOT_FOUND, result,
				      "process %d is not there, is another user's, or does not use CUDA",
				      (int)process->pid));
}

// Sets the error of a failed step of a checkpoint, with the state of the process.
static enum vg_status fail_step(const struct vg_process *process, CUresult result, const char *call, const char *wanted)
{
	enum vg_process_state state;

	CUresult r = read_state(process->pid, &state);
	if (r)
		return fail_query(process, r, "cuCheckpointProcessGetState");
	if (result == CUDA_ERROR_ILLEGAL_STATE)
		return core_explained(vg_fail(VG_STATE, result, "process %d is %s, not %s", (int)process->pid,
					      vg_process_state_name(state), wanted));
	return core_driver_failed(result, call, "process %d is %s", (int)process->pid, vg_process_state_name(state));
}

enum vg_status vg_process_state(struct vg_process *process, enum vg_process_state *ret_state)
{
	VG_ENTRY();
	CORE_USABLE(process, "process");
	CORE_NEEDED(ret_state);
	CUresult r = read_state(process->pid, ret_state);
	return r ? fail_query(process, r, "cuCheckpointProcessGetState") : VG_OK;
}

const char *vg_process_state_name(enum vg_process_state state)
{
	static const char *const names[] = {"running", "locked", "checkpointed", "failed"};

	return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

enum vg_status vg_process_restore_thread(struct vg_process *process, pid_t *ret_thread)
{
	VG_ENTRY();
	int thread;

	CORE_USABLE(process, "process");
	CORE_NEEDED(ret_thread);
	CUresult r = core_driver->cuCheckpointProcessGetRestoreThreadId(process->pid, &thread);
	if (r)
		return fail_query(process, r, "cuCheckpointProcessGetRestoreThreadId");
	*ret_thread = thread;
	return VG_OK;
}

enum vg_status vg_process_lock(struct vg_process *process, unsigned timeout_ms)
{
	VG_ENTRY();
	CUcheckpointLockArgs arguments = {.timeoutMs = timeout_ms};

	CORE_USABLE(process, "process");
	CUresult r = core_driver->cuCheckpointProcessLock(process->pid, &arguments);
	if (r == CUDA_ERROR_NOT_READY)
		return core_explained(vg_fail(VG_NOT_READY, r,
					      "process %d was still busy after %u ms, and goes on running",
					      (int)process->pid, timeout_ms));
	return r ? fail_step(process, r, "cuCheckpointProcessLock", "running") : VG_OK;
}

enum vg_status vg_process_checkpoint(struct vg_process *process)
{
	VG_ENTRY();
	CUcheckpointCheckpointArgs arguments = {0};

	CORE_USABLE(process, "process");
	CUresult r = core_driver->cuCheckpointProcessCheckpoint(process->pid, &arguments);
	return r ? fail_step(process, r, "cuCheckpointProcessCheckpoint", "locked") : VG_OK;
}

static enum vg_status read_uuid(const char *text, CUuuid *ret_uuid)
{
	const char *digit = text ? text : "";
	int count = 0;

	memset(ret_uuid, 0, sizeof *ret_uuid);
	if (strncmp(digit, "GPU-", 4) == 0)
		digit += 4;
	for (; *digit && count < 33; digit++) {
		if (*digit == '-')
			continue;
		if (!isxdigit((unsigned char)*digit) || count == 32)
			count = 33;
		else {
			int value = *digit <= '9' ? *digit - '0' : (*digit | 0x20) - 'a' + 10;
			ret_uuid->bytes[count / 2] = (char)(ret_uuid->bytes[count / 2] | value << (count % 2 ? 0 : 4));
			count++;
		}
	}
	if (count != 32)
		return vg_fail(VG_INVALID, 0, "\"%.48s\" is no UUID of a GPU: 32 hexadecimal digits",
			       text ? text : "NULL");
	return VG_OK;
}

static enum vg_status read_pairs(const struct vg_process_gpu_pair *pairs, size_t count, CUcheckpointGpuPair *ret_pairs)
{
	for (size_t i = 0; i < count; i++) {
		CORE_TRY(read_uuid(pairs[i].old_uuid, &ret_pairs[i].oldUuid));
		CORE_TRY(read_uuid(pairs[i].new_uuid, &ret_pairs[i].newUuid));
		for (size_t j = 0; j < i; j++)
			if (memcmp(&ret_pairs[i].oldUuid, &ret_pairs[j].oldUuid, sizeof(CUuuid)) == 0 ||
			    memcmp(&ret_pairs[i].newUuid, &ret_pairs[j].newUuid, sizeof(CUuuid)) == 0)
				return vg_fail(VG_INVALID, 0, "pairs %zu and %zu name the same GPU", j, i);
	}
	return VG_OK;
}

enum vg_status vg_process_restore(struct vg_process *process, const struct vg_process_gpu_pair *pairs, size_t count)
{
	VG_ENTRY();
	CUcheckpointRestoreArgs arguments = {0};
	CUcheckpointGpuPair *read = NULL;

	CORE_USABLE(process, "process");
	if (count && !pairs)
		return vg_fail(VG_INVALID, 0, "pairs is NULL, and the count is %zu", count);
	if (count && core_driver_version() < 13000)
		return core_needs_driver(13000, "restoring on other GPUs");
	if (count > 1024)
		return vg_fail(VG_INVALID, 0, "%zu pairs: a machine has not so many GPUs", count);
	if (count && !(read = calloc(count, sizeof *read)))
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu pairs", count);
	enum vg_status status = read_pairs(pairs, count, read);
	if (status == VG_OK) {
		arguments.gpuPairs = read;
		arguments.gpuPairsCount = (unsigned)count;
		CUresult r = core_driver->cuCheckpointProcessRestore(process->pid, &arguments);
		if (r)
			status = fail_step(process, r, "cuCheckpointProcessRestore", "checkpointed");
	}
	free(read);
	return status;
}

enum vg_status vg_process_unlock(struct vg_process *process)
{
	VG_ENTRY();
	CUcheckpointUnlockArgs arguments = {0};

	CORE_USABLE(process, "process");
	CUresult r = core_driver->cuCheckpointProcessUnlock(process->pid, &arguments);
	return r ? fail_step(process, r, "cuCheckpointProcessUnlock", "locked") : VG_OK;
}
