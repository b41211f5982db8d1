#include "base/hot.h"
#include "ledger/layout.h"

#include <errno.h>
#include <string.h>

VG_HOT bool ledger_account_swap(ledger_word *account, struct ledger_account from, struct ledger_account to)
{
	ledger_word expected = (ledger_word)from.tag << 64 | from.charged;

	return ledger_word_swap(account, &expected, (ledger_word)to.tag << 64 | to.charged);
}

// Notes that the tag's operation was applied. The slot may have begun its next operation meanwhile. This does not
// matter, since an applied operation stays applied.
VG_HOT void ledger_note_applied(struct ledger_file *file, uint64_t tag)
{
	unsigned int number = ledger_tag_slot(tag);

	if (number == LEDGER_NO_SLOT || number > VG_LEDGER_SLOTS)
		return;
	uint64_t *applied = &file->slots[number - 1].applied, seen = LEDGER_LOAD(*applied);
	while (seen < ledger_tag_sequence(tag) &&
	       !__atomic_compare_exchange_n(applied, &seen, ledger_tag_sequence(tag), false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE))
		;
}

bool ledger_replace_tag(struct ledger_file *file, struct ledger_account now, uint64_t tag)
{
	ledger_note_applied(file, now.tag);
	return ledger_account_swap(&file->header.account, now,
				   (struct ledger_account){.charged = now.charged, .tag = tag});
}

// Raises the slot's peak. Call it before the account is swapped: the swap's barrier makes the peak visible before the
// charge.
static void raise_peak(struct ledger_slot *slot, enum vg_ledger_kind kind, uint64_t used, int64_t delta)
{
	if (delta <= 0 || !ledger_kind_is_declared(kind))
		return;
	uint64_t declared = ledger_slot_declared(slot, used) + (uint64_t)delta;
	if (declared > LEDGER_LOAD(slot->peak))
		LEDGER_STORE(slot->peak, declared);
}

VG_HOT int ledger_operate(struct ledger_file *file, unsigned int index, enum vg_ledger_kind kind, int64_t delta,
			  unsigned long attempts)
{
	struct ledger_slot *slot = &file->slots[index];
	uint64_t done = LEDGER_LOAD(slot->done), sequence = done + 1;

	ledger_step("start");
	LEDGER_STORE(slot->intent_delta, delta);
	ledger_step("delta");
	LEDGER_STORE(slot->intent_sequence, sequence);
	ledger_step("intent");
	raise_peak(slot, kind, slot->used[done & 1], delta);
	for (unsigned long attempt = 1;; attempt++) {
		struct ledger_account now = ledger_account_read(&file->header.account), then;
		uint64_t limit = LEDGER_LOAD(file->header.limits[ledger_tag_limit(now.tag) & 1]);

		ledger_step("read");
		ledger_note_applied(file, now.tag);
		ledger_step("helped");
		// `now` may be out of date here. If the account or its limit has changed, the exchange of `now` for
		// `then` below fails, and the loop begins again.
		if (delta > 0 && (now.charged > limit || (uint64_t)delta > limit - now.charged)) {
			LEDGER_STORE(slot->intent_sequence, 0);
			ledger_step("refused");
			return VG_LEDGER_REFUSED;
		}
		then.charged = delta < 0 && now.charged < 0 - (uint64_t)delta ? 0 : now.charged + (uint64_t)delta;
		then.tag = ledger_tag(index + 1, sequence, ledger_tag_limit(now.tag));
		if (ledger_account_swap(&file->header.account, now, then))
			break;
		ledger_step("lost");
		if (attempt == attempts) {
			LEDGER_STORE(slot->intent_sequence, 0);
			return -EAGAIN;
		}
	}
	ledger_step("swapped");
	LEDGER_STORE(slot->used[sequence & 1], slot->used[done & 1] + (uint64_t)delta);
	ledger_step("used");
	LEDGER_STORE(slot->by_kind[kind], slot->by_kind[kind] + (uint64_t)delta);
	if (!ledger_kind_is_declared(kind))
		LEDGER_STORE(slot->apart, slot->apart + (uint64_t)delta);
	ledger_step("kind");
	LEDGER_STORE(slot->done, sequence);
	ledger_step("done");
	return 0;
}

uint64_t ledger_slot_used(const struct ledger_slot *slot)
{
	uint64_t used, again = LEDGER_LOAD(slot->done), done;
	int tries = 0;

	do {
		done = again;
		used = LEDGER_LOAD(slot->used[done & 1]);
		again = LEDGER_LOAD(slot->done);
	} while (again != done && ++tries < LEDGER_TRIES); // bounded, because a tenant may write `done` all the time
	return used;
}

// Returns whether the operation has changed the account. It has if the account still has the operation's tag, or if
// `applied` is at least its sequence number. Reads the tag first, because the operation that replaces the tag raises
// `applied` before.
static bool is_applied(struct ledger_file *file, const struct ledger_slot *slot, unsigned int index, uint64_t sequence)
{
	unsigned int shared = LEDGER_LOAD(slot->intent_shared);
	bool is_of_shared = shared > 0 && shared <= VG_LEDGER_SHARED_COUNT;
	uint64_t tag =
		ledger_account_read(is_of_shared ? &file->shared[shared - 1].account : &file->header.account).tag;

	return (ledger_tag_slot(tag) == index + 1 && ledger_tag_sequence(tag) == (sequence & ((1ull << 46) - 1))) ||
	       LEDGER_LOAD(slot->applied) >= sequence;
}

void ledger_slot_complete(struct ledger_file *file, unsigned int index)
{
	struct ledger_slot *slot = &file->slots[index];
	uint64_t done = LEDGER_LOAD(slot->done), sequence = done + 1;

	if (LEDGER_LOAD(slot->intent_sequence) == sequence) {
		if (is_applied(file, slot, index, sequence)) {
			LEDGER_STORE(slot->used[sequence & 1], slot->used[done & 1] + (uint64_t)slot->intent_delta);
			ledger_step("completed");
			LEDGER_STORE(slot->done, sequence);
		} else {
			LEDGER_STORE(slot->intent_sequence, 0);
		}
		ledger_step("decided");
	}
	LEDGER_STORE(slot->intent_shared, 0); // the next operation changes the header's account
}

int ledger_slot_refund(struct ledger_file *file, unsigned int index, const struct vg_ledger_keep *keep,
		       unsigned long attempts, uint64_t *ret_refunded)
{
	struct ledger_slot *slot = &file->slots[index];

	ledger_slot_complete(file, index);
	int r = ledger_shared_leave_all(file, index, keep, attempts);
	if (r)
		return r;
	uint64_t used = ledger_slot_used(slot), kept = keep ? keep->bytes : 0;
	uint64_t charged = ledger_account_read(&file->header.account).charged;
	// A slot cannot have a larger charge than the header's total, unless a tenant overwrote the value.
	if (used > charged || used > INT64_MAX) {
		used = charged < INT64_MAX ? charged : INT64_MAX;
		LEDGER_STORE(slot->used[LEDGER_LOAD(slot->done) & 1], used);
	}
	uint64_t surplus = used > kept ? used - kept : 0;
	if (surplus)
		r = ledger_operate(file, index, VG_LEDGER_DEVICE, -(int64_t)surplus, attempts);
	if (r)
		return r;
	*ret_refunded = surplus;
	return 0;
}

void ledger_slot_free(struct ledger_file *file, unsigned int index)
{
	struct ledger_slot *slot = &file->slots[index];

	LEDGER_STORE(file->processes[index], 0);
	for (int kind = 0; kind < VG_LEDGER_KIND_COUNT; kind++)
		LEDGER_STORE(slot->by_kind[kind], 0);
	ledger_step("kinds");
	ledger_word_write(&slot->image, 0);
	LEDGER_STORE(slot->entered_ns, 0);
	LEDGER_STORE(slot->outer_pid, 0);
	LEDGER_STORE(slot->undeclared, 0);
	LEDGER_STORE(slot->pristine, 0);
	LEDGER_STORE(slot->role, LEDGER_TENANT);
	LEDGER_STORE(slot->apart, 0);
	LEDGER_STORE(slot->exported, 0);
	LEDGER_STORE(slot->adrift, 0);
	memset(&file->turns[index], 0, sizeof file->turns[index]);
	memset(&file->pagers[index], 0, sizeof file->pagers[index]);
	LEDGER_STORE(slot->generation, slot->generation + 1);
	ledger_step("generation");
	ledger_word_write(&slot->owner, 0);
	ledger_step("freed");
}
