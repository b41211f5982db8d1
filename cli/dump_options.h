// Reads the options about processes and their image, which dump and migrate have in common. One thread.
#pragma once
#include "guard.h"
#include "options.h"
#include "virgate/checkpoint.h"

// clang-format off
#define DUMP_OPTIONS                                                                                                   \
	{"pid", 'p', "PID", "the process; its children are included", 0},                                              \
	{"vgpu", 'v', "NAME", "all processes that run inside this vGPU, and their children", COMPLETE_VGPU},           \
	{"compress", 0, "METHOD", "none, lz4, zstd or zstd:LEVEL; pages of zeros are never written", 0},               \
	{"cpu-only", 0, NULL, "accept processes that do not use CUDA", 0},                                             \
	{"timeout", 0, "SECONDS", "how long to wait for work on the GPU to end; default: 10", 0},                      \
	{"shell-job", 0, NULL, "accept a process on a terminal", 0},                                                   \
	{"tcp-established", 0, NULL, "include open TCP connections", 0},                                               \
	{"file-locks", 0, NULL, "include file locks", 0}
// clang-format on

// Reads all options in DUMP_OPTIONS except the image's directory. Returns 0, or the verb's usage exit code after a
// message.
int dump_options_read(const struct arguments *arguments, struct vg_dump_options *ret_options);
// Starts a guard process for a dump with these options. `scratch`: see struct guarded.
int dump_guard(const struct arguments *arguments, const struct vg_dump_options *options, const char *scratch,
	       struct guard *ret_guard);
