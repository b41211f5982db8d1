#include "dump_options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "checkpoint/image/image.h"
#include "say.h"

// Reads --compress: "none", "lz4", "zstd" or "zstd:19".
static int read_compression(const struct arguments *arguments, struct vg_dump_options *options)
{
	static const char *const names[] = {"none", "lz4", "zstd"};
	const char *text = option_value(arguments, "compress"), *colon = text ? strchr(text, ':') : NULL;
	size_t length = colon ? (size_t)(colon - text) : text ? strlen(text) : 0;
	char *end = "";

	if (!text)
		return 0;
	long level = colon ? strtol(colon + 1, &end, 10) : 0;
	bool sound = !colon || (end != colon + 1 && !*end && level >= INT_MIN && level <= INT_MAX);
	for (int i = 0; sound && i < 3; i++) {
		if (strlen(names[i]) != length || strncmp(names[i], text, length) != 0)
			continue;
		options->compression = (enum vg_compression)i;
		options->compression_level = (int)level;
		// The library checks the level, because it knows the valid levels.
		if (image_check_compression(options->compression, options->compression_level) == VG_OK)
			return 0;
		return say_usage(arguments->verb, "--compress \"%s\": %s", text, vg_last_error()->text);
	}
	return say_usage(arguments->verb,
			 "--compress \"%s\" is not a method: give none, lz4, zstd, or zstd:N for "
			 "level N",
			 text);
}

int dump_options_read(const struct arguments *arguments, struct vg_dump_options *ret_options)
{
	struct vg_dump_options options = {.size = sizeof options, .progress = checkpoint_show_progress};
	long pid, seconds;

	int r = checkpoint_read_number(arguments, "pid", 4194304, &pid);
	if (r == 0)
		r = checkpoint_read_number(arguments, "timeout", 86400, &seconds);
	if (r == 0)
		r = read_compression(arguments, &options);
	if (r)
		return r;
	options.pid = (pid_t)pid;
	options.vgpu = option_value(arguments, "vgpu");
	if (options.pid && options.vgpu)
		return say_usage(arguments->verb, "--pid and --vgpu: give one of them");
	options.cpu_only = option_value(arguments, "cpu-only") != NULL;
	options.shell_job = option_value(arguments, "shell-job") != NULL;
	options.tcp_established = option_value(arguments, "tcp-established") != NULL;
	options.file_locks = option_value(arguments, "file-locks") != NULL;
	options.lock_timeout_ms = (unsigned)seconds * 1000;
	*ret_options = options;
	return 0;
}

int dump_guard(const struct arguments *arguments, const struct vg_dump_options *options, const char *scratch,
	       struct guard *ret_guard)
{
	const struct guarded guarded = {
		.dir = options->dir, .leave_running = options->leave_running, .scratch = scratch};

	return guard_start_for_target(arguments, options->vgpu, options->pid, &guarded, ret_guard);
}
