// Keeps all ids that a manager's vGPUs ever had, to distinguish destroyed vGPUs from unknown ones.
#include "manager/manager.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

// Returns the index of the first range (run) that ends at `id` or later; `count` if no range does.
static size_t find_run(const struct manager_ids *ids, int id)
{
	size_t low = 0, high = ids->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ids->runs[middle].last < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool manager_ids_have(const struct manager_ids *ids, int id)
{
	size_t at = find_run(ids, id);

	return at < ids->count && ids->runs[at].first <= id;
}

static bool insert_run(struct manager_ids *ids, size_t at, int id)
{
	if (ids->count == ids->capacity) {
		size_t capacity = ids->capacity ? 2 * ids->capacity : 8;
		struct id_run *runs = realloc(ids->runs, capacity * sizeof *runs);
		if (!runs)
			return false;
		ids->runs = runs;
		ids->capacity = capacity;
	}
	memmove(&ids->runs[at + 1], &ids->runs[at], (ids->count - at) * sizeof *ids->runs);
	ids->runs[at] = (struct id_run){id, id};
	ids->count++;
	return true;
}

bool manager_ids_add(struct manager_ids *ids, int id)
{
	size_t at = find_run(ids, id);

	if (at < ids->count && ids->runs[at].first <= id)
		return true;
	bool before = at > 0 && ids->runs[at - 1].last == id - 1,
	     behind = at < ids->count && ids->runs[at].first == id + 1;
	if (before && behind) {
		ids->runs[at - 1].last = ids->runs[at].last;
		memmove(&ids->runs[at], &ids->runs[at + 1], (--ids->count - at) * sizeof *ids->runs);
	} else if (before) {
		ids->runs[at - 1].last = id;
	} else if (behind) {
		ids->runs[at].first = id;
	} else {
		return insert_run(ids, at, id);
	}
	return true;
}

int manager_ids_next(const struct manager_ids *ids)
{
	if (ids->count == 0 || ids->runs[0].first > 1)
		return 1;
	return ids->runs[0].last == INT_MAX ? 0 : ids->runs[0].last + 1;
}
