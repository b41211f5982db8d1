#include "cdi_allocation.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cdi.h"
#include "say.h"

struct allocation {
	char vgpu[64], device[64], token[64];
};

// Returns whether the text has the form NAME@UUID:TOKEN.
static bool split(const char *text, struct allocation *ret_allocation)
{
	const char *at = strchr(text, '@'), *colon = at ? strchr(at, ':') : NULL;

	if (!colon || at - text >= 64 || colon - at > 64 || strlen(colon + 1) >= 64)
		return false;
	snprintf(ret_allocation->vgpu, 64, "%.*s", (int)(at - text), text);
	snprintf(ret_allocation->device, 64, "%.*s", (int)(colon - at - 1), at + 1);
	snprintf(ret_allocation->token, 64, "%s", colon + 1);
	return true;
}

// Returns whether the name is that of a device of the plugin: "k8s.", the profile, the beginning of the GPU's UUID, and
// a number. The name is part of a path.
static bool is_of_profile(const struct allocation *allocation, const char *profile)
{
	const char *uuid = allocation->device;
	char start[128];

	uuid += strncmp(uuid, "GPU-", 4) == 0 ? 4 : 0;
	for (int i = 0; i < 8; i++)
		if (!isalnum((unsigned char)uuid[i]) && uuid[i] != '-')
			return false;
	snprintf(start, sizeof start, CDI_ALLOCATED "%s.%.8s.", profile, uuid);
	const char *number = allocation->vgpu + strlen(start);
	return strncmp(allocation->vgpu, start, strlen(start)) == 0 && *number &&
	       strspn(number, "0123456789") == strlen(number);
}

// Returns whether the plugin has noted the token.
static bool is_noted(const struct allocation *allocation, const char *runtime_dir)
{
	char path[PATH_MAX], line[64];
	bool found = false;

	snprintf(path, sizeof path, "%s/" CDI_ALLOCATIONS "/%s", runtime_dir, allocation->vgpu);
	FILE *file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = '\0';
		found = *line && strcmp(line, allocation->token) == 0;
	}
	if (file)
		fclose(file);
	return found;
}

bool cdi_read_allocation(const struct cdi_state *state, const char *profile, const char *runtime_dir, char ret_name[64],
			 char ret_device[64])
{
	struct allocation allocation = {0};

	if (!split(state->allocation, &allocation) || !is_of_profile(&allocation, profile)) {
		say_error("the container has VIRGATE_ALLOCATION=%s, but its CDI device is of the profile %s: only "
			  "virgate-device-plugin sets this variable, and a container can have a device of one profile",
			  state->allocation, profile);
		return false;
	}
	if (!is_noted(&allocation, runtime_dir)) {
		say_error("the container has VIRGATE_ALLOCATION=%s, which is no valid allocation: only "
			  "virgate-device-plugin sets this variable, for one pod. If it did, the files below "
			  "%s/" CDI_ALLOCATIONS " were lost: delete the pod and create it again",
			  state->allocation, runtime_dir);
		return false;
	}
	strcpy(ret_name, allocation.vgpu);
	strcpy(ret_device, allocation.device);
	return true;
}

// Returns the time at which a permission ends, in milliseconds of CLOCK_MONOTONIC; 0: no permission.
static uint64_t read_end(const char *path)
{
	uint64_t end = 0;
	FILE *file = fopen(path, "re");

	if (file && fscanf(file, "%" SCNu64, &end) != 1)
		end = 0;
	if (file)
		fclose(file);
	return end;
}

bool cdi_use_allocation(const char *name, const char *runtime_dir)
{
	char path[PATH_MAX];
	struct timespec now;

	snprintf(path, sizeof path, "%s/" CDI_ALLOCATIONS "/%s" CDI_START, runtime_dir, name);
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t end = read_end(path);
	// Several hooks may try to use the permission at once: only the one that removes the file gets it.
	if (unlink(path) == 0 && (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 < end)
		return true;
	say_error("the container has VIRGATE_ALLOCATION for the vGPU %s, but virgate-device-plugin has not permitted a "
		  "start with it: each request of the kubelet permits one start, for the time of --reserve. The device "
		  "is not this pod's, or this start took longer; in that case the kubelet tries again",
		  name);
	return false;
}
