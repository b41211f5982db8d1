// The option --gpu-map: which GPU takes the place of which. One thread.
#pragma once
#include "options.h"
#include "virgate/process.h"

enum { MOST_GPUS = 64 };

struct gpus {
	struct vg_process_gpu_pair pairs[MOST_GPUS];
	size_t count;
	char *texts[MOST_GPUS]; // what the pairs point at
	size_t text_count;
};

#define OPTION_GPU_MAP                                                                                             \
	{                                                                                                          \
		"gpu-map", 0, "OLD=NEW", "use GPU NEW instead of OLD; map all GPUs or none", .again = true        \
	}

// 0, or the verb's exit code after words on stderr. To be given back however it ends.
int gpus_read(const struct arguments *arguments, struct gpus *gpus);
void gpus_free(struct gpus *gpus);
