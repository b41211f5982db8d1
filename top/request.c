#include "top/request.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <virgate/checkpoint.h>

#include "base/size.h"

static bool fail(char text[REQUEST_TEXT])
{
	snprintf(text, REQUEST_TEXT, "%s", vg_last_error()->text);
	return false;
}

static bool set_terms(struct vg_node *node, const struct request *request, char text[REQUEST_TEXT])
{
	char size[VG_SIZE_TEXT];

	if (vg_vgpu_set(node, request->vgpu, request->memory, request->share))
		return fail(text);
	if (request->memory)
		snprintf(text, REQUEST_TEXT, "%s: limit %s", request->vgpu, vg_size_format(request->memory, size));
	else if (request->share == VG_SHARE_NONE)
		snprintf(text, REQUEST_TEXT, "%s: no share", request->vgpu);
	else
		snprintf(text, REQUEST_TEXT, "%s: share %u %%", request->vgpu, request->share);
	return true;
}

// ---- suspend and resume ----------------------------------------------------------------------------------

static const char *failure_reason(const struct vg_suspend_result *result)
{
	static const struct {
		const char *reason, *text;
	} reasons[] = {
		{"thread", "a thread did not return from the driver in time"},
		{"gpu", "the GPU did not finish its work in time"},
		{"capture", "a stream capture did not end in time"},
		{"host", "the host has too little memory"},
		{"device", "the GPU has too little memory; it resumes when there is room"},
	};

	for (size_t i = 0; i < result->count; i++)
		for (size_t j = 0; j < sizeof reasons / sizeof *reasons; j++)
			if (strcmp(result->processes[i].eviction.reason, reasons[j].reason) == 0)
				return reasons[j].text;
	return "it did not answer, or gave no reason";
}

static int check_end(void *user, const struct vg_checkpoint_progress *progress)
{
	const atomic_bool *is_ended = user;

	return atomic_load(is_ended);
}

static bool move_memory(struct vg_node *node, const struct request *request, const atomic_bool *is_ended,
			char text[REQUEST_TEXT])
{
	struct vg_suspend_options options = {
		.size = sizeof options, .node = node, .progress = check_end, .user = (void *)is_ended};
	struct vg_suspend_result *result = NULL;
	bool is_out = request->kind == REQUEST_SUSPEND;

	if (request->pid)
		options.pid = request->pid;
	else
		options.vgpu = request->vgpu;
	enum vg_status status =
		is_out ? vg_checkpoint_suspend(&options, &result) : vg_checkpoint_resume(&options, &result);
	const char *what = is_out ? "suspended" : "resumed";
	if (status && !(result && result->failed))
		fail(text);
	else if (status)
		snprintf(text, REQUEST_TEXT, "%s: %zu of %zu programs not %s: %s", request->vgpu, result->failed,
			 result->count, what, failure_reason(result));
	else if (request->pid)
		snprintf(text, REQUEST_TEXT, "%s: process %lld %s", request->vgpu, (long long)request->pid, what);
	else
		snprintf(text, REQUEST_TEXT, "%s: %s, %zu program%s", request->vgpu, what, result->count,
			 result->count == 1 ? "" : "s");
	vg_suspend_result_free(result);
	return status == VG_OK;
}

// ---- signals ---------------------------------------------------------------------------------------------

static bool signal_vgpu(struct vg_node *node, const struct request *request, char text[REQUEST_TEXT])
{
	unsigned count;

	if (vg_vgpu_signal(node, request->vgpu, request->signal, &count))
		return fail(text);
	snprintf(text, REQUEST_TEXT, "%s: sent %s to %u process%s", request->vgpu, sigabbrev_np(request->signal), count,
		 count == 1 ? "" : "es");
	return true;
}

// Asks the daemon whether the process that the user chose still runs.
static bool is_tenant(struct vg_node *node, const struct request *request)
{
	struct vg_vgpu_list *list;
	bool is_found = false;

	if (vg_vgpu_inspect(node, request->vgpu, &list))
		return false;
	for (size_t i = 0; list->count && i < list->vgpus[0].tenant_count; i++) {
		const struct vg_tenant_info *tenant = &list->vgpus[0].tenants[i];
		is_found |= tenant->pid == request->pid && tenant->started == request->started && !tenant->ended;
	}
	vg_vgpu_list_free(list);
	return is_found;
}

// Sends the signal to the process. Opens a pidfd before it asks the daemon whether the process still runs. So a later
// process with the same pid cannot get the signal.
static bool signal_process(struct vg_node *node, const struct request *request, char text[REQUEST_TEXT])
{
	int process = (int)syscall(SYS_pidfd_open, (pid_t)request->pid, 0), r = 0;

	if (process < 0 || !is_tenant(node, request))
		snprintf(text, REQUEST_TEXT, "%s: process %lld has ended", request->vgpu, (long long)request->pid);
	else if ((r = (int)syscall(SYS_pidfd_send_signal, process, request->signal, NULL, 0)) < 0)
		snprintf(text, REQUEST_TEXT, "%s: cannot send %s to process %lld: %s", request->vgpu,
			 sigabbrev_np(request->signal), (long long)request->pid, strerror(errno));
	else
		snprintf(text, REQUEST_TEXT, "%s: sent %s to process %lld", request->vgpu,
			 sigabbrev_np(request->signal), (long long)request->pid);
	if (process >= 0)
		close(process);
	return r == 0;
}

bool request_perform(struct vg_node *node, const struct request *request, const atomic_bool *is_ended,
		     char text[REQUEST_TEXT])
{
	switch (request->kind) {
	case REQUEST_LIMIT:
	case REQUEST_SHARE:
		return set_terms(node, request, text);
	case REQUEST_SUSPEND:
	case REQUEST_RESUME:
		return move_memory(node, request, is_ended, text);
	case REQUEST_SIGNAL:
		return request->pid ? signal_process(node, request, text) : signal_vgpu(node, request, text);
	default:
		*text = '\0';
		return true;
	}
}
