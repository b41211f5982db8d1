#include "daemon/phase_log.h"

#include <stdatomic.h>
#include <stdlib.h>

struct phase_log {
	uint64_t count;	      // number of records that were ever added to this log
	uint64_t overwritten; // number of the newest record that was overwritten; 0: none
	size_t most;
	struct phase_record records[];
};

static _Atomic uint64_t newest;

struct phase_log *phase_log_create(unsigned int devices)
{
	size_t most = (size_t)devices * PHASE_RECORDS;
	struct phase_log *log = calloc(1, sizeof *log + most * sizeof *log->records);

	if (log)
		log->most = most;
	return log;
}

void phase_log_destroy(struct phase_log *log)
{
	free(log);
}

void phase_log_add(struct phase_log *log, const struct phase_record *record)
{
	struct phase_record *place = &log->records[log->count++ % log->most];

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
	uint64_t first = log->count > log->most ? log->count - log->most : 0;
	size_t count = 0;

	if (log->overwritten > range->after)
		*ret_lost = true;
	for (uint64_t at = first; at < log->count && count < most; at++) {
		const struct phase_record *record = &log->records[at % log->most];
		if (record->number > range->after && record->number <= range->last)
			ret_records[count++] = *record;
	}
	return count;
}
