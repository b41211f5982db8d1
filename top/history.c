#include "top/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct history *add_history(struct histories *histories, const char *key, double created)
{
	struct history **list = realloc(histories->list, (histories->count + 1) * sizeof *list);

	if (!list)
		return NULL;
	histories->list = list;
	struct history *history = calloc(1, sizeof *history);
	if (!history)
		return NULL;
	snprintf(history->key, sizeof history->key, "%s", key);
	history->created = created;
	list[histories->count++] = history;
	return history;
}

struct history *histories_find(struct histories *histories, const char *key, double created)
{
	for (size_t i = 0; i < histories->count; i++) {
		struct history *history = histories->list[i];
		if (strcmp(history->key, key) != 0)
			continue;
		if (history->created != created) // NOLINT: a new vGPU with the name of an earlier one
			*history = (struct history){.created = created};
		snprintf(history->key, sizeof history->key, "%s", key);
		return history;
	}
	return add_history(histories, key, created);
}

const struct history *histories_look(const struct histories *histories, const char *key)
{
	for (size_t i = 0; i < histories->count; i++)
		if (strcmp(histories->list[i]->key, key) == 0)
			return histories->list[i];
	return NULL;
}

void histories_sweep(struct histories *histories)
{
	size_t kept = 0;

	for (size_t i = 0; i < histories->count; i++) {
		struct history *history = histories->list[i];
		if (!history->is_seen) {
			free(history);
			continue;
		}
		history->is_seen = false;
		histories->list[kept++] = history;
	}
	histories->count = kept;
}

void histories_finish(struct histories *histories)
{
	for (size_t i = 0; i < histories->count; i++)
		free(histories->list[i]);
	free(histories->list);
	*histories = (struct histories){0};
}

void history_add(struct history *history, double time, const float samples[SERIES_COUNT])
{
	memcpy(history->samples[history->count % HISTORY_SAMPLES], samples, sizeof history->samples[0]);
	history->count++;
	history->time = time;
}

float history_last(const struct history *history, enum series series)
{
	return history && history->count ? history->samples[(history->count - 1) % HISTORY_SAMPLES][series] : -1;
}

// Each column shows the highest of a group of `each` samples. A group begins at a sample whose number is a multiple of
// `each`. So a group keeps its samples while the chart moves to the left.
void history_levels(const struct history *history, enum series series, int width, unsigned each, float *ret_levels)
{
	uint64_t count = history ? history->count : 0;
	uint64_t first = count > HISTORY_SAMPLES ? count - HISTORY_SAMPLES : 0;
	int64_t newest = count ? (int64_t)((count - 1) / each) : -1;

	for (int i = 0; i < width; i++) {
		int64_t column = newest - (width - 1 - i);
		ret_levels[i] = -1;
		for (unsigned j = 0; column >= 0 && j < each; j++) {
			uint64_t number = (uint64_t)column * each + j;
			if (number < first || number >= count)
				continue;
			float level = history->samples[number % HISTORY_SAMPLES][series];
			ret_levels[i] = level > ret_levels[i] ? level : ret_levels[i];
		}
	}
}
