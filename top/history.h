// The figures of the last minutes of a vGPU or a GPU, in a ring. One thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HISTORY_SAMPLES = 600, HISTORY_KEY = 96 };

enum series {
	SERIES_MEMORY, // part of the limit, or of the GPU's memory
	SERIES_TIME,   // part of the GPU's time
	SERIES_WAIT,   // part of the time for which a vGPU waited for its turn
	SERIES_COUNT
};

struct history {
	char key[HISTORY_KEY];
	double created;				      // tells apart two vGPUs of the same name
	bool is_seen;				      // in the latest lists
	uint64_t count;				      // samples since the beginning
	float samples[HISTORY_SAMPLES][SERIES_COUNT]; // negative: unknown
	double time;				      // of the last sample, in seconds of any clock
	uint64_t waited_ns, refusals, first_refusals;
	double refused; // the time of the last refusal; 0: none has been seen
};

struct histories {
	struct history **list;
	size_t count;
};

// Returns the history of a key; creates it. NULL: no memory is left.
struct history *histories_find(struct histories *histories, const char *key, double created);
// Returns the history, or NULL.
const struct history *histories_look(const struct histories *histories, const char *key);
// Removes all whose `is_seen` is false, and sets it to false in the others.
void histories_sweep(struct histories *histories);
void histories_finish(struct histories *histories);

void history_add(struct history *history, double time, const float samples[SERIES_COUNT]);
// Returns the latest sample; negative: unknown. `history` may be NULL.
float history_last(const struct history *history, enum series series);
// Fills in `width` columns of a chart, the newest at the right. Each has the highest of `each` samples, at least 1, or
// -1. `history` may be NULL.
void history_levels(const struct history *history, enum series series, int width, unsigned each, float *ret_levels);
