// Makes parts of the listing of one vGPU. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"

// Returns the figures of the vGPU's compute share and turns; null if the vGPU takes no part in turns.
json_t *listing_turns(const struct vgpu *vgpu);
// Return the eviction state of a vGPU or a process; null if the vGPU is not evictable or its ledger is damaged.
json_t *listing_eviction(const struct vgpu *vgpu);
json_t *listing_tenant_eviction(const struct tenant *tenant);
// Returns "begun" or "done" for a process that is suspended with --deep; else null.
json_t *listing_deep(const struct tenant *tenant);
