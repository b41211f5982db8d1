// Keeps the figures of the last minutes for each vGPU and GPU, in a ring buffer. One thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HISTORY_SAMPLES = 600, HISTORY_KEY = 96 };

enum series {
	SERIES_MEMORY, // the used part of the vGPU's limit, or of the GPU's memory
	SERIES_TIME,   // the part of the GPU's time that was used
	SERIES_WAIT,   // the part of the time in which a vGPU waited for its turn
	SERIES_COUNT
};

struct history {
	char key[HISTORY_KEY];
	double created;				      // when the vGPU was created: tells two of the same name apart
	bool is_seen;				      // the vGPU or GPU is in the latest lists
	uint64_t count;				      // number of samples that were ever added
	float samples[HISTORY_SAMPLES][SERIES_COUNT]; // negative: unknown
	double time;				      // time of the last sample, in seconds of any clock
	uint64_t waited_ns, refusals, first_refusals;
	double refused; // when the last refusal was noticed; 0: none was
};

struct histories {
	struct history **list;
	size_t count;
};

// Finds the history with this key, and creates it if it does not exist. NULL: no memory is left.
struct history *histories_find(struct histories *histories, const char *key, double created);
// Returns the history with this key; NULL if it does not exist.
const struct history *histories_look(const struct histories *histories, const char *key);
// Removes the histories whose `is_seen` is false. Sets `is_seen` to false in all others.
void histories_sweep(struct histories *histories);
void histories_finish(struct histories *histories);

void history_add(struct history *history, double time, const float samples[SERIES_COUNT]);
// Returns the latest sample; negative: unknown. `history` may be NULL.
float history_last(const struct history *history, enum series series);
// Writes the values for `width` columns of a chart, the newest at the right. A value is the highest of `each` samples
// (`each` is at least 1), or -1 without samples. `history` may be NULL.
void history_levels(const struct history *history, enum series series, int width, unsigned each, float *ret_levels);
