// What dump and migrate are told of the processes and their image. One thread.
#pragma once
#include "guard.h"
#include "options.h"
#include "virgate/checkpoint.h"

// clang-format off
#define DUMP_OPTIONS                                                                                                   \
	{"pid", 'p', "PID", "the process; its children go with it", 0},                                                \
	{"vgpu", 'v', "NAME", "all that run inside this vGPU, and their children", COMPLETE_VGPU},                     \
	{"compress", 0, "METHOD", "none, lz4, zstd or zstd:LEVEL; zero pages are left out in any case", 0},            \
	{"cpu-only", 0, NULL, "also processes that do not use CUDA", 0},                                               \
	{"timeout", 0, "SECONDS", "how long work on the GPU may take to end; 10 by itself", 0},                        \
	{"shell-job", 0, NULL, "the process hangs on a terminal", 0},                                                  \
	{"tcp-established", 0, NULL, "write open TCP connections down", 0},                                            \
	{"file-locks", 0, NULL, "write locks of files down", 0}
// clang-format on

// All but where the image shall lie. 0, or the verb's usage exit code after words on stderr.
int dump_options_read(const struct arguments *arguments, struct vg_dump_options *ret_options);
// As guard_start(), for what the options say; `scratch` as there.
int dump_guard(const struct arguments *arguments, const struct vg_dump_options *options, const char *scratch,
	       struct guard *ret_guard);
