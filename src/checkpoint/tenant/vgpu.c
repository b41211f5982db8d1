// Finds the vGPUs for the tenants of an image, and creates ephemeral vGPUs that do not exist any more.
#include "checkpoint/tenant/tenant.h"

#include "base/clock.h"
#include "base/hint.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/tenant/image.h"
#include "node/node.h"
#include "system/system.h"
#include "vgpu/options.h"
#include "vgpu/visible.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAUSE_US = 20000, ASK_SECONDS = 2 };
#define REMOVAL_NS UINT64_C(3000000000) // how long the driver may take to free the memory of killed processes

const char *tenant_memory_text(uint64_t bytes, char text[32])
{
	snprintf(text, 32, "%lluM", (unsigned long long)((bytes + (1 << 20) - 1) >> 20));
	return text;
}

static const char *gpu_of(const struct tenant_vgpu *vgpu, const struct tenant_way *way)
{
	for (size_t i = 0; i < way->gpu_count; i++)
		if (strcmp(way->gpus[i].old_uuid, vgpu->uuid) == 0)
			return way->gpus[i].new_uuid;
	return vgpu->uuid;
}

// Returns the vGPU that the user chose as a replacement for `vgpu`, or NULL.
static const char *chosen_for(const struct tenant_vgpu *vgpu, const struct tenant_way *way)
{
	for (size_t i = 0; i < way->vgpu_count; i++)
		if (!way->vgpus[i].old_name || strcmp(way->vgpus[i].old_name, vgpu->name) == 0)
			return way->vgpus[i].new_name;
	return NULL;
}

static bool has_vgpu(const struct tenants *tenants, const char *name)
{
	for (size_t i = 0; i < tenants->vgpu_count; i++)
		if (strcmp(tenants->vgpus[i].name, name) == 0)
			return true;
	return false;
}

static enum vg_status check_choice(const struct tenants *tenants, const struct tenant_way *way)
{
	for (size_t i = 0; i < way->vgpu_count; i++) {
		const char *old = way->vgpus[i].old_name;
		if (!way->vgpus[i].new_name)
			return vg_fail(VG_INVALID, 0, "the vGPU to restore into has no name");
		if (!old && (tenants->vgpu_count != 1 || way->vgpu_count != 1))
			return vg_fail(VG_INVALID, 0, "the image has %zu vGPUs: name a replacement for each (OLD=%s)",
				       tenants->vgpu_count, way->vgpus[i].new_name);
		if (old && !has_vgpu(tenants, old))
			return vg_fail(VG_INVALID, 0, "the image is not of a vGPU %s, but of %s", old,
				       tenants->vgpus[0].name);
		for (size_t k = 0; old && k < i; k++)
			if (strcmp(way->vgpus[k].old_name, old) == 0)
				return vg_fail(VG_INVALID, 0, "vGPU %s and vGPU %s are both named to replace %s",
					       way->vgpus[k].new_name, way->vgpus[i].new_name, old);
	}
	return VG_OK;
}

// ---- requests of a dump ------------------------------------------------------------------------------

// Opens the connection to the daemon of a vGPU. The directory of the vGPU's ledger tells which daemon that is.
static enum vg_status open_node(const struct tenant_vgpu *vgpu, struct vg_node **ret_node)
{
	bool simulated = vg_ledger_flags(vgpu->ledger) & VG_LEDGER_SIMULATED;
	struct vg_node_options options = {
		.size = sizeof options, .simulate = simulated ? "1" : "", .no_start = 1, .timeout = ASK_SECONDS};
	char directory[PATH_MAX];

	snprintf(directory, sizeof directory, "%s", vgpu->path);
	for (int level = 0; level < 2; level++) // remove two components of DIRECTORY/ledgers/NAME
		if (strrchr(directory, '/'))
			*strrchr(directory, '/') = '\0';
	options.runtime_dir = directory;
	return vg_node_open(&options, ret_node);
}

static void ask_terms(struct tenant_vgpu *vgpu)
{
	struct vg_vgpu_list *list = NULL;
	struct vg_node *node = NULL;

	vgpu->has_terms = open_node(vgpu, &node) == VG_OK && vg_vgpu_inspect(node, vgpu->name, &list) == VG_OK;
	if (vgpu->has_terms) {
		vgpu->share_limit = list->vgpus[0].share_limit;
		vgpu->class = list->vgpus[0].scheduling_class;
	}
	vg_vgpu_list_free(list);
	vg_node_close(node);
}

void tenants_ask_terms(struct tenants *tenants)
{
	struct vg_kept_error kept;

	vg_error_keep(&kept);
	for (size_t i = 0; i < tenants->vgpu_count; i++)
		ask_terms(&tenants->vgpus[i]);
	vg_error_restore(&kept);
}

// For each vGPU, adds the name of the vGPU to the request `order` and sends it to the daemon of that vGPU. Ignores
// daemons that do not answer. Consumes `order`.
static void order_all(const struct tenants *tenants, json_t *order)
{
	struct vg_kept_error kept;

	vg_error_keep(&kept);
	for (size_t i = 0; i < tenants->vgpu_count; i++) {
		struct vg_node *node = NULL;
		json_t *one = json_copy(order);
		json_object_set_new(one, "name", json_string(tenants->vgpus[i].name));
		if (open_node(&tenants->vgpus[i], &node) == VG_OK)
			(void)vg_node_order(node, json_incref(one));
		json_decref(one);
		vg_node_close(node);
	}
	json_decref(order);
	vg_error_restore(&kept);
}

void tenants_open_gates(const struct tenants *tenants, unsigned milliseconds)
{
	order_all(tenants, json_pack("{s:s, s:I}", "op", "exempt", "milliseconds", (json_int_t)milliseconds));
}

void tenants_report_dump(const struct tenants *tenants, const char *image)
{
	order_all(tenants, json_pack("{s:s, s:s*}", "op", "dumped", "image", image));
}

// ---- existing vGPUs ------------------------------------------------------------------------------------

static enum vg_status fail_missing(const struct tenant_vgpu *vgpu, const struct vg_node *node, const char *gpu)
{
	char memory[32], swap[32], fixed[32], share[128] = "", sim[VG_HINT_SIM];

	if (vgpu->share)
		snprintf(share, sizeof share, " --share %u%s", vgpu->share, vgpu->share_limit ? " --limit" : "");
	if (vgpu->class == VG_CLASS_LATENCY)
		strcat(share, " --class latency");
	if (vgpu->evictable)
		snprintf(share + strlen(share), sizeof share - strlen(share), " --evictable --swap %s --fixed %s",
			 tenant_memory_text(vgpu->swap, swap), tenant_memory_text(vgpu->fixed, fixed));
	return vg_fail(VG_NOT_FOUND, 0,
		       "the processes ran inside vGPU %s, which does not exist now: name another one (--vgpu), or "
		       "create it with virgate create%s %s --memory %s%s --device %s",
		       vgpu->name, vg_hint_sim(node->simulate, sim), vgpu->name,
		       tenant_memory_text(vgpu->memory, memory), share, gpu);
}

static enum vg_status read_path(struct tenant_vgpu *vgpu, const json_t *reply)
{
	const char *path = json_string_value(json_object_get(reply, "ledger"));

	if (!path || snprintf(vgpu->path, sizeof vgpu->path, "%s", path) >= (int)sizeof vgpu->path)
		return vg_fail(
			VG_PROTOCOL, 0,
			"the daemon's reply lacks the ledger of vGPU %s: if the daemon has another version, end it "
			"(virgate shutdown%s)",
			vgpu->name, vg_hint_own_sim());
	return VG_OK;
}

// Returns whether the existing vGPU `found` has the same settings as the vGPU in the image. A later `virgate run` may
// have created another vGPU with the same name.
static bool is_alike(const struct tenant_vgpu *vgpu, const json_t *found)
{
	const char *class = json_string_value(json_object_get(found, "class"));
	bool same_terms = json_is_true(json_object_get(found, "share_limit")) == vgpu->share_limit && class &&
			  (strcmp(class, "latency") == 0) == (vgpu->class == VG_CLASS_LATENCY);

	return (same_terms || !vgpu->has_terms) && json_is_true(json_object_get(found, "ephemeral")) &&
	       json_integer_value(json_object_get(found, "memory")) == (json_int_t)vgpu->memory &&
	       json_integer_value(json_object_get(found, "share")) == (json_int_t)vgpu->share &&
	       json_is_true(json_object_get(found, "evictable")) == vgpu->evictable &&
	       json_integer_value(json_object_get(found, "swap")) == (json_int_t)vgpu->swap &&
	       json_integer_value(json_object_get(found, "fixed")) == (json_int_t)vgpu->fixed;
}

static enum vg_status is_another(const struct tenant_vgpu *vgpu, const json_t *found)
{
	char text[2][VG_SIZE_TEXT];
	uint64_t memory = (uint64_t)json_integer_value(json_object_get(found, "memory"));

	return vg_fail(VG_EXISTS, 0,
		       "the vGPU %s that exists now is not the one that the processes ran inside: it has %s%s, and "
		       "theirs was of one run, with %s; name the vGPU to restore into (--vgpu)",
		       vgpu->name, vg_size_format(memory, text[0]),
		       json_is_true(json_object_get(found, "ephemeral")) ? "" : " and was made by virgate create",
		       vg_size_format(vgpu->memory, text[1]));
}

// Uses a vGPU that exists. If it is ephemeral, enters it: then the daemon does not remove it before this process ends.
static enum vg_status use_existing(struct tenant_vgpu *vgpu, const struct tenant_way *way, const json_t *found)
{
	json_t *reply;

	if (!json_is_true(json_object_get(found, "ephemeral"))) {
		enum vg_status status = vg_visible_check(way->node, vgpu->name);
		return status ? status : read_path(vgpu, found);
	}
	enum vg_status status = vg_enter_request(way->node, vgpu->name, NULL, &reply);
	if (status)
		return status;
	status = read_path(vgpu, reply);
	json_decref(reply);
	return status;
}

// ---- create vGPUs --------------------------------------------------------------------------------------

// Creates an ephemeral vGPU again. If this process is root, the vGPU belongs to its owner in the image, so that the
// restored programs may open its ledger.
static enum vg_status make_again(struct tenant_vgpu *vgpu, const struct tenant_way *way, const char *gpu)
{
	struct vg_vgpu_options options = {.size = sizeof options,
					  .name = vgpu->name,
					  .memory = vgpu->memory,
					  .share = vgpu->share,
					  .share_limit = vgpu->share_limit,
					  .scheduling_class = vgpu->class,
					  .evictable = vgpu->evictable,
					  .swap = vgpu->swap,
					  .fixed = vgpu->fixed,
					  .device = gpu};
	const struct group *group = vgpu->group == (gid_t)-1 ? NULL : getgrgid(vgpu->group);
	struct vg_kept_error kept;
	char owner[16];
	json_t *reply;

	if (vgpu->group != (gid_t)-1 && !group)
		return vg_fail(VG_NOT_FOUND, 0,
			       "vGPU %s was for the members of group %u, which does not exist here: name another vGPU "
			       "(--vgpu)",
			       vgpu->name, (unsigned)vgpu->group);
	if (group)
		options.group = group->gr_name;
	snprintf(owner, sizeof owner, "%u", (unsigned)vgpu->owner);
	if (geteuid() == 0 && vgpu->owner != (uid_t)-1 && vgpu->owner != 0)
		options.owner = owner;
	enum vg_status status = vg_enter_request(way->node, NULL, &options, &reply);
	if (status) {
		vg_error_keep(&kept);
		return vg_fail(status, kept.error.code, "vGPU %s, which went with its run, cannot be made again: %s",
			       vgpu->name, kept.text);
	}
	vgpu->made = true;
	status = read_path(vgpu, reply);
	json_decref(reply);
	return status;
}

void tenants_undo(struct tenants *tenants)
{
	uint64_t end = vg_clock_monotonic_ns() + REMOVAL_NS;
	struct vg_kept_error kept;

	vg_error_keep(&kept);
	tenants_release_slots(tenants);
	for (size_t i = 0; i < tenants->vgpu_count; i++) {
		// If the vGPU is still busy at the time `end`, the daemon removes it when this process ends.
		while (tenants->vgpus[i].made && vg_vgpu_remove(tenants->node, tenants->vgpus[i].name) == VG_BUSY &&
		       vg_clock_monotonic_ns() < end)
			usleep(PAUSE_US);
		tenants->vgpus[i].made = false;
	}
	vg_error_restore(&kept);
}

// ---- all vGPUs -----------------------------------------------------------------------------------------

// Checks who owns the vGPU. If the user chose it (`chosen`), it may belong to another user.
static enum vg_status check_owner(const struct tenant_vgpu *vgpu, bool chosen)
{
	struct stat info;

	if (chosen || vgpu->owner == (uid_t)-1 || stat(vgpu->path, &info) < 0 || info.st_uid == vgpu->owner)
		return VG_OK;
	return vg_fail(VG_EXISTS, 0,
		       "the vGPU %s that exists now belongs to user %u, and the one that the processes ran inside "
		       "belonged to user %u: name the vGPU to restore into (--vgpu)",
		       vgpu->name, (unsigned)info.st_uid, (unsigned)vgpu->owner);
}

static enum vg_status open_page(struct tenant_vgpu *vgpu, const char *gpu)
{
	char here[VG_SYSTEM_UUID_TEXT];
	uint8_t uuid[16];

	int r = vg_ledger_open_copy(vgpu->path, &vgpu->ledger);
	if (r || strcmp(vg_ledger_name(vgpu->ledger), vgpu->name) != 0)
		return vg_fail(VG_STATE, r < 0 ? -r : 0,
			       "the page of vGPU %s, %s, which the processes will map, cannot be used: %s", vgpu->name,
			       vgpu->path,
			       r == -EPROTO ? "it is not one of this version of Virgate"
			       : r	    ? strerror(-r)
					    : "it is another vGPU's");
	vg_ledger_uuid(vgpu->ledger, uuid);
	vg_system_uuid_format(uuid, here);
	if (strcasecmp(here, gpu) != 0)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "vGPU %s is on %s, and the image is for %s: map the one to the other (--gpu-map), or "
			       "name another vGPU (--vgpu)",
			       vgpu->name, here, gpu);
	if (vg_ledger_flags(vgpu->ledger) & VG_LEDGER_REMOVED)
		return vg_fail(VG_STATE, 0, "vGPU %s is being removed", vgpu->name);
	return VG_OK;
}

static enum vg_status find_vgpu(struct tenant_vgpu *vgpu, const struct tenant_way *way)
{
	const char *chosen = chosen_for(vgpu, way), *gpu = gpu_of(vgpu, way);
	json_t *reply;

	if (chosen && snprintf(vgpu->name, sizeof vgpu->name, "%s", chosen) >= (int)sizeof vgpu->name)
		return vg_fail(VG_INVALID, 0, "\"%.80s\" is too long for a vGPU's name", chosen);
	enum vg_status status = vg_check_name(vgpu->name);
	if (status)
		return status;
	// For this request the daemon also creates the ledger again if it is missing, as after a reboot.
	status = vg_node_request(way->node, json_pack("{s:s, s:s}", "op", "inspect", "name", vgpu->name), &reply);
	if (status == VG_NOT_FOUND && !chosen)
		status = vgpu->ephemeral ? make_again(vgpu, way, gpu) : fail_missing(vgpu, way->node, gpu);
	else if (status == VG_OK) {
		const json_t *found = json_object_get(reply, "vgpu");
		status = chosen || !vgpu->ephemeral || is_alike(vgpu, found) ? use_existing(vgpu, way, found)
									     : is_another(vgpu, found);
		json_decref(reply);
		if (status == VG_NOT_FOUND && !chosen && vgpu->ephemeral) // the vGPU was removed meanwhile
			status = make_again(vgpu, way, gpu);
	}
	if (status == VG_OK)
		status = check_owner(vgpu, chosen);
	return status ? status : open_page(vgpu, gpu);
}

enum vg_status tenants_read_at(const json_t *description, const struct tenant_way *way, struct tenants *ret_tenants)
{
	struct tenants tenants;

	enum vg_status status = tenants_read(description, &tenants);
	if (status)
		return status;
	tenants.node = way->node;
	status = check_choice(&tenants, way);
	for (size_t i = 0; i < tenants.vgpu_count && status == VG_OK; i++)
		status = find_vgpu(&tenants.vgpus[i], way);
	if (status) {
		tenants_undo(&tenants);
		tenants_free(&tenants);
		return status;
	}
	*ret_tenants = tenants;
	return VG_OK;
}

bool tenants_have_page(const struct tenants *tenants, const char *old_path)
{
	for (size_t i = 0; i < tenants->vgpu_count; i++)
		if (strcmp(tenants->vgpus[i].old_path, old_path) == 0)
			return true;
	return false;
}
