#include "exporter/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct samples_series *find_series(const struct samples *samples, const struct vg_history_series *wanted)
{
	for (size_t i = 0; i < samples->count; i++)
		if (samples->series[i]->device == wanted->device && strcmp(samples->series[i]->vgpu, wanted->vgpu) == 0)
			return samples->series[i];
	return NULL;
}

// Returns whether no further series of this kind can be kept. The kinds are series of vGPUs and series of GPUs.
static bool is_full(const struct samples *samples, const struct vg_history_series *wanted)
{
	size_t count = 0;

	for (size_t i = 0; i < samples->count; i++)
		count += !*samples->series[i]->vgpu == !*wanted->vgpu;
	return count >= SAMPLES_SERIES_MOST;
}

static struct samples_series *add_series(struct samples *samples, const struct vg_history_series *from, bool is_whole)
{
	struct samples_series **grown = realloc(samples->series, (samples->count + 1) * sizeof *grown);

	if (!grown)
		return NULL;
	samples->series = grown;
	struct samples_series *series = calloc(1, sizeof *series);
	if (!series)
		return NULL;
	snprintf(series->vgpu, sizeof series->vgpu, "%s", from->vgpu);
	series->device = from->device;
	series->first = from->first;
	series->is_whole = is_whole;
	samples->series[samples->count++] = series;
	return series;
}

static void remove_unlisted(struct samples *samples)
{
	size_t kept = 0;

	for (size_t i = 0; i < samples->count; i++) {
		if (samples->series[i]->is_listed)
			samples->series[kept++] = samples->series[i];
		else
			free(samples->series[i]);
	}
	samples->count = kept;
}

// Returns whether the list has all samples after `after`: the daemon limits the number of samples in an answer. A
// complete list has a series, that of a GPU, with a sample for each number.
static bool is_whole(const struct vg_history_list *list, uint64_t after)
{
	uint64_t wanted = list->last > after ? list->last - after : 0, longest = 0;

	for (size_t i = 0; i < list->count; i++)
		longest = list->series[i].count > longest ? list->series[i].count : longest;
	return longest >= (wanted < SAMPLES_MOST ? wanted : SAMPLES_MOST);
}

static void copy_samples(struct samples_series *to, const struct vg_history_series *from, bool is_whole)
{
	for (size_t i = 0; i < from->count; i++)
		to->at[(from->first + i) % SAMPLES_MOST] = from->samples[i];
	to->is_listed = true;
	to->is_whole &= is_whole;
}

int samples_add(struct samples *samples, const struct vg_history_list *list, double daemon_started)
{
	if (samples->started != daemon_started || list->last < samples->last)
		samples_finish(samples);
	bool has_all = is_whole(list, samples->last);
	// If vGPUs were left out before, a vGPU that is new in this list may be one of them. Then the daemon has older
	// samples of it.
	bool had_room = samples->left_out == 0;
	samples->left_out = 0;
	for (size_t i = 0; i < samples->count; i++)
		samples->series[i]->is_listed = false;
	for (size_t i = 0; i < list->count; i++) {
		const struct vg_history_series *from = &list->series[i];
		struct samples_series *to = find_series(samples, from);
		if (!to && is_full(samples, from)) {
			samples->left_out++;
			continue;
		}
		if (!to && !(to = add_series(samples, from, had_room)))
			return -1;
		if (from->count && from->first > samples->last + 1)
			to->first = from->first; // samples are missing in between, or the name is that of a new vGPU
		copy_samples(to, from, has_all);
	}
	remove_unlisted(samples);
	samples->last = list->last;
	samples->every = list->every;
	samples->started = daemon_started;
	return 0;
}

struct samples_series *samples_find_partial(const struct samples *samples)
{
	for (size_t i = 0; i < samples->count; i++)
		if (*samples->series[i]->vgpu && !samples->series[i]->is_whole)
			return samples->series[i];
	return NULL;
}

void samples_complete(struct samples_series *series, const struct vg_history_list *list)
{
	const struct vg_history_series *from = list && list->count == 1 ? &list->series[0] : NULL;

	series->is_whole = true;
	if (!from || from->count > SAMPLES_MOST || from->first >= series->first ||
	    from->first + from->count < series->first)
		return;
	for (uint64_t number = from->first; number < series->first; number++)
		series->at[number % SAMPLES_MOST] = from->samples[number - from->first];
	series->first = from->first;
}

uint64_t samples_first(const struct samples *samples, const struct samples_series *series)
{
	uint64_t oldest = samples->last >= SAMPLES_MOST ? samples->last - SAMPLES_MOST + 1 : 1;

	return series->first > oldest ? series->first : oldest;
}

void samples_finish(struct samples *samples)
{
	for (size_t i = 0; i < samples->count; i++)
		free(samples->series[i]);
	free(samples->series);
	*samples = (struct samples){0};
}
