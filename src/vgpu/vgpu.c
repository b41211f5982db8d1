// Implements the public functions for vGPUs. Each sends one request.
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "node/fields.h"
#include "node/node.h"
#include "vgpu/lists.h"
#include "vgpu/options.h"
#include "vgpu/visible.h"

static enum vg_status check_mode(enum vg_sharing_mode mode)
{
	if (mode == VG_MODE_TIME || mode == VG_MODE_MPS)
		return VG_OK;
	return vg_fail(VG_INVALID, 0, "unknown mode %d: use VG_MODE_TIME or VG_MODE_MPS", (int)mode);
}

static enum vg_status check_modes(const struct vg_vgpu_options *options)
{
	enum vg_status status = check_mode(options->mode);

	if (options->device_mode_count && !options->device_modes)
		return vg_fail(VG_INVALID, 0, "`device_modes` is NULL and `device_mode_count` is %zu",
			       options->device_mode_count);
	for (size_t i = 0; i < options->device_mode_count && status == VG_OK; i++)
		status = options->device_modes[i].device
				 ? check_mode(options->device_modes[i].mode)
				 : vg_fail(VG_INVALID, 0, "mode %zu of `device_modes` is for no device", i);
	return status;
}

enum vg_status vg_options_check(const struct vg_vgpu_options *options, struct vg_vgpu_options *ret_all)
{
	struct vg_vgpu_options all;

	enum vg_status status = vg_options_copy(&all, sizeof all, options);
	if (status)
		return status;
	if (all.memory == 0 && all.share == 0)
		return vg_fail(VG_INVALID, 0,
			       "a vGPU needs a memory limit, such as 8G, or a share of its GPU, which brings the same "
			       "part of the memory");
	if (all.memory > INT64_MAX)
		return vg_fail(VG_INVALID, 0, "a memory limit of 2^63 bytes or more makes no sense");
	if (all.share > 100)
		return vg_fail(VG_INVALID, 0, "a share of %u %% makes no sense: use 1 to 100", all.share);
	if (all.share_limit && !all.share)
		return vg_fail(VG_INVALID, 0, "a limit needs a share: set `share` to 1 to 100");
	if (all.scheduling_class != VG_CLASS_BATCH && all.scheduling_class != VG_CLASS_LATENCY)
		return vg_fail(VG_INVALID, 0, "unknown scheduling class %d: use VG_CLASS_BATCH or VG_CLASS_LATENCY",
			       (int)all.scheduling_class);
	if (all.swap && !all.evictable)
		return vg_fail(VG_INVALID, 0, "a swap is for evictable vGPUs: set `evictable`, too");
	if (all.fixed && !all.evictable)
		return vg_fail(VG_INVALID, 0, "a fixed part is for evictable vGPUs: set `evictable`, too");
	if (all.wait > VG_WAIT_MOST && all.wait != VG_WAIT_FOREVER)
		return vg_fail(VG_INVALID, 0, "a wait of %u s is too long: use at most %u s, or VG_WAIT_FOREVER",
			       all.wait, VG_WAIT_MOST);
	if (all.gpus > VG_GPUS_MOST)
		return vg_fail(VG_INVALID, 0, "a job with %u GPUs is too large: use at most %u", all.gpus,
			       VG_GPUS_MOST);
	if (all.fixed > INT64_MAX)
		return vg_fail(VG_INVALID, 0, "a fixed part of 2^63 bytes or more makes no sense");
	if (all.swap > INT64_MAX)
		return vg_fail(VG_INVALID, 0, "a swap of 2^63 bytes or more makes no sense");
	status = check_modes(&all);
	if (status == VG_OK)
		*ret_all = all;
	return status;
}

static const char *get_mode_text(enum vg_sharing_mode mode)
{
	return mode == VG_MODE_MPS ? "mps" : "time";
}

// Adds the modes of single GPUs to the request. If the options have several modes for one GPU, the last one counts.
static int add_device_modes(json_t *request, const struct vg_vgpu_options *options)
{
	json_t *modes = json_object();
	int r = 0;

	for (size_t i = 0; i < options->device_mode_count; i++) {
		const char *device = options->device_modes[i].device;
		json_object_del(modes, device);
		r |= json_object_set_new(modes, device, json_string(get_mode_text(options->device_modes[i].mode)));
	}
	return r | json_object_set_new(request, "device_modes", modes);
}

json_t *vg_options_request(const char *op, const struct vg_vgpu_options *options)
{
	json_t *request = json_pack("{s:s}", "op", op);
	int r = 0;

	if (options->memory)
		r |= json_object_set_new(request, "memory", json_integer((json_int_t)options->memory));
	if (options->name)
		r |= json_object_set_new(request, "name", json_string(options->name));
	if (options->share)
		r |= json_object_set_new(request, "share", json_integer(options->share));
	if (options->share_limit)
		r |= json_object_set_new(request, "share_limit", json_true());
	if (options->scheduling_class == VG_CLASS_LATENCY)
		r |= json_object_set_new(request, "class", json_string("latency"));
	if (options->mode == VG_MODE_MPS)
		r |= json_object_set_new(request, "mode", json_string(get_mode_text(options->mode)));
	if (options->device_mode_count)
		r |= add_device_modes(request, options);
	if (options->device)
		r |= json_object_set_new(request, "device", json_string(options->device));
	if (options->group)
		r |= json_object_set_new(request, "group", json_string(options->group));
	if (options->owner)
		r |= json_object_set_new(request, "owner", json_string(options->owner));
	if (options->evictable)
		r |= json_object_set_new(request, "evictable", json_true());
	if (options->swap)
		r |= json_object_set_new(request, "swap", json_integer((json_int_t)options->swap));
	if (options->fixed)
		r |= json_object_set_new(request, "fixed", json_integer((json_int_t)options->fixed));
	if (options->idle_suspend)
		r |= json_object_set_new(request, "idle_suspend", json_integer(options->idle_suspend));
	if (options->wait)
		r |= json_object_set_new(request, "wait",
					 options->wait == VG_WAIT_FOREVER ? json_true() : json_integer(options->wait));
	if (r == 0)
		return request;
	json_decref(request); // a string is not UTF-8: send nothing, rather than a request without this option
	return NULL;
}

enum vg_status vg_vgpu_create(struct vg_node *node, const struct vg_vgpu_options *options)
{
	VG_ENTRY();
	struct vg_vgpu_options all;
	json_t *reply;

	VG_NEEDED(node);
	enum vg_status status = vg_options_check(options, &all);
	if (status)
		return status;
	status = vg_check_name(all.name);
	if (status)
		return status;
	if (all.gpus > 1)
		return vg_fail(VG_INVALID, 0, "`gpus` is for vg_vgpu_enter(), and a vGPU that stays is on one GPU");
	if (all.wait)
		return vg_fail(VG_INVALID, 0, "`wait` is for vg_vgpu_enter(), and a vGPU that stays is made at once");
	status = vg_visible_request(node, "create", &all, NULL, &reply);
	if (status)
		return status;
	json_decref(reply);
	return VG_OK;
}

enum vg_status vg_vgpu_set(struct vg_node *node, const char *name, uint64_t memory, unsigned share)
{
	VG_ENTRY();
	VG_NEEDED(node);
	enum vg_status status = vg_check_name(name);
	if (status)
		return status;
	if ((!memory && !share) || (share > 100 && share != VG_SHARE_NONE) || memory > INT64_MAX)
		return vg_fail(VG_INVALID, 0,
			       "nothing to set: give a memory limit, or a share from 1 to 100, or VG_SHARE_NONE");
	json_t *request = json_pack("{s:s, s:s}", "op", "set", "name", name);
	if (memory)
		json_object_set_new(request, "memory", json_integer((json_int_t)memory));
	if (share)
		json_object_set_new(request, "share", json_integer(share == VG_SHARE_NONE ? 0 : share));
	return vg_node_order(node, request);
}

enum vg_status vg_vgpu_remove(struct vg_node *node, const char *name)
{
	VG_ENTRY();
	VG_NEEDED(node);
	enum vg_status status = vg_check_name(name);
	return status ? status : vg_node_order(node, json_pack("{s:s, s:s}", "op", "rm", "name", name));
}

enum vg_status vg_vgpu_signal(struct vg_node *node, const char *name, int signal, unsigned *ret_count)
{
	VG_ENTRY();
	json_t *reply;

	VG_NEEDED(node);
	VG_NEEDED(ret_count);
	enum vg_status status = vg_check_name(name);
	if (status)
		return status;
	if (signal < 1 || signal > SIGRTMAX)
		return vg_fail(VG_INVALID, 0, "there is no signal %d: use 1 to %d", signal, SIGRTMAX);
	status = vg_node_request(node, json_pack("{s:s, s:s, s:i}", "op", "kill", "name", name, "signal", signal),
				 &reply);
	if (status)
		return status;
	const json_t *signalled = json_object_get(reply, "signalled");
	if (json_is_integer(signalled) && json_integer_value(signalled) >= 0)
		*ret_count = (unsigned)json_integer_value(signalled);
	else
		status = vg_fields_refuse("signalled");
	json_decref(reply);
	return status;
}

// Asks the daemon to end the vGPU's programs. *ret_ending: number of programs that still run; 0: the vGPU is removed.
static enum vg_status request_end(struct vg_node *node, const char *name, int *ret_ending)
{
	json_t *reply;
	enum vg_status status =
		vg_node_request(node, json_pack("{s:s, s:s, s:b}", "op", "rm", "name", name, "force", 1), &reply);

	if (status)
		return status;
	*ret_ending = (int)json_integer_value(json_object_get(reply, "ending"));
	json_decref(reply);
	return VG_OK;
}

enum vg_status vg_vgpu_end(struct vg_node *node, const char *name)
{
	VG_ENTRY();
	uint64_t now = vg_clock_monotonic_ns();
	int ending = 0;

	VG_NEEDED(node);
	uint64_t deadline = now + node->timeout * 1000000000ull;
	enum vg_status status = vg_check_name(name);
	if (status)
		return status;
	status = request_end(node, name, &ending);
	while (status == VG_OK && ending && now < deadline) {
		poll(NULL, 0, 10);
		now = vg_clock_monotonic_ns();
		status = request_end(node, name, &ending);
		if (status == VG_NOT_FOUND) // the vGPU was removed meanwhile
			return VG_OK;
	}
	if (status == VG_OK && ending)
		return vg_fail(VG_BUSY, 0,
			       "vGPU %s: %d of its programs have not ended within %u s; it is removed when they have",
			       name, ending, node->timeout);
	return status;
}

enum vg_status vg_vgpu_list(struct vg_node *node, struct vg_vgpu_list **ret_list)
{
	VG_ENTRY();
	json_t *reply;

	VG_NEEDED(node);
	VG_NEEDED(ret_list);
	enum vg_status status = vg_node_request(node, json_pack("{s:s}", "op", "list"), &reply);
	return status ? status : vg_lists_vgpus(reply, ret_list);
}

enum vg_status vg_vgpu_inspect(struct vg_node *node, const char *name, struct vg_vgpu_list **ret_list)
{
	VG_ENTRY();
	json_t *reply;

	VG_NEEDED(node);
	VG_NEEDED(ret_list);
	enum vg_status status = vg_check_name(name);
	if (status)
		return status;
	status = vg_node_request(node, json_pack("{s:s, s:s}", "op", "inspect", "name", name), &reply);
	if (status)
		return status;
	json_t *list = json_pack("{s:[O]}", "vgpus", json_object_get(reply, "vgpu"));
	json_decref(reply);
	if (!list)
		return vg_fail(VG_PROTOCOL, 0, "the daemon's reply has no \"vgpu\"");
	return vg_lists_vgpus(list, ret_list);
}

enum vg_status vg_device_list(struct vg_node *node, struct vg_device_list **ret_list)
{
	VG_ENTRY();
	json_t *reply;

	VG_NEEDED(node);
	VG_NEEDED(ret_list);
	enum vg_status status = vg_node_request(node, json_pack("{s:s}", "op", "devices"), &reply);
	return status ? status : vg_lists_devices(reply, ret_list);
}

static enum vg_status order_drain(struct vg_node *node, const char *device, bool is_undone)
{
	VG_NEEDED(node);
	VG_NEEDED(device);
	return vg_node_order(node, json_pack("{s:s, s:s, s:b}", "op", "drain", "device", device, "undo", is_undone));
}

enum vg_status vg_device_drain(struct vg_node *node, const char *device)
{
	VG_ENTRY();
	return order_drain(node, device, false);
}

enum vg_status vg_device_undrain(struct vg_node *node, const char *device)
{
	VG_ENTRY();
	return order_drain(node, device, true);
}

enum vg_status vg_refusal_list(struct vg_node *node, const char *name, struct vg_refusal_list **ret_list)
{
	VG_ENTRY();
	json_t *reply;

	VG_NEEDED(node);
	VG_NEEDED(ret_list);
	enum vg_status status = vg_check_name(name);
	if (status)
		return status;
	status = vg_node_request(node, json_pack("{s:s, s:s}", "op", "logs", "name", name), &reply);
	return status ? status : vg_lists_refusals(reply, ret_list);
}
