#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/doctor/doctor.h"
#include "driver/toolchain.h"

enum { LEAST = 13000 }; // the oldest CUDA_VERSION that the build supports

// Returns whether the directory contains nvcc, and its path.
static bool has_nvcc(const char *directory, size_t length, char ret_path[PATH_MAX])
{
	int written = snprintf(ret_path, PATH_MAX, "%.*s/nvcc", (int)length, directory);

	return length && written < PATH_MAX && access(ret_path, X_OK) == 0;
}

static bool find_nvcc(char ret_path[PATH_MAX])
{
	const char *const roots[] = {secure_getenv("CUDA_HOME"), secure_getenv("CUDA_PATH"), "/usr/local/cuda"};
	const char *at = secure_getenv("PATH");
	char directory[PATH_MAX];

	for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
		if (roots[i] && *roots[i] && snprintf(directory, sizeof directory, "%s/bin", roots[i]) < PATH_MAX &&
		    has_nvcc(directory, strlen(directory), ret_path))
			return true;
	for (; at && *at; at += strspn(at, ":")) {
		size_t length = strcspn(at, ":");

		if (has_nvcc(at, length, ret_path))
			return true;
		at += length;
	}
	return false;
}

// Returns the CUDA_VERSION of the headers that belong to the path bin/nvcc, or 0 if they are missing.
static int version_of(const char *nvcc)
{
	char path[PATH_MAX + 32], line[512];
	int version = 0;

	snprintf(path, sizeof path, "%.*s/../include/cuda.h", (int)(strlen(nvcc) - strlen("/nvcc")), nvcc);
	FILE *header = fopen(path, "re");
	if (!header)
		return 0;
	while (!version && fgets(line, sizeof line, header))
		sscanf(line, "#define CUDA_VERSION %d", &version);
	fclose(header);
	return version;
}

__attribute__((format(printf, 3, 4))) static void list_tool(char list[], size_t capacity, const char *format, ...)
{
	size_t length = strlen(list);
	va_list arguments;

	if (length)
		length += snprintf(list + length, capacity - length, ", ");
	if (length >= capacity)
		return;
	va_start(arguments, format);
	vsnprintf(list + length, capacity - length, format, arguments);
	va_end(arguments);
}

// Checks for a CUDA toolkit. A missing tool is no failure, because Virgate needs no toolkit.
void doctor_toolkit(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_TOOLKIT, "CUDA toolkit");
	char found[sizeof check->found] = "", missing[sizeof check->found] = "", path[PATH_MAX], problem[1000];
	const struct vg_nvjitlink *nvjitlink;
	const struct vg_nvrtc *nvrtc;
	const struct vg_nvvm *nvvm;

#define LIST(name, tool, use)                                                                       \
	do {                                                                                        \
		if (vg_##tool##_load(&tool, problem, sizeof problem) == 0)                          \
			list_tool(found, sizeof found, "%s %d.%d", name, tool->major, tool->minor); \
		else                                                                                \
			list_tool(missing, sizeof missing, "%s (%s)", name, use);                   \
	} while (0)
	LIST("NVRTC", nvrtc, "compiles CUDA C++ at run time");
	LIST("NVVM", nvvm, "compiles NVVM IR at run time");
	LIST("nvJitLink", nvjitlink, "links object code, also LTO");
#undef LIST
	if (find_nvcc(path)) {
		int version = version_of(path);

		if (version)
			list_tool(found, sizeof found, "nvcc %d.%d%s at %s", version / 1000, version % 1000 / 10,
				  version < LEAST ? " (too old for building Virgate)" : "", path);
		else
			list_tool(found, sizeof found, "nvcc at %s", path);
	} else {
		list_tool(missing, sizeof missing, "nvcc (builds machine code, and what virgate-clang does not)");
	}
	doctor_say(check, *found ? DOCTOR_OK : DOCTOR_NOT_APPLICABLE, "%s%s%s%s", found, *found && *missing ? "; " : "",
		   *missing ? "not found: " : "", missing);
}
