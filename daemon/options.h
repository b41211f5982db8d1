// Converts compute shares and eviction options of vGPUs to and from JSON, for files and answers. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"

enum { OPTIONS_IDLE_MOST_S = 3600 };

void options_write_terms(json_t *object, const struct turn_terms *terms);
void options_write_eviction(json_t *object, const struct vgpu *vgpu);
// Read the terms or options from a file's JSON object. Return false if a field is invalid.
bool options_read_terms(const json_t *object, struct turn_terms *ret_terms);
bool options_read_eviction(const json_t *object, struct vgpu *ret_vgpu);
// Reads the eviction options of a vGPU that no state file describes, from its ledger. Limits the swap to the size of
// this machine's memory.
void options_read_ledger(const struct vg_ledger *ledger, struct vgpu *ret_vgpu);
// Returns the size of this machine's memory in bytes, or 0 if it is unknown.
uint64_t options_host_memory(void);
