#include "vgpu/container.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "node/node.h"
#include "vgpu/options.h"

static json_t *make_request(const char *name, const struct vg_vgpu_options *options,
			    const struct vg_container *container)
{
	json_t *request =
		name ? json_pack("{s:s, s:s}", "op", "enter", "vgpu", name) : vg_options_request("enter", options);

	if (request)
		json_object_set_new(request, "container",
				    json_pack("{s:i, s:s, s:s, s:b}", "pid", (int)container->pid, "id", container->id,
					      "image", container->image ? container->image : "", "kill_outside",
					      (int)container->kill_outside));
	return request;
}

enum vg_status vg_container_enter(struct vg_node *node, const char *name, const struct vg_vgpu_options *options,
				  const struct vg_container *container, char **ret_name)
{
	VG_ENTRY();
	struct vg_vgpu_options all;
	json_t *reply;

	enum vg_status status = name ? vg_check_name(name) : vg_options_check(options, &all);
	if (status)
		return status;
	json_t *request = make_request(name, name ? NULL : &all, container);
	if (!request)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for a request, or a text is not UTF-8");
	status = vg_node_request(node, request, &reply);
	if (status)
		return status;
	const char *entered = json_string_value(json_object_get(reply, "name"));
	char *copy = entered ? strdup(entered) : NULL;
	json_decref(reply);
	if (!copy)
		return vg_fail(VG_PROTOCOL, 0, "the daemon's reply lacks the name of the vGPU");
	*ret_name = copy;
	return VG_OK;
}
