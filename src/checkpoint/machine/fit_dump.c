// Checks that there is room for a dump: a dump first moves device memory to host memory, and then writes all memory to
// the disk.
#include "checkpoint/machine/fit.h"

#include "base/size.h"
#include "base/status.h"
#include "checkpoint/machine/describe.h"
#include "checkpoint/process/host_memory.h"
#include "checkpoint/process/refusal.h"

#include <errno.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

enum { TMPFS = 0x01021994, RAMFS = 0x858458f6 };

// Adds up the memory of the tree on all GPUs. Returns 0 if it is unknown.
static uint64_t sum_memory(const json_t *description)
{
	uint64_t sum = 0;
	json_t *gpu;
	size_t i;

	json_array_foreach(json_object_get(description, "gpus"), i, gpu)
		sum += (uint64_t)json_integer_value(json_object_get(gpu, "held"));
	return sum;
}

enum vg_status fit_disk(const char *directory, uint64_t need, enum vg_compression compression, uint64_t *ret_memory)
{
	char text[2][VG_SIZE_TEXT];
	struct statfs disk;

	*ret_memory = 0;
	if (statfs(directory, &disk) < 0)
		return vg_fail(VG_SYSTEM, errno, "%s: %s", directory, strerror(errno));
	uint64_t have = (uint64_t)disk.f_bavail * (uint64_t)disk.f_bsize;
	// The compressed size is unknown before the dump. If the disk becomes full, the dump is rolled back.
	if (compression)
		return VG_OK;
	if ((unsigned long)disk.f_type == TMPFS || (unsigned long)disk.f_type == RAMFS)
		*ret_memory = need;
	if (need <= have || (unsigned long)disk.f_type == RAMFS)
		return VG_OK;
	enum vg_status status =
		refuse(REFUSE_DISK, 0,
		       "the image takes up to %s, and %s has %s free: name another directory with --dir, "
		       "free disk space, or compress (--compress lz4)",
		       vg_size_format(need, text[0]), directory, vg_size_format(have, text[1]));
	vg_fail_amounts(need, have);
	return status;
}

enum vg_status fit_dump(const struct tree *tree, const json_t *description, const char *directory,
			enum vg_compression compression, uint64_t parked, uint64_t *ret_bytes)
{
	uint64_t device = sum_memory(description), host = 0, memory, bytes;

	for (size_t i = 0; i < tree->count; i++)
		if (describe_host_memory(tree->processes[i].pid, &bytes))
			host += bytes;
	enum vg_status status =
		host_memory_check(tree->processes[0].pid, device, "the device memory goes to host memory and takes");
	if (status)
		return status;
	status = fit_disk(directory, device + host + parked, compression, &memory);
	if (status)
		return status;
	if (memory)
		status = host_memory_check(getpid(), device + memory,
					   "the device memory goes to host memory, and the image, too: they take");
	if (status == VG_OK)
		*ret_bytes = device + host;
	return status;
}
