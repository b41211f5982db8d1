// Profiles on the command line: the option --profile, listings, completion. One thread.
#pragma once
#include <jansson.h>

#include "session.h"

// Reads --profile. If the option is given, copies the profile into `options`; else *ret_profile is NULL. The profile is
// valid until the session is closed. Returns 0, or the verb's usage exit code after a message: the profile does not
// exist, or another option describes the size, too.
int read_profile(const struct arguments *arguments, const struct session *session, struct vg_vgpu_options *options,
		 const struct vg_profile **ret_profile);
// Prints the library's last error. If a vGPU of the profile does not fit, also prints how many of them fit on each GPU.
// `profile` may be NULL. Returns the exit code that the verb uses for failures.
int fail_with_profile(const struct arguments *arguments, struct vg_node *node, const struct vg_profile *profile);

// Prints the table of profiles with the number of each that fit on each GPU; nothing if there are no profiles.
void print_profiles(const struct config *config, const struct vg_device_list *devices);
// Returns the profiles as a JSON array.
json_t *profiles_json(const struct config *config, const struct vg_device_list *devices);

#define OPTION_PROFILE                                                                                       \
	{                                                                                                    \
		"profile", 'p', "NAME", "size and terms of [profile NAME] in virgate.conf", COMPLETE_PROFILE \
	}
