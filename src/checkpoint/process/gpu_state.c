#include "checkpoint/process/gpu_state.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/process/proc.h"
#include "checkpoint/process/refusal.h"
#include "driver/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 5, PAUSE_US = 200000 };

struct work;

// A driver call for one process, such as a lock or a restore. It runs on a thread of its own. This struct keeps the
// call's error, because the last error of a thread is lost when the thread ends.
struct step {
	struct work *work;
	struct vg_process *process;
	pthread_t thread;
	bool started;
	enum vg_status status;
	int code;
	char text[512];
};

struct work {
	enum vg_status (*run)(struct vg_process *process, const struct work *work);
	unsigned timeout_ms;
	const struct vg_process_gpu_pair *pairs;
	size_t pair_count;
	struct phase *phase; // phase_tick() is called during the wait; may be NULL
	// True: this is a rollback, which skips processes that have ended, and continues stopped ones.
	bool back;
};

static void *run_step(void *user)
{
	struct step *step = user;

	step->status = step->work->run(step->process, step->work);
	if (step->status) {
		const struct vg_error *error = vg_last_error();
		step->code = error->code;
		snprintf(step->text, sizeof step->text, "%s", error->text);
	}
	return NULL;
}

static bool has_ended(const struct tree_process *process)
{
	return vg_process_is_dead(process->pid, process->start_time);
}

// Waits until a step has ended. Continues stopped processes meanwhile, because the driver needs their answers.
static void wait_for_step(const struct tree *tree, const struct work *work, pthread_t thread)
{
	while (!phase_join(thread)) {
		if (work->phase)
			phase_tick(work->phase);
		for (size_t i = 0; work->back && i < tree->count; i++)
			proc_let_go_on(tree->processes[i].pid);
	}
}

// Runs the step for every CUDA process, each on its own thread, and waits for all threads. Returns the first failure,
// in the order of the tree.
static enum vg_status run_all(const struct tree *tree, struct work *work)
{
	struct step *steps = calloc(tree->cuda_count ? tree->cuda_count : 1, sizeof *steps);
	size_t count = 0;

	if (!steps)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", tree->cuda_count);
	for (size_t i = 0; i < tree->count; i++)
		if (tree->processes[i].cuda && !(work->back && has_ended(&tree->processes[i])))
			steps[count++] = (struct step){.work = work, .process = tree->processes[i].cuda};
	for (size_t i = 0; i < count; i++)
		steps[i].started = pthread_create(&steps[i].thread, NULL, run_step, &steps[i]) == 0;
	// If a thread could not be created, run its step on this thread.
	for (size_t i = 0; i < count; i++)
		if (!steps[i].started)
			run_step(&steps[i]);
	enum vg_status status = VG_OK;
	for (size_t i = 0; i < count; i++) {
		if (steps[i].started)
			wait_for_step(tree, work, steps[i].thread);
		if (steps[i].status && status == VG_OK)
			status = vg_fail(steps[i].status, steps[i].code, "%s", steps[i].text);
	}
	free(steps);
	return status;
}

static enum vg_status lock_process(struct vg_process *process, const struct work *work)
{
	return vg_process_lock(process, work->timeout_ms);
}

static enum vg_status checkpoint_process(struct vg_process *process, const struct work *work)
{
	(void)work;
	return vg_process_checkpoint(process);
}

static enum vg_status restore_process(struct vg_process *process, const struct work *work)
{
	return vg_process_restore(process, work->pairs, work->pair_count);
}

static enum vg_status unlock_process(struct vg_process *process, const struct work *work)
{
	(void)work;
	return vg_process_unlock(process);
}

// Brings the process one state nearer to running. If the driver does not report the state, tries all steps, and the
// driver refuses those that do not fit the state.
static enum vg_status step_back(struct vg_process *process, enum vg_process_state *ret_state)
{
	struct vg_kept_error kept;

	enum vg_status status = vg_process_state(process, ret_state);
	if (status == VG_DRIVER) {
		vg_error_keep(&kept);
		(void)vg_process_restore(process, NULL, 0);
		(void)vg_process_unlock(process);
		vg_error_restore(&kept);
	}
	if (status)
		return status;
	if (*ret_state == VG_PROCESS_CHECKPOINTED)
		return vg_process_restore(process, NULL, 0);
	return *ret_state == VG_PROCESS_LOCKED ? vg_process_unlock(process) : VG_OK;
}

// Makes a process run again. Retries after a failure, because other processes may free the memory that is
// missing.
static enum vg_status roll_back_process(struct vg_process *process, const struct work *work)
{
	enum vg_process_state state = VG_PROCESS_FAILED;
	enum vg_status status;
	int tries = TRIES;

	(void)work;
	do {
		status = step_back(process, &state);
		if (status == VG_NOT_FOUND && !refusal_maps_cuda(vg_process_pid(process)))
			// CUDA is not loaded any more, because the process has executed another program.
			return VG_OK;
		if (status && --tries)
			usleep(PAUSE_US);
	} while (tries && (status || state == VG_PROCESS_CHECKPOINTED || state == VG_PROCESS_LOCKED));
	if (status == VG_OK && state != VG_PROCESS_RUNNING)
		status = vg_fail(VG_STATE, 0, "process %d is %s, not running%s", (int)vg_process_pid(process),
				 vg_process_state_name(state),
				 state == VG_PROCESS_FAILED ? ": the driver has given it up, and it can only be ended"
							    : "");
	return status;
}

enum vg_status gpu_lock(const struct tree *tree, unsigned timeout_ms, struct phase *phase)
{
	return run_all(tree, &(struct work){.run = lock_process, .timeout_ms = timeout_ms, .phase = phase});
}

enum vg_status gpu_checkpoint(const struct tree *tree, struct phase *phase)
{
	return run_all(tree, &(struct work){.run = checkpoint_process, .phase = phase});
}

enum vg_status gpu_restore(const struct tree *tree, const struct vg_process_gpu_pair *pairs, size_t count,
			   struct phase *phase)
{
	return run_all(tree,
		       &(struct work){.run = restore_process, .pairs = pairs, .pair_count = count, .phase = phase});
}

enum vg_status gpu_unlock(const struct tree *tree)
{
	return run_all(tree, &(struct work){.run = unlock_process});
}

enum vg_status gpu_roll_back(const struct tree *tree)
{
	enum vg_status status = run_all(tree, &(struct work){.run = roll_back_process, .back = true});
	const struct vg_error *error = vg_last_error();
	char text[512];

	if (status == VG_OK)
		return VG_OK;
	snprintf(text, sizeof text, "%s", error->text);
	// An H200 returns these errors for memory that was imported from another process. Before this step, nothing
	// shows that a process has such memory.
	bool foreign = error->code == CUDA_ERROR_INVALID_VALUE || error->code == CUDA_ERROR_NOT_SUPPORTED;
	return vg_fail(
		VG_STATE, error->code, "%s%s", text,
		foreign ? ": it had opened memory of another process (CUDA IPC, a shared descriptor), which the driver "
			  "does not bring back; it can only be ended"
			: "");
}
