// Reads which vGPU virgate-device-plugin has allocated to a container. One thread.
#pragma once
#include <stdbool.h>

#include "cdi_state.h"

// Reads VIRGATE_ALLOCATION, which must not be "". A user can write any text there. So the text must have a token that
// the plugin has noted below the daemon's runtime directory. Returns false after a message on standard error.
bool cdi_read_allocation(const struct cdi_state *state, const char *profile, const char *runtime_dir, char ret_name[64],
			 char ret_device[64]);
// Uses the plugin's permission to start one container with the vGPU `name`, which cdi_read_allocation() returned.
// Returns false after a message on standard error if there is no permission, or if it has expired.
bool cdi_use_allocation(const char *name, const char *runtime_dir);
