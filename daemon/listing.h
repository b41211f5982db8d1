// vGPUs and devices as JSON. What is unknown is null, never 0. Changes nothing: measure_for_listing() brings the
// figures up to date before. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/authority.h"
#include "daemon/node.h"

// LISTING_SUMMARY: without the tenants and the path of the ledger.
enum listing_detail { LISTING_SUMMARY, LISTING_FULL };
json_t *listing_vgpu(const struct node *node, const struct vgpu *vgpu, enum listing_detail detail);
// Lists all vGPUs, with the tenants of those whose tenants the peer may see.
json_t *listing_vgpus(const struct node *node, const struct authority_peer *peer);
json_t *listing_devices(const struct node *node);
json_t *listing_refusals(const struct vgpu *vgpu);
