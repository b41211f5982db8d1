#include "vgpu/suspend.h"

#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "node/fields.h"
#include "node/node.h"

void vg_suspend_list_free(struct vg_suspend_list *list)
{
	if (!list)
		return;
	json_decref(list->reply);
	free((void *)list->processes);
	free(list);
}

static const char *read_process(const json_t *object, struct vg_suspend_process *process)
{
	struct vg_fields fields = {object, NULL};

	process->pid = (int64_t)vg_field_size(&fields, "pid");
	process->started = vg_field_seconds(&fields, "started");
	process->command = vg_field_text(&fields, "command");
	process->bytes = vg_field_size(&fields, "bytes");
	process->host = vg_field_size(&fields, "host");
	return fields.wrong;
}

// Fills in the list from the reply. Returns the key that is missing or has a wrong type, or NULL.
static const char *read_list(struct vg_suspend_list *list, struct vg_suspend_process *processes)
{
	struct vg_fields fields = {list->reply, NULL};
	const json_t *asked = json_object_get(list->reply, "asked");
	const char *wrong = json_is_array(asked) ? NULL : "asked";

	list->vgpu = vg_field_text(&fields, "name");
	for (; !wrong && list->count < json_array_size(asked); list->count++)
		wrong = read_process(json_array_get(asked, list->count), &processes[list->count]);
	return wrong ? wrong : fields.wrong;
}

// Makes the list from a reply. Consumes `reply`.
static enum vg_status make_list(json_t *reply, struct vg_suspend_list **ret_list)
{
	struct vg_suspend_list *list = calloc(1, sizeof *list);
	struct vg_suspend_process *processes =
		calloc(json_array_size(json_object_get(reply, "asked")) + 1, sizeof *processes);

	if (!list || !processes) {
		free(list);
		free(processes);
		json_decref(reply);
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the list");
	}
	*list = (struct vg_suspend_list){.processes = processes, .reply = reply};
	const char *wrong = read_list(list, processes);
	if (wrong) {
		enum vg_status status = vg_fields_refuse(wrong);
		vg_suspend_list_free(list);
		return status;
	}
	*ret_list = list;
	return VG_OK;
}

// Adds the target to the request, and sends the request. Consumes `request`.
static enum vg_status request_list(struct vg_node *node, json_t *request, const struct vg_suspend_target *target,
				   struct vg_suspend_list **ret_list)
{
	enum vg_status status = target->vgpu ? vg_check_name(target->vgpu) : VG_OK;
	json_t *reply;

	if (status) {
		json_decref(request);
		return status;
	}
	if (target->vgpu)
		json_object_set_new(request, "name", json_string(target->vgpu));
	else
		json_object_set_new(request, "pid", json_integer(target->pid));
	status = vg_node_request(node, request, &reply);
	return status ? status : make_list(reply, ret_list);
}

enum vg_status vg_suspend_request(struct vg_node *node, const struct vg_suspend_target *target, unsigned drain_ms,
				  struct vg_suspend_list **ret_list)
{
	json_t *request = json_pack("{s:s, s:I}", "op", "suspend", "drain_ms", (json_int_t)drain_ms);

	return request_list(node, request, target, ret_list);
}

enum vg_status vg_resume_request(struct vg_node *node, const struct vg_suspend_target *target,
				 struct vg_suspend_list **ret_list)
{
	return request_list(node, json_pack("{s:s}", "op", "resume"), target, ret_list);
}
