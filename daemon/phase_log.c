#include "daemon/phase_log.h"

#include <stdatomic.h>
#include <stdlib.h>

struct phase_log {
	uint64_t count;	      // number of records that were ever added to this log
	uint64_t overwritten; // number of the newest record that was overwritten; 0: none
	struct phase_record records[PHASE_RECORDS];
};

static _Atomic uint64_t newest;

struct phase_log *phase_log_create(void)
{
	return calloc(1, sizeof(struct phase_log));
}

void phase_log_destroy(struct phase_log *log)
{
	free(log);
}

void phase_log_add(struct phase_log *log, const struct phase_record *record)
{
	struct phase_record *place = &log->records[log->count++ % PHASE_RECORDS];

	log->overwritten = place->number;
	*place = *record;
	place->number = atomic_fetch_add(&newest, 1) + 1;
}

uint64_t phase_log_newest(void)
{
	return atomic_load(&newest);
}

size_t phase_log_read(const struct phase_log *log, const struct phase_range *range, struct phase_record *ret_records,
		      size_t most, bool *ret_lost)
{
	uint64_t first = log->count > PHASE_RECORDS ? log->count - PHASE_RECORDS : 0;
	size_t count = 0;

	if (log->overwritten > range->after)
		*ret_lost = true;
	for (uint64_t at = first; at < log->count && count < most; at++) {
		const struct phase_record *record = &log->records[at % PHASE_RECORDS];
		if (record->number > range->after && record->number <= range->last)
			ret_records[count++] = *record;
	}
	return count;
}
