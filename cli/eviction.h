// Reads the options of evictable vGPUs, and formats their state for listings. One thread.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "session.h"

enum { EVICTION_TEXT = 512 };

// Reads --evictable, --swap, --fixed and --idle-suspend into `options`. `config` has the default values, or is NULL.
// Returns 0, or the verb's usage exit code after a message on standard error.
int read_eviction(const struct arguments *arguments, const struct config *config, struct vg_vgpu_options *options);

// Formats why a process could not do the last suspend or resume, and what the user can do. The text is the end of a
// sentence.
const char *eviction_reason(const struct vg_eviction_info *eviction, char buffer[EVICTION_TEXT]);
// Returns a text that says how much of the memory was in the host already and was not copied; "" if none was.
const char *unchanged_text(const struct vg_eviction_info *eviction, char buffer[EVICTION_TEXT]);
// Prints a line for each process of the vGPU that could not be suspended, or that waits to be resumed.
void print_not_moved(const struct vg_vgpu_info *vgpu, FILE *out);
// Returns whether the vGPU is evictable, or the driver has suspended one of its processes.
bool has_state(const struct vg_vgpu_info *vgpu);
// Returns the state of a process as a text, such as "suspended" or "suspended, deep"; "-" if it is unknown or the
// process has no evictable memory.
const char *eviction_state(const struct vg_tenant_info *tenant);
// Prints the lines of `inspect` about eviction. Prints nothing if the vGPU is not evictable.
void print_eviction(const struct vg_vgpu_info *vgpu);
// These functions return JSON objects, or JSON null if the state is unknown. Times are in seconds.
json_t *eviction_json(const struct vg_eviction_info *eviction);
json_t *deep_json(const struct vg_tenant_info *tenant);
json_t *vgpu_eviction_json(const struct vg_vgpu_info *vgpu);
