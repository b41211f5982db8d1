// Implements the public functions of profiles.
#include "virgate/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/status.h"
#include "settings/reading.h"

#define COUNT_MOST 9999u // upper limit of a count of vGPUs, if the GPU itself sets no limit

enum vg_status vg_profile_list_read(struct vg_profile_list **ret_list)
{
	VG_ENTRY();
	struct config_error error;
	struct config config;

	if (!ret_list)
		return vg_fail(VG_INVALID, 0, "`ret_list` is NULL");
	struct vg_profile_list *list = calloc(1, sizeof *list);
	if (!list)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the list");
	if (config_load_files(&config, &error)) {
		free(list);
		return vg_fail(VG_INVALID, 0, "%s", error.text);
	}
	*list = (struct vg_profile_list){config.profile_count, config.profiles};
	config.profiles = NULL; // the list owns the profiles now
	config.profile_count = 0;
	config_finish(&config);
	*ret_list = list;
	return VG_OK;
}

void vg_profile_list_free(struct vg_profile_list *list)
{
	if (!list)
		return;
	struct vg_profile *profiles = (struct vg_profile *)list->profiles;
	for (size_t i = 0; i < list->count; i++)
		free_profile(&profiles[i]);
	free(profiles);
	free(list);
}

const struct vg_profile *vg_profile_find(const struct vg_profile_list *list, const char *name)
{
	for (size_t i = 0; list && name && i < list->count; i++)
		if (strcmp(list->profiles[i].name, name) == 0)
			return &list->profiles[i];
	return NULL;
}

enum vg_status vg_profile_apply(const struct vg_profile *profile, struct vg_vgpu_options *options)
{
	VG_ENTRY();

	if (!profile || !options)
		return vg_fail(VG_INVALID, 0, "`%s` is NULL", profile ? "options" : "profile");
	options->memory = profile->memory;
	options->share = profile->share;
	options->share_limit = profile->share_limit;
	options->scheduling_class = profile->scheduling_class;
	if (profile->mode_given) {
		options->mode = profile->mode;
		options->device_modes = NULL;
		options->device_mode_count = 0;
	}
	options->evictable = profile->evictable;
	options->swap = profile->swap;
	options->fixed = profile->fixed;
	options->idle_suspend = profile->idle_suspend;
	return VG_OK;
}

// The memory that one vGPU of a profile takes on a GPU: a fixed part, and a part that can move to the host.
struct piece {
	uint64_t fixed, moving;
};

// Computes what a vGPU of the profile takes, as the daemon does. A profile with a share but no memory size gets that
// share of the memory, in blocks of 2 MiB.
static struct piece measure_piece(const struct vg_profile *profile, const struct vg_device_info *device)
{
	uint64_t memory = profile->memory ? profile->memory : device->memory / 100 * profile->share >> 21 << 21;
	uint64_t usual = device->context_memory + vg_size_min(UINT64_C(1) << 30, memory / 4);
	uint64_t fixed = !profile->evictable ? memory : vg_size_min(profile->fixed ? profile->fixed : usual, memory);

	return (struct piece){fixed, memory - fixed};
}

// Counts how many vGPUs with this piece fit into `room` bytes. Each vGPU needs its own fixed part. The moving parts of
// all vGPUs take turns on the device, so only the largest one needs memory there. `largest` bytes for moving parts of
// other vGPUs are already reserved.
static unsigned count_pieces(const struct piece *piece, uint64_t room, uint64_t largest)
{
	uint64_t extra = piece->moving > largest ? piece->moving - largest : 0;

	if (extra > room || piece->fixed > room - extra)
		return 0;
	return piece->fixed ? (unsigned)vg_size_min((room - extra) / piece->fixed, COUNT_MOST) : COUNT_MOST;
}

static unsigned count_shares(const struct vg_profile *profile, unsigned reserved)
{
	if (!profile->share)
		return COUNT_MOST;
	return reserved < 100 ? (100 - reserved) / profile->share : 0;
}

enum vg_status vg_profile_count_fit(const struct vg_profile *profile, const struct vg_device_info *device,
				    struct vg_profile_fit *ret_fit)
{
	VG_ENTRY();

	if (!profile || !device || !ret_fit)
		return vg_fail(VG_INVALID, 0, "`%s` is NULL", !profile ? "profile" : device ? "ret_fit" : "device");
	const struct piece piece = measure_piece(profile, device);
	uint64_t room = device->reserved < device->memory ? device->memory - device->reserved : 0;
	bool is_too_small = piece.fixed < device->context_memory;
	bool has_turns = profile->share || profile->scheduling_class == VG_CLASS_LATENCY;

	ret_fit->now = (unsigned)vg_size_min(count_pieces(&piece, room, device->movable_reserved),
					     count_shares(profile, device->share_reserved));
	ret_fit->empty = (unsigned)vg_size_min(count_pieces(&piece, device->memory, 0), count_shares(profile, 0));
	if (is_too_small)
		ret_fit->empty = 0;
	if (is_too_small || device->drained || (has_turns && device->shares_elsewhere))
		ret_fit->now = 0;
	return VG_OK;
}

enum vg_status vg_profile_reserve(const struct vg_profile *profile, struct vg_device_info *device)
{
	VG_ENTRY();

	if (!profile || !device)
		return vg_fail(VG_INVALID, 0, "`%s` is NULL", profile ? "device" : "profile");
	const struct piece piece = measure_piece(profile, device);
	uint64_t largest = device->movable_reserved;
	uint64_t extra = piece.moving > largest ? piece.moving - largest : 0;

	device->reserved += piece.fixed + extra;
	device->movable_reserved = largest + extra;
	device->share_reserved += profile->share;
	device->vgpus++;
	return VG_OK;
}
