// Lists vGPUs and devices as JSON. An unknown value is null, never 0. Changes nothing: the caller updates the figures
// with measure_for_listing() first. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/authority.h"
#include "daemon/node.h"

// LISTING_SUMMARY leaves out the tenants and the path of the ledger.
enum listing_detail { LISTING_SUMMARY, LISTING_FULL };
json_t *listing_vgpu(const struct node *node, const struct vgpu *vgpu, enum listing_detail detail);
// Lists all vGPUs. The tenants of a vGPU are included only if the peer may see them.
json_t *listing_vgpus(const struct node *node, const struct authority_peer *peer);
// Sums up the physical memory of the vGPU's processes. Returns whether the sum is known.
bool listing_physical(const struct node *node, const struct vgpu *vgpu, uint64_t *ret_bytes);
json_t *listing_devices(const struct node *node, uid_t user);
json_t *listing_refusals(const struct vgpu *vgpu);
