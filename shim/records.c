#include "shim/records.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hot.h"
#include "base/lock.h"
#include "shim/session.h"

enum { SHARD_BITS = 6, SHARDS = 1 << SHARD_BITS, FIRST_CAPACITY = 64 };
enum { NEVER, REMOVED = 255 }; // types of unused entries: never used, or its record was removed

// A hash table with linear probing. A search passes entries of removed records, and ends at an entry that was never
// used. Each shard has a cache line of its own, so that threads seldom contend.
struct shard {
	struct vg_lock lock;
	struct shim_record *records;
	size_t capacity, count, used; // count: records; used: records and removed entries
} __attribute__((aligned(64)));

static bool is_record(const struct shim_record *entry)
{
	return entry->type != NEVER && entry->type != REMOVED;
}

static struct shard shards[SHARDS];

// A driver call evicts most of the caches. So the cost of a record is the number of cache lines that it touches.
// Programs allocate and free neighbours one after the other. So the records of eight neighbouring granules of 2 MiB are
// stored side by side. The highest bits of the hash choose the shard.
static uint64_t hash_key(enum shim_record_type type, uint64_t key)
{
	uint64_t neighbours = key >> 24, within = key & ((1 << 21) - 1);
	uint64_t mixed = (neighbours ^ within << 37 ^ within << 20 ^ (uint64_t)type << 56) * 0x9e3779b97f4a7c15ull;

	mixed ^= mixed >> 32;
	return (mixed & ~7ull) + (key >> 21 & 7);
}

static struct shard *find_shard(uint64_t hashed)
{
	return &shards[hashed >> (64 - SHARD_BITS)];
}

// Returns the entry of a record, or the free entry where it may be stored.
VG_HOT static struct shim_record *find_entry(const struct shard *shard, uint64_t hashed, enum shim_record_type type,
					     uint64_t key)
{
	struct shim_record *free = NULL;

	for (size_t i = hashed & (shard->capacity - 1);; i = (i + 1) & (shard->capacity - 1)) {
		struct shim_record *at = &shard->records[i];
		if (at->type == type && at->key == key)
			return at;
		if (at->type == NEVER)
			return free ? free : at;
		if (at->type == REMOVED && !free)
			free = at;
	}
}

// Rebuilds the table without the removed entries, and enlarges it if necessary.
VG_COLD static int rebuild_shard(struct shard *shard)
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
			*find_entry(shard, hash_key(old[i].type, old[i].key), old[i].type, old[i].key) = old[i];
	free(old);
	return 0;
}

static void erase_record(struct shard *shard, struct shim_record *record)
{
	size_t next = ((size_t)(record - shard->records) + 1) & (shard->capacity - 1);

	record->type = shard->records[next].type == NEVER ? NEVER : REMOVED;
	shard->used -= record->type == NEVER;
	shard->count--;
}

static void store_record(struct shard *shard, struct shim_record *at, const struct shim_record *record)
{
	shard->used += at->type == NEVER;
	shard->count += !is_record(at);
	*at = *record;
	if (!at->device)
		at->device = (uint8_t)(shim_device() + 1);
}

// Returns the entry where a record is or can be stored. NULL: out of host memory. One entry always stays unused, so
// that searches end. Call it with the shard locked.
VG_HOT static struct shim_record *prepare_entry(struct shard *shard, uint64_t hashed, const struct shim_record *record)
{
	if (shard->used * 2 >= shard->capacity && rebuild_shard(shard) != 0 && shard->used + 1 >= shard->capacity)
		return NULL;
	return find_entry(shard, hashed, record->type, record->key);
}

VG_HOT int shim_record_put(const struct shim_record *record)
{
	uint64_t hashed = hash_key(record->type, record->key);
	struct shard *shard = find_shard(hashed);
	struct shim_record *at;

	vg_lock_acquire(&shard->lock);
	at = prepare_entry(shard, hashed, record);
	if (at)
		store_record(shard, at, record);
	vg_lock_release(&shard->lock);
	return at ? 0 : -ENOMEM;
}

int shim_record_reference_or_put(const struct shim_record *record)
{
	uint64_t hashed = hash_key(record->type, record->key);
	struct shard *shard = find_shard(hashed);
	struct shim_record *at;
	int result = -ENOMEM;

	vg_lock_acquire(&shard->lock);
	at = prepare_entry(shard, hashed, record);
	if (at && is_record(at)) {
		at->references++;
		result = 1;
	} else if (at) {
		store_record(shard, at, record);
		at->references = 1;
		result = 0;
	}
	vg_lock_release(&shard->lock);
	return result;
}

// Returns the record and leaves its shard locked, or returns NULL with no lock held.
VG_HOT static struct shim_record *lock_record(enum shim_record_type type, uint64_t key, struct shard **ret_shard)
{
	uint64_t hashed = hash_key(type, key);
	struct shard *shard = find_shard(hashed);

	vg_lock_acquire(&shard->lock);
	if (shard->capacity) {
		struct shim_record *record = find_entry(shard, hashed, type, key);
		if (is_record(record)) {
			*ret_shard = shard;
			return record;
		}
	}
	vg_lock_release(&shard->lock);
	return NULL;
}

bool shim_record_find(enum shim_record_type type, uint64_t key, struct shim_record *ret_record)
{
	struct shard *shard;
	struct shim_record *record = lock_record(type, key, &shard);

	if (!record)
		return false;
	*ret_record = *record;
	vg_lock_release(&shard->lock);
	return true;
}

VG_HOT bool shim_record_remove(enum shim_record_type type, uint64_t key, struct shim_record *ret_record)
{
	struct shard *shard;
	struct shim_record *record = lock_record(type, key, &shard);

	if (!record)
		return false;
	*ret_record = *record;
	erase_record(shard, record);
	vg_lock_release(&shard->lock);
	return true;
}

bool shim_record_add_references(enum shim_record_type type, uint64_t key, int change, struct shim_record *ret_record)
{
	struct shard *shard;
	struct shim_record *record = lock_record(type, key, &shard);

	if (!record)
		return false;
	record->references += (uint32_t)change;
	*ret_record = *record;
	if (record->references == 0)
		erase_record(shard, record);
	vg_lock_release(&shard->lock);
	return true;
}

bool shim_record_set_physical(enum shim_record_type type, uint64_t key, void *data)
{
	struct shard *shard;
	struct shim_record *record = lock_record(type, key, &shard);
	bool is_changed = record && record->origin == SHIM_ALLOCATED;

	if (is_changed) {
		record->origin = SHIM_SHARED;
		record->data = data;
		record->bytes = 0;
	}
	if (record)
		vg_lock_release(&shard->lock);
	return is_changed;
}

int shim_record_add_bytes(const struct shim_record *record)
{
	uint64_t hashed = hash_key(record->type, record->key);
	struct shard *shard = find_shard(hashed);
	struct shim_record *at;

	vg_lock_acquire(&shard->lock);
	at = prepare_entry(shard, hashed, record);
	if (at && is_record(at))
		at->bytes += record->bytes;
	else if (at)
		store_record(shard, at, record);
	vg_lock_release(&shard->lock);
	return at ? 0 : -ENOMEM;
}

struct wanted {
	const void *context; // NULL: select records by `data` and `type` instead
	const void *data;
	enum shim_record_type type;
};

static bool is_wanted(const struct shim_record *record, const struct wanted *wanted)
{
	if (wanted->context)
		return is_record(record) && record->context == wanted->context;
	return record->type == wanted->type && record->data == wanted->data;
}

static bool remove_one(struct shard *shard, const struct wanted *wanted, struct shim_record *ret_record)
{
	bool found = false;

	vg_lock_acquire(&shard->lock);
	for (size_t i = 0; i < shard->capacity && !found; i++) {
		if (is_wanted(&shard->records[i], wanted)) {
			*ret_record = shard->records[i];
			erase_record(shard, &shard->records[i]);
			found = true;
		}
	}
	vg_lock_release(&shard->lock);
	return found;
}

static void remove_all(const struct wanted *wanted, void (*removed)(const struct shim_record *record))
{
	struct shim_record record;

	for (size_t i = 0; i < SHARDS; i++)
		while (remove_one(&shards[i], wanted, &record))
			removed(&record);
}

void shim_record_remove_data(enum shim_record_type type, const void *data,
			     void (*removed)(const struct shim_record *record))
{
	remove_all(&(struct wanted){.data = data, .type = type}, removed);
}

void shim_record_remove_context(const void *context, void (*removed)(const struct shim_record *record))
{
	if (context)
		remove_all(&(struct wanted){.context = context}, removed);
}
