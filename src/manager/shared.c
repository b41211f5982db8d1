#include "manager/shared.h"

#include "base/hint.h"
#include "base/log.h"
#include "compute/compute.h"
#include "ledger/ledger.h"
#include "node/node.h"
#include "vgpu/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Converts a share to the daemon's percent, at least 1.
static unsigned to_percent(double share)
{
	return share < 0.01 ? 1 : (unsigned)lround(100 * share);
}

static enum vg_status check_allowed(const struct vg_virtual_gpu *vgpu)
{
	const char *inside = secure_getenv("VIRGATE_VGPU");

	if (!vgpu->manager->options.node)
		return vg_fail(VG_STATE, 0,
			       "virtual GPU %d (%s): a shared one needs a daemon: create the manager with a node",
			       vgpu->id, vgpu->name);
	if (inside && *inside)
		return vg_fail(
			VG_STATE, 0,
			"virtual GPU %d (%s): this program runs inside vGPU %.63s, which is charged for all that it "
			"allocates: it cannot charge another for the same: run it outside, or do not share",
			vgpu->id, vgpu->name, inside);
	return VG_OK;
}

// Creates an ephemeral vGPU, which the daemon removes if this process is killed.
static enum vg_status register_vgpu(struct vg_virtual_gpu *vgpu, uint64_t limit, json_t **ret_reply)
{
	struct vg_node *node = vgpu->manager->options.node;
	char device[48];
	struct vg_compute_unit_info unit;
	double share = vg_compute_unit_info(vgpu->unit, &unit) ? 0 : unit.share;
	char sim[VG_HINT_SIM];
	const struct vg_vgpu_options options = {.size = sizeof options,
						.name = vgpu->name,
						.memory = limit,
						.share = to_percent(share),
						.device = device};

	snprintf(device, sizeof device, "GPU-%s", vgpu->manager->context->device->uuid_text);
	enum vg_status status = vg_node_request(node, vg_options_request("enter", &options), ret_reply);
	if (status != VG_EXISTS)
		return status;
	return vg_fail(VG_EXISTS, 0, "a vGPU %s exists: choose another name, or remove that vGPU (`virgate rm%s %s`)",
		       vgpu->name, vg_hint_sim(node->simulate, sim), vgpu->name);
}

static enum vg_status open_ledger(struct vg_virtual_gpu *vgpu, const json_t *reply)
{
	const char *path = json_string_value(json_object_get(reply, "ledger"));
	struct vg_ledger *ledger = NULL;

	if (!path)
		return vg_fail(VG_PROTOCOL, 0, "the daemon's reply has no \"ledger\"");
	int r = vg_ledger_open(path, &ledger);
	if (r == 0)
		r = vg_ledger_enter(ledger);
	if (r) {
		vg_ledger_close(ledger);
		return vg_fail(VG_SYSTEM, r < 0 ? -r : 0, "the ledger %s cannot be used: %s", path,
			       r < 0 ? strerror(-r) : "all its slots are in use");
	}
	vg_ledger_set_host(ledger);
	vgpu->budget.ledger = ledger;
	return VG_OK;
}

static void remove_vgpu(const struct vg_virtual_gpu *vgpu)
{
	struct vg_node *node = vgpu->manager->options.node;

	enum vg_status status = vg_node_order(node, json_pack("{s:s, s:s}", "op", "rm", "name", vgpu->name));
	if (status == VG_BUSY)
		vg_log(VG_LOG_INFO, "vGPU %s goes when the programs inside and this one have ended", vgpu->name);
	else if (status)
		vg_log(VG_LOG_WARNING, "vGPU %s stays on the daemon's list until this program ends: %s", vgpu->name,
		       vg_last_error()->text);
}

enum vg_status shared_begin(struct vg_virtual_gpu *vgpu, uint64_t limit)
{
	struct vg_kept_error kept;
	json_t *reply;

	enum vg_status status = check_allowed(vgpu);
	if (status)
		return status;
	status = register_vgpu(vgpu, limit, &reply);
	if (status)
		return status;
	status = open_ledger(vgpu, reply);
	json_decref(reply);
	if (status)
		goto fail;
	status = compute_take_turns(vgpu->unit, vgpu->budget.ledger);
	if (status)
		goto fail;
	return VG_OK;
fail:
	vg_error_keep(&kept);
	remove_vgpu(vgpu);
	vg_error_restore(&kept);
	return status;
}

void shared_end(struct vg_virtual_gpu *vgpu)
{
	struct vg_kept_error kept;

	if (!vgpu->budget.ledger)
		return;
	vg_ledger_leave(vgpu->budget.ledger);
	vg_ledger_close(vgpu->budget.ledger);
	vgpu->budget.ledger = NULL;
	vg_error_keep(&kept);
	remove_vgpu(vgpu);
	vg_error_restore(&kept);
}

enum vg_status shared_set(struct vg_virtual_gpu *vgpu, uint64_t limit, double share)
{
	json_t *request = json_pack("{s:s, s:s}", "op", "set", "name", vgpu->name);

	if (limit)
		json_object_set_new(request, "memory", json_integer((json_int_t)limit));
	if (share > 0)
		json_object_set_new(request, "share", json_integer(to_percent(share)));
	return vg_node_order(vgpu->manager->options.node, request);
}
