// Evictable vGPUs on the command line: options, and what listings say about them. One thread.
#pragma once
#include <jansson.h>
#include <stdio.h>

#include "session.h"

enum { EVICTION_TEXT = 512 };

// Reads --evictable, --swap and --fixed, or the settings in `config` (NULL: none), into `options`. 0, or the verb's usage exit
// code after a message on standard error.
int read_eviction(const struct arguments *arguments, const struct config *config, struct vg_vgpu_options *options);

// Why a process gave up the last request, and what to do: the end of a sentence.
const char *eviction_reason(const struct vg_eviction_info *eviction, char buffer[EVICTION_TEXT]);
// A line for each process of the vGPU that could not be suspended, or waits to be resumed.
void print_not_moved(const struct vg_vgpu_info *vgpu, FILE *out);
// "suspended", or "-" for what is not known.
const char *eviction_state(const struct vg_eviction_info *eviction);
// The lines of `inspect`.
void print_eviction(const struct vg_vgpu_info *vgpu);
// JSON: null for what is not known; times are seconds.
json_t *eviction_json(const struct vg_eviction_info *eviction);
json_t *vgpu_eviction_json(const struct vg_vgpu_info *vgpu);

// The options of the verbs that make a vGPU.
#define OPTION_EVICTABLE                                                                                               \
	{"evictable", 'e', NULL, "device memory of its programs can move to the host, see virgate suspend", 0}
#define OPTION_FIXED                                                                                                   \
	{"fixed", 0, "SIZE", "evictable: part of the memory for what cannot move; default: a context and up to 1 GiB", 0}
#define OPTION_SWAP                                                                                                    \
	{"swap", 0, "SIZE", "evictable: host memory that each process may use; default: the memory limit", 0}
