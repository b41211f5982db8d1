// Keeps the figures of each vGPU and each GPU for the last hour, with a sample every HISTORY_EVERY_S. The samples are
// in memory only. At most HISTORY_VGPUS vGPUs have samples, 40 KiB for each vGPU. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"

// An answer has at most HISTORY_ANSWER samples, because the main loop is busy while it makes the answer.
enum { HISTORY_EVERY_S = 5, HISTORY_SAMPLES = 720, HISTORY_VGPUS = 256, HISTORY_ANSWER = 8 * HISTORY_SAMPLES };

// Takes a sample if it is time for one. Lowers *deadline to the time of the next sample.
void history_keep(struct node *node, uint64_t now, uint64_t *deadline);
struct history_query {
	const struct vgpu *vgpu; // NULL: all vGPUs, and all GPUs
	uint64_t after;		 // list only samples with larger numbers; this daemon counts its samples from 1
	unsigned int most;	 // list at most so many samples, the newest ones
};
// Lists the samples of each vGPU and GPU, as arrays of equal length. An unknown figure is null. An answer has no more
// than HISTORY_ANSWER samples in all; if there are more, it has only the newest samples of each vGPU and GPU.
json_t *history_list(const struct node *node, const struct history_query *query);
// Returns by how much a sample was late at most. This is a measure of the main loop's delays.
uint64_t history_worst_delay_ns(void);
