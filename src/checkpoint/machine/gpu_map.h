// Which GPU of this machine takes the place of each GPU of an image. One thread.
#pragma once
#include "virgate/process.h"

#include <jansson.h>

enum { GPU_MAP_MOST = 64, GPU_MAP_UUID = 41 };

struct gpu_map {
	size_t count; // 0: each GPU stays itself
	struct vg_process_gpu_pair pairs[GPU_MAP_MOST];
	char uuids[GPU_MAP_MOST][2][GPU_MAP_UUID]; // as "GPU-" and 32 digits in groups: what `pairs` points at
};

// `asked` may say indices: the old one's in the image, the new one's here. INVALID (no GPU of the image, one of it left
// out, one named twice), NOT_FOUND (no such GPU here), UNSUPPORTED (another model; a driver before 13.0), INTEGRITY.
enum vg_status gpu_map_make(const json_t *description, const struct vg_process_gpu_pair *asked, size_t count,
			    struct gpu_map *ret_map);
