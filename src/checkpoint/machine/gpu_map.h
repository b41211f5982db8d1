// Maps each GPU of an image to a GPU of this machine. One thread.
#pragma once
#include "virgate/process.h"

#include <jansson.h>

enum { GPU_MAP_MOST = 64, GPU_MAP_UUID = 41 };

struct gpu_map {
	size_t count; // number of pairs; 0: each process stays on the same GPU
	struct vg_process_gpu_pair pairs[GPU_MAP_MOST];
	char uuids[GPU_MAP_MOST][2][GPU_MAP_UUID]; // "GPU-" and 32 digits in groups; `pairs` points here
};

// Makes a map from the pairs that the user asked for. `asked` may contain indices instead of UUIDs: an old GPU has its
// index in the image, and a new GPU has its index in this machine. INVALID (the image has no such GPU, or a GPU is
// missing or named twice), NOT_FOUND (this machine has no such GPU), UNSUPPORTED (another model, or a driver before
// 13.0), INTEGRITY.
enum vg_status gpu_map_make(const json_t *description, const struct vg_process_gpu_pair *asked, size_t count,
			    struct gpu_map *ret_map);
