/* Profiles: named sizes of vGPUs, from the sections [profile NAME] of virgate.conf(5).
 *
 * A list is a copy of what the configuration files had when it was read. Every function may be called from any
 * thread; a list may be read by several threads at once. */
#ifndef VIRGATE_PROFILE_H
#define VIRGATE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/status.h>
#include <virgate/vgpu.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_profile {
	const char *name; /* [A-Za-z0-9][A-Za-z0-9._-]{0,62} */
	uint64_t memory;  /* the limit; 0: the same part of the GPU's memory as `share` */
	unsigned share;	  /* percent of the GPU's time; 0: no share */
	int share_limit;  /* nonzero: never more than the share, even if the GPU is idle otherwise */
	enum vg_scheduling_class scheduling_class;
	int mode_given; /* 0: the mode is that of the GPU, see virgate.conf(5), and `mode` is VG_MODE_TIME */
	enum vg_sharing_mode mode;
	int evictable;	       /* nonzero: device memory can move to the host; 0: the following three are 0 */
	uint64_t swap;	       /* maximum host memory that each process may use for that; 0: as much as the limit */
	uint64_t fixed;	       /* maximum part of the limit for memory that cannot move; 0: a context and up to 1 GiB */
	unsigned idle_suspend; /* seconds without use after which the memory leaves the GPU; 0: it does not */
	const char *origin;    /* where the section begins: "/etc/virgate/virgate.conf:12" */
};

struct vg_profile_list {
	size_t count;
	const struct vg_profile *profiles; /* the profiles, in the order of the files: the system's first */
};

/* Reads the profiles from the system's and the user's configuration file. A profile of the user's file replaces one of
 * the same name in the system's file as a whole. Files that do not exist have no profiles. The caller owns *ret_list
 * and frees it with vg_profile_list_free(). INVALID: a file has a mistake anywhere; the last error begins with
 * FILE:LINE. NO_MEMORY. */
VG_PUBLIC enum vg_status vg_profile_list_read(struct vg_profile_list **ret_list);
/* Frees the list. Accepts NULL. */
VG_PUBLIC void vg_profile_list_free(struct vg_profile_list *list);
/* Finds a profile by its name; it is valid until the list is freed. NULL: not found. */
VG_PUBLIC const struct vg_profile *vg_profile_find(const struct vg_profile_list *list, const char *name);
/* Copies the size and the terms of a profile into the options of a new vGPU; leaves the other options as they are.
 * INVALID: a parameter is NULL. */
VG_PUBLIC enum vg_status vg_profile_apply(const struct vg_profile *profile, struct vg_vgpu_options *options);

/* The number of vGPUs of a profile that fit on a GPU. */
struct vg_profile_fit {
	unsigned now;	/* how many more can be created now, beside the vGPUs of all users */
	unsigned empty; /* how many could be created if the GPU had no vGPUs */
};

/* Counts by memory and by compute shares, from the figures of vg_device_list(). Both counts are 0 if the memory of the
 * profile is too small for a CUDA context, or larger than the GPU. `now` is 0 on a drained GPU. INVALID: a parameter is
 * NULL. */
VG_PUBLIC enum vg_status vg_profile_count_fit(const struct vg_profile *profile, const struct vg_device_info *device,
					      struct vg_profile_fit *ret_fit);

/* Adds a vGPU of a profile to the figures of a GPU, as if it existed: to `reserved`, `share_reserved`,
 * `movable_reserved` and `vgpus`. So vg_profile_count_fit() counts what fits beside vGPUs that are promised but not
 * created yet. INVALID: a parameter is NULL. */
VG_PUBLIC enum vg_status vg_profile_reserve(const struct vg_profile *profile, struct vg_device_info *device);

#ifdef __cplusplus
}
#endif
#endif
