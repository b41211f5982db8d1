// Enters a vGPU for a container that is being started. Any thread.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "virgate/vgpu.h"

struct vg_container {
	pid_t pid;	   // the first process of the container, in the caller's pid namespace
	const char *id;	   // the container's id, as the container engine reports it
	const char *image; // NULL: unknown
	bool kill_outside; // kill processes of the container that use the GPU without Virgate's library
};

// Enters the vGPU `name`; if `name` is NULL, creates the vGPU that `options` describe. The vGPU is in use until the
// container's first process ends. If this call created the vGPU, the daemon then removes it. Fails like
// vg_vgpu_enter(). *ret_name: the name of the vGPU, which the caller frees.
enum vg_status vg_container_enter(struct vg_node *node, const char *name, const struct vg_vgpu_options *options,
				  const struct vg_container *container, char **ret_name);
