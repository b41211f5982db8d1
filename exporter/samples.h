// Keeps a copy of the daemon's samples of the last hour, so that only new samples must be requested. Bounds the memory:
// only SAMPLES_SERIES_MOST vGPUs, and as many GPUs, have series, each in 40 KiB. One thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <virgate/journal.h>

enum { SAMPLES_MOST = 720, SAMPLES_SERIES_MOST = 64 };

// The samples of a vGPU or a GPU. The sample with the number n is at [n % SAMPLES_MOST].
struct samples_series {
	char vgpu[64]; // "": the series is of a GPU
	int device;
	uint64_t first; // the number of the first sample
	bool is_listed;
	bool is_whole; // false: the daemon may have older samples; a request for this vGPU alone gets them
	struct vg_history_sample at[SAMPLES_MOST];
};

struct samples {
	uint64_t last;	// the number of the last sample; 0: no sample
	unsigned every; // seconds between two samples
	double started; // start time of the daemon that numbered the samples
	size_t count;
	size_t left_out; // number of series in the last list that were not kept for lack of room
	struct samples_series **series;
};

// Adds the samples of a list. Forgets the series that the list does not have. If the daemon has started again, forgets
// all earlier samples. Returns 0, or -1 if there is no memory.
int samples_add(struct samples *samples, const struct vg_history_list *list, double daemon_started);
// Returns a series of a vGPU that lacks older samples, or NULL.
struct samples_series *samples_find_partial(const struct samples *samples);
// Adds the older samples in `list` to a series that samples_find_partial() returned. `list` may be NULL: the daemon has
// no older samples.
void samples_complete(struct samples_series *series, const struct vg_history_list *list);
// Returns the number of the oldest sample that is kept for the series.
uint64_t samples_first(const struct samples *samples, const struct samples_series *series);
void samples_finish(struct samples *samples);
