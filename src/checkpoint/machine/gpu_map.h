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

// Makes a map from pairs of an old GPU (in the image) and a new GPU (in this machine). `asked` has the pairs that the
// user asked for. It may name a GPU by its index in the image or in this machine, instead of its UUID. INVALID (the
// image has no such GPU, the pairs leave out a GPU of the image, or they name a GPU twice), NOT_FOUND (this machine has
// no such GPU), UNSUPPORTED (another model, or a driver before 13.0), INTEGRITY (the image describes a GPU
// incompletely).
enum vg_status gpu_map_make(const json_t *description, const struct vg_process_gpu_pair *asked, size_t count,
			    struct gpu_map *ret_map);
