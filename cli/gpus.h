// Reads the option --gpu-map, which maps GPUs of an image to GPUs of this machine. One thread.
#pragma once
#include "options.h"
#include "virgate/process.h"

enum { MOST_GPUS = 64 };

struct gpus {
	struct vg_process_gpu_pair pairs[MOST_GPUS];
	size_t count;
	char *texts[MOST_GPUS]; // owns the strings of the pairs
	size_t text_count;
};

#define OPTION_GPU_MAP                                                                                     \
	{                                                                                                  \
		"gpu-map", 0, "OLD=NEW", "use GPU NEW instead of OLD; map all GPUs or none", .again = true \
	}

// Reads the option --gpu-map into `gpus`, which must be zeroed. Returns 0, or the verb's exit code after a message. The
// caller frees `gpus` even after a failure.
int gpus_read(const struct arguments *arguments, struct gpus *gpus);
void gpus_free(struct gpus *gpus);
