#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hot.h"
#include "base/lock.h"
#include "shim/records.h"

enum { SHARD_BITS = 6, SHARDS = 1 << SHARD_BITS, FIRST_CAPACITY = 64 };
enum { NEVER, TAKEN = 255 }; // `what` of places without a record

// Open addressing with linear probing: a search goes on past places from which a record was taken,
// and ends at one that never had any. A shard is a cache line of its own, so that threads seldom
// meet.
struct shard {
	struct vg_lock lock;
	struct shim_record *records;
	size_t capacity, count, used; // `used`: count, and places TAKEN
} __attribute__((aligned(64)));

static bool is_record(const struct shim_record *place)
{
	return place->what != NEVER && place->what != TAKEN;
}

static struct shard shards[SHARDS];

// A driver call leaves little in the caches, so a record's cost is the lines it touches: neighbours,
// which a program takes and gives back one after the other, stand side by side, eight granules of
// 2 MiB in a place that is drawn for them, and for what is smaller than that. The highest bits
// choose the shard.
static uint64_t hash(enum shim_what what, uint64_t key)
{
	uint64_t neighbours = key >> 24, within = key & ((1 << 21) - 1);
	uint64_t mixed = (neighbours ^ within << 37 ^ within << 20 ^ (uint64_t)what << 56) * 0x9e3779b97f4a7c15ull;

	mixed ^= mixed >> 32;
	return (mixed & ~7ull) + (key >> 21 & 7);
}

static struct shard *shard_of(uint64_t hashed)
{
	return &shards[hashed >> (64 - SHARD_BITS)];
}

// Where the record is; if there is none, where it may be stored.
VG_HOT static struct shim_record *place(const struct shard *shard, uint64_t hashed, enum shim_what what,
						      uint64_t key)
{
	struct shim_record *free = NULL;

	for (size_t i = hashed & (shard->capacity - 1);; i = (i + 1) & (shard->capacity - 1)) {
		struct shim_record *at = &shard->records[i];
		if (at->what == what && at->key == key)
			return at;
		if (at->what == NEVER)
			return free ? free : at;
		if (at->what == TAKEN && !free)
			free = at;
	}
}

// Also when it is too full of places that were taken: then it need not be larger.
VG_COLD static int grow(struct shard *shard)
{
	size_t capacity = !shard->capacity ? FIRST_CAPACITY : shard->capacity << (shard->count * 4 >= shard->capacity);
	struct shim_record *old = shard->records, *records = calloc(capacity, sizeof *records);
	size_t old_capacity = shard->capacity;

	if (!records)
		return -ENOMEM;
	shard->records = records;
	shard->capacity = capacity;
	shard->used = shard->count;
	for (size_t i = 0; i < old_capacity; i++)
		if (is_record(&old[i]))
			*place(shard, hash(old[i].what, old[i].key), old[i].what, old[i].key) = old[i];
	free(old);
	return 0;
}

static void erase(struct shard *shard, struct shim_record *record)
{
	size_t next = ((size_t)(record - shard->records) + 1) & (shard->capacity - 1);

	record->what = shard->records[next].what == NEVER ? NEVER : TAKEN;
	shard->used -= record->what == NEVER;
	shard->count--;
}

static void store(struct shard *shard, struct shim_record *at, const struct shim_record *record)
{
	shard->used += at->what == NEVER;
	shard->count += !is_record(at);
	*at = *record;
}

// With the shard locked: where the record of this key is or may be stored, NULL for lack of
// memory. One place stays free for ever, where searches end.
VG_HOT static struct shim_record *find_place(struct shard *shard, uint64_t hashed,
							   const struct shim_record *record)
{
	if (shard->used * 2 >= shard->capacity && grow(shard) != 0 && shard->used + 1 >= shard->capacity)
		return NULL;
	return place(shard, hashed, record->what, record->key);
}

VG_HOT int shim_record_put(const struct shim_record *record)
{
	uint64_t hashed = hash(record->what, record->key);
	struct shard *shard = shard_of(hashed);
	struct shim_record *at;

	vg_lock_take(&shard->lock);
	at = find_place(shard, hashed, record);
	if (at)
		store(shard, at, record);
	vg_lock_give(&shard->lock);
	return at ? 0 : -ENOMEM;
}

int shim_record_join(const struct shim_record *record)
{
	uint64_t hashed = hash(record->what, record->key);
	struct shard *shard = shard_of(hashed);
	struct shim_record *at;
	int result = -ENOMEM;

	vg_lock_take(&shard->lock);
	at = find_place(shard, hashed, record);
	if (at && is_record(at)) {
		at->references++;
		result = 1;
	} else if (at) {
		store(shard, at, record);
		at->references = 1;
		result = 0;
	}
	vg_lock_give(&shard->lock);
	return result;
}

// The record's place with its shard locked, or NULL with nothing locked.
VG_HOT static struct shim_record *lock_record(enum shim_what what, uint64_t key, struct shard **ret_shard)
{
	uint64_t hashed = hash(what, key);
	struct shard *shard = shard_of(hashed);

	vg_lock_take(&shard->lock);
	if (shard->capacity) {
		struct shim_record *record = place(shard, hashed, what, key);
		if (is_record(record)) {
			*ret_shard = shard;
			return record;
		}
	}
	vg_lock_give(&shard->lock);
	return NULL;
}

bool shim_record_find(enum shim_what what, uint64_t key, struct shim_record *ret_record)
{
	struct shard *shard;
	struct shim_record *record = lock_record(what, key, &shard);

	if (!record)
		return false;
	*ret_record = *record;
	vg_lock_give(&shard->lock);
	return true;
}

VG_HOT bool shim_record_take(enum shim_what what, uint64_t key, struct shim_record *ret_record)
{
	struct shard *shard;
	struct shim_record *record = lock_record(what, key, &shard);

	if (!record)
		return false;
	*ret_record = *record;
	erase(shard, record);
	vg_lock_give(&shard->lock);
	return true;
}

bool shim_record_count(enum shim_what what, uint64_t key, int change, struct shim_record *ret_record)
{
	struct shard *shard;
	struct shim_record *record = lock_record(what, key, &shard);

	if (!record)
		return false;
	record->references += (uint32_t)change;
	*ret_record = *record;
	if (record->references == 0)
		erase(shard, record);
	vg_lock_give(&shard->lock);
	return true;
}

bool shim_record_lend(enum shim_what what, uint64_t key, void *data)
{
	struct shard *shard;
	struct shim_record *record = lock_record(what, key, &shard);
	bool lent = record && record->origin == SHIM_ALLOCATED;

	if (lent) {
		record->origin = SHIM_LENT;
		record->data = data;
		record->bytes = 0;
	}
	if (record)
		vg_lock_give(&shard->lock);
	return lent;
}

int shim_record_grow(const struct shim_record *record)
{
	uint64_t hashed = hash(record->what, record->key);
	struct shard *shard = shard_of(hashed);
	struct shim_record *at;

	vg_lock_take(&shard->lock);
	at = find_place(shard, hashed, record);
	if (at && is_record(at))
		at->bytes += record->bytes;
	else if (at)
		store(shard, at, record);
	vg_lock_give(&shard->lock);
	return at ? 0 : -ENOMEM;
}

struct wanted {
	const void *context; // NULL: by the other two
	const void *data;
	enum shim_what what;
};

static bool is_wanted(const struct shim_record *record, const struct wanted *wanted)
{
	if (wanted->context)
		return is_record(record) && record->context == wanted->context;
	return record->what == wanted->what && record->data == wanted->data;
}

static bool take_one_of(struct shard *shard, const struct wanted *wanted, struct shim_record *ret_record)
{
	bool found = false;

	vg_lock_take(&shard->lock);
	for (size_t i = 0; i < shard->capacity && !found; i++) {
		if (is_wanted(&shard->records[i], wanted)) {
			*ret_record = shard->records[i];
			erase(shard, &shard->records[i]);
			found = true;
		}
	}
	vg_lock_give(&shard->lock);
	return found;
}

static void sweep(const struct wanted *wanted, void (*take)(const struct shim_record *record))
{
	struct shim_record record;

	for (size_t i = 0; i < SHARDS; i++)
		while (take_one_of(&shards[i], wanted, &record))
			take(&record);
}

void shim_record_sweep_data(enum shim_what what, const void *data, void (*take)(const struct shim_record *record))
{
	sweep(&(struct wanted){.data = data, .what = what}, take);
}

void shim_record_sweep(const void *context, void (*take)(const struct shim_record *record))
{
	if (context)
		sweep(&(struct wanted){.context = context}, take);
}
