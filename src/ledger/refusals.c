// Writes and reads the ring buffer of refusals. Any tenant writes to it at any time, and may be killed within an entry.
// So a reader uses an entry only if it has the number of the refusal that is looked for, and the right checksum.
#include "base/clock.h"
#include "base/hash.h"
#include "ledger/layout.h"
#include "ledger/process.h"

#include <string.h>
#include <unistd.h>

static uint64_t checksum(uint64_t number, const struct vg_ledger_refusal *refusal)
{
	return vg_hash_add(VG_HASH_EMPTY ^ number, refusal, sizeof *refusal);
}

void vg_ledger_refusal(struct vg_ledger *ledger, const struct vg_ledger_refusal *refusal)
{
	struct ledger_file *file = ledger_file_of(ledger);
	uint64_t number = __atomic_add_fetch(&file->header.refusals, 1, __ATOMIC_RELAXED);
	struct ledger_refusal_entry *entry = &file->refusals[number % VG_LEDGER_REFUSALS];
	struct vg_ledger_refusal copy = *refusal;

	if (!copy.time_ns)
		copy.time_ns = vg_clock_realtime_ns();
	if (!copy.pid)
		copy.pid = (int32_t)getpid();
	copy.entry[VG_LEDGER_ENTRY - 1] = '\0';
	LEDGER_STORE(entry->number, 0);
	memcpy(&entry->refusal, &copy, sizeof copy);
	LEDGER_STORE(entry->check, checksum(number, &copy));
	LEDGER_STORE(entry->number, number);
}

uint64_t vg_ledger_refusal_count(const struct vg_ledger *ledger)
{
	return LEDGER_LOAD(ledger_file_of(ledger)->header.refusals);
}

size_t vg_ledger_refusals(const struct vg_ledger *ledger, struct vg_ledger_refusal ret_refusals[VG_LEDGER_REFUSALS])
{
	const struct ledger_file *file = ledger_file_of(ledger);
	uint64_t last = LEDGER_LOAD(file->header.refusals);
	uint64_t kept = last < VG_LEDGER_REFUSALS ? last : VG_LEDGER_REFUSALS;
	size_t count = 0;

	// Counts down, and does not compare with `last`: a tenant may have written any value there, even the largest.
	for (; kept > 0; kept--) {
		uint64_t number = last - kept + 1;
		const struct ledger_refusal_entry *entry = &file->refusals[number % VG_LEDGER_REFUSALS];
		struct vg_ledger_refusal copy;

		if (LEDGER_LOAD(entry->number) != number)
			continue;
		memcpy(&copy, &entry->refusal, sizeof copy);
		if (LEDGER_LOAD(entry->check) != checksum(number, &copy))
			continue;
		copy.entry[VG_LEDGER_ENTRY - 1] = '\0';
		ret_refusals[count++] = copy;
	}
	return count;
}
