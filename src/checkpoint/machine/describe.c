// Describes the machine and the processes for an image.
#include "checkpoint/machine/describe.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/image/image.h"
#include "virgate/system.h"
#include "virgate/version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

json_t *describe_driver(void)
{
	struct vg_system_version version;
	char text[64] = "";
	size_t length = 0;
	int major, minor;

	if (vg_system_kernel_driver_version(&version))
		version.count = 0;
	for (unsigned i = 0; i < version.count && length < sizeof text; i++)
		length += (size_t)snprintf(text + length, sizeof text - length, i ? ".%02u" : "%u", version.part[i]);
	bool cuda = vg_system_user_driver_version(&major, &minor) == VG_OK;
	return json_pack("{s:o, s:o}", "version", *text ? json_string(text) : json_null(), "cuda",
			 cuda ? json_sprintf("%d.%d", major, minor) : json_null());
}

// Returns the value of a key for the first processor in /proc/cpuinfo.
static json_t *cpu_line(const char *text, const char *key)
{
	const char *line = strstr(text, key);
	const char *value = line ? strchr(line, ':') : NULL;

	return value ? json_sprintf("%.*s", (int)strcspn(value + 2, "\n"), value + 2) : json_null();
}

json_t *describe_cpu(void)
{
	char text[16384] = "";

	_cleanup_close_ int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : vg_read_all(fd, text, sizeof text - 1, -1);
	text[length > 0 ? length : 0] = '\0';
	return json_pack("{s:o, s:o}", "model", cpu_line(text, "\nmodel name"), "features", cpu_line(text, "\nflags"));
}

enum vg_status describe_dump(const struct tree *tree, const struct criu *criu, json_t **ret_description)
{
	json_t *processes = json_array(), *roots = json_array();
	struct utsname system;

	if (uname(&system) < 0)
		return vg_fail(VG_SYSTEM, errno, "uname: %s", strerror(errno));
	for (size_t i = 0; i < tree->count; i++)
		json_array_append_new(processes, describe_process(&tree->processes[i]));
	for (size_t i = 0; i < tree->root_count; i++)
		json_array_append_new(roots, json_integer(tree->processes[i].pid));
	json_t *gpus = describe_gpus(tree, processes), *host = json_string(system.nodename);
	*ret_description =
		json_pack("{s:i, s:f, s:s, s:s, s:o, s:{s:s, s:s}, s:o, s:o, s:o, s:o, s:o}", "version",
			  IMAGE_VERSION_WITHOUT_PACKS, "created", (double)vg_clock_realtime_ns() / 1e9, "virgate",
			  VG_VERSION_TEXT, "criu", criu->version, "host", host ? host : json_null(), "kernel",
			  "release", system.release, "machine", system.machine, "cpu", describe_cpu(), "driver",
			  describe_driver(), "roots", roots, "gpus", gpus, "processes", processes);
	if (!*ret_description)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for an image's description");
	return VG_OK;
}
