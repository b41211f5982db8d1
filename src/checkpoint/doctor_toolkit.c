#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/doctor.h"
#include "driver/toolchain.h"

static const char *find_nvcc(char path[], size_t capacity)
{
	const char *const roots[] = {secure_getenv("CUDA_HOME"), secure_getenv("CUDA_PATH"), "/usr/local/cuda", "/usr"};

	for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
		if (!roots[i] || !*roots[i])
			continue;
		snprintf(path, capacity, "%s/bin/nvcc", roots[i]);
		if (access(path, X_OK) == 0)
			return path;
	}
	return NULL;
}

// Adds a tool to the list of those that are there, or of those that are missing.
static void list_tool(char found[], char missing[], size_t capacity, const char *name, const char *what)
{
	char *list = what ? found : missing;
	size_t length = strlen(list);

	snprintf(list + length, capacity - length, "%s%s%s%s", length ? ", " : "", name, what ? " " : "", what ? what : "");
}

// Nothing of Virgate needs a toolkit, so that it is never a failure.
void doctor_toolkit(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_TOOLKIT, "CUDA toolkit");
	char found[128] = "", missing[128] = "", path[64], version[32], problem[1000];
	const struct vg_nvjitlink *nvjitlink;
	const struct vg_nvrtc *nvrtc;
	const struct vg_nvvm *nvvm;

#define LIST(name, tool)                                                                                               \
	do {                                                                                                           \
		const char *what = NULL;                                                                               \
		if (vg_##tool##_load(&tool, problem, sizeof problem) == 0) {                                           \
			snprintf(version, sizeof version, "%d.%d", tool->major, tool->minor);                          \
			what = version;                                                                                \
		}                                                                                                      \
		list_tool(found, missing, sizeof found, name, what);                                                   \
	} while (0)
	LIST("NVRTC", nvrtc);
	LIST("NVVM", nvvm);
	LIST("nvJitLink", nvjitlink);
#undef LIST
	list_tool(found, missing, sizeof found, "nvcc", find_nvcc(path, sizeof path));
	doctor_say(check, *found ? DOCTOR_OK : DOCTOR_NOT_APPLICABLE, "%s%s%s%s%s", found, *found && *missing ? "; " : "",
		   *missing ? "no " : "", missing,
		   *missing ? ", which would compile at run time (NVRTC, NVVM), link objects (nvJitLink), and build "
			      "machine code and the CUDA runtime library (nvcc)"
			    : "");
}
