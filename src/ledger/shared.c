#include "base/hash.h"
#include "ledger/layout.h"

#include <errno.h>
#include <string.h>

uint64_t vg_ledger_key(char kind, const void *bytes, size_t length)
{
	uint64_t hash = vg_hash_add(VG_HASH_EMPTY ^ (unsigned char)kind, bytes, length);

	hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

static unsigned int shared_touched(const struct ledger_file *file)
{
	return ledger_touched(&file->header.shared_touched, VG_LEDGER_SHARED_COUNT);
}

static bool has_holder(const struct ledger_shared *shared)
{
	for (int i = 0; i < VG_LEDGER_SLOTS / 64; i++)
		if (__atomic_load_n(&shared->holders[i], __ATOMIC_SEQ_CST))
			return true;
	return false;
}

static bool is_holder(const struct ledger_shared *shared, unsigned int index)
{
	return __atomic_load_n(&shared->holders[index / 64], __ATOMIC_SEQ_CST) >> index % 64 & 1;
}

static void set_holder(struct ledger_shared *shared, unsigned int index, bool holder)
{
	uint64_t bit = 1ull << index % 64;

	if (holder)
		__atomic_fetch_or(&shared->holders[index / 64], bit, __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_and(&shared->holders[index / 64], ~bit, __ATOMIC_SEQ_CST);
	ledger_step("holder");
}

// Changes the account of a shared allocation from `from` to `word`. Also adds `delta` to the charge of slot `index` in
// `kind`. Both are one operation of that slot. Returns false, without a change, if the account is not `from` any more.
static bool change_account(struct ledger_file *file, unsigned int index, struct ledger_shared *shared,
			   struct ledger_account from, uint64_t word, enum vg_ledger_kind kind, int64_t delta)
{
	struct ledger_slot *slot = &file->slots[index];
	uint64_t done = LEDGER_LOAD(slot->done), sequence = done + 1, of_kind = slot->by_kind[kind];

	LEDGER_STORE(slot->intent_shared, (uint16_t)(shared - file->shared + 1));
	ledger_step("shared");
	LEDGER_STORE(slot->intent_delta, delta);
	LEDGER_STORE(slot->intent_sequence, sequence);
	ledger_step("shared's intent");
	ledger_note_applied(file, from.tag);
	if (!ledger_account_swap(&shared->account, from,
				 (struct ledger_account){word, ledger_tag(index + 1, sequence, 0)})) {
		LEDGER_STORE(slot->intent_sequence, 0);
		LEDGER_STORE(slot->intent_shared, 0);
		return false;
	}
	ledger_step("shared changed");
	LEDGER_STORE(slot->used[sequence & 1], slot->used[done & 1] + (uint64_t)delta);
	LEDGER_STORE(slot->by_kind[kind], delta < 0 && of_kind < 0 - (uint64_t)delta ? 0 : of_kind + (uint64_t)delta);
	ledger_step("shared's kind");
	LEDGER_STORE(slot->done, sequence);
	ledger_step("shared done");
	LEDGER_STORE(slot->intent_shared, 0);
	return true;
}

// Refunds a shared allocation that has neither owner nor holders: passes its charge to the slot, which refunds it. A
// process that is killed while it leaves can leave such an allocation behind.
static int refund_orphan(struct ledger_file *file, unsigned int index, struct ledger_shared *shared,
			 unsigned long attempts)
{
	for (unsigned long attempt = 0; !attempts || attempt < attempts; attempt++) {
		struct ledger_account now = ledger_account_read(&shared->account);
		uint64_t bytes = ledger_shared_bytes(now.charged);

		if (!ledger_shared_is_orphan(now.charged) || has_holder(shared))
			return 0;
		ledger_step("unheld");
		if (!change_account(file, index, shared, now, now.charged & ~(LEDGER_SHARED_LIVE | UINT32_MAX),
				    VG_LEDGER_IMPORT, (int64_t)bytes))
			continue;
		return bytes ? ledger_operate(file, index, VG_LEDGER_IMPORT, -(int64_t)bytes, attempts) : 0;
	}
	return -EAGAIN;
}

// Ends this slot's ownership. If other processes hold the memory, the charge passes to the shared allocation. Otherwise
// the shared allocation is freed, and the owner's slot keeps the charge.
static int leave_as_owner(struct ledger_file *file, unsigned int index, struct ledger_shared *shared,
			  enum vg_ledger_kind kind, uint64_t most, unsigned long attempts, uint64_t *ret_passed)
{
	for (unsigned long attempt = 0; !attempts || attempt < attempts; attempt++) {
		struct ledger_account now = ledger_account_read(&shared->account);
		uint64_t passed = ledger_shared_bytes(now.charged), word;

		if (!has_holder(shared)) {
			passed = 0;
			word = now.charged & ~(LEDGER_SHARED_LIVE | 0x7ffull << 32 | UINT32_MAX);
		} else {
			passed = passed < most ? passed : most & ~((1ull << LEDGER_PAGE_SHIFT) - 1);
			word = ledger_shared_word(ledger_shared_generation(now.charged), 0, passed);
		}
		ledger_step("looked");
		if (!change_account(file, index, shared, now, word, kind, -(int64_t)passed))
			continue;
		*ret_passed = passed;
		// The last holder may have left between has_holder() and change_account(). That holder refunded
		// nothing, because the allocation still had an owner then. So refund the charge here.
		return refund_orphan(file, index, shared, attempts);
	}
	return -EAGAIN;
}

static int leave_as_holder(struct ledger_file *file, unsigned int index, struct ledger_shared *shared,
			   unsigned long attempts)
{
	set_holder(shared, index, false);
	return refund_orphan(file, index, shared, attempts);
}

static bool is_kept(const struct vg_ledger_keep *keep, uint32_t number)
{
	size_t low = 0, high = keep && keep->bytes ? keep->shared_count : 0;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (keep->shared[middle] == number)
			return true;
		if (keep->shared[middle] < number)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

int ledger_shared_leave_all(struct ledger_file *file, unsigned int index, const struct vg_ledger_keep *keep,
			    unsigned long attempts)
{
	for (unsigned int i = 0; i < shared_touched(file); i++) {
		struct ledger_shared *shared = &file->shared[i];
		uint64_t word = LEDGER_LOAD(*(uint64_t *)&shared->account), passed;
		int r = 0;

		if (is_holder(shared, index))
			r = leave_as_holder(file, index, shared, attempts);
		else if (ledger_shared_is_orphan(word))
			r = refund_orphan(file, index, shared, attempts);
		else if (ledger_shared_owner(word) == index + 1 && !is_kept(keep, ledger_shared_number(i, word)))
			r = leave_as_owner(file, index, shared, VG_LEDGER_DEVICE, ledger_slot_used(&file->slots[index]),
					   attempts, &passed);
		if (r)
			return r;
	}
	return 0;
}

static int create_shared(struct ledger_file *file, unsigned int index, uint64_t bytes, uint32_t *ret_number)
{
	for (unsigned int i = 0; i < VG_LEDGER_SHARED_COUNT; i++) {
		struct ledger_shared *shared = &file->shared[i];
		struct ledger_account now = ledger_account_read(&shared->account);
		uint64_t word = ledger_shared_word(ledger_shared_generation(now.charged) + 1, index + 1, bytes);

		// Raise the count first, so that a reaper finds the entry.
		ledger_touch(&file->header.shared_touched, i);
		if ((now.charged & LEDGER_SHARED_LIVE) || has_holder(shared) ||
		    !change_account(file, index, shared, now, word, VG_LEDGER_DEVICE, 0))
			continue;
		LEDGER_STORE(shared->away, 0);
		*ret_number = ledger_shared_number(i, word);
		return 0;
	}
	return VG_LEDGER_FULL;
}

// Finds a shared allocation. Returns NULL if no shared allocation has this number (any more).
static struct ledger_shared *find_shared(struct ledger_file *file, uint32_t number, uint64_t *ret_word)
{
	unsigned int index = (number & ((1 << VG_LEDGER_SHARED_BITS) - 1)) - 1;

	if (index >= VG_LEDGER_SHARED_COUNT)
		return NULL;
	*ret_word = LEDGER_LOAD(*(uint64_t *)&file->shared[index].account);
	return (*ret_word & LEDGER_SHARED_LIVE) && ledger_shared_number(index, *ret_word) == number
		       ? &file->shared[index]
		       : NULL;
}

int vg_ledger_shared_create(struct vg_ledger *ledger, uint64_t bytes, uint32_t *ret_number)
{
	unsigned int index;

	if (!bytes || bytes & ((1ull << LEDGER_PAGE_SHIFT) - 1) || bytes >> LEDGER_PAGE_SHIFT > UINT32_MAX)
		return VG_LEDGER_FULL;
	int r = ledger_slot_lock(ledger, &index);
	if (r)
		return r;
	r = create_shared(ledger_file_of(ledger), index, bytes, ret_number);
	ledger_slot_unlock(ledger);
	return r;
}

// Returns the number for a name in the hash table; 0: not found. Entries with an invalid number are free.
static uint32_t find_named(struct ledger_file *file, uint64_t key)
{
	uint64_t word;

	for (unsigned int i = 0; i < LEDGER_NAME_TRIES; i++) {
		ledger_word *entry = &file->names[(key + i) % LEDGER_NAMES];
		if (LEDGER_LOAD(*(uint64_t *)entry) != key)
			continue;
		ledger_word name = ledger_word_read(entry);
		uint32_t number = (uint32_t)(name >> 64);
		if ((uint64_t)name == key && find_shared(file, number, &word))
			return number;
	}
	return 0;
}

uint32_t vg_ledger_shared_find(const struct vg_ledger *ledger, uint64_t key)
{
	return find_named(ledger_file_of(ledger), key);
}

static bool is_name_free(struct ledger_file *file, ledger_word name)
{
	uint64_t word;

	return !find_shared(file, (uint32_t)(name >> 64), &word);
}

// Adds a name to the hash table. Two processes that add the same name try the same entries in the same order. So only
// one of them succeeds.
static int add_name(struct ledger_file *file, uint32_t number, uint64_t key, bool instead)
{
	ledger_word wanted = (ledger_word)number << 64 | key;

	for (unsigned int i = 0, tries = 0; i < LEDGER_NAME_TRIES && tries < LEDGER_TRIES; tries++) {
		ledger_word *entry = &file->names[(key + i) % LEDGER_NAMES], name = ledger_word_read(entry);
		bool is_same = (uint64_t)name == key, is_free = is_name_free(file, name);
		if (name == wanted)
			return 0;
		if (is_same && !is_free && !instead)
			return VG_LEDGER_REFUSED;
		if (!is_same && !is_free)
			i++;
		else if (ledger_word_swap(entry, &name, wanted))
			return 0;
	}
	return VG_LEDGER_FULL;
}

int vg_ledger_shared_add_name(struct vg_ledger *ledger, uint32_t number, uint64_t key, bool instead)
{
	struct ledger_file *file = ledger_file_of(ledger);
	uint32_t named = find_named(file, key);

	if (named == number)
		return 0;
	if (named && !instead)
		return VG_LEDGER_REFUSED;
	return add_name(file, number, key, instead);
}

// Makes a slot a holder. Replaces only the tag of the shared allocation's account. An owner that is about to leave may
// have looked for holders before. The new tag makes its swap of the account fail, so it looks for holders again.
static int join_shared(struct ledger_file *file, unsigned int index, uint32_t number, unsigned long attempts,
		       uint64_t *ret_bytes)
{
	struct ledger_shared *shared = &file->shared[(number & ((1 << VG_LEDGER_SHARED_BITS) - 1)) - 1];
	bool was_holder = is_holder(shared, index);

	set_holder(shared, index, true);
	for (unsigned long attempt = 0; !attempts || attempt < attempts; attempt++) {
		struct ledger_account now = ledger_account_read(&shared->account);
		uint64_t word;

		if (!find_shared(file, number, &word) || word != now.charged || ledger_shared_owner(word) == index + 1)
			break;
		if (!change_account(file, index, shared, now, now.charged, VG_LEDGER_IMPORT, 0))
			continue;
		*ret_bytes = ledger_shared_bytes(now.charged);
		return 0;
	}
	if (!was_holder)
		leave_as_holder(file, index, shared, attempts);
	return VG_LEDGER_GONE;
}

int vg_ledger_shared_join(struct vg_ledger *ledger, uint64_t key, uint32_t *ret_number, uint64_t *ret_bytes)
{
	uint32_t number = find_named(ledger_file_of(ledger), key);
	unsigned int index;

	if (!number)
		return VG_LEDGER_GONE;
	int r = ledger_slot_lock(ledger, &index);
	if (r)
		return r;
	r = join_shared(ledger_file_of(ledger), index, number, 0, ret_bytes);
	if (r == 0)
		*ret_number = number;
	ledger_slot_unlock(ledger);
	return r;
}

void vg_ledger_shared_leave(struct vg_ledger *ledger, uint32_t number, enum vg_ledger_kind kind, uint64_t most,
			    uint64_t *ret_passed)
{
	struct ledger_file *file = ledger_file_of(ledger);
	uint64_t word, passed = 0;
	unsigned int index;

	if (ledger_slot_lock(ledger, &index) == 0) {
		struct ledger_shared *shared = find_shared(file, number, &word);
		if (shared && ledger_shared_owner(word) == index + 1)
			leave_as_owner(file, index, shared, kind, most, 0, &passed);
		else if (shared)
			leave_as_holder(file, index, shared, 0);
		ledger_slot_unlock(ledger);
	}
	*ret_passed = passed;
}

void vg_ledger_shared_resize(struct vg_ledger *ledger, uint32_t number, uint64_t bytes)
{
	struct ledger_file *file = ledger_file_of(ledger);
	unsigned int index;
	uint64_t word;

	if (bytes >> LEDGER_PAGE_SHIFT > UINT32_MAX || ledger_slot_lock(ledger, &index) != 0)
		return;
	struct ledger_shared *shared = find_shared(file, number, &word);
	for (bool done = !shared; !done;) {
		struct ledger_account now = ledger_account_read(&shared->account);
		done = ledger_shared_owner(now.charged) != index + 1 ||
		       change_account(file, index, shared, now,
				      (now.charged & ~(uint64_t)UINT32_MAX) | bytes >> LEDGER_PAGE_SHIFT,
				      VG_LEDGER_DEVICE, 0);
	}
	ledger_slot_unlock(ledger);
}

void vg_ledger_shared_set_away(struct vg_ledger *ledger, uint32_t number, bool away)
{
	uint64_t word;
	struct ledger_shared *shared = find_shared(ledger_file_of(ledger), number, &word);

	if (shared)
		LEDGER_STORE(shared->away, away);
}

bool vg_ledger_next_shared(const struct vg_ledger *ledger, unsigned int *cursor, struct vg_ledger_shared_info *ret_info)
{
	const struct ledger_file *file = ledger_file_of(ledger);

	while (*cursor < shared_touched(file)) {
		const struct ledger_shared *shared = &file->shared[*cursor];
		uint64_t word = LEDGER_LOAD(*(const uint64_t *)&shared->account);
		unsigned int index = (*cursor)++, owner = ledger_shared_owner(word);
		if (!(word & LEDGER_SHARED_LIVE) || owner > VG_LEDGER_SLOTS)
			continue;
		*ret_info = (struct vg_ledger_shared_info){.number = ledger_shared_number(index, word),
							   .bytes = ledger_shared_bytes(word),
							   .owned = owner,
							   .owner = owner ? owner - 1 : 0,
							   .away = LEDGER_LOAD(shared->away)};
		for (int i = 0; i < VG_LEDGER_SLOTS / 64; i++)
			ret_info->holders[i] = LEDGER_LOAD(shared->holders[i]);
		return true;
	}
	return false;
}

uint64_t vg_ledger_shared_charge(const struct vg_ledger *ledger)
{
	struct vg_ledger_shared_info info;
	unsigned int cursor = 0;
	uint64_t sum = 0;

	while (vg_ledger_next_shared(ledger, &cursor, &info))
		sum += info.owned ? 0 : info.bytes;
	return sum;
}

int vg_ledger_guest_join(struct vg_ledger *ledger, const struct vg_ledger_owner *process, uint64_t program,
			 uint64_t key, uint32_t *ret_number, uint64_t *ret_bytes)
{
	struct ledger_file *file = ledger_file_of(ledger);
	uint32_t number = find_named(file, key);
	unsigned int index;

	if (!number)
		return VG_LEDGER_GONE;
	int r = ledger_guest_slot(file, process, &program, &index);
	if (r)
		return r;
	r = join_shared(file, index, number, LEDGER_ATTEMPTS, ret_bytes);
	if (r == 0)
		*ret_number = number;
	return r;
}

int vg_ledger_guest_leave(struct vg_ledger *ledger, const struct vg_ledger_owner *process, uint32_t number)
{
	struct ledger_file *file = ledger_file_of(ledger);
	struct ledger_shared *shared;
	unsigned int index;
	uint64_t word;

	shared = find_shared(file, number, &word);
	if (!shared || ledger_guest_slot(file, process, NULL, &index) != 0 || !is_holder(shared, index))
		return VG_LEDGER_GONE;
	return leave_as_holder(file, index, shared, LEDGER_ATTEMPTS);
}
