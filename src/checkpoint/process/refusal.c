#include "checkpoint/process/refusal.h"

#include "base/descriptor.h"
#include "base/hint.h"
#include "base/status.h"
#include "checkpoint/process/proc.h"
#include "driver/driver.h"
#include "virgate/gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_GPUS = 64, MOST_GPU_PROCESSES = 1024 };

enum vg_status refuse(enum refusal refusal, int code, const char *format, ...)
{
	static const struct {
		const char *name;
		enum vg_status status;
	} reasons[] = {
#define REFUSAL(constant, name, status) {name, status},
#include "checkpoint/process/refusal.def"
#undef REFUSAL
	};
	char text[768];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return vg_fail(reasons[refusal].status, code, "refused (%s): %s", reasons[refusal].name, text);
}

// Returns whether the process leads a session with a terminal. The process at the terminal's other end is not part of
// the dump, so a restore could not connect the two again.
static bool leads_a_terminal(pid_t pid)
{
	char path[64], text[1024];
	int session = 0, terminal = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	const char *end = vg_file_read(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
	return end && sscanf(end + 1, " %*c %*d %*d %d %d", &session, &terminal) == 2 && session == pid && terminal;
}

static enum vg_status check_alive(const struct tree_process *process, bool is_root, const struct proc_status *status)
{
	int pid = (int)process->pid;
	bool gone = status->state == 0;

	// CRIU can dump a zombie child, but not a zombie root.
	if (!gone && status->state == 'Z' && !is_root)
		return VG_OK;
	if (gone || status->state == 'Z' || status->state == 'X')
		return refuse(REFUSE_ENDED, 0, "process %d (%s) has ended%s", pid, process->command,
			      gone ? "" : ", and its parent has not waited for it yet");
	if (status->state == 'T')
		return refuse(
			REFUSE_STOPPED, 0,
			"process %d (%s) is stopped, including the driver's thread: kill -CONT %d first, or virgate "
			"recover%s --pid %d if a dump that stopped it was killed",
			pid, process->command, pid, vg_hint_own_sim(), pid);
	return VG_OK;
}

static enum vg_status check_self(const struct tree_process *process)
{
	if (process->pid != getpid())
		return VG_OK;
	return refuse(REFUSE_SELF, 0,
		      "process %d is this one, or descends from the one to be dumped: who is stopped cannot dump",
		      (int)process->pid);
}

static struct proc_status read_status(const struct tree_process *process)
{
	struct proc_status status;

	return proc_status_read(process->pid, &status) ? (struct proc_status){0} : status;
}

static enum vg_status check_condition(const struct tree_process *process, bool is_root)
{
	struct proc_status lines = read_status(process);
	int pid = (int)process->pid;

	enum vg_status status = check_self(process);
	if (status)
		return status;
	if (lines.tracer && lines.state != 'Z' && lines.state != 'X')
		return refuse(
			REFUSE_TRACED, 0,
			"process %d (%s) is traced by process %d, as a debugger does: CRIU would have to; detach it",
			pid, process->command, (int)lines.tracer);
	status = check_alive(process, is_root, &lines);
	if (status)
		return status;
	if (is_root && leads_a_terminal(process->pid))
		return refuse(REFUSE_TERMINAL, 0,
			      "process %d (%s) leads the session of a terminal (script, tmux, ssh -t), which cannot be "
			      "restored: start it with setsid, its input and output in files",
			      pid, process->command);
	return VG_OK;
}

enum vg_status refusal_by_kernel(const struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		enum vg_status status = check_condition(&tree->processes[i], i < tree->root_count);
		if (status)
			return status;
		status = refusal_shared(&tree->processes[i]);
		if (status)
			return status;
	}
	return VG_OK;
}

enum vg_status refusal_by_kernel_of_gpu(const struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		const struct tree_process *process = &tree->processes[i];
		struct proc_status lines = read_status(process);
		enum vg_status status = check_self(process);
		if (status)
			return status;
		status = check_alive(process, true, &lines);
		if (status)
			return status;
		status = refusal_shared(process);
		if (status)
			return status;
	}
	return VG_OK;
}

static enum vg_status check_state(const struct tree_process *process)
{
	enum vg_process_state state;
	int pid = (int)process->pid;

	enum vg_status status = vg_process_state(process->cuda, &state);
	if (status || state == VG_PROCESS_RUNNING)
		return status;
	if (state == VG_PROCESS_FAILED)
		return refuse(REFUSE_FAILED, 0,
			      "the driver has given process %d (%s) up after a step that failed: it can only be ended",
			      pid, process->command);
	return refuse(REFUSE_LEFT, 0,
		      "process %d (%s) is already %s, probably by a dump that was killed: virgate recover%s --pid %d",
		      pid, process->command, vg_process_state_name(state), vg_hint_own_sim(), pid);
}

// Refuses processes on a MIG device, a part of a GPU: the driver does not checkpoint them.
static enum vg_status check_mig(const struct tree *tree)
{
	struct vg_gpu_process *processes = calloc(MOST_GPU_PROCESSES, sizeof *processes);
	struct vg_gpu *gpus[MOST_GPUS];
	enum vg_status status = VG_OK;
	size_t gpu_count, count;

	if (!processes || vg_gpu_all(gpus, MOST_GPUS, &gpu_count))
		gpu_count = 0; // without NVML, rely on the driver, which refuses such processes
	for (size_t g = 0; g < gpu_count; g++) {
		if (vg_gpu_processes(gpus[g], processes, MOST_GPU_PROCESSES, &count))
			continue;
		for (size_t i = 0; i < count && status == VG_OK; i++)
			for (size_t p = 0; p < tree->count && status == VG_OK; p++)
				if (processes[i].in_instance && processes[i].pid == tree->processes[p].pid)
					status = refuse(REFUSE_MIG, 0,
							"process %d (%s) runs on a MIG device of %s, which the driver "
							"cannot take it off: use a whole GPU",
							(int)processes[i].pid, tree->processes[p].command,
							vg_gpu_name(gpus[g]));
	}
	free(processes);
	return status;
}

enum vg_status refusal_by_driver(const struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		const struct tree_process *process = &tree->processes[i];
		enum vg_status status = process->cuda ? check_state(process) : refusal_open_device(tree, process);
		if (status)
			return status;
	}
	return check_mig(tree);
}

enum vg_status refusal_of_step(enum refusal refusal, enum vg_status status)
{
	const struct vg_error *error = vg_last_error();
	int code = error->code;
	char text[512];

	if (status != VG_DRIVER || code != CUDA_ERROR_NOT_SUPPORTED)
		return status;
	snprintf(text, sizeof text, "%s", error->text);
	return refuse(
		refusal, code, "%s: %s", text,
		refusal == REFUSE_MPS
			? "a client of MPS is not taken off the GPU; start it without CUDA_MPS_PIPE_DIRECTORY, or end "
			  "MPS"
			: "it has managed memory (cuMemAllocManaged, __managed__), which this driver does not take off "
			  "the GPU; use cuMemAlloc and copies");
}
