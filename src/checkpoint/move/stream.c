#include "checkpoint/move/stream.h"

#include "base/descriptor.h"
#include "base/status.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { STREAM_VERSION = 1, STREAM_VERSION_WITH_PACKS = 2, ANSWERS = 1 };
static const char magic[8] = {'v', 'i', 'r', 'g', 'a', 't', 'e', '\n'};

// The header as it is sent.
struct header {
	char magic[8];
	uint32_t version, flags;
	uint64_t pid_namespace;
	char boot[40];
};

// Identifies this kernel and pid namespace in the header. Two machines or containers never have the same
// identification.
static void say_where(struct header *header)
{
	struct stat info;

	if (vg_file_read("/proc/sys/kernel/random/boot_id", header->boot, sizeof header->boot) < 0)
		header->boot[0] = '\0';
	if (stat("/proc/self/ns/pid", &info) == 0)
		header->pid_namespace = info.st_ino;
}

enum vg_status stream_failed(const struct frames *frames, int error, const char *path, const char *name)
{
	return vg_fail(VG_SYSTEM, error, "%s/%s: %s", path, name, strerror(error));
}

enum vg_status stream_begin(struct frames *frames, bool answers, bool has_packs)
{
	struct header header = {.version = has_packs ? STREAM_VERSION_WITH_PACKS : STREAM_VERSION,
				.flags = answers ? ANSWERS : 0};

	memcpy(header.magic, magic, sizeof magic);
	say_where(&header);
	return frames_write_plain(frames, &header, sizeof header);
}

enum vg_status stream_accept(struct frames *frames, struct stream_header *ret_header)
{
	struct header header, here = {0};

	enum vg_status status = frames_read_plain(frames, &header, sizeof header);
	if (status)
		return status;
	if (memcmp(header.magic, magic, sizeof magic) != 0)
		return vg_fail(VG_PROTOCOL, 0, "what comes in is no image of Virgate's");
	if (header.version != STREAM_VERSION && header.version != STREAM_VERSION_WITH_PACKS)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "the image comes in version %u of its stream, and this Virgate reads %d and %d",
			       header.version, STREAM_VERSION, STREAM_VERSION_WITH_PACKS);
	say_where(&here);
	*ret_header =
		(struct stream_header){.answers = header.flags & ANSWERS,
				       .has_packs = header.version == STREAM_VERSION_WITH_PACKS,
				       .same_processes = here.boot[0] && here.pid_namespace == header.pid_namespace &&
							 memcmp(here.boot, header.boot, sizeof here.boot) == 0};
	return VG_OK;
}
