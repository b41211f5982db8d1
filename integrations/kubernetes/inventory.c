#include "inventory.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A vGPU's name has at most 63 characters. It consists of "k8s.", the profile, a part of the GPU's UUID, and a number,
// so this many characters are left for the profile.
enum { LONGEST_PROFILE = 44 };

const char *inventory_check_name(const char *profile)
{
	size_t length = strlen(profile);

	if (length > LONGEST_PROFILE)
		return "it is longer than 44 characters";
	if (length == 0 || !isalnum((unsigned char)profile[length - 1]))
		return "the name of a Kubernetes resource ends with a letter or a digit";
	return NULL;
}

bool inventory_init(struct inventory *inventory, struct vg_profile_list *profiles, uint64_t reserve_ms)
{
	*inventory = (struct inventory){.profiles = profiles, .reserve_ms = reserve_ms};
	inventory->resources = calloc(profiles->count + 1, sizeof *inventory->resources);
	if (!inventory->resources) {
		vg_profile_list_free(profiles);
		return false;
	}
	for (size_t i = 0; i < profiles->count; i++) {
		const struct vg_profile *profile = &profiles->profiles[i];
		if (inventory_check_name(profile->name))
			continue;
		struct resource *resource = &inventory->resources[inventory->count++];
		*resource = (struct resource){.profile = profile, .is_changed = true};
		snprintf(resource->name, sizeof resource->name, "virgate.dev/%s", profile->name);
	}
	return true;
}

void inventory_finish(struct inventory *inventory)
{
	for (size_t i = 0; i < inventory->count; i++)
		free(inventory->resources[i].slots);
	free(inventory->resources);
	vg_device_list_free(inventory->devices);
	vg_profile_list_free(inventory->profiles);
	*inventory = (struct inventory){0};
}

const char *inventory_failure(const struct inventory *inventory, const char *uuid)
{
	for (size_t i = 0; i < inventory->failure_count; i++)
		if (strcmp(inventory->failures[i].uuid, uuid) == 0)
			return inventory->failures[i].reason;
	return NULL;
}

void inventory_fail(struct inventory *inventory, const char *uuid, const char *reason, uint64_t now)
{
	if (inventory_failure(inventory, uuid) || inventory->failure_count == INVENTORY_FAILURES)
		return;
	struct failure *failure = &inventory->failures[inventory->failure_count++];
	snprintf(failure->uuid, sizeof failure->uuid, "%s", uuid);
	snprintf(failure->reason, sizeof failure->reason, "%s", reason);
	inventory_judge(inventory, now);
}

struct slot *inventory_find(const struct resource *resource, const char *id)
{
	for (size_t i = 0; i < resource->count; i++)
		if (strcmp(resource->slots[i].id, id) == 0)
			return &resource->slots[i];
	return NULL;
}

bool inventory_is_pending(const struct slot *slot, uint64_t now)
{
	return slot->reservation.until > now;
}

// ---- room -----------------------------------------------------------------------------------------------------

static void add_pending(const struct inventory *inventory, size_t device, const struct slot *except, uint64_t now,
			struct vg_device_info *figures)
{
	for (size_t i = 0; i < inventory->count; i++) {
		const struct resource *resource = &inventory->resources[i];
		for (size_t at = 0; at < resource->count; at++) {
			const struct slot *slot = &resource->slots[at];
			if (slot->device == device && slot != except && !slot->is_running &&
			    inventory_is_pending(slot, now))
				vg_profile_reserve(resource->profile, figures);
		}
	}
}

void inventory_figures(const struct inventory *inventory, const struct slot *slot, uint64_t now,
		       struct vg_device_info *ret_figures)
{
	*ret_figures = inventory->devices->devices[slot->device];
	add_pending(inventory, slot->device, slot, now, ret_figures);
}

bool inventory_reserve(struct inventory *inventory, struct resource *resource, struct slot *slot, uint64_t now,
		       struct vg_device_info *figures)
{
	struct vg_profile_fit fit = {0};

	inventory_figures(inventory, slot, now, figures);
	vg_profile_count_fit(resource->profile, figures, &fit);
	if (!slot->is_running && !fit.now)
		return false;
	if (!inventory_is_pending(slot, now))
		slot->reservation.created_before = slot->is_running ? slot->created : 0;
	slot->reservation.until = now + inventory->reserve_ms;
	slot->reservation.readings_left = 0;
	inventory_judge(inventory, now);
	return true;
}

// ---- health ---------------------------------------------------------------------------------------------------

static void set_health(struct resource *resource, struct slot *slot, bool is_healthy)
{
	resource->is_changed |= slot->is_healthy != is_healthy;
	slot->is_healthy = is_healthy;
}

// Decides which free slots of a GPU are healthy: as many as fit there. Prefers slots that are healthy already.
static void judge_free(struct resource *resource, size_t device, unsigned fits, uint64_t now)
{
	for (int was_healthy = 1; was_healthy >= 0; was_healthy--)
		for (size_t i = 0; i < resource->count; i++) {
			struct slot *slot = &resource->slots[i];
			if (slot->device != device || slot->is_running || slot->is_taken ||
			    inventory_is_pending(slot, now) || slot->is_healthy != was_healthy)
				continue;
			if (was_healthy && fits)
				fits--;
			else if (was_healthy)
				slot->is_healthy = false, resource->is_changed = true;
			else if (fits)
				fits--, set_health(resource, slot, true);
		}
}

static void judge_device(struct inventory *inventory, struct resource *resource, size_t device, uint64_t now)
{
	struct vg_device_info figures = inventory->devices->devices[device];
	bool has_failed = inventory_failure(inventory, figures.uuid);
	struct vg_profile_fit fit = {0};

	for (size_t i = 0; i < resource->count; i++) {
		struct slot *slot = &resource->slots[i];
		bool is_lost = inventory->is_daemon_lost && !slot->is_running;
		if (slot->device == device && (has_failed || is_lost || slot->is_taken))
			set_health(resource, slot, false);
		else if (slot->device == device && (slot->is_running || inventory_is_pending(slot, now)))
			set_health(resource, slot, true);
	}
	if (has_failed || inventory->is_daemon_lost)
		return;
	add_pending(inventory, device, NULL, now, &figures);
	vg_profile_count_fit(resource->profile, &figures, &fit);
	judge_free(resource, device, fit.now, now);
}

void inventory_judge(struct inventory *inventory, uint64_t now)
{
	for (size_t i = 0; inventory->devices && i < inventory->count; i++)
		for (size_t device = 0; device < inventory->devices->count; device++)
			judge_device(inventory, &inventory->resources[i], device, now);
}

// ---- readings of the daemon -----------------------------------------------------------------------------------

// Returns how many slots a resource shall have on a GPU.
static unsigned count_slots(const struct resource *resource, const struct vg_device_info *device)
{
	struct vg_profile_fit fit = {0};

	vg_profile_count_fit(resource->profile, device, &fit);
	return fit.empty < INVENTORY_SLOTS ? fit.empty : INVENTORY_SLOTS;
}

static void name_slot(struct slot *slot, const struct resource *resource, const struct vg_device_info *device,
		      unsigned number)
{
	const char *uuid = strncmp(device->uuid, "GPU-", 4) == 0 ? device->uuid + 4 : device->uuid;

	snprintf(slot->id, sizeof slot->id, "%.48s/%u", device->uuid, number);
	snprintf(slot->vgpu, sizeof slot->vgpu, "k8s.%.44s.%.8s.%u", resource->profile->name, uuid, number % 10000);
}

// Returns whether the resource has exactly as many slots on each GPU as an empty GPU has room for.
static bool has_right_slots(const struct resource *resource, const struct vg_device_list *devices)
{
	size_t at = 0;

	for (size_t device = 0; device < devices->count; device++) {
		size_t length = strlen(devices->devices[device].uuid);
		unsigned count = count_slots(resource, &devices->devices[device]);
		for (unsigned number = 0; number < count; number++, at++)
			if (at == resource->count || resource->slots[at].device != device ||
			    strncmp(resource->slots[at].id, devices->devices[device].uuid, length) != 0)
				return false;
	}
	return at == resource->count;
}

// Makes the slots of a resource. Slots that existed before keep their state.
static void make_slots(struct resource *resource, const struct vg_device_list *devices)
{
	size_t all = 0, at = 0;

	for (size_t device = 0; device < devices->count; device++)
		all += count_slots(resource, &devices->devices[device]);
	struct slot *slots = calloc(all + 1, sizeof *slots);
	if (!slots) {
		resource->count = 0; // the old slots have indexes of the old device list; the next reading tries again
		return;
	}
	for (size_t device = 0; device < devices->count; device++) {
		unsigned count = count_slots(resource, &devices->devices[device]);
		for (unsigned number = 0; number < count; number++, at++) {
			name_slot(&slots[at], resource, &devices->devices[device], number);
			const struct slot *old = inventory_find(resource, slots[at].id);
			if (old)
				slots[at] = *old;
			slots[at].device = device;
		}
	}
	free(resource->slots);
	resource->slots = slots;
	resource->count = all;
	resource->is_changed = true;
}

void inventory_note_created(struct inventory *inventory, const char *vgpu)
{
	for (size_t i = 0; i < inventory->count; i++)
		for (size_t at = 0; at < inventory->resources[i].count; at++)
			if (strcmp(inventory->resources[i].slots[at].vgpu, vgpu) == 0)
				inventory->resources[i].slots[at].reservation.readings_left = 2;
}

// Returns whether the hook of the CDI device created the vGPU. The hook runs as the plugin's user. Other users can also
// create a vGPU with the name of a slot.
static bool is_of_container(const struct inventory *inventory, const struct slot *slot, const struct vg_vgpu_info *vgpu)
{
	const char *uuid = inventory->devices->devices[slot->device].uuid;

	return vgpu->ephemeral && strcmp(vgpu->uuid, uuid) == 0 &&
	       (strcmp(vgpu->owner, inventory->owner[0]) == 0 || strcmp(vgpu->owner, inventory->owner[1]) == 0);
}

static void find_vgpu(const struct inventory *inventory, struct slot *slot, const struct vg_vgpu_list *vgpus)
{
	struct reservation *reservation = &slot->reservation;
	const struct vg_vgpu_info *found = NULL;

	for (size_t i = 0; i < vgpus->count && !found; i++)
		if (strcmp(vgpus->vgpus[i].name, slot->vgpu) == 0)
			found = &vgpus->vgpus[i];
	slot->is_running = found && is_of_container(inventory, slot, found);
	slot->is_taken = found && !slot->is_running;
	if (slot->is_running)
		slot->created = found->created;
	// The vGPU for which the slot was reserved exists now, so the daemon itself counts its memory.
	if (slot->is_running && slot->created != reservation->created_before)
		reservation->until = 0;
	if (reservation->readings_left && --reservation->readings_left == 0)
		reservation->until = 0;
}

void inventory_update(struct inventory *inventory, struct vg_device_list *devices, const struct vg_vgpu_list *vgpus,
		      uint64_t now)
{
	inventory->is_daemon_lost = !devices;
	if (devices) {
		vg_device_list_free(inventory->devices);
		inventory->devices = devices;
		for (size_t i = 0; i < inventory->count; i++) {
			struct resource *resource = &inventory->resources[i];
			if (!has_right_slots(resource, devices))
				make_slots(resource, devices);
			for (size_t at = 0; at < resource->count; at++)
				find_vgpu(inventory, &resource->slots[at], vgpus);
		}
	}
	inventory_judge(inventory, now);
}
