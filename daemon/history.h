// The figures of each vGPU and each GPU in the last hour: a sample every HISTORY_EVERY_S. Samples are in memory only.
// At most HISTORY_VGPUS vGPUs have them, each in 40 KiB. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"

// An answer has at most HISTORY_ANSWER samples, because the main loop waits while it is made.
enum { HISTORY_EVERY_S = 5, HISTORY_SAMPLES = 720, HISTORY_VGPUS = 256, HISTORY_ANSWER = 8 * HISTORY_SAMPLES };

// Takes a sample if one is due. Lowers *deadline to the time of the next one.
void history_keep(struct node *node, uint64_t now, uint64_t *deadline);
struct history_query {
	const struct vgpu *vgpu; // NULL: all vGPUs, and all GPUs
	uint64_t after;		 // only samples with larger numbers; numbers count the samples of this daemon from 1
	unsigned int most;	 // only so many of the newest samples
};
// Lists the samples of each vGPU and GPU, as arrays of one length. An unknown figure is null. If all samples are more
// than HISTORY_ANSWER, lists only the newest of each vGPU and GPU.
json_t *history_list(const struct node *node, const struct history_query *query);
// Returns how long ago the last sample was due and not taken, at most; a measure of the loop's delays.
uint64_t history_worst_delay_ns(void);
