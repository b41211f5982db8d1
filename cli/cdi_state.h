// Reads what an OCI runtime tells a hook about its container. One thread.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum { CDI_ID = 129, CDI_IMAGE = 256, CDI_ALLOCATION = 192 };

struct cdi_state {
	char id[CDI_ID];
	char image[CDI_IMAGE]; // "": unknown
	// "NAME@UUID:TOKEN": the name and the GPU of the vGPU that virgate-device-plugin has allocated, and a token
	// that it knows. "": none.
	char allocation[CDI_ALLOCATION];
	pid_t pid;	     // the first process; 0 in hooks that run inside the container
	char root[PATH_MAX]; // the container's root directory, as this process sees it
	uid_t user;	     // the user of the first program, in the container
	uid_t outer_user;    // the same user here, in this process's user namespace
	bool user_known;     // false: the container's id mappings do not contain this user
};

// Reads the container's state from standard input, and the configuration in the bundle that the state names. Returns
// false after a message on standard error.
bool cdi_state_read(struct cdi_state *ret_state);
